"""Run the own tests of frameworks on memsync's adapters: `make integrations`, `make integrations ARGS=openai-agents`.

Each suite (tests/integrations/suites.py) has its own environment, with memsync's wheel and the newest versions from
PyPI; the tests of a source distribution are those of the version that is installed. What fails is printed with the
reason. A failure without a known reason fails the run. Then this project's own tests of that adapter run there, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(PROJECT))

from tests.integrations.suites import ALONE, PACKAGES, SUITES, Suite  # noqa: E402

PLUGINS = PROJECT / "tests" / "integrations"
VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"
FAILED = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
PASSED = re.compile(r"(\d+) passed")


def run(*command: str | Path, cwd: Path = PROJECT, environ: Mapping[str, str] | None = None) -> str:
    """Return what a command prints; with `environ`, that of one that may fail. Raises SystemExit."""
    env = {**os.environ, **(environ or {})}
    done = subprocess.run([*map(str, command)], cwd=cwd, env=env, text=True, capture_output=True, check=False)
    if environ is None and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout + done.stderr


def try_suite(name: str, wheel: Path, scratch: Path) -> bool:
    """Print the results of a suite; return whether every failure has a known reason."""
    suite, python = SUITES[name], scratch / name / "bin" / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "venv", scratch / name)
    run(*pip, "install", f"{wheel}[{suite.extra}]", *suite.packages, *PACKAGES)
    title, tests = name, PROJECT
    if suite.sdist:
        version = run(python, "-c", VERSION, suite.sdist).strip()
        title, tests = f"{suite.sdist} {version}", source_of(suite.sdist, version, pip, scratch / f"{name}-source")
    pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", "-rfE", "-o", "addopts=")
    plugin = ("-p", suite.plugin) if suite.plugin else ()
    homes = {variable: str(scratch / "home") for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    places = {**homes, "PYTHONPATH": str(PLUGINS)}
    succeeded = True
    if suite.tests:
        said = run(*pytest, *plugin, *suite.options, *suite.tests, cwd=tests, environ=places)
        succeeded = report(title, suite, said)
    said = run(*pytest, *ALONE, PLUGINS, "-k", name.replace("-", "_"), environ=homes)
    return report(f"{name}, this project's tests", Suite(suite.extra), said) and succeeded


def source_of(package: str, version: str, pip: tuple[str | Path, ...], folder: Path) -> Path:
    """Download the source distribution of a package; return the folder in which its tests run."""
    run(*pip, "download", "--no-deps", "--no-binary", package, "-d", folder, f"{package}=={version}")
    (archive,) = folder.iterdir()
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


def report(title: str, suite: Suite, said: str) -> bool:
    """Print how many tests pass, and why others fail; return whether tests ran, and every failure has a reason."""
    failed, passed = FAILED.findall(said), sum(map(int, PASSED.findall(said)[-1:]))
    print(f"{title}: {passed} of {passed + len(failed)} tests pass", flush=True)
    reasons = [next((text for part, text in suite.fails.items() if part in test), "") for test in failed]
    for reason, number in Counter(filter(None, reasons)).items():
        print(f"  {number}: {reason}")
    unknown = [test for test, reason in zip(failed, reasons, strict=True) if not reason]
    for test in unknown:
        print(f"  fails, and no reason is known: {test}")
    if not passed:
        print(said.strip()[-2000:])
    return passed > 0 and not unknown


def main() -> int:
    names = sys.argv[1:] or [*SUITES]
    if unknown := {*names} - {*SUITES}:
        raise SystemExit(f"there is no suite for {', '.join(sorted(unknown))}; there are: {', '.join(SUITES)}")
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        scratch = Path(folder)
        (scratch / "home").mkdir()
        run(sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", scratch, PROJECT)
        (wheel,) = scratch.glob("memsync-*.whl")
        succeeded = [try_suite(name, wheel, scratch) for name in names]
    return int(not all(succeeded))


if __name__ == "__main__":
    sys.exit(main())

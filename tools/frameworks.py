"""Run the own tests of frameworks on memsync's adapters: `make integrations`, `make integrations ARGS=openai-agents`.

Each has an environment of its own with memsync's wheel, that extra, and the newest version of the framework. The tests
are those of its source distribution on PyPI; a plugin of pytest puts memsync's class in the place of the framework's
own. What fails is printed with the reason. A failure without a known reason fails the run. Then the project's own tests
of that adapter run there, too.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tarfile
import tempfile
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
PLUGINS = PROJECT / "tests" / "integrations" / "suites"
VERSION = "import importlib.metadata, sys; print(importlib.metadata.version(sys.argv[1]))"


@dataclass(frozen=True)
class Suite:
    """The tests of a framework: files of its source distribution, what they need besides, and options of pytest.

    `reasons` say why the tests fail whose names match a pattern.
    """

    files: tuple[str, ...]
    needs: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    reasons: Mapping[str, str] = field(default_factory=dict)


SUITES = {
    "anthropic": Suite(
        ("tests/lib/tools/memory_tools/test_filesystem.py",),
        ("pytest-asyncio",),
        ("--noconftest",),  # its conftest.py is for requests, with packages of their own
        {
            "after_validation|before_open|test_validate_path": "they use a private method of the SDK's own class",
            "test_mkdir_parents": "they look at the modes of the SDK's own folders",
            "test_view_lists_symlinks": "they expect a link to be listed; memsync follows no links",
        },
    ),
    "claude-agent-sdk": Suite(
        ("tests/test_session_store_conformance.py",),
        ("anyio[trio]",),
        reasons={"_helper": "they call helpers for tests that only the SDK's store in memory has"},
    ),
    "openai-agents": Suite(
        ("tests/memory/test_session.py", "tests/memory/test_session_limit.py"),
        ("pytest-asyncio", "inline-snapshot"),
        reasons={
            "connection|lock|corrupt|rolls_back|post_commit": "they look into SQLite's connections, tables and locks",
            "closed_rejects": "it expects a session to be closed; here its memory is",
        },
    ),
}


def run(*command: str | Path, cwd: Path | str = "/", must_succeed: bool = True, **environ: str) -> str:
    done = subprocess.run(
        [*map(str, command)], cwd=cwd, env={**os.environ, **environ}, text=True, capture_output=True, check=False
    )
    if must_succeed and done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))} failed: {(done.stderr or done.stdout).strip()[-2000:]}")
    return done.stdout + done.stderr


def try_suite(name: str, wheel: Path, scratch: Path) -> bool:
    """Print the results of a suite; return whether every failure has a known reason."""
    suite, python = SUITES[name], scratch / name / "bin" / "python"
    pip = (python, "-m", "pip", "--quiet", "--disable-pip-version-check")
    run(sys.executable, "-m", "venv", scratch / name)
    run(*pip, "install", f"{wheel}[{name}]", "pytest", *suite.needs)
    version = run(python, "-c", VERSION, name).strip()
    run(*pip, "download", "--no-deps", "--no-binary", name, "-d", scratch / f"{name}-tests", f"{name}=={version}")
    (sdist,) = (scratch / f"{name}-tests").iterdir()
    with tarfile.open(sdist) as archive:
        archive.extractall(scratch, filter="data")
    plugin, results = f"{name.replace('-', '_')}_suite", scratch / f"{name}.xml"
    pytest = (python, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    options = ("-o", "addopts=", "-p", plugin, f"--junitxml={results}", *suite.options)
    homes = {variable: str(scratch / "home") for variable in ("HOME", "XDG_STATE_HOME", "XDG_CACHE_HOME")}
    tests = scratch / sdist.name.removesuffix(".tar.gz")
    said = run(*pytest, *options, *suite.files, cwd=tests, must_succeed=False, PYTHONPATH=str(PLUGINS), **homes)
    if not results.exists():
        raise SystemExit(f"{name}: pytest does not run: {said.strip()[-2000:]}")
    succeeded = report(f"{name} {version}", suite, results)
    own = PROJECT / "tests" / "integrations" / f"test_{name.replace('-', '_')}.py"
    print(f"  own tests: {run(*pytest, '-c', os.devnull, '--noconftest', own, **homes).strip().splitlines()[-1]}")
    return succeeded


def report(title: str, suite: Suite, results: Path) -> bool:
    """Print how many tests of a junit file pass, and why others fail; return whether every failure has a reason."""
    cases = [one for one in ElementTree.parse(results).iter("testcase") if one.find("skipped") is None]
    failed = [str(one.get("name")) for one in cases if {"failure", "error"} & {part.tag for part in one}]
    print(f"{title}: {len(cases) - len(failed)} of {len(cases)} tests pass", flush=True)
    no_reason = "NO REASON IS KNOWN"
    found = [
        (next((text for key, text in suite.reasons.items() if re.search(key, one)), no_reason), one) for one in failed
    ]
    for reason, number in Counter(reason for reason, _ in found).items():
        print(f"  {number} fail, because {reason}" if reason != no_reason else f"  {number} fail, and {no_reason}:")
    for one in (name for reason, name in found if reason == no_reason):
        print(f"    {one}")
    return bool(cases) and all(reason != no_reason for reason, _ in found)


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

"""Renew the lock files, which name a tested version of every dependency with its hashes, or check them.

    python3.11 tools/lock.py              # what `make lock` does: change only what pyproject.toml asks for
    python3.11 tools/lock.py --upgrade    # what `make lock UPGRADE=1` does: take the newest version of everything
    python3.11 tools/lock.py --check      # without network: exit with 1 if pyproject.toml asks for something else

uv resolves for every platform and every Python that pyproject.toml allows. It is installed from its own lock file into
a folder that is removed afterwards. Locking runs no code of any dependency: only wheels are accepted.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
UV_LOCK = "tools/uv.txt"
DOCS_LOCK = "tools/docs.txt"
FRAMEWORKS = (
    "adk", "anthropic", "claude-agent-sdk", "langchain", "langgraph", "llamaindex", "openai-agents", "strands",
)  # fmt: skip
"""Extras that no lock file has: `make integrations` installs their newest versions."""
TITLE = "# Tested versions with the hashes of their files. Written by `make lock` from these lines of pyproject.toml:\n"
ASKED = "#   "
PIN = re.compile(r"[a-z0-9][a-z0-9-]*==[^\s;]+( ; [^\\]+?)?(?= *\\?$)")


def read_wanted() -> dict[str, list[str]]:
    """Return, for each lock file, the sorted requirements of pyproject.toml that it is made from."""
    pyproject = tomllib.loads((PROJECT / "pyproject.toml").read_text())
    project, groups = pyproject["project"], pyproject["dependency-groups"]
    optional = project["optional-dependencies"]
    run = {*project["dependencies"], *optional["web"], *pyproject["build-system"]["requires"]}
    locked = [extra for name, extra in optional.items() if name not in ("all", *FRAMEWORKS)]
    extras = {requirement for extra in locked for requirement in extra}
    return {
        "requirements.txt": sorted(run),
        "requirements-dev.txt": sorted(run | extras),
        DOCS_LOCK: sorted(groups["docs"]),
        UV_LOCK: sorted(groups["lock"]),
    }


def read_lines(lock: str) -> list[str]:
    """Return the lines of a lock file; none if it does not exist."""
    path = PROJECT / lock
    return path.read_text().splitlines() if path.exists() else []


def check() -> int:
    """Print each requirement in which pyproject.toml and a lock file differ; return the exit code."""
    problems = []
    for lock, wanted in read_wanted().items():
        made_from = [line.removeprefix(ASKED) for line in read_lines(lock) if line.startswith(ASKED)]
        problems += [f"{lock} was made without {name}" for name in wanted if name not in made_from]
        problems += [f"{lock} was made with {name}, which is gone" for name in made_from if name not in wanted]
    for problem in problems:
        print(f"pyproject.toml has changed: {problem}", file=sys.stderr)
    if problems:
        print("Run: make lock", file=sys.stderr)
    return 1 if problems else 0


def renew(*, upgrade: bool) -> None:
    """Write every lock file anew. A package that requirements.txt pins has the same version for development."""
    requires_python = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]["requires-python"]
    with tempfile.TemporaryDirectory() as scratch:
        uv = install_uv(Path(scratch) / "uv")
        for lock, wanted in read_wanted().items():
            out = Path(scratch) / "lock.txt"
            out.write_text("" if upgrade else read_pins(lock))
            command = [
                *(uv, "pip", "compile", "-", "--output-file", str(out), "--quiet", "--universal", "--generate-hashes"),
                *("--python", sys.executable, "--python-version", requires_python.removeprefix(">=")),
                *("--only-binary", ":all:", "--emit-build-options", "--no-header", "--no-annotate"),
                *(("--constraint", str(PROJECT / "requirements.txt")) if lock == "requirements-dev.txt" else ()),
            ]
            done = subprocess.run(command, input="\n".join(wanted), text=True, check=False)
            if done.returncode != 0:
                sys.exit(f"{lock} is unchanged: uv failed, for the reason above")
            header = TITLE + "".join(f"{ASKED}{requirement}\n" for requirement in wanted)
            (PROJECT / lock).write_text(header + out.read_text())
            print(f"{lock}: {len(read_pins(lock).splitlines())} pins")


def read_pins(lock: str) -> str:
    """Return the lines of a lock file that pin a version, without hashes; conflict marks of a merge are left out."""
    return "".join(f"{pin[0]}\n" for line in read_lines(lock) if (pin := PIN.match(line)))


def install_uv(folder: Path) -> str:
    """Install uv as its lock file pins it into a new environment in `folder`; return its path."""
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "--require-hashes", "--no-deps", "--requirement", str(PROJECT / UV_LOCK)], check=True)
    return str(folder / "bin" / "uv")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="only compare pyproject.toml with the lock files")
    parser.add_argument("--upgrade", action="store_true", help="take the newest version of everything")
    arguments = parser.parse_args()
    if arguments.check:
        return check()
    renew(upgrade=arguments.upgrade)
    return 0


if __name__ == "__main__":
    sys.exit(main())

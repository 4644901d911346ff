"""Every command of the README, the tutorial and the guides runs, in order, and prints what the page shows."""

from __future__ import annotations

import html
import re
from pathlib import Path

import pytest

from tests.conftest import PROJECT
from tests.support.console import Console, Example, agrees, examples_of, masked
from tests.support.daemon_process import FAKE_MODEL
from tools import picture

PAGES = {
    name: PROJECT / name
    for name in ("README.md", *(f"docs/{name}.md" for name in (
        "tutorial", "vault", "agents", "code", "machines", "memories", "languages",
    )))
}  # fmt: skip
BEGIN_IN_NOTES = set(PAGES) - {"README.md", "docs/tutorial.md"}
"""These pages begin in a memory root that is a git repository; its daemon makes their many commands cheaper."""
BEGIN = (
    "cp -r memory-files ~/notes && cd ~/notes && memsync init && git init -q -b main && git add -A"
    " && git commit -qm first && mkdir ~/stick && memsync sync && memsync daemon start"
)
WITH_MODEL = {"README.md", "docs/tutorial.md"}
"""The commands of these pages run with the built-in model, those of the others with a fake, which loads at once."""
NOT_RUN = {
    "git clone": "needs the network",
    "uv tool install": "installs packages",
    "pip install": "installs packages",
    "python tools/build_multilingual.py": "needs the package that is not installed",
    "memsync open": "runs an editor",
    "memsync daemon": "starts a process that stays",
    "memsync web": "starts a daemon and a browser",
    "memsync ingest": "needs the conversations of agents",
    "memsync --root transcripts": "needs what `memsync ingest` took in",
    "memsync thread export SESSION": "needs what `memsync ingest` took in",
    "memsync agents": "changes the settings of agents' programs, which are not installed",
    "memsync recall": "needs the session of an agent",
    "memsync log --undo": "needs the session of an agent",
}
"""How the commands begin that a test cannot run, and why."""
PIECE = re.compile(r'<text[^>]* x="([\d.]+)"[^>]*clip-path="url\(#session-line-(\d+)\)"[^>]*>(.*?)</text>')
COLUMN_WIDTH = 12.2
"""Of rich's SVG."""
WRITING = ("memsync log", "memsync remember", "memsync note new", "memsync thread")
WRONG_CODES = 2, 3, 9, 10, 126, 127
"""Exit codes that no command in the documentation may have: wrong options or settings, faults, missing programs."""


def commands_of(page: Path) -> list[Example]:
    """Return the commands of a page that are run."""
    return [example for example in examples_of(page) if not example.command.startswith(tuple(NOT_RUN))]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name, page in PAGES.items() if commands_of(page)])
def test_commands_of_a_page_run_in_order(name: str, tmp_path: Path) -> None:
    """In a copy of the project's notes; where the page shows an output, it is that one.

    docs/session.svg is the README's session of today; `make picture` draws it anew.
    """
    session = []
    with Console(tmp_path, **{} if name in WITH_MODEL else {"PYTHONPATH": FAKE_MODEL}) as console:
        if name in BEGIN_IN_NOTES:
            code, printed = console.run(BEGIN)
            assert code == 0, printed
        for example in commands_of(PAGES[name]):
            code, printed = console.run(example.command)
            session.append((example.command, printed))
            if example.command.endswith("memsync sync"):
                console.run("memsync daemon start")  # it makes the next commands cheaper, and changes no output
            elif example.command.startswith(WRITING):
                console.run("memsync sync")  # the daemon embeds what was written after it has answered
            where = f"{name}:{example.line}: $ {example.command}\n{printed}"
            assert code not in WRONG_CODES and "Traceback" not in printed, f"exit code {code}: {where}"
            assert example.output is None or agrees(example.output, printed), where
    if name == "README.md":
        assert lines_of(picture.SESSION.read_text()) == lines_of(picture.drawn(session[1:]))


def test_commands_that_are_not_run_are_in_the_documentation() -> None:
    """A reason for a command that is gone would hide the next one that begins like it."""
    commands = [example.command for page in PAGES.values() for example in examples_of(page)]
    assert [name for name in NOT_RUN if not any(command.startswith(name) for command in commands)] == []


def lines_of(svg: str) -> list[str]:
    """Return the lines of a drawn session with dates and figures masked; each text is at its column."""
    lines = dict[int, str]()
    for at, number, text in PIECE.findall(svg):
        column = round(float(at) / COLUMN_WIDTH)
        lines[int(number)] = lines.get(int(number), "").ljust(column) + html.unescape(text).replace("\xa0", " ")
    return masked("\n".join(lines.get(number, "") for number in range(max(lines) + 1)))

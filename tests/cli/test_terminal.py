"""The command line at a terminal: a daemon that starts by itself, colour, links, a pager, tables, completion."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path
from urllib.parse import quote

import pytest

from memsync.cli.command_open import kept_hits, linked
from memsync.cli.main import run_command
from memsync.cli.output import KEPT, CapturedOutput, local_time, say_table
from memsync.errors import ConfigError
from memsync.memory import Memory
from memsync.settings.editors import template_of
from memsync.system import clock
from memsync.system.user_folders import state_folder
from tests.conftest import Write
from tests.support.daemon_process import Cli, launcher, until

SECONDS = 60.0
MEMSYNC = [sys.executable, "-P", "-m", "memsync"]


def typed(cli: Cli, *arguments: str, typing: str = "", **environ: str) -> str:
    """Return what a command prints that a person types: on a terminal of 24 lines, as a job of its own.

    Once it has printed something, the person types `typing`.
    """
    process, terminal = pty.fork()
    if process == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        os.environ.pop("CI", None)
        os.environ.update({"TERM": "xterm", "PAGER": "cat", **environ})
        os.execv(MEMSYNC[0], [*MEMSYNC, "--root", str(cli.root), *arguments])
    printed, limit = b"", time.monotonic() + SECONDS
    while time.monotonic() < limit:
        if select.select([terminal], [], [], 0.2)[0]:
            try:
                block = os.read(terminal, 65_536)
            except OSError:  # it has ended
                break
            if typing and not printed:
                os.write(terminal, typing.encode())
            printed += block
    os.waitpid(process, 0)
    os.close(terminal)
    return printed.decode().replace("\r\n", "\n")


def test_mcp_at_a_terminal_says_that_it_waits_for_a_client(cli: Cli) -> None:
    """A person who typed it learns how to set up a client; end of input (Ctrl-D) ends it."""
    shown = typed(cli, "mcp", MEMSYNC_DAEMON_AUTOSTART="never", typing="\x04")
    assert "waits for an MCP client" in shown and "memsync mcp install" in shown
    piped = subprocess.run(
        [*MEMSYNC, "--root", str(cli.root), "mcp"], input="", capture_output=True, text=True, check=True
    )
    assert piped.stderr == ""


def test_text_that_replaces_an_unrelated_line_is_asked_about(cli: Cli, write: Write, root: Path) -> None:
    """A number of a line is soon wrong: without a terminal, --was must repeat words of the line."""
    write("MEMORY.md", "# Memory\n\nThe heron nests.\n")
    command = ("remember", "--supersedes", "MEMORY.md:3", "the office is in Berlin")
    assert cli(*command).returncode == 2
    assert "shares no word with MEMORY.md:3" in typed(cli, *command, typing="n\n")
    assert "Berlin" not in (root / "MEMORY.md").read_text()
    assert "To take it back, delete the new line: memsync open MEMORY.md:7" in typed(cli, *command, typing="y\n")
    assert "the office is in Berlin {supersedes=MEMORY.md:3~" in (root / "MEMORY.md").read_text()


def test_bare_command_says_what_the_memory_holds(cli: Cli, write: Write, tmp_path: Path) -> None:
    """In six lines; outside of every memory it prints its help."""
    write("config.toml", '[memsync]\nroot = "."\n')
    lines = cli(cwd=cli.root).stdout.splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "memory root", "notes", "vectors", "last sync", "daemon", "more",
    ]  # fmt: skip
    outside = cli(cwd=tmp_path)
    assert "Usage: memsync" in outside.stderr and outside.returncode == 2


def is_served(cli: Cli) -> bool:
    return '"daemon": null' not in cli("status", "--json").stdout


def test_first_command_that_is_typed_starts_the_daemon_for_the_next_ones(cli: Cli, write: Write) -> None:
    """It is answered at once; the first time ever one line says what was started and how to stop it."""
    write("a.md", "The heron nests.\n")
    first = typed(cli, "search", "heron", "--mode", "keyword")
    assert "a.md" in first
    assert "memsync daemon stop" in first and "autostart" in first
    until(lambda: is_served(cli), "the daemon has started")
    assert "in the background" not in typed(cli, "search", "heron", "--mode", "keyword")
    assert cli("daemon", "stop").returncode == 0
    assert "in the background" not in typed(cli, "search", "heron", "--mode", "keyword")  # it was said once
    until(lambda: is_served(cli), "the daemon has started again")


@pytest.mark.parametrize(
    "environ", [{"MEMSYNC_DAEMON_AUTOSTART": "never"}, {"MEMSYNC_DAEMON_USE": "false"}, {"CI": "true"}], ids=str
)
def test_no_daemon_starts_where_none_is_wanted(cli: Cli, write: Write, environ: dict[str, str]) -> None:
    """By the settings, and in CI."""
    write("a.md", "The heron nests.\n")
    typed(cli, "search", "heron", "--mode", "keyword", **environ)
    assert not is_served(cli)


def test_no_script_starts_a_daemon_unless_the_settings_say_so(cli: Cli, write: Write) -> None:
    """A script has no terminal, or is not the job that was typed."""
    write("a.md", "The heron nests.\n")
    cli("search", "heron")
    assert not is_served(cli)
    cli("search", "heron", environ={"MEMSYNC_DAEMON_AUTOSTART": "always"})
    until(lambda: is_served(cli), "the daemon has started")


def test_hits_are_coloured_and_link_to_their_place(cli: Cli, write: Write) -> None:
    """As a file, or in the editor that the settings name; nothing of it where output is no terminal."""
    path = write("a b.md", "The heron nests.\n")
    never = {"MEMSYNC_DAEMON_AUTOSTART": "never"}
    shown = typed(cli, "search", "heron", "--mode", "keyword", **never)
    assert f"{path.parent}/a%20b.md\x1b\\\x1b[36ma b.md\x1b[0m:\x1b[32m1" in shown
    assert "\x1b[1;33mheron\x1b[0m" in shown
    editor = typed(cli, "search", "heron", "--mode", "keyword", MEMSYNC_CLI_OPEN_WITH="vscode", **never)
    assert f"\x1b]8;;vscode://file{path.parent}/a%20b.md:1\x1b\\" in editor
    assert "\x1b" not in typed(cli, "search", "heron", "--mode", "keyword", "--color", "never", **never)
    assert "\x1b" not in typed(cli, "search", "heron", "--mode", "keyword", NO_COLOR="1", **never)
    assert "\x1b" not in cli("search", "heron", "--mode", "keyword").stdout
    always = cli("search", "heron", "--mode", "keyword", "--color", "always").stdout
    assert "\x1b[36m" in always and "\x1b]8" not in always


def test_link_is_made_of_a_template() -> None:
    """Of an editor that is known, or of a URL; a name that is not known is an error."""
    assert linked("x", template_of("zed"), "/a b", 3) == "\x1b]8;;zed://file/a%20b:3\x1b\\x\x1b]8;;\x1b\\"
    assert "ed:///n?line=2" in linked("x", template_of("ed://{path}?line={line}"), "/n", 2)
    assert linked("x", "", "/n", 2) == "x"
    with pytest.raises(ConfigError, match="is not known"):
        template_of("notepad")


def test_long_output_is_shown_in_the_pager(cli: Cli, write: Write, tmp_path: Path) -> None:
    """If it is longer than the terminal, and the settings do not forbid it."""
    write("long.md", "".join(f"- line {number}\n" for number in range(200)))
    pager = tmp_path / "pager"
    pager.write_text("#!/bin/sh\necho PAGED\ncat\n")
    pager.chmod(0o755)
    environ = {"PAGER": str(pager), "MEMSYNC_DAEMON_AUTOSTART": "never", "LINES": "24"}
    assert typed(cli, "get", "long.md", **environ).startswith("PAGED\n- line 0")
    assert "PAGED" not in typed(cli, "get", "long.md:3", **environ)
    assert "PAGED" not in typed(cli, "get", "long.md", MEMSYNC_CLI_PAGER="false", **environ)
    assert "PAGED" not in cli("get", "long.md", environ=environ).stdout


@pytest.mark.parametrize(
    ("columns", "first"),
    [
        (80, "threads/a-very-long-name-of-a-thread.md  2026-11-22  A title that goes on and on"),
        (70, "threads/a-very-long-name-of-a-thread.md  2026-11-22  A title that goe…"),
        (52, "threads/a-very-long-name-of-a-thread.md  2026-11-22"),
        (40, "threads/a-very-long-name-of-a-thread.md"),
        (20, "threads/a-very-long…"),
    ],
)
def test_table_fits_the_terminal_and_is_whole_elsewhere(columns: int, first: str) -> None:
    """The widest columns are cut, then the last ones left out, then the first one is cut; an empty one has no place."""
    from io import StringIO

    rows = [
        ("threads/a-very-long-name-of-a-thread.md", "", "2026-11-22", "A title that goes on and on"),
        ("b", "", "", ""),
    ]
    for width in (columns, 0):
        out = StringIO()
        mark = KEPT.set(CapturedOutput(out, StringIO(), True, False, width))
        say_table(rows)
        KEPT.reset(mark)
        lines = out.getvalue().splitlines()
        if width:
            assert max(map(len, lines)) <= columns
            assert lines[0] == first
        else:
            assert lines == ["  ".join(filter(None, rows[0])), "b"]


def test_times_are_local_and_say_how_long_ago(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only moments with a zone: a note's own times are as they were written."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    try:
        assert local_time("2026-11-21T09:30:51+00:00").startswith("2026-11-21 18:30")
        assert re.fullmatch(r"[-\d]+ [:\d]+ \(\d+ s ago\)", local_time(clock.utc().isoformat(timespec="seconds")))
    finally:
        monkeypatch.undo()
        time.tzset()
    assert local_time("2026-11-21T09:30") == "2026-11-21T09:30"
    assert local_time("") == ""


COMPLETE = {
    "bash": """
        eval "$(memsync completion bash)"
        COMP_WORDS=(memsync dup) COMP_CWORD=1
        _memsync_completion memsync
        echo "${COMPREPLY[@]}"
    """,
    "zsh": """
        autoload -U compinit
        compinit -u -D
        eval "$(memsync completion zsh)"
        COMP_WORDS="memsync dup" COMP_CWORD=1 _MEMSYNC_COMPLETE=zsh_complete memsync
        print -r -- "$_comps[memsync]"
    """,
    "fish": 'memsync completion fish | source; complete -C "memsync dup"',
}
"""In each shell: take the script, and ask for what completes `memsync dup`."""


def test_completion_proposes_commands_and_paths(cli: Cli) -> None:
    """The shell itself completes paths, because it knows how to quote them."""

    def proposed(words: str, position: int = 3) -> list[str]:
        asked = {"_MEMSYNC_COMPLETE": "bash_complete", "COMP_CWORD": str(position), "COMP_WORDS": words}
        environ = {**os.environ, **asked, "MEMSYNC_ROOT": str(cli.root)}
        return subprocess.run(
            MEMSYNC, env=environ, capture_output=True, text=True, timeout=60, check=False
        ).stdout.splitlines()

    assert proposed("memsync thread show the") == ["file,the"]
    assert proposed("memsync search --in th") == ["dir,th"]
    assert proposed("memsync help dup", 2) == ["plain,duplicates"]


@pytest.mark.parametrize("shell", COMPLETE)
def test_completion_works_in_the_real_shell(shell: str, cli: Cli, tmp_path: Path) -> None:
    """The script is taken, and a command is completed."""
    if shutil.which(shell) is None:
        pytest.skip(f"needs {shell}; install it to test its completion")
    program = launcher(tmp_path / "bin")
    environ = {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    done = subprocess.run(
        [shell, "-c", COMPLETE[shell]], env=environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert "duplicates" in done.stdout, done.stderr
    if shell == "zsh":
        assert "_memsync_completion" in done.stdout


NEVER = {"MEMSYNC_DAEMON_AUTOSTART": "never"}


@pytest.fixture
def editor(tmp_path: Path) -> Path:
    """Return a program that stands in for an editor: it stores its arguments, each ended by a NUL."""
    (tmp_path / "bin").mkdir()
    for name in ("an editor", "xdg-open"):
        program = tmp_path / "bin" / name
        program.write_text(f'#!/bin/sh\nprintf "%s\\0" "$@" > "{tmp_path}/called"\nexit 3\n')
        program.chmod(0o755)
    return tmp_path / "called"


@pytest.mark.parametrize("name", ["plain.md", "-rf x.md", "two\nlines.md", "esc\x1b]0;x.md", "$(touch x);.md"])
def test_open_gives_the_editor_a_hit_of_the_last_search_as_one_argument(
    cli: Cli, write: Write, editor: Path, name: str
) -> None:
    """The place is kept when a terminal shows it; no shell reads the path, and it begins with a slash."""
    path = write(name, "# A\n\nNothing.\n\n# B\n\nThe heron nests.\n")
    typed(cli, "search", "heron", "--mode", "keyword", **NEVER)
    cli("search", "nothing", "--mode", "keyword")  # not at a terminal
    done = cli("open", environ={"VISUAL": "", "EDITOR": f"'{editor.parent}/bin/an editor' --wait"})
    assert (done.returncode, editor.read_text().split("\0")) == (3, ["--wait", "+5", str(path), ""])
    environ = {"MEMSYNC_CLI_OPEN_WITH": "zed", "PATH": f"{editor.parent}/bin:{os.environ['PATH']}"}
    assert cli("open", "1", environ=environ).returncode == 3
    url, end = editor.read_text().split("\0")
    assert (url, end) == (f"zed://file{quote(str(path))}:5", "")
    (kept,) = Path(state_folder(), "last_search").glob("*.json")
    assert "nests" not in kept.read_text() and kept.stat().st_mode & 0o777 == 0o600


def test_open_without_such_a_hit_says_what_to_do(cli: Cli, write: Write, editor: Path, tmp_path: Path) -> None:
    """Nothing was searched, there are fewer hits, the note is gone, or a link leads out of the root."""
    environ = {"VISUAL": f"'{editor.parent}/bin/an editor'"}
    none = cli("open", environ=environ)
    assert none.returncode == 2 and "no hit 1" in none.stderr and "Search again" in none.stderr
    path = write("inner/a.md", "The heron nests.\n")
    typed(cli, "search", "heron", "--mode", "keyword", **NEVER)
    assert "no hit 2" in cli("open", "2", environ=environ).stderr
    assert cli("open", "0", environ=environ).returncode == 2
    path.rename(tmp_path / "a.md")
    gone = cli("open", environ=environ)
    assert gone.returncode == 10 and "inner/a.md or the editor is not there" in gone.stderr
    path.parent.rmdir()
    path.parent.symlink_to(tmp_path)
    assert cli("open", environ=environ).returncode == 5
    root = path.parent.parent
    root.rename(tmp_path / "unmounted")
    (tmp_path / "elsewhere" / "inner").mkdir(parents=True)
    (tmp_path / "elsewhere" / "inner" / "a.md").write_text("A secret.\n")
    root.symlink_to(tmp_path / "elsewhere")
    assert cli("open", cwd=tmp_path, environ=environ).returncode == 4
    assert not editor.exists()


def test_hits_of_a_served_search_are_kept_too(memory: Memory, write: Write) -> None:
    """The daemon belongs to the same user, and knows whether its client has a terminal."""
    path = write("a.md", "The heron nests.\n")
    command = ["search", "heron", "--mode", "keyword"]
    run_command(memory, command, "/")
    assert kept_hits() == []
    run_command(memory, command, "/", is_terminal=True)
    assert list(map(tuple, kept_hits())) == [(str(path.parent), "a.md", 1)]

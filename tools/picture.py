"""Draw docs/session.svg, the README's session as a terminal shows it, and docs/page.png, the search page.

    python tools/picture.py      # what `make picture` does

Both are of real runs on a copy of memory-files.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from contextlib import nullcontext
from io import StringIO
from pathlib import Path

from rich.console import Console as Terminal
from rich.terminal_theme import MONOKAI
from rich.text import Text

from tests.support.console import Console, examples_of

PROJECT = Path(__file__).resolve().parent.parent
SESSION, PAGE = PROJECT / "docs" / "session.svg", PROJECT / "docs" / "page.png"
WIDTH = 112
QUERY = "why is text embedded one at a time"
# rich's own form loads fonts from another machine.
SVG = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; }}
.{unique_id}-title {{ font-size: 18px; font-weight: bold; font-family: sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def session(folder: Path, *, color: str = "never") -> list[tuple[str, str]]:
    """Run the README's session in a new folder; return each command with what it printed."""
    console, commands = Console(folder), [example.command for example in examples_of(PROJECT / "README.md")]
    begin = next(number for number, command in enumerate(commands) if command.startswith("cp "))
    return [(one, console.run(one.replace("memsync ", f"memsync --color {color} "))[1]) for one in commands[begin:]]


def drawn(commands: list[tuple[str, str]]) -> str:
    """Return a session as an SVG, without what its first command prints."""
    terminal = Terminal(record=True, width=WIDTH, file=StringIO(), force_terminal=True)
    for number, (command, output) in enumerate(commands):
        terminal.print(Text.assemble(("$ ", "green"), (command, "bold")))
        if number:
            terminal.print(Text.from_ansi(output.rstrip("\n")))
    return terminal.export_svg(title="memsync", theme=MONOKAI, code_format=SVG, unique_id="session")


def photograph(folder: Path) -> None:
    """Write the search page, as Chromium shows it."""
    import uvicorn
    from playwright.sync_api import sync_playwright

    from memsync.memory import Memory
    from memsync.web.access import Access
    from memsync.web.app import make_app
    from memsync.web.serving import listening
    from memsync.web.site import Site

    shutil.copytree(PROJECT / "memory-files", folder / "notes")
    with Memory.open(folder / "notes") as memory, sync_playwright() as playwright:
        memory.sync()
        bound = listening(0)
        site = Site(memory.settings, lambda: nullcontext(memory), bound.getsockname()[1])
        server = uvicorn.Server(uvicorn.Config(make_app(site), log_level="critical", timeout_graceful_shutdown=1))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        page = browser.new_page(base_url=site.url, viewport={"width": 1000, "height": 640}, color_scheme="light")
        page.goto(Access(site.settings.keep_dir).make_link())
        page.goto(f"/?q={QUERY.replace(' ', '+')}")
        page.locator("#hits mark").first.wait_for()
        page.screenshot(path=str(PAGE))
        browser.close()
        server.should_exit = True
        thread.join()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        SESSION.write_text(drawn(session(Path(scratch) / "session", color="always")))
        os.environ.update({f"XDG_{name}_HOME": f"{scratch}/{name}" for name in ("STATE", "CONFIG", "CACHE", "DATA")})
        photograph(Path(scratch) / "page")
    print(*(f"{path.name}: {path.stat().st_size:,} bytes" for path in (SESSION, PAGE)), sep="\n")

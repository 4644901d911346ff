"""`memsync web` and `memsync http`: the memory in a browser, and for programs that speak HTTP."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from typing import TYPE_CHECKING

import click

from memsync.cli.command_daemon import START_WAIT, daemon_started
from memsync.cli.common import answering, load
from memsync.cli.output import CommandAnswer, remark
from memsync.daemon.startup import report, report_failure
from memsync.daemon.web_server import PORT, Page, turn_on, turned_on
from memsync.errors import DaemonUnavailable, MemsyncError
from memsync.system.extras import require

if TYPE_CHECKING:
    from memsync.settings.load import Settings

SECTION = "Set up"

_PORT = click.option("--port", type=click.IntRange(0, 65_535), help=f"Port on this machine. [default: {PORT}]")
_URL = click.option("--public-url", metavar="URL", help="URL under which the port is forwarded to your browser.")


@click.command()
@click.option("--off", is_flag=True, help="Turn the pages off.")
@_PORT
@_URL
@click.option("--no-browser", is_flag=True, help="Only print the link.")
@START_WAIT
@answering
def web(
    context: click.Context, off: bool, port: int | None, public_url: str | None, no_browser: bool, wait: float
) -> CommandAnswer:
    """Open the memory in your browser: search, notes, conversations and the state of the index.

    This starts the daemon if none runs. The daemon then serves the pages on this machine until you turn them off. The
    link lets one browser in, once, within five minutes. The browser stays signed in for 30 days.

    \b
    memsync web
    memsync web --no-browser       print a link for another browser
    memsync web --off
    """
    require("web", "memsync web")
    settings = load(context)
    before = None if off else turned_on(settings)
    wanted = None if off else _page(before or Page(), port, public_url)
    turn_on(settings, wanted)
    try:
        url = _applied(settings, wanted, wait)
    except MemsyncError:
        turn_on(settings, before)
        raise
    if wanted is None:
        return CommandAnswer({"url": ""}, ["the pages are off"])
    from memsync.web.access import TOKEN, Access

    link = url + Access(settings.keep_dir).make_link()
    if not no_browser and _can_browse():
        webbrowser.open(link)
    document = {"url": url, "link": link, "token_file": str(settings.keep_dir / TOKEN)}
    return CommandAnswer(document, [link], ["the link works once, within five minutes"])


@click.command()
@_PORT
@click.option("--read-only", is_flag=True, help="Refuse operations that write.")
@_URL
@click.option("--until-eof", is_flag=True, hidden=True, help="Report to standard output, and end with standard input.")
@click.pass_context
def http(context: click.Context, port: int | None, read_only: bool, public_url: str | None, until_eof: bool) -> None:
    """Serve the memory over HTTP on this machine until interrupted: an API with a token, and the pages.

    Each operation is POST /v1/OPERATION, and GET if it only reads; /openapi.json describes them. The daemon answers
    requests if one serves this memory, otherwise this process does. To let the daemon serve the pages: memsync web
    """
    try:
        require("web", "memsync http")
        _serve(load(context), _page(Page(), port, public_url), is_read_only=read_only, is_child=until_eof)
    except MemsyncError as error:
        if until_eof:
            report_failure(error)
        raise


def _serve(settings: Settings, page: Page, *, is_read_only: bool, is_child: bool) -> None:
    from memsync.memories.reopening import Opener
    from memsync.web.access import TOKEN
    from memsync.web.app import make_app
    from memsync.web.serving import listening, serve
    from memsync.web.site import Site

    opener = Opener(settings.load_again)
    bound = listening(page.port)
    site = Site(settings, opener.memory, bound.getsockname()[1], page.public_url, is_read_only)
    app = make_app(site)
    if is_child:
        threading.Thread(target=_end_with_input, daemon=True).start()
        report({"url": site.url})
    else:
        remark(f"serving {site.url} with the token in {settings.keep_dir / TOKEN}")
    try:
        serve(app, bound)
    finally:
        opener.close()


def _page(before: Page, port: int | None, public_url: str | None) -> Page:
    """Return where the pages should be: as before, except for what an option says. Raises UsageError."""
    from memsync.web.site import public_url_of

    url = before.public_url if public_url is None else public_url_of(public_url)
    return Page(before.port if port is None else port, url)


def _applied(settings: Settings, wanted: Page | None, wait: float) -> str:
    """Let the daemon serve the pages or end them; return their URL. Raises MemsyncError."""
    from memsync.memory import RemoteMemory

    try:
        if wanted is not None:
            daemon_started(settings, wait)
        with RemoteMemory.serving(settings) as memory, memory.patient(wait):
            return str(memory.call("web", {})["url"])
    except DaemonUnavailable:
        if wanted is not None:
            raise
        return ""  # without a daemon nothing serves them


def _can_browse() -> bool:
    """Return whether a person typed this at a terminal next to a screen."""
    has_screen = sys.platform == "darwin" or any(map(os.environ.get, ("DISPLAY", "WAYLAND_DISPLAY")))
    return has_screen and sys.stderr.isatty()


def _end_with_input() -> None:
    """End as soon as the process that holds the other end of standard input has ended, even if it was killed."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)

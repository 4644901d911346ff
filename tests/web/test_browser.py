"""The pages in a real browser: readable for everybody, usable by keyboard, quick to type in, and deaf to hostile notes.

Needs Chromium: Debian's, or what `make browser` installs.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import uvicorn

from memsync.memory import Memory
from memsync.web.access import Access
from memsync.web.app import make_app
from memsync.web.serving import listening
from memsync.web.site import Site
from tests.conftest import MakeMemory, Write
from tests.support.daemon_process import until

sync_api = pytest.importorskip("playwright.sync_api", reason="needs playwright, which is among the packages for tests")
from axe_playwright_python.sync_playwright import Axe  # noqa: E402 (because it needs playwright)
from playwright.sync_api import Browser, Page, Route, expect  # noqa: E402

EXPECTED = 200, 303, 304, 307, 400, 404  # an error is a page, too
WIDTHS = 360, 1280, 2560
PATIENCE_MS = 180_000
"""The machine may be busy with other tests."""
RULES = {
    "runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"],
    "resultTypes": ["violations"],
}
PAGES = (
    "/", "/?q=heron", "/?q=heron&at=now", "/?q=heron+kind:daily", "/?q=tags:x", "/?q=nothing-has-this+kind:daily",
    "/notes", "/note/birds.md?line=3-4",
    "/note/threads/the-bridge.md",
    "/threads", "/log", "/memory", "/upkeep", "/upkeep?show=contradictions", "/upkeep?show=check", "/usage", "/recalls",
    "/health", "/help", "/note/nowhere.md", "/history", "/history/birds.md", "/blame/birds.md", "/changes",
)  # fmt: skip
HOSTILE = (
    "/?q=evil", "/?q=%22%3E%3Cscript%3Ewindow.hurt%3D1%3C/script%3E", "/note/evil.md", "/log", "/threads",
    "/note/threads/t.md", "/memory", "/upkeep?show=check", "/usage", "/note/big.md", "/history", "/changes",
    "/blame/evil.md",
)  # fmt: skip
BIRDS = """---
title: Birds
tags: [water]
---
# Birds

- The heron nests in the alder. #nest
- [ ] count the terns

| bird | eggs |
|---|--:|
| heron | 4 |

```
a line of code that is so long that no telephone shows it as a whole, however small its letters may ever be set there
```

See [[bridge]], [[gone]] and [the web](https://example.org).

> [!warning] Careful
> ==Never== feed the heron[^1] for $x^2$, or $5 and $10.

> [!tip]-
> %%hidden%% folded

![[heron.svg|100]] ![[bridge]]

[^1]: It bites.
"""
EVIL = (
    "<script>window.hurt=1</script><svg onload=window.hurt=1><img src=x onerror=window.hurt=1>"
    "<iframe src=https://evil.example></iframe>[x](javascript:window.hurt=1)![p](https://evil.example/p.png)"
    "<a href=javascript:window.hurt=1>x</a>\u202eevil\u202c<style>*{display:none}</style>"
    "<meta http-equiv=refresh content=0>"
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Start Chromium without a window."""
    with sync_api.sync_playwright() as playwright:
        executable = shutil.which("chromium") or playwright.chromium.executable_path
        if not Path(executable).exists():
            pytest.skip("needs chromium: apt install chromium, or make browser")
        with playwright.chromium.launch(executable_path=executable) as launched:
            yield launched


@pytest.fixture
def served(write: Write, memory: Memory) -> Iterator[Site]:
    """Serve a memory on a port of this machine."""
    write("birds.md", BIRDS)
    write("heron.svg", "<svg xmlns='http://www.w3.org/2000/svg' width='9' height='9'><script>alert(1)</script></svg>")
    write("bridge.md", "# The bridge\n\nThe tern rests on it.\n")
    write(
        "daily/2026-11-21.md", "# 2026-11-21\n\n- 10:02 saw a heron at the harbour [[birds]]\n- 11:00 we chose SQLite\n"
    )
    memory.new_thread("The bridge")
    memory.append_message("the-bridge", "user", "Does the *heron* fish?", model="m", tokens_in="8", cost="0.1")
    commit(memory)
    memory.sync()
    memory.curate()
    with serving(memory) as site:
        yield site


def commit(memory: Memory) -> None:
    """Make the memory root a git repository with all notes in one commit."""
    git = ["git", "-C", str(memory.settings.root), "-c", "user.name=A", "-c", "user.email=a@example.org"]
    for arguments in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", EVIL]):
        subprocess.run([*git, *arguments], check=True)


@contextmanager
def serving(memory: Memory) -> Iterator[Site]:
    bound = listening(0)
    site = Site(memory.settings, lambda: nullcontext(memory), bound.getsockname()[1])
    server = uvicorn.Server(uvicorn.Config(make_app(site), log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
    thread.start()
    try:
        until(lambda: server.started, "the server listens")
        yield site
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def visiting(browser: Browser, site: Site, **options: object) -> Iterator[Page]:
    """Yield a page that was let in by a link; at its end nothing must have been wrong in the browser."""
    context = browser.new_context(base_url=site.url, **options)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE_MS)
    wrong = list[str]()
    context.on("console", lambda message: wrong.append(message.text) if message.type in ("error", "warning") else None)
    context.on("weberror", lambda error: wrong.append(str(error.error)))
    context.on("dialog", lambda dialog: wrong.append(dialog.message))
    context.on("response", lambda got: wrong.append(f"{got.status} {got.url}") if got.status not in EXPECTED else None)
    context.on("request", lambda sent: wrong.append(sent.url) if urlsplit(sent.url).port != site.port else None)
    page = context.new_page()
    page.goto(Access(site.settings.keep_dir).make_link())
    yield page
    context.close()
    assert [text for text in wrong if "Failed to load" not in text] == []


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_everybody_can_read_every_page(browser: Browser, served: Site, scheme: str) -> None:
    """Axe finds nothing, nothing is cut off, and no page asks another machine or breaks its own rules."""
    with visiting(browser, served, color_scheme=scheme) as page:
        for path in PAGES:
            page.goto(path)
            for width in WIDTHS:
                page.set_viewport_size({"width": width, "height": 900})
                assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), (path, width)
                if width < max(WIDTHS):  # the widest has the layout of the one before it
                    found = Axe().run(page, options=RULES).response["violations"]
                    assert [(one["id"], [node["html"] for node in one["nodes"]]) for one in found] == [], (path, width)


def test_keyboard_is_enough(browser: Browser, served: Site) -> None:
    """From the search field to a hit, back, and to the list of keys."""
    with visiting(browser, served) as page:
        page.keyboard.type("heron")
        expect(page.locator("#hits mark").first).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("#q")).not_to_be_focused()
        expect(page.locator("#q")).to_have_value("heron")
        page.keyboard.press("j")
        page.keyboard.press("j")
        page.keyboard.press("k")
        expect(page.locator("#hits a.item").first).to_be_focused()
        page.keyboard.press("?")
        expect(page.locator("dialog")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.locator("dialog")).to_be_hidden()
        page.locator("#hits a.item").first.focus()
        page.keyboard.press("Enter")
        page.wait_for_url("**/note/**")
        expect(page.locator(".text .hit").first).to_be_in_viewport()
        page.keyboard.press("/")
        page.wait_for_url(served.url + "/")
        expect(page.locator("#q")).to_be_focused()


def test_what_is_typed_before_the_first_paint_is_not_lost(browser: Browser, served: Site) -> None:
    """The browser's own autofocus waits for the paint, which is late on a busy machine."""
    with visiting(browser, served) as page:
        page.add_init_script("addEventListener('DOMContentLoaded', () => (window.focused = document.activeElement.id))")
        page.goto("/")
        assert page.evaluate("window.focused") == "q"


def test_single_letters_can_be_switched_off(browser: Browser, served: Site) -> None:
    """Who speaks to the computer would press them by accident."""
    with visiting(browser, served) as page:
        page.goto("/help")
        page.locator("main [data-setting=keys]").uncheck()
        page.keyboard.press("?")
        expect(page.locator("dialog")).to_be_hidden()


def test_newest_answer_is_shown(browser: Browser, served: Site) -> None:
    """Also if an older one comes later; the address is that of the query, and a chip changes it."""
    with visiting(browser, served) as page:
        held = list[Route]()
        page.route("**/?q=tern&part=hits", lambda route: held.append(route))
        page.fill("#q", "tern")
        while not held:
            page.wait_for_timeout(10)
        page.fill("#q", "heron")
        expect(page.locator("#hits .snippet").first).to_contain_text("heron")
        held[0].continue_()
        page.wait_for_load_state("networkidle")
        expect(page.locator("#hits .snippet").first).to_contain_text("heron")
        page.wait_for_url(f"{served.url}/?q=heron")
        page.get_by_role("link", name="daily", exact=True).click()
        expect(page.locator("#q")).to_have_value("heron kind:daily")
        expect(page.locator("#hits .hit")).to_have_count(1)


def test_pages_work_without_scripts(browser: Browser, served: Site) -> None:
    """The form, the links, and the acceptance of a proposal."""
    with visiting(browser, served, java_script_enabled=False) as page:
        page.fill("#q", "heron")
        page.get_by_role("button", name="Search").click()
        page.locator("#hits a.item").first.click()
        expect(page.locator(".text .hit").first).to_be_visible()
        page.get_by_role("link", name="More").click()
        page.get_by_role("link", name="Upkeep").click()
        page.locator("input[name=line]").first.check()
        page.get_by_role("button", name="Accept the chosen").click()
        expect(page.locator(".changes .accepted").first).to_contain_text("SQLite")


def test_health_follows(browser: Browser, served: Site, memory: Memory) -> None:
    """The page of health shows what changes, without being loaded again."""
    with visiting(browser, served) as page:
        page.goto("/health")
        expect(page.locator("[data-live=status]")).to_have_text("stale")
        expect(page.locator("[data-live=scanned_at]")).not_to_have_text("")
        page.goto("/")  # a page that listens would never rest


def test_first_page_counts_what_waits(browser: Browser, served: Site) -> None:
    """The findings and contradictions are counted after the page is shown."""
    with visiting(browser, served) as page:
        expect(page.get_by_role("link", name="Findings of the check")).to_contain_text(": 1")
        page.get_by_role("link", name="Contradictions: 0").wait_for()


def test_picture_runs_nothing(browser: Browser, served: Site) -> None:
    """It is shown, and the browser refuses the script of an SVG that somebody opens by its address."""
    with pytest.raises(AssertionError, match="sandboxed"), visiting(browser, served) as page:
        page.goto("/note/birds.md")
        assert page.locator(".text img").evaluate("image => image.decode().then(() => image.naturalWidth)") == 9
        page.goto("/file/heron.svg")


@pytest.mark.slow
def test_hostile_notes_do_nothing(browser: Browser, write: Write, make_memory: MakeMemory) -> None:
    """Neither on their page, nor among hits, nor by their names and front matter; and a name may have any character."""
    write("evil.md", f"---\ntitle: '{EVIL}'\nx: '{EVIL}'\n---\n# {EVIL}\n\n{EVIL} #tag{EVIL}\n\n{EVIL}\n")
    write("threads/t.md", f"---\nuser: '{EVIL}'\n---\n\n## user {{model=\"{EVIL[:20]}\"}}\n\n{EVIL}\n")
    write("daily/2026-11-21.md", f"# {EVIL}\n\n- 10:00 {EVIL}\n")
    write("<img src=x onerror=hurt>%20'\"#?.md", f"{EVIL}\n")
    write("big.md", "heron " * 2_000_000)
    memory = make_memory()
    commit(memory)
    memory.sync()
    with serving(memory) as site, visiting(browser, site) as page:
        for path in HOSTILE:
            page.goto(path)
            page.wait_for_load_state("networkidle")
            assert page.evaluate("window.hurt") is None, path
            assert page.locator("main iframe, main img, main script, main style, main meta").count() == 0
            assert page.url == site.url + path
        page.goto("/?q=path:%22<img*%22")
        page.locator("#hits a.item").first.click()
        expect(page.locator(".note .text")).to_contain_text("<script>window.hurt=1</script>")
        assert page.evaluate("window.hurt") is None

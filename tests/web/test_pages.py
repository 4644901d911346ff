"""The pages: what they show, how they escape it, and that they work without JavaScript."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from datetime import timedelta
from html import unescape
from html.parser import HTMLParser
from pathlib import Path
from time import process_time
from typing import Any
from urllib.parse import parse_qs, quote, unquote_plus, urlsplit

import pytest
from markdown_it import MarkdownIt
from starlette.testclient import TestClient

from memsync.agents.recall_records import Recall, RecalledLine, digests, record
from memsync.memory import Memory
from memsync.model.json import to_json
from memsync.model.text import visible
from memsync.system import clock
from memsync.web.app import make_app
from memsync.web.pages.markdown import rendered
from memsync.web.pages.view import link, note_url
from memsync.web.site import Site
from tests.conftest import SMALL_DATA, Write, data_folders
from tests.support.daemon_process import Cli
from tests.support.repository import SPRING, Repository

MAX_BYTES = 100_000
TODAY = clock.today().isoformat()
HTML = {"Accept": "text/html"}
PAGES = (
    "/", "/?q=heron", "/?q=kind:daily", "/?q=nothing-has-this kind:daily", "/notes", "/notes?folder=daily/",
    "/note/birds.md", "/note/birds.md?line=3-4", "/threads", "/log", "/memory",
    "/upkeep", "/upkeep?show=duplicates", "/upkeep?show=contradictions", "/upkeep?show=check", "/usage", "/recalls",
    "/health", "/help",
)  # fmt: skip
SCHEMES = "javascript:alert(1)", "data:text/html,<script>alert(1)</script>", "vbscript:x", "file:///etc/passwd", "x:y"
BIDI = "\u202e\u2066\u200b\ufeff\x1b\0"


class Elements(HTMLParser):
    """The start tags of a page with their attributes, and its text."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_data(self, data: str) -> None:
        self.text += data

    def attributes(self, tag: str, name: str) -> list[str]:
        """Return the values of an attribute of all elements of a kind."""
        return [given[name] for kind, given in self.tags if kind == tag and name in given]


@pytest.fixture
def browser(client: TestClient) -> TestClient:
    """Ask for pages, as a browser does."""
    client.headers.update(HTML)
    client.follow_redirects = True
    return client


def shown(browser: TestClient, path: str, status: int = 200) -> Elements:
    """Return a page, which must be small and have nothing that a page must not have."""
    answer = browser.get(path)
    assert answer.status_code == status, answer.text[:2000]
    assert len(answer.content) < MAX_BYTES, path
    page = Elements(answer.text)
    for tag, given in page.tags:
        assert tag not in ("iframe", "object", "embed", "base", "meta-refresh"), (path, tag)
        assert tag != "img" or given["src"].startswith("/file/"), (path, given)
        assert not any(name.startswith("on") or name == "style" for name in given), (path, tag, given)
        assert tag != "script" or given["src"].startswith("/static/"), path
        assert tag != "style", path
        for name in ("src", "action"):
            assert given.get(name, "/").startswith("/"), (path, given)
        href = given.get("href", "/")
        assert urlsplit(href).scheme in ("", "http", "https", "mailto", "vscode"), (path, href)
    assert not set(BIDI) & set(answer.text), path
    return page


def local_links(page: Elements) -> Iterator[str]:
    """Yield the links of a page to other pages of the server."""
    for href in page.attributes("a", "href"):
        parts = urlsplit(href)
        if not parts.scheme and parts.path:
            yield f"{parts.path}?{parts.query}".rstrip("?")


@pytest.fixture
def full(site: Site, write: Write, memory: Memory) -> Memory:
    """Fill the memory with something for each page."""
    write("store.md", "---\ntitle: Store\ntags: [x]\n---\n# Store\n\nSee [[birds]], [b](birds.md#birds), [[gone]].\n")
    for name in ("copy", "other"):
        write(
            f"{name}.md", f"# {name}\n\nA passage of quite a few words that two notes have in common, to the letter.\n"
        )
    write(f"daily/{TODAY}.md", f"# {TODAY}\n\n- 09:00 we chose SQLite for the store #decision\n- 10:00 x [[store]]\n")
    write("daily/2020-01-01.md", "# 2020-01-01\n\n- 10:00 long ago\n")
    memory.new_thread("The bridge", user="kim", session="s1")
    for role, text in (("user", "Does the *heron* fish?"), ("assistant", "It does.")):
        memory.append_message("the-bridge", role, text, model="m1", tokens_in="8", tokens_out="3", cost="0.0031")
    memory.sync()
    return memory


# ------------------------------------------------------------------------------------------------- every page


def test_every_page_is_small_and_its_links_lead_somewhere(full: Memory, browser: TestClient) -> None:
    """None has a script, a style or a frame of its own. Each says how old the index is, and its links are answered."""
    links = set()
    for path in PAGES:
        page = shown(browser, path)
        assert page.attributes("html", "lang") == ["en"]
        assert any(tag == "h1" for tag, _ in page.tags), path
        assert "were compared with the index" in page.text, path
        links |= set(local_links(page))
    for url in sorted(links):
        of_git = url.startswith(("/history", "/blame", "/changes"))  # they say that there is no repository
        assert browser.get(url).status_code == (400 if of_git else 200), url


@pytest.mark.parametrize(
    ("path", "operation", "arguments"),
    [
        ("/note/birds.md.json", None, {}),
        ("/memory.json", None, {}),
        ("/upkeep.json", "proposals", {}),
        ("/health.json", "status", {}),
    ],
)
def test_each_page_is_also_json(
    full: Memory, client: TestClient, path: str, operation: str | None, arguments: dict[str, Any]
) -> None:
    """The JSON is the result of its operation, or several results by their names."""
    answer = client.get(path)
    assert answer.headers["content-type"] == "application/json"
    if operation:
        assert answer.json() == to_json(getattr(full, operation)(**arguments))
    assert len(answer.json()) > 1 or operation


def test_search_page_is_the_json_of_its_search(full: Memory, client: TestClient) -> None:
    """A client that prefers JSON gets it from the address of the page."""
    answer = client.get("/?q=heron", headers={"Accept": "application/json"}).json()
    assert [hit["citation"] for hit in answer["hits"]] == [hit.citation for hit in full.search("heron").hits]


def test_unknown_page_says_what_to_do(browser: TestClient, write: Write) -> None:
    """Also a note that does not exist: the nearest path is a link, and so is a search for its name."""
    page = shown(browser, "/note/brids.md", 404)
    assert "does not exist" in page.text
    assert {"/note/birds.md", "/?q=brids", "/notes"} <= set(page.attributes("a", "href"))
    write("a/long/way/down/the kingfisher.md", "x\n")
    page = shown(browser, "/note/the kingfishr", 404)
    assert "/note/a/long/way/down/the%20kingfisher.md" in page.attributes("a", "href")
    shown(browser, "/nowhere", 404)


def test_first_page_and_notes_show_what_there_is(full: Memory, write: Write, browser: TestClient) -> None:
    """The log of today, notes that changed, folders and tags with counts, and what waits; a folder has its notes."""
    full.propose("The store is SQLite.", (f"daily/{TODAY}.md:3",))
    write("in/deep/a.md", "---\ndescription: D\n---\n# Deep\n")
    write("archive/old.md", "x #gone\n")
    full.sync()
    page = shown(browser, "/")
    for text in ("Today", "we chose SQLite", "Store", "1 proposed change", "in 1", "x 1", "decision 1"):
        assert text in " ".join(page.text.split()), text
    assert {"/notes?folder=in%2F", "/?q=tag%3Ax", "/note/store.md"} <= set(page.attributes("a", "href"))
    assert "gone" not in page.attributes("a", "href")
    assert "/notes?folder=in%2Fdeep%2F" in shown(browser, "/notes").attributes("a", "href")
    inside = shown(browser, "/notes?folder=in/")
    assert "/note/in/deep/a.md" in inside.attributes("a", "href")
    assert "/note/store.md" not in inside.attributes("a", "href")
    assert "No note is here" in shown(browser, "/notes?folder=../etc/").text


@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("/", "Search"), ("/note/birds.md", "Notes"), ("/log", "Log"), ("/threads", "Conversations"),
        ("/upkeep", "More"), ("/help", "More"),
    ],
)  # fmt: skip
def test_bar_has_five_places(full: Memory, browser: TestClient, path: str, place: str) -> None:
    """Each page is under one of them."""
    bar = browser.get(path).text.partition('aria-label="Pages"')[2].partition("</nav>")[0]
    assert re.findall(r">(\w+)</a>", bar) == ["Search", "Notes", "Log", "Conversations", "More"]
    assert re.findall(r'aria-current="\w+">(\w+)<', bar) == [place]


# ----------------------------------------------------------------------------------------------------- search


def test_chips_add_and_remove_filters_of_the_query(full: Memory, browser: TestClient) -> None:
    """Each chip is a link to the query with one filter more, or one less."""
    page = shown(browser, "/?q=heron kind:daily tag:x")
    queries = [parse_qs(urlsplit(url).query).get("q", [""])[0] for url in page.attributes("a", "href")]
    assert "heron tag:x" in queries
    assert "heron kind:daily" in queries
    assert "heron kind:daily tag:x is:current" in queries


def test_matches_are_marked_and_scores_explained(full: Memory, browser: TestClient) -> None:
    """Each hit leads to its lines, and says on demand why it was found."""
    page = shown(browser, "/?q=heron")
    hit = full.search("heron").hits[0]
    assert note_url(hit.path, hit.start_line, hit.end_line) in page.attributes("a", "href")
    assert note_url(hit.path) in page.attributes("a", "href")
    assert ("mark", {}) in page.tags
    assert ("details", {}) in page.tags
    assert f"{hit.score:.2f}" in page.text
    assert "keyword" in page.text


def test_hits_are_grouped_and_their_sentences_marked(
    site: Site, write: Write, memory: Memory, browser: TestClient
) -> None:
    """A note is named once; the sentence with most words is marked in the snippet."""
    text = "We met one time.\nThe store is fast.\nOne time the store of the heron broke. Nobody minded one <b> time.\n"
    write("a.md", f"# Store\n\n## First\n\n{text}\n## Second\n\nThe store and the heron.\n")
    memory.sync()
    html = browser.get("/?q=one time the store of the heron broke").text
    assert html.count('href="/note/a.md"') == 1
    sentence = re.search(r'<span class="said">(.*?)</span>', html.replace("\n", " "))
    assert sentence
    assert re.sub(r"</?mark>", "", sentence[1]).strip() == "One time the store of the heron broke."
    assert re.findall(r"<mark>(.*?)</mark>", sentence[1]) == ["store", "heron", "broke"]
    assert "<mark>one</mark>" in browser.get("/?q=one time").text.lower()


def test_search_without_hits_says_what_to_try(full: Memory, browser: TestClient) -> None:
    """Each filter can be left out, and so can the quotes; the folders are near."""
    page = shown(browser, '/?q="no such words" heron kind:thread')
    assert {'/?q="no such words" heron', "/?q=heron", "/notes"} <= set(map(unquote_plus, page.attributes("a", "href")))


def test_wrong_query_is_explained_in_its_place(full: Memory, browser: TestClient) -> None:
    """The field keeps what was typed."""
    page = shown(browser, "/?q=tags:work")
    assert 'Did you mean "tag:"?' in page.text
    assert page.attributes("input", "value") == ["tags:work"]


def test_search_while_somebody_types_is_no_use_of_a_note(full: Memory, browser: TestClient) -> None:
    """Only the whole page counts as a search."""
    full.usage.flush()
    before = full.stats().searches
    for query in ("h", "he", "heron"):
        assert "<html" not in browser.get(f"/?q={query}&part=hits").text
    browser.get("/")
    assert full.stats().searches == before
    browser.get("/?q=heron")
    assert full.stats().searches == before + 1


@pytest.mark.slow
def test_ten_thousand_hits_come_in_pages(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """A search has at most 1,000; the last page says so."""
    for note in range(40):
        sections = (f"## Section {n}\n\nThe heron number {note * 250 + n} nests.\n\n" for n in range(250))
        write(f"n{note}.md", "".join(sections))
    memory.sync()
    page, seen, path = shown(browser, "/?q=kind:note heron"), set[str](), ""
    while following := [given["href"] for tag, given in page.tags if tag == "a" and given.get("rel") == "next"]:
        seen |= {url for url in page.attributes("a", "href") if "?line=" in url}
        path = following[0]
        if "from=30" in path:  # far enough
            path = path.replace("from=30", "from=990")
        page = shown(browser, path)
    assert len(seen) == 30
    assert "at most 1,000 hits" in page.text


@pytest.mark.slow
def test_pages_of_a_large_memory_are_small(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """Long lists are cut or come in pages, whatever their rows have."""
    name, line = "a name of some length " * 4, "A statement of quite a few words about something else. " * 5
    for n in range(120):
        for folder in ("projects", "daily", "prompts"):
            day = clock.today() - timedelta(days=n)
            title = day.isoformat() if folder == "daily" else f"{name}{n}"
            write(f"{folder}/{title}.md", f"# {title}\n\n" + "".join(f"- we chose {n} {k} {line}\n" for k in range(4)))
        write(f"threads/{name}{n}.md", f"---\nuser: {name}\nstatus: active\nsession: s{n}\n---\n\n## user\n\n{line}\n")
    memory.sync()
    memory.curate()
    for session in range(30):
        for prompt in range(20):
            lines = tuple(
                RecalledLine(f"projects/{name}{n}.md:3", 0.5, "less than 0.8 of the best line") for n in range(20)
            )
            record(
                Recall("2026-11-21T10:00:00+00:00", "codex", f"s{session}", "prompt", "/x", f"{prompt}{line}", lines)
            )
    for path in PAGES:
        shown(browser, path)
    assert {"/recalls?session=s3", "/recalls?session=s29"} & set(shown(browser, "/recalls").attributes("a", "href"))


# ------------------------------------------------------------------------------------------------------- notes


def body_of(browser: TestClient, path: str) -> str:
    return browser.get(path).text.partition('<div class="note">')[2].partition("<aside")[0]


def test_note_is_rendered_with_its_lines_marked(site: Site, write: Write, browser: TestClient) -> None:
    """Each block has its line as id; marked lines have a class, also if they begin within a block."""
    write("a.md", "# A\n\none\ntwo\n\n- x\n- y\n  - z\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n\n```\ncode\n```\n")
    html = body_of(browser, "/note/a.md?line=4-6")
    assert '<span id="L3" class="hit"><i id="L4"></i>one' in html
    assert '<span id="L6" class="hit">x' in html
    assert '<span id="L7">y' in html
    assert '<th class="right">' in html
    assert '<pre id="L14">' in html
    ids = re.findall(r'id="(L\d+)"', html)
    assert len(ids) == len(set(ids))


def test_links_lead_to_notes_and_to_the_web_alone(full: Memory, write: Write, browser: TestClient) -> None:
    """What memsync resolves is a link, a web page is one that tells nobody where it was found, all else is text."""
    bad = "".join(f"\n- [x]({scheme}) <{scheme}>" for scheme in SCHEMES)
    write(
        "a.md", f"[[birds]] [b](birds.md#birds) [w](https://e.org/?a=b&c) [[gone]] ![pic](https://e.org/p.png)\n{bad}\n"
    )
    page = shown(browser, "/note/a.md")
    urls = page.attributes("a", "href")
    assert "/note/birds.md" in urls
    assert "/note/birds.md?to=birds" in urls
    assert {given["rel"] for tag, given in page.tags if given.get("href") == "https://e.org/?a=b&c"} == {
        "noopener noreferrer"
    }
    assert "pic (https://e.org/p.png)" in page.text
    assert not [url for url in urls if urlsplit(url).scheme not in ("", "https")]


def test_link_to_a_heading_opens_its_line(full: Memory, write: Write, browser: TestClient) -> None:
    """So do a citation, a title and a link by name; a missing heading opens the note."""
    write("a.md", "# One\n\n## Two\n\ntext ^why\n")
    full.sync()
    browser.follow_redirects = False
    for asked, url in (
        ("a.md?to=two", "/note/a.md?line=3-3#L3"),
        ("a?to=%5Ewhy", "/note/a.md?line=5-5#L5"),
        ("a.md:5", "/note/a.md?line=5-5#L5"),
        ("One", "/note/a.md"),
        ("a.md?to=three", "/note/a.md"),
    ):
        assert browser.get(f"/note/{asked}").headers["location"] == url


def said(markdown: str) -> str:
    """Return the text that a person sees of Markdown, on a page without a memory."""
    lines = markdown.split("\n")
    return plain(str(rendered(lines, 1, len(lines), range(0), None)))


def plain(html: str) -> str:
    """Return the text of HTML, with the words and the target of each image."""
    blocks = re.sub(r"(?=<(?:p|br|li|pre|t[dhr]|h\d|blockquote)\b)", " ", html)
    return " ".join(Elements(re.sub(r'<img src="(.*?)" alt="(.*?)".*?>', r"\2 (\1)", blocks)).text.split())


@pytest.mark.parametrize("folder", data_folders(), ids=lambda folder: folder.name)
def test_what_a_person_sees_is_what_commonmark_says(folder: Path) -> None:
    """Of each example of the specification. HTML is text; links by name, tasks and footnotes are left out."""
    file = folder / ("examples.json" if folder == SMALL_DATA else "commonmark.json")
    reference = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    texts = [one["markdown"] for one in json.loads(file.read_text())]
    texts = [text for text in texts if not re.search(r"\[\[|^- \[[ x]]|\[\^\d", text)]
    assert len(texts) > 90
    assert [text for text in texts if said(text) != plain(reference.render(visible(text)))] == []


@pytest.mark.parametrize(
    ("markdown", "text"),
    [
        (r"C:\new \int snake\_case \[[x]] \#no &copy; &#42;", r"C:\new \int snake_case [[x]] #no © *"),
        ("a %%hidden%% b", "a b"),
        ("%%\nhidden\n\n- hidden\n%%\nafter", "after"),
        ("- a\n\n  %%\n  hidden\n  %%\n- b", "a b"),
        ("> %%\n> hidden\n> %%\n> b", "b"),
        ("%%\nwithout an end\n\nb", "%% without an end b"),
        ("100%% sure and 50%% off",) * 2,
        ("x==1 and y==2, == a ==",) * 2,
        ("$5 and $10, US$5, 5$-10$, $HOME/$USER, $PATH:$a, a $5 bill, 10$",) * 2,
        (r"\$x$ \==a== \%%b%%", "$x$ ==a== %%b%%"),
        ("`$a$` `==b==` `%%c%%`", "$a$ ==b== %%c%%"),
        ("[-] dropped",) * 2,
        ("![x](https://e.org/p.png)", "x (https://e.org/p.png)"),
    ],
)  # fmt: skip
def test_text_that_is_no_notation_stays_as_it_is(markdown: str, text: str) -> None:
    """Escapes, comments, prices and comparisons; a comment without an end hides nothing."""
    assert said(markdown) == text


@pytest.mark.parametrize(
    ("markdown", "html"),
    [
        ("> [!Note] A *b*", '<div class="callout" data-kind="note"><p class="title" data-kind="Note">A <em>b</em></p>'),
        ("> [!tip]+\n> a", '<details class="callout" data-kind="tip" open=""><summary class="title">Tip</summary>'),
        ("> [!bug]- <b>\n> a", 'data-kind="bug">&lt;b&gt;</summary><span id="L1">a</span>'),
        ("> [!a]\n> > [!b] c\n> > d\n\ne", '<span id="L2">d</span></div>\n</div>\n<p><span id="L5">e'),
        ("a ==b *c*== d", "a <mark>b <em>c</em></mark> d"),
        ("==a `==` b==", "<mark>a <code>==</code> b</mark>"),
        ("- [x] a *b*", ' disabled="" aria-label="done" checked="" /><span id="L1"> a <em>b</em>'),
        ("1. [ ] a", '<li class="task"><input type="checkbox" disabled="" aria-label="open" /><span id="L1"> a'),
        (r"$\int_0^1 x\$$", r'<code class="math">\int_0^1 x\$</code>'),
        ("$$\na\n\n- b\n$$", '<pre id="L1" data-language="latex"><code>a\n\n- b\n</code>'),
        ("the $n$th and $\\sin(x)$s", '<code class="math">n</code>th and <code class="math">\\sin(x)</code>s'),
        ("函数$f(x)$的", '<code class="math">f(x)</code>'),
        ("```py x\ncode\n```", '<pre id="L1" data-language="py"><code>code'),
        ("a[^1]\n\n[^1]: b", '<sup><a href="#L3">1</a></sup>'),
        ("| a |\n|--|\n| ==b== |", "<mark>b</mark></span></td>"),
    ],
)  # fmt: skip
def test_what_obsidian_adds_is_shown_as_what_it_is(markdown: str, html: str) -> None:
    """Callouts, highlights, tasks, formulas, code and footnotes; nothing in them is HTML."""
    lines = markdown.split("\n")
    assert html in str(rendered(lines, 1, len(lines), range(0), None))


@pytest.mark.parametrize(
    "text", ["%% a\n", "$$ a\n", "> %% a\n", "$x", "==a ", "%%a ", "![[a", "$x\\", "==`a", "> [!a]\n> b\n\n"]
)
def test_marks_without_an_end_take_no_quadratic_time(text: str) -> None:
    """Twice the text takes about twice the time, or is shown as it is."""
    lines = (text * (200_000 // len(text))).split("\n")
    begun = process_time()
    rendered(lines, 1, len(lines), range(0), None)
    assert process_time() - begun < 20


def test_embeds_show_pictures_of_the_root_alone(
    site: Site, write: Write, memory: Memory, browser: TestClient, root: Path, tmp_path: Path
) -> None:
    """Not those that are hidden, excluded, ignored, linked, outside, too large, or no pictures."""
    write(".gitignore", "*.webp\nprivate/\n")
    svg = "<svg xmlns='http://www.w3.org/2000/svg'><script>alert(1)</script></svg>"
    names = "a b.svg", "in/c.png", "x.webp", "private/p.png", ".hid/h.png", ".h.png", "no.html", "big.gif"
    for name in names:
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text(svg)
    os.truncate(root / "big.gif", 20_000_001)
    (tmp_path / "out.png").write_text(svg)
    (root / "link.png").symlink_to(tmp_path / "out.png")
    links = "![[a b.svg|words|40]] ![two|30x20](in/c.png) ![[birds]] ![[no.html]] ![[gone.png]] [c](in/c.png)"
    write("a.md", links)
    write(f"daily/{TODAY}.md", f"# {TODAY}\n\n- 10:00 ![[c.png]]\n")
    memory.sync()
    page = shown(browser, "/note/a.md")
    assert page.attributes("img", "src") == ["/file/a%20b.svg", "/file/in/c.png"]
    assert page.attributes("img", "width") == ["40", "30"]
    assert {"/note/birds.md", "/file/in/c.png"} <= set(page.attributes("a", "href"))
    answer = browser.get("/file/a%20b.svg")
    assert (answer.text, answer.headers["content-type"]) == (svg, "image/svg+xml")
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert "sandbox" in answer.headers["content-security-policy"]
    assert "script-src" not in answer.headers["content-security-policy"]
    assert browser.get("/file/in/c.png").headers["content-type"] == "image/png"
    assert shown(browser, "/log").attributes("img", "src") == []
    refused = (
        *names[2:],
        "link.png",
        "gone.png",
        "../out.png",
        "%2e%2e/out.png",
        "/etc/p.png",
        "in/",
        "birds.md",
        "%00.png",
    )
    assert {name: browser.get(f"/file/{name}").status_code for name in refused} == dict.fromkeys(refused, 404)


def test_html_of_a_note_is_shown_as_text(site: Site, write: Write, browser: TestClient) -> None:
    """Neither elements, nor entities, nor front matter, nor names of threads and tags can add an element."""
    evil = '<script>alert(1)</script><svg onload=alert(1)><img src=x onerror=alert(1)>"><b>&lt;i&gt;&#x202e;'
    head = f"---\ntitle: '{evil}'\nstatus: '<b>'\nuser: '{evil}'\n'<b>': '{evil}'\n---\n"
    write("a.md", f"{head}# {evil}\n\n{evil}\n\n<div onclick=x>\n\n`{evil}`\n")
    write("threads/t.md", f'{head}\n## user {{model="<b>" x="<i>"}}\n\n{evil}\n')
    for path in ("/note/a.md", "/note/threads/t.md", "/threads", "/memory", "/?q=alert", "/log"):
        page = shown(browser, path)
        assert not {"b", "svg onload", "div onclick"} & {tag for tag, _ in page.tags}, path
    assert "<script>alert(1)</script>" in shown(browser, "/note/a.md").text


def test_invisible_characters_are_replaced(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """No page passes on what changes the writing direction, or hides."""
    write("a.md", f"# Title {BIDI}x\n\nheron {BIDI} &#x202e; `{BIDI}` [[x{BIDI}]] #tag{BIDI}\n")
    memory.sync()
    for path in ("/note/a.md", "/?q=heron", "/memory", f"/?q={quote('heron' + BIDI)}"):
        shown(browser, path)


@pytest.mark.parametrize("name", ["a b.md", "a#b.md", "a?b=c.md", 'q"uote.md', "new\nline.md", "ö é.md", "&amp;.md"])
def test_notes_of_any_name_are_found(site: Site, write: Write, memory: Memory, browser: TestClient, name: str) -> None:
    """A search leads to the note, whatever characters its name has."""
    write(name, "The kingfisher dives.\n")
    memory.sync()
    urls = [url for url in shown(browser, "/?q=kingfisher").attributes("a", "href") if url.startswith("/note/")]
    assert "kingfisher" in shown(browser, urls[0]).text


def test_long_note_comes_in_parts(site: Site, write: Write, browser: TestClient) -> None:
    """Each line is in exactly one part, none is cut within a block, and a marked line is in the part that is shown."""
    write("long.md", "# Long\n\n" + "".join(f"- item {n} {'word ' * 30}\n" for n in range(2000)))
    path, seen = "/note/long.md", list[str]()
    while path:
        page = shown(browser, path)
        seen += re.findall(r"item (\d+) ", page.text)
        path = next((given["href"] for tag, given in page.tags if given.get("rel") == "next"), "")
    assert seen == [str(n) for n in range(2000)]
    assert "item 1500 " in shown(browser, "/note/long.md?line=1503-1503").text


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "word " * 2_000_000, "one line of text\n" * 600_000, "&" * 200_000, "[[birds]]" * 20_000, "*" * 200_000,
        "[" * 200_000, "> " * 100_000, "```\n" + "code\n" * 40_000,
    ],
    ids=["a line of 10 MB", "10 MB", "ampersands", "links", "stars", "brackets", "quotes", "fence"],
)  # fmt: skip
def test_hostile_note_makes_small_pages(site: Site, write: Write, browser: TestClient, text: str) -> None:
    """Whatever its markup would become: its first, its second and its last part are small."""
    write("big.md", text)
    page = shown(browser, "/note/big.md")
    following = next((given["href"] for _, given in page.tags if given.get("rel") == "next"), "/note/big.md")
    shown(browser, following)
    shown(browser, "/note/big.md?from=999999")


def test_code_that_goes_on_in_the_next_part_stays_text(site: Site, write: Write, browser: TestClient) -> None:
    """What begins within a block is not read as Markdown."""
    write("code.md", "```\n" + "# no heading\n" * 6_000 + "```\n")
    page = shown(browser, "/note/code.md?from=5000")
    assert not [tag for tag, _ in page.tags if tag == "h1"][1:]


def test_amplified_markup_is_shown_as_text(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """Short text whose HTML is large, in one message or in many, and in a log: their pages stay small."""
    long_name = "n" * 200
    write(f"{long_name}.md", "# N\n")
    links = f"[[{long_name[:200]}|x]] " * 25
    write("threads/t.md", "".join(f"## user\n\n{'[[n]] ' * 800}\n\n" for _ in range(12)))
    write(f"daily/{TODAY}.md", f"# {TODAY}\n\n" + "".join(f"- 10:{n:02d} {links}\n\n" for n in range(60)))
    write("n.md", "# N\n")
    memory.sync()
    for path in ("/note/threads/t.md", "/log", f"/note/daily/{TODAY}.md"):
        shown(browser, path)


def test_thread_is_shown_as_a_conversation(full: Memory, browser: TestClient) -> None:
    """Each message has its role, its time, its model, tokens and costs."""
    page = shown(browser, "/note/threads/the-bridge.md")
    assert [given["aria-label"] for tag, given in page.tags if tag == "article"] == ["user", "assistant"]
    for text in ("m1", "8 in", "3 out", "$0.0031", "2 messages", "22 tokens", "Does the heron fish?"):
        assert text in page.text


def test_editor_link_is_that_of_the_setting(full: Memory, site: Site, browser: TestClient) -> None:
    """By default there is none, because browsers open no files."""
    assert "Open in editor" not in shown(browser, "/note/birds.md").text
    site.settings.values["cli.open_with"] = "vscode"  # type: ignore[index]
    urls = shown(browser, "/note/birds.md?line=3-3").attributes("a", "href")
    assert f"vscode://file{site.root}/birds.md:3" in urls


def test_what_does_not_hold_is_listed(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """Beside the note, with the reason."""
    write("a.md", "# A\n\n- the office is in Hamburg {valid_until=2020-01-01}\n")
    memory.sync()
    assert "valid until 2020-01-01" in shown(browser, "/note/a.md").text


# --------------------------------------------------------------------------------------------- the other pages


def test_log_shows_a_year_and_chooses_a_month(full: Memory, browser: TestClient) -> None:
    """The heat map has a square for each day; entries of other months are left out."""
    page = shown(browser, "/log")
    assert sum(tag == "rect" for tag, _ in page.tags) >= 365
    assert "we chose SQLite" in page.text
    assert "/note/store" in page.attributes("a", "href")
    assert "long ago" in page.text
    month = (clock.today().replace(day=1) - timedelta(days=1)).isoformat()[:7]
    assert "we chose SQLite" not in shown(browser, f"/log?month={month}").text
    assert "long ago" in shown(browser, "/log?month=2020-01").text


def test_log_runs_in_one_direction(site: Site, write: Write, memory: Memory, browser: TestClient) -> None:
    """Newest first, also within a day whose lines are in no order, and over its pages."""
    times = [f"{8 + n // 6:02d}:{n % 6}0" for n in range(55)]
    mixed = times[::2] + times[1::2]
    write(f"daily/{TODAY}.md", f"# {TODAY}\n\n" + "".join(f"- {time} heron {time}\n  more\n" for time in mixed))
    memory.sync()
    first = shown(browser, "/log")
    following = next(given["href"] for tag, given in first.tags if given.get("rel") == "next")
    assert re.findall(r"(\d\d:\d\d) heron", first.text + shown(browser, following).text) == times[::-1]
    line = 3 + 2 * mixed.index(times[-1])
    assert f"/note/daily/{TODAY}.md?line={line}-{line + 1}#L{line}" in first.attributes("a", "href")


def test_memory_says_what_is_due(full: Memory, browser: TestClient) -> None:
    """And shows the notes of each tier."""
    text = shown(browser, "/memory").text
    assert "daily/2020-01-01.md" in text.partition("Due to be archived")[2]
    assert "memsync prune --apply" in text


def test_proposal_is_accepted_line_by_line(full: Memory, browser: TestClient, site: Site, root: Path) -> None:
    """The chosen lines are applied or rejected, the others stay open."""
    full.propose("The store is SQLite.", (f"daily/{TODAY}.md:3",))
    full.curate()
    number = next(one.number for one in full.proposals().proposals if len(one.changes) >= 1)
    assert f"/upkeep?proposal={number}" in shown(browser, "/upkeep").attributes("a", "href")
    page = shown(browser, f"/upkeep?proposal={number}")
    assert f"/upkeep/{number}" in page.attributes("form", "action")
    origin = {"Origin": f"http://127.0.0.1:{site.port}"}
    answer = browser.post(f"/upkeep/{number}", data={"line": "1", "do": "accept"}, headers=origin)
    assert answer.status_code == 200
    assert full.proposal(number).changes[0].state == "accepted"
    assert "SQLite" in (root / "MEMORY.md").read_text()
    again = browser.post(f"/upkeep/{number}", data={"line": "1"}, headers=origin)
    assert "has nothing open there" in unescape(again.text)
    assert browser.post(f"/upkeep/{number}", data={}, headers=origin).status_code == 400


def test_change_that_cannot_be_applied_says_why(full: Memory, browser: TestClient, site: Site, write: Write) -> None:
    """It stays open."""
    full.propose("The store is SQLite.", (f"daily/{TODAY}.md:3",))
    write(f"daily/{TODAY}.md", "# other\n")
    headers = {"Origin": f"http://127.0.0.1:{site.port}"}
    answer = browser.post("/upkeep/1", data={"line": "1", "do": "accept"}, headers=headers)
    assert "is not applied" in unescape(answer.text)
    assert full.proposal(1).changes[0].state == "open"


def test_site_that_only_reads_offers_no_buttons(full: Memory, site: Site, client: TestClient) -> None:
    """Nor does it accept a change."""
    full.propose("The store is SQLite.", (f"daily/{TODAY}.md:3",))
    reading = Site(site.settings, site.open, site.port, is_read_only=True)
    headers = {**client.headers, **HTML, "Origin": f"http://127.0.0.1:{site.port}"}
    with TestClient(make_app(reading), base_url=f"http://127.0.0.1:{site.port}", headers=headers) as browser:
        assert 'name="line"' not in browser.get("/upkeep").text
        assert browser.post("/upkeep/1", data={"line": "1"}).status_code == 403


def test_upkeep_finds_what_is_wrong(full: Memory, browser: TestClient) -> None:
    """Duplicates with both places, and links to nothing."""
    duplicates = shown(browser, "/upkeep?show=duplicates")
    places = {urlsplit(url).path for url in duplicates.attributes("a", "href")}
    assert {"/note/copy.md", "/note/other.md"} <= places
    assert "[[gone]] leads nowhere" in shown(browser, "/upkeep?show=check").text


def test_usage_is_plotted(full: Memory, browser: TestClient) -> None:
    """Searches and costs are plots with a description."""
    browser.get("/?q=heron")
    full.usage.flush()
    labels = shown(browser, "/usage").attributes("svg", "aria-label")
    assert any(label.startswith("Searches a day") for label in labels)
    assert any(label.startswith("Cost a day") for label in labels)
    assert not any(label.startswith("Searches that found nothing") for label in labels)  # there were none
    page = shown(browser, "/usage")
    assert any(tag == "circle" for tag, _ in page.tags)


def test_recalls_say_why(full: Memory, browser: TestClient) -> None:
    """What an agent heard, and what was held back; only citations of this memory are links."""
    lines = (
        RecalledLine("birds.md:3-4", 0.9),
        RecalledLine("store.md:6", 0.8),
        RecalledLine("../x.md:1", 0.5),
        RecalledLine("other:a.md:1", 0.4, "too unlikely"),
    )
    heard = digests("- The heron nests in the alder.\nSomething that the store said before.")
    moment = "2026-11-21T10:00:00+00:00"
    record(Recall(moment, "codex", "s1", "prompt", "/x", "which <b>bird</b>", lines, heard, tokens=9))
    page = shown(browser, "/recalls")
    assert "The heron nests in the alder." in page.text
    assert "The tern dives" not in page.text
    assert page.text.count("The note has changed since.") == 1
    assert "/note/birds.md?line=3-4#L3" in page.attributes("a", "href")
    assert "held back: too unlikely" in page.text
    assert "which <b>bird</b>" in page.text
    assert not any("other" in url for url in page.attributes("a", "href"))


def test_links_leave_out_what_is_empty() -> None:
    """So that equal pages have equal addresses."""
    assert link("/", q="", mode="") == "/"
    assert link("/", q="a b", mode="", start=0) == "/?q=a+b"


def test_commit_that_the_slider_does_not_offer_is_chosen(
    site: Site, browser: TestClient, repository: Repository, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hits are of that commit, and so is what is selected, however old it is."""
    for text in ("The heron nests.\n", "The heron sleeps.\n"):
        write("a.md", text)
        repository.commit(SPRING)
    monkeypatch.setattr("memsync.web.pages.history.COMMITS", 1)
    page = shown(browser, "/?q=heron&at=main~1")
    chosen = [
        dict(attributes)["value"] for tag, attributes in page.tags if tag == "option" and "selected" in dict(attributes)
    ]
    assert chosen == [repository.git("rev-parse", "main~1")[:12]]


# ------------------------------------------------------------------------------------------------------ export


@pytest.mark.parametrize("words", [["heron"], ["birds.md", "store.md"]])
def test_export_is_one_file_that_needs_nothing(full: Memory, cli: Cli, tmp_path: Path, words: list[str]) -> None:
    """The hits of a query, or notes, with the design in the file, no script, and no link to a server."""
    (cli.root / "store.md").write_text("The heron #tag is in [[birds]], [here](birds.md) and [there](#x).\n")
    file = tmp_path / "page.html"
    done = cli("thread", "export", "--html", str(file), *words)
    assert done.returncode == 0, done.stderr
    page = Elements(file.read_text())
    assert "heron" in page.text
    assert not {"script", "link", "form", "img"} & {tag for tag, _ in page.tags}
    assert not page.attributes("a", "href")


def test_export_to_standard_output(full: Memory, cli: Cli, tmp_path: Path) -> None:
    """`-` is no file of that name."""
    done = cli("--root", str(cli.root), "thread", "export", "--html", "-", "heron", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "heron" in Elements(done.stdout).text
    assert not (tmp_path / "-").exists()

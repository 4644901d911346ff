"""What `make docs` builds: every page is in the navigation, and nothing is loaded from another machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.conftest import PROJECT
from tools import docs_hook, offline


def pages_of(nav: list[dict[str, object]]) -> list[str]:
    """Return the pages of a navigation, in order."""
    found = list[str]()
    for entry in nav:
        for item in entry.values():
            found += pages_of(item) if isinstance(item, list) else [str(item)]
    return found


def test_every_page_is_in_the_navigation_once() -> None:
    """mkdocs.yml names each page of docs/."""
    nav = yaml.safe_load((PROJECT / "mkdocs.yml").read_text())["nav"]
    assert sorted(pages_of(nav)) == sorted(path.name for path in (PROJECT / "docs").glob("*.md"))


@pytest.mark.parametrize(
    "content",
    [
        '<script src="https://cdn.example/a.js"></script>', '<link rel="stylesheet" href="//fonts.example/a.css">',
        '<img src="http://pictures.example/a.png">', "<style>@import 'https://fonts.example/a.css';</style>",
        '<p style="background: url(https://pictures.example/a.png)">',
    ],
)  # fmt: skip
def test_page_that_loads_from_another_machine_is_named(tmp_path: Path, content: str) -> None:
    """Scripts, styles, fonts and pictures."""
    (tmp_path / "page.html").write_text(content)
    assert len(offline.remote_loads(tmp_path)) == 1


def test_links_that_a_person_follows_are_no_loads(tmp_path: Path) -> None:
    """And neither are the page's own files."""
    (tmp_path / "page.html").write_text(
        '<a href="https://example.org">x</a><link rel="canonical" href="https://example.org/"><img src="page.png">'
        '<script src="a.js"></script><style>p { background: url(page.png) }</style>'
    )
    assert offline.remote_loads(tmp_path) == []


def test_links_out_of_the_pages_keep_their_words() -> None:
    """The built pages stand alone; the README's place is that of the start page."""
    text = "[errors](../memsync/errors.py), [README](../README.md#compared), [search](search.md)"
    assert docs_hook.on_page_markdown(text) == "errors, [README](index.md), [search](search.md)"

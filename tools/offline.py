"""Fail if a page of the folder SITE would load anything from another machine: `python tools/offline.py SITE`."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

REMOTE = re.compile(r"\s*(https?:)?//", re.IGNORECASE)
LOADED_LINKS = {"stylesheet", "icon", "preconnect", "preload", "prefetch", "modulepreload", "manifest", "dns-prefetch"}
IN_CSS = re.compile(r"""(?:url\(|@import)\s*["']?\s*(?:https?:)?//[^"')\s]+""", re.IGNORECASE)


class Loads(HTMLParser):
    """Collects the addresses on other machines that a browser would load; a link that a person follows is none."""

    def __init__(self) -> None:
        super().__init__()
        self.remote: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        names = ["src", "srcset", "data", "poster", "style"]
        if tag == "link" and LOADED_LINKS & set(values.get("rel", "").lower().split()):
            names.append("href")
        for name in names:
            value = values.get(name, "")
            if REMOTE.match(value) or (name == "style" and IN_CSS.search(value)):
                self.remote.append(f"<{tag} {name}={value}>")

    def handle_data(self, data: str) -> None:
        if (self.rawdata and self.cdata_elem == "style") and (found := IN_CSS.findall(data)):
            self.remote += found


def remote_loads(site: Path) -> list[str]:
    """Return what the HTML, CSS and SVG of a folder would load from other machines."""
    found = list[str]()
    for path in sorted(site.rglob("*")):
        text = path.read_text() if path.suffix in (".html", ".css", ".svg") else ""
        if path.suffix == ".html":
            parser = Loads()
            parser.feed(text)
            loads = parser.remote
        else:
            loads = IN_CSS.findall(text)
        found += [f"{path}: {one}" for one in loads]
    return found


if __name__ == "__main__":
    wrong = remote_loads(Path(sys.argv[1]))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(1 if wrong else 0)

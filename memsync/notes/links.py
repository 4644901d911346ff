"""Say which note or file a link means, and what else a link to it may be written as. Pure.

A link is read as Obsidian reads it, so that a vault means the same in both: a path from the root, from the note itself
(`./`, `../`, and Markdown links), or the end of a path, of which the shortest is meant. Only if that names nothing, a
title or an alias that one note has.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from urllib.parse import quote

from memsync.model.grouped import grouped
from memsync.model.note import Link
from memsync.model.query import IndexedNote
from memsync.model.vocabulary import NotePath
from memsync.notes.naming import by_titles, folded

NOTE_ENDINGS = (".md", ".markdown", ".mdc")
_EXTERNAL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]{0,30}:|//|\(\(")
_FENCE = re.compile(r"(?: {0,3}|[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+)(`{3,}|~{3,})")
_HEADING = re.compile(r" {0,3}(#{1,6})[ \t]+(.*)$")
_UNDERLINE = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
BLOCK_ID = re.compile(r"(?:^|\s)\^([A-Za-z0-9-]+)[ \t]*$")
_NAMED = re.compile(r"""<\w++[^>]{0,200}?\b(?:id|name)=["']?([\w.:-]{1,100})""")
_LABEL = re.compile(r"!?\[([^\[\]]*)\]\([^()]*\)|\[\[(?:[^\[\]|]*\|)?([^\[\]|]*)\]\]")
CITATION = re.compile(r"(?<![\w/.-])([\w.][^\s:\"'`|<>()\[\]{}]{0,200}\.(?:md|markdown|mdc)):(\d{1,7})(?:-(\d{1,7}))?")
"""A citation in a text: the path of a note, and the first and the last line."""
_NUMBERED = re.compile(r"-\d+$")
_ESCAPED_IN_URL = "/!$&'*+,;=:@~"


class Linked:
    """The notes of a memory, and the other files of its folder, by all that links may call them.

    `other_files` returns paths relative to the root; it is called when a link names no note.
    """

    def __init__(self, notes: Iterable[IndexedNote], other_files: Callable[[], Iterable[str]] = tuple) -> None:
        self.notes = {note.path: note for note in notes}
        self._other_files = other_files
        self._by_name = _by_name(self.notes)

    @cached_property
    def _files(self) -> Mapping[str, list[str]]:
        return _by_name(path for path in self._other_files() if path not in self.notes)

    @cached_property
    def _titled(self) -> Mapping[str, list[NotePath]]:
        return by_titles(self.notes.values())

    def meant(self, link: Link, source: NotePath, *, by_title: bool = True) -> Sequence[str]:
        """Return the files that a link in `source` may mean, the one that is meant first; none if it is dead.

        Without `by_title` only names of files count.
        """
        if is_external(link):
            return ()
        if not link.target:
            return (source,)
        # A file whose name is the whole target comes before the note with another ending: a.jpg before a.jpg.md.
        is_whole = link.target.casefold().endswith(NOTE_ENDINGS) or "." not in link.target.rpartition("/")[2]
        for by_name in (self._by_name, self._files) if is_whole else (self._files, self._by_name):
            if found := _fitting(by_name, link, source):
                return found
        titled = self._titled.get(folded(link.target), ()) if link.wiki and by_title else ()
        return tuple(titled) if len(titled) == 1 else ()

    def target(self, link: Link, source: NotePath) -> str:
        """Return the file that a link means; empty if it is dead or leads out of the memory."""
        return next(iter(self.meant(link, source)), "")

    def spelled(
        self, link: Link, source: NotePath, target: str, *, by_title: bool, is_relative: bool = False
    ) -> str | None:
        """Return the link's target, written so that it means `target` in the note `source`; None if that is impossible.

        A target that means it already stays. A new one is of the same form: a name, a relative path, or one from the
        root; with the ending if the link has it. A title may only stay one (`by_title`): other programs do not read it.
        A link that is a path from its note (`is_relative`) stays one.
        """
        for text in (link.target, *_spellings(link, source, target)):
            found = self.meant(Link(text, "", "", 0, link.wiki), source, by_title=by_title)
            if found and found[0] == target and (not is_relative or is_path_from(source, text, target)):
                return text
        return None


def _by_name(paths: Iterable[str]) -> Mapping[str, list[str]]:
    """Return paths by their file names in lower case, with and without the ending of a note."""
    names = ((path.rpartition("/")[2].casefold(), path) for path in paths)
    return grouped((called, path) for name, path in names for called in {name, _without_ending(name)})


def is_external(link: Link) -> bool:
    """Tell whether a link leads out of the memory or to a block of Logseq: a URL with a scheme or host, or `((id))`."""
    return "://" in link.target if link.wiki else _EXTERNAL.match(link.target) is not None


def is_path_from(source: NotePath, text: str, target: str) -> bool:
    """Tell whether a text is a path from the folder of the note `source` to a target, with or without its ending."""
    return bool(_called((target,), posixpath.normpath(posixpath.join(posixpath.dirname(source), text))))


def _fitting(by_name: Mapping[str, list[str]], link: Link, source: NotePath) -> Sequence[str]:
    """Return the paths that a target names, the one that is meant first.

    Only a name or the end of a path can name several: then those under the folder of the link are meant, or else all,
    and first the shortest path.
    """
    target, folder = link.target, posixpath.dirname(source)
    candidates = by_name.get(target.rpartition("/")[2].casefold(), ())
    if not candidates:
        return ()
    beside = posixpath.normpath(posixpath.join(folder, target))
    if target.startswith(("./", "../")):
        return _called(candidates, beside)
    if target.startswith("/"):
        return _called(candidates, posixpath.normpath(target[1:]))
    from_root = posixpath.normpath(target)
    for exact in (from_root, beside) if link.wiki else (beside, from_root):
        if found := _called(candidates, exact):
            return found
    ending = f"/{_without_ending(from_root).casefold()}"
    fitting = [path for path in candidates if f"/{_without_ending(path).casefold()}".endswith(ending)]
    near = [path for path in fitting if folder and path.startswith(f"{folder}/")] or fitting
    return sorted(near, key=lambda path: (len(path), path))


def _called(candidates: Sequence[str], path: str) -> Sequence[str]:
    """Return the candidate at a path, with or without its ending; its case counts only between two of them."""
    for called in (str, str.casefold):
        if found := [name for name in candidates if called(path) in (called(name), called(_without_ending(name)))]:
            return found[:1]
    return ()


def _spellings(link: Link, source: NotePath, target: str) -> Iterator[str]:
    old, has_ending = link.target, link.target.casefold().endswith(NOTE_ENDINGS)
    written = target if has_ending or not target.casefold().endswith(NOTE_ENDINGS) else _without_ending(target)
    beside = posixpath.relpath(written, posixpath.dirname(source) or ".")
    if old.startswith("/"):
        yield f"/{written}"
    elif old.startswith(("./", "../")) or not link.wiki:
        yield f"./{beside}" if old.startswith("./") and not beside.startswith("../") else beside
    elif "/" not in old:
        yield written.rpartition("/")[2]
    yield written
    yield target


def _without_ending(path: str) -> str:
    stem, dot, ending = path.rpartition(".")
    return stem if f"{dot}{ending}".casefold() in NOTE_ENDINGS else path


def as_url(target: str) -> str:
    """Return a target as it is written between the parentheses of a Markdown link."""
    return "".join(c if not c.isascii() and c.isprintable() else quote(c, safe=_ESCAPED_IN_URL) for c in target)


# ------------------------------------------------------------------------------------------------- anchors


def slug(heading: str) -> str:
    """Return a heading as links write it after a hash: lower case, hyphens for spaces, no punctuation."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-")


def words(heading: str) -> str:
    """Return the words of a heading: Obsidian leaves out other characters, and compares what is left."""
    return " ".join(re.findall(r"\w+", heading.casefold()))


def names_heading(anchor: str, heading: str) -> bool:
    """Tell whether one part of an anchor names a heading, as its words or as a slug."""
    return slug(anchor) == slug(heading) or words(anchor) == words(heading) != ""


def names_place(anchor: str, heading_path: Sequence[str]) -> bool:
    """Tell whether an anchor names the last of these headings: of `#Chapter#Part`, the chapter must be above it."""
    *above, last = [part for part in anchor.split("#") if part.strip()] or [""]
    if not heading_path or not names_heading(last, heading_path[-1]):
        return False
    outer = iter(heading_path[:-1])
    return all(any(names_heading(part, heading) for heading in outer) for part in above)


def outside_code(lines: Sequence[str]) -> Iterator[tuple[int, str]]:
    """Yield (number, line) of the lines that are in no fenced code."""
    fence = ""
    for number, line in enumerate(lines, 1):
        mark = _FENCE.match(line)
        if mark and not fence:
            fence = mark[1]
        elif mark and mark[1].startswith(fence) and not line.strip(" `~"):
            fence = ""
        elif not fence:
            yield number, line


def headings_in(lines: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """Yield (number of the line, level, text) of each heading, also of one that is underlined."""
    before = ""
    for number, line in outside_code(lines):
        if heading := _HEADING.match(line):
            text = heading[2].rstrip(" \t")
            bare = text.rstrip("#")
            yield number, len(heading[1]), bare.rstrip(" \t") if bare[-1:] in ("", " ", "\t") else text
            before = ""  # a line below it that underlines is a rule
            continue
        if before.strip() and _UNDERLINE.match(line):
            yield number - 1, 1 if "=" in line else 2, before.strip()
        before = line


def heading_paths(lines: Sequence[str]) -> Iterator[tuple[int, tuple[str, ...]]]:
    """Yield (number of the line, the texts of the headings above it and its own) of each heading."""
    above: list[tuple[int, str]] = []
    for number, level, text in headings_in(lines):
        above = [*(one for one in above if one[0] < level), (level, text)]
        yield number, tuple(text for _, text in above)


class Anchors:
    """What links to one note may name in it after a hash."""

    def __init__(self, lines: Sequence[str]) -> None:
        paths = (tuple(_LABEL.sub(_label, text) for text in texts) for _, texts in heading_paths(lines))
        self._headings = grouped((called, path) for path in paths for called in {slug(path[-1]), words(path[-1])})
        outside = [line for _, line in outside_code(lines)]
        self.blocks = {match[1].lower() for line in outside if "^" in line and (match := BLOCK_ID.search(line))}
        self.names = {match[1] for line in lines if "<" in line for match in _NAMED.finditer(line)}
        self.names |= {match[1] for line in lines if "{" in line and (match := re.search(r"\{[^{}]*#([\w.:-]+)", line))}

    def have(self, anchor: str) -> bool:
        """Tell whether an anchor names a heading, a block (`^id`) or an element with an id."""
        if anchor.startswith("^"):
            return anchor[1:].lower() in self.blocks
        return anchor in self.names or any(map(self._have_heading, (anchor, _NUMBERED.sub("", anchor))))

    def _have_heading(self, anchor: str) -> bool:
        last = anchor.rstrip("#").rpartition("#")[2]
        paths = (*self._headings.get(slug(last), ()), *self._headings.get(words(last), ()))
        return any(names_place(anchor, path) for path in paths)


def block_line(lines: Sequence[str], name: str) -> int:
    """Return the line on which the block `^name` ends, 0 if there is none."""
    wanted = name.lower()
    found = (n for n, line in outside_code(lines) if (match := BLOCK_ID.search(line)) and match[1].lower() == wanted)
    return next(found, 0)


def _label(match: re.Match[str]) -> str:
    return match[1] or match[2] or ""

"""One HTML file of its own: the hits of a query, or notes, as the pages show them, without a server or a script."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from markupsafe import Markup

from memsync.memory import MemoryApi
from memsync.model.answer import SearchResult
from memsync.notes.frontmatter import read_head
from memsync.notes.ignore import is_note_name
from memsync.web.pages.markdown import rendered
from memsync.web.pages.view import FOLDER, foot_of, render

MAX_HITS = 100


def exported(memory: MemoryApi, words: Sequence[str]) -> str:
    """Return a page of the notes that `words` name, or if one of these is no name of a note, of the hits of all words.

    Raises UsageError, NoteError.
    """
    css = Markup((FOLDER / "static" / "app.css").read_text("utf-8"))  # noqa: S704 (because the file is memsync's own)
    result = None if all(map(is_note_name, words)) else memory.search(" ".join(words), limit=MAX_HITS)
    notes = [] if result else list(_notes(memory, words))
    foot = list(foot_of({"result": result})) if isinstance(result, SearchResult) else []
    return render("export.html", css=css, title=" ".join(words), result=result, notes=notes, foot=foot)


def _notes(memory: MemoryApi, names: Sequence[str]) -> Iterator[tuple[str, Markup]]:
    for name in names:
        excerpt = memory.get(name)
        lines = excerpt.text.split("\n")
        first = read_head(lines).line_count + 1
        yield excerpt.path, rendered(lines, first, len(lines), range(0), None, has_ids=False)

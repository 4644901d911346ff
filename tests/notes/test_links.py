"""What a link means: the file it names, and whether its anchor is there.

Obsidian's help and the answers of its resolver decide. Each case names the programs whose documentation or source say
the same: Obsidian (o), zk (z) and basic-memory (b). zk and basic-memory give anchors no meaning.
"""

from __future__ import annotations

import pytest

from memsync.model.query import IndexedNote
from memsync.model.vocabulary import NotePath
from memsync.notes.links import Anchors, Linked, is_external
from tests.conftest import RULES, Parse

LAWS = ("Three laws.md", "Projects/Three laws.md", "Projects/plan.md")
"""A name that two notes have, as in Obsidian's help."""
DEEP = ("probe.md", "dir/inner/deep.md", "dir/twin.md", "twin.md", "notes/probe.md")
FIGURES = ("n.md", "Figure.jpg", "Figure.jpg.md", "pictures/Engelbart.jpg", "pictures/old/Engelbart.jpg", "Doc.pdf")
LEVELS = "# Title\n\n## L2\n\n### L3\n\n#### L4\n\n### Other L3\n"
SIGNS = "# A: B\n\n## C | D\n\n## What is [this](x.md)?\n\n## Über `code` & more\n"
BLOCKS = "A quick gem. ^37066d\n\n- item ^quote-of-the-day\n- other\n\n> quote\n\n^after\n"

# The files of the memory, the note with the link, its text, the file it means (empty: none), and who documents that.
TARGETS: list[tuple[tuple[str, ...], str, str, str, str]] = [
    # a name
    (LAWS, "Projects/plan.md", "[[Three laws]]", "Three laws.md", "oz"),
    (("Projects/Three laws.md", "plan.md"), "plan.md", "[[Three laws]]", "Projects/Three laws.md", "ozb"),
    (LAWS, "Projects/plan.md", "[[Three laws.md]]", "Three laws.md", "ozb"),
    (("Projects/Three laws.md", "plan.md"), "plan.md", "[[three LAWS]]", "Projects/Three laws.md", "o"),
    (("a/note.md", "b/deep/note.md", "n.md"), "n.md", "[[note]]", "a/note.md", "oz"),
    (("aaa/s5.md", "notes/s5.md", "notes/probe.md"), "notes/probe.md", "[[s5]]", "notes/s5.md", "o"),
    (("zzz/s6.md", "notes/s6.md", "notes/probe.md"), "notes/probe.md", "[[s6]]", "notes/s6.md", "o"),
    (("notes/s3.md", "deep/a/s3.md", "notes/probe.md"), "notes/probe.md", "[[s3]]", "notes/s3.md", "oz"),
    (DEEP, "notes/probe.md", "[[twin]]", "twin.md", "ozb"),
    (("v1.2 plan.md", "n.md"), "n.md", "[[v1.2 plan]]", "v1.2 plan.md", "ozb"),
    (("2026-08-27.md", "2026-08-27_ajct.md", "n.md"), "n.md", "[[2026-08-27]]", "2026-08-27.md", "ozb"),
    (LAWS, "Projects/plan.md", "[[Nobody]]", "", "ozb"),
    (("notes/plan.md", "n.md"), "n.md", "[[pla]]", "", "ob"),
    (("n.md",), "n.md", "[[n|shown]] text", "n.md", "ozb"),
    (("n.md", "m.md"), "m.md", "| a | [[n\\|shown]] |\n|---|---|", "n.md", "ob"),
    (("n.md", "m.md"), "m.md", "[[ n ]]", "n.md", "ozb"),
    # a path
    (LAWS, "Projects/plan.md", "[[Projects/Three laws]]", "Projects/Three laws.md", "ozb"),
    (LAWS, "Projects/plan.md", "[[/Three laws]]", "Three laws.md", "o"),
    (LAWS, "Projects/plan.md", "[[./Three laws]]", "Projects/Three laws.md", "o"),
    (LAWS, "Projects/plan.md", "[[../Three laws]]", "Three laws.md", "o"),
    (LAWS, "Projects/plan.md", "[[../../Three laws]]", "", "zb"),
    (DEEP, "probe.md", "[[inner/deep]]", "dir/inner/deep.md", "oz"),
    (DEEP, "probe.md", "[[random/deep]]", "", "ozb"),
    (DEEP, "probe.md", "[[dir/]]", "", "ob"),
    (("x/dir/twin.md", "dir/twin.md", "n.md"), "n.md", "[[dir/twin]]", "dir/twin.md", "ozb"),
    # a Markdown link; from its own folder first, as all other Markdown is read (Obsidian: from the root)
    (LAWS, "Projects/plan.md", "[t](Three%20laws.md)", "Projects/Three laws.md", "z"),
    (LAWS, "Projects/plan.md", "[t](<Three laws.md>)", "Projects/Three laws.md", "z"),
    (LAWS, "Projects/plan.md", "[t](../Three%20laws.md)", "Three laws.md", "oz"),
    (LAWS, "Projects/plan.md", "[t](/Three%20laws)", "Three laws.md", "o"),
    (("Three laws.md", "Projects/plan.md"), "Projects/plan.md", "[t](Three%20laws)", "Three laws.md", "o"),
    (LAWS, "Three laws.md", "[t](Projects/Three%20laws.md#Second)", "Projects/Three laws.md", "oz"),
    (LAWS, "Projects/plan.md", "[t][laws]\n\n[laws]: ../Three%20laws.md", "Three laws.md", "oz"),
    (("n.md",), "n.md", "[t](https://example.org/n.md)", "", "oz"),
    (("n.md",), "n.md", "[t](((63bc6201-0000-4000-8000-000000000001)))", "", ""),  # a block of Logseq
    # embeds and other files
    (FIGURES, "n.md", "![[Engelbart.jpg]]", "pictures/Engelbart.jpg", "o"),
    (FIGURES, "n.md", "![[Engelbart.jpg|100x145]]", "pictures/Engelbart.jpg", "o"),
    (FIGURES, "n.md", "![x](pictures/old/Engelbart.jpg)", "pictures/old/Engelbart.jpg", "o"),
    (FIGURES, "n.md", "![[Doc.pdf#page=3]]", "Doc.pdf", "o"),
    (FIGURES, "n.md", "[[Figure.jpg]]", "Figure.jpg", "o"),
    (FIGURES, "n.md", "[[Figure.jpg.md]]", "Figure.jpg.md", "ozb"),
    # a title, if no file has that name
    (("people/ada.md", "n.md"), "n.md", "[[Ada Lovelace]]", "people/ada.md", "b"),
]  # fmt: skip

# The text of a note, a link to a place in it, whether it is there, and who documents that.
ANCHORS: list[tuple[str, str, bool, str]] = [
    (LEVELS, "[[#L3]]", True, "o"),
    (LEVELS, "[[n#l3]]", True, "o"),
    (LEVELS, "[[n#Other L3]]", True, "o"),
    (LEVELS, "[t](n.md#Other%20L3)", True, "o"),
    (LEVELS, "[t](n.md#other-l3)", True, ""),
    (LEVELS, "[[n#L2#L4]]", True, "o"),
    (LEVELS, "[[n##L2######L4]]", True, "o"),
    (LEVELS, "[[n#L4#L3]]", False, "o"),
    (LEVELS, "[[n#Nothing#L3]]", False, "o"),
    (LEVELS, "[[n#Nothing]]", False, "o"),
    (SIGNS, "[[n#A B]]", True, "o"),
    (SIGNS, "[[n#C D]]", True, "o"),
    (SIGNS, "[[n#What is this?]]", True, "o"),
    (SIGNS, "[[n#Über code & more]]", True, "o"),
    (BLOCKS, "[[n#^37066d]]", True, "o"),
    (BLOCKS, "![[n#^Quote-of-the-Day]]", True, "o"),
    (BLOCKS, "[[n#^after]]", True, "o"),
    (BLOCKS, "[[n#^gone]]", False, "o"),
    ("```\n# Code\n\ntext ^in-code\n```\n", "[[n#Code]]", False, "o"),
    ("```\n# Code\n\ntext ^in-code\n```\n", "[[n#^in-code]]", False, "o"),
]

CASES = [*TARGETS, *(((text,), "n.md", *rest) for text, *rest in ANCHORS)]


def indexed(path: str, title: str) -> IndexedNote:
    note = NotePath(path)
    return IndexedNote(note, RULES.kind(note), RULES.tier(note), title, "", "", False, False, {}, 0, 0)


@pytest.mark.parametrize(("files", "source", "text", "expected", "documented"), CASES)
def test_link_means_what_it_means_in_obsidian(
    parse: Parse, files: tuple[str, ...], source: str, text: str, expected: str | bool, documented: str
) -> None:
    """A target names a file; an anchor names a heading or a block of it."""
    (link,) = parse(text, source).links
    if isinstance(expected, bool):
        assert Anchors(files[0].split("\n")).have(link.anchor) is expected
        return
    assert is_external(link) is ("://" in text or "(((" in text)
    notes = [indexed(path, "Ada Lovelace" if path == "people/ada.md" else path) for path in files if path[-3:] == ".md"]
    assert Linked(notes, lambda: files).target(link, NotePath(source)) == expected

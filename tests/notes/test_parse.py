"""Text -> note: title, kind, tier, tags, links, attributes and daily entries."""

from __future__ import annotations

import pytest

from memsync.model.note import Block, Note
from memsync.model.vocabulary import NotePath
from memsync.notes.parse import NoteReader
from memsync.notes.rules import PathRules
from memsync.settings.settings_list import DEFAULT_KINDS
from tests.conftest import Parse


def tags(note: Note) -> list[tuple[str, int]]:
    return [(tag.name, tag.line) for tag in note.tags]


def flat(blocks: tuple[Block, ...]) -> list[Block]:
    return [found for block in blocks for found in (block, *flat(block.children))]


# ---------------------------------------------------------------------------------------------- title


@pytest.mark.parametrize(
    ("text", "title"),
    [
        ("---\ntitle: From the head\n---\n# From the heading\n", "From the head"),
        ("---\ntitle: 2026\n---\n", "2026"),
        ("---\ntitle: ''\n---\n# From the heading\n", "From the heading"),
        ("## Second\n\n# First `code` and *more* {#id}\n\n# Later\n", "First code and more"),
        ("[[Store|The store]] and [a link](x.md)\n=====\n", "The store and a link"),
        ("## No first level\n", "a-name"),
        ("```\n# Code\n```\n", "a-name"),
        ("# {.only}\n", "a-name"),
        ("", "a-name"),
        ("<!-- four words and more -->\n#tag\n\nUp: [[Index]]\n\n# First\n\nText.\n", "First"),
        ("The heron nests in the alder.\n\n# Later\n", "a-name"),
        ("鹭在赤杨上筑巢因为那里有很多鱼\n\n# Later\n", "a-name"),
        ("One.\n\n" * 9 + "# Later\n", "a-name"),
    ],
)
def test_title_is_the_heads_else_a_heading_above_the_text_else_the_file_name(
    text: str, title: str, parse: Parse
) -> None:
    """A title is plain text; the file name goes without its suffix."""
    assert parse(text, "folder/a-name.md").title == title


# --------------------------------------------------------------------------------------- kind and tier


@pytest.mark.parametrize(
    ("path", "kind", "tier"),
    [
        ("daily/2025/2025-01-01.md", "daily", "task"),
        ("recipes/SOUL.md", "note", "project"),
        ("2026-11-21.md", "daily", "project"),
        ("work/Daily/2026-11-21.md", "daily", "project"),
        ("work/daily/plan.md", "note", "project"),
        ("work/2026-11-21 plan.md", "note", "project"),
        ("threads/2026-11-21.md", "thread", "task"),
        ("prompts/2026-11-21.md", "prompt", "personal"),
    ],
)
def test_kind_and_tier_follow_the_path(path: str, kind: str, tier: str, parse: Parse) -> None:
    """The default rules hold at the root only, except that a date as the whole name makes a log of the usual tier."""
    note = parse("text\n", path)
    assert (note.kind, note.tier) == (kind, tier)


def test_line_of_kinds_wins_over_a_date_as_the_name() -> None:
    """The default rule for dated names comes before all others, so the user's lines are later ones."""
    rules = PathRules({**DEFAULT_KINDS, "/journal/": "note", "/drafts/*.md": "prompt"}, {})
    paths = ("journal/2026-11-21.md", "drafts/2026-11-21.md", "other/2026-11-21.md")
    assert [rules.kind(NotePath(path)) for path in paths] == ["note", "prompt", "daily"]


def test_front_matter_wins_over_the_path(parse: Parse) -> None:
    """A note says itself what it is."""
    note = parse("---\nkind: prompt\ntier: task\n---\ntext\n", "SOUL.md")
    assert (note.kind, note.tier, note.warnings) == ("prompt", "task", ())


@pytest.mark.parametrize("line", ["kind: diary", "tier: forever", "kind: [note]", "tier: {a: b}", "kind: Note"])
def test_unknown_kind_or_tier_warns_and_the_path_decides(line: str, parse: Parse) -> None:
    """A wrong word costs a warning, not the note."""
    note = parse(f"---\n{line}\n---\ntext\n", "SOUL.md")
    assert (note.kind, note.tier, len(note.warnings)) == ("soul", "personal", 1)


@pytest.mark.parametrize(
    ("text", "path", "archived"),
    [
        ("text\n", "archive/old.md", True),
        ("text\n", "notes/archive/old.md", False),
        ("---\narchived: true\n---\ntext\n", "old.md", True),
        ("---\narchived: 'true'\n---\ntext\n", "old.md", False),
    ],
)
def test_note_is_archived_by_its_folder_or_its_head(text: str, path: str, archived: bool, parse: Parse) -> None:
    """`archive/` at the root retires a note, and so does `archived: true`."""
    assert parse(text, path).archived is archived


@pytest.mark.parametrize("head", ["created: {{date}}", "created: <% tp.date.now() %>", "x: a: b", "x: ["])
def test_a_template_has_no_warnings(head: str, parse: Parse) -> None:
    """Its fields are filled in later, and in other notes only fields with placeholders have none."""
    assert parse(f"---\n{head}\n---\ntext\n", "Templates/x.md").warnings == ()
    assert bool(parse(f"---\n{head}\n---\ntext\ntext\ntext\n", "x.md").warnings) is ("date" not in head)


# ----------------------------------------------------------------------------------------------- date


@pytest.mark.parametrize(
    ("path", "date"),
    [
        *((f"{name}.md", "2021-05-06") for name in ("2021-05-06-trip", "2021-05-06 Meeting", "Meeting 2021-05-06")),
        *((f"{name}.md", "2021-05-06") for name in ("20210506-standup", "2021_05_06", "2021.05.06", "日记2021-05-06")),
        *((f"{name}.md", "2021-05-06") for name in ("2021-5-6", "2021年5月6日", "May 6th, 2021", "6 May 2021 Kim")),
        *((f"{name}.md", "2021-05-06") for name in ("2021-05-06 (1)", "2021-05-06-2", "12 2021-05-06", "x/2021/05/06")),
        *((f"{name}.md", "2021-05-06") for name in ("2021-05-06 - 2021-05-09", "2021-05-06 09.00-10.30")),
        *((f"{name}.md", "2021-05-06T14:30") for name in ("m/2021-05-06-1430", "202105061430 x", "20210506T1430")),
        *((f"{name}.md", "2021-05-06T14:30:05") for name in ("20210506143005", "Shot 2021-05-06 at 14.30.05")),
        *((f"{name}.md", "2021-05-03") for name in ("2021-W18", "2021w18 plan", "Week 2021-W18-4")),
        *((f"{name}.md", "2021-05-01") for name in ("2021-05", "Review 2021_05", "May 2021")),
        *((f"{name}.md", "2021-05-16") for name in ("16.05.2021 x", "5-16-2021")),
        *((f"{name}.md", "") for name in ("tel 030-16-05-2021", "16.05.2021.1")),
        *((f"{name}.md", "") for name in ("20211399", "2021-13-40", "06-05-2021", "2021", "maybe 5 2021", "2021-W54")),
        *((f"{name}.md", "") for name in ("v2021.05.06-rc1", "2021.05.1", "2021.05.06.1", "2021.05", "CVE-2021-0512")),
        *(
            (f"{name}.md", "")
            for name in ("555-2021-05-06", "978-2021-05-06-3", "120210506", "2021050612", "202105069930")
        ),
        *((f"{name}.md", "") for name in ("2021121123", "abc20210506def", "2021-02-30", "2021/05/06/post")),
    ],
)
def test_date_in_the_name_is_the_notes(path: str, date: str, parse: Parse) -> None:
    """Wherever it stands, but not a part of a longer number; of two, the first; of a week or month, its first day."""
    note = parse("- 10:02 text\n", path)
    assert (note.date, parse("---\ncreated: 2026-11-21\n---\n", path).date) == (
        date,
        "2026-11-21",
    ) or note.kind == "daily"


def test_only_a_log_gives_its_date_to_times(parse: Parse) -> None:
    """A note with a date in its name is no log, and a week of logs has no day for its times."""
    days = {"daily/2021-05-06": 1, "daily/Kim 2021-05-06 1430": 1, "daily/2021-W18": 0, "x/2021-05-06 Kim": 0}
    for name, is_log in days.items():
        times = {block.time for block in flat(parse("- 10:02 text\n", f"{name}.md").blocks[0])} - {""}
        assert times == ({"2021-05-06T10:02"} if is_log else set())


# ----------------------------------------------------------------------------------------------- tags


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a #tag here\nand #two/parts-and_more.\n", [("tag", 1), ("two/parts-and_more", 2)]),
        ("(#a), #b; '#c' [#d]\n", [("a", 1), ("b", 1), ("c", 1), ("d", 1)]),
        ("## Heading #tag\n", [("tag", 1)]),
        ("- item #tag\n", [("tag", 1)]),
        ("| a |\n|---|\n| #tag |\n", [("tag", 3)]),
        ("#größe and #1a\n", [("größe", 1), ("1a", 1)]),
        ("see #123 and #2026-11\n", []),
        ("`#code` and a#b and \\#escaped\n", []),
        ("```\n#fence\n```\n\n    #indented\n", []),
        ("http://x.org/#part and <http://x.org/#two> and [a](b#c)\n", []),
        ("<!-- #comment -->\n", []),
        ("# Title\n#\n", []),
    ],
)
def test_tag_is_a_hash_and_a_word_in_running_text(text: str, found: list[tuple[str, int]], parse: Parse) -> None:
    """Not in code, not in a URL, not a heading's marker, not a number; the line is where it stands."""
    assert tags(parse(text)) == found


def test_paragraph_of_nothing_but_tags_tags_the_whole_note(parse: Parse) -> None:
    """Such a tag has line 0."""
    assert tags(parse("# Title\n\n#one #two\n#three\n\ntext #four\n")) == [
        ("one", 0),
        ("two", 0),
        ("three", 0),
        ("four", 5 + 1),
    ]


@pytest.mark.parametrize("text", ["\n## #todo\n", "\n- #todo\n", "\n> #todo\n"])
def test_lone_tag_in_a_heading_or_item_tags_that_alone(text: str, parse: Parse) -> None:
    """Only a paragraph of the text itself speaks for the whole note."""
    assert tags(parse(text)) == [("todo", 2)]


def test_tag_of_head_and_body_counts_once_for_the_note(parse: Parse) -> None:
    """Equal tags on the same line are one."""
    assert tags(parse("---\ntags: [one]\n---\n#one\n\n#two #two x\n")) == [("one", 0), ("two", 6)]


# ---------------------------------------------------------------------------------------------- links


def test_wiki_link_has_target_anchor_and_label(parse: Parse) -> None:
    """`[[target#anchor|label]]`, each part but the target optional."""
    note = parse("see [[Store]], [[Store#Setup]]\nand [[folder/Store #Setup| the setup ]] and [[#Here]]\n")
    assert [(link.target, link.anchor, link.label, link.line, link.wiki) for link in note.links] == [
        ("Store", "", "Store", 1, True),
        ("Store", "Setup", "Store#Setup", 1, True),
        ("folder/Store", "Setup", "the setup", 2, True),
        ("", "Here", "#Here", 2, True),
    ]


@pytest.mark.parametrize("text", ["`[[code]]`", "[[ ]]", "[[open", "[[two\nlines]]", "\\[[escaped]]", "[[]]"])
def test_what_is_no_wiki_link_is_text(text: str, parse: Parse) -> None:
    """Code, blanks, line breaks and escapes make no link."""
    assert parse(text + "\n").links == ()


def test_markdown_links_are_found_with_their_lines(parse: Parse) -> None:
    """Inline, reference and automatic links; the target is decoded; an image is a link."""
    text = "\n[a `b` *c*](my%20note.md#part)\n<https://x.org>\n[d][ref] ![picture](p.png)\n\n[ref]: other.md 'title'\n"
    assert [(link.target, link.anchor, link.label, link.line) for link in parse(text).links] == [
        ("my note.md", "part", "a b c", 2),
        ("https://x.org", "", "https://x.org", 3),
        ("other.md", "", "d", 4),
        ("p.png", "", "picture", 4),
    ]


def test_line_breaks_inside_code_titles_and_html_do_not_shift_lines(parse: Parse) -> None:
    """A line is counted in the source, whatever markup the break stands in."""
    note = parse('`two\nlines` [a](b "ti\ntle") <i\nclass="x"> [c](d) #tag [[e]]\n')
    assert [(link.target, link.line) for link in note.links] == [("b", 2), ("d", 4), ("e", 4)]
    assert tags(note) == [("tag", 4)]


# ----------------------------------------------------------------------------------------- attributes


@pytest.mark.parametrize(
    ("block", "attributes"),
    [
        ("{emotion=fear intensity=0.8}", {"emotion": "fear", "intensity": "0.8"}),
        ("{cost=0.0031 model=claude-1.5}", {"cost": "0.0031", "model": "claude-1.5"}),
        ("{#id .one .two key=v}", {"id": "id", "class": "one two", "key": "v"}),
        ('{task="compare the stores" who="a \\"b\\""}', {"task": "compare the stores", "who": 'a "b"'}),
        ('{empty="" a=1 a=2}', {"empty": "", "a": "2"}),
        ("{url=https://x.org/a?b=c}", {"url": "https://x.org/a?b=c"}),
        ("{ spaced=1 }  ", {"spaced": "1"}),
    ],
)
def test_braces_at_the_end_of_heading_or_item_are_attributes(
    block: str, attributes: dict[str, str], parse: Parse
) -> None:
    """Pandoc's grammar; a value with spaces is quoted; the last of two equal keys wins."""
    note = parse(f"## Title {block}\n\n- Item {block}\n")
    assert note.sections[0].heading_path == ("Title",)
    assert note.sections[0].attributes == attributes
    assert note.blocks[0][1].attributes == attributes
    assert note.cuts == {1: 8, 3: 6}


@pytest.mark.parametrize(
    "block",
    [
        "{}", "{word}", "{a=b c}", '{a="open}', "{a=}", "{=b}", "{a = b}", "{{a=b}}", "{a=b} more", "{a=b}.", "{.a.b}",
        "{1=2}",
    ],
)  # fmt: skip
def test_braces_that_do_not_parse_are_text(block: str, parse: Parse) -> None:
    """Nothing is cut off and nothing is lost."""
    note = parse(f"## Title {block}\n\n- Item {block}\n")
    assert note.sections[0].heading_path == (f"Title {block}",)
    assert (note.sections[0].attributes, note.blocks[0][1].attributes, note.cuts) == ({}, {}, {})


def test_setext_heading_and_paragraph_of_an_item_may_end_in_attributes(parse: Parse) -> None:
    """The block stands at the end of the last line of text; a plain paragraph has none."""
    note = parse("Title {a=1}\n====\n\n- two\n  lines {b=2}\n\n  more {c=3}\n\nplain {d=4}\n")
    assert note.title == "Title"
    assert note.sections[0].attributes == {"a": "1"}
    assert note.blocks[0][1].attributes == {"b": "2"}
    assert sorted(note.cuts) == [1, 5]


# ------------------------------------------------------------------------------------------- conflicts


def test_conflict_markers_warn_and_are_no_text(reader: NoteReader) -> None:
    """Both sides are indexed and the user is told."""
    text = "one\n\n<<<<<<< HEAD\nours\n=======\ntheirs\n>>>>>>> branch\n"
    note, chunks = reader.read(NotePath("note.md"), text.encode())
    assert note.warnings == ("file has git conflict markers",)
    words = "\n".join(chunk.words for chunk in chunks)
    assert all(word in words for word in ("ours", "theirs"))
    assert "HEAD" not in words
    assert "branch" not in words
    assert {section.heading_path for section in note.sections} == {()}


@pytest.mark.parametrize("line", [">>>> quoted deeply", "<<<<<<<<< nine", "a <<<<<<< b", "======="])
def test_lines_like_conflict_markers_do_not_warn(line: str, parse: Parse) -> None:
    """A marker is seven signs at the beginning of a line, then a space or nothing."""
    assert parse(f"text\n\n{line}\n").warnings == ()


# -------------------------------------------------------------------------------------------- warnings


def test_paragraph_too_involved_for_tags_is_indexed_with_a_warning(reader: NoteReader) -> None:
    """The limit is on the work, so equal bytes always give an equal note; other paragraphs are not touched by it."""
    text = "#one x\n\n" + "[" * 9_000 + "](a)" * 2_000 + "\n\n#two x\n"
    note, chunks = reader.read(NotePath("note.md"), text.encode())
    assert tags(note) == [("one", 1), ("two", 5)]
    assert [warning.split(":")[0] for warning in note.warnings] == ["line 3"]
    assert sum(chunk.words.count("[") for chunk in chunks) == 9_000

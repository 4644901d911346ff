"""`memsync mv`: every link means the same file afterwards, no other byte changes, and each run can be undone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.errors import MemsyncError, NoSuchNote, UsageError, WriteRefused
from memsync.memory import Memory, MemoryApi
from memsync.settings.load import load_settings
from tests.conftest import MakeMemory, Write
from tests.support.daemon_process import Cli

Git = Callable[..., str]
ANSWERED = "Answered questions"


def files_of(root: Path) -> dict[str, bytes]:
    files = (path for path in sorted(root.rglob("*")) if path.is_file() and ".git" not in path.parts)
    return {str(path.relative_to(root)): path.read_bytes() for path in files}


def moved(memory: MemoryApi, old: str, new: str) -> list[tuple[str, str]]:
    """Move and return what moved; nothing may fail."""
    done = memory.move(old, new)
    assert (done.applied, done.failed, done.warnings) == (True, (), ())
    return [(one.path, one.target) for one in done.moves]


# ------------------------------------------------------------------------------------------ each kind of link


@pytest.mark.parametrize(
    ("before", "after"),
    [
        # wiki links: a name stays a name, a path a path, with the ending if it had one
        ("[[store]]", "[[vault]]"),
        ("[[store.md]] and [[STORE]]", "[[vault.md]] and [[vault]]"),
        ("[[projects/store]]", "[[archive/old/vault]]"),
        ("[[/projects/store.md]]", "[[/archive/old/vault.md]]"),
        ("[[./projects/store]] [[../x/store]]", "[[./archive/old/vault]] [[../x/store]]"),
        ("[[store|The store]]", "[[vault|The store]]"),
        ("[[store#Open questions]]", "[[vault#Open questions]]"),
        ("[[store#^block|here]]", "[[vault#^block|here]]"),
        ("![[store]] ![[store#Open questions|100]]", "![[vault]] ![[vault#Open questions|100]]"),
        ("- item [[store]]\n> quote [[store]]", "- item [[vault]]\n> quote [[vault]]"),
        ("# A [[store]] heading\n\nand [[store]]\n===", "# A [[vault]] heading\n\nand [[vault]]\n==="),
        ("| a | b |\n|---|---|\n| [[store\\|b]] | [[store]] |", "| a | b |\n|---|---|\n| [[vault\\|b]] | [[vault]] |"),
        ("a footnote[^1]\n\n[^1]: see [[store]]", "a footnote[^1]\n\n[^1]: see [[vault]]"),
        # Markdown links
        ("[t](projects/store.md)", "[t](archive/old/vault.md)"),
        ("[t](projects/store) [t](./projects/store.md)", "[t](archive/old/vault) [t](./archive/old/vault.md)"),
        ("[t](/projects/store.md#open-questions)", "[t](/archive/old/vault.md#open-questions)"),
        ("[t](<projects/store.md>)", "[t](<archive/old/vault.md>)"),
        ('[t](projects/store.md "A title")', '[t](archive/old/vault.md "A title")'),
        ("[t]( projects/store.md )", "[t]( archive/old/vault.md )"),
        ("[t](projects%2Fstore.md)", "[t](archive/old/vault.md)"),
        ("[a label over\ntwo lines](projects/store.md)", "[a label over\ntwo lines](archive/old/vault.md)"),
        ("[![i](x.png)](projects/store.md)", "[![i](x.png)](archive/old/vault.md)"),
        ("![as image](projects/store.md)", "![as image](archive/old/vault.md)"),
        ("[t][s] and [s]\n\n[s]: projects/store.md 'T'", "[t][s] and [s]\n\n[s]: archive/old/vault.md 'T'"),
        ("[s]\n\n[s]: <projects/store.md>", "[s]\n\n[s]: <archive/old/vault.md>"),
        # front matter
        ('---\nup: "[[store]]"\n---\n', '---\nup: "[[vault]]"\n---\n'),
        ('---\nsee:\n  - "[[store|S]]"\n---\n', '---\nsee:\n  - "[[vault|S]]"\n---\n'),
        ("---\nsource: projects/store.md\n---\n", "---\nsource: archive/old/vault.md\n---\n"),
        ("---\nsource: [projects/store.md, b.md]\n---\n", "---\nsource: [archive/old/vault.md, b.md]\n---\n"),
        # attributes and citations
        ("- new {supersedes=projects/store.md:3}", "- new {supersedes=archive/old/vault.md:3}"),
        ('- new {supersedes="[[store]]"}', '- new {supersedes="[[vault]]"}'),
        ('- new {supersedes="projects/store.md, b.md:2"}', '- new {supersedes="archive/old/vault.md, b.md:2"}'),
        ("see projects/store.md:12 and :13", "see archive/old/vault.md:12 and :13"),
        ("(projects/store.md:12-14), `projects/store.md:1`", "(archive/old/vault.md:12-14), `archive/old/vault.md:1`"),
        # no link, or one to something else
        ("store, projects/store.md and [[stores]]", "store, projects/store.md and [[stores]]"),
        ("[t](https://example.org/projects/store.md)", "[t](https://example.org/projects/store.md)"),
        ("other/projects/store.md:3", "other/projects/store.md:3"),
        ("`[[store]]` and [[store]]", "`[[store]]` and [[vault]]"),
        ("``[t](projects/store.md) ` `` [[store]]", "``[t](projects/store.md) ` `` [[vault]]"),
        ("```\n[[store]] projects/store.md:1\n```\n[[store]]", "```\n[[store]] projects/store.md:1\n```\n[[vault]]"),
        ("~~~md\n[t](projects/store.md)\n~~~", "~~~md\n[t](projects/store.md)\n~~~"),
        ("> ```\n> [[store]]\n> ```\n\n[[store]]", "> ```\n> [[store]]\n> ```\n\n[[vault]]"),
        ("    [[store]]\n\n[[store]]", "    [[store]]\n\n[[vault]]"),
        ("[[store]]\n\n    [[store]]", "[[vault]]\n\n    [[store]]"),
        ("- ```\n  [[store]]\n  ```\n- [[store]]", "- ```\n  [[store]]\n  ```\n- [[vault]]"),
        ("<!-- [[store]] -->\n\n[[store]]", "<!-- [[store]] -->\n\n[[vault]]"),
    ],
)  # fmt: skip
def test_link_is_written_anew_in_its_own_form(
    memory: Memory, write: Write, root: Path, before: str, after: str
) -> None:
    """A name stays a name and a path a path; labels, anchors, titles and code stay."""
    write("projects/store.md", "# Store of eggs\n\n## Open questions\n\nWhich? ^block\n")
    write("x/other.md", "")
    write("n.md", f"{before}\n")
    assert moved(memory, "projects/store.md", "archive/old/vault.md") == [("projects/store.md", "archive/old/vault.md")]
    assert (root / "n.md").read_text() == f"{after}\n"
    assert memory.undo_move().failed == ()
    assert (root / "n.md").read_text() == f"{before}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("[[sibling]] [[up]]", "[[sibling]] [[up]]"),
        ("[[./sibling]] [[../up]]", "[[../../p/sibling]] [[../../up]]"),
        ("[t](sibling.md) [u](../up.md)", "[t](../../p/sibling.md) [u](../../up.md)"),
        ("![i](i.png) ![[i.png]]", "![i](../../p/i.png) ![[i.png]]"),
        ("[t](/p/sibling.md) [[p/sibling]]", "[t](/p/sibling.md) [[p/sibling]]"),
        ("[[#Own]] [o](#own) [s](note.md#own)", "[[#Own]] [o](#own) [s](note.md#own)"),
        ("![far](https://example.org/i.png)", "![far](https://example.org/i.png)"),
        ("[[nowhere]] [t](nowhere.md)", "[[nowhere]] [t](nowhere.md)"),
    ],
)
def test_links_in_the_moved_note_lead_where_they_led(
    memory: Memory, write: Write, root: Path, before: str, after: str
) -> None:
    """A path from the note itself is one from its new place, for every program that reads Markdmemory."""
    write("p/note.md", f"# Own\n\n{before}\n")
    write("p/sibling.md", "Sibling.\n")
    write("p/i.png", "")
    write("up.md", "Up.\n")
    moved(memory, "p/note.md", "q/r/")
    assert (root / "q/r/note.md").read_text() == f"# Own\n\n{after}\n"


@pytest.mark.parametrize(
    "content", [b"\xef\xbb\xbf# T\r\n\r\n[[a]]\r\n", b"[[a]]\rcr\r\nmixed [t](a.md)", b"caf\xe9 [[a]]\n"]
)
def test_every_other_byte_stays(memory: Memory, write: Write, root: Path, content: bytes) -> None:
    """Line ends, a byte order mark, a missing last line end and bytes that are not UTF-8 stay as they are."""
    write("a.md", "")
    (file := write("n.md", content)).chmod(0o640)
    moved(memory, "a.md", "b.md")
    assert file.read_bytes() == content.replace(b"[[a]]", b"[[b]]").replace(b"a.md", b"b.md")
    assert file.stat().st_mode & 0o777 == 0o640
    memory.undo_move()
    assert file.read_bytes() == content


def test_name_that_becomes_ambiguous_is_written_as_a_path(memory: Memory, write: Write, root: Path) -> None:
    """So does a link to the other note with that name, which now would mean the moved one."""
    write("a.md", "")
    write("d/c.md", "")
    write("n.md", "[[a]] [[c]] [t](d/c.md)\n")
    moved(memory, "a.md", "c.md")
    assert (root / "n.md").read_text() == "[[c]] [[d/c]] [t](d/c.md)\n"


def test_title_that_still_names_the_note_stays(memory: Memory, write: Write, root: Path) -> None:
    """A link by title or alias does not depend on the path."""
    write("a.md", "---\naliases: [The Store]\n---\n# Store of eggs\n")
    write("n.md", "[[Store of eggs]] [[the store|x]] [[a]]\n")
    moved(memory, "a.md", "p/b.md")
    assert (root / "n.md").read_text() == "[[Store of eggs]] [[the store|x]] [[b]]\n"


def test_markdown_target_is_encoded_only_where_it_must_be(memory: Memory, write: Write, root: Path) -> None:
    """Spaces, parentheses and percent signs are, letters of other scripts are not."""
    write("a.md", "")
    write("n.md", "[t](a.md) [t](<a.md>) [[a]]\n")
    moved(memory, "a.md", "Über 100% (1).md")
    assert (root / "n.md").read_text() == (
        "[t](Über%20100%25%20%281%29.md) [t](<Über 100% (1).md>) [[Über 100% (1)]]\n"
    )
    moved(memory, "Über 100% (1).md", "a.md")
    assert (root / "n.md").read_text() == "[t](a.md) [t](<a.md>) [[a]]\n"


@pytest.mark.parametrize("target", ["p/the store.md", "p/a, b.md", "p/it's.md"])
def test_what_was_superseded_stays_superseded(memory: Memory, write: Write, target: str) -> None:
    """Even if the new path cannot be written without quotation marks."""
    write("a.md", "- the heron eats 3 fish\n")
    write("MEMORY.md", "- the heron eats 4 fish {supersedes=a.md:1}\n")
    try:
        moved(memory, "a.md", target)
    except WriteRefused:
        target = "a.md"
    hits = {hit.path: hit.validity for hit in memory.search("heron", mode="keyword").hits}
    assert hits == {"MEMORY.md": "", target: "superseded by MEMORY.md:1"}


# ---------------------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("a.md", "n.md", "n.md already exists"),
        ("a.md", "../a.md", "is not a place for notes"),
        ("a.md", "/tmp/a.md", "is not a place for notes"),
        ("a.md", ".hidden/a.md", "is not a place for notes"),
        ("a.md", "left/out.md", "would not be a note"),
        ("a.md", "a.txt", "Not a Markdown note"),
        ("a.md", "a.md", "cannot be moved to"),
        ("p", "p/q", "cannot be moved to"),
        ("../p", "q", "not a path in the memory root"),
        (".git", "q", "."),
        ("nothing.md", "b.md", "nothing.md does not exist"),
        ("journal/day.md", "day.md", "is local-only, and day.md would not be"),
        ("journal", "days", "is local-only, and days/day.md would not be"),
        ("a.md", "a#b.md", "cannot be repaired"),
        ("a.md", "a|b.md", "cannot be repaired"),
        ("u.md", "v.md", "UTF-8"),
        ("", "b.md", "two names"),
        ("a.md", "", "two names"),
    ],
)
def test_refused_move_changes_nothing(
    make_memory: MakeMemory, write: Write, root: Path, old: str, new: str, error: str
) -> None:
    """The error says why, and there is nothing to undo."""
    write("a.md", "# A\n")
    write("p/b.md", "# B\n")
    write("n.md", "[[a]]\n")
    write("journal/day.md", "# Day\n")
    write(".gitignore", "left/\n")
    write("u.md", "# U\n")
    write("utf-16.md", "[[u]]\n".encode("utf-16"))
    environ = {"MEMSYNC_PRIVACY_LOCAL_ONLY": '["journal/"]'}
    memory = make_memory(own_settings=load_settings(root=root, environ=environ, cwd=root))
    before = files_of(root)
    with pytest.raises(MemsyncError, match=error):
        memory.move(old, new)
    assert files_of(root) == before
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo_move()


def test_link_that_nobody_looks_for_refuses_the_move(memory: Memory, write: Write, root: Path) -> None:
    """A paragraph too long to be searched for links may have one: that would lead nowhere without a word."""
    write("a.md", "")
    write("n.md", "word word\n" * 2_500 + "[[a]]\n")
    with pytest.raises(WriteRefused):
        memory.move("a.md", "b.md")


def test_dry_run_shows_each_line_and_changes_nothing(memory: Memory, write: Write, root: Path) -> None:
    """It refuses what the move itself would refuse."""
    write("p/a.md", "[t](../n.md)\n")
    write("n.md", "Text.\n\n[[a]] and p/a.md:1\n")
    before = files_of(root)
    shown = memory.move("p/a.md", "b.md", dry_run=True)
    assert [(line.path, line.line, line.before, line.after) for line in shown.lines] == [
        ("n.md", 3, "[[a]] and p/a.md:1", "[[b]] and b.md:1"),
        ("p/a.md", 1, "[t](../n.md)", "[t](n.md)"),
    ]
    assert ([(one.path, one.target) for one in shown.moves], shown.applied) == ([("p/a.md", "b.md")], False)
    assert files_of(root) == before
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo_move()
    with pytest.raises(WriteRefused, match="already exists"):
        memory.move("p/a.md", "n.md", dry_run=True)


# ----------------------------------------------------------------------------------------------------- folders


def test_folder_moves_with_its_attachments(memory: Memory, write: Write, root: Path) -> None:
    """Links inside it stay, links to it and out of it are written anew, and the empty folders above it go."""
    write("in/p/a.md", "![i](pics/i.png) ![[i.png]] [s](b.md) [[b]] [u](../../up.md)\n")
    write("in/p/b.md", "[[in/p/a]]\n")
    write("in/p/pics/i.png", b"\x89PNG\xff")
    write("up.md", "![](in/p/pics/i.png) [[in/p/a]] [t](in/p/b.md) in/p/a.md:1\n")
    before = files_of(root)
    done = moved(memory, "in/p/", "out/q")
    assert sorted(done) == [
        ("in/p/a.md", "out/q/a.md"),
        ("in/p/b.md", "out/q/b.md"),
        ("in/p/pics/i.png", "out/q/pics/i.png"),
    ]
    assert files_of(root) == {
        "out/q/a.md": b"![i](pics/i.png) ![[i.png]] [s](b.md) [[b]] [u](../../up.md)\n",
        "out/q/b.md": b"[[out/q/a]]\n",
        "out/q/pics/i.png": b"\x89PNG\xff",
        "up.md": b"![](out/q/pics/i.png) [[out/q/a]] [t](out/q/b.md) out/q/a.md:1\n",
    }
    assert not (root / "in").exists()
    memory.undo_move()
    assert files_of(root) == before
    assert not (root / "out").exists()


def test_existing_folder_or_a_slash_means_into_it(memory: Memory, write: Write, root: Path) -> None:
    """As `mv` does it."""
    write("a.md", "")
    write("p/b.md", "")
    assert moved(memory, "a.md", "p") == [("a.md", "p/a.md")]
    assert moved(memory, "p/b.md", "q/") == [("p/b.md", "q/b.md")]
    assert moved(memory, "p", "q") == [("p/a.md", "q/p/a.md")]


def test_folder_with_a_link_or_a_repository_is_moved_by_hand(memory: Memory, write: Write, root: Path) -> None:
    """Neither can be moved file by file."""
    write("p/a.md", "")
    (root / "p/link").symlink_to("/etc")
    with pytest.raises(WriteRefused, match="p/link is a link or a repository"):
        memory.move("p", "q")
    (root / "p/link").unlink()
    (root / "p/.git").mkdir()
    with pytest.raises(WriteRefused, match=r"p/\.git is a link or a repository"):
        memory.move("p", "q")


# ---------------------------------------------------------------------------------------------------- headings


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("## Open questions", f"## {ANSWERED}"),
        ("###### Open questions ##", f"###### {ANSWERED} ##"),
        ("## Open questions {#id .cls key=value}", f"## {ANSWERED} {{#id .cls key=value}}"),
        ("Open questions\n---", f"{ANSWERED}\n---"),
        ("  ##  Open  questions?", f"  ##  {ANSWERED}"),
        ("## Open questions\n---\n\ntext", f"## {ANSWERED}\n---\n\ntext"),
        ("---\n# Open questions\nt: T\n---\n\n# Open questions", f"---\n# Open questions\nt: T\n---\n\n# {ANSWERED}"),
        ("```\n# Open questions\n```\n\n# Open questions", f"```\n# Open questions\n```\n\n# {ANSWERED}"),
    ],
)  # fmt: skip
def test_heading_gets_its_new_text_and_keeps_the_rest(
    memory: Memory, write: Write, root: Path, before: str, after: str
) -> None:
    """Its level, its attributes and its form stay; what only looks like it is left alone."""
    write("n.md", f"{before}\n")
    write("m.md", "[[n#Open questions]] [[n#open questions|q]]\n")
    assert moved(memory, "n.md#Open questions", ANSWERED) == []
    assert (root / "n.md").read_text() == f"{after}\n"
    assert (root / "m.md").read_text() == f"[[n#{ANSWERED}]] [[n#{ANSWERED}|q]]\n"
    memory.undo_move()
    assert (root / "n.md").read_text() == f"{before}\n"


def test_links_to_a_heading_follow_it_in_each_form(memory: Memory, write: Write, root: Path) -> None:
    """A slug stays a slug; an id, a block, another heading and another note's heading of that name stay."""
    write("n.md", "# Top\n\n## Open questions {#qs}\n\ntext ^b\n\n[[#Open questions]] [o](#open-questions)\n")
    write("m.md", "# Open questions\n\n[[n#Top#Open questions]] [t](n.md#open-questions) [t](n.md#Open%20questions)\n")
    write("o.md", "[[n#Top]] [[n#^b]] [t](n.md#qs) [[m#Open questions]] ![[n#Open questions]] [[n]]\n")
    moved(memory, "n.md#open-questions", ANSWERED)
    assert (root / "n.md").read_text() == (
        f"# Top\n\n## {ANSWERED} {{#qs}}\n\ntext ^b\n\n[[#{ANSWERED}]] [o](#answered-questions)\n"
    )
    assert (root / "m.md").read_text() == (
        f"# Open questions\n\n[[n#Top#{ANSWERED}]] [t](n.md#answered-questions) [t](n.md#Answered%20questions)\n"
    )
    assert (root / "o.md").read_text() == (
        f"[[n#Top]] [[n#^b]] [t](n.md#qs) [[m#Open questions]] ![[n#{ANSWERED}]] [[n]]\n"
    )


@pytest.mark.parametrize("heading", ["C: D", "C | D", "C#D", "[C] ^D", "`C` & *D*"])
def test_link_to_a_renamed_heading_finds_it(memory: Memory, write: Write, heading: str) -> None:
    """Even if a link cannot contain all of its characters."""
    write("n.md", "# Old\n\ntext\n")
    write("m.md", "[[n#Old]]\n")
    moved(memory, "n.md#Old", heading)
    link = memory.get("m.md").text.strip()
    assert memory.get(link).text == f"# {heading}\n\ntext"


@pytest.mark.parametrize(
    ("old", "new", "error"),
    [
        ("n.md#One", "Two", "already has a heading 'Two'"),
        ("n.md#Twice", "Once", "has 2 headings 'Twice'"),
        ("n.md#Nothing", "Once", "has no heading 'Nothing'"),
        ("n.md#One", "##", "the new heading is empty"),
        ("m.md#One", "Two", "m.md does not exist"),
    ],
)
def test_heading_that_is_not_one_is_not_renamed(
    memory: Memory, write: Write, root: Path, old: str, new: str, error: str
) -> None:
    """It must be there once, and its new text not at all."""
    write("n.md", "# One\n\n## Two\n\n## Twice\n\n## Twice\n")
    before = files_of(root)
    with pytest.raises(MemsyncError, match=error):
        memory.move(old, new)
    assert files_of(root) == before


def test_heading_under_another_one_is_named_by_both(memory: Memory, write: Write, root: Path) -> None:
    """As in a link to a subheading."""
    write("n.md", "# A\n\n## Details\n\n# B\n\n## Details\n")
    moved(memory, "n.md#B#Details", "More")
    assert (root / "n.md").read_text() == "# A\n\n## Details\n\n# B\n\n## More\n"


# -------------------------------------------------------------------------------------------------------- undo


def test_runs_are_undone_one_after_another_the_last_first(memory: Memory, write: Write, root: Path) -> None:
    """Each undo is of one run; after the first one there is nothing left."""
    write("a.md", "# One\n\n[t](b.md)\n")
    write("b.md", "[[a#One]]\n")
    states = [files_of(root)]
    for old, new in (("a.md", "p/c.md"), ("p/c.md#One", "Two"), ("p", "q/r")):
        moved(memory, old, new)
        states.append(files_of(root))
    for state in reversed(states[:-1]):
        undone = memory.undo_move()
        assert (undone.undone, undone.failed) == (True, ())
        assert files_of(root) == state
    with pytest.raises(UsageError, match="nothing to undo"):
        memory.undo_move()


def test_undo_leaves_a_note_alone_that_was_changed_since(memory: Memory, write: Write, root: Path) -> None:
    """All else is put back, and the former text is in a file that the error names."""
    write("a.md", "A.\n")
    write("b.md", "[[a]]\n")
    write("c.md", "[[a]]\n")
    moved(memory, "a.md", "d.md")
    write("b.md", "[[d]] and more\n")
    undone = memory.undo_move()
    (failure,) = undone.failed
    assert failure.path == "b.md" and "has been changed since" in failure.reason
    assert Path(failure.reason.rpartition(" is in ")[2]).read_text() == "[[a]]\n"
    assert files_of(root) == {"a.md": b"A.\n", "b.md": b"[[d]] and more\n", "c.md": b"[[a]]\n"}


def test_undo_takes_a_moved_note_back_with_what_was_written_since(memory: Memory, write: Write, root: Path) -> None:
    """The move only gave it another path."""
    write("a.md", "A.\n")
    moved(memory, "a.md", "p/b.md")
    write("p/b.md", "A.\nMore.\n")
    assert memory.undo_move().failed == ()
    assert files_of(root) == {"a.md": b"A.\nMore.\n"}


def test_undo_does_not_replace_a_note_made_since(memory: Memory, write: Write, root: Path) -> None:
    """A note that has the old path now stays, and the moved one, too; the undo does not list that move."""
    write("a.md", "A.\n")
    write("b.md", "[[a]]\n")
    moved(memory, "a.md", "c.md")
    write("a.md", "New.\n")
    undone = memory.undo_move()
    assert [(failure.path, failure.reason) for failure in undone.failed] == [("a.md", "a.md already exists")]
    assert undone.moves == ()
    assert (root / "a.md").read_text() == "New.\n"
    assert (root / "c.md").read_text() == "A.\n"


def test_undo_and_names_exclude_each_other(memory: Memory) -> None:
    """`--undo` is of the last run, whatever it moved."""
    for arguments in (("a.md", ""), ("a.md", "b.md")):
        with pytest.raises(UsageError, match="undo takes no other arguments"):
            memory.move(*arguments, undo=True)
    with pytest.raises(UsageError, match="undo takes no other arguments"):
        memory.move(undo=True, dry_run=True)


# ------------------------------------------------------------------------------------- appends, git, the command


def test_appends_to_a_moved_note_are_not_missing(memory: Memory, write: Write, root: Path) -> None:
    """The journal follows the note, there and back, and an entry logged there afterwards is not missing, either."""
    memory.log("saw a heron", day="2026-11-20", time="10:00")
    memory.remember("The heron nests in the alder")
    moved(memory, "daily/2026-11-20.md", "archive/daily/2026-11-20.md")
    moved(memory, "MEMORY.md", "p/facts.md")
    assert memory.overwritten() == ()
    memory.undo_move()
    memory.undo_move()
    assert memory.overwritten() == ()
    (root / "daily/2026-11-20.md").write_text("# 2026-11-20\n")
    assert [one.text for one in memory.overwritten()] == ["- 10:00 saw a heron"]


def test_move_is_one_commit_and_so_is_its_undo(committing: Memory, git: Git, write: Write, root: Path) -> None:
    """With git.commit, the moved files and the notes with changed links are in it, and nothing else is."""
    write("p/a.md", "[t](../b.md)\n")
    write("p/i.png", b"\x89")
    write("b.md", "[[p/a]] ![](p/i.png)\n")
    git("add", ".")
    git("commit", "-qm", "notes")
    write("mine.md", "not yet committed\n")
    moved(committing, "p", "q/r")
    assert git("log", "--format=%s", "-2") == "memsync mv: p to q/r\nnotes\n"
    assert git("status", "--porcelain") == "?? mine.md\n"
    committing.undo_move()
    assert git("log", "--format=%s", "-1") == "memsync mv --undo\n"
    assert git("diff", "HEAD~2", "--stat") == ""
    assert git("status", "--porcelain") == "?? mine.md\n"


def test_search_finds_the_note_under_its_new_path_at_once(own: MemoryApi, write: Write) -> None:
    """And not under the old one; so does get, with a daemon and without."""
    write("a.md", "The bittern nests here.\n")
    write("n.md", "[[a]]\n")
    moved(own, "a.md", "p/b.md")
    assert [hit.path for hit in own.search("bittern", mode="keyword").hits] == ["p/b.md"]
    assert own.get("n.md").text == "[[b]]"
    with pytest.raises(NoSuchNote):
        own.get("a.md")
    assert [(one.path, one.target) for one in own.undo_move().moves] == [("p/b.md", "a.md")]
    assert own.get("n.md").text == "[[a]]"


def test_command_prints_each_change(cli: Cli, root: Path) -> None:
    """With --json it prints one document; a refusal exits with an error and its hint."""
    (root / "a.md").write_text("A.\n")
    (root / "n.md").write_text("[[a]]\n")
    shown = cli("mv", "a.md", "b.md", "--dry-run")
    assert (shown.returncode, shown.stdout) == (0, "a.md -> b.md\nn.md:1\n  - [[a]]\n  + [[b]]\n")
    assert "Dry run: " in shown.stderr
    done = json.loads(cli("mv", "a.md", "b.md", "--json").stdout)
    assert (done["applied"], done["moves"]) == (True, [{"path": "a.md", "target": "b.md"}])
    assert cli("mv", "b.md", "n.md").returncode != 0
    assert cli("mv", "--undo").stdout == "b.md -> a.md\n"
    assert (root / "n.md").read_text() == "[[a]]\n"


def test_move_that_cannot_repair_a_note_is_undone(memory: Memory, write: Write, root: Path) -> None:
    """A link in a note with conflict markers cannot be repaired, so no other note changes either."""
    texts = {
        "store.md": "# Store\n",
        "a.md": "[s](store.md)\n",
        "b.md": "[s](store.md)\n<<<<<<< HEAD\nx\n=======\ny\n>>>>>>> z\n",
    }
    for path, text in texts.items():
        write(path, text)
    with pytest.raises(WriteRefused, match="conflict markers"):
        memory.move("store.md", "new/store.md")
    assert {path.name: path.read_text() for path in root.rglob("*.md")} == texts
    assert not (root / "new").exists()

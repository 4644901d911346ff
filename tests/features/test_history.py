"""`memsync history` and `memsync history blame`: what a note said, commit by commit, and who wrote its lines."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from memsync.errors import NoSuchNote, NoteError, UsageError
from memsync.features import history as history_module
from memsync.memory import Memory
from memsync.model.commits import Version
from tests.conftest import Write
from tests.support.repository import AUTUMN, SPRING, SUMMER, Repository

ODD_PATHS = [
    "with spaces.md", "a@b.md", "a@v1.md", "a#b.md", "a:3.md", "a:b.md", "über/ñandú.md", "line\nend.md",
    "tab\tx.md", "quote\"'.md", "-n.md", "*.md", "[a].md", "a.markdown", "{x}.md", "~x.md", "日本.md",
]  # fmt: skip


def commit_each(repository: Repository, write: Write, path: str, *texts: str | bytes) -> None:
    """Commit a note with each of these texts, a day after the other."""
    for number, text in enumerate(texts):
        write(path, text)
        repository.commit(SPRING + number * 86_400)


def changes(versions: Sequence[Version]) -> list[tuple[tuple[str, ...], tuple[str, ...]]]:
    return [(version.removed, version.added) for version in versions]


# --------------------------------------------------------------------------------------------- whole notes


def test_versions_of_a_note_are_listed_newest_first(memory: Memory, repository: Repository, write: Write) -> None:
    """With what each commit removed and added; each citation is what `get` takes."""
    commit_each(repository, write, "a.md", "one\ntwo\n", "one\nthree\n", "one\nthree\nfour\n")
    write("b.md", "other\n")
    repository.commit(AUTUMN)
    versions = memory.history("a.md").versions
    assert changes(versions) == [((), ("four",)), (("two",), ("three",)), ((), ("one", "two"))]
    assert [version.commit.time[:10] for version in versions] == ["2023-11-16", "2023-11-15", "2023-11-14"]
    assert [memory.get(version.citation).text for version in versions] == ["one\nthree\nfour", "one\nthree", "one\ntwo"]
    assert {version.commit.author for version in versions} == {"A"}


def test_uncommitted_change_comes_first(memory: Memory, repository: Repository, write: Write) -> None:
    """It has no commit name, and the time of the file. A file with the committed content adds no version."""
    path = write("a.md", "one\n")
    repository.commit(SPRING)
    os.utime(path)
    assert changes(memory.history("a.md").versions) == [((), ("one",))]
    path.write_text("one\ntwo\n")
    first, second = memory.history("a.md").versions
    assert (first.commit.name, first.added, first.citation) == ("", ("two",), "a.md")
    assert first.commit.time
    assert second.commit.name == repository.git("rev-parse", "HEAD")


def test_note_that_was_never_committed_has_no_history(memory: Memory, repository: Repository, write: Write) -> None:
    """The error says what begins one."""
    write("a.md", "one\n")
    repository.commit(SPRING)
    write("new.md", "two\n")
    with pytest.raises(NoSuchNote, match=r"new\.md was never committed"):
        memory.history("new.md")
    with pytest.raises(NoSuchNote, match=r"gone\.md was never committed"):
        memory.history("gone.md")
    for location in ("gone", "../a.md", ".git/config", "", " "):
        if location:
            with pytest.raises((NoteError, UsageError)):
                memory.history(location)


def test_repository_without_a_commit_says_so(memory: Memory, repository: Repository, write: Write) -> None:
    """Blame says that no line is committed."""
    write("a.md", "one\n")
    for location in ("", "a.md"):
        with pytest.raises(UsageError, match="neither a commit nor a date"):
            memory.history(location)
    assert [line.commit.name for line in memory.blame("a.md").lines] == [""]


def test_renames_are_followed(memory: Memory, repository: Repository, write: Write, root: Path) -> None:
    """Through several names, also into and out of a folder; each citation has the name of then."""
    text = "".join(f"line {number}\n" for number in range(20))
    write("a.md", text)
    repository.commit(SPRING)
    for number, (old, new) in enumerate([("a.md", "b c.md"), ("b c.md", "deep/d.md"), ("deep/d.md", "e.md")], 1):
        (root / new).parent.mkdir(exist_ok=True)
        (root / old).rename(root / new)
        write(new, text := text + f"more {number}\n")
        repository.commit(SPRING + number)
    versions = memory.history("e.md").versions
    assert [version.path for version in versions] == ["e.md", "deep/d.md", "b c.md", "a.md"]
    assert [version.added[-1] for version in versions] == ["more 3", "more 2", "more 1", "line 19"]
    assert memory.get(versions[1].citation).text.endswith("more 2")
    assert [version.added for version in memory.history("e.md:22").versions] == [("more 2",)]
    lines = memory.blame("e.md").lines
    assert [line.commit.time for line in lines[19:]] == [version.commit.time for version in reversed(versions)]


def test_rename_alone_is_no_version(memory: Memory, repository: Repository, write: Write, root: Path) -> None:
    """It changed no line."""
    commit_each(repository, write, "a.md", "one\ntwo\n")
    (root / "a.md").rename(root / "b.md")
    repository.commit(SUMMER)
    assert [version.path for version in memory.history("b.md").versions] == ["a.md"]


def test_history_does_not_go_back_to_a_name_that_is_left_out(
    memory: Memory, repository: Repository, write: Write, root: Path
) -> None:
    """What was in a hidden or an ignored folder is read by no command."""
    text = "".join(f"line {number}\n" for number in range(20))
    write("private/a.md", f"{text}secret\n")
    repository.commit(SPRING)
    (root / "private/a.md").rename(root / "a.md")
    write("a.md", text)
    write(".gitignore", "/private/\n")
    repository.commit(SUMMER)
    assert "secret" not in str(memory.history("a.md").versions[1:])
    with pytest.raises(NoSuchNote):
        memory.history("private/a.md")


def test_deleted_note_has_its_history(memory: Memory, repository: Repository, write: Write, root: Path) -> None:
    """The commit that deleted it comes first; a line of it is one of its last text."""
    commit_each(repository, write, "a.md", "one\n", "one\ntwo\n")
    write("keep.md", "x\n")
    (root / "a.md").unlink()
    repository.commit(AUTUMN)
    assert changes(memory.history("a.md").versions) == [(("one", "two"), ()), ((), ("two",)), ((), ("one",))]
    assert changes(memory.history("a.md:2").versions) == [((), ("two",))]
    commit = memory.history("a.md").versions[1].commit
    assert [line.text for line in memory.blame(f"a.md@{commit.name}").lines] == ["one", "two"]
    write("a.md", "new\n")
    repository.commit(AUTUMN + 9)
    assert changes(memory.history("a.md").versions)[0] == ((), ("new",))


def test_merge_counts_as_one_commit(memory: Memory, repository: Repository, write: Write) -> None:
    """With what it changed on its branch; blame names the commit that wrote each line, wherever that was."""
    write("a.md", "one\ntwo\nthree\nfour\nfive\n")
    repository.commit(SPRING)
    repository.git("checkout", "-qb", "other")
    write("a.md", "one\ntwo\nthree\nfour\nV\n")
    repository.commit(SUMMER)
    other = repository.git("rev-parse", "HEAD")
    repository.git("checkout", "-q", "main")
    write("a.md", "I\ntwo\nthree\nfour\nfive\n")
    repository.commit(SUMMER + 9)
    repository.git("merge", "-q", "--no-edit", "other", at=AUTUMN)
    versions = memory.history("a.md").versions
    assert changes(versions)[:2] == [(("five",), ("V",)), (("one",), ("I",))]
    assert [len(version.commit.time) > 0 for version in versions] == [True] * 3
    assert versions[0].commit.name == repository.git("rev-parse", "HEAD")
    assert memory.blame("a.md:5").lines[0].commit.name == other


def test_text_that_only_a_merge_wrote_is_of_the_merge(memory: Memory, repository: Repository, write: Write) -> None:
    """A conflict that somebody solved by hand."""
    commit_each(repository, write, "a.md", "one\n")
    repository.git("checkout", "-qb", "other")
    commit_each(repository, write, "a.md", "two\n")
    repository.git("checkout", "-q", "main")
    commit_each(repository, write, "a.md", "three\n")
    repository.git("merge", "-q", "other", check=False)
    write("a.md", "both\n")
    repository.commit(AUTUMN)
    merge = repository.git("rev-parse", "HEAD")
    versions = memory.history("a.md").versions
    assert (versions[0].commit.name, changes(versions)[0]) == (merge, (("three",), ("both",)))
    assert memory.blame("a.md").lines[0].commit.name == merge


def test_limit_leaves_out_the_oldest(memory: Memory, repository: Repository, write: Write) -> None:
    """Of a note, and of the memory."""
    commit_each(repository, write, "a.md", *(f"{number}\n" for number in range(30)))
    assert len(memory.history("a.md").versions) == len(memory.history().versions) == 20
    assert [version.added for version in memory.history("a.md", limit=2).versions] == [("29",), ("28",)]
    assert len(memory.history("a.md", limit=5000).versions) == 30


def test_history_of_the_memory_counts_the_notes_of_each_commit(
    memory: Memory, repository: Repository, write: Write
) -> None:
    """A commit of other files is not in it."""
    write("a.md", "one\n")
    write("b.md", "one\n")
    write("x.py", "one\n")
    repository.commit(SPRING)
    write("x.py", "two\n")
    repository.commit(SUMMER)
    assert [(version.notes, version.path, version.citation) for version in memory.history().versions] == [(2, "", "")]


def test_versions_that_are_no_text_have_no_lines(memory: Memory, repository: Repository, write: Write) -> None:
    """A note may have been a picture for a while."""
    commit_each(repository, write, "a.md", "one\n", bytes(range(256)) * 20, "two\n")
    assert changes(memory.history("a.md").versions) == [((), ("two",)), (("one",), ()), ((), ("one",))]


def test_line_ends_and_encodings_are_no_text(memory: Memory, repository: Repository, write: Write) -> None:
    """LF, CRLF and a byte order mark; blame names the same commits."""
    commit_each(repository, write, "a.md", b"one\r\ntwo\r\n", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\n")
    assert changes(memory.history("a.md").versions) == [((), ("three",)), ((), ("one", "two"))]
    names = [line.commit.name for line in memory.blame("a.md").lines]
    first, second = repository.git("rev-parse", "HEAD~1", "HEAD").split()
    assert names == [second, first, second]
    write("a.md", b"\xef\xbb\xbfone\r\ntwo\r\nthree\r\nfour")
    assert [line.commit.name for line in memory.blame("a.md").lines] == [second, first, second, ""]


@pytest.mark.parametrize("content", [b"one\rtwo\rthree\n", "one\ntwo\n".encode("utf-16")])
def test_blame_refuses_lines_that_git_does_not_count(
    content: bytes, memory: Memory, repository: Repository, write: Write
) -> None:
    """Otherwise it would name another line's commit."""
    commit_each(repository, write, "a.md", content)
    try:
        lines = memory.blame("a.md").lines
    except NoteError as refused:
        assert "line ends" in refused.message
    else:
        assert {line.commit.name for line in lines} == {repository.git("rev-parse", "HEAD")}
    assert memory.history("a.md").versions


@pytest.mark.parametrize("path", ODD_PATHS)
def test_any_name_of_a_note_has_a_history(path: str, memory: Memory, repository: Repository, write: Write) -> None:
    """At each place that takes a location; patterns of git are no patterns here."""
    commit_each(repository, write, path, "# H\n\none\n", "# H\n\ntwo\n")
    write("other.md", "# H\n\nx\n")
    repository.commit(AUTUMN)
    repository.git("tag", "v1", "main~2")
    for location in (path, f"{path}:3", f"{path}#H"):
        versions = memory.history(location).versions
        assert [version.path for version in versions] == [path] * 2, location
        assert changes(versions)[0] == (("one",), ("two",))
        assert memory.blame(location).lines[-1].commit.name == versions[0].commit.name
    for version in memory.history(path).versions:
        assert memory.get(version.citation).text.endswith(version.added[-1])
    assert memory.get(f"{path}@v1:3").text == "one"
    assert memory.get(f"{path}@v1#H").text == "# H\n\none"
    assert memory.blame(f"{path}@v1:3").lines[0].text == "one"
    (hit,) = memory.search("one", at="v1", mode="keyword").hits
    assert memory.get(hit.citation).text == hit.text


# --------------------------------------------------------------------------------------------- parts of notes


def test_line_is_followed_to_where_it_was(memory: Memory, repository: Repository, write: Write) -> None:
    """Lines above it came and went, and it was changed."""
    commit_each(
        repository, write, "a.md",
        "alpha\nthe heron nests\nomega\n",
        "new\nnew\nalpha\nthe heron nests\nomega\n",
        "new\nnew\nalpha\nthe heron sleeps\nomega\n",
        "alpha\nthe heron sleeps\nomega\nlast\n",
    )  # fmt: skip
    versions = memory.history("a.md:2").versions
    assert [(version.text, version.start_line) for version in versions] == [
        ("the heron sleeps", 4),
        ("the heron nests", 2),
    ]
    assert changes(versions) == [(("the heron nests",), ("the heron sleeps",)), ((), ("the heron nests",))]
    assert [memory.get(version.citation).text for version in versions] == ["the heron sleeps", "the heron nests"]


def test_section_is_followed_when_its_heading_is_renamed(memory: Memory, repository: Repository, write: Write) -> None:
    """And when it moves, and while it did not exist nothing is listed."""
    commit_each(
        repository, write, "a.md",
        "# A\n\nx\n",
        "# A\n\nx\n\n## Store\n\nSQLite\n\n## End\n\ny\n",
        "# A\n\nx\n\n## Decision\n\nSQLite\n\n## End\n\ny\n",
        "# A\n\n## End\n\ny\n\n## Decision\n\nSQLite\n\nbecause\n",
        "# A\n\n## End\n\nzzz\n\n## Decision\n\nSQLite\n\nbecause\n",
    )  # fmt: skip
    versions = memory.history("a.md#Decision").versions
    assert [version.text.split("\n")[0] for version in versions] == ["## Decision", "## Decision", "## Store"]
    assert "because" in versions[0].added
    assert (versions[1].removed, versions[1].added) == (("## Store",), ("## Decision",))
    assert versions[2].removed == ()


def test_history_begins_at_the_commit_of_a_citation(memory: Memory, repository: Repository, write: Write) -> None:
    """Its lines are those of that commit, and nothing later is listed."""
    commit_each(repository, write, "a.md", "heron\n", "new\nheron\n", "new\nnew\nstork\n")
    repository.git("tag", "v2", "main~1")
    write("a.md", "uncommitted\n")
    assert [version.text for version in memory.history("a.md@v2:2").versions] == ["heron"]
    assert len(memory.history("a.md@v2").versions) == 2
    assert len(memory.history("a.md").versions) == 4


def test_place_that_the_note_does_not_have_is_an_error(memory: Memory, repository: Repository, write: Write) -> None:
    """With what is near."""
    commit_each(repository, write, "a.md", "# Heron\n\none\n")
    with pytest.raises(NoteError, match="has 3 lines"):
        memory.history("a.md:9")
    with pytest.raises(NoteError, match="no heading") as refused:
        memory.history("a.md#Herron")
    assert "Heron" in refused.value.hint


@pytest.mark.slow
def test_long_note_and_many_equal_lines_take_seconds_at_most(
    memory: Memory, repository: Repository, write: Write
) -> None:
    """100,000 lines with changes at both ends, and thousands of lines that are alike."""
    lines = [f"line {number}" for number in range(100_000)]
    alike = [line for number in range(3_000) for line in ("- the same", f"{number}")]
    other = [line for number in range(3_000) for line in ("- the same", f"other {number}", "")]
    texts = ["\n".join(part) for part in (lines, ["new", *lines[1:-1], "end"], alike, other, alike)]
    commit_each(repository, write, "a.md", *texts)
    assert len(memory.history("a.md").versions) == 5
    versions = memory.history("a.md@main~3:50000").versions
    assert [version.text for version in versions] == ["line 49999"]
    blamed = memory.blame("a.md@main~3").lines
    assert len(blamed) == 100_000
    assert len({line.commit.name for line in blamed}) == 2


def test_equal_lines_within_the_limit_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Above it, the change counts as one."""
    older, newer = ["a", "x", "b", "y", "c"], ["a", "x2", "b", "y2", "c"]
    assert history_module._different(older, newer) == (("x2", "y2"), ("x", "y"))
    monkeypatch.setattr(history_module, "MAX_COMPARED", 1)
    assert history_module._different(older, newer) == (("x2", "b", "y2"), ("x", "b", "y"))


# --------------------------------------------------------------------------------------------- blame


def test_blame_says_from_whom_each_line_is(memory: Memory, repository: Repository, write: Write) -> None:
    """Commit and day, origin and session, as a search says them; the front matter and empty lines, too."""
    write("a.md", "---\ntags: [x]\n---\n\nOurs.\n\n- Its. {by=codex session=s9}\n")
    write("threads/t.md", "---\nsession: s1\n---\n\n## user\n\nHi\n\n## agent:codex\n\nHello\n\n## tool\n\nran\n")
    repository.commit(SPRING)
    lines = memory.blame("a.md").lines
    assert [line.line for line in lines] == [1, 2, 3, 4, 5, 6, 7]
    assert {line.commit.time[:10] for line in lines} == {"2023-11-14"}
    assert (lines[4].origin, lines[4].session) == ("owner", "")
    assert (lines[6].origin, lines[6].session) == ("agent:codex", "s9")
    said = {line.text: (line.origin, line.session) for line in memory.blame("threads/t.md").lines}
    assert said["Hi"] == ("owner", "s1")
    assert said["Hello"] == ("agent:codex", "s1")
    assert said["ran"] == ("tool", "s1")


def test_blame_of_front_matter_that_is_text(memory: Memory, repository: Repository, write: Write) -> None:
    """It is searched like the body."""
    write("a.md", "---\njust a sentence\n---\n# A\n\none\n\n## B\n\ntwo\n")
    repository.commit(SPRING)
    assert [line.line for line in memory.blame("a.md:2-6").lines] == [2, 3, 4, 5, 6]


def test_empty_note_has_no_lines_to_blame(memory: Memory, repository: Repository, write: Write) -> None:
    """An uncommitted one neither."""
    write("a.md", "")
    repository.commit(SPRING)
    write("b.md", "")
    for path in ("a.md", "b.md"):
        assert [(line.text, line.commit.name) for line in memory.blame(path).lines] == [("", "")]

"""The history of a repository that a stranger made: trees, names and messages that git itself would not write."""

from __future__ import annotations

import hashlib
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from memsync.errors import MemsyncError, NoteError, UsageError
from memsync.features import history as history_module
from memsync.memory import Memory
from memsync.notes import revisions as revisions_module
from memsync.notes.revisions import Revisions
from tests.conftest import MakeMemory, Write
from tests.faults.test_git_programs import (
    STRUCTURE,
    clean_git,
    in_embedded_bare,
    in_tarball,
    in_worktree_file,
    listed_variables,
    plant,
    traces,
    witness,
)
from tests.support.repository import SPRING, SUMMER, Repository

__all__ = ["witness"]

Entry = tuple[str, bytes, bytes]
"""Mode, name and the 20 bytes of the object's name."""


class Forge:
    """Writes objects that git's own commands refuse to write."""

    def __init__(self, repository: Repository) -> None:
        self.repository = repository

    def write(self, kind: str, content: bytes) -> bytes:
        """Write an object as it is, and return its name."""
        git_dir = self.repository.folder / ".git"
        data = f"{kind} {len(content)}\0".encode() + content
        name = hashlib.sha1(data, usedforsecurity=False).hexdigest()
        command = ["git", "hash-object", "-w", "-t", kind, "--stdin", "--literally"]
        made = subprocess.run(command, input=content, cwd=git_dir, capture_output=True, check=True).stdout
        assert made.decode().strip() == name
        return bytes.fromhex(name)

    def blob(self, text: str) -> bytes:
        """Write a file's content."""
        return self.write("blob", text.encode())

    def tree(self, *entries: Entry) -> bytes:
        """Write a tree with these entries, in this order."""
        return self.write("tree", b"".join(mode.encode() + b" " + name + b"\0" + blob for mode, name, blob in entries))

    def commit(
        self,
        tree: bytes,
        author: bytes = b"A <a@b>",
        message: bytes = b"x",
        parents: Sequence[bytes] = (),
        at: int = SPRING,
    ) -> str:
        """Write a commit of a tree, let the branch name it, and return its name."""
        lines = [b"tree " + tree.hex().encode(), *(b"parent " + name.hex().encode() for name in parents)]
        lines += [b"author %s %d +0000" % (author, at), b"committer %s %d +0000" % (author, at), b"", message]
        name = self.write("commit", b"\n".join(lines) + b"\n").hex()
        self.repository.git("update-ref", "refs/heads/main", name)
        return name


@pytest.fixture
def forge(repository: Repository) -> Forge:
    return Forge(repository)


def paths_found(memory: Memory) -> list[str]:
    hits = memory.search("heron", at="main", limit=50, mode="keyword").hits
    return sorted({place.split("@")[0] for hit in hits for place in (hit.citation, *hit.also)})


def everything(memory: Memory, at: str = "main") -> list[Callable[[], object]]:
    """Return everything that reads a commit."""
    return [
        lambda: memory.search("heron", at=at), lambda: memory.get(f"a.md@{at}"), lambda: memory.history("a.md"),
        lambda: memory.history(), lambda: memory.blame(f"a.md@{at}"), lambda: memory.diff(at, "HEAD"),
        lambda: memory.diff(at), lambda: memory.digest(since=at),
    ]  # fmt: skip


def ask_everything(memory: Memory, at: str = "main") -> None:
    """Ask everything of a commit: an answer or one of memsync's errors with a hint."""
    for ask in everything(memory, at):
        try:
            ask()
        except MemsyncError as error:
            assert error.hint or isinstance(error, NoteError), error


def files_outside(root: Path, memory: Memory) -> list[Path]:
    """Return the files that are neither the repository's nor in the folder of the states."""
    state = memory.settings.index_dir / "past"
    return [
        path
        for path in root.parent.rglob("*")
        if path.suffix == ".md" and state not in path.parents and not path.is_relative_to(root)
    ]


# --------------------------------------------------------------------------------------------- hostile trees


@pytest.mark.parametrize(
    "name",
    [
        b"..", b".", b".git", b"", b"/etc", b"a/../b.md", b"/tmp/evil.md", b"../../evil.md", b".GIT", b"a//b.md",
        b"evil\\..\\b.md",
    ],
)  # fmt: skip
def test_tree_leads_to_no_other_place(name: bytes, forge: Forge, memory: Memory, root: Path) -> None:
    """As a file and as a folder: nothing is written outside of the state, and the rest is answered."""
    blob = forge.blob("The heron nests.\n")
    inner = forge.tree(("100644", b"evil.md", blob), ("40000", b"deep", forge.tree(("100644", b"evil.md", blob))))
    forge.commit(forge.tree(("100644", name, blob), ("40000", name, inner), ("100644", b"a.md", blob)))
    try:
        found = paths_found(memory)
    except UsageError as refused:  # git itself may refuse such a tree
        assert "the history cannot be read" in refused.message
        found = ["a.md"]
    assert "a.md" in found
    assert not any(part in ("..", ".", "", ".git") for path in found for part in path.split("/"))
    ask_everything(memory)
    assert files_outside(root, memory) == []
    assert not Path("/tmp/evil.md").exists()


def test_impossible_files_of_a_tree_are_left_out(forge: Forge, memory: Memory) -> None:
    """Names of 300 bytes, the same name twice, a file that is a folder, too, and names that are not UTF-8."""
    blob, other = forge.blob("The heron nests.\n"), forge.blob("The heron sleeps.\n")
    folder = forge.tree(("100644", b"b.md", blob))
    forge.commit(
        forge.tree(
            ("100644", b"a.md", blob),
            ("100644", b"clash.md", blob),
            ("40000", b"clash.md", folder),
            ("100644", b"f\xe9.md", blob),
            ("100644", b"line\nend \x1b[31m.md", blob),
            ("100644", b"twice.md", blob),
            ("100644", b"twice.md", other),
            ("100644", b"x" * 300 + b".md", blob),
            ("40000", b"y" * 300, folder),
        )
    )
    found = paths_found(memory)
    assert found[0] == "a.md"
    assert set(found) <= {"a.md", "clash.md", "clash.md/b.md", "line\nend \x1b[31m.md", "twice.md"}
    assert "line\nend \x1b[31m.md" in found
    ask_everything(memory)


def test_deep_folders_of_a_tree_are_left_out(forge: Forge, memory: Memory) -> None:
    """A path of 100,000 characters is no file on any disk."""
    blob = forge.blob("The heron nests.\n")
    tree = forge.tree(("100644", b"deep.md", blob))
    for _ in range(500):
        tree = forge.tree(("40000", b"d" * 200, tree))
    forge.commit(forge.tree(("100644", b"a.md", blob), ("40000", b"d", tree)))
    assert paths_found(memory) == ["a.md"]


def test_links_submodules_and_programs_are_no_notes(forge: Forge, memory: Memory, root: Path, tmp_path: Path) -> None:
    """Only regular files are; a link of a commit leads nowhere, in its history neither."""
    (tmp_path / "secret.md").write_text("The heron is secret.\n")
    link = forge.write("blob", str(tmp_path / "secret.md").encode())
    blob = forge.blob("The heron nests.\n")
    first = forge.commit(
        forge.tree(
            ("100755", b"a.md", blob),
            ("120000", b"link.md", link),
            ("160000", b"sub.md", b"\x01" * 20),
            ("40000", b"z", forge.tree(("120000", b"b.md", link))),
        )
    )
    assert paths_found(memory) == ["a.md"]
    ask_everything(memory)
    forge.commit(
        forge.tree(("100644", b"a.md", blob), ("100644", b"link.md", blob), ("100644", b"sub.md", blob)),
        parents=[bytes.fromhex(first)],
        at=SUMMER,
    )
    forge.repository.git("checkout", "-qf", "main")
    for path in ("link.md", "sub.md"):
        versions = memory.history(path).versions
        assert [(version.added, version.removed) for version in versions] == [(("The heron nests.",), ())]


def test_tree_that_leads_to_itself_or_has_nonsense_is_an_error(forge: Forge, memory: Memory) -> None:
    """So is one whose objects are missing."""
    for tree in (forge.write("tree", b"nonsense"), forge.tree(("40000", b"d", b"\x01" * 20)), b"\x02" * 20):
        forge.commit(tree)
        ask_everything(memory)
        with pytest.raises(UsageError):
            memory.search("heron", at="main")


def test_missing_note_of_a_commit_is_an_error_and_costs_the_other_dates_nothing(
    repository: Repository, memory: Memory, write: Write, root: Path
) -> None:
    """A partial clone lacks it: an answer without it would not be that of the commit."""
    write("a.md", "The heron nests.\n")
    write("b.md", "The heron sleeps.\n")
    repository.commit(SPRING)
    blob = repository.git("rev-parse", "main:b.md")
    (root / ".git/objects" / blob[:2] / blob[2:]).unlink()
    with pytest.raises(UsageError, match="lacks the file"):
        memory.search("heron", at="main")
    assert memory.get("a.md@main").text == "The heron nests."
    with pytest.raises(UsageError, match="lacks the file"):
        memory.get("b.md@main")
    assert {hit.changed[:10] for hit in memory.search("heron").hits} == {"2023-11-14"}
    assert memory.status().undated == ""


@pytest.mark.parametrize("kind", ["tree", "commit", "tag"])
def test_object_of_another_sort_in_the_place_of_a_note_is_no_note(kind: str, forge: Forge, memory: Memory) -> None:
    """Its entry says that it is a file."""
    content = {"tree": b"", "commit": b"tree x\n", "tag": b"object x\n"}[kind]
    forge.commit(forge.tree(("100644", b"a.md", forge.blob("heron")), ("100644", b"b.md", forge.write(kind, content))))
    with pytest.raises(UsageError):
        memory.search("heron", at="main")
    ask_everything(memory)


# --------------------------------------------------------------------------------------------- sizes


def test_huge_note_of_a_commit_is_left_out_and_no_version(
    repository: Repository, memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is larger than a note may be; its other versions are listed, and compared with each other."""
    for module in (revisions_module, history_module):
        monkeypatch.setattr(module, "MAX_NOTE_BYTES", 1_000)
    for text in ("The heron nests.\n", "The heron " * 1_000, "The heron sleeps.\n"):
        write("a.md", text)
        write("b.md", "The heron fishes.\n")
        repository.commit(SPRING)
    assert [hit.path for hit in memory.search("heron", at="main~1").hits] == ["b.md"]
    versions = memory.history("a.md").versions
    assert [(version.added, version.removed) for version in versions] == [
        (("The heron sleeps.",), ("The heron nests.",)),
        (("The heron nests.",), ()),
    ]


def test_commit_with_too_many_bytes_of_notes_is_refused(
    repository: Repository, memory: Memory, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing of it is written."""
    monkeypatch.setattr(revisions_module, "MAX_TREE_BYTES", 10)
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    with pytest.raises(UsageError, match="have over"):
        memory.search("heron", at="main")
    assert not list(memory.settings.index_dir.glob("past/*/files/*"))


def test_content_that_git_prints_is_read_to_the_byte(forge: Forge, root: Path) -> None:
    """Also if it looks like git's own lines, is empty or has no line end."""
    contents = [b"", b"\n", b"x", b"\0\xff\r\n", b"0" * 40 + b" blob 5\nabcde\n", b"y" * 2_500_000]
    names = [forge.write("blob", content).hex() for content in contents]
    forge.commit(forge.tree())
    revisions = Revisions.of(root)
    with revisions.git() as git:
        blobs = [revisions_module.Blob(name, len(content)) for name, content in zip(names, contents, strict=True)]
        assert [content for _, content in revisions.contents(git, blobs)] == contents


# --------------------------------------------------------------------------------------------- hostile words


def test_words_of_a_commit_are_shown_on_one_line_and_add_none(forge: Forge, memory: Memory, write: Write) -> None:
    """Authors and messages may have any bytes: separators of the format, line ends, half characters, commands."""
    blob = forge.blob("The heron nests.\n")
    author = b"Eve\x1f\x1b]0;evil\x07 \xff\xe2\x80\xae <e@f>"
    message = b"one\x1ftwo\x01three\x1b[31m \xed\xa0\x80\n\nmore"
    name = forge.commit(forge.tree(("100644", b"a.md", blob)), author, message)
    write("a.md", "The heron nests.\n")
    (version,) = memory.history("a.md").versions
    assert (version.commit.name, version.commit.time[:10]) == (name, "2023-11-14")
    assert version.path == "a.md" and version.added == ("The heron nests.",)
    (whole,) = memory.history().versions
    assert (whole.commit.name, whole.notes) == (name, 1)
    (line,) = memory.blame("a.md").lines
    assert line.commit.name == name
    for commit in (version.commit, whole.commit, line.commit):
        assert "\n" not in commit.author + commit.subject
        (commit.author + commit.subject).encode()


@pytest.mark.parametrize("moment", [b"0", b"-5", b"99999999999999999999", b"x", b""])
def test_commit_without_a_possible_time_is_answered(moment: bytes, forge: Forge, memory: Memory, write: Write) -> None:
    """Anybody may write anything there."""
    blob = forge.blob("The heron nests.\n")
    tree = forge.tree(("100644", b"a.md", blob)).hex().encode()
    content = b"tree %s\nauthor A <a@b> %s +0000\ncommitter A <a@b> %s +0000\n\nx\n" % (tree, moment, moment)
    forge.repository.git("update-ref", "refs/heads/main", forge.write("commit", content).hex())
    write("a.md", "The heron nests.\n")
    assert [hit.path for hit in memory.search("heron", at="main").hits] == ["a.md"]
    assert len(memory.history("a.md").versions) == len(memory.blame("a.md").lines) == 1
    ask_everything(memory)


def test_references_of_a_stranger_are_read_as_data(
    repository: Repository, memory: Memory, write: Write, root: Path
) -> None:
    """A FIFO, a link and a loop in place of a reference; more of them than are looked at."""
    write("a.md", "The heron nests.\n")
    repository.commit(SPRING)
    (root / ".git/refs/heads/loop").write_text("ref: refs/heads/loop\n")
    for name in ("loop", "nothing"):
        with pytest.raises(UsageError):
            memory.search("heron", at=name)
    assert memory.search("heron", at="main").hits
    (root / ".git/refs/heads/link").symlink_to("/etc/passwd")
    with pytest.raises(UsageError, match="refs/heads/link is not a regular file"):
        memory.search("heron", at="main")


# --------------------------------------------------------------------------------------------- programs


@pytest.mark.parametrize("arrive", [in_tarball, in_embedded_bare, in_worktree_file])
def test_nothing_that_a_repository_configures_is_run_for_its_history(
    arrive: Callable[[Path], Path], tmp_path: Path, witness: Path, make_memory: MakeMemory
) -> None:
    """Each variable that this git lists names a program, and so does each hook, filter and driver of diffs."""
    from memsync.settings.load import load_settings

    root = tmp_path / "clone/notes"
    root.mkdir(parents=True)
    git_dir = arrive(root)
    plant(git_dir, witness, [name for name in listed_variables() if not STRUCTURE.fullmatch(name)])
    if arrive is in_embedded_bare:
        clean_git(root.parent, "add", "-A")
        clean_git(root.parent, "commit", "-qm", "x")
    (git_dir / "info/attributes").write_text("* diff=evil merge=evil filter=evil textconv=evil\n")
    memory = make_memory(own_settings=load_settings(root=root, environ={}, cwd=root))
    (root / "old/a.md").write_text("an older heron\n")
    assert memory.search("heron", at="HEAD").hits
    assert memory.get("old/a.md@HEAD").text
    assert memory.history("old/a.md").versions
    assert memory.blame("old/a.md").lines
    assert memory.diff("HEAD").changes
    assert memory.digest(since="HEAD").text
    assert traces(witness) == []

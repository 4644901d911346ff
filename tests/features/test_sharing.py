"""`memsync share`: several machines have the same notes, nothing is lost, and nothing private or hostile passes."""

from __future__ import annotations

import errno
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from memsync.edit import note_file
from memsync.edit.commits import LockedIndex
from memsync.errors import UsageError, WriteRefused
from memsync.features.sharing import beginning, checkout
from memsync.features.sharing.beginning import copy_shared
from memsync.features.sharing.remote import Remote
from memsync.features.sharing.share import exchange as exchange_now
from memsync.memory import Memory
from memsync.model.status import Shared
from memsync.notes.git import Git
from memsync.ports import WRITES_FOR_AGENT
from memsync.settings.load import Settings, load_settings, with_changes
from memsync.wiring import recognise_root
from tests.conftest import MakeMemory, Patch
from tests.support.repository import Repository

KEY = "ghp_" + "q7R2m9Kx4Lw8Zt1Vb6Nc3Yp5Hd0Jf2Sg7Ta8"
Join = Callable[[str], Memory]


@pytest.fixture(autouse=True)
def _author(tmp_path: Path) -> None:
    """Set the name that git needs for commits."""
    (home := tmp_path / "home").mkdir(exist_ok=True)
    (home / ".gitconfig").write_text("[user]\n\tname = Ada\n\temail = ada@example.org\n")


@pytest.fixture
def address(tmp_path: Path) -> Path:
    return tmp_path / "shared.git"


@pytest.fixture
def here(memory: Memory, address: Path) -> Memory:
    """Share a memory with one note."""
    put(memory, "a.md", "# A\n\none\n\ntwo\n\nthree\n")
    assert in_order(memory.share(str(address)))
    return memory


@pytest.fixture
def join(address: Path, tmp_path: Path, make_memory: MakeMemory) -> Join:
    """Give another machine the shared notes."""

    def joined(name: str) -> Memory:
        copy_shared(str(address), tmp_path / name)
        return make_memory(own_settings=load_settings(root=tmp_path / name, environ={}, cwd=tmp_path / name))

    return joined


@pytest.fixture
def there(here: Memory, join: Join) -> Memory:
    """Give another machine the same memory."""
    return join("there")


def put(memory: Memory, path: str, text: str | bytes) -> Path:
    place = memory.settings.root / path
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(text if isinstance(text, bytes) else text.encode())
    return place


def text_of(memory: Memory, path: str) -> str:
    return (memory.settings.root / path).read_text()


def in_order(shared: Shared) -> Shared:
    assert not shared.warnings, shared
    return shared


def exchanged(*memories: Memory) -> None:
    for memory in (*memories, *memories):
        in_order(exchange_now(memory))


def files(memory: Memory) -> dict[str, bytes]:
    root = memory.settings.root
    paths = [path for path in root.rglob("*") if path.is_file() and ".git" not in path.relative_to(root).parts]
    return {str(path.relative_to(root)): path.read_bytes() for path in paths}


def is_clean(memory: Memory) -> bool:
    return not Repository(memory.settings.root).git("status", "--porcelain")


# ---------------------------------------------------------------------------------- what both have afterwards

MARKS = f"\nmid\n\n{'=' * 60}\n{'<' * 47} x\n{'>' * 80}\n\n- y\n"
BOTH: dict[str, tuple[str | None, str | None, str | None, str]] = {
    "a log": ("# D\n\n- 10:00 a\n", "# D\n\n- 10:00 a\n- 10:02 b\n", "# D\n\n- 10:00 a\n- 10:01 c\n",
        "# D\n\n- 10:00 a\n- 10:01 c\n- 10:02 b\n"),
    "a new log": (None, "# D\n\n- 10:02 b\n", "# D\n\n- 10:01 c\n", "# D\n\n- 10:01 c\n- 10:02 b\n"),
    "a log out of order": ("# D\n", "# D\n\n- 10:05 b\n- 10:01 a\n", "# D\n\n- 10:03 c\n",
        "# D\n\n- 10:03 c\n- 10:05 b\n- 10:01 a\n"),
    "lines like marks": (f"- x\n{MARKS}", f"- x\n- a\n{MARKS}", f"- x\n- b\n{MARKS}", f"- x\n- a\n- b\n{MARKS}"),
    "an edited line below which another was added": ("- x\n", "- x, or y\n", "- x\n- z\n", "- x, or y\n- z\n"),
    "a removed line beside which another was added": ("- x\n- y\n", "- y\n", "- x\n- z\n- y\n", "- z\n- y\n"),
    "the same entry": ("- x\n", "- x\n- y\n", "- x\n- y\n", "- x\n- y\n"),
    "one entry in common": ("- x\n", "- x\n- y\n- z\n", "- x\n- y\n- v\n", "- x\n- y\n- z\n- v\n"),
    "the same entry beside different ones": ("- x\n- y\n", "- x2\n- Z\n", "- x\n- Z\n", "- x2\n- Z\n"),
    "the second line of an entry that was removed": ("- k\n- a\n  m\n", "- k\n", "- k\n- a\n  n\n", "- k\n- a\n  n\n"),
    "both lines of a paragraph": ("one\ntwo\n", "ONE\ntwo\n", "one\nTWO\n", "ONE\nTWO\n"),
    "no line end": ("- x", "- x\n- y", "- x\n- z", "- x\n- y\n- z\n"),
    "CRLF": ("- x\r\n", "- x\r\n- y\r\n", "- x\r\n- z\r\n", "- x\r\n- y\r\n- z\r\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", BOTH)
def test_logs_and_lists_keep_what_either_machine_added(name: str, here: Memory, there: Memory) -> None:
    """And what either removed is gone, although `.gitattributes` of older roots asks git for `merge=union`."""
    put(here, ".gitattributes", "*.md merge=union\n")
    base, ours, theirs, both = BOTH[name]
    path = "daily/2026-01-02.md" if "log" in name else "MEMORY.md"
    if base is not None:
        put(here, path, base)
    exchanged(here, there)
    put(here, path, ours or "")
    put(there, path, theirs or "")
    exchanged(there, here)
    assert (here.settings.root / path).read_bytes() == both.encode() == (there.settings.root / path).read_bytes()
    assert is_clean(here) and is_clean(there)


def test_lines_removed_after_a_merge_stay_removed(here: Memory, there: Memory) -> None:
    """A merge moves no line: git would take that for one that was removed and one that was added."""
    path = "daily/2026-01-02.md"
    put(here, path, "# D\n\n- 16:12 a\n- 18:36 b\n- 13:09 c\n")
    exchange_now(here)
    put(there, path, "# D\n\n- 18:13 d\n")
    exchange_now(there)
    put(here, path, "# D\n\n- 08:35 e\n")
    exchanged(here, there)
    assert text_of(there, path) == text_of(here, path) == "# D\n\n- 08:35 e\n- 18:13 d\n"


def test_rest_of_a_removed_message_joins_no_other(here: Memory, there: Memory) -> None:
    """Otherwise its text would become part of another author's message."""
    first, second = "## user @ 2026-01-01 10:00\n\nkept\n", "\n## assistant @ 2026-01-01 11:00\n\nold\n"
    put(here, "threads/t.md", f"# T\n\n{first}{second}")
    exchanged(here, there)
    put(here, "threads/t.md", f"# T\n\n{first}")
    put(there, "threads/t.md", f"# T\n\n{first}{second.replace('old', 'new')}")
    exchanged(here, there)
    assert [(one.role, one.text.strip()) for one in here.thread("t").messages] == [
        ("user", "kept"),
        ("assistant", "new"),
    ]


def test_messages_of_two_machines_stay_whole_and_in_their_order(here: Memory, there: Memory) -> None:
    """Even if both contain the same lists, headings and fences."""
    put(here, "threads/t.md", "# T\n\n## user @ 2026-01-01 09:00\n\nfirst\n")
    exchanged(here, there)
    said = "\n## {} @ 2026-01-01 10:0{}\n\n- yes\n\n```\n## no heading\n```\n\n### Part\n\n- yes\n"
    for memory, role, minute in ((here, "user", 2), (there, "assistant", 1)):
        with open(memory.settings.root / "threads/t.md", "a") as file:
            file.write(said.format(role, minute))
    exchanged(here, there)
    assert text_of(here, "threads/t.md").endswith(said.format("assistant", 1) + said.format("user", 2))
    assert [one.role for one in here.thread("t").messages] == ["user", "assistant", "user"]


def test_later_preference_counts(here: Memory, there: Memory, set_day: Callable[[str], None]) -> None:
    """By the commit that brought it; other keys keep what either machine said."""
    put(here, "preferences.md", "# Preferences\n\n- language: English\n- tabs: yes\n")
    exchanged(here, there)
    repository = Repository(there.settings.root)
    put(there, "preferences.md", "# Preferences\n\n- language: French\n- tabs: no\n")
    repository.git("commit", "-qam", "x", at=2_000_000_000)  # later than what is committed now
    put(here, "preferences.md", "# Preferences\n\n- language: German\n- tabs: yes\n- sign: yes\n")
    exchanged(here, there)
    assert [(one.key, one.value) for one in here.preferences()] == [
        ("language", "French"),
        ("tabs", "no"),
        ("sign", "yes"),
    ]
    assert files(here) == files(there)


@pytest.mark.parametrize("is_edited_here", [True, False])
def test_edited_note_is_not_deleted_by_the_other_machine(here: Memory, there: Memory, is_edited_here: bool) -> None:
    """Nor lost when the other machine renamed it."""
    editing, deleting = (here, there) if is_edited_here else (there, here)
    put(here, "b.md", "# B\n\none\n\ntwo\n\nthree\n")
    exchanged(here, there)
    put(editing, "a.md", "# A\n\none, edited\n\ntwo\n\nthree\n")
    put(editing, "b.md", "# B\n\none, edited\n\ntwo\n\nthree\n")
    (deleting.settings.root / "a.md").unlink()
    (deleting.settings.root / "b.md").rename(deleting.settings.root / "c.md")
    exchanged(here, there)
    assert files(here) == files(there)
    assert "edited" in text_of(here, "a.md") and "edited" in text_of(here, "c.md")


def test_files_of_any_kind_and_name_are_exchanged(here: Memory, there: Memory) -> None:
    """Executable ones stay so; of a picture that both changed, both versions are kept."""
    names = [" a b.md", "größe/ü.md", "-x.md", "a[1].md", "tab\there.md", os.fsdecode(b"caf\xe9.md")]
    for name in names:
        put(here, name, f"{len(name)}\n")
    put(here, "run.sh", "echo\n").chmod(0o755)
    put(here, "p.png", b"\0\1")
    exchanged(here, there)
    assert files(here) == files(there) and os.access(there.settings.root / "run.sh", os.X_OK)
    put(here, "p.png", b"\0\2")
    put(there, "p.png", b"\0\3")
    exchanged(here, there)
    assert files(here) == files(there)
    assert {content for name, content in files(here).items() if name.endswith(".png")} == {b"\0\2", b"\0\3"}
    (here.settings.root / "größe/ü.md").unlink()
    exchanged(here, there)
    assert not (there.settings.root / "größe").exists()


def test_conflict_without_a_rule_stays_in_the_note_until_it_is_solved(
    here: Memory, there: Memory, address: Path
) -> None:
    """Nothing is sent meanwhile; search and status name it; other changes have arrived."""
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    put(here, "b.md", "of here\n")
    exchange_now(here)
    put(there, "a.md", "# A\n\none, there\n\ntwo\n\nthree\n")
    newest = Repository(address).git("rev-parse", "main")
    for _ in range(2):
        shared = exchange_now(there)
        assert shared.conflicts == ("a.md",) and "a.md was changed on two machines" in shared.warnings[0]
    assert Repository(address).git("rev-parse", "main") == newest
    assert text_of(there, "b.md") == "of here\n"
    assert all(part in text_of(there, "a.md") for part in ("<<<<<<<", "one, here", "=======", "one, there", ">>>>>>>"))
    there.sync()
    assert any("on two machines" in warning for warning in there.search("one there").warnings)
    assert any("a.md" in one.reason for one in there.status().warnings if one.path == "(share)")
    put(there, "a.md", "# A\n\none, here and there\n\ntwo\n\nthree\n")
    exchanged(there, here)
    assert text_of(here, "a.md") == text_of(there, "a.md") and "here and there" in text_of(here, "a.md")


@pytest.mark.parametrize("is_killed", [False, True])
def test_no_marks_leave_the_machine_where_the_conflict_is(
    is_killed: bool, here: Memory, there: Memory, monkeypatch: Patch
) -> None:
    """Not in a note that is renamed before it is solved, nor if the exchange is killed just after it wrote them."""
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    exchange_now(here)
    put(there, "a.md", "# A\n\none, there\n\ntwo\n\nthree\n")
    run = Git.run

    def killed(git: Git, *arguments: str, **options: Any) -> Any:
        if arguments[:2] == ("update-ref", "-m") and arguments[2] == "memsync share":
            raise KeyboardInterrupt
        return run(git, *arguments, **options)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) if is_killed else nullcontext():
        patch.setattr(Git, "run", killed if is_killed else run)
        exchange_now(there)
    root = there.settings.root
    if not is_killed:
        (root / "a.md").rename(root / "b.md")
    for _ in range(2):
        assert exchange_now(there).warnings
        exchange_now(here)
        assert not any(b"<<<<<<<" in content for content in files(here).values())
        assert text_of(there, "a.md" if is_killed else "b.md").count("<<<<<<<") == 1
    put(there, "a.md" if is_killed else "b.md", "# A\n\none, both\n\ntwo\n\nthree\n")
    for memory in (there, there, here, there):
        shared = exchange_now(memory)
        for path in shared.conflicts:  # after the kill it has to be solved a second time
            put(memory, path, "# A\n\none, both\n\ntwo\n\nthree\n")
    exchanged(there, here)
    assert files(here) == files(there) and b"one, both" in b"".join(files(here).values())


# ---------------------------------------------------------------------------------- what does not leave


def test_local_only_notes_stay(here: Memory, there: Memory) -> None:
    """Those of a pattern and those that say so; not even the user's own `git add` takes them."""
    put(here, "diary [x].md", "---\nlocal-only: true\n---\nsecret thoughts\n")
    exchanged(here)
    Repository(here.settings.root).git("add", "-A")
    exchanged(here, there)
    assert "diary [x].md" not in files(there)
    put(here, "diary [x].md", "public thoughts\n")
    exchanged(here, there)
    assert text_of(there, "diary [x].md") == "public thoughts\n"


def test_secret_stays_until_the_user_says_so(here: Memory, there: Memory) -> None:
    """Also in a note that was sent before; by its digest, so that another secret in the note still stays."""
    put(here, "a.md", f"# A\n\nThe token is {KEY}.\n")
    (held,) = exchange_now(here).held
    digest = held.reason.rpartition(" ")[2]
    exchange_now(there)
    assert KEY not in text_of(there, "a.md")
    put(there, "a.md", "# A\n\nof there\n")
    exchange_now(there)
    assert "changed on another machine" in exchange_now(here).problem and KEY in text_of(here, "a.md")
    with pytest.raises(UsageError):
        here.share(allow=(KEY,))
    here.share(allow=(digest,))
    assert "a.md" in exchange_now(here).conflicts


@pytest.mark.parametrize("text", [f"The token is {KEY}.\n", "---\nlocal-only: true\n---\nprivate\n"])
def test_what_the_user_committed_by_mistake_is_not_sent(text: str, here: Memory, address: Path) -> None:
    """Also if it became private between the check and the commit."""
    put(here, "b.md", text)
    Repository(here.settings.root).git("add", "-Af")
    Repository(here.settings.root).git("commit", "-qm", "x")
    newest = Repository(address).git("rev-parse", "main")
    assert "b.md is committed, but it" in exchange_now(here).problem
    put(here, "b.md", "Taken out.\n")  # it is in the history all the same
    assert "b.md is committed, but it" in exchange_now(here).problem
    assert Repository(address).git("rev-parse", "main") == newest


def test_only_the_user_begins_to_share(here: Memory, memory: Memory, address: Path) -> None:
    """No agent does, and no clone brings it with it."""
    token = WRITES_FOR_AGENT.set("claude")
    try:
        with pytest.raises(WriteRefused):
            memory.share(str(address))
    finally:
        WRITES_FOR_AGENT.reset(token)
    here.share(stop=True)
    assert exchange_now(here) == Shared() and here.status().shared is None


@pytest.mark.parametrize(
    "setting",
    [
        "core.sshCommand=touch {0}; false", "credential.helper=!touch {0}", "core.hooksPath={1}",
        "filter.x.clean=touch {0}", "core.fsmonitor=touch {0}", "url.ext::touch {0}.insteadOf=/",
        "merge.x.driver=touch {0}", "include.path={2}", "remote.origin.receivepack=touch {0};",
        "diff.external=touch {0}", "gpg.program={1}/pre-push",
    ],
)  # fmt: skip
def test_nothing_that_the_repository_configures_runs(setting: str, here: Memory, there: Memory, tmp_path: Path) -> None:
    """Neither its hooks nor the programs and addresses in its settings."""
    mark, hooks, config = tmp_path / "ran", tmp_path / "hooks", tmp_path / "more"
    hooks.mkdir()
    for name in ("pre-commit", "pre-push", "post-checkout", "post-merge", "reference-transaction"):
        (hooks / name).write_text(f"#!/bin/sh\ntouch {mark}\n")
        (hooks / name).chmod(0o755)
    config.write_text(f"[core]\n\tsshCommand = touch {mark}\n")
    name, _, value = setting.format(mark, hooks, config).partition("=")
    for memory in (here, there):
        Repository(memory.settings.root).git("config", name, value)
        put(memory, ".gitattributes", "*.txt filter=x\n*.md merge=x diff=x\n")
        put(memory, "n.txt", "filtered\n")
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    put(there, "a.md", "# A\n\none\n\ntwo\n\nthree, there\n")
    for memory in (here, there, here):
        exchange_now(memory)
    assert not mark.exists()
    if setting.startswith("filter"):  # git itself runs it
        Repository(here.settings.root).git("add", "-A", check=False)
        assert mark.exists()


@pytest.mark.parametrize("path", [".git/hooks/post-checkout", "../out.md", "link.md", "sub/.GIT/config"])
def test_hostile_commit_is_refused(path: str, here: Memory, there: Memory, address: Path, tmp_path: Path) -> None:
    """It writes nothing outside of the notes, and nothing else of it arrives."""
    before = {**files(here)}
    raw = f"100644 blob {_blob(address, b'evil')}\t{path.rpartition('/')[2]}\n"
    if path == "link.md":
        raw = raw.replace("100644", "120000")
    for folder in reversed(path.split("/")[:-1]):
        raw = f"040000 tree {_given(address, raw, 'mktree')}\t{folder}\n"
    commit = _given(address, "x", "commit-tree", _given(address, raw, "mktree"), "-p", "main")
    Repository(address).git("update-ref", "refs/heads/main", commit)
    assert exchange_now(here).problem
    assert files(here) == before and not (tmp_path / "out.md").exists()
    assert not (here.settings.root / ".git/hooks/post-checkout").exists()


def _given(folder: Path, text: str, *arguments: str) -> str:
    command = ["git", "-c", "user.name=A", "-c", "user.email=a@b", *arguments]
    return subprocess.run(command, cwd=folder, input=text, capture_output=True, text=True, check=True).stdout.strip()


def _blob(folder: Path, content: bytes) -> str:
    return _given(folder, content.decode(), "hash-object", "-w", "--stdin")


# ---------------------------------------------------------------------------------- what is in the way


def _rewritten(here: Memory, address: Path) -> None:
    put(here, "b.md", "b\n")
    exchange_now(here)
    Repository(address).git("update-ref", "refs/heads/main", "main~1")
    other = _given(address, "x", "commit-tree", "main^{tree}")
    Repository(address).git("update-ref", "refs/heads/main", other)


def _in_git(*arguments: str) -> Callable[[Memory, Path], object]:
    return lambda here, _: Repository(here.settings.root).git(*arguments)


WAYS: dict[str, tuple[Callable[[Memory, Path], object], str]] = {
    "no address": (
        lambda _, address: address.rename(address.with_name("gone")),
        "does not appear to be a git repository",
    ),
    "a branch that was rewritten": (_rewritten, "was rewritten"),
    "no branch": (_in_git("checkout", "-q", "--detach"), "is on no branch"),
    "another branch": (_in_git("checkout", "-qb", "other"), "is on refs/heads/other"),
    "a merge": (lambda here, _: put(here, ".git/MERGE_HEAD", "x\n"), "a merge is under way"),
    "a lock": (lambda here, _: put(here, ".git/index.lock", ""), "another git is at work"),
    "something staged": (lambda here, _: (put(here, "a.md", "x\n"), _in_git("add", "a.md")(here, _)), "staged"),
}


@pytest.mark.parametrize("name", WAYS)
def test_what_is_in_the_way_is_said_and_nothing_is_forced(name: str, here: Memory, address: Path) -> None:
    """The notes stay as they are."""
    do, told = WAYS[name]
    do(here, address)
    assert name != "a merge" or told in exchange_now(here).problem  # even if there is nothing to commit
    put(here, "c.md", "c\n")
    before = files(here)
    assert told in exchange_now(here).problem
    assert files(here) == before


def test_notes_that_cannot_be_shared_are_refused(memory: Memory, address: Path, tmp_path: Path) -> None:
    """A folder of a larger repository; an address that is an option; a program in place of an address."""
    for wrong in ("--upload-pack=x", "ext::sh -c true", str(tmp_path / "home"), str(tmp_path / "no/such/x.git")):
        with pytest.raises(UsageError):
            memory.share(wrong)
    Repository(tmp_path).git("init", "-q")
    with pytest.raises(UsageError, match="is a part of the repository"):
        memory.share(str(address))
    with pytest.raises(UsageError, match="is not shared"):
        memory.share()
    with pytest.raises(UsageError, match="is not empty"):
        copy_shared(str(address), tmp_path)


def test_address_of_a_new_repository_with_another_head(memory: Memory, join: Join, address: Path) -> None:
    """Hosts make HEAD name `master`, although `main` is what is sent; the other machine takes what there is."""
    address.mkdir()
    Repository(address).git("init", "-q", "--bare", "-b", "master")
    put(memory, "a.md", "a\n")
    in_order(memory.share(str(address)))
    assert text_of(join("there"), "a.md") == "a\n"


def test_notes_that_began_apart_are_told_what_to_do(here: Memory, make_memory: MakeMemory, tmp_path: Path) -> None:
    """Nothing of either is changed."""
    (other := tmp_path / "other").mkdir()
    apart = make_memory(own_settings=load_settings(root=other, environ={}, cwd=other))
    put(apart, "a.md", "other\n")
    assert "began apart: run memsync init --from" in apart.share(str(tmp_path / "shared.git")).problem
    assert text_of(apart, "a.md") == "other\n"


def test_change_offline_is_sent_later(here: Memory, there: Memory, address: Path) -> None:
    """It is committed at once, so that its time is right."""
    address.rename(away := address.with_name("away"))
    put(here, "b.md", "b\n")
    assert exchange_now(here).problem and is_clean(here)
    away.rename(address)
    exchanged(here, there)
    assert files(here) == files(there)


def test_save_in_the_moment_of_writing_is_kept(here: Memory, there: Memory, monkeypatch: Patch) -> None:
    """An editor saves after the commit and before the file is written: that is merged, too."""
    put(there, "a.md", "# A\n\none\n\ntwo\n\nthree, there\n")
    exchange_now(there)
    write, texts = checkout.write, iter(["# A\n\none, saved\n\ntwo\n\nthree\n"])

    def saving(*arguments: object) -> object:
        for text in texts:
            put(here, "a.md", text)
        return write(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(checkout, "write", saving)
    exchanged(here, there)
    assert text_of(here, "a.md") == text_of(there, "a.md") == "# A\n\none, saved\n\ntwo\n\nthree, there\n"


@pytest.mark.parametrize("is_killed", [False, True])
def test_file_that_arrived_is_no_change_of_ours(
    here: Memory, there: Memory, monkeypatch: Patch, is_killed: bool
) -> None:
    """Even if an editor saves another file at that moment, or the process is killed before that is written."""
    put(here, "b.md", "# B\n\none\n\ntwo\n\nthree\n")
    exchanged(here, there)
    put(there, "a.md", "# A\n\none\n\ntwo\n\nthree, there\n")
    put(there, "b.md", "# B\n\none\n\ntwo\n\nthree, there\n")
    exchange_now(there)
    written = checkout._written

    def interrupted(*arguments: Any) -> bool:
        if arguments[2].path == "b.md":
            monkeypatch.undo()
            put(there, "a.md", "# A\n\none\n\ntwo\n\nthree, there again\n")
            exchange_now(there)
            if is_killed:
                raise KeyboardInterrupt
            put(here, "b.md", "# B\n\none, saved\n\ntwo\n\nthree\n")
        return written(*arguments)

    monkeypatch.setattr(checkout, "_written", interrupted)
    with pytest.raises(KeyboardInterrupt) if is_killed else nullcontext():
        in_order(exchange_now(here))
    exchanged(here, there)
    assert files(here) == files(there)
    assert text_of(here, "a.md") == "# A\n\none\n\ntwo\n\nthree, there again\n"
    assert text_of(here, "b.md") == f"# B\n\none{', saved' * (not is_killed)}\n\ntwo\n\nthree, there\n"


def test_first_exchange_that_was_killed_is_finished(
    here: Memory, address: Path, tmp_path: Path, make_memory: MakeMemory, monkeypatch: Patch
) -> None:
    """What it had written is not taken for notes that began apart."""
    put(here, "b.md", "# B\n")
    exchange_now(here)
    (root := tmp_path / "new").mkdir()
    new = make_memory(own_settings=load_settings(root=root, environ={}, cwd=root))
    written = checkout._written

    def killed(*arguments: Any) -> bool:
        if arguments[2].path == "b.md":
            raise KeyboardInterrupt
        return written(*arguments)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(checkout, "_written", killed)
        new.share(str(address))
    assert (root / "a.md").exists() and not (root / "b.md").exists()
    in_order(exchange_now(new))
    assert files(new) == files(here) and is_clean(new)


def test_files_of_a_local_only_folder_stay(make_memory: MakeMemory, settings: Settings, address: Path) -> None:
    """Pictures and texts in it, too: the user named the folder."""
    memory = make_memory(own_settings=with_changes(settings, {"privacy.local_only": "journal/"}, "test"))
    for name in ("a.md", "photo.png", "n.txt"):
        put(memory, f"journal/{name}", b"private\0")
    put(memory, "b.md", "public\n")
    in_order(memory.share(str(address)))
    assert Repository(address).git("ls-tree", "-r", "--name-only", "main").split() == ["b.md"]


def test_sharing_again_keeps_what_is_known(here: Memory, there: Memory, address: Path) -> None:
    """Conflicts and secrets that were allowed."""
    here.share(allow=("1a2b3c4d",))
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    exchange_now(here)
    put(there, "a.md", "# A\n\none, there\n\ntwo\n\nthree\n")
    assert exchange_now(there).conflicts == ("a.md",)
    assert there.share(str(address)).conflicts == ("a.md",)
    assert here.share(str(address)).allowed == ("1a2b3c4d",)
    exchange_now(here)
    assert "<<<<<<<" not in text_of(here, "a.md")


def test_note_that_both_renamed_and_edited_is_a_conflict(here: Memory, there: Memory) -> None:
    """Git leaves longer marks in it than elsewhere, in two files."""
    text = "# A\n\none\n" + "".join(f"\nline {number}\n" for number in range(30))
    put(here, "a.md", text)
    exchanged(here, there)
    for memory, name in ((here, "c.md"), (there, "d.md")):
        (memory.settings.root / "a.md").unlink()
        put(memory, name, text.replace("one", f"one of {name}"))
    exchange_now(here)
    assert set(exchange_now(there).conflicts) == {"c.md", "d.md"}
    assert exchange_now(there).conflicts
    exchange_now(here)
    assert all(b"<<<<<<<" not in content for content in files(here).values())


def test_example_of_marks_that_the_user_committed_stops_nothing(here: Memory, there: Memory) -> None:
    """Only a merge of memsync's leaves a conflict."""
    put(here, "b.md", "```\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> side\n```\n")
    put(there, "c.md", "c\n")
    exchange_now(there)
    repository = Repository(here.settings.root)
    repository.git("add", "b.md")
    repository.git("commit", "-qm", "an example")
    exchanged(here, there)
    assert files(here) == files(there)


def test_quoted_marks_of_ours_stop_no_first_exchange(memory: Memory, address: Path) -> None:
    """Nothing has been merged yet."""
    put(memory, "b.md", "```\n<<<<<<< memsync/here\na\n=======\nb\n>>>>>>> memsync/there\n```\n")
    repository = Repository(memory.settings.root)
    repository.git("init", "-q", "-b", "main")
    repository.git("add", "b.md")
    repository.git("commit", "-qm", "an example")
    assert in_order(memory.share(str(address))).sent


@pytest.mark.parametrize("has_failed", [False, True])
def test_renamed_note_with_marks_is_not_sent_as_deleted(here: Memory, there: Memory, has_failed: bool) -> None:
    """Not even if an exchange has failed in between."""
    put(there, "a.md", "# A\n\none, there\n\ntwo\n\nthree\n")
    exchange_now(there)
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    assert exchange_now(here).conflicts == ("a.md",)
    if has_failed:
        put(here, ".git/MERGE_HEAD", "")
        assert exchange_now(here).conflicts == ("a.md",)
        (here.settings.root / ".git/MERGE_HEAD").unlink()
    (here.settings.root / "a.md").rename(here.settings.root / "z.md")
    assert exchange_now(here).conflicts == ("z.md",)
    exchange_now(there)
    assert text_of(there, "a.md") == "# A\n\none, there\n\ntwo\n\nthree\n"


@pytest.mark.parametrize("name", ["b.md", ":!b.md"])
def test_what_git_ignores_here_is_not_sent(name: str, here: Memory, there: Memory) -> None:
    """Not even if another machine sends a file of that name."""
    put(here, ".git/info/exclude", name)
    put(here, name, "private\n")
    put(there, name, "of there\n")
    exchange_now(there)
    assert "git ignores it" in exchange_now(here).problem
    exchange_now(there)
    assert (text_of(here, name), text_of(there, name)) == ("private\n", "of there\n")


@pytest.mark.parametrize("command", [("commit", "-qm", "mine"), ("checkout", "-qb", "private")])
def test_git_of_the_user_during_an_exchange(
    here: Memory, there: Memory, monkeypatch: Patch, command: tuple[str, ...]
) -> None:
    """What he commits is merged in the next turn; another branch stays as it is."""
    put(there, "b.md", "of there\n")
    exchange_now(there)
    fetch = Remote.fetch

    def slow(remote: Remote) -> str:
        theirs = fetch(remote)
        monkeypatch.undo()
        put(here, "mine.md", "mine\n")
        Repository(here.settings.root).git("add", "mine.md")
        Repository(here.settings.root).git(*command)
        return theirs

    monkeypatch.setattr(Remote, "fetch", slow)
    problem = exchange_now(here).problem
    if command[0] == "checkout":
        assert "private" in problem and not (here.settings.root / "b.md").exists()
    else:
        exchanged(here, there)
        assert files(here) == files(there) and text_of(there, "mine.md") == "mine\n"


def test_mode_is_exchanged_and_settles(here: Memory, there: Memory) -> None:
    """A file that was made executable on one machine is so on the other; then nothing is sent any more."""
    (here.settings.root / "a.md").chmod(0o755)
    exchanged(here, there)
    assert (there.settings.root / "a.md").stat().st_mode & 0o100
    assert exchange_now(there).sent == exchange_now(here).sent == 0


def test_modes_on_a_file_system_without_them(here: Memory, there: Memory, monkeypatch: Patch) -> None:
    """It refuses every change, and the content arrives."""
    (there.settings.root / "a.md").chmod(0o755)
    put(there, "b.md", "# B\n")
    exchange_now(there)
    chmod = os.chmod

    def refuse(place: Any, mode: int, *, dir_fd: int | None = None) -> None:
        if dir_fd is not None:
            raise PermissionError(errno.EPERM, os.strerror(errno.EPERM))
        chmod(place, mode)

    monkeypatch.setattr(os, "chmod", refuse)
    in_order(exchange_now(here))
    assert text_of(here, "b.md") == "# B\n"


def swap(memory: Memory, file: str, inner: str, *, to_folder: bool) -> None:
    """Put a folder with a file in the place of a file, or the reverse."""
    place = memory.settings.root / file
    if to_folder:
        place.unlink()
    else:
        shutil.rmtree(place)
    put(memory, inner if to_folder else file, "new\n")


@pytest.mark.parametrize("to_folder", [True, False])
def test_file_in_the_place_of_a_folder_and_the_reverse(here: Memory, there: Memory, to_folder: bool) -> None:
    """On the machine that did it and on the other."""
    put(here, "x" if to_folder else "x/y.md", "old\n")
    exchanged(here, there)
    swap(here, "x", "x/y.md", to_folder=to_folder)
    exchanged(here, there)
    assert files(here) == files(there) and text_of(there, "x/y.md" if to_folder else "x") == "new\n"


@pytest.mark.parametrize("name", [b"caf\xe9.md", b"Icon\r", b"two\nlines.md"])
def test_odd_name_is_sent_or_named(here: Memory, there: Memory, name: bytes) -> None:
    """And stops nothing."""
    Path(os.fsdecode(os.path.join(os.fsencode(here.settings.root), name))).write_text(f"The token is {KEY}.\n")
    put(here, "b.md", "b\n")
    shared = exchange_now(here)
    assert not shared.problem and len(shared.held) == 1 and shared.held[0].path.isprintable()
    exchange_now(there)
    assert text_of(there, "b.md") == "b\n"


def test_file_that_a_program_has_open_waits(here: Memory, there: Memory, address: Path) -> None:
    """Without a commit for each try."""
    put(there, "a.md", "# A\n\none, there\n")
    exchange_now(there)
    count = Repository(address).git("rev-list", "--count", "main")
    with open(here.settings.root / "a.md", "a"):
        for _ in range(3):
            assert "a.md is open for writing" in exchange_now(here).problem
    assert Repository(address).git("rev-list", "--count", "main") == count
    exchanged(here, there)
    assert files(here) == files(there)


def test_copy_of_a_shared_memory(here: Memory, join: Join, address: Path, tmp_path: Path) -> None:
    """Another one at the same place begins anew; what is empty, or shows a password, is no address."""
    Repository(tmp_path).git("init", "-q", "--bare", "empty")
    for wrong in (tmp_path / "empty", "HTTPS://ada:token@example.org/n.git", tmp_path / "absent"):
        with pytest.raises(UsageError):
            copy_shared(str(wrong), tmp_path / "w")
        assert not (tmp_path / "w").exists()
    assert exchange_now(join("w")).problem == ""
    shutil.rmtree(tmp_path / "w")
    new = join("w")
    put(here, "b.md", "gone there\n")
    exchange_now(here)
    rewritten = join("v")
    Repository(address).git("update-ref", "refs/heads/main", "main~1")
    assert "was rewritten" in exchange_now(rewritten).problem
    assert exchange_now(new).problem == ""


def test_copy_at_the_former_place_of_a_moved_memory(
    here: Memory, join: Join, make_memory: MakeMemory, tmp_path: Path
) -> None:
    """The moved one finds what it had: how it is shared, and what was said of it."""
    first = join("w")
    recognise_root(first.settings)
    first.sync()
    first.remember("kept")
    first.close()
    (tmp_path / "w").rename(tmp_path / "v")
    in_order(exchange_now(join("w")))
    settings = load_settings(root=tmp_path / "v", environ={}, cwd=tmp_path / "v")
    recognise_root(settings)
    assert in_order(exchange_now(make_memory(own_settings=settings))).sent


@pytest.mark.parametrize("to_folder", [True, False])
def test_exchange_that_stopped_after_a_swap_goes_on(here: Memory, there: Memory, to_folder: bool) -> None:
    """What was written then, a folder in the place of a file or the reverse, is so already."""
    put(here, "sw" if to_folder else "sw/x.md", "old\n")
    put(here, "zz.md", "# Z\n")
    exchanged(here, there)
    swap(here, "sw", "sw/x.md", to_folder=to_folder)
    put(here, "zz.md", "# Z\n\nmore\n")
    exchange_now(here)
    with open(there.settings.root / "zz.md", "r+"):
        assert exchange_now(there).problem
    exchanged(there, here)
    assert files(here) == files(there)


def test_local_only_note_stays_hidden_in_a_second_try(here: Memory, monkeypatch: Patch) -> None:
    """From the user's own `git add`."""
    put(here, "priv.md", "---\nlocal-only: true\n---\nx\n")
    put(here, "n.md", "# N\n")
    push, tries = Remote.push, iter([False])
    monkeypatch.setattr(Remote, "push", lambda remote, commit: next(tries, True) and push(remote, commit))
    in_order(exchange_now(here))
    assert is_clean(here)


def test_example_of_marks_stops_no_solved_conflict(here: Memory, there: Memory) -> None:
    """It is held by itself."""
    put(here, "git.md", "# Git\n\n<<<<<<< HEAD\na\n=======\nb\n>>>>>>> x\n")
    put(there, "a.md", "# A\n\none, there\n\ntwo\n\nthree\n")
    exchange_now(there)
    put(here, "a.md", "# A\n\none, here\n\ntwo\n\nthree\n")
    assert exchange_now(here).conflicts == ("a.md",)
    put(here, "a.md", "# A\n\none, both\n\ntwo\n\nthree\n")
    assert exchange_now(here).conflicts == ()
    exchange_now(there)
    assert text_of(there, "a.md") == text_of(here, "a.md")


def test_folder_that_is_filled_meanwhile_is_not_touched(
    here: Memory, address: Path, tmp_path: Path, monkeypatch: Patch
) -> None:
    """Such as by another `init --from`."""
    place, branch_at = tmp_path / "twice", beginning._branch_at

    def slow(asked: str) -> str:
        place.mkdir(exist_ok=True)
        (place / "mine.md").write_text("mine\n")
        return branch_at(asked)

    monkeypatch.setattr(beginning, "_branch_at", slow)
    with pytest.raises(UsageError):
        copy_shared(str(address), place)
    assert [path.name for path in place.iterdir()] == ["mine.md"] and exchange_now(here).problem == ""


# ---------------------------------------------------------------------------------- at random

NAMES = ("daily/2026-01-02.md", "MEMORY.md", "threads/t.md", "notes/a.md", "notes/b.md")


def edit(chance: random.Random, memory: Memory, number: int, said: set[str]) -> None:
    """Change a file as a person, a program or an agent does; `said` collects what must not be lost."""
    word = f"w{number}"
    match chance.randrange(5):
        case 0:
            memory.log(f"saw {word}")
        case 1:
            memory.remember(f"knows {word}")
        case 2:
            put(memory, f"notes/{word}.md", f"# {word}\n\n{word}\n")
        case 3:
            memory.set_preference(chance.choice("ab"), f"p{number}")
            return
        case _:
            path = memory.settings.root / chance.choice(NAMES[:3])
            path.parent.mkdir(exist_ok=True)
            text = path.read_text() if path.exists() else "# N\n"
            begins = f"\n## user @ 2026-01-02 10:{number % 60:02}\n\n" if "threads" in str(path) else "- "
            path.write_text(f"{text}{begins}{word}\n")
    said.add(word)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_three_machines_end_equal_and_lose_nothing(
    seed: int, here: Memory, join: Join, address: Path, monkeypatch: Patch
) -> None:
    """With the network cut at random, and exchanges that are killed at any command of git or change of a file."""
    chance = random.Random(seed)
    memories, said = [here, join("there"), join("yonder")], set[str]()
    killed = 0

    def cut(function: Callable[..., object]) -> Callable[..., object]:
        def call(*arguments: object, **options: object) -> object:
            if chance.random() < 0.03:
                raise KeyboardInterrupt
            result = function(*arguments, **options)
            if chance.random() < 0.01:
                raise KeyboardInterrupt
            return result

        return call

    with monkeypatch.context() as patch:
        patch.setattr(Git, "run", cut(Git.run))
        for name in ("swap", "create", "remove"):
            patch.setattr(note_file, name, cut(getattr(note_file, name)))
        patch.setattr(LockedIndex, "keep", cut(LockedIndex.keep))
        for number in range(60):
            memory = chance.choice(memories)
            try:
                edit(chance, memory, number, said)
                if chance.random() < 0.5:
                    exchange_now(chance.choice(memories))
            except KeyboardInterrupt:
                killed += 1
    exchanged(*memories, *memories)
    assert killed and files(memories[0]) == files(memories[1]) == files(memories[2])
    words = b" ".join(files(here).values()).decode().replace("#", " ").split()
    assert {word: words.count(word) for word in said if word not in words} == {}

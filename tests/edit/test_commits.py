"""Commits of one note in every sort of repository that people have, and what is refused instead, with the reason."""

from __future__ import annotations

import os
import platform
import subprocess
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest

from memsync.edit.commits import commit
from memsync.errors import UsageError
from memsync.memory import Memory
from memsync.model.vocabulary import NotePath
from memsync.notes.git import TooSlow, open_git
from memsync.notes.git_files import changed_since, find_repository
from memsync.settings.load import load_settings
from tests.support.repository import SPRING, repository_of

Git = Callable[..., str]
Open = Callable[[Path], Memory]


@pytest.fixture
def git() -> Git:
    """Run git in a folder, as a user who has configured nothing but a name."""
    home = Path(os.environ["HOME"])
    home.mkdir()
    (home / ".gitconfig").write_text(
        '[user]\n\tname = Ada\n\temail = ada@example.org\n[protocol "file"]\n\tallow = always\n'
    )

    def run(folder: Path, *arguments: str) -> str:
        done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
        return done.stdout

    return run


@pytest.fixture
def committing(make_memory: Callable[..., Memory]) -> Open:
    """Open a memory root whose writes are committed."""
    return lambda root: make_memory(
        own_settings=load_settings(root=root, environ={"MEMSYNC_GIT_COMMIT": "1"}, cwd=root)
    )


@pytest.fixture
def repository(root: Path, git: Git) -> Path:
    """Make the memory root a repository with one commit."""
    (root / "mine.md").write_text("one\n")
    git(root, "init", "-q")
    git(root, "add", ".")
    git(root, "commit", "-qm", "first")
    return root


def assert_committed(git: Git, folder: Path, memory: Memory, path: str) -> None:
    """Write a note, and find it alone in a new commit, with git's index as it is in HEAD."""
    before = git(folder, "rev-parse", "HEAD").strip()
    written = memory.new_note(path, "a heron")
    assert written.warnings == ()
    assert written.commit == git(folder, "rev-parse", "HEAD").strip()
    assert git(folder, "rev-parse", "HEAD^").strip() == before
    assert git(folder, "log", "-1", "--format=%an <%ae>%n%B") == f"Ada <ada@example.org>\nmemsync note: {path}\n\n"
    assert git(folder, "show", "--format=", "--name-status", "HEAD").endswith(f"{path}\n")
    assert git(folder, "show", "--format=", "--name-only", "HEAD").count("\n") == 1
    assert git(folder, "status", "--porcelain") == ""
    assert git(folder, "diff-files", "--name-only") == ""
    git(folder, "fsck", "--strict")


def assert_refused(git: Git, folder: Path, memory: Memory, reason: str, path: str = "new.md") -> None:
    """Write a note, which stands, and find neither a commit nor a change of git's index."""

    def state() -> str:
        return git(folder, "rev-list", "--all") + git(folder, "ls-files", "--stage")

    before = state()
    written = memory.new_note(path, "a heron")
    assert written.commit == ""
    assert [
        warning for warning in written.warnings if reason in warning and warning.startswith("not committed: ")
    ] != []
    assert state() == before


# --------------------------------------------------------------------------------------- where it works


def test_worktree_has_its_own_head_and_index(repository: Path, git: Git, committing: Open, tmp_path: Path) -> None:
    """`.git` is a file there, and the folder that it leads to names it."""
    git(repository, "worktree", "add", "-q", str(tmp_path / "second"))
    assert_committed(git, tmp_path / "second", committing(tmp_path / "second"), "new.md")
    assert "new.md" not in git(repository, "ls-tree", "--name-only", "HEAD")
    assert git(tmp_path / "second", "reflog", "-1").strip().endswith("commit: memsync note: new.md")


@pytest.mark.parametrize("sort", ["submodule", "sha256", "packed"])
def test_other_sorts_of_repositories(sort: str, git: Git, committing: Open, tmp_path: Path) -> None:
    """HEAD of a submodule is no branch; names of objects are longer; no reference is a file of its own."""
    root = repository_of(sort, tmp_path, {SPRING: "one\n"})
    if sort == "submodule":
        git(root, "checkout", "-q", "--detach")
    assert_committed(git, root, committing(root), "new.md")


def test_root_may_be_a_folder_of_the_repository(repository: Path, git: Git, committing: Open) -> None:
    """Paths are those of the repository, names with spaces and letters of any script included."""
    (repository / "deep er/é").mkdir(parents=True)
    memory = committing(repository / "deep er/é")
    assert memory.new_note("ä ö.md", "x").commit
    assert git(repository, "-c", "core.quotePath=false", "ls-files") == "deep er/é/ä ö.md\nmine.md\n"
    assert git(repository, "status", "--porcelain") == ""


def test_first_commit_of_a_repository(root: Path, git: Git, committing: Open) -> None:
    """HEAD names a branch that is not there yet, and the index is not there either."""
    git(root, "init", "-q")
    written = committing(root).log("one")
    assert git(root, "rev-list", "HEAD").split() == [written.commit]
    assert git(root, "status", "--porcelain") == ""


def test_split_index_and_note_that_was_only_announced(repository: Path, git: Git, committing: Open) -> None:
    """`git add --intent-to-add` stages nothing."""
    git(repository, "update-index", "--split-index")
    (repository / "daily").mkdir()
    (repository / "daily/2026-11-20.md").write_text("# 2026-11-20\n")
    git(repository, "add", "--intent-to-add", "daily")
    assert committing(repository).log("one", day="2026-11-20").commit
    assert git(repository, "status", "--porcelain") == ""


def test_identity_by_folder_in_the_users_own_configuration(repository: Path, git: Git, committing: Open) -> None:
    """`includeIf` of the user's own configuration counts, as in any commit."""
    home = Path(os.environ["HOME"])
    (home / "work").write_text("[user]\n\tname = Ada at work\n")
    with (home / ".gitconfig").open("a") as config:
        config.write(f'[includeIf "gitdir:{repository.parent}/"]\n\tpath = {home}/work\n')
    committing(repository).log("one")
    assert git(repository, "log", "-1", "--format=%an, %cn") == "Ada at work, Ada at work\n"


def test_commit_without_an_identity_says_what_to_set(
    repository: Path, git: Git, committing: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Git itself would print a page of advice. One that the environment gives counts."""
    git(repository, "config", "user.useConfigOnly", "true")
    (Path(os.environ["HOME"]) / ".gitconfig").unlink()
    reason = 'Author identity unknown". Set user.name and user.email with git config --global'
    memory = committing(repository)
    assert_refused(git, repository, memory, reason)
    for name in ("GIT_AUTHOR_NAME", "GIT_COMMITTER_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_EMAIL"):
        monkeypatch.setenv(name, "a@b")
    assert memory.log("a zebra").commit


@pytest.mark.parametrize(
    ("attributes", "autocrlf", "committed"),
    [
        ("", "true", b"one\ntwo\n"),
        ("* text eol=crlf\n", "false", b"one\ntwo\n"),
        ("* -text\n", "true", b"one\r\ntwo\r\n"),
    ],
)
def test_line_ends_are_committed_as_git_would(
    attributes: str, autocrlf: str, committed: bytes, repository: Path, git: Git, committing: Open
) -> None:
    """The repository's own setting and its attributes count, which are no programs."""
    git(repository, "config", "core.autocrlf", autocrlf)
    (repository / ".gitattributes").write_text(attributes)
    git(repository, "add", ".")
    git(repository, "commit", "-qm", "rules", "--allow-empty")
    (repository / "new.md").write_bytes(b"one\r\ntwo\r\n")
    made, complaint = commit(repository, [NotePath("new.md")], "new")
    assert (complaint, git(repository, "rev-parse", "HEAD").strip()) == ("", made)
    shown = subprocess.run(["git", "cat-file", "blob", "HEAD:new.md"], cwd=repository, capture_output=True, check=True)
    assert shown.stdout == committed
    assert git(repository, "status", "--porcelain") == ""


# --------------------------------------------------------------------------------------- what is refused


def test_ignored_note_is_not_committed(repository: Path, git: Git, committing: Open) -> None:
    """By .gitignore above the memory root, .git/info/exclude, or the user's own rules."""
    folder = repository / "memory"
    folder.mkdir()
    (repository / ".git/info/exclude").write_text("private.md\n")
    rules = Path(os.environ["XDG_CONFIG_HOME"]) / "git/ignore"
    rules.parent.mkdir(parents=True)
    rules.write_text("own.md\n")
    memory = committing(folder)
    assert_refused(git, repository, memory, "memory/private.md is ignored", "private.md")
    assert_refused(git, repository, memory, "memory/own.md is ignored", "own.md")
    (repository / ".gitignore").write_text("memory/\n")
    assert_refused(git, repository, memory, "memory/new.md is ignored")


@pytest.mark.parametrize("name", ["MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "BISECT_LOG"])
def test_nothing_is_committed_while_git_is_in_the_midst_of_something(
    name: str, repository: Path, git: Git, committing: Open
) -> None:
    """A commit would become part of the merge, or be lost with the bisection."""
    (repository / ".git" / name).write_text("")
    assert_refused(git, repository, committing(repository), "is under way")


def test_lock_of_a_killed_memsync_is_removed(repository: Path, git: Git, committing: Open) -> None:
    """Otherwise nothing would be committed any more. One of a process that runs is respected, as one of git is."""
    lock = repository / ".git/index.lock"
    with (ended := subprocess.Popen(["true"])):
        pass
    for process in (os.getpid(), "1x"):
        lock.write_text(f"memsync {process} on {platform.node()}\n")
        assert_refused(git, repository, memory := committing(repository), "another git is at work")
        (repository / "new.md").unlink()
    lock.write_text(f"memsync {ended.pid} on {platform.node()}\n")
    assert_committed(git, repository, memory, "other.md")
    assert not lock.exists()


def test_lock_of_another_git_is_respected(repository: Path, git: Git, committing: Open) -> None:
    """It stays, and nothing is committed meanwhile; one's own is gone afterwards."""
    lock = repository / ".git/index.lock"
    lock.write_text("")
    assert_refused(git, repository, committing(repository), "another git is at work")
    assert lock.exists()
    lock.unlink()
    (repository / "new.md").unlink()
    assert_committed(git, repository, committing(repository), "other.md")
    assert not lock.exists()


def test_save_in_the_tick_of_the_last_commit_is_committed(repository: Path, git: Git) -> None:
    """With the same size and time: git then compares contents, if the index keeps its time while it is copied."""
    path, before = repository / "mine.md", (SPRING, SPRING)
    for text in ("six\n", "two\n"):
        path.write_text(text)
        os.utime(path, before)
        assert commit(repository, [NotePath("mine.md")], "x")[0]
        os.utime(repository / ".git/index", before)
    assert git(repository, "show", "HEAD:mine.md").strip() == "two"


def test_skip_worktree_is_respected(repository: Path, git: Git) -> None:
    """The person told git to keep its own version."""
    git(repository, "update-index", "--skip-worktree", "mine.md")
    (repository / "mine.md").write_text("two\n")
    before = git(repository, "ls-files", "-v", "--stage")
    made, complaint = commit(repository, [NotePath("mine.md")], "x")
    assert made == ""
    assert "keeps its own version" in complaint
    assert git(repository, "ls-files", "-v", "--stage") == before


def test_note_in_a_repository_of_its_own_is_not_committed(repository: Path, git: Git, committing: Open) -> None:
    """It belongs to the inner one, which is not the memory root's."""
    git(repository, "init", "-q", "inner")
    assert_refused(git, repository, committing(repository), "inner is a repository of its own", "inner/new.md")


def test_git_file_that_leads_to_another_folders_repository_is_refused(
    root: Path, git: Git, committing: Open, tmp_path: Path
) -> None:
    """Anybody can write `gitdir: ` and the path of somebody's project; a link called `.git` is the same."""
    project = tmp_path / "project"
    project.mkdir()
    git(project, "init", "-q")
    (project / "a.txt").write_text("a\n")
    git(project, "add", ".")
    git(project, "commit", "-qm", "first")
    (root / ".git").write_text(f"gitdir: {project}/.git\n")
    assert_refused(git, project, committing(root), "does not name")
    (root / ".git").unlink()
    (root / ".git").symlink_to(project / ".git")
    assert_refused(git, project, committing(root), "does not name", "other.md")
    git(project, "worktree", "add", "-q", str(tmp_path / "second"))
    (root / ".git").unlink()
    (root / ".git").write_text(f"gitdir: {project}/.git/worktrees/second\n")
    assert_refused(git, project, committing(root), "belongs to another folder", "third.md")


@pytest.mark.parametrize("name", ["refs", "refs/heads", "objects", "logs", "index", "HEAD"])
def test_links_that_lead_out_of_the_repository_are_not_written_through(
    name: str, repository: Path, git: Git, committing: Open, tmp_path: Path
) -> None:
    """A tarball may have them."""
    os.rename(repository / ".git" / name, tmp_path / "elsewhere")
    (repository / ".git" / name).symlink_to(tmp_path / "elsewhere")
    written = committing(repository).log("one")
    assert written.commit == ""
    assert "not committed: " in " ".join(written.warnings)


@pytest.fixture
def outside(tmp_path: Path) -> Path:
    """Make a file of the user's that no repository may change."""
    path = tmp_path / "bashrc"
    path.write_text("mine\n")
    return path


def assert_nothing_left(git: Git, folder: Path, memory: Memory, reason: str, outside: Path) -> None:
    """Write a note without a commit: the user's file stays as it was, and no lock file is left over."""
    locks = sorted((folder / ".git").rglob("*.lock"))
    assert_refused(git, folder, memory, reason)
    assert outside.read_text() == "mine\n"
    assert sorted((folder / ".git").rglob("*.lock")) == locks


@pytest.mark.parametrize(
    "chain",
    [
        ["refs/heads/a", "refs/heads/b"], ["refs/heads/a", "refs/heads/c", "refs/heads/b"],
        ["refs/remotes/a", "refs/heads/b"], ["refs/worktree/a"], ["refs/bisect/a"],
    ],
)  # fmt: skip
def test_head_that_leads_to_a_branch_by_a_detour_is_refused(
    chain: list[str], repository: Path, git: Git, committing: Open, outside: Path
) -> None:
    """Git writes a log of each reference on the way, and follows a link there."""
    git(repository, "update-ref", chain[-1], "HEAD")
    for source, target in pairwise(chain):
        git(repository, "symbolic-ref", source, target)
    (repository / ".git/HEAD").write_text(f"ref: {chain[0]}\n")
    log = repository / ".git/logs" / chain[0]
    log.parent.mkdir(parents=True, exist_ok=True)
    log.unlink(missing_ok=True)
    log.symlink_to(outside)
    reason = "does not name a commit" if chain[0] == "refs/heads/a" else "HEAD names neither a branch nor a commit"
    assert_nothing_left(git, repository, committing(repository), reason, outside)


@pytest.mark.parametrize("spelling", ["ref:refs/heads/master", "ref: \trefs/heads/master", "ref: refs/heads/../x"])
def test_head_of_another_spelling_is_refused(spelling: str, repository: Path, committing: Open) -> None:
    """Git reads some of these, so what memsync checks would not be what git writes."""
    (repository / ".git/HEAD").write_text(f"{spelling}\n")
    assert committing(repository).log("one").commit == ""


@pytest.mark.parametrize("log", ["refs/worktree/x", "HEAD", "../../../logs/refs/heads/second"])
def test_worktrees_logs_are_not_written_through_links(
    log: str, repository: Path, git: Git, committing: Open, outside: Path, tmp_path: Path
) -> None:
    """A linked worktree has references and logs of its own, and shares those of its branch."""
    folder = tmp_path / "second"
    git(repository, "worktree", "add", "-q", str(folder))
    git_dir = Path(git(folder, "rev-parse", "--absolute-git-dir").strip())
    if log == "refs/worktree/x":
        git(folder, "update-ref", log, "HEAD")
        (git_dir / "HEAD").write_text(f"ref: {log}\n")
    path = git_dir / "logs" / log
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(outside)
    memory = committing(folder)
    assert_refused(git, folder, memory, "HEAD names neither" if log == "refs/worktree/x" else "not a regular file")
    assert outside.read_text() == "mine\n"


@pytest.mark.parametrize("head", ["HEAD", "refs/heads/master", "refs/heads", "refs"])
@pytest.mark.parametrize("kind", ["link", "dangling", "fifo"])
def test_log_that_is_no_regular_file_is_refused_at_once(
    head: str, kind: str, repository: Path, git: Git, committing: Open, outside: Path, tmp_path: Path
) -> None:
    """A link would be followed and a FIFO waited for, whether it is the log or a folder above it."""
    log = repository / ".git/logs" / head
    os.rename(log, tmp_path / "aside")
    if kind == "fifo":
        os.mkfifo(log)
    else:
        log.symlink_to(tmp_path / "absent" if kind == "dangling" else tmp_path / "aside")
    assert_nothing_left(git, repository, committing(repository), f"logs/{head} is not a ", outside)
    assert not (tmp_path / "absent").exists()


def test_packed_references_that_are_a_link_are_not_written(
    repository: Path, git: Git, committing: Open, outside: Path, tmp_path: Path
) -> None:
    """The branch itself may be a file: the link is refused all the same."""
    git(repository, "pack-refs", "--no-prune")
    os.rename(repository / ".git/packed-refs", tmp_path / "aside")
    (repository / ".git/packed-refs").symlink_to(tmp_path / "aside")
    assert_nothing_left(git, repository, committing(repository), "packed-refs is not a regular file", outside)


def test_objects_are_not_written_through_links(
    repository: Path, git: Git, committing: Open, outside: Path, tmp_path: Path
) -> None:
    """Each of the folders of objects may be a link by itself, to a folder that is there or not."""
    target = tmp_path / "target"
    target.mkdir()
    memory = committing(repository)
    present = {path.name for path in (repository / ".git/objects").iterdir()}
    planted = [f"{number:02x}" for number in range(256) if f"{number:02x}" not in present]
    for name in planted:
        (repository / ".git/objects" / name).symlink_to(target)
    assert_nothing_left(git, repository, memory, "is not a folder", outside)
    assert list(target.iterdir()) == []
    for name in planted:
        (repository / ".git/objects" / name).unlink()
    os.rename(repository / ".git/objects/pack", tmp_path / "pack")
    (repository / ".git/objects/pack").symlink_to(tmp_path / "pack")
    (repository / "new.md").unlink()
    assert_nothing_left(git, repository, memory, "objects/pack is not a folder", outside)


@pytest.mark.parametrize(
    "name",
    ["objects/info/commit-graph", "objects/pack/x.idx", "objects/aa/bb", "refs/tags/v1", "logs/refs/x", "FETCH_HEAD"],
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_fifo_or_device_is_refused_at_once(
    name: str, make: Callable[[Path], None], repository: Path, committing: Open
) -> None:
    """Git opens these before it looks for any object, or for a name that a question has."""
    (repository / ".git" / name).parent.mkdir(exist_ok=True, parents=True)
    make(repository / ".git" / name)
    memory = committing(repository)
    written = memory.log("one")
    assert written.commit == ""
    assert f"{name} is not a regular file" in " ".join(written.warnings)
    with pytest.raises(UsageError, match="is not a regular file"):
        memory.get(f"new.md@{name.rpartition('/')[2]}")


@pytest.mark.parametrize("kind", ["alternates", "link"])
def test_objects_of_another_repository_are_not_read(kind: str, repository: Path, committing: Open, git: Git) -> None:
    """A repository that comes with notes could name any other one on this machine."""
    objects = repository / ".git/objects"
    os.rename(objects, other := repository.parent / "other")
    if kind == "link":
        objects.symlink_to(other)
    else:
        (objects / "info").mkdir(parents=True)
        (objects / "info/alternates").write_text(f"{other}\n")
    assert git(repository, "rev-parse", "HEAD^{tree}")
    with pytest.raises(UsageError, match="shares the objects of another" if kind == "alternates" else "not a folder"):
        committing(repository).search("heron", at="HEAD")


@pytest.mark.parametrize("name", ["HEAD.lock", "refs/heads/master.lock"])
def test_lock_of_a_reference_is_respected(
    name: str, repository: Path, git: Git, committing: Open, outside: Path
) -> None:
    """It may be another git's, so it stays."""
    (repository / ".git" / name).write_text("")
    assert_nothing_left(git, repository, committing(repository), f"{name} is there", outside)


def test_git_that_is_given_up_takes_its_locks_along(repository: Path, git: Git) -> None:
    """Otherwise no later commit would work, the user's own included."""
    other = repository / ".git/refs/heads/other.lock"
    other.write_text("")
    log = repository / ".git/logs/refs/heads/master"
    log.unlink()
    tree = git(repository, "rev-parse", "HEAD^{tree}").strip()
    made = git(repository, "commit-tree", tree, "-m", "x").strip()
    found = find_repository(repository)
    assert found is not None
    with open_git(found, 1.0) as opened, pytest.raises(TooSlow):
        os.mkfifo(log)
        opened.run("update-ref", "HEAD", made)
    assert list((repository / ".git").rglob("*.lock")) == [other]


def test_repositorys_own_identity_does_not_count(repository: Path, git: Git, committing: Open) -> None:
    """Its words would be written into git's files; the user's own settings say who commits."""
    for role in ("user", "author", "committer"):
        git(repository, "config", f"{role}.name", "x;touch PWN #")
        git(repository, "config", f"{role}.email", "x@evil.example")
    memory = committing(repository)
    assert memory.log("one").commit
    assert git(repository, "log", "-1", "--format=%an %ae %cn %ce") == "Ada ada@example.org Ada ada@example.org\n"
    assert "PWN" not in (repository / ".git/logs/HEAD").read_text()
    git(repository, "config", "--global", "user.useConfigOnly", "true")
    git(repository, "config", "--global", "--unset", "user.name")
    written = memory.log("two")
    assert written.commit == ""
    assert "git config --global" in " ".join(written.warnings)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder to another user: run as root in a container")
def test_repository_of_another_user_is_left_alone_unless_it_is_called_safe(
    repository: Path, git: Git, committing: Open
) -> None:
    """As git itself does; `safe.directory` in the user's own configuration counts, in the repository's it does not."""
    memory = committing(repository)
    os.chown(repository / ".git", 12345, 12345)
    with (repository / ".git/config").open("a") as config:
        config.write("[safe]\n\tdirectory = *\n")
    written = memory.log("one")
    assert written.commit == ""
    assert "belongs to another user" in " ".join(written.warnings)
    git(repository.parent, "config", "--global", "safe.directory", str(repository))
    assert memory.log("two").commit


def test_without_git_a_write_stands(repository: Path, committing: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    """And says why there is no commit."""
    monkeypatch.setenv("PATH", "/nonexistent")
    assert "not committed: git is not installed" in committing(repository).log("one").warnings


# ------------------------------------------------------------------------------- what git left, read as files


@pytest.mark.parametrize(
    "name",
    [
        ".git", ".git/HEAD", ".git/config", ".git/packed-refs", ".git/refs/heads/master",
        ".git/objects/info/alternates", ".gitattributes", ".git/index",
    ],
)  # fmt: skip
def test_fifo_in_a_repository_is_not_waited_for(name: str, repository: Path, committing: Open, git: Git) -> None:
    """Neither by a write nor by a sync, nor where memsync asks what git did lately."""
    path = repository / name
    if path.is_dir():
        os.rename(path, repository.parent / "aside")
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    memory = committing(repository)
    assert memory.log("one").commit == ""
    memory.sync()
    assert memory.search("one").hits != ()
    changed_since(repository, 0)


@pytest.mark.parametrize(
    "content",
    [b"gitdir: " + b"a" * 3_000_000, b"gitdir: .git\n", b"gitdir: .\n", b"", b"gitdir: \xff\0/x\n", b"gitdir: /\n"],
)
def test_git_file_of_any_content_is_survived(content: bytes, root: Path, committing: Open) -> None:
    """Megabytes, a loop, no path at all."""
    (root / ".git").write_bytes(content)
    assert not changed_since(root, 1)
    written = committing(root).log("one")
    assert written.commit == ""
    assert "not committed: " in " ".join(written.warnings)


def test_loops_of_links_are_survived(root: Path, committing: Open) -> None:
    """`.git` that leads to itself, and HEAD that names itself."""
    (root / ".git").symlink_to(".git")
    assert not changed_since(root, 1)
    assert committing(root).log("one").commit == ""
    (root / ".git").unlink()
    (root / ".git/refs").mkdir(parents=True)
    (root / ".git/objects").mkdir()
    (root / ".git/HEAD").write_text("ref: refs/a\n")
    (root / ".git/refs/a").write_text("ref: refs/a\n")
    assert committing(root).log("two").commit == ""
    assert changed_since(root, 0)

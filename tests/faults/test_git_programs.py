"""A repository that came with the notes runs nothing: every setting of git's that may name a program is planted."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from memsync.memory import Memory
from memsync.settings.load import load_settings

HOOKS = [
    "applypatch-msg", "pre-applypatch", "post-applypatch", "pre-commit", "pre-merge-commit",
    "prepare-commit-msg", "commit-msg", "post-commit", "pre-rebase", "post-checkout", "post-merge",
    "pre-push", "pre-receive", "update", "proc-receive", "post-receive", "post-update",
    "reference-transaction", "push-to-checkout", "pre-auto-gc", "post-rewrite", "sendemail-validate",
    "fsmonitor-watchman", "p4-changelist", "p4-prepare-changelist", "p4-post-changelist", "p4-pre-submit",
    "post-index-change",
]  # fmt: skip
PROGRAMS = ["EDITOR", "PAGER", "GIT_EDITOR", "GIT_PAGER", "GIT_EXTERNAL_DIFF", "GIT_ASKPASS", "SSH_ASKPASS"]
ATTRIBUTES = "* diff=evil merge=evil\n"
# What decides whether this is a repository at all, or is refused by name: each has a test of its own below.
STRUCTURE = re.compile(
    r"extensions\..*|include.*|core\.(repositoryformatversion|bare|worktree|hookspath)", re.IGNORECASE
)
ALIVE = [
    "core.fsmonitor", "core.hooksPath", "filter.evil.clean", "filter.evil.process", "gpg.program", "core.sshCommand",
]  # fmt: skip
"""Those that plain git runs when it commits here, or may: they show that what is planted would grow."""

Run = Callable[..., str]


def listed_variables() -> list[str]:
    """Return every variable that this git lists, with `evil` for the name of a driver, remote or branch."""
    listed = subprocess.run(["git", "help", "--config"], capture_output=True, text=True, check=True).stdout.split("\n")
    names = [re.sub(r"<[^>]*>|\*", "evil", line.strip()) for line in listed if line.strip() and " " not in line.strip()]
    more = ["filter.evil.clean", "filter.evil.smudge", "filter.evil.process", "diff.evil.command", "diff.evil.textconv"]
    names += ["filter.evil.required", "merge.evil.driver", "trailer.evil.command", "trailer.evil.cmd"]
    return sorted(name for name in {*names, *more} if "_" not in name)  # gitweb's one with a `_` is no name to git


@pytest.fixture
def witness(tmp_path: Path) -> Path:
    """Make a program that leaves a file behind, in a folder of such files, and return it."""
    folder = tmp_path / "witness"
    folder.mkdir()
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho ran > {shlex.quote(str(folder))}/$$\n")
    program.chmod(0o755)
    return program


def traces(witness: Path) -> list[Path]:
    return list((witness.parent / "witness").iterdir())


def clean_git(folder: Path, *arguments: str) -> str:
    options = ["-c", "user.name=A", "-c", "user.email=a@b"]
    environ = {"PATH": os.environ["PATH"], "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    command = ["git", *options, *arguments]
    return subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=True).stdout


def plant(git_dir: Path, witness: Path, variables: list[str]) -> None:
    """Let every variable of a repository's configuration, and every hook, be the program."""
    lines = []
    for name in variables:
        section, _, key = name.rpartition(".")
        section, _, part = section.partition(".")
        head = f'[{section} "{part}"]' if part else f"[{section}]"
        lines.append(f"{head}\n\t{key} = {witness}\n")
    with (git_dir / "config").open("a") as config:
        config.write("".join(lines))
    (git_dir / "hooks").mkdir(exist_ok=True)
    for hook in HOOKS:
        (git_dir / "hooks" / hook).unlink(missing_ok=True)
        (git_dir / "hooks" / hook).symlink_to(witness)
    (git_dir / "info").mkdir(exist_ok=True)
    (git_dir / "info/attributes").write_text(ATTRIBUTES)


def make_repository(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".gitattributes").write_text(ATTRIBUTES)
    (folder / "old").mkdir()
    (folder / "old/a.md").write_text("---\nexpires: 2020-01-01\n---\nan old heron\n")
    (folder / "threads").mkdir()
    (folder / "threads/t.md").write_text("## user @ 2020-01-01 10:00\n\nHi\n")
    clean_git(folder, "init", "-q")
    clean_git(folder, "add", ".")
    clean_git(folder, "commit", "-qm", "first")


def in_tarball(root: Path) -> Path:
    """Bring a whole `.git` folder with the notes."""
    make_repository(root)
    return root / ".git"


def in_embedded_bare(root: Path) -> Path:
    """Make the memory root itself a bare repository, of files that an outer clone could track."""
    make_repository(root.parent)
    inner = root.parent / "inner"
    make_repository(inner)
    for name in ("HEAD", "config", "objects", "refs", "index", "logs"):
        os.rename(inner / ".git" / name, root / name)
    for name in ("old", "threads", ".gitattributes"):
        os.rename(inner / name, root / name)
    return root


def in_worktree_file(root: Path) -> Path:
    """Make `.git` a file that leads to a folder of the clone."""
    make_repository(root)
    os.rename(root / ".git", root / "data")
    (root / ".git").write_text("gitdir: data\n")
    with (root / "data/config").open("a") as config:
        config.write(f"[core]\n\tworktree = {root}\n")
    return root / "data"


def use_everything(memory: Memory) -> list[str]:
    """Do all that runs git, and return the commits' names."""
    memory.sync()
    commits = [memory.log("the heron nests").commit, memory.new_note("notes/x.md", "text").commit]
    commits += [memory.remember("prefers tabs").commit, memory.new_thread("Second").commit]
    memory.append_message("t", "user", "hello")
    memory.prune(apply=True, force=True)
    memory.undo_prune()
    memory.prune(apply=True, force=True)
    commits.append(memory.set_thread_status("t", "archived").commit)
    memory.search("heron")
    memory.stale()
    assert memory.verify() is None
    return commits


@pytest.fixture
def commits_in(make_memory: Callable[..., Memory]) -> Callable[[Path], Memory]:
    """Open a memory that commits, as only its user can ask for."""
    return lambda root: make_memory(
        own_settings=load_settings(root=root, environ={"MEMSYNC_GIT_COMMIT": "1"}, cwd=root)
    )


@pytest.fixture
def users_own(witness: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the user's own configuration and environment name programs, too: memsync starts none of them."""
    home = Path(os.environ["HOME"])
    home.mkdir()
    (home / ".gitconfig").write_text(
        f"[user]\n\tname = A\n\temail = a@b\n[commit]\n\tgpgSign = true\n[gpg]\n\tprogram = {witness}\n"
        f'[core]\n\tfsmonitor = {witness}\n\thooksPath = {witness.parent}\n[diff "evil"]\n\tcommand = {witness}\n'
    )
    for name in PROGRAMS:
        monkeypatch.setenv(name, str(witness))


@pytest.mark.parametrize("arrive", [in_tarball, in_embedded_bare, in_worktree_file])
def test_nothing_that_a_repository_configures_is_run(
    arrive: Callable[[Path], Path], tmp_path: Path, witness: Path, users_own: None, commits_in: Callable[[Path], Memory]
) -> None:
    """Every variable that this git lists is planted, whether or not anybody knows that it names a program."""
    root = tmp_path / "clone/notes"
    root.mkdir(parents=True)
    git_dir = arrive(root)
    variables = [name for name in listed_variables() if not STRUCTURE.fullmatch(name)]
    assert len(variables) > 500
    plant(git_dir, witness, variables)
    commits = use_everything(commits_in(root))
    assert traces(witness) == []
    assert all(commits)


@pytest.mark.parametrize("entry", ["./bin", "bin", ".", ""])
def test_no_program_of_the_notes_passes_for_git(
    entry: str,
    tmp_path: Path,
    witness: Path,
    monkeypatch: pytest.MonkeyPatch,
    commits_in: Callable[[Path], Memory],
    users_own: None,
) -> None:
    """PATH may have relative entries, `./node_modules/.bin` say: they lead into no folder that git is run in."""
    root = tmp_path / "clone"
    make_repository(root)
    program = root / entry / "git"
    program.parent.mkdir(exist_ok=True)
    shutil.copy(witness, program)
    monkeypatch.setenv("PATH", f"{entry}{os.pathsep}{os.environ['PATH']}")
    commits = use_everything(commits_in(root))
    assert traces(witness) == []
    assert all(commits)


def test_what_is_planted_would_run_under_plain_git(tmp_path: Path, witness: Path) -> None:
    """Otherwise the test above would show nothing: here git itself commits."""
    root = tmp_path / "clone"
    plant(in_tarball(root), witness, ALIVE)
    (root / ".git/info/attributes").write_text("* filter=evil\n")
    (root / "new.md").write_text("new\n")
    subprocess.run(["git", "add", "new.md"], cwd=root, capture_output=True, check=False)
    assert len(traces(witness)) >= 2


def test_missing_objects_are_fetched_from_nowhere(
    tmp_path: Path, witness: Path, users_own: None, commits_in: Callable[[Path], Memory]
) -> None:
    """A partial clone names where they are, and that may be a program; plain git runs it."""
    root = tmp_path / "clone"
    in_tarball(root)
    with (root / ".git/config").open("a") as config:
        config.write(
            "[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\tpartialClone = evil\n"
            "[protocol]\n\tallow = always\n"
            f'[remote "evil"]\n\turl = ext::{witness}\n\tpromisor = true\n\tuploadpack = {witness}\n'
        )
    tree = clean_git(root, "rev-parse", "HEAD:threads").strip()
    (root / ".git/objects" / tree[:2] / tree[2:]).unlink()
    memory = commits_in(root)
    memory.sync()
    assert memory.log("one").commit == ""
    assert memory.status().undated == "git ls-tree failed"
    assert traces(witness) == []
    subprocess.run(["git", "ls-tree", "-r", "HEAD"], cwd=root, capture_output=True, check=False)
    assert traces(witness) != []


@pytest.mark.parametrize("place", ["old/.gitattributes", ".git/info/attributes", "home"])
def test_note_that_a_filter_applies_to_is_not_committed(
    place: str, tmp_path: Path, witness: Path, users_own: None, commits_in: Callable[[Path], Memory]
) -> None:
    """Its raw text in the repository would give away what git-crypt hides; the filter itself is never run."""
    root = tmp_path / "clone"
    in_tarball(root)
    path = Path(os.environ["XDG_CONFIG_HOME"]) / "git/attributes" if place == "home" else root / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("*.md filter=evil\n")
    with (Path(os.environ["HOME"]) / ".gitconfig").open("a") as config:
        config.write(f'[filter "evil"]\n\tclean = {witness}\n\tprocess = {witness}\n\trequired = true\n')
    before = clean_git(root, "rev-parse", "HEAD")
    written = commits_in(root).new_note("old/b.md", "secret")
    assert written.commit == ""
    assert 'filter="evil" applies to old/b.md' in " ".join(written.warnings)
    assert clean_git(root, "rev-parse", "HEAD") == before
    assert traces(witness) == []


@pytest.mark.parametrize("line", ["[include]\n\tpath = {0}", '[includeIf "gitdir:**"]\n\tpath = {0}'])
def test_configuration_that_includes_other_files_is_not_followed(
    line: str, tmp_path: Path, commits_in: Callable[[Path], Memory]
) -> None:
    """What they say of line ends or names is unknown, so nothing is committed; a FIFO there is not waited for."""
    root = tmp_path / "clone"
    in_tarball(root)
    os.mkfifo(tmp_path / "fifo")
    with (root / ".git/config").open("a") as config:
        config.write(line.format(tmp_path / "fifo") + "\n")
    written = commits_in(root).log("one")
    assert written.commit == ""
    assert "includes other files" in " ".join(written.warnings)


@pytest.mark.parametrize(
    "extension", ["evil = 1", "refStorage = reftable", "objectFormat = md5", "compatObjectFormat = sha256"]
)
def test_unknown_extension_is_refused_by_name(
    extension: str, tmp_path: Path, commits_in: Callable[[Path], Memory]
) -> None:
    """A later git may mean by it what this memsync does not know."""
    root = tmp_path / "clone"
    in_tarball(root)
    with (root / ".git/config").open("a") as config:
        config.write(f"[core]\n\trepositoryFormatVersion = 1\n[extensions]\n\t{extension}\n")
    written = commits_in(root).log("one")
    assert "git's extension \"" + extension.split(" ")[0].lower() in " ".join(written.warnings)
    assert written.commit == ""

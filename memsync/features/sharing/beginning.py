"""Begin to share a memory root: make what is missing of its repository and of the one at the address."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

from memsync.edit.share_state import keep_shared
from memsync.errors import IndexBusy, MemsyncError, UsageError
from memsync.features.sharing.remote import SEEN
from memsync.model.status import Shared
from memsync.model.text import quoted
from memsync.notes.git import PROTOCOLS
from memsync.notes.git_files import GitUnusable, branch_of, find_repository, reason_of
from memsync.settings.load import settings_of_root
from memsync.settings.paths import index_dir, keep_dir, kept_identity
from memsync.sync.moved_root import set_aside, unused
from memsync.system.programs import search_path
from memsync.system.state_file import state_of_root

BRANCH = "main"
SECONDS = 600.0
_IS_ADDRESS = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://|[^/\s]+:(?!//)")
_SAFE = ("-c", f"core.hooksPath={os.devnull}", "-c", "core.fsmonitor=false")


def begin(root: Path, address: str) -> Shared:
    """Return how a root is shared from now on. Raises UsageError if its repository is not fit for that."""
    if os.path.isabs(address) and not os.path.exists(address):
        if not os.path.isdir(above := os.path.dirname(address)):
            raise UsageError(f"{above} does not exist", hint="Mount it or make it, then run memsync share again.")
        _git("init", "--quiet", "--bare", f"--initial-branch={BRANCH}", "--", address)
    theirs = _branch_at(address)
    try:
        repository = find_repository(root)
        if repository is None:
            _git("init", "--quiet", f"--initial-branch={theirs or BRANCH}", "--", str(root))
            repository = find_repository(root)
        branch = branch_of(repository).removeprefix("refs/heads/") if repository else ""
    except (GitUnusable, OSError) as error:
        raise UsageError(
            f"{root}: {reason_of(error)}", hint="Repair the repository, then run memsync share again."
        ) from error
    if repository is None or os.path.realpath(root) != repository.work_tree:
        hint = "Share a memory root that is the top folder of its repository."
        raise UsageError(f"{root} is a part of the repository {repository and repository.work_tree}", hint=hint)
    if not branch:
        raise UsageError(f"{root} is on no branch", hint="Check out a branch with git, then share it.")
    if theirs and branch != theirs:
        hint = f"Rename the branch: git branch -m {branch} {theirs}"
        raise UsageError(f"the branch here is {quoted(branch)}, at the address {quoted(theirs)}", hint=hint)
    return Shared(address=address, branch=f"refs/heads/{branch}")


def copy_shared(address: str, folder: Path) -> None:
    """Copy a shared memory to a new folder, which is shared from then on. Raises UsageError with git's reason."""
    if folder.exists() and any(folder.iterdir()):
        raise UsageError(f"{folder} is not empty", hint="Name a new folder: memsync init --from ADDRESS FOLDER")
    address, place = full_address(address), os.path.realpath(folder)
    branch = _branch_at(address)
    if not branch:
        raise UsageError(f"{address} has no notes yet", hint="First share the notes there: memsync share ADDRESS")
    options = ("--quiet", "--no-recurse-submodules", "--template=", f"--branch={branch}")
    aside = f"{place}.{os.getpid()}.new"  # because another program may put files into the folder meanwhile
    try:
        _git("clone", *options, "--", address, aside)
        _git("--git-dir", f"{aside}/.git", "update-ref", SEEN, "HEAD")
        with unused(index_dir(place), keep_dir(place), _busy):
            identity = kept_identity(place)
            for former in (index_dir(place), keep_dir(place)):  # of another folder that was here
                set_aside(former, identity)
            os.rename(aside, place)
    except OSError as error:
        raise UsageError(f"{folder} cannot be made: {error.strerror}", hint="Name a new or empty folder.") from error
    finally:
        shutil.rmtree(aside, ignore_errors=True)
    settings, _ = settings_of_root(str(folder))
    keep_shared(state_of_root(settings.keep_dir), begin(folder, address))


def full_address(address: str) -> str:
    """Return an address as git takes it from any folder. Raises UsageError for an option."""
    if address.startswith("-"):
        raise UsageError(f"{address!r} is not an address", hint="Write a URL, HOST:PATH or a folder.")
    if re.match("(?i)https?://[^/]*@", address):
        hint = "Write it without what is before the @: git asks your credential helper."
        raise UsageError("the address has a name or a password, which memsync would show", hint=hint)
    return address if _IS_ADDRESS.match(address) else os.path.abspath(os.path.expanduser(address))


def _busy(holder: str = "another process") -> MemsyncError:
    return IndexBusy(f"{holder} uses the memory that was in this folder", hint="End it, then try again.")


def _branch_at(address: str) -> str:
    """Return the branch to share of the repository at an address; empty if it has none. Raises UsageError.

    It is the one that HEAD names, if it exists: a new repository's HEAD often names another than the one that was sent.
    """
    branches, named = [], ""
    for line in _git("ls-remote", "--symref", "--", address, "HEAD", "refs/heads/*").splitlines():
        name, _, reference = line.partition("\t")
        if name.startswith("ref: refs/heads/"):
            named = name.removeprefix("ref: refs/heads/")
        elif reference.startswith("refs/heads/"):
            branches.append(reference.removeprefix("refs/heads/"))
    preferred = [name for name in (named, BRANCH) if name in branches]
    if len(branches) > 1 and not preferred:
        raise UsageError(f"{address} has several branches and no HEAD", hint="Set its HEAD with git symbolic-ref.")
    return next(iter((*preferred, *branches)), "")


def _git(*arguments: str) -> str:
    """Run git as the user, in no repository, and return what it prints. Raises UsageError with its reason."""
    program = shutil.which("git", path=search_path())
    if program is None:
        raise UsageError("git is not installed", hint="Install git, then share the notes.")
    environment = {name: value for name, value in os.environ.items() if name not in ("GIT_DIR", "GIT_WORK_TREE")}
    environment |= {"LC_ALL": "C", "GIT_ALLOW_PROTOCOL": PROTOCOLS}
    try:
        done = subprocess.run(  # noqa: S603 (because no shell reads the arguments, and the user chooses which git runs)
            [program, *_SAFE, *arguments], cwd="/", env=environment, capture_output=True, text=True, errors="replace",
            timeout=SECONDS, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired as error:
        raise UsageError(f"git {arguments[0]} took over {SECONDS:.0f} s", hint="Try again.") from error
    if done.returncode:
        reason = next((line for line in done.stderr.splitlines() if line.startswith(("fatal:", "ERROR:"))), done.stderr)
        raise UsageError(quoted(reason.strip(), 300), hint="Check the address, and whether git can reach it.")
    return done.stdout

"""The repository through which machines exchange what they changed: fetch from it, push to it, as the user.

The address is the one that the user gave. git sees his own settings (credentials, ssh), but nothing that the notes'
repository configures, as in `memsync.notes.git`.
"""

from __future__ import annotations

from dataclasses import dataclass

from memsync.model.text import quoted
from memsync.notes.git import Git
from memsync.notes.git_files import GitUnusable

SEEN = "refs/memsync/shared"
"""The commit of the shared branch that this machine saw last."""
_QUIET = ("-c", "gc.auto=0", "-c", "maintenance.auto=false")


@dataclass(frozen=True, slots=True)
class Remote:
    """A branch of the repository at an address."""

    git: Git
    address: str
    branch: str

    def fetch(self) -> str:
        """Return the newest commit of the branch, with its objects; empty if there is no branch yet.

        Raises GitUnusable with git's reason, also if the branch lost commits that it had.
        """
        options = ("--no-tags", "--no-recurse-submodules", "--no-write-fetch-head", "--refmap=")
        done = self.git.run(*_QUIET, "fetch", *options, self.address, f"{self.branch}:{SEEN}", with_network=True)
        if done.returncode and "couldn't find remote ref" in done.stderr:
            return ""
        if done.returncode and "non-fast-forward" in done.stderr:
            raise GitUnusable(
                f"{self.branch} of {quoted(self.address)} was rewritten: run memsync init --from in a new folder, and "
                "copy there what you changed since"
            )
        if done.returncode:
            raise GitUnusable(_reason(done.stderr))
        return self.git.run("rev-parse", "--verify", SEEN).stdout.strip()

    def push(self, commit: str) -> bool:
        """Make a commit the newest of the branch; return False if another machine was faster. Raises GitUnusable."""
        arguments = ("push", "--quiet", "--no-verify", self.address, f"{commit}:{self.branch}")
        done = self.git.run(*_QUIET, *arguments, with_network=True)
        if not done.returncode:
            self.git.run("update-ref", SEEN, commit)
        elif not any(reason in done.stderr for reason in ("fetch first", "non-fast-forward", "cannot lock ref")):
            raise GitUnusable(_reason(done.stderr))
        return not done.returncode


def _reason(complaint: str) -> str:
    """Return the first line in which git says what is wrong."""
    lines = [line for line in complaint.splitlines() if line.strip()]
    wrong = [line for line in lines if line.startswith(("fatal:", "error:", "ERROR:", "remote: error"))]
    return quoted((wrong or lines or ["git failed without a reason"])[0], 200)

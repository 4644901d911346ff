"""One exchange with the other machines: commit what changed here, fetch, merge, push, and write what came.

A merge is pushed before it is checked out, so that all machines agree on one order of merges. If a conflict is left
that no rule decides, it is committed as git marks it, and nothing is pushed until the marks are gone.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from memsync.edit import commits
from memsync.features.sharing import checkout, merging
from memsync.features.sharing.holding import FILTERED, IGNORED, MARKED, Holding, is_unsolved, show_hidden
from memsync.features.sharing.remote import SEEN, Remote
from memsync.model.grouped import grouped
from memsync.model.status import Shared
from memsync.model.text import count, printable
from memsync.model.vocabulary import NotePath
from memsync.notes.files import MAX_NOTE_BYTES
from memsync.notes.git import Git, open_git, use_identity
from memsync.notes.git_files import GitUnusable, branch_of
from memsync.notes.revisions import Blob, Revisions

if TYPE_CHECKING:
    from memsync.workspace import Workspace

ARRIVING = "refs/memsync/arriving"
"""The commit whose files are being written."""
SECONDS = 1_800.0
"""For one exchange; a first one fetches everything."""
ATTEMPTS = 8
_HERE, _THERE = "memsync/here", "memsync/there"
"""Names of the two commits that are merged: a person sees them at git's marks."""
Entry = tuple[str, str, str]
"""A file's path, its mode and git's name of its content; an empty name takes the file out."""
_MOST_CONFLICTS = 127
"""The exit code of `git merge-file` counts conflicts up to here; a higher one is an error."""


class Exchange:
    """Exchanges the notes of one memory root as they are shared; tells how many files it sent and took.

    Also what it holds back and why, and open conflicts: all of that also if it has raised an error.
    """

    def __init__(self, memory: Workspace, shared: Shared) -> None:
        self._memory = memory
        self._address, self._branch = shared.address, shared.branch
        self._holding = Holding(memory, shared.allowed)
        self._revisions = Revisions.of(memory.settings.root)
        self.sent = self.taken = 0
        self.held: dict[str, str] = {}
        self.conflicts = shared.conflicts

    def exchange(self) -> None:
        """Exchange once. Raises GitUnusable with the reason, MemsyncError."""
        _check(self._revisions, self._branch)
        with self._git() as git:
            remote = Remote(git, self._address, self._branch)
            self._finish(git)
            for _ in range(ATTEMPTS):
                head = self._commit(git)
                if self.conflicts:
                    return
                theirs = remote.fetch()
                if not theirs or _is_ancestor(git, theirs, head):
                    if not head or theirs == head or self._pushed(git, remote, theirs, head):
                        return
                    continue
                target = theirs if not head or _is_ancestor(git, head, theirs) else self._merged(git, head, theirs)
                if target != theirs and not self.conflicts and not self._pushed(git, remote, theirs, target):
                    continue
                if self._check_out(git, head, target) or self.conflicts:
                    return
        raise GitUnusable("other machines send all the time")

    @contextmanager
    def _git(self) -> Iterator[Git]:
        with open_git(self._revisions.repository, SECONDS) as git:
            use_identity(git)
            attributes = Path(git.folder, "info/attributes")
            own = attributes.read_bytes() if attributes.exists() else b""
            attributes.unlink(missing_ok=True)
            # A `merge=union` of the repository would bring removed lines back: see merging.py.
            attributes.write_bytes(own + b"\n* merge\n")
            show_hidden(Path(git.folder, "info/exclude"))
            yield git

    # ------------------------------------------------------------------------------------------ from here

    def _commit(self, git: Git) -> str:
        """Commit what changed in the files and may be sent; return HEAD's commit, no text before the first one.

        While HEAD has a conflict, all files that have marks are conflicts: a note with marks may have been renamed.
        """
        seen = commits.commit_named(git, SEEN)
        is_solving = bool(self._marked(git, seen, commits.commit_named(git, "HEAD")))
        with self._memory.writer.lock():
            paths, self.held = self._holding.sorted(git)
            marked = [path for path, reason in self.held.items() if reason == MARKED and self._is_unsolved(path)]
            self.conflicts = tuple(marked) if is_solving else ()
            if paths and not self.conflicts:
                what = paths[0] if len(paths) == 1 else count(len(paths), "file")
                _, complaint = commits.commit(self._revisions.root, [*map(NotePath, paths)], f"memsync share: {what}")
                if complaint:
                    raise GitUnusable(complaint)
        head = commits.commit_named(git, "HEAD")
        self.conflicts = self.conflicts or self._marked(git, seen, head)
        return head

    def _is_unsolved(self, path: str) -> bool:
        return is_unsolved(checkout.content_of(self._revisions, path) or b"")

    def _pushed(self, git: Git, remote: Remote, before: str, commit: str) -> bool:
        self._check_private(git, before, commit)
        if not remote.push(commit):
            return False
        listed = commits.output(git, "diff-tree", "-r", "--name-only", before or commits.empty_tree(git), commit)
        self.sent += len(listed.splitlines())
        return True

    def _check_private(self, git: Git, before: str, commit: str) -> None:
        """Raise GitUnusable if commits would send what may not leave this machine: the user may have made them.

        What a later commit takes out again counts, too, because all commits are sent.
        """
        options = ("--objects", "--filter=object:type=blob", commit, *(("--not", before) if before else ()))
        listed = os.fsdecode(b"".join(git.stream("rev-list", *options, max_bytes=checkout.MAX_LISTING_BYTES)))
        paths = {name: path for name, _, path in (line.partition(" ") for line in listed.split("\n")) if path}
        for name, content in self._contents(git, list(paths)):
            if reason := self._holding.reason_of(paths[name], content):
                what = f"{printable(paths[name])} is committed, but {reason}"
                raise GitUnusable(f"{what}. Every commit is sent: rewrite those that have it with git")

    def _marked(self, git: Git, before: str, commit: str) -> tuple[str, ...]:
        """Return the paths of the files of a commit in which a merge of ours has left marks since an earlier one.

        Without an earlier one nothing was merged yet.
        """
        if before in ("", commit) or not commit:
            return ()
        changes = checkout.changed(git, before, commit, only_regular=True)
        new = grouped((one.after, one.path) for one in changes if one.after)
        unsolved = (name for name, content in self._contents(git, list(new)) if is_unsolved(content))
        return tuple(path for name in unsolved for path in new[name])

    def _contents(self, git: Git, names: Sequence[str]) -> Iterator[tuple[str, bytes]]:
        """Yield git's name of each content, and the content; some at a time are in memory."""
        for start in range(0, len(names), checkout.BATCH):
            sizes = self._revisions.sizes(git, names[start : start + checkout.BATCH])
            yield from self._revisions.contents(git, (Blob(*item) for item in sizes.items()))

    # ------------------------------------------------------------------------------------------ merging

    def _merged(self, git: Git, ours: str, theirs: str) -> str:
        """Return a commit that merges two; `conflicts` also names what no rule decides."""
        for name, commit in ((_HERE, ours), (_THERE, theirs)):
            commits.output(git, "update-ref", f"refs/{name}", commit)
        done = git.run("merge-tree", "--write-tree", "-z", "--no-messages", _HERE, _THERE)
        if done.returncode not in (0, 1):
            if git.run("merge-base", ours, theirs).returncode:
                reason = "the notes here and those at the address began apart"
                raise GitUnusable(f"{reason}: run memsync init --from, and copy your notes into the new folder")
            raise GitUnusable("git cannot merge: memsync share needs git 2.38")
        tree, *listed = done.stdout.rstrip("\0").split("\0")
        stages: dict[str, dict[int, tuple[str, str]]] = {}
        for entry in filter(None, listed):
            about, _, path = entry.partition("\t")
            mode, name, stage = about.split(" ")
            stages.setdefault(path, {})[int(stage)] = (mode, name)
        undecided, entries = [], []
        for path, versions in sorted(stages.items()):
            decided = self._decided(git, path, versions, partial(self._is_later, git, path, ours, theirs))
            undecided += [path] * (decided is None)
            entries += [(place, _mode(versions), name) for place, name in (decided or {}).items()]
        tree = _tree(git, tree, entries)
        undecided = list(dict.fromkeys((*undecided, *self._marked(git, theirs, tree))))
        self.conflicts = tuple(dict.fromkeys((*self.conflicts, *undecided)))
        what = f"conflicts in {', '.join(undecided)}" if undecided else "merge"
        return commits.committed(git, tree, f"memsync share: {what}", ours, theirs)

    def _decided(
        self, git: Git, path: str, versions: Mapping[int, tuple[str, str]], is_later: merging.IsLater
    ) -> dict[str, str] | None:
        """Return git's names for the files that replace a conflict, no text for none; None if no rule decides.

        Stage 1 is the common version, 2 ours, 3 theirs. What one side changed and the other deleted is kept.
        """
        sides = [versions[stage][1] for stage in (2, 3) if stage in versions]
        if any(mode not in checkout.REGULAR for mode, _ in versions.values()):
            return None
        if len(sides) < 2:
            return {path: "".join(sides)}
        names = [f"{git.folder}/{side}" for side in ("ours", "base", "theirs")]
        contents = [_content(git, versions[stage][1]) if stage in versions else b"" for stage in (2, 1, 3)]
        for name, content in zip(names, contents, strict=True):
            Path(name).write_bytes(content)
        size = merging.marker_size(contents)
        done = git.run("merge-file", "--quiet", "--diff3", f"--marker-size={size}", *names)
        if done.returncode > _MOST_CONFLICTS:  # not text
            stem, dot, suffix = path.rpartition(".")
            copy = f"{stem} (conflicted copy {sides[1][:8]}){dot}{suffix}"
            return {path: sides[0], copy: sides[1]}
        rules = self._memory.reader.rules
        if not merging.has_rule(path, rules):
            return None
        text = merging.resolved(path, rules, Path(names[0]).read_bytes(), size, is_later)
        Path(names[0]).write_bytes(text)
        return {path: commits.output(git, "hash-object", "-w", "--no-filters", names[0])}

    def _is_later(self, git: Git, path: str, ours: str, theirs: str, own: bytes, other: bytes) -> bool:
        """Tell whether the commit that brought a line to `theirs` is later than the one that brought one to `ours`."""
        times = []
        for line, here, there in ((own, ours, theirs), (other, theirs, ours)):
            text = line.decode("utf-8", "surrogateescape").strip("\r\n")
            found = git.run("log", "-1", "--format=%ct", f"-S{text}", here, "--not", there, "--", path).stdout.strip()
            times.append(int(found or 0))
        return times[1] > times[0]

    # ------------------------------------------------------------------------------------------ to here

    def _finish(self, git: Git) -> None:
        """Finish what a process began that was killed while it wrote the files of a commit.

        A file that was edited since counts as edited before that commit, even if it had been written already.
        """
        commit, head = (commits.commit_named(git, name) for name in (ARRIVING, "HEAD"))
        if commit not in ("", head) and (not head or _is_ancestor(git, head, commit)):
            self._check_out(git, head, commit)
        if commit:
            git.run("update-ref", "-d", ARRIVING)

    def _check_out(self, git: Git, head: str, target: str) -> bool:
        """Write the files of a commit and make it HEAD's; return False if it was merged with what was just saved.

        A file that is saved meanwhile stays, is committed as a change of HEAD and merged, and is written then. All
        others are written already: to commit all files at that moment would make what arrived a change of ours.
        """
        before, ours = head or commits.empty_tree(git), head
        with self._memory.writer.lock(), commits.locked_index(git) as index:
            _check(self._revisions, self._branch)
            if commits.commit_named(git, "HEAD") != head:  # the user has committed meanwhile
                self.conflicts = ()
                return False
            for _ in range(ATTEMPTS):
                commits.output(git, "read-tree", "-i", "-m", target, index=index.copy)  # refuses paths such as .git/x
                commits.output(git, "update-ref", ARRIVING, target)
                changes = [*checkout.changed(git, before, target)]
                missed = checkout.write(self._revisions, git, changes)
                self.taken += len(changes) - len(missed)
                if not missed:
                    break
                saved = self._saved(git, missed)
                ours = commits.committed(git, _tree(git, ours, saved), "memsync share: saved meanwhile", ours)
                before, target = _tree(git, target, saved), self._merged(git, ours, target)
            else:
                raise GitUnusable(f"{missed[0].path} is being changed")
            git.run("update-index", "-q", "--refresh", index=index.copy, at_notes=True)
            index.keep()  # before HEAD: a process that is killed in between is finished by the next one
            commits.output(git, "update-ref", "-m", "memsync share", "HEAD", target, head or "0" * len(target))
            git.run("update-ref", "-d", ARRIVING)
        return ours == head

    def _saved(self, git: Git, files: Sequence[checkout.Changed]) -> list[Entry]:
        """Store files as they are now, and return their entries. Raises GitUnusable if one may not be sent."""
        paths, entries = [one.path for one in files], []
        filtered, ignored = commits.filtered(git, paths), commits.ignored(git, paths)
        for one in files:
            content = checkout.content_of(self._revisions, one.path)
            reason = "" if content is None else self._holding.reason(git, one.path, content)
            reason = reason or FILTERED * (one.path in filtered) or IGNORED * (one.path in ignored)
            if reason:
                raise GitUnusable(f"{printable(one.path)} was changed on another machine, too, but here {reason}")
            name = "" if content is None else checkout.stored(git, one.path, content)
            if name and name == one.before:
                raise GitUnusable(f"{printable(one.path)} is open for writing in another program: close it there")
            entries.append((one.path, checkout.REGULAR[one.is_executable], name))
        return entries


def _check(revisions: Revisions, branch: str) -> None:
    """Raise GitUnusable if the memory root is not a whole working tree on the shared branch, with nothing under way."""
    if revisions.folder or revisions.repository.is_bare:
        raise GitUnusable(f"{revisions.root} is not the top folder of a git repository")
    current = branch_of(revisions.repository)
    if current != branch:
        raise GitUnusable(f"{revisions.root} is on {current or 'no branch'}, and {branch} is shared")
    commits.check_idle(revisions.repository)


def _mode(versions: Mapping[int, tuple[str, str]]) -> str:
    """Return the mode of a merged file: that of the side which changed it."""
    modes = [versions[stage][0] for stage in (1, 2, 3) if stage in versions]
    return next((mode for mode in modes[1:] if mode != modes[0]), modes[0])


def _content(git: Git, blob: str) -> bytes:
    return b"".join(git.stream("cat-file", "blob", blob, max_bytes=MAX_NOTE_BYTES))


def _is_ancestor(git: Git, older: str, newer: str) -> bool:
    return bool(newer) and git.run("merge-base", "--is-ancestor", older, newer).returncode == 0


def _tree(git: Git, base: str, entries: Sequence[Entry]) -> str:
    """Return a tree that differs from another in some entries."""
    base, index = base or commits.empty_tree(git), f"{git.folder}/tree"
    lines = (f"{mode if name else '0'} {name or '0' * len(base)}\t{path}\0" for path, mode, name in entries)
    commits.output(git, "read-tree", base, index=index)
    commits.output(git, "update-index", "-z", "--index-info", given="".join(lines), index=index)
    return commits.output(git, "write-tree", "--missing-ok", index=index)

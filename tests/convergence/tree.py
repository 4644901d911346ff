"""What happens to the files: each change made, stamped with the world's time and told to the watcher."""

from __future__ import annotations

import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from tests.convergence import texts
from tests.convergence.clock import SimulatedClock
from tests.convergence.filesystem import SimulatedFileSystem
from tests.convergence.survey import Survey, differing, survey
from tests.convergence.watcher import SimulatedWatcher

NOTES = ["a.md", "b.md", "daily/2026-11-21.md", "deep/er/c.md", "deep/d.md", "skip/s.md", "ünï ☃.md", "n.markdown"]
FOLDERS = ["deep", "deep/er", "daily", "skip", "moved", "deep/moved"]


class Tree:
    """The files of one memory root and everybody who changes them. Whatever cannot be done is left undone."""

    def __init__(
        self, root: Path, clock: SimulatedClock, system: SimulatedFileSystem, watcher: SimulatedWatcher
    ) -> None:
        self.root = root
        self._clock = clock
        self._system = system
        self._watcher = watcher
        self._saves = 0
        self.outside = root.parent / "outside"
        self.outside.mkdir()
        self.now: Survey = survey(root)
        self.version = 0
        self._stamp(list(self.now), {})

    @contextmanager
    def change(self) -> Iterator[None]:
        """Change files; afterwards what changed is stamped and told."""
        with suppress(OSError):
            yield
        before, self.now = self.now, survey(self.root)
        self.version += 1
        changed = list(differing(before, self.now))
        self._stamp(changed, before)
        self._watcher.tell(list(self._reports(changed, before)))

    def _stamp(self, changed: list[str], before: Survey) -> None:
        """Give what changed the stamps that the kernel gives: a new mtime only to what was written."""
        moment = self._clock.stamp_ns()
        old = {seen.inode: seen for seen in before.values()}
        for seen in [self.now[path] for path in changed if path in self.now]:
            known = old.get(seen.inode)
            written = known is None or (known.mtime_ns, known.content) != (seen.mtime_ns, seen.content)
            mtime = moment if written else self._system.stamps[seen.inode][0]
            self._system.stamps[seen.inode] = (mtime, moment)

    def _reports(self, changed: list[str], before: Survey) -> Iterator[str]:
        """Yield what a watcher is told: a folder that came or went stands for all that is in it."""
        whole: list[str] = []
        for path in changed:
            if any(path.startswith(folder) for folder in whole):
                continue
            old, new = before.get(path), self.now.get(path)
            if (old is not None and old.is_folder) != (new is not None and new.is_folder):
                whole.append(f"{path}/")
            elif new is not None and new.is_folder and old is not None and old.mode == new.mode:
                if old.inode == new.inode:
                    continue  # what its listing shows is told by itself
                whole.append(f"{path}/")
            if path:
                yield path

    # ---------------------------------------------------------------------------------------- saves

    def text(self, seed: int, keep: bytes = b"") -> bytes:
        """Return what a save writes: some text, what is kept of the old, and a mark of its own."""
        self._saves += 1
        return (texts.body(seed) + texts.marked(self._saves)).encode() + keep

    def write(self, path: str, content: bytes) -> None:
        """Save in one go."""
        with self.change():
            self._put(path, content)

    def overwrite(self, path: str, content: bytes) -> None:
        """Write into the file that is there."""
        with self.change():
            (self.root / path).write_bytes(content)

    def append(self, path: str, content: bytes) -> None:
        """Write on at the end."""
        if self.note_at(path) is not None:
            with self.change(), open(self.root / path, "ab") as file:
                file.write(content)

    def empty(self, path: str) -> None:
        """Begin a save as many editors do."""
        with self.change():
            os.truncate(self.root / path, 0)

    def replace(self, path: str, content: bytes) -> None:
        """Save as git and careful editors do: a new file takes the old one's name."""
        with self.change():
            self._put("save.tmp", content)
            os.replace(self.root / "save.tmp", self.root / path)

    def edit_unseen(self, path: str) -> None:
        """Change some bytes and set the time back, as `touch -r` and rsync do: size, mtime and inode stay."""
        file = self.root / path
        if not self.now.get(path, self.now[""]).is_file:
            return
        info = os.stat(file)
        mtime = self._system.stamps[info.st_ino][0]
        content = file.read_bytes()
        with self.change():
            file.write_bytes(content.replace(b"e", b"o") if b"e" in content else content.replace(b"o", b"e"))
            os.utime(file, ns=(info.st_atime_ns, info.st_mtime_ns))
        self._system.stamps[info.st_ino] = (mtime, self._system.stamps[info.st_ino][1])

    def touch(self, path: str) -> None:
        """Change nothing but the times."""
        with self.change():
            os.utime(self.root / path, ns=(self._clock.stamp_ns(),) * 2)

    def remove(self, path: str) -> None:
        with self.change():
            os.unlink(self.root / path)

    # ---------------------------------------------------------------------------------------- moves

    def rename(self, old: str, new: str) -> None:
        """Move a file or folder; `..` leads out of the root and back in."""
        with self.change():
            os.makedirs(os.path.dirname(self._place(new)), exist_ok=True)
            os.rename(self._place(old), self._place(new))

    def swap(self, one: str, other: str) -> None:
        with self.change():
            between = self.root / "between.tmp"
            os.rename(self.root / one, between)
            try:
                os.rename(self.root / other, self.root / one)
            finally:
                os.rename(between, self.root / (other if not (self.root / other).exists() else one))

    def copy(self, source: str, target: str) -> None:
        """Copy with the times, as `cp -p` does."""
        with self.change():
            shutil.copy2(self.root / source, self.root / target)
        if source in self.now and target in self.now and self.now[target].is_file:
            mtime = self._system.stamps[self.now[source].inode][0]
            self._system.stamps[self.now[target].inode] = (mtime, self._clock.stamp_ns())

    def remove_folder(self, folder: str) -> None:
        """Remove a folder and what is in it; a pipe that has its name would be opened, and waited for without end."""
        if folder in self.now and self.now[folder].is_folder:
            with self.change():
                shutil.rmtree(self.root / folder)

    # -------------------------------------------------------------------------------------- oddities

    def link(self, path: str, target: str, *, hard: bool) -> None:
        """Link to a note, a folder, or nothing."""
        with self.change():
            self._away(path)
            if hard:
                os.link(self.root / target, self.root / path)
            else:
                os.symlink(self.root / target, self.root / path)

    def pipe(self, path: str) -> None:
        """Put a FIFO where a note could be: whoever opens it to read would wait for ever."""
        with self.change():
            self._away(path)
            os.mkfifo(self.root / path)

    def forbid(self, path: str) -> None:
        """Take all permissions from a file or folder."""
        if path in self.now and not stat.S_ISLNK(self.now[path].mode):
            with self.change():
                os.chmod(self.root / path, 0o700 if self.now[path].is_folder else 0o600)
            self._system.denied.add(self.now[path].inode)

    def permit(self) -> None:
        """Give all permissions back, which is reported even where the mode is what it was: after a copy, say."""
        denied, self._system.denied = self._system.denied, set()
        for file_mode, folder_mode in ((0o600, 0o700), (0o644, 0o755)):
            with self.change():
                for path in [path for path, seen in self.now.items() if path and seen.inode in denied]:
                    os.chmod(self.root / path, folder_mode if self.now[path].is_folder else file_mode)

    def is_denied(self, path: str) -> bool:
        """Tell whether a file, or a folder on the way to it, may not be read."""
        steps = [path, *(str(folder) for folder in Path(path).parents)]
        return any(step in self.now and self.now[step].inode in self._system.denied for step in steps)

    def note_at(self, path: str) -> bytes | None:
        """Return the bytes of a regular file, None if there is none."""
        seen = self.now.get(path)
        return (self.root / path).read_bytes() if seen is not None and seen.is_file else None

    def _put(self, path: str, content: bytes) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if file.is_fifo() or file.is_symlink():
            file.unlink()
        file.write_bytes(content)

    def _place(self, path: str) -> Path:
        return self.outside / path[3:] if path.startswith("../") else self.root / path

    def _away(self, path: str) -> None:
        with suppress(FileNotFoundError):
            os.unlink(self.root / path)

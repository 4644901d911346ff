"""A person who edits a memory root at random, on a thread of its own, and remembers each state of each file."""

from __future__ import annotations

import hashlib
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.convergence import texts
from tests.convergence.texts import WORDS

PIECES = [*texts.PIECES, "{0} {1} {2} {3}\n"]
NAMES = ["a.md", "b.md", "daily/2026-11-21.md", "daily/2026-11-20.md", "threads/t.md", "deep/er/c.md", "deep/d.md"]
FOLDERS = ["daily", "threads", "deep", "deep/er", "moved", "moved/on"]
HEADS = ["", "---\ntitle: {0}\ntags: [{1}, {2}]\n---\n", "---\n[broken: {0}\n---\n"]
PAUSE_SECONDS = 0.01


@dataclass(slots=True)
class Version:
    """What a file held: from the beginning of the change that brought it to the end of the one that took it away."""

    content: bytes
    word: str
    since: float
    complete: float = float("inf")
    until: float = float("inf")


class Editor:
    """Edits beneath `root`; `outside` is a folder beside it, on the same file system."""

    def __init__(self, root: Path, outside: Path, chance: random.Random) -> None:
        self.root = root
        self.outside = outside
        self.steps = 0
        self._chance = chance
        self._guard = threading.Lock()
        self._files: dict[str, Version] = {}
        self._past: dict[str, list[Version]] = {}
        self._commits: dict[str, dict[str, Version]] = {}
        self._away: list[tuple[Path, dict[str, Version]]] = []
        self._words = 0
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: BaseException | None = None
        outside.mkdir(parents=True)
        self._git("init", "--quiet")

    # ---------------------------------------------------------------------------- for those who compare

    def start(self) -> None:
        """Go on editing until `rest`."""
        self._stop.clear()
        self._thread = threading.Thread(target=self._run, name="editor")
        self._thread.start()

    def rest(self) -> None:
        """Stop editing once the change under way is done."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None
        if self._failure is not None:
            raise self._failure

    def digests(self) -> dict[str, str]:
        """Return the SHA-256 of every file as it was written, by its path."""
        return {path: hashlib.sha256(version.content).hexdigest() for path, version in sorted(self._files.items())}

    def held(self, path: str, text: str, since: float) -> bool:
        """Tell whether a file held this text at some moment since then."""
        with self._guard:
            known = [*self._past.get(path, ()), *([self._files[path]] if path in self._files else ())]
        return any(text in version.content.decode() for version in known if version.until >= since)

    def settled(self) -> tuple[str, Version] | None:
        """Return the file whose last change was completed most recently, with what it holds; None if there is none."""
        with self._guard:
            now = time.monotonic()
            done = [(path, version) for path, version in self._files.items() if version.complete <= now]
        return max(done, key=lambda found: found[1].complete, default=None)

    def is_untouched(self, path: str, version: Version) -> bool:
        """Tell whether a file still is what `settled` returned; a file that was away and came back is not."""
        with self._guard:
            return self._files.get(path) is version

    # ------------------------------------------------------------------------------------------ changes

    def _run(self) -> None:
        try:
            while not self._stop.wait(self._chance.choice([0, 0, PAUSE_SECONDS, 10 * PAUSE_SECONDS])):
                self.step()
        except BaseException as error:  # noqa: BLE001 (because a thread's failure is told by the one who ends it)
            self._failure = error

    def step(self) -> None:
        """Make one change."""
        changes: list[Callable[[], None]] = [
            self._write, self._write, self._append, self._append, self._replace, self._delete, self._rename,
            self._move_folder, self._move_out, self._move_in, self._remove_folder, self._commit, self._checkout,
        ]  # fmt: skip
        self._chance.choice(changes)()
        self.steps += 1

    def _write(self) -> None:
        """Truncate and write, in two parts, as an editor without care does."""
        path = self._chance.choice(NAMES)
        content, word = self._text(path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        with self._changing({path: Version(content, word, 0)}), (self.root / path).open("wb") as file:
            file.write(content[: len(content) // 2])
            file.flush()
            file.write(content[len(content) // 2 :])

    def _append(self) -> None:
        if not self._files:
            return
        path = self._chance.choice(sorted(self._files))
        more, word = self._text("")
        whole = Version(self._files[path].content + more, word, 0)
        with self._changing({path: whole}), (self.root / path).open("ab") as file:
            file.write(more)

    def _replace(self) -> None:
        path = self._chance.choice(NAMES)
        content, word = self._text(path)
        (self.root / path).parent.mkdir(parents=True, exist_ok=True)
        between = self.root / path.replace(".md", ".tmp")
        with self._changing({path: Version(content, word, 0)}):
            between.write_bytes(content)
            between.rename(self.root / path)

    def _delete(self) -> None:
        if self._files:
            path = self._chance.choice(sorted(self._files))
            with self._changing({path: None}):
                (self.root / path).unlink()

    def _rename(self) -> None:
        if self._files:
            old, new = self._chance.choice(sorted(self._files)), self._chance.choice(NAMES)
            (self.root / new).parent.mkdir(parents=True, exist_ok=True)
            if old != new:
                with self._changing({new: self._files[old], old: None}):
                    (self.root / old).rename(self.root / new)

    def _move_folder(self) -> None:
        old, new = self._chance.sample(FOLDERS, 2)
        if (self.root / old).is_dir() and not (self.root / new).exists() and not new.startswith(old + "/"):
            (self.root / new).parent.mkdir(parents=True, exist_ok=True)
            moved = self._beneath(old)
            new_files = {new + path[len(old) :]: version for path, version in moved.items()}
            with self._changing({**dict.fromkeys(moved), **new_files}):
                (self.root / old).rename(self.root / new)

    def _move_out(self) -> None:
        folder = self._chance.choice(FOLDERS)
        if (self.root / folder).is_dir():
            moved = self._beneath(folder)
            target = self.outside / str(self.steps)
            with self._changing(dict.fromkeys(moved)):
                (self.root / folder).rename(target)
            self._away.append((target, {path[len(folder) :]: version for path, version in moved.items()}))

    def _move_in(self) -> None:
        folder = self._chance.choice(FOLDERS)
        if self._away and not (self.root / folder).exists():
            source, files = self._away.pop()
            (self.root / folder).parent.mkdir(parents=True, exist_ok=True)
            with self._changing({folder + path: version for path, version in files.items()}):
                source.rename(self.root / folder)

    def _remove_folder(self) -> None:
        folder = self._chance.choice(FOLDERS)
        if (self.root / folder).is_dir():
            with self._changing(dict.fromkeys(self._beneath(folder))):
                shutil.rmtree(self.root / folder)

    def _commit(self) -> None:
        self._git("add", "--all")
        self._git("commit", "--quiet", "--allow-empty", "--message", str(self.steps))
        self._commits[self._git("rev-parse", "HEAD").strip()] = dict(self._files)

    def _checkout(self) -> None:
        if self._commits:
            commit = self._chance.choice(list(self._commits))
            target = self._commits[commit]
            gone: dict[str, Version | None] = dict.fromkeys(self._files.keys() - target.keys())
            changed = {path: version for path, version in target.items() if self._files.get(path) is not version}
            with self._changing({**gone, **changed}):
                self._git("checkout", "--quiet", "--force", "--detach", commit)
                self._git("clean", "--quiet", "--force", "-d")

    # -------------------------------------------------------------------------------------- bookkeeping

    @contextmanager
    def _changing(self, new: dict[str, Version] | dict[str, None] | dict[str, Version | None]) -> Iterator[None]:
        """Take the new state of some files for possible from now on, and the old for impossible afterwards."""
        began = time.monotonic()
        before = {}
        with self._guard:
            for path, version in new.items():
                if path in self._files:
                    before[path] = self._files.pop(path)
                    self._past.setdefault(path, []).append(before[path])
                if version is not None:
                    self._files[path] = Version(version.content, version.word, began)
        yield
        with self._guard:
            for path in new:
                if path in before:
                    before[path].until = time.monotonic()
                if path in self._files:
                    self._files[path].complete = time.monotonic()

    def _beneath(self, folder: str) -> dict[str, Version]:
        return {path: version for path, version in self._files.items() if path.startswith(folder + "/")}

    def _text(self, path: str) -> tuple[bytes, str]:
        """Return text for a file, and the word in it that no other text has."""
        self._words += 1
        word = f"unique{self._words}word"
        head = self._chance.choice(HEADS) if path else ""
        pieces = [head, *self._chance.choices(PIECES, k=self._chance.randrange(1, 8))]
        text = "".join(piece.format(*self._chance.choices(WORDS, k=4)) for piece in pieces)
        return f"{text}\n\nThe word is {word} here.\n\n".encode(), word

    def _git(self, *arguments: str) -> str:
        own = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        own |= {f"GIT_{role}_{what}": "e@x.org" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        command = ["git", "-C", str(self.root), "-c", "gc.auto=0", *arguments]
        done = subprocess.run(command, check=True, capture_output=True, text=True, env={**os.environ, **own})
        return done.stdout

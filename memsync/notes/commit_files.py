"""The notes of one commit, written to a folder: read like any other notes, and compared with git's names for them."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from memsync.errors import FilesystemError, NoteError, RootError
from memsync.model.commits import Commit
from memsync.model.grouped import grouped
from memsync.model.note import FileStamp
from memsync.model.vocabulary import NotePath
from memsync.notes.files import FileScan, Identity, NoteFiles, Places
from memsync.notes.git import Git
from memsync.notes.git_files import HeadState
from memsync.notes.ignore import is_hidden
from memsync.notes.revisions import Blob, Revisions
from memsync.settings.load import Settings
from memsync.system.once import once_property
from memsync.system.user_folders import own_folder

PAST = "past"
"""The folder beside the index in which the notes of commits are."""
_IMPOSSIBLE = (errno.ENAMETOOLONG, errno.ENOTDIR, errno.EISDIR, errno.EEXIST)


class StateLost(Exception):
    """The folder of a commit was deleted or damaged while it was read."""


class CommitFiles(NoteFiles):
    """The notes of one commit in a folder; `blobs` has git's names for their contents, by path.

    `state` is that of the commit's history, which dates the notes.
    """

    def __init__(
        self,
        folder: Path,
        settings: Settings,
        revisions: Revisions,
        commit: str,
        state: HeadState,
        blobs: Mapping[str, str],
    ) -> None:
        super().__init__(folder, *settings.of_files, settings.require_current, settings.only)
        self._revisions, self._commit = revisions, commit
        self._state = state
        self._blobs = blobs

    def keep_identity(self, identity: str) -> None:
        """Remember nothing: the folder belongs to memsync."""

    def head_state(self) -> HeadState:
        """Return the state of the commit's history, which dates the notes."""
        return self._state

    def scan(self, places: Places | None = None, known: Mapping[NotePath, Identity] | None = None) -> FileScan:
        """Stat the notes, see NoteFiles. Raises StateLost if another file of the commit is missing or was changed."""
        found = super().scan(places, known)
        if places is None:
            for path in self._blobs.keys() - found.files.keys():  # ignored notes, and the files that say so
                with suppress(NoteError):
                    self.read(NotePath(path))
        return found

    def read(self, path: NotePath) -> tuple[bytes, FileStamp]:
        """Return the bytes of a note, see NoteFiles. Raises StateLost if they are not those of the commit."""
        name = self._blobs.get(path)
        try:
            content, stamp = super().read(path)
        except FileNotFoundError:
            if name is None:
                raise
            raise StateLost from None
        if name is None or not stamp.is_blob(name):
            raise StateLost
        return content, stamp

    @once_property
    def _places(self) -> Places:
        """Every path of the commit. Only notes are written to the folder, but links lead to other files, too."""
        with self._revisions.git() as git:
            return Places(self._revisions.paths(git, self._commit, only_regular=False))

    def other_files(self) -> Iterator[str]:
        """Yield the path of every file of the commit that is not hidden, see NoteFiles."""
        with self._revisions.git() as git:
            paths = self._revisions.paths(git, self._commit, only_regular=True)
            yield from (path for path in paths if not is_hidden(path))

    def exists(self, path: str) -> bool:
        """Tell whether the commit has a file or a folder at a path, see NoteFiles."""
        return path == "." or path in self._places.paths or self._places.are_under(f"{path}/")


@contextmanager
def notes_of(
    settings: Settings, revisions: Revisions, git: Git, commit: Commit, files: Mapping[str, Blob]
) -> Iterator[CommitFiles]:
    """Yield some files of a commit in a folder, which is deleted at the end. Raises FilesystemError.

    The ignore files must be among them, because they hide notes.
    """
    above = settings.index_dir / PAST
    own_folder(above)
    with TemporaryDirectory(dir=above, prefix="read-") as folder:
        blobs = write_files(Path(folder), revisions, git, files)
        try:
            state = revisions.head_state(commit.name)
            yield CommitFiles(Path(folder), settings, revisions, commit.name, state, blobs)
        except (StateLost, RootError) as error:
            raise FilesystemError(f"{folder} was changed while it was read", hint="Try again.") from error


def write_files(folder: Path, revisions: Revisions, git: Git, files: Mapping[str, Blob]) -> dict[str, str]:
    """Write files to a folder and return git's names for them; leave out those that no checkout could have together."""
    written: dict[str, str] = {}
    paths = grouped((blob.name, path) for path, blob in files.items())
    for name, content in revisions.contents(git, dict.fromkeys(files.values())):
        for path in paths[name]:
            place = folder / path
            try:
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)
                written[path] = name
            except OSError as error:
                if error.errno not in _IMPOSSIBLE:
                    raise
    return written

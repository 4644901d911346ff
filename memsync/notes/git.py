"""Run git so that it never executes or follows anything that a repository configures.

A stranger's notes may bring a repository, and most settings of a repository can name a program to run. So git never
sees the repository's configuration. It sees the repository's HEAD, index, references and objects. For everything else
that working trees share, `GIT_COMMON_DIR` is a temporary folder with no hooks and a configuration that has only values
that `_VALUES` allows. Git does not search for a repository, so it cannot find one among the notes.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path, PurePosixPath
from typing import IO, Any

from memsync.model.text import quoted
from memsync.notes.git_files import GitUnusable, Repository, read_file
from memsync.system.programs import search_path

MAX_CONFIG_BYTES = 1_000_000
_READ_WHOLE = ("refs", "logs", "objects", "info")
"""The folders of a repository in which git reads any file."""
MAX_RULES_BYTES = 1_000_000
"""Largest file of attributes or ignore rules that git may read."""
MAX_GIT_MEMORY = 400_000_000
"""Bytes that one git process may allocate: a few packed megabytes can hold a commit message of a gigabyte."""
_SECONDS_TO_END = 2.0
_KEPT_VARIABLES = ("GIT_AUTHOR_NAME", "GIT_AUTHOR_EMAIL", "GIT_COMMITTER_NAME", "GIT_COMMITTER_EMAIL")
_USERS_OWN = ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")
_FOR_NETWORK = ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_PROXY_COMMAND")
PROTOCOLS = "file:git:http:https:ssh"
_FLAG = re.compile(r"true|false|yes|no|on|off|1|0|", re.IGNORECASE)
_ONE_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,500}")
_IDENTITY = ("user.name", "user.email", "author.name", "author.email", "committer.name", "committer.email")
"""Taken only from the user's own settings, because git writes these words into the repository's files."""
_VALUES: Mapping[str, re.Pattern[str]] = {
    **dict.fromkeys(_IDENTITY, _ONE_LINE),
    "user.useconfigonly": _FLAG,
    "core.autocrlf": re.compile(rf"input|{_FLAG.pattern}", re.IGNORECASE),
    "core.eol": re.compile(r"lf|crlf|native", re.IGNORECASE),
    "core.filemode": _FLAG,
    "core.ignorecase": _FLAG,
    "core.logallrefupdates": re.compile(rf"always|{_FLAG.pattern}", re.IGNORECASE),
    "core.precomposeunicode": _FLAG,
    "core.sharedrepository": re.compile(
        rf"group|all|world|everybody|umask|0?[0-7]{{3}}|{_FLAG.pattern}", re.IGNORECASE
    ),
}
"""The settings that git may see, with their allowed values: names, line ends, file modes. None can run a program."""
_RULES = {"core.attributesfile": "attributes", "core.excludesfile": "ignore"}
"""Settings that name a file of patterns, and its default name in the user's configuration folder."""
_REMOTE = re.compile(r"remote\.[^\n]+\.url")
_EXTENSIONS: Mapping[str, re.Pattern[str]] = {
    "objectformat": re.compile("sha1|sha256"),
    "noop": re.compile(".*"),
    "partialclone": re.compile(".*"),
    "preciousobjects": _FLAG,
    "refstorage": re.compile("files"),
    "relativeworktrees": _FLAG,
    "worktreeconfig": _FLAG,
}


class TooSlow(GitUnusable):
    """git exceeded its time limit."""


class Git:
    """git on one repository. `config` has the settings read from the repository so far."""

    def __init__(self, repository: Repository, folder: str, seconds: float) -> None:
        self.repository = repository
        self.folder = folder
        self.config: dict[str, str] = {}
        self.includes = False
        self._deadline = time.monotonic() + seconds
        self._seconds = seconds

    def run(
        self,
        *arguments: str,
        given: str = "",
        index: str = "",
        as_user: bool = False,
        at_notes: bool = False,
        with_network: bool = False,
    ) -> subprocess.CompletedProcess[str]:
        """Run one git command to its end. Raises GitUnusable if git is missing or takes too long.

        `index` replaces that of the repository. `as_user`: read the user's settings. `at_notes`: run in the working
        tree. `with_network`: `as_user`, and talk to other machines, with the programs of the user's settings.
        """
        with self._started(
            *arguments,
            cwd=self.repository.work_tree if at_notes else self.folder,
            env=self._environment(index, as_user=as_user or with_network, with_network=with_network),
            start_new_session=with_network,  # without a terminal, ssh cannot wait for a passphrase
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        ) as process:
            try:
                outputs = process.communicate(given.encode("utf-8", "surrogateescape"), self._seconds_left())
            except BaseException:
                process.terminate()  # before it is killed, so that it can remove its lock files
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_SECONDS_TO_END)
                process.kill()
                raise
        # Not as text: Python would take a CR in a name or in a note for the end of a line.
        printed, complaint = (output.decode("utf-8", "surrogateescape") for output in outputs)
        return subprocess.CompletedProcess(arguments, process.returncode, printed, complaint)

    def stream(self, *arguments: str, max_bytes: int, given: bytes = b"") -> Iterator[bytes]:
        """Yield a command's output in blocks. Raises GitUnusable if it fails, is too slow or prints too much."""
        with self.output(*arguments, given=given) as output:
            printed = 0
            while block := output.read(1_000_000):
                printed += len(block)
                if printed > max_bytes:
                    raise GitUnusable(f"git printed over {max_bytes // 1_000_000} MB")
                yield block

    @contextmanager
    def output(self, *arguments: str, given: bytes = b"") -> Iterator[IO[bytes]]:
        """Yield a command's output as a file. Raises GitUnusable at its end if the command fails or is too slow."""
        with (
            self._source(given) as source,
            self._started(
                "--literal-pathspecs",
                *arguments,
                cwd=self.folder,
                env=self._environment("", as_user=False),
                stdin=source,
                stderr=subprocess.DEVNULL,
            ) as process,
        ):
            timer = threading.Timer(self._seconds_left(), process.kill)
            timer.start()
            try:
                yield process.stdout
                if process.wait() != 0:
                    is_late = time.monotonic() >= self._deadline
                    raise self._too_slow() if is_late else GitUnusable(f"git {arguments[0]} failed")
            finally:
                timer.cancel()
                process.kill()

    @contextmanager
    def _source(self, given: bytes) -> Iterator[IO[bytes]]:
        """Yield a file with what a command reads; a pipe could fill while git waits until its output is read."""
        with tempfile.TemporaryFile(dir=self.folder) as source:
            source.write(given)
            source.seek(0)
            yield source

    @contextmanager
    def _started(self, *arguments: str, **options: Any) -> Iterator[Any]:
        """Start git with limited memory and yield its process. Raises GitUnusable if that or its use fails."""
        program = shutil.which("git", path=search_path())
        if program is None:
            raise GitUnusable("git is not installed")
        try:
            with subprocess.Popen(  # noqa: S603 (because no shell reads the arguments, and the user chooses which git runs)
                [program, *arguments], stdout=subprocess.PIPE, **options
            ) as process:
                _limit_memory(process.pid)
                yield process
        except subprocess.TimeoutExpired as error:
            raise self._too_slow() from error
        except OSError as error:
            raise GitUnusable(f"git cannot be run: {error.strerror}") from error

    def _seconds_left(self) -> float:
        return max(0.01, self._deadline - time.monotonic())

    def _too_slow(self) -> TooSlow:
        return TooSlow(f"git took over {self._seconds:.0f} s")

    def _environment(self, index: str, *, as_user: bool, with_network: bool = False) -> dict[str, str]:
        kept = _KEPT_VARIABLES + (_USERS_OWN if as_user else ()) + (_FOR_NETWORK if with_network else ())
        environment = {name: text for name, text in os.environ.items() if name in kept or not name.startswith("GIT_")}
        repository = self.repository
        environment |= {
            "GIT_DIR": repository.git_dir,
            "GIT_COMMON_DIR": self.folder,
            "GIT_WORK_TREE": repository.work_tree,
            "GIT_OBJECT_DIRECTORY": f"{repository.common_dir}/objects",
            "GIT_ALLOW_PROTOCOL": PROTOCOLS if with_network else "none",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_NO_REPLACE_OBJECTS": "1",
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "LC_ALL": "C",
            "PATH": search_path(),
        }
        if index:
            environment["GIT_INDEX_FILE"] = index
        if not as_user:  # older versions of git ignore GIT_CONFIG_GLOBAL, so hide the user's folders too
            environment |= {"HOME": self.folder, "XDG_CONFIG_HOME": self.folder}
            environment |= {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
        return environment


def _limit_memory(process_id: int) -> None:
    """Limit the memory that a git process may allocate, not counting mapped packs. Linux only."""
    if sys.platform == "linux":
        with suppress(OSError):  # the process has ended
            limits = resource.prlimit(process_id, resource.RLIMIT_DATA)
            limit = min([MAX_GIT_MEMORY, *(limit for limit in limits if limit != resource.RLIM_INFINITY)])
            resource.prlimit(process_id, resource.RLIMIT_DATA, (limit, limit))


@contextmanager
def open_git(repository: Repository, seconds: float) -> Iterator[Git]:
    """Yield git on a repository, for so many seconds in all. Raises GitUnusable with the reason."""
    with tempfile.TemporaryDirectory(prefix="memsync-git-") as folder:
        git = Git(repository, os.path.realpath(folder), seconds)
        _share(git)
        _write_config(git, {})
        _check_owner(git)
        _read_config(git)
        _write_config(git, git.config)
        yield git


def use_identity(git: Git) -> None:
    """Take the committer from the user's settings, and line ends from the user's and the repository's.

    Raises GitUnusable if the repository's settings include other files, because memsync does not read them.
    """
    if git.includes:
        raise GitUnusable("the repository's configuration includes other files, which memsync does not read")
    pattern = "^(" + "|".join(map(re.escape, (*_VALUES, *_RULES))) + ")$"
    listed = git.run("config", "-z", "--get-regexp", pattern, as_user=True)
    settings = {name: value for name, value in _pairs(listed.stdout) if _is_value(name, value)}
    for setting, usual in _RULES.items():
        settings[setting] = _rules_file(git.repository.work_tree, settings.get(setting, ""), usual)
    _write_config(git, git.config | settings)


# ------------------------------------------------------------------------------------- what git may see


def _share(git: Git) -> None:
    """Link the files that git needs from the repository into our folder; none is a program or names one."""
    common = git.repository.common_dir
    if not os.path.isdir(f"{common}/refs") or not os.path.isdir(f"{common}/objects"):
        raise GitUnusable(f"{common} is not a repository")
    os.mkdir(f"{git.folder}/info")
    for name in ("refs", "logs", "packed-refs", "shallow", "info/attributes", "info/exclude"):
        place = f"{common}/{name}"
        if os.path.isdir(place) or _is_regular(place):
            os.symlink(place, f"{git.folder}/{name}")
    _check_files(git.repository)


def _check_files(repository: Repository) -> None:
    """Raise GitUnusable if git would wait for a file (a FIFO, a device), or read what is outside of the repository.

    Names such as `ORIG_HEAD` are files beside HEAD, so each of these counts.
    """
    common, own = repository.common_dir, repository.git_dir
    with os.scandir(own) as entries:
        for entry in entries:
            is_socket = stat.S_ISSOCK(entry.stat(follow_symlinks=False).st_mode)  # that of git's own monitor
            if not (entry.is_file(follow_symlinks=False) or entry.is_dir() or is_socket):
                raise GitUnusable(f"{entry.path} is not a regular file")
    folders = [f"{place}/{name}" for place in {common, own} for name in _READ_WHOLE]
    while folders:
        folder = folders.pop()
        if os.path.islink(folder):
            raise GitUnusable(f"{folder} is not a folder")
        with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    folders.append(entry.path)
                elif not entry.is_file(follow_symlinks=False):
                    raise GitUnusable(f"{entry.path} is not a {'folder' if entry.is_dir() else 'regular file'}")
    with suppress(FileNotFoundError):
        if read_file(f"{common}/objects/info/alternates", MAX_CONFIG_BYTES).strip():
            reason = "it shares the objects of another repository, which memsync does not read"
            raise GitUnusable(f"{reason}: run git repack -a -d && rm {common}/objects/info/alternates")


def _is_regular(path: str) -> bool:
    """Tell whether a file exists. Raises GitUnusable for anything but a regular file: git would wait for a FIFO."""
    if os.path.lexists(path) and not os.path.isfile(path):
        raise GitUnusable(f"{path} is not a regular file")
    return os.path.lexists(path)


def _write_config(git: Git, values: Mapping[str, str]) -> None:
    is_sha256 = git.config.get("extensions.objectformat") == "sha256"
    lines = [f"[core]\n\trepositoryformatversion = {int(is_sha256)}\n\thooksPath = {os.devnull}\n\tfsmonitor = false"]
    lines += ["[extensions]\n\tobjectFormat = sha256"] if is_sha256 else []
    if not os.path.isdir(f"{git.folder}/logs"):
        values = {**values, "core.logallrefupdates": "false"}
    for name, value in values.items():
        if _is_value(name, value):
            section, _, key = name.rpartition(".")
            section, _, part = section.partition(".")
            lines.append(f"[{section}{f' {_quoted(part)}' if part else ''}]\n\t{key} = {_quoted(value)}")
    Path(f"{git.folder}/config").write_text("\n".join(lines) + "\n", errors="surrogateescape")


def _quoted(value: str) -> str:
    return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _is_value(name: str, value: str) -> bool:
    if name in _VALUES:
        return _VALUES[name].fullmatch(value) is not None
    return (name in _RULES or _REMOTE.fullmatch(name) is not None) and _ONE_LINE.fullmatch(value) is not None


def _rules_file(work_tree: str, named: str, usual: str) -> str:
    """Return the file of patterns that the settings name, or the default; /dev/null if missing. Raises GitUnusable."""
    folder = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    path = os.path.join(work_tree, os.path.expanduser(named) if named else f"{folder}/git/{usual}")
    if not os.path.lexists(path):
        return os.devnull
    if not os.path.isfile(path) or os.path.getsize(path) > MAX_RULES_BYTES:
        raise GitUnusable(f"git's {usual} file {path} is not a regular file of at most {MAX_RULES_BYTES} bytes")
    return path


# ------------------------------------------------------------------------------------- what is not trusted


def _check_owner(git: Git) -> None:
    """Refuse a repository of another user, as git does, unless the user's `safe.directory` allows it."""
    repository = git.repository
    user_ids = {os.geteuid()}
    if os.geteuid() == 0 and os.environ.get("SUDO_UID", "").isdecimal():
        user_ids.add(int(os.environ["SUDO_UID"]))
    paths = [repository.work_tree, repository.git_dir]
    if not repository.is_bare:
        paths.append(f"{repository.work_tree}/.git")
    if all(os.lstat(path).st_uid in user_ids for path in paths):
        return
    safe_folders: list[str] = []
    for _, value in _pairs(git.run("config", "-z", "--get-regexp", r"^safe\.directory$", as_user=True).stdout):
        safe_folders = [*safe_folders, os.path.expanduser(value)] if value else []  # an empty value clears the list
    work_tree = repository.work_tree
    if not any(
        safe in ("*", work_tree) or (safe.endswith("/*") and work_tree.startswith(safe[:-1])) for safe in safe_folders
    ):
        raise GitUnusable(f"{work_tree} belongs to another user (git's safe.directory would allow it)")


def _read_config(git: Git) -> None:
    """Read the repository's settings as data. Raises GitUnusable if they need a feature that memsync lacks."""
    repository = git.repository
    settings = _settings_in(git, f"{repository.common_dir}/config")
    if _is_true(settings.get("extensions.worktreeconfig", "")):
        settings |= _settings_in(git, f"{repository.git_dir}/config.worktree")
    if settings.get("core.repositoryformatversion", "0") not in ("0", "1"):
        raise GitUnusable("its format is from a later version of git")
    for name, value in settings.items():
        extension = name.removeprefix("extensions.")
        if extension != name and not (extension in _EXTENSIONS and _EXTENSIONS[extension].fullmatch(value)):
            raise GitUnusable(f"it uses git's extension {quoted(f'{extension}={value}')}, which memsync does not know")
    if repository.git_dir == repository.common_dir and not repository.is_bare:
        _check_work_tree(repository, settings)
    git.includes = any(name.startswith(("include.", "includeif.")) for name in settings)
    git.config = {name: value for name, value in settings.items() if name not in _IDENTITY}


def _check_work_tree(repository: Repository, settings: Mapping[str, str]) -> None:
    """Refuse a repository that does not name this folder: anybody can write a `.git` file that points to another's."""
    git_dir, work_tree, named = repository.git_dir, repository.work_tree, settings.get("core.worktree", "")
    names_work_tree = bool(named) and os.path.realpath(os.path.join(git_dir, named)) == work_tree
    if _is_true(settings.get("core.bare", "")) or ((bool(named) or repository.is_linked) and not names_work_tree):
        raise GitUnusable(f"{git_dir} does not name {work_tree} as its working tree")


def _settings_in(git: Git, path: str) -> dict[str, str]:
    try:
        text = read_file(path, MAX_CONFIG_BYTES).decode("utf-8", "surrogateescape")
    except OSError:
        return {}
    listed = git.run("config", "--file", "-", "--no-includes", "-z", "--list", given=text)
    if listed.returncode != 0:
        raise GitUnusable(f"{path} cannot be understood")
    return dict(_pairs(listed.stdout))


def _is_true(value: str) -> bool:
    return value.lower() in ("true", "yes", "on", "1")


def _pairs(listed: str) -> Iterator[tuple[str, str]]:
    """Yield the names and values that `git config -z` prints; a name without a value means true."""
    for entry in filter(None, listed.split("\0")):
        name, has_value, value = entry.partition("\n")
        yield name, value if has_value else "true"


# ------------------------------------------------------------------------------------- rules in the working tree


def check_rule_files(git: Git, paths: list[str]) -> None:
    """Check what git would read in the folders of these paths, which are relative to the working tree.

    Raises GitUnusable if a .gitattributes or .gitignore is not a regular file or is too large, or if a folder is a
    repository of its own.
    """
    for folder in sorted({above for path in paths for above in PurePosixPath(path).parents}):
        base = os.path.join(git.repository.work_tree, folder)
        if folder.name and os.path.lexists(f"{base}/.git"):
            raise GitUnusable(f"{folder} is a repository of its own")
        for name in (".gitattributes", ".gitignore"):
            with suppress(FileNotFoundError, NotADirectoryError):
                read_file(f"{base}/{name}", MAX_RULES_BYTES)

"""A connection to the daemon: each request and each answer is one line on the socket."""

from __future__ import annotations

import _socket
import _thread
import itertools
import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress

from memsync import __version__
from memsync.client import wire
from memsync.errors import AnswerLost, DaemonNotRunning, DaemonOutdated, DaemonUnavailable, MemsyncError, UsageError
from memsync.system.user_folders import require_private, runtime_folder, socket_path

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from typing import Any, Self

Progress = Callable[[str, int, int], None]

CONNECT_SECONDS = 2.0
ANSWER_SECONDS = 60.0
_BLOCK_BYTES = 262_144


MAYBE_WRITTEN = "It may have been written: look before you try again. See memsync daemon logs."
"""The hint when the answer to a request that writes is lost."""


class Client:
    """A connection to a daemon. RemoteMemory adds a method for each operation.

    `daemon_settings` is the digest of the settings under [daemon].
    """

    def __init__(self, socket_path: str, settings_digest: str | None) -> None:
        """Connect and greet. Raises DaemonUnavailable if no daemon of this version with these settings runs.

        None as the digest connects to a daemon of any version with any settings, for `hello` and `shutdown`.
        """
        self._path = socket_path
        self._numbers = itertools.count(1)
        self._buffer = b""
        self.lock = _thread.RLock()
        """Held from a request to its answer."""
        self._socket = _connected(socket_path)
        self._is_lasting = self._is_closed = False
        try:
            if settings_digest is not None:
                self._greet(settings_digest)
        except BaseException:
            self._socket.close()
            raise
        self._is_lasting = settings_digest is not None

    @classmethod
    def serving(cls, settings: Any) -> Self:
        """Connect to the daemon of the memory that has these Settings. Raises DaemonUnavailable."""
        return cls(socket_path(settings.index_name), wire.settings_digest(settings))

    def _greet(self, settings_digest: str | None) -> None:
        self._socket.settimeout(CONNECT_SECONDS)
        try:
            answer = self.call("hello", {"protocol": wire.PROTOCOL, "version": __version__})
        except DaemonUnavailable:
            raise
        except MemsyncError as error:
            raise DaemonUnavailable(
                f"the daemon refuses: {error.message}", hint="Run: memsync daemon restart"
            ) from error
        who = f"the daemon (process {answer.get('process')})"
        if answer.get("protocol") != wire.PROTOCOL or answer.get("version") != __version__:
            reason = f"{who} is memsync {answer.get('version')}, this is {__version__}"
            raise DaemonOutdated(reason, hint="Run: memsync daemon restart")
        if settings_digest is not None and answer.get("settings") != settings_digest:
            raise DaemonOutdated(f"{who} runs with other settings", hint="Run: memsync daemon restart")
        self.daemon_settings = answer.get("daemon_settings")
        self._socket.settimeout(ANSWER_SECONDS)

    def wait(self, *, generation: int = 0, vectors: bool = False, model: bool = False, seconds: float = 10.0) -> bool:
        """Wait at most `seconds` until the index has reached `generation`; return whether it has.

        With `vectors`, also wait until nothing is left to embed; with `model`, until the model is loaded or has failed.
        """
        params = {"generation": generation, "vectors": vectors, "model": model, "seconds": seconds}
        with self.lock, self.patient(seconds + ANSWER_SECONDS):
            return bool(self.call("wait", params)["reached"])

    def shutdown(self) -> None:
        """Ask the daemon to end; it closes this connection."""
        self.call("shutdown", {})

    def call(self, method: str, params: Mapping[str, Any], progress: Progress | None = None) -> dict[str, Any]:
        """Send one request and return its result. Raises the error that the daemon returns.

        Connects again to a daemon that was restarted meanwhile, perhaps with other settings.
        """
        with self.lock:
            return self._receive(self._send(method, params), progress)

    @contextmanager
    def patient(self, seconds: float | None) -> Iterator[None]:
        """Wait at most `seconds` for each answer in this block (None: ANSWER_SECONDS)."""
        if seconds is not None:
            self._socket.settimeout(seconds)
        try:
            yield
        finally:
            self._socket.settimeout(ANSWER_SECONDS)

    def close(self) -> None:
        """Close the connection."""
        self._is_closed = True
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------- messages

    def _send(self, method: str, params: Mapping[str, Any]) -> int:
        number = next(self._numbers)
        request = wire.encode({"id": number, "method": method, "params": params})
        if len(request) > wire.MAX_REQUEST_BYTES:
            raise UsageError(
                f"the daemon takes at most {wire.MAX_REQUEST_BYTES:,} bytes in one request",
                hint="Shorten the text, or work without the daemon: daemon.use = false.",
            )
        try:
            try:
                self._socket.sendall(request)
            except OSError as error:
                if not self._is_lasting or self._is_closed or isinstance(error, TimeoutError):
                    raise
                self._connect_again()  # a daemon answers no request that it has not received whole
                self._socket.sendall(request)
        except OSError as error:
            raise self._lost(error) from error
        return number

    def _connect_again(self) -> None:
        old, new = self._socket, _connected(self._path)
        self._socket, self._buffer, self._is_lasting = new, b"", False
        try:
            self._greet(None)
            new.settimeout(old.gettimeout())
        except BaseException:
            self._socket, old = old, new
            raise
        finally:
            self._is_lasting = True
            old.close()
            if self._is_closed:  # meanwhile, by another thread
                self._socket.close()

    def _receive(self, number: int, progress: Progress | None) -> dict[str, Any]:
        """Return the result of a request; skip late answers to earlier requests."""
        while True:
            message = self._message()
            if message.get("method") == "progress" and progress is not None:
                report = message["params"]
                progress(report["what"], report["done"], report["total"])
            if "method" in message or message.get("id") not in (number, None):
                continue
            if "error" in message:
                raise self._error(message["error"])
            result: dict[str, Any] = message["result"]
            return result

    def _message(self) -> dict[str, Any]:
        try:
            message = json.loads(self._line())
        except ValueError:
            message = None
        if isinstance(message, dict) and message.keys() & {"method", "error", "result"}:
            return message
        raise DaemonUnavailable(
            f"the process at {self._path} is not a memsync daemon", hint="Run: memsync daemon restart"
        )

    def _line(self) -> bytes:
        while b"\n" not in self._buffer:
            try:
                block = self._socket.recv(_BLOCK_BYTES)
            except OSError as error:
                raise self._lost(error) from error
            if not block:
                raise self._lost(None)
            self._buffer += block
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line

    def _error(self, message: Mapping[str, Any]) -> MemsyncError:
        if message.get("code") == wire.OTHER_PROTOCOL:
            return DaemonOutdated(str(message.get("message")), hint="Run: memsync daemon restart")
        if message.get("code") == wire.STOPPING:
            return DaemonUnavailable("the daemon is stopping", hint="Try again.")
        error = wire.error_of(message)
        if message.get("code") == wire.INVALID_PARAMS:
            return UsageError(error.message, hint=error.hint)
        return error

    def _lost(self, error: OSError | None) -> AnswerLost:
        reason = "closed the connection" if error is None else f"does not answer: {error.strerror or error}"
        return AnswerLost(f"the daemon at {self._path} {reason}", hint="See memsync status and memsync daemon logs.")


def described(path: str) -> dict[str, Any]:
    """Return what is known of the daemon at a socket: its process, its version and root if it answers soon.

    Raises DaemonUnavailable if no process of this user listens there.
    """
    with Client(path, None) as client:
        daemon: dict[str, Any] = {"process": wire.peer_of(client._socket)[0]}
        with suppress(MemsyncError):
            answer = client.call("hello", {})
            daemon |= {name: answer[name] for name in ("version", "root") if name in answer}
        return daemon


def end(path: str) -> None:
    """Ask the daemon at a socket to end, whatever its settings and version. Raises DaemonUnavailable."""
    with Client(path, None) as client:
        client.shutdown()


def _connected(path: str) -> _socket.socket:
    """Return a socket that is connected to a daemon of this user. Raises DaemonUnavailable."""
    folder = os.path.dirname(path)
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        if folder == runtime_folder():
            require_private(folder)
        connection.settimeout(CONNECT_SECONDS)
        connection.connect(path)
        if not wire.is_own_user(connection):  # in a folder that others may write, anybody can answer at this path
            hint = "Set XDG_STATE_HOME to your own folder."
            raise DaemonUnavailable(f"the process at {path} is another user's", hint=hint)
    except BaseException as error:
        connection.close()
        if isinstance(error, (FileNotFoundError, ConnectionRefusedError)):
            raise DaemonNotRunning("no daemon is running", hint="Start one with: memsync daemon start") from None
        if isinstance(error, OSError):
            reason = f"the daemon at {path} cannot be reached: {error}"
            raise DaemonUnavailable(reason, hint="Run: memsync daemon restart") from error
        raise
    return connection

"""Run an object in a process of its own, which may hang, crash or be killed without harm to this one.

The process is started as a program, never forked, so the threads of this one do no harm. It imports modules from the
same paths as this process, but never from the current folder, which may be a stranger's. It ends with this process,
even if this one is killed, because then their connection ends. Messages are pickles over a socket pair, to which no
other process has access.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import pickle
import signal
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

SEND_SECONDS = 60
"""How long a process may read nothing while it is sent something."""
_BOOT = "import sys; sys.path[:] = sys.argv[3:]; from memsync.system.child import serve; serve(int(sys.argv[2]))"


class ChildFailed(Exception):
    """The process cannot be started or has ended, or its object raised an error that is not one of memsync's."""


class Child:
    """A process and the object that `make` returns there, at the first request; `threads` requests run at once.

    `make`, the arguments, the results and the errors of memsync are pickled. `name` is shown in lists of processes.
    """

    def __init__(self, name: str, make: Callable[[], object], threads: int = 1, niceness: int = 0) -> None:
        """Start the process. Raises ChildFailed."""
        setup = pickle.dumps((make, threads, niceness))
        package = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        paths = dict.fromkeys([*filter(os.path.isabs, sys.path), package])
        self._socket, theirs = socket.socketpair()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("@ll", SEND_SECONDS, 0))
        with theirs:
            try:
                self.process = subprocess.Popen(  # noqa: S603 (because it starts this same program)
                    [sys.executable or "", "-P", "-c", _BOOT, name, str(theirs.fileno()), *paths],
                    pass_fds=[theirs.fileno()],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={**os.environ, "PYTHONPATH": ""},
                )
            except OSError as error:
                self._socket.close()
                raise ChildFailed(f"cannot be started: {error.strerror}") from error
        self._numbers = itertools.count()
        self._asked: dict[int, Future[Any]] = {}
        self._guard = threading.Lock()
        self._sending = threading.Lock()
        self.ended = ""
        """How the process ended; empty while it runs."""
        self._reading = threading.Thread(target=self._read, name=f"answers of {name}", daemon=True)
        try:
            self._reading.start()
        except RuntimeError as error:  # under a limit on processes
            self._finish()
            raise ChildFailed(f"cannot be started: {error}") from error
        self._send(setup)

    @property
    def waiting(self) -> int:
        """How many requests have no answer yet."""
        return len(self._asked)

    def ask(self, name: str, *arguments: object) -> Future[Any]:
        """Call a method of the object, or get its attribute; the future raises its error, or ChildFailed."""
        future: Future[Any] = Future()
        with self._guard:
            if self.ended:
                future.set_exception(ChildFailed(self.ended))
                return future
            number = next(self._numbers)
            self._asked[number] = future
        self._send(pickle.dumps((number, name, arguments)))
        return future

    def end(self) -> None:
        """Kill the process and wait for its end. What was asked raises ChildFailed."""
        self.process.kill()
        self._reading.join()

    def _send(self, message: bytes) -> None:
        try:
            with self._sending:
                self._socket.sendall(message)
        except OSError:  # it has ended, or reads nothing; then `_read` tells everybody who waits
            self.process.kill()

    def _read(self) -> None:
        """Pass on the answers until there are no more or one is incomplete."""
        with contextlib.suppress(Exception), self._socket.makefile("rb") as stream:
            while True:
                number, result, error = pickle.load(stream)  # noqa: S301 (because this same program wrote it)
                with self._guard:
                    future = self._asked.pop(number)
                if error is None:
                    future.set_result(result)
                else:
                    future.set_exception(error)
        self._finish()

    def _finish(self) -> None:
        self.process.kill()
        code = self.process.wait()
        with self._guard:
            self.ended = f"ended ({f'signal {-code}' if code < 0 else f'exit code {code}'})"
            waiting, self._asked = list(self._asked.values()), {}
        with self._sending:
            self._socket.close()
        for future in waiting:
            future.set_exception(ChildFailed(self.ended))


def serve(descriptor: int) -> None:
    """Answer requests in the process of a Child, until the other process ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other process handles Ctrl-C
    connection = socket.socket(fileno=descriptor)
    stream = connection.makefile("rb")
    make, threads, niceness = pickle.load(stream)  # noqa: S301 (because the other process is memsync, too)
    os.nice(niceness)
    sending, making = threading.Lock(), threading.Lock()
    made: list[object] = []

    def answer(number: int, name: str, arguments: tuple[object, ...]) -> None:
        result: object = None
        failure: Exception | None = None
        try:
            with making:
                if not made:
                    made.append(make())
            value = getattr(made[0], name)
            result = value(*arguments) if callable(value) else value
        except Exception as error:  # noqa: BLE001 (because an error of one request must not end the others)
            is_own = type(error).__module__.startswith("memsync.")
            failure = error if is_own else ChildFailed(f"failed: {type(error).__name__}")
        message = pickle.dumps((number, result, failure), pickle.HIGHEST_PROTOCOL)
        with sending:
            connection.sendall(message)

    with ThreadPoolExecutor(threads) as pool:
        with contextlib.suppress(EOFError, OSError):
            while True:
                pool.submit(answer, *pickle.load(stream))  # noqa: S301 (because the other process is memsync, too)
        os._exit(0)  # nobody waits for the remaining answers

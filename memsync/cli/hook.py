"""`memsync hook`, which agents run at their events. It prints what the daemon recalls, and nothing on any fault.

An agent waits for it before each prompt, so it imports little: neither click nor the settings.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from memsync.client.connection import Client
from memsync.errors import AnswerLost, DaemonNotRunning, DaemonUnavailable, MemsyncError
from memsync.system.user_folders import STARTED, config_folder, socket_path, state_folder, write_own_file

TYPE_CHECKING = False  # and not typing's, because importing it would take a tenth of the time of a served search
if TYPE_CHECKING:
    from memsync.settings.load import Settings

EVENTS = ("session-start", "prompt", "compaction", "session-end")
MAX_PAYLOAD_BYTES = 600_000
"""A longer payload gets no answer. Quoting in the request can add half of its length; a request has a limit, too."""
ANSWER_SECONDS = 2.0


def pause_file() -> str:
    """Return the path of the file that exists while hooks are paused."""
    return os.path.join(state_folder(), "recall", "paused")


def run(arguments: Sequence[str]) -> None:
    """Print what memsync recalls. Raises nothing, because a non-zero exit code may refuse the prompt."""
    try:
        words = [word for argument in arguments for word in argument.split("=", 1)]
        event, agent = words[0], words[words.index("--agent") + 1]
        payload = sys.stdin.buffer.read(MAX_PAYLOAD_BYTES + 1)
        # The other hooks print nothing anyway.
        is_silent = event in ("session-start", "prompt") and os.path.exists(pause_file())
        if event not in EVENTS or is_silent or STARTED in os.environ:
            return
        try:
            if len(payload) > MAX_PAYLOAD_BYTES:
                raise ValueError("the event is too long")
            _answer(_asked(event, agent, payload.decode()))
        except Exception as error:  # noqa: BLE001 (because the agent must not be disturbed)
            _record(event, agent, payload, error)
    except BaseException:  # noqa: BLE001 (because a non-zero exit code may refuse the prompt)
        return


def _answer(asked: Mapping[str, str]) -> None:
    """Ask the daemon, and print its answer. Raises MemsyncError, OSError, ValueError."""
    known = os.path.join(state_folder(), "recall", "socket")  # names the daemon that answered last
    try:
        if os.stat(known).st_mtime < os.stat(os.path.join(config_folder(), "roots.toml")).st_mtime:
            raise DaemonUnavailable("another daemon may be the one to ask now")
        with open(known) as stream:
            ask(stream.read(), asked, _print)
    except AnswerLost:  # the daemon still works on the answer, and asking again would take as long
        raise
    except (OSError, ValueError, DaemonUnavailable):
        _ask_the_daemon(asked, known)


def trial(settings: Settings | None) -> str:
    """Ask the daemon of a memory a question, as hooks do; return why it gave no answer, empty if it did."""
    from memsync.agents.recall_records import CANARY

    asked = _asked("prompt", "claude-code", json.dumps({"session_id": CANARY, "prompt": "What was decided?"}))
    try:
        if settings is not None:
            ask(socket_path(settings.index_name), asked, len)
    except (MemsyncError, OSError, ValueError) as error:
        return str(error)
    return ""


def settings_to_ask() -> Settings | None:
    """Return the settings of the memory whose daemon hooks ask: `transcripts`, or the default one without it."""
    from memsync.settings.load import load_settings
    from memsync.settings.roots import TRANSCRIPTS, default_root, registered_roots

    root = registered_roots().get(TRANSCRIPTS) or default_root()
    return load_settings(root=root.path) if root is not None and root.path else None


def _asked(event: str, agent: str, payload: str) -> dict[str, str]:
    folder = ""
    with suppress(OSError):  # a removed working tree; the agent names the folder in most events
        folder = os.getcwd()
    return {"event": event, "agent": agent, "payload": payload, "folder": folder}


def ask(socket: str, asked: Mapping[str, str], show: Callable[[str], object]) -> None:
    """Ask the daemon at a socket, show its answer, and then tell it so. Raises MemsyncError."""
    with Client(socket, None) as daemon, daemon.patient(ANSWER_SECONDS):
        answered = daemon.call("hook", asked)
        with suppress(OSError, MemsyncError):  # the agent has ended, and what it did not read is not delivered
            show(str(answered["out"]))
            if receipt := answered.get("receipt"):
                daemon.call("delivered", {"receipt": receipt})


def _print(text: str) -> None:
    sys.stdout.buffer.write(text.encode("utf-8", "replace"))
    sys.stdout.buffer.flush()


def _ask_the_daemon(asked: Mapping[str, str], known: str) -> None:
    """Ask the daemon of the memory that hooks ask. Start it if it is not running."""
    settings = settings_to_ask()
    if settings is None:
        return
    socket = socket_path(settings.index_name)
    try:
        ask(socket, asked, _print)
    except DaemonNotRunning:
        if not settings["daemon.use"]:  # silent by choice
            return
        if settings["daemon.autostart"] == "never":
            raise
        from memsync.daemon import process

        process.start_unasked(settings)
        raise _Starting("the daemon is starting, and answers the next prompts") from None
    write_own_file(known, socket.encode())


class _Starting(DaemonUnavailable):
    """The first hook after a boot finds no daemon and starts it; that is no fault."""


def _record(event: str, agent: str, payload: bytes, error: Exception) -> None:
    """Record why a hook was silent, for `memsync recall` and `memsync agents check`."""
    from memsync.agents.recall_records import CANARY, SESSION_KEYS, Recall, now, record

    try:
        given = json.loads(payload)
        given = given if isinstance(given, dict) else {}
        session = str(next((given[key] for key in SESSION_KEYS if key in given), ""))
    except (ValueError, TypeError, RecursionError):
        given, session = {}, ""
    if not session.startswith(CANARY):
        reason, failed = str(error) or type(error).__name__, not isinstance(error, _Starting)
        record(Recall(now(), agent, session, event, str(given.get("cwd", "")), reason=reason, failed=failed))

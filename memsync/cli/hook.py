"""`memsync hook`, which agents run at their events. It prints what the daemon recalls, and nothing on any fault.

An agent waits for it before each prompt, so it imports little: neither click nor the settings.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

from memsync.client.connection import Client
from memsync.client.wire import socket_path
from memsync.errors import AnswerLost, DaemonNotRunning, DaemonUnavailable
from memsync.system.user_folders import config_folder, state_folder, write_own_file

EVENTS = ("session-start", "prompt", "session-end")
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
        # The hook at the end of a session prints nothing anyway.
        is_silent = event != "session-end" and os.path.exists(pause_file())
        if event in EVENTS and len(payload) <= MAX_PAYLOAD_BYTES and not is_silent:
            sys.stdout.buffer.write(_answered(event, agent, payload.decode()).encode("utf-8", "replace"))
            sys.stdout.buffer.flush()
    except BaseException:  # noqa: BLE001 (because a non-zero exit code may refuse the prompt)
        return


def _answered(event: str, agent: str, payload: str) -> str:
    asked = {"event": event, "agent": agent, "payload": payload, "folder": os.getcwd()}
    known = os.path.join(state_folder(), "recall", "socket")  # names the daemon that answered last
    try:
        if os.stat(known).st_mtime < os.stat(os.path.join(config_folder(), "roots.toml")).st_mtime:
            return _ask_the_daemon(asked, known)  # another daemon may be the one to ask now
        with open(known) as stream:
            return _ask(stream.read(), asked)
    except AnswerLost:  # the daemon still works on the answer, and asking again would take as long
        return ""
    except (OSError, ValueError, DaemonUnavailable):
        return _ask_the_daemon(asked, known)


def _ask(socket: str, asked: Mapping[str, str]) -> str:
    with Client(socket, None) as daemon, daemon.patient(ANSWER_SECONDS):
        return str(daemon.call("hook", asked)["out"])


def _ask_the_daemon(asked: Mapping[str, str], known: str) -> str:
    """Ask the daemon of `transcripts`, or of the default memory without it. Start the daemon if it is not running."""
    from memsync.settings.load import load_settings
    from memsync.settings.roots import TRANSCRIPTS, default_root, registered_roots

    root = registered_roots().get(TRANSCRIPTS) or default_root()
    if root is None or not root.path:
        return ""
    settings = load_settings(root=root.path)
    socket = socket_path(settings.index_name)
    try:
        answer = _ask(socket, asked)
    except DaemonNotRunning:
        if settings["daemon.use"] and settings["daemon.autostart"] != "never":
            from memsync.daemon import daemon_lock, process

            if daemon_lock.running(settings) is None:
                process.start_unasked(settings.options)
        return ""
    write_own_file(known, socket.encode())
    return answer

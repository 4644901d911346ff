"""Turn PostgreSQL's errors into memsync's, with what to do about each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from memsync.errors import ConfigError, IndexBusy, IndexFailure, IndexReadOnly, MemsyncError, UsageError

UNCHANGED = "The notes are not affected, and the next sync indexes what is missing."
_VARIABLE = "MEMSYNC_INDEX_DSN"
_FOR_READERS = (
    (f" {UNCHANGED}", ""),
    ("then run: memsync", "then run where its files are: memsync"),
    ("Run: memsync", "Run where its files are: memsync"),
)
"""Advice for the machine that has the files -> advice for one that only reads the memory."""
_PASSWORD = re.compile(r"(://[^:/@\s]*:)\S*@|(password\s*=\s*)('[^']*'|\S+)", re.IGNORECASE)
# libpq's words before the reason why it cannot connect: they name the server, as our messages do.
MAX_REASON = 200
_QUOTED = re.compile(r'".*"')
"""libpq quotes the part of a connection string that it cannot read, which may be a password."""
_NOT_CONNECTED = re.compile(r"^connection failed: connection to server (?:at|on) .*? failed: (?:FATAL:\s*)?")

_ENDED = "{server} ended the connection: {reason}"
_NO_PGVECTOR = "{server} lacks something of pgvector: {reason}"
_NO_TLS = "no TLS"
"""Not a SQLSTATE: libpq tells only in words that a connection cannot be encrypted."""

# Why there is no connection -> what takes the place of its SQLSTATE, which libpq does not tell then. If the server does
# not speak English, the general message is used, which has the reason, too.
_CONNECTING: dict[str, str] = {
    r"pg_hba\.conf": "28",
    r"\bSSL\b|certificate": _NO_TLS,
    r"too many connections|too many clients|connection slots|no more connections": "53300",
    r"starting up|shutting down|recovery|not yet accepting": "57P03",
    r"authentication|no password|role .* does not exist|no such user|not permitted to log in": "28",
    r"database .* does not exist|no such database": "3D000",
    r"server closed the connection|consuming input|sending (query|data)|connection is (lost|closed)": "08",
}

# SQLSTATE, or its first two letters for a class of errors -> (error, message, hint). {server} names the server.
_REFUSALS: dict[str, tuple[type[MemsyncError], str, str]] = {
    "28": (
        IndexFailure,
        "{server} refuses this login: {reason}",
        "Check user, password and sslmode in MEMSYNC_INDEX_DSN, and pg_hba.conf on the server.",
    ),
    _NO_TLS: (
        IndexFailure,
        "no encrypted connection to {server}: {reason}",
        "Check sslmode and sslrootcert in MEMSYNC_INDEX_DSN, and the server's ssl settings.",
    ),
    "3D000": (IndexFailure, "{server} has no such database: {reason}", "Create it, or correct MEMSYNC_INDEX_DSN."),
    "42501": (
        IndexReadOnly,
        "the database role lacks a right on {server}: {reason}",
        "Ask the owner of the tables for: memsync index grant. Only the owner of the tables can write.",
    ),
    "42P01": (
        IndexFailure,
        "{server} lacks a table of memsync: {reason}",
        "Run: memsync index migrate",
    ),
    "3F000": (IndexFailure, "{server} has no tables of memsync", "Run: memsync index migrate"),
    "42704": (IndexFailure, _NO_PGVECTOR, "Run: memsync index migrate"),
    "42883": (IndexFailure, _NO_PGVECTOR, "Run: memsync index migrate"),
    "53100": (IndexReadOnly, "no space left on {server}", f"Free space on the server's disk. {UNCHANGED}"),
    "53200": (IndexFailure, "{server} is out of memory: {reason}", f"Try again, or enlarge the server. {UNCHANGED}"),
    "53300": (IndexBusy, "{server} has no free connection", "Try again, or raise max_connections on the server."),
    "55P03": (IndexBusy, "another process writes to this memory on {server}", "Try again in a moment."),
    "57014": (IndexBusy, "{server} cancelled a statement: {reason}", "Try again, or raise statement_timeout there."),
    "57P03": (IndexFailure, "{server} accepts no connections yet: {reason}", "Try again in a moment."),
    "25P03": (IndexFailure, _ENDED, f"Try again, or raise idle_in_transaction_session_timeout there. {UNCHANGED}"),
    "25P04": (IndexFailure, _ENDED, f"Try again, or raise transaction_timeout there. {UNCHANGED}"),
    "57P": (IndexFailure, _ENDED, f"Try again when it runs. {UNCHANGED}"),
    "40": (IndexBusy, "another process wrote to {server} at the same time: {reason}", "Try again."),
    "25006": (IndexReadOnly, "{server} accepts no writes: {reason}", "Name the primary server in MEMSYNC_INDEX_DSN."),
    "08": (IndexFailure, "the connection to {server} is lost: {reason}", f"Try again when it runs. {UNCHANGED}"),
    "58": (IndexFailure, "{server} failed: {reason}", f"See the server's log and disk. {UNCHANGED}"),
    "XX": (IndexFailure, "{server} failed: {reason}", "See the server's log; then run: memsync verify"),
}


def refusal_of(error: psycopg.Error, server: str) -> MemsyncError:
    """Return the error to raise instead of one of psycopg's."""
    reason = reason_of(error)
    state = error.sqlstate or _state_in_words(reason)
    for key in (state, state[:3], state[:2]):
        if key and key in _REFUSALS:
            kind, message, hint = _REFUSALS[key]
            return kind(message.format(server=server, reason=reason), hint=hint)
    if isinstance(error, psycopg.ProgrammingError) and not state:
        return ConfigError(
            f"the connection string cannot be used: {_QUOTED.sub('…', reason)}",
            hint=f"Write {_VARIABLE} like this: postgresql://user:password@host:5432/database",
        )
    if isinstance(error, (psycopg.OperationalError, errors.InterfaceError)):
        return IndexFailure(
            f"{server} cannot be reached: {reason}", hint=f"Check that it runs, and MEMSYNC_INDEX_DSN. {UNCHANGED}"
        )
    if isinstance(error, psycopg.DataError):
        return UsageError(f"{server} cannot read a value: {reason}")
    return IndexFailure(f"{server} does not answer as expected: {reason}", hint="Run: memsync verify")


@contextmanager
def advice_for_readers(source: str) -> Iterator[None]:
    """Adapt the hints of errors to a memory that is only read: `source` says where its connection string comes from."""
    try:
        yield
    except MemsyncError as error:
        error.hint = error.hint.replace(_VARIABLE, source)
        for before, after in _FOR_READERS:
            error.hint = error.hint.replace(before, after)
        raise


def _state_in_words(reason: str) -> str:
    return next((state for words, state in _CONNECTING.items() if re.search(words, reason)), "")


def reason_of(error: psycopg.Error) -> str:
    """Return the first line of an error, shortened, without passwords and control characters."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    reason = without_passwords(_NOT_CONNECTED.sub("", lines[0].strip()))
    return "".join(character for character in reason if character.isprintable())[:MAX_REASON]


def without_passwords(text: str) -> str:
    """Replace the passwords of connection strings in a text by stars."""
    return _PASSWORD.sub(lambda match: f"{match[1] or match[2]}***{'@' if match[1] else ''}", text)


def is_lost(error: psycopg.Error) -> bool:
    """Tell whether the connection of an error cannot be used any more."""
    if error.sqlstate is None:
        return isinstance(error, (psycopg.OperationalError, errors.InterfaceError))
    return error.sqlstate.startswith("08") or error.diag.severity_nonlocalized in ("FATAL", "PANIC")

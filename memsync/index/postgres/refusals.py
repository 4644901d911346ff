"""Turn PostgreSQL's errors into memsync's, with what to do about each."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import errors

from memsync.errors import ConfigError, IndexBusy, IndexFailure, IndexOutdated, IndexReadOnly, MemsyncError, UsageError
from memsync.settings.connection_string import without_passwords

__all__ = [
    "UNCHANGED",
    "distant_errors",
    "distant_refusal_of",
    "reason_of",
    "refusal_of",
    "without_passwords",
]

UNCHANGED = "The notes are not affected, and the next sync indexes what is missing."
MAX_REASON = 200
_MAX_LINE = 2_000
"""A longer line is cut before it is searched, which could take long."""
_QUOTED = re.compile(r'".*"')
"""libpq quotes the part of a connection string that it cannot read, which may be a password."""
_NOT_CONNECTED = re.compile(r"^connection failed: connection to server (?:at|on) .*? failed: (?:FATAL:\s*)?")
"""libpq's words before the reason why it cannot connect: they name the server, as our messages do."""
_OF_THIS_MACHINE = re.compile(
    r"connection (?:failed|is bad): connection to server .* failed: "
    r"(Connection refused|Connection timed out|timeout expired|No route to host|Network is unreachable"
    r"|No such file or directory)|(failed to resolve host '.*|(?:connection )?timeout expired"
    r"|it has not answered for [0-9.]+ seconds)"
)
"""Reasons that this machine gives, and no server."""
_STATE = re.compile(r"[0-9A-Z]{5}")

_ENDED = "{server} ended the connection{reason}"
_NO_PGVECTOR = "{server} lacks something of pgvector{reason}"
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
# {reason} is what it says, after a colon.
_Rule = tuple[type[MemsyncError], str, str]
_REFUSALS: dict[str, _Rule] = {
    "28": (
        IndexFailure,
        "{server} refuses this login{reason}",
        "Check user, password and sslmode in MEMSYNC_INDEX_DSN, and pg_hba.conf on the server.",
    ),
    _NO_TLS: (
        IndexFailure,
        "no encrypted connection to {server}{reason}",
        "Check sslmode and sslrootcert in MEMSYNC_INDEX_DSN, and the server's ssl settings.",
    ),
    "3D000": (IndexFailure, "{server} has no such database{reason}", "Create it, or correct MEMSYNC_INDEX_DSN."),
    "42501": (
        IndexReadOnly,
        "the database role lacks a right on {server}{reason}",
        "Ask the owner of the tables for: memsync index grant. Only the owner of the tables can write.",
    ),
    "42P01": (
        IndexFailure,
        "{server} lacks a table of memsync{reason}",
        "Run: memsync index migrate",
    ),
    "3F000": (IndexFailure, "{server} has no tables of memsync", "Run: memsync index migrate"),
    "42704": (IndexFailure, _NO_PGVECTOR, "Run: memsync index migrate"),
    "42883": (IndexFailure, _NO_PGVECTOR, "Run: memsync index migrate"),
    "53100": (IndexReadOnly, "no space left on {server}", f"Free space on the server's disk. {UNCHANGED}"),
    "53200": (IndexFailure, "{server} is out of memory{reason}", f"Try again, or enlarge the server. {UNCHANGED}"),
    "53300": (IndexBusy, "{server} has no free connection", "Try again, or raise max_connections on the server."),
    "53": (IndexFailure, "{server} lacks a resource{reason}", f"See the server's log and limits. {UNCHANGED}"),
    "54": (
        IndexFailure,
        "{server} has a limit that this exceeds{reason}",
        f"A path, a tag or a value in a note may be too long. {UNCHANGED}",
    ),
    "55P03": (IndexBusy, "another process writes to this memory on {server}", "Try again in a moment."),
    "57014": (IndexBusy, "{server} cancelled a statement{reason}", "Try again, or raise statement_timeout there."),
    "57P03": (IndexFailure, "{server} accepts no connections yet{reason}", "Try again in a moment."),
    "25P03": (IndexFailure, _ENDED, f"Try again, or raise idle_in_transaction_session_timeout there. {UNCHANGED}"),
    "25P04": (IndexFailure, _ENDED, f"Try again, or raise transaction_timeout there. {UNCHANGED}"),
    "57P": (IndexFailure, _ENDED, f"Try again when it runs. {UNCHANGED}"),
    "40": (IndexBusy, "another process wrote to {server} at the same time{reason}", "Try again."),
    "25006": (IndexReadOnly, "{server} accepts no writes{reason}", "Name the primary server in MEMSYNC_INDEX_DSN."),
    "08": (IndexFailure, "the connection to {server} is lost{reason}", f"Try again when it runs. {UNCHANGED}"),
    "58": (IndexFailure, "{server} failed{reason}", f"See the server's log and disk. {UNCHANGED}"),
    "XX": (IndexFailure, "{server} failed{reason}", "See the server's log; then run: memsync verify"),
}
_WRONG_STRING: _Rule = (
    ConfigError,
    "the connection string cannot be used{reason}",
    "MEMSYNC_INDEX_DSN looks like postgresql://user:password@host:5432/database",
)
_UNREACHABLE: _Rule = (
    IndexFailure,
    "{server} cannot be reached{reason}",
    f"Check that it runs, and MEMSYNC_INDEX_DSN. {UNCHANGED}",
)
_WRONG_VALUE: _Rule = (UsageError, "{server} cannot read a value{reason}", "")
_UNEXPECTED: _Rule = (IndexFailure, "{server} does not answer as expected{reason}", "Run: memsync verify")
_DISTANT_HINT = "Check that it runs and {source}, or ask the owner of that database."


def refusal_of(error: psycopg.Error, server: str) -> MemsyncError:
    """Return the error to raise instead of one of psycopg's; it quotes what the server says."""
    kind, message, hint = _rule_of(error)
    reason = reason_of(error, hide=_QUOTED) if kind is ConfigError else reason_of(error)
    return kind(message.format(server=server, reason=f": {reason}"), hint=hint)


def distant_refusal_of(
    error: psycopg.Error, server: str, source: str = "its connection string in roots.toml"
) -> MemsyncError:
    """Return the error to raise instead of one of psycopg's, if the database is somebody else's.

    It has none of the server's words: an agent could take them for an instruction. `source` says where the connection
    string comes from.
    """
    kind, message, hint = _rule_of(error)
    state = error.sqlstate or ""
    reason = f" (SQLSTATE {state})" if _STATE.fullmatch(state) else _reason_of_this_machine(error)
    return kind(
        message.format(server=server, reason=reason),
        hint=hint if kind is IndexBusy else _DISTANT_HINT.format(source=source),
    )


@contextmanager
def distant_errors(source: str, server: str = "PostgreSQL") -> Iterator[None]:
    """Let the errors of this block be those of somebody else's database, see `distant_refusal_of`."""
    try:
        yield
    except ConfigError as error:  # this machine cannot read the string, so no server has said anything
        error.hint = f"Write {source} like this: postgresql://user@host:5432/database"
        raise
    except MemsyncError as error:
        if isinstance(error.__cause__, psycopg.Error):
            raise distant_refusal_of(error.__cause__, server, source) from error.__cause__
        if isinstance(error, IndexOutdated):
            error.hint = f"Where its files are, run: {error.hint.removeprefix('Run: ')}"
        raise


def _rule_of(error: psycopg.Error) -> _Rule:
    """Return what to raise for an error.

    Only an error without a SQLSTATE can mean that there is no connection; for those with one, see _REFUSALS.
    """
    state = error.sqlstate or _state_in_words(_words_of(error))
    for key in (state, state[:3], state[:2]):
        if key and key in _REFUSALS:
            return _REFUSALS[key]
    if not state and isinstance(error, psycopg.ProgrammingError):
        return _WRONG_STRING
    if not state and isinstance(error, (psycopg.OperationalError, errors.InterfaceError)):
        return _UNREACHABLE
    return _WRONG_VALUE if isinstance(error, psycopg.DataError) else _UNEXPECTED


def _state_in_words(reason: str) -> str:
    return next((state for words, state in _CONNECTING.items() if re.search(words, reason)), "")


def reason_of(error: psycopg.Error, hide: re.Pattern[str] | None = None) -> str:
    """Return the first line of an error as a quotation, shortened, without passwords and control characters.

    Leaves out what `hide` matches.
    """
    words = without_passwords(_words_of(error))
    words = hide.sub("…", words) if hide else words
    shown = "".join(character for character in words if character.isprintable())[:MAX_REASON]
    return '"{}"'.format(shown.replace('"', "'"))


def _words_of(error: psycopg.Error) -> str:
    return _NOT_CONNECTED.sub("", _first_line(error))


def _first_line(error: psycopg.Error) -> str:
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_MAX_LINE].strip()


def _reason_of_this_machine(error: psycopg.Error) -> str:
    """Return why there is no connection, after a colon, if this machine says it; empty if a server may have said it."""
    given = _OF_THIS_MACHINE.fullmatch(_first_line(error)) if error.diag.message_primary is None else None
    return f": {without_passwords(given[1] or given[2])}" if given else ""

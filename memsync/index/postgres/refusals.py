"""Turn PostgreSQL's errors into memsync's: a sentence of our own, the SQLSTATE, and what to do.

What a server says is not shown, because an agent could take the words of somebody else's database for an instruction.
Only an error without a SQLSTATE, when there is no connection, needs words: for the user's own database it quotes libpq.
"""

from __future__ import annotations

import psycopg

from memsync.errors import ConfigError, IndexBusy, IndexFailure, IndexOutdated, IndexReadOnly, MemsyncError, UsageError
from memsync.settings.connection_string import without_passwords

UNCHANGED = "The notes are not affected, and the next sync indexes what is missing."
MIGRATE = "Where the files are, run: memsync index migrate"
BEGIN_ANEW = "DROP SCHEMA memsync CASCADE; then run: memsync index migrate"
OWN_SOURCE = "MEMSYNC_INDEX_DSN"
MAX_REASON = 300
_FULL = "No space left on device"
"""What a server with a full disk says to those who connect; libpq passes no SQLSTATE on."""
_Rule = tuple[type[MemsyncError], str, str]
_NO_CONNECTION: _Rule = (
    IndexFailure,
    "no connection to {server}",
    f"Check that it runs, and host, user, password, database and sslmode in {OWN_SOURCE}. {UNCHANGED}",
)
_NO_TABLES: _Rule = (IndexOutdated, "the tables on {server} are not there yet", MIGRATE)
_NO_PGVECTOR: _Rule = (IndexFailure, "{server} lacks something of pgvector", MIGRATE)
_FAILED: _Rule = (IndexFailure, "{server} failed", "See the server's log and disk; then run: memsync index verify")
_ENDED = "{server} ended the connection"
_UNEXPECTED: _Rule = (IndexFailure, "{server} does not answer as expected", "Run: memsync index verify")

# SQLSTATE, or its first letters for a class of errors, otherwise the class of psycopg -> (error, message, hint).
_REFUSALS: dict[str, _Rule] = {
    "08": (IndexFailure, "the connection to {server} is lost", f"Try again when it runs. {UNCHANGED}"),
    "22": (UsageError, "{server} cannot read a value", ""),
    "25006": (IndexReadOnly, "{server} accepts no writes", f"Name the primary server in {OWN_SOURCE}."),
    "25P03": (IndexFailure, _ENDED, "Try again, or raise idle_in_transaction_session_timeout there."),
    "25P04": (IndexFailure, _ENDED, "Try again, or raise transaction_timeout there."),
    "3F000": _NO_TABLES,
    "40": (IndexBusy, "another process wrote to {server} at the same time", "Try again."),
    "42501": (
        IndexReadOnly,
        "the database role lacks a right on {server}",
        "Ask the owner of the tables for: memsync index grant. Only the owner of the tables can write.",
    ),
    "42P01": _NO_TABLES,
    "42P07": (
        IndexFailure,
        "{server} has tables of an unfinished restore",
        f"Restore them again, or begin anew with {BEGIN_ANEW}",
    ),
    "42704": _NO_PGVECTOR,
    "42883": _NO_PGVECTOR,
    "53": (IndexFailure, "{server} lacks memory or another resource", f"Try again, or enlarge the server. {UNCHANGED}"),
    "53100": (IndexReadOnly, "no space left on {server}", f"Free space on the server's disk. {UNCHANGED}"),
    "54": (
        IndexFailure,
        "{server} has a limit that this exceeds",
        "A path, a tag or a value in a note may be too long.",
    ),
    "55P03": (IndexBusy, "another process writes to this memory on {server}", "Try again in a moment."),
    "57014": (IndexBusy, "{server} cancelled a statement", "Try again, or raise statement_timeout there."),
    "57P": (IndexFailure, _ENDED, f"Try again when it runs. {UNCHANGED}"),
    "58": _FAILED,
    "XX": _FAILED,
    "DataError": (UsageError, "{server} cannot read a value", ""),
    "InterfaceError": _NO_CONNECTION,
    "OperationalError": _NO_CONNECTION,
    "ProgrammingError": (
        ConfigError,
        "the connection string cannot be used",
        f"Write it as postgresql://user:password@host:5432/database; see {OWN_SOURCE}",
    ),
}


def refusal_of(error: psycopg.Error, server: str, source: str = "", own: str = OWN_SOURCE) -> MemsyncError:
    """Return the error to raise instead of one of psycopg's.

    `source` says where the list of memories has the connection string of somebody else's database; without it, the
    database is the user's own, and `own` says where its connection string is from.
    """
    state = error.sqlstate or ("53100" if _FULL in str(error) else "")
    keys = (state, state[:3], state[:2]) if state else tuple(kind.__name__ for kind in type(error).__mro__)
    kind, message, hint = next((_REFUSALS[key] for key in keys if key in _REFUSALS), _UNEXPECTED)
    message = message.format(server=server)
    if len(state) == 5 and state.isalnum():
        message += f" (SQLSTATE {state})"
    elif not (source or state or kind is ConfigError):  # whose reason may quote a part of a password
        message += f": {quoted(error)}"
    hint = hint.replace(OWN_SOURCE, source or own)
    if source and kind not in (IndexBusy, IndexOutdated):
        hint = hint if kind is ConfigError else f"Check that it runs and {source}, or ask its owner."
    return kind(message, hint=hint)


def quoted(error: psycopg.Error) -> str:
    """Return the first line of an error as a quotation, shortened, without passwords and control characters."""
    line = next(iter(without_passwords(str(error)).strip().splitlines()), type(error).__name__)
    shown = "".join(character for character in line if character.isprintable())[:MAX_REASON]
    return '"{}"'.format(shown.replace('"', "'"))

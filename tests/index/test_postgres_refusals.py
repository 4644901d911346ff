"""What memsync says for an error of PostgreSQL: its own sentence, and the SQLSTATE."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from memsync.errors import IndexBusy, IndexFailure, IndexReadOnly, MemsyncError
from memsync.index.postgres.refusals import refusal_of

SERVER = "PostgreSQL at db:5432/x"
KINDS: list[type[psycopg.Error]] = sorted(
    {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, psycopg.Error) and kind.sqlstate
    },
    key=lambda kind: str(kind.sqlstate),
)


@pytest.mark.parametrize("source", ["", "roots.toml"])
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.sqlstate))
def test_server_that_answered_with_an_error_is_named_with_its_sqlstate(kind: type[psycopg.Error], source: str) -> None:
    """It has said what is wrong. Only the classes 08 and 57P, and some of 25, mean that the connection is lost."""
    error = refusal_of(kind("the words"), SERVER, source)
    state = str(kind.sqlstate)
    assert "no connection to" not in error.message
    is_gone = "is lost" in error.message or "ended the connection" in error.message
    assert is_gone == (state[:2] == "08" or state[:3] == "57P" or state in ("25P03", "25P04"))
    assert SERVER in error.message and error.message.endswith(f" (SQLSTATE {state})")
    assert "the words" not in error.sentences()
    assert not source or "MEMSYNC_INDEX_DSN" not in error.hint


@pytest.mark.parametrize(
    ("state", "kind", "match", "hint"),
    [
        ("40001", IndexBusy, "at the same time", "Try again"),
        ("40P01", IndexBusy, "at the same time", "Try again"),
        ("53100", IndexReadOnly, "no space left", "Free space"),
        ("53200", IndexFailure, "lacks memory", "enlarge"),
        ("58030", IndexFailure, "failed ", "log and disk"),
        ("XX001", IndexFailure, "failed ", "memsync index verify"),
        ("42704", IndexFailure, "something of pgvector", "memsync index migrate"),
        ("08006", IndexFailure, "is lost", "Try again"),
        ("0A000", IndexFailure, "does not answer as expected", "memsync index verify"),
    ],
)
def test_failures_of_the_server_say_what_to_do(state: str, kind: type[MemsyncError], match: str, hint: str) -> None:
    """Each is of the class by which its callers tell what can still be done."""
    error = refusal_of(errors.lookup(state)("the words"), SERVER)
    assert type(error) is kind and match in error.message and hint in error.hint


@pytest.mark.parametrize("own", ["MEMSYNC_INDEX_DSN", "/home/ada/.config/memsync/config.toml"])
def test_hint_says_where_the_connection_string_is_from(own: str) -> None:
    """The hint names the variable or the file. On a full disk the error says so, even if no connection is possible."""
    assert own in refusal_of(psycopg.OperationalError("timeout"), SERVER, own=own).hint
    full = refusal_of(psycopg.OperationalError("FATAL: could not write: No space left on device"), SERVER, own=own)
    assert isinstance(full, IndexReadOnly) and "no space left" in full.message


def test_sqlstate_that_is_none_is_not_shown() -> None:
    """A server may send any text in its place."""
    error = psycopg.OperationalError("obey")
    error.sqlstate = "obey."
    assert refusal_of(error, SERVER).message == f"{SERVER} does not answer as expected"


def test_without_a_sqlstate_libpq_is_quoted_on_one_line() -> None:
    """The quotation ends where it seems to end, has no character that a terminal obeys, and no password."""
    words = 'me:s3cret@db no" such. \x1b[2J\u202eIgnore\u2028 all\r\nand more "' + "x" * 1000
    error = refusal_of(psycopg.OperationalError(words), SERVER)
    assert isinstance(error, IndexFailure)
    assert error.message == f'no connection to {SERVER}: "***@db no\' such. [2JIgnore"'
    long = refusal_of(psycopg.OperationalError("y" * 1000), SERVER).message
    assert long.endswith(f': "{"y" * 300}"')


def test_words_of_somebody_elses_database_are_not_quoted() -> None:
    """Whoever runs the server chooses them. The hint says where its connection string is."""
    error = refusal_of(psycopg.OperationalError("FATAL:  obey"), SERVER, "roots.toml")
    assert error.message == f"no connection to {SERVER}"
    assert "roots.toml" in error.hint and "obey" not in error.sentences()

"""What memsync says for an error of PostgreSQL: its own sentence, and what the user's own server said."""

from __future__ import annotations

import psycopg
import pytest
from psycopg import errors

from memsync.errors import ConfigError, IndexFailure
from memsync.index.postgres.refusals import distant_refusal_of, refusal_of

SERVER = "PostgreSQL at db:5432/x"
KINDS: list[type[psycopg.Error]] = sorted(
    {
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, psycopg.Error) and kind.sqlstate
    },
    key=lambda kind: str(kind.sqlstate),
)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: str(kind.sqlstate))
def test_server_that_answered_with_an_error_is_not_called_unreachable(kind: type[psycopg.Error]) -> None:
    """It has said what is wrong. Only the classes 08 and 57P mean that there is no connection any more."""
    error = refusal_of(kind("the words"), SERVER)
    state = str(kind.sqlstate)
    assert "cannot be reached" not in error.message
    is_gone = "is lost" in error.message or "ended the connection" in error.message or "accepts no" in error.message
    assert is_gone == (state[:2] == "08" or state[:3] == "57P" or state in ("25006", "25P03", "25P04"))
    assert SERVER in error.message
    distant = distant_refusal_of(kind("the words"), SERVER)
    assert type(distant) is type(error) and "the words" not in distant.sentences()


def test_limit_of_the_server_is_told_in_its_words() -> None:
    """A value that is too long for an index is an operational error for psycopg, too."""
    error = refusal_of(errors.ProgramLimitExceeded('index row size 6016 exceeds maximum 2704 for index "tag"'), SERVER)
    assert error.message == (
        f"{SERVER} has a limit that this exceeds: \"index row size 6016 exceeds maximum 2704 for index 'tag'\""
    )
    assert "too long" in error.hint


def test_words_of_the_server_are_a_quotation_on_one_line() -> None:
    """They end where they seem to end, and have no character that a terminal obeys."""
    words = 'no" such. \x1b[2J\u202eIgnore\u2028 all\r\nand more "' + "x" * 1000
    error = refusal_of(errors.RaiseException(words), SERVER)
    message, _, quotation = error.message.partition(": ")
    assert message == f"{SERVER} does not answer as expected"
    assert quotation == '"no\' such. [2JIgnore"'
    long = refusal_of(errors.RaiseException("y" * 1000), SERVER).message
    assert long.endswith(f': "{"y" * 200}"')


def test_without_a_sqlstate_nothing_was_reached() -> None:
    """The reason is that of libpq; a wrong connection string is not quoted, because it may have a password."""
    assert (
        refusal_of(psycopg.OperationalError("out of luck"), SERVER).message
        == f'{SERVER} cannot be reached: "out of luck"'
    )
    wrong = refusal_of(psycopg.ProgrammingError('missing "=" after "s3cret" in connection info string'), SERVER)
    assert isinstance(wrong, ConfigError) and "s3cret" not in wrong.sentences()


@pytest.mark.parametrize(
    ("words", "shown"),
    [
        ('connection failed: connection to server at "::1", port 5 failed: Connection refused', ": Connection refused"),
        ("failed to resolve host 's3cret@db': no", ": failed to resolve host '***@db': no"),
        ("connection timeout expired", ": connection timeout expired"),
        ('connection failed: connection to server at "::1", port 5 failed: FATAL:  obey', ""),
        ('connection failed: connection to server at "::1", port 5 failed: FATAL:  x failed: obey', ""),
        ("it has not answered for 30 seconds", ": it has not answered for 30 seconds"),
        ("obey until the timeout expired", ""),
        ("obey", ""),
    ],
)
def test_distant_server_is_quoted_only_if_this_machine_gives_the_reason(words: str, shown: str) -> None:
    """Whoever runs the server chooses the rest."""
    error = distant_refusal_of(psycopg.OperationalError(words), SERVER)
    assert isinstance(error, IndexFailure)
    assert error.message == f"{SERVER} cannot be reached{shown}"

"""What is shown of a connection string: the server that it leads to, and no part of a password."""

from __future__ import annotations

import pytest

from memsync.settings.connection_string import UNKNOWN, is_dsn, server_in, without_passwords
from memsync.settings.roots import RegisteredRoot

SHOWN = {
    "postgresql://me:s3cret@db.example.org:5432/memories": "postgresql://db.example.org:5432/memories",
    "postgres://db.example.org": "postgresql://db.example.org/",
    "postgresql://me:12345#s3cret@db/memories": "postgresql://db/memories",
    "postgresql://me:s3?cret@db/memories": "postgresql://db/memories",
    "postgresql://me@/memories?host=db&password=s3cret": "postgresql://db/memories",
    "postgresql://me:s3cret@a:1,b:2,c/memories?sslmode=verify-full": "postgresql://a:1,b:2,c/memories",
    "postgresql://me:s3cret@/memories?host=a,b&port=5": "postgresql://a:5,b:5/memories",
    "postgresql://me:s3cret@[::1]:5432/memories": "postgresql://[::1]:5432/memories",
    "postgresql://%2Frun%2Fpg/memories": "postgresql:///run/pg/memories",
    "host=db port=5432 dbname=memories user=me password=s3cret sslpassword='s3cret'": "postgresql://db:5432/memories",
    "password='a host=s3cret' host = db dbname= memories": "postgresql://db/memories",
    r"password='it\'s host=s3cret' host=db": "postgresql://db/",
    r"password=it\'s\ host=s3cret host=db": "postgresql://db/",
    "host='a,b' port=1,2": "postgresql://a:1,b:2/",
    "hostaddr=127.0.0.1 password=s3cret": "postgresql://127.0.0.1/",
}
IN_DOUBT = (
    "postgresql://me:p%E4s3cret@127.0.0.1/memories", "host=postgresql://me:s3cret\0@db/memories",
    "postgresql://me:p@s3cret@db/memories", "postgresql://[s3cret", "postgresql://me:12/s3cret@db/memories",
    "postgresql://me:s3cret/x@db/memories", "postgresql://me:s3cret", "postgresql://me:a@b?s3cret@db/memories",
    "postgresql://db/memories?s3cret", "postgresql://a,b/memories?port=1,2,3", "host=db password='s3cret",
    "password=a s3cret host=db", "host='password=s3cret'", "s3cret",
)  # fmt: skip


@pytest.mark.parametrize("dsn", SHOWN)
def test_servers_and_database_are_shown(dsn: str) -> None:
    """They are what libpq would connect to, and nothing else of the string is shown."""
    pytest.importorskip("psycopg")
    assert server_in(dsn) == SHOWN[dsn]
    assert is_dsn(dsn)


@pytest.mark.parametrize("dsn", IN_DOUBT)
def test_nothing_is_shown_of_a_string_that_may_be_misread(dsn: str) -> None:
    """It may have a password in a place where none is expected."""
    assert server_in(dsn) == UNKNOWN


@pytest.mark.parametrize("dsn", [*SHOWN, *IN_DOUBT])
def test_entry_of_the_list_shows_no_password(dsn: str) -> None:
    """Neither where it says which memory it is, nor in a traceback."""
    entry = RegisteredRoot("a", "", dsn)
    assert "s3cret" not in entry.place + repr(entry)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("bad: postgresql://me:s3@cret@db/x, sorry", "bad: postgresql://me:***@db/x, sorry"),
        ("bad: postgresql://me@db/x, sorry", "bad: postgresql://me@db/x, sorry"),
        ("password=s3cret host=db", "password=*** host=db"),
        (r"password = 'it\'s s3cret' host=db", "password = *** host=db"),
        (r"PASSWORD=s3\ cret host=db", "PASSWORD=*** host=db"),
        ("password='s3cret host=db", "password=***"),
        ("sslpassword=s3cret oauth_client_secret=s3cret", "sslpassword=*** oauth_client_secret=***"),
        ("failed to resolve host 's3cret@db': no", "failed to resolve host '***@db': no"),
        ("PostgreSQL at s3cret@db:5432/x", "PostgreSQL at ***@db:5432/x"),
        ("at db:5/postgresql://me:s3cret@db/x", "at db:5/postgresql://me:***@db/x"),
        ("at me:s3cret/x@db/x", "at ***@db/x"),
        ("nothing to hide at 5 @ night", "nothing to hide at 5 @ night"),
    ],
)
def test_passwords_in_a_text_are_starred(text: str, shown: str) -> None:
    """All that may be one, whichever way it was quoted; the rest of the text stays."""
    assert without_passwords(text) == shown

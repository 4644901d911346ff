"""What may be shown of a connection string of PostgreSQL: never a password, and in doubt less."""

from __future__ import annotations

import re

_URI_BEGINNINGS = ("postgresql://", "postgres://")
_KEY_AND_VALUE = re.compile(r"\s*[a-z_]+\s*=")
_PLAIN_HOST = re.compile(r"[\w./:~%-]*", re.ASCII)
_PLAIN_DATABASE = re.compile(r"[\w. ~+-]*")
UNKNOWN = "a database"
_SECRETS = re.compile(
    r"(?P<user>(?<![a-z])[a-z]*://[^:/@\s]*:)\S*@"
    r"|(?<![a-z])[a-z]*://[^:/@\s]*@"
    r"|(?P<key>(?:password|secret|client_key|server_key)\s*=\s*)(?:'(?:[^'\\]|\\.)*'?|(?:\\.|[^\s\\])+)"
    r"|(?<![^\s\"'()])(?P<before>(?:(?![a-z]+://)[^\s\"'()])+)@(?=[^\s@])",
    re.IGNORECASE | re.DOTALL,
)
_MAX_CHARS = 2_000
"""A longer text is cut: a server may send one that takes long to search."""


def is_dsn(text: str) -> bool:
    """Tell whether a text is the connection string of a database, and no path."""
    return text.startswith(_URI_BEGINNINGS) or _KEY_AND_VALUE.match(text) is not None


def server_in(dsn: str) -> str:
    """Return the servers and the database of a connection string; UNKNOWN unless each part of it can be read."""
    if "\0" in dsn:  # libpq would read no further
        return UNKNOWN
    try:  # here, because psycopg takes long to import, and few users have it
        from psycopg import ProgrammingError
        from psycopg.conninfo import conninfo_to_dict
    except ImportError:
        return UNKNOWN
    try:
        values = {key: str(value) for key, value in conninfo_to_dict(dsn).items()}
    except (ProgrammingError, UnicodeError):
        return UNKNOWN
    hosts = (values.get("host") or values.get("hostaddr", "")).split(",")
    ports = values.get("port", "").split(",")
    if len(ports) == 1:
        ports *= len(hosts)
    database = values.get("dbname", "")
    is_plain = all(map(_PLAIN_HOST.fullmatch, hosts)) and _PLAIN_DATABASE.fullmatch(database)
    if not is_plain or len(ports) != len(hosts) or not all(port == "" or port.isdecimal() for port in ports):
        return UNKNOWN
    return f"postgresql://{','.join(map(_server, hosts, ports))}/{database}"


def _server(host: str, port: str) -> str:
    shown = f"[{host}]" if ":" in host else host
    return f"{shown}:{port}" if port else shown


def without_passwords(text: str) -> str:
    """Replace the passwords in a text by stars, and all else in front of an @, which may be a part of one.

    Returns at most 2,000 characters.
    """
    return _SECRETS.sub(_starred, text[:_MAX_CHARS])


def _starred(secret: re.Match[str]) -> str:
    if secret["user"] is not None:
        return f"{secret['user']}***@"
    if secret["key"] is not None:
        return f"{secret['key']}***"
    if secret["before"] is not None:
        return "***@"
    return secret[0]  # a user without a password

"""What may be shown of a connection string of PostgreSQL: never a password, and in doubt less.

libpq, which reads these strings, is an optional dependency. So this module reads them itself, by libpq's rules.
"""

from __future__ import annotations

import re
from urllib.parse import unquote

_URI_BEGINNINGS = ("postgresql://", "postgres://")
_KEY_AND_VALUE = re.compile(r"\s*[a-z_]+\s*=")
_PAIR = re.compile(r"\s*([a-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'|((?:[^\s'\\]|\\.)(?:[^\s\\]|\\.)*|))(?=\s|$)", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_SHOWN = ("host", "hostaddr", "port", "dbname")
_PLAIN_HOST = re.compile(r"[\w./:~%-]*", re.ASCII)
_PLAIN_DATABASE = re.compile(r"[\w. ~+-]*")
UNKNOWN = "a database"
_HOST_AND_PORT = re.compile(r"(\[[^]\[]*\]|[^]\[:]*)(?::(\d*))?")
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
    values = _of_uri(dsn) if dsn.startswith(_URI_BEGINNINGS) else _of_pairs(dsn)
    if values is None:
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


def _of_pairs(dsn: str) -> dict[str, str] | None:
    """Return the values of `key=value key='value'` that may be shown; None if it is not such a text."""
    values, place, end = {}, 0, len(dsn.rstrip())
    while place < end:
        pair = _PAIR.match(dsn, place)
        if pair is None:
            return None
        values[pair[1]] = _ESCAPED.sub(r"\1", pair[2] if pair[2] is not None else pair[3])
        place = pair.end()
    return {key: value for key, value in values.items() if key in _SHOWN}


def _of_uri(dsn: str) -> dict[str, str] | None:
    """Return the values of `scheme://user:password@host:port,host:port/dbname?key=value` that may be shown.

    Returns None if an @ stands where libpq expects none: it may belong to a password that is not percent-encoded.
    """
    rest = dsn.partition("://")[2]
    if "@" in rest.partition("/")[0]:
        rest = rest.partition("@")[2]
    place, _, query = rest.partition("?")
    servers, _, database = place.partition("/")
    servers = servers.rpartition("@")[2]
    if "@" in database or "@" in query:
        return None
    parts = [_HOST_AND_PORT.fullmatch(server) for server in servers.split(",")]
    read = [part for part in parts if part is not None]
    if len(read) < len(parts):
        return None
    values = {
        "host": ",".join(unquote(part[1]).strip("[]") for part in read),
        "port": ",".join(part[2] or "" for part in read),
        "dbname": unquote(database),
    }
    for pair in filter(None, query.split("&")):
        key, equals, value = pair.partition("=")
        if not equals:
            return None
        if key in _SHOWN:
            values[key] = unquote(value)
    return values


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

"""Who may use a web server: who has its token, a cookie that it signed, or a link that works once."""

from __future__ import annotations

import hmac
import secrets
from pathlib import Path

from memsync.system import clock
from memsync.system.state_file import state_of_root
from memsync.system.user_folders import digest_of
from memsync.web.serving import token_of

TOKEN = "web-token"  # noqa: S105 (because it is the name of the file)
ENTER = "/enter"
COOKIE_SECONDS = 30 * 86_400
LINK_SECONDS = 300


class Access:
    """The keys to the web servers of one memory; `keep` is its folder for data that outlives the index.

    The token is in a file, so a cookie stays valid after a restart. Links are in the state of the memory, so another
    process can make one.
    """

    def __init__(self, keep: Path) -> None:
        """Create the token if there is none. Raises FilesystemError."""
        self._token = token_of(keep, TOKEN)
        self._state = state_of_root(keep)

    def has_token(self, authorization: bytes) -> bool:
        """Tell whether the value of an Authorization header has the token."""
        scheme, _, token = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(token, self._token.encode())

    def make_cookie(self) -> str:
        """Return the value of a cookie that is valid for COOKIE_SECONDS."""
        expires = str(int(clock.seconds()) + COOKIE_SECONDS)
        return f"{expires}.{self._signature(expires)}"

    def is_valid(self, cookie: str) -> bool:
        """Tell whether this memory's token signed a cookie, which has not expired."""
        expires, _, signature = cookie.partition(".")
        is_signed = hmac.compare_digest(signature.encode(), self._signature(expires).encode())
        return is_signed and int(expires) > clock.seconds()

    def make_link(self) -> str:
        """Return the path of a link that lets one browser in, once, within LINK_SECONDS. Raises MemsyncError."""
        key, now = secrets.token_urlsafe(32), clock.seconds()
        with self._state.writing() as database:
            database.execute("DELETE FROM link WHERE at NOT BETWEEN ? AND ?", (now - LINK_SECONDS, now))
            database.execute("INSERT INTO link VALUES (?, ?)", (digest_of(key.encode()), now))
        return f"{ENTER}?key={key}"

    def take(self, key: str) -> bool:
        """Use up the key of a link; return whether it was good. Raises MemsyncError."""
        now = clock.seconds()
        used_up = "DELETE FROM link WHERE key = ? AND at BETWEEN ? AND ?"
        return self._state.write(used_up, (digest_of(key.encode()), now - LINK_SECONDS, now)) == 1

    def _signature(self, expires: str) -> str:
        return hmac.new(self._token.encode(), expires.encode(), "sha256").hexdigest()

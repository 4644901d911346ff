"""Refuses a request unless it comes from this machine's user: before anything else, and for every path.

Web pages in the user's browser can reach loopback, too. So Host must be a name of this server, otherwise a name of a
stranger that resolves to 127.0.0.1 would do. Origin and Sec-Fetch-Site, which browsers send, must say that the request
comes from a page of this server or from the address bar. No answer has a header that lets another page read it.
"""

from __future__ import annotations

from html import escape
from http import HTTPStatus
from urllib.parse import urlsplit

from starlette.datastructures import MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from memsync.errors import sentences
from memsync.web.access import COOKIE_SECONDS, ENTER, Access
from memsync.web.problems import Refusal, problem_response
from memsync.web.serving import HOST, App, Receive, Scope, Send
from memsync.web.site import Site

MAX_BODY_BYTES = 16_000_000
HOW_TO_GET_IN = "Run memsync web in a terminal: it opens this page with a link that works once."
HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",  # with no-referrer, forms of these pages would be sent without their Origin
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
"""The headers of every answer that does not set them itself."""
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8">
<meta name="viewport" content="width=device-width"><title>memsync: {title}</title>
<h1>{title}</h1><p>{text}</p></html>
"""


class Guard:
    """The outermost application: it answers ENTER itself, and passes on what is allowed."""

    def __init__(self, app: App, site: Site, access: Access) -> None:
        self._app = app
        self._access = access
        self._cookie = f"memsync-{site.port}"
        self._is_secure = site.public_url.startswith("https:")
        names = [f"{name}:{site.port}" for name in (HOST, "localhost")]
        self._origins = {site.url, *(f"http://{name}" for name in names)}
        self._hosts = {urlsplit(origin).netloc for origin in self._origins}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        app = self._app
        if scope["type"] == "http":
            request = Request(scope)
            try:
                self._check_source(request)
                if request.url.path == ENTER and request.method == "GET":
                    app = self._enter(request.query_params.get("key", ""))
                else:
                    self._check_identity(request)
                    _check_size(request)
            except Refusal as refusal:
                app = _refused(request, refusal)
        await app(scope, receive, _with_headers(send))

    def _check_source(self, request: Request) -> None:
        """Refuse another Host, another Origin, and a request that another site made."""
        if _header(request, "host").lower() not in self._hosts:
            hint = "Open the address that memsync web prints. For a forwarded port, set --public-url."
            raise Refusal(403, "this server has another name", hint=hint)
        is_own_page = _header(request, "origin") in {"", *self._origins}
        if not is_own_page or _header(request, "sec-fetch-site") not in ("", "none", "same-origin"):
            hint = "Type the address into the address bar. For a forwarded port, set --public-url."
            raise Refusal(403, "another site made this request", hint=hint)

    def _check_identity(self, request: Request) -> None:
        """Refuse a request without the token or a valid cookie, and one that writes by cookie without an Origin."""
        if authorization := _header(request, "authorization"):
            is_known = self._access.has_token(authorization.encode("latin-1"))
        else:
            is_known = self._access.is_valid(request.cookies.get(self._cookie, ""))
            if is_known and request.method not in ("GET", "HEAD") and not _header(request, "origin"):
                raise Refusal(403, "a request with a cookie needs an Origin", hint="Send the token instead.")
        if not is_known:
            headers = {"WWW-Authenticate": "Bearer"}
            raise Refusal(401, "this needs the memory's token or a cookie", hint=HOW_TO_GET_IN, headers=headers)

    def _enter(self, key: str) -> Response:
        """Exchange the key of a link for a cookie."""
        if not self._access.take(key):
            reason = "this link was used before, or is older than five minutes"
            raise Refusal(403, reason, hint="Run memsync web again.")
        response = RedirectResponse("/", 303)
        cookie, secure = self._access.make_cookie(), self._is_secure
        response.set_cookie(self._cookie, cookie, COOKIE_SECONDS, secure=secure, httponly=True, samesite="strict")
        return response


def _check_size(request: Request) -> None:
    """Refuse a body that says that it is too large; the application counts the bytes of any other."""
    length = _header(request, "content-length")
    if length.isdecimal() and int(length[:20]) > MAX_BODY_BYTES:
        raise Refusal(413, f"a body may have {MAX_BODY_BYTES:,} bytes", hint="Send less.")


def _header(request: Request, name: str) -> str:
    """Return the value of a header; if it is sent twice both values, which no check accepts."""
    return ",".join(request.headers.getlist(name))


def _refused(request: Request, refusal: Refusal) -> Response:
    """Return a refusal as a page for a browser, otherwise as a problem document."""
    if "text/html" not in request.headers.get("accept", ""):
        return problem_response(refusal)
    text = escape(sentences(refusal.message, refusal.hint))
    page = _PAGE.format(title=HTTPStatus(refusal.status).phrase, text=f"{text[:1].upper()}{text[1:]}")
    return HTMLResponse(page, refusal.status, refusal.headers)


def _with_headers(send: Send) -> Send:
    async def sending(message: Scope) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(scope=message)
            for name, value in HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return sending

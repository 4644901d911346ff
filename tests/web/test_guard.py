"""Who may ask: the Host, Origin, token, cookie and link of a request, compared before anything else."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from memsync.system.state_file import state_of_root
from memsync.system.user_folders import STATE
from memsync.web import access as access_module
from memsync.web.access import COOKIE_SECONDS, TOKEN, Access
from memsync.web.app import make_app
from memsync.web.guard import HEADERS
from memsync.web.serving import token_of
from memsync.web.site import Site
from tests.web.conftest import PORT, URL

COOKIE = f"memsync-{PORT}"
PUBLIC = "https://notes.example.org"
HTML = {"Accept": "text/html,application/xhtml+xml"}


@pytest.fixture
def browser(stranger: TestClient, access: Access) -> TestClient:
    """Give the client a cookie, as a browser has it after it opened a link."""
    stranger.cookies.set(COOKIE, access.make_cookie(), domain="127.0.0.1")
    return stranger


def key_of(link: str) -> str:
    return link.partition("key=")[2]


# ------------------------------------------------------------------------------------------ where from


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",  # a name of a stranger that resolves to 127.0.0.1
        f"evil.example:{PORT}",
        "127.0.0.1",
        "127.0.0.1:1",
        f"localhost.evil.example:{PORT}",
        f"127.0.0.1:{PORT}@evil.example",
        f"[::1]:{PORT}",
        "",
        "notes.example.org",
    ],
)
def test_other_hosts_are_refused(host: str, client: TestClient) -> None:
    """Even with the token: a page of a name that resolves to this machine could send it nothing else."""
    answer = client.get("/v1/status", headers={"Host": host})
    assert (answer.status_code, answer.json()["detail"]) == (403, "this server has another name")
    assert "--public-url" in answer.json()["hint"]


def test_two_hosts_are_refused(client: TestClient) -> None:
    """Otherwise a proxy could compare one and this server the other."""
    hosts = [("Host", f"127.0.0.1:{PORT}"), ("Host", f"127.0.0.1:{PORT}")]
    assert client.get("/v1/status", headers=hosts).status_code == 403


@pytest.mark.parametrize("host", [f"127.0.0.1:{PORT}", f"localhost:{PORT}", f"LOCALHOST:{PORT}"])
def test_own_hosts_are_answered(host: str, client: TestClient) -> None:
    """Both names of loopback."""
    assert client.get("/v1/status", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": f"https://127.0.0.1:{PORT}"},
        {"Origin": f"http://127.0.0.1:{PORT + 1}"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},  # a page on another port of this machine
        {"Sec-Fetch-Site": "none, cross-site"},
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_requests_of_other_sites_are_refused(method: str, headers: dict[str, str], browser: TestClient) -> None:
    """Also with a cookie, which browsers send from another port of the same machine."""
    answer = browser.request(method, "/v1/status", headers={"Origin": URL, **headers})
    assert (answer.status_code, answer.json()["detail"]) == (403, "another site made this request")


@pytest.mark.parametrize("origin", ["none", "same-origin"])
def test_own_pages_and_the_address_bar_are_answered(origin: str, browser: TestClient) -> None:
    """A browser says which of them it was."""
    assert browser.get("/v1/status", headers={"Sec-Fetch-Site": origin}).status_code == 200


def test_forwarded_port_has_its_own_name(site: Site, client: TestClient, access: Access) -> None:
    """Only with --public-url; the names of loopback stay, because a proxy may send either. Its cookie needs HTTPS."""
    headers = dict(client.headers)
    with TestClient(make_app(replace(site, public_url=PUBLIC)), base_url=PUBLIC, headers=headers) as forwarded:
        assert forwarded.get("/v1/status", headers={"Origin": PUBLIC}).status_code == 200
        local = {"Host": f"localhost:{PORT}", "Origin": PUBLIC}
        assert forwarded.post("/v1/status", headers=local).status_code == 200
        assert forwarded.get("/v1/status", headers={"Host": "evil.example"}).status_code == 403
        entered = forwarded.get(access.make_link(), follow_redirects=False)
        assert "Secure" in entered.headers["set-cookie"]


# ----------------------------------------------------------------------------------------- token, cookie


@pytest.mark.parametrize(
    "path", ["/", "/v1/status", "/health", "/events", "/openapi.json", "/static/app.css", "/nothing"]
)
@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS", "HEAD"])
def test_nothing_is_there_for_strangers(path: str, method: str, stranger: TestClient) -> None:
    """Not even whether a path exists."""
    answer = stranger.request(method, path)
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


@pytest.mark.parametrize(
    "authorization", ["", "Bearer", "Bearer ", "Bearer x", "Basic {token}", "bearer {token}x", "{token}"]
)
def test_wrong_tokens_are_refused(authorization: str, browser: TestClient, site: Site) -> None:
    """A wrong token is refused even beside a valid cookie; an empty header is none."""
    token = token_of(site.settings.keep_dir, TOKEN)
    answer = browser.get("/v1/status", headers={"Authorization": authorization.format(token=token)})
    assert answer.status_code == (401 if authorization else 200)


def test_two_tokens_are_refused(client: TestClient) -> None:
    """Whichever of them is right."""
    value = client.headers["Authorization"]
    assert client.get("/v1/status", headers=[("Authorization", value)] * 2).status_code == 401


def test_cookie_reads_and_with_an_origin_writes(browser: TestClient) -> None:
    """A browser sends an Origin with each POST of a page; a form of another site has another one."""
    assert browser.get("/v1/status").status_code == 200
    assert browser.post("/v1/status", headers={"Origin": URL}).status_code == 200
    answer = browser.post("/v1/status")
    assert (answer.status_code, answer.json()["hint"]) == (403, "Send the token instead.")


@pytest.mark.parametrize(
    "cookie", ["", ".", "x", "9999999999.", "9999999999.{signature}", "{expires}.{signature}0", "é.é"]
)
def test_forged_cookies_are_refused(cookie: str, stranger: TestClient, access: Access) -> None:
    """The signature is of the time at which it expires."""
    expires, _, signature = access.make_cookie().partition(".")
    value = cookie.format(expires=expires, signature=signature)
    answer = stranger.get("/v1/status", headers={b"Cookie": f"{COOKIE}={value}".encode()})
    assert answer.status_code == 401


def test_expired_cookie_is_refused(stranger: TestClient, access: Access, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server compares the time itself, because a program may keep a cookie for longer."""
    monkeypatch.setattr(access_module, "COOKIE_SECONDS", -1)
    assert stranger.get("/", headers={"Cookie": f"{COOKIE}={access.make_cookie()}"}).status_code == 401


def test_cookie_outlives_the_server_and_is_of_one_memory(
    stranger: TestClient, site: Site, access: Access, tmp_path: Path
) -> None:
    """The token signs it, so a restart changes nothing, and another memory's cookie is worth nothing."""
    own, others = access.make_cookie(), Access(tmp_path / "other").make_cookie()
    with TestClient(make_app(site), base_url=URL) as restarted:
        assert restarted.get("/v1/status", headers={"Cookie": f"{COOKIE}={own}"}).status_code == 200
        assert restarted.get("/v1/status", headers={"Cookie": f"{COOKIE}={others}"}).status_code == 401
        assert restarted.get("/v1/status", headers={"Cookie": f"memsync-1={own}"}).status_code == 401


# ------------------------------------------------------------------------------------------------- links


def test_link_lets_one_browser_in_once(stranger: TestClient, access: Access) -> None:
    """It becomes a cookie that no script can read and that no other site's request carries."""
    link = access.make_link()
    entered = stranger.get(link, headers=HTML)
    assert (entered.status_code, entered.headers["location"]) == (303, "/")
    cookie = {part.strip().lower() for part in entered.headers["set-cookie"].split(";")[1:]}
    assert cookie == {"httponly", "samesite=strict", "path=/", f"max-age={COOKIE_SECONDS}"}
    assert stranger.get("/").status_code == 200
    stranger.cookies.clear()
    again = stranger.get(link, headers=HTML)
    assert again.status_code == 403 and "Run memsync web again" in again.text
    assert "set-cookie" not in again.headers and stranger.get("/").status_code == 401


@pytest.mark.parametrize("seconds", [-301, 3_600])
def test_old_links_are_refused_and_removed(seconds: int, stranger: TestClient, access: Access, site: Site) -> None:
    """So are those from the future: the clock was set, and their age cannot be known. Others stay."""
    old, state = access.make_link(), state_of_root(site.settings.keep_dir)
    state.write("UPDATE link SET at = at + ?", (seconds,))
    assert stranger.get(old).status_code == 403
    new = access.make_link()
    assert state.rows("SELECT count(*) FROM link") == [(1,)]
    assert stranger.get(new).status_code == 303


@pytest.mark.parametrize("key", ["", "..", "../web-token", "%00", "é", "a" * 10_000])
def test_wrong_key_is_refused(key: str, stranger: TestClient) -> None:
    """Whatever it is, and even if nobody has made a link yet."""
    assert stranger.get(f"/enter?key={key}").status_code == 403


def test_only_get_uses_a_link_up(stranger: TestClient, access: Access) -> None:
    """A program that looks whether a link exists does not use it up."""
    link = access.make_link()
    assert {stranger.request(method, link).status_code for method in ("HEAD", "POST")} == {401}
    assert stranger.get(link).status_code == 303


def test_of_many_who_use_a_link_at_once_one_gets_in(access: Access) -> None:
    """Whoever removes its file."""
    for _ in range(20):
        key = key_of(access.make_link())
        with ThreadPoolExecutor(8) as pool:
            assert sum(pool.map(access.take, [key] * 8)) == 1


def test_keys_are_kept_from_other_users(access: Access, site: Site) -> None:
    """The state has only digests of links, so a copy of it gives no access."""
    key, keep = key_of(access.make_link()).encode(), site.settings.keep_dir
    assert not any(key in path.read_bytes() for path in keep.glob(f"{STATE}*"))
    assert (keep / TOKEN).stat().st_mode & 0o777 == 0o600


# ----------------------------------------------------------------------------------------------- answers


def test_browser_without_a_cookie_gets_a_page_that_says_how_to_get_in(stranger: TestClient) -> None:
    """A program gets a problem document."""
    page = stranger.get("/note/a.md", headers=HTML)
    assert page.status_code == 401 and "Run memsync web in a terminal" in page.text
    assert stranger.get("/note/a.md").json()["status"] == 401


@pytest.mark.parametrize("path", ["/", "/v1/status", "/v1/nothing", "/nothing", "/static/nothing", "/health", "/enter"])
@pytest.mark.parametrize("headers", [{}, {"Authorization": ""}, {"Host": "evil.example"}, HTML])
def test_every_answer_has_the_headers(path: str, headers: dict[str, str], client: TestClient) -> None:
    """No answer may be framed, cached or read by another site, and no page may load anything from elsewhere."""
    answer = client.get(path, headers=headers)
    assert {name: answer.headers[name] for name in HEADERS} == HEADERS
    assert not [name for name in answer.headers if name.lower().startswith("access-control")]


def test_answer_to_an_unexpected_error_has_the_headers(
    site: Site, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The guard is outside of everything else."""

    def failing(request: Any) -> Any:
        raise KeyError("my secret")

    app = make_app(site)
    app._app.add_route("/broken", failing)  # type: ignore[attr-defined]  # because it is a Starlette application
    with TestClient(app, base_url=URL, headers=dict(client.headers), raise_server_exceptions=False) as other:
        answer = other.get("/broken")
    assert (answer.status_code, {name: answer.headers[name] for name in HEADERS}) == (500, HEADERS)
    assert "secret" not in answer.text

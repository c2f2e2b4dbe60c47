"""Who gets in at a real server, and how far: every route by every wrong token, sessions of browsers, and a provider's people."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest

from remand.domain.access.tokens import CALLS, TokenRole
from remand.interfaces.cli.registry import COMMANDS
from tests.integration.http_client import HttpReply, RunningServer, run_server
from tests.integration.machine import PATIENCE, Machine, Repository
from tests.support.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdServer, run_provider

TEAM = """
[team]
members = [
  {{name = "Fenster", role = "agent"}},
  {{name = "Lead", role = "lead", accounts = ["oidc:1234"]}},
  {{name = "Dir", role = "director"}},
  {{name = "owner", roles = ["user", "lead"]}},
]
[gates]
[server]
calls_per_second = 1000
[server.oidc]
issuer = "{issuer}"
client_id = "{client_id}"
"""
WRITTEN = {
    TokenRole.AGENT: ("Fenster",),
    TokenRole.REVIEWER: ("Lead",),
    TokenRole.DIRECTOR: ("Dir",),
    TokenRole.USER: ("owner", "--role", "user"),
    TokenRole.WORKER: ("build-1", "--role", "worker"),
    TokenRole.HOST: ("laptop", "--role", "host", "--starts", "Fenster"),
}
FORBIDDEN = ("not_authorised", "user_only")


class Place:
    """A server, and a token of every role."""

    def __init__(self, repository: Repository, server: RunningServer, provider: OpenIdServer) -> None:
        self.repository, self.server, self.provider = repository, server, provider
        self.tokens = {role: self.create(*words)["token"] for role, words in WRITTEN.items()}

    def create(self, member: str, *options: str) -> dict[str, Any]:
        found: dict[str, Any] = self.repository.ok("token", "create", "--member", member, *options)
        return found

    def routes(self) -> list[tuple[str, str, str]]:
        """Every command that is served: its name, method and address."""
        paths = self.server.get("/api/openapi.json").data["paths"]
        return [
            (path.removeprefix("/api/").replace("/", " "), method.upper(), path)
            for path, methods in paths.items()
            for method in methods
            if path.removeprefix("/api/").replace("/", " ") in CALLS
        ]


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    machine = Machine()
    with run_provider() as provider:
        config = TEAM.format(issuer=provider.issuer, client_id=CLIENT_ID)
        repository = machine.repository(config=config)
        with run_server(repository, env={"REMAND_OIDC_SECRET": CLIENT_SECRET}) as server:
            yield Place(repository, server, provider)
    machine.close()


def bearer(token: str) -> dict[str, str]:
    return {"cookie": "", "x-csrf-token": "", "authorization": f"Bearer {token}"}


@pytest.mark.parametrize("role", TokenRole)
def test_every_route_is_refused_to_every_role_that_may_not_call_it(place: Place, role: TokenRole) -> None:
    routes = place.routes()
    assert len(routes) > 50
    for name, method, path in routes:
        if role in CALLS[name]:
            continue
        reply = place.server.request(method, path, headers=bearer(place.tokens[role]))
        assert (reply.status, reply.data["code"] in FORBIDDEN) == (403, True), (name, reply)
        assert reply.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize("role", TokenRole)
def test_every_command_line_is_refused_to_every_role_that_may_not_call_it(
    place: Place, role: TokenRole
) -> None:
    for name in COMMANDS:
        if role not in CALLS[name]:
            words = bearer(place.tokens[role])
            reply = place.server.post("/api/calls", words, arguments=name.split(" "))
            assert reply.status in (400, 403), (name, reply)
            assert reply.data["code"] in (*FORBIDDEN, "bad_request"), (name, reply)


def test_every_route_is_refused_to_a_token_that_does_not_count_here(place: Place) -> None:
    other = place.repository.machine.repository("another", config="[gates]\n")
    stranger = other.ok("token", "create", "--member", "user")["token"]
    revoked = place.create("Fenster")
    place.repository.ok("token", "revoke", revoked["token_id"])
    wrong_secret = place.tokens[TokenRole.USER][:-1] + "~"
    said = set()
    for token in (stranger, revoked["token"], wrong_secret, "x", "é" * 20):
        for _, method, path in place.routes():
            reply = place.server.request(method, path, headers=bearer(token))
            assert reply.status in (401, 429), (token, path, reply)
            if reply.status == 401:
                assert reply.headers["www-authenticate"] == 'Bearer realm="remand"'
                said.add(reply.body)
            else:
                assert int(reply.headers["retry-after"]) >= 1
    assert len(said) == 1, "the answer tells what is wrong with a token"


def test_a_good_token_gets_in_while_others_of_its_address_guess(place: Place) -> None:
    answers = set[int]()
    for _ in range(10_000):  # every so often a guess is let through, and is wrong
        answers.add(place.server.get("/api/whoami", bearer("rmd_guess")).status)
        if answers == {401, 429}:
            break

    assert answers == {401, 429}
    assert place.server.get("/api/whoami", bearer(place.tokens[TokenRole.AGENT])).data["name"] == "Fenster"


def test_a_token_expires(place: Place) -> None:
    made = place.create("Fenster", "--expires", "2s")["token"]
    ends = time.monotonic() + PATIENCE
    while (status := place.server.get("/api/whoami", bearer(made)).status) == 200:
        assert time.monotonic() < ends
        time.sleep(0.05)

    assert status in (401, 429)


def test_a_token_that_is_revoked_through_the_server_is_refused_at_once(place: Place) -> None:
    made = place.server.post("/api/token/create", member="Fenster").data
    assert place.server.get("/api/whoami", bearer(made["token"])).data["roles"] == ["agent"]

    assert place.server.post("/api/token/revoke", token_id=made["token_id"]).data["revoked"] is True
    assert place.server.get("/api/whoami", bearer(made["token"])).status in (401, 429)


@pytest.mark.parametrize("role", [TokenRole.AGENT, TokenRole.REVIEWER, TokenRole.DIRECTOR, TokenRole.HOST])
def test_no_token_but_the_users_acts_in_another_name(place: Place, role: TokenRole) -> None:
    words = bearer(place.tokens[role])
    for arguments in (
        ["whoami", "--json", "--as", "owner"],
        ["whoami", "--json", "--as", "user"],
        ["task", "claim", "--json", "--agent", "Dir"],
    ):
        reply = place.server.post("/api/calls", words, arguments=arguments)
        refused = reply.data["code"] if reply.status != 200 else json.loads(reply.data["output"])["refused"]
        assert refused in ("not_yours", *FORBIDDEN), (arguments, reply)
    told = {"REMAND_ACTOR": "owner"}
    reply = place.server.post("/api/calls", words, arguments=["whoami", "--json"], settings=told)
    assert json.loads(reply.data["output"])["refused"] == "not_yours", reply


def test_what_a_token_did_is_known_by_it_and_what_the_user_says_of_others_by_word(place: Place) -> None:
    task = place.server.post("/api/task/add", title="Mend the roof").data["task_id"]
    by_word = place.server.post("/api/task/claim", id=task, agent="Fenster")
    assert by_word.status == 200, by_word
    words = bearer(place.tokens[TokenRole.AGENT])
    assert place.server.post("/api/task/continue", words, id=task).status == 200
    host = bearer(place.tokens[TokenRole.HOST])
    assert place.server.post("/api/task/claim", host, id=task, agent="Fenster").status == 200

    history = place.repository.ok("task", "show", task)["history"]
    assert [(row["actor"], row["asserted"]) for row in history] == [
        ("owner", False),
        ("Fenster", True),
        ("Fenster", False),
        ("Fenster", False),
    ]


def test_a_reviewers_token_of_the_user_gives_no_rights_of_the_user(place: Place) -> None:
    token = place.create("owner", "--role", "reviewer")["token"]
    shown = place.server.get("/api/whoami", bearer(token)).data

    assert (shown["name"], shown["roles"]) == ("owner", ["lead"])
    assert place.server.post("/api/pause", bearer(token)).status in (403, 404)
    assert place.server.post("/api/token/create", bearer(token), member="Fenster").data["code"] == "user_only"


def change(place: Place, more: Mapping[str, str]) -> HttpReply:
    return place.server.post("/api/task/add", more, title="By a browser")


@pytest.mark.parametrize(
    "more",
    [
        {"x-csrf-token": ""},
        {"x-csrf-token": "guess"},
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
    ids=str,
)
def test_a_page_of_another_site_changes_nothing_by_a_browser_that_is_logged_in(
    place: Place, more: dict[str, str]
) -> None:
    assert place.server.get("/api/task/list").status == 200
    reply = change(place, more)

    assert (reply.status, reply.data["code"]) == (403, "wrong_page")
    own = f"http://{place.server.headers['host']}"
    assert change(place, {"origin": own, "sec-fetch-site": "same-origin"}).status == 200


def test_every_address_that_the_pages_name_is_there(place: Place) -> None:
    texts = [page.read_text() for page in Path(__file__).parents[2].joinpath("docs").glob("*.md")]
    named = {found for text in texts for found in re.findall(r"`(GET|POST) (/[a-z0-9/.-]+)", text)}
    assert ("POST", "/api/login") in named
    for method, path in sorted(named):
        reply = place.server.request(method, path, headers={"cookie": ""})
        assert reply.status not in (404, 405), (method, path, reply)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_no_other_name_leads_to_a_server_on_loopback(place: Place, host: str) -> None:
    own = ("/metrics", "/api/openapi.json", "/healthz", "/readyz", "/.well-known/agent-card.json")
    for path in ("/api/whoami", "/login?code=x", "/login/oidc", "/login/oidc/callback", *own):
        reply = place.server.get(path, {"host": host})
        assert (reply.status, reply.data["code"]) == (421, "wrong_host")
    port = urlsplit(place.server.address["url"]).port
    words = bearer(place.tokens[TokenRole.AGENT])
    assert place.server.get("/api/whoami", words | {"host": f"LocalHost:{port}"}).status == 200


def test_a_session_counts_under_a_name_that_no_other_server_of_the_machine_has(place: Place) -> None:
    """Browsers send a cookie to every port of a name: what listens on 127.0.0.1 besides gets those of that name."""
    server, name = place.server, urlsplit(place.server.address["login_url"]).hostname or ""
    port = urlsplit(server.address["url"]).port
    assert re.fullmatch(r"remand-[0-9a-f]{20,}\.localhost", name)
    assert server.address["url"] == f"http://127.0.0.1:{port}"
    assert "domain" not in server.first_cookie.lower()
    assert server.get("/api/whoami").status == 200

    words = bearer(place.tokens[TokenRole.AGENT])
    for shared in (f"127.0.0.1:{port}", f"localhost:{port}", f"[::1]:{port}"):
        assert server.get("/api/whoami", {"host": shared}).status == 401
        assert server.get("/api/session", {"host": shared}).status == 401
        opened = server.post("/api/login", words | {"host": shared})
        assert (opened.status, "set-cookie" in opened.headers, name.encode() in opened.body) == (
            421,
            False,
            False,
        )
        assert server.get("/api/whoami", words | {"host": shared}).status == 200
    for other in (f"remand-{'0' * 24}.localhost:{port}", f"x.{name}:{port}", name):
        assert server.get("/api/whoami", {"host": other}).status == 421


def test_a_session_that_a_token_opened_ends_with_the_token_or_by_logging_out(place: Place) -> None:
    made = place.create("Lead")
    opened = place.server.post("/api/login", bearer(made["token"]))
    cookie = opened.headers["set-cookie"]
    assert opened.data == {"member": "Lead", "role": "reviewer"}
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(cookie.split("; "))
    own = {"cookie": cookie.partition(";")[0]}
    shown = place.server.get("/api/session", own).data
    assert (shown["member"], place.server.get("/api/whoami", own).data["roles"]) == ("Lead", ["lead"])

    second = {
        "cookie": place.server.post("/api/login", bearer(made["token"]))
        .headers["set-cookie"]
        .partition(";")[0]
    }
    other_text = place.server.get("/api/session", second).data["csrf"]
    assert place.server.post("/api/logout", second | {"x-csrf-token": shown["csrf"]}).status == 403
    assert place.server.post("/api/logout", second | {"x-csrf-token": other_text}).status == 200
    assert place.server.get("/api/whoami", second).status == 401
    assert place.server.get("/api/whoami", own).status == 200

    again = place.server.post("/api/login", own | {"x-csrf-token": shown["csrf"]})
    assert (again.status, "set-cookie" in again.headers) == (401, False), "a session opens no other"

    place.server.post("/api/token/revoke", token_id=made["token_id"])
    assert place.server.get("/api/whoami", own).status == 401


class Browser:
    """Follows redirects by itself, and keeps cookies."""

    def __init__(self, place: Place) -> None:
        self.url = place.server.address["url"]
        self.name = place.server.headers["host"]
        self.session = ""
        self.web = httpx2.Client(trust_env=False, follow_redirects=False)

    def begin(self, query: str = "") -> str:
        """Goes to the provider; gives the address that it leads back to."""
        sent = self.web.get(f"{self.url}/login/oidc{query}")
        assert sent.status_code == 303, sent.text
        return str(self.web.get(sent.headers["location"]).headers["location"])

    def get(self, address: str) -> httpx2.Response:
        """What is at an address; names below localhost are this machine, whatever its resolver says."""
        if self.name not in address:
            return self.web.get(address)
        reply = self.web.get(
            address.replace(self.name, urlsplit(self.url).netloc),
            headers={"host": self.name, "cookie": self.session},
        )
        self.session = reply.headers.get("set-cookie", self.session).partition(";")[0]
        return reply


@pytest.fixture
def browsers(place: Place) -> Iterator[list[Browser]]:
    made = [Browser(place) for _ in range(3)]
    yield made
    for one in made:
        one.web.close()


def test_a_person_logs_in_through_the_provider(place: Place, browsers: list[Browser]) -> None:
    browser = browsers[0]
    arrived = browser.get(browser.begin())

    assert arrived.status_code == 200
    assert "set-cookie" not in arrived.headers, "other servers of the machine would get it"
    link = re.findall('url=([^"]+)"', arrived.text)[0]
    assert link.startswith(f"http://{browser.name}/login?code=")
    assert 'url=/"' in browser.get(link).text
    shown = browser.get(f"http://{browser.name}/api/session").json()
    assert (shown["member"], shown["role"]) == ("Lead", "reviewer")
    assert browser.get(f"http://{browser.name}/api/whoami").json()["roles"] == ["lead"]
    assert place.provider.problems == []


def test_a_log_in_counts_in_the_browser_that_began_it_and_once(browsers: list[Browser]) -> None:
    browser, other, third = browsers
    back = browser.begin()

    assert other.get(back).status_code == 401
    forged = back.replace(parse_qs(urlsplit(back).query)["state"][0], "another")
    third.begin()
    assert third.get(forged).status_code == 401
    assert browser.get(back).status_code == 200
    assert browser.get(back).status_code == 401


def test_a_stranger_and_a_role_that_a_person_lacks_are_refused(place: Place, browsers: list[Browser]) -> None:
    browser = browsers[0]
    assert browser.get(browser.begin("?role=user")).status_code in (401, 429)
    place.provider.changes = {"sub": "9999"}
    try:
        assert browser.get(browser.begin()).status_code in (401, 429)
    finally:
        place.provider.changes = {}


def test_a_provider_that_lies_is_said_and_logs_nobody_in(place: Place, browsers: list[Browser]) -> None:
    browser = browsers[0]
    place.provider.changes = {"aud": "another"}
    try:
        reply = browser.get(browser.begin())
    finally:
        place.provider.changes = {}

    assert reply.status_code == 503
    assert "set-cookie" not in reply.headers
    assert CLIENT_SECRET not in reply.text


def test_nothing_of_a_token_is_written_anywhere(place: Place) -> None:
    written = [path.read_bytes() for path in place.repository.machine.folder.rglob("*") if path.is_file()]

    for token in place.tokens.values():
        assert not any(token.encode() in content for content in written)
    assert place.repository.verify() == []

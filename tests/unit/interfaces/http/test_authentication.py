"""Callers are known by what the log says: a token that another server has just given out is found, whoever floods is slowed."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from remand.adapters.stores.shared_data import EmbeddedSharedData
from remand.app import tokens
from remand.app.tokens import LogInAttempt, derived_secret
from remand.domain.access.tokens import Caller, TokenRole
from remand.domain.instant import add_seconds
from remand.interfaces.http import authentication
from remand.interfaces.http.authentication import (
    AccessOptions,
    Authenticator,
    RequestFacts,
    is_shared_name,
)
from remand.interfaces.http.problems import HttpProblem
from remand.interfaces.http.server import _with_own_names
from remand.interfaces.http.sessions import MAX_SESSIONS_EACH, RateLimiter
from tests.support.builders import THE_USER, FakeLedger


@pytest.fixture(autouse=True)
def _calls_take_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a slow machine the limits would allow more calls meanwhile."""
    monkeypatch.setattr(authentication, "RateLimiter", partial(RateLimiter, clock=lambda: 0.0))


class Access:
    """An authenticator of a ledger on fakes."""

    def __init__(self, other: Access | None = None, **options: Any) -> None:
        """With another one: a second server of the same ledger."""
        self.world = other.world if other else FakeLedger()
        self.values: dict[str, str] = other.values if other else {}
        self.reads = 0
        self.own = Authenticator(self._read, AccessOptions(**options))

    async def _read(self, look: Callable[[Any], None]) -> None:
        self.reads += 1
        rules = self.world.rules
        shared = EmbeddedSharedData(lambda key: self.values.get(key, ""), self.values.__setitem__)
        settings = SimpleNamespace(rules=lambda: rules)
        look(
            SimpleNamespace(
                ledger=self.world.ledger, settings=settings, store=SimpleNamespace(shared_data=shared)
            )
        )

    def create(self, member: str = "Fenster") -> str:
        expires = add_seconds(self.world.clock.now(), 600)
        made = tokens.create_token(
            self.world.ledger,
            self.world.rules,
            THE_USER,
            member=member,
            role=None,
            starts=(),
            expires_at=expires,
        )
        return made.text

    async def status(self, token: str, **more: str) -> int:
        try:
            await self.own.caller(
                RequestFacts({"authorization": f"Bearer {token}"} | more, address="192.0.2.1")
            )
        except HttpProblem as problem:
            return problem.status
        return 200


def test_a_token_that_another_server_has_just_given_out_is_found() -> None:
    async def run() -> None:
        access = Access()
        assert await access.status(access.create()) == 200
        for _ in range(3):
            assert await access.status(access.create()) == 200

    asyncio.run(run())


def test_many_guesses_at_once_have_the_log_read_a_few_times() -> None:
    async def run() -> None:
        access = Access()
        await access.status(access.create())
        guesses = [f"rmd_20261115-090000-{number:08x}_{'s' * 43}" for number in range(500)]
        found = await asyncio.gather(*map(access.status, guesses))
        assert set(found) == {401, 429}
        assert access.reads <= 3

    asyncio.run(run())


def test_a_token_that_is_known_has_nothing_read() -> None:
    async def run() -> None:
        access = Access()
        token = access.create()
        for _ in range(50):
            assert await access.status(token) == 200
        assert access.reads == 1

    asyncio.run(run())


def test_a_member_that_calls_too_often_is_told_when_to_come_again() -> None:
    async def run() -> None:
        access = Access(calls_per_second=1)
        token = access.create()
        found = [await access.status(token) for _ in range(7)]
        assert found == [200] * 5 + [429] * 2
        assert await access.status(access.create("Another")) == 200
        user = access.create("user")
        assert {await access.status(user) for _ in range(50)} == {200}

    asyncio.run(run())


HEADERS = {"host": "remand.example"}


def test_an_agent_that_logs_in_for_ever_logs_nobody_else_out() -> None:
    async def run() -> None:
        access = Access()
        own = access.own
        cookie = await own.open_session(Caller(member="user", role=TokenRole.USER), HEADERS, is_secure=True)
        agent = Caller(member="Fenster", role=TokenRole.AGENT, token_id="20261115-090000-00000001")
        for _ in range(100):
            await own.open_session(agent, HEADERS, is_secure=True)

        facts = RequestFacts(HEADERS | {"cookie": cookie.partition(";")[0]})
        assert (await own.caller(facts)).member == "user"
        assert own.session(facts.headers) is not None
        assert len(json.loads(access.values["shared session"])) <= 1 + MAX_SESSIONS_EACH <= 30

    asyncio.run(run())


async def member_of(access: Access, cookie: str) -> str:
    """Whose session a cookie is for a server; empty when it knows none."""
    facts = RequestFacts(HEADERS | {"cookie": cookie.partition(";")[0]})
    try:
        return (await access.own.caller(facts)).member
    except HttpProblem as problem:
        return "" if problem.status == 401 else problem.detail


def test_a_session_is_known_to_every_server_of_the_ledger_until_it_is_closed() -> None:
    async def run() -> None:
        first = Access()
        second = Access(first)
        user = Caller(member="user", role=TokenRole.USER)
        cookie = await first.own.open_session(user, HEADERS, is_secure=True)
        assert [await member_of(one, cookie) for one in (first, second, Access(first))] == ["user"] * 3
        shown = first.own.session(HEADERS | {"cookie": cookie.partition(";")[0]})
        assert shown == second.own.session(HEADERS | {"cookie": cookie.partition(";")[0]})

        await first.own.close_session(HEADERS | {"cookie": cookie.partition(";")[0]})
        assert [await member_of(one, cookie) for one in (first, Access(first))] == ["", ""]

    asyncio.run(run())


def test_what_is_kept_of_a_session_opens_none_and_neither_does_what_no_trusted_key_signed() -> None:
    async def run() -> None:
        access = Access()
        user = Caller(member="user", role=TokenRole.USER)
        cookie = await access.own.open_session(user, HEADERS, is_secure=True)
        secret = cookie.partition(";")[0].partition("=")[2]
        (kept,) = access.values.values()
        assert secret not in kept
        assert derived_secret(secret, "csrf") not in kept

        ((name, row),) = json.loads(kept).items()
        assert await member_of(access, f"remand_session={name}") == ""
        access.values["shared session"] = json.dumps({tokens.secret_hash("made-up"): row})
        assert await member_of(access, "remand_session=made-up") == "", "it was signed for another secret"

    asyncio.run(run())


def test_whoever_makes_sessions_up_is_told_to_come_later() -> None:
    async def run() -> None:
        access, found = Access(), set()
        for number in range(600):
            facts = RequestFacts(HEADERS | {"cookie": f"remand_session=guess{number}"}, address="192.0.2.1")
            with pytest.raises(HttpProblem) as problem:
                await access.own.caller(facts)
            found.add(problem.value.status)
        assert found == {401, 429}

    asyncio.run(run())


def test_a_stranger_that_begins_to_log_in_for_ever_keeps_nobody_from_it() -> None:
    own = Access().own
    mine = RequestFacts(HEADERS, address="192.0.2.1")
    own.require_may_begin(mine)

    def begin_for_ever() -> None:
        for _ in range(5000):
            own.require_may_begin(RequestFacts(HEADERS, address="192.0.2.2"))

    with pytest.raises(HttpProblem) as found:
        begin_for_ever()
    assert found.value.status == 429
    own.require_may_begin(mine)


def test_a_log_in_that_one_server_began_is_known_to_another_by_what_the_browser_keeps_alone() -> None:
    begun, back = (LogInAttempt.of("secret", "https://remand.example/callback") for _ in range(2))
    assert begun == back != LogInAttempt.of("another", "https://remand.example/callback")
    assert len({*begun, "secret"}) == 5
    assert len(begun.verifier) == 43, "RFC 7636 wants as many"


@pytest.mark.parametrize(
    ("host", "url", "is_behind_proxy", "answered"),
    [
        ("127.0.0.1", "", False, ("localhost:7", "127.0.0.1:7", "[::1]:7")),
        ("::1", "", False, ("localhost:7", "[::1]:7")),
        ("127.0.0.1", "https://remand.example", True, ("localhost:7", "remand.example")),
    ],
)
def test_a_server_on_loopback_has_names_of_its_own(
    host: str, url: str, is_behind_proxy: bool, answered: tuple[str, ...]
) -> None:
    found = _with_own_names(AccessOptions(url=url), host, 7, is_behind_proxy=is_behind_proxy).own_names

    assert set(answered) <= set(found)
    assert "evil.example" not in found


@pytest.mark.parametrize(
    ("host", "is_shared"),
    [
        ("127.0.0.1:3000", True),
        ("127.9.9.9", True),
        ("localhost", True),
        ("LocalHost.:80", True),
        ("[::1]:7", True),
        ("[", True),
        ("remand-1.localhost:7", False),
        ("remand.example", False),
        ("192.0.2.1:7", False),
    ],
)
def test_the_names_of_every_server_of_the_machine_are_known(host: str, is_shared: bool) -> None:
    assert is_shared_name(host) is is_shared


def test_sessions_have_another_name_at_each_start() -> None:
    first, second = (
        _with_own_names(AccessOptions(), "127.0.0.1", 7, is_behind_proxy=False) for _ in range(2)
    )

    assert first.session_name != second.session_name
    assert first.session_name in first.own_names
    assert _with_own_names(AccessOptions(), "127.0.0.1", 7, is_behind_proxy=True).session_name == ""


@pytest.mark.parametrize(("host", "is_behind_proxy"), [("192.0.2.1", False), ("127.0.0.1", True)])
def test_a_server_that_others_reach_goes_by_any_name(host: str, is_behind_proxy: bool) -> None:
    assert _with_own_names(AccessOptions(), host, 7, is_behind_proxy=is_behind_proxy).own_names == ()


def test_servers_behind_one_proxy_know_a_browser_by_the_same_cookie() -> None:
    ports = (8001, 8002)

    def names(url: str) -> set[str]:
        found = (
            _with_own_names(AccessOptions(url=url), "127.0.0.1", port, is_behind_proxy=True) for port in ports
        )
        return {one.name for one in found}

    assert names("") == names("https://remand.example") == {"remand_443"}
    assert names("https://remand.example:8443") == {"remand_8443"}

"""Callers are known by what the log says: a token that another server has just given out is found, whoever floods is slowed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app import tokens
from remand.app.tokens import LogInAttempt
from remand.domain.access.tokens import Caller, TokenRole
from remand.domain.instant import add_seconds
from remand.interfaces.http.authentication import (
    AccessOptions,
    Authenticator,
    RequestFacts,
    is_shared_name,
)
from remand.interfaces.http.problems import HttpProblem
from remand.interfaces.http.server import _with_own_names
from remand.interfaces.http.sessions import MAX_SESSIONS_EACH
from tests.support.builders import THE_USER, FakeLedger


class Access:
    """An authenticator of a ledger on fakes."""

    def __init__(self, **options: Any) -> None:
        self.world = FakeLedger()
        self.reads = 0
        self.own = Authenticator(self._read, AccessOptions(**options))

    async def _read(self, look: Callable[[Any], None]) -> None:
        self.reads += 1
        rules = self.world.rules
        look(SimpleNamespace(ledger=self.world.ledger, settings=SimpleNamespace(rules=lambda: rules)))

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
    own = Access().own
    cookie = own.open_session(Caller(member="user", role=TokenRole.USER), HEADERS, is_secure=True)
    agent = Caller(member="Fenster", role=TokenRole.AGENT, token_id="20261115-090000-00000001")
    for _ in range(10_001):
        own.open_session(agent, HEADERS, is_secure=True)

    assert own.session(HEADERS | {"cookie": cookie.partition(";")[0]}) is not None
    assert len(own._sessions) <= 1 + MAX_SESSIONS_EACH <= 30


def test_a_stranger_that_begins_to_log_in_for_ever_ends_nobodys_attempt() -> None:
    own = Access().own
    mine = RequestFacts(HEADERS, address="192.0.2.1")
    own.require_may_begin(mine)
    attempt = LogInAttempt("state", "nonce", "verifier", "https://remand.example/login/oidc/callback")
    secret = own.attempts.add((attempt, None))

    def begin_for_ever() -> None:
        for _ in range(5000):
            own.require_may_begin(RequestFacts(HEADERS, address="192.0.2.2"))
            own.attempts.add((attempt, None))

    with pytest.raises(HttpProblem) as found:
        begin_for_ever()
    assert found.value.status == 429
    assert own.attempts.find(secret) is not None
    own.require_may_begin(mine)


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

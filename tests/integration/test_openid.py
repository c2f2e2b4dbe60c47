"""A person logs in through a provider on loopback; a provider, or a page, that lies logs nobody in."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
from joserfc.jwk import RSAKey
from msgspec.structs import replace as replace_fields

from remand.adapters.server import openid
from remand.adapters.server.openid import OpenIdProvider, is_private_address
from remand.app.errors import EnvironmentFault
from remand.app.tokens import LogInAttempt
from remand.domain.access.team import Member, Role, Team
from remand.domain.access.tokens import OpenIdAccount, TokenRole, account_caller
from remand.domain.refusals import Refused
from tests.support.openid_provider import CLIENT_ID, CLIENT_SECRET, OpenIdServer, run_provider

ATTEMPT = LogInAttempt("the state", "the nonce", "v" * 43, "http://127.0.0.1:1/login/oidc/callback")
STRANGER = RSAKey.generate_key(2048, private=True)


@pytest.fixture(scope="module")
def shared() -> Iterator[OpenIdServer]:
    with run_provider() as provider:
        yield provider


@pytest.fixture
def server(shared: OpenIdServer) -> OpenIdServer:
    shared.changes, shared.signs_with, shared.algorithm = {}, None, "RS256"
    shared.described_issuer = shared.issuer
    shared.problems.clear()
    return shared


def provider_of(server: OpenIdServer) -> OpenIdProvider:
    return OpenIdProvider(server.issuer, CLIENT_ID, CLIENT_SECRET)


def follow(provider: OpenIdProvider, attempt: LogInAttempt = ATTEMPT) -> str:
    """Goes where the provider is asked, as a browser does; gives the code that comes back."""
    answer = httpx2.get(provider.authorization_url(attempt), trust_env=False)
    query = parse_qs(urlsplit(answer.headers["location"]).query)
    assert query["state"] == [attempt.state]
    return query["code"][0]


def log_in(server: OpenIdServer) -> OpenIdAccount:
    provider = provider_of(server)
    return provider.account(follow(provider), ATTEMPT)


def test_a_person_is_known_by_subject_and_verified_address(server: OpenIdServer) -> None:
    assert log_in(server) == OpenIdAccount(subject="1234", email="lee@example.org")
    assert server.problems == []


@pytest.mark.parametrize("verified", [False, None, "true", 1])
def test_an_address_that_is_not_verified_is_none(server: OpenIdServer, verified: Any) -> None:
    server.changes = {"email_verified": verified}

    assert log_in(server).email == ""


WRONG_CLAIMS = [
    {"iss": "https://elsewhere.example"},
    {"aud": "another client"},
    {"aud": [CLIENT_ID, "another client"]},
    {"aud": [CLIENT_ID, "another client"], "azp": "another client"},
    {"nonce": "another log-in's"},
    {"nonce": None},
    {"exp": int(time.time()) - 3600},
    {"exp": None},
    {"iat": int(time.time()) + 3600},
    {"sub": None},
    {"sub": ""},
]
"""What an ID token for somebody or something else says."""


@pytest.mark.parametrize(
    "changes", WRONG_CLAIMS, ids=[f"{number} {' '.join(one)}" for number, one in enumerate(WRONG_CLAIMS)]
)
def test_an_id_token_that_is_not_for_this_log_in_logs_nobody_in(
    server: OpenIdServer, changes: dict[str, Any]
) -> None:
    server.changes = changes

    with pytest.raises(EnvironmentFault, match="log-in through"):
        log_in(server)


def test_an_id_token_of_another_key_logs_nobody_in(server: OpenIdServer) -> None:
    server.signs_with = STRANGER

    with pytest.raises(EnvironmentFault, match="not valid"):
        log_in(server)


def test_an_id_token_without_a_signature_logs_nobody_in(server: OpenIdServer) -> None:
    server.algorithm = "none"

    with pytest.raises(EnvironmentFault, match="not valid"):
        log_in(server)


def test_a_code_counts_once_and_with_its_own_verifier(server: OpenIdServer) -> None:
    provider = provider_of(server)
    code = follow(provider)
    provider.account(code, ATTEMPT)

    with pytest.raises(EnvironmentFault, match="not accepted"):
        provider.account(code, ATTEMPT)
    with pytest.raises(EnvironmentFault, match="not accepted"):
        provider.account(follow(provider), ATTEMPT._replace(verifier="w" * 43))


def test_no_secret_stands_in_a_fault(server: OpenIdServer) -> None:
    with pytest.raises(EnvironmentFault) as found:
        provider_of(server).account("a wrong code", ATTEMPT)

    assert CLIENT_SECRET not in str(found.value)
    assert "wrong code" not in str(found.value)


def test_a_provider_that_calls_itself_otherwise_is_not_used(server: OpenIdServer) -> None:
    server.described_issuer = "https://elsewhere.example"

    with pytest.raises(EnvironmentFault, match="another issuer"):
        provider_of(server).authorization_url(ATTEMPT)


def test_a_provider_that_is_away_is_said(server: OpenIdServer) -> None:
    with pytest.raises(EnvironmentFault, match="does not answer"):
        OpenIdProvider("http://127.0.0.1:1", CLIENT_ID).authorization_url(ATTEMPT)


def test_a_new_key_of_the_provider_is_found_though_not_asked_for_all_the_time(
    server: OpenIdServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = provider_of(server)
    provider.account(follow(provider), ATTEMPT)
    server.rotate_key()
    with pytest.raises(EnvironmentFault, match="not valid"):
        provider.account(follow(provider), ATTEMPT)

    later = time.monotonic() + 120
    monkeypatch.setattr(openid.time, "monotonic", lambda: later)

    assert provider.account(follow(provider), ATTEMPT).subject == "1234"


@pytest.mark.parametrize(
    ("address", "is_private"),
    [
        ("https://id.example.org", True),
        ("http://127.0.0.1:80/x", True),
        ("http://localhost", True),
        ("http://id.example.org", False),
        ("http://localhost.example.org", False),
        ("ftp://localhost", False),
        ("//localhost", False),
        ("", False),
    ],
)
def test_plain_http_is_for_this_machine_alone(address: str, is_private: bool) -> None:
    assert is_private_address(address) is is_private


TEAM = Team(
    (
        Member(name="Lee", roles=(Role.LEAD, Role.DIRECTOR), accounts=("oidc:1234", "github:lee")),
        Member(name="Ann", roles=(Role.USER,), accounts=("oidc:Ann@Example.org",)),
        Member(name="Bot", accounts=("oidc:bot@example.org",)),
    )
)
LEE, ANN = OpenIdAccount(subject="1234"), OpenIdAccount(subject="9", email="ann@example.org")


def test_an_account_is_its_member_in_a_role_that_people_have() -> None:
    assert (account_caller(LEE, TEAM).member, account_caller(LEE, TEAM).role) == ("Lee", TokenRole.REVIEWER)
    assert account_caller(LEE, TEAM, TokenRole.DIRECTOR).role is TokenRole.DIRECTOR
    assert account_caller(ANN, TEAM).role is TokenRole.USER


@pytest.mark.parametrize(
    ("account", "role"),
    [
        (OpenIdAccount(subject="5678"), None),
        (OpenIdAccount(subject="ann@example.org"), None),
        (OpenIdAccount(subject="lee"), None),
        (OpenIdAccount(subject="5", email="bot@example.org"), None),
        (LEE, TokenRole.USER),
        (LEE, TokenRole.AGENT),
        (OpenIdAccount(subject=""), None),
        (replace_fields(ANN, email=""), None),
    ],
    ids=str,
)
def test_a_stranger_an_agent_and_a_wrong_role_are_refused(
    account: OpenIdAccount, role: TokenRole | None
) -> None:
    with pytest.raises(Refused) as found:
        account_caller(account, TEAM, role)

    assert found.value.code == "not_authenticated"

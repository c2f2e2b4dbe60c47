"""GitHub's own ways: what a poll costs, limits in every disguise, and the one call by GraphQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from remand.adapters.forges.github import GitHub, gh_token, graphql_address
from remand.app.errors import UsageError
from remand.app.forge.ports import CachedAnswer, ForgeFault, ForgeFaultKind
from remand.domain.forge import Account
from remand.domain.instant import add_seconds
from remand.testing.fakes import FakeClock
from tests.support.forge.github import GitHubDialect
from tests.support.forge.server import Fault, ForgeServer, HttpAnswer, HttpRequest, json_answer
from tests.support.forge.state import ForgeState

JSON = {"content-type": "application/json"}
SECONDARY = b'{"message": "You have exceeded a secondary rate limit. Please wait a few minutes."}'


class Notes:
    """A memory that lasts as long as the test."""

    def __init__(self) -> None:
        self.kept: dict[str, CachedAnswer] = {}

    def get(self, address: str) -> CachedAnswer | None:
        return self.kept.get(address)

    def put(self, address: str, answer: CachedAnswer) -> None:
        self.kept[address] = answer


class Hub:
    """A GitHub with a hundred pull requests, and adapters that ask it."""

    def __init__(self, server: ForgeServer, dialect: GitHubDialect, state: ForgeState) -> None:
        self.server, self.dialect, self.state = server, dialect, state
        self.clock, self.memory = FakeClock(), Notes()
        self.opened: list[GitHub] = []
        self.ann, self.bob = state.person("ann", "write"), state.person("bob")
        self.pulls = [state.open(self.bob) for _ in range(100)]
        self.numbers = [pull.number for pull in self.pulls]

    def forge(self, token: str = "") -> GitHub:
        self.opened.append(
            GitHub(
                "octo/demo",
                clock=self.clock,
                memory=self.memory,
                api=self.server.url,
                token=token or self.state.token,
            )
        )
        return self.opened[-1]

    def fault(self, forge: GitHub) -> ForgeFault:
        with pytest.raises(ForgeFault) as raised:
            forge.change_marks(self.numbers)
        return raised.value


@pytest.fixture
def hub() -> Iterator[Hub]:
    state = ForgeState()
    dialect = GitHubDialect(state)
    with ForgeServer(dialect) as server:
        hub = Hub(server, dialect, state)
        yield hub
        for forge in hub.opened:
            forge.close()


def test_a_hundred_unchanged_pull_requests_cost_two_requests_and_no_point(hub: Hub) -> None:
    forge = hub.forge()
    before = forge.change_marks(hub.numbers)
    spent, asked, told = hub.dialect.used["core"], len(hub.server.requests), forge.usage

    assert forge.change_marks(hub.numbers) == before
    assert len(hub.server.requests) - asked == forge.usage.requests - told.requests == 2
    assert hub.dialect.used["core"] - spent == forge.usage.points - told.points == 0


def test_a_page_that_was_full_is_followed_although_it_did_not_change(hub: Hub) -> None:
    pull = hub.pulls[0]
    for number in range(100):
        hub.state.remark(pull, hub.bob, f"remark {number}")
    forge = hub.forge()
    forge.pull_request(pull.number)
    hub.state.remark(pull, hub.bob, "one more")

    assert forge.pull_request(pull.number).remarks[-1].text == "one more"


def test_what_is_remembered_is_a_fraction_of_what_was_sent(hub: Hub) -> None:
    hub.forge().change_marks(hub.numbers)

    kept = sum(len(answer.body) for answer in hub.memory.kept.values())
    assert 0 < kept < 150_000


def test_a_memory_that_was_damaged_is_asked_anew(hub: Hub) -> None:
    before = hub.forge().change_marks(hub.numbers)
    for address, answer in hub.memory.kept.items():
        hub.memory.kept[address] = CachedAnswer(etag=answer.etag, body=answer.body[:-9])

    assert hub.forge().change_marks(hub.numbers) == before


# ------------------------------------------------------------------------------------------------ limits

LIMITS = {
    "primary": Fault(
        status=403,
        headers={**JSON, "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1794740400"},
        body=b'{"message": "API rate limit exceeded for user ID 1."}',
    ),
    "primary, 429": Fault(
        status=429, headers={**JSON, "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1794740400"}
    ),
    "secondary": Fault(status=403, headers={**JSON, "retry-after": "120"}, body=SECONDARY),
    "secondary without a time": Fault(status=403, headers=JSON, body=SECONDARY),
    "secondary, 429": Fault(status=429, headers={**JSON, "retry-after": "120"}, body=SECONDARY),
    "abuse": Fault(
        status=403, headers=JSON, body=b'{"message": "You have triggered an abuse detection mechanism."}'
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_in_any_disguise_is_a_limit(hub: Hub, name: str) -> None:
    hub.server.faults.add(LIMITS[name])
    forge = hub.forge()
    fault = hub.fault(forge)
    asked = len(hub.server.requests)

    assert fault.kind is ForgeFaultKind.LIMITED
    assert fault.until > hub.clock.now()
    assert hub.fault(forge).until == fault.until
    assert len(hub.server.requests) == asked
    hub.server.faults.clear()
    hub.clock.time = fault.until
    assert len(forge.change_marks(hub.numbers)) == 100


def test_limits_without_a_time_in_a_row_are_waited_for_longer(hub: Hub) -> None:
    hub.server.faults.add(Fault(status=429, headers=JSON, times=3))
    forge, waits = hub.forge(), []
    for _ in range(3):
        start = hub.clock.now()
        until = hub.fault(forge).until
        waits.append(next(seconds for seconds in (60, 120, 240) if until <= add_seconds(start, seconds + 1)))
        hub.clock.time = until

    assert waits == [60, 120, 240]


def test_after_the_last_request_of_the_limit_nothing_more_is_asked(hub: Hub) -> None:
    hub.dialect.used["core"] = 4999
    forge = hub.forge()

    assert hub.fault(forge).kind is ForgeFaultKind.LIMITED
    assert [one.path for one in hub.server.requests] == ["/repos/octo/demo/pulls"]


def test_a_refusal_that_is_no_limit_does_not_hold_the_next_question_back(hub: Hub) -> None:
    forge = hub.forge()
    denied = b'{"message": "Must have push access to view collaborator permission."}'
    hub.server.faults.add(Fault(status=403, headers=JSON, body=denied, where="/permission"))
    with pytest.raises(ForgeFault) as raised:
        forge.may_write(Account(id=f"github:{hub.ann.id}", login="github:ann"))

    assert raised.value.kind is ForgeFaultKind.DENIED
    assert "push access" in str(raised.value)
    assert len(forge.change_marks(hub.numbers)) == 100


@pytest.mark.parametrize(("status", "body"), [(500, b"{}"), (404, b"{}"), (403, b"{}"), (200, b'[{"pull_')])
def test_the_list_of_line_comments_is_a_hint_and_stops_no_poll(hub: Hub, status: int, body: bytes) -> None:
    whole = hub.forge().change_marks(hub.numbers)
    hub.memory.kept.clear()
    hub.server.faults.add(Fault(status=status, headers=JSON, body=body, where="/pulls/comments"))

    assert hub.forge().change_marks(hub.numbers) == whole


def test_a_404_names_the_path(hub: Hub) -> None:
    with pytest.raises(ForgeFault, match=r"nothing at /repos/octo/demo/pulls/4711 \(404"):
        hub.forge().pull_request(4711)


def test_a_repository_that_is_not_there_is_missing(hub: Hub) -> None:
    hub.state.name = "gone"
    hub.server.faults.add(Fault(status=404, headers=JSON, where="/repos/", times=9))

    assert hub.fault(hub.forge()).kind is ForgeFaultKind.MISSING


def test_numbers_no_pull_request_can_have_are_not_asked_about(hub: Hub) -> None:
    assert hub.forge().change_marks([0, -1, 1 << 31, 1 << 99]) == {}
    assert hub.server.requests == []


# ------------------------------------------------------------------------------------------- permission


@pytest.mark.parametrize(
    ("permission", "role", "may"),
    [
        ("write", "release-lead", True),
        ("read", "release-lead", False),
        ("write", "maintain", True),
        ("read", "write", False),
        ("write", "triage", False),
        ("admin", "", True),
        ("", "admin", False),
        ("ADMIN", "admin", False),
    ],
)
def test_a_role_of_the_organisation_s_own_counts_for_what_it_amounts_to(
    hub: Hub, permission: str, role: str, *, may: bool
) -> None:
    told = {"permission": permission, "role_name": role, "user": {"id": hub.ann.id, "login": "ann"}}
    hub.server.faults.add(
        Fault(status=200, headers=JSON, body=msgspec.json.encode(told), where="/permission")
    )

    assert hub.forge().may_write(Account(id=f"github:{hub.ann.id}", login="github:ann")) is may


@pytest.mark.parametrize("user", [None, {"id": 0, "login": "ann"}])
def test_a_permission_of_nobody_or_another_is_none(hub: Hub, user: object) -> None:
    told = {"permission": "admin", "role_name": "admin", "user": user}
    hub.server.faults.add(Fault(status=200, headers=JSON, body=msgspec.json.encode(told)))

    assert not hub.forge().may_write(Account(id=f"github:{hub.ann.id}", login="github:ann"))


# -------------------------------------------------------------------------------------------- transports


class Elsewhere:
    """Answers the first page with a next page on another host."""

    def __init__(self, thief: str) -> None:
        self._thief = thief

    def answer(self, request: HttpRequest) -> HttpAnswer:
        headers = {"link": f'<{self._thief}{request.path}?page=2>; rel="next"'}
        empty = request.path.rsplit("/", 1)[-1] in {"reviews", "comments"}
        pull = {
            "id": 1,
            "number": 1,
            "state": "open",
            "head": {"sha": "a" * 40},
            "updated_at": "2026-11-15T09:00:00Z",
        }
        return json_answer([] if empty else pull, 200, headers if request.query.get("page") == "1" else {})


def test_a_next_page_on_another_host_is_not_asked_for(hub: Hub) -> None:
    with ForgeServer() as thief, ForgeServer(Elsewhere(thief.url)) as server:
        forge = GitHub("octo/demo", clock=hub.clock, memory=Notes(), api=server.url, token="secret")
        hub.opened.append(forge)
        found = forge.pull_request(1)

        assert found.number == 1
        assert thief.requests == []


@pytest.mark.parametrize("token", ["two\nlines", "schlüssel", "\x00"])
def test_what_cannot_be_a_token_is_refused_without_being_shown(hub: Hub, token: str) -> None:
    with pytest.raises(ForgeFault) as raised:
        hub.forge(token)

    assert raised.value.kind is ForgeFaultKind.DENIED
    assert token not in str(raised.value)


@pytest.mark.parametrize("repository", ["", "demo", "octo/", "/demo", "octo/demo/more"])
def test_what_is_no_repository_is_refused_with_how_to_write_it(hub: Hub, repository: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        GitHub(repository, clock=hub.clock, memory=hub.memory, token="x")


# ------------------------------------------------------------------------------------------- ready drafts


def test_an_enterprise_server_has_graphql_beside_its_rest() -> None:
    assert graphql_address("https://git.example/api/v3") == "https://git.example/api/graphql"
    assert graphql_address("https://api.github.com") == "https://api.github.com/graphql"


READY_FAULTS = {
    "limited": (b'{"errors": [{"type": "RATE_LIMITED", "message": "no"}]}', ForgeFaultKind.LIMITED),
    "limited in words": (
        b'{"data": null, "errors": [{"message": "You have exceeded a secondary rate limit."}]}',
        ForgeFaultKind.LIMITED,
    ),
    "forbidden": (b'{"errors": [{"type": "FORBIDDEN", "message": "no"}]}', ForgeFaultKind.DENIED),
    "unnamed": (b'{"data": {}, "errors": [{"message": "no"}]}', ForgeFaultKind.UNREACHABLE),
    "other": (
        b'{"errors": [{"type": "SERVICE_UNAVAILABLE", "message": "no"}]}',
        ForgeFaultKind.UNREACHABLE,
    ),
    "no GraphQL": (b"", ForgeFaultKind.REFUSED),
}


@pytest.mark.parametrize("name", READY_FAULTS)
def test_an_error_of_graphql_is_a_fault_though_its_status_says_ok(hub: Hub, name: str) -> None:
    body, trouble = READY_FAULTS[name]
    hub.pulls[0].is_draft = True
    status = 200 if body else 404
    hub.server.faults.add(Fault(status=status, headers=JSON, body=body, where="/graphql"))
    with pytest.raises(ForgeFault) as raised:
        hub.forge().mark_ready(hub.numbers[0])

    assert raised.value.kind is trouble


# ------------------------------------------------------------------------------------------ the token of gh


def fake_gh(folder: Path, body: str) -> None:
    program = folder / "gh"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)


@pytest.mark.parametrize(
    ("api", "host"),
    [
        ("", "github.com"),
        ("https://api.github.com", "github.com"),
        ("https://git.example/api/v3", "git.example"),
    ],
)
def test_without_a_token_gh_is_asked_for_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, api: str, host: str
) -> None:
    fake_gh(tmp_path, 'echo "$*" > "$0.called"; echo gho_token')
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")

    assert gh_token(api) == "gho_token"
    assert (tmp_path / "gh.called").read_text() == f"auth token --hostname {host}\n"


@pytest.mark.parametrize("body", ["", "exit 1", "echo; exit 0", "echo oops; exit 4"])
def test_without_a_token_it_is_said_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str
) -> None:
    if body:
        fake_gh(tmp_path, body)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(ForgeFault, match=r"GITHUB_TOKEN.*gh auth login") as raised:
        gh_token("")

    assert raised.value.kind is ForgeFaultKind.DENIED

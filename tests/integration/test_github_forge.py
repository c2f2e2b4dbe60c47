"""GitHub's own ways: two APIs that must tell the same, what a poll costs, and limits in every disguise."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from remand.adapters.forges.github import GitHub
from remand.adapters.forges.github_api import GitHubRepository
from remand.app.errors import UsageError
from remand.app.forge.ports import CachedAnswer, ForgeFault, ForgeFaultKind
from remand.domain.instant import add_seconds
from remand.domain.pull_request.records import Account, ReviewState
from remand.testing.fakes import FakeClock
from tests.support.forge.github import GitHubDialect
from tests.support.forge.server import Fault, ForgeServer, HttpAnswer, HttpRequest, json_answer
from tests.support.forge.state import ForgeState, NewLineComment

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


def test_a_hundred_unchanged_pull_requests_cost_two_requests_and_one_point(hub: Hub) -> None:
    before = hub.forge().change_marks(hub.numbers)
    spent, asked = sum(hub.dialect.used.values()), len(hub.server.requests)
    poll = hub.forge()

    assert poll.change_marks(hub.numbers) == before
    assert len(hub.server.requests) - asked == poll.usage.requests == 2
    assert sum(hub.dialect.used.values()) - spent == poll.usage.points == 1
    assert poll.usage.not_modified == 1


def test_without_graphql_they_cost_no_point_at_all(hub: Hub) -> None:
    hub.dialect.has_graphql = False
    forge = hub.forge()
    before = forge.change_marks(hub.numbers)
    spent, asked, told = hub.dialect.used["core"], len(hub.server.requests), forge.usage

    assert forge.change_marks(hub.numbers) == before
    assert len(hub.server.requests) - asked == forge.usage.requests - told.requests == 2
    assert hub.dialect.used["core"] - spent == forge.usage.points - told.points == 0


@pytest.mark.parametrize(
    "refusal",
    [
        Fault(status=404, headers=JSON, body=b'{"message": "Not Found"}'),
        Fault(status=403, headers=JSON, body=b'{"message": "Resource not accessible by integration"}'),
        Fault(
            status=200,
            headers=JSON,
            body=b'{"errors": [{"message": "Field \'x\' doesn\'t exist", "extensions": {"code": "undefinedField"}}]}',
        ),
    ],
    ids=["missing", "forbidden", "older"],
)
def test_where_graphql_is_not_to_be_had_rest_is_asked_from_then_on(hub: Hub, refusal: Fault) -> None:
    hub.server.faults.add(refusal)
    forge = hub.forge()

    assert set(forge.change_marks(hub.numbers)) == set(hub.numbers)
    assert forge.pull_request(1).number == 1
    assert [one.path for one in hub.server.requests].count("/graphql") == 1


def test_both_apis_tell_the_same(hub: Hub) -> None:
    pull = hub.pulls[0]
    robot = hub.state.person("checker", is_bot=True)
    hub.state.review(
        pull,
        hub.ann,
        ReviewState.CHANGES_REQUESTED,
        "No.",
        NewLineComment(text="a"),
        NewLineComment(text="b", line=None),
    )
    hub.state.push(pull, "f" * 40)
    hub.state.reply(pull, pull.threads[0], hub.bob, "Why?")
    hub.state.review(pull, robot, ReviewState.COMMENTED, "beep")
    hub.state.dismiss(pull, pull.reviews[0])
    hub.state.review(pull, hub.ann, ReviewState.PENDING, "draft")
    hub.state.remark(pull, robot, "boop")
    hub.state.delete(hub.bob)
    hub.state.merge(pull, hub.ann)

    by_graphql = hub.forge().pull_request(pull.number)
    hub.dialect.has_graphql = False
    by_rest = hub.forge().pull_request(pull.number)

    assert _without_addresses(by_graphql) == _without_addresses(by_rest)


def _without_addresses(value: object) -> object:
    """Everything told but where it is shown, and when a review was edited, which REST does not tell."""
    plain = msgspec.to_builtins(value)

    def stripped(part: object) -> object:
        if isinstance(part, dict):
            is_review = "state" in part and "number" not in part
            left_out = {"url", "updated_at"} if is_review else {"url"}
            return {name: stripped(inner) for name, inner in part.items() if name not in left_out}
        return [stripped(inner) for inner in part] if isinstance(part, list | tuple) else part

    return stripped(plain)


def test_a_page_that_was_full_is_followed_although_it_did_not_change(hub: Hub) -> None:
    hub.dialect.has_graphql = False
    pull = hub.pulls[0]
    for number in range(100):
        hub.state.remark(pull, hub.bob, f"remark {number}")
    forge = hub.forge()
    forge.pull_request(pull.number)
    hub.state.remark(pull, hub.bob, "one more")

    assert forge.pull_request(pull.number).remarks[-1].text == "one more"


def test_what_is_remembered_is_a_fraction_of_what_was_sent(hub: Hub) -> None:
    hub.dialect.has_graphql = False
    hub.forge().change_marks(hub.numbers)

    kept = sum(len(answer.body) for answer in hub.memory.kept.values())
    assert 0 < kept < 150_000


def test_a_memory_that_was_damaged_is_asked_anew(hub: Hub) -> None:
    hub.dialect.has_graphql = False
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
    "graphql": Fault(
        status=200,
        headers={**JSON, "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1794740400"},
        body=b'{"errors": [{"type": "RATE_LIMITED", "message": "API rate limit exceeded for user ID 1."}]}',
    ),
    "graphql, secondary": Fault(
        status=200,
        headers={**JSON, "retry-after": "120"},
        body=b'{"data": null, "errors": [{"message": "You have exceeded a secondary rate limit."}]}',
    ),
}


@pytest.mark.parametrize("name", LIMITS)
def test_a_limit_in_any_disguise_is_a_limit(hub: Hub, name: str) -> None:
    hub.server.faults.add(LIMITS[name])
    forge = hub.forge()
    fault = hub.fault(forge)
    asked = len(hub.server.requests)

    assert fault.trouble is ForgeFaultKind.LIMITED
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
    hub.dialect.used["graphql"] = 4999
    forge = hub.forge()

    assert hub.fault(forge).trouble is ForgeFaultKind.LIMITED
    assert [one.path for one in hub.server.requests] == ["/graphql"]


def test_a_refusal_that_is_no_limit_does_not_hold_the_next_question_back(hub: Hub) -> None:
    forge = hub.forge()
    denied = b'{"message": "Must have push access to view collaborator permission."}'
    hub.server.faults.add(Fault(status=403, headers=JSON, body=denied, where="/permission"))
    with pytest.raises(ForgeFault) as raised:
        forge.may_write(Account(id=f"github:{hub.ann.id}", login="github:ann"))

    assert raised.value.trouble is ForgeFaultKind.DENIED
    assert "push access" in str(raised.value)
    assert len(forge.change_marks(hub.numbers)) == 100


def test_errors_of_graphql_that_are_no_absence_are_a_fault(hub: Hub) -> None:
    for kind, trouble in (
        (b"FORBIDDEN", ForgeFaultKind.DENIED),
        (b"", ForgeFaultKind.UNREACHABLE),
        (b"SERVICE_UNAVAILABLE", ForgeFaultKind.UNREACHABLE),
    ):
        body = b'{"data": {"repository": null}, "errors": [{"type": "' + kind + b'", "message": "no"}]}'
        hub.server.faults.add(Fault(status=200, headers=JSON, body=body))

        assert hub.fault(hub.forge()).trouble is trouble


def test_something_missing_within_a_pull_request_makes_it_no_whole_one(hub: Hub) -> None:
    body = {
        "data": {"repository": {"pullRequest": None}},
        "errors": [
            {
                "type": "NOT_FOUND",
                "message": "no",
                "path": ["repository", "pullRequest", "reviews", "nodes", 3],
            }
        ],
    }
    hub.server.faults.add(Fault(status=200, headers=JSON, body=msgspec.json.encode(body)))
    with pytest.raises(ForgeFault) as raised:
        hub.forge().pull_request(1)

    assert raised.value.trouble is ForgeFaultKind.UNREACHABLE


@pytest.mark.parametrize("has_graphql", [True, False])
def test_a_repository_that_is_not_there_is_missing(hub: Hub, *, has_graphql: bool) -> None:
    hub.dialect.has_graphql = has_graphql
    hub.state.name = "gone"
    hub.server.faults.add(Fault(status=404, headers=JSON, where="/repos/", times=9))

    assert hub.fault(hub.forge()).trouble is ForgeFaultKind.MISSING


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
        if request.path == "/graphql":
            return json_answer({"message": "Not Found"}, 404)
        headers = {"link": f'<{self._thief}{request.path}?page=2>; rel="next"'}
        empty = request.path.rsplit("/", 1)[-1] in {"reviews", "comments"}
        pull = {"number": 1, "state": "open", "head": {"sha": "a" * 40}, "updated_at": "2026-11-15T09:00:00Z"}
        return json_answer([] if empty else pull, 200, headers if request.query.get("page") == "1" else {})


def test_a_next_page_on_another_host_is_not_asked_for(hub: Hub) -> None:
    with ForgeServer() as thief, ForgeServer(Elsewhere(thief.url)) as server:
        forge = GitHub("octo/demo", clock=hub.clock, memory=Notes(), api=server.url, token="secret")
        hub.opened.append(forge)
        found = forge.pull_request(1)

        assert found.number == 1
        assert thief.requests == []


def test_without_a_token_gh_is_asked(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "gh"
    record = tmp_path / "called"
    program.write_text(
        f"#!{sys.executable}\n"
        "import sys\n"
        f"open({str(record)!r}, 'a').write(' '.join(sys.argv[1:]) + '\\n')\n"
        "told = sys.stdin.read()\n"
        "sys.stdout.write('HTTP/2.0 404 Not Found\\r\\nContent-Type: application/json\\r\\n\\r\\n{}')\n"
        "sys.exit(1)\n"
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    forge = GitHub("octo/demo", clock=hub.clock, memory=Notes(), api=hub.server.url)
    hub.opened.append(forge)

    with pytest.raises(ForgeFault) as raised:
        forge.pull_request(7)

    assert raised.value.trouble is ForgeFaultKind.MISSING
    called = record.read_text().splitlines()
    assert called[0].startswith("api graphql --include --method POST --hostname 127.0.0.1")
    assert called[0].endswith("--input -")
    assert called[1].startswith("api repos/octo/demo/pulls/7 --include --method GET")


def test_without_a_token_and_without_gh_it_is_said_what_to_do(
    hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert shutil.which("gh") is None

    with pytest.raises(ForgeFault, match=r"GITHUB_TOKEN.*gh auth login") as raised:
        GitHub("octo/demo", clock=hub.clock, memory=Notes())

    assert raised.value.trouble is ForgeFaultKind.DENIED


@pytest.mark.parametrize("token", ["two\nlines", "schlüssel", "\x00"])
def test_what_cannot_be_a_token_is_refused_without_being_shown(hub: Hub, token: str) -> None:
    with pytest.raises(ForgeFault) as raised:
        hub.forge(token)

    assert raised.value.trouble is ForgeFaultKind.DENIED
    assert token not in str(raised.value)


@pytest.mark.parametrize("repository", ["", "demo", "octo/", "/demo", "octo/demo/more"])
def test_what_is_no_repository_is_refused_with_how_to_write_it(hub: Hub, repository: str) -> None:
    with pytest.raises(UsageError, match="OWNER/NAME"):
        GitHub(repository, clock=hub.clock, memory=hub.memory, token="x")


def test_an_enterprise_server_has_graphql_beside_its_rest() -> None:
    assert (
        GitHubRepository("https://git.example/api/v3", "o", "r").graphql == "https://git.example/api/graphql"
    )
    assert GitHubRepository("https://api.github.com", "o", "r").graphql == "https://api.github.com/graphql"

"""Holds that the configuration says what it may say, and that what is wrong in it is named with its remedy."""

import pytest

from remand.config import ConfigError, Settings, parse
from remand.domain.access.team import Member, Role
from remand.domain.policy import Policy

WHOLE = """
[project]
base = "trunk"

[team]
members = [
  {name = "Fenster", role = "agent", skills = ["frontend", "css"], command = ["claude", "-p"], capacity = 3},
  {name = "Verbal", roles = ["lead", "agent"], accounts = ["github:octocat"], aliases = ["verbal-laptop"]},
  {name = "Tess", role = "tester", paths = ["tests/**"]},
  {name = "Dir", role = "director"},
  {name = "owner", role = "user"},
]

[gates.tests]
command = ["pytest"]
parser = "junit"
require = {max_failures = 0}
timeout = "10m"
mode = "delta"
paths = ["src/**"]
required = true
prepare = ["make"]
retries = 2

[gates.lint]
command = ["ruff"]

[gates.old]
command = ["make"]
enabled = false

[gates.integrity]
enabled = true

[policy]
lockout = {after = 2}
escalate_after_reviews = 4
alert_after_gates = 5
escalate_after_gates = 9
max_invalid_rejections = 3
lease = "2h"
director = "human"

[forge]
kind = "github"
repository = "owner/name"
api = "https://example.org"

[sandbox]
read = ["/opt"]
"""


def error(text: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parse(text)
    return str(caught.value)


def test_what_is_done_on_the_forge_is_off_unless_it_is_said() -> None:
    policy = parse("[policy]\nopen_pr = true\nrequest_review = true\nclose_issue = false").policy

    assert (policy.open_pr, policy.request_review, policy.merge_on_approve, policy.close_issue) == (
        True,
        True,
        False,
        False,
    )


def test_every_key_is_read() -> None:
    settings = parse(WHOLE, source="trunk")

    assert settings.base == "trunk"
    assert settings.source == "trunk"
    assert settings.gates == ("tests", "lint")
    assert settings.policy == Policy(
        lockout_after=2,
        escalate_after_reviews=4,
        alert_after_gates=5,
        escalate_after_gates=9,
        max_invalid_rejections=3,
        lease_seconds=7200,
        director=("human",),
    )
    assert settings.team == (
        Member(name="Fenster", skills=("frontend", "css"), command=("claude", "-p"), capacity=3),
        Member(
            name="Verbal",
            roles=(Role.LEAD, Role.AGENT),
            accounts=("github:octocat",),
            aliases=("verbal-laptop",),
        ),
        Member(name="Tess", roles=(Role.TESTER,), paths=("tests/**",)),
        Member(name="Dir", roles=(Role.DIRECTOR,)),
        Member(name="owner", roles=(Role.USER,)),
    )
    assert settings.as_team().actor("verbal-laptop").name == "Verbal"


def test_an_empty_configuration_is_the_standard_one() -> None:
    assert parse("") == Settings()
    assert parse("").policy == Policy()


@pytest.mark.parametrize(
    ("text", "expected"), [("", None), ("[gates]", ()), ("[gates.tests]\ncommand = ['x']", ("tests",))]
)
def test_no_gates_are_told_apart_from_none_decided(text: str, expected: tuple[str, ...] | None) -> None:
    assert parse(text).gates == expected


def test_how_far_ahead_events_may_be_is_a_duration() -> None:
    assert parse("").policy.clock_skew_seconds == 600
    assert parse('[policy]\nclock_skew = "90s"').policy.clock_skew_seconds == 90


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("10m", 600), ("2h", 7200), ("1d", 86400), ("1.5h", 5400)]
)
def test_a_lease_is_a_duration(text: str, seconds: float) -> None:
    assert parse(f'[policy]\nlease = "{text}"').policy.lease_seconds == seconds


@pytest.mark.parametrize(
    ("value", "after"), [('"strict"', 1), ('"off"', 0), ("{after = 1}", 1), ("{after = 5}", 5)]
)
def test_a_lockout_is_strict_later_or_off(value: str, after: int) -> None:
    assert parse(f"[policy]\nlockout = {value}").policy.lockout_after == after


def test_the_director_may_be_a_command() -> None:
    assert parse('[policy]\ndirector = ["claude", "-p"]').policy.director == ("claude", "-p")


@pytest.mark.parametrize(
    ("text", "key", "meant"),
    [
        ("[polic]", "polic", "policy"),
        ("[gate]", "gate", "gates"),
        ("[project]\nbas = 'x'", "project.bas", "base"),
        ("[team]\nmember = []", "team.member", "members"),
        ("[team]\nmembers = [{name = 'A', skill = ['x']}]", "team.members[0].skill", "skills"),
        ("[team]\nmembers = [{name = 'A'}, {name = 'B', alias = []}]", "team.members[1].alias", "aliases"),
        ("[gates.tests]\ncomand = ['x']", "gates.tests.comand", "command"),
        ("[policy]\nleas = '1h'", "policy.leas", "lease"),
        ("[policy]\nescalate_after_review = 3", "policy.escalate_after_review", "escalate_after_reviews"),
    ],
)
def test_an_unknown_key_is_named_with_what_was_meant(text: str, key: str, meant: str) -> None:
    message = error(text)

    assert f"`{key}`" in message
    assert f"did you mean `{meant}`?" in message


def test_an_unknown_key_like_no_other_is_named_with_all_there_are() -> None:
    message = error("[zebra]")

    assert "`zebra`" in message
    for name in ("project", "team", "gates", "policy", "forge", "sandbox"):
        assert name in message


@pytest.mark.parametrize(
    ("text", "key", "remedy"),
    [
        ("project = 1", "project", "[project]"),
        ("gates = 1", "gates", "[gates]"),
        ("gates = {tests = 1}", "gates.tests", "[gates.tests]"),
        ("team = []", "team", "[team]"),
        ("[project]\nbase = 1", "project.base", "text"),
        ("[team]\nmembers = 1", "team.members", "list"),
        ("[team]\nmembers = ['A']", "team.members", "name ="),
        ("[team]\nmembers = [{}]", "team.members[0].name", "name"),
        ("[team]\nmembers = [{name = ''}]", "team.members[0].name", "64"),
        ('[team]\nmembers = [{name = "a\\nb"}]', "team.members[0].name", "64"),
        ("[team]\nmembers = [{name = 1}]", "team.members[0].name", "text"),
        ("[team]\nmembers = [{name = 'A', role = 'chief'}]", "team.members[0].role", "agent, lead"),
        ("[team]\nmembers = [{name = 'A', role = 'coordinator'}]", "team.members[0].role", "agent, lead"),
        ("[team]\nmembers = [{name = 'A', roles = 'agent'}]", "team.members[0].roles", "list"),
        ("[team]\nmembers = [{name = 'A', skills = 'css'}]", "team.members[0].skills", "list"),
        ("[team]\nmembers = [{name = 'A', skills = [1]}]", "team.members[0].skills", "list"),
        ("[team]\nmembers = [{name = 'A'}, {name = 'a'}]", "a", "differ only in case"),
        (
            "[team]\nmembers = [{name = 'A'}, {name = 'B', aliases = ['\uff21']}]",
            "\uff21",
            "differ only in case",
        ),
        ("[team]\nformer = 'A'", "team.former", "list"),
        ('[team]\nformer = ["a\\nb"]', "team.former", "not a member's name"),
        ("[team]\nmembers = [{name = 'A'}]\nformer = ['a']", "team.former", "one or the other"),
        ("[team]\nmembers = [{name = 'A', capacity = 0}]", "team.members[0].capacity", "at least 1"),
        ("[team]\nmembers = [{name = 'A', capacity = true}]", "team.members[0].capacity", "whole number"),
        ("[team]\nmembers = [{name = 'A', capacity = '2'}]", "team.members[0].capacity", "whole number"),
        ("[team]\nmembers = [{name = 'A', command = 'x'}]", "team.members[0].command", "list"),
        ("[policy]\nopen_pr = 'yes'", "policy.open_pr", "true or false"),
        ("[policy]\nmerge_on_approve = 1", "policy.merge_on_approve", "true or false"),
        ("[policy]\nlockout = 'hard'", "policy.lockout", "strict"),
        ("[policy]\nlockout = {after = 0}", "policy.lockout.after", "at least 1"),
        ("[policy]\nlockout = {before = 1}", "policy.lockout", "after"),
        ("[policy]\nlease = 1800", "policy.lease", "10m"),
        ("[policy]\nclock_skew = 600", "policy.clock_skew", "10m"),
        ("[policy]\nclock_skew = '0s'", "policy.clock_skew", "10m"),
        ("[policy]\nclock_skew = '25h'", "policy.clock_skew", "24h"),
        ("[policy]\nlease = '30'", "policy.lease", "10m"),
        ("[policy]\nlease = '0s'", "policy.lease", "10m"),
        ("[policy]\nlease = '-5m'", "policy.lease", "10m"),
        ("[policy]\nescalate_after_reviews = 0", "policy.escalate_after_reviews", "at least 1"),
        ("[policy]\nalert_after_gates = 'x'", "policy.alert_after_gates", "whole number"),
        ("[policy]\nescalate_after_gates = 1.5", "policy.escalate_after_gates", "whole number"),
        ("[policy]\nmax_invalid_rejections = -1", "policy.max_invalid_rejections", "at least 1"),
        ("[policy]\ndirector = 5", "policy.director", "list"),
    ],
)
def test_a_wrong_value_is_named_with_its_key_and_remedy(text: str, key: str, remedy: str) -> None:
    message = error(text)

    assert message.startswith("remand.toml")
    assert f"`{key}`" in message
    assert remedy in message


@pytest.mark.parametrize(
    "members",
    [
        "{name = 'A'}, {name = 'A'}",
        "{name = 'A', aliases = ['B']}, {name = 'B'}",
        "{name = 'A', aliases = ['X']}, {name = 'B', aliases = ['X']}",
        "{name = 'A', accounts = ['github:x']}, {name = 'B', accounts = ['github:x']}",
        "{name = 'A', accounts = ['B']}, {name = 'B'}",
    ],
    ids=["name", "alias and name", "alias", "account", "account and name"],
)
def test_a_name_is_one_members(members: str) -> None:
    assert "two members" in error(f"[team]\nmembers = [{members}]")


@pytest.mark.parametrize(
    "text", ["[policy", "a = 1\na = 2", "[team]\n[team]", "x = " + "[" * 5000, "\x00", "base = 1979-13-45"]
)
def test_what_is_no_toml_is_told_so(text: str) -> None:
    assert "is not TOML" in error(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ('[team]\nmembers = [{name = "A", role = "agent", roles = ["lead"]}]', "roles"),
        ('[team]\nmembers = [{name = "A", aliases = [""]}]', "alias"),
        ('[policy]\ndirector = ""', "policy.director"),
    ],
    ids=["role beside roles", "empty alias", "empty director"],
)
def test_what_says_nothing_or_says_it_twice_is_an_error(text: str, key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        parse(text)


def test_former_members_are_named_with_the_team() -> None:
    settings = parse("[team]\nmembers = [{name = 'A'}]\nformer = ['B']")
    assert settings.as_team().former == ("B",)


def test_a_member_may_have_several_spellings_of_its_own_name() -> None:
    settings = parse("[team]\nmembers = [{name = 'Alice', accounts = ['alice']}]")
    assert settings.as_team().actor("ALICE").name == "Alice"

"""Changes to remand.toml: what people wrote stays, and what only a person can change is left to one."""

from __future__ import annotations

import tomllib

import pytest

from remand.config.changes import parse_value, with_member, with_value

LISTED = '[team]  # us\nmembers = [\n  {name = "A", skills = ["x"]},  # first\n]\n[policy]\nlease = "30m"  # half # an hour\n'
TABLES = '[[team.members]]\nname = "A"\n[policy]\n'


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (LISTED, 'lease = "45m"  # half # an hour'),
        ('[policy]\nlease = "a # b"\n', 'lease = "45m"'),
        ("[policy] # rules\n", '[policy] # rules\nlease = "45m"'),
        ("", '\n[policy]\nlease = "45m"\n'),
        ("[gates]", '[gates]\n\n[policy]\nlease = "45m"\n'),
    ],
)
def test_a_value_is_set_where_it_belongs_and_all_else_stays(text: str, line: str) -> None:
    changed = with_value(text, ("policy", "lease"), "45m")

    assert changed is not None
    assert line in changed
    wanted = tomllib.loads(text)
    wanted.setdefault("policy", {})["lease"] = "45m"
    assert tomllib.loads(changed) == wanted


@pytest.mark.parametrize(
    "text",
    ['policy = {lease = "1h"}\n', 'policy.lease = "1h"\n', "[policy]\nlease = [\n 1,\n]\n", "not TOML ["],
)
def test_what_only_a_person_can_change_is_left_to_one(text: str) -> None:
    assert with_value(text, ("policy", "lease"), "45m") is None


@pytest.mark.parametrize(
    "text", [LISTED, TABLES, "", "[team]\n", '[team]\nmembers = [{name = "A"}]', "[team]\nmembers = []\n"]
)
def test_a_member_comes_behind_the_others(text: str) -> None:
    member = {"name": 'B"', "role": "lead", "skills": ["a", "b"]}

    changed = with_member(text, member)

    assert changed is not None
    wanted = tomllib.loads(text)
    wanted.setdefault("team", {}).setdefault("members", []).append(member)
    assert tomllib.loads(changed) == wanted
    assert all(line in changed for line in text.splitlines() if "#" in line)


def test_what_somebody_writes_for_a_value_is_toml_or_a_text() -> None:
    assert [parse_value(text) for text in ("45m", "3", "true", '"x"', "{after = 2}", "1\nother = 2")] == [
        *("45m", 3, True, "x", {"after": 2}, "1\nother = 2"),
    ]

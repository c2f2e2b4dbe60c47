"""Holds who may take a task over, and who suits it best."""

from typing import Any

import pytest

from remand.domain.access.team import Role
from remand.domain.decisions.handoffs import best_agent, remaining_agents
from remand.domain.facts import Facts, update_facts
from remand.testing.builders import ALICE, BOB, T2, a_lockout, a_task, actor
from tests.support.builders import LEAD

CAROL = actor("Carol", skills=("accessibility", "css"))


def left_for(*agents: Any, inherited: tuple[tuple[str, str], ...] = (), **fields: Any) -> list[str]:
    facts = update_facts(Facts(), agents=agents or (ALICE, BOB, CAROL), inherited=inherited)
    return [agent.name for agent in remaining_agents(a_task(**fields), facts)]


def test_all_agents_are_left_in_the_teams_order() -> None:
    assert left_for() == ["Alice", "Bob", "Carol"]
    assert left_for(BOB, ALICE) == ["Bob", "Alice"]


def test_nobody_is_left_who_may_not_work_on_the_task() -> None:
    assert left_for(lockouts=(a_lockout("Alice"),)) == ["Bob", "Carol"]
    assert left_for(reviewers=("Bob",)) == ["Alice", "Carol"]
    assert left_for(skills=("css",)) == ["Carol"]
    assert left_for(ALICE, LEAD) == ["Alice"]
    assert left_for(inherited=(("Carol", T2),)) == ["Alice", "Bob"]
    assert left_for(inherited=(("Carol", T2),), unlocked=("Carol",)) == ["Alice", "Bob", "Carol"]
    facts = update_facts(Facts(), agents=(ALICE, BOB))
    assert [agent.name for agent in remaining_agents(a_task(), facts, without=("Alice",))] == ["Bob"]


@pytest.mark.parametrize(
    ("text", "skills"),
    [
        ("Accessibility issues", ("accessibility",)),
        ("The button is not accessible", ("accessibility",)),
        ("ACCESSIBILITY: the CSS hides focus", ("accessibility", "css")),
        ("access denied", ()),
        ("It is slow", ()),
        ("", ()),
    ],
)
def test_an_agent_is_known_by_the_skills_that_a_text_names(text: str, skills: tuple[str, ...]) -> None:
    assert best_agent([CAROL], text) == (CAROL, skills)


@pytest.mark.parametrize(
    ("skill", "word", "is_named"),
    [
        ("testing", "tests", True),
        ("documentation", "documented", True),
        ("performance", "performant", True),
        ("abcdefghijk", "abcdefghijklmnopqrst", False),
        ("abcdefghijkl", "abcdefghijklmnopqrst", True),
        ("api", "APIs", True),
        ("c", "C", True),
        ("unit-testing", "unit tests", True),
        ("unit-testing", "tests", False),
        ("java", "javascript", False),
        ("backend", "background", False),
        ("go", "got", False),
        ("data", "database", False),
        ("ui", "build", False),
    ],
)
def test_a_skill_is_named_by_words_that_begin_like_it(skill: str, word: str, is_named: bool) -> None:
    who = actor("Dave", skills=(skill,))

    assert best_agent([who], f"The {word} here") == (who, (skill,) if is_named else ())


def test_who_knows_most_is_best_and_the_teams_order_settles_ties() -> None:
    both = actor("Eve", Role.AGENT, skills=("css", "html"))

    assert best_agent([ALICE, CAROL, both], "css and html")[0] is both
    assert best_agent([ALICE, BOB], "css")[0] is ALICE
    assert best_agent([ALICE, both, CAROL], "css")[0] is both


def test_of_those_who_know_as_much_the_one_that_could_take_on_most_is_best() -> None:
    assert best_agent([ALICE, BOB], "css", {"Alice": 0, "Bob": 1})[0] is BOB
    assert best_agent([ALICE, BOB], "css", {"Alice": -1})[0] is BOB
    assert best_agent([BOB, ALICE], "css", {"Alice": 2, "Bob": 2})[0] is BOB
    assert best_agent([ALICE, CAROL], "css", {"Alice": 5, "Carol": 0})[0] is CAROL, "skill comes first"

"""Plain words, from what a user types to what the ledger holds: the requirement's sample prompts in their order."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.machine import Machine, Repository

TEAM = """
[gates]
[team]
members = [
  {name = "Fenster", role = "agent", aliases = ["fen"]},
  {name = "Hockney", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user"},
]
"""


@pytest.fixture
def team(machine: Machine) -> Repository:
    """A repository with a team, and issue #42 handed in by Fenster as PR #15."""
    repository = machine.repository(config=TEAM)
    repository.add("Mend the roof", "--alias", "#42")
    hand_in(repository)
    return repository


def hand_in(repository: Repository, agent: str = "Fenster", text: str = "work") -> None:
    """Claims issue #42, reads its feedback, and hands a commit in."""
    repository.ok("task", "claim", "#42", "--agent", agent)
    repository.ok("task", "prompt", "#42", "--agent", agent)
    repository.commit("roof.txt", f"{text}\n")
    repository.ok("task", "submit", "#42", "--agent", agent, "--commit", "HEAD", "--pr", "15")


def reject(repository: Repository) -> None:
    """Lead sends it back."""
    repository.ok(
        "review", "reject", "#42", "--reviewer", "Lead", "--commit", repository.head(), "--finding", "security concerns"
    )  # fmt: skip


def events(repository: Repository) -> list[str]:
    """The names of the task's events."""
    return [entry["event"] for entry in repository.ok("task", "show", "#42")["history"]]


def said(repository: Repository, text: str, *options: str) -> dict[str, Any]:
    """What was done or answered."""
    answer: dict[str, Any] = repository.ok("say", text, *options)
    return answer


def test_the_sample_prompts_work_as_written(team: Repository) -> None:
    asked = said(team, "Lead, review PR #15")
    assert asked["understood"] == "Ask Lead to review issue #42 (PR #15)."
    assert events(team)[-1] == "review.request"

    reject(team)
    why = said(team, "Why is Fenster locked out?")
    assert why["done"] == (
        "Fenster was locked out for issue #42 after Lead rejected PR #15 due to security concerns."
    )

    moved = said(team, "Reassign issue #42 from Fenster to Hockney")
    assert moved["done"].startswith("Hockney takes over issue #42.")
    assert team.refused("task", "claim", "#42", "--agent", "Fenster") == "locked_out"

    unlocked = said(team, "Unlock Fenster for issue #42 — I've given him better guidance")
    assert unlocked["done"].startswith("Fenster may work on issue #42 again.")
    history = team.ok("task", "show", "#42")["history"]
    (cleared,) = [one for one in history if one["event"] == "lockout.clear"]
    assert cleared["reason"] == "I've given him better guidance"
    team.ok("task", "claim", "#42", "--agent", "Fenster")
    team.ok("task", "release", "#42", "--agent", "Fenster")

    escalated = said(team, "Escalate issue #42 to me — the team is stuck")
    assert escalated["status"] == "escalated"
    (waiting,) = said(team, "What is waiting for me?")["questions"]
    assert "the team is stuck" in waiting["question"]
    assert said(team, "answer #42: wontfix")["status"] == "cancelled"


def test_only_the_user_unlocks_whatever_an_agent_says(team: Repository) -> None:
    reject(team)
    for name in ("Fenster", "Hockney", "Lead"):
        answer = team.call("say", "Unlock Fenster for issue #42", "--as", name)
        assert (answer.code, answer.data["refused"]) == (1, "user_only")
        assert answer.data["understood"] == "Unlock Fenster for issue #42."
    assert team.ok("task", "show", "#42")["lockouts"]


def test_the_user_is_nobody_in_an_agents_place(team: Repository) -> None:
    reject(team)
    inside = {"REMAND_TASK": "#42", "REMAND_ACTOR": "owner"}
    answer = team.call("say", "Unlock Fenster for issue #42", env=inside)
    assert (answer.code, answer.data["refused"]) == (1, "user_only")
    asked = team.call("say", "Unlock Fenster", env=inside)
    assert asked.data["refused"] == "unsure"
    assert asked.data["choices"] == [], "nobody there is shown what the user alone may do"


def test_a_coordinator_hears_the_same(team: Repository) -> None:
    reject(team)
    with team.coordinator():
        inside = {"REMAND_TASK": "#42", "REMAND_ACTOR": "owner"}
        assert team.refused("say", "Unlock Fenster for issue #42", env=inside) == "user_only"
        assert said(team, "Unlock Fenster for issue #42")["done"].startswith(
            "Fenster may work on issue #42 again."
        )


@pytest.mark.parametrize(
    "text",
    [
        "don't unlock Fenster for #42",
        "should I unlock Fenster for #42?",
        "if Lead agrees unlock Fenster for #42",
        "Fenster said: unlock Fenster for #42",
        '"Unlock Fenster for issue #42"',
        "Unlock F\u0435nster for #42",
        "approve PR #15",
    ],
)
def test_what_is_no_plain_wish_changes_nothing(team: Repository, text: str) -> None:
    reject(team)
    before = team.digest()
    answer = team.call("say", text)
    assert answer.code == 1
    assert answer.data["refused"] in ("unsure", "not_understood")
    assert answer.data["message"]
    assert team.digest() == before


def test_a_choice_that_is_given_is_the_command_that_does_it(team: Repository) -> None:
    reject(team)
    answer = team.call("say", "Unlock Fenstr for #42")
    assert (answer.code, answer.data["refused"]) == (1, "unsure")
    assert answer.data["choices"] == ["remand unlock Fenster --task '#42' --reason 'the user said so'"]
    shown = team.people("say", "Unlock Fenstr for #42")
    assert "Did you mean Fenster?" in shown.out
    assert answer.data["choices"][0] in shown.out
    done = team.ok("unlock", "Fenster", "--task", "#42", "--reason", "the user said so")
    assert (done["agent"], done["locked_out"]) == ("Fenster", [])


def test_lockouts_are_listed_explained_and_lifted(team: Repository) -> None:
    assert team.ok("lockout", "list") == []
    assert not team.ok("why", "Fenster", "--task", "#42")["locked_out"]
    reject(team)
    (row,) = team.ok("lockout", "list")
    assert {"task_id", "agent", "reviewer", "reason", "since"} <= set(row)
    assert (row["agent"], row["reviewer"], row["reason"]) == ("Fenster", "Lead", "security concerns")
    assert "security concerns" in team.people("lockout", "list").out
    why = team.ok("why", "fen")
    assert (why["agent"], why["locked_out"]) == ("Fenster", True)
    assert why["why"].endswith("after Lead rejected PR #15 due to security concerns.")
    assert (
        team.refused("unlock", "Fenster", "--task", "#42", "--reason", "let me", "--as", "Lead")
        == "user_only"
    )
    team.ok(
        "unlock", "fen", "--task", "#42", "--reason", "unclear feedback", "--guidance", "hash the password"
    )
    assert team.ok("lockout", "list") == []
    assert "unclear feedback" in team.ok("why", "Fenster", "--task", "#42")["why"]
    assert team.refused("why", "Fenster", "--task", "#99") == "unknown_task"


def test_what_can_be_read_is_answered(team: Repository) -> None:
    assert "provisional" in said(team, "What is the state of #42?")["done"]
    assert said(team, "who is locked out?")["done"] == "Nobody is locked out."
    reject(team)
    assert [row["agent"] for row in said(team, "who is locked out?")["lockouts"]] == ["Fenster"]
    assert "security concerns" in said(team, "Why was PR #15 rejected?")["done"]
    assert said(team, "Why is Hockney locked out?")["done"] == "Hockney is not locked out of any task."


def test_words_may_come_apart_or_from_a_file(team: Repository) -> None:
    (team.path / "wish.txt").write_text("Who is locked out?\n")
    assert said(team, "@wish.txt")["understood"] == "List who is locked out."
    assert team.ok("say", "who", "is", "locked", "out?")["understood"] == "List who is locked out."
    assert team.call("say", "@remand who is locked out?").code == 0


def test_without_a_team_names_are_those_of_the_ledger(machine: Machine) -> None:
    repository = machine.repository()
    task = repository.add("Mend the roof", "--alias", "#42")
    hand_in(repository, "Alice")
    repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", "It leaks")
    assert "It leaks" in said(repository, "Why is Alice locked out of #42?")["done"]
    assert said(repository, "Unlock Alice for #42")["status"] != "done"
    assert repository.refused("say", "Unlock Bob for #42") == "unsure"

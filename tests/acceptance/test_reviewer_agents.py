"""Reviewers and directors that are agents, as they speak on the command line from their own place."""

from __future__ import annotations

import pytest

from tests.integration.machine import Machine, Repository, Said, near_call

TEAM = """
[gates]
[policy]
director = "human"
[team]
members = [
  {name = "Fenster", roles = ["agent", "lead", "director"], aliases = ["fen"]},
  {name = "McManus", role = "agent"},
  {name = "Rita", role = "lead", command = ["reviewer"]},
  {name = "Tess", role = "tester", command = ["reviewer"]},
  {name = "owner", role = "user"},
]
"""
LOOKED = "src/roof.py:1: The roof is closed for every kind of rain"
VACUOUS = (
    (),
    ("LGTM",),
    ("src/roof.py:1: LGTM",),
    ("src/roof.py:1: fine fine fine fine fine",),
    ("src/other.py:1: The roof is closed for every kind of rain",),
    ("The roof is closed for every kind of rain",),
)


@pytest.fixture
def team(machine: Machine) -> Repository:
    """A repository with a team."""
    return machine.repository(config=TEAM)


@pytest.fixture
def work(team: Repository) -> tuple[str, str]:
    """A task that Fenster has handed in, and the commit."""
    task = team.add("Mend the roof", "--alias", "#42")
    team.ok("task", "claim", task, "--agent", "Fenster")
    team.git("checkout", "-q", "-b", "roof")
    commit = team.commit("src/roof.py", "closed = True\n")
    team.ok("task", "submit", task, "--agent", "Fenster", "--commit", "HEAD")
    team.git("checkout", "-q", "main")
    return task, commit


def inside(repository: Repository, name: str, *arguments: str, task: str = "T-1") -> Said:
    """A call from the place of an agent that reviews."""
    said = near_call(repository.path, (*arguments, "--json"), {"REMAND_TASK": task, "REMAND_ACTOR": name})
    assert said is not None
    return said


def approving(work: tuple[str, str], *checked: str) -> tuple[str, ...]:
    task, commit = work
    return (
        "review",
        "approve",
        task,
        "--commit",
        commit,
        *(part for one in checked for part in ("--checked", one)),
    )


def test_an_agent_s_approval_says_what_it_looked_at_and_that_is_kept(
    team: Repository, work: tuple[str, str]
) -> None:
    for checked in VACUOUS:
        said = inside(team, "Rita", *approving(work, *checked))
        assert (said.code, said.data["refused"]) == (1, "vacuous_approval"), checked
    assert team.ok("task", "show", work[0])["status"] == "provisional"

    said = inside(team, "Rita", *approving(work, "LGTM", LOOKED))

    assert (said.code, said.data["status"]) == (0, "done")
    events = [line for file in team.events.glob("*.jsonl") for line in file.read_text().splitlines()]
    (approved,) = [line for line in events if "review.approve" in line]
    assert "The roof is closed for every kind of rain" in approved


def test_a_person_says_as_much_as_it_likes(team: Repository, work: tuple[str, str]) -> None:
    assert team.ok(*approving(work), "--reviewer", "Rita")["status"] == "done"


def test_nobody_reviews_its_own_work_or_beyond_its_rights_under_any_name(
    team: Repository, work: tuple[str, str]
) -> None:
    task, commit = work
    approve = approving(work, LOOKED)
    reject = ("review", "reject", task, "--commit", commit, "--finding", "No")
    for name, call, code in (
        ("Fenster", approve, "own_work"),
        ("fen", approve, "own_work"),
        ("Fenster", reject, "own_work"),
        ("fen", reject, "own_work"),
        ("Fenster", (*approve, "--reviewer", "Rita"), "not_yours"),
        ("McManus", approve, "not_authorised"),
        ("Tess", approve, "out_of_scope"),
        ("owner", approve, "user_only"),
    ):
        said = inside(team, name, *call)
        assert (said.code, said.data["refused"]) == (1, code), name


def test_a_reviewer_is_shown_what_was_handed_in(team: Repository, work: tuple[str, str]) -> None:
    said = inside(team, "Rita", "review", "diff", "#42")

    assert said.code == 0
    assert (said.data["commit"], said.data["base"]) == (work[1], team.head("main"))
    assert "+closed = True\n" in said.data["diff"]
    assert (said.data["cut"], said.data["paths"]) == ([], ["src/roof.py"])
    assert team.refused("review", "diff", team.add()) == "nothing_to_review"


def test_people_read_what_is_not_shown(team: Repository) -> None:
    task = team.add()
    team.ok("task", "claim", task, "--agent", "McManus")
    (team.path / "logo.png").write_bytes(b"\x89PNG\0\0")
    team.git("add", "-A")
    team.git("commit", "-q", "-m", "logo")
    team.ok("task", "submit", task, "--agent", "McManus", "--commit", "HEAD")

    said = team.people("review", "diff", task)

    assert "Omitted or shortened:\n- logo.png: binary" in said.out

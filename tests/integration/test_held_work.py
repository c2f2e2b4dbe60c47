"""Holds that work which the gates hold is named to whoever may settle it, with one command for each finding."""

import asyncio
import shlex
from typing import Any

import pytest

from tests.integration.machine import Machine, Repository
from tests.integration.mcp_team import Team

GATES = '[project]\nbase = "main"\n[gates.words]\ncommand = ["true"]\nparser = "exit"\n'
TEAM = """[team]
members = [
  {name = "Ann", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "Lea", roles = ["lead", "agent"]},
  {name = "Tester", role = "tester", paths = ["tests/**"]},
  {name = "owner", role = "user"},
]
"""
CODE = "import os\n"
SUPPRESSED = "import os  # noqa\n"
EVERYWHERE = (("inbox",), ("review", "list"), ("task", "list"), ("task", "show", "#1"))
TESTS = "import pytest\n\n\ndef test_one():\n    assert 1 + 1 == 2\n"
SKIPPED = "import pytest\n\n\n@pytest.mark.skip\ndef test_one():\n    assert 1 + 1 == 2\n"


class Workspace:
    """A repository whose gates hold what they find, and an agent that claims and hands in its tasks."""

    def __init__(self, machine: Machine, config: str = GATES + TEAM) -> None:
        self.repository: Repository = machine.repository(config=config)

    def hold(self, *paths: str, alias: str = "#1", agent: str = "Ann") -> list[str]:
        """Has one finding held in each of these files; returns the ids."""
        repository = self.repository
        for path in paths:
            repository.commit(path, TESTS if "test" in path else CODE)
        self.hold_again(*paths, alias=alias, agent=agent)
        return self.held(alias)

    def hold_again(self, *paths: str, alias: str, agent: str = "Ann") -> str:
        repository, options = self.repository, ("--alias", alias) if alias.startswith("#") else ()
        branch = f"work-{alias.strip('#')}"
        task = repository.add("Tidy up", *options, "--branch", branch)
        repository.ok("task", "claim", task, "--agent", agent)
        repository.git("checkout", "-q", "-b", branch)
        for path in paths:
            repository.commit(path, SKIPPED if "test" in path else SUPPRESSED)
        submit = ("task", "submit", task, "--agent", agent, "--commit", "HEAD")
        assert repository.refused(*submit) == "gate_held"
        repository.git("checkout", "-q", "main")
        return task

    def held(self, task: str = "#1") -> list[str]:
        """The ids of the findings for which a task is held last."""
        rows = [row for row in self.repository.ok("gate", "history", task) if row["held"]]
        return [one["finding"] for one in rows[-1]["held"]]

    def shown(self, *command: str) -> str:
        """What people read."""
        said = self.repository.people(*command)
        return said.out + said.err

    def commands(self, *command: str) -> list[str]:
        """The lines that are commands which accept a finding, with nothing else on them."""
        return [
            row.strip()
            for row in self.shown(*command).splitlines()
            if row.strip().startswith("remand gate accept ")
        ]


@pytest.fixture
def workspace(near_machine: Machine) -> Workspace:
    return Workspace(near_machine)


@pytest.mark.parametrize("config", [GATES, GATES + TEAM], ids=["without a team", "with a team"])
def test_every_list_has_one_command_for_each_held_finding(near_machine: Machine, config: str) -> None:
    workspace = Workspace(near_machine, config)
    ids = workspace.hold("src/a.py", "src/b.py")
    expected = [f"remand gate accept '#1' {name}" for name in ids]

    for command in EVERYWHERE:
        assert sorted(workspace.commands(*command)) == sorted(expected), command
    told = workspace.shown("say", "What is the state of #1?")
    assert all(f"  {command}\n" in told for command in expected)
    assert " held " in workspace.shown("task", "list")
    data = {name: workspace.repository.ok(*name) for name in EVERYWHERE}
    questions = data["inbox",]
    assert sorted(one["accept"] for one in questions) == sorted(expected)
    assert {"escalation_id", "task_id", "question", "options", "deadline", "default", "tried"} <= questions[
        0
    ].keys()
    for command in (("review", "list"), ("task", "list")):
        (row,) = data[command]
        assert sorted(one["accept"] for one in row["held"]) == sorted(expected), command
    assert sorted(one["accept"] for one in data["task", "show", "#1"]["held"]) == sorted(expected)


def test_a_command_that_is_shown_does_what_it_says_in_a_shell(workspace: Workspace) -> None:
    workspace.hold("src/a.py", "src/b.py")

    first, second = workspace.commands("inbox")
    left = workspace.shown(*shlex.split(first)[1:])
    assert f"1 finding is still held: {shlex.split(second)[-1]}\n  {second}\n" in left
    assert workspace.shown(*shlex.split(second)[1:]).endswith("is provisional\n")


def test_a_task_without_an_alias_is_named_by_its_id(workspace: Workspace) -> None:
    workspace.repository.commit("src/a.py", CODE)
    task = workspace.hold_again("src/a.py", alias="plain")
    (name,) = workspace.held(task)

    assert workspace.commands("inbox") == [f"remand gate accept {task} {name}"]


def test_each_reviewer_is_shown_what_is_in_its_scope(workspace: Workspace) -> None:
    workspace.hold("src/a.py", "tests/test_a.py")
    found = {
        one["path"]: one["finding"] for one in workspace.repository.ok("gate", "history", "#1")[-1]["held"]
    }
    in_code, in_tests = found["src/a.py"], found["tests/test_a.py"]

    listed = {
        name: workspace.commands("review", "list", "--for", name) for name in ("Lead", "Tester", "owner")
    }

    both = {f"remand gate accept '#1' {name}" for name in (in_code, in_tests)}
    assert set(listed["owner"]) == both
    assert set(listed["Lead"]) == {f"{command} --reviewer Lead" for command in both}
    assert listed["Tester"] == [f"remand gate accept '#1' {in_tests} --reviewer Tester"]
    for command in (("inbox",), ("review", "list"), ("task", "list")):
        assert workspace.commands(*command, "--as", "Tester") == listed["Tester"], command
    (row,) = workspace.repository.ok("review", "list", "--for", "Tester")
    assert [one["finding"] for one in row["held"]] == [in_tests]


def test_an_author_is_offered_no_command_for_its_own_work(workspace: Workspace) -> None:
    (name,) = workspace.hold("src/a.py", agent="Lea")

    for command in (("inbox",), ("review", "list"), ("task", "list"), ("task", "show", "#1")):
        assert workspace.commands(*command, "--as", "Lea") == [], command
    assert workspace.commands("review", "list", "--for", "Lea") == []
    assert workspace.repository.ok("inbox", "--as", "Lea") == []
    shown = workspace.shown("task", "show", "#1", "--as", "Lea")
    assert name in shown
    assert "Lead or owner may settle this" in shown


def test_an_agent_is_told_who_has_to_act_and_people_are_told_how(workspace: Workspace) -> None:
    repository = workspace.repository
    repository.commit("src/a.py", CODE)
    task = repository.add("Tidy up", "--alias", "#1", "--branch", "work")
    repository.ok("task", "claim", task, "--agent", "Ann")
    repository.git("checkout", "-q", "-b", "work")
    repository.commit("src/a.py", SUPPRESSED)
    submit = ("task", "submit", "#1", "--agent", "Ann", "--commit", "HEAD")

    agent = repository.people(*submit, env={"REMAND_TASK": task, "REMAND_ACTOR": "Ann"}).out
    people = repository.people(*submit).out

    (name,) = workspace.held()
    for text in (agent, people):
        assert "1 finding is held. Lead, Lea or owner" in text
        assert f"- {name}: src/a.py:1:" in text
        assert "\nFull report: remand gate report " in text
    assert "you cannot do that yourself" in agent
    assert "remand gate accept" not in agent
    assert f"\n  remand gate accept '#1' {name}\n" in people


LONG = "x" * 90


def test_no_text_however_long_or_hostile_cuts_an_id_off(workspace: Workspace) -> None:
    path = "/".join(f"{LONG}{number}" for number in range(10)) + "/$(rm -rf ~) `x`\u202e.py"
    (name,) = workspace.hold(path)

    command = f"remand gate accept '#1' {name}"
    for place in EVERYWHERE:
        assert workspace.commands(*place) == [command], place
        assert "\u202e" not in workspace.shown(*place)
    (question,) = workspace.repository.ok("inbox")
    assert command in question["question"]
    said = workspace.shown("task", "submit", "#1", "--agent", "Ann", "--commit", "work-1")
    assert f"\n  {command}\n" in said
    assert f"\n- {name}: " in said


def test_of_fifty_findings_each_has_its_command(workspace: Workspace) -> None:
    ids = workspace.hold(*(f"src/a{number}.py" for number in range(50)))
    assert len(ids) == 50
    expected = sorted(f"remand gate accept '#1' {name}" for name in ids)

    for command in EVERYWHERE:
        assert sorted(workspace.commands(*command)) == expected, command
    assert len(workspace.repository.ok("inbox")) == 50
    said = workspace.commands("task", "submit", "#1", "--agent", "Ann", "--commit", "work-1")
    assert sorted(said) == expected
    assert sorted(workspace.commands("gate", "accept", "#1", "nonsense")) == expected
    left = workspace.shown("gate", "accept", "#1", ids[0])
    assert "49 findings are still held: " in left


def test_what_is_held_of_several_tasks_is_listed_together(workspace: Workspace) -> None:
    (first,) = workspace.hold("src/a.py")
    (second,) = workspace.hold("src/b.py", alias="#2")

    expected = [f"remand gate accept '#1' {first}", f"remand gate accept '#2' {second}"]
    for command in (("inbox",), ("review", "list"), ("task", "list")):
        assert sorted(workspace.commands(*command)) == expected, command
    assert "remand: 2 questions wait for you: remand inbox" in workspace.shown("task", "ready")


def nothing_is_held(workspace: Workspace) -> bool:
    shown = [
        workspace.shown(*command) for command in (*EVERYWHERE, ("say", "What is the state of #1?"), ("top",))
    ]
    rows = [
        row for command in (("review", "list"), ("task", "list")) for row in workspace.repository.ok(*command)
    ]
    assert not any("gate accept" in text or "questions wait" in text for text in shown)
    return not workspace.repository.ok("inbox") and not any(row["held"] for row in rows)


@pytest.mark.parametrize(
    "ends",
    [
        pytest.param([("gate", "accept", "#1", "{}")], id="accepted"),
        pytest.param([("gate", "refuse", "#1", "{}", "--reason", "no")], id="refused"),
        pytest.param(
            [("gate", "override", "#1", "--gate", "integrity", "--reason", "it must go out")], id="overridden"
        ),
        pytest.param([("task", "cancel", "#1")], id="cancelled"),
        pytest.param([("reassign", "#1", "--from", "Ann", "--to", "Lea")], id="reassigned"),
        pytest.param([("task", "release", "#1", "--agent", "Ann")], id="released"),
        pytest.param(
            [("task", "release", "#1", "--agent", "Ann"), ("task", "claim", "#1", "--agent", "Lea")],
            id="claimed by another",
        ),
    ],
)
def test_it_is_gone_from_everywhere_once_it_has_ended(
    workspace: Workspace, ends: list[tuple[str, ...]]
) -> None:
    (name,) = workspace.hold("src/a.py")
    assert len(workspace.repository.ok("inbox")) == 1

    for end in ends:
        workspace.repository.ok(*(word.format(name) for word in end))

    assert nothing_is_held(workspace)


def test_a_new_claim_of_the_same_agent_supersedes_the_hold(workspace: Workspace) -> None:
    (name,) = workspace.hold("src/a.py")
    repository = workspace.repository
    repository.git("checkout", "-q", "work-1")
    repository.commit("src/a.py", CODE + "import sys\n")

    repository.ok("task", "submit", "#1", "--agent", "Ann", "--commit", "HEAD")

    assert nothing_is_held(workspace)
    assert name not in workspace.shown("task", "list")


@pytest.mark.parametrize("named", ["question", "task"])
@pytest.mark.parametrize(
    ("option", "status"), [("accept", "provisional"), ("1", "provisional"), ("refuse", "claimed")]
)
def test_the_inbox_takes_the_answer(workspace: Workspace, named: str, option: str, status: str) -> None:
    workspace.hold("src/a.py")
    (question,) = workspace.repository.ok("inbox")
    name = question["escalation_id"] if named == "question" else "#1"

    done = workspace.repository.ok("inbox", "answer", name, option, "--guidance", "as I say")

    assert (done["status"], done["escalation_id"]) == (status, question["escalation_id"])
    assert workspace.repository.ok("inbox") == []
    if option == "refuse":
        assert "as I say" in workspace.repository.ok("task", "prompt", "#1", "--agent", "Ann")["prompt"]


@pytest.mark.parametrize("finding", [(), ("nonsense",), ("",), ("{prefix}",)])
@pytest.mark.parametrize("word", ["accept", "refuse"])
def test_an_id_that_is_missing_or_wrong_is_answered_with_those_that_are_held(
    workspace: Workspace, finding: tuple[str, ...], word: str
) -> None:
    ids = workspace.hold("src/a.py", "src/b.py")
    given = tuple(one.format(prefix=ids[0][:6]) for one in finding)

    said = workspace.repository.call("gate", word, "#1", *given)

    assert (said.code, said.data["refused"]) == (1, "nothing_held")
    assert "2 findings are held:" in said.data["message"]
    for name in ids:
        assert f"\n  remand gate {word} '#1' {name}" in said.data["message"]
    assert workspace.repository.refused("inbox", "answer", "#1", word) == "nothing_held"
    assert len(workspace.repository.ok("inbox")) == 2, "nothing was settled"


def test_rules_that_changed_are_settled_by_the_command_that_is_shown(near_machine: Machine) -> None:
    workspace = Workspace(near_machine, GATES.replace('"true"', '"false"') + 'mode = "strict"\n' + TEAM)
    repository = workspace.repository
    repository.ok(
        "task", "claim", repository.add("Tidy up", "--alias", "#1", "--branch", "work"), "--agent", "Ann"
    )
    repository.git("checkout", "-q", "-b", "work")
    repository.commit("src/a.py", CODE)
    repository.git("checkout", "-q", "main")
    repository.configure(GATES.replace('"true"', '"true", "--"') + TEAM)
    said = repository.people("task", "submit", "#1", "--agent", "Ann", "--commit", "work").out
    assert said.startswith("HELD"), said

    (command,) = workspace.commands("inbox")
    assert [command] == workspace.commands("review", "list") == workspace.commands("task", "list")
    assert f"\n  {command}\n" in said
    assert workspace.commands("review", "list", "--for", "Tester") == []
    assert workspace.shown(*shlex.split(command)[1:]).endswith("is provisional\n")


@pytest.fixture
def again(workspace: Workspace) -> Any:
    """A change that was rejected, and was handed in again as it is."""
    repository = workspace.repository
    task = repository.add("Tidy up", "--alias", "#1", "--branch", "work")
    repository.ok("task", "claim", task, "--agent", "Ann")
    repository.git("checkout", "-q", "-b", "work")
    repository.commit("src/a.py", CODE)
    repository.ok("task", "submit", "#1", "--agent", "Ann", "--commit", "HEAD")
    repository.ok(
        "review", "reject", "#1", "--reviewer", "Lead", "--commit", "HEAD", "--finding", "src/a.py:1: no"
    )
    repository.ok("task", "claim", task, "--agent", "Lea")
    repository.ok("task", "prompt", task, "--agent", "Lea")
    repository.git("commit", "-q", "--allow-empty", "-m", "again")
    return repository.people("task", "submit", "#1", "--agent", "Lea", "--commit", "HEAD").out


@pytest.mark.parametrize("way", ["command", "option"])
def test_a_change_that_was_rejected_before_is_let_pass_by_what_is_shown(
    workspace: Workspace, again: str, way: str
) -> None:
    (question,) = workspace.repository.ok("inbox")
    (command,) = workspace.commands("review", "list")

    assert command.startswith("remand gate accept '#1' same-")
    assert f"`{command}`" in question["question"]
    assert f"\n  {command}\n" in again
    assert [command] == workspace.commands("task", "list") == workspace.commands("task", "show", "#1")
    assert workspace.commands("review", "list", "--for", "Lead") == [], "only the user lets it pass"
    if way == "command":
        workspace.repository.ok(*shlex.split(command)[1:])
    else:
        workspace.repository.ok("inbox", "answer", question["escalation_id"], question["options"][0]["key"])
    assert nothing_is_held(workspace)
    assert workspace.repository.ok("task", "show", "#1")["status"] == "rejected"


def test_over_mcp_it_is_shown_to_those_who_may_settle_it_and_the_user_answers_it_there(
    workspace: Workspace,
) -> None:
    (name,) = workspace.hold("src/a.py")
    command = f"remand gate accept '#1' {name}"

    async def play() -> None:
        async with Team(workspace.repository, "memory") as team:
            lead, ann, owner = [await team.member(one) for one in ("Lead", "Ann", "owner")]
            queue = await lead.does("review_queue")
            assert queue["submissions"] == []
            assert [one["accept"] for one in queue["held"][0]["held"]] == [f"{command} --reviewer Lead"]
            assert "Settle each held finding" in queue["next"]
            own = (await ann.does("status", task="#1"))["task"]["held"]
            assert [(one["finding"], one["accept"]) for one in own] == [(name, "")]
            (row,) = (await owner.does("status"))["tasks"]
            assert [one["accept"] for one in row["held"]] == [command]
            (question,) = (await owner.does("inbox", ask=False))["questions"]
            assert command in question["question"]
            given = await owner.does("answer", question=question["escalation_id"], option="accept")
            assert (given["given"]["status"], given["questions"]) == ("provisional", [])
            assert (await lead.does("review_queue"))["held"] == []

    asyncio.run(play())


def test_the_gates_of_a_task_are_told_with_the_commands_as_long_as_its_work_is_held(
    workspace: Workspace,
) -> None:
    (name,) = workspace.hold("src/a.py")
    command = f"remand gate accept '#1' {name}"

    assert workspace.commands("gate", "wait", "#1") == [command]
    assert workspace.commands("gate", "run", "--task", "#1", "--commit", "work-1") == [command]
    unclaimed = workspace.shown("gate", "run", "--commit", "work-1")
    assert name in unclaimed
    assert "remand gate accept" not in unclaimed
    workspace.repository.ok(*shlex.split(command)[1:])
    assert workspace.commands("gate", "wait", "#1") == []

"""Holds that the story of a task is told in sentences, with the findings and reasons."""

from remand.app.events.task_folds import task_events
from remand.app.history.task_history import MAX_DETAILS, StoryLine, story_lines
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.team import Role, Team
from remand.domain.events.reviews import Finding
from tests.support.builders import FakeLedger, member
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

TEAM = Team((member("Alice"), member("Bob"), member("Lead", Role.LEAD), member("owner", Role.USER)))


def a_ledger() -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), team=TEAM))


def story(world: FakeLedger, task: str) -> list[StoryLine]:
    with world.store.read() as view:
        return story_lines(task_events(view, task))


def submitted(world: FakeLedger) -> str:
    task = world.add("Mend the roof")
    world.repository.add("work")
    world.claim(task, "Alice")
    world.ask(c.SubmitTask(task_id=task, agent="Alice", commit="work"), "Alice")
    return task


def test_every_line_is_a_sentence() -> None:
    world = a_ledger()
    task = submitted(world)
    world.ask(c.EditTask(task_id=task, title="Mend the whole roof"))

    told = story(world, task)

    assert told[0].sentence == "The task was added: Mend the roof."
    assert told[1].sentence == "Alice claimed it, attempt 1."
    assert all(line.sentence[0].isupper() and line.sentence.endswith(".") for line in told)
    assert not any("=" in line.sentence or "{" in line.sentence for line in told)


def test_a_rejection_is_told_with_every_finding_those_that_block_first() -> None:
    world = a_ledger()
    task = submitted(world)
    findings = (
        Finding(text="Use slates", is_blocking=False),
        Finding(text="It leaks", path="roof.py", line=7),
    )
    world.ask(c.RejectReview(task_id=task, commit="work", findings=findings), "Lead")

    (rejected,) = [line for line in story(world, task) if line.sentence.startswith("Lead rejected")]

    assert rejected.details == ("blocking: roof.py:7: It leaks", "suggestion: Use slates")


def test_very_many_findings_are_told_as_the_first_and_how_many_more() -> None:
    world = a_ledger()
    task = submitted(world)
    findings = tuple(Finding(text=f"finding {number}") for number in range(MAX_DETAILS + 5))
    world.ask(c.RejectReview(task_id=task, commit="work", findings=findings), "Lead")

    (rejected,) = [line for line in story(world, task) if line.sentence.startswith("Lead rejected")]

    assert len(rejected.details) == MAX_DETAILS + 1
    assert rejected.details[-1] == "and 5 more"


def test_an_agents_rejection_is_told_with_its_reasons() -> None:
    world = a_ledger()
    task, handoff = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    record = a_rejection("SCOPE_CREEP")
    world.reject(handoff, record, "Alice")

    (rejected,) = [line for line in story(world, task) if line.sentence.startswith("Alice rejected the task")]

    assert any(line.startswith("in the way: ") for line in rejected.details)
    assert any(line.startswith("tried: ") for line in rejected.details)


def test_a_question_is_told_with_its_id_and_the_answer_with_its_guidance() -> None:
    world = a_ledger()
    task = world.add("Mend the roof")
    world.ask(c.EscalateTask(task_id=task, reason="Which slates?"), "owner")
    asked = world.task(task).open_escalation
    assert asked is not None
    world.ask(
        c.AnswerEscalation(task_id=task, escalation_id=asked.id, option="reopen", guidance="Grey ones."),
        "owner",
    )

    told = story(world, task)

    assert told[1].sentence == f"The task asks the user ({asked.id}): Which slates?"
    assert told[2].details == ("guidance: Grey ones.",)

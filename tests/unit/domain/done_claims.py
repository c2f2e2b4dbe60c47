"""Done claims of Alice, and what was decided about them: what the tests of gates are given."""

from typing import Any

from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor
from remand.domain.events.event import Event
from remand.domain.gate.verdict import INTEGRITY_GATE, GateResult, GateStatus, Verdict
from remand.domain.task import Task
from remand.testing.builders import H1, SHA, T1, TREE, task_added, task_claimed
from tests.support.builders import a_result, a_verdict, decide_events, task_after

WORK = {"commit": SHA, "tree": TREE, "gates": ("tests", "lint"), "gates_digest": "p1"}
SUBMIT = c.SubmitTask(task_id=T1, agent="Alice", commit="HEAD", branch="roof", pr=7)


def passed(commit: str = SHA, tree: str = TREE, **fields: Any) -> Verdict:
    return a_verdict(a_result("tests", GateStatus.PASSED), commit=commit, tree=tree, policy="p1", **fields)


def failed(failing: int = 0, excess: float = 1.0, *gates: GateResult, tree: str = TREE) -> Verdict:
    result = a_result("tests", failing_count=failing, excess=excess)
    return a_verdict(result, *gates, tree=tree, policy="p1")


def held(*findings: str, others: tuple[GateResult, ...] = ()) -> Verdict:
    result = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=findings or ("f1",))
    return a_verdict(*others, result, policy="p1")


def unmeasured(status: GateStatus = GateStatus.ERRORED) -> Verdict:
    return a_verdict(a_result("tests", status), policy="p1")


def recording(verdict: Verdict, agent: str = "Alice", handoff_id: str = "") -> c.RecordVerdict:
    return c.RecordVerdict(
        task_id=T1, agent=agent, handoff_id=handoff_id, verdict=verdict, branch="roof", pr=7
    )


def settling(finding: str = "f1", *, is_accepted: bool = True, reason: str = "") -> c.SettleFinding:
    return c.SettleFinding(task_id=T1, finding=finding, is_accepted=is_accepted, reason=reason)


def overriding(gate: str = "tests", reason: str = "It must go out.") -> c.OverrideGate:
    return c.OverrideGate(task_id=T1, gate=gate, reason=reason)


def names(events: tuple[Event, ...]) -> list[str]:
    return [event.name for event in events]


class Story:
    """A task that Alice holds, and what was decided about it one after the other."""

    def __init__(self, *start: Event) -> None:
        self.events: list[Event] = [task_added(), *(start or (task_claimed("Alice", H1),))]

    @property
    def task(self) -> Task:
        task = task_after(*self.events)
        assert task.inbox.conflicts == (), "what was decided did not apply"
        return task

    def ask(self, ask: c.Command, by: Actor = THE_COORDINATOR, **facts: Any) -> tuple[Event, ...]:
        events = decide_events(self.task, ask, by, **{"gates_digest": "p1", **facts})
        self.events += events
        return events

    def rejected(self, *amounts: float, **facts: Any) -> list[list[str]]:
        """What each of so many rejections led to, with so much missed each time."""
        return [
            names(self.ask(recording(failed(excess=amount), self.holder()), **facts)) for amount in amounts
        ]

    def holder(self) -> str:
        claim = self.task.claim
        return claim.agent if claim else "Alice"

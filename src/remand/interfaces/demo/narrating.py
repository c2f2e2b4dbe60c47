"""What is told of what happens: who, what and why, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from remand.app.happenings import words
from remand.app.scheduling.readout import no_of
from remand.domain import events as e
from remand.domain.task import Status, Task
from remand.interfaces.demo.telling import Line
from remand.interfaces.demo.watching import Seen

QUOTED = "|"
"""How a line begins that an agent quotes."""


class Narrator:
    """Turns events into lines. What an agent said comes when its session has ended."""

    def __init__(self, log_of: Callable[[str], str]) -> None:
        self._log_of = log_of
        self._begun: set[tuple[str, str]] = set()

    def lines(self, seen: Seen) -> Iterator[Line]:
        """What there is to tell of an event; of most there is nothing."""
        event, task = seen.event, seen.task
        no = no_of(event)
        if no is not None:
            yield Line(no.kind, task.title, no.by, no.why)
        elif isinstance(event, e.RunStarted) and event.purpose == e.Purpose.WORK:
            yield Line("", task.title, event.agent, self._beginning(event))
        elif isinstance(event, e.RunEnded):
            yield from self._ending(event, task.title)
        elif type(event) in _TOLD:
            kind, who, text = _TOLD[type(event)](event, task)
            yield Line(kind, task.title, who, text)

    def _beginning(self, event: e.RunStarted) -> str:
        known = (event.task_id, event.agent) in self._begun
        self._begun.add((event.task_id, event.agent))
        return "goes on, with what it was told" if known else "begins"

    def _ending(self, event: e.RunEnded, title: str) -> Iterator[Line]:
        if event.is_fault or event.how == e.How.LOST:
            why = f"failed: {event.detail}" if event.is_fault else "was lost with the scheduler"
            yield Line("", title, event.agent, f"{why} (nobody's blame; it is tried again)")
            return
        for said in self._log_of(event.run_id).splitlines():
            if said and not said.startswith("{"):
                yield Line("", title, event.agent, said if said.startswith(QUOTED) else f"“{said}”")


Told = tuple[str, str, str]
"""A line's kind, who, and what."""


def _approved(event: e.ReviewApproved, task: Task) -> Told:
    looked = "; ".join(f"{one.path}:{one.line}: {one.text}" for one in event.checked[:1])
    kind = "done" if task.status == Status.DONE else ""
    return kind, event.reviewer, f"approved by {event.reviewer}: {looked}"


_TOLD: dict[type[e.Event], Callable[[Any, Task], Told]] = {
    e.TaskSubmitted: lambda event, _: ("", event.agent, f"handed in {event.commit[:8]}: the gates pass it"),
    e.LockoutSet: lambda event, _: ("", event.agent, "is locked out of it"),
    e.TaskReassigned: lambda event, _: ("", event.target, f"is to take over: {event.reason}"),
    e.RejectionAnswered: lambda event, _: ("", "director", _decision(event)),
    e.TaskDeferred: lambda event, _: ("", "", words(event)),
    e.TaskWoken: lambda event, _: ("", "", words(event)),
    e.EscalationOpened: lambda event, _: ("asked", "", event.reason),
    e.ReviewApproved: _approved,
    e.TaskSettled: lambda *_: ("done", "", "all of its sub-tasks are"),
    e.TaskCancelled: lambda event, _: ("cancelled", "", event.reason),
}
"""How events are told that are told in one line."""


def _decision(event: e.RejectionAnswered) -> str:
    decision = event.decision
    return f"{decision.decision_type}: {decision.rationale}"

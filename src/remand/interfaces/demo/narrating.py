"""What is told of what happens: who, what and why, a line each."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from remand.app.happenings import words
from remand.app.scheduling.readout import no_of
from remand.domain import events as e
from remand.domain.task import Status
from remand.interfaces.demo.telling import Line
from remand.interfaces.demo.watching import Seen

TOLD = (
    *(e.HandoffInitiated, e.LockoutSet, e.TaskDecomposed, e.TaskDeferred, e.TaskWoken, e.TaskReturned),
    *(e.EscalationAnswered, e.TaskReassigned),
)
"""Events that are told in the words that everybody is told them in."""


class Narrator:
    """Turns events into lines. What an agent said comes when its session has ended."""

    def __init__(self, log_of: Callable[[str], str]) -> None:
        self._log_of = log_of
        self._begun: set[tuple[str, str]] = set()

    def lines(self, seen: Seen) -> Iterator[Line]:
        """What there is to tell of an event; of most there is nothing."""
        event, title = seen.event, seen.task.title
        no = no_of(event)
        if no is not None:
            yield Line(no.kind, title, no.by, no.why)
            return
        match event:
            case e.RunStarted(purpose=e.Purpose.WORK):
                yield Line("", title, event.agent, self._beginning(event))
            case e.RunEnded():
                yield from self._ending(event, title)
            case e.TaskSubmitted() | e.HandoffCompleted():
                yield Line(
                    "", title, event.agent, f"handed in {event.commit[:8]}: the gates have nothing against it"
                )
            case e.RejectionAnswered():
                yield Line(
                    "", title, "director", f"{event.decision.decision_type}: {event.decision.rationale}"
                )
            case e.EscalationOpened():
                yield Line("asked", title, "user", event.reason)
            case e.ReviewApproved() if seen.task.status == Status.DONE:
                checked = event.checked[0] if event.checked else None
                said = f": {checked.path}:{checked.line}: {checked.text}" if checked else ""
                yield Line("done", title, event.reviewer, f"approved by {event.reviewer}{said}")
            case e.TaskSettled():
                yield Line("done", title, "", "its sub-tasks have ended")
            case e.TaskCancelled():
                yield Line("cancelled", title, event.meta.actor, event.reason)
            case _ if isinstance(event, TOLD):
                yield Line("", title, "", words(event))

    def _beginning(self, event: e.RunStarted) -> str:
        known = (event.task_id, event.agent) in self._begun
        self._begun.add((event.task_id, event.agent))
        return "goes on, with what it was told" if known else "begins"

    def _ending(self, event: e.RunEnded, title: str) -> Iterator[Line]:
        if event.is_fault or event.how != e.How.EXITED:
            yield Line("", title, event.agent, f"{words(event)} (nobody's blame)")
        for said in self._log_of(event.run_id).splitlines():
            if said and not said.startswith("{"):
                yield Line("", title, event.agent, said if said.startswith("|") else f"“{said}”")

"""What a reviewer or director that is an agent says in the end, as what it asks the ledger: by its own rights, once."""

from __future__ import annotations

from remand.app.asking import Request
from remand.domain import commands as c
from remand.domain.events import Purpose
from remand.domain.reviewing.answer import Approved, Rejected, review
from remand.domain.reviewing.blocks import Unclear
from remand.domain.reviewing.decision import decision
from remand.domain.runs import Run
from remand.domain.task import TERMINAL, Status, Task


def opinion(run: Run, task: Task, text: str, repository: str = "") -> Request | Unclear | None:
    """What follows from the last words of a run, given the task as it is now; None when nothing is left to say.

    That is so when the agent has spoken already, through its own door, or somebody else has settled the matter.
    `repository` is the address of the project's own repository: links into it stay in findings.
    """
    match run.purpose:
        case Purpose.REVIEW:
            return _review(run, task, text, repository)
        case Purpose.DIRECT:
            return _decision(run, task, text)
        case _:
            return None


def _review(run: Run, task: Task, text: str, repository: str) -> Request | Unclear | None:
    is_open, is_sent_back = _is_awaited(run, task), _is_sent_back_by_others(run, task)
    if not is_open and not is_sent_back:
        return None
    match review(text, run.id, repository):
        case Approved() as yes:
            ask = c.ApproveReview(task_id=task.id, commit=run.about, checked=yes.checked)
            return _asked(run, ask) if is_open else None
        case Rejected() as no:
            return _asked(run, c.RejectReview(task_id=task.id, commit=run.about, findings=no.findings))
        case unclear:
            return unclear


def _is_awaited(run: Run, task: Task) -> bool:
    """True while what it was shown is still under review."""
    work = task.submission
    return task.status == Status.PROVISIONAL and work is not None and work.commit == run.about


def _is_sent_back_by_others(run: Run, task: Task) -> bool:
    """True when others have rejected the same work meanwhile: what it found goes with what they found."""
    work = task.submission
    known = task.sent_back(work.handoff_id, work.tree) if work and work.commit == run.about else None
    if known is None or task.status in TERMINAL:
        return False
    return all(one.reviewer != run.agent for one in known.reviews)


def _decision(run: Run, task: Task, text: str) -> Request | Unclear | None:
    filed = task.filed
    if filed is None or filed.decision or filed.rejection_id != run.about or task.status != Status.BLOCKED:
        return None
    found = decision(text, run.id)
    return found if isinstance(found, Unclear) else _asked(run, found.ask(filed.handoff_id))


def _asked(run: Run, ask: c.ApproveReview | c.RejectReview | c.AnswerRejection) -> Request:
    return Request(ask=ask, actor=run.agent, confined=True, key=f"{run.id}:opinion")

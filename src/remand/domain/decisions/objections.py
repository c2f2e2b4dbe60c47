"""Decisions on objections: an approval waits for the user's answer, which is given once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from remand.domain import commands as c
from remand.domain import preconditions as r
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutSet, ObjectionsDismissed, ReviewRejected
from remand.domain.events.tasks import HandoffRejected
from remand.domain.events.work import FindingRefused, GateHeld, GateRejected
from remand.domain.facts import Facts
from remand.domain.instant import Instant
from remand.domain.refusals import Refused
from remand.domain.task import Objection, Task


def objected_work(event: Event) -> str | None:
    """The code tree or commit that an event objects to; empty if it names none, None if it is not an objection.

    A lockout that follows from a rejection concerns what was rejected; it names the rejection instead of a code tree.
    """
    match event:
        case ReviewRejected():
            return event.tree or event.commit
        case GateRejected() | GateHeld():
            return event.verdict.tree or event.verdict.commit
        case LockoutSet():
            return event.review_id
        case HandoffRejected() | FindingRefused():
            return ""
        case _:
            return None


DISMISS, DISMISS_ALL = "dismiss", "dismiss_all"
_KEY_PART = "/key-"
MAX_ANSWERS = 3
"""How often the user is asked about one key and task. Later objections of the key are shown but block nothing."""
MAX_WORKS = 20
"""How many pieces of work one answer about a key covers."""


def submitted_works(task: Task) -> tuple[str, ...]:
    """What objections to the submission name: its code tree, its commit, or no work at all."""
    work = task.submission
    return ("", *filter(None, (work.tree, work.commit))) if work else ()


def is_objection_answered(task: Task, objection: Objection) -> bool:
    """True if the user has dismissed an objection, or was asked about its key and this task often enough."""
    known = is_key_answered(task, objection.signer, objection.at)
    if known is not None:
        return known
    of_key = [one for one in task.inbox.dismissals if one.signer == objection.signer]
    if any(not objection.work or objection.work in one.works for one in of_key):
        return True
    named = {objection.work} if objection.work else set(submitted_works(task))
    return any(named & set(one.works) for one in task.inbox.dismissals if not one.signer)


def is_key_answered(task: Task, signer: str, latest: Instant) -> bool | None:
    """Whether all of a key's objections to a task up to a time are answered; None if that depends on the work they name."""
    answers = [one for one in task.inbox.dismissals if one.signer in (signer, "")]
    if sum(one.signer == signer for one in answers) >= MAX_ANSWERS:
        return True
    if any(latest <= one.at for one in answers if not one.signer):
        return True
    return None if answers else False


def open_objections(task: Task, objections: Iterable[Objection]) -> Iterator[Objection]:
    """The unanswered objections."""
    return (one for one in objections if not task.is_terminal and not is_objection_answered(task, one))


def require_objections_answered(task: Task, facts: Facts) -> None:
    """Refuses to approve work with objections under untrusted keys until the user has answered them."""
    objections = facts.objections
    if not objections:
        return
    quotes = "; ".join(f"key {one.signer}: {one.text}" for one in objections)
    raise Refused(
        "unconfirmed_no",
        f"Somebody whose key is not trusted here objects to this work, and the user has not answered yet. {quotes}. "
        f"The user either trusts the key ({trust_command(objections[0].signer)}) or dismisses the objection: "
        f"`{dismiss_command(task, objections[0].signer)}`.",
    )


def trust_command(signer: str) -> str:
    """How to trust a key. Its id does not contain the key."""
    return f"`remand keys trust KEY --write`, with the KEY that `remand keys` prints on its machine; its id is {signer}"


def question_id(task: Task, signer: str) -> str:
    """The id of the question about a key's objections."""
    return f"{task.id}{_KEY_PART}{signer}"


def parse_question_id(name: str) -> tuple[str, str]:
    """The task and key in such a question's id; no key for any other id."""
    task, _, key = name.rpartition(_KEY_PART)
    return (task, key) if task and key else ("", "")


def dismiss_command(task: Task, signer: str) -> str:
    """The command with which the user dismisses a key's objections."""
    return f"remand inbox answer {question_id(task, signer)} {DISMISS} --guidance REASON"


def dismiss_objections(
    task: Task, command: c.DismissObjections, context: c.CommandContext
) -> tuple[Event, ...]:
    """Dismisses one key's objections to this task, or all those under untrusted keys so far.

    The first records the work concerned; the second records the work under review, for every key.
    """
    r.require_text("reason", command.reason, may_be_empty=False)
    objections = context.facts.objections
    if not objections:
        whom = f"of key {command.signer[:16]} " if command.signer else ""
        raise Refused("nothing_to_answer", f"No objection {whom}to task {task.id} waits for an answer.")
    own = tuple(filter(None, submitted_works(task)))
    works = _sort_works(own, objections) if command.signer else own
    return (ObjectionsDismissed(task_id=task.id, signer=command.signer, works=works, reason=command.reason),)


def _sort_works(own: Sequence[str], objections: Iterable[Objection]) -> tuple[str, ...]:
    """The works that objections name, those under review first."""
    named = dict.fromkeys(one.work for one in objections if one.work)
    return tuple(sorted(named, key=lambda work: work not in own))[:MAX_WORKS]

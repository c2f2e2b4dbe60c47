"""Objections under untrusted keys: their content, their keys, and how to answer them."""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.history.activity import event_text
from remand.app.inbox.questions import WAIT, Question
from remand.domain import commands as c
from remand.domain.decisions.escalations import EscalationOption
from remand.domain.decisions.objections import (
    DISMISS,
    DISMISS_ALL,
    MAX_WORKS,
    dismiss_command,
    is_key_answered,
    is_objection_answered,
    open_objections,
    question_id,
    submitted_works,
    trust_command,
)
from remand.domain.events.work import GateHeld, GateRejected
from remand.domain.instant import Instant
from remand.domain.policy import IGNORE, Policy
from remand.domain.record import Record
from remand.domain.refusals import require_option
from remand.domain.task import Objection, Task
from remand.domain.text.redaction import redact
from remand.domain.text.words import single_line
from remand.ledger import codec
from remand.ledger.event_tables import KeptObjection
from remand.ledger.store import Transaction

OBJECTION_KIND = "objection"
MAX_LISTED = 20
"""The most objections listed in the inbox, and shown per task."""
MAX_QUOTED = 3
"""The most events quoted per key."""
OBJECTION_OPTIONS = (
    EscalationOption(
        key=DISMISS, text="Dismiss this key's objections to the task: approvals no longer wait for them"
    ),
    EscalationOption(
        key=DISMISS_ALL, text="Dismiss all objections to the task so far by keys that are not trusted"
    ),
)


class KeyObjections(Record, kw_only=True, omit_defaults=False):
    """One untrusted key's objections to a task."""

    task_id: str
    signer: str
    """The key's id as claimed by the events."""
    events: int
    """The number of rejecting events."""
    said: tuple[str, ...]
    """Their text, one line each; of very many only the first."""
    since: Instant
    is_open: bool
    """Whether it waits for the user's answer."""
    is_dismissed: bool
    """Whether the user has answered all of it."""
    holds_up: bool
    """Whether an approval of the submission waits for that answer."""
    trust: str
    """How to trust the key."""
    dismiss: str
    """The command with which the user dismisses it."""

    @property
    def text(self) -> str:
        more = f" and {self.events - len(self.said)} more" if self.events > len(self.said) else ""
        return f"key {self.signer}, which is not trusted, says: {'; '.join(self.said)}{more}"


class TaskObjections(NamedTuple):
    """All untrusted keys' objections to a task."""

    shown: tuple[KeyObjections, ...] = ()
    """Unanswered ones first."""
    more: int = 0
    """How many keys are not shown."""

    @property
    def keys(self) -> int:
        return len(self.shown) + self.more


class ObjectionQuestion(Question, kw_only=True, omit_defaults=False):
    """One key's objections to a task as a question to the user; or the number of unlisted ones, without options."""

    signer: str = ""
    events: int = 0
    trust: str = ""
    dismiss: str = ""


def task_objections(view: Transaction, task: Task, *, most: int = MAX_LISTED) -> TaskObjections:
    """The objections to a task: unanswered ones first, then in order of arrival."""
    keys = [(not _is_key_open(view, task, key), key.place, key) for key in view.objections.keys(task.id)]
    objections = tuple(_key_objections(view, task, key) for _, _, key in sorted(keys)[:most])
    return TaskObjections(objections, len(keys) - len(objections))


def open_task_objections(view: Transaction, task: Task) -> TaskObjections:
    """The unanswered objections to a task in order of arrival."""
    keys = [key for key in view.objections.keys(task.id) if _is_key_open(view, task, key)]
    keys.sort(key=lambda key: key.place)
    return TaskObjections(
        tuple(_key_objections(view, task, key) for key in keys[:MAX_LISTED]), len(keys[MAX_LISTED:])
    )


def _is_key_open(view: Transaction, task: Task, key: KeptObjection) -> bool:
    """True if an objection of the key is unanswered."""
    return not task.is_terminal and not _is_all_answered(view, task, key)


def _is_all_answered(view: Transaction, task: Task, key: KeptObjection) -> bool:
    known = is_key_answered(task, key.signer, key.at)
    if known is not None:
        return known
    objections = view.objections.of_task(task.id, signer=key.signer)
    return all(is_objection_answered(task, _objection(one)) for one in objections)


def blocking_objections(view: Transaction, task: Task) -> tuple[Objection, ...]:
    """The objections that must be answered before the submission can be approved; only some if there are very many."""
    works = submitted_works(task)
    stored = view.objections.of_task(task.id, works=works) if works else []
    objections = [one for one in stored if any(open_objections(task, (_objection(one),)))]
    return tuple(
        replace(_objection(one), text=quote_event(view, one.place)) for one in objections[:MAX_QUOTED]
    )


def objections_answered_by(view: Transaction, task: Task, signer: str) -> tuple[Objection, ...]:
    """The objections that an answer about one key or all keys would dismiss; only some if there are very many."""
    if signer:
        objections = map(_objection, view.objections.of_task(task.id, signer=signer))
        return tuple(islice(open_objections(task, objections), MAX_WORKS))
    keys = (key for key in view.objections.keys(task.id) if _is_key_open(view, task, key))
    return tuple(map(_objection, islice(keys, 1)))


def dismissal_command(task_id: str, signer: str, option: str, reason: str) -> c.DismissObjections:
    """The command for an option of such a question."""
    require_option(option, (DISMISS, DISMISS_ALL))
    return c.DismissObjections(task_id=task_id, signer=signer if option == DISMISS else "", reason=reason)


def objection_questions(view: Transaction, policy: Policy) -> list[ObjectionQuestion]:
    """The inbox's questions: one per key and task, up to a limit, from all tasks in turn."""
    if policy.unconfirmed_no == IGNORE:
        return []
    found = [(task, open_task_objections(view, task)) for task in view.objections.tasks()]
    turns = sorted(
        (turn, task.id, number)
        for number, (task, objections) in enumerate(found)
        for turn in range(len(objections.shown))
    )
    listed = [
        _objection_question(found[number][0], found[number][1].shown[turn], found[number][1].keys)
        for _, turn, number in sorted((name, turn, number) for turn, name, number in turns[:MAX_LISTED])
    ]
    left = sum(objections.keys for _, objections in found) - len(listed)
    return [*listed, *([_more_objections(left, listed[-1])] if left else [])]


def _objection_question(task: Task, objections: KeyObjections, keys: int) -> ObjectionQuestion:
    options = OBJECTION_OPTIONS[: min(keys, 2)]
    numbered = ", ".join(f"{number}) {option.text}" for number, option in enumerate(options, start=1))
    label = task.label[:1].upper() + task.label[1:]
    holds = " An approval of the work waits for your answer." if objections.holds_up else ""
    others = f" {keys - 1} other keys that are not trusted object to it too." if keys > 2 else ""
    others = " Another key that is not trusted objects to it too." if keys == 2 else others
    return ObjectionQuestion(
        escalation_id=question_id(task, objections.signer),
        task_id=task.id,
        title=task.title,
        kind=OBJECTION_KIND,
        question=(
            f"{label}: {objections.text}. It has no effect.{holds}{others} If you know that machine, trust its key: "
            f"{objections.trust}. Options: {numbered}."
        ),
        options=options,
        deadline="",
        default=WAIT,
        since=objections.since,
        signer=objections.signer,
        events=objections.events,
        trust=objections.trust,
        dismiss=objections.dismiss,
    )


def _more_objections(count: int, last: ObjectionQuestion) -> ObjectionQuestion:
    """Says how many objections are not listed."""
    items = "1 more item" if count == 1 else f"{count} more items"
    return ObjectionQuestion(
        escalation_id="objections",
        task_id=last.task_id,
        title="Further objections",
        kind=OBJECTION_KIND,
        question=(
            f"There are at least {items} of this kind, one for each key and task. `{DISMISS_ALL}` answers all of one "
            'task; `remand task show ID` shows them; [policy] unconfirmed_no = "ignore" asks about none. Options: none.'
        ),
        options=(),
        deadline="",
        default=WAIT,
        since=last.since,
    )


def _key_objections(view: Transaction, task: Task, key: KeptObjection) -> KeyObjections:
    """One key's objections, those to the submission first."""
    works, signer = submitted_works(task), key.signer
    own = view.objections.of_task(task.id, works=works, signer=signer) if works else []
    objections = [one for one in own if any(open_objections(task, (_objection(one),)))]
    places = dict.fromkeys([*(one.place for one in objections), key.place])
    return KeyObjections(
        task_id=task.id,
        signer=signer,
        events=key.events,
        said=tuple(quote_event(view, place) for place in list(places)[:MAX_QUOTED]),
        since=codec.decode_stored_line(view.objections.line(key.place)).ts,
        is_open=_is_key_open(view, task, key),
        is_dismissed=_is_all_answered(view, task, key),
        holds_up=bool(objections),
        trust=trust_command(signer),
        dismiss=dismiss_command(task, signer),
    )


def quote_event(view: Transaction, place: int) -> str:
    """An event on one line: who claims to have said what about which commit."""
    event = codec.decode_stored_line(view.objections.line(place))
    commit = event.verdict.commit if isinstance(event, GateRejected | GateHeld) else ""
    about = f" ({commit[:12]})" if commit else ""
    who = event.meta.actor or "somebody"
    return single_line(redact(f"{event_text(event)}{about}, written by {who} at {event.ts[:19]}"))


def _objection(objection: KeptObjection) -> Objection:
    return Objection(signer=objection.signer, work=objection.work, at=objection.at)

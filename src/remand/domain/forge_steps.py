"""What follows from the events of acts on a forge."""

from __future__ import annotations

from msgspec.structs import replace

from remand.domain import events as e
from remand.domain.acts import Act, GivenUp, Intent, OnForge
from remand.domain.steps import bounded
from remand.domain.task import Task

MAX_GIVEN_UP = 20
MAX_TRIES_KEPT = 1000
_ACTS = frozenset(Act)


def imported(task: Task, event: e.IssueImported) -> Task:
    """The first word on where a task comes from holds."""
    if task.forge.issue or event.issue <= 0:
        return task
    return replace(task, forge=replace(task.forge, issue=event.issue))


def submitted(task: Task, event: e.TaskSubmitted | e.HandoffCompleted) -> OnForge:
    """What is known of the forge once work is handed in: who named the branch. On another branch nothing was pushed."""
    is_moved = event.is_branch_given and event.branch != task.branch
    if not event.branch or (task.branch and not is_moved):
        return task.forge
    return replace(task.forge, is_branch_agents=True, pushed="" if task.branch else task.forge.pushed)


def intended(task: Task, event: e.ActIntended) -> Task:
    """Two ledgers may intend the same; each looks at the forge before it acts."""
    if event.act not in _ACTS:
        return task
    known = task.forge.intent
    if known is not None and (known.act, known.about) == (event.act, event.about):
        return task
    intent = Intent(act=Act(event.act), about=event.about)
    return replace(
        task,
        forge=replace(task.forge, intent=intent, given_up=_without(task.forge, intent.act, intent.about)),
    )


def done(task: Task, event: e.ActDone) -> Task:
    """Notes what is so on the forge now."""
    if event.act not in _ACTS:
        return task
    act = Act(event.act)
    forge = replace(
        task.forge,
        intent=_settled(task.forge, act, event.about),
        given_up=_without(task.forge, act, event.about),
    )
    match act:
        case Act.PUSH:
            return replace(task, forge=replace(forge, pushed=event.about))
        case Act.OPEN:
            return replace(task, forge=forge, pr=event.pr if event.pr > 0 else task.pr)
        case Act.REQUEST:
            return replace(task, forge=replace(forge, requested=event.about))
        case Act.MERGE:
            return replace(task, forge=replace(forge, merged=event.about))
        case Act.CLOSE:
            return replace(task, forge=replace(forge, is_closed=True))


def failed(task: Task, event: e.ActFailed) -> Task:
    """Waits for a while, or gives the act up."""
    intent = task.forge.intent
    is_begun = intent is not None and (intent.act, intent.about) == (event.act, event.about)
    if event.act not in _ACTS or not (is_begun or (intent is None and event.is_final)):
        return task
    act, about = Act(event.act), event.about
    if intent is not None and not event.is_final:
        tries = max(0, min(event.tries, MAX_TRIES_KEPT))
        until = bounded(event.until, event.ts)
        waits = replace(intent, tries=tries, until=until, why=event.why)
        return replace(task, forge=replace(task.forge, intent=waits))
    given_up = GivenUp(act=act, about=about, why=event.why)
    rest = _without(task.forge, act, about)
    return replace(task, forge=replace(task.forge, intent=None, given_up=(*rest, given_up)[-MAX_GIVEN_UP:]))


def _settled(forge: OnForge, act: Act, about: str) -> Intent | None:
    """The intent that is left when an act is known to have happened."""
    intent = forge.intent
    return None if intent is not None and (intent.act, intent.about) == (act, about) else intent


def _without(forge: OnForge, act: Act, about: str) -> tuple[GivenUp, ...]:
    return tuple(one for one in forge.given_up if (one.act, one.about) != (act, about))

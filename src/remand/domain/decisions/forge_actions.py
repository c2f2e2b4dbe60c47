"""Decisions on actions on a forge: what is due for a task, within the policy and the rules."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256

from remand.domain import commands as c
from remand.domain import ids
from remand.domain import preconditions as r
from remand.domain.decisions.findings import is_still_rejected
from remand.domain.decisions.notices import NOTICE_DUE
from remand.domain.events.event import Events
from remand.domain.events.work import ActDone, ActFailed, ActIntended, IssueImported
from remand.domain.forge import ForgeAction
from remand.domain.instant import add_seconds, is_instant
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status, Submission, Task

PLANNED = "intent"
"""Stands for any action that has begun, whatever the policy is now."""
RETRY_DELAYS = (60.0, 240.0, 960.0, 3600.0, 14_400.0, 43_200.0, 86_400.0)
"""Seconds to wait after each failure of an action; after one more failure it is given up."""
MAX_WHY = 500
MAX_FORGE_CLOCK_LEAD = 3600.0
"""How far ahead of ours the forge's clock may be, in seconds."""
ALL_ACTIONS = tuple(ForgeAction)


def allowed_actions(policy: Policy) -> tuple[ForgeAction, ...]:
    """The actions that a policy allows."""
    allowed = {
        ForgeAction.PUSH: policy.open_pr,
        ForgeAction.OPEN: policy.open_pr,
        ForgeAction.REQUEST: policy.request_review,
        ForgeAction.MERGE: policy.merge_on_approve,
        ForgeAction.CLOSE: policy.close_issue,
    }
    return tuple(act for act in ForgeAction if allowed[act])


# What is due.


def due_action(
    task: Task, acts: Collection[str], *, is_again: bool = False
) -> tuple[ForgeAction, str] | None:
    """The next action for a task and its subject; None if there is none, or the next one was given up.

    With `is_again`, an action that was given up is due as well.
    """
    found = next(_remaining_actions(task, acts), None)
    return None if found is None or (task.forge.find_abandoned(*found) and not is_again) else found


def _remaining_actions(task: Task, acts: Collection[str]) -> Iterator[tuple[ForgeAction, str]]:
    """The remaining actions for a task in order."""
    forge, work = task.forge, task.submission
    if task.status == Status.PROVISIONAL and work is not None:
        if ForgeAction.PUSH in acts and task.branch and forge.pushed != work.commit:
            yield ForgeAction.PUSH, work.commit
        if ForgeAction.OPEN in acts and task.branch and not task.pr and forge.pushed == work.commit:
            yield ForgeAction.OPEN, work.commit
        if ForgeAction.REQUEST in acts and task.pr and forge.requested != work.commit:
            yield ForgeAction.REQUEST, work.commit
    if task.status == Status.DONE and ForgeAction.MERGE in acts and _awaits_merge(task):
        yield ForgeAction.MERGE, task.reviews.approved_commit
    if ForgeAction.CLOSE in acts and forge.issue and not forge.is_closed and _has_ended(task):
        yield ForgeAction.CLOSE, ""


def _awaits_merge(task: Task) -> bool:
    approved, work = task.reviews.approved_commit, task.submission
    is_approved = bool(task.pr and approved) and work is not None and work.commit == approved
    return is_approved and task.forge.merged != approved and not is_still_rejected(task)


def _has_ended(task: Task) -> bool:
    """True if a task is done or cancelled; one that was replaced by another is neither."""
    return task.status == Status.DONE or (task.status == Status.CANCELLED and not task.links.superseded_by)


_WITH_ACTIONS = frozenset({Status.PROVISIONAL, Status.DONE, Status.CANCELLED})
"""The statuses in which actions may remain."""


def due_kinds(task: Task) -> tuple[str, ...]:
    """The kinds of external work that may be due for a task, used as an index key."""
    if task.status not in _WITH_ACTIONS and task.forge.intent is None and not task.inbox.notices:
        return ()
    return (*due_forge_kinds(task), *((NOTICE_DUE,) if task.inbox.notices else ()))


def due_forge_kinds(task: Task) -> tuple[str, ...]:
    """The kinds of forge actions that may be due for a task under any policy."""
    planned = (PLANNED,) if task.forge.intent is not None else ()
    is_on_forge = task.status is Status.PROVISIONAL or task.pr or task.forge.issue
    if task.status not in _WITH_ACTIONS or not is_on_forge:
        return planned
    open_ones = (
        str(act)
        for act, about in _remaining_actions(task, ALL_ACTIONS)
        if task.forge.find_abandoned(act, about) is None
    )
    return (*open_ones, *planned)


def describe_forge_wait(task: Task) -> str:
    """What a task waits for on the forge after a failed action; empty if none failed."""
    intent = task.forge.intent
    if intent is not None and intent.why:
        return f"the forge to {describe_action(task, intent.act)}: {intent.why} The next attempt is at {intent.until}."
    wanted = dict(_remaining_actions(task, ALL_ACTIONS))
    given_up = next((one for one in task.forge.given_up if wanted.get(one.act) == one.about), None)
    if given_up is None:
        return ""
    return f"somebody to {describe_action(task, given_up.act)}: Remand gave up. {given_up.why} `remand sync --again` tries it once more."


def describe_action(task: Task, act: ForgeAction) -> str:
    """An action in words."""
    match act:
        case ForgeAction.PUSH:
            return f"take {_short_commit(task)} on the branch {task.branch}"
        case ForgeAction.OPEN:
            return f"open a pull request of {task.branch}"
        case ForgeAction.REQUEST:
            return f"ask for a review of pull request #{task.pr}"
        case ForgeAction.MERGE:
            return f"merge pull request #{task.pr}"
        case ForgeAction.CLOSE:
            return f"close issue #{task.forge.issue}"


def _short_commit(task: Task) -> str:
    return task.submission.commit[:12] if task.submission else "the work"


# What may be done.


def plan_action(task: Task, command: c.PlanForgeAction, context: c.CommandContext) -> Events:
    """Begins a permitted action. One that has begun adds no event."""
    if command.act not in context.facts.forge_actions:
        raise Refused("policy_off", f"The policy does not let Remand {describe_action(task, command.act)}.")
    _require_possible(task, command, context)
    forge = task.forge
    if forge.intent is not None:
        if (forge.intent.act, forge.intent.about) == (command.act, command.about):
            return ()
        raise Refused(
            "not_due", f"It is not known yet whether Remand could {describe_action(task, forge.intent.act)}."
        )
    given_up = forge.find_abandoned(command.act, command.about)
    if given_up is not None and not command.is_again:
        raise Refused("given_up", f"Remand gave up on that: {given_up.why}")
    return (
        ActIntended(
            task_id=task.id,
            act=command.act,
            about=command.about,
            branch=task.branch if command.act in (ForgeAction.PUSH, ForgeAction.OPEN) else "",
            base=command.base if command.act is ForgeAction.OPEN else "",
            pr=task.pr,
            issue=forge.issue if command.act is ForgeAction.CLOSE else 0,
        ),
    )


def _require_possible(task: Task, command: c.PlanForgeAction, context: c.CommandContext) -> None:
    """Refuses an action that the task's state does not permit."""
    match command.act:
        case ForgeAction.PUSH | ForgeAction.OPEN:
            _require_submitted(task, command)
            _require_own_branch(task, command)
        case ForgeAction.REQUEST:
            _require_submitted(task, command)
            _require_pull_request(task)
        case ForgeAction.MERGE:
            _require_pull_request(task)
            _require_approved(task, command)
            r.require_whole_log(task, context.facts)
        case ForgeAction.CLOSE:
            _require_ended(task, command, context)


def _require_submitted(task: Task, command: c.PlanForgeAction) -> Submission:
    work = task.submission
    if work is None or task.status != Status.PROVISIONAL:
        raise Refused(
            "nothing_to_review", f"Task {task.id} is {task.status}; it has no submission that awaits review."
        )
    if work.commit != command.about:
        raise Refused(
            "stale_review",
            f"The action names {command.about[:12]}, but the latest submission is {work.commit[:12]}.",
        )
    return work


def _require_own_branch(task: Task, command: c.PlanForgeAction) -> None:
    """Refuses to push unapproved work to the branch that it will be merged into."""
    if not task.branch or not command.base:
        missing = "branch" if not task.branch else "base to merge into"
        raise Refused("bad_value", f"Task {task.id} has no {missing}, so there can be no pull request.")
    if task.branch == command.base:
        raise Refused(
            "bad_value", f"Task {task.id} was done on {command.base} itself; give it another branch."
        )


def _require_pull_request(task: Task) -> None:
    if not task.pr:
        raise Refused("not_due", f"Task {task.id} has no pull request.")


def _require_approved(task: Task, command: c.PlanForgeAction) -> None:
    """Refuses to merge anything but the approved commit of a done task."""
    work, approved = task.submission, task.reviews.approved_commit
    if task.status != Status.DONE or not approved or work is None or work.commit != approved:
        raise Refused("not_approved", f"Task {task.id} is {task.status}; no commit of it is approved.")
    if command.about != approved:
        raise Refused("not_approved", f"{approved[:12]} was approved, not {command.about[:12] or 'nothing'}.")
    if is_still_rejected(task):
        raise Refused("rejected_before", f"A rejection of {approved[:12]} is in force, so it is not merged.")


def _require_ended(task: Task, command: c.PlanForgeAction, context: c.CommandContext) -> None:
    if not task.forge.issue:
        raise Refused("not_due", f"Task {task.id} was not created from an issue.")
    if command.about:
        raise Refused("bad_value", "An issue is closed with its task, not at a commit.")
    if not _has_ended(task):
        raise Refused("not_due", f"Task {task.id} is {task.status}; its issue stays open.")
    if (
        ForgeAction.MERGE in context.facts.forge_actions
        and task.status == Status.DONE
        and _awaits_merge(task)
    ):
        raise Refused("not_due", f"Pull request #{task.pr} of task {task.id} is not merged yet.")


def record_action(task: Task, command: c.RecordForgeAction, context: c.CommandContext) -> Events:
    """Records that a planned action has happened; repeating it changes nothing."""
    r.require_number("pull request number", command.pr)
    r.require_text("address", command.url, 2000)
    if not _is_planned(task, command):
        return ()
    if command.act is ForgeAction.OPEN and not command.pr:
        raise Refused("bad_value", "A pull request that was opened has a number.")
    return (
        ActDone(
            task_id=task.id,
            act=command.act,
            about=command.about,
            pr=command.pr,
            url=command.url,
            is_found=command.is_found,
        ),
    )


def record_action_failure(
    task: Task, command: c.RecordForgeActionFailure, context: c.CommandContext
) -> Events:
    """Records that an action failed: it is retried a few times with growing delays.

    An action that can never succeed is given up before it begins.
    """
    intent = task.forge.intent
    if intent is None and (not command.is_final or task.forge.find_abandoned(command.act, command.about)):
        return ()
    if intent is not None and not _is_planned(task, command):
        return ()
    tries = intent.tries + 1 if intent is not None else 0
    is_final = command.is_final or tries > len(RETRY_DELAYS)
    return (
        ActFailed(
            task_id=task.id,
            act=command.act,
            about=command.about,
            why=command.why[:MAX_WHY],
            tries=tries,
            until="" if is_final else add_seconds(context.at, RETRY_DELAYS[tries - 1]),
            is_final=is_final,
        ),
    )


def _is_planned(task: Task, command: c.RecordForgeAction | c.RecordForgeActionFailure) -> bool:
    intent = task.forge.intent
    return intent is not None and (intent.act, intent.about) == (command.act, command.about)


# Where tasks come from.


def issue_task_id(command: c.ImportIssue) -> str:
    """The id of an issue's task, the same in every ledger; empty if the issue has no creation time.

    No task is older than its id says, so the time in it is a little before the issue's creation on the forge's clock.
    """
    if not is_instant(command.opened_at):
        return ""
    since = add_seconds(command.opened_at, -MAX_FORGE_CLOCK_LEAD)
    return ids.make_id("T", since, sha256(command.source.encode()).hexdigest()[:8])


def require_issue(command: c.ImportIssue, context: c.CommandContext) -> None:
    """Refuses an invalid issue."""
    r.require_text("issue's place", command.source, 300, may_be_empty=False)
    r.require_text("issue's author", command.author, 200)
    r.require_number("issue's number", command.issue)
    if (
        not command.issue
        or not is_instant(command.opened_at)
        or command.opened_at > add_seconds(context.at, MAX_FORGE_CLOCK_LEAD)
    ):
        raise Refused("bad_value", "An issue has a number, and was opened before now.")


def make_issue_import(command: c.ImportIssue, task_id: str) -> IssueImported:
    """The source of a task."""
    return IssueImported(task_id=task_id, issue=command.issue, source=command.source, author=command.author)

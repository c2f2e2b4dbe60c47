"""What may be done on a forge for a task, and what is due: only what the policy allows, only what the rules let through."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from hashlib import sha256

from remand.domain import commands as c
from remand.domain import events as e
from remand.domain import ids
from remand.domain import rules as r
from remand.domain.acts import Act
from remand.domain.gating import is_rejected_still
from remand.domain.instant import is_instant, plus
from remand.domain.notices import TELL
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status, Submission, Task

Events = tuple[e.Event, ...]
INTENT = "intent"
"""In place of an act: one is begun, whichever it is and whatever the policy says now."""
PAUSES = (60.0, 240.0, 960.0, 3600.0, 14_400.0, 43_200.0, 86_400.0)
"""How long an act waits after each failure, in seconds; after one more it is given up."""
MAX_WHY = 500
CLOCKS_APART = 3600.0
"""So many seconds the forge's clock may be ahead of ours."""
EVERY = tuple(Act)


def acts_of(policy: Policy) -> tuple[Act, ...]:
    """The acts that a policy allows."""
    allowed = {
        Act.PUSH: policy.open_pr,
        Act.OPEN: policy.open_pr,
        Act.REQUEST: policy.request_review,
        Act.MERGE: policy.merge_on_approve,
        Act.CLOSE: policy.close_issue,
    }
    return tuple(act for act in Act if allowed[act])


# What is due.


def due(task: Task, acts: Collection[str], *, is_again: bool = False) -> tuple[Act, str] | None:
    """The next act for a task, and what it is about; None when there is none, or the next one was given up.

    What was given up is due as well when it is to be tried again.
    """
    found = next(_next(task, acts), None)
    return None if found is None or (task.forge.has_given_up(*found) and not is_again) else found


def _next(task: Task, acts: Collection[str]) -> Iterator[tuple[Act, str]]:
    """The acts that are left for a task as it stands, in their order."""
    forge, work = task.forge, task.submission
    if task.status == Status.PROVISIONAL and work is not None:
        if Act.PUSH in acts and task.branch and forge.pushed != work.commit:
            yield Act.PUSH, work.commit
        if Act.OPEN in acts and not task.pr and forge.pushed == work.commit:
            yield Act.OPEN, work.commit
        if Act.REQUEST in acts and task.pr and forge.requested != work.commit:
            yield Act.REQUEST, work.commit
    if task.status == Status.DONE and Act.MERGE in acts and _is_to_merge(task):
        yield Act.MERGE, task.approved_commit
    if Act.CLOSE in acts and forge.issue and not forge.is_closed and _has_ended(task):
        yield Act.CLOSE, ""


def _is_to_merge(task: Task) -> bool:
    is_approved = bool(task.pr and task.approved_commit) and task.forge.merged != task.approved_commit
    return is_approved and not is_rejected_still(task)


def _has_ended(task: Task) -> bool:
    """True when a task is done, or will never be; one that another has taken the place of is neither."""
    return task.status == Status.DONE or (task.status == Status.CANCELLED and not task.superseded_by)


def errands(task: Task) -> tuple[str, ...]:
    """What may be due for a task outside of the ledger: what it can be found by among thousands."""
    return (*forge_errands(task), *((TELL,) if task.notices else ()))


def forge_errands(task: Task) -> tuple[str, ...]:
    """What may be due for a task on the forge, whatever the policy is."""
    open_ones = (str(act) for act, about in _next(task, EVERY) if task.forge.has_given_up(act, about) is None)
    return (*open_ones, *((INTENT,) if task.forge.intent is not None else ()))


def waits_for(task: Task) -> str:
    """What a task waits for on the forge because an act failed; empty when none did."""
    intent = task.forge.intent
    if intent is not None and intent.why:
        return f"the forge to {told(task, intent.act)}: {intent.why} It is tried again at {intent.until}."
    wanted = dict(_next(task, EVERY))
    given_up = next((one for one in task.forge.given_up if wanted.get(one.act) == one.about), None)
    if given_up is None:
        return ""
    return (
        f"somebody to {told(task, given_up.act)}: it was given up. {given_up.why} "
        "`remand sync --again` has it tried once more."
    )


def told(task: Task, act: Act) -> str:
    """An act in words."""
    match act:
        case Act.PUSH:
            return f"take {_short(task)} on the branch {task.branch}"
        case Act.OPEN:
            return f"open a pull request of {task.branch}"
        case Act.REQUEST:
            return f"ask for a review of pull request #{task.pr}"
        case Act.MERGE:
            return f"merge pull request #{task.pr}"
        case Act.CLOSE:
            return f"close issue #{task.forge.issue}"


def _short(task: Task) -> str:
    return task.submission.commit[:12] if task.submission else "the work"


# What may be done.


def intend(task: Task, ask: c.IntendAct, command: c.Command) -> Events:
    """Begins an act that is allowed now. For one that is begun already nothing is added."""
    if ask.act not in command.facts.acts:
        raise Refused("policy_off", f"The policy does not let Remand {told(task, ask.act)}.")
    _require(task, ask, command)
    forge = task.forge
    if forge.intent is not None:
        if (forge.intent.act, forge.intent.about) == (ask.act, ask.about):
            return ()
        raise Refused("not_due", f"Whether Remand could {told(task, forge.intent.act)} is not known yet.")
    given_up = forge.has_given_up(ask.act, ask.about)
    if given_up is not None and not ask.is_again:
        raise Refused("given_up", f"That was given up: {given_up.why}")
    return (
        e.ActIntended(
            task_id=task.id,
            act=ask.act,
            about=ask.about,
            branch=task.branch if ask.act in (Act.PUSH, Act.OPEN) else "",
            base=ask.base if ask.act is Act.OPEN else "",
            pr=task.pr,
            issue=forge.issue if ask.act is Act.CLOSE else 0,
        ),
    )


def _require(task: Task, ask: c.IntendAct, command: c.Command) -> None:
    """Refuses an act that the task as it stands does not bear."""
    match ask.act:
        case Act.PUSH | Act.OPEN:
            _require_submitted(task, ask)
            _require_own_branch(task, ask)
        case Act.REQUEST:
            _require_submitted(task, ask)
            _require_pull_request(task)
        case Act.MERGE:
            _require_pull_request(task)
            _require_approved(task, ask)
            r.require_whole_log(task, command.facts)
        case Act.CLOSE:
            _require_over(task, ask, command)


def _require_submitted(task: Task, ask: c.IntendAct) -> Submission:
    work = task.submission
    if work is None or task.status != Status.PROVISIONAL:
        raise Refused("nothing_to_review", f"Task {task.id} is {task.status}; nothing of it awaits review.")
    if work.commit != ask.about:
        raise Refused(
            "stale_review", f"{ask.about[:12]} is meant, but {work.commit[:12]} was submitted last."
        )
    return work


def _require_own_branch(task: Task, ask: c.IntendAct) -> None:
    """Refuses to push work that nobody has approved to the branch that it is to be merged into."""
    if not task.branch or not ask.base:
        missing = "branch" if not task.branch else "base to merge into"
        raise Refused("bad_value", f"Task {task.id} has no {missing}, so there can be no pull request.")
    if task.branch == ask.base:
        raise Refused(
            "bad_value", f"Task {task.id} was done on {ask.base} itself; give it a branch of its own."
        )


def _require_pull_request(task: Task) -> None:
    if not task.pr:
        raise Refused("not_due", f"Task {task.id} has no pull request.")


def _require_approved(task: Task, ask: c.IntendAct) -> None:
    """Refuses to merge anything but the approved commit of a task that is done."""
    work, approved = task.submission, task.approved_commit
    if task.status != Status.DONE or not approved or work is None or work.commit != approved:
        raise Refused("not_approved", f"Task {task.id} is {task.status}; no commit of it is approved.")
    if ask.about != approved:
        raise Refused("not_approved", f"{approved[:12]} was approved, not {ask.about[:12] or 'nothing'}.")
    if is_rejected_still(task):
        raise Refused("rejected_before", f"A rejection of {approved[:12]} stands, so it is not merged.")


def _require_over(task: Task, ask: c.IntendAct, command: c.Command) -> None:
    if not task.forge.issue:
        raise Refused("not_due", f"Task {task.id} was not made from an issue.")
    if ask.about:
        raise Refused("bad_value", "An issue is closed with its task, not at a commit.")
    if not _has_ended(task):
        raise Refused("not_due", f"Task {task.id} is {task.status}; its issue stays open.")
    if Act.MERGE in command.facts.acts and task.status == Status.DONE and _is_to_merge(task):
        raise Refused("not_due", f"Pull request #{task.pr} of task {task.id} is not merged yet.")


def note(task: Task, ask: c.NoteAct, command: c.Command) -> Events:
    """Notes that an act which was intended has happened; what was noted before changes nothing."""
    r.require_number("pull request number", ask.pr)
    r.require_text("address", ask.url, 2000)
    if not _is_intended(task, ask):
        return ()
    if ask.act is Act.OPEN and not ask.pr:
        raise Refused("bad_value", "A pull request that was opened has a number.")
    return (
        e.ActDone(
            task_id=task.id, act=ask.act, about=ask.about, pr=ask.pr, url=ask.url, is_found=ask.is_found
        ),
    )


def note_failure(task: Task, ask: c.NoteActFailure, command: c.Command) -> Events:
    """Notes that an act could not be done: it is tried again, each time later, a few times.

    One that may never be done is given up before it is begun.
    """
    intent = task.forge.intent
    if intent is None and (not ask.is_final or task.forge.has_given_up(ask.act, ask.about)):
        return ()
    if intent is not None and not _is_intended(task, ask):
        return ()
    tries = intent.tries + 1 if intent is not None else 0
    is_final = ask.is_final or tries > len(PAUSES)
    return (
        e.ActFailed(
            task_id=task.id,
            act=ask.act,
            about=ask.about,
            why=ask.why[:MAX_WHY],
            tries=tries,
            until="" if is_final else plus(command.at, PAUSES[tries - 1]),
            is_final=is_final,
        ),
    )


def _is_intended(task: Task, ask: c.NoteAct | c.NoteActFailure) -> bool:
    intent = task.forge.intent
    return intent is not None and (intent.act, intent.about) == (ask.act, ask.about)


# Where tasks come from.


def issue_task_id(ask: c.ImportIssue) -> str:
    """The id of the task that an issue becomes, the same in every ledger; empty when it was opened at no time.

    No task is older than its id says, so the time in it is a while before the issue was opened by the forge's clock.
    """
    if not is_instant(ask.opened_at):
        return ""
    since = plus(ask.opened_at, -CLOCKS_APART)
    return ids.stamp_id("T", since, sha256(ask.source.encode()).hexdigest()[:8])


def require_issue(ask: c.ImportIssue, command: c.Command) -> None:
    """Refuses an issue that cannot be one."""
    r.require_text("issue's place", ask.source, 300, may_be_empty=False)
    r.require_text("issue's author", ask.author, 200)
    r.require_number("issue's number", ask.issue)
    if not ask.issue or not is_instant(ask.opened_at) or ask.opened_at > plus(command.at, CLOCKS_APART):
        raise Refused("bad_value", "An issue has a number, and was opened before now.")


def imported(ask: c.ImportIssue, task_id: str) -> e.IssueImported:
    """Where a task comes from."""
    return e.IssueImported(task_id=task_id, issue=ask.issue, source=ask.source, author=ask.author)

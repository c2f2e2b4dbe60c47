"""The actions on the forge that the policy enables: how each is detected and carried out exactly once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from remand.app.forge.poll import FORGE_PREFIX, ForgeWait, forge_wait
from remand.app.forge.ports import Forge, ForgeFault, ForgeFaultKind, Issues, PollMarks, Pulls, Remote
from remand.app.ledger import Ledger
from remand.app.settings import SettingsSource
from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, THE_COORDINATOR, Actor, Role, Team
from remand.domain.decisions.forge_actions import (
    PLANNED,
    allowed_actions,
    describe_action,
    describe_forge_wait,
    due_action,
)
from remand.domain.decisions.reviews import has_worked_on
from remand.domain.feedback.comments import REMAND_MARK
from remand.domain.feedback.pull_request_reviews import standing_objections
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.forge import Account, ForgeAction, PullState
from remand.domain.instant import Instant, add_seconds
from remand.domain.policy import Policy
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task

MAX_TITLE = 200
_NUMBER = re.compile(r"[#!](?=\d)")
"""The marks with which forges refer to issues or close them."""


class FinalFault(ForgeFault):
    """The action is impossible, and retrying would not help."""

    def __init__(self, message: str) -> None:
        super().__init__(ForgeFaultKind.REFUSED, message)


class ActionResult(NamedTuple):
    """The result of an action."""

    pr: int = 0
    url: str = ""


class ForgeActionHandler(Protocol):
    """Detects and carries out one kind of action for a commit, or for an issue if that is empty. Both raise `ForgeFault`."""

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        """The result if the action has already happened, whoever did it; otherwise None."""

    def do(self, task: Task, about: str) -> ActionResult:
        """Carries it out, right after `find_result` found nothing."""


class PushAction:
    """Pushes the submitted commit to the task's branch: a new one, one of ours, or one that it fast-forwards."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._tips: dict[str, str] = {}

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        self._tips[task.id] = tip = self._remote.tip(task.branch)
        return ActionResult() if tip == about else None

    def do(self, task: Task, about: str) -> ActionResult:
        """Moves the branch from where `find_result` saw it."""
        tip, branch = self._tips[task.id], task.branch
        if self._remote.is_main(branch):
            raise FinalFault(
                f"{branch} is the branch that work is merged into. Give the task another branch."
            )
        is_ours = tip in ("", task.forge.pushed)
        if not is_ours and (task.forge.is_branch_agents or not self._remote.is_ahead(about, tip)):
            raise FinalFault(
                f"The branch {branch} is at {tip[:12]} there, which was not pushed by Remand. "
                "Push the work by hand, or give the task another branch."
            )
        self._remote.push(about, branch, tip)
        return ActionResult()


class OpenAction:
    """Opens a draft pull request for the task's branch, or adopts an existing one."""

    def __init__(self, pulls: Pulls, base: str) -> None:
        self._pulls, self._base = pulls, base

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every handler
        pull = self._pulls.find_open_pull(task.branch, self._base)
        return ActionResult(pull.number, pull.url) if pull else None

    def do(self, task: Task, about: str) -> ActionResult:
        title, text = pull_request_title(task), pull_request_text(task, about)
        opened = self._pulls.open_draft(task.branch, self._base, title, text)
        return ActionResult(opened.number, opened.url)


class RequestReviewAction:
    """Marks the pull request as ready and requests reviewers. Requesting an account twice has no effect."""

    def __init__(self, forge: Forge, team: Team, kind: str) -> None:
        self._forge, self._team, self._kind = forge, team, kind

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every handler
        """Always None: a forge does not say for which commit a review was requested. A missing pull request is a fault."""
        if task.pr not in self._forge.change_marks([task.pr]):
            raise ForgeFault(ForgeFaultKind.MISSING, f"The forge does not show pull request #{task.pr}.")
        return None

    def do(self, task: Task, about: str) -> ActionResult:  # noqa: ARG002 - as every handler
        self._forge.mark_ready(task.pr)
        self._forge.request_review(task.pr, reviewer_accounts(task, self._team, self._kind))
        return ActionResult(task.pr)


class MergeAction:
    """Merges the approved commit while it is the head and no member requests changes."""

    def __init__(self, forge: Forge, find_member: Callable[[Account | None], Actor | None]) -> None:
        self._forge, self._find_member = forge, find_member

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        """The result if it is merged at that commit; raises if it cannot be merged."""
        pull = self._forge.pull_request(task.pr)
        if pull.state is PullState.MERGED and pull.head == about:
            return ActionResult(pull.number, pull.url)
        if pull.state is PullState.MERGED or pull.head != about:
            was = "was merged at" if pull.state is PullState.MERGED else "has moved to"
            raise FinalFault(
                f"Pull request #{pull.number} {was} {pull.head[:12]}; the approved commit is {about[:12]}."
            )
        if pull.state is PullState.CLOSED:
            raise ForgeFault(
                ForgeFaultKind.REFUSED, f"Pull request #{pull.number} was closed without a merge."
            )
        # A member's last review of this commit counts, however late.
        for review in standing_objections(pull):
            actor = self._find_member(review.author)
            if actor is not None:
                raise ForgeFault(
                    ForgeFaultKind.REFUSED,
                    f"{actor.name} requested changes of {pull.head[:12]} there. Settle that, or merge by hand.",
                )
        return None

    def do(self, task: Task, about: str) -> ActionResult:
        """Merges if the commit is the forge's head, and checks that it is merged."""
        self._forge.mark_ready(task.pr)
        self._forge.merge(task.pr, about)
        result = self.find_result(task, about)
        if result is None:
            raise ForgeFault(
                ForgeFaultKind.GARBLED, f"The forge reported no error, but #{task.pr} is not merged."
            )
        return result


class CloseAction:
    """Closes the issue from which the task was created."""

    def __init__(self, issues: Issues) -> None:
        self._issues = issues

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every handler
        issue = self._issues.issue(task.forge.issue)
        return None if issue.is_open else ActionResult(url=issue.url)

    def do(self, task: Task, about: str) -> ActionResult:
        """Closes the issue with a comment, and checks that it is closed."""
        is_done = task.status == Status.DONE
        self._issues.close_issue(task.forge.issue, issue_closing_text(task), is_done=is_done)
        result = self.find_result(task, about)
        if result is None:
            raise ForgeFault(
                ForgeFaultKind.GARBLED,
                f"The forge reported no error, but issue #{task.forge.issue} is still open.",
            )
        return result


def reviewer_accounts(task: Task, team: Team, kind: str) -> list[str]:
    """The accounts to request: those of requested members; else of leads and testers; else the user's."""
    able = [
        member
        for member in team.members
        if REVIEWERS & set(member.roles) and not has_worked_on(task, team.actor(member.name))
    ]
    named = [member for member in able if member.name in task.reviews.requested]
    others = [member for member in able if {Role.LEAD, Role.TESTER} & set(member.roles)]
    accounts: list[str] = []
    for member in named or others or able:
        own = [name.removeprefix(f"{kind}:") for name in member.accounts if name.startswith(f"{kind}:")]
        # By login if one is listed, else by id.
        accounts += [name for name in own if not name.isdecimal()][:1] or own[:1]
    return accounts


def pull_request_title(task: Task) -> str:
    """The task's title for a pull request: one line, without links and references that would close issues."""
    words = " ".join(sanitise(task.title).text.split())
    plain = _NUMBER.sub("", words)[:MAX_TITLE].strip()
    return plain or task.id


def pull_request_text(task: Task, about: str) -> str:
    """The description of a pull request. It contains no text by the agent or the issue's author."""
    who = task.submission.agent if task.submission else "somebody"
    rows = [f"{REMAND_MARK}: {task.id}.", f"Submitted by {who} at {about}, and awaits review."]
    if task.forge.issue:
        rows.append(f"It is about #{task.forge.issue}, which stays open until the task is done.")
    return "\n\n".join(rows)


def issue_closing_text(task: Task) -> str:
    if task.status != Status.DONE:
        return f"{REMAND_MARK}: {task.id}.\n\nThis will not be done: the task was cancelled."
    where = f" at {task.reviews.approved_commit}" if task.reviews.approved_commit else ""
    merged = f" It was merged as #{task.pr}." if task.forge.merged else ""
    return f"{REMAND_MARK}: {task.id}.\n\nDone{where}.{merged}"


MAX_TASKS = 50
"""The most tasks handled in one round."""
PAUSE = 30.0
"""Seconds to pause after the forge as a whole failed; doubled after each consecutive failure."""
MAX_PAUSE = 300.0
ACTION_FAULT, ACTION_PAUSED_UNTIL, ACTION_FAULT_COUNT = "acting trouble", "acting until", "acting in a row"
"""The keys for the state of a pause: its reason, its end, and the number of consecutive failures."""
_FORGE_FAULTS = (ForgeFaultKind.LIMITED, ForgeFaultKind.UNREACHABLE, ForgeFaultKind.DENIED)
"""Faults of the forge as a whole if they occur while looking for a result."""


class DoneAction(Record, kw_only=True, omit_defaults=False):
    """An action that has happened."""

    task_id: str
    act: str
    about: str = ""
    """The commit; empty for an action on an issue."""
    pr: int = 0
    url: str = ""
    text: str = ""
    is_found: bool = False
    """Whether it had already happened."""


class ActionReport(Record, kw_only=True, omit_defaults=False):
    """The result of a round of actions."""

    done: tuple[DoneAction, ...] = ()
    waits: tuple[ForgeWait, ...] = ()
    """Tasks with a failed action, and what they wait for."""
    trouble: str = ""
    """Why the forge as a whole failed; empty if it did not."""
    until: Instant = ""
    """The time of the next attempt."""


ForgeOpener = Callable[[], AbstractContextManager[dict[ForgeAction, ForgeActionHandler]]]
"""Opens the forge as a context."""
ExclusiveLock = Callable[[], AbstractContextManager[bool]]
"""Prevents concurrent actions by other processes; False if another one holds the lock."""


class ForgeActions:
    """Carries out all due actions on the forge, and completes those that a killed process left open."""

    def __init__(
        self,
        ledger: Ledger,
        marks: PollMarks,
        policy: Policy,
        *,
        base: str,
        open_forge: ForgeOpener,
        lock: ExclusiveLock,
    ) -> None:
        self._ledger, self._marks, self._base = ledger, marks, base
        self._actions = allowed_actions(policy)
        self._open_forge, self._lock = open_forge, lock

    def tick(self, *, is_again: bool = False) -> ActionReport:
        """Carries out each due action once. If none is due, the forge is not opened.

        `is_again` also retries actions that wait for their next attempt or were given up.
        """
        now = self._ledger.clock.now()
        with self._ledger.store.read() as view:
            tasks = view.task_lists.with_due([*self._actions, PLANNED])
            if is_again:
                tasks += [task for task in view.tasks.every() if task.forge.given_up]
        if not is_again:
            tasks = [task for task in tasks if self._is_due(task, now)]
        if not tasks:
            return ActionReport()
        until = self._marks.get(ACTION_PAUSED_UNTIL)
        if until > now and not is_again:
            return ActionReport(trouble=self._marks.get(ACTION_FAULT), until=until)
        with self._lock() as is_alone:
            if not is_alone:
                return ActionReport()
            round_ = _ActionRound(self._ledger, self._actions, self._base, is_again=is_again)
            fault = self._do_all(round_, list(dict.fromkeys(task.id for task in tasks))[:MAX_TASKS])
        return ActionReport(
            done=tuple(round_.done),
            waits=tuple(round_.waits),
            trouble=str(fault or ""),
            until=self._marks.get(ACTION_PAUSED_UNTIL),
        )

    def _is_due(self, task: Task, now: Instant) -> bool:
        planned = task.forge.intent
        return planned.until <= now if planned is not None else due_action(task, self._actions) is not None

    def _do_all(self, round_: _ActionRound, task_ids: Sequence[str]) -> ForgeFault | None:
        """Runs a round; returns the fault if the forge as a whole failed, which causes a pause."""
        try:
            with self._open_forge() as handlers:
                round_.do_for_tasks(task_ids, handlers)
        except ForgeFault as fault:
            count = self._marks.get(ACTION_FAULT_COUNT)
            in_a_row = int(count) if count.isdecimal() and len(count) < 4 else 0
            pause = add_seconds(self._ledger.clock.now(), min(PAUSE * 2.0 ** min(in_a_row, 10), MAX_PAUSE))
            self._marks.put(ACTION_FAULT_COUNT, str(in_a_row + 1))
            self._marks.put(ACTION_FAULT, str(fault))
            self._marks.put(ACTION_PAUSED_UNTIL, max(fault.until, pause))
            return fault
        for key in (ACTION_FAULT, ACTION_PAUSED_UNTIL, ACTION_FAULT_COUNT):
            if self._marks.get(key):
                self._marks.put(key, "")
        return None


class _ActionRound:
    """One round over the tasks with its results so far."""

    def __init__(self, ledger: Ledger, actions: Sequence[ForgeAction], base: str, *, is_again: bool) -> None:
        self._ledger, self._actions, self._base = ledger, actions, base
        self._is_again = is_again
        self._forge_fault: ForgeFault | None = None
        self._has_answered = False
        self.done: list[DoneAction] = []
        self.waits: list[ForgeWait] = []

    def do_for_tasks(self, task_ids: Sequence[str], handlers: dict[ForgeAction, ForgeActionHandler]) -> None:
        """Carries out the due actions of each task. The next task shows whether the forge or only one action failed."""
        failed: tuple[str, ForgeFault] | None = None
        for number, task_id in enumerate(task_ids, 1):
            self._ledger.store.note_progress(
                f"acting on the forge for {task_id}, {number} of {len(task_ids)}"
            )
            self._has_answered = False
            try:
                self._do_for_task(task_id, handlers)
            except ForgeFault as fault:
                if fault.kind is ForgeFaultKind.LIMITED or failed is not None:
                    raise
                failed = (task_id, fault)
            if failed is not None and self._has_answered:
                task = self._task(failed[0])
                if task is not None and task.forge.intent is not None:
                    self._fail(task, task.forge.intent.act, task.forge.intent.about, failed[1])
                    self._note_wait(task.id)
                failed = None
        if failed is not None:
            raise failed[1]

    def _do_for_task(self, task_id: str, handlers: dict[ForgeAction, ForgeActionHandler]) -> None:
        """Carries out a task's due actions in order until one fails. Raises if the forge may be the cause."""
        for _ in range(2 * len(ForgeAction)):
            task = self._task(task_id)
            if task is None:
                break
            planned = task.forge.intent
            if planned is None:
                step = due_action(task, self._actions, is_again=self._is_again)
            else:
                is_time = self._is_again or planned.until <= self._ledger.clock.now()
                step = (planned.act, planned.about) if is_time else None
            if step is None or not self._complete_action(task, *step, handlers[step[0]]):
                break
        self._note_wait(task_id)

    def _note_wait(self, task_id: str) -> None:
        task = self._task(task_id)
        text = describe_forge_wait(task) if task is not None else ""
        if text:
            self.waits.append(ForgeWait(task_id=task_id, text=text))

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskCommand(task_id=task_id))

    def _complete_action(
        self, task: Task, action: ForgeAction, about: str, handler: ForgeActionHandler
    ) -> bool:
        """Plans an action, carries it out unless it has happened, and records it; False if it failed or is not permitted."""
        is_planned = task.forge.intent is not None
        plan = c.PlanForgeAction(
            task_id=task.id, act=action, about=about, base=self._base, is_again=self._is_again
        )
        answer = self._ledger.ask_as(THE_COORDINATOR, plan)
        if isinstance(answer, Refused) and not is_planned:
            is_hopeless = answer.code == "bad_value"
            return is_hopeless and self._fail(task, action, about, FinalFault(answer.message))
        try:
            result = self._find_result(handler, task, about)
            is_found = result is not None
            if result is None:
                if isinstance(answer, Refused):
                    raise FinalFault(f"It is no longer needed: {answer.message}")
                result = self._do_action(handler, task, about)
            return self._record(task, action, about, result, is_found=is_found)
        except ForgeFault as fault:
            if fault.kind is ForgeFaultKind.LIMITED or fault is self._forge_fault:
                raise
            return self._fail(task, action, about, fault)

    def _find_result(self, handler: ForgeActionHandler, task: Task, about: str) -> ActionResult | None:
        """Checks whether an action has happened. If the forge does not say, the fault is the forge's."""
        try:
            result = handler.find_result(task, about)
        except ForgeFault as fault:
            if fault.kind in _FORGE_FAULTS:
                self._forge_fault = fault
            raise
        self._has_answered = True
        return result

    def _do_action(self, handler: ForgeActionHandler, task: Task, about: str) -> ActionResult:
        try:
            return handler.do(task, about)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED or isinstance(fault, FinalFault):
                raise
            # A refusal may mean that it has happened meanwhile.
            result = self._find_result(handler, task, about)
            if result is None:
                raise
            return result

    def _record(
        self, task: Task, action: ForgeAction, about: str, result: ActionResult, *, is_found: bool
    ) -> bool:
        command = c.RecordForgeAction(
            task_id=task.id,
            act=action,
            about=about,
            pr=result.pr,
            url=result.url[:2000],
            is_found=is_found,
        )
        answer = self._ledger.ask_as(THE_COORDINATOR, command)
        if isinstance(answer, Refused):
            return self._fail(task, action, about, FinalFault(answer.message))
        self.done.append(
            DoneAction(
                task_id=task.id,
                act=action,
                about=about,
                pr=result.pr or answer.task.pr,
                url=result.url,
                text=describe_action(answer.task, action),
                is_found=is_found,
            )
        )
        return True

    def _fail(self, task: Task, action: ForgeAction, about: str, fault: ForgeFault) -> bool:
        command = c.RecordForgeActionFailure(
            task_id=task.id, act=action, about=about, why=str(fault), is_final=isinstance(fault, FinalFault)
        )
        self._ledger.ask_as(THE_COORDINATOR, command)
        return False


def waits_of_tasks(
    ledger: Ledger, settings: SettingsSource, marks: PollMarks, task_ids: Iterable[str]
) -> dict[str, str]:
    """What tasks wait for on the forge, from the last poll and the last actions."""
    if not settings.settings().forge.kind:
        return {}
    policy = settings.rules().policy
    is_paused = marks.get(ACTION_PAUSED_UNTIL) > ledger.clock.now()
    fault = marks.get(ACTION_FAULT) if is_paused else ""
    waits: dict[str, str] = {}
    for task_id in task_ids:
        text = forge_wait(marks, task_id)
        if not text:
            with ledger.store.read() as view:
                task = view.tasks.get(task_id)
            if task is None:
                continue
            is_due = task.forge.intent is not None or due_action(task, allowed_actions(policy)) is not None
            text = describe_forge_wait(task) or (f"{FORGE_PREFIX}{fault}" if is_due and fault else "")
        if text:
            waits[task_id] = text
    return waits

"""Actions on the forge that the policy wants: how each is detected and done, exactly once, whatever fails."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple, Protocol

from remand.app.forge.poll import FORGE_PREFIX, ForgeWait, forge_wait
from remand.app.forge.ports import Forge, ForgeFault, ForgeFaultKind, Issues, PollMarks, Pulls, Remote
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.access.team import REVIEWERS, THE_COORDINATOR, Actor, Member, Role, Team
from remand.domain.decisions.forge_actions import (
    PLANNED,
    allowed_actions,
    describe_action,
    describe_forge_wait,
    due_action,
)
from remand.domain.decisions.reviews import has_worked_on
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.forge_state import ForgeAction
from remand.domain.instant import Instant, add_seconds
from remand.domain.policy import Policy
from remand.domain.pull_request.comments import REMAND_MARK
from remand.domain.pull_request.records import Account, PullRequest, PullState
from remand.domain.pull_request.reviews import standing_objections
from remand.domain.record import Record
from remand.domain.refusals import Refused
from remand.domain.task import Status, Task

MAX_TITLE = 200
_NUMBER = re.compile(r"[#!](?=\d)")
"""How forges write that something is about an issue, or closes it."""


class FinalFault(ForgeFault):
    """The act cannot be done, and trying again would change nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(ForgeFaultKind.REFUSED, message)


class ActionResult(NamedTuple):
    """What is so on the forge."""

    pr: int = 0
    url: str = ""


class ForgeActionHandler(Protocol):
    """One act. Both raise `ForgeFault`."""

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        """What is so when the act has happened, whoever did it; None when it has not."""

    def do(self, task: Task, about: str) -> ActionResult:
        """Does it, when it has just been seen that it has not happened."""


class PushAction:
    """The submitted commit goes to the task's branch: a new one, one that is ours, or one that it only adds to."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._tips: dict[str, str] = {}

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        """Whether the branch is at the commit."""
        self._tips[task.id] = tip = self._remote.tip(task.branch)
        return ActionResult() if tip == about else None

    def do(self, task: Task, about: str) -> ActionResult:
        """Moves the branch from where it was seen."""
        tip, branch = self._tips[task.id], task.branch
        if self._remote.is_main(branch):
            raise FinalFault(
                f"{branch} is the branch that work is merged into. Give the task one of its own."
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
    """A draft pull request of the task's branch, or the one that somebody has opened."""

    def __init__(self, pulls: Pulls, base: str) -> None:
        self._pulls, self._base = pulls, base

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every deed
        """The open pull request of the branch."""
        found = self._pulls.find_open_pull(task.branch, self._base)
        return ActionResult(found.number, found.url) if found else None

    def do(self, task: Task, about: str) -> ActionResult:
        """Opens it."""
        made = self._pulls.open_draft(
            task.branch, self._base, pull_request_title(task), pull_request_text(task, about)
        )
        return ActionResult(made.number, made.url)


class RequestReviewAction:
    """The pull request is made ready, and reviewers are asked. Asked twice, they are asked once."""

    def __init__(self, forge: Forge, team: Team, kind: str) -> None:
        self._forge, self._team, self._kind = forge, team, kind

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every deed
        """Nothing tells who was asked about which commit; but that the pull request is there."""
        if task.pr not in self._forge.change_marks([task.pr]):
            raise ForgeFault(ForgeFaultKind.MISSING, f"The forge does not show pull request #{task.pr}.")
        return None

    def do(self, task: Task, about: str) -> ActionResult:  # noqa: ARG002 - as every deed
        """Asks those who may review."""
        self._forge.mark_ready(task.pr)
        self._forge.request_review(task.pr, reviewer_accounts(task, self._team, self._kind))
        return ActionResult(task.pr)


class MergeAction:
    """The approved commit is merged, while it is the head and no member wants changes of it."""

    def __init__(self, forge: Forge, member: Callable[[Account | None], Actor | None]) -> None:
        self._forge, self._member = forge, member

    def find_result(self, task: Task, about: str) -> ActionResult | None:
        """Whether it is merged at that commit; raises when it cannot be."""
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
        self._require_no_objection(pull)
        return None

    def do(self, task: Task, about: str) -> ActionResult:
        """Merges, by the forge's own comparison of the head; believed when it is seen."""
        self._forge.mark_ready(task.pr)
        self._forge.merge(task.pr, about)
        found = self.find_result(task, about)
        if found is None:
            raise ForgeFault(
                ForgeFaultKind.GARBLED, f"The forge reported no error, but #{task.pr} is not merged."
            )
        return found

    def _require_no_objection(self, pull: PullRequest) -> None:
        """Refuses while a member's last word on this very commit is that it needs changes, however late it came."""
        for review in standing_objections(pull):
            actor = self._member(review.author)
            if actor is not None:
                raise ForgeFault(
                    ForgeFaultKind.REFUSED,
                    f"{actor.name} requested changes of {pull.head[:12]} there. Settle that, or merge by hand.",
                )


class CloseAction:
    """The issue that the task was made from is closed."""

    def __init__(self, issues: Issues) -> None:
        self._issues = issues

    def find_result(self, task: Task, about: str) -> ActionResult | None:  # noqa: ARG002 - as every deed
        """Whether it is closed."""
        issue = self._issues.issue(task.forge.issue)
        return None if issue.is_open else ActionResult(url=issue.url)

    def do(self, task: Task, about: str) -> ActionResult:
        """Closes it, and says why; believed when it is seen."""
        is_done = task.status == Status.DONE
        self._issues.close_issue(task.forge.issue, issue_closing_text(task), is_done=is_done)
        found = self.find_result(task, about)
        if found is None:
            raise ForgeFault(
                ForgeFaultKind.GARBLED,
                f"The forge reported no error, but issue #{task.forge.issue} is still open.",
            )
        return found


class ActionContext(NamedTuple):
    """What deeds need of the project."""

    base: str
    """The branch that work is merged into."""
    team: Team
    kind: str
    """Of the forge."""


def action_handlers(
    forge: Forge, remote: Remote, standing: ActionContext, member: Callable[[Account | None], Actor | None]
) -> dict[ForgeAction, ForgeActionHandler]:
    """Every act, on one forge."""
    return {
        ForgeAction.PUSH: PushAction(remote),
        ForgeAction.OPEN: OpenAction(forge, standing.base),
        ForgeAction.REQUEST: RequestReviewAction(forge, standing.team, standing.kind),
        ForgeAction.MERGE: MergeAction(forge, member),
        ForgeAction.CLOSE: CloseAction(forge),
    }


def reviewer_accounts(task: Task, team: Team, kind: str) -> list[str]:
    """The accounts to ask: of those who were asked here; else of the leads and testers; else of the user."""
    able = [
        member
        for member in team.members
        if REVIEWERS & set(member.roles) and not has_worked_on(task, team.actor(member.name))
    ]
    named = [member for member in able if member.name in task.reviews.requested]
    others = [member for member in able if {Role.LEAD, Role.TESTER} & set(member.roles)]
    found = (_account_of_member(member, kind) for member in named or others or able)
    return [account for account in found if account]


def _account_of_member(member: Member, kind: str) -> str:
    """A member's account on this kind of forge, without the kind; by its name when it has one."""
    own = [name.removeprefix(f"{kind}:") for name in member.accounts if name.startswith(f"{kind}:")]
    return next((name for name in own if not name.isdecimal()), own[0] if own else "")


def pull_request_title(task: Task) -> str:
    """The task's title as a pull request's: one line, without links and numbers by which forges close issues."""
    words = " ".join(sanitise(task.title).text.split())
    plain = _NUMBER.sub("", words)[:MAX_TITLE].strip()
    return plain or task.id


def pull_request_text(task: Task, about: str) -> str:
    """What a pull request says of itself. Nothing in it is the agent's, or the issue's."""
    who = task.submission.agent if task.submission else "somebody"
    rows = [f"{REMAND_MARK}: {task.id}.", f"Handed in by {who} at {about}, and awaits review."]
    if task.forge.issue:
        rows.append(f"It is about #{task.forge.issue}, which stays open until the task is done.")
    return "\n\n".join(rows)


def issue_closing_text(task: Task) -> str:
    """What is said when an issue is closed."""
    if task.status != Status.DONE:
        return f"{REMAND_MARK}: {task.id}.\n\nThis will not be done: the task was cancelled."
    where = f" at {task.reviews.approved_commit}" if task.reviews.approved_commit else ""
    merged = f" It was merged as #{task.pr}." if task.forge.merged else ""
    return f"{REMAND_MARK}: {task.id}.\n\nDone{where}.{merged}"


MAX_TASKS = 50
"""How many tasks are seen to in one go."""
PAUSE = 30.0
"""Seconds without a try after the forge failed as a whole; doubled each time in a row."""
MAX_PAUSE = 300.0
ACTION_FAULT, ACTION_PAUSED_UNTIL, ACTION_FAULT_COUNT = "acting trouble", "acting until", "acting in a row"
"""Where it is noted why nothing could be done on the forge, until when nothing is tried, and how often that was."""
_FORGE_FAULTS = (ForgeFaultKind.LIMITED, ForgeFaultKind.UNREACHABLE, ForgeFaultKind.DENIED)
"""What keeps everything from being done, when it comes up already on looking."""


class DoneAction(Record, kw_only=True, omit_defaults=False):
    """An act that has happened."""

    task_id: str
    act: str
    about: str = ""
    """The commit; empty when it is about an issue."""
    pr: int = 0
    url: str = ""
    text: str = ""
    is_found: bool = False
    """It was so already."""


class ActionReport(Record, kw_only=True, omit_defaults=False):
    """What came of seeing to the forge."""

    done: tuple[DoneAction, ...] = ()
    waits: tuple[ForgeWait, ...] = ()
    """The tasks for which something could not be done, and what they wait for."""
    trouble: str = ""
    """Why the forge could not be asked; empty when it could."""
    until: Instant = ""
    """When it is tried again."""


ForgeOpener = Callable[[], AbstractContextManager[dict[ForgeAction, ForgeActionHandler]]]
"""Opens the forge, and lets go of it afterwards."""
ExclusiveLock = Callable[[], AbstractContextManager[bool]]
"""Keeps other processes from acting at the same time; False when one is at it."""


class ForgeActions:
    """Sees to everything that is due on the forge, and to what a killed process left undecided."""

    def __init__(
        self,
        ledger: Ledger,
        marks: PollMarks,
        policy: Policy,
        *,
        base: str,
        opened: ForgeOpener,
        alone: ExclusiveLock,
    ) -> None:
        self._ledger = ledger
        self._marks = marks
        self._acts = allowed_actions(policy)
        self._base = base
        self._opened = opened
        self._alone = alone

    def tick(self, *, is_again: bool = False) -> ActionReport:
        """Does what is due, each thing once. With nothing due, which is one look at an index, nothing is opened.

        `is_again` has tried again what waits for its time, or was given up.
        """
        tasks = self._due_tasks(is_again=is_again)
        if not tasks:
            return ActionReport()
        until = self._marks.get(ACTION_PAUSED_UNTIL)
        if until > self._ledger.clock.now() and not is_again:
            return ActionReport(trouble=self._marks.get(ACTION_FAULT), until=until)
        with self._alone() as is_alone:
            if not is_alone:
                return ActionReport()
            round_ = _ActionRound(self._ledger, self._acts, self._base, is_again=is_again)
            fault = self._do_all(round_, tasks)
        return ActionReport(
            done=tuple(round_.done),
            waits=tuple(round_.waits),
            trouble=str(fault or ""),
            until=self._marks.get(ACTION_PAUSED_UNTIL),
        )

    def _due_tasks(self, *, is_again: bool) -> list[Task]:
        """The tasks that something may be due for; also those that it was given up for, when it is tried again."""
        now = self._ledger.clock.now()
        with self._ledger.store.read() as view:
            found = view.tasks.with_errand([*self._acts, PLANNED])
            if is_again:
                return [*found, *(task for task in view.tasks.every() if task.forge.given_up)]
        return [task for task in found if self._is_due(task, now)]

    def _is_due(self, task: Task, now: Instant) -> bool:
        intent = task.forge.intent
        return intent.until <= now if intent is not None else due_action(task, self._acts) is not None

    def _do_all(self, round_: _ActionRound, tasks: Sequence[Task]) -> ForgeFault | None:
        """Sees to the tasks one after the other; the fault that ended it, when the forge failed as a whole."""
        try:
            with self._opened() as found:
                names = dict.fromkeys(task.id for task in tasks)
                round_.do_for_tasks(list(names)[:MAX_TASKS], found)
        except ForgeFault as fault:
            self._pause(fault)
            return fault
        for key in (ACTION_FAULT, ACTION_PAUSED_UNTIL, ACTION_FAULT_COUNT):
            if self._marks.get(key):
                self._marks.put(key, "")
        return None

    def _pause(self, fault: ForgeFault) -> None:
        """Lets some time go by, longer each time; as long as the forge asks for, when it does."""
        kept = self._marks.get(ACTION_FAULT_COUNT)
        in_a_row = int(kept) if kept.isdecimal() and len(kept) < 4 else 0
        seconds = min(PAUSE * 2.0 ** min(in_a_row, 10), MAX_PAUSE)
        self._marks.put(ACTION_FAULT_COUNT, str(in_a_row + 1))
        self._marks.put(ACTION_FAULT, str(fault))
        self._marks.put(ACTION_PAUSED_UNTIL, max(fault.until, add_seconds(self._ledger.clock.now(), seconds)))


class _ActionRound:
    """One round over the tasks, and what has come of it so far."""

    def __init__(self, ledger: Ledger, acts: Sequence[ForgeAction], base: str, *, is_again: bool) -> None:
        self._ledger, self._acts, self._base = ledger, acts, base
        self._is_again = is_again
        self._failed: ForgeFault | None = None
        self._has_answered = False
        self.done: list[DoneAction] = []
        self.waits: list[ForgeWait] = []

    def do_for_tasks(self, names: Sequence[str], found: dict[ForgeAction, ForgeActionHandler]) -> None:
        """Sees to tasks. Whether the forge failed, or one act, the next task tells: when that works, it was the act."""
        failed: tuple[str, ForgeFault] | None = None
        for name in names:
            self._has_answered = False
            try:
                self._do_for_task(name, found)
            except ForgeFault as fault:
                if fault.trouble is ForgeFaultKind.LIMITED or failed is not None:
                    raise
                failed = (name, fault)
            if failed is not None and self._has_answered:
                self._fail_intended(*failed)
                failed = None
        if failed is not None:
            raise failed[1]

    def _fail_intended(self, task_id: str, fault: ForgeFault) -> None:
        task = self._task(task_id)
        if task is not None and task.forge.intent is not None:
            self._fail(task, task.forge.intent.act, task.forge.intent.about, fault)
            self._note_wait(task_id)

    def _do_for_task(self, task_id: str, found: dict[ForgeAction, ForgeActionHandler]) -> None:
        """Does what is due for a task, one act after the other, until one fails. Raises when the forge may have."""
        for _ in range(2 * len(ForgeAction)):
            task = self._task(task_id)
            step = self._next_action(task)
            if task is None or step is None or not self._complete_action(task, *step, found[step[0]]):
                break
        self._note_wait(task_id)

    def _note_wait(self, task_id: str) -> None:
        task = self._task(task_id)
        text = describe_forge_wait(task) if task is not None else ""
        if text:
            self.waits.append(ForgeWait(task_id=task_id, text=text))

    def _task(self, task_id: str) -> Task | None:
        return self._ledger.task_of(c.TaskAsk(task_id=task_id))

    def _next_action(self, task: Task | None) -> tuple[ForgeAction, str] | None:
        """The act that is begun, or else the next one."""
        if task is None:
            return None
        intent = task.forge.intent
        if intent is None:
            return due_action(task, self._acts, is_again=self._is_again)
        is_ripe = self._is_again or intent.until <= self._ledger.clock.now()
        return (intent.act, intent.about) if is_ripe else None

    def _complete_action(self, task: Task, act: ForgeAction, about: str, deed: ForgeActionHandler) -> bool:
        """Sees an act through; False when it failed, or may not be done."""
        is_begun = task.forge.intent is not None
        intend = c.IntendAct(task_id=task.id, act=act, about=about, base=self._base, is_again=self._is_again)
        answer = self._ledger.ask_as(THE_COORDINATOR, intend)
        if isinstance(answer, Refused) and not is_begun:
            is_hopeless = answer.code == "bad_value"
            return is_hopeless and self._fail(task, act, about, FinalFault(answer.message))
        try:
            happened = self._find_result(deed, task, about)
            if happened is not None:
                return self._note(task, act, about, happened, is_found=True)
            if isinstance(answer, Refused):
                return self._fail(task, act, about, FinalFault(f"It is no longer needed: {answer.message}"))
            return self._note(task, act, about, self._do_action(deed, task, about))
        except ForgeFault as fault:
            if fault.trouble is ForgeFaultKind.LIMITED or fault is self._failed:
                raise
            return self._fail(task, act, about, fault)

    def _find_result(self, deed: ForgeActionHandler, task: Task, about: str) -> ActionResult | None:
        """Looks whether an act has happened. When that cannot be told, it is the forge that fails, and not the act."""
        try:
            found = deed.find_result(task, about)
        except ForgeFault as fault:
            if fault.trouble in _FORGE_FAULTS:
                self._failed = fault
            raise
        self._has_answered = True
        return found

    def _do_action(self, deed: ForgeActionHandler, task: Task, about: str) -> ActionResult:
        """Does it. A no may mean that it has happened meanwhile."""
        try:
            return deed.do(task, about)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED or isinstance(fault, FinalFault):
                raise
            happened = self._find_result(deed, task, about)
            if happened is None:
                raise
            return happened

    def _note(
        self, task: Task, act: ForgeAction, about: str, happened: ActionResult, *, is_found: bool = False
    ) -> bool:
        noted = c.NoteAct(
            task_id=task.id,
            act=act,
            about=about,
            pr=happened.pr,
            url=happened.url[:2000],
            is_found=is_found,
        )
        answer = self._ledger.ask_as(THE_COORDINATOR, noted)
        if isinstance(answer, Refused):
            return self._fail(task, act, about, FinalFault(answer.message))
        after = answer.task
        self.done.append(
            DoneAction(
                task_id=task.id,
                act=act,
                about=about,
                pr=happened.pr or after.pr,
                url=happened.url,
                text=describe_action(after, act),
                is_found=is_found,
            )
        )
        return True

    def _fail(self, task: Task, act: ForgeAction, about: str, fault: ForgeFault) -> bool:
        failed = c.NoteActFailure(
            task_id=task.id, act=act, about=about, why=str(fault), is_final=isinstance(fault, FinalFault)
        )
        self._ledger.ask_as(THE_COORDINATOR, failed)
        return False


def waits_of_tasks(
    ledger: Ledger, marks: PollMarks, policy: Policy, task_ids: Iterable[str]
) -> dict[str, str]:
    """What tasks wait for on the forge, by the last poll and the last actions: those that wait for something."""
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

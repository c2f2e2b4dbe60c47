"""The acts on a forge, one by one: how to see that it has happened, and how it is done."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple, Protocol

from remand.app.forges.ports import Forge, ForgeFault, Issues, Pulls, Remote, Trouble
from remand.domain.acts import Act
from remand.domain.feedback.sanitise import sanitise
from remand.domain.pulls.opinions import objections
from remand.domain.pulls.ours import LEFT
from remand.domain.pulls.shapes import Account, PullRequest, PullState
from remand.domain.reviews import has_part
from remand.domain.roles import REVIEWERS, Actor, Member, Role, Team
from remand.domain.task import Status, Task

MAX_TITLE = 200
_NUMBER = re.compile(r"[#!](?=\d)")
"""How forges write that something is about an issue, or closes it."""


class ForGood(ForgeFault):
    """The act cannot be done, and trying again would change nothing."""

    def __init__(self, message: str) -> None:
        super().__init__(Trouble.REFUSED, message)


class Happened(NamedTuple):
    """What is so on the forge."""

    pr: int = 0
    url: str = ""


class Deed(Protocol):
    """One act. Both raise `ForgeFault`."""

    def look(self, task: Task, about: str) -> Happened | None:
        """What is so when the act has happened, whoever did it; None when it has not."""

    def do(self, task: Task, about: str) -> Happened:
        """Does it, when it has just been seen that it has not happened."""


class Push:
    """The submitted commit goes to the task's branch: a new one, one that is ours, or one that it only adds to."""

    def __init__(self, remote: Remote) -> None:
        self._remote = remote
        self._tips: dict[str, str] = {}

    def look(self, task: Task, about: str) -> Happened | None:
        """Whether the branch is at the commit."""
        self._tips[task.id] = tip = self._remote.tip(task.branch)
        return Happened() if tip == about else None

    def do(self, task: Task, about: str) -> Happened:
        """Moves the branch from where it was seen."""
        tip, branch = self._tips[task.id], task.branch
        if self._remote.is_main(branch):
            raise ForGood(f"{branch} is the branch that work is merged into. Give the task one of its own.")
        is_ours = tip in ("", task.forge.pushed)
        if not is_ours and (task.forge.is_branch_agents or not self._remote.is_ahead(about, tip)):
            raise ForGood(
                f"The branch {branch} is at {tip[:12]} there, which was not pushed by Remand. "
                "Push the work by hand, or give the task another branch."
            )
        self._remote.push(about, branch, tip)
        return Happened()


class Open:
    """A draft pull request of the task's branch, or the one that somebody has opened."""

    def __init__(self, pulls: Pulls, base: str) -> None:
        self._pulls, self._base = pulls, base

    def look(self, task: Task, about: str) -> Happened | None:  # noqa: ARG002 - as every deed
        """The open pull request of the branch."""
        found = self._pulls.opened(task.branch, self._base)
        return Happened(found.number, found.url) if found else None

    def do(self, task: Task, about: str) -> Happened:
        """Opens it."""
        made = self._pulls.open_draft(task.branch, self._base, title_of(task), opening_text(task, about))
        return Happened(made.number, made.url)


class Request:
    """The pull request is made ready, and reviewers are asked. Asked twice, they are asked once."""

    def __init__(self, forge: Forge, team: Team, kind: str) -> None:
        self._forge, self._team, self._kind = forge, team, kind

    def look(self, task: Task, about: str) -> Happened | None:  # noqa: ARG002 - as every deed
        """Nothing tells who was asked about which commit; but that the pull request is there."""
        if task.pr not in self._forge.glance([task.pr]):
            raise ForgeFault(Trouble.MISSING, f"The forge does not show pull request #{task.pr}.")
        return None

    def do(self, task: Task, about: str) -> Happened:  # noqa: ARG002 - as every deed
        """Asks those who may review."""
        self._forge.mark_ready(task.pr)
        self._forge.request_review(task.pr, reviewers(task, self._team, self._kind))
        return Happened(task.pr)


class Merge:
    """The approved commit is merged, while it is the head and no member wants changes of it."""

    def __init__(self, forge: Forge, member: Callable[[Account | None], Actor | None]) -> None:
        self._forge, self._member = forge, member

    def look(self, task: Task, about: str) -> Happened | None:
        """Whether it is merged at that commit; raises when it cannot be."""
        pull = self._forge.pull_request(task.pr)
        if pull.state is PullState.MERGED and pull.head == about:
            return Happened(pull.number, pull.url)
        if pull.state is PullState.MERGED or pull.head != about:
            was = "was merged" if pull.state is PullState.MERGED else "has gone on"
            raise ForGood(
                f"Pull request #{pull.number} {was} at {pull.head[:12]}; approved was {about[:12]}."
            )
        if pull.state is PullState.CLOSED:
            raise ForgeFault(Trouble.REFUSED, f"Pull request #{pull.number} was closed without a merge.")
        self._require_no_objection(pull)
        return None

    def do(self, task: Task, about: str) -> Happened:
        """Merges, by the forge's own comparison of the head; believed when it is seen."""
        self._forge.mark_ready(task.pr)
        self._forge.merge(task.pr, about)
        found = self.look(task, about)
        if found is None:
            raise ForgeFault(Trouble.GARBLED, f"The forge did not say no, and #{task.pr} is not merged.")
        return found

    def _require_no_objection(self, pull: PullRequest) -> None:
        """Refuses while a member's last word on this very commit is that it needs changes, however late it came."""
        for review in objections(pull):
            actor = self._member(review.author)
            if actor is not None:
                raise ForgeFault(
                    Trouble.REFUSED,
                    f"{actor.name} requested changes of {pull.head[:12]} there. Settle that, or merge by hand.",
                )


class Close:
    """The issue that the task was made from is closed."""

    def __init__(self, issues: Issues) -> None:
        self._issues = issues

    def look(self, task: Task, about: str) -> Happened | None:  # noqa: ARG002 - as every deed
        """Whether it is closed."""
        issue = self._issues.issue(task.forge.issue)
        return None if issue.is_open else Happened(url=issue.url)

    def do(self, task: Task, about: str) -> Happened:
        """Closes it, and says why; believed when it is seen."""
        is_done = task.status == Status.DONE
        self._issues.close_issue(task.forge.issue, closing_text(task), is_done=is_done)
        found = self.look(task, about)
        if found is None:
            raise ForgeFault(
                Trouble.GARBLED, f"The forge did not say no, and issue #{task.forge.issue} is still open."
            )
        return found


class Standing(NamedTuple):
    """What deeds need of the project."""

    base: str
    """The branch that work is merged into."""
    team: Team
    kind: str
    """Of the forge."""


def deeds(
    forge: Forge, remote: Remote, standing: Standing, member: Callable[[Account | None], Actor | None]
) -> dict[Act, Deed]:
    """Every act, on one forge."""
    return {
        Act.PUSH: Push(remote),
        Act.OPEN: Open(forge, standing.base),
        Act.REQUEST: Request(forge, standing.team, standing.kind),
        Act.MERGE: Merge(forge, member),
        Act.CLOSE: Close(forge),
    }


def reviewers(task: Task, team: Team, kind: str) -> list[str]:
    """The accounts to ask: of those who were asked here; else of the leads and testers; else of the user."""
    able = [
        member
        for member in team.members
        if REVIEWERS & set(member.roles) and not has_part(task, team.actor(member.name))
    ]
    named = [member for member in able if member.name in task.requested]
    others = [member for member in able if {Role.LEAD, Role.TESTER} & set(member.roles)]
    found = (_account(member, kind) for member in named or others or able)
    return [account for account in found if account]


def _account(member: Member, kind: str) -> str:
    """A member's account on this kind of forge, without the kind; by its name when it has one."""
    own = [name.removeprefix(f"{kind}:") for name in member.accounts if name.startswith(f"{kind}:")]
    return next((name for name in own if not name.isdecimal()), own[0] if own else "")


def title_of(task: Task) -> str:
    """The task's title as a pull request's: one line, without links and numbers by which forges close issues."""
    words = " ".join(sanitise(task.title).text.split())
    plain = _NUMBER.sub("", words)[:MAX_TITLE].strip()
    return plain or task.id


def opening_text(task: Task, about: str) -> str:
    """What a pull request says of itself. Nothing in it is the agent's, or the issue's."""
    who = task.submission.agent if task.submission else "somebody"
    rows = [f"{LEFT}: {task.id}.", f"Handed in by {who} at {about}, and awaits review."]
    if task.forge.issue:
        rows.append(f"It is about #{task.forge.issue}, which stays open until the task is done.")
    return "\n\n".join(rows)


def closing_text(task: Task) -> str:
    """What is said when an issue is closed."""
    if task.status != Status.DONE:
        return f"{LEFT}: {task.id}.\n\nThis will not be done: the task was cancelled."
    where = f" at {task.approved_commit}" if task.approved_commit else ""
    merged = f" It was merged as #{task.pr}." if task.forge.merged else ""
    return f"{LEFT}: {task.id}.\n\nDone{where}.{merged}"

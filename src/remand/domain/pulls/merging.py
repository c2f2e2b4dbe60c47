"""What a merge on a forge counts for."""

from __future__ import annotations

from remand.domain import commands as c
from remand.domain.pulls.accounts import called, is_same
from remand.domain.pulls.judging import MAX_WHY, OWN_ACCOUNT
from remand.domain.pulls.shapes import PullRequest
from remand.domain.roles import Actor
from remand.domain.task import Status, Task


def merge_source(kind: str, pull: PullRequest) -> str:
    """What a merge is known by."""
    return f"{kind}:merge-{pull.number}@{pull.head}"


def is_merge_of(source: str, commit: str) -> bool:
    """True for what a merge of that commit is known by."""
    return source.partition(":")[2].startswith("merge-") and source.endswith(f"@{commit}")


def is_news(task: Task, source: str) -> bool:
    """True for a merge that was not taken in before, of work that had not passed."""
    return task.status != Status.DONE and source not in task.sources


def judged_merge(
    task: Task, pull: PullRequest, by: Actor | None, source: str
) -> c.ApproveReview | c.NoteMerge:
    """What a merge stands for: by a member who may write, of what was handed in, it is that member's approval.

    Any other went past the rules. Whether the member may approve, the rules say when they are asked.
    """
    submission = task.submission
    if task.status != Status.PROVISIONAL or submission is None or submission.commit != pull.head:
        return past_the_rules(task, pull, by, source, f"{task.label} is {task.status}, not approved")
    if is_same(pull.merged_by, pull.author):
        return past_the_rules(task, pull, by, source, OWN_ACCOUNT)
    if by is None:
        return past_the_rules(task, pull, by, source, "nobody who may approve it did so")
    return c.ApproveReview(task_id=task.id, commit=submission.commit, source=source)


def past_the_rules(task: Task, pull: PullRequest, by: Actor | None, source: str, why: str) -> c.NoteMerge:
    """A merge that the rules had not let through."""
    who = by.name if by else called(pull.merged_by)
    return c.NoteMerge(task_id=task.id, by=who, commit=pull.head, why=why[:MAX_WHY], source=source)

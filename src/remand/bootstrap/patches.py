"""What a submission changes, for whoever reviews it."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.git import patches
from remand.app.errors import EnvironmentFault
from remand.bootstrap.ledger import Opened
from remand.domain.reviewing.change import Change
from remand.domain.task import Submission, Task

MAX_ROUNDS = 5


def submitted_change(
    opened: Opened,
    task: Task,
    submission: Submission,
    paths: Sequence[str] = (),
    longest: int = patches.LONGEST,
) -> Change:
    """What a submission changes; of the given files alone, where some are given."""
    place, ledger = opened.place, opened.ledger
    found = ledger.difference(task, submission.commit)
    if found is None:
        raise EnvironmentFault(
            f"It cannot be told what {submission.commit[:12]} changes: it and the base branch have nothing in common."
        )
    since = patches.fork(place, opened.settings.rules().base, submission.commit)
    if not since or since == submission.commit:
        since = patches.fork(place, submission.base, submission.commit)
    control = ledger.control.change(task, submission.commit)
    shown = patches.patch(place, since, submission.commit, paths, longest, control=control.paths)
    return Change(
        commit=submission.commit,
        since=since,
        paths=tuple(dict.fromkeys((*found.paths, *map(_decoded, control.paths)))),
        text=shown.text,
        unshown=shown.unshown,
        event_files=control.event_files,
        control="; ".join(
            f"in {one.commit[:12]} {one.text}" for one in ledger.control.under_review(task, submission.commit)
        ),
    )


def _decoded(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def changed_since(opened: Opened, task: Task, commit: str) -> dict[str, tuple[str, ...]]:
    """Of each commit of a task that was rejected, the files that are different now; of the last few alone."""
    rejected = [one.commit for one in task.standing_rounds[-MAX_ROUNDS:]]
    found = {one: patches.paths_between(opened.place, one, commit) for one in rejected}
    return {one: paths for one, paths in found.items() if paths is not None}

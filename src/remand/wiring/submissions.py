"""What a submission changes, for its reviewer."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.git import commits
from remand.app.errors import EnvironmentFault
from remand.domain.reviewer.change import SubmittedChange
from remand.domain.task import Submission, Task
from remand.wiring.open_ledger import OpenLedger

MAX_ROUNDS = 5


def submitted_change(
    opened: OpenLedger,
    task: Task,
    submission: Submission,
    paths: Sequence[str] = (),
    longest: int = commits.LONGEST,
) -> SubmittedChange:
    """What a submission changes; of the given files alone, where some are given."""
    place, ledger = opened.place, opened.ledger
    found = ledger.difference(task, submission.commit)
    if found is None:
        raise EnvironmentFault(
            f"Remand cannot tell what {submission.commit[:12]} changes: it and the base branch have no common history."
        )
    since = commits.fork_point(place, opened.settings.rules().base, submission.commit)
    if not since or since == submission.commit:
        since = commits.fork_point(place, submission.base, submission.commit)
    control = ledger.control.find_change(task, submission.commit)
    shown = commits.read_patch(place, since, submission.commit, paths, longest, control=control.paths)
    return SubmittedChange(
        commit=submission.commit,
        since=since,
        paths=tuple(dict.fromkeys((*found.paths, *map(_decode_path, control.paths)))),
        text=shown.text,
        unshown=shown.unshown,
        event_files=control.event_files,
        control="; ".join(
            f"in {one.commit[:12]} {one.text}"
            for one in ledger.control.forbidden_changes_under_review(task, submission.commit)
        ),
    )


def _decode_path(path: str) -> str:
    return path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def changed_since(opened: OpenLedger, task: Task, commit: str) -> dict[str, tuple[str, ...]]:
    """Of each commit of a task that was rejected, the files that are different now; of the last few alone."""
    rejected = [one.commit for one in task.standing_rounds[-MAX_ROUNDS:]]
    found = {one: commits.changed_paths(opened.place, one, commit) for one in rejected}
    return {one: paths for one, paths in found.items() if paths is not None}

"""What is left on the forge, of what the configuration allows, and how it is known again when it is read there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial

from remand.app.forges.ports import CheckState, Forge, ForgeFault, Marks, Trouble
from remand.domain import events as e
from remand.domain.pulls.ours import LEFT, names_left
from remand.domain.pulls.shapes import Comment, PullRequest
from remand.domain.task import Status, Task

STATUS, REVIEW = "status", "review"
_FOR_GOOD = (Trouble.REFUSED, Trouble.MISSING)
_STATES = {
    Status.PROVISIONAL: (CheckState.PENDING, "Handed in; awaits review"),
    Status.DONE: (CheckState.SUCCESS, "Passed its gates and was approved"),
    Status.REJECTED: (CheckState.FAILURE, "Rejected in review"),
    Status.ESCALATED: (CheckState.FAILURE, "Waits for the user's decision"),
}


def answer_text(told: str) -> str:
    """An answer as it is left there."""
    return f"{LEFT}.\n\n{told}"


class Reporter:
    """Tells the forge how a task stands, each thing once."""

    def __init__(
        self,
        forge: Forge,
        marks: Marks,
        kind: str,
        report: Collection[str],
        events_of: Callable[[str], list[e.Event]],
    ) -> None:
        self._forge = forge
        self._marks = marks
        self._kind = kind
        self._report = report
        self._events_of = events_of

    def tell(self, task: Task, pull: PullRequest | None = None) -> str:
        """Leaves what is configured and has changed since it was last left; returns what the forge did not take.

        A pull request that was just read shows what another machine has left there already.
        """
        if task.submission is None or not self._report:
            return ""
        refused: list[str] = []
        if REVIEW in self._report:
            for key in _reviews_at(pull):
                self._marks.put(key, REVIEW)
            refused += self._tell_reviews(task)
        if STATUS in self._report and task.status in _STATES:
            commit, (state, text) = task.submission.commit, _STATES[task.status]
            refused += self._leave(
                f"status {commit}", state, partial(self._forge.set_status, commit, state, text)
            )
        return "; ".join(refused)

    def _tell_reviews(self, task: Task) -> Iterator[str]:
        """Leaves the rejections that were given here and stand; those of the forge are there already."""
        events = self._events_of(task.id)
        retracted = {event.review_id for event in events if isinstance(event, e.ReviewRetracted)}
        for event in events:
            if not isinstance(event, e.ReviewRejected) or event.review_id in retracted:
                continue
            if not event.source.startswith(f"{self._kind}:"):
                given = (task.pr, event.commit, _body(event), _comments(event))
                leave = partial(self._forge.request_changes, *given)
                yield from self._leave(_key(event.review_id), REVIEW, leave)

    def _leave(self, key: str, value: str, leave: Callable[[], object]) -> Iterable[str]:
        """Leaves something once. What the forge will not take is not offered again; any other fault is raised."""
        if self._marks.get(key) == value:
            return ()
        refused: tuple[str, ...] = ()
        try:
            leave()
        except ForgeFault as fault:
            if fault.trouble not in _FOR_GOOD:
                raise
            refused = (str(fault),)
        self._marks.put(key, value)
        return refused


def _key(review_id: str) -> str:
    return f"review {review_id}"


def _reviews_at(pull: PullRequest | None) -> Iterator[str]:
    """The marks of the rejections that were left at a pull request."""
    for review in pull.reviews if pull else ():
        for text in (review.text, *(comment.text for comment in review.comments)):
            yield from map(_key, names_left(text))


def _body(event: e.ReviewRejected) -> str:
    rows = [_row(finding) for finding in event.findings if not finding.path]
    return "\n\n".join([f"{event.reviewer} rejected this.", _signed(event), *rows])


def _comments(event: e.ReviewRejected) -> list[Comment]:
    return [
        Comment(id="", path=finding.path, line=finding.line, text=f"{_row(finding)}\n\n{_signed(event)}")
        for finding in event.findings
        if finding.path
    ]


def _row(finding: e.Finding) -> str:
    return f"{'BLOCKING' if finding.is_blocking else 'suggestion'}: {finding.text}"


def _signed(event: e.ReviewRejected) -> str:
    return f"{LEFT}: {event.review_id}."

"""What Remand leaves on GitHub: a status, a review, a comment."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.forges.github_api import Api
from remand.adapters.forges.github_rest import PULL, REPOSITORY
from remand.adapters.forges.wording import CONTEXT, cut, is_placed, whole
from remand.app.forges.ports import CheckState, ForgeFault, Trouble
from remand.domain.pulls.shapes import Comment, ReviewState

MAX_STATUS = 140
MAX_TEXT = 65_000
OWN_WORK = "own pull request"


async def set_status(api: Api, commit: str, state: CheckState, text: str) -> None:
    """A status at a commit."""
    status = {"state": state.value, "context": CONTEXT, "description": cut(text, MAX_STATUS)}
    await api.send(f"{REPOSITORY}/statuses/{{sha}}", status, sha=commit)


async def comment(api: Api, number: int, text: str) -> None:
    """A comment in the discussion."""
    said = {"body": cut(text, MAX_TEXT)}
    await api.send(f"{REPOSITORY}/issues/{{number}}/comments", said, number=str(number))


async def request_changes(
    api: Api, number: int, commit: str, text: str, comments: Sequence[Comment]
) -> ReviewState:
    """A review that asks for changes. What GitHub does not take, on one's own work or on a line, it takes otherwise."""
    event, placed = "REQUEST_CHANGES", [one for one in comments if is_placed(one)]
    while True:
        review = _review(commit, event, text, comments, placed)
        try:
            await api.send(f"{PULL}/reviews", review, number=str(number))
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED:
                raise
            if event != "COMMENT" and OWN_WORK in str(fault).casefold():
                event = "COMMENT"
            elif placed:
                placed = []
            else:
                raise
        else:
            return ReviewState.COMMENTED if event == "COMMENT" else ReviewState.CHANGES_REQUESTED


def _review(
    commit: str, event: str, text: str, comments: Sequence[Comment], placed: Sequence[Comment]
) -> dict[str, object]:
    """A review with comments on lines; the others stand in its text."""
    others = [one for one in comments if one not in placed]
    return {
        "commit_id": commit,
        "event": event,
        "body": cut(whole(text, others), MAX_TEXT),
        "comments": [
            {"path": one.path, "line": one.line, "side": "RIGHT", "body": cut(one.text, MAX_TEXT)}
            for one in placed
        ],
    }

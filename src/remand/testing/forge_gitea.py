"""Gitea and Forgejo as the fake forge speaks them: short pages, totals in a header, no ETags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from remand.app.forge.ports import CheckState
from remand.domain.instant import Instant
from remand.domain.pull_request.records import PullState, ReviewState
from remand.testing.forge_gitea_desk import GiteaDesk
from remand.testing.forge_server import Answer, Request, json_answer, paged
from remand.testing.forge_state import (
    ForgeState,
    Given,
    LineComment,
    Person,
    Posted,
    Pull,
    Remark,
    Said,
    Thread,
)

Json = dict[str, Any]
Route = Callable[..., Answer]

LONGEST_PAGE = 50
STATES = {
    ReviewState.APPROVED: "APPROVED",
    ReviewState.PENDING: "PENDING",
    ReviewState.COMMENTED: "COMMENT",
    ReviewState.CHANGES_REQUESTED: "REQUEST_CHANGES",
}
EVENTS = {event: state for state, event in STATES.items()}
PERMISSIONS = {"maintain": "write", "triage": "read"}
"""Roles that Gitea has no name for."""
GHOST = {"id": -1, "login": "Ghost", "full_name": "", "email": "", "active": False}


class GiteaDialect:
    """Answers as Gitea does, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self._state = state
        self._desk = GiteaDesk(state, _pull, _user)
        own: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/pulls", self._pulls),
            ("GET", r"/pulls/(\d+)", self._pull),
            ("GET", r"/pulls/(\d+)/reviews", self._reviews),
            ("GET", r"/pulls/(\d+)/reviews/(\d+)/comments", self._comments),
            ("GET", r"/issues/(\d+)/comments", self._remarks),
            ("GET", "/collaborators/([^/]+)/permission", self._permission),
            ("POST", r"/pulls/(\d+)/reviews", self._review),
            ("POST", r"/issues/(\d+)/comments", self._remark),
            ("POST", "/statuses/([0-9a-f]{40})", self._status),
        )
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (method, re.compile(f"/api/v1/repos/{state.owner}/{state.name}{pattern}"), route)
            for method, pattern, route in (*own, *self._desk.routes)
        ]

    def answer(self, request: Request) -> Answer | None:
        """The answer; None when this is not Gitea's."""
        if not request.path.startswith("/api/v1/"):
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() not in {"token", "bearer"} or token != self._state.token:
            return json_answer({"message": "invalid username, password or token", "url": ""}, 401)
        if request.path == "/api/v1/users/search":
            return self._desk.search(request)
        for method, pattern, route in self._routes:
            match = pattern.fullmatch(request.path)
            if match is not None and method == request.method:
                return self._routed(request, route, *match.groups())
        return _not_found()

    def _routed(self, request: Request, route: Route, *parts: str) -> Answer:
        is_numbered = bool(parts) and parts[0].isdecimal() and len(parts[0]) < 40
        there = (
            self._state.pulls if "/pulls/" in request.path else {**self._state.pulls, **self._state.issues}
        )
        if is_numbered and int(parts[0]) not in there:
            return _not_found()
        return route(request, *parts)

    def _pulls(self, request: Request) -> Answer:
        ordered = sorted(self._state.pulls.values(), key=lambda pull: pull.updated_at, reverse=True)
        if request.query.get("state") == "open":
            ordered = [pull for pull in ordered if pull.state is PullState.OPEN]
        page = paged(request, ordered, size="limit", usual=30, most=LONGEST_PAGE)
        headers = {**page.headers, "x-total-count": str(len(ordered))}
        return json_answer([_pull(pull) for pull in page.items], 200, headers)

    def _pull(self, request: Request, number: str) -> Answer:
        return json_answer(_pull(self._state.pulls[int(number)]))

    def _reviews(self, request: Request, number: str) -> Answer:
        """Reviews; others' that are not handed in yet are counted and not shown. There is no link to the next page."""
        pull = self._state.pulls[int(number)]
        given = [one for one in pull.reviews if not _is_only_a_reply(pull, one)]
        page = paged(request, given, size="limit", usual=30, most=LONGEST_PAGE)
        shown = [
            one
            for one in page.items
            if one.state is not ReviewState.PENDING or one.author is self._state.viewer
        ]
        return json_answer([_review(pull, one) for one in shown], 200, {"x-total-count": str(len(given))})

    def _comments(self, request: Request, number: str, review: str) -> Answer:
        """Comments of a review and the answers to them, in no order and without pages."""
        threads = _threads(self._state.pulls[int(number)], int(review))
        said = [_line_comment(one, thread, self._state) for thread in threads for one in thread.comments]
        return json_answer(said[::-1])

    def _remarks(self, request: Request, number: str) -> Answer:
        remarks = self._state.discussed(int(number)).remarks
        return json_answer([_remark(one) for one in remarks], 200, {"x-total-count": str(len(remarks))})

    def _permission(self, request: Request, login: str) -> Answer:
        person = self._state.named(unquote(login))
        if person is None:
            return _not_found()
        permission = PERMISSIONS.get(person.permission, person.permission)
        return json_answer({"permission": permission, "role_name": permission, "user": _user(person)})

    def _review(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        state = EVENTS[str(asked["event"])]
        if pull.author is self._state.viewer and state is ReviewState.CHANGES_REQUESTED:
            return _unprocessable("reject your own pull is not allowed")
        if not str(asked["body"]).strip():
            return _unprocessable(f"review event {asked['event']} requires a body")
        if any(one["path"] not in pull.paths for one in _sequence(asked["comments"])):
            return _unprocessable("the line is not part of the diff")
        said = [
            Said(text=one["body"], path=one["path"], line=one["new_position"])
            for one in _sequence(asked["comments"])
        ]
        given = self._state.review(pull, self._state.viewer, state, str(asked["body"]), *said)
        given.commit = str(asked.get("commit_id") or pull.head)
        return json_answer(_review(pull, given))

    def _remark(self, request: Request, number: str) -> Answer:
        pull = self._state.discussed(int(number))
        return json_answer(
            _remark(self._state.remark(pull, self._state.viewer, str(request.fields()["body"]))), 201
        )

    def _status(self, request: Request, commit: str) -> Answer:
        asked = request.fields()
        posted = Posted(
            commit=commit,
            context=str(asked["context"]),
            state=CheckState(str(asked["state"])),
            text=str(asked["description"]),
        )
        self._state.post(posted)
        return json_answer({"id": 1, "status": posted.state.value, "context": posted.context}, 201)


def _pull(pull: Pull) -> Json:
    is_merged = pull.state is PullState.MERGED
    return {
        "id": 7000 + pull.number,
        "number": pull.number,
        "user": _user(pull.author),
        "title": pull.title,
        "body": pull.text,
        "draft": pull.is_draft,
        "state": "open" if pull.state is PullState.OPEN else "closed",
        "is_locked": False,
        "comments": len(pull.remarks),
        "review_comments": len(pull.comments),
        "html_url": f"https://forge.example.org/pulls/{pull.number}",
        "mergeable": True,
        "merged": is_merged,
        "merged_at": _when(pull.merged_at) if is_merged else None,
        "merged_by": _user(pull.merged_by) if is_merged else None,
        "head": {
            "label": pull.branch,
            "ref": pull.branch,
            "sha": pull.head,
            "repo_id": 1 + pull.is_of_a_fork,
        },
        "base": {"label": pull.base, "ref": pull.base, "sha": "0" * 40, "repo_id": 1},
        "created_at": _when(pull.created_at),
        "updated_at": _when(pull.updated_at),
    }


def _review(pull: Pull, given: Given) -> Json:
    comments = [one for thread in _threads(pull, given.id) for one in thread.comments]
    return {
        "id": given.id,
        "user": _user(given.author),
        "team": None,
        "state": STATES[given.was if given.state is ReviewState.DISMISSED else given.state],
        "body": given.text,
        "commit_id": given.commit,
        "stale": given.commit != pull.head,
        "official": given.author is not None and given.author.permission in {"write", "maintain", "admin"},
        "dismissed": given.state is ReviewState.DISMISSED,
        "comments_count": len(comments),
        "submitted_at": _when(given.created_at),
        "updated_at": _when(given.updated_at),
        "html_url": f"https://forge.example.org/pulls/{pull.number}#issuecomment-{given.id}",
        "pull_request_url": f"https://forge.example.org/pulls/{pull.number}",
    }


def _line_comment(said: LineComment, thread: Thread, state: ForgeState) -> Json:
    """A comment on a line; only the first of a thread tells who has settled it."""
    is_first = said is thread.comments[0]
    return {
        **_remark(said),
        "resolver": _user(state.viewer) if thread.is_resolved and is_first else None,
        "pull_request_review_id": thread.comments[0].review,
        "path": said.path,
        "commit_id": said.commit,
        "original_commit_id": said.original_commit,
        "diff_hunk": "@@ -1 +1 @@",
        "position": said.original_line or 0,
        "original_position": 0,
    }


def _remark(said: Remark) -> Json:
    return {
        "id": said.id,
        "html_url": f"https://forge.example.org/comments/{said.id}",
        "user": _user(said.author),
        "body": said.text,
        "created_at": _when(said.created_at),
        "updated_at": _when(said.updated_at),
    }


def _user(person: Person | None) -> Json:
    """An account; what those said who are gone is the ghost's."""
    if person is None:
        return GHOST
    return {"id": person.id, "login": person.login, "full_name": "", "email": "", "active": True}


def _threads(pull: Pull, review: int) -> list[Thread]:
    return [thread for thread in pull.threads if thread.comments[0].review == review]


def _is_only_a_reply(pull: Pull, given: Given) -> bool:
    """True when a review is made of an answer, which Gitea keeps with the review it answers."""
    replies = {one.review for one in pull.comments if one.reply_to is not None}
    return given.id in replies and not _threads(pull, given.id)


def _when(time: Instant) -> str:
    return f"{time[:19]}Z"


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _not_found() -> Answer:
    return json_answer({"message": "The target couldn't be found.", "url": "", "errors": []}, 404)


def _unprocessable(message: str) -> Answer:
    return json_answer({"message": message, "url": ""}, 422)

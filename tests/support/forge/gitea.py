"""The API of Gitea and Forgejo: short pages, totals in a header, no ETags."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import unquote

from remand.app.forge.ports import CheckState
from remand.domain.forge import PullState, ReviewState
from remand.domain.instant import Instant
from tests.support.forge.actions import ForgeRefusal, RefusalReason, RepositoryActions
from tests.support.forge.server import HttpAnswer, HttpRequest, json_answer, page_of
from tests.support.forge.state import (
    CommitStatus,
    DiscussionComment,
    ForgeState,
    LineComment,
    NewLineComment,
    Person,
    StoredIssue,
    StoredPull,
    StoredReview,
    Thread,
)

Json = dict[str, Any]
Route = Callable[..., HttpAnswer]

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
DRAFTS = ("WIP:", "[WIP]")
ANSWERS: dict[RefusalReason, tuple[int, str]] = {
    RefusalReason.EXISTS: (409, "pull request already exists for these targets"),
    RefusalReason.NO_BRANCH: (404, "The target couldn't be found."),
    RefusalReason.OWN_WORK: (422, "poster of pr can't be reviewer"),
    RefusalReason.NO_COLLABORATOR: (422, "Reviewer can't read"),
    RefusalReason.MOVED: (409, "head out of date"),
    RefusalReason.DRAFT: (405, "Work in progress PRs cannot be merged"),
    RefusalReason.NOT_OPEN: (405, "The PR is already merged"),
    RefusalReason.METHOD: (405, "{method} is not an allowed merge style for this repository"),
    RefusalReason.CHECKS: (405, "Not all required status checks successful"),
}


class GiteaDialect:
    """Answers as Gitea does, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self._state = state
        self._actions = GiteaActionRoutes(state)
        own: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/pulls", self._pulls),
            ("GET", r"/pulls/(\d+)", self._pull),
            ("GET", r"/pulls/(\d+)/reviews", self._reviews),
            ("GET", r"/pulls/(\d+)/reviews/(\d+)/comments", self._comments),
            ("GET", r"/issues/(\d+)/comments", self._remarks),
            ("GET", r"/issues/(\d+)/timeline", self._timeline),
            ("GET", "/collaborators/([^/]+)/permission", self._permission),
            ("POST", r"/pulls/(\d+)/reviews", self._review),
            ("POST", r"/issues/(\d+)/comments", self._remark),
            ("POST", "/statuses/([0-9a-f]{40})", self._status),
        )
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (method, re.compile(f"/api/v1/repos/{state.owner}/{state.name}{pattern}"), route)
            for method, pattern, route in (*own, *self._actions.routes)
        ]

    def answer(self, request: HttpRequest) -> HttpAnswer | None:
        """The answer; None when this is not Gitea's."""
        if not request.path.startswith("/api/v1/"):
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() not in {"token", "bearer"} or token != self._state.token:
            return json_answer({"message": "invalid username, password or token", "url": ""}, 401)
        if request.path == "/api/v1/users/search":
            return self._actions.search(request)
        for method, pattern, route in self._routes:
            match = pattern.fullmatch(request.path)
            if match is not None and method == request.method:
                return self._dispatch(request, route, *match.groups())
        return _not_found()

    def _dispatch(self, request: HttpRequest, route: Route, *parts: str) -> HttpAnswer:
        is_numbered = bool(parts) and parts[0].isdecimal() and len(parts[0]) < 40
        there = (
            self._state.pulls if "/pulls/" in request.path else {**self._state.pulls, **self._state.issues}
        )
        if is_numbered and int(parts[0]) not in there:
            return _not_found()
        return route(request, *parts)

    def _pulls(self, request: HttpRequest) -> HttpAnswer:
        ordered = sorted(self._state.pulls.values(), key=lambda pull: pull.updated_at, reverse=True)
        if request.query.get("state") == "open":
            ordered = [pull for pull in ordered if pull.state is PullState.OPEN]
        page = page_of(request, ordered, size="limit", usual=30, most=LONGEST_PAGE)
        headers = {**page.headers, "x-total-count": str(len(ordered))}
        return json_answer([_pull_json(pull) for pull in page.items], 200, headers)

    def _pull(self, request: HttpRequest, number: str) -> HttpAnswer:
        return json_answer(_pull_json(self._state.pulls[int(number)]))

    def _reviews(self, request: HttpRequest, number: str) -> HttpAnswer:
        """Reviews; others' that are not handed in yet are counted and not shown. There is no link to the next page."""
        pull = self._state.pulls[int(number)]
        given = [one for one in pull.reviews if not _is_only_a_reply(pull, one)]
        page = page_of(request, given, size="limit", usual=30, most=LONGEST_PAGE)
        shown = [
            one
            for one in page.items
            if one.state is not ReviewState.PENDING or one.author is self._state.viewer
        ]
        return json_answer(
            [_review_json(pull, one) for one in shown], 200, {"x-total-count": str(len(given))}
        )

    def _comments(self, request: HttpRequest, number: str, review: str) -> HttpAnswer:
        """Comments of a review and the answers to them, in no order and without pages."""
        threads = _threads(self._state.pulls[int(number)], int(review))
        said = [_line_comment_json(one, thread, self._state) for thread in threads for one in thread.comments]
        return json_answer(said[::-1])

    def _remarks(self, request: HttpRequest, number: str) -> HttpAnswer:
        remarks = self._state.issue_or_pull(int(number)).remarks
        return json_answer([_comment_json(one) for one in remarks], 200, {"x-total-count": str(len(remarks))})

    def _timeline(self, request: HttpRequest, number: str) -> HttpAnswer:
        """All that was said and done; pushes dismiss without a word there."""
        pull = self._state.pulls[int(number)]
        done = [
            {
                "id": 90_000 + one.id,
                "type": "dismiss_review",
                "user": _user_json(one.dismissed_by),
                "review_id": one.id,
            }
            for one in pull.reviews
            if one.state is ReviewState.DISMISSED and one.dismissed_by is not None
        ]
        said = [{**_comment_json(one), "type": "comment", "review_id": 0} for one in pull.remarks]
        page = page_of(request, [*said, *done], size="limit", usual=30, most=LONGEST_PAGE)
        return json_answer(page.items, 200, {"x-total-count": str(len(said) + len(done))})

    def _permission(self, request: HttpRequest, login: str) -> HttpAnswer:
        person = self._state.find_person(unquote(login))
        if person is None:
            return _not_found()
        permission = PERMISSIONS.get(person.permission, person.permission)
        return json_answer({"permission": permission, "role_name": permission, "user": _user_json(person)})

    def _review(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        state = EVENTS[str(asked["event"])]
        if pull.author is self._state.viewer and state is ReviewState.CHANGES_REQUESTED:
            return _unprocessable("reject your own pull is not allowed")
        if not str(asked["body"]).strip():
            return _unprocessable(f"review event {asked['event']} requires a body")
        if any(one["path"] not in pull.paths for one in _sequence(asked["comments"])):
            return _unprocessable("the line is not part of the diff")
        said = [
            NewLineComment(text=one["body"], path=one["path"], line=one["new_position"])
            for one in _sequence(asked["comments"])
        ]
        given = self._state.review(pull, self._state.viewer, state, str(asked["body"]), *said)
        given.commit = str(asked.get("commit_id") or pull.head)
        return json_answer(_review_json(pull, given))

    def _remark(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.issue_or_pull(int(number))
        return json_answer(
            _comment_json(self._state.remark(pull, self._state.viewer, str(request.fields()["body"]))), 201
        )

    def _status(self, request: HttpRequest, commit: str) -> HttpAnswer:
        asked = request.fields()
        posted = CommitStatus(
            commit=commit,
            context=str(asked["context"]),
            state=CheckState(str(asked["state"])),
            text=str(asked["description"]),
        )
        self._state.post(posted)
        return json_answer({"id": 1, "status": posted.state.value, "context": posted.context}, 201)


class GiteaActionRoutes:
    """Routes that change the repository, and the issues that are read to do so."""

    def __init__(self, state: ForgeState) -> None:
        self._state, self._actions = state, RepositoryActions(state)
        self.routes: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/issues", self._issues),
            ("GET", r"/issues/(\d+)", self._issue),
            ("PATCH", r"/issues/(\d+)", self._close),
            ("POST", "/pulls", self._open),
            ("PATCH", r"/pulls/(\d+)", self._rename),
            ("POST", r"/pulls/(\d+)/requested_reviewers", self._ask),
            ("POST", r"/pulls/(\d+)/merge", self._merge),
        )

    def search(self, request: HttpRequest) -> HttpAnswer:
        """Accounts by their ids."""
        found = self._state.people.get(int(request.query["uid"]))
        return json_answer({"ok": True, "data": [_user_json(found)] if found else []})

    def _issues(self, request: HttpRequest) -> HttpAnswer:
        """Open issues; for a label that nobody has made, all of them, as the server does."""
        label = request.query.get("labels", "")
        known = {name for one in self._state.issues.values() for name in one.labels}
        found = [
            one
            for one in self._state.issues.values()
            if one.is_open and (label not in known or label in one.labels)
        ]
        page = page_of(request, found, size="limit", usual=30, most=50)
        headers = {**page.headers, "x-total-count": str(len(found))}
        return json_answer([_issue_json(one) for one in page.items], 200, headers)

    def _issue(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues.get(int(number))
        return json_answer(_issue_json(issue)) if issue else json_answer({"message": "not found"}, 404)

    def _close(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues.get(int(number))
        if issue is not None and request.fields()["state"] == "closed":
            self._actions.close(issue)
        return self._issue(request, number)

    def _open(self, request: HttpRequest) -> HttpAnswer:
        asked = {name: str(value) for name, value in request.fields().items()}
        is_draft = asked["title"].upper().startswith(DRAFTS)
        self._actions.sync_branches()
        try:
            pull = self._actions.open(
                asked["head"], asked["base"], asked["title"], asked["body"], is_draft=is_draft
            )
        except ForgeRefusal as refused:
            return _refusal_answer(refused)
        return json_answer(_pull_json(pull), 201)

    def _rename(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.pulls[int(number)]
        pull.title = str(request.fields()["title"])
        pull.is_draft = pull.title.upper().startswith(DRAFTS)
        return json_answer(_pull_json(pull), 201)

    def _ask(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()["reviewers"]
        people = [self._state.find_person(str(one)) for one in (asked if isinstance(asked, list) else [])]
        try:
            self._actions.request_review(pull, people)
        except ForgeRefusal as refused:
            return _refusal_answer(refused)
        return json_answer([], 201)

    def _merge(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        self._actions.sync_branches()
        try:
            self._actions.merge(pull, str(asked["head_commit_id"]), str(asked["Do"]))
        except ForgeRefusal as refused:
            return _refusal_answer(refused, method=str(asked["Do"]))
        return HttpAnswer(200)


def _pull_json(pull: StoredPull) -> Json:
    is_merged = pull.state is PullState.MERGED
    return {
        "id": 7000 + pull.number,
        "number": pull.number,
        "user": _user_json(pull.author),
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
        "merged_at": _timestamp(pull.merged_at) if is_merged else None,
        "merged_by": _user_json(pull.merged_by) if is_merged else None,
        "head": {
            "label": pull.branch,
            "ref": pull.branch,
            "sha": pull.head,
            "repo_id": 1 + pull.is_of_a_fork,
        },
        "base": {"label": pull.base, "ref": pull.base, "sha": "0" * 40, "repo_id": 1},
        "created_at": _timestamp(pull.created_at),
        "updated_at": _timestamp(pull.updated_at),
    }


def _issue_json(issue: StoredIssue) -> Json:
    return {
        "id": 9000 + issue.number,
        "number": issue.number,
        "user": _user_json(issue.author),
        "title": issue.title,
        "body": issue.text,
        "labels": [{"id": 1, "name": name} for name in issue.labels] or None,
        "state": "open" if issue.is_open else "closed",
        "comments": len(issue.remarks),
        "created_at": f"{issue.created_at[:19]}Z",
        "updated_at": f"{issue.updated_at[:19]}Z",
        "pull_request": None,
        "html_url": f"https://forge.example.org/issues/{issue.number}",
    }


def _review_json(pull: StoredPull, given: StoredReview) -> Json:
    comments = [one for thread in _threads(pull, given.id) for one in thread.comments]
    return {
        "id": given.id,
        "user": _user_json(given.author),
        "team": None,
        "state": STATES[given.was if given.state is ReviewState.DISMISSED else given.state],
        "body": given.text,
        "commit_id": given.commit,
        "stale": given.commit != pull.head,
        "official": given.author is not None and given.author.permission in {"write", "maintain", "admin"},
        "dismissed": given.state is ReviewState.DISMISSED,
        "comments_count": len(comments),
        "submitted_at": _timestamp(given.created_at),
        "updated_at": _timestamp(given.updated_at),
        "html_url": f"https://forge.example.org/pulls/{pull.number}#issuecomment-{given.id}",
        "pull_request_url": f"https://forge.example.org/pulls/{pull.number}",
    }


def _line_comment_json(said: LineComment, thread: Thread, state: ForgeState) -> Json:
    """A comment on a line; only the first of a thread tells who has settled it."""
    is_first = said is thread.comments[0]
    return {
        **_comment_json(said),
        "resolver": _user_json(state.viewer) if thread.is_resolved and is_first else None,
        "pull_request_review_id": thread.comments[0].review,
        "path": said.path,
        "commit_id": said.commit,
        "original_commit_id": said.original_commit,
        "diff_hunk": "@@ -1 +1 @@",
        "position": said.original_line or 0,
        "original_position": 0,
    }


def _comment_json(said: DiscussionComment) -> Json:
    return {
        "id": said.id,
        "html_url": f"https://forge.example.org/comments/{said.id}",
        "user": _user_json(said.author),
        "body": said.text,
        "created_at": _timestamp(said.created_at),
        "updated_at": _timestamp(said.updated_at),
    }


def _user_json(person: Person | None) -> Json:
    """An account; what those said who are gone is the ghost's."""
    if person is None:
        return GHOST
    return {"id": person.id, "login": person.login, "full_name": "", "email": "", "active": True}


def _threads(pull: StoredPull, review: int) -> list[Thread]:
    return [thread for thread in pull.threads if thread.comments[0].review == review]


def _is_only_a_reply(pull: StoredPull, given: StoredReview) -> bool:
    """True when a review is made of an answer, which Gitea keeps with the review it answers."""
    replies = {one.review for one in pull.comments if one.reply_to is not None}
    return given.id in replies and not _threads(pull, given.id)


def _timestamp(time: Instant) -> str:
    return f"{time[:19]}Z"


def _sequence(value: object) -> Sequence[Any]:
    return value if isinstance(value, list) else []


def _not_found() -> HttpAnswer:
    return json_answer({"message": "The target couldn't be found.", "url": "", "errors": []}, 404)


def _unprocessable(message: str) -> HttpAnswer:
    return json_answer({"message": message, "url": ""}, 422)


def _refusal_answer(refused: ForgeRefusal, **words: str) -> HttpAnswer:
    status, message = ANSWERS[refused.why]
    return json_answer({"message": message.format(**words), "url": ""}, status)

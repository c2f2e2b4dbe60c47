"""GitHub's API: REST with ETags, pages and limits, and the one mutation that REST does not have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from remand.app.forge.ports import CheckState
from remand.domain.forge import PullState, ReviewState
from remand.domain.instant import add_seconds
from remand.testing.fakes import START
from tests.support.forge.actions import ForgeRefusal, RefusalReason, RepositoryActions
from tests.support.forge.github_json import GitHubJson, Json
from tests.support.forge.server import HttpAnswer, HttpRequest, json_answer, page_of, with_etag
from tests.support.forge.state import CommitStatus, ForgeState, NewLineComment

LIMIT = 5000
RESET = int(datetime.fromisoformat(add_seconds(START, 3600)).timestamp())
EVENTS = {
    "APPROVE": ReviewState.APPROVED,
    "REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED,
    "COMMENT": ReviewState.COMMENTED,
}

Route = Callable[..., HttpAnswer]
ANSWERS: dict[RefusalReason, tuple[int, str]] = {
    RefusalReason.EXISTS: (422, "A pull request already exists for octo:{branch}."),
    RefusalReason.NO_BRANCH: (422, "head: invalid"),
    RefusalReason.NO_DRAFTS: (422, "Draft pull requests are not supported in this repository."),
    RefusalReason.OWN_WORK: (422, "Review cannot be requested from pull request author."),
    RefusalReason.NO_COLLABORATOR: (422, "Reviews may only be requested from collaborators."),
    RefusalReason.MOVED: (409, "Head branch was modified. Review and try the merge again."),
    RefusalReason.DRAFT: (405, "Pull Request is still a draft"),
    RefusalReason.NOT_OPEN: (405, "Pull Request is not mergeable"),
    RefusalReason.METHOD: (405, "{method} merges are not allowed on this repository."),
    RefusalReason.CHECKS: (405, 'Required status check "ci" is expected.'),
}


class GitHubDialect:
    """Answers as GitHub does, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self._state = state
        self.used = {"core": 0, "graphql": 0}
        own: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/pulls", self._pulls),
            ("GET", "/pulls/comments", self._latest_comments),
            ("GET", r"/pulls/(\d+)", self._pull),
            ("GET", r"/pulls/(\d+)/reviews", self._reviews),
            ("GET", r"/pulls/(\d+)/comments", self._comments),
            ("GET", r"/issues/(\d+)/comments", self._remarks),
            ("GET", r"/issues/(\d+)/events", self._events),
            ("GET", "/collaborators/([^/]+)/permission", self._permission),
            ("POST", r"/pulls/(\d+)/reviews", self._review),
            ("POST", r"/issues/(\d+)/comments", self._remark),
            ("POST", "/statuses/([0-9a-f]{40})", self._status),
        )
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (method, re.compile(f"/repos/{state.owner}/{state.name}{pattern}"), route)
            for method, pattern, route in (*own, *GitHubActionRoutes(state).routes)
        ]

    def answer(self, request: HttpRequest) -> HttpAnswer | None:
        """The answer with its rate limit; None when this is not GitHub's."""
        resource = "graphql" if request.path == "/graphql" else "core"
        if resource == "core" and not request.path.startswith(("/repos/", "/user/")):
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() not in {"token", "bearer"} or token != self._state.token:
            return json_answer({"message": "Bad credentials", "documentation_url": ""}, 401)
        found = self._graphql(request) if resource == "graphql" else self._rest(request)
        return found._replace(headers={**found.headers, **self._rate(resource)})

    def _rest(self, request: HttpRequest) -> HttpAnswer:
        found = with_etag(request, self._dispatch(request))
        self.used["core"] += found.status != 304
        return found

    def _dispatch(self, request: HttpRequest) -> HttpAnswer:
        if request.path.startswith("/user/"):
            person = self._state.people.get(int(request.path.removeprefix("/user/")))
            return (
                json_answer(GitHubJson(self._state, request.base).profile(person)) if person else _not_found()
            )
        for method, pattern, route in self._routes:
            match = pattern.fullmatch(request.path)
            if match is not None and method == request.method:
                return route(request, *match.groups())
        return _not_found()

    def _rate(self, resource: str) -> dict[str, str]:
        used = self.used[resource]
        return {
            "x-ratelimit-limit": str(LIMIT),
            "x-ratelimit-remaining": str(LIMIT - used),
            "x-ratelimit-used": str(used),
            "x-ratelimit-reset": str(RESET),
            "x-ratelimit-resource": resource,
        }

    def _graphql(self, request: HttpRequest) -> HttpAnswer:
        self.used["graphql"] += 1
        asked = request.fields()
        document, name = str(asked.get("query")), str(_mapping(asked.get("variables")).get("id"))
        pull = self._state.pulls.get(int(name.removeprefix("PR_")))
        if "markPullRequestReadyForReview" not in document or pull is None:
            return json_answer({"errors": [{"type": "NOT_FOUND", "message": f"Could not resolve {name}"}]})
        pull.is_draft = False
        return json_answer({"data": {"markPullRequestReadyForReview": {"pullRequest": {"isDraft": False}}}})

    def _pulls(self, request: HttpRequest) -> HttpAnswer:
        ordered = sorted(self._state.pulls.values(), key=lambda pull: pull.updated_at, reverse=True)
        asked = request.query
        found = [
            pull
            for pull in ordered
            if (asked.get("state") != "open" or pull.state is PullState.OPEN)
            and asked.get("base", pull.base) == pull.base
            and asked.get("head", f"{self._state.owner}:{pull.branch}").endswith(f":{pull.branch}")
        ]
        return self._page_answer(request, found, GitHubJson(self._state, request.base).pull)

    def _pull(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.pulls.get(int(number))
        return json_answer(GitHubJson(self._state, request.base).whole(pull)) if pull else _not_found()

    def _reviews(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, shapes = self._state.pulls[int(number)], GitHubJson(self._state, request.base)
        return self._page_answer(request, pull.reviews, lambda given: shapes.review(pull, given))

    def _comments(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, shapes = self._state.pulls[int(number)], GitHubJson(self._state, request.base)
        return self._page_answer(request, pull.comments, lambda said: shapes.line_comment(pull, said))

    def _latest_comments(self, request: HttpRequest) -> HttpAnswer:
        shapes = GitHubJson(self._state, request.base)
        every = [(said, pull) for pull in self._state.pulls.values() for said in pull.comments]
        every.sort(key=lambda pair: pair[0].updated_at, reverse=True)
        return self._page_answer(request, every, lambda pair: shapes.line_comment(pair[1], pair[0]))

    def _remarks(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, shapes = self._state.issue_or_pull(int(number)), GitHubJson(self._state, request.base)
        return self._page_answer(request, pull.remarks, lambda said: shapes.remark(pull, said))

    def _events(self, request: HttpRequest, number: str) -> HttpAnswer:
        """What happened to a pull request; of dismissals by a push, the push is told."""
        pull, shapes = self._state.pulls[int(number)], GitHubJson(self._state, request.base)
        dismissed = [one for one in pull.reviews if one.state is ReviewState.DISMISSED]
        return self._page_answer(request, dismissed, lambda given: shapes.dismissal(pull, given))

    def _page_answer(
        self, request: HttpRequest, items: list[Any], shape: Callable[[Any], Json]
    ) -> HttpAnswer:
        page = page_of(request, items)
        return json_answer([shape(item) for item in page.items], 200, page.headers)

    def _permission(self, request: HttpRequest, login: str) -> HttpAnswer:
        person = self._state.find_person(login)
        if person is None:
            return _not_found()
        return json_answer(GitHubJson(self._state, request.base).permission(person))

    def _review(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        state = EVENTS[str(asked["event"])]
        if pull.author is self._state.viewer and state is not ReviewState.COMMENTED:
            return _unprocessable("Can not request changes on your own pull request")
        comments = [_mapping(one) for one in _sequence(asked.get("comments"))]
        if any(one["path"] not in pull.paths for one in comments):
            return _unprocessable("Line could not be resolved")
        said = [NewLineComment(text=one["body"], path=one["path"], line=one["line"]) for one in comments]
        given = self._state.review(pull, self._state.viewer, state, str(asked["body"]), *said)
        given.commit = str(asked.get("commit_id") or pull.head)
        return json_answer(GitHubJson(self._state, request.base).review(pull, given))

    def _remark(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.issue_or_pull(int(number))
        said = self._state.remark(pull, self._state.viewer, str(request.fields()["body"]))
        return json_answer(GitHubJson(self._state, request.base).remark(pull, said), 201)

    def _status(self, request: HttpRequest, commit: str) -> HttpAnswer:
        asked = request.fields()
        if len(str(asked["description"])) > 140:
            return _unprocessable("description is too long (maximum is 140 characters)")
        state = CheckState(str(asked["state"]))
        posted = CommitStatus(
            commit=commit, context=str(asked["context"]), state=state, text=str(asked["description"])
        )
        self._state.post(posted)
        return json_answer(GitHubJson(self._state, request.base).status(posted), 201)


class GitHubActionRoutes:
    """Routes that change the repository, and the issues that are read to do so."""

    def __init__(self, state: ForgeState) -> None:
        self._state, self._actions = state, RepositoryActions(state)
        self.routes: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/issues", self._issues),
            ("GET", r"/issues/(\d+)", self._issue),
            ("PATCH", r"/issues/(\d+)", self._close),
            ("POST", "/pulls", self._open),
            ("POST", r"/pulls/(\d+)/requested_reviewers", self._ask),
            ("PUT", r"/pulls/(\d+)/merge", self._merge),
        )

    def _issues(self, request: HttpRequest) -> HttpAnswer:
        shapes, label = GitHubJson(self._state, request.base), request.query.get("labels")
        found = [
            shapes.issue(one)
            for one in reversed(self._state.issues.values())
            if one.is_open and (label is None or label in one.labels)
        ]
        found += [shapes.as_issue(pull) for pull in self._state.pulls.values()]
        page = page_of(request, found)
        return json_answer(page.items, 200, page.headers)

    def _issue(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues.get(int(number))
        return json_answer(GitHubJson(self._state, request.base).issue(issue)) if issue else _not_found()

    def _close(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue, asked = self._state.issues.get(int(number)), request.fields()
        if issue is None:
            return _not_found()
        if asked["state"] == "closed":
            self._actions.close(issue, str(asked["state_reason"]))
        return self._issue(request, number)

    def _open(self, request: HttpRequest) -> HttpAnswer:
        asked = request.fields()
        named = {name: str(asked[name]) for name in ("base", "title")}
        branch, text = str(asked["head"]), str(asked["body"])
        self._actions.sync_branches()
        try:
            pull = self._actions.open(branch, text=text, is_draft=bool(asked["draft"]), **named)
        except ForgeRefusal as refused:
            return _refusal_answer(refused, branch=branch)
        return json_answer(GitHubJson(self._state, request.base).whole(pull), 201)

    def _ask(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()["reviewers"]
        people = [self._state.find_person(str(one)) for one in (asked if isinstance(asked, list) else [])]
        try:
            self._actions.request_review(pull, people)
        except ForgeRefusal as refused:
            return _refusal_answer(refused)
        return json_answer(GitHubJson(self._state, request.base).pull(pull), 201)

    def _merge(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        self._actions.sync_branches()
        try:
            self._actions.merge(pull, str(asked["sha"]), str(asked["merge_method"]))
        except ForgeRefusal as refused:
            return _refusal_answer(refused, method=str(asked["merge_method"]).title())
        return json_answer({"sha": pull.head, "merged": True, "message": "Pull Request successfully merged"})


def _not_found() -> HttpAnswer:
    return json_answer({"message": "Not Found", "documentation_url": "", "status": "404"}, 404)


def _unprocessable(error: str) -> HttpAnswer:
    return json_answer({"message": "Unprocessable Entity", "errors": [error], "documentation_url": ""}, 422)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _refusal_answer(refused: ForgeRefusal, **words: str) -> HttpAnswer:
    status, message = ANSWERS[refused.why]
    text = message.format(**words)
    if status == 422:
        errors = [{"resource": "PullRequest", "code": "custom", "message": text}]
        return json_answer(
            {"message": "Validation Failed", "documentation_url": "", "errors": errors}, status
        )
    return json_answer({"message": text, "documentation_url": ""}, status)

"""GitHub as the fake forge speaks it: REST with ETags, pages and limits, and GraphQL."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from remand.app.forge.ports import CheckState
from remand.domain.instant import add_seconds, parse_moment
from remand.domain.pull_request.records import PullState, ReviewState
from remand.testing.fakes import START
from remand.testing.forge_github_desk import GitHubDesk
from remand.testing.forge_github_shapes import Json, Shapes
from remand.testing.forge_graphql import Graph, cost
from remand.testing.forge_server import Answer, Request, conditional, json_answer, paged
from remand.testing.forge_state import ForgeState, Posted, Said

LIMIT = 5000
RESET = int(parse_moment(add_seconds(START, 3600)).timestamp())
EVENTS = {
    "APPROVE": ReviewState.APPROVED,
    "REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED,
    "COMMENT": ReviewState.COMMENTED,
}

Route = Callable[..., Answer]


class GitHubDialect:
    """Answers as GitHub does, for whoever has the token."""

    def __init__(self, state: ForgeState, *, has_graphql: bool = True) -> None:
        self._state = state
        self.has_graphql = has_graphql
        self.used = {"core": 0, "graphql": 0}
        own: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/pulls", self._pulls),
            ("GET", "/pulls/comments", self._latest_comments),
            ("GET", r"/pulls/(\d+)", self._pull),
            ("GET", r"/pulls/(\d+)/reviews", self._reviews),
            ("GET", r"/pulls/(\d+)/comments", self._comments),
            ("GET", r"/issues/(\d+)/comments", self._remarks),
            ("GET", "/collaborators/([^/]+)/permission", self._permission),
            ("POST", r"/pulls/(\d+)/reviews", self._review),
            ("POST", r"/issues/(\d+)/comments", self._remark),
            ("POST", "/statuses/([0-9a-f]{40})", self._status),
        )
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (method, re.compile(f"/repos/{state.owner}/{state.name}{pattern}"), route)
            for method, pattern, route in (*own, *GitHubDesk(state).routes)
        ]

    def answer(self, request: Request) -> Answer | None:
        """The answer with its rate limit; None when this is not GitHub's."""
        resource = "graphql" if request.path == "/graphql" else "core"
        if resource == "core" and not request.path.startswith(("/repos/", "/user/")):
            return None
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.casefold() not in {"token", "bearer"} or token != self._state.token:
            return json_answer({"message": "Bad credentials", "documentation_url": ""}, 401)
        found = self._graphql(request) if resource == "graphql" else self._rest(request)
        return found._replace(headers={**found.headers, **self._rate(resource)})

    def _rest(self, request: Request) -> Answer:
        found = conditional(request, self._routed(request))
        self.used["core"] += found.status != 304
        return found

    def _routed(self, request: Request) -> Answer:
        if request.path.startswith("/user/"):
            person = self._state.people.get(int(request.path.removeprefix("/user/")))
            return json_answer(Shapes(self._state, request.base).profile(person)) if person else _not_found()
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

    def _graphql(self, request: Request) -> Answer:
        if not self.has_graphql:
            return _not_found()
        asked = request.fields()
        document, variables = str(asked.get("query")), _mapping(asked.get("variables"))
        points = cost(document, variables)
        self.used["graphql"] += points
        rate = {"cost": points, "limit": LIMIT, "used": self.used["graphql"], "remaining": LIMIT}
        return json_answer(Graph(self._state, rate).answer(document, variables))

    def _pulls(self, request: Request) -> Answer:
        ordered = sorted(self._state.pulls.values(), key=lambda pull: pull.updated_at, reverse=True)
        asked = request.query
        found = [
            pull
            for pull in ordered
            if (asked.get("state") != "open" or pull.state is PullState.OPEN)
            and asked.get("base", pull.base) == pull.base
            and asked.get("head", f"{self._state.owner}:{pull.branch}").endswith(f":{pull.branch}")
        ]
        return self._listed(request, found, Shapes(self._state, request.base).pull)

    def _pull(self, request: Request, number: str) -> Answer:
        pull = self._state.pulls.get(int(number))
        return json_answer(Shapes(self._state, request.base).whole(pull)) if pull else _not_found()

    def _reviews(self, request: Request, number: str) -> Answer:
        pull, shapes = self._state.pulls[int(number)], Shapes(self._state, request.base)
        return self._listed(request, pull.reviews, lambda given: shapes.review(pull, given))

    def _comments(self, request: Request, number: str) -> Answer:
        pull, shapes = self._state.pulls[int(number)], Shapes(self._state, request.base)
        return self._listed(request, pull.comments, lambda said: shapes.line_comment(pull, said))

    def _latest_comments(self, request: Request) -> Answer:
        shapes = Shapes(self._state, request.base)
        every = [(said, pull) for pull in self._state.pulls.values() for said in pull.comments]
        every.sort(key=lambda pair: pair[0].updated_at, reverse=True)
        return self._listed(request, every, lambda pair: shapes.line_comment(pair[1], pair[0]))

    def _remarks(self, request: Request, number: str) -> Answer:
        pull, shapes = self._state.discussed(int(number)), Shapes(self._state, request.base)
        return self._listed(request, pull.remarks, lambda said: shapes.remark(pull, said))

    def _listed(self, request: Request, items: list[Any], shape: Callable[[Any], Json]) -> Answer:
        page = paged(request, items)
        return json_answer([shape(item) for item in page.items], 200, page.headers)

    def _permission(self, request: Request, login: str) -> Answer:
        person = self._state.named(login)
        if person is None:
            return _not_found()
        return json_answer(Shapes(self._state, request.base).permission(person))

    def _review(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        state = EVENTS[str(asked["event"])]
        if pull.author is self._state.viewer and state is not ReviewState.COMMENTED:
            return _unprocessable("Can not request changes on your own pull request")
        comments = [_mapping(one) for one in _sequence(asked.get("comments"))]
        if any(one["path"] not in pull.paths for one in comments):
            return _unprocessable("Line could not be resolved")
        said = [Said(text=one["body"], path=one["path"], line=one["line"]) for one in comments]
        given = self._state.review(pull, self._state.viewer, state, str(asked["body"]), *said)
        given.commit = str(asked.get("commit_id") or pull.head)
        return json_answer(Shapes(self._state, request.base).review(pull, given))

    def _remark(self, request: Request, number: str) -> Answer:
        pull = self._state.discussed(int(number))
        said = self._state.remark(pull, self._state.viewer, str(request.fields()["body"]))
        return json_answer(Shapes(self._state, request.base).remark(pull, said), 201)

    def _status(self, request: Request, commit: str) -> Answer:
        asked = request.fields()
        if len(str(asked["description"])) > 140:
            return _unprocessable("description is too long (maximum is 140 characters)")
        state = CheckState(str(asked["state"]))
        posted = Posted(
            commit=commit, context=str(asked["context"]), state=state, text=str(asked["description"])
        )
        self._state.post(posted)
        return json_answer(Shapes(self._state, request.base).status(posted), 201)


def _not_found() -> Answer:
    return json_answer({"message": "Not Found", "documentation_url": "", "status": "404"}, 404)


def _unprocessable(error: str) -> Answer:
    return json_answer({"message": "Unprocessable Entity", "errors": [error], "documentation_url": ""}, 422)


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _sequence(value: object) -> list[Any]:
    return value if isinstance(value, list) else []

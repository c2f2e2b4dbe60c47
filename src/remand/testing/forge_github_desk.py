"""What GitHub does when it is asked to, as the fake forge speaks it."""

from __future__ import annotations

from collections.abc import Callable

from remand.testing.forge_desk import Desk, Refusal, Refused
from remand.testing.forge_github_shapes import Shapes
from remand.testing.forge_server import Answer, Request, json_answer, paged
from remand.testing.forge_state import ForgeState

Route = Callable[..., Answer]

ANSWERS: dict[Refusal, tuple[int, str]] = {
    Refusal.EXISTS: (422, "A pull request already exists for octo:{branch}."),
    Refusal.NO_BRANCH: (422, "head: invalid"),
    Refusal.NO_DRAFTS: (422, "Draft pull requests are not supported in this repository."),
    Refusal.OWN_WORK: (422, "Review cannot be requested from pull request author."),
    Refusal.NO_COLLABORATOR: (422, "Reviews may only be requested from collaborators."),
    Refusal.MOVED: (409, "Head branch was modified. Review and try the merge again."),
    Refusal.DRAFT: (405, "Pull Request is still a draft"),
    Refusal.NOT_OPEN: (405, "Pull Request is not mergeable"),
    Refusal.METHOD: (405, "{method} merges are not allowed on this repository."),
    Refusal.CHECKS: (405, 'Required status check "ci" is expected.'),
}


class GitHubDesk:
    """The routes by which something is done, or read for it."""

    def __init__(self, state: ForgeState) -> None:
        self._state, self._desk = state, Desk(state)
        self.routes: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/issues", self._issues),
            ("GET", r"/issues/(\d+)", self._issue),
            ("PATCH", r"/issues/(\d+)", self._close),
            ("POST", "/pulls", self._open),
            ("POST", r"/pulls/(\d+)/requested_reviewers", self._ask),
            ("PUT", r"/pulls/(\d+)/merge", self._merge),
        )

    def _issues(self, request: Request) -> Answer:
        shapes, label = Shapes(self._state, request.base), request.query.get("labels")
        found = [
            shapes.issue(one)
            for one in reversed(self._state.issues.values())
            if one.is_open and (label is None or label in one.labels)
        ]
        found += [shapes.as_issue(pull) for pull in self._state.pulls.values()]
        page = paged(request, found)
        return json_answer(page.items, 200, page.headers)

    def _issue(self, request: Request, number: str) -> Answer:
        issue = self._state.issues.get(int(number))
        return json_answer(Shapes(self._state, request.base).issue(issue)) if issue else _not_found()

    def _close(self, request: Request, number: str) -> Answer:
        issue, asked = self._state.issues.get(int(number)), request.fields()
        if issue is None:
            return _not_found()
        if asked["state"] == "closed":
            self._desk.close(issue, str(asked["state_reason"]))
        return self._issue(request, number)

    def _open(self, request: Request) -> Answer:
        asked = request.fields()
        named = {name: str(asked[name]) for name in ("base", "title")}
        branch, text = str(asked["head"]), str(asked["body"])
        self._desk.follow()
        try:
            pull = self._desk.open(branch, text=text, is_draft=bool(asked["draft"]), **named)
        except Refused as refused:
            return _refused(refused, branch=branch)
        return json_answer(Shapes(self._state, request.base).whole(pull), 201)

    def _ask(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()["reviewers"]
        people = [self._state.named(str(one)) for one in (asked if isinstance(asked, list) else [])]
        try:
            self._desk.ask(pull, people)
        except Refused as refused:
            return _refused(refused)
        return json_answer(Shapes(self._state, request.base).pull(pull), 201)

    def _merge(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        self._desk.follow()
        try:
            self._desk.merge(pull, str(asked["sha"]), str(asked["merge_method"]))
        except Refused as refused:
            return _refused(refused, method=str(asked["merge_method"]).title())
        return json_answer({"sha": pull.head, "merged": True, "message": "Pull Request successfully merged"})


def _refused(refused: Refused, **words: str) -> Answer:
    status, message = ANSWERS[refused.why]
    told = message.format(**words)
    if status == 422:
        errors = [{"resource": "PullRequest", "code": "custom", "message": told}]
        return json_answer(
            {"message": "Validation Failed", "documentation_url": "", "errors": errors}, status
        )
    return json_answer({"message": told, "documentation_url": ""}, status)


def _not_found() -> Answer:
    return json_answer({"message": "Not Found", "documentation_url": "", "status": "404"}, 404)

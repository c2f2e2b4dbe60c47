"""What Gitea does when it is asked to, as the fake forge speaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remand.testing.forge_desk import Desk, Refusal, Refused
from remand.testing.forge_server import Answer, Request, json_answer, paged
from remand.testing.forge_state import ForgeState, Issue

Json = dict[str, Any]
Route = Callable[..., Answer]

DRAFTS = ("WIP:", "[WIP]")
ANSWERS: dict[Refusal, tuple[int, str]] = {
    Refusal.EXISTS: (409, "pull request already exists for these targets"),
    Refusal.NO_BRANCH: (404, "The target couldn't be found."),
    Refusal.OWN_WORK: (422, "poster of pr can't be reviewer"),
    Refusal.NO_COLLABORATOR: (422, "Reviewer can't read"),
    Refusal.MOVED: (409, "head out of date"),
    Refusal.DRAFT: (405, "Work in progress PRs cannot be merged"),
    Refusal.NOT_OPEN: (405, "The PR is already merged"),
    Refusal.METHOD: (405, "{method} is not an allowed merge style for this repository"),
    Refusal.CHECKS: (405, "Not all required status checks successful"),
}


class GiteaDesk:
    """The routes by which something is done, or read for it."""

    def __init__(self, state: ForgeState, pull: Callable[..., Json], user: Callable[..., Json]) -> None:
        self._state, self._desk = state, Desk(state)
        self._pull, self._user = pull, user
        self.routes: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/issues", self._issues),
            ("GET", r"/issues/(\d+)", self._issue),
            ("PATCH", r"/issues/(\d+)", self._close),
            ("POST", "/pulls", self._open),
            ("PATCH", r"/pulls/(\d+)", self._rename),
            ("POST", r"/pulls/(\d+)/requested_reviewers", self._ask),
            ("POST", r"/pulls/(\d+)/merge", self._merge),
        )

    def search(self, request: Request) -> Answer:
        """Accounts by their ids."""
        found = self._state.people.get(int(request.query["uid"]))
        return json_answer({"ok": True, "data": [self._user(found)] if found else []})

    def _issues(self, request: Request) -> Answer:
        """Open issues; for a label that nobody has made, all of them, as the server does."""
        label = request.query.get("labels", "")
        known = {name for one in self._state.issues.values() for name in one.labels}
        found = [
            one
            for one in self._state.issues.values()
            if one.is_open and (label not in known or label in one.labels)
        ]
        page = paged(request, found, size="limit", usual=30, most=50)
        headers = {**page.headers, "x-total-count": str(len(found))}
        return json_answer([self._told(one) for one in page.items], 200, headers)

    def _issue(self, request: Request, number: str) -> Answer:
        issue = self._state.issues.get(int(number))
        return json_answer(self._told(issue)) if issue else json_answer({"message": "not found"}, 404)

    def _told(self, issue: Issue) -> Json:
        return {
            "id": 9000 + issue.number,
            "number": issue.number,
            "user": self._user(issue.author),
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

    def _close(self, request: Request, number: str) -> Answer:
        issue = self._state.issues.get(int(number))
        if issue is not None and request.fields()["state"] == "closed":
            self._desk.close(issue)
        return self._issue(request, number)

    def _open(self, request: Request) -> Answer:
        asked = {name: str(value) for name, value in request.fields().items()}
        is_draft = asked["title"].upper().startswith(DRAFTS)
        self._desk.follow()
        try:
            pull = self._desk.open(
                asked["head"], asked["base"], asked["title"], asked["body"], is_draft=is_draft
            )
        except Refused as refused:
            return _refused(refused)
        return json_answer(self._pull(pull), 201)

    def _rename(self, request: Request, number: str) -> Answer:
        pull = self._state.pulls[int(number)]
        pull.title = str(request.fields()["title"])
        pull.is_draft = pull.title.upper().startswith(DRAFTS)
        return json_answer(self._pull(pull), 201)

    def _ask(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()["reviewers"]
        people = [self._state.named(str(one)) for one in (asked if isinstance(asked, list) else [])]
        try:
            self._desk.ask(pull, people)
        except Refused as refused:
            return _refused(refused)
        return json_answer([], 201)

    def _merge(self, request: Request, number: str) -> Answer:
        pull, asked = self._state.pulls[int(number)], request.fields()
        self._desk.follow()
        try:
            self._desk.merge(pull, str(asked["head_commit_id"]), str(asked["Do"]))
        except Refused as refused:
            return _refused(refused, method=str(asked["Do"]))
        return Answer(200)


def _refused(refused: Refused, **words: str) -> Answer:
    status, message = ANSWERS[refused.why]
    return json_answer({"message": message.format(**words), "url": ""}, status)

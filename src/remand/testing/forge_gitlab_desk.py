"""What GitLab does when it is asked to, as the fake forge speaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from remand.testing.forge_desk import Desk, Refusal, Refused
from remand.testing.forge_server import Answer, Request, json_answer, paged
from remand.testing.forge_state import ForgeState, Issue, Pull

Json = dict[str, Any]
Route = Callable[..., Answer]

DRAFT = "draft:"
ANSWERS: dict[Refusal, tuple[int, str]] = {
    Refusal.EXISTS: (409, "Another open merge request already exists for this source branch: !1"),
    Refusal.NO_BRANCH: (400, 'Source branch "{branch}" does not exist'),
    Refusal.MOVED: (409, "SHA does not match HEAD of source branch: {head}"),
    Refusal.DRAFT: (405, "405 Method Not Allowed"),
    Refusal.NOT_OPEN: (405, "405 Method Not Allowed"),
    Refusal.CHECKS: (405, "405 Method Not Allowed"),
}


class GitLabDesk:
    """The routes by which something is done, or read for it."""

    def __init__(
        self,
        state: ForgeState,
        request: Callable[..., Json],
        user: Callable[..., Json],
        note: Callable[..., Json],
        obeyed: Callable[[str], tuple[str, dict[str, str]]],
    ) -> None:
        self._state, self._desk = state, Desk(state)
        self._obeyed = obeyed
        self._told, self._user, self._note = request, user, note
        self.routes: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/issues", self._issues),
            ("GET", r"/issues/(\d+)", self._issue),
            ("PUT", r"/issues/(\d+)", self._close),
            ("GET", r"/issues/(\d+)/notes", self._notes),
            ("POST", r"/issues/(\d+)/notes", self._say),
            ("POST", "/merge_requests", self._open),
            ("PUT", r"/merge_requests/(\d+)", self._change),
            ("PUT", r"/merge_requests/(\d+)/merge", self._merge),
        )

    def users(self, request: Request) -> Answer:
        """Accounts by their names."""
        found = self._state.named(request.query["username"])
        return json_answer([self._user(found)] if found else [])

    def _issues(self, request: Request) -> Answer:
        label = request.query["labels"]
        found = [one for one in self._state.issues.values() if one.is_open and label in one.labels]
        page = paged(request, found, usual=20)
        more = str(page.number + 1) if page.number < page.pages else ""
        return json_answer(
            [self._issue_told(one) for one in page.items], 200, {**page.headers, "x-next-page": more}
        )

    def _issue(self, request: Request, number: str) -> Answer:
        issue = self._state.issues.get(int(number))
        return json_answer(self._issue_told(issue)) if issue else _not_found()

    def _issue_told(self, issue: Issue) -> Json:
        return {
            "id": 9000 + issue.number,
            "iid": issue.number,
            "title": issue.title,
            "description": issue.text or None,
            "state": "opened" if issue.is_open else "closed",
            "labels": issue.labels,
            "author": self._user(issue.author),
            "created_at": issue.created_at,
            "issue_type": "issue",
            "web_url": f"https://forge.example.org/issues/{issue.number}",
        }

    def _close(self, request: Request, number: str) -> Answer:
        issue = self._state.issues.get(int(number))
        if issue is not None and request.fields()["state_event"] == "close":
            self._desk.close(issue)
        return self._issue(request, number)

    def _notes(self, request: Request, number: str) -> Answer:
        said = [self._note(one) for one in self._state.issues[int(number)].remarks]
        page = paged(request, said, usual=20)
        more = str(page.number + 1) if page.number < page.pages else ""
        return json_answer(page.items, 200, {**page.headers, "x-next-page": more})

    def _say(self, request: Request, number: str) -> Answer:
        issue = self._state.issues[int(number)]
        said = self._state.remark(issue, self._state.viewer, str(request.fields()["body"]))
        return json_answer(self._note(said), 201)

    def _open(self, request: Request) -> Answer:
        asked = {name: str(value) for name, value in request.fields().items()}
        branch, title = asked["source_branch"], asked["title"]
        text, commands = self._obeyed(asked["description"])
        self._desk.follow()
        try:
            pull = self._desk.open(
                branch,
                asked["target_branch"],
                title,
                text,
                is_draft=title.lower().startswith(DRAFT),
            )
        except Refused as refused:
            return _refused(refused, branch=branch)
        if "merge" in commands:
            self._state.merge(pull, self._state.viewer)
        return json_answer(self._told(pull), 201)

    def _change(self, request: Request, number: str) -> Answer:
        """A title, or reviewers: those who cannot be are left out without a word."""
        pull, asked = self._state.pulls[int(number)], request.fields()
        if "title" in asked:
            pull.title = str(asked["title"])
            pull.is_draft = pull.title.lower().startswith(DRAFT)
        wanted = asked.get("reviewer_ids")
        if isinstance(wanted, list):
            self._ask(pull, wanted)
        return json_answer(self._told(pull))

    def _ask(self, pull: Pull, wanted: list[int]) -> None:
        pull.requested = []
        for number in wanted:
            try:
                self._desk.ask(pull, [self._state.people.get(number)])
            except Refused:
                continue

    def _merge(self, request: Request, number: str) -> Answer:
        pull = self._state.pulls[int(number)]
        self._desk.follow()
        try:
            self._desk.merge(pull, str(request.fields()["sha"]))
        except Refused as refused:
            return _refused(refused, head=pull.head)
        return json_answer(self._told(pull))


def _refused(refused: Refused, **words: str) -> Answer:
    status, message = ANSWERS[refused.why]
    return json_answer({"message": message.format(**words)}, status)


def _not_found() -> Answer:
    return json_answer({"message": "404 Not found"}, 404)

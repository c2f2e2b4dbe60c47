"""GitLab's API: notes of the system in place of reviews, versions in place of their commits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from remand.app.forge.ports import CheckState
from remand.domain.forge import PullState, ReviewState
from remand.domain.instant import Instant, add_seconds
from tests.support.forge.actions import ForgeRefusal, RefusalReason, RepositoryActions
from tests.support.forge.server import HttpAnswer, HttpRequest, json_answer, page_of, with_etag
from tests.support.forge.state import (
    CommitStatus,
    DiscussionComment,
    ForgeState,
    NewLineComment,
    Person,
    StoredIssue,
    StoredPull,
    StoredReview,
    Thread,
)

Json = dict[str, Any]
Route = Callable[..., HttpAnswer]

LEVELS = {"read": 20, "triage": 20, "write": 30, "maintain": 40, "admin": 50}
CHECKS = {
    "pending": CheckState.PENDING,
    "success": CheckState.SUCCESS,
    "failed": CheckState.FAILURE,
    "canceled": CheckState.ERROR,
}
STATES = {PullState.OPEN: "opened", PullState.CLOSED: "closed", PullState.MERGED: "merged"}
OPINIONS = {
    ReviewState.CHANGES_REQUESTED: "requested changes",
    ReviewState.APPROVED: "approved this merge request",
}
UNAPPROVED = "unapproved this merge request"
TEXT, TAKEN_BACK = 1_000_000, 2_000_000
"""What is added to a review's id to have another for its text, and for the note that takes it back."""
GHOST = {"id": 999_999, "username": "ghost", "name": "Ghost User", "state": "active"}
COMMAND = re.compile(r"^/(\w+)(?: (.*))?$\n?", re.MULTILINE)
LIMIT = 2000
DRAFT = "draft:"
ANSWERS: dict[RefusalReason, tuple[int, str]] = {
    RefusalReason.EXISTS: (409, "Another open merge request already exists for this source branch: !1"),
    RefusalReason.NO_BRANCH: (400, 'Source branch "{branch}" does not exist'),
    RefusalReason.MOVED: (409, "SHA does not match HEAD of source branch: {head}"),
    RefusalReason.DRAFT: (405, "405 Method Not Allowed"),
    RefusalReason.NOT_OPEN: (405, "405 Method Not Allowed"),
    RefusalReason.CHECKS: (405, "405 Method Not Allowed"),
}


class GitLabDialect:
    """Answers as GitLab does, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self._state = state
        self._used = 0
        self._actions = GitLabActionRoutes(state)
        project = f"/api/v4/projects/{state.owner}%2F{state.name}"
        own: tuple[tuple[str, str, Route], ...] = (
            ("GET", "/merge_requests", self._requests),
            ("GET", r"/merge_requests/(\d+)", self._request),
            ("GET", r"/merge_requests/(\d+)/discussions", self._discussions),
            ("GET", r"/merge_requests/(\d+)/versions", self._versions),
            ("GET", r"/merge_requests/(\d+)/reviewers", self._reviewers),
            ("GET", r"/merge_requests/(\d+)/approvals", self._approvals),
            ("GET", r"/members/all/(\d+)", self._member),
            ("POST", r"/merge_requests/(\d+)/discussions", self._begin),
            ("POST", r"/merge_requests/(\d+)/notes", self._say),
            ("POST", "/statuses/([0-9a-f]{40})", self._status),
        )
        self._routes: list[tuple[str, re.Pattern[str], Route]] = [
            (method, re.compile(f"{project}{pattern}"), route)
            for method, pattern, route in (*own, *self._actions.routes)
        ]

    def answer(self, request: HttpRequest) -> HttpAnswer | None:
        """The answer with its rate limit; None when this is not GitLab's."""
        if not request.path.startswith("/api/v4/"):
            return None
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.headers.get("private-token", token) != self._state.token:
            return json_answer({"message": "401 Unauthorized"}, 401)
        self._used += 1
        found = with_etag(request, self._dispatch(request))
        rate = {"ratelimit-limit": str(LIMIT), "ratelimit-remaining": str(LIMIT - self._used)}
        return found._replace(headers={**found.headers, **rate})

    def _dispatch(self, request: HttpRequest) -> HttpAnswer:
        if request.path == "/api/v4/users":
            return self._actions.users(request)
        for method, pattern, route in self._routes:
            match = pattern.fullmatch(request.path)
            if match is None or method != request.method:
                continue
            if "merge_requests/" in request.path and int(match[1]) not in self._state.pulls:
                return _not_found()
            return route(request, *match.groups())
        return _not_found()

    def _requests(self, request: HttpRequest) -> HttpAnswer:
        asked = request.query
        wanted = {int(number) for number in asked.get("iids[]", "").split(",") if number}
        found = [
            pull
            for number, pull in sorted(self._state.pulls.items(), reverse=True)
            if number in wanted
            or (pull.branch, pull.base) == (asked.get("source_branch"), asked.get("target_branch"))
        ]
        if asked.get("state") == "opened":
            found = [pull for pull in found if pull.state is PullState.OPEN]
        page = page_of(request, found, usual=20)
        return json_answer(
            [_merge_request_json(pull) for pull in page.items],
            200,
            _totals(page.headers, page.number, page.pages),
        )

    def _request(self, request: HttpRequest, number: str) -> HttpAnswer:
        return json_answer(_merge_request_json(self._state.pulls[int(number)]))

    def _discussions(self, request: HttpRequest, number: str) -> HttpAnswer:
        return self._page_answer(request, sorted(_discussions(self._state.pulls[int(number)]), key=_start_of))

    def _versions(self, request: HttpRequest, number: str) -> HttpAnswer:
        return self._page_answer(request, _versions(self._state.pulls[int(number)])[::-1])

    def _page_answer(self, request: HttpRequest, items: list[Json]) -> HttpAnswer:
        page = page_of(request, items, usual=20)
        return json_answer(page.items, 200, _totals(page.headers, page.number, page.pages))

    def _reviewers(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.pulls[int(number)]
        states = {
            one.author.id: (one.author, _reviewer_state(one))
            for one in pull.reviews
            if one.author is not None
        }
        if pull.author is not self._state.viewer:
            states.setdefault(self._state.viewer.id, (self._state.viewer, "unreviewed"))
        return json_answer(
            [
                {"user": _user_json(person), "state": state, "created_at": pull.created_at}
                for person, state in states.values()
            ]
        )

    def _approvals(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.pulls[int(number)]
        last = {one.author.id: one for one in pull.reviews if one.author is not None and one.was in OPINIONS}
        standing = [one for one in last.values() if one.state is ReviewState.APPROVED]
        approved = [{"user": _user_json(one.author), "approved_at": one.created_at} for one in standing]
        return json_answer({"approved": bool(approved), "approved_by": approved})

    def _member(self, request: HttpRequest, person: str) -> HttpAnswer:
        found = self._state.people.get(int(person))
        if found is None or found.permission not in LEVELS:
            return _not_found()
        return json_answer(
            {**_user_json(found), "access_level": LEVELS[found.permission], "expires_at": None}
        )

    def _begin(self, request: HttpRequest, number: str) -> HttpAnswer:
        """A thread at a line, taken where the merge request changes something."""
        pull, asked = self._state.pulls[int(number)], request.fields()
        place = asked.get("position")
        if (
            not isinstance(place, dict)
            or place["new_path"] not in pull.paths
            or place["head_sha"] != pull.head
        ):
            return json_answer({"message": '400 Bad request - Note {:line_code=>["can\'t be blank"]}'}, 400)
        text, _ = _split_commands(str(asked["body"]))
        said = NewLineComment(text=text, path=str(place["new_path"]), line=int(place["new_line"]))
        self._state.review(pull, self._state.viewer, ReviewState.COMMENTED, "", said)
        return json_answer(_thread_json(pull, pull.threads[-1]), 201)

    def _say(self, request: HttpRequest, number: str) -> HttpAnswer:
        """A note, and what it commands: whoever is no reviewer commands no review."""
        pull, viewer = self._state.pulls[int(number)], self._state.viewer
        text, commands = _split_commands(str(request.fields()["body"]))
        if "merge" in commands:
            self._state.merge(pull, viewer)
        if commands.get("submit_review") == "requested_changes" and pull.author is not viewer:
            given = self._state.review(pull, viewer, ReviewState.CHANGES_REQUESTED, text)
            return json_answer(_review_text(given), 201)
        return json_answer(_note_json(self._state.remark(pull, viewer, text)), 201)

    def _status(self, request: HttpRequest, commit: str) -> HttpAnswer:
        asked = request.fields()
        state = CHECKS[str(asked["state"])]
        last = next((one for one in reversed(self._state.statuses) if one.commit == commit), None)
        if last is not None and last.state is state:
            reason = f"Cannot transition status via :enqueue from :{asked['state']}"
            return json_answer({"message": reason}, 400)
        text = str(asked["description"])
        self._state.post(CommitStatus(commit=commit, context=str(asked["name"]), state=state, text=text))
        return json_answer({"id": 1, "sha": commit, "status": asked["state"], "name": asked["name"]}, 201)


class GitLabActionRoutes:
    """Routes that change the project, and the issues that are read to do so."""

    def __init__(self, state: ForgeState) -> None:
        self._state, self._actions = state, RepositoryActions(state)
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

    def users(self, request: HttpRequest) -> HttpAnswer:
        """Accounts by their names."""
        found = self._state.find_person(request.query["username"])
        return json_answer([_user_json(found)] if found else [])

    def _issues(self, request: HttpRequest) -> HttpAnswer:
        label = request.query["labels"]
        found = [one for one in self._state.issues.values() if one.is_open and label in one.labels]
        page = page_of(request, found, usual=20)
        more = str(page.number + 1) if page.number < page.pages else ""
        return json_answer(
            [_issue_json(one) for one in page.items], 200, {**page.headers, "x-next-page": more}
        )

    def _issue(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues.get(int(number))
        return json_answer(_issue_json(issue)) if issue else _not_found()

    def _close(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues.get(int(number))
        if issue is not None and request.fields()["state_event"] == "close":
            self._actions.close(issue)
        return self._issue(request, number)

    def _notes(self, request: HttpRequest, number: str) -> HttpAnswer:
        said = [_note_json(one) for one in self._state.issues[int(number)].remarks]
        page = page_of(request, said, usual=20)
        more = str(page.number + 1) if page.number < page.pages else ""
        return json_answer(page.items, 200, {**page.headers, "x-next-page": more})

    def _say(self, request: HttpRequest, number: str) -> HttpAnswer:
        issue = self._state.issues[int(number)]
        said = self._state.remark(issue, self._state.viewer, str(request.fields()["body"]))
        return json_answer(_note_json(said), 201)

    def _open(self, request: HttpRequest) -> HttpAnswer:
        asked = {name: str(value) for name, value in request.fields().items()}
        branch, title = asked["source_branch"], asked["title"]
        text, commands = _split_commands(asked["description"])
        self._actions.sync_branches()
        try:
            pull = self._actions.open(
                branch,
                asked["target_branch"],
                title,
                text,
                is_draft=title.lower().startswith(DRAFT),
            )
        except ForgeRefusal as refused:
            return _refusal_answer(refused, branch=branch)
        if "merge" in commands:
            self._state.merge(pull, self._state.viewer)
        return json_answer(_merge_request_json(pull), 201)

    def _change(self, request: HttpRequest, number: str) -> HttpAnswer:
        """A title, or reviewers: those who cannot be are left out without a word."""
        pull, asked = self._state.pulls[int(number)], request.fields()
        if "title" in asked:
            pull.title = str(asked["title"])
            pull.is_draft = pull.title.lower().startswith(DRAFT)
        wanted = asked.get("reviewer_ids")
        if isinstance(wanted, list):
            self._ask(pull, wanted)
        return json_answer(_merge_request_json(pull))

    def _ask(self, pull: StoredPull, wanted: list[int]) -> None:
        pull.requested = []
        for number in wanted:
            try:
                self._actions.request_review(pull, [self._state.people.get(number)])
            except ForgeRefusal:
                continue

    def _merge(self, request: HttpRequest, number: str) -> HttpAnswer:
        pull = self._state.pulls[int(number)]
        self._actions.sync_branches()
        try:
            self._actions.merge(pull, str(request.fields()["sha"]))
        except ForgeRefusal as refused:
            return _refusal_answer(refused, head=pull.head)
        return json_answer(_merge_request_json(pull))


def _merge_request_json(pull: StoredPull) -> Json:
    """A merge request. Everything said in it counts as an update of it."""
    said: list[DiscussionComment | StoredReview] = [*pull.remarks, *pull.comments, *pull.reviews]
    is_merged = pull.state is PullState.MERGED
    return {
        "id": 7000 + pull.number,
        "iid": pull.number,
        "project_id": 1,
        "title": pull.title,
        "description": pull.text or None,
        "draft": pull.is_draft,
        "reviewers": [_user_json(one) for one in pull.requested],
        "state": STATES[pull.state],
        "created_at": pull.created_at,
        "updated_at": max(pull.updated_at, *(one.updated_at for one in said), ""),
        "merge_user": _user_json(pull.merged_by) if is_merged else None,
        "merged_at": pull.merged_at or None,
        "target_branch": pull.base,
        "source_project_id": 1 + pull.is_of_a_fork,
        "target_project_id": 1,
        "source_branch": pull.branch,
        "author": _user_json(pull.author),
        "sha": pull.head,
        "diff_refs": {"base_sha": "0" * 40, "start_sha": "0" * 40, "head_sha": pull.head},
        "user_notes_count": len(pull.remarks) + len(pull.comments),
        "detailed_merge_status": "mergeable",
        "blocking_discussions_resolved": all(thread.is_resolved for thread in pull.threads),
        "web_url": f"https://forge.example.org/merge_requests/{pull.number}",
    }


def _issue_json(issue: StoredIssue) -> Json:
    return {
        "id": 9000 + issue.number,
        "iid": issue.number,
        "title": issue.title,
        "description": issue.text or None,
        "state": "opened" if issue.is_open else "closed",
        "labels": issue.labels,
        "author": _user_json(issue.author),
        "created_at": issue.created_at,
        "issue_type": "issue",
        "web_url": f"https://forge.example.org/issues/{issue.number}",
    }


def _versions(pull: StoredPull) -> list[Json]:
    """The heads that reviews were given at, and the one it has now; each came before its first review."""
    heads: list[tuple[Instant, str]] = []
    for given in pull.reviews:
        if not heads or heads[-1][1] != given.commit:
            heads.append((add_seconds(given.created_at, -0.5), given.commit))
    heads[:1] = [(pull.created_at, heads[0][1] if heads else pull.head)]
    if heads[-1][1] != pull.head:
        heads.append((add_seconds(pull.reviews[-1].created_at, 0.5), pull.head))
    return [
        {"id": 100 + place, "head_commit_sha": head, "created_at": time, "state": "collected"}
        for place, (time, head) in enumerate(heads)
    ]


def _discussions(pull: StoredPull) -> Iterator[Json]:
    """Everything said. Drafts are nobody else's; a comment on the whole that may be settled is a thread."""
    drafts = {given.id for given in pull.reviews if given.state is ReviewState.PENDING}
    for said in pull.remarks:
        yield _single_note(_note_json(said))
    for thread in pull.threads:
        if thread.comments[0].review not in drafts:
            yield _thread_json(pull, thread)
    for given in pull.reviews:
        if given.text and given.id not in drafts:
            is_thread = given.was is ReviewState.COMMENTED
            yield {**_single_note(_review_text(given)), "individual_note": not is_thread}
        if given.was in OPINIONS:
            yield _single_note(_system_note(given.id, given.author, OPINIONS[given.was], given.created_at))
        if given.state is ReviewState.DISMISSED and given.was is ReviewState.APPROVED:
            yield _single_note(
                _system_note(given.id + TAKEN_BACK, given.author, UNAPPROVED, given.updated_at)
            )


def _single_note(note: Json) -> Json:
    return {"id": f"{note['id']:040x}", "individual_note": True, "notes": [note]}


def _thread_json(pull: StoredPull, thread: Thread) -> Json:
    """A thread. Where its line has changed it keeps the commits it was written for."""
    notes = []
    for said in thread.comments:
        head = said.original_commit if said.is_outdated else pull.head
        place = {
            "base_sha": "0" * 40,
            "start_sha": "0" * 40,
            "head_sha": head,
            "old_path": said.path,
            "new_path": said.path,
            "position_type": "file" if said.original_line is None else "text",
            "old_line": None,
            "new_line": said.original_line,
        }
        settled = {"resolvable": True, "resolved": thread.is_resolved}
        notes.append({**_note_json(said), "type": "DiffNote", "position": place, **settled})
    return {"id": f"{thread.id:040x}", "individual_note": False, "notes": notes}


def _note_json(said: DiscussionComment) -> Json:
    return {
        "id": said.id,
        "type": None,
        "body": said.text,
        "author": _user_json(said.author),
        "created_at": said.created_at,
        "updated_at": said.updated_at,
        "system": False,
        "resolvable": False,
    }


def _review_text(given: StoredReview) -> Json:
    said = DiscussionComment(
        id=given.id + TEXT,
        author=given.author,
        text=given.text,
        created_at=given.created_at,
        updated_at=given.updated_at,
    )
    return _note_json(said)


def _system_note(note: int, author: Person | None, body: str, time: Instant) -> Json:
    said = DiscussionComment(id=note, author=author, text=body, created_at=time, updated_at=time)
    return {**_note_json(said), "system": True}


def _reviewer_state(given: StoredReview) -> str:
    """Where a reviewer is; one whose review does not count any more is asked again."""
    states = {ReviewState.CHANGES_REQUESTED: "requested_changes", ReviewState.APPROVED: "approved"}
    return "unreviewed" if given.state is ReviewState.DISMISSED else states.get(given.state, "reviewed")


def _user_json(person: Person | None) -> Json:
    """An account; what those said who are gone is the ghost's."""
    if person is None:
        return GHOST
    return {
        "id": person.id,
        "username": person.login,
        "name": person.login,
        "state": "active",
        "bot": person.is_bot,
    }


def _start_of(discussion: Json) -> tuple[str, int]:
    first = discussion["notes"][0]
    return first["created_at"], first["id"]


def _split_commands(text: str) -> tuple[str, dict[str, str]]:
    """What remains of a note, and the commands that GitLab takes out and obeys."""
    commands = {match[1]: match[2] or "" for match in COMMAND.finditer(text)}
    return COMMAND.sub("", text).strip().replace("\\/", "/"), commands


def _totals(links: dict[str, str], number: int, pages: int) -> dict[str, str]:
    return {**links, "x-next-page": str(number + 1) if number < pages else "", "x-total-pages": str(pages)}


def _not_found() -> HttpAnswer:
    return json_answer({"message": "404 Not found"}, 404)


def _refusal_answer(refused: ForgeRefusal, **words: str) -> HttpAnswer:
    status, message = ANSWERS[refused.why]
    return json_answer({"message": message.format(**words)}, status)

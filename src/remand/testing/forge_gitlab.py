"""GitLab as the fake forge speaks it: notes of the system in place of reviews, versions in place of their commits."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

from remand.app.forge.ports import CheckState
from remand.domain.instant import Instant, add_seconds
from remand.domain.pull_request.records import PullState, ReviewState
from remand.testing.forge_gitlab_desk import GitLabDesk
from remand.testing.forge_server import Answer, Request, conditional, json_answer, paged
from remand.testing.forge_state import ForgeState, Given, Person, Posted, Pull, Remark, Said, Thread

Json = dict[str, Any]
Route = Callable[..., Answer]

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


class GitLabDialect:
    """Answers as GitLab does, for whoever has the token."""

    def __init__(self, state: ForgeState) -> None:
        self._state = state
        self._used = 0
        self._desk = GitLabDesk(state, _request, _user, _note, _without_commands)
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
            for method, pattern, route in (*own, *self._desk.routes)
        ]

    def answer(self, request: Request) -> Answer | None:
        """The answer with its rate limit; None when this is not GitLab's."""
        if not request.path.startswith("/api/v4/"):
            return None
        token = request.headers.get("authorization", "").removeprefix("Bearer ")
        if request.headers.get("private-token", token) != self._state.token:
            return json_answer({"message": "401 Unauthorized"}, 401)
        self._used += 1
        found = conditional(request, self._routed(request))
        rate = {"ratelimit-limit": str(LIMIT), "ratelimit-remaining": str(LIMIT - self._used)}
        return found._replace(headers={**found.headers, **rate})

    def _routed(self, request: Request) -> Answer:
        if request.path == "/api/v4/users":
            return self._desk.users(request)
        for method, pattern, route in self._routes:
            match = pattern.fullmatch(request.path)
            if match is None or method != request.method:
                continue
            if "merge_requests/" in request.path and int(match[1]) not in self._state.pulls:
                return _not_found()
            return route(request, *match.groups())
        return _not_found()

    def _requests(self, request: Request) -> Answer:
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
        page = paged(request, found, usual=20)
        return json_answer(
            [_request(pull) for pull in page.items], 200, _totals(page.headers, page.number, page.pages)
        )

    def _request(self, request: Request, number: str) -> Answer:
        return json_answer(_request(self._state.pulls[int(number)]))

    def _discussions(self, request: Request, number: str) -> Answer:
        return self._listed(request, sorted(_discussions(self._state.pulls[int(number)]), key=_begun))

    def _versions(self, request: Request, number: str) -> Answer:
        return self._listed(request, _versions(self._state.pulls[int(number)])[::-1])

    def _listed(self, request: Request, items: list[Json]) -> Answer:
        page = paged(request, items, usual=20)
        return json_answer(page.items, 200, _totals(page.headers, page.number, page.pages))

    def _reviewers(self, request: Request, number: str) -> Answer:
        pull = self._state.pulls[int(number)]
        told = {
            one.author.id: (one.author, _reviewer_state(one))
            for one in pull.reviews
            if one.author is not None
        }
        if pull.author is not self._state.viewer:
            told.setdefault(self._state.viewer.id, (self._state.viewer, "unreviewed"))
        return json_answer(
            [
                {"user": _user(person), "state": state, "created_at": pull.created_at}
                for person, state in told.values()
            ]
        )

    def _approvals(self, request: Request, number: str) -> Answer:
        pull = self._state.pulls[int(number)]
        last = {one.author.id: one for one in pull.reviews if one.author is not None and one.was in OPINIONS}
        standing = [one for one in last.values() if one.state is ReviewState.APPROVED]
        approved = [{"user": _user(one.author), "approved_at": one.created_at} for one in standing]
        return json_answer({"approved": bool(approved), "approved_by": approved})

    def _member(self, request: Request, person: str) -> Answer:
        found = self._state.people.get(int(person))
        if found is None or found.permission not in LEVELS:
            return _not_found()
        return json_answer({**_user(found), "access_level": LEVELS[found.permission], "expires_at": None})

    def _begin(self, request: Request, number: str) -> Answer:
        """A thread at a line, taken where the merge request changes something."""
        pull, asked = self._state.pulls[int(number)], request.fields()
        place = asked.get("position")
        if (
            not isinstance(place, dict)
            or place["new_path"] not in pull.paths
            or place["head_sha"] != pull.head
        ):
            return json_answer({"message": '400 Bad request - Note {:line_code=>["can\'t be blank"]}'}, 400)
        text, _ = _without_commands(str(asked["body"]))
        said = Said(text=text, path=str(place["new_path"]), line=int(place["new_line"]))
        self._state.review(pull, self._state.viewer, ReviewState.COMMENTED, "", said)
        return json_answer(_thread(pull, pull.threads[-1]), 201)

    def _say(self, request: Request, number: str) -> Answer:
        """A note, and what it commands: whoever is no reviewer commands no review."""
        pull, viewer = self._state.pulls[int(number)], self._state.viewer
        text, commands = _without_commands(str(request.fields()["body"]))
        if "merge" in commands:
            self._state.merge(pull, viewer)
        if commands.get("submit_review") == "requested_changes" and pull.author is not viewer:
            given = self._state.review(pull, viewer, ReviewState.CHANGES_REQUESTED, text)
            return json_answer(_text(given), 201)
        return json_answer(_note(self._state.remark(pull, viewer, text)), 201)

    def _status(self, request: Request, commit: str) -> Answer:
        asked = request.fields()
        state = CHECKS[str(asked["state"])]
        last = next((one for one in reversed(self._state.statuses) if one.commit == commit), None)
        if last is not None and last.state is state:
            reason = f"Cannot transition status via :enqueue from :{asked['state']}"
            return json_answer({"message": reason}, 400)
        text = str(asked["description"])
        self._state.post(Posted(commit=commit, context=str(asked["name"]), state=state, text=text))
        return json_answer({"id": 1, "sha": commit, "status": asked["state"], "name": asked["name"]}, 201)


def _request(pull: Pull) -> Json:
    """A merge request. Everything said in it counts as an update of it."""
    said: list[Remark | Given] = [*pull.remarks, *pull.comments, *pull.reviews]
    is_merged = pull.state is PullState.MERGED
    return {
        "id": 7000 + pull.number,
        "iid": pull.number,
        "project_id": 1,
        "title": pull.title,
        "description": pull.text or None,
        "draft": pull.is_draft,
        "reviewers": [_user(one) for one in pull.requested],
        "state": STATES[pull.state],
        "created_at": pull.created_at,
        "updated_at": max(pull.updated_at, *(one.updated_at for one in said), ""),
        "merge_user": _user(pull.merged_by) if is_merged else None,
        "merged_at": pull.merged_at or None,
        "target_branch": pull.base,
        "source_project_id": 1 + pull.is_of_a_fork,
        "target_project_id": 1,
        "source_branch": pull.branch,
        "author": _user(pull.author),
        "sha": pull.head,
        "diff_refs": {"base_sha": "0" * 40, "start_sha": "0" * 40, "head_sha": pull.head},
        "user_notes_count": len(pull.remarks) + len(pull.comments),
        "detailed_merge_status": "mergeable",
        "blocking_discussions_resolved": all(thread.is_resolved for thread in pull.threads),
        "web_url": f"https://forge.example.org/merge_requests/{pull.number}",
    }


def _versions(pull: Pull) -> list[Json]:
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


def _discussions(pull: Pull) -> Iterator[Json]:
    """Everything said. Drafts are nobody else's; a comment on the whole that may be settled is a thread."""
    drafts = {given.id for given in pull.reviews if given.state is ReviewState.PENDING}
    for said in pull.remarks:
        yield _individual(_note(said))
    for thread in pull.threads:
        if thread.comments[0].review not in drafts:
            yield _thread(pull, thread)
    for given in pull.reviews:
        if given.text and given.id not in drafts:
            is_thread = given.was is ReviewState.COMMENTED
            yield {**_individual(_text(given)), "individual_note": not is_thread}
        if given.was in OPINIONS:
            yield _individual(_system(given.id, given.author, OPINIONS[given.was], given.created_at))
        if given.state is ReviewState.DISMISSED and given.was is ReviewState.APPROVED:
            yield _individual(_system(given.id + TAKEN_BACK, given.author, UNAPPROVED, given.updated_at))


def _individual(note: Json) -> Json:
    return {"id": f"{note['id']:040x}", "individual_note": True, "notes": [note]}


def _thread(pull: Pull, thread: Thread) -> Json:
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
        notes.append({**_note(said), "type": "DiffNote", "position": place, **settled})
    return {"id": f"{thread.id:040x}", "individual_note": False, "notes": notes}


def _note(said: Remark) -> Json:
    return {
        "id": said.id,
        "type": None,
        "body": said.text,
        "author": _user(said.author),
        "created_at": said.created_at,
        "updated_at": said.updated_at,
        "system": False,
        "resolvable": False,
    }


def _text(given: Given) -> Json:
    said = Remark(
        id=given.id + TEXT,
        author=given.author,
        text=given.text,
        created_at=given.created_at,
        updated_at=given.updated_at,
    )
    return _note(said)


def _system(note: int, author: Person | None, body: str, time: Instant) -> Json:
    said = Remark(id=note, author=author, text=body, created_at=time, updated_at=time)
    return {**_note(said), "system": True}


def _reviewer_state(given: Given) -> str:
    """Where a reviewer is; one whose review does not count any more is asked again."""
    states = {ReviewState.CHANGES_REQUESTED: "requested_changes", ReviewState.APPROVED: "approved"}
    return "unreviewed" if given.state is ReviewState.DISMISSED else states.get(given.state, "reviewed")


def _user(person: Person | None) -> Json:
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


def _begun(discussion: Json) -> tuple[str, int]:
    first = discussion["notes"][0]
    return first["created_at"], first["id"]


def _without_commands(text: str) -> tuple[str, dict[str, str]]:
    """What remains of a note, and the commands that GitLab takes out and obeys."""
    commands = {match[1]: match[2] or "" for match in COMMAND.finditer(text)}
    return COMMAND.sub("", text).strip().replace("\\/", "/"), commands


def _totals(links: dict[str, str], number: int, pages: int) -> dict[str, str]:
    return {**links, "x-next-page": str(number + 1) if number < pages else "", "x-total-pages": str(pages)}


def _not_found() -> Answer:
    return json_answer({"message": "404 Not found"}, 404)

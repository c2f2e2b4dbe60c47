"""What is done on GitLab: merge requests are opened, made ready and merged, issues are read and closed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from remand.adapters.forges.gitlab_shapes import MergeRequest, Note, User, account, at
from remand.adapters.forges.gitlab_words import plain
from remand.adapters.forges.rest import Rest
from remand.adapters.forges.wording import without_sign
from remand.app.forges.ports import ForgeFault, Issue, OpenPull, Trouble
from remand.domain.record import Record

DRAFT = "Draft: "
_DRAFT = re.compile(r"\s*(?:Draft:|\[Draft\]|\(Draft\)|WIP:|\[WIP\])\s*", re.IGNORECASE)


class Request(MergeRequest, kw_only=True):
    """A merge request, as far as acts go."""

    id: int
    title: str = ""
    target_branch: str | None = None
    source_project_id: int | None = None
    target_project_id: int | None = None
    reviewers: tuple[User, ...] | None = ()

    def open_pull(self) -> OpenPull:
        """The merge request."""
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.iid, head=self.head, url=self.web_url or "", is_draft=is_draft)

    def is_of(self, branch: str, base: str) -> bool:
        """True when it is open, and brings this branch of the same project into the base."""
        is_own = self.source_project_id is not None and self.source_project_id == self.target_project_id
        return is_own and (self.state, self.source_branch, self.target_branch) == ("opened", branch, base)


class FoundIssue(Record, kw_only=True):
    """An issue."""

    id: int
    iid: int
    title: str
    state: str
    description: str | None = None
    author: User | None = None
    labels: tuple[str, ...] = ()
    created_at: str | None = None
    web_url: str | None = None

    def issue(self) -> Issue:
        """The issue."""
        return Issue(
            number=self.iid,
            title=self.title,
            text=self.description or "",
            author=account(self.author),
            labels=self.labels,
            opened_at=at(self.created_at),
            is_open=self.state == "opened",
            url=self.web_url or "",
        )


class GitLabHand:
    """Implements `Hand`."""

    def __init__(self, rest: Rest, project: str) -> None:
        self._rest, self._project = rest, project

    async def opened(self, branch: str, base: str) -> OpenPull | None:
        """The open merge request of a branch."""
        ends = f"source_branch={quote(branch, safe='')}&target_branch={quote(base, safe='')}"
        path = f"{self._project}/merge_requests?state=opened&scope=all&{ends}"
        found = await self._rest.listed(path, Request)
        return next((request.open_pull() for request in found if request.is_of(branch, base)), None)

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a merge request whose title says that it is a draft."""
        data = {
            "source_branch": branch,
            "target_branch": base,
            "title": f"{DRAFT}{title}",
            "description": plain(text),
        }
        reply = await self._rest.send(f"{self._project}/merge_requests", data)
        return self._rest.read(reply, Request).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Takes the sign of a draft out of the title."""
        title = (await self._request(number)).title
        ready = without_sign(title, _DRAFT)
        if ready != title:
            await self._change(number, {"title": ready or f"Merge request {number}"})

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Makes accounts reviewers, besides those that are."""
        known = [user.id for user in (await self._request(number)).reviewers or ()]
        asked = [await self._id(name) for name in names]
        if not set(asked) <= set(known):
            await self._change(
                number, {"reviewer_ids": [*known, *(one for one in asked if one not in known)]}
            )

    async def _id(self, name: str) -> int:
        if name.isdecimal():
            return int(name)
        for user in await self._rest.get(f"/users?username={quote(name, safe='')}", list[User]):
            if user.username.casefold() == name.casefold():
                return user.id
        raise ForgeFault(Trouble.REFUSED, f"GitLab has no account {name}.")

    async def merge(self, number: int, commit: str) -> None:
        """Merges as the project is set to."""
        path = f"{self._project}/merge_requests/{number}/merge"
        self._rest.read(await self._rest.send(path, {"sha": commit}, "PUT"), Request)

    async def _request(self, number: int) -> Request:
        return await self._rest.get(f"{self._project}/merge_requests/{number}", Request)

    async def _change(self, number: int, data: object) -> None:
        path = f"{self._project}/merge_requests/{number}"
        self._rest.read(await self._rest.send(path, data, "PUT"), Request)

    async def issues(self, label: str) -> list[Issue]:
        """The open issues with a label."""
        query = f"state=opened&scope=all&issue_type=issue&labels={quote(label, safe='')}"
        return [one.issue() for one in await self._rest.listed(f"{self._project}/issues?{query}", FoundIssue)]

    async def issue(self, number: int) -> Issue:
        """One issue."""
        return (await self._rest.get(f"{self._project}/issues/{number}", FoundIssue)).issue()

    async def remarks(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._rest.listed(f"{self._project}/issues/{number}/notes", Note)
        return [one.body or "" for one in said]

    async def remark(self, number: int, text: str) -> None:
        """Says something about an issue."""
        path = f"{self._project}/issues/{number}/notes"
        self._rest.read(await self._rest.send(path, {"body": plain(text)}), Note)

    async def close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - others tell it
        """Closes an issue; GitLab has no word for why."""
        path = f"{self._project}/issues/{number}"
        self._rest.read(await self._rest.send(path, {"state_event": "close"}, "PUT"), FoundIssue)

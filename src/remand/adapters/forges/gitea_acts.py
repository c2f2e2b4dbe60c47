"""What is done on Gitea and Forgejo: pull requests are opened, made ready and merged, issues are read and closed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

from remand.adapters.forges.doing import in_first_way
from remand.adapters.forges.gitea_shapes import Remark, User, account, at
from remand.adapters.forges.rest import Rest
from remand.adapters.forges.wording import cut, without_sign
from remand.app.forges.ports import ForgeFault, Issue, OpenPull, Trouble
from remand.domain.record import Record

MAX_TEXT = 65_000
DRAFT = "WIP: "
"""How the title of a draft begins; the first of the two that servers know by themselves."""
_DRAFT = re.compile(r"\s*(?:WIP:|\[WIP\])\s*", re.IGNORECASE)
STYLES = ("merge", "squash", "rebase")
NOT_ALLOWED = "merge style"


class End(Record, kw_only=True):
    """One end of a pull request."""

    ref: str = ""
    sha: str = ""
    repo_id: int = 0


class Pull(Record, kw_only=True):
    """A pull request, as far as acts go."""

    id: int
    number: int
    state: str
    title: str = ""
    head: End | None = None
    base: End | None = None
    html_url: str | None = None

    def open_pull(self) -> OpenPull:
        """The pull request."""
        head = self.head or End()
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.number, head=head.sha, url=self.html_url or "", is_draft=is_draft)

    def is_of(self, branch: str, base: str) -> bool:
        """True when it is open, and brings this branch of the same repository into the base."""
        head, into = self.head or End(), self.base or End()
        is_own = head.repo_id == into.repo_id != 0
        return is_own and (self.state, head.ref, into.ref) == ("open", branch, base)


class Label(Record, kw_only=True):
    """A label."""

    name: str


class FoundIssue(Record, kw_only=True):
    """An issue."""

    id: int
    number: int
    title: str
    state: str
    body: str | None = None
    user: User | None = None
    labels: tuple[Label, ...] | None = ()
    created_at: str | None = None
    html_url: str | None = None
    pull_request: dict[str, object] | None = None

    def issue(self) -> Issue:
        """The issue."""
        return Issue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=account(self.user),
            labels=tuple(label.name for label in self.labels or ()),
            opened_at=at(self.created_at),
            is_open=self.state == "open",
            url=self.html_url or "",
        )


class Users(Record, kw_only=True):
    """Accounts that were looked for."""

    data: tuple[User, ...] = ()


class GiteaHand:
    """Implements `Hand`."""

    def __init__(self, rest: Rest, repository: str) -> None:
        self._rest, self._repository = rest, repository

    async def opened(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch, looked for in the list of all that are open."""
        found = await self._rest.listed(f"{self._repository}/pulls?state=open", Pull)
        return next((pull.open_pull() for pull in found if pull.is_of(branch, base)), None)

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request whose title says that it is a draft."""
        data = {"title": f"{DRAFT}{title}", "head": branch, "base": base, "body": cut(text, MAX_TEXT)}
        reply = await self._rest.send(f"{self._repository}/pulls", data)
        return self._rest.read(reply, Pull).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Takes the sign of a draft out of the title."""
        path = f"{self._repository}/pulls/{number}"
        title = (await self._rest.get(path, Pull)).title
        ready = without_sign(title, _DRAFT)
        if ready != title:
            title = ready or f"Pull request {number}"
            self._rest.read(await self._rest.send(path, {"title": title}, "PATCH"), Pull)

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review."""
        logins = [await self._login(name) for name in names]
        path = f"{self._repository}/pulls/{number}/requested_reviewers"
        self._rest.read(await self._rest.send(path, {"reviewers": logins}), list[object])

    async def _login(self, name: str) -> str:
        if not name.isdecimal():
            return name
        found = await self._rest.get(f"/users/search?uid={name}&limit=1", Users)
        for user in found.data:
            if str(user.id) == name:
                return user.login
        raise ForgeFault(Trouble.REFUSED, f"Gitea has no account with the id {name}.")

    async def merge(self, number: int, commit: str) -> None:
        """Merges in the first of the ways that the repository allows."""
        path = f"{self._repository}/pulls/{number}/merge"

        async def merged(way: str) -> None:
            await self._rest.send(path, {"Do": way, "head_commit_id": commit})

        await in_first_way(STYLES, merged, NOT_ALLOWED)

    async def issues(self, label: str) -> list[Issue]:
        """The open issues with a label; for one that is not there the server lists all."""
        path = f"{self._repository}/issues?state=open&type=issues&labels={quote(label, safe='')}"
        found = await self._rest.listed(path, FoundIssue)
        return [one.issue() for one in found if one.pull_request is None]

    async def issue(self, number: int) -> Issue:
        """One issue."""
        return (await self._rest.get(f"{self._repository}/issues/{number}", FoundIssue)).issue()

    async def remarks(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._rest.listed(f"{self._repository}/issues/{number}/comments", Remark)
        return [one.body or "" for one in said]

    async def remark(self, number: int, text: str) -> None:
        """Says something about an issue."""
        path = f"{self._repository}/issues/{number}/comments"
        self._rest.read(await self._rest.send(path, {"body": cut(text, MAX_TEXT)}), Remark)

    async def close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - others tell it
        """Closes an issue; the server has no word for why."""
        path = f"{self._repository}/issues/{number}"
        self._rest.read(await self._rest.send(path, {"state": "closed"}, "PATCH"), FoundIssue)

"""What is done on GitHub: pull requests are opened, made ready and merged, issues are read and closed."""

from __future__ import annotations

from collections.abc import Sequence

from remand.adapters.forges.doing import in_first_way
from remand.adapters.forges.github_api import Api, GraphqlMissing, read
from remand.adapters.forges.github_documents import READY
from remand.adapters.forges.github_rest import PULL, REPOSITORY, Head, Remark, User
from remand.adapters.forges.github_shapes import at
from remand.adapters.forges.github_writing import MAX_TEXT, comment
from remand.adapters.forges.wording import cut
from remand.app.forges.ports import ForgeFault, Issue, OpenPull, Trouble
from remand.domain.record import Record

ISSUE = f"{REPOSITORY}/issues/{{number}}"
PULLS = f"{REPOSITORY}/pulls"
METHODS = ("merge", "squash", "rebase")
"""How a pull request may be merged; a repository may allow some of them alone."""
NOT_ALLOWED = "not allowed on this repository"
NO_DRAFTS = "draft pull requests are not supported"


class Repository(Record, kw_only=True):
    """A repository by its name."""

    full_name: str | None = None


class End(Head, kw_only=True):
    """Where a pull request comes from, or leads to."""

    repo: Repository | None = None


class Pull(Record, kw_only=True):
    """A pull request, as far as acts go."""

    number: int
    state: str
    head: End
    base: End
    node_id: str = ""
    html_url: str = ""
    draft: bool = False

    def open_pull(self) -> OpenPull:
        """The pull request."""
        return OpenPull(number=self.number, head=self.head.sha, url=self.html_url, is_draft=self.draft)


class Label(Record, kw_only=True):
    """A label."""

    name: str | None = None


class FoundIssue(Record, kw_only=True):
    """An issue, or a pull request, which GitHub tells as one too."""

    number: int
    title: str
    state: str
    body: str | None = None
    user: User | None = None
    labels: tuple[Label | str, ...] = ()
    created_at: str = ""
    html_url: str = ""
    pull_request: dict[str, object] | None = None

    def issue(self) -> Issue:
        """The issue."""
        names = (label if isinstance(label, str) else label.name for label in self.labels)
        return Issue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=self.user.account() if self.user else None,
            labels=tuple(name for name in names if name),
            opened_at=at(self.created_at),
            is_open=self.state == "open",
            url=self.html_url,
        )


class GitHubHand:
    """Implements `Hand` by REST; only what that has no word for by GraphQL."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def opened(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch; those of other repositories' branches by that name are left out."""
        own = self._api.place.full_name.casefold()
        asked = {"head": f"{self._api.place.owner}:{branch}", "base": base}
        found = await self._api.pages(f"{PULLS}?state=open&head={{head}}&base={{base}}", list[Pull], **asked)
        for pull in found:
            home = ((pull.head.repo or Repository()).full_name or "").casefold()
            if (home, pull.head.ref, pull.base.ref, pull.state) == (own, branch, base, "open"):
                return pull.open_pull()
        return None

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a draft; where a repository has none, an ordinary one."""
        data = {"title": title, "head": branch, "base": base, "body": cut(text, MAX_TEXT), "draft": True}
        try:
            answer = await self._api.send(PULLS, data)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED or NO_DRAFTS not in str(fault).casefold():
                raise
            answer = await self._api.send(PULLS, {**data, "draft": False})
        return read(answer, Pull).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Makes a draft ready, which only GraphQL can."""
        pull = await self._api.get(PULL, Pull, number=str(number))
        if not pull.draft:
            return
        try:
            await self._api.ask(READY, {"id": pull.node_id})
        except GraphqlMissing:
            raise ForgeFault(
                Trouble.REFUSED,
                f"GitHub lets drafts be made ready by GraphQL alone, which is not to be had here. "
                f"Mark pull request #{number} as ready for review by hand.",
            ) from None

    async def ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Asks accounts to review."""
        logins = [await self._login(name) for name in names]
        await self._api.send(f"{PULL}/requested_reviewers", {"reviewers": logins}, number=str(number))

    async def _login(self, name: str) -> str:
        if not name.isdecimal():
            return name
        return (await self._api.get("/user/{id}", User, id=name)).login

    async def merge(self, number: int, commit: str) -> None:
        """Merges in the first of the ways that the repository allows."""

        async def merged(way: str) -> None:
            data = {"sha": commit, "merge_method": way}
            await self._api.send(f"{PULL}/merge", data, method="PUT", number=str(number))

        await in_first_way(METHODS, merged, NOT_ALLOWED)

    async def issues(self, label: str) -> list[Issue]:
        """The open issues with a label."""
        path = f"{REPOSITORY}/issues?state=open&labels={{label}}"
        found = await self._api.pages(path, list[FoundIssue], label=label)
        return [one.issue() for one in found if one.pull_request is None]

    async def issue(self, number: int) -> Issue:
        """One issue."""
        return (await self._api.get(ISSUE, FoundIssue, number=str(number))).issue()

    async def remarks(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._api.pages(f"{ISSUE}/comments", list[Remark], number=str(number))
        return [one.body or "" for one in said]

    async def remark(self, number: int, text: str) -> None:
        """Says something about an issue."""
        await comment(self._api, number, text)

    async def close_issue(self, number: int, *, is_done: bool) -> None:
        """Closes an issue, and says whether it is done."""
        data = {"state": "closed", "state_reason": "completed" if is_done else "not_planned"}
        await self._api.send(ISSUE, data, method="PATCH", number=str(number))

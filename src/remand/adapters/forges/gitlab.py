"""The client for repositories on GitLab, whose pull requests are merge requests."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from remand.adapters.forges import gitlab_reviews as shapes
from remand.adapters.forges.client import (
    CONTEXT,
    ForgeClient,
    ForgeService,
    RestClient,
    is_placed,
    review_text,
    without_draft_prefix,
)
from remand.adapters.forges.gitlab_reviews import (
    GitLabNote,
    GitLabReviews,
    GitLabUser,
    MergeRequest,
    MergeRequestData,
    account,
    parse_time,
)
from remand.adapters.forges.transport import HttpTransport, RateLimits, Transport, none_if_missing
from remand.app.errors import UsageError
from remand.app.forge.ports import (
    AnswerCache,
    CheckState,
    ForgeFault,
    ForgeFaultKind,
    ForgeIssue,
    OpenPull,
    Usage,
)
from remand.app.ports import Clock
from remand.domain.pull_request.records import Account, ForgeComment, PullRequest, PullState, ReviewState
from remand.domain.record import Record
from remand.domain.text.visible import shorten

MAX_TEXT = 65_000
COMMAND = re.compile(r"^(\s*)/", re.MULTILINE)
"""How a line begins that GitLab would take for a command, such as `/merge`."""


def escape_commands(text: str) -> str:
    """A text in which GitLab finds no command: whoever wrote it must not merge or approve with the token's rights."""
    return COMMAND.sub(r"\1\\/", shorten(text, MAX_TEXT))


DRAFT = "Draft: "
_DRAFT = re.compile(r"\s*(?:Draft:|\[Draft\]|\(Draft\)|WIP:|\[WIP\])\s*", re.IGNORECASE)


class GitLabOpenRequest(MergeRequest, kw_only=True):
    """A merge request, as far as acts go."""

    id: int
    title: str = ""
    target_branch: str | None = None
    source_project_id: int | None = None
    target_project_id: int | None = None
    reviewers: tuple[GitLabUser, ...] | None = ()

    def open_pull(self) -> OpenPull:
        """The merge request."""
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.iid, head=self.head, url=self.web_url or "", is_draft=is_draft)

    def is_from(self, branch: str, base: str) -> bool:
        """True when it is open, and brings this branch of the same project into the base."""
        is_own = self.source_project_id is not None and self.source_project_id == self.target_project_id
        return is_own and (self.state, self.source_branch, self.target_branch) == ("opened", branch, base)


class GitLabIssue(Record, kw_only=True):
    """An issue."""

    id: int
    iid: int
    title: str
    state: str
    description: str | None = None
    author: GitLabUser | None = None
    labels: tuple[str, ...] = ()
    created_at: str | None = None
    web_url: str | None = None

    def issue(self) -> ForgeIssue:
        """The issue."""
        return ForgeIssue(
            number=self.iid,
            title=self.title,
            text=self.description or "",
            author=account(self.author),
            labels=self.labels,
            opened_at=parse_time(self.created_at),
            is_open=self.state == "opened",
            url=self.web_url or "",
        )


class GitLabWriter:
    """Implements `Hand`."""

    def __init__(self, rest: RestClient, project: str) -> None:
        self._rest, self._project = rest, project

    async def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open merge request of a branch."""
        ends = f"source_branch={quote(branch, safe='')}&target_branch={quote(base, safe='')}"
        path = f"{self._project}/merge_requests?state=opened&scope=all&{ends}"
        found = await self._rest.list_all(path, GitLabOpenRequest)
        return next((request.open_pull() for request in found if request.is_from(branch, base)), None)

    async def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a merge request whose title says that it is a draft."""
        data = {
            "source_branch": branch,
            "target_branch": base,
            "title": f"{DRAFT}{title}",
            "description": escape_commands(text),
        }
        reply = await self._rest.send(f"{self._project}/merge_requests", data)
        return self._rest.read(reply, GitLabOpenRequest).open_pull()

    async def mark_ready(self, number: int) -> None:
        """Takes the sign of a draft out of the title."""
        title = (await self._request(number)).title
        ready = without_draft_prefix(title, _DRAFT)
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
        for user in await self._rest.get(f"/users?username={quote(name, safe='')}", list[GitLabUser]):
            if user.username.casefold() == name.casefold():
                return user.id
        raise ForgeFault(ForgeFaultKind.REFUSED, f"GitLab has no account {name}.")

    async def merge(self, number: int, commit: str) -> None:
        """Merges as the project is set to."""
        path = f"{self._project}/merge_requests/{number}/merge"
        self._rest.read(await self._rest.send(path, {"sha": commit}, "PUT"), GitLabOpenRequest)

    async def _request(self, number: int) -> GitLabOpenRequest:
        return await self._rest.get(f"{self._project}/merge_requests/{number}", GitLabOpenRequest)

    async def _change(self, number: int, data: object) -> None:
        path = f"{self._project}/merge_requests/{number}"
        self._rest.read(await self._rest.send(path, data, "PUT"), GitLabOpenRequest)

    async def issues(self, label: str) -> list[ForgeIssue]:
        """The open issues with a label."""
        query = f"state=opened&scope=all&issue_type=issue&labels={quote(label, safe='')}"
        return [
            one.issue() for one in await self._rest.list_all(f"{self._project}/issues?{query}", GitLabIssue)
        ]

    async def issue(self, number: int) -> ForgeIssue:
        """One issue."""
        return (await self._rest.get(f"{self._project}/issues/{number}", GitLabIssue)).issue()

    async def comments(self, number: int) -> list[str]:
        """What was said about an issue."""
        said = await self._rest.list_all(f"{self._project}/issues/{number}/notes", GitLabNote)
        return [one.body or "" for one in said]

    async def add_comment(self, number: int, text: str) -> None:
        """Says something about an issue."""
        path = f"{self._project}/issues/{number}/notes"
        self._rest.read(await self._rest.send(path, {"body": escape_commands(text)}), GitLabNote)

    async def close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - others tell it
        """Closes an issue; GitLab has no word for why."""
        path = f"{self._project}/issues/{number}"
        self._rest.read(await self._rest.send(path, {"state_event": "close"}, "PUT"), GitLabIssue)


SERVER = "https://gitlab.com"
API = "/api/v4"
TOKEN_NAME = "GITLAB_TOKEN"  # noqa: S105 - the name of the variable
MAX_STATUS = 255
AT_ONCE = 100
"""How many merge requests are asked for in one question."""
CHECKS = {
    CheckState.PENDING: "pending",
    CheckState.SUCCESS: "success",
    CheckState.FAILURE: "failed",
    CheckState.ERROR: "canceled",
}
REQUEST = "/submit_review requested_changes"


class GitLab(ForgeClient):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: AnswerCache,
        api: str = SERVER,
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        if not all(repository.split("/")) or "/" not in repository:
            raise UsageError(f"{repository} is not a project on GitLab. Write it as GROUP/NAME.")
        service = _service(api, token)
        limits = RateLimits(clock, memory, service.api)
        self._rest = RestClient(service, transport or HttpTransport(service.api), limits, memory)
        self._project = f"/projects/{quote(repository, safe='')}"
        self._hand = GitLabWriter(self._rest, self._project)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._rest.usage

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each merge request, a hundred in one question. GitLab calls one updated with every note."""
        return self._run(self._glance(sorted(set(numbers))))

    def pull_request(self, number: int) -> PullRequest:
        """A merge request, whole. How its reviews come to be is told in `gitlab_reviews`."""
        return self._run(self._pull_request(number))

    def may_write(self, account: Account) -> bool:
        """True when the account is a member of the project, or of a group above it, that may push."""
        return self._run(self._may_write(account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status. One that already says so is not changed, which GitLab calls an error."""
        self._run(self._set_status(commit, CHECKS[state], text))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Leaves a note that asks for changes, and threads at lines of the head.

        GitLab lets only those ask who are reviewers of the merge request; for others the note remains.
        """
        return self._run(self._request_changes(number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a note."""
        self._run(self._note(number, escape_commands(text)))

    def close(self) -> None:
        """Lets go of connections."""
        self._run(self._rest.close())
        self._runner.close()

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        marks: dict[int, str] = {}
        for some in _hundreds(numbers):
            query = f"state=all&scope=all&per_page={AT_ONCE}&iids[]={','.join(map(str, some))}"
            reply = await self._rest.get_if_changed(f"{self._project}/merge_requests?{query}")
            found = self._rest.read(reply, list[shapes.MergeRequest])
            marks.update((one.iid, one.change_mark) for one in found if one.iid in some)
        return marks

    async def _pull_request(self, number: int) -> PullRequest:
        place = f"{self._project}/merge_requests/{number}"
        request = await self._rest.get(place, shapes.MergeRequest)
        approvals = await self._rest.get(f"{place}/approvals", shapes.Approvals)
        material = MergeRequestData(
            request=request,
            discussions=await self._rest.list_all(f"{place}/discussions", shapes.Discussion),
            versions=await self._rest.list_all(f"{place}/versions", shapes.Version),
            reviewers=await self._rest.get(f"{place}/reviewers", list[shapes.Reviewer]),
            approvals=approvals.approved_by,
        )
        return _pull_request(request, GitLabReviews(material))

    async def _may_write(self, account: Account) -> bool:
        number = account.id.removeprefix(f"{shapes.KIND}:")
        if not (number.isascii() and number.isdecimal()):
            return False
        member = await none_if_missing(
            self._rest.get(f"{self._project}/members/all/{number}", shapes.GitLabMember)
        )
        return member is not None and member.is_writer(account)

    async def _set_status(self, commit: str, state: str, text: str) -> None:
        data = {"name": CONTEXT, "state": state, "description": shorten(text, MAX_STATUS)}
        try:
            await self._rest.send(f"{self._project}/statuses/{quote(commit, safe='')}", data)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED or f"from :{state}" not in str(fault):
                raise

    async def _request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        request = await self._rest.get(f"{self._project}/merge_requests/{number}", shapes.MergeRequest)
        is_head = request.head == commit
        left = [one for one in comments if not (is_head and await self._is_threaded(request, one))]
        note = await self._note(number, f"{escape_commands(review_text(text, left))}\n\n{REQUEST}")
        reviewers = await self._rest.get(
            f"{self._project}/merge_requests/{number}/reviewers", list[shapes.Reviewer]
        )
        asking = {one.user.id for one in reviewers if one.user and one.state == "requested_changes"}
        is_asking = note.author is not None and note.author.id in asking
        return ReviewState.CHANGES_REQUESTED if is_asking else ReviewState.COMMENTED

    async def _is_threaded(self, request: shapes.MergeRequest, comment: ForgeComment) -> bool:
        """Begins a thread at a line; False where GitLab takes none, as at lines the diff does not show."""
        refs = request.diff_refs
        if refs is None or not is_placed(comment):
            return False
        position = {
            "position_type": "text",
            "base_sha": refs.base_sha,
            "start_sha": refs.start_sha,
            "head_sha": refs.head_sha,
            "old_path": comment.path,
            "new_path": comment.path,
            "new_line": comment.line,
        }
        data = {"body": escape_commands(shorten(comment.text, MAX_TEXT)), "position": position}
        try:
            await self._rest.send(f"{self._project}/merge_requests/{request.iid}/discussions", data)
        except ForgeFault as fault:
            if fault.trouble is not ForgeFaultKind.REFUSED:
                raise
            return False
        return True

    async def _note(self, number: int, text: str) -> shapes.GitLabNote:
        path = f"{self._project}/merge_requests/{number}/notes"
        return self._rest.read(await self._rest.send(path, {"body": text}), shapes.GitLabNote)


def _pull_request(request: shapes.MergeRequest, said: GitLabReviews) -> PullRequest:
    return PullRequest(
        number=request.iid,
        head=request.head,
        state=shapes.STATES.get(request.state, PullState.OPEN),
        branch=request.source_branch or "",
        author=shapes.account(request.author),
        merged_by=shapes.account(request.merge_user or request.merged_by),
        merged_at=shapes.parse_time(request.merged_at),
        url=request.web_url or "",
        reviews=said.reviews(),
        remarks=said.remarks(),
    )


def _hundreds(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(numbers), AT_ONCE):
        yield numbers[first : first + AT_ONCE]


def _service(address: str, token: str) -> ForgeService:
    """How the server is asked; its API is found below its address."""
    api = address.rstrip("/")
    return ForgeService(
        forge="GitLab",
        api=api if api.endswith(API) else api + API,
        token=token,
        token_name=TOKEN_NAME,
        headers={"authorization": f"Bearer {token}"} if token else {},
        page_size=f"per_page={AT_ONCE}",
    )

"""A repository on GitLab, whose pull requests are merge requests."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from remand.adapters.forges import gitlab_shapes as shapes
from remand.adapters.forges.doing import Doing
from remand.adapters.forges.faults import if_there
from remand.adapters.forges.gitlab_acts import GitLabHand
from remand.adapters.forges.gitlab_reviews import Material, Reviews
from remand.adapters.forges.gitlab_words import MAX_TEXT, plain
from remand.adapters.forges.limits import Limits
from remand.adapters.forges.rest import Rest, Service
from remand.adapters.forges.transport import HttpTransport, Transport
from remand.adapters.forges.wording import CONTEXT, cut, is_placed, whole
from remand.app.errors import UsageError
from remand.app.forges.ports import CheckState, ForgeFault, Memory, Trouble, Usage
from remand.app.ports import Clock
from remand.domain.pulls.shapes import Account, Comment, PullRequest, PullState, ReviewState

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


class GitLab(Doing):
    """Implements `Forge`. It waits for each answer, and keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: Memory,
        api: str = SERVER,
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        if not all(repository.split("/")) or "/" not in repository:
            raise UsageError(f"{repository} is no project on GitLab. Write it as GROUP/NAME.")
        service = _service(api, token)
        limits = Limits(clock, memory, service.api)
        self._rest = Rest(service, transport or HttpTransport(service.api), limits, memory)
        self._project = f"/projects/{quote(repository, safe='')}"
        self._hand = GitLabHand(self._rest, self._project)
        self._runner = asyncio.Runner()

    @property
    def usage(self) -> Usage:
        """What was asked so far."""
        return self._rest.usage

    def glance(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each merge request, a hundred in one question. GitLab calls one updated with every note."""
        return self._done(self._glance(sorted(set(numbers))))

    def pull_request(self, number: int) -> PullRequest:
        """A merge request, whole. How its reviews come to be is told in `gitlab_reviews`."""
        return self._done(self._pull_request(number))

    def may_write(self, account: Account) -> bool:
        """True when the account is a member of the project, or of a group above it, that may push."""
        return self._done(self._may_write(account))

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Leaves a status. One that already says so is not changed, which GitLab calls an error."""
        self._done(self._set_status(commit, CHECKS[state], text))

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        """Leaves a note that asks for changes, and threads at lines of the head.

        GitLab lets only those ask who are reviewers of the merge request; for others the note remains.
        """
        return self._done(self._request_changes(number, commit, text, comments))

    def comment(self, number: int, text: str) -> None:
        """Leaves a note."""
        self._done(self._note(number, plain(text)))

    def close(self) -> None:
        """Lets go of connections."""
        self._done(self._rest.close())
        self._runner.close()

    async def _glance(self, numbers: Sequence[int]) -> dict[int, str]:
        marks: dict[int, str] = {}
        for some in _hundreds(numbers):
            query = f"state=all&scope=all&per_page={AT_ONCE}&iids[]={','.join(map(str, some))}"
            reply = await self._rest.again(f"{self._project}/merge_requests?{query}")
            found = self._rest.read(reply, list[shapes.MergeRequest])
            marks.update((one.iid, one.glance) for one in found if one.iid in some)
        return marks

    async def _pull_request(self, number: int) -> PullRequest:
        place = f"{self._project}/merge_requests/{number}"
        request = await self._rest.get(place, shapes.MergeRequest)
        approvals = await self._rest.get(f"{place}/approvals", shapes.Approvals)
        material = Material(
            request=request,
            discussions=await self._rest.listed(f"{place}/discussions", shapes.Discussion),
            versions=await self._rest.listed(f"{place}/versions", shapes.Version),
            reviewers=await self._rest.get(f"{place}/reviewers", list[shapes.Reviewer]),
            approvals=approvals.approved_by,
        )
        return _pull_request(request, Reviews(material))

    async def _may_write(self, account: Account) -> bool:
        number = account.id.removeprefix(f"{shapes.KIND}:")
        if not (number.isascii() and number.isdecimal()):
            return False
        member = await if_there(self._rest.get(f"{self._project}/members/all/{number}", shapes.Member))
        return member is not None and member.is_writer(account)

    async def _set_status(self, commit: str, state: str, text: str) -> None:
        data = {"name": CONTEXT, "state": state, "description": cut(text, MAX_STATUS)}
        try:
            await self._rest.send(f"{self._project}/statuses/{quote(commit, safe='')}", data)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED or f"from :{state}" not in str(fault):
                raise

    async def _request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[Comment]
    ) -> ReviewState:
        request = await self._rest.get(f"{self._project}/merge_requests/{number}", shapes.MergeRequest)
        is_head = request.head == commit
        left = [one for one in comments if not (is_head and await self._is_threaded(request, one))]
        note = await self._note(number, f"{plain(whole(text, left))}\n\n{REQUEST}")
        reviewers = await self._rest.get(
            f"{self._project}/merge_requests/{number}/reviewers", list[shapes.Reviewer]
        )
        asking = {one.user.id for one in reviewers if one.user and one.state == "requested_changes"}
        is_asking = note.author is not None and note.author.id in asking
        return ReviewState.CHANGES_REQUESTED if is_asking else ReviewState.COMMENTED

    async def _is_threaded(self, request: shapes.MergeRequest, comment: Comment) -> bool:
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
        data = {"body": plain(cut(comment.text, MAX_TEXT)), "position": position}
        try:
            await self._rest.send(f"{self._project}/merge_requests/{request.iid}/discussions", data)
        except ForgeFault as fault:
            if fault.trouble is not Trouble.REFUSED:
                raise
            return False
        return True

    async def _note(self, number: int, text: str) -> shapes.Note:
        path = f"{self._project}/merge_requests/{number}/notes"
        return self._rest.read(await self._rest.send(path, {"body": text}), shapes.Note)


def _pull_request(request: shapes.MergeRequest, said: Reviews) -> PullRequest:
    return PullRequest(
        number=request.iid,
        head=request.head,
        state=shapes.STATES.get(request.state, PullState.OPEN),
        branch=request.source_branch or "",
        author=shapes.account(request.author),
        merged_by=shapes.account(request.merge_user or request.merged_by),
        merged_at=shapes.at(request.merged_at),
        url=request.web_url or "",
        reviews=said.reviews(),
        remarks=said.remarks(),
    )


def _hundreds(numbers: Sequence[int]) -> Iterator[Sequence[int]]:
    for first in range(0, len(numbers), AT_ONCE):
        yield numbers[first : first + AT_ONCE]


def _service(address: str, token: str) -> Service:
    """How the server is asked; its API is found below its address."""
    api = address.rstrip("/")
    return Service(
        forge="GitLab",
        api=api if api.endswith(API) else api + API,
        token=token,
        token_name=TOKEN_NAME,
        headers={"authorization": f"Bearer {token}"} if token else {},
        page_size=f"per_page={AT_ONCE}",
    )

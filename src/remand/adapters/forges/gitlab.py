"""The client for repositories on GitLab, where pull requests are merge requests."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

from remand.adapters.forges import client
from remand.adapters.forges import gitlab_reviews as shapes
from remand.adapters.forges.transport import Transport
from remand.app.errors import UsageError
from remand.app.forge.ports import AnswerCache, CheckState, ForgeFault, ForgeFaultKind, ForgeIssue, OpenPull
from remand.app.ports import Clock
from remand.domain.forge import Account, ForgeComment, PullRequest, PullState, ReviewState
from remand.domain.record import Record
from remand.domain.text.words import shorten

SERVER = "https://gitlab.com"
API = "/api/v4"
TOKEN_NAME = "GITLAB_TOKEN"  # noqa: S105 - the name of the variable
MAX_STATUS = 255
PER_PAGE = 100
CHECKS = {
    CheckState.PENDING: "pending",
    CheckState.SUCCESS: "success",
    CheckState.FAILURE: "failed",
    CheckState.ERROR: "canceled",
}
COMMAND = re.compile(r"^(\s*)/", re.MULTILINE)
"""The start of a line that GitLab would run as a quick action, such as `/merge`."""
REQUEST = "/submit_review requested_changes"
DRAFT = "Draft: "
_DRAFT = re.compile(r"\s*(?:Draft:|\[Draft\]|\(Draft\)|WIP:|\[WIP\])\s*", re.IGNORECASE)


def escape_commands(text: str) -> str:
    """Escapes quick actions: the author of the text must not merge or approve with the token's permissions."""
    return COMMAND.sub(r"\1\\/", shorten(text, client.MAX_TEXT))


class GitLabOpenRequest(shapes.MergeRequest, kw_only=True):
    """A merge request with the fields that actions need."""

    id: int
    title: str = ""
    target_branch: str | None = None
    source_project_id: int | None = None
    target_project_id: int | None = None
    reviewers: tuple[shapes.GitLabUser, ...] | None = ()

    def open_pull(self) -> OpenPull:
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.iid, head=self.head, url=self.web_url or "", is_draft=is_draft)

    def is_from(self, branch: str, base: str) -> bool:
        """True if it is open and merges this branch of the same project into the base."""
        is_own = self.source_project_id is not None and self.source_project_id == self.target_project_id
        return is_own and (self.state, self.source_branch, self.target_branch) == ("opened", branch, base)


class GitLabIssue(Record, kw_only=True):
    id: int
    iid: int
    title: str
    state: str
    description: str | None = None
    author: shapes.GitLabUser | None = None
    labels: tuple[str, ...] = ()
    created_at: str | None = None
    web_url: str | None = None

    def issue(self) -> ForgeIssue:
        return ForgeIssue(
            number=self.iid,
            title=self.title,
            text=self.description or "",
            author=shapes.account(self.author),
            labels=self.labels,
            opened_at=client.parse_time(self.created_at),
            is_open=self.state == "opened",
            url=self.web_url or "",
        )


class GitLab(client.ForgeClient):
    """Implements `Forge`. It keeps its connections open until it is closed."""

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
        address = api.rstrip("/")
        service = client.ForgeService(
            forge="GitLab",
            api=address if address.endswith(API) else address + API,
            token=token,
            token_name=TOKEN_NAME,
            headers={"authorization": f"Bearer {token}"},
            page_parameter="per_page",
            page_size=PER_PAGE,
        )
        self._rest = client.RestClient(service, clock, memory, transport)
        self._project = f"/projects/{quote(repository, safe='')}"

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A change mark for each merge request, fetched in batches of a hundred. GitLab updates it with every note."""
        wanted, marks = sorted(set(numbers)), dict[int, str]()
        for first in range(0, len(wanted), PER_PAGE):
            some = wanted[first : first + PER_PAGE]
            query = f"state=all&scope=all&per_page={PER_PAGE}&iids[]={','.join(map(str, some))}"
            requests = self._rest.get(f"{self._project}/merge_requests?{query}", list[shapes.MergeRequest])
            marks.update((request.iid, request.change_mark) for request in requests if request.iid in some)
        return marks

    def pull_request(self, number: int) -> PullRequest:
        """A merge request with all pages of its content. `gitlab_reviews` assembles its reviews."""
        place = self._request(number)
        request = self._rest.get(place, shapes.MergeRequest)
        approvals = self._rest.get(f"{place}/approvals", shapes.Approvals)
        reviews = shapes.GitLabReviews(
            discussions=self._rest.list_all(f"{place}/discussions", shapes.Discussion),
            versions=self._rest.list_all(f"{place}/versions", shapes.Version),
            reviewers=self._rest.get(f"{place}/reviewers", list[shapes.Reviewer]),
            approvals=approvals.approved_by,
        )
        return PullRequest(
            number=request.iid,
            head=request.head,
            state=shapes.STATES.get(request.state, PullState.OPEN),
            branch=request.source_branch or "",
            author=shapes.account(request.author),
            merged_by=shapes.account(request.merge_user or request.merged_by),
            merged_at=client.parse_time(request.merged_at),
            url=request.web_url or "",
            reviews=reviews.reviews(),
            remarks=reviews.remarks(),
        )

    def may_write(self, account: Account) -> bool:
        """True if the account is a member of the project or of a parent group, with push access."""
        number = account.id.removeprefix(f"{shapes.KIND}:")
        if not (number.isascii() and number.isdecimal()):
            return False
        member = self._rest.get_if_present(f"{self._project}/members/all/{number}", shapes.GitLabMember)
        return member is not None and member.is_writer(account)

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        """Posts a commit status. Posting the state that a commit already has is an error in GitLab, which is ignored."""
        data = {"name": client.CHECK_NAME, "state": CHECKS[state], "description": shorten(text, MAX_STATUS)}
        try:
            self._rest.send(f"{self._project}/statuses/{quote(commit, safe='')}", data)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED or f"from :{CHECKS[state]}" not in str(fault):
                raise

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        """Posts a note that requests changes, and starts threads at lines of the head.

        GitLab lets only reviewers of the merge request request changes; for others, only the note remains.
        """
        request = self._rest.get(self._request(number), shapes.MergeRequest)
        is_head = request.head == commit
        others = [comment for comment in comments if not (is_head and self._start_thread(request, comment))]
        note = self._post_note(number, f"{escape_commands(client.review_text(text, others))}\n\n{REQUEST}")
        reviewers = self._rest.get(f"{self._request(number)}/reviewers", list[shapes.Reviewer])
        asking = {one.user.id for one in reviewers if one.user and one.state == "requested_changes"}
        is_asking = note.author is not None and note.author.id in asking
        return ReviewState.CHANGES_REQUESTED if is_asking else ReviewState.COMMENTED

    def _start_thread(self, request: shapes.MergeRequest, comment: ForgeComment) -> bool:
        """Starts a thread at a line; False if GitLab refuses, for instance because the diff does not show the line."""
        refs = request.diff_refs
        if refs is None or not client.is_placed(comment):
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
        data = {"body": escape_commands(comment.text), "position": position}
        try:
            self._rest.send(f"{self._request(request.iid)}/discussions", data)
        except ForgeFault as fault:
            if fault.kind is not ForgeFaultKind.REFUSED:
                raise
            return False
        return True

    def comment(self, number: int, text: str) -> None:
        self._post_note(number, escape_commands(text))

    def _post_note(self, number: int, text: str) -> shapes.GitLabNote:
        reply = self._rest.send(f"{self._request(number)}/notes", {"body": text})
        return self._rest.read(reply, shapes.GitLabNote)

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        ends = f"source_branch={quote(branch, safe='')}&target_branch={quote(base, safe='')}"
        path = f"{self._project}/merge_requests?state=opened&scope=all&{ends}"
        open_requests = self._rest.list_all(path, GitLabOpenRequest)
        return next((request.open_pull() for request in open_requests if request.is_from(branch, base)), None)

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a merge request with a title that marks it as a draft."""
        data = {
            "source_branch": branch,
            "target_branch": base,
            "title": f"{DRAFT}{title[: client.MAX_TITLE]}",
            "description": escape_commands(text),
        }
        reply = self._rest.send(f"{self._project}/merge_requests", data)
        return self._rest.read(reply, GitLabOpenRequest).open_pull()

    def mark_ready(self, number: int) -> None:
        """Removes the draft prefix from the title."""
        title = self._rest.get(self._request(number), GitLabOpenRequest).title
        ready = client.without_draft_prefix(title, _DRAFT)
        if ready != title:
            self._change(number, {"title": ready or f"Merge request {number}"})

    def merge(self, number: int, commit: str) -> None:
        """Merges with the method of the project's settings."""
        reply = self._rest.send(f"{self._request(number)}/merge", {"sha": commit}, "PUT")
        self._rest.read(reply, GitLabOpenRequest)

    def issue(self, number: int) -> ForgeIssue:
        return self._rest.get(self._issue(number), GitLabIssue).issue()

    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        """Adds accounts to the reviewers."""
        request = self._rest.get(self._request(number), GitLabOpenRequest)
        known = [user.id for user in request.reviewers or ()]
        added = [user_id for name in names if (user_id := self._user_id(name)) not in known]
        if added:
            self._change(number, {"reviewer_ids": [*known, *added]})

    def _user_id(self, name: str) -> int:
        """The id of an account given by its username or its id."""
        if name.isdecimal():
            return int(name)
        for user in self._rest.get(f"/users?username={quote(name, safe='')}", list[shapes.GitLabUser]):
            if user.username.casefold() == name.casefold():
                return user.id
        raise ForgeFault(ForgeFaultKind.REFUSED, f"GitLab has no account {name}.")

    def _change(self, number: int, data: object) -> None:
        self._rest.read(self._rest.send(self._request(number), data, "PUT"), GitLabOpenRequest)

    def _issues(self, label: str) -> Iterator[ForgeIssue]:
        query = f"state=opened&scope=all&issue_type=issue&labels={quote(label, safe='')}"
        issues = self._rest.list_all(f"{self._project}/issues?{query}", GitLabIssue)
        return (issue.issue() for issue in issues)

    def _issue_comments(self, number: int) -> list[str]:
        notes = self._rest.list_all(f"{self._issue(number)}/notes", shapes.GitLabNote)
        return [note.body or "" for note in notes]

    def _comment_on_issue(self, number: int, text: str) -> None:
        reply = self._rest.send(f"{self._issue(number)}/notes", {"body": escape_commands(text)})
        self._rest.read(reply, shapes.GitLabNote)

    def _close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - GitLab has no field for the reason
        reply = self._rest.send(self._issue(number), {"state_event": "close"}, "PUT")
        self._rest.read(reply, GitLabIssue)

    def _request(self, number: int) -> str:
        return f"{self._project}/merge_requests/{number}"

    def _issue(self, number: int) -> str:
        return f"{self._project}/issues/{number}"

"""The client for repositories on Gitea and Forgejo, which have the same API."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import msgspec

from remand.adapters.forges.client import (
    CHECK_NAME,
    MAX_TEXT,
    MAX_TITLE,
    ForgeClient,
    ForgeService,
    RestClient,
    has_more,
    parse_time,
    review_text,
    submit_review,
    try_each,
    without_draft_prefix,
)
from remand.adapters.forges.transport import Transport
from remand.app.errors import UsageError
from remand.app.forge.ports import (
    AnswerCache,
    CachedAnswer,
    CheckState,
    ForgeFault,
    ForgeFaultKind,
    ForgeIssue,
    OpenPull,
)
from remand.app.ports import Clock
from remand.domain.instant import Instant
from remand.domain.pull_request.records import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)
from remand.domain.record import Record
from remand.domain.text.visible import shorten

API = "/api/v1"
TOKEN_NAME = "GITEA_TOKEN"  # noqa: S105 - the name of the variable
KIND = "gitea"
"""Forgejo's accounts have this prefix too."""
GHOST = -1
"""The id of a deleted account. The forge's own automation has ids below zero too."""
STATES = {
    "APPROVED": ReviewState.APPROVED,
    "COMMENT": ReviewState.COMMENTED,
    "REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED,
}
"""A review that is only requested (`REQUEST_REVIEW`), or not submitted yet (`PENDING`), is none."""
MAX_STATUS = 255
PAGE_SIZE = 50
"""As long as pages are unless the server's settings say otherwise."""
RECENT_PAGES = 4
"""How far the latest changes are read before pull requests are asked for one by one."""
WRITERS = ("write", "admin", "owner")
MERGE_STYLES = ("merge", "squash", "rebase")
NOT_ALLOWED = "merge style"
DRAFT = "WIP: "
"""How the title of a draft begins; the first of the two prefixes that servers know by default."""
_DRAFT = re.compile(r"\s*(?:WIP:|\[WIP\])\s*", re.IGNORECASE)


class GiteaUser(Record, kw_only=True):
    id: int
    login: str = ""


class GiteaUsers(Record, kw_only=True):
    """The result of a search."""

    data: tuple[GiteaUser, ...] = ()


class GiteaBranch(Record, kw_only=True):
    """One end of a pull request."""

    ref: str = ""
    sha: str = ""
    repo_id: int = 0


class GiteaPull(Record, kw_only=True):
    """A pull request, in a list or alone."""

    number: int
    state: str
    id: int
    title: str = ""
    user: GiteaUser | None = None
    merged: bool | None = None
    merged_at: str | None = None
    merged_by: GiteaUser | None = None
    head: GiteaBranch | None = None
    base: GiteaBranch | None = None
    updated_at: str | None = None
    comments: int | None = None
    review_comments: int | None = None
    html_url: str | None = None

    @property
    def change_mark(self) -> str:
        """Changes with every push, review, dismissal and comment. Times have no fractions of a second: the counts help."""
        head = self.head.sha if self.head is not None else ""
        counts = f"{self.comments or 0} {self.review_comments or 0}"
        return f"{self.updated_at or ''} {head} {self.state} {bool(self.merged)} {counts}"

    def open_pull(self) -> OpenPull:
        head = self.head or GiteaBranch()
        is_draft = _DRAFT.match(self.title) is not None
        return OpenPull(number=self.number, head=head.sha, url=self.html_url or "", is_draft=is_draft)

    def is_from(self, branch: str, base: str) -> bool:
        """True when it is open, and brings this branch of the same repository into the base."""
        head, into = self.head or GiteaBranch(), self.base or GiteaBranch()
        is_own = head.repo_id == into.repo_id != 0
        return is_own and (self.state, head.ref, into.ref) == ("open", branch, base)


class GiteaComment(Record, kw_only=True):
    """A comment in the discussion of a pull request or an issue."""

    id: int
    user: GiteaUser | None = None
    body: str | None = None
    created_at: str | None = None
    updated_at: str | None = None
    html_url: str | None = None

    def comment(self) -> ForgeComment:
        return ForgeComment(
            id=str(self.id),
            text=self.body or "",
            author=_account(self.user),
            created_at=parse_time(self.created_at),
            updated_at=parse_time(self.updated_at),
            is_edited=self.updated_at != self.created_at,
            url=self.html_url or "",
        )


class GiteaLineComment(GiteaComment, kw_only=True):
    """A comment of a review. A position is a line, of the new file or else of the old."""

    path: str | None = None
    position: int | None = None
    original_position: int | None = None


class GiteaReview(Record, kw_only=True):
    id: int
    state: str
    user: GiteaUser | None = None
    body: str | None = None
    commit_id: str | None = None
    dismissed: bool | None = None
    comments_count: int | None = None
    submitted_at: str | None = None
    updated_at: str | None = None
    html_url: str | None = None

    def review(self, comments: Sequence[GiteaLineComment]) -> ForgeReview:
        return ForgeReview(
            id=str(self.id),
            state=ReviewState.DISMISSED if self.dismissed else STATES[self.state],
            author=_account(self.user),
            text=self.body or "",
            commit=self.commit_id or "",
            submitted_at=parse_time(self.submitted_at),
            updated_at=parse_time(self.updated_at) or parse_time(self.submitted_at),
            comments=tuple(self._line_comments(comments)),
            url=self.html_url or "",
        )

    def _line_comments(self, comments: Sequence[GiteaLineComment]) -> Iterator[ForgeComment]:
        """Comments, the oldest first. Those at one place are one thread, also where they belong to the review itself."""
        threads: dict[tuple[str, int, int], GiteaLineComment] = {}
        for comment in sorted(comments, key=lambda comment: comment.id):
            place = (comment.path or "", comment.position or 0, comment.original_position or 0)
            first = threads.setdefault(place, comment)
            is_same = comment.user is not None and self.user is not None and comment.user.id == self.user.id
            # What its author wrote until it was submitted is part of the review, and no reply.
            is_later = not is_same or parse_time(comment.created_at) > parse_time(self.submitted_at)
            yield ForgeComment(
                id=str(comment.id),
                text=comment.body or "",
                author=_account(comment.user),
                path=comment.path or "",
                line=comment.position or comment.original_position or 0,
                created_at=parse_time(comment.created_at),
                updated_at=parse_time(comment.updated_at),
                reply_to=str(first.id) if comment is not first and is_later else "",
                url=comment.html_url or "",
            )


class GiteaPermission(Record, kw_only=True):
    permission: str
    user: GiteaUser | None = None


class GiteaLabel(Record, kw_only=True):
    name: str


class GiteaIssue(Record, kw_only=True):
    id: int
    number: int
    title: str
    state: str
    body: str | None = None
    user: GiteaUser | None = None
    labels: tuple[GiteaLabel, ...] | None = ()
    created_at: str | None = None
    html_url: str | None = None
    pull_request: dict[str, object] | None = None

    def issue(self) -> ForgeIssue:
        return ForgeIssue(
            number=self.number,
            title=self.title,
            text=self.body or "",
            author=_account(self.user),
            labels=tuple(label.name for label in self.labels or ()),
            opened_at=parse_time(self.created_at),
            is_open=self.state == "open",
            url=self.html_url or "",
        )


class GiteaMarks(Record, kw_only=True):
    """The marks of the last poll: still right for all pull requests that did not change since."""

    since: Instant = ""
    seen: dict[int, str] = msgspec.field(default_factory=dict)


def _account(user: GiteaUser | None) -> Account | None:
    """None when the account is gone."""
    if user is None or user.id == GHOST:
        return None
    return Account(id=f"{KIND}:{user.id}", login=f"{KIND}:{user.login}", is_bot=user.id < 0)


class Gitea(ForgeClient):
    """Implements `Forge`. It keeps its connections until it is closed."""

    def __init__(
        self,
        repository: str,
        *,
        clock: Clock,
        memory: AnswerCache,
        api: str,
        token: str = "",
        transport: Transport | None = None,
    ) -> None:
        owner, _, name = repository.partition("/")
        if not owner or not name or "/" in name:
            raise UsageError(f"{repository} is not a repository on Gitea or Forgejo. Write it as OWNER/NAME.")
        address = api.rstrip("/")
        service = ForgeService(
            forge="Gitea",
            api=address if address.endswith(API) else address + API,
            token=token,
            token_name=TOKEN_NAME,
            headers={"authorization": f"token {token}"},
            page_parameter="limit",
            page_size=PAGE_SIZE,
        )
        self._rest = RestClient(service, clock, memory, transport)
        self._memory = memory
        self._repository = f"/repos/{quote(owner, safe='')}/{quote(name, safe='')}"
        self._marks = f"{service.api}{self._repository}/pulls#marks"

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A mark of each pull request, from the list of those that changed last.

        Only as much of the list is read as changed since the last time. The server does not call a pull request
        changed when a comment is edited.
        """
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        known = self._stored_marks()
        pulls, is_all, reaches_known = self._latest_pulls(known, wanted)
        seen = {pull.number: pull.change_mark for pull in pulls}
        if reaches_known:
            seen = {**known.seen, **seen}
        for number in wanted:
            if number not in seen and not is_all:
                pull = self._rest.get_if_present(f"{self._repository}/pulls/{number}", GiteaPull)
                seen |= {number: pull.change_mark} if pull is not None else {}
        since = max((known.since, *(parse_time(pull.updated_at) for pull in pulls)))
        kept = {*wanted, *known.seen} & seen.keys()
        marks = GiteaMarks(since=since, seen={number: seen[number] for number in sorted(kept)})
        if marks != known:
            self._memory.put(self._marks, CachedAnswer(etag="", body=msgspec.json.encode(marks).decode()))
        return {number: seen[number] for number in wanted if number in seen}

    def _latest_pulls(self, known: GiteaMarks, numbers: Sequence[int]) -> tuple[list[GiteaPull], bool, bool]:
        """Pull requests from the latest change back, until no more of them can matter.

        Also whether these are all of them, and whether everything that changed since the last poll is among them.
        """
        found: dict[int, GiteaPull] = {}
        reaches_known = False
        for page in range(1, RECENT_PAGES + 1):
            query = f"state=all&sort=recentupdate&limit={PAGE_SIZE}&page={page}"
            reply = self._rest.fetch(f"{self._repository}/pulls?{query}")
            pulls = self._rest.read(reply, list[GiteaPull])
            found.update((pull.number, pull) for pull in pulls)
            if not has_more(reply, len(found), len(pulls)):
                return list(found.values()), True, False
            # Times have no fractions: what changed in the last second of the last poll is read again.
            reaches_known = parse_time(pulls[-1].updated_at) < known.since
            if all(number in found or (reaches_known and number in known.seen) for number in numbers):
                break
        return list(found.values()), False, reaches_known

    def _stored_marks(self) -> GiteaMarks:
        kept = self._memory.get(self._marks)
        try:
            return msgspec.json.decode(kept.body, type=GiteaMarks) if kept is not None else GiteaMarks()
        except (msgspec.DecodeError, RecursionError):
            return GiteaMarks()

    def pull_request(self, number: int) -> PullRequest:
        """A pull request with every page."""
        place = f"{self._repository}/pulls/{number}"
        pull = self._rest.get(place, GiteaPull)
        given = self._rest.list_all(f"{place}/reviews", GiteaReview)
        discussion = self._rest.list_all(f"{self._issue(number)}/comments", GiteaComment)
        reviews = []
        for review in given:
            if review.state in STATES:
                path = f"{place}/reviews/{review.id}/comments"
                has_comments = review.comments_count != 0
                reviews.append(
                    review.review(self._rest.list_all(path, GiteaLineComment) if has_comments else [])
                )
        head = pull.head or GiteaBranch()
        state = PullState.CLOSED if pull.state == "closed" else PullState.OPEN
        return PullRequest(
            number=pull.number,
            head=head.sha,
            state=PullState.MERGED if pull.merged else state,
            branch=head.ref,
            author=_account(pull.user),
            merged_by=_account(pull.merged_by),
            merged_at=parse_time(pull.merged_at),
            url=pull.html_url or "",
            reviews=tuple(reviews),
            remarks=tuple(
                comment.comment() for comment in sorted(discussion, key=lambda comment: comment.id)
            ),
        )

    def may_write(self, account: Account) -> bool:
        """True when the account may write now. The token must be a repository admin's."""
        login = account.login.removeprefix(f"{KIND}:")
        if not login or not account.id.startswith(f"{KIND}:"):
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        permission = self._rest.get_if_present(path, GiteaPermission)
        if permission is None:
            return False
        found = _account(permission.user)
        return permission.permission in WRITERS and found is not None and found.id == account.id

    def set_status(self, commit: str, state: CheckState, text: str) -> None:
        data = {"context": CHECK_NAME, "state": state.value, "description": shorten(text, MAX_STATUS)}
        self._rest.send(f"{self._repository}/statuses/{quote(commit, safe='')}", data)

    def request_changes(
        self, number: int, commit: str, text: str, comments: Sequence[ForgeComment]
    ) -> ReviewState:
        def submit(event: str, placed: Sequence[ForgeComment]) -> None:
            others = [comment for comment in comments if comment not in placed]
            review = {
                "event": event,
                "commit_id": commit,
                "body": shorten(review_text(text, others), MAX_TEXT),
                "comments": [
                    {
                        "path": comment.path,
                        "new_position": comment.line,
                        "body": shorten(comment.text, MAX_TEXT),
                    }
                    for comment in placed
                ],
            }
            self._rest.send(f"{self._repository}/pulls/{number}/reviews", review)

        return submit_review(comments, submit)

    def comment(self, number: int, text: str) -> None:
        data = {"body": shorten(text, MAX_TEXT)}
        self._rest.read(self._rest.send(f"{self._issue(number)}/comments", data), GiteaComment)

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch, looked for in the list of all that are open."""
        found = self._rest.list_all(f"{self._repository}/pulls?state=open", GiteaPull)
        return next((pull.open_pull() for pull in found if pull.is_from(branch, base)), None)

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request whose title says that it is a draft."""
        data = {
            "title": f"{DRAFT}{title[:MAX_TITLE]}",
            "head": branch,
            "base": base,
            "body": shorten(text, MAX_TEXT),
        }
        reply = self._rest.send(f"{self._repository}/pulls", data)
        return self._rest.read(reply, GiteaPull).open_pull()

    def mark_ready(self, number: int) -> None:
        """Removes the draft prefix from the title."""
        path = f"{self._repository}/pulls/{number}"
        title = self._rest.get(path, GiteaPull).title
        ready = without_draft_prefix(title, _DRAFT)
        if ready != title:
            data = {"title": ready or f"Pull request {number}"}
            self._rest.read(self._rest.send(path, data, "PATCH"), GiteaPull)

    def merge(self, number: int, commit: str) -> None:
        path = f"{self._repository}/pulls/{number}/merge"
        try_each(
            MERGE_STYLES,
            lambda style: self._rest.send(path, {"Do": style, "head_commit_id": commit}),
            NOT_ALLOWED,
        )

    def issue(self, number: int) -> ForgeIssue:
        return self._rest.get(self._issue(number), GiteaIssue).issue()

    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        logins = [self._login(name) for name in names]
        path = f"{self._repository}/pulls/{number}/requested_reviewers"
        self._rest.read(self._rest.send(path, {"reviewers": logins}), list[object])

    def _login(self, name: str) -> str:
        """The login of an account that is named by its login or its id."""
        if not name.isdecimal():
            return name
        for user in self._rest.get(f"/users/search?uid={name}&limit=1", GiteaUsers).data:
            if str(user.id) == name:
                return user.login
        raise ForgeFault(ForgeFaultKind.REFUSED, f"Gitea has no account with the id {name}.")

    def _issues(self, label: str) -> Iterator[ForgeIssue]:
        """The open issues with a label; for an unknown label the server lists all."""
        path = f"{self._repository}/issues?state=open&type=issues&labels={quote(label, safe='')}"
        found = self._rest.list_all(path, GiteaIssue)
        return (issue.issue() for issue in found if issue.pull_request is None)

    def _issue_comments(self, number: int) -> list[str]:
        found = self._rest.list_all(f"{self._issue(number)}/comments", GiteaComment)
        return [comment.body or "" for comment in found]

    def _comment_on_issue(self, number: int, text: str) -> None:
        self.comment(number, text)

    def _close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - Gitea has no field for the reason
        self._rest.read(self._rest.send(self._issue(number), {"state": "closed"}, "PATCH"), GiteaIssue)

    def _issue(self, number: int) -> str:
        return f"{self._repository}/issues/{number}"

"""The client for repositories on Gitea and Forgejo, which have the same API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from urllib.parse import quote

import msgspec
from msgspec.structs import replace

from remand.adapters.forges import client
from remand.adapters.forges.owner_repository import (
    OwnerRepositoryClient,
    RepositoryComment,
    RepositoryIssue,
    RepositoryPull,
    RepositoryUser,
)
from remand.adapters.forges.transport import Transport
from remand.app.forge.ports import AnswerCache, CachedAnswer, ForgeFault, ForgeFaultKind, OpenPull
from remand.app.ports import Clock
from remand.domain.forge import (
    Account,
    ForgeComment,
    ForgeReview,
    PullRequest,
    PullState,
    ReviewState,
)
from remand.domain.instant import Instant
from remand.domain.record import Record
from remand.domain.text.words import shorten

API = "/api/v1"
TOKEN_NAME = "GITEA_TOKEN"  # noqa: S105 - the name of the variable
KIND = "gitea"
"""Accounts on Forgejo have this prefix too."""
GHOST = -1
"""The id of deleted accounts. The forge's own automation has negative ids too."""
STATES = {
    "APPROVED": ReviewState.APPROVED,
    "COMMENT": ReviewState.COMMENTED,
    "REQUEST_CHANGES": ReviewState.CHANGES_REQUESTED,
}
"""A review that is only requested (`REQUEST_REVIEW`) or not submitted yet (`PENDING`) is not a review."""
DISMISSAL = "dismiss_review"
"""The type of a dismissal on the timeline."""
PAGE_SIZE = 50
"""The page size unless the server's settings say otherwise."""
RECENT_PAGES = 4
"""The number of pages of recent changes that are read before pull requests are fetched one by one."""
WRITERS = ("write", "admin", "owner")
MERGE_STYLES = ("merge", "squash", "rebase")
NOT_ALLOWED = "merge style"
DRAFT = "WIP: "
"""The prefix of a draft's title; the first of the two that servers recognise by default."""
_DRAFT = re.compile(r"\s*(?:WIP:|\[WIP\])\s*", re.IGNORECASE)


class GiteaUsers(Record, kw_only=True):
    """The result of a search."""

    data: tuple[RepositoryUser, ...] = ()


class GiteaLineComment(RepositoryComment, kw_only=True):
    """A comment of a review. A position is a line in the new file or, if zero, in the old one."""

    path: str | None = None
    position: int | None = None
    original_position: int | None = None


class GiteaReview(Record, kw_only=True):
    id: int
    state: str
    user: RepositoryUser | None = None
    body: str | None = None
    commit_id: str | None = None
    dismissed: bool | None = None
    comments_count: int | None = None
    submitted_at: str | None = None


class GiteaTimelineEvent(Record, kw_only=True):
    """An event or comment of a pull request."""

    id: int
    type: str | None = None
    user: RepositoryUser | None = None
    review_id: int | None = None


class GiteaPermission(Record, kw_only=True):
    permission: str
    user: RepositoryUser | None = None


class GiteaMarks(Record, kw_only=True):
    """The marks of the last poll, still valid for all pull requests that have not changed since."""

    since: Instant = ""
    seen: dict[int, str] = msgspec.field(default_factory=dict)


class Gitea(OwnerRepositoryClient):
    """Implements `Forge`. It keeps its connections open until it is closed."""

    _max_status = 255
    _issue_query = "state=open&type=issues"

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
        super().__init__(repository, "Gitea or Forgejo")
        address = api.rstrip("/")
        service = client.ForgeService(
            forge="Gitea",
            api=address if address.endswith(API) else address + API,
            token=token,
            token_name=TOKEN_NAME,
            headers={"authorization": f"token {token}"},
            page_parameter="limit",
            page_size=PAGE_SIZE,
        )
        self._rest = client.RestClient(service, clock, memory, transport)
        self._memory = memory
        self._marks = f"{service.api}{self._repository}/pulls#marks"

    def change_marks(self, numbers: Sequence[int]) -> dict[int, str]:
        """A change mark for each pull request, from the list of the most recently changed ones.

        The list is read only as far as it has changed since the last poll. The server does not consider a pull request
        changed when a comment is edited.
        """
        wanted = sorted(set(numbers))
        if not wanted:
            return {}
        known = self._stored_marks()
        pulls, is_all, reaches_known = self._latest_pulls(known, wanted)
        seen = {pull.number: _change_mark(pull) for pull in pulls}
        if reaches_known:
            seen = {**known.seen, **seen}
        for number in wanted:
            if number not in seen and not is_all:
                pull = self._rest.get_if_present(self._pull(number), RepositoryPull)
                seen |= {number: _change_mark(pull)} if pull is not None else {}
        since = max((known.since, *(client.parse_time(pull.updated_at) for pull in pulls)))
        kept = {*wanted, *known.seen} & seen.keys()
        marks = GiteaMarks(since=since, seen={number: seen[number] for number in sorted(kept)})
        if marks != known:
            self._memory.put(self._marks, CachedAnswer(etag="", body=msgspec.json.encode(marks).decode()))
        return {number: seen[number] for number in wanted if number in seen}

    def _latest_pulls(
        self, known: GiteaMarks, numbers: Sequence[int]
    ) -> tuple[list[RepositoryPull], bool, bool]:
        """The most recently changed pull requests, read until further ones can no longer matter.

        Also returns whether these are all pull requests, and whether they include everything changed since the last poll.
        """
        found: dict[int, RepositoryPull] = {}
        reaches_known = False
        for page in range(1, RECENT_PAGES + 1):
            query = f"state=all&sort=recentupdate&limit={PAGE_SIZE}&page={page}"
            reply = self._rest.fetch(f"{self._repository}/pulls?{query}")
            pulls = self._rest.read(reply, list[RepositoryPull])
            found.update((pull.number, pull) for pull in pulls)
            if not client.has_more(reply, len(found), len(pulls)):
                return list(found.values()), True, False
            # Timestamps have whole seconds: changes in the last second of the previous poll are read again.
            reaches_known = client.parse_time(pulls[-1].updated_at) < known.since
            if all(number in found or (reaches_known and number in known.seen) for number in numbers):
                break
        return list(found.values()), False, reaches_known

    def _stored_marks(self) -> GiteaMarks:
        answer = self._memory.get(self._marks)
        try:
            return msgspec.json.decode(answer.body, type=GiteaMarks) if answer is not None else GiteaMarks()
        except (msgspec.DecodeError, RecursionError):
            return GiteaMarks()

    def pull_request(self, number: int) -> PullRequest:
        """A pull request with all pages of its content."""
        place = self._pull(number)
        pull = self._rest.get(place, RepositoryPull)
        given = self._rest.list_all(f"{place}/reviews", GiteaReview)
        discussion = self._rest.list_all(f"{self._issue(number)}/comments", RepositoryComment)
        is_dismissed = any(review.dismissed for review in given)
        dismissals = self._dismissals(number) if is_dismissed else {}
        reviews = []
        for review in given:
            if review.state in STATES:
                path = f"{place}/reviews/{review.id}/comments"
                has_comments = review.comments_count != 0
                comments = self._rest.list_all(path, GiteaLineComment) if has_comments else []
                forge_review = self._make_review(review, comments)
                reviews.append(replace(forge_review, dismissed_by=dismissals.get(review.id)))
        state = PullState.CLOSED if pull.state == "closed" else PullState.OPEN
        remarks = map(self._make_comment, sorted(discussion, key=lambda comment: comment.id))
        return self._make_pull_request(pull, PullState.MERGED if pull.merged else state, reviews, remarks)

    def _dismissals(self, number: int) -> dict[int, Account | None]:
        """Who dismissed which review; empty if the server does not tell."""
        events = self._rest.list_if_allowed(f"{self._issue(number)}/timeline", GiteaTimelineEvent)
        return {
            event.review_id or 0: self._account(event.user) for event in events if event.type == DISMISSAL
        }

    def _make_review(self, review: GiteaReview, comments: Sequence[GiteaLineComment]) -> ForgeReview:
        """A review with its comments, oldest first. Comments at the same place form one thread."""
        threads: dict[tuple[str, int, int], GiteaLineComment] = {}
        found: list[ForgeComment] = []
        for comment in sorted(comments, key=lambda comment: comment.id):
            place = (comment.path or "", comment.position or 0, comment.original_position or 0)
            first = threads.setdefault(place, comment)
            is_same = (
                comment.user is not None and review.user is not None and comment.user.id == review.user.id
            )
            # What its author wrote before submitting is part of the review, not a reply.
            is_later = not is_same or client.parse_time(comment.created_at) > client.parse_time(
                review.submitted_at
            )
            reply_to = str(first.id) if comment is not first and is_later else ""
            line = comment.position or comment.original_position or 0
            found.append(self._make_comment(comment, comment.path or "", line, reply_to))
        return ForgeReview(
            id=str(review.id),
            state=ReviewState.DISMISSED if review.dismissed else STATES[review.state],
            author=self._account(review.user),
            text=review.body or "",
            commit=review.commit_id or "",
            submitted_at=client.parse_time(review.submitted_at),
            comments=tuple(found),
        )

    def _account(self, user: RepositoryUser | None) -> Account | None:
        if user is None or user.id == GHOST:
            return None
        return Account(id=f"{KIND}:{user.id}", login=f"{KIND}:{user.login}", is_bot=user.id < 0)

    def may_write(self, account: Account) -> bool:
        """True if the account currently has write access. The token must be a repository admin's."""
        login = account.login.removeprefix(f"{KIND}:")
        if not login or not account.id.startswith(f"{KIND}:"):
            return False
        path = f"{self._repository}/collaborators/{quote(login, safe='')}/permission"
        permission = self._rest.get_if_present(path, GiteaPermission)
        if permission is None:
            return False
        found = self._account(permission.user)
        return permission.permission in WRITERS and found is not None and found.id == account.id

    def _line_data(self, comment: ForgeComment) -> dict[str, object]:
        return {"path": comment.path, "new_position": comment.line}

    def find_open_pull(self, branch: str, base: str) -> OpenPull | None:
        """The open pull request of a branch, found in the list of all open ones."""
        pulls = self._rest.list_all(f"{self._repository}/pulls?state=open", RepositoryPull)
        for pull in pulls:
            is_own = pull.source.repo_id == pull.target.repo_id != 0
            if is_own and (pull.state, pull.source.ref, pull.target.ref) == ("open", branch, base):
                return _open_pull(pull)
        return None

    def open_draft(self, branch: str, base: str, title: str, text: str) -> OpenPull:
        """Opens a pull request with a title that marks it as a draft."""
        data = {
            "title": f"{DRAFT}{title[: client.MAX_TITLE]}",
            "head": branch,
            "base": base,
            "body": shorten(text, client.MAX_TEXT),
        }
        reply = self._rest.send(f"{self._repository}/pulls", data)
        return _open_pull(self._rest.read(reply, RepositoryPull))

    def mark_ready(self, number: int) -> None:
        """Removes the draft prefix from the title."""
        path = self._pull(number)
        title = self._rest.get(path, RepositoryPull).title
        ready = client.without_draft_prefix(title, _DRAFT)
        if ready != title:
            data = {"title": ready or f"Pull request {number}"}
            self._rest.read(self._rest.send(path, data, "PATCH"), RepositoryPull)

    def merge(self, number: int, commit: str) -> None:
        path = f"{self._pull(number)}/merge"
        client.try_each(
            MERGE_STYLES,
            lambda style: self._rest.send(path, {"Do": style, "head_commit_id": commit}),
            NOT_ALLOWED,
        )

    def _ask_reviewers(self, number: int, names: Sequence[str]) -> None:
        logins = [self._login(name) for name in names]
        path = f"{self._pull(number)}/requested_reviewers"
        self._rest.read(self._rest.send(path, {"reviewers": logins}), list[object])

    def _login(self, name: str) -> str:
        """The login of an account given by its login or its id."""
        if not name.isdecimal():
            return name
        for user in self._rest.get(f"/users/search?uid={name}&limit=1", GiteaUsers).data:
            if str(user.id) == name:
                return user.login
        raise ForgeFault(ForgeFaultKind.REFUSED, f"Gitea has no account with the id {name}.")

    def _close_issue(self, number: int, *, is_done: bool) -> None:  # noqa: ARG002 - Gitea has no field for the reason
        self._rest.read(self._rest.send(self._issue(number), {"state": "closed"}, "PATCH"), RepositoryIssue)


def _change_mark(pull: RepositoryPull) -> str:
    """A mark that changes with every push, review, dismissal and comment. Counts are included because times have whole seconds."""
    counts = f"{pull.comments or 0} {pull.review_comments or 0}"
    return f"{pull.updated_at or ''} {pull.source.sha} {pull.state} {bool(pull.merged)} {counts}"


def _open_pull(pull: RepositoryPull) -> OpenPull:
    is_draft = _DRAFT.match(pull.title) is not None
    return OpenPull(number=pull.number, head=pull.source.sha, url=pull.html_url or "", is_draft=is_draft)

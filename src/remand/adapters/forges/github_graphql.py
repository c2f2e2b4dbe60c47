"""Pull requests as GitHub's GraphQL tells them: whole, or just enough to see that one has changed."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from remand.adapters.forges.github_api import MAX_PAGES, Api, read
from remand.adapters.forges.github_documents import REST_OF_THREAD, WHOLE, seen
from remand.adapters.forges.github_shapes import (
    Said,
    account,
    at,
    line_of,
    pull_state,
    review_state,
    with_comments,
    without_review,
)
from remand.app.forges.ports import ForgeFault, Trouble
from remand.domain.pulls.shapes import Account, Comment, PullRequest, Review
from remand.domain.record import Record

WATCHED = 100
"""Pull requests in one question."""

Node = TypeVar("Node")


class PageInfo(Record, kw_only=True, rename="camel"):
    """Whether a list goes on, and where."""

    has_next_page: bool = False
    end_cursor: str | None = None


class Listed(Record, Generic[Node], kw_only=True, rename="camel"):
    """One page of a list; what cannot be shown to us is null."""

    nodes: tuple[Node | None, ...] = ()
    page_info: PageInfo = PageInfo()


class Actor(Record, kw_only=True, rename={"kind": "__typename", "database_id": "databaseId"}):
    """Who did something."""

    login: str
    kind: str = ""
    database_id: int | None = None

    def account(self) -> Account:
        """The account."""
        return account(self.database_id, self.login, is_bot=self.kind == "Bot")


class Reference(Record, kw_only=True, rename="camel"):
    """Something by its number, which may be too large for 32 bits and is a text then."""

    full_database_id: str | int | None = None

    @property
    def number(self) -> str:
        """The number as text."""
        return str(self.full_database_id or "")


class Remark(Reference, kw_only=True, rename="camel"):
    """What somebody wrote."""

    body: str
    url: str = ""
    created_at: str = ""
    updated_at: str = ""
    last_edited_at: str | None = None
    author: Actor | None = None

    def comment(self) -> Comment:
        """The remark as a comment on the whole."""
        author = self.author.account() if self.author else None
        return Comment(
            id=self.number,
            text=self.body,
            author=author,
            created_at=at(self.created_at),
            updated_at=at(self.updated_at),
            is_edited=self.last_edited_at is not None,
            url=self.url,
        )


class LineRemark(Remark, kw_only=True, rename="camel"):
    """What somebody wrote on a line."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "LINE"
    outdated: bool = False
    reply_to: Reference | None = None
    pull_request_review: Reference | None = None


class Thread(Record, kw_only=True, rename="camel"):
    """A line's conversation."""

    id: str
    is_resolved: bool
    is_outdated: bool
    comments: Listed[LineRemark]


class Commit(Record, kw_only=True):
    """A commit."""

    oid: str


class GivenReview(Remark, kw_only=True, rename="camel"):
    """A review."""

    state: str
    submitted_at: str | None = None
    commit: Commit | None = None


class Pull(Record, kw_only=True, rename="camel"):
    """A pull request, with the pages that were asked for."""

    number: int
    url: str
    state: str
    head_ref_oid: str
    head_ref_name: str
    merged_at: str | None = None
    author: Actor | None = None
    merged_by: Actor | None = None
    reviews: Listed[GivenReview] | None = None
    review_threads: Listed[Thread] | None = None
    comments: Listed[Remark] | None = None


class Lists(NamedTuple):
    """How far each list was read: a cursor, and whether there is more."""

    reviews: PageInfo = PageInfo(has_next_page=True)
    threads: PageInfo = PageInfo(has_next_page=True)
    remarks: PageInfo = PageInfo(has_next_page=True)

    def variables(self) -> dict[str, object]:
        """What to ask for next."""
        pages = self._asdict().items()
        after = {f"{name}After": page.end_cursor for name, page in pages}
        return {**after, **{name: page.has_next_page for name, page in pages}}

    def after(self, pull: Pull) -> Lists:
        """How far it is after one more answer."""
        read_now = (pull.reviews, pull.review_threads, pull.comments)
        return Lists(*(page.page_info if page is not None else PageInfo() for page in read_now))


async def glance(api: Api, numbers: Sequence[int]) -> dict[int, str]:
    """A mark of each pull request that is there."""
    marks: dict[int, str] = {}
    for start in range(0, len(numbers), WATCHED):
        asked = numbers[start : start + WATCHED]
        data = await api.ask(seen(asked), api.place.names)
        if data.get("repository") is None:
            raise ForgeFault(Trouble.MISSING, f"GitHub has no {api.place.full_name}, or not for this token.")
        found = read(data["repository"], dict[str, Any])
        told = {number: found.get(f"p{number}") for number in asked}
        marks |= {number: _mark(pull) for number, pull in told.items() if pull is not None}
    return marks


def _mark(pull: object) -> str:
    return sha256(msgspec.json.encode(pull, order="deterministic")).hexdigest()[:32]


async def pull_request(api: Api, number: int) -> PullRequest:
    """A pull request with every page of its reviews, threads and remarks."""
    lists, pulls = Lists(), list[Pull]()
    for _ in range(MAX_PAGES):
        data = await api.ask(WHOLE, {**api.place.names, "number": number, **lists.variables()})
        pulls.append(_pull(data, number))
        lists = lists.after(pulls[-1])
        if not any(page.has_next_page for page in lists):
            said = [one for pull in pulls for one in await _said(api, _nodes(pull.review_threads))]
            return _told(pulls, said)
    raise ForgeFault(Trouble.GARBLED, f"GitHub has more than {MAX_PAGES} pages of one pull request.")


def _pull(data: dict[str, Any], number: int) -> Pull:
    repository = data.get("repository")
    found = repository.get("pullRequest") if isinstance(repository, dict) else None
    if found is None:
        raise ForgeFault(Trouble.MISSING, f"GitHub has no pull request {number}, or not for this token.")
    return read(found, Pull)


async def _said(api: Api, threads: Sequence[Thread]) -> list[Said]:
    """Every line comment of the threads, to the last of the long ones."""
    found: list[Said] = []
    for thread in threads:
        page = thread.comments
        first = next((one.number for one in _nodes(page)), "")
        found += [_line_comment(thread, one, first) for one in _nodes(page)]
        for _ in range(MAX_PAGES):
            if not page.page_info.has_next_page:
                break
            data = await api.ask(REST_OF_THREAD, {"id": thread.id, "after": page.page_info.end_cursor})
            page = read(data.get("node"), dict[str, Listed[LineRemark]])["comments"]
            found += [_line_comment(thread, one, first) for one in _nodes(page)]
    return found


def _line_comment(thread: Thread, said: LineRemark, first: str) -> Said:
    """A comment of a thread that begins with `first`. GitHub may name any comment before it as the one it answers."""
    comment = Comment(
        id=said.number,
        text=said.body,
        author=said.author.account() if said.author else None,
        path=said.path,
        line=line_of(said.subject_type, said.line, said.original_line),
        created_at=at(said.created_at),
        updated_at=at(said.updated_at),
        is_resolved=thread.is_resolved,
        is_outdated=thread.is_outdated or said.outdated,
        reply_to=(first or said.reply_to.number) if said.reply_to is not None else "",
        url=said.url,
    )
    return Said(comment, said.pull_request_review.number if said.pull_request_review else "")


def _told(pulls: Sequence[Pull], said: Sequence[Said]) -> PullRequest:
    first = pulls[0]
    reviews = [_review(given) for pull in pulls for given in _nodes(pull.reviews)]
    remarks = [remark.comment() for pull in pulls for remark in _nodes(pull.comments)]
    return PullRequest(
        number=first.number,
        head=first.head_ref_oid,
        state=pull_state(first.state, is_merged=first.merged_at is not None),
        branch=first.head_ref_name,
        author=first.author.account() if first.author else None,
        merged_by=first.merged_by.account() if first.merged_by else None,
        merged_at=at(first.merged_at),
        url=first.url,
        reviews=with_comments(reviews, said),
        remarks=(*remarks, *without_review(said)),
    )


def _review(given: GivenReview) -> Review:
    return Review(
        id=given.number,
        state=review_state(given.state),
        author=given.author.account() if given.author else None,
        text=given.body,
        commit=given.commit.oid if given.commit else "",
        submitted_at=at(given.submitted_at),
        updated_at=at(given.updated_at),
        url=given.url,
    )


def _nodes(page: Listed[Node] | None) -> list[Node]:
    return [node for node in page.nodes if node is not None] if page is not None else []

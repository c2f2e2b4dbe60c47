"""Pull requests read through GitHub's GraphQL API: the queries, and the records of their answers."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any, Generic, NamedTuple, TypeVar

import msgspec

from remand.adapters.forges.github_api import (
    MAX_PAGES,
    GitHubApi,
    ReviewLineComment,
    account,
    comment_line,
    convert_answer,
    parse_time,
    pull_state,
    review_state,
    with_comments,
    without_review,
)
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from remand.domain.pull_request.records import Account, ForgeComment, ForgeReview, PullRequest
from remand.domain.record import Record

CONNECTIONS_IN_A_POINT = 149
"""A question costs a hundredth of a point per connection, rounded, and a point at least."""

WHO = """
fragment Who on Actor {
  __typename login
  ... on User { databaseId }
  ... on Bot { databaseId }
  ... on Mannequin { databaseId }
  ... on Organization { databaseId }
}
"""

SAID = """
fragment Said on PullRequestReviewComment {
  fullDatabaseId body url path line originalLine subjectType outdated createdAt updatedAt
  author { ...Who }
  replyTo { fullDatabaseId }
  pullRequestReview { fullDatabaseId }
}
"""

WHOLE = f"""
query Whole(
  $owner: String!, $name: String!, $number: Int!,
  $reviewsAfter: String, $threadsAfter: String, $remarksAfter: String,
  $reviews: Boolean!, $threads: Boolean!, $remarks: Boolean!
) {{
  rateLimit {{ cost }}
  repository(owner: $owner, name: $name) {{
    pullRequest(number: $number) {{
      number url state headRefOid headRefName mergedAt
      author {{ ...Who }}
      mergedBy {{ ...Who }}
      reviews(first: 100, after: $reviewsAfter) @include(if: $reviews) {{
        pageInfo {{ hasNextPage endCursor }}
        nodes {{ fullDatabaseId state body url submittedAt updatedAt author {{ ...Who }} commit {{ oid }} }}
      }}
      reviewThreads(first: 100, after: $threadsAfter) @include(if: $threads) {{
        pageInfo {{ hasNextPage endCursor }}
        nodes {{
          id isResolved isOutdated
          comments(first: 20) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ ...Said }} }}
        }}
      }}
      comments(first: 100, after: $remarksAfter) @include(if: $remarks) {{
        pageInfo {{ hasNextPage endCursor }}
        nodes {{ fullDatabaseId body url createdAt updatedAt lastEditedAt author {{ ...Who }} }}
      }}
    }}
  }}
}}
{WHO}{SAID}"""
"""One pull request: a page of each list that has more, and what each thread begins with."""

REST_OF_THREAD = f"""
query RestOfThread($id: ID!, $after: String) {{
  rateLimit {{ cost }}
  node(id: $id) {{
    ... on PullRequestReviewThread {{
      comments(first: 100, after: $after) {{ pageInfo {{ hasNextPage endCursor }} nodes {{ ...Said }} }}
    }}
  }}
}}
{WHO}{SAID}"""
"""What a long thread goes on with."""

READY = """
mutation Ready($id: ID!) {
  markPullRequestReadyForReview(input: {pullRequestId: $id}) { pullRequest { isDraft } }
}
"""
"""Makes a draft one that is to be reviewed."""

_SEEN = """
fragment Seen on PullRequest {
  updatedAt state headRefOid reviewDecision totalCommentsCount
  timelineItems(last: 100, itemTypes: [PULL_REQUEST_REVIEW, ISSUE_COMMENT]) {
    updatedAt
    nodes {
      ... on PullRequestReview { id state updatedAt }
      ... on IssueComment { id updatedAt }
    }
  }
"""
_THREADS = "  reviewThreads(last: 100) { nodes { isResolved isOutdated } }\n"


def changes_query(numbers: Sequence[int]) -> str:
    """What tells whether pull requests have changed. Threads are looked at too while that costs no second point."""
    asked = "\n".join(f"    p{number}: pullRequest(number: {number}) {{ ...Seen }}" for number in numbers)
    threads = _THREADS if 2 * len(numbers) <= CONNECTIONS_IN_A_POINT else ""
    return f"""
query Seen($owner: String!, $name: String!) {{
  rateLimit {{ cost }}
  repository(owner: $owner, name: $name) {{
{asked}
  }}
}}
{_SEEN}{threads}}}
"""


WATCHED = 100
"""Pull requests in one question."""

Node = TypeVar("Node")


class PageInfo(Record, kw_only=True, rename="camel"):
    """Whether a list goes on, and where."""

    has_next_page: bool = False
    end_cursor: str | None = None


class GraphPage(Record, Generic[Node], kw_only=True, rename="camel"):
    """One page of a list; what cannot be shown to us is null."""

    nodes: tuple[Node | None, ...] = ()
    page_info: PageInfo = PageInfo()


class GraphActor(Record, kw_only=True, rename={"kind": "__typename", "database_id": "databaseId"}):
    """Who did something."""

    login: str
    kind: str = ""
    database_id: int | None = None

    def account(self) -> Account:
        """The account."""
        return account(self.database_id, self.login, is_bot=self.kind == "Bot")


class GraphReference(Record, kw_only=True, rename="camel"):
    """Something by its number, which may be too large for 32 bits and is a text then."""

    full_database_id: str | int | None = None

    @property
    def number(self) -> str:
        """The number as text."""
        return str(self.full_database_id or "")


class GraphComment(GraphReference, kw_only=True, rename="camel"):
    """What somebody wrote."""

    body: str
    url: str = ""
    created_at: str = ""
    updated_at: str = ""
    last_edited_at: str | None = None
    author: GraphActor | None = None

    def comment(self) -> ForgeComment:
        """The remark as a comment on the whole."""
        author = self.author.account() if self.author else None
        return ForgeComment(
            id=self.number,
            text=self.body,
            author=author,
            created_at=parse_time(self.created_at),
            updated_at=parse_time(self.updated_at),
            is_edited=self.last_edited_at is not None,
            url=self.url,
        )


class GraphLineComment(GraphComment, kw_only=True, rename="camel"):
    """What somebody wrote on a line."""

    path: str
    line: int | None = None
    original_line: int | None = None
    subject_type: str = "LINE"
    outdated: bool = False
    reply_to: GraphReference | None = None
    pull_request_review: GraphReference | None = None


class GraphThread(Record, kw_only=True, rename="camel"):
    """A line's conversation."""

    id: str
    is_resolved: bool
    is_outdated: bool
    comments: GraphPage[GraphLineComment]


class GraphCommit(Record, kw_only=True):
    """A commit."""

    oid: str


class GraphReview(GraphComment, kw_only=True, rename="camel"):
    """A review."""

    state: str
    submitted_at: str | None = None
    commit: GraphCommit | None = None


class GraphPull(Record, kw_only=True, rename="camel"):
    """A pull request, with the pages that were asked for."""

    number: int
    url: str
    state: str
    head_ref_oid: str
    head_ref_name: str
    merged_at: str | None = None
    author: GraphActor | None = None
    merged_by: GraphActor | None = None
    reviews: GraphPage[GraphReview] | None = None
    review_threads: GraphPage[GraphThread] | None = None
    comments: GraphPage[GraphComment] | None = None


class GraphLists(NamedTuple):
    """How far each list was read: a cursor, and whether there is more."""

    reviews: PageInfo = PageInfo(has_next_page=True)
    threads: PageInfo = PageInfo(has_next_page=True)
    remarks: PageInfo = PageInfo(has_next_page=True)

    def variables(self) -> dict[str, object]:
        """What to ask for next."""
        pages = self._asdict().items()
        after = {f"{name}After": page.end_cursor for name, page in pages}
        return {**after, **{name: page.has_next_page for name, page in pages}}

    def after(self, pull: GraphPull) -> GraphLists:
        """How far it is after one more answer."""
        read_now = (pull.reviews, pull.review_threads, pull.comments)
        return GraphLists(*(page.page_info if page is not None else PageInfo() for page in read_now))


async def change_marks(api: GitHubApi, numbers: Sequence[int]) -> dict[int, str]:
    """A mark of each pull request that is there."""
    marks: dict[int, str] = {}
    for start in range(0, len(numbers), WATCHED):
        asked = numbers[start : start + WATCHED]
        data = await api.query_graphql(changes_query(asked), api.place.names)
        if data.get("repository") is None:
            raise ForgeFault(
                ForgeFaultKind.MISSING, f"GitHub has no {api.place.full_name}, or not for this token."
            )
        found = convert_answer(data["repository"], dict[str, Any])
        told = {number: found.get(f"p{number}") for number in asked}
        marks |= {number: _mark(pull) for number, pull in told.items() if pull is not None}
    return marks


def _mark(pull: object) -> str:
    return sha256(msgspec.json.encode(pull, order="deterministic")).hexdigest()[:32]


async def pull_request(api: GitHubApi, number: int) -> PullRequest:
    """A pull request with every page of its reviews, threads and remarks."""
    lists, pulls = GraphLists(), list[GraphPull]()
    for _ in range(MAX_PAGES):
        data = await api.query_graphql(WHOLE, {**api.place.names, "number": number, **lists.variables()})
        pulls.append(_pull(data, number))
        lists = lists.after(pulls[-1])
        if not any(page.has_next_page for page in lists):
            said = [one for pull in pulls for one in await _thread_comments(api, _nodes(pull.review_threads))]
            return _pull_request(pulls, said)
    raise ForgeFault(ForgeFaultKind.GARBLED, f"GitHub has more than {MAX_PAGES} pages of one pull request.")


def _pull(data: dict[str, Any], number: int) -> GraphPull:
    repository = data.get("repository")
    found = repository.get("pullRequest") if isinstance(repository, dict) else None
    if found is None:
        raise ForgeFault(
            ForgeFaultKind.MISSING, f"GitHub has no pull request {number}, or not for this token."
        )
    return convert_answer(found, GraphPull)


async def _thread_comments(api: GitHubApi, threads: Sequence[GraphThread]) -> list[ReviewLineComment]:
    """Every line comment of the threads, to the last of the long ones."""
    found: list[ReviewLineComment] = []
    for thread in threads:
        page = thread.comments
        first = next((one.number for one in _nodes(page)), "")
        found += [_line_comment(thread, one, first) for one in _nodes(page)]
        for _ in range(MAX_PAGES):
            if not page.page_info.has_next_page:
                break
            data = await api.query_graphql(
                REST_OF_THREAD, {"id": thread.id, "after": page.page_info.end_cursor}
            )
            page = convert_answer(data.get("node"), dict[str, GraphPage[GraphLineComment]])["comments"]
            found += [_line_comment(thread, one, first) for one in _nodes(page)]
    return found


def _line_comment(thread: GraphThread, said: GraphLineComment, first: str) -> ReviewLineComment:
    """A comment of a thread that begins with `first`. GitHub may name any comment before it as the one it answers."""
    comment = ForgeComment(
        id=said.number,
        text=said.body,
        author=said.author.account() if said.author else None,
        path=said.path,
        line=comment_line(said.subject_type, said.line, said.original_line),
        created_at=parse_time(said.created_at),
        updated_at=parse_time(said.updated_at),
        is_resolved=thread.is_resolved,
        is_outdated=thread.is_outdated or said.outdated,
        reply_to=(first or said.reply_to.number) if said.reply_to is not None else "",
        url=said.url,
    )
    return ReviewLineComment(comment, said.pull_request_review.number if said.pull_request_review else "")


def _pull_request(pulls: Sequence[GraphPull], said: Sequence[ReviewLineComment]) -> PullRequest:
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
        merged_at=parse_time(first.merged_at),
        url=first.url,
        reviews=with_comments(reviews, said),
        remarks=(*remarks, *without_review(said)),
    )


def _review(given: GraphReview) -> ForgeReview:
    return ForgeReview(
        id=given.number,
        state=review_state(given.state),
        author=given.author.account() if given.author else None,
        text=given.body,
        commit=given.commit.oid if given.commit else "",
        submitted_at=parse_time(given.submitted_at),
        updated_at=parse_time(given.updated_at),
        url=given.url,
    )


def _nodes(page: GraphPage[Node] | None) -> list[Node]:
    return [node for node in page.nodes if node is not None] if page is not None else []

"""GitHub's GraphQL over the state of the fake forge: the part of its schema that is used, and what a question costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from graphql import (
    ExecutionResult,
    FieldNode,
    FragmentDefinitionNode,
    FragmentSpreadNode,
    GraphQLError,
    OperationDefinitionNode,
    SelectionSetNode,
    build_schema,
    graphql_sync,
    parse,
)
from graphql.language import BooleanValueNode, DirectiveNode, IntValueNode, VariableNode

from remand.domain.pull_request.records import PullState
from tests.support.forge.github_json import timestamp
from tests.support.forge.state import (
    DiscussionComment,
    ForgeState,
    LineComment,
    Person,
    StoredPull,
    StoredReview,
    Thread,
)

SDL = """
scalar DateTime
scalar URI
scalar GitObjectID
scalar BigInt
enum PullRequestState { OPEN CLOSED MERGED }
enum PullRequestReviewDecision { APPROVED CHANGES_REQUESTED REVIEW_REQUIRED }
enum PullRequestReviewState { PENDING COMMENTED APPROVED CHANGES_REQUESTED DISMISSED }
enum PullRequestReviewCommentState { PENDING SUBMITTED }
enum PullRequestReviewThreadSubjectType { LINE FILE }
enum PullRequestTimelineItemsItemType { PULL_REQUEST_REVIEW ISSUE_COMMENT }
type Query {
  rateLimit: RateLimit
  repository(owner: String!, name: String!): Repository
  node(id: ID!): Node
}
type Mutation {
  markPullRequestReadyForReview(input: MarkPullRequestReadyForReviewInput!): MarkPullRequestReadyForReviewPayload
}
input MarkPullRequestReadyForReviewInput { clientMutationId: String pullRequestId: ID! }
type MarkPullRequestReadyForReviewPayload { clientMutationId: String pullRequest: PullRequest }
interface Node { id: ID! }
type RateLimit { cost: Int! limit: Int! remaining: Int! used: Int! resetAt: DateTime! }
type PageInfo { hasNextPage: Boolean! endCursor: String }
interface Actor { login: String! }
type User implements Actor { login: String! databaseId: Int }
type Bot implements Actor { login: String! databaseId: Int }
type Mannequin implements Actor { login: String! databaseId: Int }
type Organization implements Actor { login: String! databaseId: Int }
type Commit { oid: GitObjectID! }
type Repository { pullRequest(number: Int!): PullRequest }
type PullRequest implements Node {
  id: ID! number: Int! url: URI! state: PullRequestState! isDraft: Boolean! headRefOid: GitObjectID! headRefName: String!
  updatedAt: DateTime! mergedAt: DateTime author: Actor mergedBy: Actor
  reviewDecision: PullRequestReviewDecision totalCommentsCount: Int
  reviews(first: Int, last: Int, after: String): PullRequestReviewConnection
  reviewThreads(first: Int, last: Int, after: String): PullRequestReviewThreadConnection!
  comments(first: Int, last: Int, after: String): IssueCommentConnection!
  timelineItems(
    first: Int, last: Int, after: String, itemTypes: [PullRequestTimelineItemsItemType!]
  ): PullRequestTimelineItemsConnection!
}
type PullRequestReviewConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequestReview] }
type PullRequestReview implements Node {
  id: ID! fullDatabaseId: BigInt state: PullRequestReviewState! body: String! url: URI! submittedAt: DateTime
  updatedAt: DateTime! author: Actor commit: Commit
}
type PullRequestReviewThreadConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequestReviewThread] }
type PullRequestReviewThread implements Node {
  id: ID! isResolved: Boolean! isOutdated: Boolean!
  comments(first: Int, last: Int, after: String): PullRequestReviewCommentConnection!
}
type PullRequestReviewCommentConnection { totalCount: Int! pageInfo: PageInfo! nodes: [PullRequestReviewComment] }
type PullRequestReviewComment implements Node {
  id: ID! fullDatabaseId: BigInt body: String! url: URI! path: String! line: Int originalLine: Int outdated: Boolean!
  subjectType: PullRequestReviewThreadSubjectType!
  createdAt: DateTime! updatedAt: DateTime! state: PullRequestReviewCommentState! author: Actor replyTo: PullRequestReviewComment
  pullRequestReview: PullRequestReview
}
type IssueCommentConnection { totalCount: Int! pageInfo: PageInfo! nodes: [IssueComment] }
type IssueComment implements Node {
  id: ID! fullDatabaseId: BigInt body: String! url: URI! createdAt: DateTime! updatedAt: DateTime!
  lastEditedAt: DateTime author: Actor
}
union PullRequestTimelineItems = PullRequestReview | IssueComment
type PullRequestTimelineItemsConnection {
  totalCount: Int! updatedAt: DateTime! pageInfo: PageInfo! nodes: [PullRequestTimelineItems]
}
"""
"""Field by field as in GitHub's own schema, of which it is a part."""

SCHEMA = build_schema(SDL)

Json = dict[str, Any]
Items = Sequence[Json]


class GraphQLApi:
    """The state as GraphQL sees it: fields are computed when they are asked for."""

    def __init__(self, state: ForgeState, rate: Mapping[str, object]) -> None:
        self._state, self._rate = state, rate

    def answer(self, document: str, variables: Mapping[str, Any]) -> Json:
        """Data and errors, in GitHub's form."""
        root = {
            "rateLimit": self._rate,
            "repository": self._repository,
            "node": self._node,
            "markPullRequestReadyForReview": self._ready,
        }
        result = graphql_sync(SCHEMA, document, root, variable_values=dict(variables))
        return _response(result)

    def _repository(self, info: object, owner: str, name: str) -> Json:
        if (owner, name) != (self._state.owner, self._state.name):
            raise _not_found_error(f"Could not resolve to a Repository with the name '{owner}/{name}'.")
        return {"pullRequest": self._pull}

    def _node(self, info: object, id: str) -> Json:  # noqa: A002 - the argument's name
        threads = ((pull, one) for pull in self._state.pulls.values() for one in pull.threads)
        found = next((thread(pull, one) for pull, one in threads if f"PRRT_{one.id}" == id), None)
        if found is None:
            raise _not_found_error(f"Could not resolve to a node with the global id of '{id}'.")
        return found

    def _ready(self, info: object, input: Json) -> Json:  # noqa: A002 - the argument's name
        number = int(input["pullRequestId"].removeprefix("PR_"))
        if number in self._state.pulls:
            self._state.pulls[number].is_draft = False
        return {"pullRequest": self._pull(info, number)}

    def _pull(self, info: object, number: int) -> Json:
        pull = self._state.pulls.get(number)
        if pull is None:
            raise _not_found_error(f"Could not resolve to a PullRequest with the number of {number}.")
        return {
            "id": f"PR_{number}",
            "number": number,
            "url": _url(pull),
            "state": pull.state.value.upper(),
            "isDraft": pull.is_draft,
            "headRefOid": pull.head,
            "headRefName": pull.branch,
            "updatedAt": timestamp(pull.updated_at),
            "mergedAt": timestamp(pull.merged_at) if pull.state is PullState.MERGED else None,
            "author": actor(pull.author),
            "mergedBy": actor(pull.merged_by),
            "reviewDecision": None,
            "totalCommentsCount": len(pull.remarks) + len(pull.comments),
            "reviews": connection([review(pull, one) for one in pull.reviews]),
            "reviewThreads": connection([thread(pull, one) for one in pull.threads]),
            "comments": connection([remark(pull, one) for one in pull.remarks]),
            "timelineItems": connection(timeline(pull), updatedAt=timestamp(pull.created_at)),
        }


def timeline(pull: StoredPull) -> list[Json]:
    """Reviews and remarks in their order."""
    dated = [(one.id, review(pull, one)) for one in pull.reviews]
    dated += [(one.id, remark(pull, one)) for one in pull.remarks]
    return [item for _, item in sorted(dated, key=lambda pair: pair[0])]


def actor(person: Person | None) -> Json | None:
    """Who did something; bots go without the ending they have in REST."""
    if person is None:
        return None
    kind = "Bot" if person.is_bot else "User"
    return {"__typename": kind, "login": person.login, "databaseId": person.id}


def review(pull: StoredPull, given: StoredReview) -> Json:
    """A review."""
    is_pending = given.state.value == "pending"
    return {
        "__typename": "PullRequestReview",
        "id": f"PRR_{given.id}",
        "fullDatabaseId": str(given.id),
        "state": given.state.value.upper(),
        "body": given.text,
        "url": f"{_url(pull)}#pullrequestreview-{given.id}",
        "submittedAt": None if is_pending else timestamp(given.created_at),
        "updatedAt": timestamp(given.updated_at),
        "author": actor(given.author),
        "commit": {"oid": given.commit},
    }


def remark(pull: StoredPull, said: DiscussionComment) -> Json:
    """A comment in the discussion."""
    return {
        "__typename": "IssueComment",
        "id": f"IC_{said.id}",
        "fullDatabaseId": str(said.id),
        "body": said.text,
        "url": f"{_url(pull)}#issuecomment-{said.id}",
        "createdAt": timestamp(said.created_at),
        "updatedAt": timestamp(said.updated_at),
        "lastEditedAt": timestamp(said.updated_at) if said.updated_at != said.created_at else None,
        "author": actor(said.author),
    }


def thread(pull: StoredPull, one: Thread) -> Json:
    """A thread with its comments."""
    return {
        "__typename": "PullRequestReviewThread",
        "id": f"PRRT_{one.id}",
        "isResolved": one.is_resolved,
        "isOutdated": one.comments[0].is_outdated,
        "comments": connection([line_comment(pull, said) for said in one.comments]),
    }


def line_comment(pull: StoredPull, said: LineComment) -> Json:
    """A comment on a line."""
    given = next(one for one in pull.reviews if one.id == said.review)
    return {
        **remark(pull, said),
        "__typename": "PullRequestReviewComment",
        "id": f"PRRC_{said.id}",
        "path": said.path,
        "line": 1 if said.original_line is None else said.line,
        "originalLine": said.original_line or 1,
        "subjectType": "FILE" if said.original_line is None else "LINE",
        "outdated": said.is_outdated,
        "state": "PENDING" if given.state.value == "pending" else "SUBMITTED",
        "replyTo": None if said.reply_to is None else {"fullDatabaseId": str(said.reply_to)},
        "pullRequestReview": review(pull, given),
    }


def connection(items: Items, **fields: object) -> Callable[..., Json]:
    """A list that is read page by page; how many must be said, and be a hundred at most."""

    def page(_: object, first: int = 0, last: int = 0, after: str | None = None, **__: object) -> Json:
        size = first or last
        if not 1 <= size <= 100:
            raise GraphQLError("You must provide a `first` or `last` value of 1 to 100.")
        start = int(after or 0) if first else max(0, len(items) - size)
        end = start + size
        ending = {"hasNextPage": end < len(items), "endCursor": str(end) if items else None}
        return {"totalCount": len(items), "nodes": items[start:end], "pageInfo": ending, **fields}

    return page


def cost(document: str, variables: Mapping[str, Any]) -> int:
    """Points by GitHub's published rule: a hundredth per connection and parent, rounded, and one at least."""
    definitions = parse(document).definitions
    fragments = {one.name.value: one for one in definitions if isinstance(one, FragmentDefinitionNode)}
    operation = next(one for one in definitions if isinstance(one, OperationDefinitionNode))
    return max(1, round(_requests(operation.selection_set, 1, fragments, variables) / 100))


def _requests(
    chosen: SelectionSetNode | None,
    parents: int,
    fragments: Mapping[str, FragmentDefinitionNode],
    variables: Mapping[str, Any],
) -> int:
    total = 0
    for node in chosen.selections if chosen is not None else ():
        if not all(_holds(directive, variables) for directive in node.directives or ()):
            continue
        inner, size = getattr(node, "selection_set", None), None
        if isinstance(node, FragmentSpreadNode):
            inner = fragments[node.name.value].selection_set
        elif isinstance(node, FieldNode):
            size = _size(node)
        total += (parents if size else 0) + _requests(inner, parents * (size or 1), fragments, variables)
    return total


def _size(node: FieldNode) -> int | None:
    given = [one.value for one in node.arguments or () if one.name.value in {"first", "last"}]
    return next((int(value.value) for value in given if isinstance(value, IntValueNode)), None)


def _holds(directive: DirectiveNode, variables: Mapping[str, Any]) -> bool:
    """False when the directive leaves its field out."""
    value = directive.arguments[0].value if directive.arguments else None
    is_true = bool(variables.get(value.name.value)) if isinstance(value, VariableNode) else True
    if isinstance(value, BooleanValueNode):
        is_true = value.value
    return is_true if directive.name.value == "include" else not is_true


def _response(result: ExecutionResult) -> Json:
    answer: Json = {"data": result.data} if result.data is not None else {}
    if result.errors:
        answer["errors"] = [_error(error) for error in result.errors]
    return answer


def _error(error: GraphQLError) -> Json:
    written: Json = {"message": error.message, "path": error.path or []}
    kind = (error.extensions or {}).get("type")
    if kind:
        return {**written, "type": kind}
    code = "undefinedField" if "Cannot query field" in error.message else "argumentError"
    return {**written, "extensions": {"code": code}}


def _not_found_error(message: str) -> GraphQLError:
    return GraphQLError(message, extensions={"type": "NOT_FOUND"})


def _url(pull: StoredPull) -> str:
    return f"https://github.example/pull/{pull.number}"

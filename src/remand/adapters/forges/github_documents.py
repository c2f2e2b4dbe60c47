"""What is asked of GitHub's GraphQL."""

from __future__ import annotations

from collections.abc import Sequence

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


def seen(numbers: Sequence[int]) -> str:
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

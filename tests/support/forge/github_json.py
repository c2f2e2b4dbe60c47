"""The state of the fake forge in the shapes of GitHub's REST API."""

from __future__ import annotations

from typing import Any

from remand.domain.forge import PullState
from remand.domain.instant import Instant
from tests.support.forge.state import (
    CommitStatus,
    DiscussionComment,
    ForgeState,
    LineComment,
    Person,
    StoredIssue,
    StoredPull,
    StoredReview,
)

Json = dict[str, Any]

USER_ADDRESSES = (
    "avatar followers following gists starred subscriptions organizations repos events received_events html"
)
REPOSITORY_ADDRESSES = (
    "archive assignees blobs branches collaborators comments commits compare contents contributors deployments "
    "downloads events forks git_commits git_refs git_tags hooks html issue_comment issue_events issues keys labels "
    "languages merges milestones notifications pulls releases stargazers statuses subscribers subscription tags "
    "teams trees clone git mirror ssh svn"
)
COUNTS = "forks forks_count open_issues open_issues_count size stargazers_count watchers watchers_count"
SWITCHES = "fork private has_downloads has_issues has_projects has_wiki has_pages archived disabled"
LINKS = ("comments", "commits", "statuses", "html", "issue", "review_comments", "review_comment", "self")
LEGACY = {"maintain": "write", "triage": "read"}
"""What `permission` says of roles that came later."""


def timestamp(value: Instant) -> str | None:
    """A time as GitHub writes it."""
    return f"{value[:19]}Z" if value else None


class GitHubJson:
    """Writes the state as GitHub does."""

    def __init__(self, state: ForgeState, base: str) -> None:
        self._state = state
        self._repository = f"{base}/repos/{state.owner}/{state.name}"
        self._base = base

    def user(self, person: Person | None) -> Json | None:
        """An account; null when it is gone."""
        if person is None:
            return None
        here = f"{self._base}/users/{person.login}"
        return {
            "login": f"{person.login}[bot]" if person.is_bot else person.login,
            "id": person.id,
            "node_id": f"U_{person.id}",
            "gravatar_id": "",
            "url": here,
            "type": "Bot" if person.is_bot else "User",
            "site_admin": False,
            **{f"{name}_url": f"{here}/{name}" for name in USER_ADDRESSES.split()},
        }

    def dismissal(self, pull: StoredPull, given: StoredReview) -> Json:
        """The event of a dismissal; of one by a push it names the commit, and its actor is who pushed."""
        here = f"{self._repository}/issues/events/{given.id}"
        dismissed = {"state": given.was.value, "review_id": given.id, "dismissal_message": "settled"}
        if given.dismissed_by is None:
            dismissed["dismissal_commit_id"] = pull.head
        return {
            "id": given.id,
            "node_id": f"RDE_{given.id}",
            "url": here,
            "actor": self.user(given.dismissed_by or given.author),
            "event": "review_dismissed",
            "commit_id": None,
            "commit_url": None,
            "created_at": timestamp(given.updated_at),
            "dismissed_review": dismissed,
            "performed_via_github_app": None,
        }

    def profile(self, person: Person) -> Json:
        """An account, asked for by its id."""
        return {
            **(self.user(person) or {}),
            **dict.fromkeys(("name", "company", "location", "email", "hireable", "bio")),
            **dict.fromkeys(("public_repos", "public_gists", "followers", "following"), 0),
            "blog": "",
            "created_at": timestamp(self._state.now),
            "updated_at": timestamp(self._state.now),
        }

    def repository(self) -> Json:
        """The repository."""
        now = timestamp(self._state.now)
        return {
            "id": 1,
            "node_id": "R_1",
            "name": self._state.name,
            "full_name": f"{self._state.owner}/{self._state.name}",
            "owner": self.user(self._state.viewer),
            "description": None,
            "default_branch": "main",
            "homepage": None,
            "language": None,
            "license": None,
            "url": self._repository,
            **{f"{name}_at": now for name in ("pushed", "created", "updated")},
            **{f"{name}_url": f"{self._repository}/{name}" for name in REPOSITORY_ADDRESSES.split()},
            **dict.fromkeys(COUNTS.split(), 0),
            **dict.fromkeys(SWITCHES.split(), False),
        }

    def pull(self, pull: StoredPull) -> Json:
        """A pull request as lists have it."""
        here = f"{self._repository}/pulls/{pull.number}"
        is_open = pull.state is PullState.OPEN
        return {
            "url": here,
            "id": 7000 + pull.number,
            "node_id": f"PR_{pull.number}",
            "number": pull.number,
            "state": "open" if is_open else "closed",
            "locked": False,
            "title": pull.title,
            "user": self.user(pull.author),
            "body": pull.text or None,
            "draft": pull.is_draft,
            "requested_reviewers": [self.user(one) for one in pull.requested],
            "labels": [],
            "milestone": None,
            "assignee": None,
            "created_at": timestamp(pull.created_at),
            "updated_at": timestamp(pull.updated_at),
            "closed_at": None if is_open else timestamp(pull.updated_at),
            "merged_at": timestamp(pull.merged_at),
            "merge_commit_sha": None,
            "head": self._end(pull.branch, pull.head, is_forked=pull.is_of_a_fork),
            "base": self._end(pull.base, "0" * 40),
            "author_association": "NONE",
            "auto_merge": None,
            "_links": {name: {"href": here} for name in LINKS},
            **{f"{name}_url": f"{here}/{name}" for name in (*LINKS[:7], "diff", "patch")},
        }

    def whole(self, pull: StoredPull) -> Json:
        """A pull request asked for by its number."""
        return {
            **self.pull(pull),
            "merged": pull.state is PullState.MERGED,
            "merged_by": self.user(pull.merged_by),
            "mergeable": None,
            "mergeable_state": "unknown",
            "maintainer_can_modify": False,
            "comments": len(pull.remarks),
            "review_comments": len(pull.comments),
            **dict.fromkeys(("commits", "additions", "deletions", "changed_files"), 1),
        }

    def _end(self, ref: str, sha: str, *, is_forked: bool = False) -> Json:
        """Where a pull request comes from or leads to. An organisation may have a fork of its own repository."""
        owner = self._state.viewer
        label = f"{self._state.owner}:{ref}"
        name = f"{self._state.owner}/{self._state.name}{'-fork' if is_forked else ''}"
        return {
            "label": label,
            "ref": ref,
            "sha": sha,
            "user": self.user(owner),
            "repo": {**self.repository(), "full_name": name},
        }

    def issue(self, issue: StoredIssue) -> Json:
        """An issue."""
        here = f"{self._repository}/issues/{issue.number}"
        return {
            **self._issue_fields(issue, here),
            "state": "open" if issue.is_open else "closed",
            "state_reason": issue.reason or None,
            "title": issue.title,
            "body": issue.text or None,
            "labels": [{"id": 1, "name": name, "color": "ededed", "default": False} for name in issue.labels],
            "closed_at": None if issue.is_open else timestamp(issue.updated_at),
        }

    def as_issue(self, pull: StoredPull) -> Json:
        """A pull request as the list of issues has it."""
        here = f"{self._repository}/issues/{pull.number}"
        links = {f"{name}url": here for name in ("", "html_", "diff_", "patch_")}
        return {
            **self._issue_fields(pull, here),
            "state": "open" if pull.state is PullState.OPEN else "closed",
            "title": pull.title,
            "body": pull.text or None,
            "labels": [{"id": 1, "name": "remand", "color": "ededed", "default": False}],
            "closed_at": None,
            "pull_request": {"merged_at": timestamp(pull.merged_at), **links},
        }

    def _issue_fields(self, item: StoredIssue | StoredPull, here: str) -> Json:
        return {
            "id": 9000 + item.number,
            "node_id": f"I_{item.number}",
            "number": item.number,
            "user": self.user(item.author),
            "assignee": None,
            "milestone": None,
            "locked": False,
            "comments": len(item.remarks),
            "created_at": timestamp(item.created_at),
            "updated_at": timestamp(item.updated_at),
            "author_association": "NONE",
            "url": here,
            "repository_url": self._repository,
            **{f"{name}_url": f"{here}/{name}" for name in ("labels", "comments", "events", "html")},
        }

    def review(self, pull: StoredPull, given: StoredReview) -> Json:
        """A review."""
        here = f"{self._repository}/pulls/{pull.number}"
        is_pending = given.state.value == "pending"
        return {
            "id": given.id,
            "node_id": f"PRR_{given.id}",
            "user": self.user(given.author),
            "body": given.text,
            "state": given.state.value.upper(),
            "commit_id": given.commit,
            "html_url": f"{here}#pullrequestreview-{given.id}",
            "pull_request_url": here,
            "author_association": "NONE",
            "_links": {name: {"href": here} for name in ("html", "pull_request")},
            **({} if is_pending else {"submitted_at": timestamp(given.created_at)}),
        }

    def line_comment(self, pull: StoredPull, said: LineComment) -> Json:
        """A comment on a line or a file."""
        here = f"{self._repository}/pulls/{pull.number}"
        reply = {} if said.reply_to is None else {"in_reply_to_id": said.reply_to}
        is_on_file = said.original_line is None
        return {
            **self.remark(pull, said),
            "node_id": f"PRRC_{said.id}",
            "pull_request_review_id": said.review,
            "diff_hunk": "@@ -1 +1 @@",
            "path": said.path,
            "line": 1 if is_on_file else said.line,
            "original_line": said.original_line or 1,
            "side": "RIGHT",
            "subject_type": "file" if is_on_file else "line",
            "commit_id": said.commit,
            "original_commit_id": said.original_commit,
            "pull_request_url": here,
            "_links": {name: {"href": here} for name in ("self", "html", "pull_request")},
            **reply,
        }

    def remark(self, pull: StoredPull | StoredIssue, said: DiscussionComment) -> Json:
        """A comment in the discussion."""
        here = f"{self._repository}/issues/{pull.number}"
        return {
            "id": said.id,
            "node_id": f"IC_{said.id}",
            "url": f"{here}/comments/{said.id}",
            "html_url": f"{here}#issuecomment-{said.id}",
            "issue_url": here,
            "user": self.user(said.author),
            "body": said.text,
            "created_at": timestamp(said.created_at),
            "updated_at": timestamp(said.updated_at),
            "author_association": "NONE",
        }

    def permission(self, person: Person) -> Json:
        """What an account may do: in the old words, and by the name of its role."""
        role = person.permission
        return {
            "permission": LEGACY.get(role, role),
            "role_name": role,
            "user": {**(self.user(person) or {}), "role_name": role},
        }

    def status(self, posted: CommitStatus) -> Json:
        """A status at a commit."""
        now = timestamp(self._state.now)
        return {
            "url": f"{self._repository}/statuses/{posted.commit}",
            "avatar_url": None,
            "id": 1,
            "node_id": "SC_1",
            "state": posted.state.value,
            "description": posted.text,
            "target_url": None,
            "context": posted.context,
            "created_at": now,
            "updated_at": now,
            "creator": self.user(self._state.viewer),
        }

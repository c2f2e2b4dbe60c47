"""Holds the fake forge, and what we ask, against what GitHub publishes of its API."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx2
import msgspec
import pytest
from jsonschema import Draft202012Validator

from remand.adapters.forges.github import READY
from remand.domain.forge import ReviewState
from tests.support.forge.github import GitHubDialect
from tests.support.forge.server import ForgeServer
from tests.support.forge.state import ForgeState, NewLineComment

pytestmark = pytest.mark.more
UNDESCRIBED = re.compile(r"\$\[\d+\]\.line: None is not of type 'integer'")
"""GitHub's own webhooks tell null for a line that is gone; its description of REST forgets it."""
Json = Any


def published(path: str) -> Path:
    """A file that `scripts/forge-descriptions` installs; a test without it is skipped."""
    cache = os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache"
    file = Path(cache) / "remand-tests" / "forge-descriptions" / "node_modules" / "@octokit" / path
    if not file.exists():
        pytest.skip("GitHub's descriptions are not installed; scripts/forge-descriptions does it")
    return file


# -------------------------------------------------------------------------------------------------- REST


@lru_cache(maxsize=1)
def described() -> Json:
    file = published("openapi/generated/api.github.com.json")
    return _nullable(msgspec.json.decode(file.read_bytes()))


def _nullable(part: Json) -> Json:
    """The description in the words of JSON Schema, which has another way to say that something may be null."""
    if isinstance(part, list):
        return [_nullable(one) for one in part]
    if not isinstance(part, dict):
        return part
    plain = {name: _nullable(value) for name, value in part.items() if name not in {"nullable", "example"}}
    return {"anyOf": [plain, {"type": "null"}]} if part.get("nullable") is True else plain


def flaws(path: str, method: str, status: int, body: Json) -> list[str]:
    """Where an answer is not as GitHub describes it."""
    answers = described()["paths"][path][method]["responses"]
    assert str(status) in answers, f"{method} {path} never answers {status}"
    answer = answers[str(status)]
    shared = answer.get("$ref", "").removeprefix("#/components/responses/")
    answer = described()["components"]["responses"][shared] if shared else answer
    schema = {**answer["content"]["application/json"]["schema"], "components": described()["components"]}
    found = Draft202012Validator(schema).iter_errors(body)
    told = [f"{error.json_path}: {error.message[:200]}" for error in found]
    return [flaw for flaw in told if not UNDESCRIBED.fullmatch(flaw)]


@pytest.fixture(scope="module")
def hub() -> Iterator[tuple[ForgeServer, httpx2.Client]]:
    state = ForgeState()
    ann, bob = state.person("ann", "maintain"), state.person("bob")
    pull = state.open(bob)
    state.review(
        pull,
        ann,
        ReviewState.CHANGES_REQUESTED,
        "No.",
        NewLineComment(text="a"),
        NewLineComment(text="b", line=None),
    )
    state.reply(pull, pull.threads[0], bob, "Why?")
    state.push(pull, "f" * 40)
    state.review(pull, ann, ReviewState.PENDING, "draft")
    state.remark(pull, state.person("checker", is_bot=True), "beep")
    merged = state.open(bob)
    state.merge(merged, ann)
    state.tips |= {"work/new": "a" * 40, "work/again": "b" * 40}
    state.open(bob, branch="work/again", head="b" * 40)
    for number in (4, 5):
        assert state.report(bob, "It leaks", "Here.", "remand").number == number
    with (
        ForgeServer(GitHubDialect(state)) as server,
        httpx2.Client(base_url=server.url, headers={"authorization": f"token {state.token}"}) as client,
    ):
        yield server, client


CLOSED = {"state": "closed", "state_reason": "completed"}


def opening(branch: str) -> Json:
    return {"title": "Mend", "head": branch, "base": "main", "body": "It leaks.", "draft": True}


def merging(digit: str) -> Json:
    return {"sha": digit * 40, "merge_method": "merge"}


ANSWERS = [
    ("GET", "/repos/{owner}/{repo}/pulls", "", None),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}", "", None),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}", "404", None),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/reviews", "", None),
    ("GET", "/repos/{owner}/{repo}/pulls/{pull_number}/comments", "", None),
    ("GET", "/repos/{owner}/{repo}/pulls/comments", "", None),
    ("GET", "/repos/{owner}/{repo}/issues/{issue_number}/comments", "", None),
    ("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", "", None),
    ("GET", "/repos/{owner}/{repo}/collaborators/{username}/permission", "404", None),
    ("POST", "/repos/{owner}/{repo}/issues/{issue_number}/comments", "", {"body": "hi"}),
    (
        "POST",
        "/repos/{owner}/{repo}/statuses/{sha}",
        "",
        {"state": "failure", "context": "remand", "description": "no"},
    ),
    (
        "POST",
        "/repos/{owner}/{repo}/pulls/{pull_number}/reviews",
        "",
        {
            "event": "REQUEST_CHANGES",
            "body": "no",
            "commit_id": "f" * 40,
            "comments": [{"path": "src/app.py", "line": 1, "side": "RIGHT", "body": "no"}],
        },
    ),
    (
        "POST",
        "/repos/{owner}/{repo}/pulls/{pull_number}/reviews",
        "422",
        {
            "event": "COMMENT",
            "body": "no",
            "comments": [{"path": "gone.py", "line": 1, "side": "RIGHT", "body": "no"}],
        },
    ),
    ("GET", "/repos/{owner}/{repo}/issues", "", None),
    ("GET", "/repos/{owner}/{repo}/issues/{issue_number}", "", None),
    ("GET", "/repos/{owner}/{repo}/issues/{issue_number}", "404", None),
    ("GET", "/user/{account_id}", "", None),
    ("PATCH", "/repos/{owner}/{repo}/issues/{issue_number}", "", CLOSED),
    ("POST", "/repos/{owner}/{repo}/pulls", "", opening("work/new")),
    ("POST", "/repos/{owner}/{repo}/pulls", "422", opening("work/again")),
    ("POST", "/repos/{owner}/{repo}/pulls/{pull_number}/requested_reviewers", "", {"reviewers": ["ann"]}),
    ("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge", "409", merging("0")),
    ("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge", "", merging("f")),
    ("PUT", "/repos/{owner}/{repo}/pulls/{pull_number}/merge", "405", merging("f")),
]


@pytest.mark.parametrize(
    ("method", "path", "wanted", "body"), ANSWERS, ids=[f"{a}-{b}-{c or 'ok'}" for a, b, c, _ in ANSWERS]
)
def test_the_fake_answers_as_github_describes_it(
    hub: tuple[ForgeServer, httpx2.Client], method: str, path: str, wanted: str, body: Json
) -> None:
    described()
    missing = wanted == "404"
    names = {
        "owner": "octo",
        "repo": "demo",
        "pull_number": 99 if missing else 1,
        "issue_number": 99 if missing else 1 if "comments" in path else 4,
        "account_id": 1002,
        "username": "nobody" if missing else "ann",
        "sha": "f" * 40,
    }
    answer = hub[1].request(method, path.format(**names), json=body)

    assert str(answer.status_code) == wanted or (not wanted and answer.is_success)
    assert flaws(path, method.lower(), answer.status_code, answer.json()) == []


def test_what_is_sent_is_what_github_takes() -> None:
    for method, path, _, body in ANSWERS:
        if body is not None:
            asked = described()["paths"][path][method.lower()]["requestBody"]["content"]["application/json"]
            known = asked["schema"].get("anyOf", [asked["schema"]])[0]["properties"]
            assert set(body) <= set(known), path
            for comment in body.get("comments", []):
                assert set(comment) <= set(known["comments"]["items"]["properties"])


def test_a_line_that_is_gone_is_null_by_github_s_own_word() -> None:
    line = described()["components"]["schemas"]["webhooks_review_comment"]["properties"]["line"]

    assert {"type": "null"} in line["anyOf"]


def test_an_answer_that_is_otherwise_would_be_noticed(hub: tuple[ForgeServer, httpx2.Client]) -> None:
    path = "/repos/{owner}/{repo}/pulls/{pull_number}/reviews"
    reviews = hub[1].get("/repos/octo/demo/pulls/1/reviews").json()
    del reviews[0]["state"]
    reviews[0]["id"] = "1"

    assert len(flaws(path, "get", 200, reviews)) == 2


# ----------------------------------------------------------------------------------------------- GraphQL


def test_what_is_asked_by_graphql_is_in_github_s_schema() -> None:
    schema = published("graphql-schema/schema.graphql").read_text(encoding="utf-8")
    parts = re.findall(
        r"^(?:type|input) (?:Mutation|MarkPullRequestReadyForReviewInput|MarkPullRequestReadyForReviewPayload) "
        r"{$.*?^}$",
        schema,
        re.MULTILINE | re.DOTALL,
    )

    assert len(parts) == 3
    for used in ("markPullRequestReadyForReview", "input", "pullRequestId", "pullRequest"):
        assert used in READY
        assert any(re.search(rf"\b{used}\b\s*[:(]", part) for part in parts), used

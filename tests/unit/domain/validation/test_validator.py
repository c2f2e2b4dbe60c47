"""Holds the verdicts on the requirements' own examples and on one honest record a reason."""

from typing import Any

import pytest

from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.validation.validator import RejectionValidator, assess
from tests.unit.domain.validation.records import HONEST, codes, judged, record

LAZY = TaskRejection(
    task_id="T-1",
    reason_type=RejectionReason.BLOCKER,
    reason_summary="Too complex",
    reason_detail="This task is too complex for me to handle.",
    what_attempted=["Looked at the code", "Tried to understand it"],
    blocking_factor="It's confusing",
    suggested_alternative="Ask someone else to do it",
)
OAUTH = TaskRejection(
    task_id="task:T-20251220-153045-a1b2",
    reason_type=RejectionReason.SCOPE_CREEP,
    reason_summary="Add OAuth login requires auth system redesign",
    reason_detail="""
Original task: "Add OAuth login button to login page"

Investigation revealed this requires:
1. Refactoring entire auth module for plugin architecture
2. Updating 23 API endpoints to support multiple auth methods
3. Migrating existing user sessions to new auth system
4. Updating 89 test files

Original scope: Add UI button and OAuth flow (~2 hours)
Actual scope: Auth system redesign (~16-20 hours)

Scope growth factor: 8-10x
""",
    what_attempted=[
        "Analyzed auth/ module structure - 47 files, 12,000 LOC",
        "Reviewed existing tests - 89 test files to update",
        "Checked API documentation - 23 endpoints need changes",
        "Estimated effort - 16-20 hours for complete implementation",
    ],
    blocking_factor="Cannot add OAuth without refactoring auth module for extensibility",
    evidence=[
        {
            "type": "file_analysis",
            "data": {"files_requiring_changes": 47, "lines_of_code": 12000},
            "source": "static analysis of auth/ module",
        },
        {
            "type": "complexity_metric",
            "data": {"test_files_to_update": 89, "api_endpoints_affected": 23},
            "source": "impact analysis",
        },
        {
            "type": "time_estimate",
            "data": {"original_estimate_hours": 2, "revised_estimate_hours": 18},
            "source": "engineering judgment",
        },
    ],
    suggested_alternative="""
Decompose into 3 sequential tasks:

1. Refactor auth module for plugin architecture (8 hours)
   - Extract interface for auth providers
2. Add OAuth provider plugin (4 hours)
3. Add OAuth UI and flows (2 hours)
""",
    alternative_tasks=[
        {
            "title": "Refactor auth module for plugin architecture",
            "scope": "Extract auth provider interface, migrate existing auth",
            "dependencies": "none",
            "estimate": "8 hours",
        },
        {
            "title": "Implement OAuth provider plugin",
            "scope": "Add OAuth using new plugin interface",
            "dependencies": "Requires auth refactor task",
            "estimate": "4 hours",
        },
        {
            "title": "Add OAuth UI and user flows",
            "scope": "Add login button, redirect flows, documentation",
            "dependencies": "Requires OAuth plugin task",
            "estimate": "2 hours",
        },
    ],
    task_original_scope="Add OAuth login button to login page (~2 hours)",
    scope_growth_factor=9.0,
)
REDESIGN = TaskRejection(
    task_id="T-2",
    reason_type=RejectionReason.SCOPE_CREEP,
    reason_summary="Task requires auth system redesign",
    reason_detail="Original: Add button. Actual: Redesign auth module.",
    what_attempted=[
        "Analyzed auth/ module - 47 files need changes",
        "Reviewed tests - 89 test files affected",
        "Estimated effort - 16 hours vs 2 hours originally",
    ],
    blocking_factor="Cannot add OAuth without refactoring auth for extensibility",
    suggested_alternative="Decompose into: refactor auth, add OAuth, add UI",
    alternative_tasks=[
        {
            "title": "Refactor auth module",
            "scope": "Extract provider interface",
            "dependencies": "none",
            "estimate": "8h",
        },
        {
            "title": "Add OAuth provider",
            "scope": "Implement OAuth plugin",
            "dependencies": "auth refactor",
            "estimate": "4h",
        },
    ],
    task_original_scope="Add OAuth button to login page (2h)",
    scope_growth_factor=8.0,
)


def test_the_lazy_example_of_the_requirements_gives_the_four_issues_its_text_names() -> None:
    is_valid, issues = RejectionValidator().validate(LAZY, {})

    assert not is_valid
    assert {"effort_vague", "evidence_missing", "blocking_factor_vague", "alternative_generic"} <= {
        issue.code for issue in issues
    }
    said = " ".join(str(issue) for issue in issues)
    assert all(
        phrase in said for phrase in ("vague", "BLOCKER requires evidence", "too generic", "at least 2")
    )


@pytest.mark.parametrize(
    "context",
    [{"title": "Add OAuth login", "scope": "Add OAuth login button to login page"}, {}],
    ids=["known task", "unknown task"],
)
def test_the_oauth_example_of_the_requirements_is_valid(context: dict[str, str]) -> None:
    assert assess(OAUTH, context).issues == ()


@pytest.mark.parametrize("scope", ["...", ""])
def test_the_example_of_the_second_requirement_is_valid(scope: str) -> None:
    assert assess(REDESIGN, {"title": "Add OAuth login", "scope": scope}).issues == ()


@pytest.mark.parametrize("reason", HONEST)
def test_an_honest_record_of_each_reason_is_valid(reason: str) -> None:
    assert judged(reason).issues == ()


@pytest.mark.parametrize("reason", HONEST)
def test_a_record_is_judged_without_its_task(reason: str) -> None:
    assert assess(record(reason), {}).is_valid


@pytest.mark.parametrize(
    "context", [None, 7, "text", [], {"title": None, "scope": ["a", {"b": float("nan")}]}]
)
def test_a_context_of_any_type_is_taken(context: object) -> None:
    is_valid, issues = RejectionValidator().validate(record("BLOCKER"), context)  # type: ignore[arg-type]

    assert is_valid == (not issues)


def test_an_unknown_reason_is_an_issue() -> None:
    assert "reason_unknown" in codes("BLOCKER", reason_type="TOO_TIRED")


def test_an_issue_as_text_is_its_message() -> None:
    _, issues = RejectionValidator().validate(record("BLOCKER", suggested_alternative=""), {})

    assert [str(issue) for issue in issues] == [issue.message for issue in issues]


def test_the_score_is_the_bias_and_what_the_features_add() -> None:
    poor = judged("BLOCKER", suggested_alternative="Wait.")
    good = judged("BLOCKER")

    difference = sum(feature.contribution for feature in good.features) - sum(
        feature.contribution for feature in poor.features
    )
    assert good.score - poor.score == pytest.approx(difference)
    assert all(feature.note for feature in good.features)


def test_a_low_score_names_a_weak_field_and_what_would_help() -> None:
    stuffed = judged(
        "BLOCKER",
        reason_detail="The bucket is external. External things can be unavailable, which is a blocker as defined.",
        what_attempted=[
            "Evaluated the bucket condition: it meets 3 definitions",
            "Classified the bucket condition: external, severity 8/10",
        ],
        evidence=[{"type": "error_log", "data": "bucket: condition not met", "source": "evaluation"}],
        suggested_alternative="Bring the bucket into a condition in which the dump can be uploaded.",
    )

    assert not stuffed.is_valid
    assert stuffed.score < 0
    assert {issue.code for issue in stuffed.issues} & {"alternative_weak", "effort_weak", "evidence_weak"}


def test_an_issue_reads_as_its_message_and_knows_its_code() -> None:
    _, issues = RejectionValidator().validate(TaskRejection(reason_type="BLOCKER"), {})

    assert any("at least 2" in issue for issue in issues)
    assert "\n".join(issues)
    assert all(issue.code and issue.field and issue == issue.message == str(issue) for issue in issues)


@pytest.mark.parametrize("given", [None, {}, "x", 7, {"reason_type": "BLOCKER"}])
def test_what_is_no_record_is_judged_as_an_empty_one(given: Any) -> None:
    is_valid, issues = RejectionValidator().validate(given, {})

    assert not is_valid
    assert issues

"""Holds the rules that the errata do not name: repetition, stale and empty evidence, growth, obsolescence."""

from typing import Any

import pytest

from remand.domain.rejection import TaskRejection
from remand.domain.validation.validator import assess
from tests.unit.domain.validation.records import SCOPE_CREEP, SCOPE_CREEP_TASK, codes, record


def test_the_same_attempt_told_twice_is_one() -> None:
    told = "Ran the upload job on staging with the new key: 403"

    assert "effort_repeated" in codes("BLOCKER", what_attempted=[told, told.upper()])


def test_alike_attempts_with_other_findings_are_two() -> None:
    attempts = [
        "Ran the upload job with 1 thread: 403 after 2 s",
        "Ran the upload job with 8 threads: 403 after 9 s",
    ]

    assert not codes("BLOCKER", what_attempted=attempts) & {"effort_repeated", "effort_vague"}


def test_attempts_are_concrete_in_any_language() -> None:
    attempts = ["上传 dump.gz 到 s3://drill:5 次都是 403", "改用测试桶的密钥:40 秒上传 2.1 GB"]

    assert not codes("BLOCKER", what_attempted=attempts) & {"effort_too_few", "effort_vague"}


@pytest.mark.parametrize(
    ("day", "is_stale"),
    [("2026-03-09", False), ("9 March", False), ("2026-02-20", True), ("20. Februar", True)],
)
def test_a_blocker_was_seen_in_the_last_week(day: str, is_stale: bool) -> None:
    evidence = [
        {"type": "status_check", "data": f"PutObject: 403 AccessDenied on {day}", "source": "aws s3 cp"}
    ]

    assert ("evidence_stale" in codes("BLOCKER", evidence=evidence)) == is_stale


def test_a_probe_is_data() -> None:
    evidence = [{"type": "file", "probe": {"file": "deploy/keys.yaml", "line": 7, "text": "drill"}}]

    assert not codes("BLOCKER", evidence=evidence) & {"evidence_missing", "evidence_empty"}


@pytest.mark.parametrize(
    "quoted",
    [
        "Rename customers.region to customers.area. 3 h.",
        "Rename customers.region (3 h)",
        "rename region to area, 3 hours",
    ],
)
def test_the_original_scope_may_be_shortened(quoted: str) -> None:
    assert "scope_misquoted" not in codes("SCOPE_CREEP", task_original_scope=quoted)


@pytest.mark.parametrize(
    "quoted", ["Fix a typo on the pricing page", "Rename customers.region to customers.area. 1 h."]
)
def test_another_scope_or_estimate_than_the_tasks_is_a_misquotation(quoted: str) -> None:
    assert "scope_misquoted" in codes("SCOPE_CREEP", task_original_scope=quoted)


def test_no_original_scope_is_an_issue() -> None:
    assert "scope_original_missing" in codes("SCOPE_CREEP", task_original_scope="")


@pytest.mark.parametrize("factor", [6.0, "6", "6x", 5.5, 6.5])
def test_growth_may_be_rounded(factor: object) -> None:
    assert codes("SCOPE_CREEP", scope_growth_factor=factor) == set()


@pytest.mark.parametrize("factor", [2.5, 9, 20])
def test_growth_must_follow_from_the_figures(factor: float) -> None:
    assert "scope_growth_unsupported" in codes("SCOPE_CREEP", scope_growth_factor=factor)


def test_growth_without_any_figure_is_unsupported() -> None:
    bare: dict[str, Any] = {
        "reason_detail": "It grew a lot.",
        "what_attempted": ["Ran the migration: 31 queries fail", "Looked at the export: 7 views"],
        "evidence": [{"data": "31 queries fail"}],
        "alternative_tasks": [{"title": "One"}, {"title": "Two"}],
    }

    assert "scope_growth_unsupported" in codes("SCOPE_CREEP", **bare)


def test_sub_tasks_that_add_up_to_the_plan_show_no_growth() -> None:
    tasks = [{**task, "estimate": "1 h"} for task in SCOPE_CREEP["alternative_tasks"]]

    assert "scope_growth_unsupported" in codes("SCOPE_CREEP", alternative_tasks=tasks)


def test_growth_may_be_counted_in_files() -> None:
    counted = record(
        "SCOPE_CREEP",
        reason_detail="Two files were planned; 12 read the column.",
        what_attempted=[
            "Ran the migration on a copy: 31 queries fail in 12 files",
            "Ported billing.py: 12 queries",
        ],
        evidence=[
            {
                "type": "file_analysis",
                "data": {"planned_files": 2, "found_files": 12},
                "source": "grep -rl region",
            }
        ],
        alternative_tasks=[
            {"title": "New column", "scope": "V112"},
            {"title": "Move queries", "scope": "12 files"},
        ],
        task_original_scope="Rename customers.region to customers.area",
    )
    found = assess(
        counted, {"title": "Clearer name", "scope": "Rename customers.region to customers.area in two files."}
    )

    assert "scope_growth_unsupported" not in {issue.code for issue in found.issues}


def test_a_dependency_that_the_record_says_is_done_is_an_issue() -> None:
    attempts = ["T-41: done since 11 March", "POST /hooks with its secret: 200, signature accepted"]

    assert "dependency_done" in codes("MISSING_DEPENDENCY", what_attempted=attempts)


@pytest.mark.parametrize(
    "said", ["T-41: half done, review open", "T-41: not merged", "T-41: closes on Friday, review pending"]
)
def test_a_dependency_half_done_is_none(said: str) -> None:
    attempts = [said, "POST /hooks with a made-up secret: 401 bad signature"]

    assert "dependency_done" not in codes("MISSING_DEPENDENCY", what_attempted=attempts)


def test_quoted_demands_must_be_the_tasks() -> None:
    invented = (
        "'Runs on a toaster' and 'costs nothing at all' cannot hold together: the fonts alone take 22 KB."
    )

    assert "infeasible_proof_invented" in codes("INFEASIBLE", reason_detail=invented)


def test_questions_may_be_indirect() -> None:
    asked = {
        "reason_summary": "Recent orders are not defined",
        "reason_detail": "By date (30 days) the page shows 0 to 412 orders, by count (20) always 20. Open: whether 30 days or "
        "20 orders, and whether cancelled ones count.",
    }

    assert "questions_missing" not in codes("UNCLEAR_REQUIREMENTS", **asked)


def test_an_obsolete_task_names_what_made_it_so() -> None:
    unnamed = {
        "reason_summary": "Was done before",
        "reason_detail": "The exporter is gone.",
        "what_attempted": [
            "Searched the sources for the exporter: 0 hits",
            "Started the tool: 12 formats, no XML",
        ],
        "blocking_factor": "XML exporter no longer exists",
        "evidence": [{"data": "0 hits", "source": "grep"}],
        "suggested_alternative": "Cancel it.",
    }

    assert "obsolete_unnamed" in codes("OBSOLETE", **unnamed)
    assert "obsolete_unnamed" not in codes(
        "OBSOLETE", **{**unnamed, "blocking_factor": "exporter/json.py:12 replaces it"}
    )


def test_an_obsolete_task_is_not_obsolete_because_of_itself() -> None:
    itself = {
        "reason_summary": "Done in T-100",
        "reason_detail": "T-100 removed the exporter.",
        "what_attempted": ["Ran the tests of T-100: 12 pass", "Read the diff of T-100: 3 files"],
        "blocking_factor": "Done by T-100",
        "evidence": [{"data": "12 passed", "source": "pytest"}],
    }

    assert "obsolete_itself" in codes("OBSOLETE", **itself)


def test_an_obsolete_task_needs_evidence_and_two_attempts() -> None:
    assert {"evidence_missing", "effort_too_few"} <= codes(
        "OBSOLETE", evidence=[], what_attempted=["grep xml src: 0 hits"]
    )


def test_an_estimate_in_days_or_words_is_understood() -> None:
    task = {
        "title": SCOPE_CREEP_TASK["title"],
        "scope": "Rename customers.region to customers.area. Half a day.",
    }
    grown = record(
        "SCOPE_CREEP",
        reason_detail="Four services read the column by name, two of them in SQL views. Half a day becomes 3 days.",
        evidence=[
            {"type": "time_estimate", "data": {"original_days": 0.5, "revised_days": 3}, "source": "billing"}
        ],
        alternative_tasks=[
            {"title": "New column with trigger", "scope": "migration V112", "estimate": "1 day"},
            {"title": "Move 31 queries", "scope": "billing, crm, export, audit", "estimate": "2 days"},
        ],
        task_original_scope="Rename customers.region to customers.area, half a day",
    )

    assert not {issue.code for issue in assess(grown, task).issues} & {
        "scope_growth_unsupported",
        "scope_misquoted",
    }


def test_a_record_without_anything_gives_issues() -> None:
    found = {issue.code for issue in assess(TaskRejection(reason_type="BLOCKER"), {}).issues}

    assert {"effort_too_few", "blocking_factor_missing", "alternative_missing", "evidence_missing"} <= found


QUOTED = "The scope says 'sorted by score in a single pass' and 'must not buffer any events in memory'; both exclude each other."


@pytest.mark.parametrize(
    ("scope", "is_invented"),
    [
        ("Return the feed sorted by score in a single pass. Must not buffer any events in memory.", False),
        ("Return the newest 100 events sorted by score.", True),
        ("", False),
    ],
)
def test_a_demand_that_is_quoted_is_the_tasks_own(scope: str, is_invented: bool) -> None:
    found = assess(
        TaskRejection(reason_type="INFEASIBLE", reason_detail=QUOTED),
        {"title": "Sort the feed", "scope": scope},
    )

    assert ("infeasible_proof_invented" in {issue.code for issue in found.issues}) == is_invented


def test_an_error_that_is_quoted_is_no_demand() -> None:
    said = "region rom overflowed by 13520 bytes"
    record = TaskRejection(
        reason_type="INFEASIBLE",
        reason_detail=f"The linker says '{said}', and the chip has no more.",
        evidence=[{"type": "error_log", "data": said, "source": "ld"}],
    )

    found = assess(record, {"title": "Fit the menu", "scope": "All fonts within 48 KB."})

    assert "infeasible_proof_invented" not in {issue.code for issue in found.issues}


@pytest.mark.parametrize("reason", ["MISSING_DEPENDENCY", "OBSOLETE", "BLOCKER"])
@pytest.mark.parametrize("factor", ["Too complex", "Missing information", "It's confusing"])
def test_a_vague_blocking_factor_is_an_issue_for_every_reason(reason: str, factor: str) -> None:
    assert "blocking_factor_vague" in codes(reason, blocking_factor=factor)


@pytest.mark.parametrize("reason", ["BLOCKER", "MISSING_DEPENDENCY", "SCOPE_CREEP"])
def test_a_blocking_factor_that_nothing_speaks_of_is_an_issue(reason: str) -> None:
    assert "blocking_factor_unfounded" in codes(reason, blocking_factor="depends on the moon being full")


def test_an_alternative_that_is_the_task_again_is_an_issue() -> None:
    task = {
        "title": "Charge cards",
        "scope": "Charge the customer's card through the payment provider each month.",
    }
    again = TaskRejection(reason_type="BLOCKER", suggested_alternative=f"{task['title']}. {task['scope']}")
    other = TaskRejection(
        reason_type="BLOCKER", suggested_alternative="Ask Stripe for a new key and rerun pay_test.py."
    )

    assert "alternative_restates" in {issue.code for issue in assess(again, task).issues}
    assert "alternative_restates" not in {issue.code for issue in assess(other, task).issues}


@pytest.mark.parametrize(
    "detail", ["There is no conflict in this task.", "Es gibt keinen Konflikt.", "没有冲突"]
)
def test_who_says_that_nothing_conflicts_does_not_show_infeasibility(detail: str) -> None:
    assert "infeasible_proof_denied" in codes("INFEASIBLE", reason_detail=detail)


def test_the_same_evidence_twice_is_one_piece() -> None:
    one = {"type": "test_result", "data": {"wait": 0.7}, "source": "bench"}

    assert "evidence_too_few" in codes("INFEASIBLE", evidence=[one, dict(one)])


def test_evidence_of_success_contradicts_an_error_that_nobody_saw() -> None:
    claim = {
        "reason_summary": "The billing service answers 503",
        "blocking_factor": "billing.internal answers 503",
        "what_attempted": [
            "curl billing.internal/v2: HTTP 200 OK",
            "Read the status page: all systems operational",
        ],
    }
    fine = [{"type": "status_check", "data": "200 OK, all systems operational", "source": "status page"}]
    seen = [*fine, {"type": "error_log", "data": "HTTP 503", "source": "curl"}]

    assert "evidence_contradicts" in codes("BLOCKER", evidence=fine, **claim)
    assert "evidence_contradicts" not in codes("BLOCKER", evidence=seen, **claim)


def test_a_detail_that_fits_any_dependency_does_not_explain_one() -> None:
    assert "hard_requirement_missing" in codes(
        "MISSING_DEPENDENCY", reason_detail="It would be nicer afterwards."
    )


IN_WORDS = {
    "reason_summary": "There is no store for the webhook secrets yet",
    "reason_detail": "The signature needs a secret per subscriber. The secret store is required because settings.py:88 "
    "reads no other place; it lives in the gateway repository, to which we have no write access.",
    "what_attempted": [
        "POST /hooks with a made-up secret: 401 bad signature, 6 of 6",
        "Looked for another place of the secret: settings.py:88 reads the gateway store only",
        "Asked the gateway team about the store: nobody has planned it yet",
    ],
    "suggested_alternative": "Build the secret store in the gateway (2 days), then 3 h for the signature; handler and tests "
    "are ready in branch hooks-sig.",
}


@pytest.mark.parametrize(
    "factor",
    [
        "Depends on a secret store per subscriber in the gateway, which nobody has built",
        "Depends on the decision which secret store the gateway gets",
        "The gateway has no secret store for subscribers yet",
    ],
)
def test_a_dependency_may_be_named_in_words_that_the_record_shows(factor: str) -> None:
    assert codes("MISSING_DEPENDENCY", **IN_WORDS, blocking_factor=factor) == set()


@pytest.mark.parametrize(
    "factor",
    [
        "",
        "Depends on other work",
        "Depends on the moon being full",
        "Depends on signing outgoing webhooks",
        "It depends on some things that are missing",
        "Depends on " + "x" * 10_000,
    ],
)
def test_words_that_nothing_shows_name_no_dependency(factor: str) -> None:
    assert "dependency_unnamed" in codes("MISSING_DEPENDENCY", **IN_WORDS, blocking_factor=factor)

"""One honest record for each reason, to be spoilt one field at a time."""

from datetime import UTC, datetime
from typing import Any

from remand.domain.rejection import TaskRejection
from remand.domain.validation.assessment import Assessment, ValidationFacts
from remand.domain.validation.validator import assess

REJECTED_AT = datetime(2026, 3, 12, 9, 0, tzinfo=UTC)

BLOCKER: dict[str, Any] = {
    "reason_type": "BLOCKER",
    "reason_summary": "Staging bucket refuses our key",
    "reason_detail": "Every upload ends with 403 since the rotation on Monday. The new key is held by the storage team.",
    "what_attempted": [
        "aws s3 cp dump.gz s3://drill: 403 AccessDenied, 5 of 5 runs fail",
        "Same call with the key of the test bucket: upload works, 2.1 GB in 40 s",
        "Asked the storage team in STO-44: rotation is confirmed, new key is not handed out yet",
    ],
    "blocking_factor": "New access key of bucket s3://drill is missing since the rotation",
    "evidence": [
        {
            "type": "error_log",
            "data": "An error occurred (403) when calling PutObject: AccessDenied",
            "source": "aws s3 cp",
        },
        {
            "type": "status_check",
            "data": {"key": "AKIA…7Q", "state": "inactive since 2026-03-09"},
            "source": "aws iam",
        },
    ],
    "suggested_alternative": "Storage team puts the new key into the vault under drill/s3; the job reads that name already. "
    "If it takes longer than Friday, upload to the test bucket instead (1 h, script is ready).",
}
BLOCKER_TASK = {"title": "Upload the restore drill dump", "scope": "Nightly dump lands in the drill bucket."}

SCOPE_CREEP: dict[str, Any] = {
    "reason_type": "SCOPE_CREEP",
    "reason_summary": "Renaming the column breaks 31 readers in four services",
    "reason_detail": "The rename itself is one migration. Four services read the column by name, two of them in SQL views. "
    "3 h -> 18 h.",
    "what_attempted": [
        "Ran the migration on a copy: 31 queries fail in billing, crm, export and audit",
        "Ported billing (12 queries): 5 h",
        "Looked at the export views: 7 views select the column, 2 belong to the auditor",
    ],
    "blocking_factor": "31 queries in four services read customers.region by name",
    "evidence": [
        {
            "type": "test_result",
            "data": {"failing_queries": 31, "services": 4},
            "source": "migration on a copy",
        },
        {"type": "time_estimate", "data": {"plan_h": 3, "now_h": 18}, "source": "billing as reference"},
    ],
    "suggested_alternative": "Add the new column beside the old one, move reader by reader, drop the old one last.",
    "alternative_tasks": [
        {
            "title": "New column with trigger",
            "scope": "migration V112, 2 tables",
            "dependencies": "none",
            "estimate": "4 h",
        },
        {
            "title": "Move 31 queries",
            "scope": "billing, crm, export, audit",
            "dependencies": "after column",
            "estimate": "11 h",
        },
        {
            "title": "Drop the old column",
            "scope": "V113, 7 views",
            "dependencies": "after queries",
            "estimate": "3 h",
        },
    ],
    "task_original_scope": "Rename customers.region to customers.area. 3 h.",
    "scope_growth_factor": 6.0,
}
SCOPE_CREEP_TASK = {
    "title": "Clearer name for region",
    "scope": "Rename customers.region to customers.area. 3 h.",
}

MISSING_DEPENDENCY: dict[str, Any] = {
    "reason_type": "MISSING_DEPENDENCY",
    "reason_summary": "Webhook secret store comes with T-41",
    "reason_detail": "The signature needs a secret per subscriber. T-41 adds the store; it lives in the gateway repository, "
    "to which we have no write access.",
    "what_attempted": [
        "POST /hooks with a made-up secret: 401 bad signature, 6 of 6",
        "Looked for another place of the secret: settings.py:88 reads the gateway store only",
        "T-41: review open, 1 of 2 approvals",
    ],
    "blocking_factor": "T-41 (secret store in the gateway) is not merged",
    "evidence": [
        {"type": "api_response", "data": '401 {"error":"bad signature"}', "source": "POST /hooks, staging"}
    ],
    "suggested_alternative": "Merge T-41, then 3 h for the signature; handler and tests are ready in branch hooks-sig.",
}
MISSING_DEPENDENCY_TASK = {"title": "Sign outgoing webhooks", "scope": "HMAC header on every call."}

INFEASIBLE: dict[str, Any] = {
    "reason_type": "INFEASIBLE",
    "reason_summary": "61 KB image does not fit into 48 KB",
    "reason_detail": "'All five fonts' and 'no code above 48 KB' cannot hold together: the fonts alone take 22 KB.",
    "what_attempted": [
        "-Os: 61.2 KB",
        "Fonts in upper memory: linker refuses in the small model",
        "Without debug symbols: 60.9 KB",
    ],
    "blocking_factor": "48 KB limit of the small memory model, fonts and menu need 61 KB",
    "evidence": [
        {"type": "error_log", "data": "region `rom' overflowed by 13520 bytes", "source": "msp430-gcc 4.6"},
        {
            "type": "file_analysis",
            "data": {"menu_kb": 39.1, "fonts_kb": 22.1},
            "source": "size --format=sysv",
        },
    ],
    "suggested_alternative": "Two fonts instead of five: 46.9 KB, fits and runs on the board. Or the vendor's compiler with "
    "the large model, about 1 week for the port.",
}
INFEASIBLE_TASK = {
    "title": "Menu on the small board",
    "scope": "Full menu, all five fonts, no code above 48 KB.",
}

UNCLEAR: dict[str, Any] = {
    "reason_type": "UNCLEAR_REQUIREMENTS",
    "reason_summary": "'Recent' orders: by date or by count?",
    "reason_detail": "By date (30 days) the page shows 0 to 412 orders, by count (20) always 20. Which one is meant? "
    "Are cancelled orders included?",
    "what_attempted": [
        "Built both on a copy: 412 against 20 rows for the largest customer",
        "Read the old manual, page 14: it says 'recent' as well",
        "Asked the product owner on Tuesday: she wants to see both first",
    ],
    "blocking_factor": "Rule for 'recent' is unclear: 30 days or 20 orders",
    "evidence": [
        {"type": "test_result", "data": {"by_date": 412, "by_count": 20}, "source": "copy of production"}
    ],
    "suggested_alternative": "Ask the user for one of the two; I lean to 20 orders without cancelled ones. 2 h after that.",
}
UNCLEAR_TASK = {"title": "Orders on the start page", "scope": "Show recent orders."}

OBSOLETE: dict[str, Any] = {
    "reason_type": "OBSOLETE",
    "reason_summary": "The exporter was removed in 9ab12ff",
    "reason_detail": "exporter/xml.py was deleted in 9ab12ff; the only caller moved to JSON in T-301.",
    "what_attempted": [
        "grep -rn xml_export src: 0 hits",
        "git show 9ab12ff --stat: exporter/xml.py deleted, 412 lines",
    ],
    "blocking_factor": "exporter/xml.py no longer exists since 9ab12ff",
    "evidence": [
        {"type": "command_output", "data": "9ab12ff remove XML exporter (T-301)", "source": "git log"}
    ],
    "suggested_alternative": "Cancel it; the JSON exporter has a task of its own for speed, T-310.",
}
OBSOLETE_TASK = {"title": "Speed up the XML exporter", "scope": "Twice as fast."}

HONEST: dict[str, tuple[dict[str, Any], dict[str, str]]] = {
    "BLOCKER": (BLOCKER, BLOCKER_TASK),
    "SCOPE_CREEP": (SCOPE_CREEP, SCOPE_CREEP_TASK),
    "MISSING_DEPENDENCY": (MISSING_DEPENDENCY, MISSING_DEPENDENCY_TASK),
    "INFEASIBLE": (INFEASIBLE, INFEASIBLE_TASK),
    "UNCLEAR_REQUIREMENTS": (UNCLEAR, UNCLEAR_TASK),
    "OBSOLETE": (OBSOLETE, OBSOLETE_TASK),
}


def record(reason: str, **changed: Any) -> TaskRejection:
    """The honest record of a reason, with some fields changed."""
    given = {"task_id": "T-100", "handoff_id": "H-1", "agent_id": "worker", "rejected_at": REJECTED_AT}
    return TaskRejection(**{**given, **HONEST[reason][0], **changed})


def judged(reason: str, facts: ValidationFacts | None = None, **changed: Any) -> Assessment:
    """What the validator makes of it."""
    return assess(record(reason, **changed), HONEST[reason][1], facts)


def codes(reason: str, facts: ValidationFacts | None = None, **changed: Any) -> set[str]:
    """The codes of the issues it finds."""
    return {issue.code for issue in judged(reason, facts, **changed).issues}

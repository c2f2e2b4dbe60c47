"""Rejections of one task, a valid one for each reason and a lazy one, for tests to file and to spoil."""

from __future__ import annotations

from typing import Any

from remand.domain.reasons import RejectionReason

TITLE = "Mail the weekly report"
SCOPE = (
    "Every Monday at 6:00 the sales report goes to the 40 addresses in recipients.csv, as one PDF attachment, "
    "through the company relay. 4 hours."
)
DEPENDENCY = "T-20261115-080000-00000002"
"""The task that the missing dependency names unless told otherwise."""

_COMMON: dict[str, Any] = {
    "what_attempted": [
        "Ran report_mail.py against relay.example.org:587 with two accounts: 535 5.7.8 both times",
        "Read the relay's mail.log: 14 logins of svc-report, all refused with reason=expired",
        "Sent the same mail through the test relay on port 2525: accepted, 40 of 40 delivered",
    ],
    "evidence": [
        {
            "type": "error_log",
            "data": "smtplib.SMTPAuthenticationError: (535, b'5.7.8 credentials expired')",
            "source": "report_mail.py, both accounts",
        },
        {
            "type": "status_check",
            "data": {"host": "relay.example.org", "port": 587, "tls": "ok", "login": "535 5.7.8"},
            "source": "openssl s_client and swaks",
        },
    ],
}

_OWN: dict[RejectionReason, dict[str, Any]] = {
    RejectionReason.BLOCKER: {
        "reason_summary": "The relay refuses the account svc-report: its password has expired",
        "reason_detail": (
            "All 14 logins end with 535 5.7.8 credentials expired. The code is finished and "
            "delivers 40 of 40 mails through the test relay. Only the mail administrators can renew the "
            "password of svc-report; a ticket is needed that the account's owner signs."
        ),
        "blocking_factor": "The password of svc-report on relay.example.org expired; login gives 535 5.7.8",
        "suggested_alternative": (
            "The account's owner renews svc-report at the mail administrators and puts the password into the "
            "secret store under REPORT_SMTP; the job reads that name already and needs no change."
        ),
    },
    RejectionReason.SCOPE_CREEP: {
        "reason_summary": "The report has no PDF export: building one takes 24 hours, and 4 were planned",
        "reason_detail": (
            "Planned were 4 hours for a mail with an attachment. The report exists as 31 web pages only; "
            "11 of its charts are drawn in the browser. A PDF needs a renderer, a print layout for 31 pages "
            "and fonts in the image. I estimate 24 hours, which is 6 times the plan."
        ),
        "what_attempted": [
            "Printed all 31 pages with chromium --headless: 11 charts are empty, 9 tables cut at the margin",
            "Ported 3 of the pages to a print layout: 2 hours, so 31 pages take about 20",
            "Built the container image with fonts: 41 packages, 380 MB more",
        ],
        "blocking_factor": "31 report pages have no print layout, and 11 charts are drawn in the browser alone",
        "evidence": [
            {
                "type": "complexity_metric",
                "data": {"pages": 31, "browser_charts": 11, "cut_tables": 9},
                "source": "chromium --headless --print-to-pdf over all pages",
            },
            {
                "type": "time_estimate",
                "data": {"original_hours": 4, "revised_hours": 24},
                "source": "3 pages ported in 2 hours",
            },
        ],
        "suggested_alternative": (
            "Cut it in three: the print layout for the 31 pages (16 h), the renderer with fonts in the image "
            "(5 h), and the mail with its attachment (3 h). Until then the mail can carry a link to the pages."
        ),
        "alternative_tasks": [
            {
                "title": "Print layout for the report pages",
                "scope": "31 pages, 11 charts drawn on the server",
                "dependencies": "none",
                "estimate": "16 hours",
            },
            {
                "title": "PDF renderer in the image",
                "scope": "headless chromium, 41 font packages",
                "dependencies": "Requires print layout task",
                "estimate": "5 hours",
            },
            {
                "title": "Mail with attachment",
                "scope": "report_mail.py, recipients.csv, Monday 6:00",
                "dependencies": "after 2",
                "estimate": "3 hours",
            },
        ],
        "task_original_scope": SCOPE,
        "scope_growth_factor": 6.0,
    },
    RejectionReason.MISSING_DEPENDENCY: {
        "reason_summary": f"There is no PDF to attach before {DEPENDENCY} has built the export",
        "reason_detail": (
            f"The attachment is what {DEPENDENCY} is to build: GET /report.pdf answers 501 Not Implemented, "
            "and reports/export.py:12 raises NotImplementedError. Without it each of the 40 mails goes out "
            "empty, which the relay then bounces. The export is a service of its own of about 30 hours."
        ),
        "what_attempted": [
            "Called GET /report.pdf on staging: 501 Not Implemented, 3 times on 2 days",
            "Read reports/export.py: line 12 raises NotImplementedError, no renderer is installed",
            "Sent a mail with an empty attachment to 2 addresses: both bounced with 554 5.6.0",
        ],
        "blocking_factor": f"{DEPENDENCY} (PDF export) is open; GET /report.pdf answers 501",
        "evidence": [
            {
                "type": "api_response",
                "data": "HTTP/1.1 501 Not Implemented",
                "source": "curl -i https://staging.example.org/report.pdf",
            },
            {
                "type": "file_analysis",
                "data": {"file": "reports/export.py", "line": 12, "raises": "NotImplementedError"},
                "source": "the repository",
            },
        ],
        "suggested_alternative": (
            f"Do {DEPENDENCY} first. The mail part is ready on branch report-mail with 6 tests; it needs the "
            "40 lines that fetch the PDF, about 2 hours, once the endpoint answers 200."
        ),
    },
    RejectionReason.INFEASIBLE: {
        "reason_summary": "One PDF attachment of the report is 61 MB, and the relay takes 25 MB at most",
        "reason_detail": (
            "The task demands one PDF attachment and the company relay. The report renders to 61 MB, as "
            "base64 in the mail 83 MB; the relay announces SIZE 26214400 and refuses more. Both demands "
            "cannot be met together: every smaller PDF drops pages, and no other relay is allowed."
        ),
        "what_attempted": [
            "Rendered the report of week 45: 61 MB, 31 pages with 200 dpi charts",
            "Compressed with ghostscript /screen: 38 MB, the tables on 9 pages become unreadable at 72 dpi",
            "Sent the 61 MB and the 38 MB file: 552 5.3.4 message too large, both",
        ],
        "blocking_factor": "SIZE 26214400 of relay.example.org against a PDF of 61 MB in one attachment",
        "evidence": [
            {
                "type": "error_log",
                "data": "552 5.3.4 Message size exceeds fixed limit (26214400)",
                "source": "swaks to relay.example.org",
            },
            {
                "type": "measurement",
                "data": {"pdf_mb": 61, "compressed_mb": 38, "mail_mb": 83, "limit_mb": 25},
                "source": "week 45",
            },
        ],
        "suggested_alternative": (
            "Mail a link instead: put the PDF into the report store, send the 40 addresses a signed link that "
            "holds for 14 days. Tried with week 45: 61 MB in 3 s, mail of 4 kB. About 5 hours."
        ),
    },
    RejectionReason.UNCLEAR_REQUIREMENTS: {
        "reason_summary": "Which week and which time zone is the Monday report for?",
        "reason_detail": (
            "6:00 is not said in which zone: the 40 addresses are in Lisbon (12), Berlin (17) and Denver (11). "
            "At 6:00 Berlin the sales of Sunday in Denver are still open, 3 % of the week. Is it 6:00 Berlin "
            "with Denver's Sunday missing, or 6:00 of each reader, in three runs? May the figures change "
            "after they were sent? Asked in #sales on 9 November: two managers want different things."
        ),
        "what_attempted": [
            "Ran both readings for week 45: 1 run gives 1,204,310 EUR, 3 runs give 1,241,977 EUR",
            "Asked in #sales on 9 November: Lisbon wants one run, Denver wants its own, no decision by 12 November",
            "Read the 3 earlier tickets about the report: none names a time zone",
        ],
        "blocking_factor": "The time zone of Monday 6:00: one run or three, 37,667 EUR apart in week 45",
        "evidence": [
            {
                "type": "measurement",
                "data": {"one_run_eur": 1204310, "three_runs_eur": 1241977, "week": 45},
                "source": "both readings, run on the data of week 45",
            },
            {
                "type": "conflict",
                "data": "Lisbon: one report for all. Denver: ours without Sunday is useless.",
                "source": "#sales, 9 November",
            },
        ],
        "suggested_alternative": (
            "The head of sales decides between one run and three; either takes 3 hours from there, both are "
            "on branch report-mail behind REPORT_RUNS=1 or 3."
        ),
    },
    RejectionReason.OBSOLETE: {
        "reason_summary": f"{DEPENDENCY} already mails this report since 2 November",
        "reason_detail": (
            f"{DEPENDENCY} brought the mail along with the export: jobs/weekly.py:88 sends the PDF to all of "
            "recipients.csv each Monday at 6:00. The relay's log shows 40 of 40 delivered on 2 and on 9 "
            "November. A second job would send every reader the same report twice."
        ),
        "what_attempted": [
            "Read jobs/weekly.py: line 88 sends report.pdf to recipients.csv, scheduled for Monday 6:00",
            "Read the relay's log: 40 of 40 delivered on 2 November and again on 9 November",
            "Asked two of the readers: both got the PDF on 9 November at 6:01",
        ],
        "blocking_factor": f"{DEPENDENCY} does it already: jobs/weekly.py:88",
        "evidence": [
            {
                "type": "log",
                "data": "2026-11-09T06:01:12 delivered=40 failed=0 job=weekly attachment=report.pdf",
                "source": "relay.example.org, mail.log",
            },
            {
                "type": "file_analysis",
                "data": {"file": "jobs/weekly.py", "line": 88, "call": "mail(report, recipients)"},
                "source": "the repository",
            },
        ],
        "suggested_alternative": (
            f"Close this task in favour of {DEPENDENCY}; only the 2 addresses that were added to "
            "recipients.csv on 10 November are to be checked at the next run."
        ),
    },
}

LAZY: dict[str, Any] = {
    "reason_type": "BLOCKER",
    "reason_summary": "Too complex",
    "reason_detail": "This task is too complex for me to handle.",
    "what_attempted": ["Looked at the code", "Tried to understand it"],
    "blocking_factor": "It's confusing",
    "evidence": [],
    "suggested_alternative": "Ask someone else to do it",
}
"""The lazy rejection of the requirements, word for word."""

OAUTH_TASK = {
    "title": "Add OAuth login",
    "scope": "Add OAuth login button to login page",
    "priority": "medium",
    "category": "feature",
}
OAUTH: dict[str, Any] = {
    "reason_type": "SCOPE_CREEP",
    "reason_summary": "Add OAuth login requires auth system redesign",
    "reason_detail": """
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
    "what_attempted": [
        "Analyzed auth/ module structure - 47 files, 12,000 LOC",
        "Reviewed existing tests - 89 test files to update",
        "Checked API documentation - 23 endpoints need changes",
        "Estimated effort - 16-20 hours for complete implementation",
    ],
    "blocking_factor": "Cannot add OAuth without refactoring auth module for extensibility",
    "evidence": [
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
    "suggested_alternative": """
Decompose into 3 sequential tasks:

1. Refactor auth module for plugin architecture (8 hours)
   - Extract interface for auth providers
   - Migrate existing password auth to plugin
   - Update tests for new architecture

2. Add OAuth provider plugin (4 hours)
   - Implement OAuth plugin using new interface
   - Add OAuth-specific tests
   - Document OAuth configuration

3. Add OAuth UI and flows (2 hours)
   - Add OAuth button to login page
   - Implement OAuth redirect flows
   - Update user documentation
""",
    "alternative_tasks": [
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
    "task_original_scope": "Add OAuth login button to login page (~2 hours)",
    "scope_growth_factor": 9.0,
}
"""The rejection for scope creep of the requirements, word for word."""


def a_rejection(reason: RejectionReason | str = RejectionReason.BLOCKER, **fields: Any) -> dict[str, Any]:
    """A record that earns its reason on the task of `TITLE` and `SCOPE`, with some fields changed."""
    named = RejectionReason[reason] if isinstance(reason, str) else reason
    return {"reason_type": named.name, **_COMMON, **_OWN[named], **fields}


def with_dependency(record: dict[str, Any], dependency: str) -> dict[str, Any]:
    """The record with another task in place of the one it names."""
    return {field: _replace_dependency(value, dependency) for field, value in record.items()}


def _replace_dependency(value: Any, dependency: str) -> Any:
    if isinstance(value, list):
        return [_replace_dependency(item, dependency) for item in value]
    return value.replace(DEPENDENCY, dependency) if isinstance(value, str) else value

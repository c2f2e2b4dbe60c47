"""What the agents of the story put on record when they reject a task."""

from __future__ import annotations

from typing import Any

LAZY: dict[str, Any] = {
    "reason_type": "BLOCKER",
    "reason_summary": "Too complex",
    "reason_detail": "This task is too complex for me to handle.",
    "what_attempted": ["Looked at the code", "Tried to understand it"],
    "blocking_factor": "It's confusing",
    "suggested_alternative": "Ask someone else to do it",
}


def scope_creep(files: int, callers: int) -> dict[str, Any]:
    """A rejection with figures that were counted in the repository, and probes by which anyone counts again."""
    return {
        "reason_type": "SCOPE_CREEP",
        "reason_summary": "OAuth needs a provider interface that the auth module does not have",
        "reason_detail": (
            f"Asked for was a button and its flow, 2 hours. Every one of the {files} modules in auth/ calls "
            f"check_password() itself ({callers} call sites), so a second way to sign in has to go through all "
            "of them, or through one provider interface first. My estimate from porting auth/session_1.py "
            "(40 minutes) is 18 hours: 9 times the plan."
        ),
        "what_attempted": [
            f"Counted modules in auth/: {files} files, {callers} calls of check_password()",
            "Added the button with a stub flow: auth/session_1.py raises TypeError, it takes a password only",
            "Ported auth/session_1.py to a provider object: 40 minutes, 2 callers changed",
        ],
        "blocking_factor": f"{callers} direct calls of check_password() in auth/ leave no place for a second provider",
        "evidence": [
            {
                "type": "file_analysis",
                "data": {"files": files, "calls": callers},
                "source": "grep check_password auth/",
                "probe": {"count": "auth/*.py", "containing": "check_password", "is": files},
            },
            {
                "type": "time_estimate",
                "data": {"original_hours": 2, "revised_hours": 18},
                "source": "auth/session_1.py as reference",
            },
        ],
        "suggested_alternative": (
            "Provider interface first (10 hours), then OAuth behind it (5 hours), then the button (3 hours). "
            "The port of auth/session_1.py is in a branch and can serve as the pattern."
        ),
        "alternative_tasks": [
            {
                "title": "Extract a provider interface in the auth module",
                "scope": f"{files} modules, password sign-in unchanged",
                "dependencies": "none",
                "estimate": "10 hours",
            },
            {
                "title": "OAuth provider",
                "scope": "behind the provider interface, with tests",
                "dependencies": "Requires the provider interface task",
                "estimate": "5 hours",
            },
            {
                "title": "OAuth button and redirect flow",
                "scope": "sign-in page",
                "dependencies": "after OAuth provider",
                "estimate": "3 hours",
            },
        ],
        "task_original_scope": "Add an OAuth button to the sign-in page. 2 hours.",
        "scope_growth_factor": 9.0,
    }


def blocker(error: str, port: int) -> dict[str, Any]:
    """A rejection whose evidence is an error that was really seen."""
    return {
        "reason_type": "BLOCKER",
        "reason_summary": f"The payment sandbox on port {port} refuses connections",
        "reason_detail": (
            f"The three checkout tests talk to the payment sandbox at 127.0.0.1:{port}. Nothing listens there. "
            "The sandbox is started by operations with a key that only they have, so I cannot start it myself."
        ),
        "what_attempted": [
            f"Connected to 127.0.0.1:{port}: {error}",
            "Searched the repository for a start script of the sandbox: 0 hits for 'sandbox' outside of docs",
            "Ran the checkout code against a recorded answer: passes, so the tests need the sandbox alone",
        ],
        "blocking_factor": f"Payment sandbox at 127.0.0.1:{port} is down; only operations hold its key",
        "evidence": [
            {"type": "error_log", "data": error, "source": f"connect to 127.0.0.1:{port}"},
            {
                "type": "file_analysis",
                "data": "checkout.py:2 names the host and port",
                "source": "checkout.py",
                "probe": {"file": "checkout.py", "line": 2, "text": str(port)},
            },
        ],
        "suggested_alternative": (
            f"Operations start the sandbox on port {port} (they say it takes 10 minutes); the tests are ready on "
            "work/checkout and run in one minute once it answers."
        ),
    }

"""A session of a scripted agent: its prompt, git, `remand`, and the figures at the end; and the records by which agents reject tasks."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

REMAND = (sys.executable, "-P", "-m", "remand.interfaces.cli.entry")
"""Our own command line. In an agent's sandbox it calls through the agent's own socket."""
PRICE = 0.03
"""What a turn costs, in dollars: made up, as these agents think nothing."""
TOKENS = 1200
_TASK = re.compile(r"^## Task (\S+): (.+)$", re.MULTILINE)
_HANDOFF = re.compile(r"remand handoff reject (\S+)")
_NAME = re.compile(r"--agent (\S+)")
_ATTEMPT = re.compile(r"^- attempt (\d+)$", re.MULTILINE)


class DemoAgent:
    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.task_id, self.title = _match_groups(_TASK, prompt, 2)
        (self.handoff_id,) = _match_groups(_HANDOFF, prompt, 1)
        self.attempt = int(_match_groups(_ATTEMPT, prompt, 1)[0] or 1)
        self._name = _match_groups(_NAME, prompt, 1)[0]
        self._turns = 1

    def say(self, text: str) -> None:
        """Says something for people to read."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def quote(self, first: str, last: str) -> None:
        """Prints a part of its prompt, from one line to another."""
        lines = [line.removeprefix(">").removeprefix(" ") for line in self.prompt.splitlines()]
        start = next((at for at, line in enumerate(lines) if line.startswith(first)), len(lines))
        for line in lines[start:]:
            if line.startswith(last):
                break
            if line:
                self.say(f"| {line}")

    def write(self, files: Mapping[str, str]) -> None:
        """Writes files of its worktree."""
        for name, text in files.items():
            self._turns += 1
            os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
            with open(name, "w", encoding="utf-8") as file:
                file.write(text)

    def commit(self, message: str) -> None:
        """Commits everything, unless an earlier session of it has."""
        self._turns += 1
        git("add", "--all")
        if not git("status", "--porcelain"):
            return
        own = (f"user.name={self._name}", f"user.email={self._name.lower()}@demo")
        git(*(word for value in own for word in ("-c", value)), "commit", "-q", "-m", message)

    def remand(self, *arguments: str, given: str = "") -> dict[str, Any]:
        """Calls the command line; a refusal is an answer."""
        self._turns += 1
        done = subprocess.run(
            [*REMAND, *arguments, "--json"], input=given, capture_output=True, text=True, check=False
        )
        if not done.stdout:
            sys.exit(f"`remand {' '.join(arguments)}` ended with {done.returncode}: {done.stderr}")
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def submit(self) -> dict[str, Any]:
        """Claims done, as its prompt says."""
        return self.remand("task", "submit", self.task_id, "--commit", git("rev-parse", "HEAD"))

    def reject(self, record: Mapping[str, object]) -> dict[str, Any]:
        return self.remand("handoff", "reject", self.handoff_id, "--from", "-", given=json.dumps(record))

    def end(self, words: str = "") -> None:
        """Closes the session with its last words and its figures, as Claude Code does."""
        result = {
            "type": "result",
            "subtype": "success",
            "result": words,
            "num_turns": self._turns,
            "total_cost_usd": round(PRICE * self._turns, 2),
            "usage": {"input_tokens": TOKENS * self._turns, "output_tokens": TOKENS // 4},
        }
        sys.stdout.write(json.dumps(result) + "\n")


def git(*arguments: str) -> str:
    """Calls git, and fails loudly."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _match_groups(pattern: re.Pattern[str], text: str, groups: int) -> tuple[str, ...]:
    match = pattern.search(text)
    return match.groups() if match else ("",) * groups


LAZY_REJECTION: dict[str, Any] = {
    "reason_type": "BLOCKER",
    "reason_summary": "Too complex",
    "reason_detail": "This task is too complex for me to handle.",
    "what_attempted": ["Looked at the code", "Tried to understand it"],
    "blocking_factor": "It's confusing",
    "suggested_alternative": "Ask someone else to do it",
}


def scope_creep_rejection(files: int, callers: int) -> dict[str, Any]:
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


def blocker_rejection(error: str, port: int) -> dict[str, Any]:
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

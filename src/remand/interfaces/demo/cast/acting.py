"""What the agents of the story have in common: reading what they are told, git, `remand`, and a price at the end."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

REMAND = (sys.executable, "-P", "-m", "remand.interfaces.cli.entry")
"""Our own command line. In an agent's place it speaks through the agent's own door."""
PRICE = 0.03
"""What a turn costs, in dollars: made up, as these agents think nothing."""
TOKENS = 1200
_TASK = re.compile(r"^## Task (\S+): (.+)$", re.MULTILINE)
_HANDOFF = re.compile(r"remand handoff reject (\S+)")
_NAME = re.compile(r"--agent (\S+)")
_ATTEMPT = re.compile(r"^- attempt (\d+)$", re.MULTILINE)


class Agent:
    """One session of an agent."""

    def __init__(self, prompt: str) -> None:
        self.prompt = prompt
        self.task_id, self.title = _found(_TASK, prompt, 2)
        (self.handoff_id,) = _found(_HANDOFF, prompt, 1)
        self.attempt = int(_found(_ATTEMPT, prompt, 1)[0] or 1)
        self._name = _found(_NAME, prompt, 1)[0]
        self._turns = 1

    @classmethod
    def awake(cls) -> Agent:
        """An agent that has read what it is told."""
        return cls(sys.stdin.read())

    def was_told(self, text: str) -> bool:
        """True when something stands in what it was told."""
        return text in self.prompt

    def say(self, text: str) -> None:
        """Says something for people to read."""
        sys.stdout.write(f"{text}\n")
        sys.stdout.flush()

    def quote(self, first: str, last: str) -> None:
        """Says what it was told, from a line to a line."""
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
        """Claims done, in the words it was told to use."""
        return self.remand("task", "submit", self.task_id, "--commit", git("rev-parse", "HEAD"))

    def reject(self, record: Mapping[str, object]) -> dict[str, Any]:
        """Rejects the task with a record."""
        return self.remand("handoff", "reject", self.handoff_id, "--from", "-", given=json.dumps(record))

    def end(self, words: str = "") -> None:
        """Closes the session with its last words and its figures, as Claude Code does."""
        told = {
            "type": "result",
            "subtype": "success",
            "result": words,
            "num_turns": self._turns,
            "total_cost_usd": round(PRICE * self._turns, 2),
            "usage": {"input_tokens": TOKENS * self._turns, "output_tokens": TOKENS // 4},
        }
        sys.stdout.write(json.dumps(told) + "\n")


def git(*arguments: str) -> str:
    """Calls git, and fails loudly."""
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def first_line(text: str) -> str:
    """The first line that says anything."""
    return next((line for line in text.splitlines() if line.strip()), "")


def first_sentence(text: str) -> str:
    """What comes before the first full stop."""
    return text.partition(". ")[0].rstrip(".")


def _found(pattern: re.Pattern[str], text: str, groups: int) -> tuple[str, ...]:
    match = pattern.search(text)
    return match.groups() if match else ("",) * groups

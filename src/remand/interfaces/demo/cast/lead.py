"""Lead: reviews. Looks at the code in its checkout, says no through its door, and yes with what it checked."""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple

from remand.interfaces.demo.cast.acting import Agent, first_line, git

_REVIEW = re.compile(r"^# Review of task (\S+)$", re.MULTILINE)
_CHANGE = re.compile(r"^From ([0-9a-f]{40,}) to ([0-9a-f]{40,})\.", re.MULTILINE)
_RUN = re.compile(r'"run": "(\S+)"')


class Demand(NamedTuple):
    """What a file must have."""

    path: str
    text: str
    finding: str


DEMANDS = (
    Demand(
        "web/button.html",
        "<button",
        "web/button.html:1: Accessibility issues: a div is no button, no keyboard reaches it",
    ),
    Demand("api/order.py", ".count", "api/order.py:2: Integration tests fail: items have counts"),
)


def main() -> None:
    """Reads what was changed, and says what it makes of it."""
    agent = Agent.awake()
    task_id = _first(_REVIEW, agent.prompt)[0]
    since, commit = _first(_CHANGE, agent.prompt)
    changed = git("diff", "--name-only", since, commit).splitlines()
    missed = [one.finding for one in DEMANDS if one.path in changed and one.text not in _text(one.path)]
    if missed:
        findings = [word for text in missed for word in ("--finding", text)]
        agent.remand("review", "reject", task_id, "--commit", commit, *findings)
        agent.end("Sent back.")
    else:
        agent.end(approval(_first(_RUN, agent.prompt)[0], changed))


def approval(run_id: str, changed: list[str]) -> str:
    """The answer that approves: what was looked at, and found to hold."""
    checked = [
        {
            "path": path,
            "line": 1,
            "text": f"Read from here to the end; `{first_line([_text(path)])[:60]}` does what the task asks for",
        }
        for path in changed
        if os.path.isfile(path)
    ]
    answer = {"run": run_id, "verdict": "approve", "checked": checked, "findings": []}
    return f"```json\n{json.dumps(answer)}\n```"


def _first(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.search(text)
    if match is None:
        raise SystemExit(f"I was not told what I need: {pattern.pattern}")
    return match.groups()


def _text(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read()


if __name__ == "__main__":
    main()

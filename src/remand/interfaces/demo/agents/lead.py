"""Lead: reviews. Its last message is a rejection with findings, or an approval with what it checked."""

from __future__ import annotations

import json
import os
import re
from typing import NamedTuple

from remand.interfaces.demo.agents.session import DemoAgent, first_line, git

_CHANGE = re.compile(r"^From ([0-9a-f]{40,}) to ([0-9a-f]{40,})\.", re.MULTILINE)
_RUN = re.compile(r'"run": "(\S+)"')


class ReviewRule(NamedTuple):
    """What a file must have, and what is said when it has not."""

    path: str
    needs: str
    line: int
    text: str

    @property
    def finding(self) -> dict[str, object]:
        """What is said, as the answer has it."""
        return {"path": self.path, "line": self.line, "text": self.text, "blocking": True}


DEMANDS = (
    ReviewRule(
        "web/button.html", "<button", 1, "Accessibility issues: a div is no button, no keyboard reaches it"
    ),
    ReviewRule("api/order.py", ".count", 2, "Integration tests fail: items have counts"),
)


def main() -> None:
    """Reads what was changed, and says what it makes of it."""
    agent = DemoAgent.from_stdin()
    since, commit = _first(_CHANGE, agent.prompt)
    changed = git("diff", "--name-only", since, commit).splitlines()
    missed = [one.finding for one in DEMANDS if one.path in changed and one.needs not in _text(one.path)]
    said = (
        {"verdict": "reject", "findings": missed}
        if missed
        else {"verdict": "approve", "checked": checked_lines(changed)}
    )
    agent.end(f"```json\n{json.dumps({'run': _first(_RUN, agent.prompt)[0], **said})}\n```")


def checked_lines(changed: list[str]) -> list[dict[str, object]]:
    """What was looked at, and found to hold."""
    return [
        {
            "path": path,
            "line": 1,
            "text": f"`{first_line(_text(path))[:60]}` and all below it do what the task asks for",
        }
        for path in changed
        if os.path.isfile(path)
    ]


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

"""Writes the pages of docs/ that follow from the code: lifecycle, commands, refusals, and who may call what of a server."""

from __future__ import annotations

import sys
from pathlib import Path

from remand.domain.access.tokens import CALLS, TokenRole
from remand.domain.refusals import MEANINGS
from remand.domain.registry import RULES
from remand.domain.task import TERMINAL, TRANSITIONS, Status
from remand.interfaces.cli.main import command_parser
from remand.interfaces.cli.registry import COMMANDS

DOCS = Path(__file__).parent.parent / "docs"
MADE = "<!-- Made by scripts/render_docs.py from the code; change the code, then run it. -->\n\n"


def lifecycle() -> str:
    """The transition table, and who may ask what."""
    rows = [
        "# Lifecycle",
        "",
        MADE.strip(),
        "",
        _PICTURE,
        "",
        "## What each event needs, and where it leads",
        "",
    ]
    rows += ["| event | from | to |", "|---|---|---|"]
    for event, step in TRANSITIONS.items():
        sources = ", ".join(status for status in Status if status in step.sources)
        rows.append(f"| `{event}` | {sources} | {step.target or 'the queue it came from'} |")
    ends = ", ".join(status for status in Status if status in TERMINAL)
    rows += ["", f"Terminal: {ends}. A decomposed task ends when its sub-tasks have.", ""]
    rows += [
        "An `escalation.answer` that accepts a merge leads to provisional; its approval comes with it.",
        "",
    ]
    rows += ["## Who may give which command", "", "| command | roles |", "|---|---|"]
    for command, roles in {kind: rule.roles for kind, rule in RULES.items() if rule.roles}.items():
        rows.append(f"| {command.__name__} | {', '.join(sorted(roles))} |")
    rows += [
        "",
        "AddTask is open to all. A command that is not listed is for the agent that holds the claim or handoff;",
        "EscalateTask is also open to the user, directors and reviewers.",
    ]
    return "\n".join(rows) + "\n"


_PICTURE = """```
incoming → claimed → provisional → done
              ↑  │        │
              │  └ task.continue → needs_continuation ┐
              └─ rejected ←┘ review.reject            │
              └────────────────────────────────────────┘
also: failed, blocked, deferred, decomposed, infeasible, escalated, cancelled
```"""


def commands() -> str:
    """Every command with its options."""
    rows = ["# Commands", "", MADE.strip(), ""]
    rows += ["Every command takes `--json`, `-C DIR`, `--as NAME`, `--key KEY` and `--help`.", ""]
    for name, entry in COMMANDS.items():
        _, parser = command_parser(name)
        usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
        rows += [
            f"## `remand {name}`",
            "",
            f"{entry.help[0].upper()}{entry.help[1:]}.",
            "",
            f"    {usage}",
            "",
        ]
    return "\n".join(rows)


def refusals() -> str:
    """Every refusal."""
    rows = ["# Refusals", "", MADE.strip(), "", "`remand explain CODE` says the same.", ""]
    rows += ["| code | what is so | what to do |", "|---|---|---|"]
    rows += [f"| `{code}` | {meaning} | {remedy} |" for code, (meaning, remedy) in sorted(MEANINGS.items())]
    return "\n".join(rows) + "\n"


_TABLE_START, _TABLE_END = "<!-- table of calls -->\n", "<!-- end of the table -->\n"


def tokens() -> str:
    """The page about tokens, its table made anew."""
    before, _, rest = _text(DOCS / "tokens.md").partition(_TABLE_START)
    after = rest.partition(_TABLE_END)[2]
    roles = [role.value for role in TokenRole]
    rows = ["", f"| call | {' | '.join(roles)} |", f"|---|{'---|' * len(roles)}"]
    for name in sorted(name for name, allowed in CALLS.items() if allowed):
        marks = " | ".join("yes" if role in CALLS[name] else "" for role in TokenRole)
        rows.append(f"| `{name}` | {marks} |")
    alone = ", ".join(f"`{name}`" for name in sorted(CALLS) if not CALLS[name])
    rows += ["", f"On the machine itself alone, and by no token: {alone}.", ""]
    return f"{before}{_TABLE_START}{chr(10).join(rows)}{_TABLE_END}{after}"


PAGES = {"lifecycle.md": lifecycle, "commands.md": commands, "refusals.md": refusals, "tokens.md": tokens}


def main() -> int:
    """Writes the pages; with --check only says which are out of date."""
    stale = [name for name, page in PAGES.items() if _text(DOCS / name) != page()]
    if "--check" not in sys.argv:
        for name in stale:
            (DOCS / name).write_text(PAGES[name](), encoding="utf-8")
    for name in stale:
        print(f"docs/{name} {'is out of date' if '--check' in sys.argv else 'written'}")
    return 1 if stale and "--check" in sys.argv else 0


def _text(path: Path) -> str:
    return path.read_text(encoding="utf-8") if path.exists() else ""


if __name__ == "__main__":
    sys.exit(main())

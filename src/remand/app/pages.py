"""What the files beside the ledger say: a page for each open question, and one for each task that was sent back."""

from __future__ import annotations

import shlex
from importlib import import_module

from remand.app.escalations import Question, line
from remand.domain import events as e
from remand.domain.escalations import UNLOCK, Option
from remand.domain.instant import Instant
from remand.domain.task import Task

_MADE = "_Made from the ledger and never read back: what is changed here changes nothing._"


def question_page(asked: Question) -> str:
    """An open question: what is asked, each option with the command that chooses it, what was tried, until when."""
    again = f", asked again {asked.repeats} times" if asked.repeats else ""
    seen = f"\nSeen by {line(asked.acknowledged_by)}." if asked.acknowledged_by else ""
    then = f"Without an answer it is asked again at {shown(asked.deadline)}; nothing is decided by itself."
    rows = [
        f"# {asked.escalation_id}: {line(asked.title)}",
        f"Task {asked.task_id}, since {shown(asked.since)}{again}. {then}{seen}",
        f"> {line(asked.question, 2000)}",
        "## Options",
        *(f"{n}. {_option(asked, option)}" for n, option in enumerate(asked.options, start=1)),
        "## What was tried",
        "\n".join(f"- {line(one)}" for one in asked.tried) or "- nothing on record",
        _MADE,
    ]
    return "\n\n".join(rows) + "\n"


def _option(asked: Question, option: Option) -> str:
    return f"{line(option.text)}\n\n        {answer_command(asked, option)}"


def answer_command(asked: Question, option: Option) -> str:
    """The one command that chooses an option."""
    more = ' --guidance "…"' if option.key.startswith(f"{UNLOCK}:") else ""
    return f"remand inbox answer {asked.escalation_id} {shlex.quote(line(option.key))}{more}"


def task_page(task: Task, events: list[e.Event]) -> str:
    """A task as its next agent will read it, feedback first, under how it stands.

    It is made when the task changes: what other tasks have come to since is not in it.
    """
    locked_out = ", ".join(lockout.agent for lockout in task.active_lockouts)
    facts = (
        ("status", task.status.value),
        ("alias", ", ".join(task.aliases)),
        ("branch", task.branch),
        ("PR", f"#{task.pr}" if task.pr else ""),
        ("rejections", str(task.rejection_count)),
        ("locked out", locked_out),
        ("asks the user", task.open_escalation.id if task.open_escalation else ""),
    )
    head = "\n".join(f"- {name}: {line(value)}" for name, value in facts if value)
    # Loaded when a task was sent back: what cleans feedback takes longer to load than a stop with an alert to answer.
    text: str = import_module("remand.app.prompts").prompt(task, events)
    return f"# {task.id}: {line(task.title)}\n\n{head}\n\n{text}\n\n{_MADE}\n"


def shown(at: Instant) -> str:
    """An instant as people write it."""
    return f"{at[:10]} {at[11:19]} UTC"

"""The board in sections of rows, each row one line however wide it may get: what goes wrong first."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from rich.text import Text

from remand.app.board import AtWork, Board, Waiting
from remand.app.decisions import Undecided
from remand.app.escalations import Question
from remand.app.happenings import Happening
from remand.domain.instant import Instant
from remand.interfaces.live.state import OPTION_KEYS
from remand.interfaces.live.words import age, brief, cell, clock, lasting, seconds_between, shown, wrapped
from remand.interfaces.styles import STATUS_STYLES

_TROUBLE_STYLES = {"system": "bold red", "questions": "bold yellow"}
_NAME = 12
MAX_TRIED = 5
_UNSPENT = 60.0


NameOf = Callable[[str], str]
"""What a task is called, in as many columns as all tasks are."""


class Section(NamedTuple):
    """A part of the board under its title."""

    title: str
    rows: list[Text]
    focus: tuple[int, int] = (0, 0)
    """The rows that have to be seen."""


def headline(board: Board, name: str, now: Instant) -> list[Text]:
    """Where and when this is, how the scheduler is doing, and how many tasks there are of each status."""
    first = (
        Text()
        .append("remand ", style="bold")
        .append(shown(name, 40))
        .append(f"  {clock(now)} UTC  ", style="dim")
    )
    first.append_text(_scheduler(board, now))
    second = Text()
    for status, count in board.counts.items():
        second.append(f"{status} ", style=STATUS_STYLES.get(status, "")).append(f"{count}  ")
    if not board.counts:
        return [first, Text("There are no tasks yet: remand task add TITLE")]
    return [first, second.append(f"free to claim {board.ready}", style="dim")]


def _scheduler(board: Board, now: Instant) -> Text:
    status = board.scheduler
    if status is None or not board.is_scheduled:
        return Text().append("no scheduler is running", style="dim")
    said = f"scheduler {status.pid}, {shown(status.tier, 20) or 'no tier'}"
    since = seconds_between(status.tick_at, now)
    if since is not None and since >= _UNSPENT:
        said += f", silent for {lasting(since)}"
    text = Text().append(said, style="green")
    if status.waiting:
        text.append(f"  waits: {shown(status.waiting)}", style="yellow")
    return text


def troubles(board: Board, now: Instant, name_of: NameOf = brief) -> Section:
    """What goes wrong, the worst first."""
    rows = []
    for one in board.troubles:
        style = _TROUBLE_STYLES.get(one.kind, "yellow")
        row = Text().append("! ", style=style)
        if one.label:
            row.append(f"{name_of(one.label)} ", style="bold")
        row.append(shown(one.text), style=style if not one.label else "")
        since = age(one.since, now)
        rows.append(row.append(f"  {since}", style="dim") if since else row)
    return Section("Problems", rows)


def inbox(board: Board, now: Instant, selected: str, width: int) -> Section:
    """The questions; the one that is looked at with its options and what was tried."""
    rows: list[Text] = []
    focus = (0, 0)
    for question in board.questions:
        is_open = question.escalation_id == selected
        begin = len(rows)
        rows.append(asked(question, now, is_open=is_open))
        if is_open:
            rows += unfolded(question, width, lambda number: OPTION_KEYS[number - 1 : number])
            focus = (begin, len(rows))
    return Section("Inbox", rows, focus)


def asked(question: Question, now: Instant, *, is_open: bool = False) -> Text:
    """A question on one line."""
    style = "bold" if is_open else ""
    row = Text().append("▸ " if is_open else "  ", style="bold yellow")
    row.append(f"{question.escalation_id}  {shown(question.title, 200)}", style=style)
    seen = ", seen" if question.acknowledged_by else ""
    return row.append(f"  {age(question.since, now)}{seen}", style="dim")


def unfolded(question: Question, width: int, key_of: Callable[[int], str]) -> Iterator[Text]:
    """What a question says, the ways to answer it, each with its key, and what was tried."""
    why, _, _ = question.question.partition(" Options: ")
    for part in wrapped(shown(why), max(width - 4, 20)):
        yield Text(f"    {part}")
    for number, option in enumerate(question.options, 1):
        if key := key_of(number):
            yield (
                Text()
                .append(f"    {key}", style="bold green")
                .append(f"  {shown(option.text, 200)}", style="default")
            )
    if question.options and not key_of(len(question.options)):
        yield Text().append(f"    …  more: remand inbox answer {question.escalation_id}", style="dim")
    for text in question.tried[-MAX_TRIED:]:
        yield Text().append(f"    tried: {shown(text)}", style="dim")
    for text in question.grounds if isinstance(question, Undecided) else ():
        for part in wrapped(shown(text), max(width - 4, 20)):
            yield Text().append(f"    {part}", style="dim")


def at_work(board: Board, now: Instant, name_of: NameOf = brief) -> Section:
    """Who is at work on what."""
    return Section("At work", [_worker(one, now, name_of) for one in board.at_work])


def _worker(one: AtWork, now: Instant, name_of: NameOf) -> Text:
    row = Text().append(f"{cell(one.agent, _NAME)} ", style="bold").append(f"{name_of(one.label)} ")
    doing = one.purpose if one.purpose != "work" else f"attempt {one.attempt}"
    row.append(f"{cell(doing, 10)} {age(one.since, now):>5}  ")
    left = seconds_between(now, one.lease_until)
    if left is not None and not one.run_id:
        row.append(f"lease {lasting(left) if left > 0 else 'over'}  ", style="dim")
    if one.is_measured:
        row.append("gates running  ", style="magenta")
    if one.gate_rejections:
        row.append(f"rejected by gates ×{one.gate_rejections}  ", style="red")
    if one.waits_for:
        row.append(f"waits for {shown(one.waits_for, 80)}  ", style="yellow")
    return row.append(shown(one.last_line) or shown(one.title), style="dim" if one.last_line else "")


def gates(board: Board, now: Instant, name_of: NameOf = brief) -> Section:
    """The gates that run."""
    rows = [
        Text(f"{name_of(one.label)} ").append(f"{shown(one.agent, 40)}'s work  {age(one.since, now)}")
        for one in board.gates
    ]
    return Section("Gates running", rows)


def waiting(board: Board, now: Instant, name_of: NameOf = brief) -> Section:
    """What waits for a review, or for another agent."""
    return Section("Waiting", [_waiter(one, now, name_of) for one in board.waiting])


def _waiter(one: Waiting, now: Instant, name_of: NameOf) -> Text:
    row = Text(f"{name_of(one.label)} ")
    is_review = one.status in ("provisional", "held")
    whom = ", ".join(shown(name, 40) for name in one.whom) or ("a reviewer" if is_review else "an agent")
    row.append(f"{one.status} ", style=STATUS_STYLES.get(one.status, "")).append(f"for {whom}  ")
    row.append(f"{age(one.since, now)}  " if one.since else "", style="dim")
    row.append(f"rejected ×{one.rejection_count}  " if one.rejection_count else "", style="red")
    pr = f"PR #{one.pr} " if one.pr else ""
    by = f"by {shown(one.author, 40)}: " if one.author else ""
    return row.append(f"{pr}{by}{shown(one.title)}")


def recent(board: Board, name_of: NameOf = brief) -> Section:
    """What has happened last, the newest first."""
    return Section("Recently", [_happened(one, name_of) for one in board.happenings])


def _happened(one: Happening, name_of: NameOf) -> Text:
    row = Text().append(f"{clock(one.at)} ", style="dim").append(f"{name_of(one.label)} ")
    row.append(shown(one.text))
    return row.append("  (unconfirmed, without effect)", style="yellow") if one.is_unconfirmed else row

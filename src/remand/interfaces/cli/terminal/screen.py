"""The board in sections of rows, fitted to a screen or as plain text, and events as plain lines."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size
from rich.console import Group
from rich.text import Text

from remand.app.board import ActiveWork, Board, WaitingTask
from remand.app.history.activity import ActivityEntry
from remand.app.inbox.decisions import DecisionQuestion
from remand.app.inbox.questions import Question
from remand.app.scheduler.ports import SchedulerStatus
from remand.domain.decisions.objections import DISMISS, DISMISS_ALL
from remand.domain.instant import Instant, is_instant, seconds_between
from remand.domain.text.words import single_line
from remand.interfaces.cli.output import STATUS_STYLES
from remand.interfaces.cli.terminal.state import OPTION_KEYS, ViewMode, ViewState, selected_question

MAX_TEXT = 500
_SHORT_WIDTH, _FULL_WIDTH = 11, 31
_UNITS = ((86_400, "d"), (3600, "h"), (60, "m"))


def elapsed_seconds(earlier: Instant, later: Instant) -> float | None:
    """The seconds between two instants; None if one of them is missing."""
    return seconds_between(earlier, later) if is_instant(earlier) and is_instant(later) else None


def duration_text(seconds: float) -> str:
    """A duration in its largest unit: `40 s`, `3 m`, `2 h`, `5 d`."""
    for size, name in _UNITS:
        if seconds >= size:
            return f"{seconds // size:.0f} {name}"
    return f"{max(seconds, 0):.0f} s"


def age_text(since: Instant, now: Instant) -> str:
    """How long ago something was; empty if that is unknown."""
    seconds = elapsed_seconds(since, now)
    return "" if seconds is None else duration_text(seconds)


def time_of_day(at: Instant) -> str:
    return single_line(at[11:19], 8)


def safe_line(text: object, limit: int = MAX_TEXT) -> str:
    """Text by others on one line, without characters that could mislead a terminal or a reader."""
    return single_line(str(text), limit)


def cell(text: object, width: int) -> str:
    """Text padded or cut to exactly this many columns."""
    flat = safe_line(text)
    return f"{set_cell_size(flat, width - 1)}…" if cell_len(flat) > width else set_cell_size(flat, width)


def short_label(label: str) -> str:
    """A task's short name: its issue number, or the end of its id."""
    name = label.removeprefix("issue ").removeprefix("task ")
    is_long = name.startswith("T-") and len(name) > _SHORT_WIDTH
    return cell(f"T-…{name[-8:]}" if is_long else name, _SHORT_WIDTH)


def full_label(label: str) -> str:
    """A task's full name."""
    return cell(label, _FULL_WIDTH)


def tail_text(text: str, width: int) -> str:
    """The end of a text that fits into this many columns."""
    tail = text[-width:]
    while cell_len(tail) > width:
        tail = tail[1:]
    return tail


def wrap_text(text: str, width: int) -> list[str]:
    """Text wrapped by words."""
    lines = [""]
    for word in text.split():
        if lines[-1] and cell_len(lines[-1]) + 1 + cell_len(word) > width:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def activity_line(one: ActivityEntry) -> str:
    without = "  (unconfirmed, without effect)" if one.is_unconfirmed else ""
    return plain_line(one.at, one.label, f"{one.text}{without}")


def status_lines(before: SchedulerStatus | None, now: SchedulerStatus | None) -> Iterator[str]:
    """Changes in the scheduler's own state: what it waits for, what is wrong with the system."""
    if now is None:
        return
    known = {breach.cause for breach in before.breaker} if before else set()
    for breach in now.breaker:
        if breach.cause not in known:
            what = f"does not start {breach.member}" if breach.member else "starts nothing"
            yield plain_line(breach.since, "scheduler", f"{what} ({breach.cause}): {breach.message}")
    for cause in sorted(known - {breach.cause for breach in now.breaker}):
        yield plain_line(now.tick_at, "scheduler", f"starts agents again ({cause})")
    old, new = (before.waiting, before.forge) if before else ("", ""), (now.waiting, now.forge)
    if new[0] != old[0]:
        yield plain_line(now.tick_at, "scheduler", f"waits: {new[0]}" if new[0] else "no longer waits")
    if new[1] != old[1]:
        yield plain_line(now.tick_at, "forge", new[1] or "answers again")


def plain_line(at: Instant, label: str, text: str) -> str:
    """Time, subject and text on one line."""
    return f"{safe_line(at[:19], 19)}Z  {full_label(label)}  {safe_line(text)}".rstrip()


_TROUBLE_STYLES = {"system": "bold red", "questions": "bold yellow"}
_NAME = 12
MAX_TRIED = 5
_SILENT_SECONDS = 60.0


NameOf = Callable[[str], str]
"""A task's name, in as many columns as the names of all tasks."""


class Section(NamedTuple):
    """A part of the board under its title."""

    title: str
    rows: list[Text]
    focus: tuple[int, int] = (0, 0)
    """The rows that must be visible."""


def headline_rows(board: Board, name: str, now: Instant) -> list[Text]:
    """Project and time, the scheduler's state, and the number of tasks in each status."""
    first = (
        Text()
        .append("remand ", style="bold")
        .append(safe_line(name, 40))
        .append(f"  {time_of_day(now)} UTC  ", style="dim")
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
    status_text = f"scheduler {status.pid}, {safe_line(status.tier, 20) or 'no tier'}"
    since = elapsed_seconds(status.tick_at, now)
    if since is not None and since >= _SILENT_SECONDS:
        status_text += f", silent for {duration_text(since)}"
    text = Text().append(status_text, style="green")
    if status.waiting:
        text.append(f"  waits: {safe_line(status.waiting)}", style="yellow")
    return text


def problems_section(board: Board, now: Instant, name_of: NameOf = short_label) -> Section:
    """The problems, the worst first."""
    rows = []
    for alert in board.troubles:
        style = _TROUBLE_STYLES.get(alert.kind, "yellow")
        row = Text().append("! ", style=style)
        if alert.label:
            row.append(f"{name_of(alert.label)} ", style="bold")
        row.append(safe_line(alert.text), style=style if not alert.label else "")
        since = age_text(alert.since, now)
        rows.append(row.append(f"  {since}", style="dim") if since else row)
    return Section("Problems", rows)


def inbox_section(board: Board, now: Instant, selected: str, width: int) -> Section:
    """The questions; the selected one with its options and what was tried."""
    rows: list[Text] = []
    focus = (0, 0)
    for question in board.questions:
        is_open = question.escalation_id == selected
        begin = len(rows)
        rows.append(question_row(question, now, is_open=is_open))
        if is_open:
            rows += question_detail_rows(question, width, lambda number: OPTION_KEYS[number - 1 : number])
            focus = (begin, len(rows))
    return Section("Inbox", rows, focus)


def question_row(question: Question, now: Instant, *, is_open: bool = False) -> Text:
    style = "bold" if is_open else ""
    row = Text().append("▸ " if is_open else "  ", style="bold yellow")
    row.append(f"{question.escalation_id}  {safe_line(question.title, 200)}", style=style)
    seen = ", seen" if question.acknowledged_by else ""
    return row.append(f"  {age_text(question.since, now)}{seen}", style="dim")


def question_detail_rows(question: Question, width: int, key_of: Callable[[int], str]) -> Iterator[Text]:
    """A question's text, its options with their keys, and what was tried."""
    why, _, _ = question.question.partition(" Options: ")
    for part in wrap_text(safe_line(why), max(width - 4, 20)):
        yield Text(f"    {part}")
    for number, option in enumerate(question.options, 1):
        if key := key_of(number):
            yield (
                Text()
                .append(f"    {key}", style="bold green")
                .append(f"  {safe_line(option.text, 200)}", style="default")
            )
    if question.options and not key_of(len(question.options)):
        yield Text().append(f"    …  more: remand inbox answer {question.escalation_id}", style="dim")
    for text in question.tried[-MAX_TRIED:]:
        yield Text().append(f"    tried: {safe_line(text)}", style="dim")
    for text in question.grounds if isinstance(question, DecisionQuestion) else ():
        for part in wrap_text(safe_line(text), max(width - 4, 20)):
            yield Text().append(f"    {part}", style="dim")


def work_section(board: Board, now: Instant, name_of: NameOf = short_label) -> Section:
    return Section("At work", [_work_row(work, now, name_of) for work in board.at_work])


def _work_row(one: ActiveWork, now: Instant, name_of: NameOf) -> Text:
    row = Text().append(f"{cell(one.agent, _NAME)} ", style="bold").append(f"{name_of(one.label)} ")
    doing = one.purpose if one.purpose != "work" else f"attempt {one.attempt}"
    row.append(f"{cell(doing, 10)} {age_text(one.since, now):>5}  ")
    left = elapsed_seconds(now, one.lease_until)
    if left is not None and not one.run_id:
        row.append(f"lease {duration_text(left) if left > 0 else 'over'}  ", style="dim")
    if one.is_measured:
        row.append("gates running  ", style="magenta")
    if one.gate_rejections:
        row.append(f"rejected by gates ×{one.gate_rejections}  ", style="red")
    if one.waits_for:
        row.append(f"waits for {safe_line(one.waits_for, 80)}  ", style="yellow")
    return row.append(safe_line(one.last_line) or safe_line(one.title), style="dim" if one.last_line else "")


def gates_section(board: Board, now: Instant, name_of: NameOf = short_label) -> Section:
    rows = [
        Text(f"{name_of(gate.label)} ").append(
            f"{safe_line(gate.agent, 40)}'s work  {age_text(gate.since, now)}"
        )
        for gate in board.gates
    ]
    return Section("Gates running", rows)


def waiting_section(board: Board, now: Instant, name_of: NameOf = short_label) -> Section:
    """The tasks that wait for a review, or for another agent."""
    return Section("Waiting", [_waiting_row(row, now, name_of) for row in board.waiting])


def _waiting_row(one: WaitingTask, now: Instant, name_of: NameOf) -> Text:
    row = Text(f"{name_of(one.label)} ")
    is_review = one.status in ("provisional", "held")
    whom = ", ".join(safe_line(name, 40) for name in one.whom) or ("a reviewer" if is_review else "an agent")
    row.append(f"{one.status} ", style=STATUS_STYLES.get(one.status, "")).append(f"for {whom}  ")
    row.append(f"{age_text(one.since, now)}  " if one.since else "", style="dim")
    row.append(f"rejected ×{one.rejection_count}  " if one.rejection_count else "", style="red")
    pr = f"PR #{one.pr} " if one.pr else ""
    by = f"by {safe_line(one.author, 40)}: " if one.author else ""
    return row.append(f"{pr}{by}{safe_line(one.title)}")


def recent_section(board: Board, name_of: NameOf = short_label) -> Section:
    """The latest events, newest first."""
    return Section("Recently", [_event_row(entry, name_of) for entry in board.happenings])


def _event_row(one: ActivityEntry, name_of: NameOf) -> Text:
    row = Text().append(f"{time_of_day(one.at)} ", style="dim").append(f"{name_of(one.label)} ")
    row.append(safe_line(one.text))
    return row.append("  (unconfirmed, without effect)", style="yellow") if one.is_unconfirmed else row


WIDE = 140
_LEAST = 3
_HELP = """\
j k, arrows     select another question in the inbox
1 2 3 …         answer with that option; closing a task asks for confirmation
g               type guidance for the agent that continues, then answer
r               refresh now, including event files from git
?               this page
q               quit

An answer works like `remand inbox answer`; only the user may give it.
When the question changes by itself, keys are ignored for one second.
Without an answer a task waits; nothing is released or closed."""


def render_screen(
    board: Board, state: ViewState, size: tuple[int, int], now: Instant, name: str = ""
) -> Group:
    """The content of a screen of this size: never more than fits."""
    width, height = size
    head = headline_rows(board, name, now)
    foot = footer_rows(board, state, width)
    free = max(height - len(head) - len(foot), 0)
    is_help = state.mode is ViewMode.HELP
    rows = [Text(), *map(Text, _HELP.splitlines())] if is_help else _body(board, state, width, free, now)
    rows = [*rows[:free], *(Text() for _ in range(free - len(rows)))]
    return Group(*(_truncate_row(row, width) for row in [*head, *rows, *foot][:height]))


def _truncate_row(row: Text, width: int, *, pad: bool = False) -> Text:
    row = row.copy()
    row.truncate(width, overflow="ellipsis", pad=pad)
    row.no_wrap = True
    return row


def _body(board: Board, state: ViewState, width: int, height: int, now: Instant) -> list[Text]:
    left_width = (width - 3) // 2
    problems, waiting = problems_section(board, now), waiting_section(board, now)
    inbox = inbox_section(board, now, state.selected, width if width < WIDE else left_width)
    work, gates, recent = work_section(board, now), gates_section(board, now), recent_section(board)
    if width < WIDE:
        return fit_sections([problems, inbox, work, gates, waiting, recent], height)
    left = fit_sections([problems, inbox, waiting], height)
    right = fit_sections([work, gates, recent], height)
    rows = []
    for number in range(max(len(left), len(right))):
        row = _truncate_row(left[number] if number < len(left) else Text(), left_width, pad=True)
        row.append(" │ ", style="dim")
        rows.append(row.append_text(right[number]) if number < len(right) else row)
    return rows


def fit_sections(found: Sequence[Section], height: int) -> list[Text]:
    """The sections that are not empty, each with as many rows as fit; the first come first."""
    kept = [section for section in found if section.rows]
    heights = [0] * len(kept)
    # A few rows for each section, then the rows that have to be seen, a third of the screen, and what is left.
    for least in (_LEAST, 0, height // 3, height):
        for number, section in enumerate(kept):
            begin, end = section.focus
            wanted = min(1 + len(section.rows), least or 1 + end - begin)
            heights[number] += max(0, min(wanted - heights[number], height - sum(heights)))
    has_gaps = sum(heights) + len(kept) - 1 <= height
    rows: list[Text] = []
    for section, own_height in zip(kept, heights, strict=True):
        rows += [Text()] if has_gaps and rows else []
        rows += _crop_section(section, own_height)
    return rows


def _crop_section(section: Section, height: int) -> list[Text]:
    """A section's title and rows in this many lines; its focus is always visible, and the rest is counted."""
    if height < 2:
        return []
    title = Text().append(section.title, style="bold underline")
    rows, window = section.rows, height - 1
    if len(rows) <= window:
        return [title, *rows]
    title.append(f"  {window} of {len(rows)} lines", style="dim")
    begin, end = section.focus
    start = begin if end - begin >= window else max(0, end - window)
    return [title, *rows[start : start + window]]


def footer_rows(board: Board, state: ViewState, width: int) -> list[Text]:
    """The typed text or the result of the last key, and the meaning of the keys."""
    question = selected_question(state, board.questions)
    match state.mode:
        case ViewMode.TYPE:
            what = "Reason" if state.option in (DISMISS, DISMISS_ALL) else "Guidance"
            what += f" for {name}" if (name := state.option.partition(":")[2]) else ""
            asked = Text().append(f"{safe_line(what, 60)}: ", style="bold")
            free = max(width - asked.cell_len - 2, 1)
            keys = "enter: answer" if state.option else "enter: continue to the answer"
            return [asked.append(tail_text(state.guidance, free)).append("▏"), _dim(f"{keys} · esc: cancel")]
        case ViewMode.CONFIRM:
            what = question.title if question else ""
            return [
                Text(f"Close it as won't-fix? {safe_line(what, 60)}", style="bold red"),
                _dim("y: yes · any other key: no"),
            ]
        case _:
            text = Text(safe_line(state.message), style="bold")
            if state.guidance and question:
                text = Text().append("With guidance: ", style="bold").append(safe_line(state.guidance))
            keys = "j k move · ? help · r refresh · q quit"
            if state.why_not:
                keys = f"{safe_line(state.why_not)} · {keys}"
            elif question is None:
                keys = "? help · r refresh · q quit"
            else:
                last = OPTION_KEYS[min(len(question.options), len(OPTION_KEYS)) - 1]
                keys = f"1-{last} answer · g guidance · {keys}"
            return [text, _dim(keys)]


def _dim(text: str) -> Text:
    return Text(text, style="dim")


WIDTH = 160


def render_plain(board: Board, name: str, *, may_answer: bool = True) -> str:
    """Every section that is not empty, one after the other."""
    questions: list[Text] = []
    for question in board.questions:
        questions.append(question_row(question, board.at))
        questions += question_detail_rows(question, WIDTH, str)
        if may_answer:
            answer = f"remand inbox answer {question.escalation_id} OPTION [--guidance TEXT]"
            questions.append(Text(f"    Answer: {answer}"))
    found = (
        problems_section(board, board.at, full_label),
        Section("Inbox", questions),
        work_section(board, board.at, full_label),
        gates_section(board, board.at, full_label),
        waiting_section(board, board.at, full_label),
        recent_section(board, full_label),
    )
    parts = [[row.plain for row in headline_rows(board, name, board.at)]]
    parts += [
        [section.title, *(f"  {row.plain}" for row in section.rows)] for section in found if section.rows
    ]
    return "\n\n".join("\n".join(row.rstrip() for row in rows) for rows in parts)

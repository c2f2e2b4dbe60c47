"""A task: its timeline, the changes of each submission with findings beside the lines, and the next agent's prompt."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec

from remand.app.errors import RemandError
from remand.app.history.rejections import LockoutRow, active_lockouts, task_rejections
from remand.app.history.task_history import StoryLine, story_lines
from remand.app.history.undo import PossibleUndo, may_retract_review, undo_of_task
from remand.app.inbox.decisions import rejection_grounds
from remand.app.prompts import read_rejection_context, render_prompt
from remand.domain.access.team import COORDINATOR
from remand.domain.access.tokens import CALLS
from remand.domain.events import reviews, tasks, work
from remand.domain.events.event import Event, KnownBy
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Submission, Task
from remand.domain.text.redaction import redact
from remand.interfaces.cli.tasks.views import read_task
from remand.interfaces.http.pages.page import PageQuery, WebPage, indented_json
from remand.interfaces.http.problems import FORBIDDEN, HttpProblem
from remand.wiring.scheduler import submitted_changes

ACTIONS = (
    *("review approve", "reject-task", "review retract", "task reopen", "task cancel", "unlock", "escalate"),
    *("gate accept", "gate refuse", "reassign", "inbox retract"),
)
_TONES: dict[str, str] = {
    "gate.pass": "good",
    "review.approve": "good",
    "task.settle": "good",
    "gate.reject": "bad",
    "review.reject": "bad",
    "handoff.reject": "bad",
    "handoff.reject.invalid": "bad",
    "task.fail": "bad",
    "review.bypass": "bad",
    "gate.error": "warn",
    "gate.hold": "warn",
    "lockout.set": "warn",
    "escalation.open": "warn",
    "task.block": "warn",
}
"""How events are marked in the timeline."""
_KNOWN: dict[str, str] = {
    KnownBy.WORD: "unverified",
    KnownBy.TOKEN: "by token or session",
    KnownBy.FORGE: "by the forge",
    KnownBy.SOCKET: "by its socket",
}
"""How the actor was identified."""
MAX_DIFF_LINES = 5000
MAX_ENTRIES = 500
"""The most entries shown, the newest ones."""
MAX_EXCERPTS = 5
"""How many findings of a review are shown with their code."""
ReadLines = Callable[[str, str, int], tuple[str, ...]]
_SUBJECT_ID = re.compile(r" \(([VE]-[0-9a-f-]+)\)")
_FILE = re.compile(r'diff --git (?:"?a/.*?"? "?b/(?P<path>.*?)"?)')
_HUNK = re.compile(r"@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@")


class TimelineEntry(NamedTuple):
    """One event in the timeline."""

    id: str
    at: Instant
    sentence: str
    details: tuple[str, ...]
    tone: str
    actor: str
    known: str
    """How the actor was identified; empty if it is certain."""
    commit: str = ""
    subject: str = ""
    """The id of the review or question it concerns."""
    code: tuple[tuple[str, ...], ...] = ()
    """The code lines of the first details."""


class RunRow(NamedTuple):
    """One run of an agent."""

    agent: str
    purpose: str
    since: Instant
    how: str = ""
    seconds: float = 0.0
    turns: int = 0
    tokens: int = 0
    cost: float = 0.0
    is_fault: bool = False


class TaskView(NamedTuple):
    data: Mapping[str, Any]
    """The output of `task show --json`."""
    entries: tuple[TimelineEntry, ...]
    runs: tuple[RunRow, ...]
    lockouts: tuple[LockoutRow, ...]
    may: frozenset[str]
    """The offered commands that the caller's role may call."""
    earlier: int = 0
    """How many older events are not shown."""
    own_review: str = ""
    """The id of the caller's own rejection that can be retracted."""
    undo: PossibleUndo | None = None
    """What the caller can undo now."""
    tab: str = "story"

    @property
    def summary(self) -> str:
        return f"The task is {self.data['status'].replace('_', ' ')}."


def read_task_view(query: PageQuery) -> TaskView:
    """A task with its timeline."""
    data = query.ask("task show", id=query.address.names["task"])
    with query.opened.store.read() as view:
        task, events = read_task(view, data["task_id"])
        lockouts = tuple(active_lockouts(view, task.id))
        undo = undo_of_task(view, task, query.actor)
    changes = submitted_changes(query.opened)
    lines_around = changes.lines_around if query.caller.role in CALLS["review diff"] else _no_lines
    own = {query.caller.member} | ({one.meta.actor for one in events if one.meta.actor} & _user_names(query))
    mine = [
        row["review_id"]
        for row in data["reviews"]
        if row["event"] == "review.reject"
        and not row["is_retracted"]
        and row["actor"] in own
        and may_retract_review(task, row["review_id"], query.actor)
    ]
    return TaskView(
        data=data,
        entries=tuple(_entries(task.id, events, lines_around))[::-1],
        earlier=max(0, len(events) - MAX_ENTRIES),
        runs=tuple(_run_rows(events)),
        lockouts=lockouts,
        may=frozenset(name for name in ACTIONS if query.caller.role in CALLS[name]),
        own_review=mine[-1] if mine else "",
        undo=undo,
    )


def _user_names(query: PageQuery) -> set[str]:
    """The names under which the user acts; empty for other callers."""
    team = query.rules.team
    return {one.name for one in team.members if team.actor(one.name).is_user} if query.is_user else set()


def _no_lines(_commit: str, _path: str, _line: int) -> tuple[str, ...]:
    """Stands in for reading code if the caller may not see it."""
    return ()


def _entries(task_id: str, events: list[Event], lines_around: ReadLines) -> Iterator[TimelineEntry]:
    """The timeline: a sentence per event with its actor and details; rejections with their grounds."""
    grounds = {one.rejection_id: rejection_grounds(one) for one in task_rejections(events)}
    for event in events[-MAX_ENTRIES:]:
        for line in story_lines([event]):
            more = grounds.get(getattr(event, "rejection_id", "")) if _is_rejection(event) else None
            entry = timeline_entry(event, line)
            yield entry._replace(
                sentence=entry.sentence.replace(f"task {task_id}", "the task"),
                details=tuple(more or line.details),
                code=tuple(
                    lines_around(event.commit, one.path, one.line)
                    for one in sorted(event.findings, key=lambda one: not one.is_blocking)[:MAX_EXCERPTS]
                )
                if isinstance(event, reviews.ReviewRejected)
                else (),
            )


def timeline_entry(event: Event, line: StoryLine) -> TimelineEntry:
    """One event with its actor and how the actor was identified."""
    actor = event.meta.actor
    match = _SUBJECT_ID.search(line.sentence)
    return TimelineEntry(
        id=event.meta.id[:12],
        at=line.at,
        sentence=_SUBJECT_ID.sub("", line.sentence),
        subject=match[1] if match else "",
        details=line.details,
        tone=_TONES.get(event.name, "plain"),
        actor="" if actor == COORDINATOR else actor,
        known="" if actor in ("", COORDINATOR) else _KNOWN.get(event.meta.known_by, ""),
        commit=_commit_of(event),
    )


def _is_rejection(event: Event) -> bool:
    return isinstance(event, tasks.HandoffRejected | tasks.HandoffRejectionInvalid)


def _commit_of(event: Event) -> str:
    """The commit of an event, if its changes can be shown."""
    match event:
        case (
            tasks.TaskSubmitted()
            | tasks.HandoffCompleted()
            | reviews.ReviewRejected()
            | reviews.ReviewApproved()
        ):
            return event.commit
        case work.GateRejected() | work.GateHeld() | work.GatePassed():
            return event.verdict.commit
        case _:
            return ""


def _run_rows(events: Iterable[Event]) -> Iterator[RunRow]:
    started: dict[str, RunRow] = {}
    for event in events:
        if isinstance(event, work.RunStarted):
            started[event.run_id] = RunRow(event.agent, event.purpose, event.ts)
        elif isinstance(event, work.RunEnded):
            begun = started.get(event.run_id, RunRow(event.agent, "", event.ts))
            started[event.run_id] = begun._replace(
                how="failed" if event.is_fault else event.how.replace("_", " "),
                seconds=event.seconds,
                turns=event.turns,
                tokens=event.tokens,
                cost=event.cost,
                is_fault=event.is_fault,
            )
    yield from started.values()


# ------------------------------------------------------------------------------------------------ changes


class LineFinding(NamedTuple):
    """A finding at a line."""

    who: str
    text: str
    is_blocking: bool


class DiffLine(NamedTuple):
    kind: str
    """`add`, `cut`, `same` or `hunk`."""
    old: int
    new: int
    text: str
    findings: tuple[LineFinding, ...] = ()


class FileChange(NamedTuple):
    path: str
    added: int
    removed: int
    lines: tuple[DiffLine, ...]
    findings: tuple[LineFinding, ...] = ()
    """Findings about the file as a whole, or about lines that are not shown."""


class ChangesView(NamedTuple):
    data: Mapping[str, Any]
    submissions: tuple[Submission, ...]
    chosen: str
    files: tuple[FileChange, ...] = ()
    since: str = ""
    elsewhere: tuple[LineFinding, ...] = ()
    """Findings in files that have not changed."""
    is_cut: bool = False
    problem: str = ""
    """Why the changes cannot be shown."""
    tab: str = "changes"


def read_changes(query: PageQuery) -> ChangesView:
    """The changes of a submission: the last one, or the one named in the address."""
    data = query.ask("task show", id=query.address.names["task"])
    with query.opened.store.read() as view:
        task, events = read_task(view, data["task_id"])
    submissions = tuple(_submissions(task, events))
    commit = query.address.query.get("commit", "")
    chosen = next((one for one in submissions[::-1] if not commit or one.commit == commit), None)
    if chosen is None:
        return ChangesView(data=data, submissions=submissions, chosen="")
    try:
        change = submitted_changes(query.opened).submission_change(task, chosen)
    except RemandError as error:
        return ChangesView(data=data, submissions=submissions, chosen=chosen.commit, problem=str(error))
    found = _findings(events, chosen.commit)
    files = tuple(parse_diff(change.text, found))
    paths = {file.path for file in files}
    elsewhere = tuple(one for (path, _), some in found.items() if path not in paths for one in some)
    is_cut = change.is_cut or change.text.count("\n") > MAX_DIFF_LINES
    return ChangesView(
        data=data,
        submissions=submissions,
        chosen=chosen.commit,
        files=files,
        since=change.since,
        elsewhere=elsewhere,
        is_cut=is_cut,
    )


def _submissions(task: Task, events: Iterable[Event]) -> Iterator[Submission]:
    """All submitted commits in order, including work held by the gates."""
    bases: dict[str, str] = {}
    for event in events:
        if isinstance(event, tasks.TaskClaimed | tasks.HandoffAccepted):
            bases[event.handoff_id] = getattr(event, "base", "")
        elif isinstance(event, tasks.TaskSubmitted | tasks.HandoffCompleted) and event.commit:
            yield Submission(
                commit=event.commit,
                agent=event.agent,
                handoff_id=event.handoff_id,
                at=event.ts,
                tree=event.tree,
                base=bases.get(event.handoff_id, ""),
            )
    claim, gates = task.claim, task.gates
    if claim is not None and gates.commit and gates.handoff_id == claim.handoff_id:
        yield Submission(
            commit=gates.commit,
            agent=claim.agent,
            handoff_id=claim.handoff_id,
            at=claim.claimed_at,
            tree=gates.tree,
            base=claim.base,
        )


Findings = Mapping[tuple[str, int], list[LineFinding]]


def _findings(events: Iterable[Event], commit: str) -> Findings:
    """The findings of reviewers and gates in a commit, by file and line."""
    found: dict[tuple[str, int], list[LineFinding]] = {}
    for event in events:
        match event:
            case reviews.ReviewRejected() | reviews.ReviewCommented() if event.commit == commit:
                for finding in event.findings:
                    remark = LineFinding(event.reviewer, finding.text, finding.is_blocking)
                    found.setdefault((finding.path, finding.line), []).append(remark)
            case work.GateRejected() | work.GateHeld() if event.verdict.commit == commit:
                for gate in event.verdict.gates:
                    for place in gate.findings:
                        text = f"{place.code}: {place.text}" if place.code else place.text
                        remark = LineFinding(gate.name, text, is_blocking=place.severity == "error")
                        found.setdefault((place.path, place.line), []).append(remark)
            case _:
                pass
    return found


def parse_diff(text: str, findings: Findings) -> Iterator[FileChange]:
    """Parses git's diff output into files and numbered lines with their findings."""
    lines: list[DiffLine] = []
    path, old, new, is_open = "", 0, 0, False
    for row in text.split("\n")[:MAX_DIFF_LINES]:
        head = _FILE.fullmatch(row)
        if head is not None:
            if path:
                yield _file_change(path, lines, findings)
            path, lines, is_open = head["path"], [], False
        elif (hunk := _HUNK.match(row)) is not None:
            old, new, is_open = int(hunk[1]), int(hunk[2]), True
            lines.append(DiffLine("hunk", 0, 0, row))
        elif is_open and row[:1] in ("+", "-", " "):
            kind = {"+": "add", "-": "cut", " ": "same"}[row[0]]
            at = findings.get((path, new), ()) if kind != "cut" else ()
            lines.append(
                DiffLine(kind, old if kind != "add" else 0, new if kind != "cut" else 0, row[1:], tuple(at))
            )
            old, new = old + (kind != "add"), new + (kind != "cut")
    if path:
        yield _file_change(path, lines, findings)


def _file_change(path: str, lines: list[DiffLine], findings: Findings) -> FileChange:
    numbers = {line.new for line in lines if line.new}
    more = (
        one for (file, line), some in findings.items() if file == path and line not in numbers for one in some
    )
    return FileChange(
        path,
        sum(line.kind == "add" for line in lines),
        sum(line.kind == "cut" for line in lines),
        tuple(lines),
        tuple(more),
    )


# ------------------------------------------------------------------------------------------------- prompt


class PromptView(NamedTuple):
    data: Mapping[str, Any]
    text: str
    tab: str = "prompt"


def read_prompt(query: PageQuery) -> PromptView:
    """The prompt of the task's next agent, for the user: reading it here records no receipt. Raises `HttpProblem`."""
    if not query.is_user:
        detail = "Call `remand task prompt`: it records that the agent read the feedback, and refuses a locked-out agent."
        raise HttpProblem(FORBIDDEN, "user_only", detail)
    data = query.ask("task show", id=query.address.names["task"])
    with query.opened.store.read() as view:
        task, events = read_task(view, data["task_id"])
        context = read_rejection_context(view, task, events)
    text = render_prompt(task, events, context, query.opened.settings.settings().forge.home)
    return PromptView(data, text)


def read_whole(query: PageQuery) -> str:
    """Everything about a task as text, of any length."""
    data = query.ask("task show", id=query.address.names["task"])
    return redact(indented_json(msgspec.to_builtins(data)))


PAGES = (
    WebPage("/tasks/{task:str}", "task.html", "Task", "task show", read_task_view),
    WebPage(
        "/tasks/{task:str}/changes",
        "changes.html",
        "Changes",
        "review diff",
        read_changes,
        is_long=True,
        is_live=False,
    ),
    WebPage("/tasks/{task:str}/prompt", "prompt.html", "Prompt", "task prompt", read_prompt, is_live=False),
    WebPage("/tasks/{task:str}/whole.txt", "", "Whole task", "task show", read_whole, is_live=False),
)

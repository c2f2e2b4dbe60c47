"""The inbox: everything that waits for the caller, most severe and oldest first, each answered in place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from remand.app.history.task_history import SubmissionUnderReview, submissions_under_review
from remand.app.inbox.decisions import (
    DECISION_KIND,
    decision_for_answer,
    open_questions,
    waiting_entries,
)
from remand.app.inbox.held_findings import HELD_KIND
from remand.app.inbox.objections import OBJECTION_KIND, ObjectionQuestion, objection_questions
from remand.app.inbox.questions import ALERT_KIND, Question
from remand.app.reminders import key_warning
from remand.domain.access.team import USER, Role
from remand.domain.access.tokens import TokenRole
from remand.domain.gate.state import GATE_QUESTION
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.domain.text.words import format_count
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.ledger.store import Transaction
from remand.wiring.after_call import scheduler_files

ACTIONS = (
    *("inbox answer", "inbox retract", "inbox ack", "review approve", "reject-task", "task reopen"),
    *("gate accept", "gate refuse", "handoff rejection-response"),
)
REVIEW_KIND = "review"
MOST_SHOWN = 50
"""The most entries on a page."""
MAX_WAITING = 100

KINDS: Mapping[str, tuple[int, str]] = {
    GATE_QUESTION: (0, "Broken gate"),
    "bypassed": (1, "Rules bypassed"),
    "deadlock": (2, "No agent left"),
    "reviews": (2, "Rejected again"),
    "gates": (2, "Gates keep rejecting"),
    "runs": (2, "Runs fail"),
    "budget": (2, "Budget spent"),
    "given_up": (2, "Given up"),
    "asked": (2, "Question"),
    DECISION_KIND: (3, "Task rejected"),
    HELD_KIND: (4, "Held finding"),
    REVIEW_KIND: (5, "Review"),
    OBJECTION_KIND: (6, "Unconfirmed key"),
    ALERT_KIND: (7, "Alert"),
}
"""The severity of each kind (0 is the worst) and its label."""
_OTHER = (2, "Question")
_REVIEWERS = (TokenRole.USER, TokenRole.REVIEWER)
_OF_ROLE = {TokenRole.REVIEWER: (HELD_KIND,), TokenRole.DIRECTOR: (DECISION_KIND,)}
"""The kinds that roles other than the user may answer."""

_WHOLE_SENTENCES = (
    (
        re.compile(r" rejected (once|twice|\d+ times)\. Need guidance or manual fix\."),
        r" was rejected \1. It needs your guidance.",
    ),
    (re.compile(r"All agents locked out for "), "All agents are locked out of "),
)
"""Abbreviations in notices and the full sentences that the page shows in their place."""


class InboxOption(NamedTuple):
    """One possible answer."""

    key: str
    text: str
    number: int
    command: str = ""
    """The equivalent command and its arguments for roles other than the user."""
    values: Mapping[str, str] = {}


class InboxItem(NamedTuple):
    """One waiting item."""

    id: str
    kind: str
    label: str
    rank: int
    task_id: str
    title: str
    why: str
    since: Instant
    agent: str = ""
    options: tuple[InboxOption, ...] = ()
    tried: tuple[str, ...] = ()
    grounds: tuple[str, ...] = ()
    cost: str = ""
    """The consequences while it remains unanswered."""
    acknowledged_by: str = ""
    place: str = ""
    """The file and line it concerns."""
    commit: str = ""
    trust: str = ""
    """How to trust the key, if it is an untrusted one."""

    @property
    def anchor(self) -> str:
        return "".join(char if char.isalnum() or char == "-" else "_" for char in self.id)


class InboxView(NamedTuple):
    items: tuple[InboxItem, ...]
    total: int
    others: int
    """How many questions wait for others."""
    key: str = ""
    """Says that this machine's key is not trusted, and what to do about it."""
    chosen: str = ""
    """The kind that is selected."""
    kinds: tuple[tuple[str, str, int], ...] = ()
    page: int = 1
    pages: int = 1
    before: str = ""
    """The URL of the previous page; empty on the first."""
    after: str = ""

    @property
    def summary(self) -> str:
        wait = "thing waits" if self.total == 1 else "things wait"
        return f"{self.total} {wait} for you." if self.total else "Nothing waits for you."


class _Entry(NamedTuple):
    """A waiting item, before its details are read."""

    rank: int
    since: Instant
    id: str
    label: str
    kind: str
    number: int = 1
    task: Task | None = None
    objection: ObjectionQuestion | None = None
    review: SubmissionUnderReview | None = None


def read_inbox(query: PageQuery) -> InboxView:
    """The items that wait for the caller, sorted by severity and age over all pages; details are read for one page only."""
    with query.opened.store.read() as view:
        every = _entries(query, view)
        own = [entry for entry in every if _is_own(query, entry)]
        chosen = query.address.query.get("kind", "")
        entries = sorted((one for one in own if chosen in ("", one.label)), key=lambda one: one[:3])
        last = max(1, -(-len(entries) // MOST_SHOWN))
        number = query.address.query.get("page", "")
        page = min(last, max(1, int(number))) if number.isdecimal() and len(number) < 9 else 1
        items = _read_items(query, view, entries[(page - 1) * MOST_SHOWN : page * MOST_SHOWN])
        items = [item._replace(cost=_waiting_text(view, item)) for item in items]
    counts: dict[str, int] = {}
    for entry in sorted(own, key=lambda one: one.rank):
        counts[entry.label] = counts.get(entry.label, 0) + entry.number
    total, address = sum(counts.values()), query.address
    return InboxView(
        items=tuple(items),
        total=total,
        others=sum(entry.number for entry in every) - total,
        key=key_warning(query.opened.view.untrusted_writer()).removeprefix("remand: ")
        if query.is_user
        else "",
        chosen=chosen,
        kinds=tuple(
            (label, address.with_values(kind=label, page=""), count) for label, count in counts.items()
        ),
        page=page,
        pages=last,
        before=address.with_values(page=str(page - 1) if page > 2 else "") if page > 1 else "",
        after=address.with_values(page=str(page + 1)) if page < last else "",
    )


def _entries(query: PageQuery, view: Transaction) -> list[_Entry]:
    """All waiting items for anyone, found by an index without reading their details."""
    entries = [
        _Entry(*_rank(one.kind, one.since, one.task.id), one.kind, one.number, one.task)
        for one in waiting_entries(view, query.rules, query.actor)
    ]
    entries += [
        _Entry(
            *_rank(question.kind, question.since, question.escalation_id), question.kind, objection=question
        )
        for question in objection_questions(view, query.rules.policy)
    ]
    if query.caller.role in _REVIEWERS:
        for work in _own_reviews(query, submissions_under_review(view)):
            place = _rank(REVIEW_KIND, work.since, work.task_id)
            entries.append(_Entry(*place, REVIEW_KIND, review=work))
    return entries


def _rank(kind: str, since: Instant, name: str) -> tuple[int, Instant, str, str]:
    rank, label = KINDS.get(kind, _OTHER)
    return rank, since or "9", name, label


def _is_own(query: PageQuery, entry: _Entry) -> bool:
    """True if the caller may answer it."""
    return query.is_user or entry.kind in (*_OF_ROLE.get(query.caller.role, ()), REVIEW_KIND)


def _read_items(query: PageQuery, view: Transaction, entries: list[_Entry]) -> list[InboxItem]:
    """The details of a page's entries in the same order; only the histories of their tasks are read."""
    opened, rules = query.opened, query.rules
    unable = scheduler_files.unstartable(opened.folders.status, rules.team.members, opened.place.root)
    tasks = {entry.task.id: entry.task for entry in entries if entry.task is not None}
    by_task: dict[tuple[str, str], list[Question]] = {}
    for question in open_questions(view, rules, query.actor, unable, tasks=list(tasks.values())):
        by_task.setdefault((question.task_id, question.kind), []).append(question)
    items: list[InboxItem] = []
    for entry in entries:
        questions = [entry.objection] if entry.objection else by_task.get((entry.id, entry.kind), [])
        rows = msgspec.to_builtins(questions)
        items += [_question_item(row, is_user=query.is_user) for row in rows]
        items += [_review_item(query, entry.review)] if entry.review else []
    return items


def _question_item(row: Mapping[str, Any], *, is_user: bool) -> InboxItem:
    rank, label = KINDS.get(row["kind"], _OTHER)
    why = _sentence(row)
    options = tuple(
        InboxOption(
            option["key"],
            option["text"],
            option.get("number") or place,
            *(() if is_user else _role_command(row, option["key"])),
        )
        for place, option in enumerate(row["options"], start=1)
    )
    path, line = row.get("path", ""), row.get("line", 0)
    return InboxItem(
        id=row["escalation_id"],
        kind=row["kind"],
        label=label,
        rank=rank,
        task_id=row["task_id"],
        title=row["title"],
        why=why,
        since=row["since"],
        agent=row.get("agent", ""),
        options=options,
        tried=tuple(row["tried"]),
        grounds=tuple(row.get("grounds", ())),
        acknowledged_by=row["acknowledged_by"],
        place=f"{path}:{line}" if line else path,
        trust=row.get("trust", ""),
    )


def _sentence(row: Mapping[str, Any]) -> str:
    """Why it waits, in full sentences; the task's title and id are shown above it."""
    why = str(row["question"]).partition(" Options: ")[0]
    why = why.replace(f"Task {row['task_id']}", "The task").replace(f"task {row['task_id']}", "the task")
    for short, whole in _WHOLE_SENTENCES:
        why = short.sub(whole, why)
    return why


def _role_command(row: Mapping[str, Any], key: str) -> tuple[str, Mapping[str, str]]:
    """The command with which a reviewer or director answers; `inbox answer` is for the user."""
    if row["kind"] == HELD_KIND:
        return f"gate {key}", {"task": row["task_id"], "finding": row["finding"]}
    decision, name = decision_for_answer(key)
    values = {"handoff": row["handoff_id"], "decision": decision}
    return "handoff rejection-response", values | ({"reassign_to": name} if name else {})


def _waiting_text(view: Transaction, item: InboxItem) -> str:
    """What is blocked while the item waits."""
    agent = item.agent
    stays = {
        GATE_QUESTION: "No agent is started until the gate can be measured again.",
        DECISION_KIND: "The task stays blocked.",
        HELD_KIND: f"{agent}'s work stays held, and nothing is submitted.",
        OBJECTION_KIND: "An approval of the work it names waits.",
        REVIEW_KIND: "The work is not merged, and its author can work on other tasks.",
        ALERT_KIND: f"{agent} continues, at your cost.",
    }.get(item.kind, "The task waits, and nobody works on it.")
    task = view.tasks.get(item.task_id)
    if task is None:
        return stays
    waiting = [one for one in view.dependencies.predecessors(task.id, MAX_WAITING) if not one.is_terminal]
    spent = [f"{format_count(len(waiting), 'other task')} wait for it." if len(waiting) > 1 else ""]
    spent += ["Another task waits for it."] if len(waiting) == 1 else []
    if task.spent.runs:
        cost = f", ${task.spent.cost:.2f}" if task.spent.cost else ""
        spent.append(f"Spent so far: {format_count(task.spent.runs, 'run')}{cost}.")
    return " ".join([stays, *filter(None, spent)])


def _own_names(query: PageQuery) -> set[str]:
    """The names of the caller: a user's session acts for every member that is the user."""
    users = {
        one.name for one in query.rules.team.members if Role.USER in query.rules.team.actor(one.name).roles
    }
    return {query.caller.member, USER, *users} if query.is_user else {query.caller.member}


def count_waiting(query: PageQuery) -> int:
    """How many items wait for the caller, without reading their details."""
    with query.opened.store.read() as view:
        return sum(entry.number for entry in _entries(query, view) if _is_own(query, entry))


def _own_reviews(
    query: PageQuery, submissions: Iterable[SubmissionUnderReview]
) -> Iterator[SubmissionUnderReview]:
    """The submissions that the caller was asked to review, or that nobody else reviews."""
    team, own = query.rules.team, _own_names(query)
    reviewers = {Role.LEAD, Role.TESTER}
    others = {one.name for one in team.members if reviewers & team.actor(one.name).roles} - own
    for work in submissions:
        is_free = not work.requested and (query.caller.role is TokenRole.REVIEWER or not others)
        if work.author not in own and (own.intersection(work.requested) or is_free):
            yield work


def _review_item(query: PageQuery, work: SubmissionUnderReview) -> InboxItem:
    is_asked = bool(_own_names(query).intersection(work.requested))
    reason = "You were asked to review it." if is_asked else "It awaits a review by anybody."
    rank, label = KINDS[REVIEW_KIND]
    return InboxItem(
        id=f"review-{work.task_id}",
        kind=REVIEW_KIND,
        label=label,
        rank=rank,
        task_id=work.task_id,
        title=work.title,
        why=f"{work.author} handed in {work.commit[:12]}, attempt {work.attempt}. {reason}",
        since=work.since,
        commit=work.commit,
    )


PAGES = (WebPage("/", "inbox.html", "Inbox", "inbox", read_inbox, nav="Inbox", key="i"),)

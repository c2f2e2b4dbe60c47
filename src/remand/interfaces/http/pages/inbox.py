"""The inbox: everything that waits for whoever looks at it, the worst and oldest first, each to be answered in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import msgspec

from remand.app.history.task_history import submissions_under_review
from remand.app.inbox.decisions import (
    DECISION_KIND,
    count_questions,
    decision_for_answer,
    read_inbox_page,
)
from remand.app.inbox.held_findings import HELD_KIND
from remand.app.inbox.objections import OBJECTION_KIND
from remand.app.inbox.questions import ALERT_KIND
from remand.app.reminders import key_warning
from remand.domain.access.team import USER, Role
from remand.domain.access.tokens import TokenRole
from remand.domain.gate.state import GATE_QUESTION
from remand.domain.instant import Instant
from remand.domain.record import NamedTuple
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
"""How many items stand on the page at once."""
MAX_WAITING = 100
MAX_TASKS = 200
"""Of how many tasks it is read what they ask."""

KINDS: Mapping[str, tuple[int, str]] = {
    GATE_QUESTION: (0, "Broken gate"),
    "bypassed": (1, "Rules bypassed"),
    "deadlock": (2, "Nobody is left"),
    "reviews": (2, "Rejected again"),
    "gates": (2, "Gates say no"),
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
"""How bad each kind is, worst first, and what it is called."""
_OTHER = (2, "Question")
_REVIEWERS = (TokenRole.USER, TokenRole.REVIEWER)
_OF_ROLE = {TokenRole.REVIEWER: (HELD_KIND,), TokenRole.DIRECTOR: (DECISION_KIND,)}
"""Which kinds others than the user may answer."""


class InboxOption(NamedTuple):
    """One way to answer."""

    key: str
    text: str
    number: int
    command: str = ""
    """For others than the user: the command of theirs that says the same, and what it is given."""
    values: Mapping[str, str] = {}


class InboxItem(NamedTuple):
    """One thing that waits."""

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
    """What happens while nobody answers."""
    acknowledged_by: str = ""
    place: str = ""
    """The file and line it is about."""
    commit: str = ""
    trust: str = ""
    """For a key that is not trusted: how it would be."""
    takes_guidance: bool = True

    @property
    def anchor(self) -> str:
        return "".join(char if char.isalnum() or char == "-" else "_" for char in self.id)


class InboxView(NamedTuple):
    items: tuple[InboxItem, ...]
    total: int
    others: int
    """How many questions wait for somebody else."""
    key: str = ""
    """That this machine's key is not trusted, and what to do."""
    chosen: str = ""
    """The kind that is shown alone."""
    kinds: tuple[tuple[str, str, int], ...] = ()

    @property
    def summary(self) -> str:
        wait = "thing waits" if self.total == 1 else "things wait"
        return f"{self.total} {wait} for you." if self.total else "Nothing waits for you."


def read_inbox(query: PageQuery) -> InboxView:
    """What waits for the caller; of very many tasks that wait, the oldest."""
    found, is_whole = read_questions(query)
    mine = [row for row in found if query.is_user or row["kind"] in _OF_ROLE.get(query.caller.role, ())]
    reviews = query.ask("review list") if query.caller.role in _REVIEWERS else []
    with query.opened.store.read() as view:  # after the queries: each of them opens a view of its own
        items = [
            *(_question_item(row, is_user=query.is_user) for row in mine),
            *_review_items(query, reviews),
        ]
        items.sort(key=lambda item: (item.rank, item.since or "9", item.id))
        chosen = query.address.query.get("kind", "")
        shown = [item for item in items if not chosen or item.label == chosen][:MOST_SHOWN]
        shown = [item._replace(cost=_waiting_text(view, item)) for item in shown]
    counts: dict[str, list[InboxItem]] = {}
    for item in items:
        counts.setdefault(item.label, []).append(item)
    return InboxView(
        items=tuple(shown),
        total=len(items) if is_whole else count_waiting(query),
        others=len(found) - len(mine),
        key=key_warning(query.opened.view.untrusted_writer()).removeprefix("remand: ")
        if query.is_user
        else "",
        chosen=chosen,
        kinds=tuple(
            (label, query.address.with_values(kind=label), len(found)) for label, found in counts.items()
        ),
    )


def _question_item(row: Mapping[str, Any], *, is_user: bool) -> InboxItem:
    rank, label = KINDS.get(row["kind"], _OTHER)
    why, _, _ = row["question"].partition(" Options: ")
    # The task's title and id stand above it.
    why = why.replace(f"Task {row['task_id']}", "The task").replace(f"task {row['task_id']}", "the task")
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


def _role_command(row: Mapping[str, Any], key: str) -> tuple[str, Mapping[str, str]]:
    """The command by which a reviewer or a director gives an answer: `inbox answer` is the user's."""
    if row["kind"] == HELD_KIND:
        return f"gate {key}", {"task": row["task_id"], "finding": row["finding"]}
    decision, name = decision_for_answer(key)
    values = {"handoff": row["handoff_id"], "decision": decision}
    return "handoff rejection-response", values | ({"reassign_to": name} if name else {})


def _waiting_text(view: Transaction, item: InboxItem) -> str:
    """What it costs to wait: what stands still meanwhile."""
    agent = item.agent
    stays = {
        GATE_QUESTION: "No agent is started until the gate can be measured again.",
        DECISION_KIND: "The task stays blocked.",
        HELD_KIND: f"{agent}'s work stays held, and nothing is handed in.",
        OBJECTION_KIND: "An approval of the work it names waits.",
        REVIEW_KIND: "The work is not merged, and its author is free for other tasks.",
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
    """The names of whoever looks: a session of the user is each member who is the user."""
    users = {
        one.name for one in query.rules.team.members if Role.USER in query.rules.team.actor(one.name).roles
    }
    return {query.caller.member, USER, *users} if query.is_user else {query.caller.member}


def read_questions(query: PageQuery) -> tuple[list[dict[str, Any]], bool]:
    """The questions of the oldest tasks that wait, as the inbox command prints them; and whether these are all."""
    opened, rules = query.opened, query.rules
    unable = scheduler_files.unstartable(opened.folders.status, rules.team.members, opened.place.root)
    with opened.store.read() as view:
        page = read_inbox_page(view, rules, limit=MAX_TASKS, who=query.actor, unable=unable)
    return msgspec.to_builtins(list(page.questions)), not page.after


def count_waiting(query: PageQuery) -> int:
    """How many things wait for the caller, counted without reading what each of them asks."""
    with query.opened.store.read() as view:
        counts = count_questions(view, query.rules, query.actor)
        found = submissions_under_review(view) if query.caller.role in _REVIEWERS else []
    kinds = tuple(counts) if query.is_user else _OF_ROLE.get(query.caller.role, ())
    rows = [{"requested": one.requested, "author": one.author, "held": ()} for one in found]
    return sum(counts[kind] for kind in kinds) + len(list(_own_reviews(query, rows)))


def _own_reviews(
    query: PageQuery, rows: Iterable[Mapping[str, Any]]
) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """The submissions that the caller was asked to review, or that nobody else reviews; and whether it was asked."""
    team, own = query.rules.team, _own_names(query)
    reviewers = {Role.LEAD, Role.TESTER}
    others = {one.name for one in team.members if reviewers & team.actor(one.name).roles} - own
    for row in rows:
        is_asked = bool(own.intersection(row["requested"]))
        is_free = not row["requested"] and (query.caller.role is TokenRole.REVIEWER or not others)
        if not row["held"] and row["author"] not in own and (is_asked or is_free):
            yield row, is_asked


def _review_items(query: PageQuery, rows: Iterable[Mapping[str, Any]]) -> Iterator[InboxItem]:
    for row, is_asked in _own_reviews(query, rows):
        asked = "You were asked for a review." if is_asked else "It awaits a review, and anybody may give it."
        yield InboxItem(
            id=f"review-{row['task_id']}",
            kind=REVIEW_KIND,
            label=KINDS[REVIEW_KIND][1],
            rank=KINDS[REVIEW_KIND][0],
            task_id=row["task_id"],
            title=row["title"],
            why=f"{row['author']} handed in {row['commit'][:12]}, attempt {row['attempt']}. {asked}",
            since=row["since"],
            commit=row["commit"],
        )


PAGES = (WebPage("/", "inbox.html", "Inbox", "inbox", read_inbox, nav="Inbox", key="i"),)

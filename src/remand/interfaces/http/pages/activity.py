"""Activity: the latest events as sentences, filtered by actor and kind; events without effect are listed separately."""

from __future__ import annotations

from collections.abc import Iterator

from remand.app.history.activity import recent_events, unconfirmed_lines
from remand.app.history.task_history import story_lines
from remand.domain.access.team import COORDINATOR
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event
from remand.domain.events.log import MOVES, TOKENS
from remand.domain.record import NamedTuple
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.interfaces.http.pages.task import TimelineEntry, timeline_entry
from remand.ledger.store import Transaction

ON_PAGE = 50
READS = (200, 1000, 5000)
"""How many of the latest events are read; each larger number only if the previous one does not fill the page."""
KINDS = (
    *(
        "task",
        "handoff",
        "gate",
        "review",
        "escalation",
        "lockout",
        "run",
        "session",
        "forge",
        "token",
        "keys",
    ),
    *("objection", "feedback", "pause", "log"),
)
"""The prefixes of event names that can be selected."""
_TASK = ("task.", "node.", "edge.")
"""The prefixes of task events: tools for GoT read a task's first event and its edges."""


class ActivityRow(NamedTuple):
    """One event and its task."""

    entry: TimelineEntry
    event: str
    """The name of the event."""
    day: str
    task_id: str = ""
    title: str = ""


class ActivityPage(NamedTuple):
    rows: tuple[ActivityRow, ...]
    unconfirmed: tuple[ActivityRow, ...]
    """Events without effect, as no trusted key signed them."""
    kind: str
    actor: str
    actors: tuple[str, ...]
    older: str
    """The URL of the older events; empty if there are none, or if no more are read."""
    is_first: bool
    is_cut: bool
    """Whether there may be more events, too old to be read for a page."""
    kinds: tuple[str, ...] = KINDS

    @property
    def summary(self) -> str:
        return self.rows[0].entry.sentence if self.rows else "Nothing has happened yet."


def read_activity(query: PageQuery) -> ActivityPage:
    """The latest selected events, before the one named in the query."""
    parameters = query.address.query
    kind, actor, before = (
        parameters.get("kind", ""),
        parameters.get("actor", ""),
        parameters.get("before", ""),
    )
    with query.opened.store.read() as view:
        found, is_whole = find_events(view, kind, actor, before)
        page = found[:ON_PAGE]
        doubted = unconfirmed_lines(view, page)
        rows = tuple(_rows(view, [event for event, _ in page]))
    members = (member.name for member in query.rules.team.members)
    return ActivityPage(
        rows=tuple(row for row, (_, line) in zip(rows, page, strict=True) if line not in doubted),
        unconfirmed=tuple(row for row, (_, line) in zip(rows, page, strict=True) if line in doubted),
        kind=kind,
        actor=actor,
        actors=tuple(sorted({*members, COORDINATOR, "user", *([actor] if actor else [])})),
        older=query.address.with_values(before=page[-1][0].meta.id) if len(found) > ON_PAGE else "",
        is_first=not before,
        is_cut=not is_whole and len(found) <= ON_PAGE,
    )


def find_events(
    view: Transaction, kind: str, actor: str, before: str
) -> tuple[list[tuple[Event, bytes]], bool]:
    """The selected events, up to one page or more, and whether these are all."""
    found: list[tuple[Event, bytes]] = []
    for most in READS:
        read = recent_events(view, most)
        place = next((number for number, (event, _) in enumerate(read) if event.meta.id == before), -1)
        later = read[place + 1 :] if place >= 0 or not before else []
        found = [(event, line) for event, line in later if _is_wanted(event, kind, actor)]
        is_whole = len(view.event_rows.tail(most)) < most
        if len(found) > ON_PAGE or is_whole:
            return found, is_whole
    return found, False


def _is_wanted(event: Event, kind: str, actor: str) -> bool:
    starts = _TASK if kind == KINDS[0] else (f"{kind}.",)
    is_kind = not kind or event.name == kind or event.name.startswith(starts)
    return is_kind and (not actor or event.meta.actor == actor)


def _rows(view: Transaction, events: list[Event]) -> Iterator[ActivityRow]:
    titles: dict[str, str] = {}
    for event in events:
        task_id = event_task_id(event)
        task_id = "" if task_id in (MOVES, TOKENS) else task_id
        if task_id and task_id not in titles:
            task = view.tasks.get(task_id)
            titles[task_id] = task.title or task_id if task else ""
        (line,) = story_lines([event])
        is_known, entry = bool(titles.get(task_id)), timeline_entry(event, line)
        yield ActivityRow(
            entry=entry._replace(sentence=entry.sentence.replace(f"task {task_id}", "the task"))
            if is_known
            else entry,
            event=event.name,
            day=event.ts[:10],
            task_id=task_id if is_known else "",
            title=titles.get(task_id, ""),
        )


PAGES = (
    WebPage("/activity", "activity.html", "Activity", "log tail", read_activity, nav="Activity", key="e"),
)

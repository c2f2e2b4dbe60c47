"""Commands that show tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from remand.app.board import BY_ID, OPEN_FIRST, read_task_page, task_list_row
from remand.app.events.task_folds import task_events
from remand.app.history import task_history
from remand.app.history.task_history import story_lines
from remand.app.inbox.held_findings import HeldWork
from remand.app.inbox.objections import task_objections
from remand.app.prompts import read_rejection_context, render_prompt
from remand.app.tasks.lookup import Lineage, resolve_task_id
from remand.domain import commands as c
from remand.domain.decisions.findings import join_names
from remand.domain.decisions.forge_actions import due_forge_kinds
from remand.domain.events.event import Event
from remand.domain.events.log import WAITING, TaskArchived
from remand.domain.refusals import require_task
from remand.domain.task import Status, Task
from remand.domain.text.words import format_count
from remand.interfaces.cli.context import PAGE, Context, argument, command
from remand.interfaces.cli.output import (
    ListPage,
    NamedValues,
    Result,
    clean,
    one_line,
    table,
    write_unwrapped,
)
from remand.interfaces.cli.tasks import verdicts
from remand.interfaces.cli.tasks.changes import objection_data, objection_rows
from remand.interfaces.cli.tasks.verdicts import finding_rows, render_held_work, task_held_work
from remand.ledger import codec
from remand.ledger.event_tables import UnconfirmedEvent
from remand.ledger.store import TaskFilter, Transaction
from remand.startup import TYPE_CHECKING
from remand.wiring import forges

if TYPE_CHECKING:
    from rich.console import Console

_SPENT = ("runs", "turns", "tokens", "seconds", "cost")
HELD_HEADING = "Held until somebody settles the gates' findings:"
MOST_UNCONFIRMED = 50
"""How many events without effect a task's view shows."""
MOST_COMMANDS = 50
"""How many commands are shown below the list of tasks."""
_STORY_INDENT = 23
"""The indentation of findings and reasons below their sentence in a story."""
_COLUMNS = ("task", "status", "priority", "agent", "tries", "nos", "title")


@command(
    "task list",
    argument(
        "--status",
        nargs="+",
        action="extend",
        default=[],
        choices=[status.value for status in Status],
        metavar="S",
    ),
    argument(
        "--holder", default="", metavar="AGENT", help="only tasks that this agent holds or has submitted"
    ),
    argument("--skill", default="", metavar="NAME", help="only tasks that require this skill"),
    argument("--text", default="", metavar="WORDS", help="only tasks with these words in id, title or alias"),
    argument("--sessions", action="store_true", help="the sessions that hold no task, and nothing else"),
    *PAGE,
)
def _list(context: Context) -> Result:
    options = context.arguments
    if options.sessions:
        return verdicts.session_list(context)
    wanted = TaskFilter(
        statuses=tuple(options.status), agent=options.holder, skill=options.skill, text=options.text
    )
    # Of a list for people no more is read than is shown; what programs read is complete, or the page they ask for.
    is_json, is_page = context.call.is_json, hasattr(options, "page_limit")
    limit = options.page_limit if is_page else -1 if is_json else context.row_limit or -1
    with context.opened_ledger.store.read() as view:
        page = read_task_page(
            view,
            wanted,
            limit=limit,
            after=options.page_after if is_page else "",
            order=BY_ID if is_json else OPEN_FIRST,
        )
    rows: list[dict[str, Any]] = msgspec.to_builtins(page.rows)
    works: dict[str, HeldWork] = {}
    for row in rows:
        work = task_held_work(context, find_task(context, row["task_id"])[0]) if row["held"] else None
        row["held"] = msgspec.to_builtins(work.findings) if work else []
        works |= {work.task_id: work} if work else {}

    def show(out: Console) -> None:
        cells = [
            (
                row["task_id"],
                "held" if row["held"] else row["status"],
                row["priority"],
                row["agent"] or "",
                row["attempt_count"] or "",
                row["rejection_count"] + row["gate_rejection_count"] or "",
                f"{row['alias']} {row['title']}" if row["alias"] else row["title"],
            )
            for row in rows
        ]
        none = "There are no tasks. Add one: remand task add TITLE"
        table(_COLUMNS, cells, none)(out)
        if page.after:
            is_counted = not (wanted.agent or wanted.skill or wanted.text)
            total = sum(
                count for name, count in page.counts.items() if name in (wanted.statuses or page.counts)
            )
            hidden = f"{total - len(rows):,} more" if is_counted else "More"
            out.print(f"{hidden} are not shown; --limit N shows more, --all shows all.", crop=False)
        if works:
            write_unwrapped(out, _settle_commands(works.values()))

    return Result(ListPage(rows, page.after) if is_page else rows, show)


def _settle_commands(held_works: Iterable[HeldWork]) -> str:
    """One command for each held finding that the actor may settle; for tasks without any, who may settle them."""
    findings = [finding for work in held_works for finding in work.findings if finding.accept]
    rows = [row for finding in findings[:MOST_COMMANDS] for row in finding_rows(finding)]
    if len(findings) > MOST_COMMANDS:
        rows.append(f"  and {len(findings) - MOST_COMMANDS} more: remand review list")
    rows += [
        f"  {work.task_id} waits for {join_names(work.settlers)}"
        for work in held_works
        if not any(finding.accept for finding in work.findings)
    ]
    return "\n".join([HELD_HEADING, *rows])


def find_task(context: Context, name: str) -> tuple[Task, list[Event]]:
    """A task and its events; refuses an unknown name."""
    with context.opened_ledger.store.read() as view:
        return read_task(view, name)


def read_task(view: Transaction, name: str) -> tuple[Task, list[Event]]:
    """A task and its events from a view; refuses an unknown name."""
    task = require_task(view.tasks.get(resolve_task_id(view, name)), name)
    return task, task_events(view, task.id)


def unconfirmed_row(unconfirmed_event: UnconfirmedEvent) -> dict[str, Any]:
    """An event without effect, as a plain row."""
    event = codec.decode_stored_line(unconfirmed_event.line)
    return {
        "ts": event.ts,
        "event": event.name,
        "actor": event.meta.actor,
        "event_id": unconfirmed_event.event_id,
        "task_id": unconfirmed_event.task,
        "signer": unconfirmed_event.signer or None,
        "why": unconfirmed_event.doubt.value,
    }


@command("task show", argument("id"))
def _show(context: Context) -> Result:
    opened = context.opened_ledger
    with opened.store.read() as view:
        # All of one moment, the row as well: another process may write meanwhile.
        task, events = read_task(view, context.arguments.id)
        objections = task_objections(view, task)
        unconfirmed = view.unconfirmed.of_task(task.id, MOST_UNCONFIRMED + 1)
        row = msgspec.to_builtins(task_list_row(task))
        archive = _archive_data(view, task, events)
    history = task_history.event_rows([event for event in events if not isinstance(event, TaskArchived)])
    uncounted = task_history.uncounted_reviews(events)
    is_forge_relevant = (
        (bool(task.pr) and not task.is_terminal) or bool(due_forge_kinds(task)) or bool(task.forge.given_up)
    )
    data: dict[str, Any] = row | {
        "scope": task.details.scope,
        "category": task.details.category,
        "skills": list(task.details.skills),
        "aliases": list(task.details.aliases),
        "must_pass": list(task.details.must_pass),
        "parent": task.links.parent or None,
        "children": list(task.links.children),
        "superseded_by": task.links.superseded_by or None,
        "depends_on": list(task.links.depends_on),
        "waits_for": list(task.links.waits_for),
        "waiting_for": task.claims.waiting_for or None,
        "waits_for_forge": waits_for_forge(context, task.id).get(task.id) if is_forge_relevant else None,
        "lease_expires_at": task.claim.lease_expires_at if task.claim else None,
        "runs": _select_events(history, "run.start", "run.end"),
        "spent": {name: getattr(task.spent, name) for name in _SPENT},
        "submission": msgspec.to_builtins(task.submission),
        "history": history,
        "handoffs": msgspec.to_builtins(task_history.task_handoffs(events)),
        "rejections": _select_events(
            history, "handoff.reject", "handoff.reject.invalid", "gate.reject", "review.reject"
        ),
        "decisions": _select_events(history, "handoff.reject.response"),
        "verdicts": _select_events(history, "gate.pass", "gate.reject", "gate.hold", "gate.error"),
        "reviews": task_history.task_reviews(task, events),
        "not_counted": msgspec.to_builtins(uncounted),
        "lockouts": [msgspec.to_builtins(lockout) for lockout in task.active_lockouts],
        "escalations": msgspec.to_builtins(task_history.task_questions(task, events)),
        "reassignments": _select_events(history, "task.reassign"),
        "bypasses": _select_events(history, "review.bypass"),
        "conflicts": [msgspec.to_builtins(conflict) for conflict in task.inbox.conflicts],
        "unconfirmed": sorted(
            map(unconfirmed_row, unconfirmed[:MOST_UNCONFIRMED]),
            key=lambda event: (event["ts"], event["event_id"]),
        ),
        "has_more_unconfirmed": len(unconfirmed) > MOST_UNCONFIRMED,
        **objection_data(objections),
        "asserted": list(task_history.asserted_actors(events)),
        **archive,
    }
    held_work = task_held_work(context, task)
    data["held"] = msgspec.to_builtins(held_work.findings) if held_work else []
    remarks = [
        *(review.text for review in uncounted),
        *(f"objection: {row}" for row in objection_rows(objections)),
        *(f"archive: {archive[name]}" for name in archive),
    ]
    return Result(data, _page(task, data, events, held_work, remarks))


def _archive_data(view: Transaction, task: Task, events: list[Event]) -> dict[str, str]:
    """For an archived task, where its earlier lines are, and whether an event waits for them."""
    archives = [event.archive for event in events if isinstance(event, TaskArchived)]
    found = {"archived": f"its lines are in archive {archives[-1][:16]}"} if archives else {}
    waiting = [one for one in view.missing.of_tasks({task.id}) if one.session.startswith(WAITING)]
    return found | ({"waits_for_archive": waiting[0].description} if waiting else {})


def waits_for_forge(context: Context, *task_ids: str) -> dict[str, str]:
    """What tasks with a pull request wait for on the forge, by the last poll."""
    return forges.forge_waits(context.opened_ledger, task_ids)


def _select_events(history: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    return [row for row in history if row["event"] in names]


def _page(
    task: Task, data: dict[str, Any], events: list[Event], held_work: HeldWork | None, remarks: list[str]
) -> Callable[[Console], None]:
    spent = task.spent
    cost = [format_count(spent.runs, "run"), f"{spent.seconds / 60:.1f} min"]
    cost += [format_count(spent.turns, "turn")] if spent.turns else []
    cost += [f"${spent.cost:.2f}"] if spent.cost else []
    asserted = ", ".join(data["asserted"])
    rows = [
        ("task id", task.id),
        ("status", f"{task.status} (held)" if held_work else task.status.value),
        ("priority", data["priority"]),
        ("agent", data["agent"]),
        ("lease expires at", data["lease_expires_at"]),
        ("branch", data["branch"]),
        ("aliases", ", ".join(task.details.aliases)),
        ("skills", ", ".join(task.details.skills)),
        ("spent", ", ".join(cost) if spent.runs else ""),
        ("depends on", ", ".join(task.links.depends_on)),
        ("waits for", ", ".join(task.links.waits_for)),
        ("forge", one_line(data["waits_for_forge"] or "", 300)),
        ("locked out", ", ".join(lockout.agent for lockout in task.active_lockouts)),
        ("asserted", f"{asserted} (unverified: they named themselves)" if asserted else ""),
        ("must pass", ", ".join(task.details.must_pass)),
        ("scope", task.details.scope),
    ]
    story = story_lines(events, data["asserted"])
    problems = [
        f"conflict: {conflict.event} at {conflict.at[:19]}: {conflict.why}"
        for conflict in task.inbox.conflicts
    ]
    for row in data["unconfirmed"]:
        signed = f"signer {row['signer']}" if row["signer"] else "not signed"
        problems.append(
            f"unconfirmed: {row['event']} at {row['ts'][:19]} by {row['actor']} ({signed}), without effect"
        )
    if data["has_more_unconfirmed"]:
        problems.append("unconfirmed: there are more; remand log verify lists them")

    def show(out: Console) -> None:
        from rich.padding import Padding
        from rich.text import Text

        out.print(Text(clean(task.title), style="bold"))
        NamedValues(rows)(out)
        if held_work is not None:
            _, _, block = render_held_work(held_work, most=len(held_work.findings)).partition("\n")
            write_unwrapped(out, f"{HELD_HEADING}\n{block}")
        for line in remarks:
            out.print(Text(clean(line)))
        out.print()
        for at, sentence, details in story:
            out.print(Text(at[:19].replace("T", " "), style="dim") + Text(f"  {clean(sentence)}"))
            for detail in details:
                out.print(Padding.indent(Text(clean(detail)), _STORY_INDENT))
        for line in problems:
            out.print(Text(clean(line), style="red"))

    return show


@command("task prompt", argument("id"), argument("--agent"))
def _prompt(context: Context) -> Result:
    """Prints the prompt. Before it is shown, it is recorded that the holder received its feedback."""
    task, events = find_task(context, context.arguments.id)
    actor = context.actor(option="agent")
    is_held = task.claim is not None and task.claim.agent != actor
    if task.reviews.feedback or task.people.lockouts or task.links.parent or is_held:
        context.ask(c.FetchFeedback(task_id=task.id, agent=actor), actor)
        task, events = find_task(context, task.id)
    settings = context.opened_ledger.settings
    is_for_another = False
    with context.opened_ledger.store.read() as view:
        earlier_rejections = read_rejection_context(view, task, events)
        if task.claim is not None:
            # The user reads what the agent reads, to hand it on; anybody else is told whose task it is.
            team = settings.rules().team.with_task_names(Lineage(view).participant_names(task))
            reader = context.limit(team.actor(actor, confined=context.is_confined))
            is_for_another = reader.name != task.claim.agent and not reader.is_user
    home = settings.settings().forge.home
    text = render_prompt(task, events, earlier_rejections, home, is_for_another=is_for_another)
    return Result({"task_id": task.id, "prompt": text}, clean(text))


@command("task ready", *PAGE)
def _ready(context: Context) -> Result:
    limit = context.row_limit
    with context.opened_ledger.store.read() as view:
        names = view.queue.ready()
        tasks = [view.tasks.get(name) for name in names[: limit or None]]
    rows: list[tuple[object, ...]] = [
        (task.id, task.status, task.details.priority, task.title) for task in tasks if task
    ]
    rows += [(name,) for name in names[len(tasks) :]]  # only counted
    columns = ("task", "status", "priority", "title")
    return Result(names, table(columns, rows, "Nothing can be claimed now.", limit=limit))

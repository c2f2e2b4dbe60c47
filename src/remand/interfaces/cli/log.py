"""Commands on the event log and on the journal of what agents ran."""

from __future__ import annotations

import os
import time
from contextlib import closing
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from remand.app.errors import UsageError
from remand.app.events.missing_lines import Repair, waiting_tasks
from remand.app.history.activity import REJECTION_EVENTS, event_text
from remand.app.log import repair
from remand.app.log.archive import ARCHIVE_AFTER_DAYS, archive_log, fetch_archive, is_archive_due
from remand.app.log.exchange import import_folder, move_log, publish_all, publish_task
from remand.app.log.verification import state_digest
from remand.domain.events.event import Event
from remand.domain.instant import Instant, add_seconds, is_instant
from remand.domain.text.words import format_count
from remand.interfaces.cli.context import MAX_ROWS, Context, argument, command, require_no_password
from remand.interfaces.cli.output import Result, as_json, clean, one_line, table, write_unwrapped
from remand.interfaces.cli.tasks.views import find_task, unconfirmed_row
from remand.ledger import codec
from remand.ledger.order import order_key
from remand.ledger.signatures import Doubt
from remand.wiring.gates import journal_reader
from remand.wiring.ledger import event_publisher, open_at
from remand.wiring.open_ledger import OpenLedger

if TYPE_CHECKING:
    from rich.console import Console


_JOURNAL_COLUMNS = ("time", "agent", "host", "exit", "reported twice", "command")


@command(
    "journal",
    argument("id"),
    argument("--agent", default="", help="only this agent's commands"),
    argument("--transcripts", action="store_true", help="compare with the hosts' own transcripts"),
)
def _journal(context: Context) -> Result:
    options = context.arguments
    task, _ = find_task(context, options.id)
    journal = journal_reader(context.opened_ledger)
    kept = journal.read_task(task.id)
    runs = [run for run in kept.uses if options.agent in ("", run.agent)]
    rows = [msgspec.structs.asdict(run) for run in runs]
    if options.transcripts:
        for run, row in zip(runs, rows, strict=True):
            row["is_seconded"] = journal.find_in_transcripts(run) is not None
    data = {"task_id": task.id, "runs": rows, "is_chained": kept.is_chained, "problems": list(kept.problems)}
    cells = [
        (
            row["ts"][:19],
            row["agent"],
            row["host"],
            "" if row["exit_status"] is None else row["exit_status"],
            "" if "is_seconded" not in row else "yes" if row["is_seconded"] else "no",
            row["command"] or " ".join((row["tool"], *row["paths"])),
        )
        for row in rows
    ]
    nothing = "No hook has recorded a command on this task. `remand init --hosts` installs the hooks."

    def show(out: Console) -> None:
        from rich.text import Text

        table(_JOURNAL_COLUMNS, cells, nothing)(out)
        for problem in kept.problems:
            out.print(Text(clean(f"the journal: {problem}"), style="red"))

    return Result(data, show)


_DATE_LENGTH = len("2026-01-31")
_POLL_SECONDS = 0.3
REBUILT = "Rebuilt every table from the event files. Run `remand log verify` again to see what is left."


class ListedEvent(NamedTuple):
    """An event of the log, and why it has no effect, if it has none."""

    event: Event
    doubt: Doubt

    @property
    def name(self) -> str:
        """The event's name, with a mark when it has no effect."""
        mark = "void" if self.doubt is Doubt.VOID else "unconfirmed"
        return f"{self.event.name} ({mark})" if self.doubt else self.event.name


def _latest(context: Context, count: int) -> list[ListedEvent]:
    with context.opened_ledger.store.read() as view:
        events = sorted(map(codec.decode_stored_line, view.event_rows.tail(count)), key=order_key)
        doubts = {found.event_id: found.doubt for found in view.unconfirmed.every()}
    return (
        [ListedEvent(event, doubts.get(event.meta.id, Doubt.NONE)) for event in events[-count:]]
        if count > 0
        else []
    )


@command(
    "log tail",
    argument("-n", dest="count", type=int, default=20, metavar="N", help="how many (20)"),
    argument("-f", dest="follow", action="store_true", help="follow until interrupted"),
)
def _tail(context: Context) -> Result:
    if context.arguments.follow:
        context.require_own_machine("-f")
    events = _latest(context, max(0, min(context.arguments.count, MAX_ROWS)))
    if context.arguments.follow:
        _follow(context, events)
    rows = [
        (listed.event.ts[:23], listed.name, listed.event.meta.actor, _gist(listed.event)) for listed in events
    ]
    data = [_plain(listed) for listed in events]
    return Result(data, table(("time", "event", "actor", "what"), rows, "The log is empty."))


def _follow(context: Context, events: list[ListedEvent]) -> None:
    """Prints events as they arrive, one on each line, until interrupted."""
    seen: set[str] = set()
    write = context.origin.stdout.write
    while True:
        for listed in events:
            if listed.event.meta.id not in seen:
                seen.add(listed.event.meta.id)
                actor = one_line(listed.event.meta.actor, 16)
                line = f"{listed.event.ts[:23]}  {listed.name:<18} {actor:<16} {_gist(listed.event)}"
                write((as_json(_plain(listed)) if context.call.is_json else line) + "\n")
        context.origin.stdout.flush()
        time.sleep(_POLL_SECONDS)
        context.opened_ledger.ledger.refresh()
        events = _latest(context, 500)


def _plain(listed: ListedEvent) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(listed.event)
    mark = {"unconfirmed": True} if listed.doubt else {}
    if listed.doubt is Doubt.VOID:
        mark["void"] = True
    return {"ts": listed.event.ts} | fields | {"event": listed.event.name} | mark


def _gist(event: Event) -> str:
    if isinstance(event, REJECTION_EVENTS):
        return one_line(f"{event.task_id or event.handoff_id}: {event_text(event)}", 200)
    fields = msgspec.to_builtins(event)
    skipped = ("ts", "meta", "event", "context", "epoch")
    parts = [f"{name}={value}" for name, value in fields.items() if name not in skipped and value]
    return one_line("  ".join(parts), 110)


@command("log verify")
def _verify(context: Context) -> Result:
    opened = context.opened_ledger
    ledger = opened.ledger
    found = repair.verify_ledger(ledger)
    if found.is_ledger_wrong:
        repair.restore_tables(ledger)
    problems = [msgspec.to_builtins(problem) for problem in found.problems]
    aside = [msgspec.to_builtins(file) for file in found.set_aside if os.path.exists(file.file)]
    for problem in (*problems, *aside):
        problem["file"] = _relative(context, problem["file"])
    unconfirmed = [unconfirmed_row(event) for event in found.unconfirmed]
    given = [_repair_row(one) for one in found.given_up]
    data = {
        "events": found.events,
        "ok": found.ok,
        "problems": problems,
        "unconfirmed": unconfirmed,
        "given_up": given,
    }
    data |= (
        {"set_aside": [{"file": one["file"], "message": one["problem"]} for one in aside]} if aside else {}
    )
    if found.ok:
        void = sum(event.doubt is Doubt.VOID for event in found.unconfirmed)
        others = len(unconfirmed) - void
        text = f", {others} of them unconfirmed (`remand keys` shows whose)" if others else ""
        text += f", {void} void" if void else ""
        rest = "".join(f"\n{one['text']}" for one in given)
        rest += "".join(
            f"\n{one['file']} {one['problem']}. Delete it once you have seen it." for one in aside
        )
        return Result(data, f"{format_count(found.events, 'event')}, all valid{text}.{rest}")
    rows = [(problem["file"], problem["line"] or "", problem["problem"]) for problem in problems]
    listed = table(("file", "line", "problem"), rows, "", wraps=True)

    def show(out: Console) -> None:
        listed(out)
        if found.is_ledger_wrong:
            write_unwrapped(out, REBUILT)

    return Result(data, show, code=1)


def _repair_row(found: Repair) -> dict[str, Any]:
    lines, event = found.lines, found.event
    numbers = f"event {lines.first}" if lines.first == lines.last else f"events {lines.first} to {lines.last}"
    where = (
        f"{numbers} of session {lines.session}" if lines.session else f"line {lines.first} of a changed file"
    )
    about = f" about {lines.task}" if lines.task else ""
    why = f": {one_line(found.reason, 200)}" if found.reason else ""
    return {
        "session": lines.session or None,
        "first": lines.first,
        "last": lines.last,
        "task_id": lines.task or None,
        "by": found.by,
        "at": event.ts,
        "reason": found.reason,
        "text": f"{where}{about}: given up by {found.by} on {event.ts[:16]}{why}",
    }


@command(
    "log repair",
    argument("--reason", metavar="TEXT", help="the reason, for later readers of the log"),
    argument("--yes", action="store_true", help="make the proposed repairs; without it nothing is changed"),
)
def _repair(context: Context) -> Result:
    actor, ledger = context.user(), context.opened_ledger.ledger
    repair.compare_with_base(ledger)
    found = repair.find_damage(ledger)
    is_done = bool(found) and context.arguments.yes
    if is_done:
        repair.repair_damage(ledger, actor, context.text(context.arguments.reason))
    shown = [msgspec.to_builtins(replace(one, file=_relative(context, one.file))) for one in found]
    data = {"found": shown, "repaired": is_done}
    if not found:
        return Result(data, "There is nothing to repair.")
    rows = [(one.what, one.proposal) for one in found]
    if is_done:
        return Result(
            data,
            f"{format_count(len(found), 'finding')} settled. `remand log publish` shares it with others.",
        )
    return Result(data, table(("what was found", "what to do"), rows, "Nothing.", wraps=True))


def _relative(context: Context, path: str) -> str:
    return os.path.relpath(path, context.opened_ledger.place.root) if os.path.isabs(path) else path


@command("log rebuild")
def _rebuild(context: Context) -> Result:
    count = repair.rebuild_from_files(context.opened_ledger.ledger)
    return Result({"events": count}, f"Rebuilt every table from {format_count(count, 'event')}.")


@command("log digest")
def _digest(context: Context) -> Result:
    with context.opened_ledger.store.read() as view:
        text, count = state_digest(view)
        waiting = waiting_tasks(view)
    data = {"digest": text, "events": count} | ({"waiting": waiting} if waiting else {})
    rest = (
        f"; waiting for archived lines: {', '.join(waiting)} (remand log archive --fetch)" if waiting else ""
    )
    return Result(data, f"{text}  {format_count(count, 'event')}{rest}")


@command("log import", argument("folder", metavar="DIR", help="the folder with the *.jsonl files"))
def _import(context: Context) -> Result:
    folder = os.path.join(context.origin.folder, context.arguments.folder)
    if not os.path.isdir(folder):
        raise UsageError(f"There is no folder {folder}.")
    found = import_folder(context.opened_ledger.ledger, folder, context.user())
    data = {
        "files": found.files,
        "events": found.events,
        "imported": found.imported,
        "unconfirmed": found.unconfirmed,
        "problems": [msgspec.to_builtins(p) for p in found.problems],
    }
    return Result(
        data,
        f"{format_count(found.events, 'new event')} from {format_count(found.files, 'file')}: "
        f"{format_count(found.imported, 'line')} of GoT tools imported, {format_count(found.unconfirmed, 'event')} unconfirmed, "
        f"{format_count(len(found.problems), 'problem')}.",
    )


@command(
    "log move",
    argument(
        "--to",
        required=True,
        metavar="STORE",
        help="postgresql://… of a team's database; sqlite: the ledger file in this repository",
    ),
    argument(
        "--lost",
        action="store_true",
        help="the ledger that the log moved to is lost: this one takes its place",
    ),
)
def _move(context: Context) -> Result:
    require_no_password(context.arguments.to, "--to")
    actor, opened = context.user(), context.opened_ledger
    untrusted = opened.settings.rules().untrusted_key_id(opened.ledger.keys.ensure_key())
    context.progress.show("moving the log")
    with closing(_open_move_target(opened, context.arguments.to)) as target:
        done = move_log(
            opened.ledger,
            target.ledger,
            target.store.address.partition("?")[0],
            actor,
            untrusted_key=untrusted,
            is_lost=context.arguments.lost,
        )
    data, events = msgspec.to_builtins(done), f"{format_count(done.events, 'event')}"
    if done.ledger == done.to_ledger:
        return Result(
            data,
            f"The log continues in this ledger: {events}, digest {done.digest[:12]}. Every other one is closed once it "
            "reads this: `remand log publish` shares it.",
        )
    return Result(data, f"Moved {events} to {done.to}, digest {done.digest[:12]}. This ledger is closed.")


def _open_move_target(opened: OpenLedger, to: str) -> OpenLedger:
    """Opens the ledger that a log moves into. A ledger file remembers the database from which the log comes."""
    if to != "sqlite" and not to.startswith(("postgresql://", "postgres://")):
        raise UsageError(f"--to is sqlite or postgresql://…, not {to[:40]!r}.")
    target = open_at(opened.place, store_url=to.removeprefix("sqlite"))
    if opened.store.url:
        target.store.note_origin(opened.store.address)
    return target


@command(
    "log publish", argument("--task", metavar="ID", help="publish only this task's events, on its branch")
)
def _publish(context: Context) -> Result:
    ledger, publisher = context.opened_ledger.ledger, event_publisher.GitPublisher(context.place)
    context.progress.show("committing event files")
    if context.arguments.task:
        task, _ = find_task(context, context.arguments.task)
        done = publish_task(ledger, publisher, task)
    else:
        base = context.opened_ledger.settings.usual_base()
        done = publish_all(ledger, publisher, base)
        if is_archive_due(ledger, publisher, base):
            before = add_seconds(ledger.clock.now(), -86_400 * ARCHIVE_AFTER_DAYS)
            archive_log(
                ledger, publisher, publisher.archive(), before=before, actor=context.user(), base=base
            )
    data = {"branch": done.branch, "commit": done.commit or None, "files": done.files, "events": done.events}
    if not done.commit:
        return Result(data, f"{done.branch} already has every event.")
    return Result(
        data,
        f"Committed {format_count(done.events, 'event')} ({format_count(len(done.files), 'file')}) to {done.branch} as {done.commit[:12]}.",
    )


@command(
    "log archive",
    argument(
        "--before", metavar="DATE", default="", help="archive tasks that had ended before this day (UTC)"
    ),
    argument("--fetch", action="store_true", help="read back archived lines that an event waits for"),
    argument(
        "--to", metavar="DIR", default="", help="the archive's folder, instead of branch remand/archive"
    ),
)
def _archive(context: Context) -> Result:
    options, opened = context.arguments, context.opened_ledger
    if bool(options.before) == options.fetch:
        raise UsageError("Give `--before 2026-01-01` to archive, or `--fetch` to read archived lines back.")
    folder = os.path.join(context.origin.folder, options.to) if options.to else ""
    publisher = event_publisher.GitPublisher(context.place)
    store = publisher.archive(folder)
    if options.fetch:
        context.user()
        done = fetch_archive(opened.ledger, store)
        text = (
            f"{format_count(done.events, 'event')} read in; {format_count(done.tasks, 'task')} folded again."
        )
    else:
        done = archive_log(
            opened.ledger,
            publisher,
            store,
            before=_start_of_day(options.before),
            actor=context.user(),
            base=opened.settings.usual_base(),
        )
        text = (
            f"{format_count(done.events, 'event')} of {format_count(done.tasks, 'task')} archived; event files "
            f"{done.bytes_before >> 10:,} KB before, {done.bytes_after >> 10:,} KB now."
            if done.tasks
            else "No task can be archived: none ended before that day, or all are archived."
        )
    data = {
        "archived": done.events,
        "tasks": done.tasks,
        "bytes_before": done.bytes_before,
        "bytes_after": done.bytes_after,
    }
    return Result(data, text)


def _start_of_day(text: str) -> Instant:
    moment = f"{text}T00:00:00.000000Z" if len(text) == _DATE_LENGTH else text
    if not is_instant(moment):
        raise UsageError(f"{text!r} is not a day. Write it as 2026-01-31.")
    return moment

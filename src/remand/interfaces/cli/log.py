"""Commands on the log."""

from __future__ import annotations

import os
import time
from argparse import ArgumentParser
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
from msgspec.structs import replace

from remand.app.digest import digest
from remand.app.errors import UsageError
from remand.app.happenings import ABOUT_REJECTIONS, words
from remand.app.importing import import_folder
from remand.app.missing import Repair
from remand.app.publish import publish_all, publish_task
from remand.app.repairing import find_damage, look_closely, rebuild_from_files, repair
from remand.app.restoring import restore
from remand.app.verify import verify
from remand.domain.events import Event
from remand.interfaces.cli.context import Command, Context
from remand.interfaces.cli.output import Result, as_json, one_line, table, write_whole
from remand.interfaces.cli.task_views import find_task, shown_unconfirmed
from remand.ledger import codec
from remand.ledger.order import place
from remand.ledger.signatures import Doubt

if TYPE_CHECKING:
    from rich.console import Console

_POLL_SECONDS = 0.3
MADE_ANEW = (
    "Every table was made anew from the event files. Run `remand log verify` again to see what is left."
)


def _nothing(parser: ArgumentParser) -> None:
    """Takes no arguments."""


def _tail_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("-n", dest="count", type=int, default=20, metavar="N", help="how many (20)")
    parser.add_argument("-f", dest="follow", action="store_true", help="go on until interrupted")


class Told(NamedTuple):
    """An event of the log, and why it has no effect, if it has none."""

    event: Event
    doubt: Doubt

    @property
    def name(self) -> str:
        """The event's name, with a mark when it has no effect."""
        mark = "void" if self.doubt is Doubt.VOID else "unconfirmed"
        return f"{self.event.name} ({mark})" if self.doubt else self.event.name


def _latest(context: Context, count: int) -> list[Told]:
    with context.opened.store.read() as view:
        events = sorted(map(codec.recall, view.events.tail(count)), key=place)
        doubts = {found.event_id: found.doubt for found in view.unconfirmed.every()}
    return (
        [Told(event, doubts.get(event.meta.id, Doubt.NONE)) for event in events[-count:]] if count > 0 else []
    )


def _tail(context: Context) -> Result:
    events = _latest(context, context.arguments.count)
    if context.arguments.follow:
        _follow(context, events)
    rows = [(told.event.ts[:23], told.name, told.event.meta.actor, _gist(told.event)) for told in events]
    data = [_plain(told) for told in events]
    return Result(data, table(("time", "event", "actor", "what"), rows, "The log is empty."))


def _follow(context: Context, events: list[Told]) -> None:
    """Prints events as they come, one a line, until interrupted."""
    seen: set[str] = set()
    write = context.surroundings.stdout.write
    while True:
        for told in events:
            if told.event.meta.id not in seen:
                seen.add(told.event.meta.id)
                line = as_json(_plain(told)) if context.call.is_json else _line(told)
                write(line + "\n")
        context.surroundings.stdout.flush()
        time.sleep(_POLL_SECONDS)
        context.opened.ledger.refresh()
        events = _latest(context, 500)


def _line(told: Told) -> str:
    event = told.event
    return f"{event.ts[:23]}  {told.name:<18} {one_line(event.meta.actor, 16):<16} {_gist(event)}"


def _plain(told: Told) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(told.event)
    mark = {"unconfirmed": True} if told.doubt else {}
    if told.doubt is Doubt.VOID:
        mark["void"] = True
    return {"ts": told.event.ts} | fields | {"event": told.event.name} | mark


def _gist(event: Event) -> str:
    if isinstance(event, ABOUT_REJECTIONS):
        return one_line(f"{event.task_id or event.handoff_id}: {words(event)}", 200)
    fields = msgspec.to_builtins(event)
    skipped = ("ts", "meta", "event", "context", "epoch")
    parts = [f"{name}={value}" for name, value in fields.items() if name not in skipped and value]
    return one_line("  ".join(parts), 110)


def _verify(context: Context) -> Result:
    opened = context.opened
    look_closely(opened.ledger)
    with opened.store.read() as tx:
        ledger = opened.ledger
        found = verify(
            tx, ledger.exchange, ledger.marks, ledger.clock, ledger.verifier(tx), skew=ledger.clock_skew
        )
    if found.is_ledger_wrong:
        restore(ledger)
    problems = [msgspec.to_builtins(problem) for problem in found.problems]
    aside = [msgspec.to_builtins(one) for one in found.set_aside if os.path.exists(one.file)]
    for problem in (*problems, *aside):
        problem["file"] = (
            os.path.relpath(problem["file"], opened.place.root)
            if os.path.isabs(problem["file"])
            else problem["file"]
        )
    unconfirmed = [shown_unconfirmed(one) for one in found.unconfirmed]
    given = [_shown_repair(one) for one in found.given_up]
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
        void = sum(one.doubt is Doubt.VOID for one in found.unconfirmed)
        others = len(unconfirmed) - void
        told = f", {others} of them unconfirmed (`remand keys` says whose)" if others else ""
        told += f", {void} void" if void else ""
        rest = "".join(f"\n{one['text']}" for one in given)
        rest += "".join(
            f"\n{one['file']} {one['problem']}. Delete it when you have seen it." for one in aside
        )
        return Result(data, f"{found.events} events, all in order{told}.{rest}")
    rows = [(problem["file"], problem["line"] or "", problem["problem"]) for problem in problems]
    listed = table(("file", "line", "problem"), rows, "", wraps=True)

    def show(out: Console) -> None:
        listed(out)
        if found.is_ledger_wrong:
            write_whole(out, MADE_ANEW)

    return Result(data, show, code=1)


def _shown_repair(found: Repair) -> dict[str, Any]:
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


def _repair_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--reason", metavar="TEXT", help="why, for those who read the log later")
    parser.add_argument(
        "--yes", action="store_true", help="do what is proposed; without it nothing is changed"
    )


def _repair(context: Context) -> Result:
    actor, ledger = context.user(), context.opened.ledger
    look_closely(ledger)
    found = find_damage(ledger)
    is_done = bool(found) and context.arguments.yes
    if is_done:
        repair(ledger, actor, context.text(context.arguments.reason))
    shown = [msgspec.to_builtins(replace(one, file=_relative(context, one.file))) for one in found]
    data = {"found": shown, "repaired": is_done}
    if not found:
        return Result(data, "There is nothing to repair.")
    rows = [(one.what, one.proposal) for one in found]
    if is_done:
        return Result(
            data, f"{_count(len(found), 'finding')} settled. `remand log publish` brings it to others."
        )
    return Result(data, table(("what was found", "what to do"), rows, "Nothing.", wraps=True))


def _relative(context: Context, path: str) -> str:
    return os.path.relpath(path, context.opened.place.root) if os.path.isabs(path) else path


def _rebuild(context: Context) -> Result:
    count = rebuild_from_files(context.opened.ledger)
    return Result({"events": count}, f"Every table was made anew from {count} events.")


def _digest(context: Context) -> Result:
    with context.opened.store.read() as view:
        text, count = digest(view)
    return Result({"digest": text, "events": count}, f"{text}  {count} events")


def _import_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("folder", metavar="DIR")


def _import(context: Context) -> Result:
    folder = os.path.join(context.surroundings.folder, context.arguments.folder)
    if not os.path.isdir(folder):
        raise UsageError(f"There is no folder {folder}.")
    found = import_folder(context.opened.ledger, folder, context.user())
    data = {
        "files": found.files,
        "events": found.events,
        "imported": found.imported,
        "unconfirmed": found.unconfirmed,
        "problems": [msgspec.to_builtins(p) for p in found.problems],
    }
    return Result(
        data,
        f"{_count(found.events, 'new event')} from {_count(found.files, 'file')}: "
        f"{_count(found.imported, 'line')} of GoT tools imported, {_count(found.unconfirmed, 'event')} unconfirmed, "
        f"{_count(len(found.problems), 'problem')}.",
    )


def _count(number: int, noun: str) -> str:
    return f"1 {noun}" if number == 1 else f"{number} {noun}s"


def _publish_arguments(parser: ArgumentParser) -> None:
    parser.add_argument("--task", metavar="ID", help="this task's events alone, on its branch")


def _publish(context: Context) -> Result:
    ledger, publisher = context.opened.ledger, context.gateway.publisher
    if context.arguments.task:
        task, _ = find_task(context, context.arguments.task)
        done = publish_task(ledger, publisher, task)
    else:
        base = context.opened.settings.base()
        done = publish_all(ledger, publisher, base)
    data = {"branch": done.branch, "commit": done.commit or None, "files": done.files, "events": done.events}
    if not done.commit:
        return Result(data, f"{done.branch} has every event already.")
    return Result(
        data, f"{done.events} events in {len(done.files)} files are on {done.branch} at {done.commit[:12]}."
    )


COMMANDS = {
    "log tail": Command(_tail_arguments, _tail),
    "log verify": Command(_nothing, _verify),
    "log rebuild": Command(_nothing, _rebuild),
    "log repair": Command(_repair_arguments, _repair),
    "log import": Command(_import_arguments, _import),
    "log publish": Command(_publish_arguments, _publish),
    "log digest": Command(_nothing, _digest),
}

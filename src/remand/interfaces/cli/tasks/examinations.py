"""Commands on what the integrity gate finds: in one change, in past commits, and what reviewers made of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from remand.app.analysis.integrity_report import (
    FINDING_EVENTS,
    AuditRow,
    ExaminedCommit,
    KindReport,
    audit_rows,
    count_settlements,
)
from remand.app.errors import UsageError
from remand.app.events.signatures import confirmed_events
from remand.domain.events.event import event_names
from remand.domain.refusals import require_commit
from remand.domain.text.words import format_count
from remand.integrity.paths import language_of
from remand.integrity.suspicions import Suspicion, Weight
from remand.interfaces.cli.context import Context, argument, command
from remand.interfaces.cli.output import Result, table

AUDITED = 500
"""How many commits an audit looks at, where neither a range nor a date is given."""
_SINCE = argument("--since", metavar="DATE", default="", help="a day or a time, local unless it has a zone")


@command(
    "gate examine",
    argument(
        "base",
        nargs="?",
        default="",
        help="what to compare with; by default, where the head left the base branch",
    ),
    argument("head", nargs="?", default="HEAD", help="the commit to examine; HEAD by default"),
    argument(
        "--each", metavar="RANGE", default="", help="every commit of a range, each with its parent; no merges"
    ),
)
def _examine(context: Context) -> Result:
    options = context.arguments
    if options.each:
        if options.base:
            raise UsageError("Give a base and a head, or --each with a range, not both.")
        pairs = context.gateway.repository.commits_with_parents(options.each)
        rows = [_change_data(context, base, head) for head, base in pairs]
        held = sum(_is_held(row) for row in rows)
        text = "\n\n".join(_text_of(row) for row in rows if row["findings"])
        summary = f"{held} of {format_count(len(rows), 'commit')} would be held."
        return Result(rows, f"{text}\n\n{summary}" if text else summary, 1 if held else 0)
    row = _change_data(context, *_change(context))
    return Result(row, _text_of(row), 1 if _is_held(row) else 0)


def _change(context: Context) -> tuple[str, str]:
    """The two commits to compare: the head, and where it left the base."""
    options, repository = context.arguments, context.gateway.repository
    head = require_commit(repository.commit(options.head), options.head).sha
    if options.base:
        base = require_commit(repository.commit(options.base), options.base).sha
        return context.gates.merge_base(head, base) or base, head
    base = context.gates.prepare_base(head)
    if not base or base == head:  # on the base branch itself: its last commit
        base = require_commit(repository.commit(f"{head}^"), f"{options.head}^").sha
    return base, head


def _change_data(context: Context, base: str, head: str) -> dict[str, Any]:
    found = context.gates.examine(base, head)
    return {"base": base, "head": head, "findings": [_finding_data(one) for one in found]}


def _finding_data(one: Suspicion) -> dict[str, Any]:
    return {
        "id": one.id,
        "kind": one.code,
        "path": one.path,
        "line": one.line,
        "text": one.text,
        "held": one.weight is Weight.HELD,
        "rests_on": "text",
    }


def _is_held(row: dict[str, Any]) -> bool:
    return any(one["held"] for one in row["findings"])


def _text_of(row: dict[str, Any]) -> str:
    head = row["head"][:12]
    if not row["findings"]:
        return f"{head}: nothing was found, compared with {row['base'][:12]}."
    lines = [f"{head}, compared with {row['base'][:12]}:"]
    for one in sorted(row["findings"], key=lambda one: not one["held"]):
        where = f"{one['path']}:{one['line']}" if one["line"] else one["path"]
        lines.append(f"- {'held' if one['held'] else 'note'} {one['kind']} {where}\n  {one['text']}")
    return "\n".join(lines)


@command(
    "audit",
    argument(
        "range",
        nargs="?",
        default="",
        help="the commits to examine; by default the latest 500, or all since a date",
    ),
    _SINCE,
)
def _audit(context: Context) -> Result:
    since, names = context.since(), context.arguments.range
    limit = 0 if names or since else AUDITED
    pairs = context.gateway.repository.commits_with_parents(names or "HEAD", since=since, limit=limit)
    examined = [ExaminedCommit(head, _held_kinds(context.gates.examine(base, head))) for head, base in pairs]
    rows = audit_rows(examined)
    held = [one.commit for one in examined if one.held]
    data = {
        "commits": len(examined),
        "held": len(held),
        "kinds": msgspec.to_builtins(rows),
        "held_commits": held,
    }
    summary = f"{len(held)} of {format_count(len(examined), 'commit')} would be held ({_percent(len(held), len(examined))})."
    return Result(data, _audit_page(rows, summary))


def _held_kinds(found: Iterable[Suspicion]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (one.code, language_of(one.path) or "other") for one in found if one.weight is Weight.HELD
    )


def _percent(part: int, whole: int) -> str:
    return f"{part / max(1, whole):.1%}"


def _audit_page(rows: list[AuditRow], summary: str) -> Any:
    cells = [(row.kind, row.language, row.commits, f"{row.share:.1%}", row.example[:12]) for row in rows]
    show_table = table(("kind", "language", "commits", "share", "latest"), cells, "Nothing was found.")

    def show(out: Any) -> None:
        show_table(out)
        out.print(summary)

    return show


@command("analyze integrity", _SINCE)
def _integrity(context: Context) -> Result:
    reports = _settlements(context, context.since())
    cells = [
        (one.kind, one.found, one.accepted, one.refused, one.undone, _percent(one.accepted, one.found))
        for one in reports
    ]
    columns = ("kind", "found", "accepted", "refused", "undone or open", "accepted of found")
    return Result(msgspec.to_builtins(reports), table(columns, cells, "No finding has held work yet."))


def _settlements(context: Context, since: str = "") -> list[KindReport]:
    with context.opened_ledger.store.read() as view:
        return count_settlements(confirmed_events(view, event_names(*FINDING_EVENTS)), since)

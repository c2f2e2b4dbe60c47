"""Commands on gates: run, history, report, the integrity gate's findings, and reviewers' decisions on them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from time import monotonic
from typing import Any

import msgspec

from remand.app.errors import EnvironmentFault, UsageError
from remand.app.events.signatures import confirmed_events
from remand.app.gates.known_results import MeasurementTerms, note_measured_gates
from remand.app.inbox.held_findings import (
    FINDING_EVENTS,
    AuditRow,
    ExaminedCommit,
    KindReport,
    audit_rows,
    count_settlements,
    settled_kinds,
)
from remand.domain import commands as c
from remand.domain.decisions import findings
from remand.domain.decisions.gates import (
    MergeFacts,
    require_current_base,
    require_gates_table,
    require_release,
)
from remand.domain.events import work
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import KnownBy, event_names
from remand.domain.gate import message
from remand.domain.gate.gate import policy_digest
from remand.domain.gate.state import find_measured_gates
from remand.domain.gate.verdict import UNMEASURED, GateStatus, Verdict
from remand.domain.refusals import require_commit
from remand.domain.task import Task
from remand.domain.text.words import format_count
from remand.integrity.paths import language_of
from remand.integrity.suspicions import (
    KINDS,
    NEVER_SETTLED,
    Settlement,
    Suspicion,
    Weight,
    describe_change,
    explain_kind,
)
from remand.interfaces.cli.context import PAGE, Context, argument, command
from remand.interfaces.cli.output import Result, table
from remand.interfaces.cli.tasks import verdicts
from remand.interfaces.cli.tasks.views import find_task
from remand.ledger.codec import decode_stored_line
from remand.ledger.order import order_key
from remand.ledger.signatures import Doubt
from remand.wiring.ledger import open_log_copy

MAX_SERVER_WAIT = 600.0
"""How many seconds a server waits for gates at most."""
VERDICT_EVENTS = (work.GatePassed, work.GateRejected, work.GateHeld, work.GateErrored)
EVENTS = (*VERDICT_EVENTS, work.GateAlerted, work.FindingAccepted, work.FindingRefused, work.GateOverridden)


_HISTORY_COLUMNS: dict[str, Callable[[dict[str, Any]], str]] = {
    "time": lambda row: row["ts"][5:16].replace("T", " "),
    "task": lambda row: row["task_id"],
    "event": lambda row: row["event"],
    "agent": lambda row: row["agent"],
    "commit": lambda row: (row["commit"] or "")[:12],
    "says": lambda row: row["says"],
}
"""The columns of the history in text output."""


@command(
    "gate run",
    argument("--commit", default="HEAD", metavar="SHA"),
    argument("--task", default="", metavar="ID", help="count findings already accepted for this task"),
    argument("--base", default="", metavar="REF", help="the commit to compare with"),
    argument("--fresh", action="store_true", help="run the gates again, even if the result is known"),
)
def _run(context: Context) -> Result:
    options = context.arguments
    task = find_task(context, options.task)[0] if options.task else None
    repository, settings = context.gateway.repository, context.opened_ledger.settings
    commit = require_commit(repository.commit(options.commit), options.commit).sha
    terms = context.gates.terms(task, commit)
    if options.base:
        base = require_commit(repository.commit(options.base), options.base).sha
        known = settings.at_commit(base)
        policy = known.gate_policy if known else terms.policy
        terms = MeasurementTerms(commit=commit, base=base, policy=policy, prepare_base=terms.prepare_base)
    require_gates_table(terms.policy.gates)
    with context.gate_progress():
        judged = context.gates.verdict(terms, is_fresh=options.fresh)
    # A result under the current rules closes the questions about these gates, but not on an agent's word.
    is_current = policy_digest(terms.policy) == settings.rules().gates_digest
    if is_current and not judged.is_cached and not context.is_confined:
        note_measured_gates(context.opened_ledger.ledger, find_measured_gates(judged.verdict))
    change = context.opened_ledger.ledger.control.find_change(task, terms.commit)
    verdict = findings.hold_for_control_change(judged.verdict, change)
    verdict = findings.apply_settlements(verdict, task) if task else verdict
    code = 3 if verdict.status in UNMEASURED else 0 if verdict.allows_submission else 1
    source = settings.settings().source
    note = ""
    if verdict.gates:
        note += f"\nMeasured at tier {verdict.tier}{', from an earlier run' if judged.is_cached else ''}."
    if verdict.gates and not verdict.base:
        why = "The base already contains this commit" if settings.tip() else "There is no base"
        note += f"\n{why}: compared with nothing; integrity checks were skipped."
    note += verdicts.rules_note(source)
    if not terms.policy.enforce:
        note += "\nNothing is enforced here (`enforce = false`): this blocks no done claim."
    data = verdicts.verdict_data(context, verdict, is_cached=judged.is_cached) | {"policy_source": source}
    return Result(data, message.render_report(verdict, _settle_text(context, task, verdict)) + note, code)


def _settle_text(context: Context, task: Task | None, verdict: Verdict) -> str:
    """How to settle held findings: with commands, if the task's work is already held for them."""
    if verdict.status is not GateStatus.HELD:
        return ""
    if task is None or not set(verdict.suspicions) & set(findings.open_findings(task)):
        return "After `remand task submit`, these findings hold the work until a reviewer settles them."
    team = verdicts.team_for_task(context, task)
    return findings.hold_summary(task, team) if context.is_confined else findings.hold_notice(task, team)


@command(
    "gate history",
    argument("task", nargs="?", default=""),
    argument("--observed", action="store_true", help="only results that would have blocked a done claim"),
    argument("--sessions", action="store_true", help="the results of sessions that hold no task"),
    *PAGE,
)
def _history(context: Context) -> Result:
    options = context.arguments
    if options.sessions:
        return verdicts.session_history(context)
    if options.task:
        events = find_task(context, options.task)[1]
    else:
        with context.opened_ledger.store.read() as view:
            found = confirmed_events(view, event_names(*EVENTS))
            events = sorted(found, key=lambda event: (event_task_id(event), order_key(event)))
    rows = [_history_row(event) for event in events if isinstance(event, EVENTS)]
    rows = [row for row in rows if row["observed"] or not options.observed]
    columns = [name for name in _HISTORY_COLUMNS if not (options.task and name == "task")]
    cells = [[_HISTORY_COLUMNS[name](row) for name in columns] for row in rows]
    none = "No gates have run yet."
    return Result(rows, table(columns, cells, none, limit=context.row_limit, shows_last=True))


def _history_row(event: Any) -> dict[str, Any]:
    verdict = getattr(event, "verdict", None)
    gates = verdict.gates if verdict else ()
    if verdict is not None:
        lines = [gate.line.removeprefix("- ") for gate in gates if gate.name in verdict.blocking_gates]
        text = "; ".join(lines) or "nothing blocks it"
    else:
        named = getattr(event, "finding", "") or getattr(event, "gate", "")
        text = " ".join(part for part in (named, getattr(event, "reason", "")) if part)
    return {
        "ts": event.ts,
        "event": event.name,
        "task_id": event.task_id,
        "agent": getattr(event, "agent", "") or getattr(event, "reviewer", "") or event.meta.actor,
        "status": verdict.status.value if verdict else None,
        "commit": verdict.commit if verdict else None,
        "base": verdict.base if verdict else None,
        "tier": verdict.tier if verdict else None,
        "number": getattr(event, "number", None),
        "observed": getattr(event, "is_observed", False),
        "standing": list(verdict.blocking_gates) if verdict else [],
        "held": [
            {"finding": name, "path": finding.path, "line": finding.line, "text": finding.text}
            for gate in gates
            if gate.status is GateStatus.HELD
            for name, finding in gate.held_findings
        ],
        "says": text,
    }


@command(
    "gate check",
    argument("commit", nargs="?", default="HEAD", help="the commit to merge; HEAD by default"),
    argument("--base", required=True, metavar="REF", help="the target branch, whose rules and keys apply"),
)
def _check(context: Context) -> Result:
    """Says whether a commit may be merged, by the base alone:

    from the log that its branch carries, or on a server from its own log.
    """
    options, repository = context.arguments, context.gateway.repository
    commit = require_commit(repository.commit(options.commit), options.commit)
    base = require_commit(repository.commit(options.base), options.base)
    is_server = context.origin.known_by is KnownBy.TOKEN
    with (
        nullcontext(context.opened_ledger) if is_server else open_log_copy(repository, base.sha, commit.sha)
    ) as opened:
        rules = opened.settings.rules()
        require_current_base(rules.base, base.sha, options.base)
        require_gates_table(rules.gates)
        with opened.store.read() as view:
            measured = [task for task in view.tasks.every() if task.gates.tree == commit.tree]
            doubts = tuple(
                _DOUBTS[one.doubt].format(base=options.base, signer=one.signer)
                for one in view.unconfirmed.every()
                if _is_verdict_on(one.line, commit.tree)
            )
        control = opened.ledger.control.find_change(measured[0] if measured else None, commit.sha)
        facts = MergeFacts(
            commit=commit.sha,
            tree=commit.tree,
            base=options.base,
            gates_digest=rules.gates_digest,
            doubts=doubts,
            control=control,
        )
        task = require_release(measured, facts)
    data = {
        "task_id": task.id,
        "status": task.gates.status,
        "commit": commit.sha,
        "tree": commit.tree,
        "base": base.sha,
        "policy": task.gates.policy,
        "tier": task.gates.tier,
    }
    return Result(data, f"{commit.sha[:12]} may be merged: the gates of {task.id} have passed on its code.")


_DOUBTS = defaultdict(
    lambda: "it does not count",
    {
        Doubt.UNSIGNED: "no key has signed it",
        Doubt.UNKNOWN_SIGNER: "{base} does not trust the key {signer}, which has signed it",
        Doubt.WRONG_SIGNATURE: "its signature by the key {signer} is wrong",
        Doubt.REVOKED: "{base} no longer trusts the key {signer}, which has signed it",
        Doubt.VOID: "it was declared void",
    },
)
"""Why a verdict does not count, in words."""


def _is_verdict_on(line: bytes, tree: str) -> bool:
    event = decode_stored_line(line)
    return isinstance(event, VERDICT_EVENTS) and event.verdict.tree == tree


@command("gate report", argument("name", help="the report's name, as shown in a verdict"))
def _report(context: Context) -> Result:
    name = context.arguments.name
    path = context.gates.report_path(name)
    if not path:
        raise EnvironmentFault(
            f"There is no report {name} on this machine. Reports stay on the machine where the gates ran, which keeps the last 200."
        )
    with open(path, encoding="utf-8", errors="replace") as file:
        text = file.read()
    return Result({"name": name, "path": path, "report": text}, text.rstrip("\n"))


@command(
    "gate wait",
    argument("task", nargs="?", default=""),
    argument(
        "--timeout", type=float, default=600.0, metavar="SECONDS", help="how long to wait; 600 by default"
    ),
)
def _wait(context: Context) -> Result:
    name = context.arguments.task or context.origin.environment.get("REMAND_TASK", "")
    if not name:
        return _wait_for_all(context)
    task = find_task(context, name)[0]
    if not context.gates.wait_for_runs(task.id, wait_seconds(context)):
        raise EnvironmentFault(
            f"The gates of {task.id} are still running. Wait again with `remand gate wait {task.id}`."
        )
    task, events = find_task(context, name)
    given = [event.verdict for event in events if isinstance(event, VERDICT_EVENTS)]
    if not given:
        return Result({"task_id": task.id, "status": None}, f"No gates have run for {task.id} yet.")
    verdict = given[-1]
    text = message.render_verdict(verdict)
    if verdict.status is GateStatus.HELD:
        settle_text = _settle_text(context, task, verdict) if findings.open_findings(task) else ""
        text = message.render_hold(verdict, settle_text)
    data = verdicts.verdict_data(context, verdict, text=text) | {"task_id": task.id}
    return Result(data, text, 0 if verdict.allows_submission else 1)


def wait_seconds(context: Context) -> float:
    """How long to wait; on a server this is limited, and the caller waits again."""
    timeout: float = context.arguments.timeout
    return (
        timeout if context.origin.caller is None else min(MAX_SERVER_WAIT, timeout)
    )  # also what is no number


def _wait_for_all(context: Context) -> Result:
    """Waits for the gates of every claimed task."""
    with context.opened_ledger.store.read() as view:
        claimed = [task.id for task in view.tasks.every() if task.claim is not None]
    until = monotonic() + wait_seconds(context)
    going = [name for name in claimed if not context.gates.wait_for_runs(name, max(0.0, until - monotonic()))]
    if going:
        raise EnvironmentFault(
            f"The gates of {', '.join(going)} are still running. Wait again with `remand gate wait`."
        )
    rows = [{"task_id": name, "status": find_task(context, name)[0].gates.status} for name in claimed]
    return Result(rows, "No gates are running.")


_SETTLE = (
    argument("task"),
    argument(
        "finding", nargs="?", default="", help="the finding's id; without one, the held findings are listed"
    ),
    argument("--reviewer", default=""),
    argument("--reason", default="", metavar="TEXT"),
)


@command("gate accept", *_SETTLE)
@command("gate refuse", *_SETTLE)
def _settle(context: Context) -> Result:
    options = context.arguments
    request = c.SettleFinding(
        task_id=options.task,
        finding=options.finding,
        is_accepted=context.call.command == "gate accept",
        reason=context.text(options.reason),
    )
    name = context.actor(option="reviewer")
    return verdicts.settlement_result(context, verdicts.settle_held(context, request, name), name)


@command(
    "gate override",
    argument("task"),
    argument("--gate", required=True, metavar="G", help="the gate to override, by its name in remand.toml"),
    argument("--reason", required=True, metavar="TEXT"),
)
def _override(context: Context) -> Result:
    options = context.arguments
    request = c.OverrideGate(task_id=options.task, gate=options.gate, reason=context.text(options.reason))
    name = context.actor()
    return verdicts.settlement_result(
        context, verdicts.claim_again(context, context.ask(request, name).task), name
    )


AUDITED = 500
"""How many commits an audit examines without a range or date."""
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
        "--each",
        metavar="RANGE",
        default="",
        help="every commit of a range against its parent, except merges",
    ),
)
def _examine(context: Context) -> Result:
    options = context.arguments
    with context.opened_ledger.store.read() as view:
        settled = settled_kinds(view)
    if options.each:
        if options.base:
            raise UsageError("Give a base and a head, or --each with a range, not both.")
        pairs = context.gateway.repository.commits_with_parents(options.each)
        each = context.progress.each(pairs, "examining commit")
        rows = [_change_data(context, base, head, settled) for head, base in each]
        held_count = sum(_is_held(row) for row in rows)
        text = "\n\n".join(_text_of(row) for row in rows if row["findings"])
        summary = f"{held_count} of {format_count(len(rows), 'commit')} would be held."
        return Result(rows, f"{text}\n\n{summary}" if text else summary, 1 if held_count else 0)
    row = _change_data(context, *_change(context), settled)
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


def _change_data(context: Context, base: str, head: str, settled: Mapping[str, Settlement]) -> dict[str, Any]:
    suspicions = context.gates.examine(base, head)
    findings = [_finding_data(one, settled.get(one.code, NEVER_SETTLED)) for one in suspicions]
    return {"base": base, "head": head, "findings": findings}


def _finding_data(suspicion: Suspicion, before: Settlement = NEVER_SETTLED) -> dict[str, Any]:
    return {
        "id": suspicion.id,
        "kind": suspicion.code,
        "path": suspicion.path,
        "line": suspicion.line,
        "text": suspicion.text,
        "held": suspicion.weight is Weight.HELD,
        "rests_on": "text",
        "found": describe_change(suspicion.code, suspicion.text),
        "why": KINDS[suspicion.code].harm,
        "settles": KINDS[suspicion.code].remedy,
        "accepted_before": before.accepted,
        "settled_before": before.settled,
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
        before = Settlement(one["accepted_before"], one["settled_before"])
        lines.append(f"- {'held' if one['held'] else 'note'} {one['kind']} {where}: {one['found']}")
        lines.append(f"  {explain_kind(one['kind'], before)}")
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
    each = context.progress.each(pairs, "examining commit")
    examined = [ExaminedCommit(head, _held_kinds(context.gates.examine(base, head))) for head, base in each]
    rows = audit_rows(examined)
    held_commits = [one.commit for one in examined if one.held]
    data = {
        "commits": len(examined),
        "held": len(held_commits),
        "kinds": msgspec.to_builtins(rows),
        "held_commits": held_commits,
    }
    summary = f"{len(held_commits)} of {format_count(len(examined), 'commit')} would be held ({_percent(len(held_commits), len(examined))})."
    return Result(data, _audit_page(rows, summary))


def _held_kinds(suspicions: Iterable[Suspicion]) -> frozenset[tuple[str, str]]:
    return frozenset(
        (one.code, language_of(one.path) or "other") for one in suspicions if one.weight is Weight.HELD
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

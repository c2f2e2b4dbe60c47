"""Verdicts as scripts and people read them."""

from __future__ import annotations

from typing import Any

import msgspec

from remand.app.gates.claims import Claimed
from remand.domain.gates import message
from remand.domain.gates.verdict import GateResult, Verdict
from remand.domain.refusals import Refused
from remand.interfaces.cli.context import Context
from remand.interfaces.cli.holds import held_work_of
from remand.interfaces.cli.output import Result


def verdict_data(
    context: Context, verdict: Verdict, *, is_cached: bool = False, text: str = ""
) -> dict[str, Any]:
    """A verdict as plain data."""
    return {
        "status": verdict.status.value,
        "commit": verdict.commit,
        "tree": verdict.tree,
        "base": verdict.base or None,
        "policy": verdict.policy,
        "tier": verdict.tier,
        "cached": is_cached,
        "gates": [_gate(gate) for gate in verdict.gates],
        "report": context.gates.report_path(verdict.report_name) or None,
        "message": text or message.told(verdict),
    }


def _gate(gate: GateResult) -> dict[str, Any]:
    return {
        "name": gate.name,
        "status": gate.status.value,
        "measured": gate.measured,
        "required": gate.required,
        "base": gate.base,
        "line": gate.line,
        "detail": gate.detail,
        "findings": [
            {"path": f.path, "line": f.line, "code": f.code, "text": f.text, "severity": f.severity}
            for f in gate.findings
        ],
        "finding_count": gate.finding_count,
        "failing": list(gate.failing),
        "flaky": list(gate.flaky),
        "held": list(gate.suspicions),
        "is_required": gate.is_required,
        "seconds": round(gate.seconds, 3),
    }


def rules_note(source: str) -> str:
    """Whose rules a verdict went by, where they are nobody's but the working tree's."""
    return (
        "\nThe rules are those of the working tree, as the base branch has none."
        if source == "working tree"
        else ""
    )


def claimed_result(context: Context, claimed: Claimed) -> Result:
    """What an agent learns of the done claim it made, and by whose rules it was judged."""
    answer, verdict = claimed.answer, claimed.verdict
    if isinstance(answer, Refused):
        if verdict is None:
            raise answer
        return _refused(context, answer, claimed, verdict)
    task = answer.task
    source = context.opened.settings.settings().source
    data = (
        verdict_data(context, verdict, is_cached=claimed.is_cached, text=claimed.message) if verdict else None
    )
    commit = task.submission.commit if task.submission else ""
    shown = f"{task.id} is {task.status} at {commit[:12]}\n{claimed.message}{rules_note(source)}"
    data = (data or {}) | {"policy_source": source}
    return Result({"task_id": task.id, "status": task.status.value, "verdict": data}, shown.strip())


def _refused(context: Context, refusal: Refused, claimed: Claimed, verdict: Verdict) -> Result:
    with context.opened.store.read() as view:
        task = view.tasks.get(claimed.task_id)
    held = held_work_of(context, task) if task else None
    data = {
        "refused": refusal.code,
        "message": refusal.message,
        "task_id": task.id if task else None,
        "status": task.status.value if task else None,
        "gate_rejection_count": task.gate_rejection_count if task else None,
        "verdict": verdict_data(context, verdict, is_cached=claimed.is_cached, text=refusal.message),
    }
    if held is not None:
        data["held"] = msgspec.to_builtins(held.findings)
    told = refusal.message if context.is_confined else claimed.notice or refusal.message
    return Result(data, told, 1)

"""What a rejection is checked against: the repository, the journal, and the probes that the policy allows."""

from __future__ import annotations

from typing import Any

from remand.adapters.git.commits import GitSources
from remand.adapters.git.location import LedgerLocation
from remand.adapters.journal.reader import JournalFile, Transcripts
from remand.adapters.system.web_pages import HostPages
from remand.app.ports import CommandProbes, RejectionChecks
from remand.app.rejection_facts import EvidenceChecker
from remand.app.settings import SettingsSource
from remand.domain.gate.gate import GatePolicy
from remand.domain.task import Task
from remand.wiring import gates
from remand.wiring.journal import journal_folder


def look_up_evidence(
    place: LedgerLocation, settings: SettingsSource, ledger_id: str, rejection: dict[str, Any], task: Task
) -> RejectionChecks:
    """All that can be found out about a rejection of a task."""
    policy = settings.settings().gate_policy
    base = settings.base_branch()
    with GitSources(place, base) as sources:
        checker = EvidenceChecker(
            sources,
            commands=_probes(place, ledger_id, policy) if policy.probes else None,
            pages=HostPages(policy.hosts) if policy.hosts else None,
            journal=journal_reader(ledger_id, task, settings),
        )
        return checker.check_rejection(
            rejection, f"{task.title}\n{task.details.scope}", task.id, _holder(task)
        )


def journal_reader(
    ledger_id: str, task: Task | None = None, settings: SettingsSource | None = None
) -> JournalFile:
    """The journals of a ledger's tasks; runs without a name count for the one who holds this task."""
    since = task.claim.claimed_at if task is not None and task.claim is not None else ""
    team = settings.rules().team if settings is not None else None
    return JournalFile(
        journal_folder(ledger_id),
        Transcripts(),
        since=since,
        name_of=(lambda name: team.actor(name).name) if team is not None else str,
    )


def _probes(place: LedgerLocation, ledger_id: str, policy: GatePolicy) -> CommandProbes:
    """The sandbox takes long to load, and is loaded where the policy lists a command."""
    return gates.make_evidence_commands(place, ledger_id, policy)


def _holder(task: Task) -> str:
    """Who has the task in hand: the one who claimed it, or else the one it is offered to."""
    if task.claim is not None:
        return task.claim.agent
    return task.claims.offers[-1].target if task.claims.offers else ""

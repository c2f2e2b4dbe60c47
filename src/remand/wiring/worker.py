"""Builds a worker of a ledger: what it measures, and what it does now and then."""

from __future__ import annotations

import os
from collections.abc import Callable

from remand.adapters.forges.table import stored_token
from remand.adapters.git.submissions import BaseFetcher, SubmissionStore
from remand.adapters.notices import addresses
from remand.app.gates.jobs import GATE_RUN, Chore, JobHandler, JobQueue
from remand.app.gates.queued_claims import GateWorker
from remand.app.scheduler.chores import DUE_SECONDS
from remand.app.scheduler.ledger_client import LedgerClient
from remand.config import inherited_environment
from remand.wiring.after_call import notice_delivery
from remand.wiring.forges import forge_sync
from remand.wiring.gates import job_queue, make_gates
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger

__all__ = ["job_queue", "make_handlers", "open_at", "worker_chores"]


def make_handlers(
    opened: OpenLedger, queue: JobQueue, report: Callable[[str], None]
) -> dict[str, JobHandler]:
    """How the jobs of a ledger are done here."""
    gates, environment, settings = make_gates(opened), inherited_environment(), opened.settings
    base = BaseFetcher(opened.place, settings.base_branch, environment)
    commits = SubmissionStore(opened.place, os.path.join(opened.folders.own, "packs"), environment)

    def fetch(task_id: str, commit: str) -> str:
        base.refresh()
        return commits.fetch(task_id, commit)

    worker = GateWorker(
        opened.ledger,
        settings.rules,
        claims=gates.worker_claims,
        is_current=queue.is_current,
        fetch=fetch,
        report=report,
    )
    return {GATE_RUN: worker.run}


def worker_chores(open_own: Callable[[], OpenLedger]) -> tuple[Chore, ...]:
    """What a worker does now and then, each on a ledger of its own, as far as this host has the addresses and the token."""
    opened, environment = open_own(), inherited_environment()
    settings = opened.settings.settings()
    forge, seconds = settings.forge, settings.run.interval_seconds
    made = [
        Chore("due", DUE_SECONDS, LedgerClient(opened.ledger, opened.settings.rules, str, str).settle_due)
    ]
    if addresses.read_addresses().channels:
        notices = notice_delivery(open_own())
        made.append(Chore("notices", seconds, lambda: "; ".join(notices.deliver().problems)))
    if forge.kind and (forge.find_token(environment) or stored_token(forge.kind, forge.api)):
        sync = forge_sync(open_own(), environment)
        made.append(Chore("forge", seconds, lambda: sync.sync().trouble))
    return tuple(made)

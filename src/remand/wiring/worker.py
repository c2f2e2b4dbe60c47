"""Builds a worker of a ledger: what it measures, and what it does now and then."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from remand.adapters.forges.table import stored_token
from remand.adapters.git.submissions import PACKS, BaseFetcher
from remand.adapters.notices import addresses
from remand.adapters.server import client
from remand.adapters.server.scheduler_ledger import fetch_commit
from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.system.web_pages import HostPages
from remand.app.gates.jobs import EVIDENCE_CHECK, GATE_RUN, Chore, JobHandler, JobQueue
from remand.app.gates.queued_work import GateWorker, ProbeWorker
from remand.app.scheduler.chores import DUE_SECONDS
from remand.app.scheduler.ledger_client import LedgerClient
from remand.config import inherited_environment
from remand.wiring.after_call import notice_delivery
from remand.wiring.forges import forge_sync
from remand.wiring.gates import job_queue, make_gates, make_probes
from remand.wiring.ledger import open_at
from remand.wiring.open_ledger import OpenLedger

PACK_SECONDS = 60.0
__all__ = ["job_queue", "make_handlers", "open_at", "worker_chores"]


def make_handlers(
    opened: OpenLedger, queue: JobQueue, report: Callable[[str], None], labels: Sequence[str] = ()
) -> dict[str, JobHandler]:
    """How the jobs of a ledger are done here."""
    gates, environment, settings = make_gates(opened), inherited_environment(), opened.settings
    base = BaseFetcher(opened.place, settings.base_branch, environment)
    commits = opened.submissions

    connect = partial(client.ServerClient, environment) if environment.get(client.SERVER) else None

    def fetch(task_id: str, commit: str) -> str:
        return fetch_commit(connect, commits, task_id, commit, settings.rules().base)

    worker = GateWorker(
        opened.ledger,
        settings.rules,
        claims=gates.worker_claims,
        is_current=queue.is_current,
        refresh=base.fetch_until,
        fetch=fetch,
        report=report,
        labels=gates.labels,
        own_labels=labels,
    )
    probes = ProbeWorker(
        opened.ledger,
        opened.shared_data,
        settings.rules,
        refresh=base.fetch_until,
        fetch=fetch,
        commands=lambda: make_probes(opened, settings.settings().gate_policy),
        pages=lambda: HostPages(settings.settings().gate_policy.hosts),
    )
    return {GATE_RUN: worker.run, EVIDENCE_CHECK: probes.run}


def worker_chores(open_own: Callable[[], OpenLedger]) -> tuple[Chore, ...]:
    """What a worker does now and then, each on a ledger of its own, as far as this host has the addresses and the token."""
    opened, environment = open_own(), inherited_environment()
    settings = opened.settings.settings()
    forge, seconds = settings.forge, settings.run.interval_seconds
    made = [
        Chore("due", DUE_SECONDS, LedgerClient(opened.ledger, opened.settings.rules, str, str).settle_due)
    ]
    if not isinstance(opened.store, SqliteStore):
        shared = opened.store.shared_data
        made.append(Chore("packs", PACK_SECONDS, lambda: shared.drop_of_ended_tasks(PACKS)))
    if addresses.read_addresses().channels:
        notices = notice_delivery(open_own())
        made.append(Chore("notices", seconds, lambda: "; ".join(notices.deliver().problems)))
    if forge.kind and (forge.find_token(environment) or stored_token(forge.kind, forge.api)):
        sync = forge_sync(open_own(), environment)
        made.append(Chore("forge", seconds, lambda: sync.sync().trouble))
    return tuple(made)

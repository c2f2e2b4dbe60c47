"""Builds the gates of an open ledger, their sandbox, and the lookups for judging rejections."""

from __future__ import annotations

import os

from remand.adapters import projects
from remand.adapters.gates import procrastinate_jobs
from remand.adapters.gates.results import FileCache, FileReports, watch_results
from remand.adapters.gates.tools import SystemTools, UserRegistries
from remand.adapters.git import checkouts, commits
from remand.adapters.git import mirror as git_mirror
from remand.adapters.journal import reader
from remand.adapters.journal.writer import Sessions
from remand.adapters.parsers import registry
from remand.adapters.sandbox import sandboxes
from remand.adapters.system import background_runs, web_pages
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.adapters.system.machine import RandomIds
from remand.app import rejection_facts
from remand.app.gates import queued_work, runner
from remand.app.gates.gates import Gates
from remand.app.gates.jobs import DEAD_SECONDS, JOB_KINDS, JobQueue
from remand.app.gates.ports import GateEnvironment
from remand.domain.gate.gate import GatePolicy
from remand.wiring.open_ledger import OpenLedger


def make_gates(opened: OpenLedger) -> Gates:
    """The gates of an open ledger."""
    folders = opened.folders
    return Gates(
        opened.ledger,
        opened.settings,
        root=opened.place.root,
        folder=folders.gates,
        cache=FileCache(os.path.join(folders.gates, "results")),
        tools=SystemTools(folders.gates),
        sessions=Sessions(folders.sessions),
        gate_fault=lambda gate: registry.gate_fault(gate),  # noqa: PLW0108 - the registry is loaded for a run alone
        mirror=lambda: _make_mirror(opened),
        runs=lambda: background_runs.BackgroundRuns(folders.gate_runs),
        environment=lambda gates: _make_environment(opened, gates),
        queue=(lambda: job_queue(opened)) if opened.store.url else None,
        new_key=RandomIds().hex,
    )


def job_queue(opened: OpenLedger, dead: float = DEAD_SECONDS) -> JobQueue:
    """The jobs in a ledger's database. A worker counts as dead after this many seconds."""
    times = procrastinate_jobs.JobTimes.of(dead)
    return procrastinate_jobs.ProcrastinateJobs(opened.store.url, JOB_KINDS, times)


def evidence_lookup(opened: OpenLedger) -> rejection_facts.EvidenceLookup:
    """The lookup for a rejection's evidence. If the ledger has workers, they run commands and request addresses."""
    is_own = not opened.store.url
    return rejection_facts.EvidenceLookup(
        opened.settings,
        sources=lambda base: commits.GitSources(opened.place, base),
        journal=lambda task: reader.JournalFile.for_holder(
            opened.folders.journal, opened.settings.rules().team, task
        ),
        commands=lambda policy: make_probes(opened, policy) if is_own else _queued_probes(opened),
        pages=lambda hosts: web_pages.HostPages(hosts) if is_own else _queued_probes(opened),
    )


def _queued_probes(opened: OpenLedger) -> queued_work.QueuedProbes:
    shared, settings, queue = opened.store.shared_data, opened.settings, job_queue(opened)
    return queued_work.QueuedProbes(
        opened.ledger, queue, shared, settings.rules, settings.protected_tip, RandomIds().hex
    )


def journal_reader(opened: OpenLedger) -> reader.JournalFile:
    """The journals of a ledger's tasks."""
    return reader.JournalFile(opened.folders.journal, reader.Transcripts())


def _make_mirror(opened: OpenLedger) -> git_mirror.GitMirror:
    folders, common = opened.folders, opened.place.common_dir
    return git_mirror.GitMirror(os.path.join(folders.gates, "mirror.git"), common, folders.snapshots)


def _make_environment(opened: OpenLedger, gates: Gates) -> GateEnvironment:
    mirror, tools, folders = _make_mirror(opened), SystemTools(opened.folders.gates), opened.folders
    return GateEnvironment(
        mirror=mirror,
        tree=gates.tree,
        checkouts=checkouts.best_checkouts(mirror, os.path.join(folders.gates, "checkouts")),
        sandbox=sandboxes.best_sandbox(),
        parser=registry.find_parser,
        cache=gates.cache,
        tools=tools,
        reports=FileReports(folders.reports),
        prepared=os.path.join(folders.gates, "prepared"),
        root=opened.place.root,
        path=tools.standard_path(),
        hide=(opened.place.got, state_folder(), runtime_folder()),
        scripts=os.path.dirname(projects.__file__),
        registry=UserRegistries(folders.gates),
        watch_results=watch_results,
    )


def make_probes(opened: OpenLedger, policy: GatePolicy) -> runner.EvidenceCommands:
    """Runs the commands of evidence on this machine."""
    return runner.EvidenceCommands.in_environment(make_gates(opened).environment, policy)

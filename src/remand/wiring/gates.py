"""Builds the gates of an open ledger, and what they and evidence run in."""

from __future__ import annotations

import os

from remand.adapters.gates import background_runs
from remand.adapters.gates.results import FileCache, FileReports
from remand.adapters.gates.tools import SystemTools
from remand.adapters.git import checkouts
from remand.adapters.git import mirror as git_mirror
from remand.adapters.git.location import LedgerLocation
from remand.adapters.journal.writer import Sessions
from remand.adapters.parsers import registry
from remand.adapters.sandbox import sandboxes
from remand.adapters.system.folders import gates_folder, runtime_folder, state_folder
from remand.app.gates import runner
from remand.app.gates.gates import Gates
from remand.app.gates.ports import GateEnvironment
from remand.domain.gate.gate import GatePolicy
from remand.wiring.open_ledger import OpenLedger


def make_gates(opened: OpenLedger) -> Gates:
    """The gates of an open ledger."""
    place, folder = opened.place, gates_folder(opened.store.value("id"))
    return Gates(
        opened.ledger,
        opened.settings,
        root=place.root,
        folder=folder,
        cache=FileCache(os.path.join(folder, "results")),
        tools=SystemTools(),
        sessions=Sessions(os.path.join(folder, "sessions")),
        gate_fault=lambda gate: registry.gate_fault(gate),  # noqa: PLW0108 - the registry is loaded for a run alone
        mirror=lambda: _make_mirror(place, folder),
        runs=lambda: background_runs.BackgroundRuns(os.path.join(folder, "runs")),
        environment=lambda gates: _make_environment(gates, place, folder),
    )


def _make_mirror(place: LedgerLocation, folder: str) -> git_mirror.GitMirror:
    return git_mirror.GitMirror(os.path.join(folder, "mirror.git"), place.common_dir)


def _make_environment(gates: Gates, place: LedgerLocation, folder: str) -> GateEnvironment:
    mirror, tools = _make_mirror(place, folder), SystemTools()
    return GateEnvironment(
        mirror=mirror,
        tree=gates.tree,
        checkouts=checkouts.best_checkouts(mirror, os.path.join(folder, "checkouts")),
        sandbox=sandboxes.best_sandbox(),
        parser=registry.find_parser,
        cache=gates.cache,
        tools=tools,
        reports=FileReports(os.path.join(folder, "reports")),
        prepared=os.path.join(folder, "prepared"),
        root=place.root,
        path=tools.standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )


def make_evidence_commands(
    place: LedgerLocation, ledger_id: str, policy: GatePolicy
) -> runner.EvidenceCommands:
    """Runs the commands that the policy lets evidence name."""
    folder = gates_folder(ledger_id)
    mirror = _make_mirror(place, folder)
    return runner.EvidenceCommands(
        mirror,
        checkouts.best_checkouts(mirror, os.path.join(folder, "checkouts")),
        sandboxes.best_sandbox(),
        policy,
        root=place.root,
        path=SystemTools().standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )

"""What gates and probes run in: parsers, checkouts and the sandbox. Loaded only when something has to be measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Protocol

from remand.adapters.gates.results import FileCache, FileReports
from remand.adapters.gates.tools import SystemTools, standard_path
from remand.adapters.git.checkouts import best_checkouts
from remand.adapters.git.mirror import GitMirror
from remand.adapters.parsers import (
    cargo,
    cargo_test,
    cobertura,
    coverage_json,
    eslint,
    go,
    junit,
    lcov,
    mypy,
    ruff,
    sarif,
    tap,
    tsc,
)
from remand.adapters.parsers import exit as exit_status
from remand.adapters.sandbox import sandboxes
from remand.adapters.sandbox.sandboxes import best_sandbox
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.app.errors import EnvironmentFault
from remand.app.gates.known_results import MeasurementTerms, VerdictResult
from remand.app.gates.measurement import CommitMeasurement
from remand.app.gates.ports import GateEnvironment, ReportParser, ToolOutput
from remand.app.gates.runner import EvidenceCommands
from remand.domain.gate.gate import Gate, GatePolicy, Measurement
from remand.wiring.startup import LedgerLocation, gates_folder


class _ParserModule(Protocol):
    """What every parser's file has."""

    @property
    def FIGURES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """What it measures."""

    @property
    def DEFAULTS(self) -> Mapping[str, float]:  # noqa: N802 - the same
        """The thresholds that hold where none is given."""

    def parse(self, ran: ToolOutput) -> Measurement:
        """Reads what the tool said."""


_PARSERS: dict[str, _ParserModule] = {
    "cargo": cargo,
    "cargo-test": cargo_test,
    "cobertura": cobertura,
    "coverage-json": coverage_json,
    "eslint": eslint,
    "exit": exit_status,
    "go": go,
    "junit": junit,
    "lcov": lcov,
    "mypy": mypy,
    "ruff": ruff,
    "sarif": sarif,
    "tap": tap,
    "tsc": tsc,
}
"""The parsers by the names that gates give them; each is loaded when its gate has run."""


def parser_names() -> tuple[str, ...]:
    """Every parser's name."""
    return tuple(_PARSERS)


def find_parser(name: str) -> ReportParser | None:
    """The parser of that name with its figures and default thresholds; None when there is none."""
    module = _PARSERS.get(name)
    if module is None:
        return None
    return ReportParser(parse=module.parse, figures=module.FIGURES, defaults=module.DEFAULTS)


def parser_fault(gate: Gate) -> str:
    """What a gate's configuration asks of its parser in vain; empty when it can all be had."""
    known = find_parser(gate.parser)
    if known is None:
        return f"`gates.{gate.name}.parser` is `{gate.parser}`; use one of {', '.join(parser_names())}."
    unknown = next((key for key in gate.require if key[4:] not in known.figures), "")
    if unknown:
        given = ", ".join(known.figures)
        return (
            f"`gates.{gate.name}.require.{unknown}` is about no figure of `{gate.parser}`; it gives {given}."
        )
    return ""


def parser_figures(name: str) -> tuple[str, ...]:
    """The figures a parser can give, which `max_…` and `min_…` may be about; none when there is no such parser."""
    known = find_parser(name)
    return known.figures if known else ()


def parser_defaults(name: str) -> Mapping[str, float]:
    """What is required where the configuration says nothing."""
    known = find_parser(name)
    return known.defaults if known else {}


def build_gate_environment(
    place: LedgerLocation, folder: str, mirror: GitMirror, tree: Callable[[str], str], cache: FileCache
) -> GateEnvironment:
    """The workshop of a ledger, its checkouts and sandbox tried out."""
    return GateEnvironment(
        mirror=mirror,
        tree=tree,
        checkouts=best_checkouts(mirror, os.path.join(folder, "checkouts")),
        sandbox=sandboxes.best_sandbox(),
        parser=find_parser,
        cache=cache,
        tools=SystemTools(),
        reports=FileReports(os.path.join(folder, "reports")),
        prepared=os.path.join(folder, "prepared"),
        root=place.root,
        path=standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )


def measure_commit(workshop: GateEnvironment, terms: MeasurementTerms) -> VerdictResult:
    """Measures a commit, once every gate is known to be one that can be."""
    for gate in terms.policy.gates or ():
        fault = parser_fault(gate)
        if fault:
            raise EnvironmentFault(f"remand.toml: {fault}")
    return CommitMeasurement(workshop, terms.policy).verdict(terms)


def command_probes(place: LedgerLocation, ledger_id: str, policy: GatePolicy) -> EvidenceCommands:
    """Runs the commands that the policy lets evidence name."""
    folder = gates_folder(ledger_id)
    mirror = GitMirror(os.path.join(folder, "mirror.git"), place.common_dir)
    return EvidenceCommands(
        mirror,
        best_checkouts(mirror, os.path.join(folder, "checkouts")),
        best_sandbox(),
        policy,
        root=place.root,
        path=standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )

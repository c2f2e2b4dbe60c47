"""The parsers by the names that gates give them; each is loaded when its gate has run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

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
from remand.app.gates.ports import ReportParser, ToolOutput
from remand.domain.gate.gate import Gate, Measurement


class ParserModule(Protocol):
    """What every parser's module has."""

    @property
    def FIGURES(self) -> tuple[str, ...]:  # noqa: N802 - a constant of the module
        """What it measures."""

    @property
    def DEFAULTS(self) -> Mapping[str, float]:  # noqa: N802 - the same
        """The thresholds that hold where none is given."""

    def parse(self, ran: ToolOutput) -> Measurement:
        """Reads what the tool said."""


PARSERS: dict[str, ParserModule] = {
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


def find_parser(name: str) -> ReportParser | None:
    """The parser of that name with its figures and default thresholds; None when there is none."""
    module = PARSERS.get(name)
    if module is None:
        return None
    return ReportParser(parse=module.parse, figures=module.FIGURES, defaults=module.DEFAULTS)


def gate_fault(gate: Gate) -> str:
    """Why a gate's configuration cannot be measured; empty when it can."""
    known = find_parser(gate.parser)
    if known is None:
        return f"`gates.{gate.name}.parser` is `{gate.parser}`; use one of {', '.join(PARSERS)}."
    unknown = next((key for key in gate.require if key[4:] not in known.figures), "")
    if not unknown:
        return ""
    given = ", ".join(known.figures)
    return f"`gates.{gate.name}.require.{unknown}` is about no figure of `{gate.parser}`; it gives {given}."

"""Ruff: `ruff check --output-format json` (or `json-lines`)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from remand.adapters.parsers.results import Findings
from remand.adapters.parsers.tool_output import (
    document,
    objects,
    report_or_output,
    require_complaint,
    require_known_status,
)
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("errors", "warnings")
DEFAULTS = {"max_errors": 0.0}
_SEVERITIES = {"error": "error", "fatal": "error", "warning": "warning", "info": "note", "help": "note"}


class _Location(msgspec.Struct):
    row: int = 0


class _Violation(msgspec.Struct):
    filename: str
    message: str
    code: str | None = None
    location: _Location | None = None
    severity: str | None = None


def parse(ran: ToolOutput) -> Measurement:
    """Counts violations; those that ruff gives no severity are errors."""
    require_known_status(ran, "ruff", range(2))
    found = Findings(ran.root)
    for violation in _violations(report_or_output(ran)):
        found.add(
            path=violation.filename,
            line=violation.location.row if violation.location else 0,
            code=violation.code or "invalid-syntax",
            text=violation.message,
            severity=_SEVERITIES.get(violation.severity or "", "error"),
        )
    require_complaint(ran, "ruff", found.errors + found.warnings)
    return found.measurement(FIGURES)


def _violations(content: bytes) -> Iterator[_Violation]:
    content = content.strip()
    if not content:
        raise UnreadableReport(
            "ruff printed nothing; `--output-format json` prints a list even when all is well"
        )
    if content.startswith(b"["):
        yield from document(content, list[_Violation], "ruff")
        return
    for row in objects(content, _Violation):
        if isinstance(row, str):
            raise UnreadableReport("this is not a report of ruff; use `--output-format json`")
        yield row

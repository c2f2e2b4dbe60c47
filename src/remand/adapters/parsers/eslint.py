"""ESLint: `eslint -f json`."""

from __future__ import annotations

import msgspec

from remand.adapters.parsers.results import Findings
from remand.adapters.parsers.tool_output import (
    document,
    report_or_output,
    require_complaint,
    require_known_status,
)
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement

FIGURES = ("errors", "warnings")
DEFAULTS = {"max_errors": 0.0}
_ERROR = 2


class _Message(msgspec.Struct, rename="camel"):
    message: str
    severity: int = _ERROR
    rule_id: str | None = None
    line: float | None = None
    fatal: bool | None = None


class _File(msgspec.Struct, rename="camel"):
    file_path: str
    messages: list[_Message]
    error_count: int
    warning_count: int


def parse(ran: ToolOutput) -> Measurement:
    """Counts messages by their severity; those that a directive suppresses are not among them."""
    require_known_status(ran, "eslint", range(2))
    found = Findings(ran.root)
    for file in document(report_or_output(ran), list[_File], "eslint"):
        for message in file.messages:
            found.add(
                path=file.file_path,
                line=message.line or 0,
                code=message.rule_id or ("syntax" if message.fatal else ""),
                text=message.message,
                severity="error" if message.severity >= _ERROR else "warning",
            )
    require_complaint(ran, "eslint", found.errors + found.warnings)
    return found.measurement(FIGURES)

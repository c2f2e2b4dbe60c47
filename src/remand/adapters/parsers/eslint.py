"""ESLint: `eslint -f json`."""

from __future__ import annotations

import msgspec

from remand.adapters.parsers.findings import Findings
from remand.adapters.parsers.json_text import document
from remand.adapters.parsers.source import require_complaint, require_known_status, said
from remand.app.gates.ports import Ran
from remand.domain.gates.figures import Measurement

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


def parse(ran: Ran) -> Measurement:
    """Counts messages by their severity; those that a directive suppresses are not among them."""
    require_known_status(ran, "eslint", range(2))
    found = Findings(ran.root)
    for file in document(said(ran), list[_File], "eslint"):
        for message in file.messages:
            found.add(
                path=file.file_path,
                line=message.line or 0,
                code=message.rule_id or ("syntax" if message.fatal else ""),
                text=message.message,
                severity="error" if message.severity >= _ERROR else "warning",
            )
    require_complaint(ran, "eslint", found.errors + found.warnings)
    figures = {"errors": float(found.errors), "warnings": float(found.warnings)}
    return Measurement(figures=figures, findings=found.kept)

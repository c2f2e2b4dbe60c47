"""Mypy: its plain text, or `--output json`."""

from __future__ import annotations

import re

import msgspec

from remand.adapters.parsers.results import Findings, strip_colours
from remand.adapters.parsers.tool_output import (
    objects,
    require_complaint,
    require_known_status,
    standard_output,
)
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("errors", "notes")
DEFAULTS = {"max_errors": 0.0}
_PLAIN = re.compile(
    r"(?P<path>[^:]+)(?::(?P<line>[0-9]{1,9}))?(?::[0-9]+){0,3}: (?P<severity>error|note): (?P<text>.*)"
)
_CODE = re.compile(r"  \[([a-z0-9-]+)\]$")
_SUMMARY = re.compile(r"Found ([0-9]{1,9}) errors? in [0-9]+ files?\b")
_SUCCESS = "Success: no issues found in "
_CRASH = "INTERNAL ERROR"


class _Message(msgspec.Struct):
    file: str
    message: str
    severity: str
    line: float = 0
    code: str | None = None


class _Reader:
    """Reads line by line; lines that are neither complaint nor summary (source shown in between) are passed over."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self.declared: int | None = None
        self.is_success = False

    def read(self, line: _Message | str) -> None:
        """Takes one line in."""
        if isinstance(line, _Message):
            self._add(line.file, line.line, line.severity, line.message, line.code or "")
        elif match := _PLAIN.fullmatch(line := strip_colours(line)):
            code = _CODE.search(match["text"])
            text = match["text"][: code.start()] if code else match["text"]
            self._add(
                match["path"], int(match["line"] or 0), match["severity"], text, code[1] if code else ""
            )
        elif summary := _SUMMARY.match(line):
            self.declared = int(summary[1])
        elif line.startswith(_SUCCESS):
            self.is_success = True

    def _add(self, path: str, line: float, severity: str, text: str, code: str) -> None:
        if _CRASH in text:
            raise UnreadableReport(f"mypy crashed at {path}")
        self.found.add(path=path, line=line, code=code, text=text, severity=severity)


def parse(ran: ToolOutput) -> Measurement:
    """Counts errors; status 2 counts too when mypy says which errors kept it from going on."""
    require_known_status(ran, "mypy", range(3))
    content = standard_output(ran)
    reader = _Reader(ran.root)
    for line in objects(content, _Message):
        reader.read(line)
    found = reader.found
    if reader.declared not in (None, found.errors):
        raise UnreadableReport(
            f"mypy speaks of {reader.declared} errors, of which {found.errors} can be read"
        )
    require_complaint(ran, "mypy", found.errors)
    if not (found.errors or reader.is_success or _is_silent_json(content)):
        raise UnreadableReport("mypy reported neither issues nor success")
    return found.measurement(FIGURES)


def _is_silent_json(content: bytes) -> bool:
    """With `--output json` an empty line is all that mypy says when it has nothing to complain of."""
    return content in (b"\n", b"\r\n")

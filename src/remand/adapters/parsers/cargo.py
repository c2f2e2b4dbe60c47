"""Cargo: `cargo build`, `check` or `clippy` with `--message-format json`."""

from __future__ import annotations

import msgspec

from remand.adapters.parsers.results import Findings
from remand.adapters.parsers.tool_output import objects, require_complaint, standard_output
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("errors", "warnings")
DEFAULTS = {"max_errors": 0.0}
_TESTED = "test result: "


class _Span(msgspec.Struct):
    file_name: str = ""
    line_start: int = 0
    is_primary: bool = False


class _Code(msgspec.Struct):
    code: str = ""


class _Diagnostic(msgspec.Struct):
    message: str
    level: str
    code: _Code | None = None
    spans: list[_Span] = []


class Message(msgspec.Struct):
    """One line of `--message-format json`."""

    reason: str
    message: _Diagnostic | None = None
    success: bool | None = None


class Build:
    """What a build complains of, each thing once however many targets repeat it, and how it ended."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self.is_finished = False
        self._seen: set[tuple[str, str, int, str]] = set()

    def read(self, line: Message) -> None:
        """Takes one message in."""
        if line.reason == "build-finished":
            self.is_finished = True
        elif line.reason == "compiler-message" and line.message is not None:
            self._add(line.message)

    def _add(self, said: _Diagnostic) -> None:
        severity = next((kind for kind in ("error", "warning") if said.level.startswith(kind)), "")
        span = next((span for span in said.spans if span.is_primary), _Span())
        key = (severity, span.file_name, span.line_start, said.message)
        if severity and key not in self._seen:
            self._seen.add(key)
            self.found.add(
                path=span.file_name,
                line=span.line_start,
                code=said.code.code if said.code else "",
                text=said.message,
                severity=severity,
            )


def parse(ran: ToolOutput) -> Measurement:
    """Counts what the compiler complains of."""
    build = Build(ran.root)
    for line in objects(standard_output(ran), Message):
        if isinstance(line, Message):
            build.read(line)
        elif line.startswith(_TESTED):
            raise UnreadableReport('this is what `cargo test` says; it is read with parser = "cargo-test"')
    if not build.is_finished:
        raise UnreadableReport(
            "cargo did not say that the build finished; does it run with --message-format json?"
        )
    require_complaint(ran, "cargo", build.found.errors)
    return build.found.measurement(FIGURES)

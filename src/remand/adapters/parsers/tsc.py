"""The TypeScript compiler: `tsc --noEmit --pretty false`, or its coloured form."""

from __future__ import annotations

import re

from remand.adapters.parsers.results import Findings, strip_colours
from remand.adapters.parsers.tool_output import error_output, lines, require_complaint, standard_output
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("errors", "warnings")
DEFAULTS = {"max_errors": 0.0}
_PLAIN = re.compile(
    r"(?P<path>[^\s(][^(]*)\((?P<line>[0-9]{1,9}),[0-9]+\): (?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)"
)
_PRETTY = re.compile(
    r"(?P<path>[^\s:][^:]*):(?P<line>[0-9]{1,9}):[0-9]+ - (?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)"
)
_GLOBAL = re.compile(r"(?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)")
_SET_UP = ("TS5", "TS6", "TS18")
"""Complaints about options and files to compile, when they are about no place in a file."""


def parse(ran: ToolOutput) -> Measurement:
    """Counts diagnostics. Silence with status 0 is how tsc says that all is well."""
    content = standard_output(ran)
    found = Findings(ran.root)
    for line in lines(content):
        _read(strip_colours(line), found)
    complaints = found.errors + found.warnings
    require_complaint(ran, "tsc", complaints)
    if not complaints and (content.strip() or error_output(ran).strip()):
        raise UnreadableReport("this is not the output of tsc, which says nothing when all is well")
    return found.measurement(FIGURES)


def _read(line: str, found: Findings) -> None:
    if match := _PLAIN.fullmatch(line) or _PRETTY.fullmatch(line):
        found.add(
            path=match["path"],
            line=int(match["line"]),
            code=match["code"],
            text=match["text"],
            severity=match["severity"],
        )
    elif match := _GLOBAL.fullmatch(line):
        if match["code"].startswith(_SET_UP):
            raise UnreadableReport(f"tsc could not begin: {match['code']}: {match['text'][:200]}")
        found.add(code=match["code"], text=match["text"], severity=match["severity"])

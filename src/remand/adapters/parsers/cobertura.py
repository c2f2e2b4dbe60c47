"""Cobertura XML, as coverage.py, istanbul, gcovr and many others write it."""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from remand.adapters.parsers.results import Coverage
from remand.adapters.parsers.tool_output import report
from remand.adapters.parsers.xml_output import walk_elements
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

FIGURES = ("coverage", "branch_coverage")
DEFAULTS: dict[str, float] = {}
_SHARES = 1_000_000
"""What a bare rate is counted in, where the report does not say of how many lines it is."""
_TOLERANCE = 0.01
_DIGITS = 10


def parse(ran: ToolOutput) -> Measurement:
    """The share of lines, and of branches where there are any. The exit status says nothing about it."""
    covered = Coverage(ran.root)
    sources: list[str] = []
    depth = 0
    for event, element in walk_elements(report(ran), "class"):
        if event == "start":
            if not depth:
                _count(element, covered)
            depth += 1
            continue
        depth -= element.tag != "class"
        if element.tag == "source":
            sources.append((element.text or "").strip())
        elif element.tag == "class":
            covered.miss(_path(element, sources), _missed_lines(element))
    return covered.measurement()


def _count(root: Element, covered: Coverage) -> None:
    if root.tag != "coverage":
        raise UnreadableReport(f"this is not a Cobertura report: it begins with <{str(root.tag)[:40]}>")
    lines, reached = _share(root, "lines", "line-rate")
    has_branches = root.get("branches-valid", "") != "0" and root.get("branch-rate") is not None
    branches, taken = _share(root, "branches", "branch-rate") if has_branches else (0, 0)
    covered.count(lines, reached, branches, taken)


def _share(root: Element, what: str, rate_name: str) -> tuple[int, int]:
    """How many there are and how many were reached, by count where the report counts, else by rate."""
    rate = _rate(root.get(rate_name, ""), rate_name)
    valid, reached = _integer(root.get(f"{what}-valid", "")), _integer(root.get(f"{what}-covered", ""))
    if valid is None or reached is None:
        return _SHARES, round(rate * _SHARES)
    if valid and abs(reached / valid - rate) > _TOLERANCE:
        raise UnreadableReport(f"the report's {rate_name} {rate} contradicts {reached} of {valid} {what}")
    return valid, reached


def _rate(text: str, name: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = -1.0
    if not 0 <= rate <= 1:
        raise UnreadableReport(f"the report's {name} is {text[:40]!r}, and should be between 0 and 1")
    return rate


def _integer(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else None


def _missed_lines(element: Element) -> list[int]:
    """The lines of a class that were not reached."""
    numbers = [
        _integer(line.get("number", "")) for line in element.iterfind("lines/line") if line.get("hits") == "0"
    ]
    return [number for number in numbers if number is not None]


def _path(element: Element, sources: list[str]) -> str:
    """A file's path, which is relative to a source folder; which one is known when there is only one."""
    path = element.get("filename", "")
    return posixpath.join(sources[0], path) if len(sources) == 1 else path

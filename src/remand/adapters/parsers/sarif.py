"""SARIF 2.1.0, which many analysers write."""

from __future__ import annotations

from urllib.parse import unquote, urljoin

import msgspec

from remand.adapters.parsers.results import Findings
from remand.adapters.parsers.tool_output import document, report_or_output, require_complaint
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement, UnreadableReport

FIGURES = ("errors", "warnings", "notes")
DEFAULTS = {"max_errors": 0.0}
_VERSION = "2.1.0"
_LEVELS = {"error": "error", "warning": "warning", "note": "note", "none": "note"}
_UNDECIDED = frozenset({"open", "review"})


class _Camel(msgspec.Struct, rename="camel"):
    """The base of SARIF's objects."""


class _Configuration(_Camel):
    level: str = "warning"


class _Rule(_Camel):
    id: str = ""
    default_configuration: _Configuration = msgspec.field(default_factory=_Configuration)


class _Driver(_Camel):
    name: str
    rules: list[_Rule] = []


class _Tool(_Camel):
    driver: _Driver


class _Address(_Camel):
    uri: str = ""
    uri_base_id: str = ""


class _Region(_Camel):
    start_line: int = 0


class _Physical(_Camel):
    artifact_location: _Address = msgspec.field(default_factory=_Address)
    region: _Region = msgspec.field(default_factory=_Region)


class _Location(_Camel):
    physical_location: _Physical = msgspec.field(default_factory=_Physical)


class _Text(_Camel):
    text: str = ""
    id: str = ""


class _Suppression(_Camel):
    status: str = "accepted"


class _Result(_Camel):
    message: _Text
    rule_id: str = ""
    rule_index: int = -1
    level: str = ""
    kind: str = "fail"
    baseline_state: str = ""
    locations: list[_Location] = []
    suppressions: list[_Suppression] | None = None

    @property
    def is_counted(self) -> bool:
        """False when it is accepted as it is, gone, or no complaint at all."""
        is_suppressed = bool(self.suppressions) and all(
            one.status == "accepted" for one in self.suppressions or ()
        )
        is_complaint = self.kind == "fail" or self.kind in _UNDECIDED
        return is_complaint and not is_suppressed and self.baseline_state != "absent"


class _Invocation(_Camel):
    execution_successful: bool = True


class _Run(_Camel):
    tool: _Tool
    results: list[_Result] | None = None
    invocations: list[_Invocation] = []
    original_uri_base_ids: dict[str, _Address] = {}


class _Log(_Camel):
    version: str
    runs: list[_Run]


def parse(ran: ToolOutput) -> Measurement:
    """Counts results by level; suppressed ones do not count."""
    log = document(report_or_output(ran), _Log, "a SARIF tool")
    if log.version != _VERSION or not log.runs:
        raise UnreadableReport(f"this is not a SARIF {_VERSION} log of a run")
    found = Findings(ran.root)
    for run in log.runs:
        _require_whole(run)
        levels = {rule.id: rule.default_configuration.level for rule in run.tool.driver.rules}
        for result in run.results or ():
            if result.is_counted:
                _add(result, run, levels, found)
    require_complaint(ran, log.runs[0].tool.driver.name[:40], found.errors + found.warnings + found.notes)
    return found.measurement(FIGURES)


def _require_whole(run: _Run) -> None:
    if run.results is None or not all(one.execution_successful for one in run.invocations):
        raise UnreadableReport(f"{run.tool.driver.name[:40]} says that it could not do its work")


def _add(result: _Result, run: _Run, levels: dict[str, str], found: Findings) -> None:
    rules = run.tool.driver.rules
    rule_id = result.rule_id
    if not rule_id and 0 <= result.rule_index < len(rules):
        rule_id = rules[result.rule_index].id
    level = "note" if result.kind in _UNDECIDED else result.level or levels.get(rule_id, "warning")
    place = result.locations[0].physical_location if result.locations else _Physical()
    found.add(
        path=_path(place.artifact_location, run.original_uri_base_ids),
        line=place.region.start_line,
        code=rule_id,
        text=result.message.text or result.message.id,
        severity=_LEVELS.get(level, "error"),
    )


def _path(address: _Address, bases: dict[str, _Address]) -> str:
    """An address as a path, or as the URI that it is when it names no file."""
    base = bases[address.uri_base_id].uri if address.uri_base_id in bases else ""
    try:
        uri = urljoin(base, address.uri) if base else address.uri
    except ValueError:
        uri = address.uri
    return uri if "://" in uri else unquote(uri)

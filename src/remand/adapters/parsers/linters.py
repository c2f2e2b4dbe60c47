"""Linters and type checkers (ruff, ESLint, mypy, tsc, SARIF), and any other command by its exit status alone."""

from __future__ import annotations

import re
from collections.abc import Iterator
from urllib.parse import unquote, urljoin

import msgspec

from remand.adapters.parsers.results import (
    Findings,
    document,
    error_output,
    last_text,
    lines,
    objects,
    report_or_output,
    require_complaint,
    require_known_status,
    standard_output,
    strip_colours,
)
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import GateFinding, Measurement, UnreadableReport

# -------------------------------------------------- Ruff: `ruff check --output-format json` (or `json-lines`)

_RUFF_SEVERITIES = {"error": "error", "fatal": "error", "warning": "warning", "info": "note", "help": "note"}


class _RuffLocation(msgspec.Struct):
    row: int = 0


class _RuffViolation(msgspec.Struct):
    filename: str
    message: str
    code: str | None = None
    location: _RuffLocation | None = None
    severity: str | None = None


def parse_ruff(ran: ToolOutput) -> Measurement:
    """Counts violations; those without a severity are errors."""
    require_known_status(ran, "ruff", range(2))
    findings = Findings(ran.root)
    for violation in _ruff_violations(report_or_output(ran)):
        findings.add(
            path=violation.filename,
            line=violation.location.row if violation.location else 0,
            code=violation.code or "invalid-syntax",
            text=violation.message,
            severity=_RUFF_SEVERITIES.get(violation.severity or "", "error"),
        )
    require_complaint(ran, "ruff", findings.errors + findings.warnings)
    return findings.measurement("errors", "warnings")


def _ruff_violations(content: bytes) -> Iterator[_RuffViolation]:
    content = content.strip()
    if not content:
        raise UnreadableReport(
            "ruff printed nothing; `--output-format json` prints a list even when all is well"
        )
    if content.startswith(b"["):
        yield from document(content, list[_RuffViolation], "ruff")
        return
    for row in objects(content, _RuffViolation):
        if isinstance(row, str):
            raise UnreadableReport("this is not a report of ruff; use `--output-format json`")
        yield row


# ----------------------------------------------------------------------------------- ESLint: `eslint -f json`

_ESLINT_ERROR = 2


class _EslintMessage(msgspec.Struct, rename="camel"):
    message: str
    severity: int = _ESLINT_ERROR
    rule_id: str | None = None
    line: float | None = None
    fatal: bool | None = None


class _EslintFile(msgspec.Struct, rename="camel"):
    file_path: str
    messages: list[_EslintMessage]
    error_count: int
    warning_count: int


def parse_eslint(ran: ToolOutput) -> Measurement:
    """Counts messages by severity; ESLint leaves out suppressed ones."""
    require_known_status(ran, "eslint", range(2))
    findings = Findings(ran.root)
    for file in document(report_or_output(ran), list[_EslintFile], "eslint"):
        for message in file.messages:
            findings.add(
                path=file.file_path,
                line=message.line or 0,
                code=message.rule_id or ("syntax" if message.fatal else ""),
                text=message.message,
                severity="error" if message.severity >= _ESLINT_ERROR else "warning",
            )
    require_complaint(ran, "eslint", findings.errors + findings.warnings)
    return findings.measurement("errors", "warnings")


# ------------------------------------------------------------------- mypy: its plain text, or `--output json`

_MYPY_PLAIN = re.compile(
    r"(?P<path>[^:]+)(?::(?P<line>[0-9]{1,9}))?(?::[0-9]+){0,3}: (?P<severity>error|note): (?P<text>.*)"
)
_MYPY_CODE = re.compile(r"  \[([a-z0-9-]+)\]$")
_MYPY_SUMMARY = re.compile(r"Found ([0-9]{1,9}) errors? in [0-9]+ files?\b")
_MYPY_SUCCESS = "Success: no issues found in "
_MYPY_CRASH = "INTERNAL ERROR"


class _MypyMessage(msgspec.Struct):
    file: str
    message: str
    severity: str
    line: float = 0
    code: str | None = None


class _MypyReader:
    """Reads mypy's text line by line. Skips lines that are neither diagnostic nor summary, such as quoted source."""

    def __init__(self, root: str) -> None:
        self.found = Findings(root)
        self.declared: int | None = None
        self.is_success = False

    def read(self, line: _MypyMessage | str) -> None:
        """Reads one line."""
        if isinstance(line, _MypyMessage):
            self._add(line.file, line.line, line.severity, line.message, line.code or "")
        elif match := _MYPY_PLAIN.fullmatch(line := strip_colours(line)):
            code = _MYPY_CODE.search(match["text"])
            text = match["text"][: code.start()] if code else match["text"]
            self._add(
                match["path"], int(match["line"] or 0), match["severity"], text, code[1] if code else ""
            )
        elif summary := _MYPY_SUMMARY.match(line):
            self.declared = int(summary[1])
        elif line.startswith(_MYPY_SUCCESS):
            self.is_success = True

    def _add(self, path: str, line: float, severity: str, text: str, code: str) -> None:
        if _MYPY_CRASH in text:
            raise UnreadableReport(f"mypy crashed at {path}")
        self.found.add(path=path, line=line, code=code, text=text, severity=severity)


def parse_mypy(ran: ToolOutput) -> Measurement:
    """Counts errors; accepts status 2, too, if mypy names the errors that made it stop."""
    require_known_status(ran, "mypy", range(3))
    content = standard_output(ran)
    reader = _MypyReader(ran.root)
    for line in objects(content, _MypyMessage):
        reader.read(line)
    findings = reader.found
    if reader.declared not in (None, findings.errors):
        raise UnreadableReport(
            f"mypy reports {reader.declared} errors, of which {findings.errors} can be read"
        )
    require_complaint(ran, "mypy", findings.errors)
    # With `--output json`, mypy prints an empty line if it finds nothing.
    if not (findings.errors or reader.is_success or content in (b"\n", b"\r\n")):
        raise UnreadableReport("mypy reported neither issues nor success")
    return findings.measurement("errors", "notes")


# -------------------------------------------- TypeScript: `tsc --noEmit --pretty false`, or its coloured form

_TSC_PLAIN = re.compile(
    r"(?P<path>[^\s(][^(]*)\((?P<line>[0-9]{1,9}),[0-9]+\): (?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)"
)
_TSC_PRETTY = re.compile(
    r"(?P<path>[^\s:][^:]*):(?P<line>[0-9]{1,9}):[0-9]+ - (?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)"
)
_TSC_GLOBAL = re.compile(r"(?P<severity>error|warning) (?P<code>TS[0-9]+): (?P<text>.*)")
_TSC_SET_UP = ("TS5", "TS6", "TS18")
"""Prefixes of diagnostics about options and input files, if they name no place in a file."""


def parse_tsc(ran: ToolOutput) -> Measurement:
    """Counts diagnostics. No output with status 0 means that tsc found nothing."""
    content = standard_output(ran)
    findings = Findings(ran.root)
    for line in lines(content):
        _read_tsc_line(strip_colours(line), findings)
    complaints = findings.errors + findings.warnings
    require_complaint(ran, "tsc", complaints)
    if not complaints and (content.strip() or error_output(ran).strip()):
        raise UnreadableReport("this is not the output of tsc, which says nothing when all is well")
    return findings.measurement("errors", "warnings")


def _read_tsc_line(line: str, findings: Findings) -> None:
    if match := _TSC_PLAIN.fullmatch(line) or _TSC_PRETTY.fullmatch(line):
        findings.add(
            path=match["path"],
            line=int(match["line"]),
            code=match["code"],
            text=match["text"],
            severity=match["severity"],
        )
    elif match := _TSC_GLOBAL.fullmatch(line):
        if match["code"].startswith(_TSC_SET_UP):
            raise UnreadableReport(f"tsc could not start: {match['code']}: {match['text'][:200]}")
        findings.add(code=match["code"], text=match["text"], severity=match["severity"])


# -------------------------------------------------------------------- SARIF 2.1.0, which many analysers write

_SARIF_VERSION = "2.1.0"
_SARIF_LEVELS = {"error": "error", "warning": "warning", "note": "note", "none": "note"}
_UNDECIDED = frozenset({"open", "review"})


class _Camel(msgspec.Struct, rename="camel"):
    """The base class of SARIF's objects."""


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
        """False if the result is accepted, resolved, or no complaint at all."""
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


def parse_sarif(ran: ToolOutput) -> Measurement:
    """Counts results by level, without suppressed ones."""
    log = document(report_or_output(ran), _Log, "a SARIF tool")
    if log.version != _SARIF_VERSION or not log.runs:
        raise UnreadableReport(f"this is not a SARIF {_SARIF_VERSION} log of a run")
    findings = Findings(ran.root)
    for run in log.runs:
        if run.results is None or not all(one.execution_successful for one in run.invocations):
            raise UnreadableReport(f"{run.tool.driver.name[:40]} reports that it could not do its work")
        levels = {rule.id: rule.default_configuration.level for rule in run.tool.driver.rules}
        for result in run.results:
            if result.is_counted:
                _add_sarif_result(result, run, levels, findings)
    require_complaint(
        ran, log.runs[0].tool.driver.name[:40], findings.errors + findings.warnings + findings.notes
    )
    return findings.measurement("errors", "warnings", "notes")


def _add_sarif_result(result: _Result, run: _Run, levels: dict[str, str], findings: Findings) -> None:
    rules = run.tool.driver.rules
    rule_id = result.rule_id
    if not rule_id and 0 <= result.rule_index < len(rules):
        rule_id = rules[result.rule_index].id
    level = "note" if result.kind in _UNDECIDED else result.level or levels.get(rule_id, "warning")
    place = result.locations[0].physical_location if result.locations else _Physical()
    findings.add(
        path=_sarif_path(place.artifact_location, run.original_uri_base_ids),
        line=place.region.start_line,
        code=rule_id,
        text=result.message.text or result.message.id,
        severity=_SARIF_LEVELS.get(level, "error"),
    )


def _sarif_path(address: _Address, bases: dict[str, _Address]) -> str:
    """A path for a SARIF address, or the URI itself if it does not name a file."""
    base = bases[address.uri_base_id].uri if address.uri_base_id in bases else ""
    try:
        uri = urljoin(base, address.uri) if base else address.uri
    except ValueError:
        uri = address.uri
    return uri if "://" in uri else unquote(uri)


# ---------------------------------------------------------------------- any other command, by its exit status

_NOT_STARTED = (126, 127)
"""The statuses with which shells and `env` report that they could not start a program."""
_MISSING_PROGRAM = re.compile(
    r"(?:^|[/\\])python[\w.]*: No module named \S|^make(?:\[\d+\])?: \*\*\* .*\bError 12[67]$"
    r"|\bEROFS\b|\bRead-only file system$",
    re.MULTILINE,
)
"""Messages about a module that `python -m` does not find (a failed import in the project's code reads
differently), about a missing program of make, and about tools in a folder that gates may not write to.
"""


def parse_exit_status(ran: ToolOutput) -> Measurement:
    """One error if the command failed, with the end of its output."""
    if ran.status == 0:
        return Measurement(figures={"errors": 0.0})
    text = last_text(ran.errors) or last_text(ran.output)
    # If this counted as an error, the same error on the base would excuse it, and a check that never ran
    # would pass.
    if ran.status in _NOT_STARTED or _MISSING_PROGRAM.search(text):
        raise UnreadableReport(f"the command ended with status {ran.status}: a program could not be started")
    finding = GateFinding(code=f"exit status {ran.status}", text=text or "The command printed nothing.")
    return Measurement(figures={"errors": 1.0}, findings=(finding,))

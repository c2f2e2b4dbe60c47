"""The results of parsers: findings, test outcomes and coverage, with texts and paths that are safe to show."""

from __future__ import annotations

import io
import json
import posixpath
import re
from codecs import BOM_UTF8, BOM_UTF16_BE, BOM_UTF16_LE
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import unquote
from xml.etree.ElementTree import ParseError, TreeBuilder

import msgspec
from defusedxml.common import DTDForbidden  # type: ignore[import-untyped]  # it comes without types
from defusedxml.ElementTree import DefusedXMLParser, iterparse  # type: ignore[import-untyped]  # as above

from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import GateFinding, Measurement, TestOutcome, UnreadableReport, WatchedTest
from remand.domain.text.words import remove_invisible, shorten

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

MAX_TEXT = 500
MAX_NUMBER = (1 << 31) - 1
_SCANNED = 20_000
_ESCAPE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)", re.DOTALL)
_BREAK = re.compile("[\\n\\t\u2028\u2029]")
_WORD = re.compile(r"[^\s()]+")
_PLACE = re.compile(r"([^:]+):([0-9]{1,9})(?::[0-9]+)?:?")
_SCHEME = "file://"
_FOREIGN = ("node_modules/", "site-packages/", "dist-packages/")


def shorten_text(text: str, limit: int = MAX_TEXT) -> str:
    """A text without colours, control and invisible characters; the beginning of a long one."""
    text = remove_invisible(_ESCAPE.sub("", text[: 8 * limit])).strip()
    return shorten(text, limit)


def one_line(text: str, limit: int = MAX_TEXT) -> str:
    """A name as one line: a path, a rule, a test's id."""
    return _BREAK.sub(" ", shorten_text(text, limit))


def last_text(content: bytes) -> str:
    """The end of a command's output, in whole lines if it has any."""
    text = remove_invisible(_ESCAPE.sub("", content[-8 * MAX_TEXT :].decode("utf-8", "replace"))).strip()
    if len(text) <= MAX_TEXT:
        return text
    end = text[-MAX_TEXT:]
    return end.partition("\n")[2] or end


def strip_colours(text: str) -> str:
    """A text without terminal escape sequences."""
    return _ESCAPE.sub("", text) if "\x1b" in text else text


def bounded_number(value: float) -> int:
    """A line number or another count, limited to what can be stored."""
    return int(min(max(value, 0), MAX_NUMBER)) if value == value else 0  # noqa: PLR0124 - NaN differs from itself


def relative_path(path: str, root: str) -> str:
    """A path or file URI relative to the repository's root; one outside the repository stays unchanged."""
    if path.startswith(_SCHEME):
        path = "/" + unquote(path.removeprefix(_SCHEME)).partition("/")[2]
    path = one_line(path)
    if not path:
        return ""
    path = posixpath.normpath(path)
    inside = root.rstrip("/") + "/"
    return path.removeprefix(inside) if root else path


def find_places(text: str, root: str) -> list[tuple[str, int]]:
    """The places in the repository that a stack trace names as `path:line`, in its order."""
    found = []
    for word in _WORD.findall(text[:_SCANNED] + text[_SCANNED:][-_SCANNED:]):
        match = _PLACE.fullmatch(word.removeprefix(_SCHEME))
        if match and "." in match[1]:
            path = relative_path(match[1], root)
            if not path.startswith(("/", "..")) and not any(part in path for part in _FOREIGN):
                found.append((path, int(match[2])))
    return found


MAX_FINDINGS = 10_000
SEVERITIES = ("error", "warning", "note")


class Findings:
    """The findings of one run, counted by severity; of very many, keeps the most severe."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._kept: dict[str, list[GateFinding]] = {severity: [] for severity in SEVERITIES}
        self._count = dict.fromkeys(SEVERITIES, 0)

    def add(
        self, *, path: str = "", line: float = 0, code: str = "", text: str = "", severity: str = "error"
    ) -> None:
        """Counts one finding. An unknown severity counts as an error."""
        severity = severity if severity in SEVERITIES else "error"
        self._count[severity] += 1
        if len(self._kept[severity]) < MAX_FINDINGS:
            finding = GateFinding(
                path=relative_path(path, self._root),
                line=bounded_number(line),
                code=one_line(code),
                text=shorten_text(text),
                severity=severity,
            )
            self._kept[severity].append(finding)

    @property
    def errors(self) -> int:
        """The number of errors."""
        return self._count["error"]

    @property
    def warnings(self) -> int:
        """The number of warnings."""
        return self._count["warning"]

    @property
    def notes(self) -> int:
        """The number of notes."""
        return self._count["note"]

    def measurement(self, *figures: str) -> Measurement:
        """The findings as a measurement, with a linter's figures: errors, warnings, notes."""
        counts = {figure: float(self._count[figure.removesuffix("s")]) for figure in figures}
        return Measurement(figures=counts, findings=self.kept_findings)

    @property
    def kept_findings(self) -> tuple[GateFinding, ...]:
        """The stored findings, errors first."""
        every = [finding for severity in SEVERITIES for finding in self._kept[severity]]
        return tuple(every[:MAX_FINDINGS])


MAX_TESTS = 500_000
MAX_ID = 400
_ID_TEXT = 8 * MAX_ID
_DAY = 86_400.0


class RunOutcomes:
    """The tests of one run by id. Tests with the same id are numbered, so that none hides another."""

    def __init__(self) -> None:
        self._tests: dict[str, TestOutcome] = {}
        self._last: dict[str, int] = {}
        self._count = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}

    def add(self, name: str, outcome: str, seconds: float = 0.0, failures: int = 1) -> str:
        """Adds one test with its failures; returns its id."""
        if len(self._tests) >= MAX_TESTS:
            raise UnreadableReport(f"the report has more than {MAX_TESTS} tests")
        test_id = own_id = _short(name)
        while test_id in self._tests:
            self._last[own_id] = self._last.get(own_id, 1) + 1
            test_id = f"{own_id}#{self._last[own_id]}"
        known = seconds if 0 <= seconds <= _DAY else 0.0
        self._tests[test_id] = TestOutcome(
            id=test_id, outcome=outcome, seconds=known, failure_count=max(1, failures)
        )
        self._count[outcome] += 1
        return test_id

    @property
    def tests(self) -> tuple[TestOutcome, ...]:
        """All tests in the order of the report."""
        return tuple(self._tests.values())

    @property
    def failures(self) -> int:
        """How many tests neither passed nor were skipped."""
        return self._count["failed"] + self._count["error"]

    @property
    def figures(self) -> dict[str, float]:
        """The numbers of tests, failures and skipped tests."""
        return {
            "tests": float(len(self._tests)),
            "failures": float(self.failures),
            "skipped": float(self._count["skipped"]),
        }


def _short(name: str) -> str:
    """A name as an id of limited length that stays unique."""
    plain = one_line(name, _ID_TEXT) or "?"
    if len(plain) <= MAX_ID and len(name) <= _ID_TEXT:
        return plain
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{plain[: MAX_ID - 17]}~{digest}"


def watched_tests(outcomes: RunOutcomes, findings: Findings) -> tuple[WatchedTest, ...]:
    """The tests of a run with what their failures say; the findings name them by id."""
    texts = {finding.code: finding.text for finding in findings.kept_findings}
    return tuple(
        WatchedTest(id=test.id, outcome=test.outcome, text=texts.get(test.id, ""), seconds=test.seconds)
        for test in outcomes.tests
    )


_RANGES = 40


class Coverage:
    """Counts lines and branches, and how many of them ran."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lines = self._reached = 0
        self._branches = self._taken = 0
        self._missed: list[tuple[str, list[int]]] = []

    def count(self, lines: int, reached: int, branches: int, taken: int) -> None:
        """Adds to the totals."""
        if not (0 <= reached <= lines and 0 <= taken <= branches):
            raise UnreadableReport("the report counts more lines or branches as reached than there are")
        self._lines += lines
        self._reached += reached
        self._branches += branches
        self._taken += taken

    def miss(self, path: str, lines: Iterable[int]) -> None:
        """Records which lines of a file did not run."""
        missed = sorted(set(lines))
        if missed:
            self._missed.append((path, missed))

    def measurement(self) -> Measurement:
        """The figures in percent; files with the most missed lines come first."""
        if not self._lines:
            raise UnreadableReport("the report has no lines of code: nothing was measured")
        figures = {"coverage": 100.0 * self._reached / self._lines}
        if self._branches:
            figures["branch_coverage"] = 100.0 * self._taken / self._branches
        findings = Findings(self._root)
        for path, missed in sorted(self._missed, key=lambda file: -len(file[1])):
            count = f"{len(missed)} line{'s' if len(missed) > 1 else ''} not covered"
            text = f"{count}: {', '.join(_ranges(missed))}"
            findings.add(path=path, line=missed[0], code="uncovered", text=text, severity="note")
        return Measurement(figures=figures, findings=findings.kept_findings)


def _ranges(numbers: list[int]) -> Iterator[str]:
    """Ascending numbers as ranges, such as 3-5; of very many, the first."""
    first = last = numbers[0]
    count = 0
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        count += 1
        if count == _RANGES or number is None:
            return
        first = last = number


MAX_BYTES = 64 << 20
MAX_LINE = 20_000


def report(ran: ToolOutput) -> bytes:
    """The report file's content. Without one, nothing was measured, whatever the exit status; raises."""
    if ran.report is None:
        raise UnreadableReport(
            f"the command ended with status {ran.status} and left no report that can be read;"
            " it has to write one to {report}"
        )
    return _decode_within_limit(ran.report, "report")


def report_or_output(ran: ToolOutput) -> bytes:
    """The report; if the command wrote none, all its output."""
    return standard_output(ran) if ran.report is None else report(ran)


def standard_output(ran: ToolOutput) -> bytes:
    """The complete standard output; raises if it was cut."""
    _require_whole(ran)
    return _decode_within_limit(ran.output, "output")


def error_output(ran: ToolOutput) -> bytes:
    """The complete standard error; raises if it was cut."""
    _require_whole(ran)
    return _decode_within_limit(ran.errors, "error output")


def lines(content: bytes) -> Iterator[str]:
    """The lines of a text; of a very long one, the beginning."""
    yield from map(_as_text, io.BytesIO(content))


def require_known_status(ran: ToolOutput, tool: str, known: range) -> None:
    """Raises if the tool's exit status says that it could not do its work."""
    if ran.status not in known:
        raise UnreadableReport(
            f"{tool} ended with status {ran.status}, which reports that it could not do its work"
        )


def require_complaint(ran: ToolOutput, tool: str, complaints: int) -> None:
    """Raises if the command failed and no result says why."""
    if ran.status != 0 and not complaints:
        raise UnreadableReport(
            f"{tool} ended with status {ran.status}, but nothing that it reports explains why"
        )


def _require_whole(ran: ToolOutput) -> None:
    if ran.is_cut:
        raise UnreadableReport(
            "the command printed more than is kept; let it print less, or write to {report} where it can"
        )


def _decode_within_limit(content: bytes, what: str) -> bytes:
    if len(content) > MAX_BYTES:
        raise UnreadableReport(f"the {what} has {len(content)} bytes; at most {MAX_BYTES} are read")
    if content.startswith((BOM_UTF16_LE, BOM_UTF16_BE)):
        return content.decode("utf-16", "replace").encode("utf-8", "replace")
    return content.removeprefix(BOM_UTF8)


Shape = TypeVar("Shape")


def document(content: bytes, shape: type[Shape], tool: str) -> Shape:
    """Decodes one JSON document of a known shape; ignores other fields."""
    try:
        return _read(content, shape)
    except (ValueError, RecursionError) as wrong:
        raise UnreadableReport(f"this is not a report of {tool} in JSON: {str(wrong)[:200]}") from None


def objects(content: bytes, shape: type[Shape]) -> Iterator[Shape | str]:
    """For each line, the JSON object of that shape, or the line itself if it is none."""
    decode = msgspec.json.Decoder(shape).decode
    for line in io.BytesIO(content):
        if not line.startswith(b"{"):
            yield _as_text(line)
            continue
        try:
            yield decode(line)
        except (ValueError, RecursionError):
            yield _decode_slowly(line, shape)


def values(text: str) -> Iterator[object]:
    """Successive JSON values in a text; raises `ValueError` if something else follows."""
    decoder = json.JSONDecoder(strict=False, parse_constant=str)
    place, end = 0, len(text)
    while place < end:
        if text[place].isspace():
            place += 1
            continue
        try:
            value, place = decoder.raw_decode(text, place)
        except RecursionError:
            raise ValueError("nested too deeply") from None
        yield value


def _read(content: bytes, shape: type[Shape]) -> Shape:
    try:
        return msgspec.json.decode(content, type=shape)
    except msgspec.ValidationError:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError):
        # Tools may write what the fast decoder refuses: invalid UTF-8, unpaired surrogates.
        text = content.decode("utf-8", "replace")
        return msgspec.convert(json.loads(text, strict=False, parse_constant=str), shape)


def _decode_slowly(line: bytes, shape: type[Shape]) -> Shape | str:
    try:
        return _read(line, shape)
    except (ValueError, RecursionError):
        return _as_text(line)


def _as_text(line: bytes) -> str:
    return line[:MAX_LINE].decode("utf-8", "replace").rstrip("\r\n")


MAX_DEPTH = 100


class _Parser(DefusedXMLParser):  # type: ignore[misc]  # its base comes without types
    """Allows a document type's name, but no declarations: no entities, no default attributes."""

    def __init__(self) -> None:
        super().__init__(target=TreeBuilder(), forbid_dtd=True)

    def defused_start_doctype_decl(self, *declared: Any) -> None:
        """Refuses declarations inside the document."""
        if declared[-1]:
            raise DTDForbidden(*declared[:3])


def walk_elements(content: bytes, whole: str) -> Iterator[tuple[str, Element]]:
    """Yields ("start", element) and ("end", element) in order; for elements named `whole`, only the end,
    complete.

    Frees each element after its end was yielded.
    """
    stack: list[Element] = []
    inside = 0
    try:
        for event, element in iterparse(io.BytesIO(content), ("start", "end"), _Parser()):
            if event == "start":
                stack.append(element)
                if len(stack) > MAX_DEPTH:
                    raise UnreadableReport(f"the XML is nested more than {MAX_DEPTH} deep")
                inside += bool(inside or element.tag == whole)
                if not inside:
                    yield event, element
                continue
            stack.pop()
            inside -= bool(inside)
            if not inside:
                yield event, element
                element.clear()
                if stack:
                    stack[-1].remove(element)
    except (ParseError, ValueError, LookupError) as wrong:
        raise UnreadableReport(f"this is not readable XML: {str(wrong)[:200]}") from None

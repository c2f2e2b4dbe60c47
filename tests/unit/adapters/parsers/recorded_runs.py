"""Runs of real tools, kept as files. `fixtures/README.md` says how they were made."""

from pathlib import Path

from remand.adapters.parsers.registry import find_parser
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement

FIXTURES = Path(__file__).parent / "fixtures"
NAMES = sorted(str(path.relative_to(FIXTURES).with_suffix("")) for path in FIXTURES.glob("*/*.status"))
_FOLDERS = {
    "cargo": "rust",
    "cargo-test": "rust",
    "cobertura": "python",
    "coverage-json": "python",
    "eslint": "js",
    "go": "go",
    "junit": "python",
    "lcov": "python",
    "mypy": "python",
    "ruff": "python",
    "sarif": "python",
    "tap": "js",
    "tsc": "js",
}
_SCRIPTS = ("eslint", "jest", "mocha", "node", "node-clean", "vitest")


def recorded(name: str) -> ToolOutput:
    """One run, named by its parser and case."""
    parser, _, case = name.partition("/")
    status = FIXTURES / f"{name}.status"

    def stream(kind: str) -> bytes | None:
        path = status.with_suffix(f".{kind}")
        return path.read_bytes() if path.exists() else None

    return ToolOutput(
        status=int(status.read_text()),
        output=stream("stdout") or b"",
        errors=stream("stderr") or b"",
        report=stream("report"),
        root=f"/src/{'js' if case in _SCRIPTS else _FOLDERS[parser]}",
    )


def parse(parser: str, ran: ToolOutput) -> Measurement:
    """What a parser reads of a run."""
    known = find_parser(parser)
    assert known is not None, f"there is no parser {parser}"
    return known.parse(ran)


def measured(name: str) -> Measurement:
    """What the parser of a recorded run reads of it."""
    return parse(name.partition("/")[0], recorded(name))


def places(found: Measurement) -> list[tuple[str, int, str]]:
    """Where the findings are, and what rule or test they are about."""
    return [(finding.path, finding.line, finding.code) for finding in found.findings]


def outcomes(found: Measurement) -> dict[str, str]:
    """How each test ended."""
    return {test.id: test.outcome for test in found.tests}

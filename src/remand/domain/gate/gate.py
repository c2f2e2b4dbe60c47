"""A configured gate, the figures its command measured, and their text form."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec

from remand.domain.record import Record

_encode = msgspec.json.Encoder(order="deterministic").encode


class GateMode(StrEnum):
    """What a gate's figures are compared with."""

    DELTA = "delta"
    """The threshold, or a base that already misses it."""
    RATCHET = "ratchet"
    """Like delta, and nothing may get worse within the threshold."""
    STRICT = "strict"
    """Only the threshold."""


class GatePreparation(Record, kw_only=True):
    """How a gate's dependencies are prepared, once per state of the lock files."""

    command: tuple[str, ...]
    """`{cache}` in it is the folder that is kept and passed to gates as `{cache}`."""
    key: tuple[str, ...] = ()
    """The files whose content determines whether it runs again."""
    timeout: float = 900.0


class Gate(Record, kw_only=True):
    """A command, the parser for its output, and the required figures."""

    name: str
    command: tuple[str, ...]
    """`{report}` in it is a file outside the checkout, `{cache}` the prepared folder."""
    parser: str = "exit"
    require: dict[str, float] = msgspec.field(default_factory=dict)
    """Thresholds by name: `max_…` or `min_…` and one of the parser's figures."""
    timeout: float = 600.0
    mode: GateMode = GateMode.DELTA
    paths: tuple[str, ...] = ()
    """Patterns of the files that the gate checks; it is skipped if a change touches none of them. Empty: it always runs."""
    required: bool = True
    """False: its result is shown but blocks nothing."""
    prepare: GatePreparation | None = None
    retries: int = 0
    """How often failed tests are rerun; one that then passes is reported as flaky."""
    labels: tuple[str, ...] = ()
    """Labels that a worker needs to run it. Local measurement ignores them."""


class RunCheck(StrEnum):
    """A kind of integrity check that needs runs; each can be disabled."""

    RESULTS = "results"
    """Results are reported as they happen, and compared with the report."""
    ASSERTIONS = "assertions"
    """Whether the assertions in a test are executed."""
    BASE_TESTS = "base-tests"
    """The base's tests run on the head's code."""
    NEW_TESTS = "new-tests"
    """New and changed tests run on the base's code."""
    MUTANTS = "mutants"
    """Changed functions are broken on purpose, and values of tests altered, which tests should detect."""


class GatePolicy(Record, kw_only=True):
    """All configured gates with their common settings."""

    gates: tuple[Gate, ...] | None = None
    """None if the configuration has no `[gates]` table."""
    integrity: bool = True
    protected: tuple[str, ...] = ()
    """Patterns of additional files that only the base may change (`[gates.integrity] protected`)."""
    runs: tuple[RunCheck, ...] = tuple(RunCheck)
    """The integrity checks that use runs (`[gates.integrity] runs`)."""
    max_suppressions: int | None = None
    """The most suppression directives the project may have (`[gates.integrity] max_suppressions`)."""
    enforce: bool = True
    """False: everything is judged and recorded, and nothing is blocked."""
    read: tuple[str, ...] = ()
    """Additional folders that gates may read (`[sandbox] read`)."""
    path: tuple[str, ...] = ()
    """Folders with the gates' tools (`[sandbox] path`); relative ones are in the main worktree."""
    probes: tuple[tuple[str, ...], ...] = ()
    """Commands that evidence may have rerun, by their first words (`[sandbox] probes`)."""
    hosts: tuple[str, ...] = ()
    """Hosts that probes may access (`[sandbox] hosts`)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """The labels that a worker needs to run all gates."""
        return tuple(sorted({label for gate in self.gates or () for label in gate.labels}))


def policy_digest(policy: GatePolicy) -> str:
    """A digest that changes with the gates' rules."""
    return sha256(_encode(policy)).hexdigest()[:16]


class GateProposal(Record, kw_only=True):
    """A proposed gate, and the evidence for it in the project."""

    name: str
    gate: Gate
    why: str


class GateProposals(Record, kw_only=True):
    """All gates suited to a project, and the folders with their tools (`[sandbox] path`)."""

    gates: tuple[GateProposal, ...] = ()
    path: tuple[str, ...] = ()


class GateFinding(Record, kw_only=True):
    """A place that a gate's tool reports."""

    path: str = ""
    """Relative to the repository's root; empty if the tool names none."""
    line: int = 0
    code: str = ""
    """The tool's identifier: a rule, an error code, a test's id."""
    text: str = ""
    severity: str = "error"
    """`error`, `warning` or `note`."""


class TestOutcome(Record, kw_only=True):
    """One collected test and its outcome: passed, failed, error or skipped (xfail counts as skipped)."""

    __test__ = False  # pytest would collect it as a test class

    id: str
    outcome: str
    seconds: float = 0.0
    failure_count: int = 1
    """The number of failures of a failed test: more than one only if its subtests fail separately."""


class WatchedTest(Record, kw_only=True):
    """One test as reported by its runner during the run."""

    id: str
    """The file without its suffix and the names after it, as reports name tests differently by runner."""
    outcome: str
    held_lines: tuple[int, ...] | None = None
    """The lines of the test's own file at which assertions were executed, 0 for an unknown one; None: not watched.

    If a runner does not report them by test, they are those of all tests in the file.
    """
    text: str = ""
    """What its first failure says."""
    seconds: float = 0.0


class Irregularity(Record, kw_only=True):
    """A disagreement between a report and what was observed during the run."""

    code: str
    """The kind of suspicion that it raises."""
    text: str


class Measurement(Record, kw_only=True):
    """A parser's result for one run of a gate's command."""

    figures: dict[str, float] = msgspec.field(default_factory=dict)
    """By name: errors, warnings, failures, tests, skipped, coverage (in percent), and others specific to a parser."""
    findings: tuple[GateFinding, ...] = ()
    tests: tuple[TestOutcome, ...] = ()
    watched: tuple[WatchedTest, ...] = ()
    """The same tests as observed during the run; empty if they were not."""
    takes_files: bool = False
    """Whether the runner could run some test files alone."""
    irregularities: tuple[Irregularity, ...] = ()


class UnreadableReport(Exception):  # noqa: N818 - a state of the report, not a fault of ours
    """The command left no valid report of its tool: the gate could not be measured."""


_COMPILERS = frozenset({"tsc", "cargo", "go"})
_PERCENT = frozenset({"coverage", "branch_coverage"})


def gate_title(name: str) -> str:
    """A gate's name as the start of a line."""
    return name[:1].upper() + name[1:]


def format_number(value: float) -> str:
    """A number without unnecessary decimals; a fraction is never shown as a whole number."""
    shown = f"{value:.2f}"
    if float(shown).is_integer() and not float(value).is_integer():
        shown = f"{value:.4f}"
    return shown.rstrip("0").removesuffix(".")


def parse_thresholds(require: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """The thresholds as (figure, `max` or `min`, limit), in order."""
    return [(name[4:], name[:3], limit) for name, limit in require.items()]


def render_figures(figures: Mapping[str, float], parser: str) -> str:
    """The measured figures in a few words: `289 passed, 2 failed`, `9 errors`."""
    if "tests" in figures:
        failed, skipped = figures.get("failures", 0.0), figures.get("skipped", 0.0)
        passed = max(figures["tests"] - failed - skipped, 0.0)
        parts = [f"{format_number(passed)} passed"]
        parts += [f"{format_number(failed)} failed"] if failed else []
        return ", ".join(parts + ([f"{format_number(skipped)} skipped"] if skipped else []))
    shown = [(name, value) for name, value in figures.items() if value or name == next(iter(figures))]
    return ", ".join(_render_figure("", parser, name, value) for name, value in shown)


def render_measurement(
    name: str, parser: str, figures: Mapping[str, float], require: Mapping[str, float]
) -> str:
    """The line of a gate: `- Lint: 509 errors, 344 warnings (requires 0 errors, max 50 warnings)`."""
    wanted = parse_thresholds(require)
    shown = ", ".join(
        _render_figure(name, parser, figure, figures.get(figure, 0.0)) for figure, _, _ in wanted
    )
    required = ", ".join(_render_limit(*row, is_alone=len(wanted) == 1) for row in wanted)
    return f"- {gate_title(name)}: {shown} (requires {required})"


def _render_figure(name: str, parser: str, figure: str, value: float) -> str:
    if figure in _PERCENT:
        return (
            f"{format_number(value)}% {figure.replace('_', ' ')}"
            if name != figure
            else f"{format_number(value)}%"
        )
    noun = figure.replace("_", " ")
    if figure == "errors" and ("build" in name or (parser in _COMPILERS and "lint" not in name)):
        noun = "compilation errors"
    return f"{format_number(value)} {_singular(noun) if value == 1 else noun}"


def _render_limit(figure: str, bound: str, limit: float, *, is_alone: bool) -> str:
    noun = figure.replace("_", " ")
    if figure in _PERCENT:
        share = f"{bound} {format_number(limit)}%" if bound == "max" else f"{format_number(limit)}%"
        return share if is_alone else f"{share} {noun}"
    if (figure, bound, limit) == ("failures", "max", 0):
        return "100% pass"
    amount = format_number(limit) if bound == "max" and limit == 0 else f"{bound} {format_number(limit)}"
    return amount if is_alone else f"{amount} {noun}"


def _singular(noun: str) -> str:
    return noun.removesuffix("s")

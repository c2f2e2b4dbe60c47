"""A gate as the configuration has it, what its command measured, and these figures in words."""

from collections.abc import Mapping
from enum import StrEnum
from hashlib import sha256

import msgspec

from remand.domain.record import Record

_encode = msgspec.json.Encoder(order="deterministic").encode


class GateMode(StrEnum):
    """What a gate's figures are compared with."""

    DELTA = "delta"
    """The threshold, or a base that misses it already."""
    RATCHET = "ratchet"
    """As delta, and within the threshold nothing may get worse."""
    STRICT = "strict"
    """The threshold alone."""


class GatePreparation(Record, kw_only=True):
    """How a gate's dependencies are made ready, once for each state of the lock files."""

    command: tuple[str, ...]
    """`{cache}` in it is the folder that is kept, and that gates find again as `{cache}`."""
    key: tuple[str, ...] = ()
    """The files whose content decides whether it runs again."""
    timeout: float = 900.0


class Gate(Record, kw_only=True):
    """A command, the parser of what it says, and the figures it must reach."""

    name: str
    command: tuple[str, ...]
    """`{report}` in it is a file outside the checkout, `{cache}` the prepared folder."""
    parser: str = "exit"
    require: dict[str, float] = msgspec.field(default_factory=dict)
    """Thresholds by name: `max_…` or `min_…` and one of the parser's figures."""
    timeout: float = 600.0
    mode: GateMode = GateMode.DELTA
    paths: tuple[str, ...] = ()
    """Patterns of the files the gate is about; untouched by a change, it is not run. None: always run."""
    required: bool = True
    """False: its result is shown and changes nothing."""
    prepare: GatePreparation | None = None
    retries: int = 0
    """How often failed tests are run again; one that then passes is flaky, and is said to be."""
    labels: tuple[str, ...] = ()
    """What a worker must have to run it. Who measures where the work is done has all of them."""


class RunCheck(StrEnum):
    """A kind of check that the integrity gate makes by runs; each can be switched off."""

    RESULTS = "results"
    """Results are told as they happen, and compared with the report."""
    ASSERTIONS = "assertions"
    """Assertions that stand in a test are executed."""
    BASE_TESTS = "base-tests"
    """The base's tests are run on the head's code."""
    NEW_TESTS = "new-tests"
    """New and changed tests are run on the base's code."""
    MUTANTS = "mutants"
    """Changed functions are broken on purpose, which new and changed tests should notice."""


class GatePolicy(Record, kw_only=True):
    """All gates of a configuration, with what holds for all of them."""

    gates: tuple[Gate, ...] | None = None
    """None when the configuration has no `[gates]` table."""
    integrity: bool = True
    protected: tuple[str, ...] = ()
    """Further patterns of files that only the base may change (`[gates.integrity] protected`)."""
    runs: tuple[RunCheck, ...] = tuple(RunCheck)
    """What the integrity gate finds out by runs (`[gates.integrity] runs`)."""
    max_suppressions: int | None = None
    """How many directives that keep a checker quiet the project may have (`[gates.integrity] max_suppressions`)."""
    enforce: bool = True
    """False: everything is judged and recorded, and nothing is stopped."""
    read: tuple[str, ...] = ()
    """Further folders that gates may read (`[sandbox] read`)."""
    path: tuple[str, ...] = ()
    """Folders where gates find their tools (`[sandbox] path`); relative ones lie in the main worktree."""
    probes: tuple[tuple[str, ...], ...] = ()
    """Commands that evidence may name to be run again, by their first words (`[sandbox] probes`)."""
    hosts: tuple[str, ...] = ()
    """Hosts a probe may look at (`[sandbox] hosts`)."""

    @property
    def labels(self) -> tuple[str, ...]:
        """What a worker must have to run all gates."""
        return tuple(sorted({label for gate in self.gates or () for label in gate.labels}))


def policy_digest(policy: GatePolicy) -> str:
    """A short text that changes when the gates' rules do."""
    return sha256(_encode(policy)).hexdigest()[:16]


class GateProposal(Record, kw_only=True):
    """One gate, and what in the project speaks for it."""

    name: str
    gate: Gate
    why: str


class GateProposals(Record, kw_only=True):
    """All gates that suit a project, and the folders in which they find their tools (`[sandbox] path`)."""

    gates: tuple[GateProposal, ...] = ()
    path: tuple[str, ...] = ()


class GateFinding(Record, kw_only=True):
    """One place a gate's tool complains about."""

    path: str = ""
    """Relative to the repository's root; empty when the tool names none."""
    line: int = 0
    code: str = ""
    """The tool's own name for it: a rule, an error code, a test's id."""
    text: str = ""
    severity: str = "error"
    """`error`, `warning` or `note`."""


class TestOutcome(Record, kw_only=True):
    """One test that was collected, and how it ended: passed, failed, error or skipped (xfail counts as skipped)."""

    __test__ = False  # pytest would take it for a test class

    id: str
    outcome: str
    seconds: float = 0.0
    failure_count: int = 1
    """How many failures a failed test has: more than one only where its subtests fail one by one."""


class WatchedTest(Record, kw_only=True):
    """One test as its runner told of it while it ran."""

    id: str
    """The file without its ending, and the names after it: what reports call a test differs by runner."""
    outcome: str
    held_lines: tuple[int, ...] | None = None
    """Where in the test's own file an assertion was executed, 0 for one whose place is not known; None: not watched.

    Where a runner does not tell them by test, they are those of all tests in the file.
    """
    seconds: float = 0.0


class Irregularity(Record, kw_only=True):
    """Something in which a report and what was told while it was made do not agree."""

    code: str
    """The kind of suspicion it gives rise to."""
    text: str


class Measurement(Record, kw_only=True):
    """What a parser read of one run of a gate's command."""

    figures: dict[str, float] = msgspec.field(default_factory=dict)
    """By name: errors, warnings, failures, tests, skipped, coverage (in percent), and what else a parser knows."""
    findings: tuple[GateFinding, ...] = ()
    tests: tuple[TestOutcome, ...] = ()
    watched: tuple[WatchedTest, ...] = ()
    """The same tests as they were told while they ran; empty where they were not."""
    takes_files: bool = False
    """True when the runner was able to run some files of tests alone."""
    irregularities: tuple[Irregularity, ...] = ()


class UnreadableReport(Exception):  # noqa: N818 - a state of the report, not a fault of ours
    """What the command left behind is no report of its tool: the gate could not be measured."""


_COMPILERS = frozenset({"tsc", "cargo", "go"})
_PERCENT = frozenset({"coverage", "branch_coverage"})


def gate_title(name: str) -> str:
    """A gate's name as a line begins with it."""
    return name[:1].upper() + name[1:]


def format_number(value: float) -> str:
    """A figure without decimals it does not need; one that is not whole is not shown as if it were."""
    shown = f"{value:.2f}"
    if float(shown).is_integer() and not float(value).is_integer():
        shown = f"{value:.4f}"
    return shown.rstrip("0").removesuffix(".")


def parse_thresholds(require: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """The thresholds as (figure, `max` or `min`, limit), in their order."""
    return [(name[4:], name[:3], limit) for name, limit in require.items()]


def render_figures(figures: Mapping[str, float], parser: str) -> str:
    """What was measured, in a few words: `289 passed, 2 failed`, `9 errors`."""
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

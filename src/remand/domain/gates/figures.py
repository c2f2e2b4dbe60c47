"""What a gate's command showed: figures, findings, and the tests it ran."""

from __future__ import annotations

import msgspec

from remand.domain.record import Record


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


class Measurement(Record, kw_only=True):
    """What a parser read of one run of a gate's command."""

    figures: dict[str, float] = msgspec.field(default_factory=dict)
    """By name: errors, warnings, failures, tests, skipped, coverage (in percent), and what else a parser knows."""
    findings: tuple[GateFinding, ...] = ()
    tests: tuple[TestOutcome, ...] = ()


class Unreadable(Exception):  # noqa: N818 - a state of the report, not a fault of ours
    """What the command left behind is no report of its tool: the gate could not be measured."""

"""Sets how large the campaigns are and how Hypothesis searches, holds decisions to their rows, and has a run say what it was.

`make test` runs every test that is not marked `more`, with small campaigns. `make test-more` runs those that are, and
the campaigns again at medium size. `REMAND_CAMPAIGN` names another size. In CI a test that is skipped has failed.
"""

from __future__ import annotations

import gc
import math
import os
import signal
import time
from collections.abc import Callable, Generator
from functools import wraps
from typing import Any

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings

from remand.domain.commands import CommandContext
from remand.domain.decide import COMMON_REFUSALS, RULES, CommandRule
from remand.domain.events.event import Events
from remand.domain.refusals import Refused
from tests.support.postgres import database, postgres_server, shared_database

__all__ = ["database", "postgres_server", "shared_database"]

os.environ.setdefault("REMAND_COORDINATOR", "off")  # a test that is about it says otherwise
SIZES = ("small", "medium", "full")
SIZE = os.environ.get("REMAND_CAMPAIGN", "small")
Report = pytest.TestReport | pytest.CollectReport

# Other work on the machine must not fail a property, so no profile has a deadline or a speed check.
settings.register_profile(
    "small",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("medium", settings.get_profile("small"), max_examples=300)
settings.register_profile(
    "full",
    max_examples=2000,
    stateful_step_count=100,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow],
)


def pytest_configure() -> None:
    if SIZE not in SIZES:
        raise pytest.UsageError(f"REMAND_CAMPAIGN is {SIZE!r}; it may be {', '.join(SIZES)}.")
    settings.load_profile(SIZE)
    _hear_signals()


def _hear_signals() -> None:
    """Lets what tests start be ended by signals, though they are run in the background, where shells have some ignored."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


# ------------------------------------------------------------------------------------------------- decisions


@pytest.fixture(scope="session", autouse=True)
def hold_decisions_to_their_rows() -> None:
    """Fails whatever test sees a decision lead to an event, or to a refusal, that its row in the registry does not name."""
    for kind, rule in RULES.items():
        RULES[kind] = rule._replace(decide=hold_to_row(rule))


def hold_to_row(rule: CommandRule) -> Callable[[Any, Any, CommandContext], Events]:
    """The decision of a row, which raises AssertionError when it does not keep to the row."""
    events, refusals = rule.leads_to.split(), {*rule.refusals.split(), *COMMON_REFUSALS.split()}

    @wraps(rule.decide)
    def decide(task: Any, command: Any, context: CommandContext) -> Events:
        try:
            decided = rule.decide(task, command, context)
        except Refused as refusal:
            if refusal.code in refusals:
                raise
            raise AssertionError(f"the row of {type(command).__name__} lacks {refusal.code}") from refusal
        undeclared = [event.name for event in decided if event.name not in events]
        assert not undeclared, f"the row of {type(command).__name__} lacks {undeclared}"
        return decided

    return decide


# ---------------------------------------------------------------------------------------------------- sizes

MAX_DESCRIPTORS = 256


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Spares the garbage collector the tests themselves: there are many, they stay, and each look at them takes a second."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(autouse=True)
def _few_descriptors() -> Generator[None]:
    """Has the garbage collector close what earlier tests left open, before `select` cannot take a number any more."""
    yield
    if os.path.isdir("/proc/self/fd") and len(os.listdir("/proc/self/fd")) > MAX_DESCRIPTORS:
        gc.collect()


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Marks what has a size: `make test-more` selects it."""
    for item in items:
        if "campaign" in getattr(item, "fixturenames", ()) or is_hypothesis_test(getattr(item, "obj", None)):
            item.add_marker(pytest.mark.campaign)


def size_between(small: int, full: int, size: str = SIZE) -> int:
    """How large a campaign is: medium is as many times the small one as the full one is the medium."""
    return {"small": small, "medium": round(math.sqrt(small * full)), "full": full}[size]


@pytest.fixture(scope="session")
def campaign() -> Callable[[int, int], int]:
    """Gives `campaign(small, full)`: the size of a campaign, as `REMAND_CAMPAIGN` asks."""
    return size_between


def pytest_report_header(config: pytest.Config) -> str:
    return _size_of_run(config)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(_size_of_run(config))


def _size_of_run(config: pytest.Config) -> str:
    return f"size: {SIZE} campaigns; tests: {config.option.markexpr or 'of any kind'}"


# ------------------------------------------------------------------------------------------------------- CI


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_makereport(
    call: pytest.CallInfo[None],
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    return _without_skips((yield), call)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_make_collect_report() -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    return _without_skips(report, getattr(report, "call", None))


def _without_skips(report: Report, call: pytest.CallInfo[None] | None) -> Report:
    """In CI everything is there that a test needs: what would be skipped fails, and says why it could not run."""
    if os.environ.get("CI") and report.skipped and not hasattr(report, "wasxfail"):
        why = call.excinfo.value if call and call.excinfo else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"In CI nothing is skipped, but {report.nodeid} would be: {why}"
    return report


@pytest.fixture
def local_zone(monkeypatch: pytest.MonkeyPatch) -> Generator[Callable[[str], None]]:
    """Sets the machine's time zone for this process."""

    def change(zone: str) -> None:
        monkeypatch.setenv("TZ", zone)
        time.tzset()

    yield change
    monkeypatch.undo()
    time.tzset()

"""Sets how large the campaigns are and how Hypothesis searches.

`REMAND_CAMPAIGN=full` runs the long campaigns; without it a small, repeatable sample runs.
"""

import os
import signal
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, settings

SIZES = ("small", "full")
SIZE = os.environ.get("REMAND_CAMPAIGN", "small")

# Other work on the machine must not fail a property, so no profile has a deadline or a speed check.
settings.register_profile(
    "small",
    max_examples=50,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow],
)
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
        raise pytest.UsageError(f"REMAND_CAMPAIGN is {SIZE!r}; it may be {' or '.join(SIZES)}.")
    settings.load_profile(SIZE)
    _hear_signals()


def _hear_signals() -> None:
    """Lets what tests start be ended by signals, though they are run in the background, where shells have some ignored."""
    for number, handler in ((signal.SIGINT, signal.default_int_handler), (signal.SIGHUP, signal.SIG_DFL)):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, handler)


def pytest_report_header() -> str:
    hint = "" if SIZE == "full" else " (REMAND_CAMPAIGN=full runs the long ones)"
    return f"campaigns: {SIZE}{hint}"


@pytest.fixture(scope="session")
def campaign() -> Callable[[int, int], int]:
    """Gives `campaign(small, full)`: the size of a campaign, as `REMAND_CAMPAIGN` asks."""

    def size(small: int, full: int) -> int:
        return full if SIZE == "full" else small

    return size

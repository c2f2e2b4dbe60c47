"""What every acceptance test starts with: a machine of its own, whose command line runs inside this process.

What is not about one host or one command line alone is run in other ways as well: over HTTP, over MCP, and on PostgreSQL.
"""

from hashlib import sha256

import pytest

from tests.acceptance.wheel import installed, wheel
from tests.integration.conftest import near_machine, repository
from tests.integration.machine import Machine
from tests.support.postgres import database, postgres_server

__all__ = ["database", "installed", "near_machine", "postgres_server", "repository", "wheel"]

WAYS = ("http", "mcp", "postgres", "postgres-http", "postgres-mcp")
"""The other ways."""
EVERY = 10
"""Of so many tests, one is run in each other way by `make test`; the others by `make test-more`."""
FILES = (
    *("test_analyze", "test_done_claims", "test_rejection_context", "test_rejections"),
    *("test_reviews_cli", "test_say", "test_warnings_and_simulation", "test_whoami"),
)
"""The files whose tests are run in every way. The others are about the host, its hooks, or the command line itself."""

WITHOUT = {
    "test_done_claims": ("postgres", "a worker measures commits there: tests/integration/test_worker.py"),
    "test_everything_is_there_again_after_a_rebuild_and_in_a_fresh_clone": ("postgres", "about the files"),
    "test_work_is_not_handed_in_before_its_feedback_was_read": ("mcp", "`next_task` gives it with the task"),
    "test_warnings_outlive_a_rebuild_and_a_lost_ledger_file": ("postgres", "about the files"),
}
"""Files and tests that have no meaning in ways with this word in their name, and why."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test in every way."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if "access" not in metafunc.fixturenames or module not in FILES:
        return
    name = f"{metafunc.module.__name__}.{metafunc.function.__qualname__}"
    ways = ["command-line"]
    without = [WITHOUT[one][0] for one in (module, metafunc.function.__name__) if one in WITHOUT]
    for way in WAYS:
        if any(word in way.split("-") for word in without):
            continue
        is_small = sha256(f"{name} {way}".encode()).digest()[0] % EVERY == 0
        ways.append(way if is_small else pytest.param(way, marks=pytest.mark.more))  # type: ignore[arg-type]
    metafunc.parametrize("access", ways, indirect=True)


@pytest.fixture
def access(request: pytest.FixtureRequest) -> str:
    """How the command line reaches the ledger."""
    return str(getattr(request, "param", "command-line"))


@pytest.fixture
def machine(
    near_machine: Machine, access: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Machine:
    """A near machine; where its environment or its input matter, a call has a process of its own there too."""
    near_machine.way = {"http": "http", "mcp": "mcp"}.get(access.rpartition("-")[2], "")
    if access.startswith("postgres"):
        near_machine.environment["REMAND_STORE"] = url = request.getfixturevalue("database")
        monkeypatch.setenv("REMAND_STORE", url)
    return near_machine

"""What every acceptance test starts with: a machine of its own, whose command line runs inside this process.

What is not about one host or one command line alone is run over HTTP as well.
"""

from hashlib import sha256

import pytest

from tests.acceptance.wheel import installed, wheel
from tests.integration.conftest import near_machine, repository
from tests.integration.machine import Machine

__all__ = ["installed", "near_machine", "repository", "wheel"]

WAYS = ("http",)
"""The other ways."""
EVERY = 10
"""Of so many tests, one is run in each other way by `make test`; the others by `make test-more`."""
FILES = (
    *("test_analyze", "test_done_claims", "test_rejection_context", "test_rejections"),
    *("test_reviews_cli", "test_say", "test_warnings_and_simulation", "test_whoami"),
)
"""The files whose tests are run in every way. The others are about the host, its hooks, or the command line itself."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Runs a test in every way."""
    module = metafunc.module.__name__.rpartition(".")[2]
    if "access" not in metafunc.fixturenames or module not in FILES:
        return
    name = f"{metafunc.module.__name__}.{metafunc.function.__qualname__}"
    ways = ["command-line"]
    for way in WAYS:
        is_small = sha256(f"{name} {way}".encode()).digest()[0] % EVERY == 0
        ways.append(way if is_small else pytest.param(way, marks=pytest.mark.more))  # type: ignore[arg-type]
    metafunc.parametrize("access", ways, indirect=True)


@pytest.fixture
def access(request: pytest.FixtureRequest) -> str:
    """How the command line reaches the ledger."""
    return str(getattr(request, "param", "command-line"))


@pytest.fixture
def machine(near_machine: Machine, access: str) -> Machine:
    """A near machine; where its environment or its input matter, a call has a process of its own there too."""
    near_machine.is_http = access.endswith("http")
    return near_machine

"""What every integration test starts with: a machine of its own."""

from collections.abc import Iterator

import pytest

from tests.integration.machine import Machine, Repository


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine that nothing else uses."""
    made = Machine()
    yield made
    made.close()


@pytest.fixture
def near_machine(monkeypatch: pytest.MonkeyPatch) -> Iterator[Machine]:
    """A machine whose command line runs inside this process."""
    made = Machine(is_near=True)
    for name, value in made.environment.items():
        monkeypatch.setenv(name, value)
    yield made
    made.close()


@pytest.fixture
def repository(machine: Machine) -> Repository:
    """A repository without gates on that machine."""
    return machine.repository()

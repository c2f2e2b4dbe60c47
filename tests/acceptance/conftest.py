"""What every acceptance test starts with: a machine of its own, whose command line runs inside this process."""

import pytest

from tests.acceptance.wheel import installed, wheel
from tests.integration.conftest import near_machine, repository
from tests.integration.machine import Machine

__all__ = ["installed", "near_machine", "repository", "wheel"]


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    """A near machine; where its environment or its input matter, a call has a process of its own there too."""
    return near_machine

"""What tests of real agents start with: a machine apart, since the agents are found in the user's own home."""

from tests.integration.conftest import machine

__all__ = ["machine"]

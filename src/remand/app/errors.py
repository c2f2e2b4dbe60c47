"""What stops the program that is no refusal: the environment does not allow to go on."""

from __future__ import annotations


class RemandError(Exception):
    """The base of everything that is said to the user as an error."""


class EnvironmentFault(RemandError):  # noqa: N818 - the fault is the environment's
    """The machine, the repository or the configuration does not allow to go on."""


class LedgerReplaced(EnvironmentFault):
    """The ledger's file was deleted or replaced under a running process."""


class UsageError(RemandError):
    """The call itself is wrong."""

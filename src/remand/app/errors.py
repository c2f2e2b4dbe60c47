"""Errors that are not refusals: faults of the environment and of usage."""

from __future__ import annotations

from collections.abc import Collection


class RemandError(Exception):
    """The base class of all errors that are shown to the user."""


class EnvironmentFault(RemandError):  # noqa: N818 - the fault is the environment's
    """The machine, the repository or the configuration prevents the operation."""


class LedgerReplaced(EnvironmentFault):
    """The ledger's file was deleted or replaced under a running process."""


class StoreAway(EnvironmentFault):
    """The database does not respond. The request was not carried out."""


class StoreRejected(EnvironmentFault):
    """The database refused this change, and would refuse it again. Nothing was written."""


class StoreConflict(EnvironmentFault):
    """Another process changed the same rows concurrently. Nothing was written, and the change may be retried."""

    def __init__(self, text: str, tasks: Collection[str] = ()) -> None:
        super().__init__(text)
        self.tasks = tasks
        """The tasks to lock first in the next attempt."""


class UsageError(RemandError):
    """The call itself is invalid."""

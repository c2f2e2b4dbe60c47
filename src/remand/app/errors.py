"""What stops the program that is no refusal: the environment does not allow to go on."""

from __future__ import annotations

from collections.abc import Collection


class RemandError(Exception):
    """The base of everything that is said to the user as an error."""


class EnvironmentFault(RemandError):  # noqa: N818 - the fault is the environment's
    """The machine, the repository or the configuration does not allow to go on."""


class LedgerReplaced(EnvironmentFault):
    """The ledger's file was deleted or replaced under a running process."""


class StoreAway(EnvironmentFault):
    """The database does not answer. What was asked of it was not done."""


class StoreRejected(EnvironmentFault):
    """The database takes something else, but not this. Nothing was done, and the same would fail again."""


class StoreConflict(EnvironmentFault):
    """Another process changed the same at the same time. Nothing was done, and the same may be tried again."""

    def __init__(self, text: str, tasks: Collection[str] = ()) -> None:
        super().__init__(text)
        self.tasks = tasks
        """The tasks to lock before anything else, when it is tried again."""


class UsageError(RemandError):
    """The call itself is wrong."""

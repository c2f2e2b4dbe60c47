"""What is said and done at the end of every call: files are updated, overdue questions repeated, the user reminded.

Loaded by the shortest commands, so it loads nothing itself.
"""

from __future__ import annotations

from remand.app import errors
from remand.app.events import intake
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from remand.app.ledger import Ledger
    from remand.app.record_files import RecordFileUpdater
    from remand.ledger.store import Store


class UnseenCounts:
    """What the user is to be told of: questions and alerts they have not acknowledged, overrides, held findings."""

    __slots__ = ("count", "damage", "held", "least", "overdue", "untold")

    def __init__(  # noqa: PLR0917 - one number a column
        self,
        count: int = 0,
        untold: int = 0,
        overdue: int = 0,
        least: int = 0,
        held: int = 0,
        damage: int = 0,
    ) -> None:
        self.count = count
        """How many questions, alerts and overrides there are for the channels."""
        self.untold = untold
        """How many questions no channel has taken."""
        self.overdue = overdue
        """How many are to be repeated."""
        self.least = least
        """By how many channels one of them was taken at least."""
        self.held = held
        """How many findings wait for somebody to settle them."""
        self.damage = damage
        """How many lines or gaps of the log are missing, or were changed after they were published."""


class AfterCall:
    """What follows a call. Whatever keeps a step from being done keeps nobody from the call's answer."""

    def __init__(
        self,
        *,
        files: RecordFileUpdater | None,
        ledger: Ledger | None,
        read_unseen: Callable[[], UnseenCounts],
        channel_count: Callable[[], int],
        start_delivery: Callable[[], None],
    ) -> None:
        """Without a ledger that is open, only what is unseen is read, and notices are sent."""
        self._files = files
        self._ledger = ledger
        self._read_unseen = read_unseen
        self._channel_count = channel_count
        self._start_delivery = start_delivery

    def run(self) -> tuple[UnseenCounts, str]:
        """Does what is due; returns what is unseen, and what failed first."""
        fault = self._files.update() if self._files else ""
        found = self._read_unseen()
        if found.overdue and self._ledger and not fault:
            try:
                self._ledger.ask_all([])
            except (errors.EnvironmentFault, OSError) as error:
                fault = str(error)
            found = self._read_unseen()
        if found.count and found.least < self._channel_count() and not fault:
            try:
                self._start_delivery()
            except OSError as error:
                fault = f"no notice about the open questions could be sent: {error}"
        return found, fault


def reminder(found: UnseenCounts) -> str:
    """The line that reminds the user of what no channel told of and is in the inbox; empty when there is nothing."""
    count = found.untold + found.held
    if not count:
        return ""
    waits = "question waits" if count == 1 else "questions wait"
    return f"remand: {count} {waits} for you: remand inbox\n"


def log_warning(found: UnseenCounts) -> str:
    """The line that warns of a log that is not whole; empty when nothing is known to be wrong."""
    if not found.damage:
        return ""
    count = "1 finding" if found.damage == 1 else f"{found.damage} findings"
    return (
        f"remand: the log is not whole: events are missing or were changed ({count}). "
        "`remand log verify` names them, `remand log repair` says what to do\n"
    )


def key_warning(key: str) -> str:
    """The line that tells whoever writes with a key that the base does not trust; empty when it does."""
    if not key:
        return ""
    return (
        f"remand: the base branch does not trust this machine's key {key}: what is written here has no effect "
        "elsewhere. `remand keys request` prints what to have trusted.\n"
    )


def held_events_warning(store: Store) -> str:
    """The line that says that events are held back for their time; empty when none is."""
    try:
        with store.read() as view:
            held = intake.held_entries(view) if view.held.earliest() else []
    except errors.EnvironmentFault:
        return ""
    if not held:
        return ""
    events = "1 event is" if len(held) == 1 else f"{len(held)} events are"
    first = min(entry.event.ts for entry in held)
    return f"remand: {events} held back, ahead of this machine's clock (from {first}): remand log verify\n"

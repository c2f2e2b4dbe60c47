"""Work at the end of every call: updates files, repeats overdue questions, reminds the user.

The shortest commands load this module, so it imports nothing itself.
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
    """What the user should be told: unacknowledged questions and alerts, overrides, held findings."""

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
        """Questions, alerts and overrides for the channels."""
        self.untold = untold
        """Questions that no channel has received."""
        self.overdue = overdue
        """Questions due for a reminder."""
        self.least = least
        """The smallest number of channels that have received one of them."""
        self.held = held
        """Findings that wait for a decision."""
        self.damage = damage
        """Lines or gaps of the log that are missing or were changed after publication."""


class AfterCall:
    """The work after a call. A failure in a step never prevents the call's answer."""

    def __init__(
        self,
        *,
        files: RecordFileUpdater | None,
        ledger: Ledger | None,
        read_unseen: Callable[[], UnseenCounts],
        channel_count: Callable[[], int],
        start_delivery: Callable[[], None],
    ) -> None:
        """Without an open ledger it only reads the counts and sends notices."""
        self._files = files
        self._ledger = ledger
        self._read_unseen = read_unseen
        self._channel_count = channel_count
        self._start_delivery = start_delivery

    def run(self) -> tuple[UnseenCounts, str]:
        """Does what is due; returns the counts, and the first error."""
        fault = self._files.update() if self._files else ""
        counts = self._read_unseen()
        if counts.overdue and self._ledger and not fault:
            try:
                self._ledger.ask_all([])
            except (errors.EnvironmentFault, OSError) as error:
                fault = str(error)
            counts = self._read_unseen()
        if counts.count and counts.least < self._channel_count() and not fault:
            try:
                self._start_delivery()
            except OSError as error:
                fault = f"no notice about the open questions could be sent: {error}"
        return counts, fault


def reminder(counts: UnseenCounts) -> str:
    """The line that reminds the user of items in the inbox that no channel has delivered; empty if there are none."""
    count = counts.untold + counts.held
    if not count:
        return ""
    waits = "question waits" if count == 1 else "questions wait"
    return f"remand: {count} {waits} for you: remand inbox\n"


def log_warning(counts: UnseenCounts) -> str:
    """The warning that the log is incomplete; empty if it is intact as far as known."""
    if not counts.damage:
        return ""
    count = "1 finding" if counts.damage == 1 else f"{counts.damage} findings"
    return (
        f"remand: the log is incomplete: events are missing or were changed ({count}). "
        "`remand log verify` names them, `remand log repair` says what to do\n"
    )


def key_warning(key: str) -> str:
    """The warning that this machine's key is not trusted by the base; empty if it is."""
    if not key:
        return ""
    return (
        f"remand: the base branch does not trust this machine's key {key}: what is written here has no effect "
        "elsewhere. `remand keys request` prints the text for `remand keys trust`.\n"
    )


def held_events_warning(store: Store) -> str:
    """The warning that events are held back because of their time; empty if none is."""
    try:
        with store.read() as view:
            entries = intake.held_entries(view) if view.held.earliest() else []
    except errors.EnvironmentFault:
        return ""
    if not entries:
        return ""
    events = "1 event is" if len(entries) == 1 else f"{len(entries)} events are"
    first = min(entry.event.ts for entry in entries)
    return f"remand: {events} held back, ahead of this machine's clock (from {first}): remand log verify\n"

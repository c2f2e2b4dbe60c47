"""Checks of a log whose result must not depend on how much of it is in memory at once."""

from __future__ import annotations

import pytest

from remand.app.log import verification
from remand.app.log.verification import VerificationReport, verify_log
from tests.support.builders import FakeLedger


def verify_in_parts(world: FakeLedger) -> VerificationReport:
    """The report on the log, which is the same when it is read one group or event at a time."""
    found = _verify(world)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verification, "BATCH", 1)
        in_parts = _verify(world)
    assert (in_parts.events, set(in_parts.problems)) == (found.events, set(found.problems))
    return found


def _verify(world: FakeLedger) -> VerificationReport:
    with world.store.read() as view:
        return verify_log(view, world.exchange, world.marks, world.clock, world.ledger.verifier(view))

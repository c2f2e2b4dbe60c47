"""Holds which events have to be signed."""

import pytest

from remand.domain import events as e
from remand.domain.event import Meta
from remand.domain.releases import RELEASING, RELEASING_KINDS, is_releasing
from remand.testing.builders import T1, an_event, claimed, stamped

RESTRICTING = (e.TaskClaimed, e.HandoffRejected, e.LockoutSet, e.EscalationOpened, e.ReviewRejected)
NOT_YET = {"review.retract"}


def test_every_name_in_the_table_is_an_events() -> None:
    names = {str(kind.__struct_config__.tag) for kind in e.NATIVE}

    assert RELEASING - names <= NOT_YET


@pytest.mark.parametrize("kind", RESTRICTING, ids=lambda kind: kind.__name__)
def test_what_restricts_is_believed_from_anywhere(kind: type[e.Event]) -> None:
    assert kind not in RELEASING_KINDS


def test_what_ends_or_frees_work_is_signed() -> None:
    released = (e.ReviewApproved, e.LockoutCleared, e.TaskCancelled, e.RejectionAnswered, e.TaskReopened)

    assert set(released) <= RELEASING_KINDS
    assert all(is_releasing(event) for event in stamped(*map(an_event, released)))
    assert not is_releasing(stamped(claimed())[0])


def test_a_line_of_a_got_tool_releases_nothing() -> None:
    meta = Meta(id="x", seq=-1)

    assert not is_releasing(e.ReviewApproved(task_id=T1, reviewer="Lead", commit="c", meta=meta))


def test_a_releasing_event_is_one_even_where_its_class_is_unknown() -> None:
    meta = Meta(id="x", seq=1)

    assert is_releasing(e.Unknown(kind="review.retract", meta=meta))
    assert not is_releasing(e.Unknown(kind="something.new", meta=meta))

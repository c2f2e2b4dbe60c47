"""Holds which events leave a trace, and what it says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.events.catalogue import NATIVE
from remand.domain.events.event import Event
from remand.domain.events.tasks import Decision, RejectionAnswered
from remand.ledger.traces import ANSWERED, FILED, INVALID, MAX_TEXT, TRACED, TRACED_NAMES, trace_event
from remand.testing.builders import H1, T1, got_tool_entry, rejection_filed
from tests.support.builders import an_event

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
OURS = ("handoff_id", "agent", "rejection", "reason", "decision", "task_id")
RECORD = ("reason_type", "blocking_factor", "agent_id", "task_id", "decision_type")


def told(kind: str, **fields: object) -> Event:
    return got_tool_entry(kind, **fields).event


@pytest.mark.parametrize("kind", NATIVE, ids=lambda kind: kind.__struct_config__.tag)
def test_events_about_rejections_leave_a_trace_and_others_none(kind: type[Event]) -> None:
    fields = {"decision": Decision(decision_type="ACCEPT")} if kind is RejectionAnswered else {}
    event = an_event(kind) if not fields else RejectionAnswered(task_id=T1, handoff_id=H1, **fields)

    assert (trace_event(event, T1) is not None) == (event.name in TRACED_NAMES) == (kind in TRACED)


def test_a_reason_that_is_none_is_left_empty() -> None:
    for reason in ("too hard", None, 7, ["BLOCKER"]):
        found = trace_event(rejection_filed(rejection={"reason_type": reason}), T1)
        assert found is not None
        assert found.said == ""


def test_a_long_text_is_cut() -> None:
    found = trace_event(rejection_filed(rejection={"blocking_factor": "x" * 5000}), T1)

    assert found is not None
    assert found.text == "x" * MAX_TEXT


@pytest.mark.parametrize(
    ("fields", "said", "task", "agent"),
    [
        ({"handoff_id": H1, "agent": "Bob", "reason": "I would rather not", "suggestion": ""}, "", "", "Bob"),
        ({"handoff_id": H1, "agent": "Bob", "reason": "scope creep"}, "SCOPE_CREEP", "", "Bob"),
        (
            {
                "handoff_id": H1,
                "rejection": {"reason_type": "BLOCKER", "task_id": f"task:{T1}", "agent_id": "Eve"},
            },
            "BLOCKER",
            T1,
            "Eve",
        ),
    ],
    ids=["a line of text", "a line that names a reason", "a record"],
)
def test_both_shapes_of_got_are_read(fields: dict[str, object], said: str, task: str, agent: str) -> None:
    found = trace_event(told(FILED, **fields), "")

    assert found is not None
    assert (found.said, found.task, found.agent, found.handoff) == (said, task, agent, H1)


def test_other_events_of_got_leave_no_trace() -> None:
    assert trace_event(told("handoff.cancel", handoff_id=H1), "") is None
    assert trace_event(told("decision.create", id="d"), "") is None


@given(
    kind=st.sampled_from([FILED, INVALID, ANSWERED]),
    fields=st.dictionaries(
        st.sampled_from(OURS), JSON | st.dictionaries(st.sampled_from(RECORD), JSON), max_size=6
    ),
)
def test_whatever_a_line_of_got_holds_its_trace_is_plain_text(kind: str, fields: dict[str, object]) -> None:
    found = trace_event(told(kind, **fields), "")

    assert found is not None
    assert all(isinstance(value, str | int) for value in found)

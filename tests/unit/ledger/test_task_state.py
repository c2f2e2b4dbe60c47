"""Holds that a task's state in parts and its flat form say the same."""

import msgspec
import pytest

from remand.domain.forge import TaskForgeState
from remand.domain.gate.state import GateState, update_gates
from remand.domain.gate.verdict import GateStatus
from remand.domain.task import Status, Task
from remand.ledger.task_state import compose_state, flat_state
from remand.testing.builders import a_claim, a_lockout, a_submission, a_task, an_offer
from tests.support.builders import a_filed_rejection

GATES = update_gates(
    GateState(status=GateStatus.HELD, blocking=("tests",), held=("f1",)), count=2, accepted=("f2",)
)


@pytest.mark.parametrize(
    "task",
    [
        a_task(),
        a_task(status=Status.CLAIMED, claim=a_claim(), gates=GATES, scope="The roof", aliases=("#1",)),
        a_task(gates=update_gates(GATES, rejection_count=3), forge=TaskForgeState(issue=3)),
        a_task(lockouts=(a_lockout(),), last_rejection=a_filed_rejection(), offers=(an_offer(),)),
        a_task(submission=a_submission(), depends_on=("T-2",), feedback=2, pr=7, is_legacy=True),
    ],
)
def test_the_state_of_an_older_ledger_is_put_into_parts(task: Task) -> None:
    flat = msgspec.json.decode(msgspec.json.encode(flat_state(task)))

    assert msgspec.convert(compose_state(flat), Task) == task


def test_the_count_of_an_older_ledger_is_kept_where_nothing_else_is_known_of_the_gates() -> None:
    flat = {
        "id": "T-1",
        "title": "Roof",
        "created_at": "2026-01-01T00:00:00.000000Z",
        "gate_rejection_count": 2,
    }

    assert msgspec.convert(compose_state(flat), Task).gates.rejection_count == 2


def test_the_flat_form_has_the_names_of_the_first_release() -> None:
    task = a_task(lockouts=(a_lockout(),), gates=GATES, last_rejection=a_filed_rejection())

    flat = flat_state(task)

    assert list(flat) == ["id", "title", "created_at", "lockouts", "filed", "gating"]
    assert list(flat["gating"]) == ["status", "standing", "held", "count", "accepted"]

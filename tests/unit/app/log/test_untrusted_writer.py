"""Holds that whoever writes with a key that the base does not trust is told, and that no agent writes with one."""

import pytest
from msgspec.structs import replace

from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.keys import is_untrusted
from remand.domain.refusals import ENVIRONMENT, MEANINGS, Refused
from remand.testing.builders import MACHINE
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger

OTHER = FakeKeys("other machine")
SHARED = Rules(gates=(), has_keys=True, has_remote=True)
CASES = {
    "not listed": (replace(SHARED, trusted=(OTHER.ensure_key(),)), True),
    "listed": (replace(SHARED, trusted=(OTHER.ensure_key(), MACHINE.ensure_key())), False),
    "revoked": (replace(SHARED, trusted=(replace(MACHINE.ensure_key(), until=()),)), True),
    "an empty list": (SHARED, True),
    "no list": (replace(SHARED, has_keys=False), False),
    "no remote": (replace(SHARED, has_remote=False), False),
    "neither": (Rules(gates=()), False),
}


@pytest.mark.parametrize(("rules", "expected"), CASES.values(), ids=CASES)
def test_a_key_is_untrusted_where_a_shared_base_lists_keys_and_not_this_one(
    rules: Rules, expected: bool
) -> None:
    own = MACHINE.ensure_key()

    assert (
        is_untrusted(own.id, rules.trusted, has_keys=rules.has_keys, has_remote=rules.has_remote) is expected
    )


@pytest.mark.parametrize(("rules", "expected"), CASES.values(), ids=CASES)
def test_an_agent_writes_nothing_with_a_key_that_the_base_does_not_trust(
    rules: Rules, expected: bool
) -> None:
    world = FakeLedger(rules=rules)
    task = world.add()

    answer = world.ledger.ask(
        Request(command=c.ClaimTask(agent="Alice", task_id=task), actor="Alice", confined=True)
    )

    assert isinstance(answer, Refused) is expected
    assert world.task(task).status == ("incoming" if expected else "claimed")
    if isinstance(answer, Refused):
        assert answer.code == "key_not_trusted"
        assert MACHINE.ensure_key().id in answer.message


@pytest.mark.parametrize(("rules", "expected"), CASES.values(), ids=CASES)
def test_the_ledger_remembers_that_it_writes_with_such_a_key_until_the_base_trusts_it(
    rules: Rules, expected: bool
) -> None:
    world = FakeLedger(rules=rules)
    assert world.ledger.untrusted_writer() == "", "nothing was written yet"

    world.add()

    assert world.ledger.untrusted_writer() == (MACHINE.ensure_key().id if expected else "")
    world.rules = replace(rules, trusted=(MACHINE.ensure_key(),))
    world.ledger.refresh()
    assert world.ledger.untrusted_writer() == ""


def test_the_user_may_go_on_with_such_a_key() -> None:
    world = FakeLedger(rules=SHARED)

    task = world.claim(world.add())

    assert task.status == "claimed"


def test_the_refusal_is_one_of_the_environment() -> None:
    assert "key_not_trusted" in ENVIRONMENT
    assert set(MEANINGS) >= ENVIRONMENT
    assert "remand keys request" in MEANINGS["key_not_trusted"][1]

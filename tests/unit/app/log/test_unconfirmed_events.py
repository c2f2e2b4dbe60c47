"""Holds that events without effect are listed by file and line, and no more of them than asked for."""

from remand.app.log.keys import unconfirmed_lines, unconfirmed_signers
from remand.ledger.problems import LEDGER
from remand.ledger.signatures import Doubt
from remand.testing.builders import T1, Session, task_added, task_id
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger

STRANGER = FakeKeys("a stranger")
ONE, TWO = "20261115-080000-000000f1", "20261115-080000-000000f2"


def a_world() -> FakeLedger:
    """A ledger that has read two sessions of a stranger, and one that nobody signed."""
    world = FakeLedger()
    for name, keys, count in ((ONE, STRANGER, 2), (TWO, STRANGER, 1), ("20261115-080000-000000f3", None, 1)):
        session = Session(name, keys=keys)
        for number in range(count):
            session.write(task_added(task_id(number + 1)))
        world.exchange.put(f"/events/{name}.jsonl", session.lines)
    world.ledger.refresh()
    return world


def test_each_is_named_by_file_and_line() -> None:
    world = a_world()
    with world.store.read() as view:
        first, second, *others = unconfirmed_lines(view, world.exchange, 10)

    assert (first.file, first.line, second.line) == (f"/events/{ONE}.jsonl", 2, 4)
    assert (first.event, first.task_id, first.why) == ("node.create", T1, Doubt.UNKNOWN_SIGNER)
    assert (first.signer, first.session, second.number) == (STRANGER.ensure_key().id, ONE, 2)
    assert [one.why for one in others] == [Doubt.UNKNOWN_SIGNER, Doubt.UNSIGNED]


def test_one_whose_file_is_gone_is_named_as_the_ledgers() -> None:
    world = a_world()
    del world.exchange.contents[f"/events/{ONE}.jsonl"]
    with world.store.read() as view:
        found = unconfirmed_lines(view, world.exchange, 10)

    assert [one.file for one in found[2:]] == [LEDGER, LEDGER]


def test_no_more_are_listed_than_asked_for() -> None:
    world = a_world()
    with world.store.read() as view:
        assert [len(unconfirmed_lines(view, world.exchange, most)) for most in (1, 3, 4, 9)] == [1, 3, 4, 4]


def test_they_are_counted_by_signer_and_reason_with_their_sessions() -> None:
    world = a_world()
    with world.store.read() as view:
        withheld = view.unconfirmed.every()

    nobody, stranger = unconfirmed_signers(withheld, 5)
    assert (nobody.signer, nobody.why, nobody.events) == ("", "unsigned", 1)
    assert (stranger.signer, stranger.events, stranger.sessions) == (STRANGER.ensure_key().id, 3, (ONE, TWO))
    assert [len(one.sessions) for one in unconfirmed_signers(withheld, 1)] == [1, 1]

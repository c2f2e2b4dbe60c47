"""Holds where the trust in a revoked key ends, and that what would change is told before."""

import tomllib

import pytest
from msgspec.structs import replace

from remand.app.errors import UsageError
from remand.app.log.keys import Revocation, end_key_trust, plan_revocation, trusted_entry_text
from remand.app.requests import Rules
from remand.config import parse
from remand.domain.access.keys import ChainEnd, PublicKey
from remand.domain.events.event import Event
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.events.tasks import TaskCancelled
from remand.ledger import signatures
from remand.ledger.signatures import EventGroup
from remand.testing.builders import MACHINE, T1, T2, Session, task_added
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import FakeLedger

PROJECT = "0123456789abcdef"
OTHER = FakeKeys("other machine")
ONE, TWO = "20261115-080000-000000f1", "20261115-080000-000000f2"


def a_session(name: str, task: str, *events: Event) -> Session:
    session = Session(name, FakeClock("2026-11-15T08:30:00.000000Z"), keys=OTHER, project=PROJECT)
    for event in (task_added(task), *events):
        session.write(event)
    return session


FIRST = a_session(ONE, T1, LockoutSet(task_id=T1, agent="Alice"), TaskCancelled(task_id=T1))
SECOND = a_session(TWO, T2, LockoutSet(task_id=T2, agent="Bob"))


def groups(session: Session) -> list[EventGroup]:
    return [signatures.decode_group(line) for line in session.lines if signatures.is_group(line)]


def end(session: Session, number: int) -> ChainEnd:
    return ChainEnd(session=session.name, number=number, chain=groups(session)[number - 1].after)


def a_world(*sessions: Session) -> FakeLedger:
    world = FakeLedger(
        rules=Rules(gates=(), project=PROJECT, trusted=(MACHINE.ensure_key(), OTHER.ensure_key()))
    )
    for session in sessions:
        world.exchange.put(f"/events/{session.name}.jsonl", session.lines)
    world.ledger.refresh()
    return world


def revoked(*published: EventGroup, start: str = "") -> Revocation:
    world = a_world(FIRST, SECOND)
    with world.store.read() as view:
        verifier = world.ledger.verifier(view)
        return plan_revocation(view, OTHER.ensure_key(), published, verifier=verifier, start=start)


def told(found: Revocation) -> tuple[set[tuple[str, str, int]], list[tuple[str, str, str]]]:
    return (
        {(row.task_id, row.event, row.count) for row in found.change.lost},
        [(row.task_id, row.before, row.after) for row in found.change.tasks],
    )


def test_by_default_the_trust_ends_with_what_the_base_has() -> None:
    found = revoked(*groups(FIRST)[:2], *groups(SECOND))

    assert (found.ends, found.source) == ((end(FIRST, 2), end(SECOND, 2)), "base")
    assert told(found) == ({(T1, "task.cancel", 1)}, [(T1, "cancelled", "incoming")])


def test_of_a_session_that_the_base_does_not_have_nothing_counts() -> None:
    found = revoked(*groups(SECOND))

    assert found.ends == (end(SECOND, 2),)
    assert told(found)[1] == [(T1, "cancelled", "")]


def test_where_the_base_has_no_events_it_ends_with_what_the_ledger_has() -> None:
    found = revoked()

    assert (found.ends, found.source) == ((end(FIRST, 3), end(SECOND, 2)), "ledger")
    assert told(found) == (set(), [])


def test_a_stolen_key_ends_before_the_event_that_is_named_and_other_sessions_with_what_the_base_has() -> None:
    found = revoked(*groups(FIRST), *groups(SECOND), start=f"{ONE}:2")

    assert found.ends == (end(FIRST, 1), end(SECOND, 2))
    assert told(found) == (
        {(T1, "lockout.set", 1), (T1, "task.cancel", 1)},
        [(T1, "cancelled", "incoming")],
    )


def test_a_session_that_was_stolen_from_its_first_event_on_is_left_out() -> None:
    assert revoked(*groups(FIRST), *groups(SECOND), start=f"{ONE}:1").ends == (end(SECOND, 2),)


def test_groups_in_the_keys_name_with_a_wrong_signature_set_no_end() -> None:
    forged = replace(groups(FIRST)[-1], first=4, before=groups(FIRST)[-1].after, signature="A" * 86)

    assert revoked(*groups(FIRST), forged, *groups(SECOND)).ends == (end(FIRST, 3), end(SECOND, 2))


@pytest.mark.parametrize(
    ("start", "message"),
    [
        ("nonsense", "SESSION:N"),
        (f"{ONE}:", "SESSION:N"),
        (f"{ONE}:0", "SESSION:N"),
        (f"{ONE}:x", "SESSION:N"),
        ("20261115-080000-00000000:2", f"{ONE}.*{TWO}"),
        (f"{ONE}:9", "event 8"),
    ],
)
def test_a_place_that_is_not_there_is_named(start: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        revoked(*groups(FIRST), *groups(SECOND), start=start)


def test_a_session_that_forked_before_the_place_is_left_to_an_earlier_one() -> None:
    stolen = a_session(ONE, T1, LockoutCleared(task_id=T1, agent="Alice"))

    with pytest.raises(UsageError, match="two versions"):
        revoked(*groups(FIRST), *groups(stolen), start=f"{ONE}:3")
    assert revoked(*groups(FIRST), *groups(stolen), start=f"{ONE}:2").ends == (end(FIRST, 1),)


# The configuration.

KEY, OLD = replace(OTHER.ensure_key(), name="old laptop"), PublicKey(raw=b"\x02" * 32, name="server")
TEXTS = {
    "a list a line": f'# first\n[keys]\ntrusted = [ # two\n  "{OLD.entry}",\n  "{KEY.entry}", # stays\n]\n\n[gates]\n',
    "one line": f"[keys]\ntrusted = [\"{OLD.entry}\", '{KEY.entry}']\n[gates]\n",
    "a table": f'[keys]\ntrusted = ["{OLD.entry}", {{key = "{KEY.entry}"}}]\n[gates]\n',
    "an end already": f'[keys]\ntrusted = ["{OLD.entry}", {trusted_entry_text(KEY, (end(FIRST, 3), end(SECOND, 2)))}]\n[gates]\n',
}


@pytest.mark.parametrize("ends", [(), (end(FIRST, 2),), (end(FIRST, 2), end(SECOND, 1))], ids=len)
@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_an_end_is_written_without_a_change_of_anything_else(text: str, ends: tuple[ChainEnd, ...]) -> None:
    changed = end_key_trust(text, KEY, ends)

    assert changed is not None
    assert parse(changed).trusted == (OLD, replace(KEY, until=ends))
    rest, before = tomllib.loads(changed), tomllib.loads(text)
    assert len(rest.pop("keys")["trusted"]) == len(before.pop("keys")["trusted"]) == 2
    assert rest == before
    assert [word in changed for word in ("# first", "# two", "# stays")] == [
        word in text for word in ("# first", "# two", "# stays")
    ]


def test_what_only_a_human_can_change_is_left() -> None:
    escaped = KEY.entry.replace("laptop", "lap\\u0074op")

    assert end_key_trust(f'[keys]\ntrusted = ["{escaped}"]\n', KEY, ()) is None
    assert end_key_trust(f'[keys]\ntrusted = ["{OLD.entry}"]\n', KEY, ()) is None

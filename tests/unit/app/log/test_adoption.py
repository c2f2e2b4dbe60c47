"""Holds that the user can vouch for sessions whose key is lost, or that no key signed, and that all clones agree."""

from itertools import permutations

import pytest
from msgspec.structs import replace

from remand.app.errors import UsageError
from remand.app.log.exchange import groups_not_in, lines_of_task
from remand.app.log.keys import adopt_sessions, find_adoptable, preview_trust_change
from remand.app.log.verification import state_digest, verify_log
from remand.app.ports import Keys
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.keys import ChainEnd
from remand.domain.events.log import SessionAdopted
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.ledger import codec, signatures
from remand.ledger.signatures import Doubt
from remand.testing.builders import MACHINE, T1, T2, Session, actor, task_added
from remand.testing.fakes import START, FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger
from tests.support.log_checks import verify_in_parts

PROJECT = "0123456789abcdef"
LOST, THIRD = FakeKeys("a lost machine"), FakeKeys("third machine")
SESSION = "20261115-080000-000000ff"
REASON = "The disk of that laptop is gone."


def rules(*trusted: Keys) -> Rules:
    return Rules(gates=(), project=PROJECT, trusted=tuple(keys.ensure_key() for keys in trusted))


def a_session(keys: Keys | None = LOST, name: str = SESSION) -> Session:
    session = Session(name, FakeClock("2026-11-15T08:30:00.000000Z"), keys=keys, project=PROJECT)
    session.write(task_added(T1))
    session.write(LockoutSet(task_id=T1, agent="Alice"))
    session.write(LockoutSet(task_id=T1, agent="Bob"))
    return session


def a_world(*files: list[bytes], trusted: tuple[Keys, ...] = (MACHINE,), keys: Keys = MACHINE) -> FakeLedger:
    world = FakeLedger(
        rules=rules(*trusted), keys=keys, session=f"20261115-090000-{keys.ensure_key().id[:8]}"
    )
    for number, lines in enumerate(files):
        world.exchange.put(f"/events/{number}.jsonl", lines)
        world.ledger.refresh()
    return world


def locked(world: FakeLedger) -> set[str]:
    task = world.tasks().get(T1)
    return {lockout.agent for lockout in task.people.lockouts} if task else set()


def state(world: FakeLedger) -> str:
    assert verify_in_parts(world).problems == ()
    with world.store.read() as view:
        return state_digest(view)[0]


def own_lines(world: FakeLedger) -> list[bytes]:
    """What this machine wrote."""
    return [
        line
        for path, file in world.exchange.contents.items()
        if "/0.jsonl" not in path
        for line in file.data.splitlines()
    ]


@pytest.mark.parametrize("keys", [LOST, None], ids=["its key is lost", "no key signed it"])
def test_a_session_counts_once_the_user_has_adopted_it(keys: Keys | None) -> None:
    world = a_world(a_session(keys).lines)
    assert world.tasks() == {}

    assert [one.count for one in adopt_sessions(world.ledger, [SESSION], REASON, THE_USER)] == [3]

    assert locked(world) == {"Alice", "Bob"}
    event = world.events()[-1]
    assert isinstance(event, SessionAdopted)
    assert (event.session, event.number, event.count, event.reason) == (SESSION, 3, 3, REASON)
    assert event.meta.actor == "user"
    (group,) = (
        signatures.decode_group(line)
        for line in own_lines(world)
        if b'"adopt-' in line and signatures.is_group(line)
    )
    assert event.chain == group.after
    assert state(world)


def test_every_clone_that_trusts_the_adopter_comes_to_the_same_state_in_any_order() -> None:
    theirs = a_session()
    here = a_world(theirs.lines)
    adopt_sessions(here.ledger, [SESSION], REASON, THE_USER)
    here.ask(c.CancelTask(task_id=T1))
    files = [
        theirs.lines,
        *(file.data.splitlines() for path, file in here.exchange.contents.items() if "/0.jsonl" not in path),
    ]
    assert len(files) == 3

    for order in permutations(files):
        clone = a_world(*order, trusted=(MACHINE, THIRD), keys=THIRD)
        assert state(clone) == state(here)
    stranger = a_world(*files, trusted=(THIRD,), keys=THIRD)
    assert stranger.tasks() == {}
    stranger.rules = rules(MACHINE, THIRD)
    stranger.ledger.refresh()
    assert state(stranger) == state(here)


def test_two_users_may_adopt_the_same_session() -> None:
    theirs = a_session()
    one, two = a_world(theirs.lines), a_world(theirs.lines, trusted=(THIRD,), keys=THIRD)
    adopt_sessions(one.ledger, [SESSION], REASON, THE_USER)
    adopt_sessions(two.ledger, [SESSION], REASON, THE_USER)
    both = (MACHINE, THIRD)

    states = {
        state(a_world(*order, trusted=both))
        for order in permutations([theirs.lines, own_lines(one), own_lines(two)])
    }

    assert len(states) == 1


def test_adopting_again_changes_nothing_and_takes_in_what_came_since() -> None:
    session = a_session()
    world = a_world(session.lines)
    adopt_sessions(world.ledger, [SESSION], REASON, THE_USER)
    before, count = state(world), len(world.events())

    assert adopt_sessions(world.ledger, [SESSION], REASON, THE_USER) == []
    assert (state(world), len(world.events())) == (before, count)

    length = len(session.lines)
    session.write(LockoutSet(task_id=T1, agent="Carol"))
    world.exchange.put("/events/later.jsonl", session.lines[length:])
    world.ledger.refresh()
    assert locked(world) == {"Alice", "Bob"}, "what comes later is not vouched for"
    assert [one.count for one in adopt_sessions(world.ledger, [SESSION], REASON, THE_USER)] == [1]
    assert locked(world) == {"Alice", "Bob", "Carol"}
    assert state(world)


def test_a_session_can_be_adopted_up_to_a_number() -> None:
    world = a_world(a_session().lines)

    adopt_sessions(world.ledger, [f"{SESSION}:2"], REASON, THE_USER)

    assert locked(world) == {"Alice"}
    assert world.events()[-1].number == 2  # type: ignore[attr-defined]


def test_a_forged_line_in_place_of_another_is_not_adopted_with_the_session() -> None:
    session, forged = a_session(None), Session(SESSION, keys=None)
    forged.write(task_added(T1))
    forged.write(LockoutCleared(task_id=T1, agent="Alice"))
    world = a_world(session.lines, forged.lines[1:])

    with pytest.raises(UsageError, match=f"event 2 of session {SESSION}.*two versions.*{SESSION}:1"):
        adopt_sessions(world.ledger, [SESSION], REASON, THE_USER)

    assert world.tasks() == {}
    adopt_sessions(world.ledger, [f"{SESSION}:1"], REASON, THE_USER)
    assert set(world.tasks()) == {T1}


def test_an_event_that_its_owner_named_as_void_is_not_adopted() -> None:
    session = a_session()
    own = [signatures.decode_group(line) for line in session.lines if signatures.is_group(line)]
    signer = session.signer
    assert signer is not None
    names = [group.events[0] for group in own]
    names[2] = names[2]._replace(task="-")
    (group,) = signer.sign(SESSION, 1, own[0].before, names, own[0].ts)
    world = a_world([signatures.encode_group(group), *session.event_lines], trusted=(MACHINE, LOST))
    assert locked(world) == {"Alice"}

    assert adopt_sessions(world.ledger, [SESSION], REASON, THE_USER) == []


@pytest.mark.parametrize("name", ["nonsense", "20261115-080000-00000000", "", f"{SESSION}:x", f"{SESSION}:0"])
def test_a_session_that_is_not_here_is_refused(name: str) -> None:
    world = a_world(a_session().lines)

    with pytest.raises(UsageError, match="session"):
        adopt_sessions(world.ledger, [name], REASON, THE_USER)


@pytest.mark.parametrize(
    "who", [actor("Alice"), replace(THE_USER, confined=True)], ids=["an agent", "confined"]
)
def test_only_the_user_adopts(who: object) -> None:
    world = a_world(a_session().lines)

    with pytest.raises(Refused) as refused:
        adopt_sessions(world.ledger, [SESSION], REASON, who)  # type: ignore[arg-type]

    assert refused.value.code == "user_only"
    assert world.tasks() == {}


def test_what_adopting_would_change_is_told_before() -> None:
    world = a_world(a_session().lines)

    with world.store.read() as view:
        change = preview_trust_change(view, gained=find_adoptable(view, SESSION).events)

    assert {(row.task_id, row.event, row.count) for row in change.gained} == {
        (T1, "node.create", 1),
        (T1, "lockout.set", 2),
    }
    assert [(row.task_id, row.before, row.after) for row in change.tasks] == [(T1, "", "incoming")]
    assert world.tasks() == {}


def test_the_end_of_the_adopters_key_holds_for_what_it_adopted() -> None:
    theirs = a_session()
    here = a_world(theirs.lines)
    adopt_sessions(here.ledger, [SESSION], REASON, THE_USER)
    groups = [signatures.decode_group(line) for line in own_lines(here) if signatures.is_group(line)]
    ends = tuple(ChainEnd(session=group.session, number=group.last, chain=group.after) for group in groups)
    assert len(ends) == 2

    for until, agents in ((ends, {"Alice", "Bob"}), ((), set())):
        clone = a_world(theirs.lines, own_lines(here), trusted=(THIRD,), keys=THIRD)
        clone.rules = replace(clone.rules, trusted=(replace(MACHINE.ensure_key(), until=until),))
        clone.ledger.refresh()
        assert locked(clone) == agents


def test_an_adopted_line_that_is_cut_out_is_named() -> None:
    theirs = a_session(None)
    here = a_world(theirs.lines)
    adopt_sessions(here.ledger, [SESSION], REASON, THE_USER)

    clone = a_world([theirs.lines[0], theirs.lines[2]], own_lines(here), trusted=(MACHINE, THIRD), keys=THIRD)

    with clone.store.read() as view:
        found = verify_log(view, clone.exchange, clone.marks, clone.clock, clone.ledger.verifier(view))
    assert any(
        codec.decode_line(theirs.lines[1]).meta.id in one.problem and "missing" in one.problem
        for one in found.problems
    )


def test_adopted_events_can_be_revoked_and_shown_as_before() -> None:
    world = a_world(a_session().lines)
    with world.store.read() as view:
        assert [one.doubt for one in view.unconfirmed.every()] == [Doubt.UNKNOWN_SIGNER] * 3
    adopt_sessions(world.ledger, [SESSION], REASON, THE_USER)
    with world.store.read() as view:
        assert view.unconfirmed.every() == []
    assert T2 not in world.tasks()


def test_what_was_adopted_is_published_with_its_task_and_brought_back_where_it_was_deleted() -> None:
    theirs = a_session(None)
    here = a_world(theirs.lines)
    adopt_sessions(here.ledger, [SESSION], REASON, THE_USER)

    with here.store.read() as view:
        lines, loose = lines_of_task(view, T1), groups_not_in(view, set(theirs.lines))

    for published in (lines, [*theirs.lines, *loose]):
        clone = a_world(published, trusted=(MACHINE, THIRD), keys=THIRD)
        assert locked(clone) == {"Alice", "Bob"}


def test_what_is_written_after_an_adoption_comes_after_it_everywhere() -> None:
    session = Session(SESSION, keys=None)
    session.write(task_added(T1), at=START)
    session.write(LockoutSet(task_id=T1, agent="Alice"), at=add_seconds(START, 300))
    here = a_world(session.lines)
    adopt_sessions(here.ledger, [SESSION], REASON, THE_USER)

    here.ask(c.Unlock(task_id=T1, agent="Alice", reason="it was a mistake"))

    assert locked(here) == set()
    clone = a_world(session.lines, own_lines(here), trusted=(MACHINE, THIRD), keys=THIRD)
    assert state(clone) == state(here)


def test_what_is_written_after_a_key_came_to_be_trusted_comes_after_what_it_signed() -> None:
    session = Session(SESSION, keys=LOST, project=PROJECT)
    session.write(task_added(T1), at=START)
    session.write(LockoutSet(task_id=T1, agent="Alice"), at=add_seconds(START, 300))
    here = a_world(session.lines)
    here.rules = rules(MACHINE, LOST)

    here.ask(c.Unlock(task_id=T1, agent="Alice", reason="it was a mistake"))

    clone = a_world(session.lines, own_lines(here), trusted=(MACHINE, LOST, THIRD), keys=THIRD)
    assert state(clone) == state(here)
    assert locked(clone) == set()

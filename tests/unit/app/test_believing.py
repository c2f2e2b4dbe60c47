"""Holds that what releases is believed when a trusted key has signed it, and has no effect when none has."""

import json
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from remand.app.asking import Rules
from remand.app.believing import believed
from remand.app.digest import digest
from remand.app.errors import EnvironmentFault
from remand.app.ports import Keys, Signed
from remand.app.rebuild import rebuild
from remand.app.verify import Verified, verify
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.keys import PublicKey
from remand.domain.releases import Doubt
from remand.domain.task import Status
from remand.ledger import codec
from remand.testing.builders import MACHINE, SHA, T1, T2, Session, World, added, claimed
from remand.testing.fakes import FakeClock, FakeKeys, Killed

THEIRS, FORGED = "/events/theirs.jsonl", "/events/forged.jsonl"
PROJECT = "0123456789abcdef"
OTHER = FakeKeys("other machine")
UNLOCK = e.LockoutCleared(task_id=T1, agent="Alice", reason="All is well")
LATER = "2026-11-15T11:00:00.000000Z"


def rules(*trusted: Keys, project: str = PROJECT) -> Rules:
    return Rules(gates=(), project=project, trusted=tuple(keys.made() for keys in trusted))


def a_world(*trusted: Keys, **options: object) -> World:
    """A ledger with two tasks of somebody's, both of which Alice is locked out of."""
    world = World(rules=rules(*trusted), **options)
    session = Session(project=PROJECT)
    for task in (T1, T2):
        session.write(added(task))
        session.write(e.LockoutSet(task_id=task, agent="Alice"))
    read_in(world, session.lines)
    return world


def read_in(world: World, lines: list[bytes], path: str = THEIRS) -> None:
    world.exchange.put(path, lines)
    world.ledger.refresh()


def signed(event: e.Event, keys: Keys | None = OTHER, project: str = PROJECT) -> bytes:
    """The line of an event as somebody else wrote it."""
    session = Session("20261115-090000-000000ff", FakeClock(LATER), keys=keys, project=project)
    session.write(event)
    return session.lines[0]


def doubts(world: World) -> list[Doubt]:
    with world.store.read() as view:
        return [found.doubt for found in view.unconfirmed.every()]


def state(world: World) -> tuple[str, int]:
    with world.store.read() as view:
        return digest(view)


def verified(world: World) -> Verified:
    with world.store.read() as view:
        return verify(view, world.exchange, world.marks, world.clock, world.ledger.judge(view))


def changed(line: bytes, change: Callable[[dict[str, object]], None]) -> bytes:
    """A line that was changed by hand, with an id that fits it again."""
    fields = json.loads(line)
    change(fields)
    text = json.dumps(fields, separators=(",", ":")).encode()
    return text.replace(fields["meta"]["id"].encode(), codec.content_hash(text).encode())


def with_signature(signature: str) -> Callable[[dict[str, object]], None]:
    return lambda fields: fields["meta"].update(signature=signature)


# What is written here.


def test_what_is_released_here_is_signed_and_nothing_else_is() -> None:
    world = World(rules=rules())
    task = world.add()
    world.claim(task)
    world.ask(c.CancelTask(task_id=task))

    signers = {event.name: event.meta.signer for event in world.events()}

    assert signers == {"node.create": "", "task.claim": "", "task.cancel": MACHINE.made().id}
    assert verified(world).ok


def test_what_was_released_here_counts_in_a_ledger_made_anew_from_the_files() -> None:
    world = World(rules=rules())
    task = world.add()
    world.ask(c.CancelTask(task_id=task))

    again = World(rules=rules(), session="20261116-090000-00000000", exchange=world.exchange)
    again.ledger.refresh()

    assert again.task(task).status == Status.CANCELLED
    assert state(again) == state(world)


def test_a_release_too_long_for_one_event_is_signed_as_it_was_cut() -> None:
    world = a_world(OTHER)

    read_in(world, [signed(replace(UNLOCK, reason="x" * 400_000))], FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert verified(world).ok


@pytest.mark.parametrize("is_forged", [False, True], ids=["our own", "forged"])
def test_a_release_that_continues_our_own_chain_after_a_kill_is_verified(is_forged: bool) -> None:
    world = World(rules=rules())
    task = world.add()
    segment = next(iter(world.exchange.contents))
    world.exchange.die_after_next_append()
    with pytest.raises(Killed):
        world.ask(c.CancelTask(task_id=task))
    if is_forged:
        line = world.exchange.contents[segment].data.splitlines()[-1]
        meta = replace(codec.read(line).meta, signer="", signature="")
        world.exchange.cut(segment, world.exchange.contents[segment].data.index(line))
        world.exchange.grow(segment, codec.write(codec.read(line), meta)[1] + b"\n")

    world.opened_again()
    world.add("Another")

    assert world.task(task).status == (Status.INCOMING if is_forged else Status.CANCELLED)
    assert doubts(world) == ([Doubt.UNSIGNED] if is_forged else [])
    assert len(world.events()) == 3


# What comes in files.


def test_a_release_that_a_trusted_key_signed_counts() -> None:
    world = a_world(OTHER)

    read_in(world, [signed(UNLOCK)], FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []


def forged(case: str) -> bytes:
    """A line that pretends to lift Alice's lockout of the first task."""
    true = signed(e.LockoutCleared(task_id=T2, agent="Alice"))
    elsewhere = signed(UNLOCK, project="fedcba9876543210")
    signature = str(json.loads(true)["meta"]["signature"])
    return {
        "unsigned": lambda: signed(UNLOCK, None),
        "signed by nobody known": lambda: signed(UNLOCK, FakeKeys("a stranger")),
        "signed in the name of a trusted key": lambda: changed(
            signed(UNLOCK, FakeKeys("a stranger")),
            lambda fields: fields["meta"].update(signer=OTHER.made().id),
        ),
        "signed for another task": lambda: changed(true, lambda fields: fields.update(task_id=T1)),
        "signed for another agent": lambda: changed(
            signed(replace(UNLOCK, agent="Bob")), lambda fields: fields.update(agent="Alice")
        ),
        "signed for another event": lambda: changed(
            signed(e.TaskCancelled(task_id=T1)),
            lambda fields: fields.update(event="lockout.clear", agent="Alice"),
        ),
        "signed at another time": lambda: changed(
            signed(UNLOCK), lambda fields: fields.update(ts="2026-11-15T12:00:00.000000Z")
        ),
        "signed for another project": lambda: elsewhere,
        "signed for no project": lambda: signed(UNLOCK, project=""),
        "with the signature of another event": lambda: changed(signed(UNLOCK), with_signature(signature)),
        "with a signature that was cut": lambda: changed(signed(UNLOCK), with_signature(signature[:-1])),
        "with a signature that is none": lambda: changed(signed(UNLOCK), with_signature("?" * 86)),
        "with a huge signature": lambda: changed(signed(UNLOCK), with_signature("A" * 200_000)),
        "with a signature in other letters": lambda: changed(signed(UNLOCK), with_signature("é\u0000\u2028")),
        "with a signature and no signer": lambda: changed(
            signed(UNLOCK), lambda fields: fields["meta"].update(signer="")
        ),
        "with more than was signed": lambda: changed(
            signed(UNLOCK), lambda fields: fields.update(also="this")
        ),
        "with its fields in another order": lambda: changed(
            signed(UNLOCK), lambda fields: fields["meta"].update(signer=fields["meta"].pop("signer"))
        ),
        "with its signature beside its meta": lambda: changed(
            signed(UNLOCK), lambda fields: fields.update(signature=fields["meta"].pop("signature"))
        ),
    }[case]()


CASES = {
    "unsigned": Doubt.UNSIGNED,
    "signed by nobody known": Doubt.UNKNOWN_SIGNER,
    "signed in the name of a trusted key": Doubt.WRONG_SIGNATURE,
    "signed for another task": Doubt.WRONG_SIGNATURE,
    "signed for another agent": Doubt.WRONG_SIGNATURE,
    "signed for another event": Doubt.WRONG_SIGNATURE,
    "signed at another time": Doubt.WRONG_SIGNATURE,
    "signed for another project": Doubt.WRONG_SIGNATURE,
    "signed for no project": Doubt.WRONG_SIGNATURE,
    "with the signature of another event": Doubt.WRONG_SIGNATURE,
    "with a signature that was cut": Doubt.WRONG_SIGNATURE,
    "with a signature that is none": Doubt.WRONG_SIGNATURE,
    "with a huge signature": Doubt.WRONG_SIGNATURE,
    "with a signature in other letters": Doubt.WRONG_SIGNATURE,
    "with a signature and no signer": Doubt.UNKNOWN_SIGNER,
    "with more than was signed": Doubt.WRONG_SIGNATURE,
    "with its fields in another order": Doubt.WRONG_SIGNATURE,
    "with its signature beside its meta": Doubt.UNSIGNED,
}


@pytest.mark.parametrize("case", CASES)
def test_a_forged_release_is_kept_and_shown_and_has_no_effect(case: str) -> None:
    world = a_world(OTHER)
    before = world.task(T1)

    read_in(world, [forged(case)], FORGED)

    assert world.task(T1) == before
    assert doubts(world) == [CASES[case]]
    assert len(world.events()) == 5
    with world.store.read() as view:
        assert [found.line for found in view.unconfirmed.of_task(T1)] == [forged(case)]


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_signature_is_a_problem_and_an_unknown_signer_is_not(case: str) -> None:
    world = a_world(OTHER)
    read_in(world, [forged(case)], FORGED)

    found = verified(world)

    is_wrong = CASES[case] == Doubt.WRONG_SIGNATURE
    assert [(problem.file, problem.line) for problem in found.problems] == ([(FORGED, 1)] if is_wrong else [])
    assert [one.doubt for one in found.unconfirmed] == [CASES[case]]


RELEASES = (
    e.LockoutCleared(task_id=T1, agent="Alice"),
    e.ReviewApproved(task_id=T1, reviewer="user", commit=SHA),
    e.TaskCancelled(task_id=T1),
    e.TaskDeferred(task_id=T1, waits_for=(T2,)),
    e.TaskDecomposed(task_id=T1, children=(T2,)),
    e.TaskInfeasible(task_id=T1, reformulated_as=T2),
    e.TaskReopened(task_id=T1),
    e.TaskSettled(task_id=T1, status="done"),
    e.RejectionAnswered(task_id=T1, handoff_id="H-1", decision=e.Decision(decision_type="ACCEPT")),
    e.HandoffResumed(task_id=T1, handoff_id="H-1", agent="Alice", lease_expires_at=LATER),
    e.IssueImported(task_id=T1, issue=12),
    e.ActIntended(task_id=T1, act="merge", about=SHA),
    e.ActDone(task_id=T1, act="open", about=SHA, pr=7),
    e.ActFailed(task_id=T1, act="merge", about=SHA, is_final=True),
)


@pytest.mark.parametrize("event", RELEASES, ids=lambda event: event.name)
def test_no_kind_of_release_is_believed_unsigned(event: e.Event) -> None:
    world = a_world()
    before = world.task(T1)

    read_in(world, [signed(event, None)], FORGED)

    assert world.task(T1) == before
    assert doubts(world) == [Doubt.UNSIGNED]


def test_what_restricts_is_believed_unsigned() -> None:
    world = a_world()

    read_in(world, [signed(e.LockoutSet(task_id=T1, agent="Bob"), None)], FORGED)

    assert world.task(T1).is_locked_out("Bob")
    assert doubts(world) == []


def test_a_copy_of_an_unconfirmed_event_has_no_effect_either() -> None:
    world = World(rules=rules(OTHER))
    session = Session(keys=None)
    for event in (added(), e.LockoutSet(task_id=T1, agent="Alice"), UNLOCK):
        session.write(event)

    world.exchange.put("/events/a.jsonl", session.lines)
    world.exchange.put("/events/b.jsonl", session.lines[-1:])
    world.exchange.put("/events/c.jsonl", session.lines)
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert len(world.events()) == 3


def test_an_unconfirmed_event_answers_no_key() -> None:
    world = a_world()
    session = Session("20261115-090000-000000ff", keys=None)
    session.write(e.TaskCancelled(task_id=T1), key="k", ask="x")
    read_in(world, session.lines, FORGED)

    world.ask(c.CancelTask(task_id=T1), key="k")

    assert world.task(T1).status == Status.CANCELLED


def test_an_unconfirmed_event_raises_the_mark_of_its_session() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK, None)], FORGED)
    world.exchange.lose(FORGED)

    assert world.marks.all()["20261115-090000-000000ff"][0] == 1
    assert verified(world).ok


def test_an_unconfirmed_release_does_not_make_a_digest_equal() -> None:
    one, two = a_world(), a_world()
    read_in(one, [signed(UNLOCK, None)], FORGED)

    assert state(one)[0] != state(two)[0]


def test_what_is_told_from_all_events_leaves_the_unconfirmed_out() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK, None)], FORGED)

    with world.store.read() as view:
        assert [event.name for event in believed(view)] == ["node.create", "lockout.set"] * 2


def test_a_task_is_published_with_its_unconfirmed_events() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK, None)], FORGED)

    assert signed(UNLOCK, None) in world.ledger.lines_of(T1)


def test_a_ledger_in_which_an_unconfirmed_event_counts_was_changed() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK, None)], FORGED)
    with world.store.write() as tx:
        (found,) = tx.unconfirmed.every()
        event = codec.recall(found.line)
        tx.unconfirmed.judge([Session().entry(UNLOCK)._replace(event=event, line=found.line)])

    (problem,) = verified(world).problems

    assert "counts without being confirmed" in problem.problem


# When the trust changes.


def test_what_a_key_signed_counts_when_it_is_trusted_and_no_more_when_it_is_revoked() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK)], FORGED)
    before = state(world)
    assert doubts(world) == [Doubt.UNKNOWN_SIGNER]

    world.rules = rules(OTHER)
    world.ledger.refresh()
    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []
    assert state(world) == state(made_anew(world))

    world.rules = rules()
    world.ledger.refresh()
    assert state(world) == before == state(made_anew(world))


def made_anew(world: World) -> World:
    """Another ledger, made from the same files under the same rules."""
    again = World(
        rules=world.rules, session="20261117-090000-00000000", exchange=world.exchange, keys=world.keys
    )
    again.ledger.refresh()
    return again


def test_a_command_notices_that_the_trust_has_changed() -> None:
    world = a_world(OTHER)
    read_in(world, [signed(UNLOCK)], FORGED)

    world.rules = rules()
    refusal = world.refusal(c.ClaimTask(agent="Alice", task_id=T1), "Alice")

    assert refusal.code == "locked_out"


def test_another_project_id_makes_every_release_unconfirmed() -> None:
    world = World(rules=rules())
    task = world.add()
    world.ask(c.CancelTask(task_id=task))

    world.rules = rules(project="fedcba9876543210")
    world.ledger.refresh()
    assert world.task(task).status == Status.INCOMING
    assert doubts(world) == [Doubt.WRONG_SIGNATURE]

    world.rules = rules()
    world.ledger.refresh()
    assert world.task(task).status == Status.CANCELLED


def test_a_revoked_key_leaves_what_others_signed() -> None:
    third = FakeKeys("third")
    world = a_world(OTHER, third)
    read_in(world, [signed(UNLOCK)], FORGED)
    session = Session("20261115-090000-000000ee", FakeClock(LATER), keys=third, project=PROJECT)
    session.write(e.TaskCancelled(task_id=T2))
    read_in(world, session.lines, "/events/third.jsonl")

    world.rules = rules(third)
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert world.task(T2).status == Status.CANCELLED


def test_while_the_configuration_cannot_be_read_the_trust_stays_as_it_was() -> None:
    world = a_world(OTHER)

    def broken() -> Rules:
        raise EnvironmentFault("remand.toml is not TOML")

    world.ledger._rules = broken
    read_in(world, [signed(UNLOCK), signed(e.TaskCancelled(task_id=T2), FakeKeys("stranger"))], FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == [Doubt.UNKNOWN_SIGNER]


def test_a_ledger_of_before_there_were_signatures_judges_what_it_holds() -> None:
    world = a_world()
    read_in(world, [signed(UNLOCK, None)], FORGED)
    with world.store.write() as tx:
        (found,) = tx.unconfirmed.every()
        entry = Session().entry(UNLOCK)._replace(event=codec.recall(found.line), line=found.line)
        tx.unconfirmed.judge([entry])
        tx.unconfirmed.trust = ""
        rebuild(tx)
    assert not world.task(T1).is_locked_out("Alice")

    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert doubts(world) == [Doubt.UNSIGNED]


class CountingKeys(FakeKeys):
    """Counts how often something is verified."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def verify(self, claims: Sequence[Signed]) -> list[bool]:
        self.count += len(claims)
        return super().verify(claims)


def test_what_was_verified_is_not_verified_again() -> None:
    keys = CountingKeys()
    world = a_world(OTHER, keys=keys)
    read_in(world, [signed(UNLOCK)], FORGED)
    assert keys.count == 1

    with world.store.write() as tx:
        rebuild(tx)
    world.exchange.put("/events/copy.jsonl", [signed(UNLOCK)])
    world.ledger.refresh()
    world.rules = rules(OTHER, FakeKeys("third"))
    world.ledger.refresh()

    assert keys.count == 1


# Two machines.


def test_two_machines_that_trust_each_other_come_to_the_same_state() -> None:
    mine, theirs = a_world(), a_world(keys=OTHER, session="20261115-090000-00000001")
    mine.ask(c.Unlock(task_id=T1, agent="Alice", reason="Mine"))
    theirs.ask(c.CancelTask(task_id=T2))
    exchange(mine, theirs)

    assert mine.task(T2).status == Status.INCOMING
    assert theirs.task(T1).is_locked_out("Alice")
    assert (doubts(mine), doubts(theirs)) == ([Doubt.UNKNOWN_SIGNER], [Doubt.UNKNOWN_SIGNER])

    mine.rules = theirs.rules = rules(MACHINE, OTHER)
    for world in (mine, theirs):
        world.ledger.refresh()
    assert mine.task(T2).status == Status.CANCELLED
    assert not theirs.task(T1).is_locked_out("Alice")
    assert state(mine) == state(theirs) == state(made_anew(mine))


def exchange(one: World, two: World) -> None:
    lines = [world.exchange.lines() for world in (one, two)]
    for world, others in ((one, lines[1]), (two, lines[0])):
        read_in(world, others, "/events/exchanged.jsonl")


def test_a_third_machine_that_trusts_nobody_sees_what_restricts_and_not_what_releases() -> None:
    mine = a_world()
    mine.ask(c.Unlock(task_id=T1, agent="Alice", reason="Mine"))
    mine.claim(T2, "Bob")
    third = World(rules=rules(), keys=FakeKeys("third"), session="20261115-090000-00000003")

    read_in(third, mine.exchange.lines())

    assert third.task(T2).claim is not None
    assert third.task(T1).is_locked_out("Alice")
    assert doubts(third) == [Doubt.UNKNOWN_SIGNER]


def test_a_key_that_was_lost_is_believed_as_long_as_it_is_trusted() -> None:
    world = World(rules=rules(MACHINE))
    task = world.add()
    world.ask(c.CancelTask(task_id=task))

    world.keys = FakeKeys("a new key")
    world.opened_again().refresh()
    assert world.task(task).status == Status.CANCELLED

    world.rules = rules()
    world.ledger.refresh()
    assert world.task(task).status == Status.INCOMING


def test_a_machine_without_a_key_believes_what_is_trusted() -> None:
    class NoKeys(FakeKeys):
        def own(self) -> PublicKey | None:
            return None

    world = a_world(OTHER, keys=NoKeys())
    read_in(world, [signed(UNLOCK)], FORGED)

    assert not world.task(T1).is_locked_out("Alice")


def test_a_claim_that_a_revoked_key_made_room_for_becomes_a_conflict() -> None:
    world = a_world(OTHER)
    read_in(world, [signed(UNLOCK)], FORGED)
    world.clock.time = "2026-11-15T12:00:00.000000Z"
    world.claim(T1, "Alice")

    world.rules = rules()
    world.ledger.refresh()

    assert world.task(T1).claim is None
    assert [conflict.event for conflict in world.task(T1).conflicts] == [claimed().name]

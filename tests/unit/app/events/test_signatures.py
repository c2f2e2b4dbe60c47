"""Holds that an event counts when a trusted key covers it, whatever its kind, and changes nothing when none does."""

import json
from collections.abc import Callable, Sequence
from itertools import permutations

import pytest
from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.events.signatures import Verifier, confirmed_events
from remand.app.events.task_folds import rebuild_tables
from remand.app.log.verification import state_digest
from remand.app.ports import Keys, SignedClaim
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.keys import PublicKey, Trust
from remand.domain.events.catalogue import NATIVE, event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.events.tasks import TaskCancelled
from remand.domain.task import Status
from remand.ledger import codec, signatures
from remand.ledger.signatures import Doubt, GroupedEvent
from remand.testing.builders import MACHINE, T1, T2, Session, task_added, task_claimed
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import FakeLedger, an_event
from tests.support.fakes import ProcessKilled
from tests.support.log_checks import verify_in_parts

THEIRS, FORGED = "/events/theirs.jsonl", "/events/forged.jsonl"
PROJECT = "0123456789abcdef"
OTHER = FakeKeys("other machine")
STRANGER = FakeKeys("a stranger")
UNLOCK = LockoutCleared(task_id=T1, agent="Alice", reason="All is well")
LATER = "2026-11-15T09:05:00.000000Z"


def rules(*trusted: Keys, project: str = PROJECT) -> Rules:
    return Rules(gates=(), project=project, trusted=tuple(keys.ensure_key() for keys in trusted))


def a_world(*trusted: Keys, **options: object) -> FakeLedger:
    """A ledger with two tasks of this machine's earlier session, both of which Alice is locked out of."""
    world = FakeLedger(rules=rules(MACHINE, *trusted), **options)
    session = Session(project=PROJECT)
    for task in (T1, T2):
        session.write(task_added(task))
        session.write(LockoutSet(task_id=task, agent="Alice"))
    read_in(world, session.lines)
    return world


def read_in(world: FakeLedger, lines: list[bytes], path: str = THEIRS) -> None:
    world.exchange.put(path, lines)
    world.ledger.refresh()


def signed(*events: Event, keys: Keys | None = OTHER, project: str = PROJECT) -> list[bytes]:
    """The lines of events as somebody else wrote them."""
    session = Session("20261115-090000-000000ff", FakeClock(LATER), keys=keys, project=project)
    for event in events:
        session.write(event)
    return session.lines


def doubts(world: FakeLedger) -> list[Doubt]:
    with world.store.read() as view:
        return [found.doubt for found in view.unconfirmed.every()]


def state(world: FakeLedger) -> tuple[str, int]:
    with world.store.read() as view:
        return state_digest(view)


def made_anew(world: FakeLedger) -> FakeLedger:
    """Another ledger, made from the same files under the same rules."""
    again = FakeLedger(
        rules=world.rules, session="20261117-090000-00000000", exchange=world.exchange, keys=world.keys
    )
    again.ledger.refresh()
    return again


# What is written here.


def test_every_event_written_here_is_covered_by_a_signature_in_the_same_write() -> None:
    world = FakeLedger(rules=rules())
    task = world.add()
    world.claim(task)
    world.ask(c.CancelTask(task_id=task))

    lines = world.exchange.all_lines()
    named = [name.id for line in lines[::2] for name in signatures.decode_group(line).events]

    assert [signatures.is_group(line) for line in lines] == [True, False] * 3
    assert named == [codec.decode_line(line).meta.id for line in lines[1::2]]
    assert verify_in_parts(world).ok


def test_a_command_of_several_events_has_one_signature() -> None:
    world = FakeLedger(rules=rules())
    one, two = world.add("One"), world.add("Two")
    before = len(world.exchange.all_lines())

    world.add("Three", depends_on=(one, two))

    (group, *events) = world.exchange.all_lines()[before:]
    assert [name.task for name in signatures.decode_group(group).events] == [
        event_task_id(codec.decode_line(line)) for line in events
    ]
    assert len(events) == 3


def test_what_was_written_here_counts_in_a_ledger_made_anew_from_the_files() -> None:
    world = FakeLedger(rules=rules())
    task = world.add()
    world.ask(c.CancelTask(task_id=task))

    again = made_anew(world)

    assert again.task(task).status == Status.CANCELLED
    assert state(again) == state(world)


@pytest.mark.parametrize("is_forged", [False, True], ids=["our own", "forged"])
def test_after_a_kill_only_what_this_key_signed_is_taken_in(is_forged: bool) -> None:
    world = FakeLedger(rules=rules())
    task = world.add()
    segment = next(iter(world.exchange.contents))
    size = len(world.exchange.contents[segment].data)
    world.exchange.die_after_next_append()
    with pytest.raises(ProcessKilled):
        world.ask(c.CancelTask(task_id=task))
    if is_forged:
        group, line = world.exchange.contents[segment].data[size:].splitlines()
        false = signatures.encode_group(replace(signatures.decode_group(group), signature="A" * 86))
        world.exchange.truncate(segment, size)
        world.exchange.grow(segment, b"\n".join([false, line, b""]))

    world.reopen()
    world.add("Another")

    assert world.task(task).status == (Status.INCOMING if is_forged else Status.CANCELLED)
    assert len(world.exchange.set_aside) == is_forged
    assert len(world.events()) == 3 - is_forged
    assert verify_in_parts(world).ok


def test_a_line_appended_to_the_open_segment_is_never_covered_by_a_later_signature() -> None:
    world = FakeLedger(rules=rules())
    task = world.add()
    with world.store.read() as view:
        segment, head = world.exchange.path(view.head.segment), view.head
    meta = Meta(id="", session=head.session, seq=head.seq + 1, prev=head.tip, actor="user")
    _, line = codec.encode_event(replace(TaskCancelled(task_id=task), ts=LATER), meta)
    world.exchange.grow(segment, line + b"\n")

    world.add("Another")

    assert world.task(task).status == Status.INCOMING
    assert world.exchange.set_aside == [line + b"\n"]
    assert line not in world.exchange.all_lines()
    assert state(made_anew(world)) == state(world)


# What comes in files.


def test_what_a_trusted_key_signed_counts() -> None:
    world = a_world(OTHER)

    read_in(world, signed(UNLOCK), FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []


def test_an_event_too_long_for_one_line_is_covered_as_it_was_cut() -> None:
    world = a_world(OTHER)

    read_in(world, signed(replace(UNLOCK, reason="x" * 400_000)), FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert verify_in_parts(world).ok


def regrouped(lines: list[bytes], **changes: object) -> list[bytes]:
    """A group that was changed by hand, and its event."""
    group, *rest = lines
    return [signatures.encode_group(replace(signatures.decode_group(group), **changes)), *rest]


def changed(lines: list[bytes], change: Callable[[dict[str, object]], None]) -> list[bytes]:
    """An event that was changed by hand, with an id that fits it again, in a group that names that id."""
    group, line = lines
    fields = json.loads(line)
    change(fields)
    text = json.dumps(fields, separators=(",", ":")).encode()
    event_id = codec.content_hash(text)
    read = signatures.decode_group(group)
    named = (GroupedEvent(event_id, read.events[0].task),)
    return [
        signatures.encode_group(replace(read, events=named)),
        text.replace(fields["meta"]["id"].encode(), event_id.encode()),
    ]


def forged(case: str) -> list[bytes]:
    """Lines that pretend to lift Alice's lockout of the first task."""
    true = signed(UNLOCK)
    other = signed(LockoutCleared(task_id=T2, agent="Alice"))
    signature = signatures.decode_group(other[0]).signature
    event_id = codec.decode_line(true[1]).meta.id
    cases: dict[str, Callable[[], list[bytes]]] = {
        "unsigned": lambda: signed(UNLOCK, keys=None),
        "signed by nobody known": lambda: signed(UNLOCK, keys=STRANGER),
        "signed in the name of a trusted key": lambda: regrouped(
            signed(UNLOCK, keys=STRANGER), key=OTHER.ensure_key().id
        ),
        "signed for another task": lambda: changed(other, lambda fields: fields.update(task_id=T1)),
        "signed for another agent": lambda: changed(
            signed(replace(UNLOCK, agent="Bob")), lambda fields: fields.update(agent="Alice")
        ),
        "signed at another time": lambda: changed(
            true, lambda fields: fields.update(ts="2026-11-15T09:06:00.000000Z")
        ),
        "signed for another project": lambda: signed(UNLOCK, project="fedcba9876543210"),
        "signed for no project": lambda: signed(UNLOCK, project=""),
        "with the signature of another event": lambda: regrouped(true, signature=signature),
        "with a signature that was cut": lambda: regrouped(
            true, signature=signatures.decode_group(true[0]).signature[:-1]
        ),
        "with a signature that is none": lambda: regrouped(true, signature="?" * 86),
        "with a signature in other letters": lambda: regrouped(true, signature="é\u2028"),
        "with another number": lambda: regrouped(true, first=2),
        "with a broken chain": lambda: regrouped(true, before="0" * 32),
        "with another event beside it": lambda: regrouped(
            true, events=(GroupedEvent("0" * 32, T2), GroupedEvent(event_id, T1)), first=1
        ),
        "named as another task's": lambda: regrouped(true, events=(GroupedEvent(event_id, T2),)),
        "without its group": lambda: true[1:],
        "with a group in another form": lambda: [true[0].replace(b'"first"', b' "first"'), true[1]],
    }
    return cases[case]()


CASES = {
    "unsigned": Doubt.UNSIGNED,
    "signed by nobody known": Doubt.UNKNOWN_SIGNER,
    "signed in the name of a trusted key": Doubt.WRONG_SIGNATURE,
    "signed for another task": Doubt.UNSIGNED,
    "signed for another agent": Doubt.WRONG_SIGNATURE,
    "signed at another time": Doubt.WRONG_SIGNATURE,
    "signed for another project": Doubt.WRONG_SIGNATURE,
    "signed for no project": Doubt.WRONG_SIGNATURE,
    "with the signature of another event": Doubt.WRONG_SIGNATURE,
    "with a signature that was cut": Doubt.WRONG_SIGNATURE,
    "with a signature that is none": Doubt.WRONG_SIGNATURE,
    "with a signature in other letters": Doubt.WRONG_SIGNATURE,
    "with another number": Doubt.UNSIGNED,
    "with a broken chain": Doubt.WRONG_SIGNATURE,
    "with another event beside it": Doubt.UNSIGNED,
    "named as another task's": Doubt.UNSIGNED,
    "without its group": Doubt.UNSIGNED,
    "with a group in another form": Doubt.UNSIGNED,
}


@pytest.mark.parametrize("case", CASES)
def test_a_forged_event_is_kept_and_shown_and_changes_nothing(case: str) -> None:
    world = a_world(OTHER)
    before, tasks = state(world)[0], world.tasks()

    read_in(world, forged(case), FORGED)

    assert world.tasks() == tasks
    assert state(world)[0] == before
    assert doubts(world) == [CASES[case]]
    with world.store.read() as view:
        assert [found.line for found in view.unconfirmed.of_task(T1)] == forged(case)[-1:]


@pytest.mark.parametrize("case", CASES)
def test_a_wrong_signature_is_a_problem_and_an_unknown_signer_is_not(case: str) -> None:
    world = a_world(OTHER)
    read_in(world, forged(case), FORGED)

    found = verify_in_parts(world)

    is_problem = len(forged(case)) > 1 and case not in ("unsigned", "signed by nobody known")
    assert {(problem.file, problem.line) for problem in found.problems} == (
        {(FORGED, 1)} if is_problem else set()
    )
    assert [one.doubt for one in found.unconfirmed] == [CASES[case]]


@pytest.mark.parametrize("kind", NATIVE, ids=lambda kind: str(kind.__struct_config__.tag))
@pytest.mark.parametrize("keys", [None, STRANGER], ids=["unsigned", "signed by a stranger"])
def test_no_kind_of_event_counts_without_a_trusted_signature(kind: type[Event], keys: Keys | None) -> None:
    world = a_world(OTHER)
    world.claim(T1, "Bob")
    before, tasks, clock = state(world)[0], world.tasks(), world.ledger
    with world.store.read() as view:
        clock = view.head.clock

    read_in(world, signed(an_event(kind), keys=keys), FORGED)

    assert world.tasks() == tasks
    assert state(world)[0] == before
    assert len(doubts(world)) == 1
    assert set(world.marks.all()) == {
        "20261115-080000-0000000a",
        "20261115-090000-00000000",
    }, "it raises no mark"
    with world.store.read() as view:
        assert view.head.clock == clock, "it moves no clock"


def test_a_copy_of_an_unconfirmed_event_has_no_effect_either() -> None:
    world = a_world(OTHER)
    for path in ("/events/a.jsonl", "/events/b.jsonl"):
        world.exchange.put(path, signed(UNLOCK, keys=None))
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert len(doubts(world)) == 1


@pytest.mark.parametrize("keys", [None, STRANGER], ids=["unsigned", "signed by a stranger"])
@pytest.mark.parametrize("is_open", [False, True], ids=["in a file", "in the open segment"])
def test_an_unconfirmed_event_answers_no_key(keys: Keys | None, is_open: bool) -> None:
    world = a_world()
    session = Session("20261115-090000-000000ff", keys=keys)
    session.write(TaskCancelled(task_id=T1), key="k", ask="x")
    if is_open:
        world.add("Another")
        segment = next(path for path in world.exchange.contents if path != THEIRS)
        world.exchange.contents[segment].data += b"".join(line + b"\n" for line in session.lines)
    else:
        read_in(world, session.lines, FORGED)

    world.ask(c.CancelTask(task_id=T1), key="k")
    world.ask(c.CancelTask(task_id=T1), key="k")

    assert world.task(T1).status == Status.CANCELLED


def test_what_is_told_from_all_events_leaves_the_unconfirmed_out() -> None:
    world = a_world()
    read_in(world, signed(UNLOCK, keys=None), FORGED)

    with world.store.read() as view:
        assert [event.name for event in confirmed_events(view)] == ["node.create", "lockout.set"] * 2


def test_an_event_whose_group_comes_later_counts_then() -> None:
    world = a_world(OTHER)
    group, line = signed(UNLOCK)

    read_in(world, [line], FORGED)
    assert world.task(T1).is_locked_out("Alice")
    read_in(world, [group], "/events/group.jsonl")

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []
    assert state(world) == state(made_anew(world))


def test_a_later_signature_covers_what_comes_before_it_in_its_session() -> None:
    world = a_world(OTHER)
    lines = signed(UNLOCK, LockoutCleared(task_id=T2, agent="Alice"))
    lines[0] = signatures.encode_group(replace(signatures.decode_group(lines[0]), signature="A" * 86))

    read_in(world, lines, FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []


def test_a_wrong_signature_at_the_end_takes_nothing_from_what_comes_before_it() -> None:
    world = a_world(OTHER)
    lines = signed(UNLOCK, LockoutCleared(task_id=T2, agent="Alice"))
    lines[2] = signatures.encode_group(replace(signatures.decode_group(lines[2]), signature="A" * 86))

    read_in(world, lines, FORGED)

    assert not world.task(T1).is_locked_out("Alice")
    assert world.task(T2).is_locked_out("Alice")
    assert doubts(world) == [Doubt.WRONG_SIGNATURE]


def unsigned(line: bytes) -> bytes:
    """A group without its true signature."""
    return signatures.encode_group(replace(signatures.decode_group(line), signature="A" * 86))


TWO = signed(UNLOCK, LockoutCleared(task_id=T2, agent="Alice"))
FILES = {
    "the first without a signature": [[unsigned(TWO[0]), TWO[1]], TWO[2:]],
    "the second without a signature": [TWO[:2], [unsigned(TWO[2]), TWO[3]]],
    "the first with and without": [[unsigned(TWO[0]), TWO[0]], TWO[1:]],
    "the second with and without": [[unsigned(TWO[2])], TWO],
    "the events before their groups": [TWO[1::2], [unsigned(TWO[0])], [unsigned(TWO[2])], TWO[2:3]],
    "an event in the place of another": [
        [
            signatures.encode_group(
                replace(signatures.decode_group(TWO[0]), events=(GroupedEvent("0" * 32, T1),))
            )
        ],
        TWO[:2],
    ],
    "another key in the place of the true one": [
        [signatures.encode_group(replace(signatures.decode_group(TWO[0]), key=STRANGER.ensure_key().id))],
        TWO[:2],
    ],
}


@pytest.mark.parametrize("files", FILES.values(), ids=FILES.keys())
def test_groups_count_alike_in_whichever_order_their_files_are_read(files: list[list[bytes]]) -> None:
    outcomes = []
    for order in permutations(files):
        world = a_world(OTHER)
        for n, lines in enumerate(order):
            read_in(world, lines, f"/events/{n}.jsonl")
        assert not [one for one in verify_in_parts(world).problems if "the ledger was changed" in one.problem]
        outcomes.append((state(world), sorted(doubts(world))))
        assert state(made_anew(world)) == state(world)

    assert outcomes == outcomes[:1] * len(outcomes)


def test_many_false_groups_on_a_long_chain_cost_no_more_than_their_number() -> None:
    session = Session("20261115-090000-000000ff", keys=OTHER, project=PROJECT)
    for n in range(3000):
        session.write(LockoutSet(task_id=T1, agent=f"Agent {n}"))
    true = [signatures.decode_group(line) for line in session.lines[::2]]
    last = true[-1]
    false = [
        replace(last, first=last.last + 1, before=last.after, events=(GroupedEvent(f"{n:032x}", T1),))
        for n in range(3000)
    ]
    found = Verifier(Trust(project=PROJECT, keys=(OTHER.ensure_key(),)), OTHER).doubts([*true, *false])

    assert {found[group] for group in true} == {Doubt.NONE}
    assert {found[group] for group in false} == {Doubt.WRONG_SIGNATURE}


# Lines that were cut out.


def test_a_line_cut_out_of_a_file_is_named_with_its_task() -> None:
    lines = signed(task_added(T1), LockoutSet(task_id=T1, agent="Alice"), task_added(T2))
    world = FakeLedger(rules=rules(OTHER))

    read_in(world, [*lines[:3], *lines[4:]])

    (problem,) = verify_in_parts(world).problems
    assert f"event 2 of session 20261115-090000-000000ff about {T1} is missing" in problem.problem


def test_a_group_cut_out_of_a_file_is_named_by_its_numbers() -> None:
    lines = signed(
        task_added(T1),
        LockoutSet(task_id=T1, agent="Alice"),
        LockoutSet(task_id=T1, agent="Bob"),
        task_added(T2),
    )
    world = FakeLedger(rules=rules(OTHER))

    read_in(world, [*lines[:2], *lines[6:]])

    (problem,) = verify_in_parts(world).problems
    assert "events 2 to 3 of session 20261115-090000-000000ff are missing" in problem.problem


def test_an_event_that_is_held_back_for_its_time_is_not_called_missing() -> None:
    session = Session("20261115-090000-000000ff", keys=OTHER, project=PROJECT)
    session.write(task_added(T1))
    session.write(LockoutSet(task_id=T1, agent="Alice"), at="2026-11-18T09:00:00.000000Z")
    world = FakeLedger(rules=rules(OTHER))

    read_in(world, session.lines)

    (problem,) = verify_in_parts(world).problems
    assert (problem.line, "held back" in problem.problem) == (4, True)


def test_lines_of_another_task_that_are_not_here_are_no_fault() -> None:
    lines = signed(task_added(T1), task_added(T2), LockoutSet(task_id=T1, agent="Alice"))
    world = FakeLedger(rules=rules(OTHER))

    read_in(world, [*lines[:3], *lines[4:]])

    assert world.task(T1).is_locked_out("Alice")
    assert verify_in_parts(world).ok


def test_a_ledger_in_which_an_unconfirmed_event_counts_was_changed() -> None:
    world = a_world()
    read_in(world, signed(UNLOCK, keys=None), FORGED)
    with world.store.write() as tx:
        (found,) = tx.unconfirmed.every()
        event = codec.decode_stored_line(found.line)
        tx.unconfirmed.judge([Session().entry(UNLOCK)._replace(event=event, line=found.line)])

    (problem,) = verify_in_parts(world).problems

    assert "counts without being confirmed" in problem.problem


# When the trust changes.


def test_what_a_key_signed_counts_when_it_is_trusted_and_no_more_when_it_is_not() -> None:
    world = a_world()
    read_in(world, signed(UNLOCK), FORGED)
    before = state(world)
    assert doubts(world) == [Doubt.UNKNOWN_SIGNER]

    world.rules = rules(MACHINE, OTHER)
    world.ledger.refresh()
    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == []
    assert state(world) == state(made_anew(world))

    world.rules = rules(MACHINE)
    world.ledger.refresh()
    assert state(world) == before == state(made_anew(world))


def test_a_command_notices_that_the_trust_has_changed() -> None:
    world = a_world(OTHER)
    read_in(world, signed(UNLOCK), FORGED)

    world.rules = rules(MACHINE)
    refusal = world.refusal(c.ClaimTask(agent="Alice", task_id=T1), "Alice")

    assert refusal.code == "locked_out"


def test_a_project_that_gets_an_id_keeps_what_this_machine_wrote_before() -> None:
    world = FakeLedger(rules=rules(OTHER, project=""))
    task = world.add()
    world.ask(c.CancelTask(task_id=task))
    read_in(world, signed(task_added(T1), project=""))
    assert T1 in world.tasks()

    world.rules = rules(OTHER)
    world.ledger.refresh()

    assert world.task(task).status == Status.CANCELLED
    assert T1 not in world.tasks(), "what others signed for no project, they have to sign for this one"
    assert state(world) == state(made_anew(world))
    world.add("Another")
    assert state(world) == state(made_anew(world))


def test_a_key_that_is_trusted_no_more_leaves_what_others_signed() -> None:
    third = FakeKeys("third")
    world = a_world(OTHER, third)
    read_in(world, signed(UNLOCK), FORGED)
    session = Session("20261115-090000-000000ee", FakeClock(LATER), keys=third, project=PROJECT)
    session.write(TaskCancelled(task_id=T2))
    read_in(world, session.lines, "/events/third.jsonl")

    world.rules = rules(MACHINE, third)
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert world.task(T2).status == Status.CANCELLED


def test_while_the_configuration_cannot_be_read_the_trust_stays_as_it_was() -> None:
    world = a_world(OTHER)

    def broken() -> Rules:
        raise EnvironmentFault("remand.toml is not TOML")

    world.ledger._rules = broken
    read_in(world, signed(UNLOCK), FORGED)
    read_in(world, signed(TaskCancelled(task_id=T2), keys=STRANGER), "/events/stranger.jsonl")

    assert not world.task(T1).is_locked_out("Alice")
    assert doubts(world) == [Doubt.UNKNOWN_SIGNER]


class CountingKeys(FakeKeys):
    """Counts how often something is verified."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        self.count += len(claims)
        return super().verify(claims)


def test_one_signature_is_verified_for_a_whole_session_and_never_again() -> None:
    keys = CountingKeys()
    world = FakeLedger(rules=rules(OTHER), keys=keys)
    lines = signed(*(LockoutSet(task_id=T1, agent=f"Agent {n}") for n in range(50)))
    read_in(world, lines)
    assert keys.count == 1

    with world.store.write() as tx:
        rebuild_tables(tx)
    world.exchange.put("/events/copy.jsonl", lines)
    world.ledger.refresh()
    world.rules = rules(OTHER, FakeKeys("third"))
    world.ledger.refresh()

    assert keys.count == 1


def test_decisions_verify_nothing_again_that_a_signature_read_here_covers() -> None:
    keys = CountingKeys()
    world = FakeLedger(rules=rules(OTHER), keys=keys)
    tasks = [f"T-20261115-090000-{number:08x}" for number in range(5)]
    added = [task_added(task) for task in tasks]
    read_in(world, signed(*added, *(LockoutSet(task_id=task, agent="Alice") for task in tasks)))
    before = keys.count

    for task in tasks:
        world.claim(task, by="Bob")

    assert keys.count == before


# Another key.


def test_a_new_key_starts_a_new_session() -> None:
    world = FakeLedger(rules=rules(MACHINE))
    world.add("One")
    (before,) = {event.meta.session for event in world.events()}

    world.keys = FakeKeys("a new key")
    world.reopen()
    world.add("Two")

    sessions = {event.meta.session for event in world.events()}
    assert before in sessions
    assert len(sessions) == 2
    assert len(world.tasks()) == 2
    assert verify_in_parts(world).ok


def test_a_key_that_was_lost_counts_as_long_as_it_is_trusted() -> None:
    world = FakeLedger(rules=rules(MACHINE))
    task = world.add()

    world.keys = FakeKeys("a new key")
    world.reopen().refresh()
    assert task in world.tasks()

    world.rules = rules()
    world.ledger.refresh()
    assert world.tasks() == {}


def test_a_machine_without_a_key_reads_what_is_trusted() -> None:
    class NoKeys(FakeKeys):
        def own(self) -> PublicKey | None:
            return None

    world = a_world(OTHER, keys=NoKeys())
    read_in(world, signed(UNLOCK), FORGED)

    assert not world.task(T1).is_locked_out("Alice")


def test_a_claim_that_a_key_made_room_for_becomes_a_conflict_when_it_is_trusted_no_more() -> None:
    world = a_world(OTHER)
    read_in(world, signed(UNLOCK), FORGED)
    world.clock.time = "2026-11-15T12:00:00.000000Z"
    world.claim(T1, "Alice")

    world.rules = rules(MACHINE)
    world.ledger.refresh()

    assert world.task(T1).claim is None
    assert [conflict.event for conflict in world.task(T1).inbox.conflicts] == [task_claimed().name]


# Two machines.


def test_two_machines_that_trust_each_other_come_to_the_same_state() -> None:
    mine, theirs = a_world(), a_world(keys=OTHER, session="20261115-090000-00000001")
    mine.ask(c.Unlock(task_id=T1, agent="Alice", reason="Mine"))
    theirs.ask(c.CancelTask(task_id=T2))
    lines = [world.exchange.all_lines() for world in (mine, theirs)]
    for world, others in ((mine, lines[1]), (theirs, lines[0])):
        read_in(world, others, "/events/exchanged.jsonl")

    assert mine.task(T2).status == Status.INCOMING
    assert doubts(mine) == [Doubt.UNKNOWN_SIGNER]

    mine.rules = theirs.rules = rules(MACHINE, OTHER)
    for world in (mine, theirs):
        world.ledger.refresh()
    assert mine.task(T2).status == Status.CANCELLED
    assert not theirs.task(T1).is_locked_out("Alice")
    assert state(mine) == state(theirs) == state(made_anew(mine))


REPLAYED = ["in another file", "under another session's name", "from another project", "before its place"]


@pytest.mark.parametrize("kind", NATIVE, ids=lambda kind: str(kind.__struct_config__.tag))
@pytest.mark.parametrize("way", REPLAYED)
def test_no_kind_of_event_counts_a_second_time(kind: type[Event], way: str) -> None:
    """What a trusted key signed counts once, in its place and in its project."""
    world = a_world(OTHER)
    world.claim(T1, "Bob")
    once = signed(an_event(kind), LockoutSet(task_id=T2, agent="Carol"))
    if way != "from another project":
        read_in(world, once)
    before, tasks = state(world)[0], world.tasks()

    read_in(world, _again(once, an_event(kind), way), FORGED)

    assert world.tasks() == tasks
    assert state(world)[0] == before


def _again(lines: list[bytes], event: Event, way: str) -> list[bytes]:
    if way == "in another file":
        return lines
    if way == "from another project":
        return signed(event, LockoutSet(task_id=T2, agent="Carol"), project="fedcba9876543210")
    group, line, *_ = lines
    if way == "before its place":
        return [signatures.encode_group(replace(signatures.decode_group(group), first=3)), line]
    other = replace(
        signatures.decode_group(group), meta=signatures.GroupOrigin(session="20261115-090000-000000ee")
    )
    return [signatures.encode_group(other), line]

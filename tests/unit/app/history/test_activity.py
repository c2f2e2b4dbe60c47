"""Holds how events are told as they happen: each in words, each once, none with anything hidden in it."""

import pytest

from remand.adapters.stores.sqlite_schema import Row, Statements
from remand.app.history.activity import (
    MAX_WORDS,
    ActivityEntry,
    ActivityFollower,
    activity_entry,
    event_text,
    latest_activity,
)
from remand.domain import commands as c
from remand.domain.events.catalogue import NATIVE, Unknown
from remand.domain.events.event import Event
from remand.domain.events.log import LinesImported
from remand.domain.events.tasks import EdgeCreated, EdgeDeleted, TaskFailed
from remand.domain.events.work import GateAlerted, IdleStopCounted, RunEnded
from remand.ledger.signatures import Doubt
from remand.testing.builders import H1, T1, T2, Session, task_added, task_claimed
from tests.support.builders import (
    LEAKS,
    NIT,
    FakeLedger,
    an_event,
    gate_passed_and_submitted,
    review_rejected,
)


def news(world: FakeLedger, follower: ActivityFollower) -> list[str]:
    with world.store.read() as view:
        return [f"{one.label}: {one.text}" for one in follower.news(view)]


@pytest.mark.parametrize("kind", [*NATIVE, Unknown], ids=lambda kind: kind.__name__)
def test_every_kind_of_event_has_words_of_its_own(kind: type[Event]) -> None:
    event = an_event(kind)
    text = event_text(event)

    assert text
    assert text != event.name
    assert "{" not in text


@pytest.mark.parametrize(
    ("event", "text"),
    [
        (task_claimed(attempt=2), "Alice claimed it, attempt 2"),
        (review_rejected(findings=(NIT, LEAKS)), "Lead rejected c0ffee00c0ff: It leaks"),
        (TaskFailed(task_id=T1, handoff_id=H1, agent="Alice", reason="no way"), "Alice gave up: no way"),
        (TaskFailed(task_id=T1, handoff_id=H1, agent="Alice"), "Alice gave up"),
        (EdgeCreated(src=f"task:{T1}", tgt=f"task:{T2}", type="DEPENDS_ON"), f"waits for {T2}"),
        (EdgeDeleted(src=f"task:{T2}", tgt=f"task:{T1}", type="BLOCKS"), f"no longer waits for {T2}"),
        (
            RunEnded(task_id=T1, run_id="R", agent="Alice", how="timed_out", seconds=61.4, cost=0.5),
            "Alice's run timed out after 61 s, $0.50",
        ),
        (
            RunEnded(task_id=T1, run_id="R", agent="Alice", how="exited", is_fault=True, detail="no key"),
            "Alice's run failed after 0 s: no key",
        ),
        (GateAlerted(task_id=T1, agent="Alice", number=1), "the gates rejected Alice's work once"),
        (GateAlerted(task_id=T1, agent="Alice", number=3), "the gates rejected Alice's work 3 times"),
        (
            IdleStopCounted(task_id=T1, handoff_id=H1, agent="Alice", number=1),
            "Alice stopped with nothing to measure",
        ),
        (
            IdleStopCounted(task_id=T1, handoff_id=H1, agent="Alice", number=2),
            "Alice stopped with nothing to measure (2 in a row)",
        ),
        (
            IdleStopCounted(task_id=T1, handoff_id=H1, agent="Alice", number=2, commit="c0ffee00" * 5),
            "Alice submitted the rejected commit c0ffee00c0ff again (2 in a row)",
        ),
        (LinesImported(file="old.jsonl", sha256="0", count=1), "1 line was imported from old.jsonl"),
        (LinesImported(file="old.jsonl", sha256="0", count=2), "2 lines were imported from old.jsonl"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_event_says_who_did_what_and_why(event: Event, text: str) -> None:
    assert event_text(event) == text


def test_a_kind_nobody_knows_is_told_and_never_taken_for_a_pattern() -> None:
    assert event_text(Unknown(kind="{0.meta.id}.new")) == "{0.meta.id}.new, which this version does not know"


def test_what_others_wrote_is_on_one_line_and_not_too_long() -> None:
    text = event_text(task_added(title="Mend\nthe \x1b[31mroof\u202e" + "x" * 500))

    assert text.startswith("was added: Mend the [31mroofxx")
    assert len(text) == MAX_WORDS


def test_a_happening_has_its_task_and_who_asked() -> None:
    event = Session().write(task_claimed(), actor="Alice")

    assert activity_entry(event, "issue #42") == ActivityEntry(
        at=event.ts,
        event="task.claim",
        task_id=T1,
        label="issue #42",
        actor="Alice",
        text="Alice claimed it, attempt 1",
    )


def test_the_latest_come_newest_first_without_what_says_nothing_new() -> None:
    world = FakeLedger()
    name, _ = world.add_and_claim(aliases=("#42",))
    for _ in range(5):
        world.clock.advance(900)
        world.ask(c.Heartbeat(task_id=name, agent="Alice"), "Alice")

    with world.store.read() as view:
        assert [one.text for one in latest_activity(view, 2)] == [
            "Alice claimed it, attempt 1",
            "was added: Mend the roof",
        ]
        assert [one.label for one in latest_activity(view, 1)] == ["issue #42"]


def test_more_of_what_happened_last_takes_no_more_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    world = FakeLedger()
    name = world.add()
    for number in range(20):
        world.ask(c.EditTask(task_id=name, title=f"Mend the roof {number}"))
    reads: list[str] = []
    execute = Statements._execute

    def count(statements: Statements, statement: str, values: Row) -> object:
        reads.append(statement)
        return execute(statements, statement, values)

    monkeypatch.setattr(Statements, "_execute", count)

    def reads_of(most: int) -> int:
        reads.clear()
        with world.store.read() as view:
            assert len(latest_activity(view, most)) == most
        return len(reads)

    assert reads_of(15) == reads_of(2)


def test_a_follower_tells_everything_once_and_at_first_nothing() -> None:
    world, follower = FakeLedger(), ActivityFollower()
    world.add("Before", aliases=("#1",))

    assert news(world, follower) == []
    name = world.add("After", aliases=("#2",))
    assert news(world, follower) == ["issue #2: was added: After"]
    assert news(world, follower) == []
    world.claim(name)
    world.ask(c.ReleaseTask(task_id=name, agent="Alice"), "Alice")
    assert news(world, follower) == ["issue #2: Alice claimed it, attempt 1", "issue #2: Alice released it"]


def test_a_follower_that_is_asked_to_begins_with_what_happened_last() -> None:
    world = FakeLedger()
    for number in range(5):
        world.add(f"Task {number}", aliases=(f"#{number}",))
    follower = ActivityFollower(recent=2)

    assert news(world, follower) == [
        "issue #3: was added: Task 3",
        "issue #4: was added: Task 4",
    ]
    assert news(world, follower) == []


def test_many_events_at_once_are_all_told() -> None:
    world, follower = FakeLedger(), ActivityFollower()
    news(world, follower)
    for number in range(300):
        world.add(f"Task {number}")

    assert len(news(world, follower)) == 300


def test_what_a_file_of_others_brings_is_told_once() -> None:
    world, follower = FakeLedger(), ActivityFollower()
    news(world, follower)
    session = Session("20261114-080000-0000000b", world.clock)
    entries = [session.entry(event) for event in (task_added(T1, aliases=("#9",)), task_claimed())]
    with world.store.write() as tx:
        tx.events.add(entries)

    assert news(world, follower) == [
        f"{T1}: was added: Mend the roof",
        f"{T1}: Alice claimed it, attempt 1",
    ]
    assert news(world, follower) == []


def test_what_nobody_trusted_has_signed_is_told_as_without_effect() -> None:
    world = FakeLedger()
    session = Session("20261114-080000-0000000b", world.clock, keys=None)
    entries = [session.entry(event) for event in (task_added(), task_claimed(), *gate_passed_and_submitted())]
    doubted = [
        entry._replace(doubt=Doubt.UNSIGNED) if entry.event.name == "gate.pass" else entry
        for entry in entries
    ]
    with world.store.write() as tx:
        tx.events.add(doubted)
    with world.store.read() as view:
        found = {one.event: one.is_unconfirmed for one in latest_activity(view, 10)}

    assert found == {"node.create": False, "task.claim": False, "gate.pass": True, "task.submit": False}

"""Holds that no decision rests on a table alone: what was changed in the ledger's file releases nothing.

Each test edits the file as anybody with another SQLite program can, and then asks as another process does.
"""

import json
import sqlite3
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.events.signatures import Signer
from remand.app.log.keys import adopt_sessions
from remand.app.log.repair import give_up_lines, missing_lines, rebuild_from_files, restore_tables
from remand.app.ports import Keys
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.access.keys import ChainEnd
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.log import AbandonedLines, EventsVoided, LinesGivenUp
from remand.domain.events.reviews import LockoutCleared, LockoutSet
from remand.domain.events.tasks import TaskCancelled, TaskDecomposed
from remand.domain.events.work import GatePassed
from remand.domain.task import Status
from remand.ledger import codec, signatures
from remand.ledger.signatures import GroupedEvent
from remand.testing.builders import MACHINE, T1, T2, Session, task_added
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger, a_result, a_verdict, send_back
from tests.support.log_checks import verify_in_parts

STRANGER = FakeKeys("a stranger")
GATED = Rules(gates=("tests", "integrity"))


class Place:
    """A ledger in a file, and the file as another program sees it."""

    def __init__(self, path: Path, rules: Rules) -> None:
        self.path = path
        store = SqliteStore(path)
        store.adopt(store.file_identity(), "20261115-090000-00000000", lambda _: None)
        self.world = FakeLedger(store=store, rules=rules)

    def edit(self, statement: str, *values: Any) -> None:
        """Changes the file behind the ledger's back. What the ledger remembers is gone with its process."""
        with sqlite3.connect(self.path) as connection:
            changed = connection.execute(statement, values).rowcount
        connection.close()
        assert changed > 0, f"nothing was changed by: {statement}"
        self.world.reopen()

    def rows(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        connection = sqlite3.connect(self.path)
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            connection.close()

    def edit_state(self, task: str, change: Callable[[dict[str, Any]], object]) -> None:
        """Changes the row of a task."""
        ((text,),) = self.rows("SELECT state FROM task WHERE id = ?", task)
        state = json.loads(text)
        change(state)
        self.edit("UPDATE task SET state = ? WHERE id = ?", json.dumps(state, separators=(",", ":")), task)

    def edit_event(self, name: str, statement: str) -> None:
        """Changes the rows of all events of that name."""
        found = self.rows("SELECT n FROM event WHERE instr(line, CAST(? AS BLOB))", f'"event":"{name}"')
        assert found, f"there is no event {name}"
        for (n,) in found:
            self.edit(f"{statement} WHERE n = {n}")

    def problems(self) -> list[str]:
        """What `log verify` says."""
        return [problem.problem for problem in verify_in_parts(self.world).problems]

    def restore(self) -> None:
        """What `log verify` does when it finds a difference."""
        restore_tables(self.world.ledger)

    def statuses(self) -> dict[str, str]:
        return {task.id: task.status for task in self.world.tasks().values()}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "ledger.db", Rules(gates=()))
    yield place
    place.world.store.close()  # type: ignore[attr-defined]


@pytest.fixture
def gated(tmp_path: Path) -> Iterator[Place]:
    place = Place(tmp_path / "ledger.db", GATED)
    yield place
    place.world.store.close()  # type: ignore[attr-defined]


def locked_out(place: Place) -> str:
    """A task whose first author is locked out of it."""
    task = place.world.add()
    send_back(place.world, task, "Alice", "one")
    assert place.world.task(task).is_locked_out("Alice")
    return task


def without_lockouts(state: dict[str, Any]) -> None:
    state["people"].pop("lockouts")


def doubt_group_of(place: Place, name: str, doubt: str) -> None:
    """Doubts the group of the one event of that name."""
    ((n,),) = place.rows("SELECT n FROM event WHERE instr(line, CAST(? AS BLOB))", f'"event":"{name}"')
    seq = n & ((1 << 40) - 1)
    place.edit("UPDATE signed_group SET doubt = ? WHERE ? BETWEEN first AND last", doubt, seq)


LOCKOUT_REMOVED: dict[str, Callable[[Place, str], None]] = {
    "from the task's row": lambda p, t: p.edit_state(t, without_lockouts),
    "from the task's row and the queue": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit("UPDATE task SET barred = '' WHERE id = ?", t),
    )[0],
    "as an event that belongs to no task": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit_event("lockout.set", "UPDATE event SET subject = ''"),
    )[0],
    "as an event that is doubted": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit_event("lockout.set", "UPDATE event SET subject = ''"),
        p.edit(
            "INSERT INTO unconfirmed SELECT n, 'x', ?, '', 'unsigned' FROM event "
            "WHERE instr(line, CAST('lockout.set' AS BLOB))",
            t,
        ),
    )[0],
    "as an event whose group is doubted": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit_event("lockout.set", "UPDATE event SET subject = ''"),
        doubt_group_of(p, "lockout.set", "unknown_signer"),
    )[0],
    "with its event": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit_event("lockout.set", "DELETE FROM event"),
    )[0],
    "by a change of its event": lambda p, t: (
        p.edit_state(t, without_lockouts),
        p.edit_event("lockout.set", "UPDATE event SET line = CAST(replace(line, 'Alice', 'Clara') AS BLOB)"),
    )[0],
}


@pytest.mark.parametrize("way", LOCKOUT_REMOVED)
def test_whoever_is_locked_out_may_not_claim_though_the_lockout_was_removed(place: Place, way: str) -> None:
    task = locked_out(place)
    LOCKOUT_REMOVED[way](place, task)

    code = place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code

    assert code in ("locked_out", "lines_missing")
    assert place.world.task(task).claim is None


@pytest.mark.parametrize("way", LOCKOUT_REMOVED)
def test_the_queue_gives_nobody_what_they_are_locked_out_of(place: Place, way: str) -> None:
    task = locked_out(place)
    LOCKOUT_REMOVED[way](place, task)

    assert place.world.refusal(c.ClaimTask(agent="Alice"), "Alice").code in (
        "nothing_to_claim",
        "locked_out",
        "lines_missing",
    )
    assert place.world.task(task).claim is None


@pytest.mark.parametrize("way", LOCKOUT_REMOVED)
def test_the_check_of_the_log_names_a_lockout_that_was_removed(place: Place, way: str) -> None:
    task = locked_out(place)
    assert place.problems() == []
    LOCKOUT_REMOVED[way](place, task)

    assert any(task in problem for problem in place.problems())


@pytest.mark.parametrize("way", LOCKOUT_REMOVED)
def test_tables_are_made_anew_from_the_events_and_then_all_is_in_order(place: Place, way: str) -> None:
    task = locked_out(place)
    LOCKOUT_REMOVED[way](place, task)

    place.restore()

    assert place.problems() == []
    assert place.world.task(task).is_locked_out("Alice")
    assert place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code == "locked_out"


def test_a_row_that_was_changed_is_put_right_by_the_decision_that_noticed_and_noted(place: Place) -> None:
    task = locked_out(place)
    place.edit_state(task, without_lockouts)

    place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice")

    assert place.world.task(task).is_locked_out("Alice")
    with place.world.store.read() as view:
        assert any(task in problem.problem for problem in view.files.problems())


# Work is handed in.


def rejected_by_gates(place: Place) -> str:
    """A task whose done claim the gates rejected."""
    task = place.world.add()
    claim = place.world.claim(task).claim
    assert claim is not None
    place.world.repository.add("bad", "badtree")
    commit = place.world.repository.commit("bad")
    assert commit is not None
    verdict = a_verdict(a_result(), commit=commit.sha, tree=commit.tree)
    place.world.ledger.ask_as(
        THE_COORDINATOR,
        c.RecordVerdict(task_id=task, agent="Alice", handoff_id=claim.handoff_id, verdict=verdict),
    )
    assert not place.world.task(task).gates.is_released
    return task


def released(state: dict[str, Any]) -> None:
    state["gates"] |= {"is_released": True, "status": "passed", "blocking": []}


def test_work_is_not_handed_in_on_a_verdict_that_only_a_row_has(gated: Place) -> None:
    task = rejected_by_gates(gated)
    gated.edit_state(task, released)

    assert gated.world.refusal(c.SubmitTask(task_id=task, agent="Alice", commit="bad"), "Alice").code == (
        "not_measured"
    )
    assert not any(isinstance(event, GatePassed) for event in gated.world.events())


def test_no_other_commit_of_the_same_code_takes_over_a_verdict_that_only_a_row_has(gated: Place) -> None:
    task = rejected_by_gates(gated)
    gated.edit_state(task, lambda state: (released(state), state["gates"].update(commit="0" * 40)))

    assert gated.world.refusal(c.SubmitTask(task_id=task, agent="Alice", commit="bad"), "Alice").code == (
        "not_measured"
    )


def forge(place: Place, *events: Event) -> None:
    """Puts events and the groups of a stranger into the tables, as if they had been found sound."""
    ((session, seq, tip, clock),) = place.rows("SELECT session, seq, tip, clock FROM head")
    ((number,),) = place.rows("SELECT number FROM session WHERE name = ?", session)
    named: list[GroupedEvent] = []
    for own, event in enumerate(events, seq + 1):
        meta = Meta(id="", session=session, seq=own, actor="Alice", prev=tip)
        stamped, line = codec.encode_event(replace(event, ts=clock), meta)
        tip = stamped.meta.id
        named.append(GroupedEvent(tip, event_task_id(stamped)))
        place.edit("INSERT INTO event VALUES (?, ?, '', ?)", number << 40 | own, event_task_id(stamped), line)
    (group,) = Signer(STRANGER, "").sign(session, seq + 1, "0" * 32, named, clock)
    line = signatures.encode_group(group)
    place.edit(
        "INSERT INTO signed_group(session, first, last, hash, doubt, line) VALUES (?, ?, ?, ?, '', ?)",
        *(session, group.first, group.last, sha256(line).digest(), line),
    )
    place.edit("INSERT INTO group_task SELECT ?, max(n) FROM signed_group", named[0].task)


def forged_release(place: Place, task: str) -> tuple[Event, ...]:
    claim = place.world.task(task).claim
    commit = place.world.repository.commit("bad")
    assert claim is not None
    assert commit is not None
    verdict = a_verdict(commit=commit.sha, tree=commit.tree)
    own = {"task_id": task, "handoff_id": claim.handoff_id, "agent": "Alice"}
    return (GatePassed(verdict=verdict, **own),)


def test_an_event_that_was_put_into_the_tables_with_a_group_of_a_stranger_releases_nothing(
    gated: Place,
) -> None:
    task = rejected_by_gates(gated)
    forge(gated, *forged_release(gated, task))
    gated.edit_state(task, released)

    assert gated.world.refusal(c.SubmitTask(task_id=task, agent="Alice", commit="bad"), "Alice").code == (
        "lines_missing"
    )


def test_an_event_that_was_put_into_the_tables_without_a_group_releases_nothing(gated: Place) -> None:
    task = rejected_by_gates(gated)
    forge(gated, *forged_release(gated, task))
    gated.edit("DELETE FROM group_task WHERE n = (SELECT max(n) FROM signed_group)")
    gated.edit("DELETE FROM signed_group WHERE n = (SELECT max(n) FROM signed_group)")
    gated.edit_state(task, released)

    assert gated.world.refusal(c.SubmitTask(task_id=task, agent="Alice", commit="bad"), "Alice").code == (
        "lines_missing"
    )


FORGED: dict[str, Callable[[Place, str], Event]] = {
    "a lockout that was cleared": lambda _, task: LockoutCleared(task_id=task, agent="Alice"),
    "a lockout that is void": lambda place, _: EventsVoided(
        session="x", first=1, last=1, chain="", events=(id_of(place, "lockout.set"),)
    ),
}


def id_of(place: Place, name: str) -> str:
    """The id of the one event of that name."""
    ((line,),) = place.rows("SELECT line FROM event WHERE instr(line, CAST(? AS BLOB))", f'"event":"{name}"')
    return codec.decode_line(line).meta.id


@pytest.mark.parametrize("way", FORGED)
def test_an_event_that_was_put_into_the_tables_with_a_group_of_a_stranger_ends_no_lockout(
    place: Place, way: str
) -> None:
    task = locked_out(place)
    forge(place, FORGED[way](place, task))
    place.edit_state(task, without_lockouts)

    code = place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code

    assert code in ("locked_out", "lines_missing")


def test_an_event_that_was_put_into_the_tables_with_a_group_of_a_stranger_settles_no_other_task(
    place: Place,
) -> None:
    session = Session()
    for event in (
        task_added(T1),
        task_added(T2, "A part", parent=T1),
        TaskDecomposed(task_id=T1, children=(T2,)),
    ):
        session.write(event)
    read_file(place, session.lines)
    waiting = place.world.add("Waits for the part", depends_on=(T2,))
    forge(place, TaskCancelled(task_id=T2, reason="Done elsewhere"))
    place.edit("UPDATE task SET status = 'cancelled' WHERE id = ?", T2)
    place.edit("UPDATE task SET due_at = '2020-01-01T00:00:00.000000Z' WHERE id = ?", T1)

    place.world.add("Whatever comes next")

    assert place.statuses()[T1] == Status.DECOMPOSED
    assert place.world.refusal(c.ClaimTask(agent="Bob", task_id=waiting), "Bob").code == "waits_on_other"


def test_held_work_is_not_let_through_on_a_finding_that_only_a_row_has(gated: Place) -> None:
    """The machine itself would sign the release of work that the gates rejected."""
    task = rejected_by_gates(gated)
    held = {"status": "held", "held": ["f1"], "blocking": ["integrity"]}
    gated.edit_state(task, lambda state: state["gates"].update(held))

    assert gated.world.refusal(c.SettleFinding(task_id=task, finding="f1", is_accepted=True)).code == (
        "nothing_held"
    )
    assert gated.world.task(task).status == Status.CLAIMED


def test_a_gate_is_not_overridden_that_only_a_row_says_is_the_last_one(gated: Place) -> None:
    task = rejected_by_gates(gated)
    gated.edit_state(task, lambda state: state["gates"].update(status="held", blocking=["integrity"]))

    assert gated.world.refusal(c.OverrideGate(task_id=task, gate="integrity", reason="It is fine")).code == (
        "nothing_to_override"
    )


# Work is approved.


def test_work_that_only_a_row_says_was_handed_in_is_not_approved(gated: Place) -> None:
    task = rejected_by_gates(gated)
    commit = gated.world.repository.commit("bad")
    claim = gated.world.task(task).claim
    assert commit is not None
    assert claim is not None

    def handed_in(state: dict[str, Any]) -> None:
        state["status"] = "provisional"
        state.pop("claim")
        state["submission"] = {
            "commit": commit.sha,
            "tree": commit.tree,
            "agent": "Alice",
            "handoff_id": claim.handoff_id,
            "at": claim.claimed_at,
        }

    gated.edit_state(task, handed_in)
    gated.edit("UPDATE task SET status = 'provisional' WHERE id = ?", task)

    assert gated.world.refusal(c.ApproveReview(task_id=task, commit="bad")).code == "nothing_to_review"
    assert gated.world.task(task).status == Status.CLAIMED


def test_a_rejection_that_was_removed_still_bars_the_approval_of_that_code(place: Place) -> None:
    task = locked_out(place)
    place.edit_event("review.reject", "DELETE FROM event")
    place.edit_state(task, lambda state: (state.update(status="provisional"), state["reviews"].pop("rounds")))

    code = place.world.refusal(c.ApproveReview(task_id=task, commit="one")).code

    assert code in ("nothing_to_review", "lines_missing")


def test_a_no_is_still_taken_where_events_are_missing(place: Place) -> None:
    """What bars a release bars neither a lockout nor a cancellation."""
    task = locked_out(place)
    place.edit_event("lockout.set", "DELETE FROM event")

    place.world.ask(c.LockOut(task_id=task, agent="Bob", reason="He is busy"))

    assert place.world.task(task).is_locked_out("Bob")
    assert place.world.ask(c.CancelTask(task_id=task)).task.status == Status.CANCELLED


def test_a_missing_event_bars_no_other_task(place: Place) -> None:
    locked_out(place)
    other = place.world.add("Another")
    place.edit_event("lockout.set", "DELETE FROM event")

    assert place.world.finish(other).status == Status.DONE


# What other tasks say.


def test_a_task_that_only_a_row_says_is_done_is_still_waited_for(place: Place) -> None:
    first = place.world.add("First")
    second = place.world.add("Second", depends_on=(first,))
    place.edit_state(first, lambda state: state.update(status="done"))
    place.edit("UPDATE task SET status = 'done' WHERE id = ?", first)

    assert place.world.refusal(c.ClaimTask(agent="Bob", task_id=second), "Bob").code == "waits_on_other"


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE task SET status = 'done' WHERE id = '{first}'",
        "DELETE FROM blocker WHERE task = (SELECT n FROM node WHERE task = '{second}')",
        "UPDATE blocker SET is_void = 1 WHERE task = (SELECT n FROM node WHERE task = '{second}')",
    ],
    ids=["its status alone", "the link is gone", "the link is void"],
)
def test_a_dependency_holds_whatever_the_tables_beside_the_task_say(place: Place, statement: str) -> None:
    first = place.world.add("First")
    second = place.world.add("Second", depends_on=(first,))
    place.edit(statement.format(first=first, second=second))

    assert place.world.refusal(c.ClaimTask(agent="Bob", task_id=second), "Bob").code == "waits_on_other"
    assert any(first in problem or second in problem for problem in place.problems())


def test_a_task_that_only_a_row_has_is_none(place: Place) -> None:
    place.world.add()
    ((n, state),) = place.rows("SELECT n, state FROM task")
    other = json.loads(state) | {"id": "T-20261115-080000-000000ff"}
    place.edit(
        "INSERT INTO task SELECT 99, ?, status, due_at, rank, line, barred, ?, marks FROM task WHERE n = ?",
        *(other["id"], json.dumps(other, separators=(",", ":")), n),
    )

    assert place.world.refusal(c.ClaimTask(agent="Bob", task_id=other["id"]), "Bob").code == "unknown_task"
    assert any(other["id"] in problem for problem in place.problems())
    place.restore()
    assert place.problems() == []
    assert other["id"] not in place.statuses()


def test_a_task_whose_row_is_gone_is_still_there(place: Place) -> None:
    task = locked_out(place)
    place.edit("DELETE FROM task WHERE id = ?", task)

    assert place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code == "locked_out"


def test_a_lockout_from_above_holds_though_the_row_above_has_none(place: Place) -> None:
    session = Session()
    for event in (task_added(T1), LockoutSet(task_id=T1, agent="Alice"), task_added(T2, "A part", parent=T1)):
        session.write(event)
    place.world.exchange.put("/events/theirs.jsonl", session.lines)
    place.world.ledger.refresh()
    place.edit_state(T1, without_lockouts)

    assert place.world.refusal(c.ClaimTask(agent="Alice", task_id=T2), "Alice").code == "locked_out"


@pytest.mark.parametrize("subject", ["subject", "''"])
def test_an_event_that_a_row_alone_doubts_counts_once_all_is_rebuilt(place: Place, subject: str) -> None:
    task = place.world.add()
    place.world.claim(task)
    ((line,),) = place.rows("SELECT line FROM event WHERE instr(line, CAST('task.claim' AS BLOB))")
    place.edit(
        "INSERT INTO unconfirmed SELECT n, ?, subject, '', 'unsigned' FROM event WHERE line = ?",
        *(codec.decode_line(line).meta.id, line),
    )
    place.edit(f"UPDATE event SET subject = {subject} WHERE line = ?", line)

    rebuild_from_files(place.world.ledger)

    assert place.statuses() == {task: Status.CLAIMED}
    assert place.problems() == []


def test_an_event_that_no_group_names_leaves_no_mark_though_no_row_doubts_it(place: Place) -> None:
    session = Session("20261115-080000-000000f1", keys=None)
    session.write(task_added(T1))
    place.world.exchange.put("/events/theirs.jsonl", session.lines)
    place.world.ledger.refresh()
    place.edit("DELETE FROM unconfirmed")

    rebuild_from_files(place.world.ledger)

    assert session.name not in place.world.marks.all()
    assert place.statuses() == {}


# What the check of the log compares.

TABLES = {
    "task": "UPDATE task SET rank = NULL WHERE id = '{task}'",
    "blocker": "INSERT INTO blocker VALUES (98, 99, 0)",
    "node": "INSERT INTO node VALUES (98, '{task}', NULL)",
    "opening": "INSERT INTO opening SELECT 'Alice', line, rank FROM task WHERE id = '{task}'",
    "alias": "INSERT INTO alias VALUES ('#9', '{task}')",
    "handoff": "INSERT INTO handoff VALUES ('H-20261115-080000-000000ff', '{task}')",
    "errand": "INSERT INTO errand VALUES ('publish', '{task}')",
    "trace": "DELETE FROM trace",
    "group_task": "DELETE FROM group_task WHERE task = '{task}'",
    "event": "UPDATE event SET key = 'mine' WHERE subject = '{task}'",
    "unconfirmed": "INSERT INTO unconfirmed SELECT n, 'x', subject, '', 'void' FROM event WHERE subject = '{task}'",
    "signed_group": "UPDATE signed_group SET doubt = 'unknown_signer'",
}


@pytest.mark.parametrize("table", TABLES)
def test_the_check_of_the_log_compares_every_table_and_makes_it_anew(place: Place, table: str) -> None:
    task = locked_out(place)
    before = place.statuses()
    place.edit(TABLES[table].format(task=task))

    assert any(table in problem or task in problem for problem in place.problems())

    place.restore()
    assert place.problems() == []
    assert place.statuses() == before


WRONG_TYPES = [
    "UPDATE event SET line = 7 WHERE subject = '{task}'",
    "UPDATE signed_group SET first = x'ff'",
    "UPDATE signed_group SET last = 'x'",
    "UPDATE signed_group SET line = 7",
    "UPDATE signed_group SET line = 'x'",
    "UPDATE task SET line = NULL",
    "UPDATE task SET line = 'x'",
    "UPDATE task SET barred = 'x'",
    "UPDATE task SET barred = x'ff'",
]


@pytest.mark.parametrize("statement", WRONG_TYPES)
def test_values_that_are_none_of_ours_are_named_and_made_anew(place: Place, statement: str) -> None:
    task = locked_out(place)
    before = place.statuses()
    place.edit(statement.format(task=task))

    place.world.refusal(c.ClaimTask(agent="Alice"), "Alice")
    assert place.problems() != []

    place.restore()
    assert place.problems() == []
    assert place.statuses() == before


def test_dependencies_whose_tasks_are_out_of_order_are_named_and_put_in_order(place: Place) -> None:
    first = place.world.add("First")
    place.world.add("Second", depends_on=(first,))
    place.edit("UPDATE node SET position = 1 << 50 WHERE task = ?", first)

    assert any("node" in problem for problem in place.problems())
    place.restore()
    assert place.problems() == []


def test_a_group_whose_row_says_more_than_its_line_hides_no_gap(place: Place) -> None:
    task = locked_out(place)
    place.world.add("Later")
    ((n, line),) = place.rows("SELECT n, line FROM event WHERE instr(line, CAST('lockout.set' AS BLOB))")
    seq = codec.decode_line(line).meta.seq
    ((first, last),) = place.rows("SELECT first, last FROM signed_group WHERE ? BETWEEN first AND last", seq)
    place.edit("DELETE FROM event WHERE n BETWEEN ? AND ?", n - seq + first, n - seq + last)
    place.edit("DELETE FROM group_task WHERE n = (SELECT n FROM signed_group WHERE first = ?)", first)
    place.edit("DELETE FROM signed_group WHERE first = ?", first)
    place.edit("UPDATE signed_group SET last = ? WHERE last = ?", last, first - 1)
    place.edit_state(task, without_lockouts)

    assert any("signed_group" in problem for problem in place.problems())


def test_a_key_that_was_put_on_an_event_answers_no_command(place: Place) -> None:
    task = locked_out(place)
    place.edit("UPDATE event SET key = 'k1' WHERE subject = ?", task)

    place.world.ask(c.AddTask(title="Another"), key="k1")

    assert len(place.statuses()) == 2


def test_a_row_that_was_changed_bars_nobody_else(place: Place) -> None:
    task = locked_out(place)
    place.edit_state(task, without_lockouts)

    assert place.world.claim(task, "Bob").claim is not None


GROUP_REMOVED = {
    "deleted": "DELETE FROM signed_group WHERE n = {n}",
    "damaged": "UPDATE signed_group SET line = CAST('x' AS BLOB) WHERE n = {n}",
    "changed": "UPDATE signed_group SET line = CAST(replace(line, '\"first\":', '\"first\":1') AS BLOB) WHERE n = {n}",
}


@pytest.mark.parametrize("way", GROUP_REMOVED)
def test_a_lockout_whose_signature_was_taken_out_of_the_tables_lets_nobody_in(place: Place, way: str) -> None:
    task = place.world.add()
    place.world.ask(c.LockOut(task_id=task, agent="Alice", reason="She is away"))
    ((n,),) = place.rows("SELECT max(n) FROM signed_group")
    place.edit(GROUP_REMOVED[way].format(n=n))
    place.edit_state(task, without_lockouts)

    code = place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code

    assert code in ("locked_out", "lines_missing")
    assert place.problems()
    place.restore()
    assert place.problems() == []
    assert place.world.task(task).is_locked_out("Alice")


def test_a_process_that_stays_notices_what_another_program_changes(place: Place) -> None:
    task = locked_out(place)
    ledger = place.world.ledger
    place.edit_state(task, without_lockouts)
    place.world.ledger = ledger

    assert place.world.refusal(c.ClaimTask(agent="Alice", task_id=task), "Alice").code == "locked_out"


def test_an_event_that_was_put_into_the_tables_with_a_key_answers_no_command(place: Place) -> None:
    task = place.world.add()
    ((session, seq, tip, clock),) = place.rows("SELECT session, seq, tip, clock FROM head")
    ((number,),) = place.rows("SELECT number FROM session WHERE name = ?", session)
    meta = Meta(id="", session=session, seq=seq + 5, actor="Alice", prev=tip, key="k1", ask="x")
    _, line = codec.encode_event(replace(TaskCancelled(task_id=task), ts=clock), meta)
    place.edit("INSERT INTO event VALUES (?, ?, 'k1', ?)", number << 40 | seq + 5, task, line)

    place.world.ask(c.AddTask(title="Another"), key="k1")

    assert len(place.statuses()) == 2


# What was given up, voided, adopted, or signed by a key whose trust has ended.

OTHER = FakeKeys("another machine")
LOCKOUT = LockoutSet(task_id=T1, agent="Alice")


def read_file(place: Place, lines: list[bytes]) -> None:
    place.world.exchange.put("/events/theirs.jsonl", lines)
    place.world.ledger.refresh()


def theirs(*events: Event, keys: Keys | None = MACHINE) -> Session:
    session = Session(clock=FakeClock("2026-11-15T08:30:00.000000Z"), keys=keys)
    for event in (task_added(T1), LOCKOUT, *events):
        session.write(event)
    return session


def plant(place: Place, event: Event) -> None:
    """Puts an event that nobody signed into the tables, with all that follows from it there."""
    entry = Session("20261115-080000-000000bb", keys=None).entry(event)
    with place.world.store.write() as tx:
        tx.events.add([entry])
    place.world.reopen()


def claim(place: Place, agent: str) -> str:
    return place.world.refusal(c.ClaimTask(agent=agent, task_id=T1), agent).code


def test_lines_that_the_user_gave_up_bar_nothing(place: Place) -> None:
    session = theirs()
    read_file(place, [line for line in session.lines if line != session.event_lines[1]])
    assert claim(place, "Bob") == "lines_missing"

    ledger = place.world.reopen()
    give_up_lines(ledger, missing_lines(ledger), THE_USER, "They are lost")

    place.world.reopen()
    assert place.world.claim(T1, "Bob").claim is not None


def test_nothing_is_given_up_by_an_event_that_was_put_into_the_tables(place: Place) -> None:
    read_file(place, theirs().lines)
    place.edit_state(T1, without_lockouts)
    place.edit_event("lockout.set", "DELETE FROM event")
    assert claim(place, "Bob") == "lines_missing"

    plant(place, LinesGivenUp(lines=(AbandonedLines(session=theirs().name, first=1, last=9),)))

    assert claim(place, "Bob") == "lines_missing"


def test_nothing_is_void_by_an_event_that_was_put_into_the_tables(place: Place) -> None:
    session = theirs()
    read_file(place, session.lines)
    place.edit_state(T1, without_lockouts)
    lockout = codec.decode_line(session.event_lines[1]).meta.id

    plant(place, EventsVoided(session=session.name, first=2, last=2, chain="", events=(lockout,)))

    assert claim(place, "Alice") == "locked_out"


ADOPTED_REMOVED: dict[str, Callable[[Place], None]] = {
    "from the task's row": lambda p: p.edit_state(T1, without_lockouts),
    "as an event that belongs to no task": lambda p: (
        p.edit_state(T1, without_lockouts),
        p.edit_event("lockout.set", "UPDATE event SET subject = ''"),
    )[0],
}


@pytest.mark.parametrize("way", ADOPTED_REMOVED)
def test_a_lockout_of_an_adopted_session_holds_though_it_was_removed(place: Place, way: str) -> None:
    session = theirs(keys=None)
    read_file(place, session.lines)
    adopt_sessions(place.world.ledger, [session.name], "That key is lost", THE_USER)
    ADOPTED_REMOVED[way](place)

    assert claim(place, "Alice") == "locked_out"
    assert place.world.claim(T1, "Bob").claim is not None


def test_what_a_key_signed_after_its_end_does_not_count_though_the_tables_say_so(place: Place) -> None:
    session = theirs(LockoutCleared(task_id=T1, agent="Alice"), keys=OTHER)
    second = [signatures.decode_group(line) for line in session.lines if signatures.is_group(line)][1]
    end = ChainEnd(session=session.name, number=2, chain=second.after)
    trusted = (MACHINE.ensure_key(), replace(OTHER.ensure_key(), until=(end,)))
    place.world.rules = Rules(gates=(), trusted=trusted)
    read_file(place, session.lines)
    assert claim(place, "Alice") == "locked_out"

    place.edit("UPDATE signed_group SET doubt = '' WHERE session = ?", session.name)
    place.edit("DELETE FROM unconfirmed")
    place.edit_event("lockout.clear", f"UPDATE event SET subject = '{T1}'")
    place.edit_state(T1, without_lockouts)

    assert claim(place, "Alice") in ("locked_out", "lines_missing")
    assert claim(place, "Bob") == "lines_missing"


def test_an_adopted_lockout_is_found_whatever_number_it_has_in_its_adoption(place: Place) -> None:
    session = Session(clock=FakeClock("2026-11-15T08:30:00.000000Z"))
    session.write(task_added(T1))
    session.signer = None
    session.write(LOCKOUT)
    read_file(place, session.lines)
    adopt_sessions(place.world.ledger, [session.name], "Nobody signed it", THE_USER)
    ADOPTED_REMOVED["as an event that belongs to no task"](place)

    assert claim(place, "Alice") == "locked_out"
    assert place.world.claim(T1, "Bob").claim is not None


def test_what_leads_to_the_end_of_a_key_counts_where_other_tasks_are_between(place: Place) -> None:
    session = theirs(task_added(T2), keys=OTHER)
    third = [signatures.decode_group(line) for line in session.lines if signatures.is_group(line)][2]
    end = ChainEnd(session=session.name, number=3, chain=third.after)
    trusted = (MACHINE.ensure_key(), replace(OTHER.ensure_key(), until=(end,)))
    place.world.rules = Rules(gates=(), trusted=trusted)
    read_file(place, session.lines)

    place.world.ask(c.Unlock(task_id=T1, agent="Alice", reason="It was the other one"))

    assert not place.world.task(T1).is_locked_out("Alice")


def test_an_event_that_is_held_back_for_its_time_bars_nothing(place: Place) -> None:
    session = theirs()
    session.write(LockoutSet(task_id=T1, agent="Bob"), at="2026-12-15T09:00:00.000000Z")
    read_file(place, session.lines)
    place.world.reopen()

    assert place.world.claim(T1, "Bob").claim is not None

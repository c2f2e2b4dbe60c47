"""An older ledger file finds its rejected tasks, too."""

from __future__ import annotations

from pathlib import Path

import apsw
import msgspec
import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_views import VERSION
from remand.app.errors import LedgerReplaced
from remand.domain import commands as c
from remand.domain.access.team import look_keys, name_key
from remand.domain.events.reviews import Finding, ReviewApproved, ReviewRejected
from remand.domain.forge import ForgeAction, TaskForgeState
from remand.domain.run import Run
from remand.domain.task import ReviewRound, Status, Submission, Task
from remand.ledger.signatures import Doubt
from remand.ledger.task_state import flat_state
from remand.testing.builders import NOW, Session, a_lockout, a_task, actor
from remand.testing.builders import task_id as numbered
from tests.support.builders import FakeLedger

VERSION_19 = """
DROP INDEX trace_log; DROP TABLE task_text; DROP INDEX task_status; DROP INDEX task_waiting; UPDATE task SET marks = marks & 31;
PRAGMA user_version = 19;
"""
VERSION_17 = f"""
{VERSION_19}DROP INDEX task_running; DROP INDEX task_sent_back; DROP INDEX task_outages; DROP INDEX task_commit; DROP INDEX task_pr;
ALTER TABLE task DROP COLUMN marks; ALTER TABLE task RENAME COLUMN due_at TO due;
CREATE INDEX task_running ON task(id) WHERE instr(state, '"runs":[') > 0;
CREATE INDEX task_sent_back ON task(id) WHERE instr(state, '"rounds":[') > 0;
CREATE INDEX task_outages ON task(id) WHERE instr(state, '"outages":[') > 0;
CREATE INDEX task_commit ON task(json_extract(state, '$.submission.commit')) WHERE instr(state, '"submission":{{') > 0;
CREATE INDEX task_pr ON task(json_extract(state, '$.pr')) WHERE instr(state, '"pr":') > 0;
PRAGMA user_version = 17
"""
VERSION_16 = f"""
{VERSION_19}DROP TABLE opening; DROP INDEX task_rank; DROP INDEX task_line;
ALTER TABLE task DROP COLUMN barred; ALTER TABLE task RENAME COLUMN line TO pool;
ALTER TABLE task ADD COLUMN position INTEGER NOT NULL DEFAULT 0; UPDATE task SET position = n;
UPDATE task SET pool = '[[],["Alice"],null]' WHERE rank IS NOT NULL;
CREATE TABLE pair(task TEXT NOT NULL, blocker TEXT NOT NULL, is_void INTEGER NOT NULL, PRIMARY KEY (task, blocker));
INSERT INTO pair SELECT a.task, b.task, is_void FROM blocker JOIN node a ON a.n = blocker.task JOIN node b ON b.n = blocker;
DROP TABLE blocker; DROP TABLE node; ALTER TABLE pair RENAME TO blocker;
CREATE INDEX task_rank ON task(rank, pool) WHERE rank IS NOT NULL;
CREATE INDEX task_pool ON task(pool, rank) WHERE rank IS NOT NULL;
CREATE INDEX blocker_of ON blocker(blocker, task);
CREATE INDEX blocker_void ON blocker(task) WHERE is_void;
PRAGMA user_version = 16
"""
VERSION_14 = f"""
{VERSION_19}DROP TABLE group_task; DROP INDEX signed_group_place; DROP INDEX signed_group_wrong;
CREATE TABLE old_group AS SELECT session, first, last, hash, doubt, line FROM signed_group; DROP TABLE signed_group;
CREATE TABLE signed_group(
    session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, hash BLOB NOT NULL,
    doubt TEXT NOT NULL, line BLOB NOT NULL
);
INSERT INTO signed_group SELECT * FROM old_group; DROP TABLE old_group;
CREATE UNIQUE INDEX signed_group_place ON signed_group(session, first, hash);
CREATE INDEX signed_group_wrong ON signed_group(session) WHERE doubt = 'wrong_signature';
"""
VERSION_13 = f"{VERSION_14} ALTER TABLE head DROP COLUMN bounded_from;"
VERSION_12 = f"{VERSION_13} DROP TABLE objection;"
VERSION_11 = f"{VERSION_12} DROP TABLE name;"
VERSION_10 = f"{VERSION_11} DROP TABLE missing; DROP TABLE rewritten; ALTER TABLE head DROP COLUMN changed;"
VERSION_9 = f"""
{VERSION_10} DROP TABLE signed_group;
ALTER TABLE head DROP COLUMN chain; ALTER TABLE head DROP COLUMN key; ALTER TABLE head DROP COLUMN project;

"""
OLD = f"""
{VERSION_9}DROP TABLE rejected_vocabulary; DROP TABLE rejected; DROP TABLE rejected_word; DROP INDEX trace_rejecter;
DROP TABLE unconfirmed; DROP TABLE outdated; DROP TABLE log_line; DROP INDEX task_sent_back;
DROP INDEX task_running; DROP TABLE errand; DROP INDEX task_commit; DROP INDEX task_pr;
DROP INDEX task_outages;
PRAGMA user_version = 2
"""
VERSION_4 = f"""
{VERSION_9}DROP TABLE outdated; DROP TABLE log_line; DROP INDEX task_sent_back;
DROP INDEX task_running; DROP TABLE errand; DROP INDEX task_commit; DROP INDEX task_pr;
DROP INDEX task_outages;
PRAGMA user_version = 4
"""


VERSION_6 = f"""
{VERSION_9}DROP TABLE errand; DROP INDEX task_commit; DROP INDEX task_pr; DROP INDEX task_outages; PRAGMA user_version = 6
"""


def rejected(number: int, title: str) -> Task:
    return a_task(numbered(number), title=title, rejection_count=1)


def opened(path: Path) -> SqliteStore:
    store = SqliteStore(path)
    store.adopt(store.file_identity(), "20261115-090000-00000000", lambda segment: None)
    return store


def flatten_states(store: SqliteStore) -> None:
    """Has the states of tasks in the form that they had before version 16."""
    with store.read() as view:
        flat = [(task.id, msgspec.json.encode(flat_state(task)).decode()) for task in view.tasks.every()]
    store.connection.executemany("UPDATE task SET state = ?2 WHERE id = ?1", flat).fetchall()


def test_a_ledger_without_the_index_is_given_one_when_it_is_opened(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(rejected(1, "Mend roof"))
        tx.tasks.put(a_task(numbered(2), title="Mend roof"))
    flatten_states(store)
    store.connection.execute(OLD).fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        assert (tx.rejected.count(), tx.rejected.counts(["roof"])) == (1, {"roof": 1})
        tx.tasks.put(rejected(3, "Mend roof"))
        assert [task.id for task in tx.rejected.most_similar({"roof": 1.0}, 5)] == [numbered(3), numbered(1)]
    store.close()


def test_a_ledger_of_version_4_is_folded_anew_when_it_is_next_used(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    world = FakeLedger(store=store)
    task_id = world.add()
    world.claim(task_id)
    world.submit(task_id)
    finding = Finding(text="No")
    world.ask(c.RejectReview(task_id=task_id, commit="work", findings=(finding,)))
    before = world.task(task_id)
    store.connection.execute(
        "UPDATE task SET state = json_remove(state, '$.rounds', '$.holders', '$.feedback')"
    )
    store.connection.execute(VERSION_4).fetchall()
    store.close()
    world.store = opened(tmp_path / "ledger.db")
    world.reopen().ask_all([])

    assert world.task(task_id) == before
    assert before.reviews.rounds
    world.store.close()


def test_a_ledger_of_version_6_finds_what_is_to_be_done_on_the_forge(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(a_task(numbered(1), status=Status.DONE, forge=TaskForgeState(issue=7)))
        tx.tasks.put(a_task(numbered(2), status=Status.DONE, forge=TaskForgeState(issue=8, is_closed=True)))
    store.connection.execute(VERSION_6).fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    with store.read() as view:
        assert [task.id for task in view.task_lists.with_due([ForgeAction.CLOSE])] == [numbered(1)]
    store.close()


def test_a_ledger_of_version_14_finds_the_groups_that_name_a_task(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    world = FakeLedger(store=store)
    task = world.add()
    world.ask(c.LockOut(task_id=task, agent="Alice", reason="She is away"))
    store.connection.execute(f"{VERSION_14} PRAGMA user_version = 14").fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    with store.read() as view:
        assert len(view.groups.of_task(task)) == 2
        assert list(view.audit.group_differences(view.groups.every())) == []
    store.close()


def test_a_ledger_of_version_16_gives_each_agent_the_first_task_that_does_not_bar_it(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = opened(path)
    sets = [("Alice", "Bob"), ("Alice",), ("Alice", "Carol"), ("Bob",)] * 20
    tasks = [a_task(numbered(n), lockouts=tuple(map(a_lockout, names))) for n, names in enumerate(sets * 2)]
    with store.write() as tx:
        tx.tasks.replace_all([*tasks[:40], a_task(numbered(900), depends_on=(numbered(3),)), *tasks[43:]], [])
    store.connection.execute(VERSION_16).fetchall()
    store.close()

    store = SqliteStore(path)

    with store.read() as view:
        given = [view.queue.next(actor(name), has_team=False) for name in ("Alice", "Bob", "Dave")]
        assert given == [numbered(3), numbered(1), numbered(0)]
        assert view.dependencies.open_blockers(numbered(900)) == (numbered(3),)
        assert view.dependencies.path(numbered(900), numbered(3)) == (numbered(900), numbered(3))
        by_id = {task.id: task for task in view.tasks.every()}
        assert list(view.audit.task_differences(by_id, {})) == []


def test_a_ledger_of_version_17_finds_tasks_by_what_they_have(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    store = opened(path)
    work = Submission(commit="a" * 40, agent="Alice", handoff_id="H-1", at=NOW)
    sent_back = ReviewRound(commit="b" * 40, agent="Alice", handoff_id="H-1")
    run = Run(id="RUN-1", agent="Alice", purpose="work", started_at=NOW)
    with store.write() as tx:
        tx.tasks.put(a_task(numbered(1), submission=work))
        tx.tasks.put(a_task(numbered(2), rounds=(sent_back,), pr=7))
        tx.tasks.put(a_task(numbered(3), runs=(run,)))
        tx.tasks.put(a_task(numbered(4)))
    store.connection.execute(VERSION_17).fetchall()
    store.close()

    store = SqliteStore(path)

    with store.read() as view:
        assert [task.id for task in view.names.find_submitted("a" * 40, 7)] == [numbered(1), numbered(2)]
        assert [task.id for task in view.task_lists.rejected_in_review()] == [numbered(2)]
        assert [task.id for task in view.task_lists.running_tasks()] == [numbered(3)]
        by_id = {task.id: task for task in view.tasks.every()}
        assert list(view.audit.task_differences(by_id, {})) == []


def test_a_ledger_of_version_11_knows_the_names_on_its_tasks(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(a_task(numbered(1), holders=("Fenster",), created_by="user"))
    flatten_states(store)
    store.connection.execute(f"{VERSION_11} PRAGMA user_version = 11").fetchall()
    store.close()

    with opened(tmp_path / "ledger.db").read() as view:
        assert view.names.names_with_key(name_key("FENSTER")) == ["Fenster"]
        assert view.names.names_with_key(look_keys("Fenst\u0435r")[0]) == ["Fenster"]


def test_a_ledger_of_version_12_finds_the_objections_among_its_unconfirmed_events(tmp_path: Path) -> None:
    store, session = opened(tmp_path / "ledger.db"), Session()
    said = ReviewRejected(task_id=numbered(1), reviewer="Lead", commit="c", tree="tree")
    kept = [
        session.entry(event)._replace(doubt=Doubt.UNKNOWN_SIGNER, signer="k")
        for event in (said, ReviewApproved(task_id=numbered(1), reviewer="Lead", commit="c"))
    ]
    with store.write() as tx:
        tx.events.add(kept)
        before = tx.objections.of_task(numbered(1), signer="k")
    store.connection.execute(f"{VERSION_12} PRAGMA user_version = 12").fetchall()
    store.close()

    with opened(tmp_path / "ledger.db").read() as view:
        assert view.objections.of_task(numbered(1), signer="k") == before
        assert [(one.signer, one.work) for one in before] == [("k", "tree")]


def test_a_ledger_of_version_13_remembers_how_far_it_had_come(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    world = FakeLedger(store=store)
    world.add()
    with store.read() as view:
        clock = view.head.clock
    store.connection.execute(f"{VERSION_13} PRAGMA user_version = 13").fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    with store.read() as view:
        assert (view.head.clock, view.head.bounded_from) == (clock, clock)
    store.close()


OLD_WRITES = (
    "INSERT INTO task(id, status, due, rank, line, barred, state) VALUES ('T-9', 'ready', NULL, NULL, NULL, '', '{}')",
    "UPDATE task SET status = 'ready', due = NULL, rank = NULL, line = NULL, barred = '', state = '{}'",
)


def test_a_process_of_version_17_cannot_write_once_the_tables_are_newer(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(a_task(numbered(1)))
    store.connection.execute(VERSION_17).fetchall()
    store.close()
    older = apsw.Connection(str(tmp_path / "ledger.db"))
    for statement in OLD_WRITES:
        older.execute(f"BEGIN; {statement}; ROLLBACK").fetchall()

    store = opened(tmp_path / "ledger.db")
    for statement in OLD_WRITES:
        with pytest.raises(apsw.SQLError, match="due"):
            older.execute(statement).fetchall()
    older.close()
    store.close()


def test_marks_that_an_older_process_left_out_of_version_18_are_made_up_for(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        work = Submission(commit="a" * 40, agent="Alice", handoff_id="H-1", at=NOW)
        tx.tasks.put(a_task(numbered(1), status=Status.DONE, submission=work))
    marks = store.connection.execute("SELECT marks FROM task").fetchall()
    store.connection.execute(
        f"{VERSION_19}ALTER TABLE task RENAME COLUMN due_at TO due; UPDATE task SET marks = 0; PRAGMA user_version = 18"
    ).fetchall()
    store.close()

    store = opened(tmp_path / "ledger.db")
    assert store.connection.execute("SELECT marks FROM task").fetchall() == marks != [(0,)]
    store.close()


def test_nothing_is_written_to_tables_that_another_version_has_changed_meanwhile(tmp_path: Path) -> None:
    store = opened(tmp_path / "ledger.db")
    with store.write() as tx:
        tx.tasks.put(a_task(numbered(1)))
    newer = apsw.Connection(str(tmp_path / "ledger.db"))
    newer.pragma("user_version", VERSION + 1)

    for _ in range(2):
        with pytest.raises(LedgerReplaced, match="Another version"), store.write() as tx:
            tx.tasks.put(a_task(numbered(2)))
    newer.pragma("user_version", VERSION)
    with store.write() as tx:
        assert [task.id for task in tx.tasks.every()] == [numbered(1)]
    newer.close()
    store.close()

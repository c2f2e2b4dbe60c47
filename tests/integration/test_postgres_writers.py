"""Several processes write one ledger in PostgreSQL, and it is as if one had written after the other."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress

import psycopg
import pytest

from remand.adapters.stores import postgres as store_module
from remand.adapters.stores.postgres import PostgresStore
from remand.adapters.stores.postgres_statements import PostgresStatements
from remand.app.errors import EnvironmentFault, StoreConflict
from remand.app.events.task_folds import rebuild_tables
from remand.app.group_commit import GroupCommit
from remand.app.requests import Acceptance, Answer, Request
from remand.domain import commands as c
from remand.domain.access.team import USER
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.ledger.problems import TableDifference
from remand.ledger.store import ChangeScope, TaskFilter
from tests.support.postgres import empty_ledger
from tests.support.shared_ledgers import SharedFakeLedger, require_sound_log, run_together

Writers = Callable[..., list[SharedFakeLedger]]


@pytest.fixture
def writers(shared_database: str) -> Iterator[Writers]:
    """Opens so many writers of an empty ledger."""
    opened: list[SharedFakeLedger] = []
    empty_ledger(shared_database)

    def make(count: int, **given: float) -> list[SharedFakeLedger]:
        opened.extend(SharedFakeLedger(shared_database, **given) for _ in range(count))
        return opened[-count:]

    yield make
    for one in opened:
        one.store.close()


def answers(*asked: tuple[SharedFakeLedger, c.Command]) -> list[Answer]:
    """What writers answer that are asked at the same time."""
    return run_together(
        *(
            lambda one=one, command=command: one.ledger.ask(
                Request(command=command, actor=getattr(command, "agent", USER))
            )
            for one, command in asked
        )
    )


def codes(found: list[Answer]) -> list[str]:
    return sorted(one.code if isinstance(one, Refused) else "" for one in found)


@pytest.fixture
def slow_commits(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every commit take a while, so that what is asked at the same time is decided before either is committed."""
    finish: Callable[..., None] = vars(PostgresStore)["_finish"]

    def finish_late(*given: object) -> None:
        time.sleep(0.2)
        finish(*given)

    monkeypatch.setattr(PostgresStore, "_finish", finish_late)


@pytest.mark.usefixtures("slow_commits")
def test_dependencies_that_share_no_task_close_no_circle(writers: Writers) -> None:
    one, two = writers(2)
    a, b, d, e = (one.add() for _ in range(4))
    one.ask(c.EditTask(task_id=b, depends_on=(d,)))
    one.ask(c.EditTask(task_id=e, depends_on=(a,)))

    found = answers(
        (one, c.EditTask(task_id=a, depends_on=(b,))), (two, c.EditTask(task_id=d, depends_on=(e,)))
    )

    assert codes(found) == ["", "closes_cycle"]
    require_sound_log(one.store)


def test_of_two_dependencies_that_close_a_circle_one_is_refused(writers: Writers) -> None:
    one, two = writers(2)
    for _ in range(5):
        a, b = one.add(), one.add()
        found = answers(
            (one, c.EditTask(task_id=a, depends_on=(b,))), (two, c.EditTask(task_id=b, depends_on=(a,)))
        )
        assert codes(found) == ["", "closes_cycle"]
    require_sound_log(one.store)


@pytest.mark.usefixtures("slow_commits")
@pytest.mark.parametrize("fields", [{"aliases": ("#7",)}, {"own_id": "T-20261115-090000-00000007"}], ids=str)
def test_a_name_is_given_once(writers: Writers, fields: dict[str, object]) -> None:
    one, two = writers(2)
    one.add()  # who adds is known from now on: that is a name as well

    found = answers(*((writer, c.AddTask(title="Roof", **fields)) for writer in (one, two)))  # type: ignore[arg-type]

    assert codes(found) == ["", "taken"]
    assert len(require_sound_log(one.store)) == 2


@pytest.mark.usefixtures("slow_commits")
def test_a_pull_request_is_of_one_task(writers: Writers) -> None:
    one, two = writers(2)
    tasks = [one.add(), one.add()]

    found = answers(
        *((writer, c.EditTask(task_id=task, pr=7)) for writer, task in zip((one, two), tasks, strict=True))
    )

    assert codes(found) == ["", "taken"]


@pytest.mark.usefixtures("slow_commits")
def test_a_branch_is_of_one_task(writers: Writers) -> None:
    one, two = writers(2)
    asked = []
    for writer, name in ((one, "Alice"), (two, "Bob")):
        task = writer.claim(writer.add(), name)
        commit = writer.repository.add(f"work of {name}")
        writer.repository.commits["refs/heads/feature"] = writer.repository.commits[commit]
        asked.append(
            (
                writer,
                c.SubmitTask(
                    task_id=task.id, agent=name, commit=commit, branch="feature", is_branch_given=True
                ),
            )
        )

    assert codes(answers(*asked)) == ["", "taken"]


@pytest.mark.usefixtures("slow_commits")
def test_what_is_asked_twice_under_one_key_is_done_once(writers: Writers) -> None:
    one, two = writers(2)
    one.add()
    request = Request(command=c.AddTask(title="Roof"), actor=USER, key="k-1")

    first, second = run_together(lambda: one.ledger.ask(request), lambda: two.ledger.ask(request))

    assert isinstance(first, Acceptance)
    assert isinstance(second, Acceptance)
    assert first.task == second.task
    assert len(one.events()) == 2


def test_every_claim_has_one_winner(writers: Writers) -> None:
    many = writers(6)
    tasks = [many[0].add() for _ in range(12)]

    def claim_all(one: SharedFakeLedger, name: str) -> list[str]:
        won = []
        while isinstance(
            answer := one.ledger.ask(Request(command=c.ClaimTask(agent=name), actor=name)), Acceptance
        ):
            won.append(answer.task.id)
        assert answer.code == "nothing_to_claim"
        return won

    won = run_together(*(lambda one=one, n=n: claim_all(one, f"Agent {n}") for n, one in enumerate(many)))

    assert sorted(task for own in won for task in own) == sorted(tasks)
    require_sound_log(many[0].store)


def test_nothing_to_claim_is_said_after_waiting_for_those_who_hold_the_last_task(writers: Writers) -> None:
    one, two = writers(2)
    task = one.add()
    is_held, is_done = threading.Event(), threading.Event()

    def hold() -> None:
        with suppress(ZeroDivisionError), one.store.write() as tx:
            assert tx.tasks.get(task)
            is_held.set()
            is_done.wait(300)
            raise ZeroDivisionError

    holder = threading.Thread(target=hold)
    holder.start()
    is_held.wait(300)
    threading.Timer(0.3, is_done.set).start()
    assert two.claim(by="Bob").id == task
    holder.join()


def test_claims_of_different_tasks_do_not_wait_for_each_other(writers: Writers, shared_database: str) -> None:
    one, two, three = writers(3)
    first, second, third = one.add(), one.add(), one.add()
    two.claim(third, "Bob")
    with one.store.write() as tx, psycopg.connect(shared_database) as connection:
        assert tx.tasks.get(first)
        assert two.claim(second, "Bob").id == second
        assert three.refusal(c.ClaimTask(agent="Carol", task_id=third), "Carol").code == "already_claimed"
        waits = connection.execute("SELECT count(*) FROM pg_locks WHERE NOT granted").fetchone()
        assert waits == (0,)


def test_tasks_that_are_read_in_different_orders_lead_to_no_deadlock(writers: Writers) -> None:
    one, two = writers(2)
    a, b = sorted((one.add(), one.add()))
    found: list[str] = []

    def read(writer: SharedFakeLedger, first: str, second: str) -> int:
        tries = 0
        for _ in range(5):
            while True:
                tries += 1
                try:
                    with writer.store.write() as tx:
                        assert tx.tasks.get(first)
                        assert tx.tasks.get(second)
                    break
                except StoreConflict as conflict:
                    found.append(str(conflict))
        return tries

    assert min(run_together(lambda: read(one, a, b), lambda: read(two, b, a))) >= 5
    assert [text for text in found if "deadlock" in text] == []


def test_a_lease_ends_once_however_many_look(writers: Writers) -> None:
    late = writers(1, behind=100_000.0)[0]
    late.rules = late.rules.__class__(gates=(), policy=Policy(clock_skew_seconds=200_000.0))
    task = late.claim(late.add())
    now = writers(4)

    run_together(*(one.add for one in now))

    names = Counter(event.name for event in require_sound_log(now[0].store))
    assert now[0].task(task.id).claim is None
    assert names["lease.expire"] + names["task.release"] + names["task.expire"] <= 1


def test_events_are_later_than_all_that_they_rest_on_whatever_the_clocks_say(writers: Writers) -> None:
    (ahead,), (behind,) = writers(1), writers(1, behind=200.0)
    first, second, third = ahead.add(), ahead.add(), ahead.add(aliases=("#9",))
    ahead.ask(c.EditTask(task_id=second, depends_on=(first,)))
    ahead.ask(c.EditTask(task_id=third, aliases=()))
    ahead.finish(first)

    behind.claim(second, "Bob")
    behind.add(aliases=("#9",))

    events = require_sound_log(ahead.store)
    assert events[0].meta.session not in {event.meta.session for event in events[-2:]}


def test_eight_writers_with_random_commands_leave_a_sound_log(
    writers: Writers, campaign: Callable[[int, int], int]
) -> None:
    many, steps = writers(8), campaign(12, 400)
    tasks = [many[0].add() for _ in range(4)]

    def work(n: int, one: SharedFakeLedger) -> None:
        rng, name = random.Random(n), f"Agent {n}"
        for _ in range(steps):
            task, other = rng.sample(tasks, 2)
            command = rng.choice(
                (
                    c.AddTask(title="More", aliases=(f"#{rng.randrange(9)}",)),
                    c.ClaimTask(agent=name),
                    c.ClaimTask(agent=name, task_id=task),
                    c.ReleaseTask(agent=name, task_id=task),
                    c.EditTask(task_id=task, depends_on=(other,)),
                    c.EditTask(task_id=task, drop_depends_on=(other,)),
                    c.CancelTask(task_id=task),
                    c.ReopenTask(task_id=task),
                )
            )
            answer = one.ledger.ask(
                Request(command=command, actor=name if hasattr(command, "agent") else USER)
            )
            if isinstance(answer, Acceptance) and isinstance(command, c.AddTask):
                tasks.append(answer.task.id)

    run_together(*(lambda n=n, one=one: work(n, one) for n, one in enumerate(many)))

    assert len(require_sound_log(many[0].store)) > 8


KILLED = """
import sys
from tests.support.shared_ledgers import SharedFakeLedger
from remand.domain import commands as c
writer = SharedFakeLedger(sys.argv[1])
print("ready", flush=True)
while True:
    print(writer.claim(writer.add(), "Alice").id, flush=True)
"""


def test_what_a_killed_writer_has_answered_is_there_and_nothing_of_it_is_half(
    writers: Writers, shared_database: str, campaign: Callable[[int, int], int]
) -> None:
    (one,) = writers(1)
    rng = random.Random(3)
    for _ in range(campaign(2, 50)):
        process = subprocess.Popen(
            [sys.executable, "-c", KILLED, shared_database],
            stdout=subprocess.PIPE,
            text=True,
            cwd=os.getcwd(),
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(0.2 + rng.random() / 5)
        process.send_signal(signal.SIGKILL)
        answered = [line.strip() for line in process.stdout if line.endswith("\n")]
        process.wait(300)
        process.stdout.close()
        assert {one.task(name).status for name in answered} <= {"claimed"}
        one.add()
    require_sound_log(one.store)


def test_a_writer_goes_on_after_its_connections_were_cut(writers: Writers, shared_database: str) -> None:
    one, two = writers(2)
    task = one.add()
    two.claim(task, "Bob")
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE datname = current_database() AND pid != pg_backend_pid()"
        )

    one.add()
    assert one.task(task).claim is not None
    require_sound_log(two.store)


@pytest.mark.parametrize("is_done", [True, False], ids=["committed", "not committed"])
def test_a_commit_whose_answer_was_lost_is_done_once(
    writers: Writers, monkeypatch: pytest.MonkeyPatch, is_done: bool
) -> None:
    (one,) = writers(1)
    one.add()
    cut: list[int] = []
    write = PostgresStatements.write_with

    def fail(statements: PostgresStatements, *last: str) -> None:
        if not last or cut:
            write(statements, *last)
            return
        cut.append(1)
        if is_done:
            write(statements, *last)
        statements.connection.close()
        raise psycopg.OperationalError("the connection was cut")

    monkeypatch.setattr(PostgresStatements, "write_with", fail)
    one.add(aliases=("#1",))

    assert cut
    assert len(require_sound_log(one.store)) == 2


def test_a_group_that_could_not_be_committed_takes_back_only_those_that_go_on_from_it(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While it fails the next one is decided already, on what it would have left."""
    (one,) = writers(1)
    one.add()
    group, begun = GroupCommit(one.ledger), Counter[str]()
    write = PostgresStatements.write_with

    def fail_at_times(statements: PostgresStatements, *last: str) -> None:
        begun["commits"] += bool(last)
        if last and not begun["commits"] % 5:
            statements.write_later("SELECT 1 / 0", ())
        write(statements, *last)

    monkeypatch.setattr(PostgresStatements, "write_with", fail_at_times)

    def add(n: int) -> list[Answer]:
        return [group.ask(Request(command=c.AddTask(title=f"{n}.{step}"), actor=USER)) for step in range(10)]

    found = run_together(*(lambda n=n: add(n) for n in range(4)))

    monkeypatch.undo()
    assert all(isinstance(answer, Acceptance) for own in found for answer in own)
    assert len(require_sound_log(one.store)) == 41
    assert begun["commits"] < 100


def test_many_claims_of_a_group_take_as_many_statements_as_one(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of tasks that this process has not seen yet, whose events it has to read and verify."""
    one, two = writers(2)
    for _ in range(20):
        one.add()
    asked: list[str] = []
    execute = psycopg.RawCursor.execute

    def note(cursor: psycopg.RawCursor, query: str, *rest: object, **more: object) -> object:
        asked.append(query)
        return execute(cursor, query, *rest, **more)  # type: ignore[arg-type]

    def statements_of(count: int) -> list[str]:
        asked.clear()
        claims = [Request(command=c.ClaimTask(agent="Ada"), actor="Ada")] * count
        assert all(isinstance(answer, Acceptance) for answer in two.ledger.ask_all(claims))
        return asked.copy()

    monkeypatch.setattr(psycopg.RawCursor, "execute", note)
    found = [statements_of(count) for count in (1, 1, 2, 10)]
    assert found[2] == found[3], "what is read seldom was read before"
    assert len(found[3]) <= 9


def test_claims_begin_with_ready_tasks_that_suit_everybody(writers: Writers, shared_database: str) -> None:
    """A change that holds others' tasks while it waits for its own could be what those wait for."""
    (one,) = writers(1)
    names = [one.add(title=title, skills=skills) for title, skills in (("a", ()), ("b", ("go",)), ("c", ()))]

    with one.store.write(ChangeScope(claims=3)), psycopg.connect(shared_database) as other:
        free = other.execute("SELECT id FROM remand.task ORDER BY rank FOR UPDATE SKIP LOCKED").fetchall()

    assert [name for (name,) in free] == names[1:]


def test_a_process_knows_whether_there_are_objections_from_the_last_change_that_it_began(
    writers: Writers, shared_database: str
) -> None:
    (one,) = writers(1)
    one.add()
    assert not one.store.may_have_objections
    with psycopg.connect(shared_database, autocommit=True) as connection:
        connection.execute("INSERT INTO remand.objection VALUES (1, 'T-1', 'key', 'work', 'at')")
    one.add()
    assert one.store.may_have_objections


def test_a_group_is_answered_as_if_each_had_asked_alone(writers: Writers) -> None:
    (one,) = writers(1)
    group = GroupCommit(one.ledger)

    def ask(n: int) -> list[Answer]:
        return [
            group.ask(Request(command=c.AddTask(title=f"{n}", aliases=(f"#{step}",)), actor=USER))
            for step in range(5)
        ]

    found = run_together(*(lambda n=n: ask(n) for n in range(8)))

    assert codes([answer for own in found for answer in own]) == [""] * 5 + ["taken"] * 35
    require_sound_log(one.store)


def test_a_group_that_is_decided_while_the_one_before_is_committed_meets_no_conflict(
    writers: Writers, monkeypatch: pytest.MonkeyPatch
) -> None:
    (one,) = writers(1)
    group, met = GroupCommit(one.ledger), []
    fault = one.store.fault
    monkeypatch.setattr(one.store, "fault", lambda error: met.append(error) or fault(error))

    def add(n: int) -> list[Answer]:
        return [group.ask(Request(command=c.AddTask(title=f"{n}"), actor=USER)) for _ in range(8)]

    run_together(*(lambda n=n: add(n) for n in range(6)))

    assert met == []
    assert len(require_sound_log(one.store)) == 48


def test_requests_that_no_thread_waits_for_are_answered_in_groups(writers: Writers) -> None:
    (one,) = writers(1)
    group = GroupCommit(one.ledger)

    found = [group.submit(Request(command=c.AddTask(title=f"{n}"), actor=USER)) for n in range(40)]
    found[5:5] = [group.submit(Request(command=c.ClaimTask(agent="Bob", task_id="T-none"), actor="Bob"))]

    assert codes([one.result(300) for one in found]) == [""] * 40 + ["unknown_task"]
    group.close()
    require_sound_log(one.store)


def test_the_tables_are_made_once_and_newer_ones_are_left_alone(database: str) -> None:
    stores = run_together(*(lambda: PostgresStore(database, "s") for _ in range(4)))
    with psycopg.connect(database) as connection:
        connection.execute("UPDATE remand.ledger SET value = '99' WHERE key = 'version'")
    with pytest.raises(EnvironmentFault, match="version 99"):
        PostgresStore(database, "s")
    for store in stores:
        store.close()


def test_tables_of_the_first_version_are_brought_up_to_date_and_their_tasks_found(database: str) -> None:
    old = SharedFakeLedger(database)
    old.add(title="Mend the bridge")
    old.store.close()
    with psycopg.connect(database) as connection:
        connection.execute("SET search_path TO remand")
        connection.execute(
            "DROP FUNCTION count_statuses CASCADE; DROP TABLE status_count; DROP INDEX task_agent"
        )
        connection.execute("DROP TABLE task_text, shared; DROP INDEX task_status, task_waiting")
        connection.execute("UPDATE task SET marks = 0")
        connection.execute("UPDATE ledger SET value = '1' WHERE key = 'version'")

    new = SharedFakeLedger(database)
    new.add(title="Paint it")
    with new.store.read() as view:
        found = view.task_lists.pages.page(TaskFilter(text="bridge"), 9)
        assert [task.title for task in found] == ["Mend the bridge"]
    assert counted(new) == {"incoming": 2}
    require_sound_log(new.store)
    new.store.close()


def counted(one: SharedFakeLedger) -> dict[str, int]:
    """How many tasks each status has: by the count that is kept, which every task confirms."""
    with one.store.read() as view:
        counts = dict(view.queue.counts())
        assert counts == Counter(task.status for task in view.tasks.every())
        assert all(view.queue.count(status) == counts.get(status, 0) for status in Status)
    return counts


def test_tasks_are_counted_by_status_whoever_writes_them(
    writers: Writers, shared_database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = writers(2)
    for number in range(6):
        writer = (one, two)[number % 2]
        writer.add()
        if number % 3:
            writer.claim(by="Ada")
    before = counted(one)
    assert before == {"incoming": 2, "claimed": 4}

    monkeypatch.setattr(store_module, "_COMMITS_A_SUM", 1)
    one.ask(c.CancelTask(task_id=one.add()))
    with psycopg.connect(shared_database) as connection:
        (rows,) = connection.execute("SELECT count(*) FROM remand.status_count").fetchone() or (0,)
    assert counted(two) == before | {"cancelled": 1}
    assert rows == 3, "they are added up"

    with psycopg.connect(shared_database) as connection:
        connection.execute("UPDATE remand.status_count SET tasks = 9 WHERE status = 'claimed'")
    with one.store.read() as view:
        tasks = {task.id: task for task in view.tasks.every()}
        handoffs = {task.claim.handoff_id: task.id for task in tasks.values() if task.claim}
        assert list(view.audit.task_differences(tasks, handoffs)) == [TableDifference("status_count", "")]

    one.ledger.change(rebuild_tables)
    assert counted(two) == before | {"cancelled": 1}

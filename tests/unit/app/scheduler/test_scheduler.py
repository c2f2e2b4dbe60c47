"""Holds what the scheduler does: who is given what, what follows from an end, and whom nothing is blamed on."""

import pytest
from msgspec.structs import replace

from remand.adapters.hosts.launcher import read_session
from remand.app.scheduler.chores import FORGOTTEN_SECONDS
from remand.app.scheduler.decide import LINGER_SECONDS
from remand.app.scheduler.ports import AgentLaunch, CannotRun, ClaimAnswer, RunEnd, WorktreeState
from remand.app.scheduler.runs import import_agent_commits
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.events.reviews import Finding
from remand.domain.events.work import How, RunEnded
from remand.domain.instant import add_seconds, seconds_between
from remand.domain.refusals import Refused
from remand.domain.run import Budget
from remand.domain.task import Status, update_task
from remand.testing.builders import a_lockout, a_task
from tests.support.rejection_records import SCOPE, TITLE, a_rejection
from tests.support.scheduler import (
    CRASHED,
    MAX_SECONDS,
    WORKED,
    FakeScheduler,
    committing_agent,
    ending_agent,
)


def agent(name: str = "Alice", **fields: object) -> Member:
    return Member(name=name, command=("agent", name), **fields)  # type: ignore[arg-type]


def names(shop: FakeScheduler) -> list[str]:
    return [order.agent for order in shop.orders]


# Who is given what.


def test_a_free_task_is_given_to_a_free_agent_with_its_prompt_and_its_branch() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add("Mend the roof")

    shop.tick()

    (order,) = shop.orders
    assert "Mend the roof" in order.prompt
    assert shop.worktrees.prepared == [(task_id, f"remand/{task_id}", "base")]
    assert order.environment["REMAND_TASK"] == task_id
    assert shop.world.task(task_id).status == Status.CLAIMED
    assert [run.agent for run in shop.world.task(task_id).runs] == ["Alice"]


def test_an_agent_that_is_started_on_a_sub_task_is_told_what_it_was_split_from() -> None:
    shop = FakeScheduler(agent())
    task, handoff = shop.world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    shop.world.reject(handoff, a_rejection("SCOPE_CREEP"), "Alice")

    shop.tick()

    (order,) = shop.orders
    assert order.prompt.startswith("## Rejection context\n")
    assert f"### Split from task {task}\n" in order.prompt


def test_nobody_has_more_to_do_than_it_can() -> None:
    shop = FakeScheduler(agent("Alice", capacity=2), agent("Bob"))
    for _ in range(5):
        shop.world.add()

    shop.tick(5)

    assert sorted(names(shop)) == ["Alice", "Alice", "Bob"]


def test_what_is_next_goes_to_whom_can_take_on_most() -> None:
    shop = FakeScheduler(agent("Alice", capacity=2), agent("Bob", capacity=3), agent("Carol"))
    given = []
    for _ in range(6):
        shop.world.add()
        shop.tick()
        given.append(names(shop)[-1])

    assert given == ["Bob", "Alice", "Bob", "Carol", "Alice", "Bob"]


def test_a_task_whose_end_is_being_answered_is_still_in_its_agent_s_hands() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    first, second = shop.world.add(), shop.world.add()
    seen: list[str] = []

    def measured() -> None:
        shop.scheduler.tick()
        seen.append(shop.world.task(second).status)

    shop.meanwhile = measured
    shop.tick(2)

    assert shop.world.task(first).status == Status.PROVISIONAL
    assert seen[0] == Status.INCOMING


def test_a_task_that_an_agent_may_not_have_does_not_keep_it_from_others() -> None:
    """The queue does not know lockouts from above a task."""
    shop = FakeScheduler(agent("Alice"))
    shop.scripts["Alice"] = committing_agent("work")
    parent, other = shop.world.add(), shop.world.add(priority="low")
    with shop.world.store.write() as tx:
        above = tx.tasks.get(parent)
        tx.tasks.put(
            update_task(above, status=Status.DECOMPOSED, lockouts=(a_lockout("Alice"),), children=("T-9",))
        )
        tx.tasks.put(a_task("T-9", parent=parent))

    shop.tick(3)

    assert shop.world.task(other).status == Status.PROVISIONAL
    assert shop.world.task("T-9").status == Status.INCOMING


def test_members_without_a_command_are_people() -> None:
    shop = FakeScheduler(Member(name="Alice"))
    shop.world.add()

    shop.tick(3)

    assert shop.orders == []


def test_rejected_work_comes_before_new_work_and_goes_to_another_on_the_same_branch() -> None:
    shop = FakeScheduler(agent("Alice"), agent("Bob"))
    shop.scripts["Alice"] = committing_agent("work")
    rejected = shop.world.add("First", branch="roof")
    shop.tick(2)
    shop.scripts["Alice"] = lambda *_: None
    assert shop.world.task(rejected).status == Status.PROVISIONAL
    shop.world.add("Second", priority="critical")
    finding = Finding(text="It leaks", path="roof.py", line=7)
    shop.world.ask(c.RejectReview(task_id=rejected, commit="work", findings=(finding,)), "Lead")

    shop.tick(1)

    last = {order.agent: order for order in shop.orders}
    assert last["Bob"].environment["REMAND_TASK"] == rejected
    assert last["Bob"].worktree.branch == "roof"
    assert last["Bob"].prompt.startswith("## Review Feedback (rejection #1)")
    assert last["Alice"].environment["REMAND_TASK"] != rejected


def test_when_too_much_waits_for_review_nothing_new_is_begun() -> None:
    shop = FakeScheduler(agent(), max_waiting_reviews=2)
    shop.scripts["Alice"] = committing_agent("work")
    for _ in range(4):
        shop.world.add()

    shop.tick(20)

    statuses = sorted(task.status for task in shop.world.tasks().values())
    assert statuses == ["incoming", "incoming", "provisional", "provisional"]
    assert "2 submissions await review (limit 2)" in shop.scheduler.blocked_reason


def test_work_on_its_way_to_review_counts_as_well() -> None:
    shop = FakeScheduler(agent("Alice", capacity=4), max_waiting_reviews=2)
    shop.scripts["Alice"] = committing_agent("work")
    for _ in range(7):
        shop.world.add()

    shop.tick(20)

    assert sum(task.status == Status.PROVISIONAL for task in shop.world.tasks().values()) == 2


def test_an_agent_is_told_what_an_earlier_run_left() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()
    shop.worktrees.looks[task_id] = WorktreeState(head="base", uncommitted=("half.py",))
    shop.restart()

    shop.tick(2)

    assert "Uncommitted in this worktree: half.py" in shop.orders[-1].prompt


# What follows from an end.


def test_work_that_is_committed_is_handed_in_when_its_agent_ends() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()

    shop.tick(2)

    task = shop.world.task(task_id)
    assert task.status == Status.PROVISIONAL
    assert task.spent.runs == 1
    assert shop.open_sockets == set()


def test_an_agent_that_is_rejected_at_the_gate_goes_on_under_its_claim() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    shop.answers = [ClaimAnswer("gate_rejected", "REJECTED: Quality gates failed")]
    task_id = shop.world.add()

    shop.tick(4)

    task = shop.world.task(task_id)
    assert (task.status, task.claims.attempt_count, task.spent.runs) == (Status.PROVISIONAL, 1, 2)


def test_uncommitted_work_is_sent_back_with_its_names() -> None:
    shop = FakeScheduler(agent(), escalate_after_gates=3)

    def forgets(shop: FakeScheduler, order: AgentLaunch) -> RunEnd:
        shop.worktrees.looks[order.worktree.task_id] = WorktreeState(head="base", uncommitted=("roof.py",))
        return WORKED

    shop.scripts["Alice"] = forgets
    task_id = shop.world.add()

    shop.tick(2)

    prompt = shop.orders[-1].prompt
    assert prompt.startswith("## You stopped before the task was done")
    assert "> You stopped with uncommitted changes: roof.py. Commit them." in prompt
    shop.tick(6)
    task = shop.world.task(task_id)
    assert task.status == Status.ESCALATED
    assert task.inbox.escalation is not None
    assert "stopped 3 times with nothing to measure" in task.inbox.escalation.reason


def test_an_agent_that_waits_is_not_started_again() -> None:
    shop = FakeScheduler(agent())

    def waits(shop: FakeScheduler, order: AgentLaunch) -> RunEnd:
        ask = c.WaitTask(task_id=order.worktree.task_id, agent="Alice", reason="the key from ops")
        shop.world.ask(ask, "Alice", confined=True)
        return WORKED

    shop.scripts["Alice"] = waits
    task_id = shop.world.add()

    shop.tick(5)

    assert len(shop.orders) == 1
    assert shop.world.task(task_id).status == Status.CLAIMED


@pytest.mark.parametrize(
    "ended", [CRASHED, RunEnd("signalled", 9, 1.0), RunEnd("timed_out", 9, 3600.0)], ids=lambda one: one.how
)
def test_a_failed_run_is_tried_again_later_then_the_user_is_asked(ended: RunEnd) -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = ending_agent(ended)
    task_id = shop.world.add()

    shop.tick(2)
    assert shop.world.task(task_id).status == Status.INCOMING
    shop.tick(2)
    assert len(shop.orders) == 1, "not at once"
    shop.tick(60)

    task = shop.world.task(task_id)
    assert (task.status, len(shop.orders)) == (Status.ESCALATED, 3)
    assert (task.rejections.invalid_by, task.people.lockouts, task.claims.exits) == ((), (), ())


SYSTEM = '{"type": "system", "subtype": "init", "cwd": "/work"}'
SPOKEN = '{"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": "Looking.\\nAll done."}]}}'
WARNING = "WARNING: proceeding, even though we could not create PATH aliases"


@pytest.mark.parametrize(
    ("ended", "detail"),
    [
        (RunEnd("timed_out", 9, 46.0, f"{SYSTEM}\n{SPOKEN}\n", WARNING), "All done."),
        (RunEnd("timed_out", 9, 46.0, f"{SYSTEM}\n", WARNING), ""),
        (RunEnd("exited", 1, 1.0, f"{SYSTEM}\n", "Error: no credit"), "Error: no credit"),
        (RunEnd("exited", 1, 1.0, f"{SYSTEM}\n{SPOKEN}\n"), "All done."),
        (RunEnd("exited", 1, 1.0, f"Invalid API key\n{SYSTEM}\n"), "Invalid API key"),
        (RunEnd("signalled", 9, 1.0, f"{SYSTEM}\n"), ""),
    ],
)
def test_the_end_of_a_run_is_told_in_the_agents_words_and_not_in_its_hosts_json(
    ended: RunEnd, detail: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = FakeScheduler(agent())
    monkeypatch.setattr(
        shop, "parse_result", lambda _, output, status: read_session(("claude", "-p"), output, status)
    )
    shop.scripts["Alice"] = ending_agent(ended)
    shop.world.add()

    shop.tick(2)

    assert [event.detail for event in shop.world.events() if isinstance(event, RunEnded)] == [detail]


def test_a_spent_budget_ends_in_a_question() -> None:
    shop = FakeScheduler(agent(), budget=Budget(runs=2))
    shop.scripts["Alice"] = committing_agent("work")
    shop.answers = [ClaimAnswer("gate_rejected", "REJECTED")] * 9
    task_id = shop.world.add()

    shop.tick(9)

    task = shop.world.task(task_id)
    assert (task.status, len(shop.orders)) == (Status.ESCALATED, 2)
    assert task.inbox.escalation is not None
    assert task.inbox.escalation.kind == "budget"


# Whose fault.


def test_when_every_task_fails_it_is_the_system_and_nothing_more_is_begun() -> None:
    shop = FakeScheduler(agent(capacity=1))
    shop.scripts["Alice"] = ending_agent(CRASHED)
    for _ in range(20):
        shop.world.add()

    shop.tick(25)

    assert len(shop.orders) == 3
    assert "A run of agent exited with status 1 (ValueError: no)" in shop.scheduler.blocked_reason
    assert not any(task.status == Status.ESCALATED for task in shop.world.tasks().values())
    shop.scripts["Alice"] = committing_agent("work")
    shop.tick(20)
    assert shop.scheduler.breaker.breaches == ()
    assert len(shop.orders) > 4


def test_one_that_is_let_through_to_try_costs_its_task_nothing() -> None:
    shop = FakeScheduler(agent(), max_faults=2)
    shop.scripts["Alice"] = ending_agent(CRASHED)
    tasks = [shop.world.add() for _ in range(4)]
    shop.tick(5)
    assert shop.scheduler.breaker.breaches
    before = {task_id: shop.world.task(task_id).spent for task_id in tasks}

    shop.tick(140)

    runs = sum(shop.world.task(task_id).spent.runs for task_id in tasks)
    assert runs > sum(spent.runs for spent in before.values()), "nobody was let through"
    assert {task_id: shop.world.task(task_id).spent.faults for task_id in tasks} == {
        task_id: spent.faults for task_id, spent in before.items()
    }


def test_one_that_is_let_through_to_try_and_fails_is_no_attempt() -> None:
    shop = FakeScheduler(agent(), max_faults=2)
    shop.scripts["Alice"] = ending_agent(CRASHED)
    tasks = [shop.world.add() for _ in range(4)]
    shop.tick(5)
    assert shop.scheduler.breaker.breaches
    before = {task_id: shop.world.task(task_id).claims.attempt_count for task_id in tasks}
    started = len(shop.orders)

    shop.tick(140)

    assert len(shop.orders) > started, "nobody was let through"
    assert {task_id: shop.world.task(task_id).claims.attempt_count for task_id in tasks} == before


def test_a_member_that_fails_everything_takes_no_other_s_task_to_the_user() -> None:
    shop = FakeScheduler(agent("Bob"), agent("Crash"), max_faults=2)
    shop.scripts["Crash"] = ending_agent(CRASHED)
    tasks = [shop.world.add() for _ in range(3)]

    shop.tick(200)

    assert names(shop).count("Crash") > 2, "Crash was not even tried"
    assert not any(shop.world.task(task_id).status == Status.ESCALATED for task_id in tasks)
    shop.scripts["Bob"] = committing_agent("work")
    shop.running[0]._script = shop.scripts["Bob"]  # Bob, who was busy all the time, comes to an end
    shop.tick(30)
    assert {shop.world.task(task_id).status for task_id in tasks} == {Status.PROVISIONAL}


def test_a_task_that_failed_goes_to_another_who_is_free() -> None:
    shop = FakeScheduler(agent("Crash"), agent("Bob"))
    shop.scripts["Crash"] = ending_agent(CRASHED)
    shop.scripts["Bob"] = committing_agent("work")
    task_id = shop.world.add()

    shop.tick(20)

    assert names(shop) == ["Crash", "Bob"]
    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_a_task_that_failed_is_not_left_to_another_who_is_refused_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The queue does not know all that the rules do, such as lockouts from above a task."""
    shop = FakeScheduler(agent("Crash"), agent("Bob"))
    shop.scripts["Crash"] = ending_agent(CRASHED)
    task_id, client = shop.world.add(), shop.scheduler._ledger
    ask = client.ask

    def refuse_bob(command: c.Command) -> object:
        is_bobs = isinstance(command, c.AssignTask) and command.agent == "Bob"
        return Refused("locked_out", "Bob is locked out above.") if is_bobs else ask(command)

    monkeypatch.setattr(client, "ask", refuse_bob)
    shop.tick(2000)

    assert names(shop) == ["Crash"] * shop.world.rules.policy.max_faults
    assert shop.world.task(task_id).status == Status.ESCALATED


def test_a_program_that_no_member_uses_any_more_is_forgotten() -> None:
    shop = FakeScheduler(agent())
    shop.fault = CannotRun("program", "There is no agent")
    shop.world.add()
    shop.tick(2)
    assert shop.scheduler.is_broken

    shop.fault = None
    team = Team((Member(name="Alice", command=("other",)),))
    shop.world.rules = replace(shop.world.rules, team=team)
    shop.tick(1)

    assert not shop.scheduler.is_broken
    assert names(shop) == ["Alice"]


@pytest.mark.parametrize("cause", ["disk", "sandbox", "socket", "program"])
def test_what_the_system_lacks_is_said_once_and_counts_against_nobody(cause: str) -> None:
    shop = FakeScheduler(agent(), agent("Bob", skills=("x",)))
    shop.fault = CannotRun(cause, "no room on the disk")
    for _ in range(5):
        shop.world.add()

    shop.tick(10)

    tasks = shop.world.tasks().values()
    assert {task.status for task in tasks} == {Status.INCOMING}
    assert sum(task.spent.faults for task in tasks) == 0
    assert "no room on the disk" in shop.scheduler.blocked_reason
    shop.fault = None
    shop.tick(40)
    assert shop.scheduler.breaker.breaches == ()


def test_a_run_that_never_began_is_no_attempt_of_its_agent_s_and_no_fault() -> None:
    shop = FakeScheduler(agent(), budget=Budget(runs=3))
    shop.worktrees.fault = CannotRun("git", "The branch main is checked out elsewhere.")
    task_id = shop.world.add()
    shop.tick(9)
    before = shop.world.task(task_id)
    assert (before.claims.attempt_count, before.spent.runs, before.spent.faults) == (0, 0, 0)
    assert before.spent.unbegun == 2, "later each time"

    shop.worktrees.fault = None
    shop.scripts["Alice"] = committing_agent("work")
    shop.tick(20)

    after = shop.world.task(task_id)
    assert (after.status, after.claims.attempt_count) == (Status.PROVISIONAL, 1)
    assert (after.spent.runs, after.spent.unbegun) == (1, 0)


def test_a_branch_that_cannot_be_had_is_the_task_s_own_trouble() -> None:
    shop = FakeScheduler(agent())
    shop.worktrees.fault = CannotRun("git", "The branch main is checked out elsewhere.")
    task_id = shop.world.add(branch="main")

    shop.tick(60)

    task = shop.world.task(task_id)
    assert task.status == Status.ESCALATED
    assert task.inbox.escalation is not None
    assert "3 runs in a row could not start" in task.inbox.escalation.reason
    assert "checked out elsewhere" in task.inbox.escalation.reason


def test_what_an_agent_left_in_the_way_is_told_to_it_and_keeps_nobody_else() -> None:
    shop = FakeScheduler(agent("Alice", capacity=3), agent("Bob", skills=("paint",)))
    shop.scripts["Alice"] = committing_agent("work")
    shop.scripts["Bob"] = committing_agent("other work")
    shop.worktrees.hindrance = CannotRun("git", "Commit 1234 of the agent's cannot be taken.")
    theirs = [shop.world.add() for _ in range(3)]

    shop.tick(12)

    assert any("Your work cannot be imported: Commit 1234" in order.prompt for order in shop.orders)

    assert {shop.world.task(task_id).status for task_id in theirs} == {Status.ESCALATED}
    shop.worktrees.hindrance = None
    painted = shop.world.add(skills=("paint",))
    shop.tick(3)
    assert shop.world.task(painted).status == Status.PROVISIONAL


def test_what_leads_from_a_place_to_the_repository_is_put_right_when_its_agent_has_gone() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()

    shop.tick(2)

    assert shop.worktrees.left == [task_id]


def test_an_end_that_the_ledger_cannot_take_is_noted_as_soon_as_it_can() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()
    shop.tick()
    shop.world.exchange.fill_up()

    shop.tick(3)
    assert len(shop.world.task(task_id).runs) == 1
    shop.world.exchange.fill_up(False)
    shop.tick(3)

    task = shop.world.task(task_id)
    assert (task.runs, task.status) == ((), Status.PROVISIONAL)


# Those at work.


def test_a_lease_is_renewed_while_its_agent_is_at_work() -> None:
    shop = FakeScheduler(agent(), lease_seconds=60.0)
    task_id = shop.world.add()

    shop.tick(200)

    assert len(shop.orders) == 1
    assert shop.world.task(task_id).status == Status.CLAIMED


def test_a_lease_is_renewed_while_the_work_is_measured() -> None:
    shop = FakeScheduler(agent(), lease_seconds=60.0)
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()

    def takes_long() -> None:
        for _ in range(5):
            shop.world.clock.advance(25.0)
            shop.scheduler.tick()

    shop.meanwhile = takes_long
    shop.tick(2)

    assert shop.world.task(task_id).status == Status.PROVISIONAL


def test_an_agent_whose_task_was_taken_away_is_ended() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()
    shop.world.ask(c.CancelTask(task_id=task_id, reason="not needed"))

    shop.tick(3)

    assert shop.running[0].is_stopped
    task = shop.world.task(task_id)
    assert (task.runs, task.status) == ((), Status.CANCELLED)
    assert shop.worktrees.retired == [task_id]


def test_an_agent_may_say_a_few_words_after_it_has_handed_in() -> None:
    shop = FakeScheduler(agent())

    def hands_in(shop: FakeScheduler, order: AgentLaunch) -> None:
        task = shop.world.task(order.worktree.task_id)
        if task.status == Status.CLAIMED:
            shop.world.submit(task.id)

    shop.scripts["Alice"] = hands_in
    shop.world.add()

    shop.tick(20)
    assert not shop.running[0].is_stopped
    shop.tick(20)
    assert shop.running[0].is_stopped


# Starting again.


def test_told_to_stop_it_ends_its_agents_and_goes_on_with_them_when_it_is_started_again() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()

    shop.scheduler.stop()
    shop.tick(2)
    assert shop.scheduler.is_idle
    stopped = shop.world.task(task_id)
    assert (stopped.runs, stopped.status) == ((), Status.CLAIMED)

    shop.restart()
    shop.tick(2)
    assert names(shop) == ["Alice", "Alice"]
    again = shop.world.task(task_id)
    assert (again.claims.attempt_count, again.spent.faults) == (1, 0)


def test_killed_it_finds_what_it_had_begun_and_starts_nobody_twice() -> None:
    shop = FakeScheduler(agent(), agent("Bob"))
    task_id = shop.world.add()
    shop.tick()

    shop.restart()
    lost = shop.world.task(task_id)
    assert (lost.runs, lost.status) == ((), Status.CLAIMED)
    assert shop.worktrees.kept == {task_id}
    shop.tick(5)

    assert len(shop.world.task(task_id).runs) == 1
    assert [run.order.agent for run in shop.running] == ["Alice"]


@pytest.mark.parametrize(
    ("sign", "seconds"),
    [(90.0, 90.0), (-5.0, 0.0), (None, 300.0), (86_400.0, 300.0)],
    ids=["until its last sign", "no sign since", "until it was found", "no later than it was found"],
)
def test_the_time_of_a_run_that_was_lost_is_counted_as_far_as_it_is_known(
    sign: float | None, seconds: float
) -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()
    (run,) = shop.world.task(task_id).runs
    if sign is not None:
        shop.signs[run.id] = add_seconds(run.started_at, sign)
    shop.world.clock.advance(seconds_between(shop.world.clock.now(), add_seconds(run.started_at, 300.0)))

    shop.restart()

    assert shop.world.task(task_id).spent.seconds == pytest.approx(seconds, abs=0.01)


def test_no_run_has_lasted_longer_than_it_may() -> None:
    shop = FakeScheduler(agent(), lease_seconds=10 * MAX_SECONDS)
    task_id = shop.world.add()
    shop.tick()
    shop.world.clock.advance(3 * MAX_SECONDS)

    shop.restart()

    assert shop.world.task(task_id).spent.seconds == MAX_SECONDS


def test_a_time_budget_is_not_escaped_by_crashes() -> None:
    shop = FakeScheduler(agent(), budget=Budget(seconds=250.0))
    task_id = shop.world.add()
    for _ in range(3):
        shop.tick()
        shop.world.clock.advance(100.0)
        shop.restart()

    task = shop.world.task(task_id)
    assert (task.status, len(shop.orders)) == (Status.ESCALATED, 3)
    assert task.inbox.escalation is not None
    assert task.inbox.escalation.kind == "budget"


def test_nor_when_its_lease_has_ended_before_anybody_looked() -> None:
    shop = FakeScheduler(agent(), lease_seconds=600.0, budget=Budget(seconds=500.0))
    task_id = shop.world.add()
    for _ in range(2):
        shop.tick()
        shop.world.clock.advance(3600.0)
        shop.restart()
        shop.scheduler._ledger.settle_due()

    task = shop.world.task(task_id)
    assert task.spent.seconds == pytest.approx(600.0, abs=1.0), "half a lease each"
    assert (task.status, task.runs) == (Status.ESCALATED, ())


def test_runs_of_another_ledger_are_left_alone() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()
    with shop.world.store.write() as tx:
        task = tx.tasks.get(task_id)
        claim = task.claim and replace(task.claim, runner="elsewhere")
        run = replace(task.runs[0], session="elsewhere")
        tx.tasks.put(replace(task, runs=(run,), claim=claim))

    shop.restart()
    shop.tick(3)

    assert [one.session for one in shop.world.task(task_id).runs] == ["elsewhere"]
    assert len(shop.orders) == 1


def test_a_run_of_another_ledger_that_must_be_over_is_waited_for_no_longer() -> None:
    shop = FakeScheduler(agent())
    task_id = shop.world.add()
    shop.tick()
    with shop.world.store.write() as tx:
        task = tx.tasks.get(task_id)
        run = replace(task.runs[0], session="elsewhere")
        tx.tasks.put(replace(task, runs=(run,), claim=None, status=Status.INCOMING))
    shop.restart()

    shop.staff.end_forgotten_runs()
    assert len(shop.world.task(task_id).runs) == 1
    shop.world.clock.advance(MAX_SECONDS + FORGOTTEN_SECONDS)
    shop.staff.end_forgotten_runs()
    task = shop.world.task(task_id)
    assert (task.runs, task.spent.seconds) == ((), MAX_SECONDS)


def test_what_was_handed_in_stays_as_it_is() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()
    shop.tick()
    ledger, place = shop.scheduler._ledger, shop.orders[0].worktree
    shop.worktrees.looks[task_id] = WorktreeState(head="work")
    assert import_agent_commits(ledger, shop.worktrees, place) == "work"
    shop.tick(2)

    with pytest.raises(CannotRun, match="no longer held"):
        import_agent_commits(ledger, shop.worktrees, place)


def test_a_stop_that_was_heard_and_not_answered_is_answered_by_the_next() -> None:
    shop = FakeScheduler(agent())
    shop.scripts["Alice"] = committing_agent("work")
    task_id = shop.world.add()
    shop.tick()
    (run,) = shop.world.task(task_id).runs
    shop.scheduler._ledger.ask(c.EndRun(task_id=task_id, run_id=run.id, how=How.EXITED))
    shop.worktrees.looks[task_id] = WorktreeState(head="work")

    shop.restart()
    shop.tick(2)

    assert shop.world.task(task_id).status == Status.PROVISIONAL
    assert len(shop.orders) == 1


# Nobody left.


def test_a_task_that_nobody_is_left_for_is_a_question() -> None:
    shop = FakeScheduler(agent(skills=("frontend",)))
    task_id = shop.world.add(skills=("frontend",))
    shop.world.rules = FakeScheduler(agent()).world.rules

    shop.staff.check_queue()

    task = shop.world.task(task_id)
    assert task.status == Status.ESCALATED
    assert task.inbox.escalation is not None
    assert task.inbox.escalation.kind == "deadlock"


# Reviewers.


def test_a_reviewer_that_is_an_agent_is_asked_and_its_place_taken_down_afterwards() -> None:
    critic = Member(name="Rita", roles=(Role.LEAD,), command=("critic",))
    shop = FakeScheduler(agent(), critic)
    shop.scripts["Alice"] = committing_agent("work")
    shop.scripts["Rita"] = ending_agent(RunEnd("exited", 0, 1.0, output="It leaks."))
    shop.reviewer = critic
    task_id = shop.world.add()

    shop.tick(4)

    assert names(shop)[:2] == ["Alice", "Rita"]
    assert shop.worktrees.retired[0] == f"{task_id}-review"
    handed_in = shop.world.task(task_id).submission
    assert handed_in is not None
    branch = f"remand/review/{task_id}-{handed_in.commit[:12]}"
    assert (f"{task_id}-review", branch, handed_in.commit) in shop.worktrees.prepared


def test_an_agent_that_has_rejected_its_task_may_end_by_itself() -> None:
    shop = FakeScheduler(agent(), director=("human",))
    task_id = shop.world.add(TITLE, scope=SCOPE)
    shop.tick()
    (running,) = shop.running
    claim = shop.world.task(task_id).claim
    assert claim is not None
    shop.world.ask(
        c.RejectHandoff(handoff_id=claim.handoff_id, agent="Alice", rejection=a_rejection()), "Alice"
    )
    assert shop.world.task(task_id).status == Status.BLOCKED

    shop.tick(2)
    assert not running.is_stopped
    shop.tick(2, seconds=LINGER_SECONDS)
    assert running.is_stopped

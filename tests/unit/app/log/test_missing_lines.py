"""Holds that a task of which lines are missing is not released, and others are, until they come or are given up."""

from collections.abc import Callable

import pytest

from remand.app.log.repair import give_up_lines, missing_lines
from remand.app.ports import Commit
from remand.app.requests import Rules
from remand.domain import commands as c
from remand.domain.events.log import AbandonedLines, LinesGivenUp
from remand.domain.events.reviews import LockoutSet, ReviewRejected
from remand.domain.events.tasks import LeaseRenewed
from remand.domain.refusals import Refused
from remand.domain.task import Status
from remand.ledger import codec, signatures
from remand.testing.builders import ALICE, MACHINE, SHA, T1, T2, T3, TREE, Session, task_added, task_claimed
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import THE_USER, FakeLedger, gate_passed_and_submitted
from tests.support.log_checks import verify_in_parts

PROJECT = "0123456789abcdef"
OTHER = FakeKeys("other machine")
FILE, LATE = "/events/theirs.jsonl", "/events/late.jsonl"
BEFORE = "2026-11-15T08:00:01.000000Z"


def rules() -> Rules:
    return Rules(gates=(), project=PROJECT, trusted=(MACHINE.ensure_key(), OTHER.ensure_key()))


def a_log() -> Session:
    """A session of another machine: Alice's work on a task was sent back, and another task waits for review."""
    session = Session("20261115-080001-000000ff", FakeClock(BEFORE), keys=OTHER, project=PROJECT)
    session.write(task_added(T1))  # 1
    session.write(task_added(T2))  # 2
    session.write(task_claimed(task_id=T1))
    for event in gate_passed_and_submitted(task_id=T1):  # 4, 5
        session.write(event)
    session.write(ReviewRejected(task_id=T1, reviewer="Lead", commit=SHA, review_id="V-1"))  # 6
    session.write(LockoutSet(task_id=T1, agent="Alice"))  # 7
    session.write(task_claimed(task_id=T2, agent="Bob", handoff_id="H-20261115-080000-00000002"))  # 8
    for event in gate_passed_and_submitted(
        task_id=T2, agent="Bob", handoff_id="H-20261115-080000-00000002"
    ):  # 9, 10
        session.write(event)
    return session


def without(lines: list[bytes], *numbers: int, groups: bool = False) -> list[bytes]:
    """The lines of a session without some of its events, and perhaps without the groups that name them."""

    def is_left(line: bytes) -> bool:
        if signatures.is_group(line):
            return not (groups and signatures.decode_group(line).first in numbers)
        return codec.decode_line(line).meta.seq not in numbers

    return [line for line in lines if is_left(line)]


def a_world(lines: list[bytes]) -> FakeLedger:
    world = FakeLedger(rules=rules())
    world.repository.commits[SHA] = Commit(sha=SHA, tree=TREE)
    world.exchange.put(FILE, lines)
    world.ledger.refresh()
    return world


CUTS = {
    "the lines alone": lambda lines: without(lines, 6, 7),
    "their groups, too": lambda lines: without(lines, 6, 7, groups=True),
    "a line and the group of another": lambda lines: without(without(lines, 6), 7, groups=True),
    "the last line of the task": lambda lines: without(lines, 7),
}


@pytest.mark.parametrize("cut", CUTS.values(), ids=CUTS.keys())
def test_nothing_of_a_task_is_released_while_lines_of_it_may_be_missing(
    cut: Callable[[list[bytes]], list[bytes]],
) -> None:
    world = a_world(cut(a_log().lines))

    assert world.refusal(c.ApproveReview(task_id=T1, commit=SHA)).code in (
        "lines_missing",
        "nothing_to_review",
    )
    assert world.refusal(c.ClaimTask(agent="Alice", task_id=T1), "Alice").code in (
        "lines_missing",
        "bad_transition",
    )
    assert world.task(T1).status is not Status.DONE
    assert not verify_in_parts(world).ok


def test_a_missing_line_bars_its_own_task_alone() -> None:
    world = a_world(without(a_log().lines, 6, 7))

    assert world.refusal(c.ApproveReview(task_id=T1, commit=SHA)).code == "lines_missing"
    assert world.ask(c.ApproveReview(task_id=T2, commit=SHA)).task.status is Status.DONE


def test_a_gap_bars_every_task_that_was_there_then_and_no_later_one() -> None:
    session = a_log()
    session.write(task_added(T3))  # 11
    world = a_world(without(session.lines, 6, 7, groups=True))

    for task in (T1, T2):
        assert world.refusal(c.ApproveReview(task_id=task, commit=SHA)).code == "lines_missing"
    assert world.claim(T3, "Carol").status is Status.CLAIMED
    assert world.finish(world.add("New"), "Carol").status is Status.DONE


def test_a_refusal_says_what_is_missing() -> None:
    session = a_log()
    named = a_world(without(session.lines, 7)).refusal(c.Unlock(task_id=T1, agent="Alice", reason="x"))
    gap = a_world(without(session.lines, 6, 7, groups=True)).refusal(c.ApproveReview(task_id=T1, commit=SHA))

    assert named.code == "bad_value" or f"event 7 of session {session.name} about {T1}" in named.message
    assert f"events 6 to 7 of session {session.name}" in gap.message
    assert "remand log repair" in gap.message


def test_lines_that_come_later_count_and_end_it() -> None:
    lines = a_log().lines
    world = a_world(without(lines, 6, 7, groups=True))
    assert world.refusal(c.ApproveReview(task_id=T2, commit=SHA)).code == "lines_missing"

    world.exchange.put(LATE, lines)
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")
    assert world.ask(c.ApproveReview(task_id=T2, commit=SHA)).task.status is Status.DONE
    assert verify_in_parts(world).ok


def test_a_line_that_comes_before_its_group_is_not_missing() -> None:
    lines = a_log().lines
    world = a_world([line for line in lines if not signatures.is_group(line)])

    world.exchange.put(LATE, [line for line in lines if signatures.is_group(line)])
    world.ledger.refresh()

    assert verify_in_parts(world).ok
    assert world.ask(c.ApproveReview(task_id=T2, commit=SHA)).task.status is Status.DONE


def test_a_forged_line_in_its_place_does_not_stand_in_for_a_missing_one() -> None:
    session = a_log()
    forged = Session(session.name, FakeClock(BEFORE), keys=None)
    forged.seq = 5
    forged.write(LeaseRenewed(task_id=T1, handoff_id="H-1", agent="Alice", lease_expires_at=BEFORE))
    forged.write(LeaseRenewed(task_id=T1, handoff_id="H-1", agent="Alice", lease_expires_at=BEFORE))
    world = a_world([*forged.lines, *without(session.lines, 6, 7)])

    assert world.refusal(c.ApproveReview(task_id=T1, commit=SHA)).code == "lines_missing"
    world.exchange.put(LATE, session.lines)
    world.ledger.refresh()
    assert world.task(T1).is_locked_out("Alice")


def test_groups_of_a_stranger_do_not_hide_a_gap() -> None:
    session = a_log()
    stranger = Session(session.name, FakeClock(BEFORE), keys=FakeKeys("stranger"), project=PROJECT)
    stranger.seq = 5
    for _ in range(2):
        stranger.write(LeaseRenewed(task_id=T1, handoff_id="H", agent="Alice", lease_expires_at=BEFORE))
    world = a_world([*without(session.lines, 6, 7, groups=True), *stranger.lines])

    assert world.refusal(c.ApproveReview(task_id=T1, commit=SHA)).code == "lines_missing"


def test_lines_of_tasks_that_are_not_here_are_no_fault() -> None:
    world = a_world(without(a_log().lines, 1, 3, 4, 5, 6, 7))

    assert verify_in_parts(world).ok
    assert world.ask(c.ApproveReview(task_id=T2, commit=SHA)).task.status is Status.DONE


def test_the_first_lines_of_a_session_may_not_be_missing_without_their_ids() -> None:
    other = Session(
        "20261115-080030-000000fe", FakeClock("2026-11-15T08:00:30.000000Z"), keys=OTHER, project=PROJECT
    )
    other.write(LockoutSet(task_id=T2, agent="Bob"))
    other.write(task_added(T3))
    world = a_world([*a_log().lines, *without(other.lines, 1, groups=True)])

    assert world.refusal(c.ApproveReview(task_id=T2, commit=SHA)).code == "lines_missing"
    assert not verify_in_parts(world).ok


def test_what_this_machine_has_seen_is_missed_when_all_of_it_is_gone() -> None:
    lines = a_log().lines
    world = a_world(lines)
    again = FakeLedger(rules=rules(), session="20261116-090000-00000000")
    again.marks = world.marks
    again.reopen()
    again.repository.commits.update(world.repository.commits)
    again.exchange.put(FILE, without(lines, 6, 7, 8, 9, 10, groups=True))
    again.ledger.refresh()

    refusal = again.refusal(c.ApproveReview(task_id=T1, commit=SHA))
    assert refusal.code == "lines_missing"
    assert "events 6 to 10 of session" in refusal.message
    assert again.finish(again.add("New"), "Carol").status is Status.DONE


def test_a_missing_line_does_not_hide_that_the_end_of_its_session_is_gone_too() -> None:
    log = a_log()
    world = a_world(log.lines)
    again = a_world(without(without(log.lines, 10, groups=True), 2))
    again.marks = world.marks
    again.reopen()
    again.refusal(c.ClaimTask(task_id=T1, agent="Carol"))

    with again.store.read() as view:
        assert [(one.first, one.last) for one in view.missing.faults()] == [(2, 2), (10, 10)]


def test_a_missing_lockout_of_the_task_it_was_cut_from_bars_a_sub_task() -> None:
    session = a_log()
    session.write(task_added(T3, parent=T1))
    world = a_world(without(session.lines, 7))

    assert world.refusal(c.ClaimTask(agent="Alice", task_id=T3), "Alice").code == "lines_missing"


def test_the_next_task_is_one_of_which_nothing_is_missing() -> None:
    session = Session("20261115-080001-000000ff", FakeClock(BEFORE), keys=OTHER, project=PROJECT)
    session.write(task_added(T1))
    session.write(LockoutSet(task_id=T1, agent="Alice"))
    session.write(task_added(T2))
    world = a_world(without(session.lines, 2))

    assert world.claim("", "Alice").id == T2


# Giving up.


def test_what_the_user_gives_up_bars_nothing_and_is_told() -> None:
    world = a_world(without(a_log().lines, 6, 7, groups=True))

    found = missing_lines(world.ledger)
    give_up_lines(world.ledger, found, THE_USER, "the disk of that machine is broken")

    assert world.ask(c.ApproveReview(task_id=T2, commit=SHA)).task.status is Status.DONE
    answer = verify_in_parts(world)
    assert answer.ok
    (given,) = answer.given_up
    assert (given.lines.first, given.lines.last, given.by, given.reason) == (
        6,
        7,
        "user",
        "the disk of that machine is broken",
    )
    assert missing_lines(world.ledger) == []


def test_lines_that_were_given_up_and_come_after_all_count() -> None:
    lines = a_log().lines
    world = a_world(without(lines, 6, 7))
    give_up_lines(world.ledger, missing_lines(world.ledger), THE_USER, "")

    world.exchange.put(LATE, lines)
    world.ledger.refresh()

    assert world.task(T1).is_locked_out("Alice")


def test_what_one_machine_gives_up_is_given_up_where_its_key_is_trusted() -> None:
    lines = without(a_log().lines, 6, 7)
    world = a_world(lines)
    give_up_lines(world.ledger, missing_lines(world.ledger), THE_USER, "lost")

    again = FakeLedger(rules=rules(), session="20261116-090000-00000000", exchange=world.exchange)
    again.repository.commits.update(world.repository.commits)
    again.ledger.refresh()

    assert missing_lines(again.ledger) == []
    assert verify_in_parts(again).ok


def test_more_that_is_lost_later_is_not_given_up() -> None:
    session = a_log()
    lines = session.lines
    world = a_world(without(lines, 6, groups=True))
    give_up_lines(world.ledger, missing_lines(world.ledger), THE_USER, "")
    again = FakeLedger(rules=rules(), session="20261116-090000-00000000", exchange=world.exchange)
    again.repository.commits.update(world.repository.commits)
    again.exchange.put(FILE, without(lines, 6, 7, groups=True))
    again.ledger.refresh()

    assert [(one.first, one.last) for one in missing_lines(again.ledger)] == [(7, 7)]


def test_a_forged_line_in_the_place_of_a_repair_gives_nothing_up_and_takes_nothing_back() -> None:
    session = a_log()
    world = a_world(without(session.lines, 2, groups=True))
    give_up_lines(world.ledger, missing_lines(world.ledger), THE_USER, "lost")
    (real,) = (event for event in world.events() if isinstance(event, LinesGivenUp))
    forged = Session(real.meta.session, FakeClock(real.ts), keys=None)
    forged.seq = real.meta.seq - 1
    forged.write(LinesGivenUp(lines=(AbandonedLines(session=session.name, first=6, last=7),), reason="lost"))

    again = FakeLedger(rules=rules(), session="20261116-090000-00000000", exchange=world.exchange)
    again.repository.commits.update(world.repository.commits)
    again.exchange.put(FILE, without(session.lines, 2, 6, 7, groups=True))
    again.exchange.put("/events/0-is-read-first.jsonl", forged.lines)
    again.ledger.refresh()

    assert again.refusal(c.ApproveReview(task_id=T1, commit=SHA)).code == "lines_missing"
    assert [(one.first, one.last) for one in missing_lines(again.ledger)] == [(6, 7)]
    assert [repair.event for repair in verify_in_parts(again).given_up] == [real]


def test_only_the_user_gives_lines_up() -> None:
    world = a_world(without(a_log().lines, 6, 7))

    with pytest.raises(Refused, match="Only"):
        give_up_lines(world.ledger, missing_lines(world.ledger), ALICE, "")

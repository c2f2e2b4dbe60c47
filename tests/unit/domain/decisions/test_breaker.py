"""Holds when different failures are the system's, and how it is found out that they are no more."""

import msgspec

from remand.domain.access.team import Member
from remand.domain.decisions.runs import (
    FIRST_SECONDS,
    LONGEST_SECONDS,
    Breaker,
    BreakerSnapshot,
    charge_run,
    member_scopes,
    program_scope,
    unstartable_members,
)


def test_three_different_tasks_that_fail_the_same_way_open_it() -> None:
    breaker = Breaker()

    opened = [breaker.record_failure("disk", task, "full", now=0.0) for task in ("a", "b", "c")]

    assert opened == [False, False, True]
    assert not breaker.allows("disk", now=1.0)
    assert breaker.allows("git", now=1.0)


def test_one_task_that_fails_again_and_again_does_not() -> None:
    breaker = Breaker()
    for _ in range(9):
        breaker.record_failure("disk", "a", "full", now=0.0)

    assert breaker.allows("disk", now=0.0)


def test_what_goes_well_between_begins_the_count_anew() -> None:
    breaker = Breaker()
    for task in ("a", "b"):
        breaker.record_failure("disk", task, "full", now=0.0)
    breaker.record_success("disk")
    breaker.record_failure("disk", "c", "full", now=0.0)

    assert breaker.allows("disk", now=0.0)


def test_what_is_certain_needs_no_second() -> None:
    breaker = Breaker()

    assert breaker.record_failure("disk", "a", "full", now=0.0, is_certain=True)


def test_after_a_while_one_is_let_through_to_try_and_its_failure_doubles_the_wait() -> None:
    breaker = Breaker()
    breaker.record_failure("disk", "a", "full", now=0.0, is_certain=True)
    waits, now = [], 0.0
    for _ in range(8):
        (breach,) = breaker.breaches
        waits.append(breach.until - now)
        now = breach.until
        assert breaker.allows("disk", now=now)
        breaker.record_start("disk", now=now)
        assert not breaker.allows("disk", now=now), "one at a time"
        breaker.record_failure("disk", "b", "full", now=now)

    assert waits[:3] == [FIRST_SECONDS, 2 * FIRST_SECONDS, 4 * FIRST_SECONDS]
    assert waits[-1] == LONGEST_SECONDS
    breaker.record_success("disk")
    assert breaker.breaches == ()


def test_one_that_was_let_through_and_found_nothing_out_is_followed_by_another() -> None:
    breaker = Breaker()
    breaker.record_failure("disk", "a", "full", now=0.0, is_certain=True)
    breaker.record_start("disk", now=FIRST_SECONDS)

    assert not breaker.allows("disk", now=FIRST_SECONDS + 1)
    assert breaker.allows("disk", now=2 * FIRST_SECONDS)


def test_what_is_wrong_is_told_with_its_beginning() -> None:
    breaker = Breaker()
    breaker.record_failure("git", "a", "no git", now=5.0, is_certain=True)
    breaker.record_failure("disk", "a", "full", now=3.0, is_certain=True)
    breaker.record_failure("git", "b", "still no git", now=9.0)

    assert [(one.scope, one.message, one.since) for one in breaker.breaches] == [
        ("disk", "full", 3.0),
        ("git", "still no git", 5.0),
    ]


def test_the_next_goes_on_with_what_was_known() -> None:
    first, second = Breaker(), Breaker()
    for task in ("a", "b"):
        first.record_failure("command x", task, "no", now=1.0)
    first.record_failure("disk", "a", "full", now=2.0, is_certain=True)

    kept = msgspec.json.decode(msgspec.json.encode(first.snapshot()), type=BreakerSnapshot)
    second.restore(kept, now=3.0)

    assert second.breaches == first.breaches
    assert not second.allows("disk", now=3.0)
    assert second.record_failure("command x", "c", "no", now=4.0)


def test_times_of_before_the_machine_was_started_are_not_believed() -> None:
    first, second = Breaker(), Breaker()
    first.record_failure("disk", "a", "full", now=50_000.0, is_certain=True)

    second.restore(first.snapshot(), now=10.0)

    assert second.allows("disk", now=10.0)


CLAUDE = Member(name="Ann", command=("env", "A=1", "claude"))
OTHER_CLAUDE = Member(name="Ben", command=("npx", "@anthropic-ai/claude-code"))
CODEX = Member(name="Cid", command=("env", "B=1", "codex"))


def test_the_host_behind_a_wrapper_is_charged_and_not_the_wrapper() -> None:
    breaker = Breaker()
    for task in ("a", "b", "c"):
        for scope in charge_run(CLAUDE, (CLAUDE, CODEX)):
            breaker.record_failure(scope, task, "no", now=0.0, member="Ann")

    assert "command claude" in [one.scope for one in breaker.breaches]
    assert breaker.allows(*member_scopes(CODEX), now=1.0)
    assert not breaker.allows(*member_scopes(OTHER_CLAUDE), now=1.0)


def test_a_program_that_others_use_too_is_blamed_once_it_has_failed_for_two_of_them() -> None:
    breaker, team = Breaker(), (CLAUDE, OTHER_CLAUDE)
    for task in ("a", "b", "c", "d"):
        for scope in charge_run(CLAUDE, team):
            breaker.record_failure(scope, task, "no", now=0.0, member="Ann")

    assert [one.scope for one in breaker.breaches] == ["runs of Ann"]
    assert breaker.allows(*member_scopes(OTHER_CLAUDE), now=1.0)
    for scope in charge_run(OTHER_CLAUDE, team):
        breaker.record_failure(scope, "e", "no", now=2.0, member="Ben")
    assert not breaker.allows(*member_scopes(OTHER_CLAUDE), now=3.0)


def test_a_member_is_set_aside_after_two_tasks_where_others_can_be_started() -> None:
    breaker = Breaker()
    for task in ("a", "b"):
        for scope in charge_run(CLAUDE, (CLAUDE, CODEX)):
            breaker.record_failure(scope, task, "no", now=0.0, member="Ann")

    assert not breaker.allows(*member_scopes(CLAUDE), now=1.0)
    assert breaker.allows(*member_scopes(CODEX), now=1.0)


def test_what_no_member_uses_is_forgotten() -> None:
    breaker = Breaker()
    breaker.record_failure(program_scope(CODEX), "a", "gone", now=0.0, is_certain=True)
    breaker.record_failure("disk", "a", "full", now=0.0, is_certain=True)

    breaker.keep_only(set(member_scopes(CLAUDE)))

    assert [one.scope for one in breaker.breaches] == ["disk"]


def test_members_that_cannot_start_are_named_with_the_cause() -> None:
    people = Member(name="Dee")
    faults = {"runs of Cid": "A run of codex exited with status 1", "disk": "full"}

    assert unstartable_members((CLAUDE, CODEX, people), faults, {"npx"}) == {
        "Cid": "A run of codex exited with status 1"
    }
    assert list(unstartable_members((OTHER_CLAUDE,), {}, {"npx"})) == ["Ben"]

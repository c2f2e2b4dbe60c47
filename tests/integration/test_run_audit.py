"""What the soak takes for the end of a task, told by event lines alone."""

from __future__ import annotations

from typing import Any

from tests.integration.run_audit import Audit

Event = dict[str, Any]


def add(*tasks: str) -> list[Event]:
    return [{"event": "node.create", "type": "TASK", "id": f"task:{task}"} for task in tasks]


def say(name: str, task: str, **more: object) -> Event:
    return {"event": name, "task_id": task, **more}


def link(kind: str, src: str, tgt: str, name: str = "edge.create") -> Event:
    return {"event": name, "type": kind, "src": f"task:{src}", "tgt": f"task:{tgt}"}


def claim(task: str) -> Event:
    return say("task.claim", task, handoff_id=f"H-{task}", agent="Ann")


def run(task: str) -> Event:
    return say("run.start", task, run_id=f"R-{task}", handoff_id=f"H-{task}", agent="Ann")


ASKED = say("escalation.open", "a")


def test_a_task_whose_question_waits_for_the_user_has_come_to_an_end() -> None:
    assert Audit([*add("a"), ASKED]).unended == {}
    assert Audit([*add("a"), say("task.block", "a")]).unended == {}


def test_so_has_what_waits_behind_it_directly_or_through_others() -> None:
    log = [
        *add("a", "b", "c", "d"),
        say("task.defer", "b", waits_for=["a"]),
        say("task.decompose", "c", children=["b"]),
        link("DEPENDS_ON", "d", "c"),
        ASKED,
    ]

    assert Audit(log).unended == {}
    assert Audit(log[:-1]).unended == {"a": "open", "b": "deferred", "c": "decomposed", "d": "open"}


def test_one_that_waits_for_several_has_come_to_an_end_when_one_of_them_waits_for_the_user() -> None:
    log = [*add("a", "b", "c"), say("task.defer", "c", waits_for=["a", "b"]), ASKED]

    assert Audit(log).unended == {"b": "open"}


def test_what_has_been_finished_or_unlinked_is_not_waited_for() -> None:
    log = [*add("a", "b"), link("BLOCKS", "a", "b"), ASKED]

    assert Audit(log).unended == {}
    assert Audit([*log, link("BLOCKS", "a", "b", "edge.delete")]).unended == {"b": "open"}
    assert Audit([*log, say("task.cancel", "a")]).unended == {"b": "open"}


def test_an_answer_of_the_user_brings_all_of_it_on_again() -> None:
    log = [*add("a", "b"), say("task.defer", "b", waits_for=["a"]), ASKED, say("escalation.answer", "a")]

    assert Audit(log).unended == {"a": "open", "b": "deferred"}


def test_what_has_failed_has_not_come_to_an_end_nor_what_waits_behind_it() -> None:
    log = [*add("a", "b"), say("task.fail", "a"), say("task.defer", "b", waits_for=["a"])]

    assert Audit(log).unended == {"a": "failed", "b": "deferred"}
    assert Audit(log).is_stuck, "only the user can bring them on, and was not asked"


def test_nothing_is_stuck_while_one_task_can_be_brought_on() -> None:
    failed = [*add("a", "b"), say("task.fail", "b")]

    assert not Audit(failed).is_stuck, "a may be claimed"
    assert not Audit([*failed, claim("a"), run("a")]).is_stuck, "a is worked on"
    assert not Audit([*failed, say("task.defer", "a", waits_for=["c"])]).is_stuck, "a is due to wake"
    assert Audit([*failed, say("task.defer", "a", waits_for=["b"])]).is_stuck


def test_a_dependency_does_not_end_what_is_being_worked_on() -> None:
    log = [*add("a", "b"), claim("b"), link("DEPENDS_ON", "b", "a"), ASKED]

    assert Audit(log).unended == {"b": "open"}

"""Holds what keys lead to: an answer to the question that is looked at, never to another, never by accident."""

import pytest
from msgspec.structs import replace

from remand.app.inbox.questions import Question
from remand.interfaces.cli.terminal import state as k
from remand.interfaces.cli.terminal.state import (
    MAX_GUIDANCE,
    OPTION_KEYS,
    STEADY_SECONDS,
    KeyPress,
    ViewMode,
    ViewRequest,
    ViewState,
    handle_key,
    initial_state,
    update_questions,
)
from tests.unit.interfaces.cli.terminal.example_boards import OPTIONS, a_question

ONE, TWO, THREE = (a_question(number) for number in (1, 2, 3))
THREE_QUESTIONS = (ONE, TWO, THREE)


def after(
    *presses: str | KeyPress,
    state: ViewState | None = None,
    questions: tuple[Question, ...] = THREE_QUESTIONS,
    at: float = 100.0,
) -> tuple[ViewState, list[ViewRequest]]:
    """The state after these keys, and everything they asked for."""
    state = initial_state(questions) if state is None else state
    wishes = []
    for one in presses:
        state, wish = handle_key(state, questions, KeyPress(one) if isinstance(one, str) else one, at)
        wishes += [wish] if wish else []
    return state, wishes


# Answers.


@pytest.mark.parametrize(("key", "option"), [("1", "fix"), ("3", "reassign:Bob"), ("4", "reopen")])
def test_one_key_answers_the_question_that_is_looked_at(key: str, option: str) -> None:
    state, wishes = after(key)

    assert wishes == [ViewRequest("answer", ONE, option)]
    assert state.mode is ViewMode.LOOK


def test_another_question_is_answered_once_it_is_looked_at() -> None:
    assert after("j", k.DOWN, "k", "1")[1] == [ViewRequest("answer", TWO, "fix")]
    assert after(k.UP, "k", "1")[1] == [ViewRequest("answer", ONE, "fix")]
    assert after("j", "j", "j", "j", "1")[1] == [ViewRequest("answer", THREE, "fix")]


def test_what_closes_a_task_is_asked_once_more() -> None:
    state, wishes = after("5")

    assert (state.mode, wishes) == (ViewMode.CONFIRM, [])
    assert after("y", state=state)[1] == [ViewRequest("answer", ONE, "wontfix")]


@pytest.mark.parametrize("key", ["n", "5", "Y", k.ENTER, k.ESCAPE, "q"])
def test_any_other_key_leaves_it_open(key: str) -> None:
    state, wishes = after("5", key)

    assert (state.mode, wishes) == (ViewMode.LOOK, [])


def test_a_paste_closes_nothing_and_answers_nothing() -> None:
    pasted = KeyPress(pasted="1y\n")

    assert after(pasted)[1] == []
    assert after("5", pasted)[1] == []


@pytest.mark.parametrize("key", ["6", "9", "a", "0", "Z", "é", k.ENTER, k.ESCAPE, ""])
def test_a_key_that_stands_for_no_option_does_nothing(key: str) -> None:
    assert after(key) == (initial_state(THREE_QUESTIONS), [])


def test_every_option_has_a_key_and_none_of_them_means_something_else() -> None:
    many = a_question(1, *(f"reassign:A{number}" for number in range(40)))
    found = [after(key, questions=(many,))[1] for key in OPTION_KEYS]

    assert [wish.option for (wish,) in found] == [f"reassign:A{number}" for number in range(len(OPTION_KEYS))]
    assert not set(OPTION_KEYS) & set("gjkqr?")


def test_without_a_question_no_key_answers() -> None:
    state, wishes = after("1", "g", questions=())

    assert wishes == []
    assert state.message == "There is no open question."


def test_where_nothing_can_be_answered_keys_say_so() -> None:
    for key in ("1", "5", "g"):
        state, wishes = after(key, state=initial_state(THREE_QUESTIONS, why_not="Not from here."))

        assert (state.mode, wishes, state.message) == (ViewMode.LOOK, [], "Not from here.")


@pytest.mark.parametrize(("key", "kind"), [("q", "quit"), ("r", "refresh")])
def test_leaving_and_looking_again_are_asked_for(key: str, kind: str) -> None:
    assert after(key)[1] == [ViewRequest(kind)]


def test_help_goes_with_the_next_key_which_means_nothing_else() -> None:
    state, wishes = after("?")
    assert state.mode is ViewMode.HELP
    state, wishes = after("1", state=state)
    assert (state.mode, wishes) == (ViewMode.LOOK, [])


# Guidance.


def test_guidance_goes_along_with_the_answer_that_follows() -> None:
    state, wishes = after("g", *"use 1 blue", k.ENTER)
    assert (state.mode, state.guidance, wishes) == (ViewMode.LOOK, "use 1 blue", [])

    state, wishes = after("3", state=state)
    assert wishes == [ViewRequest("answer", ONE, "reassign:Bob", "use 1 blue")]
    assert state.guidance == ""


def test_guidance_goes_along_with_closing_too() -> None:
    assert after("g", "n", "o", k.ENTER, "5", "y")[1] == [ViewRequest("answer", ONE, "wontfix", "no")]


def test_dismissing_an_objection_asks_for_the_reason_that_is_recorded() -> None:
    objected = a_question(1, "dismiss", "dismiss_all")
    state, wishes = after("1", state=initial_state((objected,)), questions=(objected,))
    assert (state.mode, wishes) == (ViewMode.TYPE, [])

    _, wishes = after("n", "o", k.ENTER, state=state, questions=(objected,))
    assert wishes == [ViewRequest("answer", objected, "dismiss", "no")]


def test_unlocking_asks_for_guidance_and_takes_none_as_well() -> None:
    state, wishes = after("2")
    assert (state.mode, wishes) == (ViewMode.TYPE, [])

    assert after(k.ENTER, state=state)[1] == [ViewRequest("answer", ONE, "unlock:Alice")]
    assert after("o", "k", k.ENTER, state=state)[1] == [ViewRequest("answer", ONE, "unlock:Alice", "ok")]
    assert after("g", "x", k.ENTER, "2")[1] == [ViewRequest("answer", ONE, "unlock:Alice", "x")]


def test_what_is_typed_can_be_mended_and_left() -> None:
    typed = ("g", *"one two", k.BACKSPACE, "x", k.ERASE_WORD, *" six", k.UP)
    assert after(*typed)[0].guidance == "one six"
    assert after(*typed, k.ERASE_LINE)[0].guidance == ""

    state, wishes = after("2", "x", k.ESCAPE)
    assert (state.mode, state.guidance, state.option, wishes) == (ViewMode.LOOK, "", "", [])


def test_what_is_pasted_becomes_one_line_of_guidance() -> None:
    state, _ = after("g", "x", KeyPress(pasted=" two\nlines\x1b[31m\u202e"))

    assert (state.mode, state.guidance) == (ViewMode.TYPE, "xtwo lines[31m")
    assert len(after("g", *[KeyPress(pasted="y" * 3000)] * 3)[0].guidance) == MAX_GUIDANCE


def test_guidance_stays_with_its_question() -> None:
    assert after("g", "x", k.ENTER, "j", "1")[1] == [ViewRequest("answer", TWO, "fix")]


# When questions change by themselves.


def test_the_same_question_is_looked_at_while_others_come_and_go() -> None:
    state, _ = after("j", "g", "x")

    assert update_questions(state, THREE_QUESTIONS, (a_question(9), TWO), 100.0) == state


def test_when_the_question_is_settled_the_keys_rest_for_a_moment() -> None:
    state, _ = after("j")
    state = update_questions(state, THREE_QUESTIONS, (ONE, THREE), 100.0)

    assert state.selected == THREE.escalation_id
    held, wishes = after("1", state=state, questions=(ONE, THREE), at=100.0 + STEADY_SECONDS / 2)
    assert wishes == []
    assert "just changed" in held.message
    assert after("1", state=state, questions=(ONE, THREE), at=101.0 + STEADY_SECONDS)[1] == [
        ViewRequest("answer", THREE, "fix")
    ]


def test_a_question_that_just_came_up_is_not_answered_by_a_key_that_was_meant_for_none() -> None:
    state = update_questions(initial_state(()), (), (ONE,), 100.0)

    assert state.selected == ONE.escalation_id
    assert after("1", state=state, questions=(ONE,), at=100.1)[1] == []


@pytest.mark.parametrize("begin", ["5", "2"])
def test_what_was_begun_is_given_up_when_its_question_goes(begin: str) -> None:
    state, _ = after(begin)
    state = update_questions(state, THREE_QUESTIONS, (TWO, THREE), 100.0)

    assert (state.mode, state.option, state.guidance) == (ViewMode.LOOK, "", "")
    assert state.message == "That question was already settled."
    assert after("y", k.ENTER, state=state, questions=(TWO, THREE))[1] == []


def test_what_was_begun_is_given_up_when_the_options_change() -> None:
    changed = replace(ONE, options=ONE.options[1:])
    state = update_questions(after("5")[0], THREE_QUESTIONS, (changed, TWO, THREE), 100.0)

    assert (state.mode, state.message) == (ViewMode.LOOK, "The options have changed.")
    assert after("4", state=state, questions=(changed,), at=100.1)[1] == []


def test_what_came_of_an_answer_is_still_said_when_its_question_goes() -> None:
    state = replace(initial_state(THREE_QUESTIONS), message="Bob takes it over")

    assert update_questions(state, THREE_QUESTIONS, (TWO, THREE), 100.0).message == "Bob takes it over"


def test_when_the_last_question_goes_none_is_looked_at() -> None:
    state = update_questions(initial_state((ONE,)), (ONE,), (), 100.0)

    assert state.selected == ""
    assert len(OPTIONS) == len(ONE.options)

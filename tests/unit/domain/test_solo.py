"""What the stop of a session without a task means, and whose a change is."""

from __future__ import annotations

from typing import Any

import pytest

from remand.domain.gate.gate import Gate, GateFinding, GatePolicy
from remand.domain.gate.verdict import GateStatus
from remand.domain.solo import (
    SessionTrace,
    SoloMeaning,
    SoloResult,
    SoloStop,
    TimeSpan,
    TouchedFile,
    agent_text,
    has_foreign_move,
    is_question,
    lost_run_text,
    own_paths,
    partly_measured,
    read_trace,
    session_title,
    solo_stop_meaning,
    user_text,
)
from tests.support.builders import a_result, a_verdict

TESTS = Gate(name="tests", command=("t",), paths=("src/**", "tests/**"))
POLICY = GatePolicy(gates=(TESTS,))


def a_stop(**fields: Any) -> SoloStop:
    given = {"tree": "end", "start_tree": "start", "touched": ("src/a.py",), "policy": POLICY} | fields
    return SoloStop(**given)


def measured(status: GateStatus, **fields: Any) -> SoloResult:
    return SoloResult(tree="end", status=status, **fields)


@pytest.mark.parametrize(
    ("fields", "meaning"),
    [
        ({}, SoloMeaning.MEASURE),
        ({"tree": "start"}, SoloMeaning.SILENT),
        ({"touched": ()}, SoloMeaning.SILENT),
        ({"touched": ("README.md",)}, SoloMeaning.SILENT),
        ({"policy": GatePolicy(gates=(Gate(name="t", command=("t",)),))}, SoloMeaning.MEASURE),
        ({"is_excused": True}, SoloMeaning.SILENT),
        ({"policy": GatePolicy()}, SoloMeaning.HINT),
        ({"policy": GatePolicy(gates=()), "has_hinted": True}, SoloMeaning.SILENT),
        ({"result": SoloResult("older", GateStatus.FAILED)}, SoloMeaning.MEASURE),
        ({"result": measured(GateStatus.PASSED)}, SoloMeaning.SILENT),
        ({"result": measured(GateStatus.FAILED)}, SoloMeaning.SEND_BACK),
        ({"result": measured(GateStatus.FAILED), "blocks": 2}, SoloMeaning.SEND_BACK),
        ({"result": measured(GateStatus.FAILED), "blocks": 3}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED), "blocks": 1, "most_blocks": 1}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED, is_own=False)}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED, is_reported=True)}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED, is_reported=True, is_shown=True)}, SoloMeaning.SILENT),
        ({"result": measured(GateStatus.FAILED, is_shown=True)}, SoloMeaning.SEND_BACK),
        ({"result": measured(GateStatus.HELD, is_shown=True)}, SoloMeaning.SILENT),
        ({"result": measured(GateStatus.PASSED, is_reported=True)}, SoloMeaning.SILENT),
        ({"is_question": True}, SoloMeaning.MEASURE),
        ({"result": measured(GateStatus.FAILED), "is_question": True}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED, is_shown=True), "is_question": True}, SoloMeaning.SILENT),
        ({"result": measured(GateStatus.PASSED), "is_question": True}, SoloMeaning.SILENT),
        ({"is_excused": True, "is_question": True}, SoloMeaning.SILENT),
        ({"result": measured(GateStatus.HELD)}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.ERRORED)}, SoloMeaning.SHOW),
        ({"result": measured(GateStatus.FAILED), "is_excused": True}, SoloMeaning.SILENT),
        (
            {"result": measured(GateStatus.FAILED), "policy": GatePolicy(gates=(TESTS,), enforce=False)},
            SoloMeaning.SHOW,
        ),
    ],
)
def test_what_a_stop_means(fields: dict[str, Any], meaning: SoloMeaning) -> None:
    assert solo_stop_meaning(a_stop(**fields)) == meaning


class TestOwnPaths:
    def test_a_file_that_the_session_named_is_its_own(self) -> None:
        own = SessionTrace(paths=frozenset({"a.py"}))
        other = SessionTrace(paths=frozenset({"a.py", "b.py"}))
        changed = [TouchedFile("a.py", 5.0), TouchedFile("b.py", 5.0)]
        assert own_paths(changed, own, [other]) == ("a.py",)

    def test_what_changed_while_a_command_ran_is_its_own(self) -> None:
        own = SessionTrace(commands=(TimeSpan(10.0, 12.0),))
        changed = [TouchedFile("in.py", 11.0), TouchedFile("by the user.py", 20.0)]
        assert own_paths(changed, own, []) == ("in.py",)

    def test_what_another_session_named_is_not(self) -> None:
        own = SessionTrace(commands=(TimeSpan(10.0, 12.0),))
        assert own_paths([TouchedFile("b.py", 11.0)], own, [SessionTrace(paths=frozenset({"b.py"}))]) == ()

    def test_a_host_that_tells_of_no_tool_has_changed_what_changed_in_its_turn(self) -> None:
        own = SessionTrace(turns=(TimeSpan(10.0, 12.0),))
        changed = [TouchedFile("in.py", 11.0), TouchedFile("between.py", 20.0)]
        assert own_paths(changed, own, []) == ("in.py",)

    def test_turns_do_not_count_where_the_host_tells_of_tools(self) -> None:
        own = SessionTrace(paths=frozenset({"a.py"}), turns=(TimeSpan(10.0, 12.0),))
        assert own_paths([TouchedFile("in the editor.py", 11.0)], own, []) == ()

    def test_what_changed_after_a_command_of_the_turn_is_its_own_unless_another_session_was_at_it(
        self,
    ) -> None:
        own = SessionTrace(commands=(TimeSpan(10.0, 11.0),), after_commands=(TimeSpan(10.0, 20.0),))
        changed = [TouchedFile("in.py", 12.0), TouchedFile("theirs.py", 15.0), TouchedFile("later.py", 21.0)]
        assert own_paths(changed, own, [SessionTrace(commands=(TimeSpan(14.0, 16.0),))]) == ("in.py",)

    def test_a_file_that_is_gone_is_its_own_where_its_own_write_hides_when_it_went(self) -> None:
        own = SessionTrace(commands=(TimeSpan(10.0, 11.0),), writes=(TimeSpan(30.0, 31.0),))
        changed = [TouchedFile("gone.py", 30.5, is_gone=True), TouchedFile("there.py", 30.5)]
        assert own_paths(changed, own, []) == ("gone.py",)
        assert own_paths(changed, own._replace(commands=(TimeSpan(40.0, 41.0),)), []) == ()


class TestForeignMoves:
    PULL = ("pull: Fast-forward",)
    IDLE = SessionTrace(paths=frozenset({"a.py"}), commands=(TimeSpan(10.0, 12.0),))

    def test_a_pull_of_the_user_is_one(self) -> None:
        assert has_foreign_move(self.PULL, self.IDLE)

    def test_what_is_seen_at_the_end_of_a_command_or_while_one_runs_is_none(self) -> None:
        assert not has_foreign_move(self.PULL, self.IDLE, ends_command=True)
        assert not has_foreign_move(self.PULL, self.IDLE._replace(is_running=True), begins_turn=True)

    def test_after_a_command_it_is_none_until_the_turn_is_over(self) -> None:
        assert not has_foreign_move(self.PULL, self.IDLE._replace(has_run_in_turn=True))
        assert has_foreign_move(self.PULL, self.IDLE._replace(has_run_in_turn=True), begins_turn=True)

    def test_a_session_whose_host_tells_of_no_tool_made_it_unless_it_is_seen_with_a_prompt(self) -> None:
        assert not has_foreign_move(self.PULL, SessionTrace())
        assert has_foreign_move(self.PULL, SessionTrace(), begins_turn=True)

    def test_a_commit_is_none_whoever_made_it(self) -> None:
        assert not has_foreign_move(["commit (amend): x"], self.IDLE)


class TestTraces:
    def test_a_command_without_an_end_runs_until_the_stop_after_it(self) -> None:
        notes = [("turn", 1.0, ""), ("begin", 2.0, "x 0.000"), ("stop", 4.0, "")]
        trace = read_trace(notes, 9.0)
        assert trace.commands == (TimeSpan(2.0, 4.0),)
        assert not trace.is_running
        assert read_trace(notes[:2], 9.0).is_running

    def test_a_command_that_ends_after_the_stop_of_a_sub_agent_ran_all_the_time(self) -> None:
        notes = [("begin", 2.0, "x 0.000"), ("stop", 4.0, ""), ("end", 6.0, "x 0.000")]
        assert read_trace(notes, 9.0).commands[-1] == TimeSpan(2.0, 6.0)

    def test_what_comes_after_a_command_lasts_until_the_turn_ends_and_goes_on_after_a_stop_that_was_refused(
        self,
    ) -> None:
        first = [("turn", 1.0, ""), ("begin", 2.0, "x 0"), ("end", 3.0, "x 0"), ("stop", 4.0, "")]
        refused = [*first, ("path", 5.0, "a"), ("path", 6.0, "a")]
        assert read_trace(refused, 9.0).after_commands[-1] == TimeSpan(2.0, 9.0)
        assert read_trace(refused, 9.0).writes == (TimeSpan(5.0, 6.0),)
        again = [*refused, ("turn", 7.0, "")]
        assert read_trace(again, 9.0).after_commands[-1] == TimeSpan(2.0, 6.0)
        assert not read_trace(again, 9.0).has_run_in_turn


@pytest.mark.parametrize(
    ("text", "is_one"),
    [
        ("Which of the two do you want?", True),
        ("Shall I go on? **Yes or no?**", True),
        ("どちらにしますか？\n", True),
        ("Why it failed? Because of x. Done.", False),
        ("", False),
    ],
)
def test_a_question_is_what_ends_with_a_question_mark(text: str, is_one: bool) -> None:
    assert is_question(text) is is_one


def test_a_title_is_the_prompt_on_one_line_without_secrets() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    title = session_title(f"Fix the parser,\nmy token is {token} " + "and more " * 30)
    assert len(title) <= 80
    assert "\n" not in title
    assert token not in title


def test_a_run_that_ended_without_a_result_is_reported_with_the_end_of_what_it_wrote() -> None:
    token = "ghp_" + "a1B2c3D4e5" * 4
    text = lost_run_text("x" * 5000 + f"\nOSError: no ledger, {token}\n")
    assert "could not measure this session" in text
    assert "\nOSError: no ledger, " in text
    assert token not in text
    assert len(text) < 1000
    assert "wrote nothing" in lost_run_text("")


def test_what_was_left_out_is_named() -> None:
    assert partly_measured(()) == ""
    assert partly_measured(["big.bin (70 MiB)"]) == "Partly measured: without big.bin (70 MiB)."
    assert partly_measured([str(n) for n in range(9)]).endswith("4 more.")


def test_an_agent_is_reported_figures_and_that_nothing_has_to_be_committed() -> None:
    failed = a_result(line="- Tests: 2 failures (requires 100% pass)", failing=("t::a", "t::b"))
    text = agent_text(a_verdict(failed, status=GateStatus.FAILED), 1, None, ["big.bin (70 MiB)"])
    assert "2 failures (requires 100% pass)" in text
    assert "Nothing has to be committed" in text
    assert "Partly measured: without big.bin" in text
    assert "claim done" not in text


def test_the_user_is_reported_of_what_others_changed() -> None:
    failed = a_result(line="- Tests: 2 failures (requires 100% pass)")
    text = user_text(a_verdict(failed, status=GateStatus.FAILED), (), is_own=False, foreign=["b.py"])
    assert "not by what this session changed" in text
    assert "b.py" in text


def test_a_held_finding_is_shown() -> None:
    finding = GateFinding(path="t.py", line=3, code="skipped", text="a test is skipped [abc]")
    held = a_result("integrity", GateStatus.HELD, findings=(finding,), suspicions=("abc",), finding_count=1)
    text = user_text(a_verdict(held, status=GateStatus.HELD), (), is_own=True)
    assert "t.py:3" in text
    assert "-----" not in text, "the marks around what tools say are for agents"

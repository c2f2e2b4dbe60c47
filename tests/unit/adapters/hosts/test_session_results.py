"""What hosts really said at the end of a session is read, and what an agent can make of it does no harm."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.hosts.launcher import read_session
from remand.app.scheduler.ports import SessionResult

RECORDED = Path(__file__).with_name("recorded")
COMMANDS = {
    "claude": ("claude", "-p"),
    "codex": ("codex", "exec"),
    "copilot": ("copilot",),
    "cursor": ("cursor-agent", "-p"),
    "gemini": ("gemini",),
    "openhands": ("openhands", "--headless"),
    "qwen": ("qwen",),
}
LAST = "Now really done."
COST = 8.999999999999999e-05
REFUSED = "This key is nobody's."


def recorded(name: str) -> str:
    """What a real host has written to its output."""
    return next(RECORDED.glob(f"{name}.*")).read_text(encoding="utf-8")


def read(name: str, status: int = 0) -> SessionResult:
    host, _, case = name.partition("-")
    form = {"json": ("--output-format", "json"), "text": ("--output-format", "text")}.get(case, ())
    return read_session((*COMMANDS[host], *form), recorded(name), status)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("claude-done", SessionResult(LAST, turns=3, tokens=6, cost=COST)),
        ("claude-json", SessionResult(LAST, turns=3, tokens=6, cost=COST)),
        ("claude-text", SessionResult(LAST)),
        ("codex-done", SessionResult(LAST, turns=3, tokens=6)),
        ("copilot-done", SessionResult(LAST, turns=3)),
        ("gemini-done", SessionResult(LAST, turns=3, tokens=6)),
        ("gemini-json", SessionResult(f"Done.{LAST}", turns=3, tokens=6)),
        ("qwen-done", SessionResult(f"Done.{LAST}", turns=2, tokens=6)),
        ("qwen-json", SessionResult(f"Done.{LAST}", turns=2, tokens=6)),
    ],
)
def test_a_session_that_ended_well_tells_what_it_took(name: str, expected: SessionResult) -> None:
    assert read(name) == expected


@pytest.mark.parametrize("host", ["claude", "codex", "copilot", "gemini", "qwen"])
def test_a_session_that_failed_says_why(host: str) -> None:
    found = read(f"{host}-refused", 1)

    assert REFUSED in found.error
    assert "\n" not in found.error
    assert not found.is_exhausted


@pytest.mark.parametrize(("name", "status"), [("claude-exhausted", 1), ("qwen-exhausted", 53)])
def test_a_session_that_ran_out_of_turns_says_so(name: str, status: int) -> None:
    assert read(name, status).is_exhausted
    assert not read(name.replace("exhausted", "done")).is_exhausted


CURSOR = [
    {"type": "system", "subtype": "init", "session_id": "s-42", "model": "gpt", "cwd": "/work"},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": "First."}]}},
    {"type": "assistant", "message": {"role": "assistant", "content": [{"type": "text", "text": LAST}]}},
    {"type": "result", "subtype": "success", "is_error": False, "duration_ms": 2000, "result": LAST},
]
OPENHANDS = [
    {"source": "user", "llm_message": {"role": "user", "content": [{"type": "text", "text": "Do it."}]}},
    {"source": "agent", "kind": "ActionEvent", "action": {"kind": "TerminalAction", "command": "ls"}},
    {"source": "environment", "kind": "ObservationEvent", "observation": {"content": []}},
    {"source": "agent", "kind": "ActionEvent", "action": {"kind": "FinishAction", "message": LAST}},
]


@pytest.mark.parametrize(("host", "events"), [("cursor", CURSOR), ("openhands", OPENHANDS)])
def test_hosts_are_read_as_they_are_documented(host: str, events: list[dict[str, object]]) -> None:
    output = "Initializing agent...\n" + "\n".join(map(json.dumps, events)) + "\nGoodbye!\n"

    assert read_session(COMMANDS[host], output) == SessionResult(LAST, turns=2)


class TestScripts:
    def test_a_script_tells_nothing_but_its_words(self) -> None:
        assert read_session(("./work.sh",), "one\ntwo\n") == SessionResult("one\ntwo")

    def test_it_may_close_with_a_line_that_tells_what_it_took(self) -> None:
        closing = {"type": "result", "result": "All done.", "num_turns": 4, "total_cost_usd": 0.25}
        output = f'{{"type": "result", "num_turns": 9}}\nwords\n{json.dumps(closing)}\n\n'

        assert read_session(("./work.sh",), output) == SessionResult("All done.", turns=4, cost=0.25)

    def test_all_that_closes_it_is_passed_on(self) -> None:
        """What a reviewer runs can write to where it speaks; a forged word beside its own is to be doubted."""
        output = "\n".join(json.dumps({"type": "result", "result": word}) for word in ("no", "yes", "yes"))

        assert read_session(("./review.sh",), output).text == "no\nyes"
        assert read_session(("claude", "-p"), output).text == "no\nyes"

    def test_a_result_in_the_midst_of_its_words_is_none(self) -> None:
        output = '{"type": "result", "num_turns": 9}\nDone.'

        assert read_session(("./work.sh",), output) == SessionResult(output)


class TestTorn:
    @pytest.mark.parametrize("host", ["claude", "codex", "copilot", "gemini", "qwen"])
    def test_an_output_that_breaks_off_tells_the_steps_so_far(self, host: str) -> None:
        lines = recorded(f"{host}-done").splitlines(keepends=True)
        for length in range(0, len("".join(lines)), 37):
            found = read_session(COMMANDS[host], "".join(lines)[:length])
            assert (found.cost, found.error, found.is_exhausted) == (0.0, "", False)
            assert 0 <= found.turns <= 3

    def test_an_output_with_its_middle_left_out_tells_its_end(self) -> None:
        output = recorded("claude-done")
        cut = output[: len(output) // 3] + "\n[... output left out here ...]\n" + output[-1500:]

        assert read_session(COMMANDS["claude"], cut) == SessionResult(LAST, turns=3, tokens=6, cost=COST)

    def test_a_killed_session_has_said_what_it_said_last(self) -> None:
        lines = recorded("claude-done").splitlines()

        assert read_session(COMMANDS["claude"], "\n".join(lines[:-1])).text == LAST
        assert read_session(COMMANDS["claude"], "\n".join(lines[:-1])).turns == 3


class TestFaked:
    RESULT = '{"type": "result", "subtype": "success", "result": "ok", "num_turns": %s, "total_cost_usd": %s}'

    def test_a_lower_figure_hides_no_higher_one(self) -> None:
        fake = self.RESULT % (0, 0)
        for output in (f"{recorded('claude-done')}{fake}\n", f"{fake}\n{recorded('claude-done')}"):
            found = read_session(COMMANDS["claude"], output)
            assert (found.turns, found.cost) == (3, COST)

    def test_a_result_that_an_agent_only_speaks_of_is_none(self) -> None:
        spoken = json.dumps(
            {
                "type": "assistant",
                "message": {"content": [{"type": "text", "text": f"\n{self.RESULT % (9, 9)}\n"}]},
            }
        )

        assert read_session(COMMANDS["claude"], f"{spoken}\n").cost == 0.0
        assert (
            read_session((*COMMANDS["claude"], "--output-format", "text"), self.RESULT % (9, 9)).cost == 0.0
        )

    @pytest.mark.parametrize(
        "figure", ["NaN", "-1", "-0.5", "1e999", "Infinity", "1e300", '"7"', "true", "null", "[]"]
    )
    def test_a_figure_that_cannot_be_true_is_none(self, figure: str) -> None:
        found = read_session(COMMANDS["claude"], self.RESULT % (figure, figure))

        assert (found.turns, found.cost, found.text) == (0, 0.0, "ok")

    def test_figures_of_odd_kinds_do_no_harm_in_any_host(self) -> None:
        for command in COMMANDS.values():
            for kind in ("result", "item.completed", "turn.completed", "assistant", "message", "tool_use"):
                for value in (None, 7, "x", [], [1, [2]], {}, {"a": {"b": []}}, True):
                    names = (
                        "usage",
                        "stats",
                        "item",
                        "message",
                        "data",
                        "error",
                        "action",
                        "result",
                        "content",
                    )
                    line = json.dumps({"type": kind, "source": "agent", **dict.fromkeys(names, value)})
                    check(read_session(command, f"{line}\n{line}"))

    def test_ten_megabytes_are_read(self) -> None:
        line = json.dumps(
            {"type": "assistant", "message": {"content": [{"type": "text", "text": "x" * 1_000_000}]}}
        )
        output = f"{line}\n" * 10 + recorded("claude-done")

        assert read_session(COMMANDS["claude"], output).cost == COST

    @pytest.mark.parametrize(
        "output", ["[" * 100_000, '{"a":' * 100_000, "{" * 100_000, "\x00" * 1000, "[]", "{}"]
    )
    @pytest.mark.parametrize("host", COMMANDS)
    def test_what_is_no_output_of_a_host_tells_nothing(self, host: str, output: str) -> None:
        found = read_session(COMMANDS[host], output)

        assert (found.turns, found.tokens, found.cost, found.error) == (0, 0, 0.0, "")


def check(found: SessionResult) -> None:
    """Nothing that was read can hurt whoever uses it."""
    assert found.turns >= 0
    assert found.tokens >= 0
    assert 0 <= found.cost < float("inf")
    assert len(found.error) <= 500
    (found.text + found.error).encode()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=20), inner, max_size=4),
    max_leaves=12,
)
TYPES = st.sampled_from(
    ["result", "assistant", "item.completed", "turn.completed", "turn.failed", "message", "error"]
)
FIELDS = st.sampled_from(
    ["usage", "stats", "item", "message", "data", "error", "num_turns", "total_cost_usd", "result"]
)


@given(st.sampled_from(list(COMMANDS)), st.text(max_size=300))
def test_no_text_stops_the_reader(host: str, output: str) -> None:
    check(read_session(COMMANDS[host], output))


@given(st.sampled_from(list(COMMANDS)), TYPES, st.dictionaries(FIELDS, JSON, max_size=6))
def test_no_value_of_any_field_stops_the_reader(host: str, kind: str, fields: dict[str, object]) -> None:
    check(read_session(COMMANDS[host], json.dumps({"type": kind, **fields})))

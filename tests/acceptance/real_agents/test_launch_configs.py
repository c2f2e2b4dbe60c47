"""Real hosts with the launch configuration that the scheduler gives them: our hooks and tools are there, and gone with the run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.real_agents.agents import fail, say
from tests.acceptance.real_agents.host_launches import IDENTITY, KINDS, PROMPT, Stage

pytestmark = pytest.mark.more


@pytest.mark.parametrize("is_confined", [False, True], ids=["free", "confined"])
@pytest.mark.parametrize("host", KINDS)
def test_a_run_has_our_hooks_and_tools_and_tells_what_it_took(
    host: str, is_confined: bool, tmp_path: Path
) -> None:
    stage = Stage(tmp_path, host, is_confined=is_confined)
    stage.block_once()
    before = stage.user_files()
    told, read = stage.run(stage.kind.tool, say("Done."), say("Now really done."))

    assert (told.code, told.left) == (0, []), told.err[-2000:]
    assert json.dumps(PROMPT, ensure_ascii=False)[1:-1] in told.request(0)
    assert "standing" in json.dumps([told.heard[0]["tools"], told.request(0)]), "the tool is offered"
    assert "The task is claimed by Fenster." in told.request(1), "the tool answers"
    assert "73 failures (requires 100% pass)" in told.request(2), "the stop was sent back"
    heard = stage.heard()
    assert {"mcp", "session_start", "stop"} <= {event for event, _ in heard}
    assert [one["whose"] for _, one in heard] == [IDENTITY] * len(heard)
    assert read.text.endswith("Now really done.")
    assert read.turns == (2 if host == "qwen" else 3), "Qwen does not count what follows a blocked stop"
    assert (read.cost > 0) == (host == "claude"), "no other host tells its cost in money"
    assert read.tokens == (0 if host == "copilot" else 6)
    assert (read.error, read.is_exhausted) == ("", False)
    assert stage.git("status", "--porcelain", "--ignored") == ""
    assert not is_confined or stage.user_files() == before | rewritten(stage)
    assert bool(stage.kind.hook) == stage.touched.exists(), "the user's own hook is run, too"
    stage.fitting.drop("RUN-1")
    assert list((tmp_path / "runs").iterdir()) == []


def rewritten(stage: Stage) -> dict[str, bytes]:
    """The user's settings as the endpoint has written its address into them."""
    return {path: Path(path).read_bytes() for path in stage.settings}


@pytest.mark.parametrize("host", KINDS)
def test_a_model_that_refuses_is_told_as_what_went_wrong(host: str, tmp_path: Path) -> None:
    stage = Stage(tmp_path, host, is_confined=False)
    _, read = stage.run(*[fail(400, "This key is nobody's.")] * 20)

    assert "This key is nobody's." in read.error
    assert read.cost == 0


def test_claude_code_that_runs_out_of_turns_is_told_as_exhausted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "claude", is_confined=False)
    _, read = stage.run(*[stage.kind.tool] * 5, more=["--max-turns", "2"])

    assert (read.is_exhausted, bool(read.error)) == (True, True)
    assert read.turns >= 2


def test_settings_in_the_users_own_command_stay_as_they_are(tmp_path: Path) -> None:
    stage = Stage(tmp_path, "claude", is_confined=True)
    mark = tmp_path / "from-the-command"
    own = {"hooks": {"Stop": [{"hooks": [{"type": "command", "command": f"touch {mark}"}]}]}}
    stage.block_once()
    told, read = stage.run(
        say("Done."), say("Now really done."), more=["--settings", json.dumps(own), "--output-format", "json"]
    )

    assert "73 failures" in told.request(1)
    assert mark.exists()
    assert (read.text, read.turns) == ("Now really done.", 2)

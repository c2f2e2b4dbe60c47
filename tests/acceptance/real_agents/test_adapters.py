"""Real hosts understand what our adapters say, and say what they understand."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remand.adapters.hosts import claude, codex, codex_settings, settings
from remand.adapters.hosts.host import Rendered, Setup
from remand.adapters.hosts.table import HOSTS
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall
from tests.acceptance.real_agents.agents import CLIS, Told, run_claude, run_codex, say, shell, use

pytestmark = pytest.mark.more

PLUGIN = Path(__file__).parents[3] / "plugins" / "claude-code"
REASON = "REJECTED: Quality gates failed\n- Tests: 73 failures (requires 100% pass)\nContinue working."
RECORDER = """\
#!/bin/sh
test "$1" = hook || exit 0
here=$(dirname "$0")
event=$4
number=$(ls "$here/heard" | wc -l)
cat > "$here/heard/$(printf %03d "$number").$event"
test ! -e "$here/answers/$event" || cat "$here/answers/$event"
rm -f "$here/answers/$event"
"""


class Stage:
    """A project with hooks that keep what they are told, and answer each event once with what is prepared."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.project, self.home, self.answers = (folder / name for name in ("project", "home", "answers"))
        for made in (self.project, self.home, self.answers, folder / "heard"):
            made.mkdir()
        self.program = folder / "remand"
        self.program.write_text(RECORDER)
        self.program.chmod(0o755)
        os.system(f"git init -q {self.project}")

    def install(self, setup: Setup) -> Path:
        """Puts our hooks into the settings of a host."""
        path = self.project / setup.path
        path.parent.mkdir(parents=True)
        path.write_text(settings.install_hooks(setup, None, [str(self.program)]))
        return path

    def prepare(self, event: str, rendered: Rendered) -> None:
        """Has the hook give an answer when an event fires for the first time."""
        assert rendered[1:] == ("", 0)
        (self.answers / event).write_text(rendered[0])

    def payloads(self) -> list[tuple[str, bytes]]:
        """What the hooks were told, in order, with the event that each was called for."""
        kept = sorted((self.folder / "heard").iterdir())
        return [(path.name.partition(".")[2], path.read_bytes()) for path in kept]


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


class TestClaudeCode:
    @pytest.fixture
    def told(self, stage: Stage) -> Told:
        stage.install(claude.SETUP)
        stage.prepare(hook.SESSION_START, claude.render(hook.SESSION_START, HookAnswer.context("Context A.")))
        stage.prepare(hook.PROMPT, claude.render(hook.PROMPT, HookAnswer.context("Context B.")))
        stage.prepare(hook.PRE_TOOL, claude.render(hook.PRE_TOOL, HookAnswer.deny("Protected file.")))
        stage.prepare(hook.POST_TOOL, claude.render(hook.POST_TOOL, HookAnswer.context("Context C.")))
        stage.prepare(hook.STOP, claude.render(hook.STOP, HookAnswer.block(REASON)))
        script = [
            use("Write", file_path=str(stage.project / "denied.txt"), content="x"),
            use("Write", file_path=str(stage.project / "allowed.txt"), content="x"),
            use("Bash", command="echo hi; exit 3", description="fails"),
            say("Done."),
            say("Now really done."),
        ]
        return run_claude(stage.project, stage.home, script, {})

    def test_it_hears_what_we_answer(self, stage: Stage, told: Told) -> None:
        assert "Context A." in told.request(0)
        assert "Context B." in told.request(0)
        assert "Protected file." in told.request(1)
        assert "Context C." in told.request(2)
        assert "73 failures (requires 100% pass)" in told.request(4)
        assert (told.code, told.left, told.out.strip()) == (0, [], "Now really done.")
        assert [path.name for path in stage.project.glob("*.txt")] == ["allowed.txt"]

    def test_we_understand_what_it_says(self, stage: Stage, told: Told) -> None:
        calls = [claude.read(event, data) for event, data in stage.payloads()]

        assert [call.event for call in calls] == [
            hook.SESSION_START,
            hook.PROMPT,
            hook.PRE_TOOL,
            *(hook.PRE_TOOL, hook.POST_TOOL),
            *(hook.PRE_TOOL, hook.POST_TOOL_FAILURE),
            *(hook.STOP, hook.STOP),
        ]
        check_one_session(calls, stage.project)
        assert [call.last_message for call in calls[-2:]] == ["Done.", "Now really done."]
        assert [call.is_continued for call in calls[-2:]] == [False, True]
        assert calls[-1].firing_key != calls[-2].firing_key
        assert calls[-1].turn == calls[-2].turn != ""
        failed = calls[6].tool
        assert failed is not None
        assert (failed.command, failed.exit_code, failed.has_failed) == ("echo hi; exit 3", 3, True)
        assert "hi" in failed.output
        assert [call.tool.paths for call in calls[2:4] if call.tool] == [
            (str(stage.project / "denied.txt"),),
            (str(stage.project / "allowed.txt"),),
        ]
        assert calls[2].tool is not None
        assert calls[2].tool.use_id

    def test_the_plugin_brings_the_same_hooks(self, stage: Stage) -> None:
        stage.prepare(hook.STOP, claude.render(hook.STOP, HookAnswer.block(REASON)))
        told = run_claude(
            stage.project,
            stage.home,
            [say("Done."), say("Now really done.")],
            {"PATH": f"{stage.folder}:/usr/bin:/bin"},
            options=["--plugin-dir", str(PLUGIN)],
        )

        assert "73 failures (requires 100% pass)" in told.request(1)
        assert [event for event, _ in stage.payloads()] == [
            hook.SESSION_START,
            hook.PROMPT,
            hook.STOP,
            hook.STOP,
        ]
        assert "remand:reject-handoff" in told.request(0)
        assert "remand:reject-task" not in told.request(0), "it is the user's"


class TestCodex:
    PATCH = "*** Begin Patch\n*** Add File: {}.txt\n+x\n*** End Patch"

    def script(self) -> list[dict[str, object]]:
        denied, allowed = (
            use("exec_command", cmd=f"apply_patch <<'E'\n{self.PATCH.format(name)}\nE")
            for name in ("denied", "allowed")
        )
        failing = use("exec_command", cmd="echo hi; exit 3")
        return [denied, allowed, failing, say("Done."), say("Now really done.")]

    @pytest.fixture
    def told(self, stage: Stage) -> Told:
        stage.install(codex.SETUP)
        stage.prepare(hook.SESSION_START, codex.render(hook.SESSION_START, HookAnswer.context("Context A.")))
        stage.prepare(hook.PROMPT, codex.render(hook.PROMPT, HookAnswer.context("Context B.")))
        stage.prepare(hook.PRE_TOOL, codex.render(hook.PRE_TOOL, HookAnswer.deny("Protected file.")))
        stage.prepare(hook.POST_TOOL, codex.render(hook.POST_TOOL, HookAnswer.context("Context C.")))
        stage.prepare(hook.STOP, codex.render(hook.STOP, HookAnswer.block(REASON, notice="A note.")))
        return run_codex(stage.project, stage.home, self.script(), {})

    def test_it_hears_what_we_answer(self, stage: Stage, told: Told) -> None:
        assert "Context A." in told.request(0)
        assert "Context B." in told.request(0)
        assert "Protected file." in told.request(1)
        assert "Context C." in told.request(3)
        assert "73 failures (requires 100% pass)" in told.request(4)
        assert (told.code, told.left, told.out.strip()) == (0, [], "Now really done.")
        assert [path.name for path in stage.project.glob("*.txt")] == ["allowed.txt"]

    def test_we_understand_what_it_says(self, stage: Stage, told: Told) -> None:
        calls = [codex.read(event, data) for event, data in stage.payloads()]

        check_one_session(calls, stage.project)
        assert [call.last_message for call in calls[-2:]] == ["Done.", "Now really done."]
        assert [call.is_continued for call in calls[-2:]] == [False, True]
        assert calls[-1].firing_key != calls[-2].firing_key
        assert calls[-1].turn == calls[-2].turn != ""
        asked = [call.tool for call in calls if call.event == hook.PRE_TOOL and call.tool]
        assert [tool.paths for tool in asked] == [("denied.txt",), ("allowed.txt",), ()]
        answered = [call.tool for call in calls if call.event == hook.POST_TOOL and call.tool]
        assert answered[-1].command == "echo hi; exit 3"
        assert answered[-1].exit_code is None, "Codex does not tell it to hooks"
        assert "hi" in answered[-1].output

    def test_it_leaves_out_what_nobody_trusted_and_runs_what_we_know_as_trusted(self, stage: Stage) -> None:
        path = stage.install(codex.SETUP)
        run_codex(stage.project, stage.home, [say("Done.")], {}, trust="")
        assert stage.payloads() == []
        entries = settings.find_hooks(codex.SETUP, path.read_text())
        trust = "".join(
            f'[hooks.state."{codex_settings.trust_key(str(path), entry)}"]\n'
            f'trusted_hash = "{codex_settings.hook_identity(entry)}"\n'
            for entry in entries
        )
        run_codex(stage.project, stage.home, self.script(), {}, trust=trust)

        assert {event for event, _ in stage.payloads()} == set(codex.SETUP.events) - {hook.SUBAGENT_STOP}
        config = (stage.home / ".codex" / "config.toml").read_text()
        assert codex_settings.find_distrust(config, str(path), entries) == ""


FAILING = "sh -c 'echo hi; exit 3'"
"""The shell of OpenHands does not outlive a bare `exit`."""


@pytest.mark.parametrize("host", CLIS)
class TestOtherHosts:
    @pytest.fixture
    def told(self, host: str, stage: Stage) -> Told:
        module = HOSTS[host]
        stage.install(module.SETUP)
        stage.prepare(hook.PRE_TOOL, module.render(hook.PRE_TOOL, HookAnswer.deny("Protected file.")))
        stage.prepare(hook.STOP, module.render(hook.STOP, HookAnswer.block(REASON)))
        script = [
            shell(host, "echo denied > denied.txt"),
            shell(host, "echo fine"),
            shell(host, FAILING),
            say("Done."),
            say("Now really done."),
        ]
        return CLIS[host].run(stage.project, stage.home, script, {})

    def test_it_hears_what_we_answer_and_we_understand_what_it_says(
        self, host: str, stage: Stage, told: Told
    ) -> None:
        assert "Protected file." in told.request(1)
        assert "73 failures (requires 100% pass)" in told.request(4)
        assert (told.code, told.left) == (0, []), told.err[-1000:]
        assert "Now really done." in told.out
        assert not (stage.project / "denied.txt").exists()
        calls = [HOSTS[host].read(event, data) for event, data in stage.payloads()]

        check_one_session(calls, stage.project)
        stops = [call for call in calls if call.event == hook.STOP]
        assert len(stops) == 2
        assert [call.is_timed for call in stops] == [host != "openhands"] * 2, "OpenHands tells no time"
        ran = [call.tool for call in calls if call.event in hook.TOOL_RESULT_EVENTS and call.tool]
        seen = [
            (tool.command, tool.exit_code, tool.has_failed) for tool in ran if "denied" not in tool.command
        ]
        assert seen == [("echo fine", 0, False), (FAILING, 3, True)]
        assert "hi" in ran[-1].output


def check_one_session(calls: list[HookCall], project: Path) -> None:
    assert len({call.session for call in calls}) == 1
    assert calls[0].session
    assert {call.cwd for call in calls} == {str(project)}
    assert [call.is_broken for call in calls if call.is_broken] == []

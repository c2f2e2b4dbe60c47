"""The story: from an empty board to everything done or cancelled. It fails loudly should a rule not be kept."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

from remand.domain import events as e
from remand.interfaces.demo import project
from remand.interfaces.demo.cast.hockney import HALF_WAY
from remand.interfaces.demo.narrating import Narrator
from remand.interfaces.demo.owner import Owner
from remand.interfaces.demo.stage import Stage
from remand.interfaces.demo.telling import Voice, expect, fail
from remand.interfaces.demo.watching import Watching

PATIENCE = 600.0
"""Seconds after which the story is given up: something hangs."""
TIERS = {
    "bubblewrap": "in bubblewrap (tier 1): their worktree, their tools, and one socket that is their identity",
    "plain": "as they are (tier 0): no sandbox is to be had here, see `remand doctor`",
}
OWN_TABLES = "# Who works here"
"""Where in the configuration that `remand init` writes the project's own begins."""


class Story:
    """Tells the acts in order."""

    def __init__(self, stage: Stage, voice: Voice) -> None:
        self._stage = stage
        self._voice = voice
        self._watching = Watching(stage.repository)
        self._narrator = Narrator(stage.log_of)
        self._owner = Owner(stage, voice)
        self._tier = ""

    def tell(self) -> dict[str, Any]:
        """The whole story; returns what it came to."""
        self._set_the_scene()
        self._lose_the_scheduler()
        self._do_everything()
        self._stage.stop_scheduler()
        self._travel()
        self._learn()
        return self._sum_up()

    def _set_the_scene(self) -> None:
        stage = self._stage
        self._voice.heading(
            "A shop's repository, six agents with a character each, a lead, and you as the owner"
        )
        stage.git("init", "-q", "-b", "main")
        stage.write(project.files())
        stage.git("commit", "-q", "-m", "A shop")
        stage.remand("init")
        own = stage.read("remand.toml").partition(OWN_TABLES)[0]
        stage.write({"remand.toml": own + project.configuration()})
        stage.git("add", "--all")
        stage.git("commit", "-q", "-m", "Set up Remand")
        for actor in project.TEAM:
            self._voice.say(f"  {actor.name:<10} {actor.character}")
        if not project.has_tools():
            self._voice.say(
                "  (without gates: pytest and ruff are not installed here; `make demo` installs them)"
            )

    def _lose_the_scheduler(self) -> None:
        """A review says no, a colleague takes over, and the machine dies under it: nothing is lost."""
        stage, voice = self._stage, self._voice
        voice.heading("The board is empty. The scheduler starts, and one task is written down")
        stage.start_scheduler()
        self._owner.add(project.BUTTON)
        self._watch(self._is_half_way)
        voice.heading("Hockney is in the middle of it when the scheduler is killed. What is known is known")
        stage.kill_scheduler()
        refused = stage.remand("task", "claim", project.BUTTON.alias, "--agent", "Fenster")
        expect(refused, "refused", "locked_out")
        voice.say(f"    {refused['message']}")
        voice.say(f"    {stage.remand('say', 'Why is Fenster locked out?')['done']}")

    def _do_everything(self) -> None:
        """The scheduler starts again where it was; the owner writes the rest down, and answers what it is asked."""
        stage = self._stage
        self._voice.heading(
            "It starts again, finds Hockney's run lost without blame, and gets the rest to do"
        )
        self._owner.add(project.FOOTER)
        stage.start_scheduler()
        has_gates = project.has_tools()
        self._owner.add(*(task for task in project.TASKS if has_gates or not task.needs_gates))
        self._watch(lambda: self._watching.is_over)

    def _travel(self) -> None:
        """A clone knows what the repository knows."""
        stage = self._stage
        self._voice.heading("The log travels with git: a fresh clone knows the same")
        stage.remand("log", "publish")
        clone = os.path.join(stage.folder, "clone")
        stage.git("clone", "-q", stage.repository, clone, folder=stage.folder)
        here = stage.remand("log", "digest")
        there = stage.remand("log", "digest", folder=clone, is_quiet=True)
        expect(there, "digest", here["digest"])
        self._voice.say(f"    both: {here['digest'][:16]}…, {here['events']} events")

    def _learn(self) -> None:
        """What the rejections say about tasks, agents and blockers."""
        self._voice.heading("What is learned: who rejects what, and how often without cause")
        found = self._stage.remand("analyze", "rejections")
        by = ", ".join(f"{name} {count}" for name, count in found["by_agent"].items())
        self._voice.say(
            f"    {found['total_rejections']} rejections ({by}), {found['override_rate']:.0%} of them overridden"
        )

    def _sum_up(self) -> dict[str, Any]:
        """The read-out, with what else is known."""
        stage = self._stage
        verified = stage.remand("log", "verify", is_quiet=True)
        expect(verified, "ok", True)
        readout: dict[str, Any] = stage.remand("analyze", "runs", is_quiet=True)
        return readout | {"tier": self._tier, "events": verified["events"]}

    def _watch(self, is_enough: Callable[[], bool]) -> None:
        """Tells what happens, and has the owner answer, until it is enough."""
        until = time.monotonic() + PATIENCE
        while not is_enough():
            if self._stage.complaint or time.monotonic() > until:
                fail(self._stage.complaint or f"nothing ends: {self._open()}")
            self._watching.wait()
            for seen in self._watching.news():
                self._introduce(seen.event)
                for line in self._narrator.lines(seen):
                    self._voice.tell(line)
                self._owner.answer(seen)

    def _is_half_way(self) -> bool:
        """True when the colleague who took over is in the middle of its work."""
        runs = (run for task in self._watching.tasks.values() for run in task.runs)
        return any(HALF_WAY in self._stage.log_of(run.id) for run in runs)

    def _introduce(self, event: e.Event) -> None:
        if isinstance(event, e.RunStarted) and not self._tier:
            self._tier = event.tier
            self._voice.say(f"  Agents run {TIERS.get(event.tier, event.tier)}.")

    def _open(self) -> str:
        tasks = self._watching.tasks.values()
        return ", ".join(f"{task.title} is {task.status}" for task in tasks if not task.is_terminal)

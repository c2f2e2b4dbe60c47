"""How a story is told: on a stage, with headings and lines, and held to its rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from remand.interfaces.demo.stage import Stage


class Broken(Exception):  # noqa: N818 - a rule is broken, and the story ends there
    """Something went another way than the rules say."""


class Telling:
    """A story in the making: its stage, its voice, and the tasks it has named."""

    def __init__(self, stage: Stage, heading: Callable[[str], None], say: Callable[[str], None]) -> None:
        self.stage = stage
        self.heading = heading
        self.say = say
        self.tasks: dict[str, str] = {}

    def fail(self, why: str) -> NoReturn:
        """Ends the story: a rule is broken."""
        raise Broken(why)

    def expect(self, answer: dict[str, Any], key: str, value: object) -> None:
        """Holds the story to its rules."""
        if answer.get(key) != value:
            self.fail(f"expected {key}={value}, got {answer}")

    def add(self, name: str, title: str, *options: str) -> None:
        """Writes a task down under a short name."""
        self.tasks[name] = self.stage.remand("task", "add", title, *options)["task_id"]

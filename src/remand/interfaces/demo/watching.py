"""Looking on: the event files of the repository, read as they grow, and every task folded from them."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain import events as e
from remand.domain.evolve import evolve
from remand.domain.task import Task
from remand.ledger import codec
from remand.ledger.order import place

GLANCE_SECONDS = 0.1


class Seen(NamedTuple):
    """Something that has happened, and its task after it."""

    event: e.Event
    task: Task


class Watching:
    """Reads what is new in the event files. They are the truth, and anybody may read them."""

    def __init__(self, repository: str) -> None:
        self._folder = os.path.join(repository, ".got", "events")
        self._read: dict[str, int] = {}
        self.tasks: dict[str, Task] = {}

    def news(self) -> Iterator[Seen]:
        """What has happened since it was last asked."""
        events = sorted((codec.recall(line) for line in self._lines()), key=place)
        for event in events:
            name = e.subject(event)
            task = evolve(self.tasks.get(name), event)
            if task is not None:
                self.tasks[name] = task
                yield Seen(event, task)

    def wait(self) -> None:
        """Lets a moment pass before the next look."""
        time.sleep(GLANCE_SECONDS)

    @property
    def is_over(self) -> bool:
        """True when there were tasks, all have ended, and nobody is at work."""
        return bool(self.tasks) and all(task.is_terminal and not task.runs for task in self.tasks.values())

    def _lines(self) -> list[bytes]:
        found: list[bytes] = []
        for name in sorted(os.listdir(self._folder)) if os.path.isdir(self._folder) else ():
            with open(os.path.join(self._folder, name), "rb") as file:
                file.seek(self._read.get(name, 0))
                whole = file.read().rpartition(b"\n")[0]
            if whole:
                self._read[name] = self._read.get(name, 0) + len(whole) + 1
                found += whole.split(b"\n")
        return found

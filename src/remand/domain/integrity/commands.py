"""How the commands of a file changed."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import cached_property

from remand.domain.integrity.reading.commands import Command, commands_of, runs_commands
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene
from remand.domain.integrity.views import View

_DATA = re.compile(r"(^|/)(fixtures|testdata)/")
_SCRIPT = re.compile(r"([\w:-]+): ")
Tools = frozenset[tuple[str, str]]


class CommandChange:
    """The commands of one file, base and head."""

    def __init__(self, view: View, after: Source | None) -> None:
        self.view = view
        self.after = after
        self.path = view.path

    @cached_property
    def added(self) -> list[Command]:
        """Those the base has not."""
        return _difference(self.after, self.view.before)

    @cached_property
    def removed(self) -> dict[str, Command]:
        """Those the head has not, by each of their names."""
        gone = _difference(self.view.before, self.after)
        return {name: command for command in reversed(gone) for name in names_of(command)}

    @cached_property
    def counts(self) -> Counter[str]:
        """How many commands of the head there are by each name."""
        return Counter(name for command in _commands(self.after) for name in names_of(command))

    @cached_property
    def old_tools(self) -> Tools:
        """The checks the base ran."""
        return _tools(self.view.before)

    @cached_property
    def new_tools(self) -> Tools:
        """The checks the head runs."""
        return _tools(self.after)


def command_changes(scene: Scene) -> Iterator[CommandChange]:
    """Every changed file that has commands."""
    for view in scene.views:
        sides = (view.before, view.after)
        if not _DATA.search(view.path) and any(side is not None and runs_commands(side) for side in sides):
            yield CommandChange(view, view.after)


def names_of(command: Command) -> set[str]:
    """The checks a command runs; of a package script its own name, too."""
    names = {name for _, name in command.tools}
    script = _SCRIPT.match(command.text)
    return names | ({script[1]} if script else set())


def _commands(source: Source | None) -> tuple[Command, ...]:
    return commands_of(source) if source else ()


def _difference(one: Source | None, other: Source | None) -> list[Command]:
    """The commands of one side that the other has not."""
    left = Counter(command.text for command in _commands(other))
    found = []
    for command in _commands(one):
        if left[command.text] > 0:
            left[command.text] -= 1
        else:
            found.append(command)
    return found


def _tools(source: Source | None) -> Tools:
    return frozenset(tool for command in _commands(source) for tool in command.tools)

"""Who waits for whom: a topological order kept as dependencies come, so that circles are found at once.

Every open task has a position, and stands behind all open tasks it waits for; one that has ended blocks nobody. A new dependency that agrees with
the positions needs no search; one that does not is searched for only between the two positions, from both
ends, and then the tasks found there change places (Pearce and Kelly's algorithm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from remand.domain.task import Task

Neighbours = Iterable[tuple[str, int]]


class Waiting(Protocol):
    """The graph of waiting tasks, with their positions."""

    def position(self, task: str) -> int | None:
        """Where the task stands; None when there is no such task, or it has ended."""

    def blockers(self, task: str) -> Neighbours:
        """What the task waits for and has not ended, with positions."""

    def waiters(self, task: str) -> Neighbours:
        """What waits for the task and has not ended, with positions."""

    def move(self, task: str, position: int) -> None:
        """Puts the task at another position."""


def path(graph: Waiting, source: str, target: str) -> tuple[str, ...]:
    """How `source` comes to wait for `target`, both included; empty when it does not."""
    if source == target:
        return (source,)
    top, bottom = graph.position(source), graph.position(target)
    if top is None or bottom is None or top < bottom:
        return ()
    down, up = _Search(source, graph.blockers), _Search(target, graph.waiters)
    while down.edge and up.edge:
        narrow, wide = (down, up) if len(down.edge) <= len(up.edge) else (up, down)
        met = narrow.widen(wide, bottom, top)
        if met:
            return (*reversed(down.trail(met)), *up.trail(met)[1:])
    return ()


class _Search:
    """All that was reached from one end, and how."""

    def __init__(self, start: str, neighbours: Callable[[str], Neighbours]) -> None:
        self.came_from = {start: ""}
        self.edge = [start]
        self._neighbours = neighbours

    def widen(self, other: _Search, bottom: int, top: int) -> str:
        """Goes one step further; returns where both searches met, if they did."""
        found: list[str] = []
        for task in self.edge:
            for neighbour, position in self._neighbours(task):
                if neighbour in self.came_from or not bottom <= position <= top:
                    continue
                self.came_from[neighbour] = task
                if neighbour in other.came_from:
                    return neighbour
                found.append(neighbour)
        self.edge = found
        return ""

    def trail(self, task: str) -> list[str]:
        """The way from a task back to the start."""
        trail = []
        while task:
            trail.append(task)
            task = self.came_from[task]
        return trail


def make_room(graph: Waiting, task: str, blocker: str) -> None:
    """Restores the order for a new dependency that closes no circle."""
    bottom, top = graph.position(task), graph.position(blocker)
    if bottom is None or top is None or top < bottom:
        return
    behind = _reach(task, bottom, graph.waiters, bottom, top)
    ahead = _reach(blocker, top, graph.blockers, bottom, top)
    places = sorted([*behind.values(), *ahead.values()])
    in_order = [*sorted(ahead, key=ahead.__getitem__), *sorted(behind, key=behind.__getitem__)]
    for name, position in zip(in_order, places, strict=True):
        graph.move(name, position)


def _reach(
    start: str, position: int, neighbours: Callable[[str], Neighbours], bottom: int, top: int
) -> dict[str, int]:
    """All that can be reached between the two positions."""
    reached = {start: position}
    edge = [start]
    while edge:
        for neighbour, place in neighbours(edge.pop()):
            if neighbour not in reached and bottom <= place <= top:
                reached[neighbour] = place
                edge.append(neighbour)
    return reached


def open_blockers(tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    """What every task waits for, as far as both have not ended; by id."""
    return {
        name: tuple(
            blocker
            for blocker in (() if tasks[name].is_terminal else tasks[name].blockers)
            if blocker in tasks and not tasks[blocker].is_terminal
        )
        for name in sorted(tasks)
    }


def topological(blockers: dict[str, tuple[str, ...]]) -> tuple[list[str], set[tuple[str, str]]]:
    """An order in which every task comes after what it waits for, and the dependencies that close circles.

    Tasks keep the order they are given in as far as that is possible.
    """
    order: list[str] = []
    state: dict[str, bool] = {}
    void: set[tuple[str, str]] = set()
    for root in blockers:
        if root not in state:
            _visit(root, blockers, state, order, void)
    return order, void


def _visit(
    root: str,
    blockers: dict[str, tuple[str, ...]],
    is_placed: dict[str, bool],
    order: list[str],
    void: set[tuple[str, str]],
) -> None:
    stack = [(root, iter(blockers[root]))]
    is_placed[root] = False
    while stack:
        task, rest = stack[-1]
        blocker = next(rest, None)
        if blocker is None:
            stack.pop()
            is_placed[task] = True
            order.append(task)
        elif blocker not in is_placed and blocker in blockers:
            is_placed[blocker] = False
            stack.append((blocker, iter(blockers[blocker])))
        elif is_placed.get(blocker) is False:
            void.add((task, blocker))

"""Who waits for whom: a topological order kept as dependencies come, so that circles are found at once.

Every task has a position, and a task stands behind all it waits for. A new dependency that agrees with
the positions needs no search; one that does not is searched for only between the two positions, from both
ends, and then the tasks found there change places (Pearce and Kelly's algorithm).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Protocol

Neighbours = Iterable[tuple[str, int]]


class Waiting(Protocol):
    """The graph of waiting tasks, with their positions."""

    def position(self, task: str) -> int | None:
        """Where the task stands; None when there is no such task."""

    def blockers(self, task: str) -> Neighbours:
        """What the task waits for, with positions."""

    def waiters(self, task: str) -> Neighbours:
        """What waits for the task, with positions."""

    def move(self, task: str, position: int) -> None:
        """Puts the task at another position."""


def path(graph: Waiting, source: str, target: str) -> tuple[str, ...]:
    """How `source` comes to wait for `target`, both included; empty when it does not."""
    if source == target:
        return (source,)
    top, bottom = graph.position(source), graph.position(target)
    if top is None or bottom is None or top < bottom:
        return ()
    down: dict[str, str] = {source: ""}
    up: dict[str, str] = {target: ""}
    lower, upper = [source], [target]
    while lower and upper:
        if len(lower) <= len(upper):
            lower, met = _widen(lower, down, up, graph.blockers, bottom, top)
        else:
            upper, met = _widen(upper, up, down, graph.waiters, bottom, top)
        if met:
            return (*reversed(_trail(met, down)), *_trail(met, up)[1:])
    return ()


def _widen(
    edge: list[str],
    seen: dict[str, str],
    other: dict[str, str],
    neighbours: Callable[[str], Neighbours],
    bottom: int,
    top: int,
) -> tuple[list[str], str]:
    """Goes one step further from one end; returns the new edge and where both ends met."""
    found: list[str] = []
    for task in edge:
        for neighbour, position in neighbours(task):
            if neighbour in seen or not bottom <= position <= top:
                continue
            seen[neighbour] = task
            if neighbour in other:
                return [], neighbour
            found.append(neighbour)
    return found, ""


def _trail(task: str, came_from: dict[str, str]) -> list[str]:
    trail = []
    while task:
        trail.append(task)
        task = came_from[task]
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

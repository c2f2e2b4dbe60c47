"""The queue: rank, pool and due time of a task, the order of dependencies, and the free capacity of agents."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Protocol

import msgspec

from remand.domain.access.team import Actor, Role, Team
from remand.domain.instant import Instant
from remand.domain.task import CLAIMABLE, PRIORITIES, QUEUES, Status, Task
from remand.ledger.store import Transaction

_LANES = {status: str(lane) for lane, status in enumerate(QUEUES)}
_LEVELS = {priority: str(level) for level, priority in enumerate(PRIORITIES)}
_RANK_PREFIX = 2 + len("2026-11-15T09:00:00.000000Z")
_encode = msgspec.json.Encoder().encode
_decode_pool = msgspec.json.Decoder(tuple[tuple[str, ...], tuple[str, ...], str | None]).decode
DUE_NOW: Instant = ""


def queue_rank(task: Task, open_blockers: Collection[str]) -> str | None:
    """The task's place in the queue: lane, priority, age, id. None when it cannot be claimed."""
    if task.status not in CLAIMABLE or open_blockers:
        return None
    return f"{_LANES[task.status]}{_LEVELS[task.details.priority]}{task.details.created_at}{task.id}"


def task_of_rank(text: str) -> str:
    return text[_RANK_PREFIX:]


def agent_pool(task: Task) -> str:
    """The agents the task suits, as a key: skills asked for, agents barred from it, agent reserved for."""
    barred = sorted({*(lockout.agent for lockout in task.people.lockouts), *task.people.reviewers})
    reserved = task.claims.offers[-1].target if task.claims.offers else None
    return _encode((task.details.skills, barred, reserved)).decode()


@lru_cache(maxsize=4096)
def is_suitable(key: str, agent: Actor, has_team: bool) -> bool:
    """True when the agent is one of those a pool is for. One that cannot be read, as its row was changed, is for nobody."""
    try:
        skills, barred, reserved = _decode_pool(key)
    except (msgspec.MsgspecError, TypeError):
        return False
    if Role.AGENT not in agent.roles or agent.name in barred or reserved not in (None, agent.name):
        return False
    return not has_team or all(skill in agent.skills for skill in skills)


def due_time(task: Task, open_blockers: Collection[str]) -> Instant | None:
    """When something happens to the task by itself; None when nothing does."""
    if task.status == Status.DEFERRED:
        return (
            DUE_NOW if task.links.waits_for and not set(task.links.waits_for) & set(open_blockers) else None
        )
    if task.status == Status.DECOMPOSED:
        return DUE_NOW if not set(task.links.children) & set(open_blockers) else None
    if task.open_escalation is not None:
        return None if task.open_escalation.acknowledged_by else task.open_escalation.deadline
    times = [offer.lapses_at for offer in task.claims.offers]
    if task.claim is not None:
        times.append(task.claim.lease_expires_at)
    return min(times, default=None)


Neighbours = Iterable[tuple[str, int]]


class DependencyGraph(Protocol):
    """The graph of waiting tasks, with their positions."""

    def position(self, task: str) -> int | None:
        """Where the task stands; None when there is no such task, or it has ended."""

    def blockers(self, task: str) -> Neighbours:
        """What the task waits for and has not ended, with positions."""

    def waiters(self, task: str) -> Neighbours:
        """What waits for the task and has not ended, with positions."""

    def move(self, task: str, position: int) -> None:
        """Puts the task at another position."""


def dependency_path(graph: DependencyGraph, source: str, target: str) -> tuple[str, ...]:
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


def restore_order(graph: DependencyGraph, task: str, blocker: str) -> None:
    """Restores the order for a new dependency that closes no circle."""
    bottom, top = graph.position(task), graph.position(blocker)
    if bottom is None or top is None or top < bottom:
        return
    behind = _reachable(task, bottom, graph.waiters, bottom, top)
    ahead = _reachable(blocker, top, graph.blockers, bottom, top)
    places = sorted([*behind.values(), *ahead.values()])
    in_order = [*sorted(ahead, key=ahead.__getitem__), *sorted(behind, key=behind.__getitem__)]
    for name, position in zip(in_order, places, strict=True):
        graph.move(name, position)


def _reachable(
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


def topological_order(blockers: dict[str, tuple[str, ...]]) -> tuple[list[str], set[tuple[str, str]]]:
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


def free_capacity(view: Transaction, team: Team, now: Instant) -> tuple[tuple[str, int], ...]:
    """How many tasks more each agent could take on, in the team's order; less than none when it has too many.

    What it holds, what is reserved for it after a rejection, and what it reviews or directs now is in its hands.
    """
    tasks = {task.id: task for task in view.task_lists.running_tasks()}
    for status in (Status.CLAIMED, Status.REJECTED):
        tasks |= {task.id: task for task in view.task_lists.with_status(status)}
    held = Counter(team.actor(name).name for task in tasks.values() for name in set(_busy_agents(task, now)))
    return tuple(
        (member.name, member.capacity - held[member.name])
        for member in team.members
        if Role.AGENT in member.roles
    )


def _busy_agents(task: Task, now: Instant) -> Iterator[str]:
    if task.claim is not None:
        yield task.claim.agent
    yield from (run.agent for run in task.runs)
    offer = task.reserved_for(now)
    if offer is not None:
        yield offer.target

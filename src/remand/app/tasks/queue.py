"""The queue (rank, pool and due time of tasks, order of dependencies) and the staff (who can be started, who is free)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from heapq import heappop, heappush
from itertools import pairwise
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from remand.domain.access.team import REVIEWERS, Actor, Member, Role, Team, paths_outside_scope, review_scope
from remand.domain.events.work import Purpose
from remand.domain.instant import Instant
from remand.domain.task import CLAIMABLE, PRIORITIES, QUEUES, Status, Task
from remand.ledger.store import Transaction

_LANES = {status: str(lane) for lane, status in enumerate(QUEUES)}
_LEVELS = {priority: str(level) for level, priority in enumerate(PRIORITIES)}
_RANK_PREFIX = 2 + len("2026-11-15T09:00:00.000000Z")
_encode = msgspec.json.Encoder().encode
_decode_line = msgspec.json.Decoder(tuple[str | None, tuple[str, ...]]).decode
_decode_barred = msgspec.json.Decoder(frozenset[str]).decode
DUE_NOW: Instant = ""
SPACING = 1 << 32
"""The distance between the positions of new tasks, so that others can be moved between them."""
_MAX_BATCH = 32
_CLAIMED = Status.CLAIMED


def queue_rank(task: Task, open_blockers: Collection[str]) -> str | None:
    """The task's sort key in the queue: lane, priority, age, id. None if it cannot be claimed."""
    if task.status not in CLAIMABLE or open_blockers:
        return None
    return f"{_LANES[task.status]}{_LEVELS[task.details.priority]}{task.details.created_at}{task.id}"


def task_of_rank(text: str) -> str:
    return text[_RANK_PREFIX:]


class AgentPool(NamedTuple):
    """The agents that may take a task, as texts that a store can sort and compare."""

    line: str
    """The agent that the task is reserved for and the skills it requires. Tasks with equal values share one line of the queue."""
    barred: str = ""
    """The agents barred from the task and its reviewers; empty if there are none."""


def agent_pool(task: Task) -> AgentPool:
    reserved = task.claims.offers[-1].target if task.claims.offers else None
    line = _line(reserved, task.details.skills)
    if not bars_agents(task):
        return AgentPool(line)
    barred = sorted({*(lockout.agent for lockout in task.people.lockouts), *task.people.reviewers})
    return AgentPool(line, _encode(barred).decode())


@lru_cache(maxsize=64)
def _line(reserved: str | None, skills: tuple[str, ...]) -> str:
    return _encode((reserved, skills)).decode()


def bars_agents(task: Task) -> bool:
    """True if a task bars any agents."""
    return bool(task.people.lockouts or task.people.reviewers)


OPEN_LINE = _line(None, ())
"""The line of tasks that are reserved for nobody and require no skill."""


def line_prefixes(agent: str) -> tuple[str, str]:
    """The prefixes of the lines an agent may take tasks from: unreserved ones, and those reserved for it."""
    return "[null,", f"[{_encode(agent).decode()},"


@lru_cache(maxsize=4096)
def barred_agents(text: str) -> frozenset[str]:
    """The agents barred by a task's pool; empty if the text is invalid because its row was tampered with."""
    with suppress(msgspec.MsgspecError):
        return _decode_barred(text) if text else frozenset()
    return frozenset()


@lru_cache(maxsize=4096)
def is_suitable(pool: AgentPool, agent: Actor, has_team: bool) -> bool:
    """True if the agent belongs to a pool. An invalid pool, whose row was tampered with, has no agents."""
    try:
        reserved, skills = _decode_line(pool.line)
        barred = _decode_barred(pool.barred) if pool.barred else ()
    except (msgspec.MsgspecError, TypeError):
        return False
    if Role.AGENT not in agent.roles or agent.name in barred or reserved not in (None, agent.name):
        return False
    return not has_team or all(skill in agent.skills for skill in skills)


OpeningRow = tuple[str, str, str]
"""An agent, a line, and the rank of a task that the agent may take, next to one that bars it; only tasks that bar anyone count.

An agent barred by the first of them finds its first task at its own first opening, however many lie between.
"""


def openings(standing: Iterable[tuple[str, str, str]]) -> Iterator[OpeningRow]:
    """All openings, from the lines, ranks and barred agents of the tasks that bar anyone, in order."""
    for (line, _, before), (next_line, rank, barred) in pairwise(standing):
        if line == next_line:
            yield from openings_at(line, rank, barred_agents(before), barred_agents(barred))


def openings_at(line: str, rank: str, before: frozenset[str], barred: frozenset[str]) -> Iterator[OpeningRow]:
    """The openings at a task that bars some agents, after one that bars others."""
    return ((agent, line, rank) for agent in sorted(before - barred))


def due_time(task: Task, open_blockers: Collection[str]) -> Instant | None:
    """When something happens to the task by itself; None if nothing does."""
    if task.claim is None and task.status in CLAIMABLE and not task.claims.offers:
        return None
    if task.status is _CLAIMED and task.claim is not None and not task.claims.offers:
        return task.claim.lease_expires_at
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


Node = TypeVar("Node", bound=str | int)
"""A task's identifier in a graph."""


class DependencyGraph(Protocol[Node]):
    """The graph of open tasks. Every task's position is higher than those of its blockers."""

    def positions(self, tasks: Collection[Node]) -> Mapping[Node, int]:
        """The positions of tasks; missing and ended ones are omitted."""

    def blockers(self, tasks: Collection[Node]) -> Iterable[tuple[Node, Node]]:
        """The tasks, each with its blockers."""

    def waiters(self, tasks: Collection[Node]) -> Iterable[tuple[Node, Node]]:
        """The tasks, each with those it blocks."""

    def move(self, positions: Mapping[Node, int]) -> None:
        """Changes the positions of tasks."""


def dependency_path(graph: DependencyGraph[Node], source: Node, target: Node) -> tuple[Node, ...]:
    """The path by which `source` depends on `target`, both included; empty if it does not."""
    if source == target:
        return (source,)
    places = graph.positions((source, target))
    if len(places) < 2 or places[source] <= places[target]:
        return ()
    return _Search(graph, places, source, target).path()


def place_dependency(graph: DependencyGraph[Node], waiter: Node, blocker: Node) -> bool:
    """Reorders the tasks for a new dependency; False, without changes, if it would close a cycle."""
    if waiter == blocker:
        return False
    places = graph.positions((waiter, blocker))
    if len(places) < 2 or places[blocker] < places[waiter]:
        return True
    search = _Search(graph, places, blocker, waiter)
    if search.path():
        return False
    graph.move(search.new_positions())
    return True


class _Side(Generic[Node]):
    """Everything reached from one end and how; the tasks nearest to that end are visited first."""

    def __init__(
        self, graph: DependencyGraph[Node], start: Node, position: int, *, is_downwards: bool
    ) -> None:
        self._positions = graph.positions
        self._neighbours = graph.blockers if is_downwards else graph.waiters
        self._sign = -1 if is_downwards else 1
        self._came_from: dict[Node, Node | None] = {start: None}
        self.places = {start: position}
        self._heap = [(self._sign * position, start)]
        self._batch = 1
        self.work = 0

    @property
    def edge(self) -> float:
        """The position up to which everything was visited."""
        return self._sign * (self._heap[0][0] if self._heap else math.inf)

    def widen(self, other: _Side[Node]) -> Node | None:
        """Visits more tasks; returns where both sides met, if they did."""
        tasks = self._next_tasks(other.edge)
        found = [(name, task) for task, name in self._neighbours(tasks) if name not in self._came_from]
        self._came_from.update(found)
        self.work += len(tasks) + len(found)
        for name, position in self._positions(dict(found)).items():
            self.places[name] = position
            if name in other.places:
                return name
            heappush(self._heap, (self._sign * position, name))
        return None

    def _next_tasks(self, bound: float) -> list[Node]:
        """The next tasks on this side of a position, more each time, so that many need only one query."""
        tasks: list[Node] = []
        while self._heap and len(tasks) < self._batch and self._heap[0][0] <= self._sign * bound:
            tasks.append(heappop(self._heap)[1])
        self._batch = min(2 * self._batch, _MAX_BATCH)
        return tasks or [heappop(self._heap)[1]]

    def trail(self, task: Node) -> list[Node]:
        """The path from a task back to the start."""
        trail = [task]
        while (before := self._came_from[trail[-1]]) is not None:
            trail.append(before)
        return trail


class _Search(Generic[Node]):
    """A search from both ends in the order of positions: each side visits what lies between its end and the other side.

    Neither visits everything between the two tasks, and everything that must be moved has been visited (Haeupler and
    others, Incremental Cycle Detection, Topological Ordering, and Strong Component Maintenance).
    """

    def __init__(
        self, graph: DependencyGraph[Node], places: Mapping[Node, int], source: Node, target: Node
    ) -> None:
        self._down = _Side(graph, source, places[source], is_downwards=True)
        self._up = _Side(graph, target, places[target], is_downwards=False)

    def path(self) -> tuple[Node, ...]:
        """The path from source to target; empty if there is none."""
        while self._down.edge > self._up.edge:
            met = self._widen()
            if met is not None:
                return (*reversed(self._down.trail(met)), *self._up.trail(met)[1:])
        return ()

    def _widen(self) -> Node | None:
        down, up = self._down, self._up
        is_downs_turn = down.work < up.work if math.isfinite(down.edge - up.edge) else up.edge == math.inf
        return down.widen(up) if is_downs_turn else up.widen(down)

    def new_positions(self) -> dict[Node, int]:
        """New positions if there is no path: the source's blockers before everything that the target blocks.

        They go into the widest gap between the visited positions, and nothing else moves.
        """
        while True:
            low, high = self._widest_gap()
            before = sorted((place, name) for name, place in self._down.places.items() if place >= high)
            behind = sorted((place, name) for name, place in self._up.places.items() if place <= low)
            step = (high - low) // (len(before) + len(behind) + 1)
            if step:
                return {name: low + step * n for n, (_, name) in enumerate([*before, *behind], 1)}
            self._widen()

    def _widest_gap(self) -> tuple[int, int]:
        down, up = self._down, self._up
        known = {*down.places.values(), *up.places.values()}
        ends = (
            min(known) - SPACING if down.edge == -math.inf else int(down.edge),
            max(known) + SPACING if up.edge == math.inf else int(up.edge),
        )
        between = sorted({*ends, *(one for one in known if ends[0] <= one <= ends[1])})
        return max(pairwise(between), key=lambda gap: gap[1] - gap[0], default=(ends[0], ends[0]))


def open_blockers(tasks: Mapping[str, Task]) -> dict[str, tuple[str, ...]]:
    """The open blockers of every open task, by id."""
    return {
        name: ()
        if tasks[name].is_terminal
        else tuple(
            blocker for blocker in tasks[name].blockers if blocker in tasks and not tasks[blocker].is_terminal
        )
        for name in sorted(tasks)
    }


def topological_order(blockers: dict[str, tuple[str, ...]]) -> tuple[list[str], set[tuple[str, str]]]:
    """A topological order of the tasks, and the dependencies that close cycles.

    The tasks keep their given order as far as possible.
    """
    order: list[str] = []
    state: dict[str, bool] = {}
    void: set[tuple[str, str]] = set()
    for root, own in blockers.items():
        if root in state:
            continue
        if own:
            _visit(root, blockers, state, order, void)
        else:  # the usual case for an old ledger
            state[root] = True
            order.append(root)
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
    """How many more tasks each agent could take, in the team's order; negative if it has too many.

    Tasks that it holds, that are reserved for it after a rejection, and that it reviews or directs count.
    """
    tasks = {task.id: task for task in view.task_lists.running_tasks()}
    for status in (Status.CLAIMED, Status.REJECTED):
        tasks |= {task.id: task for task in view.task_lists.with_status(status)}
    busy = Counter(team.actor(name).name for task in tasks.values() for name in set(_busy_agents(task, now)))
    return tuple(
        (member.name, member.capacity - busy[member.name])
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


TEAMS = 4
"""For how many teams the startable members are cached: the scheduler asks at every tick, and teams rarely change."""
LEAST_WAITING = 10
PER_REVIEWER = 2


class Load(NamedTuple):
    """The number of runs of each member, by name."""

    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.runs.values())

    def free_capacity(self, member: Member) -> int:
        """How many more runs the member may be given."""
        return member.capacity - self.runs.get(member.name, 0)


@lru_cache(maxsize=TEAMS)
def startable_workers(team: Team) -> tuple[Member, ...]:
    """The members that can be started as workers."""
    return tuple(member for member in team.members if member.command and Role.AGENT in member.roles)


@lru_cache(maxsize=TEAMS)
def max_waiting_reviews(team: Team, limit: int) -> int:
    """How many submissions may wait for review, or be on their way there, before no new work starts."""
    reviewers = sum(any(role in REVIEWERS for role in member.roles) for member in team.members)
    in_hand = sum(member.capacity for member in startable_workers(team))
    return limit or max(LEAST_WAITING, PER_REVIEWER * reviewers) + in_hand


def rotate_after(members: Sequence[Member], after: str) -> list[Member]:
    """The members in turn, starting after the last one served."""
    names = [member.name for member in members]
    start = names.index(after) + 1 if after in names else 0
    return [*members[start:], *members[:start]]


_REVIEWS = (Role.LEAD, Role.TESTER)

ChangedPaths = Callable[[], Collection[str] | None]
"""The paths that the submission changes; None if unknown. Called only if needed."""


def has_free_reviewer(team: Team, load: Load) -> bool:
    """True if a member whose review of some submission would count can be started now."""
    return any(
        member.command and load.free_capacity(member) > 0 and any(role in _REVIEWS for role in member.roles)
        for member in team.members
    )


def choose_reviewer(
    task: Task,
    team: Team,
    changed: ChangedPaths,
    load: Load,
    *,
    kept_away: Collection[str] = (),
    after: str = "",
) -> Member | None:
    """The reviewer to start now; None if a person is needed, or all candidates are busy.

    A reviewer requested by name is the only candidate. Otherwise it is the least busy one, in turn after the last one
    asked. `kept_away` are the agents locked out of an ancestor of the task.
    """
    if task.status != Status.PROVISIONAL or task.submission is None:
        return None
    if any(run.purpose == Purpose.REVIEW for run in task.runs):
        return None
    members = able_reviewers(task, team, changed, kept_away)
    if task.reviews.requested:
        members = [member for member in members if _is_one_of(member, task.reviews.requested)]
    return _least_busy(team, members, load, after)


def able_reviewers(
    task: Task, team: Team, changed: ChangedPaths, kept_away: Collection[str] = ()
) -> list[Member]:
    """The startable members whose review of the whole submission would count."""
    barred = {
        *task.people.authors,
        *task.people.holders,
        *kept_away,
        *(lockout.agent for lockout in task.people.lockouts),
    }
    return [
        member
        for member in team.members
        if member.command
        and any(role in _REVIEWS for role in member.roles)
        and not _is_one_of(member, barred)
        and _is_in_scope(team, member, changed)
    ]


def choose_director(task: Task, team: Team, load: Load, *, after: str = "") -> Member | None:
    """The director to start now; None if no decision is pending, or a person must decide."""
    filed = task.rejections.last_rejection
    is_waiting = task.status == Status.BLOCKED and filed is not None and not filed.decision
    if not is_waiting or any(run.purpose == Purpose.DIRECT for run in task.runs):
        return None
    return _least_busy(team, able_directors(task, team), load, after)


def able_directors(task: Task, team: Team) -> list[Member]:
    """The startable members who may decide on the last rejection of a task."""
    barred = {lockout.agent for lockout in task.people.lockouts} | (
        {task.rejections.last_rejection.agent} if task.rejections.last_rejection else set()
    )
    return [
        member
        for member in team.members
        if member.command and Role.DIRECTOR in member.roles and not _is_one_of(member, barred)
    ]


def _is_one_of(member: Member, names: Iterable[str]) -> bool:
    """True if one of the names is one of the member's names."""
    return not {member.name, *member.aliases, *member.accounts}.isdisjoint(names)


def _is_in_scope(team: Team, member: Member, changed: ChangedPaths) -> bool:
    actor = team.actor(member.name)
    if not review_scope(actor):
        return True
    paths = changed()
    return paths is not None and not paths_outside_scope(actor, paths)


def _least_busy(team: Team, members: Collection[Member], load: Load, after: str) -> Member | None:
    """The least busy of some members; among equals, the next in the team's order."""
    free = [
        member
        for member in rotate_after(team.members, after)
        if member in members and load.free_capacity(member) > 0
    ]
    return min(free, key=lambda member: load.runs.get(member.name, 0), default=None)

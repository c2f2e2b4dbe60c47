"""The queue: rank, pool and due time of a task, the order of dependencies; and the staff: who can be started, and how busy."""

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
"""How far apart the positions of new tasks are, so that others can be moved between them."""
_MAX_BATCH = 32


def queue_rank(task: Task, open_blockers: Collection[str]) -> str | None:
    """The task's place in the queue: lane, priority, age, id. None when it cannot be claimed."""
    if task.status not in CLAIMABLE or open_blockers:
        return None
    return f"{_LANES[task.status]}{_LEVELS[task.details.priority]}{task.details.created_at}{task.id}"


def task_of_rank(text: str) -> str:
    return text[_RANK_PREFIX:]


class AgentPool(NamedTuple):
    """The agents that a task suits, as texts that a store can sort and compare."""

    line: str
    """Whom the task is reserved for, and the skills it asks for. Tasks alike in both stand in one line."""
    barred: str = ""
    """The agents locked out of the task and its reviewers; empty when there are none."""


def agent_pool(task: Task) -> AgentPool:
    reserved = task.claims.offers[-1].target if task.claims.offers else None
    barred = sorted({*(lockout.agent for lockout in task.people.lockouts), *task.people.reviewers})
    line = _encode((reserved, task.details.skills)).decode()
    return AgentPool(line, _encode(barred).decode() if barred else "")


def bars_agents(task: Task) -> bool:
    """True when there are agents that a task is not for, wherever it stands."""
    return bool(task.people.lockouts or task.people.reviewers)


def line_prefixes(agent: str) -> tuple[str, str]:
    """How the lines begin that an agent may take tasks from: those reserved for nobody, and those for itself."""
    return "[null,", f"[{_encode(agent).decode()},"


@lru_cache(maxsize=4096)
def barred_agents(text: str) -> frozenset[str]:
    """The agents that a task's pool bars; none when that cannot be read, as its row was changed."""
    with suppress(msgspec.MsgspecError):
        return _decode_barred(text) if text else frozenset()
    return frozenset()


@lru_cache(maxsize=4096)
def is_suitable(pool: AgentPool, agent: Actor, has_team: bool) -> bool:
    """True when the agent is one of those a pool is for. One that cannot be read, as its row was changed, is for nobody."""
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

An agent that the first of them bars finds what it may take at its own first opening, however many lie between.
"""


def openings(standing: Iterable[tuple[str, str, str]]) -> Iterator[OpeningRow]:
    """Every opening, given line, rank and barred agents of the tasks that bar anyone, in order."""
    for (line, _, before), (next_line, rank, barred) in pairwise(standing):
        if line == next_line:
            yield from openings_at(line, rank, barred_agents(before), barred_agents(barred))


def openings_at(line: str, rank: str, before: frozenset[str], barred: frozenset[str]) -> Iterator[OpeningRow]:
    """The openings at a task that bars some agents, behind one that bars others."""
    return ((agent, line, rank) for agent in sorted(before - barred))


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


Node = TypeVar("Node", bound=str | int)
"""A task, as a graph names it."""


class DependencyGraph(Protocol[Node]):
    """The graph of tasks that have not ended. Every task has a position, higher than those of all it waits for."""

    def positions(self, tasks: Collection[Node]) -> Mapping[Node, int]:
        """Where the tasks stand; those that are not there, or have ended, are left out."""

    def blockers(self, tasks: Collection[Node]) -> Iterable[tuple[Node, Node]]:
        """The tasks, each beside everything it waits for."""

    def waiters(self, tasks: Collection[Node]) -> Iterable[tuple[Node, Node]]:
        """The tasks, each beside everything that waits for it."""

    def move(self, positions: Mapping[Node, int]) -> None:
        """Puts tasks at other positions."""


def dependency_path(graph: DependencyGraph[Node], source: Node, target: Node) -> tuple[Node, ...]:
    """How `source` comes to wait for `target`, both included; empty when it does not."""
    if source == target:
        return (source,)
    places = graph.positions((source, target))
    if len(places) < 2 or places[source] <= places[target]:
        return ()
    return _Search(graph, places, source, target).path()


def place_dependency(graph: DependencyGraph[Node], waiter: Node, blocker: Node) -> bool:
    """Puts a new dependency in order; False when it closes a circle, and then nothing is moved."""
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
    """All that was reached from one end, and how. What stands nearest to that end is looked at first."""

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
        """The position up to which everything has been looked at."""
        return self._sign * (self._heap[0][0] if self._heap else math.inf)

    def widen(self, other: _Side[Node]) -> Node | None:
        """Looks at some more tasks; returns where both sides met, if they did."""
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
        """The next tasks on this side of a position, more each time: many at once take one question."""
        tasks: list[Node] = []
        while self._heap and len(tasks) < self._batch and self._heap[0][0] <= self._sign * bound:
            tasks.append(heappop(self._heap)[1])
        self._batch = min(2 * self._batch, _MAX_BATCH)
        return tasks or [heappop(self._heap)[1]]

    def trail(self, task: Node) -> list[Node]:
        """The way from a task back to the start."""
        trail = [task]
        while (before := self._came_from[trail[-1]]) is not None:
            trail.append(before)
        return trail


class _Search(Generic[Node]):
    """A search from both ends in the order of positions: each side sees what lies between its end and the other side.

    So neither goes through everything between the two tasks, and what has to be moved was seen
    (Haeupler and others, Incremental Cycle Detection, Topological Ordering, and Strong Component Maintenance).
    """

    def __init__(
        self, graph: DependencyGraph[Node], places: Mapping[Node, int], source: Node, target: Node
    ) -> None:
        self._down = _Side(graph, source, places[source], is_downwards=True)
        self._up = _Side(graph, target, places[target], is_downwards=False)

    def path(self) -> tuple[Node, ...]:
        """How the source comes to wait for the target; empty when it does not."""
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
        """Where the tasks go, once there is no path: all that the source waits for before all that waits for the target.

        They meet in the widest gap between the positions seen, and nothing else moves.
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
    """What every task waits for, as far as both have not ended; by id."""
    return {
        name: ()
        if tasks[name].is_terminal
        else tuple(
            blocker for blocker in tasks[name].blockers if blocker in tasks and not tasks[blocker].is_terminal
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
    for root, own in blockers.items():
        if root in state:
            continue
        if own:
            _visit(root, blockers, state, order, void)
        else:  # as nearly all tasks of an old ledger
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


TEAMS = 4
"""For how many teams the startable members are cached: the scheduler asks at every tick, and a team changes seldom."""
LEAST_WAITING = 10
PER_REVIEWER = 2


class Load(NamedTuple):
    """How many runs each member has, by its name."""

    runs: Mapping[str, int]

    @property
    def total(self) -> int:
        return sum(self.runs.values())

    def free_capacity(self, member: Member) -> int:
        """How many more runs the member may be given."""
        return member.capacity - self.runs.get(member.name, 0)


@lru_cache(maxsize=TEAMS)
def startable_workers(team: Team) -> tuple[Member, ...]:
    """The members that can be started to work."""
    return tuple(member for member in team.members if member.command and Role.AGENT in member.roles)


@lru_cache(maxsize=TEAMS)
def max_waiting_reviews(team: Team, limit: int) -> int:
    """How many submissions may wait for review or be on their way there before nothing new is begun."""
    reviewers = sum(any(role in REVIEWERS for role in member.roles) for member in team.members)
    in_hand = sum(member.capacity for member in startable_workers(team))
    return limit or max(LEAST_WAITING, PER_REVIEWER * reviewers) + in_hand


def rotate_after(members: Sequence[Member], after: str) -> list[Member]:
    """The members in turn, beginning with the one after the last that was given something."""
    names = [member.name for member in members]
    start = names.index(after) + 1 if after in names else 0
    return [*members[start:], *members[:start]]


_REVIEWS = (Role.LEAD, Role.TESTER)

ChangedPaths = Callable[[], Collection[str] | None]
"""The paths that the submission changes; None when that is not known. Asked only of whom it matters for."""


def has_free_reviewer(team: Team, load: Load) -> bool:
    """True when somebody can be started now whose word on some submission would count."""
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
    """Who is to be asked for a review now; None when a person has to look, or all who may are busy.

    Whom somebody has asked for by name is the only one asked. Else it is the one with least to do, in turn after the
    one who was asked last. `kept_away` are those who are locked out of a task that this one was split from.
    """
    if task.status != Status.PROVISIONAL or task.submission is None:
        return None
    if any(run.purpose == Purpose.REVIEW for run in task.runs):
        return None
    found = able_reviewers(task, team, changed, kept_away)
    if task.reviews.requested:
        found = [member for member in found if _is_one_of(member, task.reviews.requested)]
    return _least_busy(team, found, load, after)


def able_reviewers(
    task: Task, team: Team, changed: ChangedPaths, kept_away: Collection[str] = ()
) -> list[Member]:
    """The members that can be started, and whose word on the whole submission would count."""
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
    """Who is to be asked for a decision now; None when nothing waits for one, or a person has to answer."""
    filed = task.rejections.last_rejection
    is_waiting = task.status == Status.BLOCKED and filed is not None and not filed.decision
    if not is_waiting or any(run.purpose == Purpose.DIRECT for run in task.runs):
        return None
    return _least_busy(team, able_directors(task, team), load, after)


def able_directors(task: Task, team: Team) -> list[Member]:
    """The members that can be started, and may decide on the last rejection of a task."""
    barred = {lockout.agent for lockout in task.people.lockouts} | (
        {task.rejections.last_rejection.agent} if task.rejections.last_rejection else set()
    )
    return [
        member
        for member in team.members
        if member.command and Role.DIRECTOR in member.roles and not _is_one_of(member, barred)
    ]


def _is_one_of(member: Member, names: Iterable[str]) -> bool:
    """True when one of the names is the member's, whichever of its own it is."""
    return not {member.name, *member.aliases, *member.accounts}.isdisjoint(names)


def _is_in_scope(team: Team, member: Member, changed: ChangedPaths) -> bool:
    actor = team.actor(member.name)
    if not review_scope(actor):
        return True
    paths = changed()
    return paths is not None and not paths_outside_scope(actor, paths)


def _least_busy(team: Team, members: Collection[Member], load: Load, after: str) -> Member | None:
    """Of some members the one with least to do; among equals the next in the team's order."""
    free = [
        member
        for member in rotate_after(team.members, after)
        if member in members and load.free_capacity(member) > 0
    ]
    return min(free, key=lambda member: load.runs.get(member.name, 0), default=None)

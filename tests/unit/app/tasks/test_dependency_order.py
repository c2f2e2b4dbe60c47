"""Holds that circles are found, and that the order of tasks is kept as dependencies come."""

from collections.abc import Collection, Iterable, Mapping

from hypothesis import given
from hypothesis import strategies as st

from remand.app.tasks.queue import dependency_path, place_dependency, topological_order

NAMES = "abcdefghij"
pairs = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), max_size=40)


class Graph:
    """Who waits for whom, as plain dicts."""

    def __init__(self, names: Iterable[str] = NAMES) -> None:
        self.places = {name: position for position, name in enumerate(names)}
        self.asked = 0
        self.edges: dict[str, list[str]] = {name: [] for name in names}
        self.moves = 0

    def positions(self, tasks: Collection[str]) -> Mapping[str, int]:
        self.asked += len(tasks)
        return {name: self.places[name] for name in tasks if name in self.places}

    def blockers(self, tasks: Collection[str]) -> Iterable[tuple[str, str]]:
        return [(task, name) for task in tasks for name in self.edges[task]]

    def waiters(self, tasks: Collection[str]) -> Iterable[tuple[str, str]]:
        return [(task, name) for task in tasks for name in self.edges if task in self.edges[name]]

    def move(self, positions: Mapping[str, int]) -> None:
        self.places.update(positions)
        self.moves += len(positions)

    def link(self, waiter: str, blocker: str) -> bool:
        """Adds a dependency unless it closes a circle."""
        if not place_dependency(self, waiter, blocker):
            return False
        if blocker not in self.edges[waiter]:
            self.edges[waiter].append(blocker)
        return True

    def reaches(self, source: str, target: str) -> bool:
        return source == target or any(self.reaches(name, target) for name in self.edges[source])


def test_a_way_is_told_from_end_to_end() -> None:
    graph = Graph()
    for waiter, blocker in ("ab", "bc", "cd", "ae"):
        assert graph.link(waiter, blocker)

    assert dependency_path(graph, "a", "d") == ("a", "b", "c", "d")
    assert dependency_path(graph, "d", "a") == ()
    assert dependency_path(graph, "a", "a") == ("a",)


def test_a_dependency_itself_is_told_before_a_longer_way() -> None:
    graph = Graph()
    for waiter, blocker in ("ab", "bc", "cd", "ad"):
        graph.link(waiter, blocker)

    assert dependency_path(graph, "a", "d") == ("a", "d")


def test_nobody_waits_for_a_task_that_is_not_there() -> None:
    graph = Graph()

    assert dependency_path(graph, "a", "nothing") == ()
    assert dependency_path(graph, "nothing", "a") == ()


@given(pairs)
def test_a_dependency_is_refused_exactly_when_it_closes_a_circle(wishes: list[tuple[str, str]]) -> None:
    graph = Graph()
    for waiter, blocker in wishes:
        is_circle = graph.reaches(blocker, waiter)

        assert graph.link(waiter, blocker) != is_circle


@given(pairs)
def test_every_task_stands_behind_all_it_waits_for(wishes: list[tuple[str, str]]) -> None:
    graph = Graph()
    for waiter, blocker in wishes:
        graph.link(waiter, blocker)

        for name, blockers in graph.edges.items():
            assert all(graph.places[other] < graph.places[name] for other in blockers)


def test_a_dependency_that_agrees_with_the_order_moves_nothing() -> None:
    graph = Graph()
    for waiter, blocker in ("ba", "cb", "ja"):
        graph.link(waiter, blocker)

    assert graph.moves == 0


def test_only_tasks_between_the_two_are_moved() -> None:
    graph = Graph()
    graph.link("d", "f")

    assert {name for name in NAMES if graph.places[name] != NAMES.index(name)} <= set("def")


def test_a_circle_is_looked_for_between_the_two_tasks_alone() -> None:
    """Two chains side by side: neither is followed beyond where the other stands."""
    graph = Graph([f"{side}{n:03}" for n in range(500) for side in "ab"])
    for n in range(1, 500):
        graph.link(f"a{n:03}", f"a{n - 1:03}")
        graph.link(f"b{n:03}", f"b{n - 1:03}")
    graph.asked = 0

    assert dependency_path(graph, "a300", "b299") == ()
    assert graph.asked < 10
    assert dependency_path(graph, "a499", "b000") == ()
    assert graph.asked < 600, "half of each chain, not the whole of one"


@given(pairs)
def test_all_tasks_are_ordered_once_and_what_closes_a_circle_is_named(wishes: list[tuple[str, str]]) -> None:
    blockers: dict[str, tuple[str, ...]] = dict.fromkeys(NAMES, ())
    for waiter, blocker in wishes:
        blockers[waiter] = (*blockers[waiter], blocker)

    order, void = topological_order(blockers)

    assert sorted(order) == list(NAMES)
    assert void <= {(waiter, blocker) for waiter in blockers for blocker in blockers[waiter]}
    place = {name: position for position, name in enumerate(order)}
    for waiter, names in blockers.items():
        for blocker in names:
            assert (waiter, blocker) in void or place[blocker] < place[waiter]
    graph = Graph()
    refused = [pair for pair in wishes if not graph.link(*pair)]
    assert bool(void) == bool(refused)


def test_tasks_keep_the_order_they_are_given_in_where_they_can() -> None:
    assert topological_order({"c": (), "a": (), "b": ()})[0] == ["c", "a", "b"]
    assert topological_order({"c": ("b",), "a": (), "b": ()})[0] == ["b", "c", "a"]


def test_a_blocker_nobody_knows_is_left_out() -> None:
    assert topological_order({"a": ("nothing",)}) == (["a"], set())


def test_a_chain_of_any_length_is_followed() -> None:
    names = [f"{n:05}" for n in range(20_000)]
    blockers = {name: (names[n + 1],) if n + 1 < len(names) else () for n, name in enumerate(names)}

    order, void = topological_order(blockers)

    assert order == names[::-1]
    assert not void

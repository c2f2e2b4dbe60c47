"""What holds for dependencies and the queue in every store, whatever the tasks and their order."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import pairwise, product

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from remand.app.tasks.queue import agent_pool, is_suitable
from remand.domain.task import Status, Task
from remand.ledger.store import Store
from remand.testing.builders import NOW, a_lockout, a_task, actor, an_offer, task_id
from remand.testing.queue_contract import Opener

few = settings(
    max_examples=30,
    # Each example opens a store of its own, and each backend runs the suite as its own class.
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
)


class DependencyProperties:
    """Paths, readiness and the queue; a backend gives the fixtures `new_store` and `store`, as for the contract suite."""

    def test_an_agent_is_given_the_first_task_that_suits_it_whatever_sets_of_agents_are_barred(
        self, store: Store
    ) -> None:
        """Tasks come, change whom they bar, whom they are for and whether they can be claimed, and are made anew."""
        rng = random.Random(7)
        names = ("Alice", "Bob", "Carol", "Dave")
        agents = [actor(name, skills=("paint",) if name == "Carol" else ()) for name in names]
        tasks: dict[str, Task] = {}
        for step in range(400):
            task = a_task(
                task_id(rng.randrange(60)),
                status=rng.choice((Status.INCOMING, Status.INCOMING, Status.REJECTED, Status.BLOCKED)),
                depends_on=(task_id(rng.randrange(60)),) if rng.random() < 0.1 else (),
                lockouts=tuple(a_lockout(name) for name in rng.sample(names, rng.choice((0, 1, 2, 3, 4)))),
                offers=(an_offer(rng.choice(names)),) if rng.random() < 0.1 else (),
                skills=("paint",) if rng.random() < 0.2 else (),
            )
            tasks[task.id] = task
            with store.write() as tx:
                tx.tasks.put(task)
                if step % 100 == 99:
                    tx.tasks.replace_all(tasks.values(), [])
                assert list(tx.audit.task_differences(tasks, {})) == []
                in_order = [tasks[name] for name in tx.queue.ready()]
                for agent, has_team in product(agents, (False, True)):
                    suitable = (one.id for one in in_order if is_suitable(agent_pool(one), agent, has_team))
                    assert tx.queue.next(agent, has_team=has_team) == next(suitable, "")

    @few
    @given(data=st.data())
    def test_a_way_is_found_exactly_when_there_is_one(self, new_store: Opener, data: st.DataObject) -> None:
        names = [task_id(n) for n in range(data.draw(st.integers(2, 9), label="tasks"))]
        pairs = data.draw(st.lists(st.tuples(*[st.sampled_from(names)] * 2), max_size=30), label="wishes")
        graph: dict[str, tuple[str, ...]] = {}
        with new_store().write() as tx:
            for waiter, blocker in pairs:
                tx.tasks.put(a_task(waiter, depends_on=graph.setdefault(waiter, ())))
                found = tx.dependencies.path(blocker, waiter)
                if waiter != blocker and not _reaches(graph, blocker, waiter):
                    assert found == ()
                    graph[waiter] = tuple(dict.fromkeys((*graph[waiter], blocker)))
                    tx.tasks.put(a_task(waiter, depends_on=graph[waiter]))
                else:
                    assert (found[0], found[-1]) == (blocker, waiter)
                    assert all(after in graph[before] for before, after in pairwise(found))

    @few
    @given(data=st.data())
    def test_the_tables_are_right_after_every_change(self, new_store: Opener, data: st.DataObject) -> None:
        names = [task_id(n) for n in range(5)]
        versions = st.builds(
            a_task,
            st.sampled_from(names),
            depends_on=st.lists(st.sampled_from(names), max_size=2, unique=True).map(tuple),
            lockouts=st.lists(st.sampled_from(("Alice", "Bob")), max_size=1).map(
                lambda barred: tuple(map(a_lockout, barred))
            ),
            status=st.sampled_from([Status.INCOMING, Status.INCOMING, Status.DONE]),
        )
        tasks: dict[str, Task] = {}
        with new_store().write() as tx:
            for task in data.draw(st.lists(versions, max_size=16), label="history"):
                tasks[task.id] = task
                tx.tasks.put(task)
                assert list(tx.audit.task_differences(tasks, {})) == []

    @few
    @given(data=st.data())
    def test_what_is_ready_does_not_depend_on_how_the_tasks_came(
        self, new_store: Opener, data: st.DataObject
    ) -> None:
        names = [task_id(n) for n in range(data.draw(st.integers(1, 6), label="tasks"))]
        blockers = st.lists(st.sampled_from(names), max_size=3, unique=True).map(tuple)
        versions = st.builds(
            a_task,
            st.sampled_from(names),
            depends_on=blockers,
            waits_for=blockers,
            status=st.sampled_from([Status.INCOMING, Status.INCOMING, Status.DEFERRED, Status.DONE]),
        )
        history = data.draw(st.lists(versions, max_size=12), label="history")
        final = {task.id: task for task in history}
        orders = [history, list(final.values()), data.draw(st.permutations(list(final.values())))]

        seen = [_queues(new_store(), order) for order in orders]

        assert seen[0] == seen[1] == seen[2] == _rebuilt_queues(new_store(), orders[2])


def _reaches(graph: dict[str, tuple[str, ...]], source: str, target: str) -> bool:
    """Looks everywhere, without any order."""
    edge, seen = [source], {source}
    while edge:
        for name in graph.get(edge.pop(), ()):
            if name == target:
                return True
            if name not in seen:
                seen.add(name)
                edge.append(name)
    return False


def _queues(store: Store, tasks: Sequence[Task]) -> tuple[list[str], set[str]]:
    with store.write() as tx:
        for task in tasks:
            tx.tasks.put(task)
        return tx.queue.ready(), set(tx.queue.due(NOW))


def _rebuilt_queues(store: Store, tasks: Sequence[Task]) -> tuple[list[str], set[str]]:
    with store.write() as tx:
        tx.tasks.replace_all(tasks, ())
        return tx.queue.ready(), set(tx.queue.due(NOW))

"""Holds that diverged ledgers come to the same state however their files are merged, and lose nothing."""

import random
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.events.task_folds import rebuild_tables, task_events
from remand.app.history.rejections import task_rejections
from remand.app.log.verification import state_digest
from remand.app.ports import Keys
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.events.reviews import Finding
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.reasons import DecisionType, RejectionReason
from remand.domain.task import Status, Task
from remand.ledger import codec
from remand.ledger.problems import BadLine
from remand.ledger.signatures import is_group
from remand.ledger.store import Store
from remand.testing.builders import MACHINE, NOW, Session, task_added, task_id
from remand.testing.fakes import FakeClock, FakeKeys
from tests.support.builders import FakeLedger
from tests.support.fakes import CountingIds
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection, with_dependency

COMMITS = ["first", "second"]
AGENTS = ["Alice", "Bob", "Carol"]
FINDINGS = (Finding(text="It leaks"),)
DECISIONS = tuple(DecisionType.__members__)
END = "9999-12-31T23:59:59.999999Z"
SESSION = "20261116-000000-ffffffff"
SEEDS = range(6)

Campaign = Callable[[int, int], int]
encoded = msgspec.json.Encoder().encode


def some_ask(rng: random.Random, world: FakeLedger) -> tuple[c.Command, str]:
    """Something that is likely to be accepted on one branch, and to clash with what happens on another."""
    tasks = list(world.tasks().values())
    task, other, agent = rng.choice(tasks).id, rng.choice(tasks).id, rng.choice(AGENTS)
    held = rng.choice([task for task in tasks if task.claim] or tasks)
    handed_in = rng.choice([task for task in tasks if task.status == Status.PROVISIONAL] or tasks)
    holder = held.claim.agent if held.claim else agent
    commit = handed_in.submission.commit if handed_in.submission else "first"
    return rng.choice(
        [
            *[rejecting(rng, held, other)] * 3,
            *[answering(rng, tasks, other)] * 2,
            (c.AddTask(title="New", depends_on=(other,)), agent),
            (c.AddTask(title="New", aliases=(f"#{rng.randrange(5)}",)), agent),
            (c.EditTask(task_id=task, title=f"Title {rng.random()}"), "user"),
            (c.EditTask(task_id=task, aliases=(f"#{rng.randrange(5)}",)), "user"),
            (c.EditTask(task_id=task, depends_on=(other,)), "user"),
            (c.EditTask(task_id=task, drop_depends_on=(other,)), "user"),
            *[(c.ClaimTask(agent=agent), agent)] * 3,
            (c.ClaimTask(agent=agent, task_id=task), agent),
            (c.ReleaseTask(task_id=held.id, agent=holder), holder),
            (c.ContinueTask(task_id=held.id, agent=holder), holder),
            (c.FailTask(task_id=held.id, agent=holder), holder),
            (c.Heartbeat(task_id=held.id, agent=holder), holder),
            *[(c.SubmitTask(task_id=held.id, agent=holder, commit=rng.choice(COMMITS)), holder)] * 3,
            (c.ApproveReview(task_id=handed_in.id, commit=commit), "user"),
            *[(c.RejectReview(task_id=handed_in.id, commit=commit, findings=FINDINGS), "user")] * 2,
            (c.LockOut(task_id=task, agent=agent, reason="Because"), "user"),
            (c.Unlock(task_id=task, agent=agent, reason="Because"), "user"),
            (c.DeferTask(task_id=task, waits_for=(other,)), "user"),
            (c.ReopenTask(task_id=task), "user"),
            (c.InitiateHandoff(task_id=task, target=agent), "user"),
            (c.CancelTask(task_id=rng.choice(tasks).id), rng.choice([*AGENTS, "user"])),
        ]
    )


def rejecting(rng: random.Random, task: Task, other: str) -> tuple[c.Command, str]:
    """A rejection by whoever holds a task, earned or not."""
    agent, handoff = (task.claim.agent, task.claim.handoff_id) if task.claim else ("Alice", "H-none")
    record = rng.choice([LAZY, *(with_dependency(a_rejection(reason), other) for reason in RejectionReason)])
    return c.RejectHandoff(handoff_id=handoff, agent=agent, rejection=record), agent


def answering(rng: random.Random, tasks: list[Task], other: str) -> tuple[c.Command, str]:
    """A director's answer to some rejection, one that waits for it when there is one."""
    filed = [task.rejections.last_rejection for task in tasks if task.rejections.last_rejection]
    waiting = [one for one in filed if not one.decision] or filed
    handoff = rng.choice(waiting).handoff_id if waiting else "H-none"
    created = rng.choice([(), (), (other,), (other, tasks[0].id)])
    decision = rng.choice(DECISIONS)
    return c.AnswerRejection(handoff_id=handoff, decision=decision, created_tasks=created), "user"


def one_machine(n: int) -> Keys:
    """All ledgers are on one machine, and so have one key."""
    return MACHINE


def machine_each(n: int) -> Keys:
    """Every ledger is on a machine of its own."""
    return FakeKeys(f"machine {n}")


def diverged(
    rng: random.Random, copies: int, asks: int, keys_of: Callable[[int], Keys] = one_machine
) -> list[FakeLedger]:
    """Ledgers that began alike, and in each of which other things happened to the same tasks."""
    base = Session("20261115-070000-00000000", FakeClock(add_seconds(NOW, -3600)))
    for n in range(8):
        base.write(task_added(task_id(n)))
    worlds = []
    for n in range(copies):
        rules = Rules(
            gates=(),
            policy=Policy(director=(rng.choice(["auto", "human"]),)),
            trusted=(MACHINE.ensure_key(),),
        )
        clock = FakeClock(add_seconds(NOW, rng.randrange(3600)))
        world = FakeLedger(session=f"20261115-090000-{n:08x}", clock=clock, rules=rules, keys=keys_of(n))
        for commit in COMMITS:
            world.repository.add(commit)
        world.exchange.put("/events/base.jsonl", base.lines)
        world.ledger.refresh()
        for _ in range(asks):
            ask, actor = some_ask(rng, world)
            world.ledger.ask(Request(command=ask, actor=actor))
            world.clock.advance(rng.choice([0, 1, 60, 300]))
        worlds.append(world)
    return worlds


def state(world: FakeLedger) -> tuple[object, ...]:
    with world.store.read() as view:
        return (
            [encoded(task) for task in view.tasks.every()],
            view.queue.ready(),
            sorted(view.queue.due(END)),
            [view.names.find_task_id(f"#{n}") for n in range(5)],
            state_digest(view),
        )


def fresh(store: Store | None = None) -> FakeLedger:
    return FakeLedger(session=SESSION, clock=FakeClock(add_seconds(NOW, 86400)), store=store)


def merged(rng: random.Random, lines: list[bytes], store: Store | None = None) -> FakeLedger:
    """A ledger that was given the lines in some order, in some files, some of them more than once."""
    world = fresh(store)
    pieces = rng.sample(lines, len(lines)) + rng.choices(lines, k=len(lines) // 3)
    while pieces:
        size = rng.randint(1, max(1, len(lines) // 2))
        end = rng.choice([b"", b"\r"])
        name = f"/events/{rng.randrange(10**9)}.jsonl"
        world.exchange.put(name, [line + end for line in pieces[:size]])
        world.ledger.refresh()
        pieces = pieces[size:]
    return world


@pytest.mark.parametrize("seed", SEEDS)
def test_any_merge_of_diverged_ledgers_is_the_same_state(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, campaign(3, 16), campaign(60, 1000))
    lines = [line for world in worlds for line in world.exchange.all_lines()]

    outcomes = [state(merged(rng, lines)) for _ in range(campaign(3, 10))]

    assert all(outcome == outcomes[0] for outcome in outcomes)


@pytest.mark.parametrize("seed", SEEDS)
def test_whoever_merges_ends_where_the_others_do(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, campaign(3, 8), campaign(60, 500))
    logs = [world.exchange.all_lines() for world in worlds]

    for world in worlds:
        for n in rng.sample(range(len(logs)), len(logs)):
            world.exchange.put(f"/events/from-{n}.jsonl", logs[n])
            world.clock.time = add_seconds(NOW, 86400)
            world.ledger.refresh()

    expected = state(merged(rng, [line for log in logs for line in log]))
    assert [state(world) for world in worlds] == [expected] * len(worlds)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_store_comes_to_the_same_state(seed: int, campaign: Campaign, tmp_path: Path) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, campaign(3, 16), campaign(60, 1000))
    lines = [line for world in worlds for line in world.exchange.all_lines()]
    embedded = SqliteStore(tmp_path / "ledger.db")
    embedded.adopt(embedded.file_identity(), SESSION, lambda segment: None)

    world = merged(rng, lines, embedded)

    outcome = state(world)
    assert outcome == state(merged(rng, lines))
    with embedded.write() as tx:
        rebuild_tables(tx)
    assert state(world) == outcome
    embedded.close()


@pytest.mark.parametrize("seed", SEEDS)
def test_no_event_is_lost_in_a_merge(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, campaign(3, 16), campaign(60, 1000))
    written = {event.meta.id for world in worlds for event in world.events()}
    lines = [line for world in worlds for line in world.exchange.all_lines()]

    world = merged(rng, lines)

    assert {event.meta.id for event in world.events()} == written
    assert len(world.events()) == len(written)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_merge_is_the_same_when_made_in_steps(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    one, two, three = (world.exchange.all_lines() for world in diverged(rng, 3, campaign(60, 1000)))
    left, right = merged(rng, one + two), merged(rng, two + three)
    half = [event for world in (left, right) for event in world.exchange.all_lines()]

    assert state(merged(rng, half)) == state(merged(rng, one + two + three))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_lockout_survives_every_merge(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, 3, campaign(60, 1000))
    task, locker = task_id(0), worlds[0]
    locker.clock.time = add_seconds(NOW, 80000)
    locker.ledger.ask(
        Request(command=c.LockOut(task_id=task, agent="Alice", reason="It leaks"), actor="user")
    )
    lines = [line for world in worlds for line in world.exchange.all_lines()]

    merge = merged(rng, lines).task(task)

    was_locked = locker.task(task).is_locked_out("Alice")
    assert merge.is_locked_out("Alice") or not was_locked
    assert merge.claim is None or merge.claim.agent != "Alice" or not was_locked


@pytest.mark.parametrize("seed", SEEDS)
def test_a_line_damaged_on_its_way_costs_that_line_alone(seed: int, campaign: Campaign) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, 2, campaign(40, 400))
    lines = sorted({line for world in worlds for line in world.exchange.all_lines()})
    damaged = rng.sample([n for n, line in enumerate(lines) if not is_group(line)], 5)
    for n in damaged:
        place = rng.randrange(len(lines[n]))
        lines[n] = lines[n][:place] + bytes([lines[n][place] ^ 1 << rng.randrange(8)]) + lines[n][place + 1 :]
    intact = [line for n, line in enumerate(lines) if n not in damaged and not is_group(line)]

    world = fresh()
    world.exchange.put("/events/all.jsonl", lines)
    world.ledger.refresh()

    assert {event.meta.id for event in world.events()} == {codec.decode_line(line).meta.id for line in intact}
    for n in damaged:
        with pytest.raises(BadLine):
            codec.decode_line(lines[n].split(b"\n")[0])


@pytest.mark.parametrize("seed", SEEDS)
def test_ledgers_that_trust_the_same_keys_come_to_the_same_state_whenever_they_came_to_trust_them(
    seed: int, campaign: Campaign, tmp_path: Path
) -> None:
    rng = random.Random(seed)
    worlds = diverged(rng, 3, campaign(60, 500), machine_each)
    lines = [line for world in worlds for line in world.exchange.all_lines()]
    embedded = SqliteStore(tmp_path / "ledger.db")
    embedded.adopt(embedded.file_identity(), SESSION, lambda segment: None)
    before = [merged(rng, lines), merged(rng, lines, embedded)]
    trusts = [(0,), (0, 1, 2), (1, 2), (), (2,)]

    for trusted in trusts:
        rules = Rules(
            gates=(), trusted=(MACHINE.ensure_key(), *(machine_each(n).ensure_key() for n in trusted))
        )
        after = fresh()
        after.rules = rules
        after.exchange.put("/events/all.jsonl", lines)
        after.ledger.refresh()
        for world in before:
            world.rules = rules
            world.ledger.refresh()
        assert [state(world) for world in before] == [state(after)] * 2
        with after.store.read() as view:
            signers = {found.signer for found in view.unconfirmed.every()}
        assert signers <= {machine_each(n).ensure_key().id for n in range(3) if n not in trusted}
    embedded.close()


def directed(n: int, decision: str, created: tuple[str, ...] = ()) -> FakeLedger:
    """One of several ledgers, in each of which the same rejection by Alice was answered, each in its own way."""
    rules = Rules(gates=(), policy=Policy(director=("human",)))
    base = FakeLedger(
        session="20261115-070000-00000000", rules=rules, clock=FakeClock(add_seconds(NOW, -7200))
    )
    task, handoff = base.add_and_claim(title=TITLE, scope=SCOPE)
    base.add("First part")
    base.add("Second part")
    base.reject(handoff, a_rejection("SCOPE_CREEP"))
    world = FakeLedger(
        session=f"20261115-090000-{n:08x}", rules=rules, clock=FakeClock(add_seconds(NOW, 60 * n))
    )
    world.ids = CountingIds(n << 16)
    world.reopen()
    world.exchange.put("/events/base.jsonl", base.exchange.all_lines())
    world.ledger.refresh()
    parts = tuple(name for name in world.tasks() if name != task)[: len(created)]
    decision, _, to = decision.partition(" to ")
    ask = c.AnswerRejection(handoff_id=handoff, decision=decision, created_tasks=parts, reassign_to=to)
    world.ask(ask)
    return world


ANSWERS = [
    ("OVERRIDE", ()),
    ("OVERRIDE to Bob", ()),
    ("ACCEPT", ()),
    ("ACCEPT_AND_DEFER", ("a",)),
    ("ACCEPT_AND_DECOMPOSE", ()),
    ("ACCEPT_AND_DECOMPOSE", ("a", "b")),
    ("ACCEPT_AND_REFORMULATE", ("a",)),
]


@pytest.mark.parametrize("second", ANSWERS, ids=lambda one: f"{one[0]}-{len(one[1])}")
@pytest.mark.parametrize("first", ANSWERS, ids=lambda one: f"{one[0]}-{len(one[1])}")
def test_of_two_answers_to_one_rejection_the_first_wins_in_any_order_of_merging(
    first: tuple[str, tuple[str, ...]], second: tuple[str, tuple[str, ...]]
) -> None:
    rng = random.Random(7)
    earlier, later = directed(1, *first), directed(2, *second)
    lines = [*earlier.exchange.all_lines(), *later.exchange.all_lines()]
    outcomes = [merged(rng, lines) for _ in range(4)]
    assert all(state(one) == state(outcomes[0]) for one in outcomes)

    task = next(task for task in outcomes[0].tasks().values() if task.rejections.last_rejection)
    alone = earlier.task(task.id)
    assert task.rejections.last_rejection is not None
    if first[0].startswith("OVERRIDE"):
        assert task.rejections.last_rejection.decision == second[0].partition(" ")[0], (
            "an override does not end the matter"
        )
        return
    assert task.rejections.last_rejection.decision == first[0]
    assert (task.status, task.claim, task.claims.offers, task.links.children, task.links.superseded_by) == (
        alone.status,
        alone.claim,
        alone.claims.offers,
        alone.links.children,
        alone.links.superseded_by,
    )
    assert "handoff.reject.response" in [conflict.event for conflict in task.inbox.conflicts]
    with outcomes[0].store.read() as view:
        (told,) = task_rejections(task_events(view, task.id))
    assert told.decision is not None
    assert told.decision.decision_type == first[0]

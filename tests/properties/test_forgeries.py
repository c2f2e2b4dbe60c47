"""Holds that no forged line changes any task: the fold with forgeries is the fold without them.

Only lines that are gone may make a difference. Then `log verify` names them.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import lru_cache
from itertools import pairwise
from pathlib import Path

import pytest
from msgspec.structs import replace

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.log.exchange import groups_not_in, import_lines, lines_of_task, read_legacy_file
from remand.app.log.verification import state_digest
from remand.app.ports import Commit
from remand.app.requests import Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.reviews import Finding
from remand.domain.events.tasks import TaskCancelled
from remand.domain.gate.gate import GateFinding
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus
from remand.domain.instant import add_seconds
from remand.domain.policy import Policy
from remand.domain.task import Status
from remand.ledger import codec
from remand.ledger.signatures import is_group
from remand.ledger.store import Store
from remand.testing.builders import MACHINE, NOW
from remand.testing.fakes import FakeClock
from tests.properties.forgeries import Forger, Forgery, spread
from tests.properties.test_merge import COMMITS, END, encoded, some_ask
from tests.support.builders import THE_USER, FakeLedger, a_result, a_verdict, member
from tests.support.fakes import CountingIds
from tests.support.log_checks import verify_in_parts
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

pytestmark = pytest.mark.timeout(7200)
PROJECT = "0123456789abcdef"
SESSION = "20261116-000000-ffffffff"
PEOPLE = (
    *(member(name) for name in ("Alice", "Bob", "Carol")),
    member("Lead", Role.LEAD),
    member("Tess", Role.TESTER),
    member("user", Role.USER),
)
Campaign = Callable[[int, int], int]


def a_seed() -> int:
    """A seed that is printed, and that the environment may give to find a failure again."""
    seed = int(os.environ.get("REMAND_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
    print(f"REMAND_SEED={seed}")
    return seed


def rules() -> Rules:
    policy = Policy(director=("human",))
    return Rules(gates=(), project=PROJECT, team=Team(PEOPLE), policy=policy, trusted=(MACHINE.ensure_key(),))


def record(world: FakeLedger, task: str, agent: str, status: GateStatus) -> None:
    """The gates came out like this for an agent's work."""
    found = GateFinding(path="src/a.py", line=3, code="assert_removed", text="one assertion less [f1]")
    more = {"suspicions": ("f1",), "findings": (found,), "finding_count": 1}
    result = a_result(INTEGRITY_GATE if status is GateStatus.HELD else "tests", status, **more)
    ask = c.RecordVerdict(task_id=task, agent=agent, verdict=a_verdict(result))
    world.ledger.ask_as(THE_COORDINATOR, ask)


def work(world: FakeLedger) -> None:
    """Claims, rejections by agents and reviewers, lockouts, held work, questions, deferrals and submissions."""
    world.add_and_claim("Alice", title="Claimed")
    held, _ = world.add_and_claim("Bob", title="Held")
    record(world, held, "Bob", GateStatus.HELD)
    failed, _ = world.add_and_claim("Carol", title="Failed")
    record(world, failed, "Carol", GateStatus.FAILED)
    _, handoff = world.add_and_claim("Alice", title=TITLE, scope=SCOPE)
    world.reject(handoff, a_rejection("BLOCKER"), key="rejected-once")
    _, handoff = world.add_and_claim("Bob", title=TITLE, scope=SCOPE)
    world.reject(handoff, LAZY, "Bob")
    sent_back = world.add("Sent back")
    world.claim(sent_back, "Alice")
    world.submit(sent_back, "Alice", "first")
    world.ask(c.RejectReview(task_id=sent_back, commit="first", findings=(Finding(text="It leaks"),)), "Lead")
    submitted = world.add("Submitted", depends_on=(sent_back,))
    world.ask(c.EditTask(task_id=submitted, drop_depends_on=(sent_back,)))
    world.claim(submitted, "Carol")
    world.submit(submitted, "Carol", "second")
    deferred = world.add("Deferred", aliases=("#1",))
    world.ask(c.DeferTask(task_id=deferred, waits_for=(submitted,)))
    asked, _ = world.add_and_claim("Bob", title="Asked")
    world.ask(c.EscalateTask(task_id=asked, reason="Which roof?"), "Bob", key="asked-once")
    world.add("Waits", depends_on=(deferred,))
    locked = world.add("Locked")
    world.ask(c.LockOut(task_id=locked, agent="Alice", reason="Hasty"), "Lead")
    world.ask(c.InitiateHandoff(task_id=locked, target="Carol"), "Lead")
    old = [tool_line("node.create", id=name, type="TASK", data={"title": name}) for name in ("T-1", "T-2")]
    old.append(tool_line("handoff.initiate", handoff_id="H-1", task_id="task:T-1", target_agent="sub"))
    old += [tool_line(f"handoff.{name}", handoff_id="H-1", agent="sub") for name in ("accept", "complete")]
    world.exchange.put("/events/tool.jsonl", old)
    import_lines(world.ledger, [read_legacy_file(world.exchange, "/events/tool.jsonl")], THE_USER)


def tool_line(name: str, **fields: object) -> bytes:
    """A line as GoT tools write it."""
    stamp = {"ts": "2025-12-20T00:00:00Z", "event": name, "meta": {"session": "s"}}
    return json.dumps(stamp | fields).encode()


def at_work(seed: int, asks: int) -> FakeLedger:
    """A ledger with work under way: what is always there, and what chance adds."""
    rng = random.Random(seed)
    world = FakeLedger(rules=rules(), clock=FakeClock(NOW))
    for commit in COMMITS:
        world.repository.add(commit)
    work(world)
    for _ in range(asks):
        ask, actor = some_ask(rng, world)
        world.ledger.ask(Request(command=ask, actor=actor, key=f"key-{rng.randrange(10**6)}"))
        world.clock.advance(rng.choice([0, 1, 60]))
    return world


@lru_cache(maxsize=1)
def real_lines(seed: int, asks: int) -> tuple[bytes, ...]:
    return tuple(at_work(seed, asks).exchange.all_lines())


def state(world: FakeLedger) -> tuple[object, ...]:
    """All that commands look at: tasks, queue, what is due, names, handoffs, traces, keys and the digest."""
    with world.store.read() as view:
        tasks = list(view.tasks.every())
        claims = [task.claim.handoff_id for task in tasks if task.claim]
        offers = [offer.handoff_id for task in tasks for offer in task.claims.offers]
        return (
            [encoded(task) for task in tasks],
            view.queue.ready(),
            sorted(view.queue.due(END)),
            [view.names.find_task_id(name) for name in (*(f"#{n}" for n in range(5)), *claims, *offers)],
            sorted(map(str, view.traces.every("handoff.reject", "handoff.reject.response", "review.reject"))),
            [sorted(view.events.of_key(key)) for key in ("rejected-once", "asked-once", "something")],
            sorted(view.queue.counts().items()),
            {task.id: sorted(view.events.of_task(task.id)) for task in tasks},
            state_digest(view),
        )


def opened(
    lines: Iterable[bytes], store: Store | None = None, name: str = "/events/real.jsonl"
) -> FakeLedger:
    """Another ledger of the same project that has read these lines."""
    clock = FakeClock(add_seconds(NOW, 86400))
    world = FakeLedger(rules=rules(), session=SESSION, clock=clock, store=store)
    world.ids = CountingIds(1 << 20)
    world.reopen()
    world.exchange.put(name, lines)
    world.ledger.refresh()
    return world


def take_in(world: FakeLedger, forgeries: Iterable[Forgery], rng: random.Random, most: int) -> None:
    for name, lines in spread(rng, list(forgeries), most):
        world.exchange.put(name, lines)
    world.ledger.refresh()


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Store]:
    store = SqliteStore(tmp_path / "ledger.db")
    store.adopt(store.file_identity(), SESSION, lambda segment: None)
    yield store
    store.close()


def test_no_forgery_changes_a_ledger_with_work_under_way(campaign: Campaign, embedded: Store) -> None:
    seed = a_seed()
    rng = random.Random(seed)
    lines = real_lines(seed, campaign(40, 400))
    forger = Forger(rng, lines, MACHINE, PROJECT)
    world = opened(lines, embedded)
    before = state(world)
    ways: Counter[str] = Counter()

    forgeries = forger.forge(campaign(1100, 10_000))
    while batch := [forgery for forgery, _ in zip(forgeries, range(campaign(50, 500)), strict=False)]:
        ways.update(forgery.way for forgery in batch)
        take_in(world, batch, rng, most=10)
        if state(world) != before:
            pytest.fail("One of these has an effect:\n" + "\n".join(map(str, batch)))

    print(ways)
    verify_in_parts(world)


@pytest.mark.parametrize("is_embedded", [False, True], ids=["memory", "sqlite"])
def test_a_ledger_made_anew_among_forgeries_is_the_same_as_without_them(
    campaign: Campaign, embedded: Store, is_embedded: bool
) -> None:
    """In a fresh clone forged files may be read before the real ones."""
    seed = a_seed()
    rng = random.Random(seed)
    lines = real_lines(seed, campaign(40, 400))
    expected = state(opened(lines))
    forgeries = list(Forger(rng, lines, MACHINE, PROJECT).forge(campaign(300, 3000)))
    world = opened([], embedded if is_embedded else None, "/events/none.jsonl")
    pieces = [*spread(rng, forgeries), *split(rng, lines)]

    for name, piece in rng.sample(pieces, len(pieces)):
        world.exchange.put(name, piece)
        if rng.random() < 0.3:
            world.ledger.refresh()
    world.ledger.refresh()

    assert state(world) == expected
    with world.store.read() as view:
        published = {line for line in groups_not_in(view, ()) if not is_group(line)}
        stories = {task.id: set(lines_of_task(view, task.id)) for task in view.tasks.every()}
    events = [(line, event_task_id(codec.decode_line(line))) for line in lines if not is_group(line)]
    assert {line for line, _ in events} <= published, (
        "every real event can be published, whatever stands beside it"
    )
    assert all(line in stories[task] for line, task in events if task in stories)


def split(rng: random.Random, lines: tuple[bytes, ...]) -> list[tuple[str, list[bytes]]]:
    """Real lines in several files, cut anywhere, some of them twice."""
    cuts = sorted({0, len(lines), *(rng.randrange(len(lines)) for _ in range(6))})
    parts = [list(lines[start:end]) for start, end in pairwise(cuts)]
    parts += rng.choices(parts, k=2)
    return [(f"/events/20261115-real-{rng.randrange(1 << 40):010x}.jsonl", part) for part in parts]


def test_what_is_decided_among_forgeries_is_what_is_decided_without_them(campaign: Campaign) -> None:
    seed = a_seed()
    for number in range(campaign(2, 40)):
        rng = random.Random(seed + number)
        lines = real_lines(seed, campaign(40, 400))
        alone, among = opened(lines), opened(lines)
        take_in(among, Forger(rng, lines, MACHINE, PROJECT).forge(300), rng, most=100)
        for world in (alone, among):
            for commit in COMMITS:
                world.repository.add(commit)
        for _ in range(60):
            ask, actor = some_ask(rng, alone)
            request = Request(command=ask, actor=actor, key=rng.choice(["", "something", "rejected-once"]))
            assert outcome(alone, request) == outcome(among, request), request


def outcome(world: FakeLedger, request: Request) -> tuple[object, ...]:
    """What an ask is answered with, but for times."""
    answer = world.ledger.ask(request)
    events = tuple(event.name for event in getattr(answer, "events", ()))
    return (type(answer).__name__, getattr(answer, "code", ""), events, sorted(world.tasks()))


@pytest.mark.parametrize("is_hidden", [False, True], ids=["", "with a forged line in the place of each"])
def test_lines_that_are_gone_change_nothing_or_are_named(campaign: Campaign, is_hidden: bool) -> None:
    """A ledger made anew on the same machine, from files that somebody cut lines out of.

    A task of which nothing is left is not here, which is no fault: a branch need not carry all tasks.
    """
    seed = a_seed()
    lines = list(real_lines(seed, campaign(40, 400)))
    whole = opened(lines)
    expected = whole.tasks()
    for number in range(campaign(60, 2000)):
        rng = random.Random(seed + number)
        gone = set(cut_out(rng, lines))
        left = [line for line in lines if line not in gone]
        hiding = [in_its_place(line) for line in gone if not is_group(line)] if is_hidden else []
        world = opened([*hiding, *left])
        world.marks = whole.marks
        world.reopen()
        if any(expected[name] != task for name, task in world.tasks().items()):
            assert verify_in_parts(world).problems, (
                f"seed {seed + number}: nobody says that {sorted(gone)} are gone"
            )
            require_bars(world, gone)


def cut_out(rng: random.Random, lines: list[bytes]) -> list[bytes]:
    """Lines that somebody takes out: some here and there, a stretch, or all behind some point."""
    start = rng.randrange(len(lines))
    events = [line for line in lines if not is_group(line)]
    return rng.choice(
        [
            rng.sample(events, rng.randint(1, 3)),
            rng.sample(lines, rng.randint(1, 3)),
            lines[start : start + rng.randint(1, 9)],
            lines[start:],
        ]
    )


def in_its_place(line: bytes) -> bytes:
    """A forged event with the session, number and predecessor of a true one."""
    event = codec.decode_line(line)
    forged = TaskCancelled(ts=event.ts, task_id=event_task_id(event))
    return codec.encode_event(
        forged, replace(event.meta, id="", seq=abs(event.meta.seq) or 1, session=event.meta.session or "s")
    )[1]


def require_bars(world: FakeLedger, gone: set[bytes]) -> None:
    """Where commands bar the release of a task whose lines are missing, none of those tasks can be approved."""
    for task in {
        event_task_id(codec.decode_line(line)) for line in gone if not is_group(line)
    } & world.tasks().keys():
        submission = world.task(task).submission
        if submission is not None and world.task(task).status == Status.PROVISIONAL:
            world.repository.commits[submission.commit] = Commit(submission.commit, submission.tree)
            answer = world.ledger.ask(
                Request(command=c.ApproveReview(task_id=task, commit=submission.commit), actor="user")
            )
            assert getattr(answer, "code", "") == "lines_missing"

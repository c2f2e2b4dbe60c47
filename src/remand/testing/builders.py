"""Short ways to say what a test is given."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, get_type_hints

from msgspec.structs import replace

from remand.adapters.stores.memory import MemoryStore
from remand.app.asking import Accepted, Request, Rules
from remand.app.ledger import Ledger
from remand.app.ports import Keys
from remand.app.signatures import Signer
from remand.domain import commands as c
from remand.domain import events as e
from remand.domain.decide import decide
from remand.domain.evolve import replay
from remand.domain.filed import Filed
from remand.domain.gates.verdict import GateResult, GateStatus, Verdict, overall
from remand.domain.ids import task_node
from remand.domain.instant import Instant, plus
from remand.domain.refusals import Refused
from remand.domain.roles import USER, Actor, Member, Role
from remand.domain.task import Claim, Lockout, Offer, Submission, Task
from remand.ledger import codec, signatures
from remand.ledger.signatures import Named, chain_start
from remand.ledger.store import Entry, Store
from remand.testing.fakes import (
    START,
    CountingIds,
    FakeClock,
    FakeKeys,
    FakeRepository,
    MemoryExchange,
    MemoryMarks,
)

MACHINE = FakeKeys()
"""The key of the test's machine: every world and every session has it unless said otherwise."""
NOW: Instant = START
LATER: Instant = plus(NOW, 1800)
MUCH_LATER: Instant = plus(NOW, 7200)
SHA = "c0ffee00" * 5
OTHER_SHA = "deadbeef" * 5
TREE = "7ree" * 10


def task_id(number: int) -> str:
    """The id of the test's nth task."""
    return f"T-20261115-080000-{number:08x}"


def handoff_id(number: int) -> str:
    """The id of the test's nth handoff."""
    return f"H-20261115-080000-{number:08x}"


def rejection_id(number: int) -> str:
    """The id of the test's nth rejection."""
    return f"R-20261115-080000-{number:08x}"


T1, T2, T3 = task_id(1), task_id(2), task_id(3)
H1, H2, H3 = handoff_id(1), handoff_id(2), handoff_id(3)
R1, R2 = rejection_id(1), rejection_id(2)


# Who.


def actor(name: str, *roles: Role, skills: Iterable[str] = (), **fields: Any) -> Actor:
    """Somebody with these roles; an agent unless said otherwise."""
    return Actor(name=name, roles=frozenset(roles or {Role.AGENT}), skills=frozenset(skills), **fields)


THE_USER = actor(USER, Role.USER)
ALICE, BOB = actor("Alice"), actor("Bob")
LEAD = actor("Lead", Role.LEAD)


def member(name: str, *roles: Role, **fields: Any) -> Member:
    """A member of a team; an agent unless said otherwise."""
    return Member(name=name, roles=roles or (Role.AGENT,), **fields)


# A task in a certain state.


def a_task(task_id: str = T1, **fields: Any) -> Task:
    """A task in the queue, with these fields."""
    return Task(**{"id": task_id, "title": "Mend the roof", "created_at": NOW, **fields})


def a_claim(agent: str = "Alice", handoff_id: str = H1, until: Instant = LATER, epoch: int = 1) -> Claim:
    """A lease on a task."""
    return Claim(handoff_id=handoff_id, agent=agent, epoch=epoch, claimed_at=NOW, lease_expires_at=until)


def an_offer(target: str = "Alice", handoff_id: str = H1, until: Instant = LATER) -> Offer:
    """A handoff that nobody accepted yet."""
    return Offer(handoff_id=handoff_id, source="Lead", target=target, lapses_at=until)


def a_lockout(agent: str = "Alice", **fields: Any) -> Lockout:
    """An agent's lockout."""
    return Lockout(agent=agent, **{"by": "Lead", "reason": "The roof leaks", "since": NOW, **fields})


def a_filed(decision: str = "", agent: str = "Alice", handoff_id: str = H1, **fields: Any) -> Filed:
    """The last rejection of a task, unanswered unless a decision is given."""
    standard = {"rejection_id": R1, "reason": "BLOCKER", "was_claimed": True}
    return Filed(**{**standard, "agent": agent, "handoff_id": handoff_id, "decision": decision, **fields})


def a_submission(agent: str = "Alice", commit: str = SHA, handoff_id: str = H1) -> Submission:
    """Work handed in."""
    return Submission(commit=commit, tree=TREE, agent=agent, handoff_id=handoff_id, at=NOW)


# Commands and events.


def command(ask: c.Ask, by: Actor = THE_USER, at: Instant = NOW, **facts: Any) -> c.Command:
    """An ask with who, when and what was measured."""
    standard = {"fresh_task_id": T1, "fresh_handoff_id": H1, "fresh_review_id": "V-1"}
    return c.Command(ask=ask, actor=by, at=at, facts=c.Facts(**{**standard, **facts}))


def decided(task: Task | None, ask: c.Ask, by: Actor = THE_USER, **more: Any) -> tuple[e.Event, ...]:
    """The events that follow from an ask; fails the test when it is refused."""
    answer = decide(task, command(ask, by, **more))
    assert not isinstance(answer, Refused), f"refused: {answer.code}: {answer.message}"
    return answer


def refused(task: Task | None, ask: c.Ask, by: Actor = THE_USER, **more: Any) -> str:
    """The code an ask is refused with; fails the test when it is accepted."""
    answer = decide(task, command(ask, by, **more))
    assert isinstance(answer, Refused), f"accepted: {answer}"
    return answer.code


def added(task_id: str = T1, title: str = "Mend the roof", **data: Any) -> e.TaskAdded:
    """A task was written down."""
    standard = {"description": "", "status": "pending", "priority": "medium", "category": ""}
    return e.TaskAdded(
        id=task_node(task_id), type="TASK", data=e.TaskData(title=title, **{**standard, **data})
    )


def claimed(
    agent: str = "Alice",
    handoff_id: str = H1,
    task_id: str = T1,
    *,
    until: Instant = LATER,
    attempt: int = 1,
    epoch: int = 1,
) -> e.TaskClaimed:
    """An agent took a task from the queue."""
    return e.TaskClaimed(
        task_id=task_id,
        handoff_id=handoff_id,
        agent=agent,
        attempt=attempt,
        epoch=epoch,
        lease_expires_at=until,
    )


def submitted(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> e.TaskSubmitted:
    """An agent handed in its work."""
    return e.TaskSubmitted(task_id=task_id, handoff_id=handoff_id, agent=agent, commit=commit, tree=tree)


def a_result(name: str = "tests", status: GateStatus = GateStatus.FAILED, **fields: Any) -> GateResult:
    """How one gate came out."""
    return GateResult(name=name, status=status, **{"line": f"- {name}: {status}", **fields})


def a_verdict(*gates: GateResult, commit: str = SHA, tree: str = TREE, **fields: Any) -> Verdict:
    """What was measured of a commit; its status is that of its gates, passed when there are none."""
    return Verdict(**{"status": overall(gates), "commit": commit, "tree": tree, "gates": gates, **fields})


def let_through(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> e.GatePassed:
    """The gates released an agent's work."""
    verdict = a_verdict(commit=commit, tree=tree)
    return e.GatePassed(task_id=task_id, handoff_id=handoff_id, agent=agent, verdict=verdict)


def handed_in(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> tuple[e.GatePassed, e.TaskSubmitted]:
    """The gates released an agent's work, and it was handed in."""
    work = (agent, handoff_id, task_id, commit, tree)
    return let_through(*work), submitted(*work)


def depends(task: str, on: str) -> e.EdgeCreated:
    """One task was made to wait for another."""
    return e.EdgeCreated(src=task_node(task), tgt=task_node(on), type="DEPENDS_ON")


def an_event(kind: type[e.Event]) -> e.Event:
    """An event of that kind with everything in it filled in."""
    texts = {"task_id": T1, "id": task_node(T1), "handoff_id": H1, "agent": "Alice", "commit": SHA}
    texts |= {"status": "done", "type": "TASK", "tree": TREE, "lapses_at": LATER, "lease_expires_at": LATER}
    texts["rejection_id"] = ""
    given: dict[type[Any], Any] = {
        str: "something",
        int: 1,
        float: 0.5,
        bool: True,
        tuple[str, ...]: ("T-other",),
        tuple[e.Finding, ...]: (e.Finding(text="It leaks"),),
        e.TaskData: added().data,
        e.TaskChanges: e.TaskChanges(title="New"),
        e.Decision: e.Decision(decision_type="ACCEPT"),
        Verdict: a_verdict(),
        tuple[e.GivenUp, ...]: (e.GivenUp(session="s", first=1, last=2),),
    }
    hints = get_type_hints(kind)
    names = (name for name in kind.__struct_fields__ if hints[name] in given and name != "ts")
    fields: dict[str, Any] = {name: given[hints[name]] for name in names}
    fields |= {name: text for name, text in texts.items() if name in fields and hints[name] is str}
    return kind(**fields)


class Session:
    """Somebody's log: events get their time, number, hash and predecessor in the order they are written.

    Each is covered by the keys given, those of the test's machine unless said otherwise.
    """

    def __init__(
        self,
        name: str = "20261115-080000-0000000a",
        clock: FakeClock | None = None,
        *,
        keys: Keys | None = MACHINE,
        project: str = "",
    ) -> None:
        self.name = name
        self.clock = clock or FakeClock()
        self.signer = None if keys is None else Signer(keys, project)
        self.chain = chain_start(name, self.signer.key) if self.signer else ""
        self.seq = 0
        self.tip = ""
        self.lines: list[bytes] = []

    def write(
        self, event: e.Event, *, at: Instant = "", actor: str = "somebody", key: str = "", ask: str = ""
    ) -> e.Event:
        """Stamps an event and writes its line."""
        self.seq += 1
        place: dict[str, Any] = {"session": self.name, "seq": self.seq, "prev": self.tip}
        meta = e.Meta(id="", actor=actor, branch="main", key=key, ask=ask, **place)
        stamped, line = codec.write(replace(event, ts=at or self.clock.now()), meta)
        self.tip = stamped.meta.id
        if self.signer:
            named = [Named(stamped.meta.id, e.subject(stamped))]
            (group,) = self.signer.sign(self.name, self.seq, self.chain, named, stamped.ts)
            self.chain = group.after
            self.lines.append(signatures.write(group))
        self.lines.append(line)
        return stamped

    @property
    def event_lines(self) -> list[bytes]:
        """The lines of the events alone."""
        return [line for line in self.lines if not signatures.is_group(line)]

    def entry(self, event: e.Event, **options: str) -> Entry:
        """Stamps an event, ready to be kept."""
        stamped = self.write(event, **options)
        return Entry(stamped, self.lines[-1], e.subject(stamped))


def stamped(*events: e.Event) -> list[e.Event]:
    """The events as one session writes them; those that have a time keep it."""
    session = Session()
    return [session.write(event, at=event.ts) for event in events]


def given(*events: e.Event) -> Task:
    """The task that these events led to."""
    task = replay(stamped(*events))
    assert task is not None, "the events begin with no `added`"
    return task


class World:
    """A whole ledger on fakes: one asks, looks, and lets things go wrong."""

    def __init__(
        self,
        *,
        rules: Rules = Rules(gates=()),  # noqa: B008 - a frozen value
        session: str = "20261115-090000-00000000",
        clock: FakeClock | None = None,
        store: Store | None = None,
        exchange: MemoryExchange | None = None,
        keys: Keys = MACHINE,
    ) -> None:
        self.clock = clock or FakeClock()
        self.ids = CountingIds()
        self.rules = rules
        self.store: Store = store or MemoryStore(session)
        self.exchange = exchange or MemoryExchange(self.clock, self.ids)
        self.repository = FakeRepository()
        self.marks = MemoryMarks()
        self.keys = keys
        self.ledger = self.opened_again()

    def opened_again(self) -> Ledger:
        """The same ledger, as another process opens it."""
        self.ledger = Ledger(
            store=self.store,
            exchange=self.exchange,
            segment=self.exchange,
            clock=self.clock,
            ids=self.ids,
            repository=self.repository,
            marks=self.marks,
            keys=self.keys,
            rules=lambda: self.rules,
        )
        return self.ledger

    def ask(self, ask: c.Ask, by: str = USER, key: str = "", *, confined: bool = False) -> Accepted:
        """What followed; fails the test when the ask is refused."""
        answer = self.ledger.ask(Request(ask=ask, actor=by, key=key, confined=confined))
        assert isinstance(answer, Accepted), f"refused: {answer.code}: {answer.message}"
        return answer

    def refusal(self, ask: c.Ask, by: str = USER, key: str = "", *, confined: bool = False) -> Refused:
        """The refusal; fails the test when the ask is accepted."""
        answer = self.ledger.ask(Request(ask=ask, actor=by, key=key, confined=confined))
        assert isinstance(answer, Refused), f"accepted: {answer}"
        return answer

    def add(self, title: str = "Mend the roof", **fields: Any) -> str:
        """Writes a task down; returns its id."""
        return self.ask(c.AddTask(title=title, **fields)).task.id

    def claim(self, task_id: str = "", by: str = "Alice") -> Task:
        """Claims a task, or the next one."""
        return self.ask(c.ClaimTask(agent=by, task_id=task_id), by).task

    def submit(self, task_id: str, by: str = "Alice", commit: str = "work", tree: str = "") -> Task:
        """Hands in a commit, made for the occasion, once all feedback was read."""
        self.repository.add(commit, tree)
        self.ask(c.FetchFeedback(task_id=task_id, agent=by), by)
        return self.ask(c.SubmitTask(task_id=task_id, agent=by, commit=commit), by).task

    def finish(self, task_id: str, by: str = "Alice") -> Task:
        """Claims, hands in and approves."""
        self.claim(task_id, by)
        self.submit(task_id, by)
        return self.ask(c.ApproveReview(task_id=task_id, commit="work")).task

    def reject(
        self, handoff_id: str, rejection: dict[str, Any], by: str = "Alice", key: str = ""
    ) -> Accepted:
        """Files a rejection; valid or not, it is answered."""
        return self.ask(c.RejectHandoff(handoff_id=handoff_id, agent=by, rejection=rejection), by, key)

    def held(self, by: str = "Alice", **fields: Any) -> tuple[str, str]:
        """A new task that an agent holds: its id, and the handoff's."""
        task = self.claim(self.add(**fields), by)
        assert task.claim is not None
        return task.id, task.claim.handoff_id

    def task(self, task_id: str) -> Task:
        """A task as it is now."""
        with self.store.read() as view:
            task = view.tasks.get(task_id)
        assert task is not None, f"there is no task {task_id}"
        return task

    def tasks(self) -> dict[str, Task]:
        """Every task as it is now."""
        with self.store.read() as view:
            return {task.id: task for task in view.tasks.every()}

    def ready(self) -> list[str]:
        """What could be claimed, in order."""
        with self.store.read() as view:
            return view.queue.ready()

    def events(self) -> list[e.Event]:
        """Every event the ledger holds."""
        with self.store.read() as view:
            return [codec.recall(line) for line in view.events.lines()]

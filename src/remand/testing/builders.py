"""Builders for what a test is given: ids, people, tasks, commands, events, sessions, and a whole ledger."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, get_type_hints

import msgspec
from msgspec.structs import replace

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.events.signatures import Signer
from remand.app.ledger import Ledger
from remand.app.ports import Keys
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import USER, Actor, Member, Role
from remand.domain.decide import decide
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, Meta
from remand.domain.events.log import AbandonedLines
from remand.domain.events.reviews import Finding, LockoutSet, ReviewRejected, ReviewRetracted
from remand.domain.events.tasks import (
    Decision,
    EdgeCreated,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskAdded,
    TaskChanges,
    TaskClaimed,
    TaskData,
    TaskSubmitted,
    TaskWoken,
)
from remand.domain.events.work import GatePassed
from remand.domain.evolve import replay
from remand.domain.facts import Facts, FreshIds, update_facts
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict, overall_status
from remand.domain.ids import task_node_id
from remand.domain.instant import Instant, add_seconds
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import (
    Claim,
    Escalation,
    LastRejection,
    Lockout,
    Offer,
    Review,
    ReviewRound,
    Submission,
    Task,
    make_task,
)
from remand.ledger import codec, signatures
from remand.ledger.event_tables import EventEntry
from remand.ledger.signatures import GroupedEvent, chain_start
from remand.ledger.store import Store
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
LATER: Instant = add_seconds(NOW, 1800)
MUCH_LATER: Instant = add_seconds(NOW, 7200)
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
    return make_task(**{"id": task_id, "title": "Mend the roof", "created_at": NOW, **fields})


def a_claim(agent: str = "Alice", handoff_id: str = H1, until: Instant = LATER, epoch: int = 1) -> Claim:
    """A lease on a task."""
    return Claim(handoff_id=handoff_id, agent=agent, epoch=epoch, claimed_at=NOW, lease_expires_at=until)


def an_offer(target: str = "Alice", handoff_id: str = H1, until: Instant = LATER) -> Offer:
    """A handoff that nobody accepted yet."""
    return Offer(handoff_id=handoff_id, source="Lead", target=target, lapses_at=until)


def a_lockout(agent: str = "Alice", **fields: Any) -> Lockout:
    """An agent's lockout."""
    return Lockout(agent=agent, **{"by": "Lead", "reason": "The roof leaks", "since": NOW, **fields})


def a_filed_rejection(
    decision: str = "", agent: str = "Alice", handoff_id: str = H1, **fields: Any
) -> LastRejection:
    """The last rejection of a task, unanswered unless a decision is given."""
    standard = {"rejection_id": R1, "reason": "BLOCKER", "was_claimed": True}
    return LastRejection(
        **{**standard, "agent": agent, "handoff_id": handoff_id, "decision": decision, **fields}
    )


def a_submission(agent: str = "Alice", commit: str = SHA, handoff_id: str = H1) -> Submission:
    """Work handed in."""
    return Submission(commit=commit, tree=TREE, agent=agent, handoff_id=handoff_id, at=NOW)


# Commands and events.


def command(ask: c.Command, by: Actor = THE_USER, at: Instant = NOW, **facts: Any) -> c.CommandContext:
    """An ask with who, when and what was measured."""
    policy = Policy(**{name: facts.pop(name) for name in Policy.__struct_fields__ if name in facts})
    fresh = FreshIds(task_id=T1, handoff_id=H1, review_id="V-1")
    return c.CommandContext(
        command=ask, actor=by, at=at, facts=update_facts(Facts(fresh=fresh, policy=policy), **facts)
    )


def decide_events(task: Task | None, ask: c.Command, by: Actor = THE_USER, **more: Any) -> tuple[Event, ...]:
    """The events that follow from an ask; fails the test when it is refused."""
    answer = decide(task, command(ask, by, **more))
    assert not isinstance(answer, Refused), f"refused: {answer.code}: {answer.message}"
    return answer


def refusal_code(task: Task | None, ask: c.Command, by: Actor = THE_USER, **more: Any) -> str:
    """The code an ask is refused with; fails the test when it is accepted."""
    answer = decide(task, command(ask, by, **more))
    assert isinstance(answer, Refused), f"accepted: {answer}"
    return answer.code


def task_added(task_id: str = T1, title: str = "Mend the roof", **data: Any) -> TaskAdded:
    """A task was added."""
    standard = {"description": "", "status": "pending", "priority": "medium", "category": ""}
    return TaskAdded(
        id=task_node_id(task_id), type="TASK", data=TaskData(title=title, **{**standard, **data})
    )


def task_claimed(
    agent: str = "Alice",
    handoff_id: str = H1,
    task_id: str = T1,
    *,
    until: Instant = LATER,
    attempt: int = 1,
    epoch: int = 1,
) -> TaskClaimed:
    """An agent took a task from the queue."""
    return TaskClaimed(
        task_id=task_id,
        handoff_id=handoff_id,
        agent=agent,
        attempt=attempt,
        epoch=epoch,
        lease_expires_at=until,
    )


def task_submitted(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> TaskSubmitted:
    """An agent handed in its work."""
    return TaskSubmitted(task_id=task_id, handoff_id=handoff_id, agent=agent, commit=commit, tree=tree)


def a_result(name: str = "tests", status: GateStatus = GateStatus.FAILED, **fields: Any) -> GateResult:
    """How one gate came out."""
    return GateResult(name=name, status=status, **{"line": f"- {name}: {status}", **fields})


def a_verdict(*gates: GateResult, commit: str = SHA, tree: str = TREE, **fields: Any) -> Verdict:
    """What was measured of a commit; its status is that of its gates, passed when there are none."""
    return Verdict(
        **{"status": overall_status(gates), "commit": commit, "tree": tree, "gates": gates, **fields}
    )


def gate_passed(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> GatePassed:
    """The gates released an agent's work."""
    verdict = a_verdict(commit=commit, tree=tree)
    return GatePassed(task_id=task_id, handoff_id=handoff_id, agent=agent, verdict=verdict)


def gate_passed_and_submitted(
    agent: str = "Alice", handoff_id: str = H1, task_id: str = T1, commit: str = SHA, tree: str = TREE
) -> tuple[GatePassed, TaskSubmitted]:
    """The gates released an agent's work, and it was handed in."""
    work = (agent, handoff_id, task_id, commit, tree)
    return gate_passed(*work), task_submitted(*work)


def dependency_created(task: str, on: str) -> EdgeCreated:
    """One task was made to wait for another."""
    return EdgeCreated(src=task_node_id(task), tgt=task_node_id(on), type="DEPENDS_ON")


def an_event(kind: type[Event]) -> Event:
    """An event of that kind with everything in it filled in."""
    texts = {"task_id": T1, "id": task_node_id(T1), "handoff_id": H1, "agent": "Alice", "commit": SHA}
    texts |= {"status": "done", "type": "TASK", "tree": TREE, "lapses_at": LATER, "lease_expires_at": LATER}
    texts["rejection_id"] = ""
    given: dict[type[Any], Any] = {
        str: "something",
        int: 1,
        float: 0.5,
        bool: True,
        tuple[str, ...]: ("T-other",),
        tuple[Finding, ...]: (Finding(text="It leaks"),),
        TaskData: task_added().data,
        TaskChanges: TaskChanges(title="New"),
        Decision: Decision(decision_type="ACCEPT"),
        Verdict: a_verdict(),
        tuple[AbandonedLines, ...]: (AbandonedLines(session="s", first=1, last=2),),
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
        self, event: Event, *, at: Instant = "", actor: str = "somebody", key: str = "", ask: str = ""
    ) -> Event:
        """Stamps an event and writes its line."""
        self.seq += 1
        place: dict[str, Any] = {"session": self.name, "seq": self.seq, "prev": self.tip}
        meta = Meta(id="", actor=actor, branch="main", key=key, ask=ask, **place)
        stamped, line = codec.encode_event(replace(event, ts=at or self.clock.now()), meta)
        self.tip = stamped.meta.id
        if self.signer:
            named = [GroupedEvent(stamped.meta.id, event_task_id(stamped))]
            (group,) = self.signer.sign(self.name, self.seq, self.chain, named, stamped.ts)
            self.chain = group.after
            self.lines.append(signatures.encode_group(group))
        self.lines.append(line)
        return stamped

    @property
    def event_lines(self) -> list[bytes]:
        """The lines of the events alone."""
        return [line for line in self.lines if not signatures.is_group(line)]

    def entry(self, event: Event, **options: str) -> EventEntry:
        """Stamps an event, ready to be kept."""
        stamped = self.write(event, **options)
        return EventEntry(stamped, self.lines[-1], event_task_id(stamped))


def stamp_events(*events: Event) -> list[Event]:
    """The events as one session writes them; those that have a time keep it."""
    session = Session()
    return [session.write(event, at=event.ts) for event in events]


def task_after(*events: Event) -> Task:
    """The task that these events led to."""
    task = replay(stamp_events(*events))
    assert task is not None, "the events begin with no `added`"
    return task


class FakeLedger:
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
        self.store: Store = store or SqliteStore.in_memory(session)
        self.exchange = exchange or MemoryExchange(self.clock, self.ids)
        self.repository = FakeRepository()
        self.marks = MemoryMarks()
        self.keys = keys
        self.ledger = self.reopen()

    def reopen(self) -> Ledger:
        """The same ledger, as another process opens it."""
        self.ledger = Ledger(
            store=self.store,
            exchange=self.exchange,
            writer=self.exchange,
            segment=self.exchange,
            clock=self.clock,
            ids=self.ids,
            repository=self.repository,
            marks=self.marks,
            keys=self.keys,
            rules=lambda: self.rules,
        )
        return self.ledger

    def ask(self, ask: c.Command, by: str = USER, key: str = "", *, confined: bool = False) -> Acceptance:
        """What followed; fails the test when the ask is refused."""
        answer = self.ledger.ask(Request(command=ask, actor=by, key=key, confined=confined))
        assert isinstance(answer, Acceptance), f"refused: {answer.code}: {answer.message}"
        return answer

    def refusal(self, ask: c.Command, by: str = USER, key: str = "", *, confined: bool = False) -> Refused:
        """The refusal; fails the test when the ask is accepted."""
        answer = self.ledger.ask(Request(command=ask, actor=by, key=key, confined=confined))
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
    ) -> Acceptance:
        """Files a rejection; valid or not, it is answered."""
        return self.ask(c.RejectHandoff(handoff_id=handoff_id, agent=by, rejection=rejection), by, key)

    def add_and_claim(self, by: str = "Alice", **fields: Any) -> tuple[str, str]:
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

    def events(self) -> list[Event]:
        """Every event the ledger holds."""
        with self.store.read() as view:
            return [codec.decode_stored_line(line) for line in view.events.lines()]


V1, V2, V3 = "V-1", "V-2", "V-3"
E1 = "E-000000000001"
LEAKS = Finding(text="It leaks", path="roof.py", line=7)
NIT = Finding(text="Odd colour", is_blocking=False)


def a_round(*reviews: str, agent: str = "Alice", handoff_id: str = H1, **fields: Any) -> ReviewRound:
    """A rejection of what an agent handed in under a handoff, by Lead's reviews of these ids; all stand."""
    made = tuple(Review(id=name, reviewer="Lead") for name in reviews or (V1,))
    work = {"commit": SHA, "tree": TREE, "agent": agent, "handoff_id": handoff_id, "reviews": made}
    return ReviewRound(**{**work, **fields})


def an_escalation(kind: str = "asked", **fields: Any) -> Escalation:
    """A question that waits for the user, as long as the task is escalated."""
    standard = {"id": E1, "reason": "What now?", "opened_at": NOW, "deadline": LATER}
    return Escalation(**{**standard, "kind": kind, **fields})


def review_rejected(review_id: str = V1, reviewer: str = "Lead", **fields: Any) -> ReviewRejected:
    """A reviewer sent the work back."""
    standard = {"task_id": T1, "commit": SHA, "tree": TREE, "findings": (LEAKS,)}
    return ReviewRejected(**{**standard, "review_id": review_id, "reviewer": reviewer, **fields})


def review_retracted(review_id: str = V1, reviewer: str = "Lead") -> ReviewRetracted:
    """A rejection was taken back."""
    return ReviewRetracted(task_id=T1, review_id=review_id, reviewer=reviewer, reason="It was right")


def lockout_set(agent: str = "Alice", review_id: str = V1, **fields: Any) -> LockoutSet:
    """An agent was locked out, for a rejection unless its id is empty."""
    return LockoutSet(task_id=T1, agent=agent, reason="It leaks", review_id=review_id, **fields)


def task_after_review(*events: Event) -> Task:
    """The task that these events led to, after Alice had handed in her work."""
    return task_after(task_added(), task_claimed(), *gate_passed_and_submitted(), *events)


def send_back(
    world: FakeLedger, task_id: str, by: str, commit: str, reviewer: str = "user", *, text: str = "It leaks"
) -> Task:
    """An agent claims a task and hands a commit in, which a reviewer rejects."""
    world.claim(task_id, by)
    world.submit(task_id, by, commit)
    ask = c.RejectReview(task_id=task_id, commit=commit, findings=(Finding(text=text),))
    return world.ask(ask, reviewer).task


def rejection_filed(task_id: str = T1, number: int = 1, **fields: Any) -> HandoffRejected:
    """Alice rejected a task for a blocker."""
    record = {"reason_type": "BLOCKER", "blocking_factor": "The ladder is gone"}
    standard = {"handoff_id": H1, "agent": "Alice", "rejection_id": f"R-{number}", "rejection": record}
    return HandoffRejected(task_id=task_id, **{**standard, **fields})


def invalid_rejection_filed(task_id: str = T1, number: int = 1, **fields: Any) -> HandoffRejectionInvalid:
    """Alice rejected a task without having earned it."""
    valid = rejection_filed(task_id, number, **fields)
    told = {name: getattr(valid, name) for name in ("handoff_id", "agent", "rejection_id", "rejection")}
    return HandoffRejectionInvalid(task_id=task_id, **told)


def rejection_answered(
    decision: str, task_id: str = T1, number: int = 1, created: tuple[str, ...] = ()
) -> RejectionAnswered:
    """The director answered a rejection."""
    told = Decision(decision_type=decision, rationale="So it is.", created_tasks=created)
    return RejectionAnswered(task_id=task_id, handoff_id=H1, rejection_id=f"R-{number}", decision=told)


def task_woken(task_id: str = T1) -> TaskWoken:
    """A deferred task woke."""
    return TaskWoken(task_id=task_id)


def got_tool_entry(event: str, at: str = "2025-12-20T10:00:00Z", **fields: object) -> EventEntry:
    """A line of a GoT tool."""
    told = {"ts": at, "event": event, "meta": {"branch": "main", "session": "s"}, **fields}
    line = msgspec.json.encode(told)
    return EventEntry(codec.decode_line(line), line, "")


@contextmanager
def assert_raises(kind: type[Exception]) -> Iterator[None]:
    """Fails unless the block ends in this error; for contract suites, which need no test runner."""
    try:
        yield
    except kind:
        return
    raise AssertionError(f"no {kind.__name__} was raised")

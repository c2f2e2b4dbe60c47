"""Builders that only our own tests need: decisions and reviews, and a whole ledger on fakes."""

from __future__ import annotations

from typing import Any, get_type_hints

from remand.adapters.stores.sqlite import SqliteStore
from remand.app.ledger import Ledger
from remand.app.ports import Keys
from remand.app.requests import Acceptance, Request, Rules
from remand.domain import commands as c
from remand.domain.access.team import USER, Actor, Member, Role
from remand.domain.decide import decide
from remand.domain.events.event import Event
from remand.domain.events.log import AbandonedLines
from remand.domain.events.reviews import Finding, LockoutSet, ReviewRejected, ReviewRetracted
from remand.domain.events.tasks import (
    Decision,
    EdgeCreated,
    TaskChanges,
    TaskData,
    TaskSubmitted,
)
from remand.domain.events.work import GatePassed
from remand.domain.evolve import replay
from remand.domain.facts import Facts, FreshIds, update_facts
from remand.domain.gate.verdict import GateResult, GateStatus, Verdict, overall_status
from remand.domain.ids import task_node_id
from remand.domain.instant import Instant
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.task import (
    Escalation,
    LastRejection,
    Review,
    ReviewRound,
    Task,
)
from remand.ledger import codec
from remand.ledger.store import Store
from remand.testing.builders import (
    H1,
    LATER,
    MACHINE,
    NOW,
    SHA,
    T1,
    TREE,
    Session,
    actor,
    task_added,
    task_claimed,
)
from remand.testing.fakes import FakeClock
from tests.support.fakes import CountingIds, FakeRepository, MemoryExchange, MemoryMarks

OTHER_SHA = "deadbeef" * 5


def rejection_id(number: int) -> str:
    """The id of the test's nth rejection."""
    return f"R-20261115-080000-{number:08x}"


R1, R2 = rejection_id(1), rejection_id(2)
THE_USER = actor(USER, Role.USER)
LEAD = actor("Lead", Role.LEAD)


def member(name: str, *roles: Role, **fields: Any) -> Member:
    """A member of a team; an agent unless said otherwise."""
    return Member(name=name, roles=roles or (Role.AGENT,), **fields)


def a_filed_rejection(
    decision: str = "", agent: str = "Alice", handoff_id: str = H1, **fields: Any
) -> LastRejection:
    """The last rejection of a task, unanswered unless a decision is given."""
    standard = {"rejection_id": R1, "reason": "BLOCKER", "was_claimed": True}
    return LastRejection(
        **{**standard, "agent": agent, "handoff_id": handoff_id, "decision": decision, **fields}
    )


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
        tuple[str, str, int, str]: (NOW, "s", 1, "id"),
        tuple[tuple[str, str, int], ...]: (("s", "0" * 16, 1),),
    }
    hints = get_type_hints(kind)
    names = (name for name in kind.__struct_fields__ if hints[name] in given and name != "ts")
    fields: dict[str, Any] = {name: given[hints[name]] for name in names}
    fields |= {name: text for name, text in texts.items() if name in fields and hints[name] is str}
    return kind(**fields)


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

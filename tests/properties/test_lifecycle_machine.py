"""Holds the ledger's invariants over whatever is asked, in whatever order, whatever befalls it.

One machine asks everything that can be asked, lets time pass and kills processes. Another one also brings in
what others wrote about the same tasks.
"""

from collections.abc import Iterator
from contextlib import suppress

import msgspec
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, multiple, rule
from msgspec.structs import replace

from remand.app.events.task_folds import SignedTasks, TaskSource, rebuild_tables, task_events
from remand.app.facts import ExternalFacts, FactLookup
from remand.app.log.verification import verify_log
from remand.app.requests import Acceptance, Answer, Request, Rules
from remand.app.tasks.lookup import lockout_facts
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import THE_COORDINATOR, Role, Team
from remand.domain.decide import decide
from remand.domain.decisions.escalations import escalation_options
from remand.domain.decisions.findings import apply_settlements
from remand.domain.decisions.notices import MAX_STALLED
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, TaskEvent
from remand.domain.events.log import LedgerMoved, MoveBegun, TaskArchived
from remand.domain.events.reviews import Finding, LockoutCleared, ReviewApproved
from remand.domain.events.tasks import (
    EdgeCreated,
    EdgeDeleted,
    HandoffCompleted,
    TaskAdded,
    TaskDecomposed,
    TaskDeferred,
    TaskDeleted,
    TaskEdited,
    TaskSubmitted,
)
from remand.domain.events.work import (
    FindingAccepted,
    FindingRefused,
    GateHeld,
    GatePassed,
    GateRejected,
    How,
    Purpose,
)
from remand.domain.evolve import replay
from remand.domain.gate.verdict import INTEGRITY_GATE, GateResult, GateStatus
from remand.domain.ids import task_node_id
from remand.domain.policy import Policy
from remand.domain.preconditions import find_lockout
from remand.domain.reasons import DecisionType
from remand.domain.refusals import MEANINGS, Refused
from remand.domain.task import Status, Task, update_task
from remand.ledger.store import Transaction
from remand.testing.builders import Session
from tests.support.builders import FakeLedger, a_result, a_verdict, member
from tests.support.fakes import ProcessKilled
from tests.support.log_check import log_faults
from tests.support.rejection_records import with_dependency
from tests.support.strategies import native_events, rejection_records

TEAM = Team(
    (
        member("Alice", skills=("paint",), aliases=("al",)),
        member("Bob", skills=("paint", "weld")),
        member("Lea", Role.LEAD, Role.AGENT),
        member("Tess", Role.TESTER),
        member("Dir", Role.DIRECTOR),
        member("owner", Role.USER),
    )
)
AGENTS = ["Alice", "Bob", "Lea"]
OPTIONS = [
    *["fix", "reopen", "wontfix", "odd"],
    *(f"{way}:{name}" for way in ("unlock", "reassign") for name in ("Alice", "al", "Bob", "Tess")),
]
EVERYBODY = [*AGENTS, "al", "Tess", "Dir", "owner", "user", "stranger"]
COMMITS = ["first", "second", "twin of first"]
LEAKS, NIT = Finding(text="It leaks"), Finding(text="Odd colour", is_blocking=False)
FINDINGS = [(LEAKS,), (NIT, LEAKS), (NIT,), ()]

HELD = a_result(INTEGRITY_GATE, GateStatus.HELD, suspicions=("f1", "f2"))
RESULTS: list[tuple[GateResult, ...]] = [
    *[(a_result("tests", GateStatus.PASSED),)] * 3,
    *[(a_result("tests", failing_count=number, excess=float(number)),) for number in (1, 2, 3)],
    (a_result("tests", GateStatus.PASSED), HELD),
    (a_result("tests", excess=1.0), HELD),
    (a_result("tests", GateStatus.ERRORED),),
]

DECISIONS = [*DecisionType.__members__, "OVERRIDE", "PERHAPS"]

anybody = st.sampled_from(EVERYBODY)
agents = st.sampled_from([*AGENTS, *AGENTS, "al", "Tess"])
leaders = st.sampled_from(["owner", "owner", "user", "Dir", "Lea", "Tess", "Bob"])
commits = st.sampled_from([*COMMITS, *COMMITS, "unknown"])
mostly = st.sampled_from([True, True, True, False])
results = st.sampled_from(RESULTS)
encoded = msgspec.json.Encoder().encode


SKEW = 30 * 86_400.0
"""The clock is set back again and again; commands that are refused for it are another matter."""


class Undone(Exception):  # noqa: N818 - a change that is only tried
    """Takes back a change that was only tried."""


class Lifecycle(RuleBasedStateMachine):
    tasks = Bundle("tasks")
    handoffs = Bundle("handoffs")
    is_alone = True
    """Nobody else writes about the same tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.world = FakeLedger(
            rules=Rules(
                gates=("tests",), gates_digest="rules 0", team=TEAM, policy=Policy(clock_skew_seconds=SKEW)
            )
        )
        self.written = 0
        with self.world.store.read() as view:
            self.own_session = view.head.session
        self.keys = 0
        for name in COMMITS:
            self.world.repository.add(name, tree=f"tree of {name.split()[-1]}")

    # What can be asked.

    def ask(self, ask: c.Command, by: str, *, confined: bool = False) -> Answer:
        """Asks, and holds what is true of every answer."""
        before = self.world.tasks()
        if isinstance(ask, c.RecordVerdict | c.AssignTask | c.StartRun | c.EndRun):
            answer = self.world.ledger.ask_as(THE_COORDINATOR, ask)
        else:
            answer = self.world.ledger.ask(Request(command=ask, actor=by, confined=confined))
        if isinstance(answer, Refused):
            assert answer.code in MEANINGS, answer.code
            return answer
        for task in self.world.tasks().values():
            known = before.get(task.id)
            assert task.inbox.conflicts == (known.inbox.conflicts if known else ()), (
                "what was accepted did not apply"
            )
        self.written += any(isinstance(event, TaskAdded) for event in answer.events)
        return answer

    @initialize(target=tasks)
    def a_task_to_begin_with(self) -> str:
        return self.ask(c.AddTask(title="Begin"), "owner").task.id

    @rule(
        target=tasks,
        by=anybody,
        priority=st.sampled_from(["low", "low", "high", "high", "odd"]),
        skills=st.sampled_from([(), (), ("paint",), ("paint", "weld"), ("sing",)]),
        aliases=st.sampled_from([(), (), (), ("#1",), ("#2",), ("odd",)]),
        others=st.lists(tasks, max_size=2),
    )
    def add(
        self, by: str, priority: str, skills: tuple[str, ...], aliases: tuple[str, ...], others: list[str]
    ) -> object:
        ask = c.AddTask(
            title="T", priority=priority, skills=skills, aliases=aliases, depends_on=tuple(others)
        )
        answer = self.ask(ask, by)
        return answer.task.id if isinstance(answer, Acceptance) else multiple()

    @rule(
        task=tasks,
        by=leaders,
        skills=st.sampled_from([None, (), ("weld",)]),
        aliases=st.sampled_from([None, (), ("#1",)]),
    )
    def edit(
        self, task: str, by: str, skills: tuple[str, ...] | None, aliases: tuple[str, ...] | None
    ) -> None:
        self.ask(c.EditTask(task_id=task, skills=skills, aliases=aliases), by)

    @rule(task=tasks, by=leaders, others=st.lists(tasks, max_size=2), dropped=st.lists(tasks, max_size=2))
    def link(self, task: str, by: str, others: list[str], dropped: list[str]) -> None:
        self.ask(c.EditTask(task_id=task, depends_on=tuple(others), drop_depends_on=tuple(dropped)), by)

    @rule(task=st.just("") | tasks, by=agents)
    def claim(self, task: str, by: str) -> None:
        holders = {name: held.claim for name, held in self.world.tasks().items()}
        answer = self.ask(c.ClaimTask(agent=by, task_id=task), by)
        if isinstance(answer, Acceptance):
            before = holders[answer.task.id]
            assert before is None or before.lease_expires_at <= self.world.clock.time, "two hold one task"

    @rule(task=st.just("") | tasks, by=agents)
    def assign(self, task: str, by: str) -> None:
        holders = {name: held.claim for name, held in self.world.tasks().items()}
        answer = self.ask(c.AssignTask(agent=by, task_id=task, run_id=self.fresh_run()), by)
        if isinstance(answer, Acceptance):
            before = holders[answer.task.id]
            assert before is None or before.lease_expires_at <= self.world.clock.time, "two hold one task"

    @rule(task=tasks, by=anybody, purpose=st.sampled_from(Purpose), as_holder=mostly)
    def start_run(self, task: str, by: str, purpose: Purpose, as_holder: bool) -> None:
        task, by = self.claimed(task, by) if as_holder and purpose == Purpose.WORK else (task, by)
        self.ask(c.StartRun(task_id=task, agent=by, run_id=self.fresh_run(), purpose=purpose), by)

    @rule(
        task=tasks,
        how=st.sampled_from(How),
        status=st.sampled_from([0, 0, 1]),
        has_work=mostly,
        is_systems=st.sampled_from([False, False, True]),
        cost=st.sampled_from([0.0, 1.0, 9.0]),
    )
    def end_run(
        self, *, task: str, how: How, status: int, has_work: bool, is_systems: bool, cost: float
    ) -> None:
        for found in self.world.tasks().values():
            for run in found.runs[:1]:
                ask = c.EndRun(
                    task_id=found.id,
                    run_id=run.id,
                    how=how,
                    status=status,
                    has_work=has_work,
                    is_systems=is_systems,
                    cost=cost,
                )
                answer = self.ask(ask, run.agent)
                assert isinstance(answer, Acceptance), "a run could not end"
                return

    def fresh_run(self) -> str:
        return ids.make_id("RUN", self.world.clock.time, self.world.ids.hex())

    @invariant()
    def one_agent_at_a_time_is_at_work(self) -> None:
        """By this ledger's own word; another may have begun a run it knew nothing of."""
        for task in self.world.tasks().values():
            own = [run.purpose for run in task.runs if run.session == self.own_session]
            assert len(own) == len(set(own)), f"two at work on {task.id}"

    @rule(
        kind=st.sampled_from([c.Heartbeat, c.ReleaseTask, c.ContinueTask, c.WaitTask, c.FailTask]),
        task=tasks,
        by=agents,
        as_holder=mostly,
    )
    def act_under_claim(self, kind: type[c.ClaimCommand], task: str, by: str, as_holder: bool) -> None:
        task, by = self.claimed(task, by) if as_holder else (task, by)
        self.ask(kind(task_id=task, agent=by, reason="Because"), by)

    @rule(task=tasks, by=agents, commit=commits, as_holder=mostly, as_measured=mostly)
    def submit(self, *, task: str, by: str, commit: str, as_holder: bool, as_measured: bool) -> None:
        task, by = self.claimed(task, by) if as_holder else (task, by)
        if as_measured:
            self.ask(c.FetchFeedback(task_id=task, agent=by), by)
            self.record(task, by, commit, RESULTS[0])
        self.ask(c.SubmitTask(task_id=task, agent=by, commit=commit), by)

    @rule(task=tasks, by=agents, commit=commits, gates=results, as_holder=mostly)
    def measure(
        self, *, task: str, by: str, commit: str, gates: tuple[GateResult, ...], as_holder: bool
    ) -> None:
        self.claim("", by)
        task, by = self.claimed(task, by) if as_holder else (task, by)
        self.record(task, by, commit, gates)

    @rule(task=tasks, by=agents, commit=commits, excess=st.lists(st.sampled_from([1.0, 2.0]), min_size=2))
    def measure_again_and_again(self, task: str, by: str, commit: str, excess: list[float]) -> None:
        task, by = self.claimed(task, by)
        for amount in excess:
            self.record(task, by, commit, (a_result("tests", excess=amount),))

    def record(self, task: str, by: str, name: str, gates: tuple[GateResult, ...]) -> None:
        """Has the coordinator note what the gates measured of a commit."""
        known, commit = self.world.tasks().get(task), self.world.repository.commit(name)
        if known is None or commit is None:
            return
        policy = self.world.rules.gates_digest
        verdict = apply_settlements(
            a_verdict(*gates, commit=commit.sha, tree=commit.tree, policy=policy), known
        )
        self.ask(c.RecordVerdict(task_id=task, agent=by, verdict=verdict), by)

    @rule(task=tasks, by=leaders, finding=st.sampled_from(["f1", "f2"]), is_accepted=mostly, as_held=mostly)
    def settle(self, *, task: str, by: str, finding: str, is_accepted: bool, as_held: bool) -> None:
        held = [found for found in self.world.tasks().values() if found.gates.held]
        if as_held and held:
            task, by = held[-1].id, "Lea" if "Lea" in held[-1].gates.decisions.questioned else by
        self.ask(c.SettleFinding(task_id=task, finding=finding, is_accepted=is_accepted), by)

    @rule(
        task=tasks, by=leaders, gate=st.sampled_from(["tests", "tests", INTEGRITY_GATE]), as_standing=mostly
    )
    def override(self, task: str, by: str, gate: str, as_standing: bool) -> None:
        standing = [found.id for found in self.world.tasks().values() if found.gates.blocking]
        task = standing[-1] if as_standing and standing else task
        self.ask(c.OverrideGate(task_id=task, gate=gate, reason="Because"), by)

    @rule(digest=st.sampled_from(["rules 0", "rules 0", "rules 1"]), is_enforced=mostly, has_gates=mostly)
    def the_gates_rules_change(self, digest: str, is_enforced: bool, has_gates: bool) -> None:
        self.world.rules = msgspec.structs.replace(
            self.world.rules,
            gates=("tests",) if has_gates else (),
            gates_digest=digest if has_gates else "none",
            is_enforced=is_enforced,
        )

    @rule(task=tasks, by=agents, handoff=handoffs)
    def submit_under_some_handoff(self, task: str, by: str, handoff: str) -> None:
        self.ask(c.SubmitTask(task_id=task, agent=by, commit="first", handoff_id=handoff), by)

    def claimed(self, task: str, by: str) -> tuple[str, str]:
        """A task somebody holds and who, when there is one; else what was given."""
        held = [(found.id, found.claim.agent) for found in self.world.tasks().values() if found.claim]
        return held[0] if held else (task, by)

    def handed_in(self, task: str) -> tuple[str, str]:
        """A task that awaits review and its commit, when there is one; else what was given."""
        tasks = self.world.tasks().values()
        waiting = [(found.id, found.submission) for found in tasks if found.status == Status.PROVISIONAL]
        return (waiting[0][0], waiting[0][1].commit) if waiting and waiting[0][1] else (task, "first")

    @rule(kind=st.sampled_from([c.CancelTask, c.ReopenTask]), task=tasks, by=leaders, confined=st.booleans())
    def close_or_reopen(self, kind: type[c.CancelTask], task: str, by: str, confined: bool) -> None:
        self.ask(kind(task_id=task), by, confined=confined)

    @rule(task=tasks, by=leaders, others=st.lists(tasks, min_size=1, max_size=2))
    def defer(self, task: str, by: str, others: list[str]) -> None:
        self.ask(c.DeferTask(task_id=task, waits_for=tuple(others)), by)

    @rule(target=handoffs, task=tasks, by=leaders, to=anybody)
    def initiate(self, task: str, by: str, to: str) -> object:
        answer = self.ask(c.InitiateHandoff(task_id=task, target=to), by)
        return answer.task.claims.offers[-1].handoff_id if isinstance(answer, Acceptance) else multiple()

    @rule(handoff=handoffs, by=agents, as_target=mostly)
    def accept(self, handoff: str, by: str, as_target: bool) -> None:
        offers = [offer for task in self.world.tasks().values() for offer in task.claims.offers]
        if as_target and offers:
            handoff, by = offers[0].handoff_id, offers[0].target
        self.ask(c.AcceptHandoff(handoff_id=handoff, agent=by), by)

    @rule(handoff=handoffs, by=agents, commit=commits, as_holder=mostly)
    def complete(self, handoff: str, by: str, commit: str, as_holder: bool) -> None:
        claims = [task.claim for task in self.world.tasks().values() if task.claim]
        if as_holder and claims:
            handoff, by = claims[-1].handoff_id, claims[-1].agent
        self.ask(c.CompleteHandoff(handoff_id=handoff, agent=by, commit=commit), by)

    @rule(
        target=tasks, handoff=handoffs, by=agents, record=rejection_records(), named=tasks, as_holder=mostly
    )
    def reject_handoff(
        self, handoff: str, by: str, record: dict[str, object], named: str, as_holder: bool
    ) -> object:
        held = self.held()
        handoff, by = held[-1] if as_holder and held else (handoff, by)
        own = {"task_id", "handoff_id", "agent_id"} if as_holder else set()
        record = {name: value for name, value in with_dependency(record, named).items() if name not in own}
        answer = self.ask(c.RejectHandoff(handoff_id=handoff, agent=by, rejection=record), by)
        return self.created_by(answer)

    @rule(
        target=tasks,
        handoff=handoffs,
        by=leaders,
        decision=st.sampled_from(DECISIONS),
        created=st.lists(tasks, max_size=2),
        to=st.sampled_from(["", "", "", "Bob", "Tess", "stranger"]),
        as_asked=mostly,
    )
    def answer_rejection(
        self, *, handoff: str, by: str, decision: str, created: list[str], to: str, as_asked: bool
    ) -> object:
        filed = [
            task.rejections.last_rejection.handoff_id
            for task in self.world.tasks().values()
            if task.rejections.last_rejection
        ]
        ask = c.AnswerRejection(
            handoff_id=filed[-1] if as_asked and filed else handoff,
            decision=decision,
            created_tasks=tuple(created),
            reassign_to=to,
        )
        return self.created_by(self.ask(ask, by))

    @rule(handoff=handoffs, by=agents, as_filed=mostly)
    def appeal(self, handoff: str, by: str, as_filed: bool) -> None:
        filed = [one for task in self.world.tasks().values() if (one := task.rejections.last_rejection)]
        if as_filed and filed:
            handoff, by = filed[-1].handoff_id, filed[-1].agent
        self.ask(c.AppealRejection(handoff_id=handoff, agent=by, reason="It is right"), by)

    @rule(director=st.sampled_from(["auto", "human"]))
    def the_director_changes(self, director: str) -> None:
        self.world.rules = msgspec.structs.replace(
            self.world.rules, policy=Policy(director=(director,), clock_skew_seconds=SKEW)
        )

    def held(self) -> list[tuple[str, str]]:
        """The handoffs that agents have, and whose each is."""
        tasks = self.world.tasks().values()
        offers = [(offer.handoff_id, offer.target) for task in tasks for offer in task.claims.offers]
        return [*offers, *((task.claim.handoff_id, task.claim.agent) for task in tasks if task.claim)]

    def created_by(self, answer: Answer) -> object:
        """The tasks that an answer has brought about."""
        if isinstance(answer, Refused):
            return multiple()
        return multiple(*(event_task_id(event) for event in answer.events if isinstance(event, TaskAdded)))

    @rule(task=tasks, agent=agents, by=leaders)
    def lock_out(self, task: str, agent: str, by: str) -> None:
        self.ask(c.LockOut(task_id=task, agent=agent, reason="Because"), by)

    @rule(task=tasks, agent=agents, by=leaders, as_locked=mostly)
    def unlock(self, task: str, agent: str, by: str, as_locked: bool) -> None:
        locked = [
            (found.id, found.people.lockouts[0].agent)
            for found in self.world.tasks().values()
            if found.people.lockouts
        ]
        task, agent = locked[0] if as_locked and locked else (task, agent)
        self.ask(c.Unlock(task_id=task, agent=agent, reason="Because"), by)

    @rule(task=tasks, by=leaders, commit=commits, as_submitted=mostly)
    def approve(self, task: str, by: str, commit: str, as_submitted: bool) -> None:
        task, commit = self.handed_in(task) if as_submitted else (task, commit)
        self.ask(c.ApproveReview(task_id=task, commit=commit), by)

    @rule(
        task=tasks,
        by=leaders,
        commit=commits,
        as_submitted=mostly,
        findings=st.sampled_from(FINDINGS),
        source=st.sampled_from(["", "", "forge:1", "forge:2"]),
    )
    def reject(
        self,
        *,
        task: str,
        by: str,
        commit: str,
        as_submitted: bool,
        findings: tuple[Finding, ...],
        source: str,
    ) -> None:
        task, commit = self.handed_in(task) if as_submitted else (task, commit)
        self.ask(c.RejectReview(task_id=task, commit=commit, findings=findings, source=source), by)

    @rule(task=tasks, by=leaders, as_sent_back=mostly, which=st.integers(-1, 2))
    def retract(self, task: str, by: str, as_sent_back: bool, which: int) -> None:
        sent_back = [found for found in self.world.tasks().values() if found.standing_rounds]
        known = sent_back[0] if as_sent_back and sent_back else self.world.tasks().get(task)
        reviews = [review.id for one in known.reviews.rounds for review in one.reviews] if known else []
        name = reviews[which] if 0 <= which < len(reviews) else ""
        self.ask(c.RetractReview(task_id=known.id if known else task, reason="Because", review_id=name), by)

    @rule(task=tasks, by=leaders, reviewer=anybody, as_submitted=mostly)
    def request_review(self, task: str, by: str, reviewer: str, as_submitted: bool) -> None:
        task = self.handed_in(task)[0] if as_submitted else task
        self.ask(c.RequestReview(task_id=task, reviewer=reviewer), by)

    @rule(task=tasks, by=leaders, to=agents, source=st.sampled_from(["", "", "", "Alice"]))
    def reassign(self, task: str, by: str, to: str, source: str) -> None:
        self.ask(c.ReassignTask(task_id=task, target=to, source=source), by)

    @rule(task=tasks, by=anybody, as_holder=mostly)
    def escalate(self, task: str, by: str, as_holder: bool) -> None:
        task, by = self.claimed(task, by) if as_holder else (task, by)
        self.ask(c.EscalateTask(task_id=task, reason="What now?"), by)

    @rule(
        task=tasks,
        by=leaders,
        option=st.sampled_from(OPTIONS),
        guidance=st.sampled_from(["", "Look"]),
        as_asked=mostly,
    )
    def answer_escalation(self, *, task: str, by: str, option: str, guidance: str, as_asked: bool) -> None:
        asked = self.asked()
        task, by = (asked[0], "owner") if as_asked and asked else (task, by)
        self.ask(c.AnswerEscalation(task_id=task, option=option, guidance=guidance), by)

    @rule(task=tasks, by=leaders)
    def acknowledge(self, task: str, by: str) -> None:
        asked = self.asked()
        self.ask(c.AcknowledgeEscalation(task_id=asked[0] if asked else task), by)

    @rule(task=tasks, by=agents, as_holder=mostly)
    def read_feedback(self, task: str, by: str, as_holder: bool) -> None:
        task, by = self.claimed(task, by) if as_holder else (task, by)
        self.ask(c.FetchFeedback(task_id=task, agent=by), by)

    def asked(self) -> list[str]:
        """The tasks that wait for the user."""
        return [found.id for found in self.world.tasks().values() if found.open_escalation]

    # What happens meanwhile.

    @rule(seconds=st.sampled_from([1, 60, 600, 1000, 1800, -3600]))
    def time_passes(self, seconds: float) -> None:
        self.world.clock.advance(seconds)

    @rule()
    def git_takes_the_files(self) -> None:
        self.world.exchange.track()

    @rule(task=tasks, by=agents)
    def a_process_is_killed_and_its_command_repeated(self, task: str, by: str) -> None:
        self.keys += 1
        request = Request(command=c.ClaimTask(agent=by, task_id=task), actor=by, key=f"k{self.keys}")
        self.world.exchange.die_after_next_append()
        try:
            self.world.ledger.ask(request)
        except ProcessKilled:
            self.world.reopen()
            self.world.ledger.ask(request)
        self.world.exchange.die_after_next_append(False)

    # What holds at all times.

    @invariant()
    def folding_every_event_again_gives_the_same_tasks(self) -> None:
        with self.world.store.read() as view:
            for task in view.tasks.every():
                assert encoded(replay(task_events(view, task.id))) == encoded(task)

    @invariant()
    def a_task_has_one_holder_who_is_not_locked_out(self) -> None:
        for task in self.world.tasks().values():
            assert (task.claim is not None) == (task.status == Status.CLAIMED)
            assert task.claim is None or not task.is_locked_out(task.claim.agent)

    @invariant()
    def nobody_is_offered_a_task_that_they_are_locked_out_of(self) -> None:
        for task in self.world.tasks().values():
            assert not any(task.is_locked_out(offer.target) for offer in task.claims.offers), task

    @invariant()
    def rejections_are_counted_by_the_submissions_that_a_review_rejects_still(self) -> None:
        for task in self.world.tasks().values():
            standing = [
                one for one in task.reviews.rounds if any(not review.is_retracted for review in one.reviews)
            ]
            assert task.reviews.rejection_count == len(standing), task
            if self.is_alone:
                assert len({one.handoff_id for one in standing}) == len(standing), "counted twice"

    @invariant()
    def an_approval_counts_for_the_submission_it_names_alone(self) -> None:
        for task in self.world.tasks().values():
            if task.reviews.approved_commit:
                assert task.submission is not None
                assert task.submission.commit == task.reviews.approved_commit, task
                assert task.status == Status.DONE, task

    @invariant()
    def what_waits_for_the_user_has_a_question_with_a_choice(self) -> None:
        with self.world.store.read() as view:
            for task in view.tasks.every():
                assert (task.status == Status.ESCALATED) == (task.open_escalation is not None), task
                if task.open_escalation is not None:
                    found = escalation_options(task, [TEAM.actor(name) for name in AGENTS])
                    ways = [c.AnswerEscalation(task_id=task.id, option=option.key) for option in found]
                    least = 1 if task.gates_asked_about else 2
                    assert sum(self._may(view, task, way, "owner") for way in ways) >= least, task

    @invariant()
    def nobody_hands_in_work_without_having_read_what_was_said_of_it(self) -> None:
        with self.world.store.read() as view:
            for task in view.tasks.every():
                claim = task.claim
                if (
                    claim is not None
                    and claim.read < task.reviews.feedback
                    and task.people.fixer != claim.agent
                ):
                    ask = c.SubmitTask(task_id=task.id, agent=claim.agent, commit="first")
                    assert not self._may(view, task, ask, claim.agent), task

    @invariant()
    def no_task_vanishes_and_none_comes_from_nowhere(self) -> None:
        created = {event_task_id(event) for event in self.world.events() if isinstance(event, TaskAdded)}
        assert set(self.world.tasks()) == created
        assert len(created) >= self.written

    @invariant()
    def every_task_that_has_not_ended_has_a_way_out(self) -> None:
        with self.world.store.read() as view:
            for task in view.tasks.every():
                if not task.is_terminal:
                    has_way = view.dependencies.open_blockers(task.id) or self._is_due(view, task)
                    relaxed = update_task(task, skills=())
                    assert has_way or any(self._may(view, relaxed, *way) for way in ways_out(task)), task

    @invariant()
    def every_rejection_is_answered_or_can_be(self) -> None:
        if not self.is_alone:
            return
        with self.world.store.read() as view:
            for task in view.tasks.every():
                filed = task.rejections.last_rejection
                is_waiting = filed is not None and (filed.is_valid or filed.is_appealed)
                assert filed is None or is_waiting or filed.decision, "an invalid rejection waits"
                if filed is not None and not filed.decision and task.status == Status.BLOCKED:
                    ask = c.AnswerRejection(handoff_id=filed.handoff_id, decision="ACCEPT")
                    assert self._may(view, task, ask, "owner"), task

    @invariant()
    def nobody_keeps_a_task_after_too_many_invalid_rejections(self) -> None:
        limit = self.world.rules.policy.max_invalid_rejections
        unlocked = {event.agent for event in self.world.events() if isinstance(event, LockoutCleared)}
        for task in self.world.tasks().values() if self.is_alone else ():
            holder = task.claim.agent if task.claim else ""
            assert task.rejections.invalid_by.count(holder) < limit or holder in unlocked, task

    @invariant()
    def nothing_is_handed_in_that_no_release_of_that_very_code_precedes(self) -> None:
        with self.world.store.read() as view:
            for task in view.tasks.every():
                if task.status == Status.PROVISIONAL or task.reviews.approved_commit:
                    assert task.submission is not None
                    work = (task.submission.commit, task.submission.tree)
                    assert work in released_before(task, task_events(view, task.id)), task

    @invariant()
    def no_claim_goes_on_after_too_many_rejections_of_the_gates(self) -> None:
        limit = self.world.rules.policy.escalate_after_gates
        for task in self.world.tasks().values() if self.is_alone else ():
            if task.claim is not None:
                assert task.gates.progress.count < limit, task
                assert task.gates.progress.stalled < MAX_STALLED, task

    @invariant()
    def rejections_of_the_gates_are_counted_once_each(self) -> None:
        rejected = [event_task_id(event) for event in self.world.events() if isinstance(event, GateRejected)]
        for task in self.world.tasks().values() if self.is_alone else ():
            assert task.gates.rejection_count == rejected.count(task.id), task

    @invariant()
    def nobody_settles_what_was_found_in_their_own_work(self) -> None:
        questioned: set[tuple[str, str]] = set()
        for event in self.world.events() if self.is_alone else ():
            match event:
                case GateHeld() | GateRejected() | GatePassed() if event.verdict.suspicions:
                    questioned.add((event.task_id, event.agent))
                case FindingAccepted() | FindingRefused():
                    assert (event.task_id, event.reviewer) not in questioned, event

    @invariant()
    def the_next_task_is_the_first_one_the_agent_may_claim(self) -> None:
        with self.world.store.read() as view:
            if view.queue.due(self.world.clock.time):
                return
            for name in AGENTS:
                found = view.queue.next(TEAM.actor(name), has_team=True)
                claimable = [
                    task
                    for task in view.queue.ready()
                    if self._may(view, view.tasks.get(task), c.ClaimTask(agent=name, task_id=task), name)
                ]
                # The queue itself knows lockouts by name alone, and none from above a task or of who may be
                # the same under a name that the team has lost; `Handler` steps over those.
                first = view.tasks.get(found)
                ground = first and find_lockout(first, name, lockout_facts(view, TEAM, first))
                if ground is None or ground.own is not None:
                    assert found == (claimable[0] if claimable else "")

    @invariant()
    def making_everything_anew_changes_nothing(self) -> None:
        with suppress(Undone), self.world.store.write() as tx:
            before = tables(tx)
            rebuild_tables(tx)
            assert tables(tx) == before
            raise Undone

    def teardown(self) -> None:
        with self.world.store.read() as view:
            verifier = self.world.ledger.verifier(view)
            found = verify_log(
                view, self.world.exchange, self.world.marks, self.world.clock, verifier, skew=SKEW
            )
            lines = [*view.events.lines(), *view.group_doubts.lines()]
        assert [problem for problem in found.problems if "ledger" in problem.file] == []
        if self.is_alone:  # what others bring here keeps to no rule
            assert log_faults(lines) == []

    def _is_due(self, view: Transaction, task: Task) -> bool:
        return task.id in view.queue.due("9999-12-31T23:59:59.999999Z")

    def _may(self, view: Transaction, task: Task | None, ask: c.Command, by: str) -> bool:
        now = self.world.clock.time
        source = TaskSource(view, SignedTasks(), self.world.ledger.verifier(view))
        lookup = FactLookup(view, self.world.rules, self.world.ids, source)
        commit = self.world.repository.commit(getattr(ask, "commit", ""))
        facts = lookup.facts(ask, task, now, ExternalFacts(commit))
        return not isinstance(
            decide(task, c.CommandContext(command=ask, actor=TEAM.actor(by), at=now, facts=facts)), Refused
        )


def released_before(task: Task, events: list[Event]) -> set[tuple[str, str]]:
    """The commits and code trees that were released before the task's last work was handed in."""
    handed_in = [
        place
        for place, event in enumerate(events)
        if isinstance(event, TaskSubmitted | HandoffCompleted)
        and task.submission is not None
        and event.ts == task.submission.at
    ]
    return {
        (event.verdict.commit, event.verdict.tree)
        for event in events[: handed_in[-1]]
        if isinstance(event, GatePassed) and (event.verdict.allows_submission or event.is_observed)
    }


def ways_out(task: Task) -> Iterator[tuple[c.Command, str]]:
    """What somebody could ask to get a task on, short of giving it up; skills nobody has can be edited away."""
    for name in AGENTS:
        yield c.ClaimTask(agent=name, task_id=task.id), name
        yield c.ReleaseTask(agent=name, task_id=task.id), name
    for lockout in task.people.lockouts:
        yield c.Unlock(task_id=task.id, agent=lockout.agent, reason="Because"), "owner"
    yield c.ReopenTask(task_id=task.id), "owner"
    yield c.AnswerEscalation(task_id=task.id, option="fix"), "owner"
    if task.submission is not None:
        for name in ("owner", "Lea", "Tess"):
            yield c.ApproveReview(task_id=task.id, commit=task.submission.commit), name
            yield c.RejectReview(task_id=task.id, commit=task.submission.commit, findings=(LEAKS,)), name


def tables(tx: Transaction) -> tuple[object, ...]:
    names = ["#1", "#2", *{offer.handoff_id for task in tx.tasks.every() for offer in task.claims.offers}]
    return (
        [encoded(task) for task in tx.tasks.every()],
        tx.queue.ready(),
        set(tx.queue.due("9999-12-31T23:59:59.999999Z")),
        {name: tx.names.find_task_id(name) for name in names},
        {task.id: tx.dependencies.open_blockers(task.id) for task in tx.tasks.every()},
    )


def goes_on_here(event: Event) -> bool:
    """False for events after which nothing is accepted here: of a log that goes on in another ledger, or of a task whose
    archived lines have to be fetched first.
    """
    return not isinstance(event, MoveBegun | LedgerMoved | TaskArchived)


class MergingLifecycle(Lifecycle):
    """The same with others, who write about the same tasks without asking."""

    tasks = Lifecycle.tasks
    is_alone = False

    def __init__(self) -> None:
        super().__init__()
        self.others = [Session("20261115-080000-aaaaaaaa", self.world.clock)]
        self.others.append(Session("20261115-080000-bbbbbbbb"))
        self.forger = Session("20261115-080000-cccccccc", self.world.clock, keys=None)

    @rule(who=st.integers(0, 1), task=tasks, other=tasks, event=native_events().filter(goes_on_here))
    def others_write(self, who: int, task: str, other: str, event: Event) -> None:
        session = self.others[who]
        session.write(about(event, task, other))
        self.world.exchange.put(f"/events/{session.name}.jsonl", session.lines)
        self.world.ledger.refresh()

    @rule(task=tasks, by=agents, names=st.tuples(*[st.sampled_from(COMMITS)] * 2), has_verdict=st.booleans())
    def others_forge_a_done_claim(
        self, task: str, by: str, names: tuple[str, str], has_verdict: bool
    ) -> None:
        """Under a claim there is, once one commit was released, with its code tree and perhaps another commit."""
        task, by = self.claimed(task, by)
        self.record(task, by, names[0], RESULTS[0])
        claim, commits = self.world.task(task).claim, self.world.repository.commits
        own = {"task_id": task, "handoff_id": claim.handoff_id if claim else "", "agent": by}
        work = {"commit": commits[names[1]].sha, "tree": commits[names[0]].tree}
        forged = [
            *([GatePassed(**own, verdict=a_verdict(**work))] if has_verdict else []),
            TaskSubmitted(**own, **work),
            ReviewApproved(task_id=task, reviewer="owner", **work),
        ]
        for event in forged:
            self.forger.write(event)
        self.world.exchange.put(f"/events/{self.forger.name}.jsonl", self.forger.lines)
        self.world.ledger.refresh()


def about(event: Event, task: str, other: str) -> Event:
    """The event, about tasks there are."""
    match event:
        case TaskAdded() | TaskEdited() | TaskDeleted():
            return replace(event, id=task_node_id(task))
        case EdgeCreated() | EdgeDeleted():
            return replace(event, src=task_node_id(task), tgt=task_node_id(other))
        case TaskDeferred():
            return replace(event, task_id=task, waits_for=(other,))
        case TaskDecomposed():
            return replace(event, task_id=task, children=(other,))
        case TaskEvent(handoff_id=str(handoff)) if handoff:
            # A handoff belongs to one task, whoever writes.
            return replace(event, task_id=task, handoff_id=f"{handoff[:-8]}{task[-8:]}")
        case TaskEvent():
            return replace(event, task_id=task)
    return event


TestLifecycle = Lifecycle.TestCase
TestMergingLifecycle = MergingLifecycle.TestCase
# Most of what is asked is refused, so that a life takes more asks than other properties take examples.
TestLifecycle.settings = TestMergingLifecycle.settings = settings(
    max_examples=2 * settings.default.max_examples
)

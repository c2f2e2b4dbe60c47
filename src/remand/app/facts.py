"""The facts that are looked up before a command can be decided."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from remand.app import rejection_facts
from remand.app.events.missing_lines import missing_for_task
from remand.app.events.task_folds import TaskSource
from remand.app.inbox import objections
from remand.app.ports import Commit, CommitDifference, Ids, RejectionChecks, Repository
from remand.app.requests import Rules
from remand.app.tasks.lookup import Lineage, may_be_locked_out
from remand.app.tasks.queue import free_capacity
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import Actor, Role, Team
from remand.domain.decisions.findings import conflicting_tasks
from remand.domain.decisions.forge_actions import allowed_actions
from remand.domain.events.log import MissingLines
from remand.domain.gate.control_files import ControlChange
from remand.domain.gate.verdict import RUNNER_GATE
from remand.domain.instant import Instant
from remand.domain.policy import IGNORE
from remand.domain.record import NamedTuple
from remand.domain.task import Objection, Task
from remand.ledger.store import Transaction


class GateTerms(NamedTuple):
    """The gates that hold for a commit, where they are not those of the base as it is now."""

    gates: tuple[str, ...] | None
    digest: str


UNKNOWN_TERMS = GateTerms((RUNNER_GATE,), "?")
"""Where nobody can tell which gates hold: no verdict was given by such rules, so nothing is released by them."""


class ExternalFacts(NamedTuple):
    """What was looked up outside the ledger before it was locked."""

    commit: Commit | None = None
    looked_up: RejectionChecks | None = None
    terms: GateTerms | None = None
    difference: CommitDifference | None = None
    head_tree: str = ""
    same_change: str = ""
    control: tuple[ControlChange, ...] = ()
    on_branch: bool | None = None


NO_EXTERNAL_FACTS = ExternalFacts()


def is_on_branch(repository: Repository, branch: str, commit: Commit) -> bool | None:
    """Whether a branch has a commit, or the very same code at its tip; None when there is no such branch."""
    found = repository.has_commit(branch, commit.sha) if branch else None
    tip = repository.commit(f"refs/heads/{branch}") if found is False else None
    return True if tip is not None and tip.tree == commit.tree else found


class FactLookup:
    """Gathers the facts of an ask from the ledger, the rules and the repository."""

    def __init__(self, tx: Transaction, rules: Rules, id_source: Ids, source: TaskSource) -> None:
        self._tx = tx
        self._rules = rules
        self._ids = id_source
        self._source = source
        self._family = Lineage(tx, source.get)

    def with_team(self, team: Team) -> FactLookup:
        """The same with the team's members by other names."""
        return FactLookup(self._tx, replace(self._rules, team=team), self._ids, self._source)

    def facts(self, ask: c.Ask, task: Task | None, now: Instant, seen: ExternalFacts) -> c.Facts:
        """Everything `decide` may want to know besides the task."""
        commit = seen.commit
        facts = c.Facts(
            lease_seconds=self._rules.policy.lease_seconds,
            has_team=self._rules.team.has_members,
            members=self._rules.team.member_names,
            may_be=may_be_locked_out(self._tx, self._rules.team, task) if task else (),
            gates=seen.terms.gates if seen.terms else self._rules.gates,
            policy=seen.terms.digest if seen.terms else self._rules.gates_digest,
            base=self._rules.base,
            commit=commit.sha if commit else "",
            tree=commit.tree if commit else "",
            patch=seen.difference.patch if seen.difference else "",
            changed=seen.difference.paths if seen.difference else None,
            head_tree=seen.head_tree,
            same_change=seen.same_change,
            control=seen.control,
            on_branch=seen.on_branch,
            base_branch=self._rules.base_branch,
            deadline_seconds=self._rules.policy.deadline_seconds,
            inherited=self._family.inherited_lockouts(task) if task and task.links.parent else (),
            open_blockers=self.open_blockers(task) if task and task.blockers else (),
            missing=self.missing_lines(task) if task else (),
        )
        match ask:
            case c.ClaimTask():
                agents = () if task else self._agents()
                return replace(facts, fresh_handoff_id=self._fresh_handoff(now), agents=agents)
            case c.AddTask():
                fresh = self._fresh_task(now)
                return replace(
                    facts, fresh_task_id=fresh, **self._link_facts(ask.depends_on, ask.aliases, task)
                )
            case c.EditTask():
                links = self._link_facts(ask.depends_on, ask.aliases or (), task)
                return replace(facts, **links, **self._other_owners("", ask.pr or 0, task))
            case c.SubmitTask() | c.CompleteHandoff():
                return replace(
                    facts,
                    **self._other_owners(facts.commit, ask.pr, task),
                    branch_of=self._branch_of(ask, task),
                    is_enforced=self._rules.is_enforced,
                )
            case c.DeferTask():
                waits = tuple(name for name in ask.waits_for if self._is_open(name))
                return replace(facts, **self._link_facts(ask.waits_for, (), task) | {"open_blockers": waits})
            case c.InitiateHandoff() | c.AssignTask() | c.RequestReview() | c.StartRun():
                return replace(
                    facts,
                    fresh_handoff_id=self._fresh_handoff(now),
                    is_handoff_taken=self._is_handoff_taken(ask),
                    target=self._member(_member_named(ask)),
                )
            case (
                c.LockOut()
                | c.Unlock()
                | c.RejectReview()
                | c.RetractReview()
                | c.ReassignTask()
                | c.AnswerEscalation()
                | c.ReopenTask()
                | c.CheckStaff()
            ):
                return replace(facts, **self._staff_facts(ask, task, now))
            case c.RejectHandoff() if task:
                return replace(facts, **self._filing_facts(ask, task, now, seen))
            case c.AnswerRejection() if task:
                return replace(facts, **self._answer_facts(ask, task, now))
            case _:
                return replace(facts, **self._policy_facts(ask, task))

    def missing_lines(self, task: Task) -> tuple[MissingLines, ...]:
        """The lines that are missing and may be about a task, or about one that it was cut from."""
        found = missing_for_task(self._tx, task, self._family)
        known = {one.id for one in found}
        family = (task, *self._family.ancestors(task))
        signed = (lines for one in family for lines in self._source.missing_events(one.id))
        return (*found, *(one for one in signed if one.id not in known))

    def open_blockers(self, task: Task) -> tuple[str, ...]:
        """What a task still waits for. What the queue says is over must be over by that task's own events."""
        waited = self._tx.queue.open_blockers(task.id)
        return tuple(name for name in dict.fromkeys(task.blockers) if self._is_blocking(task, name, waited))

    def _is_blocking(self, task: Task, name: str, waited: tuple[str, ...]) -> bool:
        blocker = self._source.get(name)
        if blocker is not None and blocker.is_terminal:
            return False
        # A dependency that closes a circle does not count: the two would wait for each other.
        return name in waited or not self._tx.queue.path(name, task.id)

    def _outage_facts(self, task: Task | None) -> dict[str, Any]:
        """What is known of gates that could not be measured for other tasks."""
        others = [one for one in self._tx.tasks.with_outages() if task is None or one.id != task.id]
        return {
            "outages": tuple(outage for one in others for outage in one.gates.outages),
            "asked_gates": tuple(gate for one in others for gate in one.gates_asked_about),
        }

    def _policy_facts(self, ask: c.Ask, task: Task | None) -> dict[str, Any]:
        """What the policy says to an ask."""
        policy = self._rules.policy
        match ask:
            case c.WaitTask():
                return {"closed_tasks": self._closed_tasks(ask.reason)}
            case c.RecordVerdict() | c.SettleFinding():
                return {
                    "is_enforced": self._rules.is_enforced,
                    "alert_after_gates": policy.alert_after_gates,
                    "escalate_after_gates": policy.escalate_after_gates,
                    **(self._outage_facts(task) if isinstance(ask, c.RecordVerdict) else {}),
                }
            case c.CountIdleStop():
                return {"escalate_after_gates": policy.escalate_after_gates}
            case c.NoteGatesMeasured():
                return self._outage_facts(task)
            case c.ApproveReview():
                return {"objections": self._blocking_objections(task)}
            case c.DismissObjections():
                return {"objections": self._dismissed_objections(ask, task)}
            case c.IntendAct():
                return {"acts": allowed_actions(policy)}
            case c.EndRun():
                return {"budget": policy.budget, "max_faults": policy.max_faults}
            case c.FailTask():
                return {"max_invalid_rejections": policy.max_invalid_rejections}
            case _:
                return {}

    def _blocking_objections(self, task: Task | None) -> tuple[Objection, ...]:
        """The objections under keys that are not trusted which the user has to answer before the work is approved."""
        if task is None or self._rules.policy.unconfirmed_no == IGNORE:
            return ()
        # What it needs to quote events is loaded with the first approval.
        return objections.blocking_objections(self._tx, task)

    def _dismissed_objections(self, ask: c.DismissObjections, task: Task | None) -> tuple[Objection, ...]:
        """The objections that the user dismisses."""
        return objections.objections_answered_by(self._tx, task, ask.signer) if task else ()

    def _staff_facts(self, ask: c.Ask, task: Task | None, now: Instant) -> dict[str, Any]:
        """Who may take a task over, and by which rules."""
        policy, team = self._rules.policy, self._rules.team
        target = getattr(ask, "target", "") or getattr(ask, "option", "").partition(":")[2]
        return {
            "agents": self._agents(),
            "room": free_capacity(self._tx, team, now) if isinstance(ask, c.RejectReview) else (),
            "target": self._member(target),
            "lockout_after": policy.lockout_after,
            "escalate_after_reviews": policy.escalate_after_reviews,
            "heirs": self._family.descendant_lockouts(task) if task else (),
            "fresh_handoff_id": self._fresh_handoff(now),
            "fresh_review_id": ids.make_id("V", now, self._ids.hex()),
            "objections": self._blocking_objections(task) if getattr(ask, "option", "") == "accept" else (),
        }

    def _agents(self) -> tuple[Actor, ...]:
        """The members of the team that are agents, in its order."""
        actors = map(self._rules.team.actor, (member.name for member in self._rules.team.members))
        return tuple(actor for actor in actors if Role.AGENT in actor.roles)

    def _member(self, name: str) -> Actor | None:
        return self._rules.team.actor(name) if name else None

    def _filing_facts(
        self, ask: c.RejectHandoff, task: Task, now: Instant, seen: ExternalFacts
    ) -> dict[str, Any]:
        """What a rejection is held against. Its module reads much, so it is loaded with the first one."""
        return {
            **rejection_facts.RejectionLookup(
                self._tx, self._rules, lambda: self._fresh_task(now)
            ).filing_facts(ask, task, now, seen.looked_up),
            "fresh_rejection_id": ids.make_id("R", now, self._ids.hex()),
            "fresh_handoff_id": self._fresh_handoff(now),
        }

    def _answer_facts(self, ask: c.AnswerRejection, task: Task, now: Instant) -> dict[str, Any]:
        return {
            **rejection_facts.RejectionLookup(
                self._tx, self._rules, lambda: self._fresh_task(now)
            ).answer_facts(ask, task),
            **self._link_facts(ask.created_tasks, (), task),
            "open_blockers": tuple(name for name in ask.created_tasks if self._is_open(name)),
            "fresh_handoff_id": self._fresh_handoff(now),
        }

    def _other_owners(self, commit: str, pr: int, task: Task | None) -> dict[str, str]:
        """The other tasks that a commit and a pull request belong to."""
        others = (
            conflicting_tasks(task, self._tx.tasks.find_submitted(commit, pr))
            if task and (commit or pr)
            else ()
        )
        of_pr = next((other.id for other in others if pr and other.pr == pr), "")
        of_commit = next((one.id for one in others if one.submission and one.submission.commit == commit), "")
        return {"pr_of": of_pr, "commit_of": of_commit}

    def _branch_of(self, ask: c.SubmitTask | c.CompleteHandoff, task: Task | None) -> str:
        """Another open task that has a branch that is named for this one; tasks cut from one another may share it."""
        if task is None or not ask.is_branch_given or ask.branch == task.branch:
            return ""
        related = {task.id, *(above.id for above in self._family.ancestors(task))}
        named = (
            one
            for one in self._tx.tasks.every()
            if one.branch == ask.branch and not related & {one.id, one.links.parent} and not one.is_terminal
        )
        return next((one.id for one in conflicting_tasks(task, named)), "")

    def _link_facts(
        self, others: tuple[str, ...], aliases: tuple[str, ...], task: Task | None
    ) -> dict[str, Any]:
        """Which of the named tasks are unknown, which aliases are taken, and which circle would be closed."""
        own = task.id if task else ""
        owners = {alias: self._tx.tasks.find_task_id(alias) for alias in aliases}
        paths = (self._tx.queue.path(other, own) for other in others) if task else ()
        return {
            "unknown_tasks": tuple(name for name in others if self._tx.tasks.get(name) is None),
            "taken_aliases": tuple(alias for alias, owner in owners.items() if owner not in ("", own)),
            "cycle": next(((own, *path) for path in paths if path), ()),
        }

    def _closed_tasks(self, text: str) -> tuple[str, ...]:
        """The tasks a text names that are not open; none as long as one of them is."""
        named = ids.find_task_ids(text)
        closed = tuple(name for name in named if not self._is_open(name))
        return closed if len(closed) == len(named) else ()

    def _is_open(self, task_id: str) -> bool:
        task = self._source.get(task_id)
        return task is not None and not task.is_terminal

    def _fresh_handoff(self, now: Instant) -> str:
        """A new handoff id that no handoff here has."""
        while self._tx.tasks.find_task_id(name := ids.make_id("H", now, self._ids.hex())):
            continue
        return name

    def _is_handoff_taken(self, ask: c.Ask) -> bool:
        """True when an ask names an id for a new handoff that another has."""
        chosen = ids.parse_handoff_id(ask.own_id) if isinstance(ask, c.InitiateHandoff) else None
        return bool(chosen and self._tx.tasks.find_task_id(chosen))

    def _fresh_task(self, now: Instant) -> str:
        """A new task id that no task here has."""
        while self._tx.tasks.get(name := ids.make_id("T", now, self._ids.hex())):
            continue
        return name


def _member_named(ask: c.InitiateHandoff | c.AssignTask | c.RequestReview | c.StartRun) -> str:
    """The member an ask is about."""
    match ask:
        case c.InitiateHandoff():
            return ask.target
        case c.RequestReview():
            return ask.reviewer
        case _:
            return ask.agent

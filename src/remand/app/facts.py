"""Looks up the facts that a decision needs."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec.structs import replace

from remand.app import rejection_facts
from remand.app.events.missing_lines import missing_for_task
from remand.app.events.task_folds import TaskSource
from remand.app.history import undo
from remand.app.inbox import objections
from remand.app.ports import Commit, CommitDifference, Ids, RejectionChecks, Repository
from remand.app.requests import Rules
from remand.app.tasks.lookup import Lineage, lockout_facts
from remand.app.tasks.queue import free_capacity
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import Actor, Role, Team
from remand.domain.decide import RULES, FactKind
from remand.domain.decisions.findings import conflicting_tasks
from remand.domain.decisions.forge_actions import allowed_actions
from remand.domain.events.log import MissingLines
from remand.domain.facts import Facts, GateFacts, TeamFacts, WorkFacts, update_facts
from remand.domain.gate.control_files import ControlChange
from remand.domain.gate.verdict import RUNNER_GATE
from remand.domain.instant import Instant
from remand.domain.policy import IGNORE
from remand.domain.preconditions import MAX_NUMBER
from remand.domain.record import NamedTuple
from remand.domain.task import Task
from remand.ledger.store import Transaction


class GateTerms(NamedTuple):
    """The gates that apply to a commit, if they differ from those of the current base."""

    gates: tuple[str, ...] | None
    digest: str


UNKNOWN_TERMS = GateTerms((RUNNER_GATE,), "?")
"""For when the applicable gates cannot be determined: no verdict matches these rules, so none releases the work."""


class ExternalFacts(NamedTuple):
    """Facts that were looked up outside the ledger before it was locked."""

    commit: Commit | None = None
    looked_up: RejectionChecks | None = None
    terms: GateTerms | None = None
    difference: CommitDifference | None = None
    head_tree: str = ""
    same_change: str = ""
    control: tuple[ControlChange, ...] = ()
    on_branch: bool | None = None


NO_EXTERNAL_FACTS = ExternalFacts()
_WITH_COMMIT = frozenset(kind for kind in RULES if "commit" in kind.__struct_fields__)


def may_need_external_facts(command: c.Command) -> bool:
    """True for a rejection, whose evidence is checked, and for a command that names a commit."""
    kind = type(command)
    return kind is c.RejectHandoff or (kind in _WITH_COMMIT and bool(getattr(command, "commit", "")))


def is_on_branch(repository: Repository, branch: str, commit: Commit) -> bool | None:
    """Whether a branch contains a commit, or has the same code at its tip; None if there is no such branch."""
    found = repository.has_commit(branch, commit.sha) if branch else None
    tip = repository.commit(f"refs/heads/{branch}") if found is False else None
    return True if tip is not None and tip.tree == commit.tree else found


class Inquiry(NamedTuple):
    """The command, task and time that facts are looked up for."""

    command: c.Command
    task: Task | None
    now: Instant
    seen: ExternalFacts


_new_inquiry: Callable[[tuple[c.Command, Task | None, Instant, ExternalFacts]], Inquiry] = partial(
    tuple.__new__, Inquiry
)


class FactLookup:
    """Gathers the facts for a command from the ledger, the rules and the repository."""

    def __init__(self, tx: Transaction, rules: Rules, id_source: Ids, source: TaskSource) -> None:
        self._tx = tx
        self._rules = rules
        self._ids = id_source
        self._source = source
        self._lineage = Lineage(tx, source.get)
        self._plain: Facts | None = None
        """The facts of every command that needs none from outside the ledger."""
        self.begin()

    def begin(self) -> None:
        """Begins another change, in which lines may have arrived."""
        self._last_missing: tuple[Task | None, tuple[MissingLines, ...]] = (None, ())
        """The task that was looked at last: the next one in the queue is looked at twice."""

    def with_team(self, team: Team) -> FactLookup:
        """The same, with other names for the team's members."""
        return FactLookup(self._tx, replace(self._rules, team=team), self._ids, self._source)

    def facts(
        self, command: c.Command, task: Task | None, now: Instant, external_facts: ExternalFacts
    ) -> Facts:
        """Everything that `decide` may need besides the task."""
        if external_facts is not NO_EXTERNAL_FACTS:
            facts = self._facts_without_task(external_facts)
        elif self._plain is None:
            facts = self._plain = self._facts_without_task(external_facts)
        else:
            facts = self._plain
        changes = {} if task is None else self._task_facts(task)
        lookups = _LOOKUPS_OF[type(command)]
        if lookups:
            inquiry = _new_inquiry((command, task, now, external_facts))
            for look_up in lookups:
                changes |= look_up(self, inquiry)
        return update_facts(facts, **changes) if changes else facts

    def actions(self, _: Inquiry) -> dict[str, Any]:
        """What the policy permits on the forge."""
        return {"forge_actions": allowed_actions(self._rules.policy)}

    def _facts_without_task(self, facts: ExternalFacts) -> Facts:
        rules, commit, difference = self._rules, facts.commit, facts.difference
        return Facts(
            policy=rules.policy,
            team=TeamFacts(has_team=rules.team.has_members, members=rules.team.member_names),
            work=WorkFacts(
                base=rules.base,
                base_branch=rules.base_branch,
                commit=commit.sha if commit else "",
                tree=commit.tree if commit else "",
                patch=difference.patch if difference else "",
                changed=difference.paths if difference else None,
                head_tree=facts.head_tree,
                same_change=facts.same_change,
                control=facts.control,
                on_branch=facts.on_branch,
            ),
            gate_rules=GateFacts(
                gates=facts.terms.gates if facts.terms else rules.gates,
                gates_digest=facts.terms.digest if facts.terms else rules.gates_digest,
                is_enforced=rules.is_enforced,
            ),
        )

    def _task_facts(self, task: Task) -> dict[str, Any]:
        """Facts about a task that are not part of its own state."""
        found: dict[str, Any] = {}
        links = task.links
        if links.parent or task.people.lockouts:
            lockouts = lockout_facts(self._tx, self._rules.team, task, self._lineage)
            found["inherited"] = lockouts.inherited
            found["possible_identities"] = lockouts.possible_identities
        if links.depends_on or links.waits_for or links.children:
            found["open_blockers"] = self.open_blockers(task)
        missing = self.missing_lines(task)
        if missing:
            found["missing"] = missing
        return found

    def missing_lines(self, task: Task) -> tuple[MissingLines, ...]:
        """Missing lines that may concern a task or one of its ancestors."""
        if task is self._last_missing[0]:
            return self._last_missing[1]
        missing = self._missing_lines(task)
        self._last_missing = (task, missing)
        return missing

    def _missing_lines(self, task: Task) -> tuple[MissingLines, ...]:
        missing = missing_for_task(self._tx, task, self._lineage)
        if not self._source.missing:
            return missing
        known = {one.id for one in missing}
        lineage = (task, *self._lineage.ancestors(task))
        signed = (lines for one in lineage for lines in self._source.missing.get(one.id, ()))
        return (*missing, *(one for one in signed if one.id not in known))

    def open_blockers(self, task: Task) -> tuple[str, ...]:
        """The dependencies of a task that are still open. One counts as ended only if its own events say so."""
        waited = self._tx.dependencies.open_blockers(task.id)
        return tuple(name for name in dict.fromkeys(task.blockers) if self._is_blocking(task, name, waited))

    def _is_blocking(self, task: Task, name: str, waited: tuple[str, ...]) -> bool:
        blocker = self._source.get(name)
        if blocker is not None and blocker.is_terminal:
            return False
        # A dependency that closes a cycle is ignored; otherwise both tasks would wait forever.
        return name in waited or not self._tx.dependencies.path(name, task.id)

    def outages(self, inquiry: Inquiry) -> dict[str, Any]:
        """Gates that could not run for other tasks."""
        task = inquiry.task
        others = [one for one in self._tx.task_lists.with_outages() if task is None or one.id != task.id]
        return {
            "outages": tuple(outage for one in others for outage in one.gates.outages),
            "asked_gates": tuple(gate for one in others for gate in one.gates_asked_about),
        }

    def blocking_objections(self, inquiry: Inquiry) -> dict[str, Any]:
        """Objections signed by untrusted keys that the user must answer before the work can be approved."""
        if inquiry.task is None or self._rules.policy.unconfirmed_no == IGNORE:
            return {}
        # The modules for quoting events are loaded with the first approval.
        return {"objections": objections.blocking_objections(self._tx, inquiry.task)}

    def dismissed_objections(self, inquiry: Inquiry) -> dict[str, Any]:
        """The objections that the user dismisses."""
        task, signer = inquiry.task, getattr(inquiry.command, "signer", "")
        return {"objections": objections.objections_answered_by(self._tx, task, signer)} if task else {}

    def undo(self, inquiry: Inquiry) -> dict[str, Any]:
        """What can be undone for the task; reopening needs no such fact."""
        task, command = inquiry.task, inquiry.command
        if task is None or (isinstance(command, c.ReopenTask) and not task.is_terminal):
            return {}
        return {"undo": undo.undo_facts(self._tx, task)}

    def staff(self, inquiry: Inquiry) -> dict[str, Any]:
        """Who may take over a task, and under which rules."""
        command, task, now, _ = inquiry
        option = getattr(command, "option", "")
        return {
            "agents": self._agents(),
            "target": self._member(getattr(command, "target", "") or option.partition(":")[2]),
            "descendants": self._lineage.descendant_lockouts(task) if task else (),
            "handoff_id": self._fresh_handoff(now),
            "review_id": ids.make_id("V", now, self._ids.hex()),
            **(self.blocking_objections(inquiry) if option == "accept" else {}),
        }

    def capacity(self, inquiry: Inquiry) -> dict[str, Any]:
        return {"free_capacity": free_capacity(self._tx, self._rules.team, inquiry.now)}

    def claimants(self, inquiry: Inquiry) -> dict[str, Any]:
        """The agents, to name them if there is no task for the caller."""
        return {} if inquiry.task else {"agents": self._agents()}

    def _agents(self) -> tuple[Actor, ...]:
        """The agents of the team, in its order."""
        actors = map(self._rules.team.actor, (member.name for member in self._rules.team.members))
        return tuple(actor for actor in actors if Role.AGENT in actor.roles)

    def _member(self, name: str) -> Actor | None:
        return self._rules.team.actor(name) if name else None

    def rejection(self, inquiry: Inquiry) -> dict[str, Any]:
        """What a rejection is compared with. Its module loads much, so it is imported with the first rejection."""
        command, task, now, facts = inquiry
        if task is None or not isinstance(command, c.RejectHandoff):
            return {}
        lookup = rejection_facts.RejectionLookup(self._tx, self._rules, lambda: self._fresh_task(now))
        return {
            **lookup.filing_facts(command, task, now, facts.looked_up),
            "rejection_id": ids.make_id("R", now, self._ids.hex()),
            "handoff_id": self._fresh_handoff(now),
        }

    def answer(self, inquiry: Inquiry) -> dict[str, Any]:
        """The rejection that is answered or appealed, and what the answer refers to."""
        command, task, now, _ = inquiry
        if task is None or not isinstance(command, c.AnswerRejection | c.AppealRejection):
            return {}
        lookup = rejection_facts.RejectionLookup(self._tx, self._rules, lambda: self._fresh_task(now))
        if isinstance(command, c.AppealRejection):
            return lookup.appeal_facts(task)
        return {
            **lookup.answer_facts(command, task),
            **self._link_facts(command.created_tasks, (), task),
            "open_blockers": tuple(name for name in command.created_tasks if self._is_open(name)),
            "handoff_id": self._fresh_handoff(now),
        }

    def owners(self, inquiry: Inquiry) -> dict[str, Any]:
        """Other tasks that own a commit, a pull request or a branch."""
        command, task, _, facts = inquiry
        is_edit = isinstance(command, c.EditTask)
        pr = getattr(command, "pr", 0) or 0
        # The largest integer a store accepts; the decision refuses larger numbers.
        pr = pr if 0 < pr < MAX_NUMBER else 0
        commit = facts.commit.sha if facts.commit and not is_edit else ""
        others = (
            conflicting_tasks(task, self._tx.names.find_submitted(commit, pr))
            if task and (commit or pr)
            else ()
        )
        return {
            "pr_of": next((one.id for one in others if pr and one.pr == pr), ""),
            "commit_of": next(
                (one.id for one in others if one.submission and one.submission.commit == commit), ""
            ),
            "branch_of": "" if is_edit else self._branch_of(command, task),
        }

    def _branch_of(self, command: c.Command, task: Task | None) -> str:
        """Another open task that uses the branch named for this one; tasks split from one another may share it."""
        branch = getattr(command, "branch", "")
        if task is None or not getattr(command, "is_branch_given", False) or branch == task.branch:
            return ""
        related = {task.id, *(above.id for above in self._lineage.ancestors(task))}
        named = (
            one
            for one in self._tx.tasks.every()
            if one.branch == branch and not related & {one.id, one.links.parent} and not one.is_terminal
        )
        return next((one.id for one in conflicting_tasks(task, named)), "")

    def links(self, inquiry: Inquiry) -> dict[str, Any]:
        """The tasks and aliases that a command links its task to."""
        command = inquiry.command
        others = getattr(command, "waits_for", ()) or getattr(command, "depends_on", ())
        aliases = getattr(command, "aliases", ())
        return self._link_facts(others, aliases or (), inquiry.task) if others or aliases else {}

    def _link_facts(
        self, others: tuple[str, ...], aliases: tuple[str, ...], task: Task | None
    ) -> dict[str, Any]:
        """The unknown tasks, the aliases already in use, and the cycle that would be closed."""
        own = task.id if task else ""
        owners = {alias: self._tx.names.find_task_id(alias) for alias in aliases}
        paths = (self._tx.dependencies.path(other, own) for other in others) if task else ()
        return {
            "unknown_tasks": tuple(name for name in others if self._tx.tasks.get(name) is None),
            "taken_aliases": tuple(alias for alias, owner in owners.items() if owner not in ("", own)),
            "cycle": next(((own, *path) for path in paths if path), ()),
        }

    def deferral(self, inquiry: Inquiry) -> dict[str, Any]:
        """The open tasks among those that a task is deferred for."""
        waits_for = getattr(inquiry.command, "waits_for", ())
        return {"open_blockers": tuple(name for name in waits_for if self._is_open(name))}

    def waited_tasks(self, inquiry: Inquiry) -> dict[str, Any]:
        """The tasks that a text names, if none of them is open; otherwise none."""
        named = ids.find_task_ids(getattr(inquiry.command, "reason", ""))
        closed = tuple(name for name in named if not self._is_open(name))
        return {"closed_tasks": closed if len(closed) == len(named) else ()}

    def _is_open(self, task_id: str) -> bool:
        task = self._source.get(task_id)
        return task is not None and not task.is_terminal

    def new_task(self, inquiry: Inquiry) -> dict[str, Any]:
        return {"task_id": self._fresh_task(inquiry.now)}

    def new_handoff(self, inquiry: Inquiry) -> dict[str, Any]:
        """An unused handoff id, and whether the requested id is taken."""
        command = inquiry.command
        found: dict[str, Any] = {"handoff_id": self._fresh_handoff(inquiry.now)}
        chosen = ids.parse_handoff_id(command.own_id) if isinstance(command, c.InitiateHandoff) else None
        if chosen and self._tx.names.find_task_id(chosen):
            found["is_handoff_taken"] = True
        return found

    def member(self, inquiry: Inquiry) -> dict[str, Any]:
        """The member that a command concerns: the last one it names."""
        command = inquiry.command
        return {"target": self._member(getattr(command, RULES[type(command)].names[-1]))}

    def _fresh_handoff(self, now: Instant) -> str:
        """A new handoff id that is not in use."""
        while not self._tx.names.is_new_handoff(name := ids.make_id("H", now, self._ids.hex())):
            continue
        return name

    def _fresh_task(self, now: Instant) -> str:
        """A new task id that is not in use."""
        while self._tx.tasks.get(name := ids.make_id("T", now, self._ids.hex())):
            continue
        self._source.expect_task(name)
        return name


LOOKUPS: dict[FactKind, Callable[[FactLookup, Inquiry], dict[str, Any]]] = {
    FactKind.NEW_TASK: FactLookup.new_task,
    FactKind.NEW_HANDOFF: FactLookup.new_handoff,
    FactKind.CLAIMANTS: FactLookup.claimants,
    FactKind.LINKS: FactLookup.links,
    FactKind.OWNERS: FactLookup.owners,
    FactKind.DEFERRAL: FactLookup.deferral,
    FactKind.WAITED_TASKS: FactLookup.waited_tasks,
    FactKind.MEMBER: FactLookup.member,
    FactKind.STAFF: FactLookup.staff,
    FactKind.CAPACITY: FactLookup.capacity,
    FactKind.REJECTION: FactLookup.rejection,
    FactKind.ANSWER: FactLookup.answer,
    FactKind.OUTAGES: FactLookup.outages,
    FactKind.OBJECTIONS: FactLookup.blocking_objections,
    FactKind.DISMISSED: FactLookup.dismissed_objections,
    FactKind.UNDO: FactLookup.undo,
    FactKind.ACTIONS: FactLookup.actions,
}
_LOOKUPS_OF = {kind: tuple(LOOKUPS[need] for need in rule.needs) for kind, rule in RULES.items()}
"""The lookups for each command."""

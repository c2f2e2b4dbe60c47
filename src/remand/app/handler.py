"""Turns a request into its answer inside one transaction: look up facts, decide, fold, record."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256
from typing import Any

import msgspec
from msgspec.structs import replace

from remand.app.events.orchestration_log import is_recorded_in_files
from remand.app.events.signatures import ReadEvent, Verifier, judge
from remand.app.events.task_folds import SignedTasks, TaskSource, task_events
from remand.app.facts import NO_EXTERNAL_FACTS, ExternalFacts, FactLookup
from remand.app.ports import Clock, Ids, Repository
from remand.app.requests import Acceptance, Answer, Request, Rules, require_valid_request
from remand.app.tasks.lookup import (
    Lineage,
    People,
    find_task_id,
    lockout_facts,
    resolve_handoff_id,
    resolve_task_id,
)
from remand.app.tasks.queue import agent_pool, is_suitable
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.access.team import THE_COORDINATOR, Actor, Team
from remand.domain.decide import RULES, decide
from remand.domain.decisions.escalations import REASSIGN, UNLOCK
from remand.domain.decisions.forge_actions import issue_task_id
from remand.domain.events.catalogue import event_task_id
from remand.domain.events.event import Event, KnownBy, Meta
from remand.domain.events.reviews import AnswerRetracted
from remand.domain.evolve import evolve, replay
from remand.domain.facts import Facts, LinkFacts, update_facts
from remand.domain.instant import Instant, is_clock_ahead, require_clock_near
from remand.domain.preconditions import find_lockout, require_trusted_key
from remand.domain.record import NamedTuple, Record
from remand.domain.refusals import Refused, oversized_event_refusal, reused_key_refusal
from remand.domain.task import TERMINAL, Status, Task
from remand.domain.text.redaction import NO_PATHS, MachinePaths
from remand.ledger import codec
from remand.ledger.event_tables import NO_DOUBT, EventEntry, new_entry
from remand.ledger.order import next_time, order_key
from remand.ledger.problems import BadLine
from remand.ledger.store import Transaction

_encode = msgspec.json.Encoder(order="deterministic").encode
_UNSAID, _WORD = KnownBy.UNSAID, KnownBy.WORD
_MOST_CHANGES = 1000


class RequestOrigin(Record):
    """The origin of a command, as its events record it."""

    key: str = ""
    fingerprint: str = ""
    branch: str = ""
    known_by: str = KnownBy.UNSAID


class TeamLookup(NamedTuple):
    """The team under the names that a task knows, with the lookups for people and facts."""

    team: Team
    people: People
    facts: FactLookup


class TeamLookups:
    """The team by the names that tasks know, kept from change to change while nobody else writes and the rules stay."""

    def __init__(self, tx: Transaction, rules: Rules, id_source: Ids, source: TaskSource) -> None:
        self._tx = tx
        self._rules = rules
        self.source = source
        self.lineage = Lineage(tx, source.get)
        lookup = FactLookup(tx, rules, id_source, source)
        self.plain = TeamLookup(rules.team, People(tx, rules.team), lookup)
        self._teams: dict[Team, TeamLookup] = {rules.team: self.plain}
        self._by_names: dict[tuple[str, ...], TeamLookup] = {}
        """By the names that a task knows: many tasks know the same."""
        self._last: tuple[Task | None, TeamLookup] = (None, self.plain)
        """A task that was just looked at, with its team: the next in the queue is asked about twice."""
        self._changes = 1

    def may_go_on(self, tx: Transaction, rules: Rules, verifier: Verifier) -> bool:
        """True if what was looked up holds in another change; not for ever, so that the memory it takes is limited."""
        is_same = tx is self._tx and rules is self._rules and verifier is self.source.verifier
        return is_same and self._changes < _MOST_CHANGES

    def begin(self) -> None:
        """Begins another change."""
        self._changes += 1
        self._last = (None, self.plain)
        self.source.begin()
        for team in self._teams.values():
            team.facts.begin()

    def find(self, task: Task | None) -> TeamLookup:
        """The team, with members under the names a task knows them by if they have been renamed since."""
        if task is None:
            return self.plain
        if task is self._last[0]:
            return self._last[1]
        names = self.lineage.participant_names(task)
        found = self._by_names.get(names)
        if found is None:
            team = self._rules.team.with_task_names(names)
            found = self._teams.get(team)
            if found is None:
                found = TeamLookup(team, People(self._tx, team), self.plain.facts.with_team(team))
                self._teams[team] = found
            self._by_names[names] = found
        if not task.links.parent:  # the names known to a subtask may change with its ancestors
            self._last = (task, found)
        return found


def team_lookups(
    before: TeamLookups | None,
    tx: Transaction,
    rules: Rules,
    verifier: Verifier,
    *,
    id_source: Ids,
    signed: SignedTasks,
) -> TeamLookups:
    """The lookups for a change: those of the change before it, if they still hold."""
    if before is not None and before.may_go_on(tx, rules, verifier):
        before.begin()
        return before
    return TeamLookups(tx, rules, id_source, TaskSource(tx, signed, verifier))


class RequestHandler:
    """Answers requests one after another in an open transaction and collects their events."""

    def __init__(
        self,
        tx: Transaction,
        rules: Rules,
        clock: Clock,
        repository: Repository,
        *,
        teams: TeamLookups,
        paths: MachinePaths = NO_PATHS,
    ) -> None:
        self.tx = tx
        self._source = teams.source
        self.entries: list[EventEntry] = []
        self.lines_before: list[bytes] = []
        """Lines of other sessions that are written before the events of this change."""
        self.end = tx.head
        """How far the ledger has come with this change, once it is made: what has to be synced before anybody is answered."""
        self._untrusted_writer = tx.unconfirmed.writer
        self._rules = rules
        self._clock = clock
        self._team_lookup = teams.find
        self._plain_team = teams.plain
        self._lookup = teams.plain.facts
        self._lineage = teams.lineage
        self._repository = repository
        self._paths = paths
        self._branch: str | None = None

    def answer(
        self, request: Request, seen: ExternalFacts = NO_EXTERNAL_FACTS, actor: Actor | None = None
    ) -> Answer:
        """Answers one request; a repeated idempotency key returns the earlier answer."""
        try:
            require_valid_request(request)
            return self._answer(request, seen, actor)
        except Refused as refusal:
            return refusal

    def _answer(self, request: Request, seen: ExternalFacts, actor: Actor | None) -> Answer:
        require_trusted_key(self._untrusted_writer, is_confined=request.confined)
        fingerprint = _fingerprint(request) if request.key else ""
        known_by = request.known_by or (_UNSAID if actor else _WORD)
        origin = RequestOrigin(
            key=request.key, fingerprint=fingerprint, branch=request.branch, known_by=known_by
        )
        if request.key:
            known = self._events_of_key(request.key)
            if known:
                return self._repeat_answer(known, origin.fingerprint)
        actor_name = "" if actor else request.actor
        task = self._task(request.command, actor_name, actor)
        team, people, lookup = self._team_lookup(task)
        actor = actor or team.actor(people.recorded_name(actor_name), confined=request.confined)
        actor = actor if request.roles is None else actor.limit(request.roles)
        command = self._with_canonical_names(request.command, actor, people)
        now = self._clock.now()
        facts = lookup.facts(command, task, now, seen)
        alike = people.similar_names((actor_name, *_other_names(request.command)))
        facts = update_facts(facts, look_alikes=alike) if alike else facts
        context = c.CommandContext(command=command, actor=actor, at=now, facts=facts)
        return self._carry_out(task, context, origin)

    def _events_of_key(self, key: str) -> list[Event]:
        """The events of the command with an idempotency key: from this change, or signed ones."""
        own = [entry.event for entry in self.entries if entry.event.meta.key == key]
        if own:
            return own
        events = [(codec.decode_stored_line(line), line) for line in self.tx.events.of_key(key)]
        found = [
            ReadEvent(event, line, event_task_id(event)) for event, line in events if event.meta.key == key
        ]
        return [entry.event for entry in judge(self.tx, found) if not entry.doubt]

    def record_events(self, events: Sequence[Event], actor: Actor, known_by: KnownBy = KnownBy.WORD) -> None:
        """Records events that belong to no task."""
        known_by = KnownBy.UNSAID if actor is THE_COORDINATOR else known_by
        self._record(None, events, actor, RequestOrigin(known_by=known_by))

    def settle_due(self) -> None:
        """Applies everything that is due: expired leases and offers, deferred tasks, parents whose subtasks have ended."""
        now = self._clock.now()
        if is_clock_ahead(self.tx.head.clock, now, self._rules.policy.clock_skew_seconds):
            return
        while True:
            found = [self._settle_task(task_id, now) for task_id in self.tx.queue.due(now)]
            if not any(found):
                return

    def _settle_task(self, task_id: str, now: Instant) -> bool:
        task = self._source.get(task_id)
        if task is None:
            return False
        command = _DUE_COMMANDS.get(task.status, c.ExpireLease)(task_id=task_id)
        waited = tuple(name for name in self._lookup.open_blockers(task) if name in task.links.waits_for)
        facts = Facts(
            policy=self._rules.policy,
            links=LinkFacts(
                open_blockers=waited,
                child_statuses=tuple(self._status(child) for child in task.links.children),
            ),
            missing=self._lookup.missing_lines(task),
        )
        context = c.CommandContext(command=command, actor=THE_COORDINATOR, at=now, facts=facts)
        try:
            return bool(self._carry_out(task, context, RequestOrigin()).events)
        except Refused:
            return False

    def _status(self, task_id: str) -> str:
        task = self._source.get(task_id)
        return task.status if task else ""

    def _carry_out(self, task: Task | None, context: c.CommandContext, origin: RequestOrigin) -> Acceptance:
        decided = decide(task, context)
        if isinstance(decided, Refused):
            raise decided
        was_open = task is not None and task.status not in TERMINAL
        kept, task = self._record(task, decided, context.actor, origin)
        if task is None:
            raise AssertionError(f"{type(context.command).__name__} led to no task")
        if was_open and task.status in TERMINAL and context.actor is not THE_COORDINATOR:
            self.settle_due()
        return Acceptance(events=kept, task=task)

    def _record(
        self, task: Task | None, decided: Sequence[Event], actor: Actor, origin: RequestOrigin
    ) -> tuple[tuple[Event, ...], Task | None]:
        """Stamps events, folds each into its task, and stores both."""
        head, skew = self.tx.head, self._rules.policy.clock_skew_seconds
        seq, tip, clock = head.seq, head.tip, head.clock
        session, name = head.session, actor.name
        key, fingerprint, known_by = origin.key, origin.fingerprint, origin.known_by
        branch = origin.branch or self._current_branch()
        more = len(decided)
        entries: list[EventEntry] = []
        for event in decided:
            ts = self._clock.now()
            if ts <= clock:
                require_clock_near(clock, ts, skew)
                ts = next_time(ts, clock)
            seq += 1
            more -= 1
            meta = Meta(
                id="",
                session=session,
                seq=seq,
                actor=name,
                branch=branch,
                prev=tip,
                key=key,
                ask=fingerprint,
                more=more,
                known_by=known_by,
            )
            try:
                stamped, line = codec.encode_stamped(replace(event, ts=ts, meta=meta), self._paths)
            except BadLine as bad:
                raise oversized_event_refusal(bad) from None
            tip, clock = stamped.meta.id, ts
            entries.append(new_entry((stamped, line, event_task_id(stamped), NO_DOUBT, "")))
        if not entries:
            return (), task
        kept = tuple([entry.event for entry in entries])
        before: dict[str, Task | None] = {task.id: task} if task else {}
        own, tasks = task.id if task else "", before.copy()
        for event, _, about, _, _ in entries:
            if about:
                own = own or about
                if about not in before:
                    before[about] = tasks[about] = self._source.get(about)
                tasks[about] = self._fold(tasks[about] or before[about], event)
        self.tx.events.add(entries)
        for about, changed in tasks.items():
            if changed is not None:
                self.tx.tasks.put(changed)
                self._source.follow(before[about], changed)
                if is_recorded_in_files(before[about], changed, kept):
                    self.tx.outdated.note(about)
        self.tx.head = replace(head, seq=seq, tip=tip, clock=clock)
        self.entries += entries
        return kept, tasks.get(own)

    def _fold(self, task: Task | None, event: Event) -> Task | None:
        """The task after an event; if the event retracts an answer, the task is folded again from the remaining events."""
        if isinstance(event, AnswerRetracted):
            return replay([*task_events(self.tx, event.task_id), event])
        return evolve(task, event)

    def _current_branch(self) -> str:
        if self._branch is None:
            self._branch = self._repository.branch()
        return self._branch

    def _repeat_answer(self, known: list[Event], fingerprint: str) -> Answer:
        if known[0].meta.ask != fingerprint:
            return reused_key_refusal(is_task_gone=False)
        last = order_key(known[-1])
        task = replay(
            event for event in task_events(self.tx, event_task_id(known[0])) if order_key(event) <= last
        )
        if task is None:
            return reused_key_refusal(is_task_gone=True)
        return Acceptance(events=tuple(known), task=task)

    def _with_canonical_names(self, command: c.Command, actor: Actor, people: People) -> c.Command:
        """The command with canonical names: the actor's member name instead of an alias, and bare ids."""
        changes: dict[str, Any] = {}
        kind = type(command)
        rule = RULES[kind]
        if rule.is_by_agent and getattr(command, "agent", "") != actor.name:
            changes["agent"] = actor.name
        if kind in _NAMING_NOTHING_ELSE:
            return replace(command, **changes) if changes else command
        for name in rule.names:
            value = getattr(command, name)
            if value:
                changes[name] = people.recorded_name(value)
        if isinstance(command, c.AnswerEscalation) and command.option.startswith(_OPTIONS_WITH_NAME):
            choice, _, name = command.option.partition(":")
            changes["option"] = f"{choice}:{people.recorded_name(name)}"
        if isinstance(command, c.RejectHandoff):
            changes["rejection"] = self._canonical_rejection(command.rejection, people)
        for name in _TASK_FIELDS[type(command)]:
            value = getattr(command, name)
            if value:
                changes[name] = tuple(resolve_task_id(self.tx, item) or item for item in value)
        handoff = getattr(command, "handoff_id", "")
        if handoff:
            changes["handoff_id"] = resolve_handoff_id(self.tx, handoff) or handoff
        return replace(command, **changes) if changes else command

    def _canonical_rejection(self, rejection: dict[str, Any], people: People) -> dict[str, Any]:
        """A rejection record as it would be read back from the ledger, with canonical agent and task names."""
        plain: dict[str, Any] = msgspec.json.decode(_encode(rejection))
        agent, task = plain.get("agent_id"), plain.get("task_id")
        if isinstance(agent, str) and agent:
            plain["agent_id"] = people.recorded_name(agent)
        if isinstance(task, str) and ids.is_alias(task):
            plain["task_id"] = find_task_id(self.tx, task) or task
        return plain

    def _task(self, command: c.Command, actor_name: str, actor: Actor | None) -> Task | None:
        """The task of a command, by id, alias or handoff, or the next one in the queue."""
        if isinstance(command, c.ClaimTask) and not command.task_id:
            team = self._rules.team
            return self._next_task(actor or team.actor(self._plain_team.people.recorded_name(actor_name)))
        is_verified = RULES[type(command)].is_verified
        if isinstance(command, c.ImportIssue):
            return self._source.get(issue_task_id(command))
        if isinstance(command, c.AddTask):
            return self._source.get(ids.parse_task_id(command.own_id) or "")
        if isinstance(command, c.HandoffCommand):
            name = resolve_handoff_id(self.tx, command.handoff_id)
            return self._source.get(self.tx.names.find_task_id(name), is_verified=is_verified)
        name = getattr(command, "task_id", "")
        if isinstance(command, c.AssignTask) and not name:
            return self._next_task(self._rules.team.actor(command.agent))
        found = resolve_task_id(self.tx, name) or ids.parse_task_id(name) or ""
        return self._source.get(found, is_verified=is_verified)

    def _next_task(self, actor: Actor) -> Task | None:
        """The first task in the queue that an agent may claim. The queue does not know lockouts of ancestors, so those are skipped."""
        has_team = bool(self._rules.team.members)
        first = self._source.get(self.tx.queue.next(actor, has_team=has_team))
        if first is None or self._may_claim(first, actor):
            return first
        others = (self._source.get(name) for name in self.tx.queue.ready())
        return next(
            (
                task
                for task in others
                if task and is_suitable(agent_pool(task), actor, has_team) and self._may_claim(task, actor)
            ),
            None,
        )

    def _may_claim(self, task: Task, actor: Actor) -> bool:
        """False if lines of the task are missing, or the agent is locked out under an older name or on an ancestor."""
        team, _, lookup = self._team_lookup(task)
        name = team.actor(actor.name).name
        if name in task.people.reviewers or lookup.missing_lines(task):
            return False
        if not (task.links.parent or task.people.lockouts):
            return True
        return find_lockout(task, name, lockout_facts(self.tx, team, task, self._lineage)) is None


def _fingerprint(request: Request) -> str:
    """A hash of the command and its actor, without the branch, which depends on where the call was made.

    A verdict is identified by its task, handoff and tree, as its times and report differ between runs.
    """
    command: c.Command = request.command
    if isinstance(command, c.RecordVerdict):
        return _hash_parts(request.actor, command.task_id, command.handoff_id, command.verdict.tree)
    if isinstance(command, c.SubmitTask | c.CompleteHandoff):
        command = replace(command, branch="", is_branch_given=False)
    return _hash_parts(
        request.actor, replace(command, branch="") if getattr(command, "branch", "") else command
    )


def _other_names(command: c.Command) -> tuple[str, ...]:
    """The people that a command names besides its actor."""
    kind = type(command)
    if kind in _NAMING_NOTHING_ELSE:
        return ()
    named = tuple(getattr(command, name) for name in RULES[kind].names)
    if isinstance(command, c.AnswerEscalation) and command.option.startswith(_OPTIONS_WITH_NAME):
        return (*named, command.option.partition(":")[2])
    return named


def _hash_parts(*parts: object) -> str:
    return sha256(_encode(parts)).hexdigest()[:16]


_DUE_COMMANDS: dict[Status, type[c.TaskCommand]] = {
    Status.DEFERRED: c.WakeTask,
    Status.DECOMPOSED: c.SettleTask,
    Status.ESCALATED: c.RepeatEscalation,
}
_TASK_FIELDS = {
    kind: tuple(
        name
        for name in ("depends_on", "drop_depends_on", "waits_for", "created_tasks")
        if name in kind.__struct_fields__
    )
    for kind in RULES
}
"""The fields of each command that name other tasks."""
_NAMING_NOTHING_ELSE = frozenset(
    kind
    for kind, rule in RULES.items()
    if not rule.names and not _TASK_FIELDS[kind] and "handoff_id" not in kind.__struct_fields__
) - {c.AnswerEscalation, c.RejectHandoff}
"""Commands that name no people, tasks or handoffs other than the actor and their own task."""
_OPTIONS_WITH_NAME = (f"{UNLOCK}:", f"{REASSIGN}:")
"""The prefixes of answers that name an agent."""

"""What a rejection is compared with: probes for its evidence, the journal for its attempts, and the tasks it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import takewhile
from typing import Any, NamedTuple

from remand.app.errors import EnvironmentFault
from remand.app.ports import (
    CommandOutcome,
    CommandProbes,
    Journal,
    Pages,
    RejectionChecks,
    Sources,
    SupportingRun,
)
from remand.app.requests import Rules
from remand.app.settings import SettingsSource
from remand.app.tasks.lookup import Lineage, find_task_id, lockout_facts
from remand.app.tasks.queue import free_capacity
from remand.app.tasks.similarity import are_related
from remand.domain import commands as c
from remand.domain import ids
from remand.domain.decisions.director import MAX_SUBTASKS, may_wait_for
from remand.domain.events.tasks import (
    HandoffCompleted,
    HandoffRejected,
    HandoffRejectionInvalid,
    RejectionAnswered,
    TaskSubmitted,
)
from remand.domain.evidence import probes as ev
from remand.domain.evidence.probes import Grade
from remand.domain.gate.gate import GatePolicy
from remand.domain.instant import Instant, add_seconds
from remand.domain.preconditions import find_lockout, is_eligible
from remand.domain.reasons import RejectionReason
from remand.domain.rejection import TaskRejection
from remand.domain.task import Status, Task
from remand.domain.text.path_patterns import PathPattern
from remand.domain.text.words import format_count, split_words
from remand.domain.validation.assessment import EvidenceGrade, NamedTask, ValidationFacts
from remand.domain.validation.parsed_rejection import mentioned_names
from remand.ledger import codec
from remand.ledger.store import Transaction
from remand.ledger.traces import FILED, MAX_TEXT, Trace

NEAR = 3
MAX_READ = 200
MAX_COMMITS = 20
MAX_ATTEMPTS = 20
MAX_SLOW = 3
HTTP_ERROR = 400
_TOO_MANY = f"not checked: only the first {MAX_SLOW} commands and addresses of a rejection are"
_NO_PROBE = "not checked: nothing here can run such a probe"


class EvidenceLookup:
    """Checks rejections against the repository and the journal, with the probes that the policy allows."""

    def __init__(
        self,
        settings: SettingsSource,
        *,
        sources: Callable[[str], AbstractContextManager[Sources]],
        journal: Callable[[Task], Journal],
        commands: Callable[[GatePolicy], CommandProbes],
        pages: Callable[[Sequence[str]], Pages],
    ) -> None:
        """`sources` takes the base branch, `pages` the allowed hosts."""
        self._settings = settings
        self._sources = sources
        self._journal = journal
        self._commands = commands
        self._pages = pages

    def look_up(self, rejection: dict[str, Any], task: Task) -> RejectionChecks:
        """All facts about a rejection of a task by its holder, or by the agent it is offered to."""
        policy = self._settings.settings().gate_policy
        holder = task.claims.offers[-1].target if task.claims.offers else ""
        if task.claim is not None:
            holder = task.claim.agent
        with self._sources(self._settings.base_branch()) as sources:
            checker = EvidenceChecker(
                sources,
                commands=self._commands(policy) if policy.probes else None,
                pages=self._pages(policy.hosts) if policy.hosts else None,
                journal=self._journal(task),
            )
            return checker.check_rejection(rejection, f"{task.title}\n{task.details.scope}", task.id, holder)


class ProbeCommit(NamedTuple):
    """The commit at which a command runs, and whether it is merged: an unmerged one may have been prepared by the agent."""

    commit: str
    is_merged: bool


class EvidenceChecker:
    """Runs each probe once and grades the results. Evidence that cannot be run remains as reported."""

    def __init__(
        self,
        sources: Sources | None = None,
        commands: CommandProbes | None = None,
        pages: Pages | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._sources = sources
        self._commands = commands
        self._pages = pages
        self._journal = journal

    def check_rejection(
        self, rejection: Mapping[str, Any], task: str, task_id: str = "", agent: str = ""
    ) -> RejectionChecks:
        """All facts about an agent's rejection of a task, given by its text."""
        names = [
            name for name in mentioned_names(TaskRejection.from_dict(rejection)) if ev.is_commit_id(name)
        ]
        known = tuple(name for name in names[:MAX_COMMITS] if self._is_merged(name, task))
        attempts = self.grade_attempts(task_id, agent, rejection.get("what_attempted"))
        return RejectionChecks(self.grade_evidence(rejection.get("evidence")), known, attempts)

    def _is_merged(self, commit: str, task: str) -> bool:
        """True if the commit is on the base branch, and its message or changes relate to the task."""
        try:
            text = self._sources.merged_commit_text(commit) if self._sources is not None else ""
        except EnvironmentFault:
            return False
        return bool(text) and are_related(task, text)

    def grade_evidence(self, evidence: object) -> tuple[EvidenceGrade, ...]:
        """Grades every piece of evidence with a probe for the repository, a command or a URL.

        Repository probes run first within a short time limit; what commands need is looked up beforehand.
        """
        probes = ev.parse_probes(evidence)
        readers = sum(isinstance(probe, ev.CountProbe) and bool(probe.containing) for probe in probes)
        may_read = MAX_READ // max(1, readers)
        slow = [probe for probe in probes if isinstance(probe, ev.CommandProbe | ev.UrlProbe)]
        others = (
            probe for probe in probes if not isinstance(probe, ev.TaskProbe | ev.CommandProbe | ev.UrlProbe)
        )
        grades = [self._grade(probe, may_read) for probe in others]
        ready = [(probe, self._probe_commit(probe)) for probe in slow[:MAX_SLOW]]
        grades += [self._run_probe(probe, standing) for probe, standing in ready]
        grades += [ev.grade_evidence(probe, Grade.REPORTED, _TOO_MANY) for probe in slow[MAX_SLOW:]]
        return in_evidence_order(grades)

    def _grade(self, probe: ev.EvidenceProbe, may_read: int) -> EvidenceGrade:
        try:
            match probe:
                case ev.FileProbe() if self._sources is not None:
                    return _grade_if_merged(_grade_file(probe, self._sources), probe.commit, self._sources)
                case ev.CountProbe() if self._sources is not None:
                    grade = _grade_count(probe, self._sources, may_read)
                    return _grade_if_merged(grade, probe.commit, self._sources)
                case ev.CommitProbe() if self._sources is not None:
                    return _grade_commit(probe, self._sources)
                case ev.UnreadableProbe():
                    return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: {probe.why}")
                case _:
                    return ev.grade_evidence(probe, Grade.REPORTED, _NO_PROBE)
        except EnvironmentFault as fault:
            return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: {fault}")

    def _probe_commit(self, probe: ev.EvidenceProbe) -> ProbeCommit | str:
        """The commit at which to run a command, or why there is none."""
        if not isinstance(probe, ev.CommandProbe) or self._sources is None:
            return "there is no repository"
        try:
            commit = self._sources.commit(probe.commit)
            if commit is None:
                return f"there is no commit {probe.commit}"
            return ProbeCommit(commit.sha, self._sources.is_merged(commit.sha))
        except EnvironmentFault as fault:
            return str(fault)

    def _run_probe(self, probe: ev.EvidenceProbe, standing: ProbeCommit | str) -> EvidenceGrade:
        try:
            match probe:
                case ev.UrlProbe() if self._pages is not None:
                    return _grade_url(probe, self._pages)
                case ev.CommandProbe() if self._commands is not None and isinstance(standing, str):
                    return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: {standing}")
                case ev.CommandProbe() if self._commands is not None and isinstance(standing, ProbeCommit):
                    return _grade_command(probe, standing, self._commands)
                case _:
                    return ev.grade_evidence(probe, Grade.REPORTED, _NO_PROBE)
        except EnvironmentFault as fault:
            return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: {fault}")

    def grade_attempts(self, task_id: str, agent: str, attempted: object) -> tuple[EvidenceGrade, ...]:
        """Grades each attempt against the journal of what the agent ran; empty without a journal."""
        if self._journal is None or not isinstance(attempted, list | tuple):
            return ()
        return tuple(
            _grade_attempt(index, self._journal.find_supporting_run(task_id, agent, text))
            for index, text in enumerate(attempted[:MAX_ATTEMPTS])
            if isinstance(text, str)
        )


def _grade_attempt(index: int, borne: SupportingRun | None) -> EvidenceGrade:
    if borne is None:
        return EvidenceGrade(
            index=index, grade=str(Grade.REPORTED), detail="no entry of the journal matches it"
        )
    ended = "" if borne.exit_status is None else f" with exit {borne.exit_status}"
    seconded = ", and the transcript agrees" if borne.is_seconded else ""
    detail = f"the journal has `{borne.command[:300]}`{ended}{seconded}"
    return EvidenceGrade(index=index, grade=str(Grade.CORROBORATED), detail=detail)


def task_grades(evidence: object, find: Callable[[str], Task | None], own: str) -> tuple[EvidenceGrade, ...]:
    """Grades the pieces of evidence that name other tasks, from the ledger."""
    return tuple(
        _grade_task(probe, find(probe.name), own)
        for probe in ev.parse_probes(evidence)
        if isinstance(probe, ev.TaskProbe)
    )


def in_evidence_order(*grades: Iterable[EvidenceGrade]) -> tuple[EvidenceGrade, ...]:
    """All grades in the order of the evidence."""
    return tuple(sorted((one for some in grades for one in some), key=lambda one: one.index))


def _grade_task(probe: ev.TaskProbe, task: Task | None, own: str) -> EvidenceGrade:
    if task is not None and task.id == own:
        return ev.grade_evidence(probe, Grade.REPORTED, "the task itself proves nothing")
    if task is None:
        return ev.grade_evidence(probe, Grade.DISPROVED, f"there is no task {probe.name}")
    holds = {"": True, "open": not task.is_terminal, "closed": task.is_terminal}.get(
        probe.status, str(task.status) == probe.status
    )
    return ev.grade_evidence(
        probe, Grade.REPRODUCED if holds else Grade.DISPROVED, f"task {task.id} is {task.status}"
    )


def _grade_if_merged(grade: EvidenceGrade, name: str, sources: Sources) -> EvidenceGrade:
    """The state at an unmerged commit proves nothing: the agent may have made it."""
    commit = sources.commit(name)
    if grade.grade != Grade.REPRODUCED or commit is None or sources.is_merged(commit.sha):
        return grade
    return EvidenceGrade(
        index=grade.index, grade=Grade.REPORTED, detail=f"{grade.detail}, which is not merged"
    )


def _grade_file(probe: ev.FileProbe, sources: Sources) -> EvidenceGrade:
    commit = sources.commit(probe.commit)
    if commit is None:
        return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: there is no commit {probe.commit}")
    content = sources.file(commit.sha, probe.path)
    where = f"{probe.path} at {commit.sha[:12]}"
    if not probe.is_stated:
        lines = content.count(b"\n") + 1 if content is not None else 0
        fits = 0 < probe.line <= lines
        return ev.grade_evidence(
            probe, Grade.CORROBORATED if fits else Grade.REPORTED, f"{where} has {lines} lines"
        )
    if probe.is_absent or content is None:
        holds = probe.is_absent and content is None
        state = "does not exist" if content is None else "exists"
        return ev.grade_evidence(probe, Grade.REPRODUCED if holds else Grade.DISPROVED, f"{where} {state}")
    return _grade_content(probe, content.decode("utf-8", "replace").splitlines(), where)


def _grade_content(probe: ev.FileProbe, lines: list[str], where: str) -> EvidenceGrade:
    if probe.line > len(lines):
        return ev.grade_evidence(
            probe, Grade.DISPROVED, f"{where} has only {format_count(len(lines), 'line')}"
        )
    near = lines[max(0, probe.line - 1 - NEAR) : probe.line + NEAR] if probe.line else lines
    if probe.text and not any(probe.text in line for line in near):
        place = f"near line {probe.line} of " if probe.line else "in "
        return ev.grade_evidence(probe, Grade.DISPROVED, f"the text is not {place}{where}")
    return ev.grade_evidence(probe, Grade.REPRODUCED, f"{where} is as stated")


def _grade_count(probe: ev.CountProbe, sources: Sources, may_read: int) -> EvidenceGrade:
    commit = sources.commit(probe.commit)
    if commit is None:
        return ev.grade_evidence(probe, Grade.REPORTED, f"not checked: there is no commit {probe.commit}")
    pattern = PathPattern(probe.pattern)
    paths = [path for path in sources.paths(commit.sha) if pattern.matches(path)]
    if probe.containing:
        if len(paths) > may_read:
            return ev.grade_evidence(
                probe, Grade.REPORTED, f"not checked: too many to read ({format_count(len(paths), 'file')})"
            )
        wanted = probe.containing.encode()
        paths = [path for path in paths if wanted in (sources.file(commit.sha, path) or b"")]
    count = len(paths)
    holds = probe.expected in (None, count) and (probe.at_least is None or count >= probe.at_least)
    holding = (
        f" and {'contains' if count == 1 else 'contain'} {probe.containing[:80]!r}"
        if probe.containing
        else ""
    )
    found = f"{format_count(count, 'file')} {'matches' if count == 1 else 'match'} {probe.pattern}{holding} at {commit.sha[:12]}"
    return ev.grade_evidence(probe, Grade.REPRODUCED if holds else Grade.DISPROVED, found)


def _grade_command(probe: ev.CommandProbe, standing: ProbeCommit, commands: CommandProbes) -> EvidenceGrade:
    """Disproved by a success where a failure was claimed, and vice versa.

    A failure of another kind than the claimed one may be caused by the sandbox and proves nothing.
    """
    outcome = commands.run(probe.command, standing.commit)
    if outcome is None:
        return ev.grade_evidence(
            probe, Grade.REPORTED, "not checked: the command is not allowed, or could not run"
        )
    shown = f"exit {outcome.exit_status} at {standing.commit[:12]}"
    is_same = probe.exit_status in (None, outcome.exit_status)
    if is_same and probe.text in outcome.output:
        if not standing.is_merged:
            return ev.grade_evidence(probe, Grade.REPORTED, f"{shown}, which is not merged")
        return ev.grade_evidence(probe, Grade.REPRODUCED, shown)
    is_plain = outcome.exit_status == 0 or (outcome.exit_status == 1 and probe.exit_status in (None, 0))
    is_text = is_same and probe.exit_status is not None
    if (not is_plain and not is_text) or (is_same and outcome.is_cut):
        return ev.grade_evidence(
            probe, Grade.REPORTED, f"not decided: {shown}, which may be for another reason"
        )
    return ev.grade_evidence(probe, Grade.DISPROVED, shown if not is_same else f"{shown} without the text")


def _grade_url(probe: ev.UrlProbe, pages: Pages) -> EvidenceGrade:
    """Disproved by a response where an error was claimed, and vice versa; one kind of error does not disprove another."""
    outcome = pages.get(probe.url)
    if outcome is None:
        return ev.grade_evidence(
            probe, Grade.REPORTED, "not checked: the policy does not allow requests to this host"
        )
    shown = (
        f"it answers {outcome.exit_status} now"
        if outcome.exit_status
        else f"no answer now: {outcome.output[:200]}"
    )
    is_same = probe.code in (None, outcome.exit_status)
    if is_same and probe.text in outcome.output:
        return ev.grade_evidence(probe, Grade.REPRODUCED, shown)
    if not _contradicts(probe.code, outcome):
        return ev.grade_evidence(probe, Grade.REPORTED, f"not decided: {shown}")
    return ev.grade_evidence(probe, Grade.DISPROVED, shown if not is_same else f"{shown}, without the text")


def _contradicts(code: int | None, outcome: CommandOutcome) -> bool:
    """True if a result contradicts the claim: another kind of result, or complete output without the claimed text."""
    is_fine = 0 < outcome.exit_status < HTTP_ERROR
    if code in (None, outcome.exit_status):
        return not outcome.is_cut and (is_fine or code is not None) and outcome.exit_status > 0
    return outcome.exit_status > 0 and is_fine != (0 < (code or 0) < HTTP_ERROR)


def _grade_commit(probe: ev.CommitProbe, sources: Sources) -> EvidenceGrade:
    commit = sources.commit(probe.name)
    if commit is None:
        return ev.grade_evidence(probe, Grade.DISPROVED, f"the repository has no commit {probe.name}")
    return ev.grade_evidence(probe, Grade.REPRODUCED, f"commit {commit.sha[:12]} exists")


def describe_named_task(
    name: str, known: Task | None, task: Task, *, is_descendant: bool = False
) -> NamedTask | None:
    """A task that a rejection names; None if the name is not a task's, such as a decision's."""
    if known is None:
        return NamedTask(name=name) if ids.parse_task_id(name) or ids.is_alias(name) else None
    return NamedTask(
        name=name,
        task_id=known.id,
        title=known.title,
        status=str(known.status),
        is_self=known.id == task.id,
        is_descendant=is_descendant,
        is_open=not known.is_terminal,
        created_by=known.details.created_by,
        is_related=are_related(
            f"{task.title}\n{task.details.scope}",
            f"{known.title}\n{known.details.scope}",
            is_lenient=known.status == Status.DONE,
        ),
    )


MAX_NAMED = 200
MAX_PER_DAY = 300
"""How many valid rejections one agent may file per day before others get its tasks."""
RECENT = 50
"""How many of the latest rejections are searched for the same text."""
MAX_TWINS = 10
"""For how many other tasks the same rejection may recently have been filed."""
SAME_SHARE = 0.8
MAX_ACCEPTED = 3
"""How often a task may be validly rejected before a human must look at it."""
MAX_CUTS = 3
"""How often a task may be split or reformulated before a human must look at it."""


class RejectionLookup:
    """Looks up in the ledger what a rejection is compared with."""

    def __init__(self, tx: Transaction, rules: Rules, fresh_task: Callable[[], str]) -> None:
        self._tx = tx
        self._rules = rules
        self._fresh_task = fresh_task
        self._lineage = Lineage(tx)

    def filing_facts(
        self, command: c.RejectHandoff, task: Task, now: Instant, looked_up: RejectionChecks | None
    ) -> dict[str, Any]:
        """The facts for a rejection and for the decision on it."""
        record = TaskRejection.from_dict(command.rejection)
        checks = looked_up or RejectionChecks()
        validation = ValidationFacts(
            named=self._named_tasks(record, task),
            graded=in_evidence_order(checks.graded, task_grades(record.evidence, self._find_task, task.id)),
            attempts=checks.attempts,
            merged=checks.merged,
            has_repository=looked_up is not None,
        )
        why = self._human_reason(task, command.agent)
        joins, distrust = ((), "") if why else self._joins_and_distrust(record, task, command.agent, now)
        return {
            "validation": validation,
            "human_reason": why,
            "distrust": distrust,
            "joins": joins,
            "next_agent": self._next_agent(task, command.agent, now),
            "task_ids": self._fresh_task_ids(record),
        }

    def _human_reason(self, task: Task, agent: str) -> str:
        """Why the automatic director must not answer; empty if it may."""
        if self._rules.policy.director != ("auto",):
            return "the policy names another director"
        if self._depth(task) >= MAX_CUTS:
            return f"the task was split from others {MAX_CUTS} times"
        if agent in task.rejections.accepted_by:
            return f"a rejection of this task by {agent} was accepted before"
        if len(task.rejections.accepted_by) >= MAX_ACCEPTED:
            return f"the task was rejected with cause {MAX_ACCEPTED} times"
        return ""

    def _joins_and_distrust(
        self, record: TaskRejection, task: Task, agent: str, now: Instant
    ) -> tuple[tuple[str, ...], str]:
        """Tasks that already resolve the same blocker, and the reason for distrusting the rejection, if any."""
        own = _native_traces(self._tx.traces.of_agent(agent, 2 * MAX_PER_DAY))
        if sum(one.event == FILED and _is_recent(one, now) for one in own) >= MAX_PER_DAY:
            return (), f"{agent} has rejected {MAX_PER_DAY} tasks with valid records within a day"
        recent = [*own[:RECENT], *_native_traces(self._tx.traces.latest(RECENT))]
        twins = dict.fromkeys(one.task for one in recent if one.task != task.id and _is_same(one, record))
        is_known = any(map(may_wait_for, self._named_tasks(record, task)))
        if record.reason is RejectionReason.MISSING_DEPENDENCY and is_known:
            return (), ""
        if record.reason in (RejectionReason.BLOCKER, RejectionReason.MISSING_DEPENDENCY):
            joins = next(filter(None, (self._open_blockers(twin, task) for twin in twins)), ())
            if joins:
                return joins, ""
        if len(twins) >= MAX_TWINS:
            return (), f"the same was filed for {format_count(len(twins), 'other task')}"
        return (), ""

    def _open_blockers(self, task_id: str, task: Task) -> tuple[str, ...]:
        """What the other task still depends on to resolve its blocker, and what this one may depend on as well."""
        other = self._tx.tasks.get(task_id)
        names = other.links.waits_for if other else ()
        known = filter(None, (self._describe_task(name, task) for name in names))
        return tuple(one.task_id for one in known if may_wait_for(one))

    def appeal_facts(self, task: Task) -> dict[str, Any]:
        """Whether the last rejection only lacked a part, who answered it last, and whether work followed it."""
        filed, answer = self._last_filing(task)
        return {
            "is_formal": isinstance(filed, HandoffRejectionInvalid) and filed.is_formal,
            "decided_by": (answer.director or answer.meta.actor) if answer else "",
            "is_before_submission": filed is not None and self._has_submission_after(task, filed),
        }

    def _has_submission_after(self, task: Task, filed: HandoffRejected | HandoffRejectionInvalid) -> bool:
        events = map(codec.decode_stored_line, reversed(self._tx.events.of_task(task.id)))
        later = takewhile(lambda event: event.meta.id != filed.meta.id, events)
        return any(isinstance(event, TaskSubmitted | HandoffCompleted) for event in later)

    def answer_facts(self, command: c.AnswerRejection, task: Task) -> dict[str, Any]:
        """The rejection being answered, and what the answer refers to."""
        found, _ = self._last_filing(task)
        filed = found.rejection if found else {}
        record = TaskRejection.from_dict(filed)
        return {
            "record": filed,
            "validation": ValidationFacts(named=self._named_tasks(record, task)),
            "target": self._rules.team.actor(command.reassign_to) if command.reassign_to else None,
            "task_ids": self._fresh_task_ids(record),
        }

    def _fresh_task_ids(self, record: TaskRejection) -> tuple[str, ...]:
        rows = record.alternative_tasks
        count = min(len(rows), MAX_SUBTASKS) if isinstance(rows, list) else 0
        names: dict[str, None] = {}
        while len(names) < max(count, 1):
            names[self._fresh_task()] = None
        return tuple(names)

    def _named_tasks(self, record: TaskRejection, task: Task) -> tuple[NamedTask, ...]:
        """The tasks that a rejection names, as the ledger knows them."""
        found = (self._describe_task(name, task) for name in mentioned_names(record)[:MAX_NAMED])
        return tuple(named for named in found if named is not None)

    def _last_filing(
        self, task: Task
    ) -> tuple[HandoffRejected | HandoffRejectionInvalid | None, RejectionAnswered | None]:
        """The last rejection of the task as filed by its agent, and the last answer to it."""
        wanted = task.rejections.last_rejection.rejection_id if task.rejections.last_rejection else ""
        answer: RejectionAnswered | None = None
        for line in reversed(self._tx.events.of_task(task.id)) if wanted else ():
            event = codec.decode_stored_line(line)
            if isinstance(event, RejectionAnswered) and event.rejection_id == wanted:
                answer = answer or event
            if isinstance(event, HandoffRejected | HandoffRejectionInvalid) and event.rejection_id == wanted:
                return event, answer
        return None, answer

    def _find_task(self, name: str) -> Task | None:
        return self._tx.tasks.get(find_task_id(self._tx, name))

    def _describe_task(self, name: str, task: Task) -> NamedTask | None:
        known = self._find_task(name)
        is_behind = known is not None and (
            bool(self._tx.dependencies.path(known.id, task.id)) or self._is_part(known, task)
        )
        return describe_named_task(name, known, task, is_descendant=is_behind)

    def _is_part(self, other: Task, task: Task) -> bool:
        """True if the other task is a descendant of the task."""
        return any(above.id == task.id for above in self._lineage.ancestors(other))

    def _depth(self, task: Task) -> int:
        return sum(1 for _ in self._lineage.ancestors(task))

    def _next_agent(self, task: Task, agent: str, now: Instant) -> str:
        """The member who may take over the task and has the most capacity; then the first."""
        lockouts = lockout_facts(self._tx, self._rules.team, task, self._lineage)
        actors = [self._rules.team.actor(member.name) for member in self._rules.team.members]
        able = [
            actor.name
            for actor in actors
            if actor.name != agent
            and find_lockout(task, actor.name, lockouts) is None
            and is_eligible(task, actor)
        ]
        free = dict(free_capacity(self._tx, self._rules.team, now)) if len(able) > 1 else {}
        return max(able, key=lambda name: free.get(name, 0), default="")


def _native_traces(traces: list[Trace]) -> list[Trace]:
    """Traces of the ledger's own events; lines of GoT tools do not affect its tasks."""
    return [one for one in traces if one.seq > 0]


def _is_same(earlier: Trace, record: TaskRejection) -> bool:
    """True if the blocking factors have nearly the same words, ignoring numbers."""
    factor = record.blocking_factor if isinstance(record.blocking_factor, str) else ""
    one, other = (
        frozenset(split_words(earlier.text.lower())),
        frozenset(split_words(factor[:MAX_TEXT].lower())),
    )
    return bool(one) and len(one & other) >= SAME_SHARE * len(one | other)


def _is_recent(trace: Trace, now: Instant) -> bool:
    return add_seconds(trace.ts, 86_400) > now

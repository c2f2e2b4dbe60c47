"""The gates of a ledger: terms of measurement, verdicts, done claims, stops, the user's pause, and sessions
without a task.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from hashlib import sha256

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.facts import GateTerms
from remand.app.gates import change_examination, measurement, preparation, queued_work
from remand.app.gates.done_claims import ClaimOutcome, DoneClaims, StopResponder
from remand.app.gates.known_results import (
    KnownVerdicts,
    MeasurementTerms,
    VerdictResult,
    WriteOnlyCache,
    search_path,
)
from remand.app.gates.ports import (
    BackgroundGateRuns,
    GateEnvironment,
    GateProgress,
    Mirror,
    Programs,
    ResultCache,
    SessionRecords,
    ignore_progress,
)
from remand.app.ledger import Ledger
from remand.app.requests import Answer, Request
from remand.app.settings import SettingsSource
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.decisions.findings import without_configuration_finding
from remand.domain.decisions.gates import require_off_base
from remand.domain.gate.gate import Gate, GateMode, GatePolicy, policy_digest
from remand.domain.gate.verdict import (
    INTEGRITY_GATE,
    GateStatus,
    Verdict,
    WorkBase,
    fit_to_event,
    make_unstarted_verdict,
)
from remand.domain.instant import Instant, add_seconds, is_instant
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused
from remand.domain.task import Task
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from remand.app.gates.jobs import JobQueue, QueuedJob
    from remand.integrity.suspicions import Suspicion

LONGEST_PAUSE = 7 * 86400.0
_PAUSE_KEY = sha256(b"pause").hexdigest()


class Pause(NamedTuple):
    """Until when every session may stop, who decided it, and why."""

    until: Instant
    actor: str
    reason: str


class Gates:
    """The gates of an open ledger. Makes the environment for measuring when it is first needed."""

    def __init__(
        self,
        ledger: Ledger,
        settings: SettingsSource,
        *,
        root: str,
        folder: str,
        cache: ResultCache,
        tools: Programs,
        sessions: SessionRecords,
        gate_fault: Callable[[Gate], str],
        mirror: Callable[[], Mirror],
        runs: Callable[[], BackgroundGateRuns],
        environment: Callable[[Gates], GateEnvironment],
        queue: Callable[[], JobQueue] | None = None,
        new_key: Callable[[], str] = lambda: "",
    ) -> None:
        """With a queue, workers measure done claims; without one, this process does."""
        self._ledger = ledger
        self._settings = settings
        self._root = root
        self._folder = folder
        self._tools = tools
        self._make_mirror = mirror
        self._make_runs = runs
        self._make_environment = environment
        self._make_queue = queue
        self._new_key = new_key
        self.cache = cache
        self.sessions = sessions
        self.gate_fault = gate_fault
        """Why a gate's configuration cannot be measured; empty if it can."""
        self.progress: GateProgress = ignore_progress
        """Receives the progress; a caller that shows it sets this before it measures."""
        self._looked_up: dict[str, str] = {}

    @cached_property
    def mirror(self) -> Mirror:
        """The ledger's own copy of the repository."""
        return self._make_mirror()

    @cached_property
    def environment(self) -> GateEnvironment:
        """The environment in which gates are measured, tested at its first use."""
        return self._make_environment(self)._replace(progress=self.progress)

    @cached_property
    def runs(self) -> BackgroundGateRuns:
        """Gate runs that outlive their caller."""
        return self._make_runs()

    def tree(self, commit: str) -> str:
        """The code tree of a commit, fetched into the mirror once and cached."""
        return self._look_up_once(f"tree {commit}", lambda: self.mirror.fetch_commit(commit))

    def merge_trees(self, commit: str, other: str, paths: Sequence[str]) -> str:
        """A tree like a commit's, with the named files of another one; usable in place of a commit."""
        tree = self.mirror.compose(self.tree(commit), self.tree(other), paths)
        return self._look_up_once(f"tree {tree}", lambda: tree)

    def merge_base(self, commit: str, other: str) -> str:
        """The best common ancestor of two commits, which never changes and is cached."""

        def look_up() -> str:
            self.mirror.fetch_commit(commit)
            self.mirror.fetch_commit(other)
            return self.mirror.merge_base(commit, other)

        return self._look_up_once(f"meeting {commit} {other}", look_up)

    def _look_up_once(self, name: str, look_up: Callable[[], str]) -> str:
        if name not in self._looked_up:
            key = sha256(name.encode()).hexdigest()
            known = self.cache.get(key)
            if known is None:
                known = look_up().encode()
                self.cache.put(key, known)
            self._looked_up[name] = known.decode()
        return self._looked_up[name]

    def report_path(self, name: str) -> str:
        """The path of a full report on this machine; empty if it is not here."""
        path = os.path.join(self._folder, "reports", f"{os.path.basename(name)}.md")
        return path if name and os.path.isfile(path) else ""

    @property
    def current_pause(self) -> Pause | None:
        """The user's pause until it ends: meanwhile, every session may stop."""
        text = (self.cache.get(_PAUSE_KEY) or b"").decode("utf-8", "replace")
        until, actor, reason = (*text.rstrip("\n").split("\n", 2), "", "")[:3]
        now = self._ledger.clock.now()
        is_on = is_instant(until) and now < until <= add_seconds(now, LONGEST_PAUSE)
        return Pause(until, actor, reason) if is_on else None

    def pause(self, until: Instant, actor: str, reason: str) -> None:
        """Lets every session stop until then; replaces an earlier pause."""
        self.cache.put(_PAUSE_KEY, f"{until}\n{actor}\n{reason}\n".encode())

    def resume(self) -> bool:
        """Ends the pause; False if there was none."""
        was_on = self.current_pause is not None
        self.cache.put(_PAUSE_KEY, b"")
        return was_on

    def terms(self, task: Task | None, commit: str) -> MeasurementTerms:
        """The terms by which a commit is measured: the commit it is compared with, and the rules."""
        settings, base = self._settings, self._work_base(task)
        known = settings.at_commit(base.rules_commit(commit))
        policy = (known or settings.settings()).gate_policy
        # Also applies the rules at the claim if the base is the remote's: here, its ref is in this clone, where an agent
        # can move it, and no history distinguishes a commit of the task's own there from a merged one.
        claimed = settings.at_commit(base.claim_base) if base.claim_base != base.tip else None
        is_changed = claimed is not None and policy_digest(claimed.gate_policy) != policy_digest(policy)
        return MeasurementTerms(
            commit=commit,
            base=base.compared_with(commit),
            policy=policy,
            must_pass=task.details.must_pass if task is not None else (),
            claimed_under=claimed.gate_policy if claimed and is_changed else None,
            prepare_base=base.compared_with(commit) or self.prepare_base(commit),
            # Rules that are in no commit of the base, and a commit measured by itself, may be an agent's.
            may_have_secrets=bool(base.compared_with(commit)) and bool(known or settings.at_commit(base.tip)),
            has_base_rules=base.may_have_base_rules(commit) and settings.is_same(commit, base.tip),
        )

    def prepare_base(self, commit: str) -> str:
        """The best common ancestor of a commit and the base branch; empty if there is none."""
        tip = self._settings.tip()
        return self.merge_base(commit, tip) if tip else ""

    def _work_base(self, task: Task | None) -> WorkBase:
        claim_base = task.claim.base if task is not None and task.claim is not None else ""
        return WorkBase(self._settings.tip(), self._settings.protected_tip(), claim_base, self.merge_base)

    def gate_terms(self, task: Task, commit: str) -> GateTerms:
        """The gates that apply to a done claim."""
        terms = self.terms(task, commit)
        names = None if terms.policy.gates is None else tuple(gate.name for gate in terms.policy.gates)
        if names is not None and terms.claimed_under:
            names = (*names, INTEGRITY_GATE)
        return GateTerms(names, policy_digest(terms.policy))

    def verdict(self, terms: MeasurementTerms, *, is_fresh: bool = False) -> VerdictResult:
        """Measures a commit; if `is_fresh`, measures everything again and stores the new results."""
        if not terms.policy.gates:
            return self._empty_verdict(terms)
        fault = next(filter(None, map(self.gate_fault, terms.policy.gates)), "")
        if fault:
            raise EnvironmentFault(f"remand.toml: {fault}")
        environment = self.environment
        if is_fresh:
            environment = environment._replace(cache=WriteOnlyCache(self.cache))
        judged = measurement.CommitMeasurement(environment, terms.policy).verdict(terms)
        return _without_base_changes(judged, terms)

    def examine(self, base: str, commit: str) -> tuple[Suspicion, ...]:
        """The integrity gate's findings in the texts of a change; runs nothing."""
        policy = self._settings.settings().gate_policy
        return change_examination.Examination(
            self.mirror, policy, self.tree(commit), self.tree(base)
        ).examine()

    def trial(
        self, policy: GatePolicy, commit: str, *, may_have_secrets: bool = False
    ) -> list[measurement.GateTrial]:
        """Runs each gate once on a commit, by rules that may not be on the base yet; judges and records nothing."""
        fault = next(filter(None, map(self.gate_fault, policy.gates or ())), "")
        if fault:
            raise EnvironmentFault(f"remand.toml: {fault}")
        tree, trusted = self.tree(commit), self.prepare_base(commit)
        base = preparation.PreparationBase(self.tree(trusted or commit), bool(trusted), may_have_secrets)
        return measurement.try_gates(self.environment, policy, tree, base)

    def known_verdict(self, terms: MeasurementTerms) -> VerdictResult | None:
        """The verdict on a commit, if it needs no run; else None."""
        if not terms.policy.gates:
            return self._empty_verdict(terms)
        path = search_path(self._root, self._tools.standard_path(), terms.policy)
        known = KnownVerdicts(self.tree, self.cache, self._tools, path, terms.policy)
        judged = known.find(known.query_for(terms), terms)
        return judged and _without_base_changes(judged, terms)

    def _empty_verdict(self, terms: MeasurementTerms) -> VerdictResult:
        """The verdict without any gates: it passes, and says that nothing was measured."""
        return VerdictResult(
            Verdict(
                status=GateStatus.PASSED,
                commit=terms.commit,
                tree=self.tree(terms.commit),
                base=terms.base,
                policy=policy_digest(terms.policy),
                tier="none",
            )
        )

    def readiness(
        self, policy: GatePolicy, commit: str, *, may_have_secrets: bool = False
    ) -> list[measurement.GateReadiness]:
        """Whether each valid gate could run on a commit; without a commit, whether its programs exist.

        Prepare steps get secrets only if the commit itself has the configuration.
        """
        may_have_secrets = may_have_secrets or self._settings.at_commit(commit) is not None
        policy = replace(
            policy, gates=tuple(gate for gate in policy.gates or () if not self.gate_fault(gate))
        )
        tree = self.tree(commit) if commit else ""
        find = self._tools.missing_program
        return measurement.check_gates(
            self.environment, policy, tree, find, may_have_secrets=may_have_secrets
        )

    def note_user(self, environment: Mapping[str, str]) -> None:
        """Stores the user's PATH and registry settings outside the repository."""
        self._tools.note_user(environment, self._root)

    def claim(self, request: Request, ask: Callable[[Request], Answer]) -> ClaimOutcome:
        """Answers a done claim. Measures the commit unless its verdict is known, or lets a worker measure it."""
        if self._queued_claims is None:
            claimed = self._claims(self.verdict).claim(request, ask)
            if claimed is None:
                raise AssertionError("a done claim that may be measured was not")
            return claimed
        claimed = self._queued_claims.claim(request, ask, queued_work.CLAIM_SECONDS)
        if claimed is None:
            raise EnvironmentFault(
                "The gates are still running. Wait for them with `remand gate wait`, or call the MCP tool `submit` again."
            )
        return claimed

    def claim_known(self, request: Request, ask: Callable[[Request], Answer]) -> ClaimOutcome | None:
        """Answers a done claim if no gate has to run; None if one has to, which a worker then runs."""
        if self._queued_claims is None:
            return self._claims(self.known_verdict).claim(request, ask)
        return self._queued_claims.claim(request, ask, 0.0)

    @property
    def is_measured_by_workers(self) -> bool:
        """True if done claims wait in a queue for workers, and this machine runs no gate."""
        return self._make_queue is not None

    def wait_for_runs(self, task_id: str, seconds: float) -> bool:
        """Waits for the gate runs of a task; False if one is still running after that time."""
        is_over = self.runs.wait(task_id, seconds)
        queued = self._queued_claims
        return is_over and (queued is None or queued.wait(task_id, task_id, seconds))

    def unclaimed_runs(self) -> Sequence[QueuedJob] | None:
        """The gate runs that no worker can take; None if no worker is needed."""
        return None if self._make_queue is None else self._make_queue().unclaimed_jobs()

    def labels(self, task: Task, commit: str) -> Sequence[str]:
        """The labels that a worker needs to measure a commit."""
        return self.terms(task, commit).policy.labels

    def worker_claims(self, is_current: Callable[[], bool]) -> DoneClaims:
        """Done claims as a worker measures them: does not record a job that another worker has by now."""

        def verdict(terms: MeasurementTerms) -> VerdictResult:
            judged = self.verdict(terms)
            queued_work.require_current(is_current)
            return judged

        return self._claims(verdict)

    @cached_property
    def _queued_claims(self) -> queued_work.QueuedClaims | None:
        if self._make_queue is None:
            return None
        return queued_work.QueuedClaims(
            self._ledger,
            self._make_queue(),
            self._claims(lambda terms: None if terms.policy.gates else self._empty_verdict(terms)),
            self._settings.rules,
            self._settings.protected_tip,
            self.labels,
            self._new_key,
        )

    def _claims(self, verdict: Callable[[MeasurementTerms], VerdictResult | None]) -> DoneClaims:
        return DoneClaims(self._ledger, self._terms_of_work, verdict, lambda: self._settings.rules().team)

    def _terms_of_work(self, task: Task, commit: str) -> MeasurementTerms:
        """The terms of a done claim, which must be for a commit of the task's own."""
        terms = self.terms(task, commit)
        is_on_own_branch = task.branch not in ("", self._settings.base_branch())
        has_work = self._work_base(task).has_work(commit, is_on_own_branch=is_on_own_branch)
        require_off_base(task, commit, is_on_base=not has_work)
        return terms

    def stop_responder(self) -> StopResponder:
        """Answers stops of sessions without running a gate."""
        return StopResponder(
            self._ledger,
            lambda request: self.claim_known(request, self._ledger.ask),
            self.sessions,
            is_enforced=self._settings.rules().is_enforced,
        )


def _without_base_changes(judged: VerdictResult, terms: MeasurementTerms) -> VerdictResult:
    """A verdict without changes made by the base itself: known verdicts are found by trees, which do not show that."""
    if not terms.has_base_rules:
        return judged
    return judged._replace(verdict=without_configuration_finding(judged.verdict))


UNTITLED = "(a session without a prompt)"


class SoloWork(NamedTuple):
    """A session's working tree, and everything by which it is measured."""

    name: str
    """The session's unique name."""
    start: str
    """The snapshot with which it began."""
    end: str
    policy: GatePolicy
    title: str = ""
    host: str = ""
    foreign: tuple[str, ...] = ()
    """Files that others have changed since."""
    left_out: tuple[str, ...] = ()


class SoloVerdict(NamedTuple):
    """The verdict, and whether it concerns the changes of the session."""

    verdict: Verdict
    is_own: bool = True


class SoloMeasurement:
    """Measures sessions, and records their verdicts in a ledger that is never published."""

    def __init__(self, gates: Gates, ledger: Ledger) -> None:
        self._gates = gates
        self._ledger = ledger

    def measure(self, work: SoloWork) -> SoloVerdict:
        """Measures a session's tree, and records the verdict under the session."""
        try:
            found = self._verdict(work)
        except (EnvironmentFault, OSError) as fault:
            found = SoloVerdict(make_unstarted_verdict(work.end, "", str(fault)))
        self._record(work, found)
        return found

    def _verdict(self, work: SoloWork) -> SoloVerdict:
        """The verdict compared with the start. Ignores a failure that others' changes alone cause, too."""
        terms = MeasurementTerms(
            commit=work.end,
            base=work.start,
            policy=_without_strict_gates(work.policy),
            is_base_lazy=True,
            # The start includes uncommitted changes of an earlier session, even of rules, so no step gets secrets.
            prepare_base=self._gates.prepare_base(work.start),
        )
        verdict = self._gates.verdict(terms).verdict
        if verdict.status is not GateStatus.FAILED or not work.foreign:
            return SoloVerdict(verdict)
        others = self._gates.merge_trees(work.start, work.end, work.foreign)
        own = self._gates.verdict(replace(terms, base=others)).verdict
        if own.status is GateStatus.FAILED:
            return SoloVerdict(replace(own, base=work.start))
        return SoloVerdict(verdict, is_own=False)

    def _record(self, work: SoloWork, found: SoloVerdict) -> None:
        session = c.AddTask(title=work.title or UNTITLED, category="session")
        added = self._ledger.ask_as(THE_COORDINATOR, session, key=f"session-{work.name}")
        if isinstance(added, Refused):
            raise EnvironmentFault(f"The session could not be recorded: {added.message}")
        command = c.RecordSessionVerdict(
            task_id=added.task.id,
            verdict=fit_to_event(found.verdict),
            host=work.host,
            is_own=found.is_own,
            left_out=work.left_out,
        )
        self._ledger.ask_as(THE_COORDINATOR, command)


def _without_strict_gates(policy: GatePolicy) -> GatePolicy:
    """The rules for a session without strict gates, which would reject it for failures from before it began."""
    gates = tuple(
        replace(gate, mode=GateMode.DELTA) if gate.mode is GateMode.STRICT else gate
        for gate in policy.gates or ()
    )
    return replace(policy, gates=gates)

"""The gates of an open ledger: terms, verdicts, done claims, stops and the pause."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cached_property
from hashlib import sha256

from remand.adapters.gates import background_runs, results
from remand.adapters.gates.results import FileCache
from remand.adapters.gates.tools import SystemTools, missing_program, standard_path
from remand.adapters.git import mirror as git_mirror
from remand.adapters.git.repository import WorktreeStatus, head_commit, uncommitted_files
from remand.adapters.journal.writer import Sessions
from remand.app.facts import GateTerms
from remand.app.gates.done_claims import ClaimOutcome, DoneClaims
from remand.app.gates.known_results import KnownVerdicts, MeasurementTerms, VerdictResult, search_path
from remand.app.gates.ports import GateEnvironment
from remand.app.gates.stops import StopResponder
from remand.app.requests import Answer, Request
from remand.domain.decisions.findings import without_configuration_finding
from remand.domain.decisions.gates import require_off_base
from remand.domain.gate.gate import Gate, GatePolicy, policy_digest
from remand.domain.gate.verdict import INTEGRITY_GATE, GateStatus, Verdict
from remand.domain.instant import Instant
from remand.domain.task import Task
from remand.wiring import gate_environment
from remand.wiring.open_ledger import OpenLedger
from remand.wiring.startup import gates_folder

__all__ = ["Gates", "WorktreeStatus", "head_commit", "uncommitted_files"]


class Gates:
    """The gates of an open ledger."""

    def __init__(self, opened: OpenLedger) -> None:
        self._opened = opened
        self.folder = gates_folder(opened.store.value("id"))

    @cached_property
    def mirror(self) -> git_mirror.GitMirror:
        """The ledger's own copy of the repository, loaded when something has to be brought to it."""
        return git_mirror.GitMirror(os.path.join(self.folder, "mirror.git"), self._opened.place.common_dir)

    def tree(self, commit: str) -> str:
        """The code tree of a commit, brought to the mirror once and remembered."""
        key = sha256(f"tree {commit}".encode()).hexdigest()
        known = self.cache.get(key)
        if known is None:
            known = self.mirror.fetch_commit(commit).encode()
            self.cache.put(key, known)
        return known.decode()

    @cached_property
    def cache(self) -> FileCache:
        """What was found out before."""
        return FileCache(os.path.join(self.folder, "results"))

    @cached_property
    def workshop(self) -> GateEnvironment:
        """What the gates are measured with, loaded and tried out when something has to be measured."""
        return gate_environment.build_gate_environment(
            self._opened.place, self.folder, self.mirror, self.tree, self.cache
        )

    def report_path(self, name: str) -> str:
        """Where a full report lies on this machine; empty when it is not here."""
        path = os.path.join(self.folder, "reports", f"{os.path.basename(name)}.md")
        return path if name and os.path.isfile(path) else ""

    @cached_property
    def runs(self) -> background_runs.BackgroundRuns:
        """Runs that outlast whoever asked for them, loaded when there are any to start or find."""
        return background_runs.BackgroundRuns(os.path.join(self.folder, "runs"))

    @cached_property
    def sessions(self) -> Sessions:
        """What is remembered of host sessions."""
        return Sessions(os.path.join(self.folder, "sessions"))

    @property
    def is_paused(self) -> bool:
        """True while the user lets every session stop."""
        return self.current_pause is not None

    @property
    def current_pause(self) -> results.Pause | None:
        """The user's pause, while there is one."""
        return results.current_pause(self.cache, self._opened.ledger.clock.now())

    def pause(self, until: Instant, actor: str, reason: str) -> None:
        """Lets every session stop until then."""
        results.begin_pause(self.cache, until, actor, reason)

    def resume(self) -> bool:
        """Ends the pause; False when there was none."""
        was_on = self.is_paused
        results.end_pause(self.cache)
        return was_on

    def terms(self, task: Task | None, commit: str) -> MeasurementTerms:
        """By what a commit is measured: the base it grew from, and that base's rules.

        Work done on the base itself is held against where the base was when the task was claimed: a commit
        is not its own base, and brings no rules of its own.
        """
        settings = self._opened.settings
        tip = settings.tip()
        base = self._base(task, commit, tip)
        known = settings.at_commit(base) if base and self._is_on_base(commit, tip) else None
        policy = (known or settings.settings()).gate_policy
        return MeasurementTerms(
            commit=commit,
            base=base,
            policy=policy,
            claimed_under=self._policy_at_claim(task, policy),
            has_base_rules=self._has_base_rules(commit, base, tip),
        )

    def _has_base_rules(self, commit: str, base: str, tip: str) -> bool:
        """True when a commit beside the base has the base's own configuration, and not the one it was held against."""
        is_beside = bool(base) and base != tip and not self._is_on_base(commit, tip)
        return is_beside and self._opened.settings.is_same(commit, tip)

    def _policy_at_claim(self, task: Task | None, policy: GatePolicy) -> GatePolicy | None:
        """The rules at the claim, where the base has others now.

        Also where the base is the remote's: what is read here is its ref in this clone, which whoever works here
        can move, and no history tells a commit of the task's own there from one that was merged.
        """
        settings = self._opened.settings
        before = task.claim.base if task is not None and task.claim is not None else ""
        known = settings.at_commit(before) if before and before != settings.tip() else None
        return (
            known.gate_policy if known and policy_digest(known.gate_policy) != policy_digest(policy) else None
        )

    def _base(self, task: Task | None, commit: str, tip: str) -> str:
        """Where the work left the base. A base that anyone here can commit to counts as it was at the claim."""
        if not tip:
            return ""
        before = self._base_at_claim(task, tip)
        anchor = tip if self._opened.settings.protected_tip() else before or tip
        if anchor == tip and self._is_on_base(commit, tip):
            return before if before != commit else ""
        met = self._merge_base(commit, anchor) or anchor
        return met if met != commit else ""

    def _base_at_claim(self, task: Task | None, tip: str) -> str:
        """Where the base was when the task was claimed; empty when the base never was there.

        A claim is believed from any file, and an agent that names its own commit there is not held against that.
        """
        before = task.claim.base if task is not None and task.claim is not None else ""
        return before if before and tip and self._is_on_base(before, tip) else ""

    def _is_on_base(self, commit: str, tip: str) -> bool:
        return self._merge_base(commit, tip) == commit

    def _merge_base(self, commit: str, tip: str) -> str:
        """Where two commits' histories meet, which never changes and is looked up once."""
        key = sha256(f"meeting {commit} {tip}".encode()).hexdigest()
        known = self.cache.get(key)
        if known is None:
            self.mirror.fetch_commit(commit)
            self.mirror.fetch_commit(tip)
            known = self.mirror.merge_base(commit, tip).encode()
            self.cache.put(key, known)
        return known.decode()

    def gate_terms(self, task: Task, commit: str) -> GateTerms:
        """The gates that hold for a done claim."""
        terms = self.terms(task, commit)
        names = None if terms.policy.gates is None else tuple(gate.name for gate in terms.policy.gates)
        if names is not None and terms.claimed_under:
            names = (*names, INTEGRITY_GATE)
        return GateTerms(names, policy_digest(terms.policy))

    def verdict(self, terms: MeasurementTerms, *, is_fresh: bool = False) -> VerdictResult:
        """Measures a commit; afresh, what is known of it is measured again, and known from then on."""
        if not terms.policy.gates:
            return self._empty_verdict(terms)
        workshop = self.workshop._replace(cache=_WriteOnlyCache(self.cache)) if is_fresh else self.workshop
        return _without_base_changes(gate_environment.measure_commit(workshop, terms), terms)

    def _empty_verdict(self, terms: MeasurementTerms) -> VerdictResult:
        """The verdict where there are no gates: it passes, and says that nothing was measured."""
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

    def missing_program(self, gate: Gate, policy: GatePolicy) -> str:
        """The program of a gate that is nowhere to be found; empty when it is there."""
        return missing_program(gate.command, search_path(self._opened.place.root, standard_path(), policy))

    def known_verdict(self, terms: MeasurementTerms) -> VerdictResult | None:
        """The verdict on a commit, if it needs no run."""
        if not terms.policy.gates:
            return self._empty_verdict(terms)
        path = search_path(self._opened.place.root, standard_path(), terms.policy)
        known = KnownVerdicts(self.tree, self.cache, SystemTools(), path, terms.policy)
        judged = known.find(known.query_for(terms), terms)
        return judged and _without_base_changes(judged, terms)

    def claim(self, request: Request, ask: Callable[[Request], Answer]) -> ClaimOutcome:
        """Takes a done claim, and measures what was not measured yet."""
        claims = self._claims(self.verdict)
        claimed = claims.claim(request, ask)
        if claimed is None:
            raise AssertionError("a done claim that may be measured was not")
        return claimed

    def claim_known(self, request: Request, ask: Callable[[Request], Answer]) -> ClaimOutcome | None:
        """Takes a done claim for which no gate has to run; None when one has to."""
        return self._claims(self.known_verdict).claim(request, ask)

    def _claims(self, verdict: Callable[[MeasurementTerms], VerdictResult | None]) -> DoneClaims:
        settings = self._opened.settings
        return DoneClaims(self._opened.ledger, self._terms_of_work, verdict, lambda: settings.rules().team)

    def _terms_of_work(self, task: Task, commit: str) -> MeasurementTerms:
        """The terms of a done claim, which takes a commit of the task's own."""
        terms = self.terms(task, commit)
        is_on_base = any(tip and self._is_on_base(commit, tip) for tip in self._foreign_commits(task))
        require_off_base(task, commit, is_on_base=is_on_base)
        return terms

    def _foreign_commits(self, task: Task) -> tuple[str, ...]:
        """Commits up to which nothing is the task's own work.

        What the base had at the claim, and what the remote's base has now. A local base may be worked on
        itself, unless the task has a branch of its own.
        """
        settings = self._opened.settings
        before = self._base_at_claim(task, settings.tip())
        base = settings.settings().base or settings.base()
        local = settings.tip() if task.branch not in ("", base) else ""
        return (before, settings.protected_tip(), local)

    def stop_handler(self) -> StopResponder:
        """Answers stops of sessions without running a gate."""
        ledger = self._opened.ledger
        rules = self._opened.settings.rules()
        return StopResponder(
            ledger,
            lambda request: self.claim_known(request, ledger.ask),
            self.sessions,
            is_enforced=rules.is_enforced,
        )


def _without_base_changes(judged: VerdictResult, terms: MeasurementTerms) -> VerdictResult:
    """A verdict without what the base has changed itself; it is known by trees alone, which do not tell that."""
    return (
        judged._replace(verdict=without_configuration_finding(judged.verdict))
        if terms.has_base_rules
        else judged
    )


class _WriteOnlyCache:
    """A cache that keeps what it is given and knows nothing."""

    def __init__(self, cache: FileCache) -> None:
        self._cache = cache

    def get(self, key: str) -> bytes | None:  # noqa: ARG002 - whatever is asked for
        """Nothing."""
        return None

    def put(self, key: str, value: bytes) -> None:
        """Keeps something under a key."""
        self._cache.put(key, value)

"""Known results of gates: verdicts measured before, and gates that cannot be measured."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection
from hashlib import sha256

import msgspec
from msgspec.structs import replace

from remand.app.gates.ports import ResultCache, Tools
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.gate.gate import GatePolicy, policy_digest
from remand.domain.gate.state import broken_gate_names
from remand.domain.gate.verdict import UNMEASURED, Verdict
from remand.domain.record import NamedTuple, Record
from remand.domain.task import Task
from remand.ledger.store import Transaction

_encode = msgspec.json.Encoder(order="deterministic").encode
_decode = msgspec.json.Decoder(Verdict).decode


class MeasurementTerms(Record, kw_only=True):
    """The terms by which a commit is measured: its base, and the base's rules."""

    commit: str
    base: str = ""
    policy: GatePolicy = GatePolicy()
    claimed_under: GatePolicy | None = None
    """The rules at the claim, if the base has others now."""
    is_base_lazy: bool = False
    """If True, the base is measured only if a gate fails: integrity is judged by the change's text alone,
    without the base's tests.
    """
    prepare_base: str = ""
    """A commit of the base branch from which prepare steps take everything but their key files; empty if there is none."""
    may_have_secrets: bool = False
    """True if the rules are those of the base branch, so that its prepare steps may get the user's registry passwords."""
    must_pass: tuple[str, ...] = ()
    """Patterns of the tests that the task names as its proof."""
    has_base_rules: bool = False
    """True if the commit has the base's current configuration, however it got it."""


class VerdictResult(NamedTuple):
    """A verdict, and whether it was known before."""

    verdict: Verdict
    is_cached: bool = False


class VerdictQuery(NamedTuple):
    """Everything on which a verdict depends, and the name under which it is stored."""

    key: str
    tree: str
    base_tree: str
    tools: str
    prepare_tree: str


class KnownVerdicts:
    """The verdicts of one policy, by code tree, base, rules and tools."""

    def __init__(
        self,
        tree: Callable[[str], str],
        cache: ResultCache,
        tools: Tools,
        path: tuple[str, ...],
        policy: GatePolicy,
    ) -> None:
        self._tree = tree
        self._cache = cache
        self._tools = tools
        self._path = path
        self._policy = policy

    def query_for(self, terms: MeasurementTerms) -> VerdictQuery:
        """The query for a commit's verdict."""
        tree = self._tree(terms.commit)
        base_tree = self._tree(terms.base) if terms.base else ""
        prepare_tree = self._tree(terms.prepare_base) if terms.prepare_base else ""
        commands = [gate.command for gate in self._policy.gates or ()]
        tools = self._tools.digest(commands, self._path)
        kind = "session" if terms.is_base_lazy else "verdict 5"
        parts = (kind, tree, base_tree, prepare_tree, policy_digest(self._policy), tools, *terms.must_pass)
        return VerdictQuery(sha256(_encode(parts)).hexdigest(), tree, base_tree, tools, prepare_tree)

    def find(self, query: VerdictQuery, terms: MeasurementTerms) -> VerdictResult | None:
        """The stored verdict; None if there is none."""
        known = self._cache.get(query.key)
        if known is None:
            return None
        return VerdictResult(replace(_decode(known), commit=terms.commit, base=terms.base), is_cached=True)

    def store(self, query: VerdictQuery, verdict: Verdict) -> None:
        """Stores a verdict, except parts that could not be measured."""
        if not any(gate.status in UNMEASURED for gate in verdict.gates):
            self._cache.put(query.key, _encode(verdict))


def search_path(root: str, standard: tuple[str, ...], policy: GatePolicy) -> tuple[str, ...]:
    """The folders in which the gates' programs are searched, starting with the configured ones."""
    return (*(os.path.join(root, name) for name in policy.path), *standard)


class BrokenGates(NamedTuple):
    """The broken gates, and the tasks with the questions about them."""

    broken: frozenset[str] = frozenset()
    questions: tuple[Task, ...] = ()
    """Those with an open question, whether or not its gates are still broken."""

    @property
    def open_questions(self) -> tuple[Task, ...]:
        """The valid questions: until they are answered, nothing is started."""
        return tuple(task for task in self.questions if self.broken & set(task.gates_asked_about))

    @property
    def outdated_questions(self) -> tuple[Task, ...]:
        """The questions that need no answer any more, because their gates have other rules now."""
        return tuple(task for task in self.questions if not self.broken & set(task.gates_asked_about))

    @property
    def is_on_trial(self) -> bool:
        """True if the user had a broken gate tried again, and it was not measured since."""
        return bool(self.broken) and not self.open_questions

    @property
    def reason(self) -> str:
        """Why nothing is started, in one line; empty if there is no valid question."""
        gates = sorted({gate for task in self.open_questions for gate in task.gates_asked_about})
        names = ", ".join(f"`{gate}`" for gate in gates)
        many = "The gates" if len(gates) > 1 else "The gate"
        causes = (one.text for task in self.open_questions for one in task.gates.outages if one.gate in gates)
        cause = next(causes, "") or "no cause is known"
        return f"{many} {names} cannot be measured: {cause}; `remand inbox` asks what to do" if gates else ""


def read_broken_gates(view: Transaction, policy: str) -> BrokenGates:
    """The gates that are broken by the current rules."""
    tasks = view.task_lists.with_outages()
    outages = [outage for task in tasks for outage in task.gates.outages]
    questions = tuple(task for task in tasks if task.gates_asked_about)
    return BrokenGates(broken_gate_names(outages, policy), questions)


def measured_gate_notes(ledger: Ledger, gates: Collection[str]) -> tuple[c.NoteGatesMeasured, ...]:
    """The commands to record after gates were measured: they close the questions about them."""
    with ledger.store.read() as view:
        tasks = [
            task.id
            for task in view.task_lists.with_outages()
            if task.gates_asked_about or any(outage.gate in gates for outage in task.gates.outages)
        ]
    names = tuple(sorted(gates))
    return tuple(c.NoteGatesMeasured(task_id=name, gates=names) for name in tasks)


def note_measured_gates(ledger: Ledger, gates: Collection[str]) -> None:
    """Records that gates were measured."""
    notes = measured_gate_notes(ledger, gates)
    if notes:
        ledger.ask_all_as(THE_COORDINATOR, notes)


class WriteOnlyCache:
    """A cache that stores results but never returns any, so that everything is measured again."""

    def __init__(self, cache: ResultCache) -> None:
        self.put = cache.put

    def get(self, _key: str) -> bytes | None:
        return None

"""Measures sessions that hold no task: their working tree against the one they began with."""

from __future__ import annotations

from msgspec.structs import replace

from remand.app.errors import EnvironmentFault
from remand.app.gates.gates import Gates
from remand.app.gates.known_results import MeasurementTerms
from remand.app.ledger import Ledger
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR
from remand.domain.gate.gate import GateMode, GatePolicy
from remand.domain.gate.verdict import GateStatus, Verdict, fit_to_event, make_unstarted_verdict
from remand.domain.record import NamedTuple
from remand.domain.refusals import Refused

UNTITLED = "(a session without a prompt)"


class SoloWork(NamedTuple):
    """A session's working tree, and all that it is measured by."""

    name: str
    """The session, by a name that no other has."""
    start: str
    """The snapshot that it began with."""
    end: str
    policy: GatePolicy
    title: str = ""
    host: str = ""
    foreign: tuple[str, ...] = ()
    """Files that others have changed since."""
    left_out: tuple[str, ...] = ()


class SoloVerdict(NamedTuple):
    """What was found, and whether it has to do with what the session changed."""

    verdict: Verdict
    is_own: bool = True


class SoloMeasurement:
    """Measures sessions, and records their verdicts in a ledger that nothing publishes."""

    def __init__(self, gates: Gates, ledger: Ledger) -> None:
        self._gates = gates
        self._ledger = ledger

    def measure(self, work: SoloWork) -> SoloVerdict:
        """The verdict on a session's tree, recorded under the session."""
        try:
            found = self._verdict(work)
        except (EnvironmentFault, OSError) as fault:
            found = SoloVerdict(make_unstarted_verdict(work.end, "", str(fault)))
        self._record(work, found)
        return found

    def _verdict(self, work: SoloWork) -> SoloVerdict:
        """Measured against the start. A failure counts that is not there as well with others' changes alone."""
        terms = MeasurementTerms(
            commit=work.end,
            base=work.start,
            policy=_without_strict_gates(work.policy),
            is_base_lazy=True,
            # What an earlier session left uncommitted, rules included, is in the start: no step gets secrets here.
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
    """The rules of a session: nobody is blamed for what was so when it began."""
    gates = tuple(
        replace(gate, mode=GateMode.DELTA) if gate.mode is GateMode.STRICT else gate
        for gate in policy.gates or ()
    )
    return replace(policy, gates=gates)

"""How the work could go on: given, and made for this task."""

from __future__ import annotations

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.mentions import bare
from remand.domain.validation.phrases import IDLE, clauses, gives_reason
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import brings, marks, named, specific, ties
from remand.domain.validation.tokens import Text, read

TELLING_WORDS = 2
SUB_TASKS = 2
SAID = 3
LENGTHY = 5
"""How many words of its own an alternative has that tells of something new."""
SAME = 0.85
REFORMULATED = 3
"""How many things a reformulation without a figure, a path or a name brings that nobody has said yet."""


def missing(reading: Reading) -> Issue | None:
    """No alternative."""
    return None if reading.alternative.raw else issue("alternative_missing")


def generic(reading: Reading) -> Issue | None:
    """An alternative that would fit any task: it names little, or nothing that the rest of the record is about."""
    text = reading.alternative
    if not text.raw or len(reading.sub_tasks) >= SUB_TASKS:
        return None
    others = (*reading.claim, *reading.attempts, *reading.shown, *reading.task)
    is_of_record = marks(text) or ties(text, *others) >= TELLING_WORDS or specific(text.telling) >= LENGTHY
    return None if is_of_record and named(text) >= TELLING_WORDS else issue("alternative_generic")


def restates(reading: Reading) -> Issue | None:
    """An alternative that says nothing but what the task says."""
    text = reading.alternative
    known = reading.title.stems | reading.scope.stems
    if len(text.stems) < SAID or len(text.stems & known) < SAME * len(text.stems):
        return None
    return issue("alternative_restates") if brings(text, *reading.task) < TELLING_WORDS else None


def idle(reading: Reading) -> Issue | None:
    """An alternative that only waits, drops the task or leaves it to whomever."""
    ways = [way for clause in clauses(reading.alternative.raw) if (way := _idle_way(clause, reading))]
    if not ways or _suggested(_acts(reading), reading) >= TELLING_WORDS:
        return None
    if reading.reason is RejectionReason.INFEASIBLE:
        return issue("reformulation_missing")
    if "waits" in ways:
        return issue("alternative_waits")
    if "drops" in ways:
        return issue("alternative_drops")
    return issue("alternative_delegates")


def not_reformulated(reading: Reading) -> Issue | None:
    """What is to be done instead of the infeasible has nothing to check and hardly a word that is not said already."""
    acts = _acts(reading)
    if not reading.alternative.raw or len(reading.sub_tasks) >= SUB_TASKS:
        return None
    own = read(bare(reading.task_id))
    if marks(acts, own) or brings(acts, *reading.task, *reading.claim) + len(acts.acronyms) >= REFORMULATED:
        return None
    return issue("reformulation_missing")


def _acts(reading: Reading) -> Text:
    """The clauses of an alternative that say what to do."""
    found = clauses(reading.alternative.raw)
    return read(
        "\n".join(clause for clause in found if not gives_reason(clause) and not _idle_way(clause, reading))
    )


def _suggested(acts: Text, reading: Reading) -> float:
    """How much is left to do besides. To do the dependency, or to put the questions, is something."""
    is_asking = any(mark in reading.alternative.raw for mark in "?？")
    if reading.reason is RejectionReason.UNCLEAR_REQUIREMENTS and is_asking:
        return TELLING_WORDS
    known = () if reading.reason is RejectionReason.MISSING_DEPENDENCY else (reading.factor,)
    return brings(acts, *reading.task, *known) + len(acts.acronyms)


def _idle_way(clause: str, reading: Reading) -> str:
    """How a clause suggests nothing; empty when it suggests something."""
    for way, pattern in IDLE.items():
        if pattern.search(clause):
            rest = read(pattern.sub(" ", clause))
            return "" if way == "delegates" and _is_order(rest, reading) else way
    return ""


def _is_order(text: Text, reading: Reading) -> bool:
    """True when someone is asked for something in particular, and not to do the task."""
    others = (*reading.claim, *reading.attempts, *reading.shown)
    is_of_record = marks(text) or ties(text, *others)
    return bool(is_of_record) and brings(text, *reading.task) >= TELLING_WORDS


RULES = (missing, restates)
"""For every reason."""
CONCRETE_RULES = (generic, idle)
"""For every reason but obsolescence, where cancelling is enough."""
REFORMULATION_RULES = (*CONCRETE_RULES, not_reformulated)
"""For infeasibility."""

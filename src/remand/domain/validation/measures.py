"""All measures: which apply to a reason, what each one's weakness is called, and the way it may count."""

from __future__ import annotations

from collections.abc import Callable

from remand.domain.reasons import RejectionReason
from remand.domain.validation.features import alternative, claim, effort, evidence, factor, reasons
from remand.domain.validation.features.view import View
from remand.domain.validation.reading import Reading

Measure = Callable[[View], float]

_ALWAYS = (effort, factor, claim, evidence)
_GENERAL = (*_ALWAYS, alternative)
_WEAKNESS = {
    **{measure.__name__: "effort_weak" for measure in (*effort.FOR, *effort.AGAINST)},
    **{measure.__name__: "blocking_factor_weak" for measure in (*factor.FOR, *factor.AGAINST)},
    **{measure.__name__: "evidence_weak" for measure in (*evidence.FOR, *evidence.AGAINST)},
    **{measure.__name__: "alternative_weak" for measure in (*alternative.FOR, *alternative.AGAINST)},
    **reasons.WEAKNESS,
}
_WEAK_CLAIM = {
    RejectionReason.SCOPE_CREEP: "scope_weak",
    RejectionReason.MISSING_DEPENDENCY: "hard_requirement_weak",
    RejectionReason.INFEASIBLE: "infeasible_proof_weak",
    RejectionReason.UNCLEAR_REQUIREMENTS: "questions_weak",
}
_NATURAL_WHEN_OBSOLETE = (
    effort.attempt_echo,
    effort.attempt_theme,
    factor.factor_in_task,
    claim.repetition,
    *evidence.SUCCESS,
)
"""What is done already is told in the words of the task, and works."""
OF_ONE_REASON = frozenset(reasons.WEAKNESS)
_EVERY: tuple[Measure, ...] = (
    *(measure for module in _GENERAL for measure in (*module.FOR, *module.AGAINST)),
    *(
        measure
        for group in (reasons.FOR, reasons.AGAINST)
        for measures in group.values()
        for measure in measures
    ),
)
NOTES = {measure.__name__: (measure.__doc__ or "").strip() for measure in _EVERY}
"""What each measure says, in one sentence."""
COUNTS_AGAINST = frozenset(
    measure.__name__
    for measures in (*(module.AGAINST for module in _GENERAL), *reasons.AGAINST.values())
    for measure in measures
)
"""Each measure may only count in the way it is meant: these against a rejection, all others for it."""


def measures_for(reason: RejectionReason | None) -> tuple[Measure, ...]:
    """The measures that apply to a reason. Where sub-tasks are asked for, they stand for the alternative."""
    modules = _ALWAYS if reason in {RejectionReason.SCOPE_CREEP, RejectionReason.OBSOLETE} else _GENERAL
    general = tuple(measure for module in modules for measure in (*module.FOR, *module.AGAINST))
    if reason is None:
        return general
    if reason is RejectionReason.OBSOLETE:
        return tuple(measure for measure in general if measure not in _NATURAL_WHEN_OBSOLETE)
    return (*general, *reasons.FOR.get(reason, ()), *reasons.AGAINST.get(reason, ()))


_APPLYING = {reason: measures_for(reason) for reason in (*RejectionReason, None)}


def measured(reading: Reading) -> dict[str, float]:
    """The value of every measure that applies to the reason."""
    view = View(reading)
    return {measure.__name__: float(measure(view)) for measure in _APPLYING[reading.reason]}


def weakness(name: str, reason: RejectionReason | None) -> str:
    """The code of the issue that a low value of a measure stands for."""
    if reason is RejectionReason.INFEASIBLE and _WEAKNESS.get(name) == "alternative_weak":
        return "reformulation_weak"
    if name in _WEAKNESS:
        return _WEAKNESS[name]
    return _WEAK_CLAIM.get(reason, "blocking_factor_weak") if reason else "blocking_factor_weak"

"""The sum of the weighted measures, and the issues that name the weakest parts when it is too low."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator

from remand.domain.reasons import RejectionReason
from remand.domain.validation.assessment import Feature, Issue
from remand.domain.validation.catalogue import field_of, issue
from remand.domain.validation.measures import NOTES, OF_ONE_REASON, measured, weakness
from remand.domain.validation.reading import Reading
from remand.domain.validation.weights import BIAS, WEIGHTS

UNWEIGHED = 1.0
"""No record of an obsolete task was there to weigh, so only a very poor one is judged by its score."""
BRIEF = 100
"""Up to how many words and figures a record is brief."""
BENEFIT = 0.8
"""What a brief record is given, which leaves little to measure; the rules have seen that its parts are there."""
FOREIGN_BENEFIT = 1.6
"""What a record in a language without word lists is given."""
WEAKEST = 2
OWN_WEAK = -0.2
"""What a measure made for the reason must have pulled to be named as well."""
ALSO_WEAK = 0.6
"""A part is named beside the weakest when it pulled at least this much of what that one did."""


def features_of(reading: Reading) -> tuple[Feature, ...]:
    """What was measured against what is usual, with its weight, the weightiest first."""
    found = [
        Feature(
            name=name,
            field=field_of(weakness(name, reading.reason)),
            value=value - WEIGHTS[name][0],
            weight=WEIGHTS[name][1],
            note=NOTES[name],
        )
        for name, value in measured(reading).items()
        if name in WEIGHTS
    ]
    if benefit(reading):
        note = "The record is brief, or in a language without word lists, so the measures say little."
        found.append(
            Feature(name="benefit", field="reason_detail", value=1.0, weight=benefit(reading), note=note)
        )
    return tuple(sorted(found, key=lambda feature: -abs(feature.contribution)))


def score_of(reading: Reading, features: Iterable[Feature]) -> float:
    """The sum; below zero speaks against the rejection."""
    start = BIAS + UNWEIGHED if reading.reason is RejectionReason.OBSOLETE else BIAS
    return start + sum(feature.contribution for feature in features)


def benefit(reading: Reading) -> float:
    """What a record is given that is brief, or in a language whose words the measures do not know; else nothing."""
    shown = (item.data for item in reading.evidence)
    texts = (*reading.claim, *reading.attempts, reading.alternative, *shown)
    is_brief = sum(len(text.words) + len(text.figures) for text in texts) <= BRIEF
    if not reading.is_readable:
        return FOREIGN_BENEFIT
    return BENEFIT if is_brief else 0.0


def weakest(reading: Reading, features: Iterable[Feature]) -> Iterator[Issue]:
    """The issues of the one or two parts that pulled the score down most, and of what the reason itself asks for."""
    pulled: dict[str, float] = defaultdict(float)
    own = set()
    for feature in features:
        if feature.contribution < 0:
            code = weakness(feature.name, reading.reason)
            pulled[code] += feature.contribution
            if feature.name in OF_ONE_REASON:
                own.add(code)
    ordered = sorted(pulled, key=lambda code: pulled[code])
    for place, code in enumerate(ordered):
        is_among_weakest = place < WEAKEST and pulled[code] <= ALSO_WEAK * pulled[ordered[0]]
        if is_among_weakest or (code in own and pulled[code] <= OWN_WEAK):
            yield issue(code)

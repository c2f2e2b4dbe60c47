"""Measures of the alternative."""

from __future__ import annotations

import re

from remand.domain.validation.features.view import View
from remand.domain.validation.substance import marks, overlap

_CLAUSE = re.compile(r"[.;:。；](?:\s|$)|[。；]")


def alternative_marks(view: View) -> float:
    """Checkable things in the alternative, up to three."""
    return min(marks(view.reading.alternative, *view.task), 3) / 3


def alternative_chooses(view: View) -> float:
    """Whether it offers a choice or a condition."""
    return min(view.reading.alternative.count("chooses"), 2) / 2


def alternative_ready(view: View) -> float:
    """Whether something is ready."""
    return min(view.reading.alternative.count("ready"), 2) / 2


def alternative_waits(view: View) -> float:
    """How much it is about waiting, where it offers no choice."""
    if view.reading.alternative.count("chooses"):
        return 0.0
    return min(view.reading.alternative.share("waits"), 0.4)


def alternative_protocol(view: View) -> float:
    """How much it speaks of the protocol."""
    return min(view.reading.alternative.share("protocol"), 0.4)


def alternative_new(view: View) -> float:
    """Telling words that neither task nor blocking factor had, up to eight."""
    known = view.task_stems | view.reading.factor.stems
    return min(len(view.reading.alternative.telling - known), 8) / 8


def alternative_echo(view: View) -> float:
    """How much of it repeats task and blocking factor."""
    return overlap(view.reading.alternative.stems, view.task_stems | view.reading.factor.stems)


def alternative_clauses(view: View) -> float:
    """How many sentences or clauses it has, up to three."""
    return min(len(_CLAUSE.findall(view.reading.alternative.raw)), 3) / 3


def alternative_share(view: View) -> float:
    """How much of the record is about how to go on, so that short records are not held short."""
    told = sum(len(text.words) + len(text.figures) for text in view.told)
    own = len(view.reading.alternative.words) + len(view.reading.alternative.figures)
    return min(own / max(told, 20), 0.5) * 2


FOR = (
    alternative_share,
    alternative_marks,
    alternative_chooses,
    alternative_ready,
    alternative_new,
    alternative_clauses,
)
AGAINST = (alternative_waits, alternative_protocol, alternative_echo)

"""Measures of the attempts."""

from __future__ import annotations

from collections import Counter

from remand.domain.validation.features.view import View
from remand.domain.validation.rules.effort import alikeness
from remand.domain.validation.substance import overlap

FULL = 3.0


def attempt_outcomes(view: View) -> float:
    """The part of the attempts that tell what came of them."""
    return view.mean(text.has_outcome for text in view.attempts)


def attempt_protocol(view: View) -> float:
    """How much the attempts speak of the protocol instead of the work."""
    return min(view.mean(text.share("protocol") for text in view.attempts), 0.5)


def attempt_echo(view: View) -> float:
    """How much of the attempts' words the task supplied."""
    return overlap(view.attempt_stems, view.task_stems)


def attempt_alike(view: View) -> float:
    """How alike the two most similar attempts are."""
    return alikeness(view.attempts)


def attempt_theme(view: View) -> float:
    """How far one word runs through all attempts."""
    counted = Counter(stem for text in view.attempts for stem in text.stems)
    return (max(counted.values(), default=0) - 1) / len(view.attempts) if view.attempts else 0.0


def attempt_telling(view: View) -> float:
    """How many different telling words the attempts bring that the task did not."""
    told = frozenset[str]().union(*(text.telling for text in view.attempts)) - view.task_stems
    return min(len(told), 12) / 12


def attempt_fails(view: View) -> float:
    """Failures seen, an attempt."""
    return min(sum(text.count("fails") for text in view.attempts), 3) / 3


def attempt_asked(view: View) -> float:
    """Whether someone was asked."""
    return float(any(text.count("asked") for text in view.attempts))


FOR = (attempt_outcomes, attempt_telling, attempt_fails, attempt_asked)
AGAINST = (attempt_protocol, attempt_echo, attempt_alike, attempt_theme)

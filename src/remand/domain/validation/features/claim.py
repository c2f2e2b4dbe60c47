"""Measures of the detail, and of all that is told together."""

from __future__ import annotations

from collections import Counter

from remand.domain.validation.features.view import View
from remand.domain.validation.substance import marks
from remand.domain.validation.tokens import is_content, stem


def detail_marks(view: View) -> float:
    """Checkable things in the detail, up to four."""
    return min(marks(view.reading.detail, *view.task), 4) / 4


def detail_protocol(view: View) -> float:
    """How much the detail speaks of the protocol."""
    return min(view.reading.detail.share("protocol"), 0.4)


def detail_prefers(view: View) -> float:
    """Words of preference in the detail and the blocking factor."""
    return min(view.reading.detail.count("prefers") + view.reading.factor.count("prefers"), 3) / 3


def repetition(view: View) -> float:
    """How often the same words come back in all that is told."""
    texts = (*view.told, *view.evidence_texts, view.reading.alternative)
    counted = Counter(stem(word) for text in texts for word in text.words if is_content(word))
    total = sum(counted.values())
    return sum(count - 1 for count in counted.values()) / total if total else 1.0


def volume(view: View) -> float:
    """How much is told in all: the more it is, the more of it has to be substance."""
    texts = (*view.told, *view.evidence_texts, view.reading.alternative)
    return min(sum(len(text.words) for text in texts), 300) / 300


FOR = (detail_marks,)
AGAINST = (detail_protocol, detail_prefers, repetition, volume)

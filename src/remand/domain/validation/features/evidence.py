"""Measures of the evidence."""

from __future__ import annotations

import re

from remand.domain.validation.features.view import View
from remand.domain.validation.reading import Evidence
from remand.domain.validation.substance import marks
from remand.domain.validation.tokens import Text

_ALL_OF = re.compile(r"(?<![\d.,])(\d[\d,.]{0,11})\s?(?:/|of|von|de|sur|di|z|из|中)\s?\1(?![\d])")


def evidence_telling(view: View) -> float:
    """Telling words in the data that the task did not supply, up to ten."""
    told = frozenset[str]().union(*(text.telling for text in view.evidence_texts)) - view.task_stems
    return min(len(told), 10) / 10


def evidence_protocol(view: View) -> float:
    """How much data and sources speak of the protocol."""
    texts = (*view.evidence_texts, *(item.source for item in view.reading.evidence))
    return min(view.mean(text.share("protocol") for text in texts), 0.4)


def evidence_sources(view: View) -> float:
    """Whether sources are places, runs or commands rather than notions."""
    return view.mean(
        min(marks(item.source) + len(item.source.acronyms) / 2 + len(item.source.words) / 6, 1.5) / 1.5
        for item in view.reading.evidence
    )


def evidence_tied(view: View) -> float:
    """The part of the evidence's figures and identifiers that attempts and detail tell as well."""
    told = {mark for text in view.told for mark in (*text.figures, *text.codes)}
    held = {mark for text in view.evidence_texts for mark in (*text.figures, *text.codes)}
    return len(told & held) / len(held) if held else 0.0


def succeeded(view: View) -> float:
    """Whether the last thing tried or shown went well."""
    last = (*view.attempts[-1:], *view.evidence_texts[-1:])
    return view.mean(is_success(text) for text in last)


def is_success(text: Text) -> bool:
    """True for a text that tells of success, or of all of so many, and of no failure."""
    if text.count("fails") or text.count("not"):
        return False
    return bool(text.count("works") or text.count("done")) or _ALL_OF.search(text.raw) is not None


def evidence_all(view: View) -> float:
    """Whether evidence counts as many good ones as there were: all of so many, and no failure."""
    return float(any(_is_all(item) for item in view.reading.evidence))


def _is_all(item: Evidence) -> bool:
    if item.data.count("fails") or item.data.count("not"):
        return False
    counts = [value for _, value in item.counts if value >= 2]
    return len(set(counts)) < len(counts) or _ALL_OF.search(item.data.raw) is not None


FOR = (evidence_telling, evidence_sources, evidence_tied)
SUCCESS = (succeeded, evidence_all)
AGAINST = (evidence_protocol, *SUCCESS)

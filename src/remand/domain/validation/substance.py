"""How much of a text could be checked by another: figures, identifiers, quotations that the task did not supply."""

from __future__ import annotations

from remand.domain.validation.lexicon import GENERIC_STEMS
from remand.domain.validation.tokens import Text, is_paired

PAIR_WEIGHT = 0.5
"""A script without spaces gives about two pairs of characters a word."""


def marks(text: Text, *given: Text) -> float:
    """Counts the checkable things in a text that the given texts do not hold already."""
    figures = {figure for source in given for figure in source.figures}
    codes = {code for source in given for code in source.codes}
    counted = sum(_figure_weight(figure) for figure in dict.fromkeys(text.figures) if figure not in figures)
    return counted + sum(code not in codes for code in dict.fromkeys(text.codes)) + text.quotes


def _figure_weight(figure: str) -> float:
    return 0.5 if len(figure) == 1 else 1.0


def specific(stems: frozenset[str]) -> float:
    """How many of the stems say something of this task in particular."""
    return sum(PAIR_WEIGHT if is_paired(stem) else 1.0 for stem in stems - GENERIC_STEMS)


def named(text: Text) -> float:
    """How many things a text names: specific words, figures, identifiers, quotations, acronyms."""
    return specific(text.telling) + marks(text) + len(text.acronyms)


def brings(text: Text, *given: Text) -> float:
    """How many things a text names that the given texts do not."""
    known = frozenset[str]().union(*(source.stems for source in given))
    return specific(text.telling - known) + marks(text, *given)


def ties(text: Text, *others: Text) -> float:
    """How many of a text's specific words and acronyms the others have as well."""
    known = frozenset[str]().union(*(other.stems for other in others))
    return specific(text.telling & known) + len(known.intersection(text.acronyms))


def overlap(some: frozenset[str], others: frozenset[str]) -> float:
    """How large a part of some stems is among the others."""
    return len(some & others) / len(some) if some else 0.0


def likeness(one: frozenset[str], other: frozenset[str]) -> float:
    """How alike two sets of stems are, from 0 to 1."""
    return len(one & other) / len(one | other) if one and other else 0.0

"""A test as it is written: what it calls, what it asserts, and whether it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from remand.domain.text.words import set_similarity, word_list

NOTHING, LOOSE, BOUNDED, COUNTED, EXACT, NARROW = range(6)
"""How much an assertion proves: nothing; that something is there; a bound or truth; how many; a value; a value and more."""


class Assertion(NamedTuple):
    line: int
    text: str
    subject: str
    """What is looked at, without what is expected of it."""
    strength: int
    literals: frozenset[str] = frozenset()
    times: int = 1
    """How often it is asked, over loops and parameters that are written out."""
    is_counted: bool = True
    """False when it stands in a loop, or has parameters, that are not written out."""
    parts: int = 1
    """How many values it compares at once."""
    is_conditional: bool = False
    tolerance: float = 0.0
    slack: float = 0.0
    """The absolute tolerance it names, in units of the last digit of the expected value."""
    bound: tuple[str, float] | None = None
    """`<` or `>` and the number, where it is a bound."""
    last_line: int = 0
    """Where it ends, of languages that have it."""

    @property
    def expectation(self) -> str:
        """What is expected, without what is looked at."""
        return self.text.replace(self.subject, "", 1)


class SkipMarker(NamedTuple):
    """A marker that keeps a test from running, or its failure from counting."""

    kind: str
    line: int
    text: str
    is_conditional: bool = False
    is_foreign: bool = False
    """True when it only holds on another operating system than gates run on."""


class ParsedTest(NamedTuple):
    """A test, or a function beside tests that asserts for them."""

    name: str
    """With the classes or descriptions it stands in."""
    line: int
    is_collected: bool
    """True when a runner would find it."""
    assertions: tuple[Assertion, ...] = ()
    skips: tuple[SkipMarker, ...] = ()
    words: frozenset[str] = frozenset()
    body: str = ""
    """The same for two bodies that are the same, whatever they are called."""
    act: frozenset[str] = frozenset()
    """The words of everything that is no assertion."""
    calls: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset()
    traps: tuple[tuple[str, int, str], ...] = ()
    """Constructs that keep an assertion from failing the test: code, line, text."""
    examples: float = 0.0
    """How many examples a property is tried with, where that is written; 0 where it is not."""
    is_smoke: bool = False
    """True when its name says that running through is all it asks."""
    is_plain: bool = False
    """True when everything it calls is the product's, or the language's: nothing that could assert for it."""
    is_empty: bool = False
    """True when it does nothing at all."""
    sets_up: bool = False
    """True for a fixture, or a method that is run before tests."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(" › ")[2]

    @property
    def proofs(self) -> int:
        return sum(item.times for item in self.assertions if item.strength > NOTHING)

    @property
    def is_skipped(self) -> bool:
        """True when it does not run here whatever happens."""
        return any(not skip.is_conditional for skip in self.skips)


class HasText(Protocol):
    """Something that is known by its text."""

    @property
    def text(self) -> str: ...


Item = TypeVar("Item", bound=HasText)


def without_common(items: Iterable[Item], others: Iterable[HasText]) -> list[Item]:
    """The items whose texts the others do not have, or have less often."""
    left = Counter(other.text for other in others)
    found = []
    for item in items:
        if left[item.text] > 0:
            left[item.text] -= 1
        else:
            found.append(item)
    return found


def word_similarity(one: frozenset[str], other: frozenset[str]) -> float:
    """How much two sets of words have in common, from 0 to 1; two empty ones are the same."""
    return set_similarity(one, other) if one or other else 1.0


SMOKE = word_list("smoke no_error not_raise without_error does_not_crash importable imports no_throw")


def is_smoke_name(name: str) -> bool:
    """True when a test's name says that it only has to run through."""
    flat = name.casefold().replace(" ", "_").replace("'", "")
    phrases = ("not_throw", "not_crash", "runs", "doesnt_raise", "doesnt_throw", "doesnt_crash", "renders")
    return any(word in flat for word in (*SMOKE, *phrases))

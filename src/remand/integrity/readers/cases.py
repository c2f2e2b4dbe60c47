"""A test as written: what it calls, what it asserts, and whether it runs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple, Protocol, TypeVar

from remand.domain.text.words import set_similarity, word_list

NOTHING, LOOSE, BOUNDED, COUNTED, EXACT, NARROW = range(6)
"""How much an assertion proves: nothing; that something exists; a bound or truth; a count; a value; a value and more."""


class Assertion(NamedTuple):
    line: int
    text: str
    subject: str
    """The checked expression, without the expectation."""
    strength: int
    literals: frozenset[str] = frozenset()
    times: int = 1
    """How often it is checked, over loops and parameters that are written out."""
    is_counted: bool = True
    """False if it is in a loop, or has parameters, that are not written out."""
    parts: int = 1
    """How many values it compares at once."""
    is_conditional: bool = False
    tolerance: float = 0.0
    slack: float = 0.0
    """Its absolute tolerance, in units of the last digit of the expected value."""
    bound: tuple[str, float] | None = None
    """`<` or `>` and the number, if it is a bound."""
    last_line: int = 0
    """Its last line, for languages that report it."""

    @property
    def expectation(self) -> str:
        """The expectation, without the checked expression."""
        return self.text.replace(self.subject, "", 1)


class SkipMarker(NamedTuple):
    """A marker that prevents a test from running, or its failure from counting."""

    kind: str
    line: int
    text: str
    is_conditional: bool = False
    is_foreign: bool = False
    """True if it applies only on another operating system than the gates'."""


class ParsedTest(NamedTuple):
    """A test, or a function beside tests that asserts for them."""

    name: str
    """Its name, with the classes or descriptions around it."""
    line: int
    is_collected: bool
    """True if a runner would collect it."""
    assertions: tuple[Assertion, ...] = ()
    skips: tuple[SkipMarker, ...] = ()
    words: frozenset[str] = frozenset()
    body: str = ""
    """Equal for tests with the same body, whatever their names."""
    act: frozenset[str] = frozenset()
    """The words of everything that is no assertion."""
    calls: frozenset[str] = frozenset()
    literals: frozenset[str] = frozenset()
    uses: frozenset[str] = frozenset()
    """The names and members of which it uses a member or an item."""
    traps: tuple[tuple[str, int, str], ...] = ()
    """Constructs that prevent an assertion from failing the test: code, line, text."""
    examples: float = 0.0
    """The number of examples for a property test, if written; else 0."""
    is_smoke: bool = False
    """True if its name says that it only checks that the code runs."""
    is_plain: bool = False
    """True if it calls only the product and the language: nothing that could assert for it."""
    class_words: frozenset[str] = frozenset()
    """The words of what the classes that have it assign."""
    is_empty: bool = False
    """True if it does nothing at all."""
    sets_up: bool = False
    """True for a fixture, or a method that runs before tests."""

    @property
    def short_name(self) -> str:
        return self.name.rpartition(" › ")[2]

    @property
    def proofs(self) -> int:
        return sum(item.times for item in self.assertions if item.strength > NOTHING)

    @property
    def is_skipped(self) -> bool:
        """True if it never runs here."""
        return any(not skip.is_conditional for skip in self.skips)


class HasText(Protocol):
    """Something identified by its text."""

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
    """The similarity of two sets of words, from 0 to 1; two empty sets are equal."""
    return set_similarity(one, other) if one or other else 1.0


SMOKE = word_list(
    "annotations smoke no_error not_raise without_error does_not_crash importable imports no_throw"
)


def is_smoke_name(name: str) -> bool:
    """True if a test's name says that it only checks that the code runs."""
    flat = name.casefold().replace(" ", "_").replace("'", "")
    phrases = ("not_throw", "not_crash", "runs", "doesnt_raise", "doesnt_throw", "doesnt_crash", "renders")
    return any(word in flat for word in (*SMOKE, *phrases))

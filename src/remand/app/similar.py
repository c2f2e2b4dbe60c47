"""Which rejected tasks are like a given one: by the words they share, of which rare ones count more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from math import fsum, log, sqrt
from typing import TypeVar

from remand.app.words import PLAIN, Words, words_of
from remand.domain.record import Record
from remand.domain.task import Task
from remand.ledger.store import Transaction

THRESHOLD = 0.62
"""From here on two tasks are alike; tests/unit/app/alike.py has the pairs it was set by."""
CANDIDATES = 50
"""How many tasks are compared word by word."""
MAX_SHARED = 10_000
"""How many times a word's presence in a task is looked at, so that a search takes no longer than that."""
IMAGINED = 50
"""So many tasks are thought to be there before the first: words are weighed soberly while there are few."""
_IN_SCOPE = 0.5

K = TypeVar("K", int, str)


class Match(Record, kw_only=True):
    """A rejected task, and how like it is: 1 has the same words."""

    task: Task
    similarity: float


def was_rejected(task: Task) -> bool:
    """True when an agent rejected the task, validly or not, or a reviewer sent its work back."""
    return task.filed is not None or task.rejection_count > 0


class Weights:
    """How much each word counts: the more, the fewer rejected tasks have it."""

    def __init__(self, tasks: int, counts: Mapping[str, int]) -> None:
        self._tasks = tasks
        self._counts = dict(counts)
        self._known: dict[str, float] = {}

    def learn(self, counts: Mapping[str, int]) -> None:
        """Takes more words into account."""
        self._counts.update(counts)

    def of(self, word: str) -> float:
        """The weight of a word."""
        known = self._known.get(word)
        if known is None:
            seen = self._counts.get(word, 0) + IMAGINED * _imagined_share(word)
            known = self._known[word] = log(1 + (self._tasks + IMAGINED) / seen)
        return known


def _imagined_share(word: str) -> float:
    if word in PLAIN:
        return 0.2
    return 0.06 if len(word) < 4 and word.isascii() else 0.02


class Profile:
    """The words of a task with their weights, as two tasks are compared by them."""

    __slots__ = ("both", "length", "squares", "title", "vector")

    def __init__(self, words: Words, weights: Weights) -> None:
        self.title = words.title
        self.both = words.both
        self.squares = {word: weights.of(word) ** 2 for word in words.title}
        self.vector = {word: weights.of(word) * _IN_SCOPE for word in words.scope}
        self.vector.update((word, weights.of(word)) for word in words.title)
        self.length = sqrt(fsum(value * value for value in self.vector.values()))

    def covered(self, shared: frozenset[str]) -> float:
        """How much of the title is shared."""
        whole = fsum(self.squares.values())
        return fsum(self.squares[word] for word in self.title & shared) / whole if whole else 0.0


def similarity(one: Profile, other: Profile) -> float:
    """How alike two tasks are, from 0 to 1.

    The mean of two views: how much of each title is found in the other task, and the cosine of all words, of
    which those of a scope count half. Sums are exact, so that the order of words in a set does not matter.
    """
    shared = one.both & other.both
    if len(shared) < 2 or shared <= PLAIN:
        return 0.0
    covered = sqrt(one.covered(shared) * other.covered(shared))
    product = fsum(one.vector[word] * other.vector[word] for word in shared)
    return (covered + product / (one.length * other.length)) / 2


def similar_rejected(view: Transaction, task: Task, most: int) -> list[Match]:
    """The rejected tasks that are most like the task, the likest first; none of its own family."""
    own = words_of(task)
    past = view.rejected
    weights = Weights(past.count(), past.counts(own.both))
    near = past.sharing({word: weights.of(word) for word in own.both}, CANDIDATES)
    others = [(other, words_of(other)) for other in near if not _is_family(task, other)]
    weights.learn(past.counts(frozenset().union(*(words.both for _, words in others))))
    profile = Profile(own, weights)
    found = (
        Match(task=other, similarity=round(similarity(profile, Profile(words, weights)), 3))
        for other, words in others
    )
    alike = [match for match in found if match.similarity >= THRESHOLD]
    return sorted(alike, key=lambda match: (-match.similarity, match.task.id))[:most]


def _is_family(task: Task, other: Task) -> bool:
    """True for the task itself, and for one that it was made from or for."""
    return (
        task.id in (other.id, other.parent, other.superseded_by, *other.blockers)
        or other.id in (task.parent, task.superseded_by, *task.blockers)
    )  # fmt: skip


def richest(
    weights: Mapping[str, float],
    counts: Mapping[str, int],
    having: Callable[[str, int], Iterable[K]],
    most: int,
) -> list[K]:
    """The tasks that share the most weight with some words, found by the rarest words first."""
    found: dict[K, float] = {}
    room = MAX_SHARED
    for word in sorted(counts, key=lambda word: (counts[word], word)):
        if room <= 0:
            break
        worth = weights[word] ** 2
        for key in having(word, room):
            found[key] = found.get(key, 0.0) + worth
        room -= counts[word]
    least = min(nlargest(most, found.values()), default=0.0)
    best = [key for key, worth in found.items() if worth >= least]
    return sorted(best, key=lambda key: (found[key], key), reverse=True)[:most]

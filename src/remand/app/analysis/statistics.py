"""Shares and quantiles with 95 % intervals, and clusters of texts that say the same."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence, Sized
from operator import itemgetter
from zlib import crc32

from remand.domain.record import Record

Interval = tuple[float, float]

_Z = 1.959963984540054
_MISSED = 0.025
_EXACT = 200
_DIGITS = 6


class Share(Record, kw_only=True, omit_defaults=False):
    """How many of how many, with Wilson's interval; without any there is no rate."""

    count: int
    of: int
    rate: float | None
    interval: Interval | None


class Quantile(Record, kw_only=True, omit_defaults=False):
    """A value that so many are not above, with the interval its neighbours in the order give."""

    value: float | None
    interval: Interval | None


def wilson_share(count: int, of: int) -> Share:
    """A share and its interval. Wilson's stays within 0 and 1 and is right for few and for extremes."""
    if of <= 0:
        return Share(count=count, of=0, rate=None, interval=None)
    rate, spread = count / of, _Z * _Z / of
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / of + spread / (4 * of)) / (1 + spread)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    high = 1.0 if count == of else min(1.0, middle + half)
    return Share(count=count, of=of, rate=rate, interval=(round(low, _DIGITS), round(high, _DIGITS)))


def quantile(values: Iterable[float], at: float) -> Quantile:
    """A quantile of values, whatever their distribution; too few values give no interval."""
    ordered = sorted(values)
    if not ordered:
        return Quantile(value=None, interval=None)
    return Quantile(value=_value_at(ordered, at), interval=_quantile_interval(ordered, at))


def _value_at(ordered: Sequence[float], at: float) -> float:
    place = at * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 3)


def _quantile_interval(ordered: Sequence[float], at: float) -> Interval | None:
    """The values between which the quantile lies: so many of the others are below it by chance."""
    count = len(ordered)
    low, high = _exact_ranks(count, at) if count <= _EXACT else _approximate_ranks(count, at)
    if low < 0 or high >= count:
        return None
    return (round(ordered[low], 3), round(ordered[high], 3))


def _exact_ranks(count: int, at: float) -> tuple[int, int]:
    chances = [math.comb(count, n) * at**n * (1 - at) ** (count - n) for n in range(count + 1)]
    below, low = 0.0, -1
    while below + chances[low + 1] <= _MISSED:
        low += 1
        below += chances[low]
    above, high = 0.0, count + 1
    while above + chances[high - 1] <= _MISSED:
        high -= 1
        above += chances[high]
    return low, high - 1


def _approximate_ranks(count: int, at: float) -> tuple[int, int]:
    middle, half = count * at, _Z * math.sqrt(count * at * (1 - at))
    return math.floor(middle - half), math.ceil(middle + half)


_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_FIGURE = re.compile(r"[0-9]+")
MOST_TASKS = 100
_SEEDS = tuple(0x9E3779B9 * number & 0xFFFFFFFF for number in range(10))
_MASK = 0xFFFFFFFF
_ALIKE = 0.6
_STOP_WORDS = frozenset(
    [
        "a",
        "an",
        "and",
        "are",
        "as",
        "at",
        "be",
        "by",
        "can",
        "cannot",
        "does",
        "for",
        "from",
        "has",
        "have",
        "in",
        "is",
        "it",
        "its",
        "not",
        "of",
        "on",
        "or",
        "so",
        "that",
        "the",
        "there",
        "this",
        "to",
        "was",
        "we",
        "were",
        "which",
        "with",
    ]
)


class Cluster(Record, kw_only=True, omit_defaults=False):
    """Texts that say the same: how often, the most frequent of them, and the tasks it was said of."""

    count: int
    example: str
    tasks: tuple[str, ...]
    """The first of them."""
    tasks_in_all: int


class Clusters(Record, kw_only=True, omit_defaults=False):
    """The largest clusters, the most frequent first, and how many there are in all."""

    largest: list[Cluster]
    in_all: int


def cluster_texts(said: Iterable[tuple[str, str]], most: int) -> Clusters:
    """Merges texts, each said of a task, that are nearly the same."""
    forms: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in said:
        forms[_FIGURE.sub("0", one[0].lower())].append(one)
    groups = [[one for form in group for one in forms[form]] for group in _group_forms(forms)]
    groups.sort(key=len, reverse=True)
    # Only where the last one shown is as frequent as others does it matter which of them are shown.
    last = len(groups[most - 1]) if len(groups) > most else 0
    found = [_cluster(group) for group in groups if len(group) >= last]
    found.sort(key=lambda cluster: (-cluster.count, cluster.example))
    return Clusters(largest=found[:most], in_all=len(groups))


def _cluster(group: list[tuple[str, str]]) -> Cluster:
    texts = Counter(map(itemgetter(0), group))
    top = max(texts.values())
    tasks = sorted({task for _, task in group if task})
    return Cluster(
        count=len(group),
        example=min(
            (text for text, count in texts.items() if count == top), key=lambda text: (len(text), text)
        ),
        tasks=tuple(tasks[:MOST_TASKS]),
        tasks_in_all=len(tasks),
    )


def _group_forms(forms: Mapping[str, Sized]) -> list[list[str]]:
    """Forms in groups. Frequent ones come first, so that rare variants join them and not the reverse."""
    groups: dict[frozenset[str], list[str]] = {}
    leaders: dict[tuple[int, int], frozenset[str]] = {}
    seen: dict[frozenset[str], list[str]] = {}
    signer = _MinHash()
    for form in sorted(forms, key=lambda form: (-len(forms[form]), form)):
        words = _significant_words(form)
        if words in seen:
            seen[words].append(form)
            continue
        pairs = signer.pairs(words)
        leader = next((led for pair in pairs if (led := leaders.get(pair)) and _are_alike(led, words)), None)
        if leader is None:
            leader = words
            groups[words] = []
            for pair in pairs:
                leaders.setdefault(pair, words)
        groups[leader].append(form)
        seen[words] = groups[leader]
    return list(groups.values())


def _significant_words(form: str) -> frozenset[str]:
    """What a text is told by: its words without fillers. Words with a figure in them are all one."""
    found: list[str] = []
    for word in _WORD.findall(form):
        if word.isascii():
            if word not in _STOP_WORDS:
                found.append("0" if "0" in word else word)
        elif _IS_CJK.match(word):
            found += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        else:
            found.append(word)
    return frozenset(found or [form.strip()])


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)


class _MinHash:
    """Gives sets of words five signatures each (MinHash): similar sets share one, others hardly ever."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[int, ...]] = {}

    def pairs(self, words: frozenset[str]) -> list[tuple[int, int]]:
        """The signatures of a set. Of two sets with three fifths in common nine in ten share one."""
        least = list(map(min, zip(*map(self._word_hashes, words), strict=True)))
        return list(zip(least[::2], least[1::2], strict=True))

    def _word_hashes(self, word: str) -> tuple[int, ...]:
        found = self._hashes.get(word)
        if found is None:
            start = crc32(word.encode("utf-8", "replace"))
            found = self._hashes[word] = tuple(_mix_bits(start ^ seed) for seed in _SEEDS)
        return found


def _mix_bits(value: int) -> int:
    value = (value ^ value >> 16) * 0x7FEB352D & _MASK
    value = (value ^ value >> 15) * 0x846CA68B & _MASK
    return value ^ value >> 16

"""Shares and quantiles with 95 % intervals, and clusters of texts that differ only in numbers and spelling."""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from operator import itemgetter

from remand.domain.record import Record

Interval = tuple[float, float]

_Z = 1.959963984540054
_MISSED = 0.025
_EXACT = 200
_DIGITS = 6


class Share(Record, kw_only=True, omit_defaults=False):
    """A share with Wilson's interval; undefined for an empty population."""

    count: int
    of: int
    rate: float | None
    interval: Interval | None


class Quantile(Record, kw_only=True, omit_defaults=False):
    """A quantile with the interval given by order statistics."""

    value: float | None
    interval: Interval | None


def wilson_share(count: int, of: int) -> Share:
    """A share with Wilson's interval, which stays within 0 and 1 and is valid for small samples and extremes."""
    if of <= 0:
        return Share(count=count, of=0, rate=None, interval=None)
    rate, spread = count / of, _Z * _Z / of
    middle = (rate + spread / 2) / (1 + spread)
    half = _Z * math.sqrt(rate * (1 - rate) / of + spread / (4 * of)) / (1 + spread)
    low = 0.0 if count == 0 else max(0.0, middle - half)
    high = 1.0 if count == of else min(1.0, middle + half)
    return Share(count=count, of=of, rate=rate, interval=(round(low, _DIGITS), round(high, _DIGITS)))


def quantile(values: Iterable[float], at: float) -> Quantile:
    """A quantile of values of any distribution; too few values give no interval."""
    ordered = sorted(values)
    if not ordered:
        return Quantile(value=None, interval=None)
    place = at * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return Quantile(
        value=round(ordered[below] + (ordered[above] - ordered[below]) * (place - below), 3),
        interval=_quantile_interval(ordered, at),
    )


def _quantile_interval(ordered: Sequence[float], at: float) -> Interval | None:
    """The interval of the quantile from binomial probabilities of ranks."""
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


MOST_TASKS = 100
_PATH = re.compile(r"\w+://\S+|(?<![\w/])(?:[~.]{0,2}/[\w.@+-]+|[\w.@+-]+/[\w.@+-]+(?=/|\.\w))[\w./@+-]*")
"""A URL, or a path that starts at a root or has a suffix or two slashes, which excludes `and/or`."""
_ID_OR_FIGURE = re.compile(r"\w*[0-9]\w*(?:[-.,:](?:\w*[0-9]\w*|[a-f]+\b))*")
_WORD = re.compile(r"[^\W_]+")
_ARTICLES = frozenset(["a", "an", "the"])


class Cluster(Record, kw_only=True, omit_defaults=False):
    """Texts that are equal after normalisation: their number, the most frequent one, and the tasks."""

    count: int
    example: str
    tasks: tuple[str, ...]
    """The first tasks."""
    tasks_in_all: int


class Clusters(Record, kw_only=True, omit_defaults=False):
    """The largest clusters, most frequent first, and the total number."""

    largest: list[Cluster]
    in_all: int


def cluster_texts(texts: Iterable[tuple[str, str]], most: int) -> Clusters:
    """Merges texts, each with its task, that are equal after normalisation."""
    by_key: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in texts:
        by_key[_cluster_key(one[0])].append(one)
    groups = sorted(by_key.values(), key=len, reverse=True)
    # Ties matter only at the end of the shown list.
    last = len(groups[most - 1]) if len(groups) > most else 0
    clusters = [_cluster(group) for group in groups if len(group) >= last]
    clusters.sort(key=lambda cluster: (-cluster.count, cluster.example))
    return Clusters(largest=clusters[:most], in_all=len(groups))


def _cluster_key(text: str) -> str:
    """The text without case, paths, ids, numbers and punctuation, which vary between reports of the same thing."""
    folded = _ID_OR_FIGURE.sub(" 0 ", _PATH.sub(" 0 ", text.casefold()))
    words = " ".join(word for word in _WORD.findall(folded) if word not in _ARTICLES)
    return words or text.strip()


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

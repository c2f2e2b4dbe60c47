"""Texts that say the same in nearly the same words, merged in one pass over them."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sized
from operator import itemgetter
from zlib import crc32

from remand.domain.record import Record

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_WORD = re.compile(rf"[{_CJK}]+|[^\W{_CJK}]+")
_IS_CJK = re.compile(rf"[{_CJK}]")
_FIGURE = re.compile(r"[0-9]+")
MOST_TASKS = 100
_SEEDS = tuple(0x9E3779B9 * number & 0xFFFFFFFF for number in range(10))
_MASK = 0xFFFFFFFF
_ALIKE = 0.6
_FILLERS = frozenset(
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


def clusters(said: Iterable[tuple[str, str]], most: int) -> Clusters:
    """Merges texts, each said of a task, that are nearly the same."""
    forms: defaultdict[str, list[tuple[str, str]]] = defaultdict(list)
    for one in said:
        forms[_FIGURE.sub("0", one[0].lower())].append(one)
    groups = [[one for form in group for one in forms[form]] for group in _grouped(forms)]
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


def _grouped(forms: Mapping[str, Sized]) -> list[list[str]]:
    """Forms in groups. Frequent ones come first, so that rare variants join them and not the reverse."""
    groups: dict[frozenset[str], list[str]] = {}
    leaders: dict[tuple[int, int], frozenset[str]] = {}
    seen: dict[frozenset[str], list[str]] = {}
    signer = _Signer()
    for form in sorted(forms, key=lambda form: (-len(forms[form]), form)):
        words = _words(form)
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


def _words(form: str) -> frozenset[str]:
    """What a text is told by: its words without fillers. Words with a figure in them are all one."""
    found: list[str] = []
    for word in _WORD.findall(form):
        if word.isascii():
            if word not in _FILLERS:
                found.append("0" if "0" in word else word)
        elif _IS_CJK.match(word):
            found += [word[at : at + 2] for at in range(len(word) - 1)] or [word]
        else:
            found.append(word)
    return frozenset(found or [form.strip()])


def _are_alike(one: frozenset[str], other: frozenset[str]) -> bool:
    return len(one & other) >= _ALIKE * len(one | other)


class _Signer:
    """Gives sets of words five signatures each (MinHash): similar sets share one, others hardly ever."""

    def __init__(self) -> None:
        self._hashes: dict[str, tuple[int, ...]] = {}

    def pairs(self, words: frozenset[str]) -> list[tuple[int, int]]:
        """The signatures of a set. Of two sets with three fifths in common nine in ten share one."""
        least = list(map(min, zip(*map(self._hashed, words), strict=True)))
        return list(zip(least[::2], least[1::2], strict=True))

    def _hashed(self, word: str) -> tuple[int, ...]:
        found = self._hashes.get(word)
        if found is None:
            start = crc32(word.encode("utf-8", "replace"))
            found = self._hashes[word] = tuple(_mixed(start ^ seed) for seed in _SEEDS)
        return found


def _mixed(value: int) -> int:
    value = (value ^ value >> 16) * 0x7FEB352D & _MASK
    value = (value ^ value >> 15) * 0x846CA68B & _MASK
    return value ^ value >> 16

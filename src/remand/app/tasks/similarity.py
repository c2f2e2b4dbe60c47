"""The similarity of tasks by shared words, weighted by rarity."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from heapq import nlargest
from math import fsum, log, sqrt
from typing import TypeVar
from unicodedata import normalize

from remand.domain.record import Record
from remand.domain.task import Task
from remand.domain.text.words import character_pairs, word_set
from remand.ledger.store import Transaction
from remand.startup import lazy_pattern

MAX_TEXT = 600
MAX_WORDS = 64
STEM = 6
FEW = 3

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese; also Korean, whose particles are attached to words."""
_MARKS = "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
"""Combining marks inside words, as in Arabic and Indic scripts."""
_HUMPS = lazy_pattern(r"[A-Z]*[a-z0-9]+|[A-Z]+")
_WORD = rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}])+)"
"""Compiled on the first text that is not ASCII and cached by `re`, as it is slow."""
_HUMP = lazy_pattern(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMES = lazy_pattern(r"https?://\S+|\b(?:task:)?[A-Z]-[0-9]{8}-[0-9]{6}-[0-9a-f]+")

_STOP_WORD_TEXT = """
a an and any are as at be but by can do does each for from has have if in into is it its may must need needs no not of
on only or so some such than that the their them then there these they this those to too up use used uses using via was
we when where which while will with without you your
der die das den dem des ein eine einen einem einer und oder mit von vom zu zum zur für auf aus bei ist sind im am als
auch nach über nicht wird werden soll alle
el la los las un una unos unas y o de del al con sin por para en es son que se su como
le les une du et ou à au aux dans avec sans par pour sur est sont qui ne pas
il lo gli uno di da per è e che non
um uma os ao aos na nos nas dos das em com sem é não
i w z od dla po ze się nie jest
и в на с по для из за от до не что как это или все
het een van voor met op te
"""
_COMMON_WORD_TEXT = """
add added fix update make create implement support remove change improve refactor write show handle allow ensure
investigate replace move clean set get new old more test task bug error issue problem feature page file data code module
function user list system service app version work run check
hinzufügen beheben ändern erstellen machen neu fehler seite datei daten
añadir agregar corregir crear cambiar nuevo página archivo datos
ajouter corriger créer changer nouveau erreur fichier données
добавить исправить создать изменить ошибка страница
添加 修复 增加 实现 错误 页面 追加 修正 実装 추가 구현 페이 이지
"""


class TaskWords(Record, kw_only=True):
    """The words of a task: those in its title, and those only in its scope."""

    title: frozenset[str]
    scope: frozenset[str]

    @property
    def both(self) -> frozenset[str]:
        return self.title | self.scope


def words_of(task: Task) -> TaskWords:
    """The words of a task; of a very long one only the first."""
    title = words_in(task.title)
    every = all_words_of(task)
    return TaskWords(title=frozenset(title[:MAX_WORDS]), scope=frozenset(every).difference(title))


def all_words_of(task: Task) -> list[str]:
    """The words of title and scope together, each once."""
    return list(dict.fromkeys([*words_in(task.title), *words_in(task.details.scope)]))[:MAX_WORDS]


def words_in(text: str) -> list[str]:
    """The distinct significant words of a text, stemmed, without ids and numbers."""
    text = text[:MAX_TEXT]
    if "-20" in text or "://" in text:
        text = _NAMES.sub(" ", text)
    found = (
        dict.fromkeys(map(_stem_or_empty, _HUMPS.findall(text)))
        if text.isascii()
        else _words_in_any_script(text)
    )
    found.pop("", None)
    return list(found)


def are_related(one: str, other: str, *, is_lenient: bool = True) -> bool:
    """True if two texts share a significant word; with `is_lenient`, also if one has few or none."""
    first, second = set(words_in(one)) - COMMON_WORDS, set(words_in(other)) - COMMON_WORDS
    few = FEW if is_lenient else 1
    return min(len(first), len(second)) < few or bool(first & second)


def _words_in_any_script(text: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for run, word in re.findall(_WORD, normalize("NFKC", _HUMP.sub(" ", text))):
        if run:
            found.update(dict.fromkeys(character_pairs(run)))
        else:
            found[_stem_or_empty(word)] = None
    return found


@lru_cache(maxsize=1 << 16)
def _stem_or_empty(word: str) -> str:
    """The stem of a word; empty for a stop word."""
    word = word.casefold()
    return "" if len(word) < 2 or word in STOP_WORDS or word.isdigit() else stem(word)


def stem(word: str) -> str:
    """A word without its plural ending, truncated so that most of its forms match."""
    if len(word) > 3 and word[-1] == "s" and word[-2] != "s" and word.isascii():
        word = word[:-1]
    return word[:STEM]


STOP_WORDS = word_set(_STOP_WORD_TEXT)
"""Words without meaning of their own."""
COMMON_WORDS = frozenset(map(stem, _COMMON_WORD_TEXT.split()))
"""Words common in titles of all kinds of tasks: they have little weight and never suffice for a match."""


THRESHOLD = 0.62
"""The least similarity of similar tasks; tests/unit/app/tasks/similar_pairs.py has the pairs used to set it."""
CANDIDATES = 50
"""How many tasks are compared word by word."""
MAX_SHARED = 10_000
"""How many occurrences of a word are looked at, which bounds the time of a search."""
PRIOR_TASKS = 50
"""A prior number of tasks that moderates the weights while there are few."""
_IN_SCOPE = 0.5

K = TypeVar("K", int, str)


class SimilarTask(Record, kw_only=True):
    """A rejected task and its similarity: 1 means the same words."""

    task: Task
    similarity: float


def was_rejected(task: Task) -> bool:
    """True if an agent rejected the task, validly or not, or a reviewer rejected its work."""
    return task.rejections.last_rejection is not None or task.reviews.rejection_count > 0


class WordWeights:
    """The weight of each word: the fewer rejected tasks have it, the higher."""

    def __init__(self, tasks: int, counts: Mapping[str, int]) -> None:
        self._tasks = tasks
        self._counts = dict(counts)
        self._known: dict[str, float] = {}

    def learn(self, counts: Mapping[str, int]) -> None:
        """Adds word counts."""
        self._counts.update(counts)

    def weight_of(self, word: str) -> float:
        known = self._known.get(word)
        if known is None:
            count = self._counts.get(word, 0) + PRIOR_TASKS * _prior_share(word)
            known = self._known[word] = log(1 + (self._tasks + PRIOR_TASKS) / count)
        return known


def _prior_share(word: str) -> float:
    if word in COMMON_WORDS:
        return 0.2
    return 0.06 if len(word) < 4 and word.isascii() else 0.02


class TaskProfile:
    """The weighted words of a task, as used in comparisons."""

    __slots__ = ("both", "length", "squares", "title", "vector")

    def __init__(self, words: TaskWords, weights: WordWeights) -> None:
        self.title = words.title
        self.both = words.both
        self.squares = {word: weights.weight_of(word) ** 2 for word in words.title}
        self.vector = {word: weights.weight_of(word) * _IN_SCOPE for word in words.scope}
        self.vector.update((word, weights.weight_of(word)) for word in words.title)
        self.length = sqrt(fsum(value * value for value in self.vector.values()))

    def title_share(self, shared: frozenset[str]) -> float:
        whole = fsum(self.squares.values())
        return fsum(self.squares[word] for word in self.title & shared) / whole if whole else 0.0


def similarity(profile: TaskProfile, other: TaskProfile) -> float:
    """The similarity of two tasks, from 0 to 1.

    The mean of two measures: the share of each title found in the other task, and the cosine of all words, with those
    of a scope at half weight. Sums are exact, so that the order of words in a set does not matter.
    """
    shared = profile.both & other.both
    if len(shared) < 2 or shared <= COMMON_WORDS:
        return 0.0
    covered = sqrt(profile.title_share(shared) * other.title_share(shared))
    product = fsum(profile.vector[word] * other.vector[word] for word in shared)
    return (covered + product / (profile.length * other.length)) / 2


def similar_rejected(view: Transaction, task: Task, most: int) -> list[SimilarTask]:
    """The rejected tasks most similar to the task, excluding its relatives."""
    own = words_of(task)
    past = view.rejected
    weights = WordWeights(past.count(), past.counts(own.both))
    near = past.most_similar({word: weights.weight_of(word) for word in own.both}, CANDIDATES)
    others = [(other, words_of(other)) for other in near if not _is_related(task, other)]
    weights.learn(past.counts(frozenset().union(*(words.both for _, words in others))))
    profile = TaskProfile(own, weights)
    found = (
        SimilarTask(task=other, similarity=round(similarity(profile, TaskProfile(words, weights)), 3))
        for other, words in others
    )
    alike = [match for match in found if match.similarity >= THRESHOLD]
    return sorted(alike, key=lambda match: (-match.similarity, match.task.id))[:most]


def _is_related(task: Task, other: Task) -> bool:
    """True for the task itself, and for one that it was created from or for."""
    return (
        task.id in (other.id, other.links.parent, other.links.superseded_by, *other.blockers)
        or other.id in (task.links.parent, task.links.superseded_by, *task.blockers)
    )  # fmt: skip


def best_matches(
    weights: Mapping[str, float],
    counts: Mapping[str, int],
    having: Callable[[str, int], Iterable[K]],
    most: int,
) -> list[K]:
    """The tasks that share the most weight with some words, searched by the rarest words first."""
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

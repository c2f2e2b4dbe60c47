"""Takes what a task says apart into words, in any language, by which tasks can be found and compared."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import normalize

from remand.domain.record import Record
from remand.domain.task import Task

MAX_TEXT = 600
MAX_WORDS = 64
STEM = 6
FEW = 3

_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af\uf900-\ufaff"
"""Thai, Lao, Burmese, Khmer, Chinese, Japanese; Korean too, whose particles stick to the words."""
_MARKS = "\u0300-\u036f\u0610-\u061a\u064b-\u065f\u0900-\u0dff"
"""Marks that stand inside words, as in Arabic and in the scripts of India."""
_HUMPS = re.compile(r"[A-Z]*[a-z0-9]+|[A-Z]+")
_WORD = rf"([{_UNSPACED}]+)|((?:(?![{_UNSPACED}])[^\W_]|[{_MARKS}])+)"
"""Compiled with the first text that is not all ASCII, and kept by `re`: it takes a while."""
_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NAMES = re.compile(r"https?://\S+|\b(?:task:)?[A-Z]-[0-9]{8}-[0-9]{6}-[0-9a-f]+")

_EMPTY = """
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
_PLAIN = """
add added fix update make create implement support remove change improve refactor write show handle allow ensure
investigate replace move clean set get new old more test task bug error issue problem feature page file data code module
function user list system service app version work run check
hinzufügen beheben ändern erstellen machen neu fehler seite datei daten
añadir agregar corregir crear cambiar nuevo página archivo datos
ajouter corriger créer changer nouveau erreur fichier données
добавить исправить создать изменить ошибка страница
添加 修复 增加 实现 错误 页面 追加 修正 実装 추가 구현 페이 이지
"""


class Words(Record, kw_only=True):
    """The words of a task: those of its title, and those that only its scope has."""

    title: frozenset[str]
    scope: frozenset[str]

    @property
    def both(self) -> frozenset[str]:
        """All of them."""
        return self.title | self.scope


def words_of(task: Task) -> Words:
    """The words of a task; of a very long one the first."""
    title = words_in(task.title)
    every = all_words_of(task)
    return Words(title=frozenset(title[:MAX_WORDS]), scope=frozenset(every).difference(title))


def all_words_of(task: Task) -> list[str]:
    """The words of title and scope together, each once."""
    return list(dict.fromkeys([*words_in(task.title), *words_in(task.scope)]))[:MAX_WORDS]


def words_in(text: str) -> list[str]:
    """The distinct words of a text that may say what it is about, without endings; no ids and no numbers."""
    text = text[:MAX_TEXT]
    if "-20" in text or "://" in text:
        text = _NAMES.sub(" ", text)
    found = dict.fromkeys(map(_kept, _HUMPS.findall(text))) if text.isascii() else _in_any_script(text)
    found.pop("", None)
    return list(found)


def are_related(one: str, other: str, *, is_lenient: bool = True) -> bool:
    """True when two texts share a word that says something; a text of no such word, or of few, is related to any."""
    first, second = set(words_in(one)) - PLAIN, set(words_in(other)) - PLAIN
    few = FEW if is_lenient else 1
    return min(len(first), len(second)) < few or bool(first & second)


def _in_any_script(text: str) -> dict[str, None]:
    found: dict[str, None] = {}
    for run, word in re.findall(_WORD, normalize("NFKC", _HUMP.sub(" ", text))):
        if run:
            found.update(dict.fromkeys(_pairs(run)))
        else:
            found[_kept(word)] = None
    return found


@lru_cache(maxsize=1 << 16)
def _kept(word: str) -> str:
    """What is kept of a word; nothing of one that says nothing."""
    word = word.casefold()
    return "" if len(word) < 2 or word in EMPTY or word.isdigit() else stem(word)


def stem(word: str) -> str:
    """A word without its plural, cut to its beginning, so that most of its forms meet."""
    if len(word) > 3 and word[-1] == "s" and word[-2] != "s" and word.isascii():
        word = word[:-1]
    return word[:STEM]


def _pairs(run: str) -> list[str]:
    return [run[start : start + 2] for start in range(len(run) - 1)] or [run]


EMPTY = frozenset(_EMPTY.split())
"""Words that say nothing."""
PLAIN = frozenset(map(stem, _PLAIN.split()))
"""Words that stand in the titles of all kinds of tasks: they count little, and alone they make no two tasks alike."""

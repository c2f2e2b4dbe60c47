"""Splits a text into words, figures, identifiers and quotations, and counts what could be checked."""

from __future__ import annotations

import re

import msgspec

from remand.domain.record import Record
from remand.domain.text.words import character_pairs
from remand.domain.validation.lexicon import CLASSES, GENERIC_STEMS

_CJK = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
_LETTER = rf"[^\W{_CJK}]"
_TOKEN = re.compile(
    rf"(?:(?<!\S)(?:\.{{0,2}}/|--?))?{_LETTER}+(?:[./:@#'’+\-]+{_LETTER}+|,[0-9]{{3}}(?![0-9]))*(?:/|\(\)|%)?|[{_CJK}]+"
)
_IS_CJK = re.compile(rf"[{_CJK}]")
_QUOTE = re.compile(
    r"`[^`\n]{1,160}`|\"[^\"\n]{3,160}\"|(?<!\w)'[^'\n]{3,120}'(?!\w)|“[^”\n]{2,160}”|„[^“”\n]{2,160}[“”]"
    r"|«[^»\n]{2,160}»|「[^」\n]{1,160}」|『[^』\n]{1,160}』"
)
_QUOTING = re.compile("[`\"'“„«「『]")
_JOINTS = re.compile(r"[/\-]")
_FIGURE = re.compile(r"[+-]?[0-9][0-9.,:/%x×-]*[a-zA-Zµ%]{0,4}|0x[0-9a-fA-F]+")
_CAMEL = re.compile(r"[a-zà-ÿ][A-Z]|[A-Z]{2,}[a-rt-z]")
_OUTCOME = re.compile(r"\S\s*(?::|：|->|→|=>|;|；| = | [-–—] |，)\s*\S")
_PARTS = re.compile(r"[./:@#+_\-]+")
STEM = 6
SHORT = 4


class Text(Record, kw_only=True):
    """A text and what is in it."""

    raw: str = ""
    words: tuple[str, ...] = ()
    """In lower case; a script without spaces gives pairs of characters."""
    stems: frozenset[str] = frozenset()
    """The beginnings of the longer words, so that inflected forms meet."""
    telling: frozenset[str] = frozenset()
    """The stems of the words that say something: not the protocol's own words, nor those that fit any task."""
    figures: tuple[str, ...] = ()
    codes: tuple[str, ...] = ()
    """Paths, commands' options, identifiers, dotted and mixed-case names."""
    acronyms: tuple[str, ...] = ()
    quotes: int = 0
    has_outcome: bool = False
    classes: dict[str, int] = msgspec.field(default_factory=dict)
    """How many words of each list of the lexicon it has."""

    def __bool__(self) -> bool:
        return bool(self.words or self.figures or self.codes)

    def share(self, name: str) -> float:
        """How large a part of the words stands in one list of the lexicon."""
        return self.classes.get(name, 0) / max(len(self.words), 3)

    def count(self, name: str) -> int:
        """How many words stand in one list of the lexicon."""
        return self.classes.get(name, 0)


EMPTY_TEXT = Text()


def tokenise_text(raw: str) -> Text:
    if not raw:
        return EMPTY_TEXT
    sorter = _Sorter()
    words = sorter.words
    for token in _TOKEN.findall(raw):
        lower = token.lower()
        if token.isascii() and token.isalpha():
            words.append(lower)
            if lower != token and not token.istitle():
                sorter.take_name(token, lower)
        else:
            sorter.take(token, lower)
    return sorter.text(raw)


class _Sorter:
    """Sorts the tokens of one text into words, figures and identifiers."""

    def __init__(self) -> None:
        self.words: list[str] = []
        self.figures: list[str] = []
        self.codes: list[str] = []
        self.acronyms: list[str] = []

    def take(self, token: str, lower: str) -> None:
        """Takes what is no plain word."""
        if _IS_CJK.match(token):
            self.words += character_pairs(token)
        elif _FIGURE.fullmatch(token):
            self.figures.append(token.rstrip("%"))
        elif _is_code(token):
            self.codes.append(lower)
            self.words += [part for part in _PARTS.split(lower) if len(part) >= SHORT and part.isalpha()]
        else:
            self.words += [part for part in _JOINTS.split(lower) if part]

    def take_name(self, token: str, lower: str) -> None:
        """Takes a word of mixed case for what it is besides: an acronym, or an identifier."""
        if len(token) > 1:
            if token.isupper():
                self.acronyms.append(lower)
            elif _CAMEL.search(token):
                self.codes.append(lower)

    def text(self, raw: str) -> Text:
        """All that was taken."""
        classes: dict[str, int] = {}
        stems, telling = set(self.acronyms), set[str]()
        for word in self.words:
            named = CLASSES.get(word)
            if named is not None:
                for name in named:
                    classes[name] = classes.get(name, 0) + 1
            if len(word) >= SHORT or is_content(word):
                stem_of_it = word[:STEM]
                stems.add(stem_of_it)
                if named is None or not ("vague" in named or "protocol" in named):
                    telling.add(stem_of_it)
        return Text(
            raw=raw,
            words=tuple(self.words),
            stems=frozenset(stems),
            telling=frozenset(telling),
            figures=tuple(self.figures),
            codes=tuple(self.codes),
            acronyms=tuple(self.acronyms),
            quotes=len(_QUOTE.findall(raw)) if _QUOTING.search(raw) else 0,
            has_outcome=_OUTCOME.search(raw) is not None,
            classes=classes,
        )


def quotations(raw: str) -> tuple[str, ...]:
    return tuple(_QUOTE.findall(raw))


def stem(word: str) -> str:
    """The beginning of a word, by which its inflected forms meet."""
    return word[:STEM]


def is_content(word: str) -> bool:
    """True for a word that is likely to carry meaning: long enough, or of a script with short words."""
    return len(word) >= SHORT or is_character_pair(word)


def is_character_pair(word: str) -> bool:
    """True for a pair of characters out of a script without spaces."""
    return not word.isascii() and _IS_CJK.match(word) is not None


def _is_code(token: str) -> bool:
    if token[0] in "./-" or token[-1] in "/)" or "_" in token or any(mark in token for mark in ":@#"):
        return True
    if any(char.isdigit() for char in token):
        return True
    return _CAMEL.search(token) is not None or ("." in token and min(map(len, token.split("."))) > 1)


PAIR_WEIGHT = 0.5
"""A script without spaces gives about two pairs of characters a word."""


def checkable_marks(text: Text, *given: Text) -> float:
    """Counts the checkable things in a text that the given texts do not hold already."""
    figures = {figure for source in given for figure in source.figures}
    codes = {code for source in given for code in source.codes}
    counted = sum(
        (0.5 if len(figure) == 1 else 1.0) for figure in dict.fromkeys(text.figures) if figure not in figures
    )
    return counted + sum(code not in codes for code in dict.fromkeys(text.codes)) + text.quotes


def specific_word_count(stems: frozenset[str]) -> float:
    """How many of the stems say something of this task in particular."""
    return sum(PAIR_WEIGHT if is_character_pair(stem) else 1.0 for stem in stems - GENERIC_STEMS)


def named_thing_count(text: Text) -> float:
    """How many things a text names: specific words, figures, identifiers, quotations, acronyms."""
    return specific_word_count(text.telling) + checkable_marks(text) + len(text.acronyms)


def new_thing_count(text: Text, *given: Text) -> float:
    """How many things a text names that the given texts do not."""
    known = frozenset[str]().union(*(source.stems for source in given))
    return specific_word_count(text.telling - known) + checkable_marks(text, *given)


def shared_word_count(text: Text, *others: Text) -> float:
    """How many of a text's specific words and acronyms the others have as well."""
    known = frozenset[str]().union(*(other.stems for other in others))
    return specific_word_count(text.telling & known) + len(known.intersection(text.acronyms))


def overlap_share(some: frozenset[str], others: frozenset[str]) -> float:
    """How large a part of some stems is among the others."""
    return len(some & others) / len(some) if some else 0.0

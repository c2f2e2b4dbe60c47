"""How two findings of different rounds go together: the same again, or the opposite.

Both are told from words alone, by fixed lists, and rather too seldom than too often.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from remand.domain.feedback import vocabulary as v
from remand.domain.feedback.code import pieces
from remand.domain.review_events import Finding

MAX_TEXT = 1500

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+")
"""The same in a text of small ASCII letters, found faster."""
_HUMP = re.compile(r"[A-Z_](?:(?<=[a-z0-9][A-Z])|(?<=_)_*)")
_CLAUSE = re.compile(r"[.!?;:,](?=\s|$)|\n| (?:but|because|since) ")


class Way(NamedTuple):
    """A way to say what is to take the place of what; whatever says it so has one of `words`."""

    words: frozenset[str]
    pattern: re.Pattern[str]

    def found(self, clause: str, words: list[str]) -> re.Match[str] | None:
        """Where a clause says it."""
        return self.pattern.search(clause) if _may_have(clause, words, self.words) else None


_INSTEAD = Way(
    frozenset({"instead", "rather", "place", "over"}),
    re.compile(r"\b(?:instead of|rather than|in place of|over)\b"),
)
_CHOSEN = (
    Way(
        frozenset({"replace", "swap", "change", "convert", "switch", "migrate", "move"}),
        re.compile(
            r"\b(?:replace|swap|change|convert|switch|migrate|move)\b(?P<that>.*?)\b(?:with|by|to|for|into)\b(?P<this>.*)"
        ),
    ),
    Way(
        frozenset({"not"}),
        re.compile(r"\b(?:use|prefer|want|be|make)\b(?P<this>.*?) not\b(?P<that>.*)"),
    ),
    Way(
        frozenset({"use", "prefer", "make", "switch", "go", "stick"}),
        re.compile(
            r"\b(?:use|prefer|make|switch (?:back )?to|go (?:back )?(?:to|with)|stick (?:to|with))\b(?P<this>.*)(?P<that>)"
        ),
    ),
)


_CHOOSING = _INSTEAD.words.union(*(way.words for way in _CHOSEN))


def _may_have(clause: str, words: list[str], wanted: frozenset[str]) -> bool:
    """True when a clause may have one of some words: what an apostrophe holds together may be more than one."""
    return not wanted.isdisjoint(words) or "'" in clause


class Wish(NamedTuple):
    """A word that wants more or less of something, where it stands in its clause."""

    axis: str
    is_more: bool
    words: list[str]
    at: int


class Aim(NamedTuple):
    """What a wish is about."""

    thing: frozenset[str]
    place: frozenset[str]
    """Where, or for what; both sides may leave it out."""


class Choice(NamedTuple):
    """One thing that is wanted, and what it is to take the place of."""

    this: frozenset[str]
    that: frozenset[str]


class Gist(NamedTuple):
    """What of a finding can be compared."""

    path: str
    words: frozenset[str]
    wishes: tuple[Wish, ...]
    choices: tuple[Choice, ...]


def gist(finding: Finding) -> Gist:
    """The words of a finding, and what it wants; code in it says neither."""
    prose = "\n".join(
        line for piece in pieces(finding.text[:MAX_TEXT]) if not piece.is_code for line in piece.lines
    )
    clauses = _CLAUSE.split(_HUMP.sub(_apart, prose).lower().replace("’", "'"))
    spoken = [(clause, words) for clause in clauses if (words := _words(clause))]
    return Gist(
        path=finding.path,
        words=frozenset(filter(None, [_kept(word) for _, words in spoken for word in words])),
        wishes=tuple([wish for _, words in spoken for wish in _wishes(words)]),
        choices=tuple([choice for said in spoken if (choice := _choice(*said)) is not None]),
    )


def _apart(match: re.Match[str]) -> str:
    return " " if match[0][0] == "_" else f" {match[0]}"


def _words(clause: str) -> list[str]:
    """The words of a text in small letters."""
    return (_ASCII_WORD if clause.isascii() else _WORD).findall(clause)


class Past:
    """The findings of earlier rounds, ready to be compared with many."""

    def __init__(self, gists: Sequence[Gist]) -> None:
        self._gists = gists
        self._bits: dict[str, int] = {}
        self._masks = [self._mask(one.words) for one in gists]
        self._wishing: defaultdict[tuple[str, bool], list[tuple[int, Wish]]] = defaultdict(list)
        for place, one in enumerate(gists):
            for wish in one.wishes:
                self._wishing[wish.axis, wish.is_more].append((place, wish))
        self._aims: dict[tuple[str, bool], dict[str, list[tuple[int, Aim]]]] = {}
        self._choosing = [place for place, one in enumerate(gists) if one.choices]

    def same(self, own: Gist) -> list[int]:
        """The places of those that say the same."""
        mask, gists = self._mask(own.words), self._gists
        return [
            place
            for place, other in enumerate(self._masks)
            if (shared := (mask & other).bit_count()) > 1 and _is_alike(shared, own, gists[place])
        ]

    def opposed(self, own: Gist) -> int:
        """The place of the last that wants the opposite; -1 when none does."""
        last = -1
        for wish in own.wishes:
            if (wish.axis, not wish.is_more) not in self._wishing:
                continue
            aim, aims = _aim(wish), self._aimed(wish.axis, not wish.is_more)
            for word in aim.thing:
                last = self._later(own, aim, aims.get(word, ()), last)
        later = (place for place in reversed(self._choosing) if place > last) if own.choices else ()
        return next((place for place in later if _is_other_choice(own, self._gists[place])), last)

    def _later(self, own: Gist, aim: Aim, aims: Sequence[tuple[int, Aim]], last: int) -> int:
        """The last place of those wishes that are about the same; `last` when no later one is."""
        for place, earlier in reversed(aims):
            if place <= last:
                break
            if _is_about_the_same(aim, earlier, _is_near(own, self._gists[place])):
                return place
        return last

    def _aimed(self, axis: str, is_more: bool) -> dict[str, list[tuple[int, Aim]]]:
        """What the wishes of one kind are about, by each word of it; made when it is first asked for."""
        found = self._aims.get((axis, is_more))
        if found is None:
            found = self._aims[axis, is_more] = {}
            for place, wish in self._wishing[axis, is_more]:
                aim = _aim(wish)
                for word in aim.thing:
                    found.setdefault(word, []).append((place, aim))
        return found

    def _mask(self, words: frozenset[str]) -> int:
        """The words as bits of a number, so that comparing them is one step."""
        mask = 0
        for word in words:
            mask |= 1 << self._bits.setdefault(word, len(self._bits))
        return mask


def recurs(now: Gist, before: Gist) -> bool:
    """True when two findings say the same: about one file in much the same words, or elsewhere in the very same."""
    return _is_alike(len(now.words & before.words), now, before)


def _is_alike(shared: int, now: Gist, before: Gist) -> bool:
    """Whether so many words in common are enough."""
    one, other = len(now.words), len(before.words)
    every = one + other - shared
    if now.path == before.path:
        return shared >= 2 and (2 * shared >= every or (shared >= 3 and 4 * shared >= 3 * min(one, other)))
    if not now.path or not before.path:
        return shared >= 3 and 100 * shared >= 65 * every
    return shared >= 4 and 5 * shared >= 4 * every


def reverses(now: Gist, before: Gist) -> bool:
    """True when a finding wants undone what an earlier one wanted."""
    return Past([before]).opposed(now) == 0


def _is_near(now: Gist, before: Gist) -> bool:
    return now.path == before.path or not now.path or not before.path


def _is_about_the_same(aim: Aim, earlier: Aim, is_near: bool) -> bool:
    """True when two wishes name one thing, and no two places of it."""
    shared = aim.thing & earlier.thing
    fewest = min(len(aim.thing), len(earlier.thing))
    has_two_places = bool(aim.place and earlier.place) and not aim.place & earlier.place
    if not shared or has_two_places or len(shared) / fewest < 0.6:
        return False
    if not is_near:
        return len(shared) >= 3 or (aim.thing == earlier.thing and bool(aim.place & earlier.place))
    return aim.thing == earlier.thing or len(shared) >= 2 or bool(shared - v.GENERIC)


def _is_other_choice(now: Gist, before: Gist) -> bool:
    """True when one wants in place of the other's wish what the other wanted replaced."""
    return any(
        _are_opposed(choice, earlier, now, before) for choice in now.choices for earlier in before.choices
    )


def _are_opposed(choice: Choice, earlier: Choice, now: Gist, before: Gist) -> bool:
    if not _is_near(now, before) and not (choice.that and earlier.that):
        return False
    given_up = choice.that & earlier.this
    if given_up and not choice.this & earlier.this:
        return not earlier.that or bool(choice.this & earlier.that) or given_up == earlier.this
    wanted_back = choice.this & earlier.that
    if wanted_back and not choice.this & earlier.this:
        return True
    opposed = any(
        frozenset({one, other}) in v.ANTONYMS
        for one in choice.this - earlier.this
        for other in earlier.this - choice.this
    )
    rest = (choice.this | choice.that) & (earlier.this | earlier.that)
    return opposed and (bool(rest) or min(len(choice.this), len(earlier.this)) == 1)


def _wishes(words: list[str]) -> list[Wish]:
    """What a clause wants, by its first word of each kind."""
    found: dict[str, Wish] = {}
    for at, word in enumerate(words):
        for axis, is_more in _signs(word):
            if axis in found:
                continue
            is_past = word.endswith("ed") and word not in v.VERBS and bool(v.COMPLAINTS & set(words[:at]))
            flips = v.NEGATIONS.isdisjoint(words[max(at - 4, 0) : at]) == is_past
            found[axis] = Wish(axis, is_more != flips, words, at)
    return [*found.values(), *_told(words)]


def _told(words: list[str]) -> list[Wish]:
    """What a clause tells to do, or not to do, with its first word."""
    is_negative = False
    for at, word in enumerate(words):
        if word in v.NEGATIONS or (word == "do" and words[at + 1 : at + 2] == ["not"]):
            is_negative = True
        elif word not in v.POLITE:
            return [] if _verb(word) in v.SIGNS else [Wish(f"to {_verb(word)}", not is_negative, words, at)]
    return []


def _aim(wish: Wish) -> Aim:
    """What a wish is about: what follows it, or what stands before when nothing does."""
    thing, place = _parted(wish.words[wish.at + 1 :])
    if not thing:
        thing, elsewhere = _parted(wish.words[: wish.at])
        place |= elsewhere
    if not thing:
        thing, place = place, frozenset()
    if wish.axis == v.SHAPE:
        thing, place = thing | place, frozenset()
    return Aim(thing, place)


def _parted(words: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The words up to the first that says where or for what, and those that follow."""
    end = 0
    while end < len(words) and words[end] not in v.PREPOSITIONS:
        end += 1
    return (
        frozenset(filter(None, map(_subject, words[:end]))),
        frozenset(filter(None, map(_subject, words[end:]))),
    )


def _choice(clause: str, words: list[str]) -> Choice | None:
    """What a clause of such words prefers to what; None when it prefers nothing."""
    if not _may_have(clause, words, _CHOOSING):
        return None
    if (match := _INSTEAD.found(clause, words)) is not None:
        this, that = _subjects(clause[: match.start()]), _subjects(clause[match.end() :])
        return Choice(this, that - this) if this and that else None
    for way in _CHOSEN:
        match = way.found(clause, words)
        if match is None or v.NEGATIONS & set(_words(clause[: match.start()])):
            continue
        this, that = _subjects(match["this"]), _subjects(match["that"])
        if this and (that or way is _CHOSEN[-1]):
            return Choice(this, that - this)
    return None


def _subjects(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(_subject, _words(text))))


@lru_cache(maxsize=1 << 14)
def _kept(word: str) -> str:
    if word in v.EMPTY or (len(word) < 2 and not word.isdigit()):
        return ""
    return v.stem(word)


@lru_cache(maxsize=1 << 14)
def _subject(word: str) -> str:
    """What is kept of a word that something may be about."""
    kept = _kept(word)
    return "" if kept in v.VERB_STEMS else kept


@lru_cache(maxsize=1 << 14)
def _signs(word: str) -> tuple[tuple[str, bool], ...]:
    """What a word wants more or less of."""
    return v.SIGNS.get(_verb(word), ())


@lru_cache(maxsize=1 << 14)
def _verb(word: str) -> str:
    return word if word in v.VERBS else v.stem(word)

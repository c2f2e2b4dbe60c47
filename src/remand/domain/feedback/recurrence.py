"""Whether a finding repeats or reverses one of an earlier round, by fixed word lists."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from remand.domain.events.reviews import Finding
from remand.domain.feedback.markup import split_code
from remand.domain.text.words import word_set

SHAPE = "1"
"""The axis (extract or inline) on which the result is as significant as its source."""

_AXES = (
    (
        """add introduce include insert create write restore keep leave need require missing lack want put implement
        document reinstate retain readd bring""",
        """remove delete drop omit eliminate strip discard revert undo unnecessary unneeded redundant superfluous useless
        pointless avoid rid obsolete overkill""",
    ),
    (
        "extract split separate factor hoist pull break decouple",
        "inline merge combine join fold collapse unify",
    ),
    ("enable activate allow permit", "disable deactivate forbid disallow ban prohibit"),
    (
        "increase raise lengthen extend expand bump enlarge longer larger higher bigger",
        "decrease reduce lower shorten shrink shorter smaller",
    ),
    ("expose export publish public", "hide unexport private internal"),
    ("catch swallow suppress", "propagate rethrow bubble"),
    ("use", "avoid"),
)
"""Words that demand more of something, each group with the words that demand less."""
_OPPOSITES = """
tab/space async/sync asynchronous/synchronous public/private single/double mutable/immutable eager/lazy global/local
list/tuple let/const var/const http/https recursion/loop recursive/iterative inheritance/composition json/yaml
uppercase/lowercase camel/snake class/function ascending/descending positional/keyword mock/fake optional/required
static/dynamic callback/promise set/list string/enum absolute/relative
"""
_GENERIC_WORDS = """
argument assertion block call case check class code comment condition constant docstring error exception field file
function guard import line log logging message method module name null none parameter param property return statement
test type unit value variable whitespace hint annotation blank empty space newline
"""


def stem(word: str) -> str:
    """A word without its most common endings."""
    for ending in ("ies", "ing", "ed", "es", "s", "e"):
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith("ss"):
            word = word[: -len(ending)] + ("y" if ending == "ies" else "")
            break
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] and word[-1] in "bdgmnprt" else word


EMPTY_WORDS = word_set("""
a an and any are as at be been but by can could do does for from had has have here how i if in into is it its let lets
just like may me might more most much my no not of off on one only or our out over please same should so some such than
that the their them then there these they this those to too up us very was we were what when where which while who why
will with within would you your also again still already now really actually maybe think sure instead rather back itself
each every all both thanks thank blocking nit nitpick suggestion optional question must issue don't doesn't isn't can't
won't shouldn't didn't
""")
"""Words without meaning for the subject of a finding."""
NEGATIONS = word_set("not don't dont never no stop without shouldn't shouldnt needn't cannot doesn't isn't")
COMPLAINTS = word_set("you was were been got accidentally wrongly mistakenly")
"""Words after which a past-tense verb is a complaint."""
POLITE = word_set("please you we should could would can must just also still let's lets better to i'd do")
PREPOSITIONS = word_set(
    "to for of in from around on with into above below at before after inside when by as per"
)
GENERIC = frozenset(map(stem, _GENERIC_WORDS.split()))
"""Subjects of many findings, which do not suffice for a match."""
ANTONYMS = frozenset(frozenset(map(stem, pair.split("/"))) for pair in _OPPOSITES.split())
VERBS = frozenset(word for axis in _AXES for group in axis for word in group.split())
VERB_STEMS = frozenset(map(stem, VERBS | word_set("use prefer make replace switch change")))


SIGNS: dict[str, tuple[tuple[str, bool], ...]] = {}
"""For each demanding word: its axes, and whether it demands more."""
for _axis, _groups in enumerate(_AXES):
    for _group, _is_more in zip(_groups, (True, False), strict=True):
        for _form in {form for word in _group.split() for form in (word, stem(word))}:
            SIGNS[_form] = (*SIGNS.get(_form, ()), (str(_axis), _is_more))


MAX_TEXT = 1500

_WORD = re.compile(r"[^\W\d_]+(?:['’][^\W\d_]+)?|\d+")
_ASCII_WORD = re.compile(r"[a-z]+(?:'[a-z]+)?|[0-9]+")
"""The same for lower-case ASCII text, which is faster."""
_HUMP = re.compile(r"[A-Z_](?:(?<=[a-z0-9][A-Z])|(?<=_)_*)")
_CLAUSE = re.compile(r"[.!?;:,](?=\s|$)|\n| (?:but|because|since) ")


class ReplacementPattern(NamedTuple):
    """A way to say what should replace what; each such clause has one of `words`."""

    words: frozenset[str]
    pattern: re.Pattern[str]

    def search(self, clause: str, words: list[str]) -> re.Match[str] | None:
        return self.pattern.search(clause) if _may_have(clause, words, self.words) else None


_INSTEAD = ReplacementPattern(
    frozenset({"instead", "rather", "place", "over"}),
    re.compile(r"\b(?:instead of|rather than|in place of|over)\b"),
)
_PREFERENCE_PATTERNS = (
    ReplacementPattern(
        frozenset({"replace", "swap", "change", "convert", "switch", "migrate", "move"}),
        re.compile(
            r"\b(?:replace|swap|change|convert|switch|migrate|move)\b(?P<that>.*?)\b(?:with|by|to|for|into)\b(?P<this>.*)"
        ),
    ),
    ReplacementPattern(
        frozenset({"not"}),
        re.compile(r"\b(?:use|prefer|want|be|make)\b(?P<this>.*?) not\b(?P<that>.*)"),
    ),
    ReplacementPattern(
        frozenset({"use", "prefer", "make", "switch", "go", "stick"}),
        re.compile(
            r"\b(?:use|prefer|make|switch (?:back )?to|go (?:back )?(?:to|with)|stick (?:to|with))\b(?P<this>.*)(?P<that>)"
        ),
    ),
)


_PREFERENCE_WORDS = _INSTEAD.words.union(*(way.words for way in _PREFERENCE_PATTERNS))


def _may_have(clause: str, words: list[str], wanted: frozenset[str]) -> bool:
    """True if a clause may contain one of these words; a word with an apostrophe may be several."""
    return not wanted.isdisjoint(words) or "'" in clause


class ReviewDemand(NamedTuple):
    """A word that demands more or less of something, and its position in its clause."""

    axis: str
    is_more: bool
    words: list[str]
    at: int


class DemandTarget(NamedTuple):
    """The subject of a demand."""

    thing: frozenset[str]
    place: frozenset[str]
    """Where or for what; either finding may omit it."""


class Preference(NamedTuple):
    """The preferred thing and the one it should replace."""

    this: frozenset[str]
    that: frozenset[str]


class FindingGist(NamedTuple):
    """The part of a finding that can be compared."""

    path: str
    words: frozenset[str]
    demands: tuple[ReviewDemand, ...]
    preferences: tuple[Preference, ...]


def read_gist(finding: Finding) -> FindingGist:
    """The words and demands of a finding, without its code."""
    prose = "\n".join(
        line for piece in split_code(finding.text[:MAX_TEXT]) if not piece.is_code for line in piece.lines
    )
    spaced = _HUMP.sub(lambda match: " " if match[0][0] == "_" else f" {match[0]}", prose)
    clauses = _CLAUSE.split(spaced.lower().replace("’", "'"))
    spoken = [(clause, words) for clause in clauses if (words := _words(clause))]
    return FindingGist(
        path=finding.path,
        words=frozenset(filter(None, [_content_stem(word) for _, words in spoken for word in words])),
        demands=tuple([demand for _, words in spoken for demand in _demands(words)]),
        preferences=tuple([choice for said in spoken if (choice := _preference(*said)) is not None]),
    )


def _words(clause: str) -> list[str]:
    return (_ASCII_WORD if clause.isascii() else _WORD).findall(clause)


class EarlierFindings:
    """The findings of earlier rounds, prepared for comparison with many."""

    def __init__(self, gists: Sequence[FindingGist]) -> None:
        self._gists = gists
        self._bits: dict[str, int] = {}
        self._masks = [self._mask(one.words) for one in gists]
        self._demanding: defaultdict[tuple[str, bool], list[tuple[int, ReviewDemand]]] = defaultdict(list)
        for place, gist in enumerate(gists):
            for demand in gist.demands:
                self._demanding[demand.axis, demand.is_more].append((place, demand))
        self._aims: dict[tuple[str, bool], dict[str, list[tuple[int, DemandTarget]]]] = {}
        self._preferring = [place for place, one in enumerate(gists) if one.preferences]

    def find_same(self, own: FindingGist) -> list[int]:
        """The positions of the findings that say the same."""
        mask, gists = self._mask(own.words), self._gists
        return [
            place
            for place, other in enumerate(self._masks)
            if (shared := (mask & other).bit_count()) > 1 and _is_alike(shared, own, gists[place])
        ]

    def find_last_opposed(self, own: FindingGist) -> int:
        """The position of the last finding that demands the opposite; -1 when none does."""
        last = -1
        for demand in own.demands:
            if (demand.axis, not demand.is_more) not in self._demanding:
                continue
            aim, aims = _demand_target(demand), self._targets_by_word(demand.axis, not demand.is_more)
            for word in aim.thing:
                last = self._last_same_target(own, aim, aims.get(word, ()), last)
        later = (place for place in reversed(self._preferring) if place > last) if own.preferences else ()
        return next((place for place in later if _has_opposite_preference(own, self._gists[place])), last)

    def _last_same_target(
        self, own: FindingGist, aim: DemandTarget, aims: Sequence[tuple[int, DemandTarget]], last: int
    ) -> int:
        """The last position of a demand about the same subject; `last` if none is later."""
        for place, earlier in reversed(aims):
            if place <= last:
                break
            if _is_same_target(aim, earlier, _is_near(own, self._gists[place])):
                return place
        return last

    def _targets_by_word(self, axis: str, is_more: bool) -> dict[str, list[tuple[int, DemandTarget]]]:
        """The targets of one kind of demand by word; built on first use."""
        found = self._aims.get((axis, is_more))
        if found is None:
            found = self._aims[axis, is_more] = {}
            for place, demand in self._demanding[axis, is_more]:
                aim = _demand_target(demand)
                for word in aim.thing:
                    found.setdefault(word, []).append((place, aim))
        return found

    def _mask(self, words: frozenset[str]) -> int:
        """The words as bits of an integer, for fast comparison."""
        mask = 0
        for word in words:
            mask |= 1 << self._bits.setdefault(word, len(self._bits))
        return mask


def _is_alike(shared: int, now: FindingGist, before: FindingGist) -> bool:
    """Whether so many words in common say the same: much the same words about one file, or elsewhere the same."""
    one, other = len(now.words), len(before.words)
    every = one + other - shared
    if now.path == before.path:
        return shared >= 2 and (2 * shared >= every or (shared >= 3 and 4 * shared >= 3 * min(one, other)))
    if not now.path or not before.path:
        return shared >= 3 and 100 * shared >= 65 * every
    return shared >= 4 and 5 * shared >= 4 * every


def _is_near(now: FindingGist, before: FindingGist) -> bool:
    return now.path == before.path or not now.path or not before.path


def _is_same_target(aim: DemandTarget, earlier: DemandTarget, is_near: bool) -> bool:
    """True if two demands name the same thing rather than two places of it."""
    shared = aim.thing & earlier.thing
    fewest = min(len(aim.thing), len(earlier.thing))
    has_two_places = bool(aim.place and earlier.place) and not aim.place & earlier.place
    if not shared or has_two_places or len(shared) / fewest < 0.6:
        return False
    if not is_near:
        return len(shared) >= 3 or (aim.thing == earlier.thing and bool(aim.place & earlier.place))
    return aim.thing == earlier.thing or len(shared) >= 2 or bool(shared - GENERIC)


def _has_opposite_preference(now: FindingGist, before: FindingGist) -> bool:
    return any(
        _are_opposed(choice, earlier, now, before)
        for choice in now.preferences
        for earlier in before.preferences
    )


def _are_opposed(choice: Preference, earlier: Preference, now: FindingGist, before: FindingGist) -> bool:
    if not _is_near(now, before) and not (choice.that and earlier.that):
        return False
    given_up = choice.that & earlier.this
    if given_up and not choice.this & earlier.this:
        return not earlier.that or bool(choice.this & earlier.that) or given_up == earlier.this
    wanted_back = choice.this & earlier.that
    if wanted_back and not choice.this & earlier.this:
        return True
    opposed = any(
        frozenset({one, other}) in ANTONYMS
        for one in choice.this - earlier.this
        for other in earlier.this - choice.this
    )
    rest = (choice.this | choice.that) & (earlier.this | earlier.that)
    return opposed and (bool(rest) or min(len(choice.this), len(earlier.this)) == 1)


def _demands(words: list[str]) -> list[ReviewDemand]:
    """The demands of a clause, by its first word of each kind."""
    found: dict[str, ReviewDemand] = {}
    for at, word in enumerate(words):
        for axis, is_more in _demand_signs(word):
            if axis in found:
                continue
            is_past = word.endswith("ed") and word not in VERBS and bool(COMPLAINTS & set(words[:at]))
            flips = NEGATIONS.isdisjoint(words[max(at - 4, 0) : at]) == is_past
            found[axis] = ReviewDemand(axis, is_more != flips, words, at)
    return [*found.values(), *_instructions(words)]


def _instructions(words: list[str]) -> list[ReviewDemand]:
    """What the first word of a clause instructs to do or not to do."""
    is_negative = False
    for at, word in enumerate(words):
        if word in NEGATIONS or (word == "do" and words[at + 1 : at + 2] == ["not"]):
            is_negative = True
        elif word not in POLITE:
            return (
                []
                if _verb_stem(word) in SIGNS
                else [ReviewDemand(f"to {_verb_stem(word)}", not is_negative, words, at)]
            )
    return []


def _demand_target(demand: ReviewDemand) -> DemandTarget:
    """The subject of a demand: the words after it, or those before if there are none."""
    thing, place = _split_at_preposition(demand.words[demand.at + 1 :])
    if not thing:
        thing, elsewhere = _split_at_preposition(demand.words[: demand.at])
        place |= elsewhere
    if not thing:
        thing, place = place, frozenset()
    if demand.axis == SHAPE:
        thing, place = thing | place, frozenset()
    return DemandTarget(thing, place)


def _split_at_preposition(words: list[str]) -> tuple[frozenset[str], frozenset[str]]:
    """The words up to the first preposition of place or purpose, and the rest."""
    end = 0
    while end < len(words) and words[end] not in PREPOSITIONS:
        end += 1
    return (
        frozenset(filter(None, map(_subject_stem, words[:end]))),
        frozenset(filter(None, map(_subject_stem, words[end:]))),
    )


def _preference(clause: str, words: list[str]) -> Preference | None:
    """The preference in a clause; None if there is none."""
    if not _may_have(clause, words, _PREFERENCE_WORDS):
        return None
    if (match := _INSTEAD.search(clause, words)) is not None:
        this, that = _subject_stems(clause[: match.start()]), _subject_stems(clause[match.end() :])
        return Preference(this, that - this) if this and that else None
    for way in _PREFERENCE_PATTERNS:
        match = way.search(clause, words)
        if match is None or NEGATIONS & set(_words(clause[: match.start()])):
            continue
        this, that = _subject_stems(match["this"]), _subject_stems(match["that"])
        if this and (that or way is _PREFERENCE_PATTERNS[-1]):
            return Preference(this, that - this)
    return None


def _subject_stems(text: str) -> frozenset[str]:
    return frozenset(filter(None, map(_subject_stem, _words(text))))


@lru_cache(maxsize=1 << 14)
def _content_stem(word: str) -> str:
    if word in EMPTY_WORDS or (len(word) < 2 and not word.isdigit()):
        return ""
    return stem(word)


@lru_cache(maxsize=1 << 14)
def _subject_stem(word: str) -> str:
    """The stem of a possible subject; empty for other words."""
    kept = _content_stem(word)
    return "" if kept in VERB_STEMS else kept


@lru_cache(maxsize=1 << 14)
def _demand_signs(word: str) -> tuple[tuple[str, bool], ...]:
    return SIGNS.get(_verb_stem(word), ())


@lru_cache(maxsize=1 << 14)
def _verb_stem(word: str) -> str:
    return word if word in VERBS else stem(word)

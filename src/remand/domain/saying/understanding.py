"""Makes a wish of what was said, or a question, or nothing."""

from __future__ import annotations

import re

from remand.domain.record import Record
from remand.domain.saying import doubts
from remand.domain.saying.meaning import Meaning, Slots, mean
from remand.domain.saying.patterns import ORDINARY, PATTERNS, READING, Pattern, compiled
from remand.domain.saying.reading import Sentence, read
from remand.domain.saying.table import BECAUSE, GUIDING
from remand.domain.saying.vocabulary import Vocabulary
from remand.domain.saying.wishes import NotUnderstood, Understood, Unsure, Wish
from remand.domain.visible import visible

MAX_TEXT = 2000
_MOST_CHOICES = 8
_MOST_VARIANTS = 12
_LONGEST_WISH = 60
"""How many tokens a wish may have before its reason."""
_TAIL = re.compile(
    rf"(?P<mark>[—:;,.?(] )?(?:(?P<guiding>{'|'.join(map(compiled, GUIDING))})|(?P<because>{compiled(BECAUSE)}))?"
)
_SEVERAL = re.compile(r"([@#]\d+ (?:, [@#]\d+ )*(?:, )?(?:and|or) [@#]\d+ )")
_ONE = re.compile(r"[@#]\d+ ")
_BREAKS = re.compile(r"\r\n?")


class _Rest(Record, kw_only=True):
    """What follows a wish: why, or what the agent is to be told."""

    reason: str = ""
    guidance: str = ""
    doubt: str = ""
    is_after_question: bool = False


_NOTHING = _Rest()


def understand(text: str, vocabulary: Vocabulary) -> Understood:
    """What somebody wishes. Nothing but a whole sentence that names all it needs becomes a wish."""
    said = _BREAKS.sub("\n", text).strip()
    unreadable = _unreadable(said)
    if unreadable:
        return NotUnderstood(message=unreadable)
    sentence = read(said, vocabulary)
    found = _wholes(sentence, vocabulary)
    if not found and any(name in ORDINARY for name in vocabulary.names):
        plain = read(said, vocabulary, without=ORDINARY)
        found = _wholes(plain, vocabulary)
        sentence = plain if found else sentence
    return _answer(found) if found else _asked_back(sentence, vocabulary)


def _unreadable(text: str) -> str:
    if not text:
        return "Nothing was said."
    if len(text) > MAX_TEXT:
        return f"That has {len(text)} characters; at most {MAX_TEXT} are read."
    if visible(text) != text:
        return "That holds characters which cannot be seen, so it is not obeyed. Type it anew."
    return ""


def _answer(found: list[Meaning]) -> Understood:
    """The wish, when all readings come to one and nothing is doubtful."""
    wishes = _distinct(found)
    doubt = next((meaning.doubt for meaning in found if meaning.doubt), "")
    if len(wishes) == 1 and not doubt:
        return wishes[0]
    return Unsure(message=doubt or doubts.SEVERAL, wishes=wishes[:_MOST_CHOICES])


def _distinct(found: list[Meaning]) -> tuple[Wish, ...]:
    return tuple(dict.fromkeys(wish for meaning in found for wish in meaning.wishes))


def _wholes(sentence: Sentence, vocabulary: Vocabulary) -> list[Meaning]:
    """What the whole sentence means: without a reason first, then with the shortest wish before one."""
    found = [_meaning(pattern, match, sentence, vocabulary) for pattern, match in _matches(sentence.shape())]
    place = 0
    while not found and (place := place + 1) < min(len(sentence.tokens), _LONGEST_WISH):
        start = _TAIL.match(sentence.shape(place, _LONGEST_WISH))
        matches = _matches(sentence.shape(0, place)) if start and start.group() else []
        rest = _rest(sentence, place, start) if start and matches else _NOTHING
        found = [
            _meaning(pattern, match, sentence, vocabulary, rest)
            for pattern, match in matches
            if pattern.wish in READING or not rest.is_after_question
        ]
    firm = [meaning for meaning in found if not meaning.is_loose]
    return firm or [meaning for meaning in found if meaning.wishes]


def _rest(sentence: Sentence, place: int, start: re.Match[str]) -> _Rest:
    """What follows a wish that ends before a place, and begins with a mark or a word that leads to it."""
    after = place + start.group().count(" ")
    told = sentence.text_from(after).strip()
    if start["mark"] == "( ":
        told = told.removesuffix(")")
    is_guidance = bool(start["guiding"] and told)
    return _Rest(
        reason="" if is_guidance else told or sentence.text_from(place),
        guidance=told if is_guidance else "",
        doubt=doubts.of_reason(sentence, after),
        is_after_question=start["mark"] == "? ",
    )


def _matches(shape: str) -> list[tuple[Pattern, re.Match[str]]]:
    variants = _variants(shape)
    found = ((pattern, pattern.whole.fullmatch(variant)) for variant in variants for pattern in PATTERNS)
    return [(pattern, match) for pattern, match in found if match is not None]


def _variants(shape: str) -> list[str]:
    """The sentence once for each of several names or tasks that it joins with `and` or `or`."""
    variants = [shape]
    for joined in _SEVERAL.findall(shape):
        each = _ONE.findall(joined)
        if len({one[0] for one in each}) == 1 and len(variants) * len(each) <= _MOST_VARIANTS:
            variants = [text.replace(joined, one, 1) for text in variants for one in each]
    return variants


def _meaning(
    pattern: Pattern, match: re.Match[str], sentence: Sentence, vocabulary: Vocabulary, rest: _Rest = _NOTHING
) -> Meaning:
    slots = Slots(names={name: said for name, said in match.groupdict().items() if said}, sentence=sentence)
    if pattern.wish in READING:
        doubt = rest.doubt if rest.doubt == doubts.SEVERAL else ""
    else:
        doubt = doubts.of_asking(match.group()) or rest.doubt
    return mean(pattern, slots, vocabulary, reason=rest.reason, guidance=rest.guidance, doubt=doubt)


def _asked_back(sentence: Sentence, vocabulary: Vocabulary) -> Understood:
    """What is said to a sentence that is no wish as a whole."""
    parts = [
        mean(pattern, Slots(names=names, sentence=sentence), vocabulary)
        for pattern, names in doubts.parts(_variants(sentence.shape()))
    ]
    wishes = _distinct(parts)
    left, command = doubts.by_command(sentence)
    if not wishes:
        quoted = doubts.QUOTED if doubts.is_quoted(sentence) else ""
        return NotUnderstood(message=left or quoted or doubts.HOW, command=command)
    if not all(isinstance(wish, READING) for wish in wishes):
        denied = doubts.of_not_wishing(sentence)
        if denied:
            return NotUnderstood(message=denied)
    message = doubts.of_sentence(sentence, is_several=len(wishes) > 1)
    return Unsure(message=f"{message} {left}".strip(), command=command, wishes=wishes[:_MOST_CHOICES])

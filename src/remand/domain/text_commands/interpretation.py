"""Turns a sentence into a request, a question back, or nothing; and says why a sentence is in doubt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from typing import Any

from remand.domain.access.team import USER, Role
from remand.domain.record import Record
from remand.domain.text.visible import remove_invisible
from remand.domain.text_commands import requests as w
from remand.domain.text_commands.grammar import (
    BECAUSE,
    CONDITIONS,
    GUIDING,
    LIMITS,
    NEGATIONS,
    ORDINARY_WORDS,
    PATTERNS,
    QUERY_REQUESTS,
    SPEECH,
    TURNS,
    SentencePattern,
    compile_row,
)
from remand.domain.text_commands.requests import TextRequest, TextResult, UnclearRequest, UnknownRequest
from remand.domain.text_commands.sentence import ReferenceKind, Sentence, Vocabulary, parse_sentence

EXAMPLES = (
    "Remand did not understand that and did nothing. Examples: Why is NAME locked out? · NAME, review PR #15 · "
    "Reassign issue #42 from NAME to NAME · Escalate issue #42 to me · What is the state of #42?"
)
SEVERAL_REQUESTS = "That is more than one request. Make them one at a time."
_IS_QUESTION = "That sounds like a question, so Remand did nothing."
_IS_CONDITIONAL = "That has a condition, and Remand does not wait for conditions. Repeat it without the condition once it is met."
_IS_UNCLEAR = "Remand understood only part of that sentence and did nothing."
_IS_REVOKED = "The rest of that sentence puts the request in doubt, so Remand did nothing."
_IS_DENIED = "That says what not to do, so Remand did nothing."
_IS_REPORTED = "That reports a request instead of making one, so Remand did nothing."
IS_QUOTED = "Remand does not run quoted text. Repeat it without quotes if you mean it."

_FILLERS = ("please", "oh", "well", "um", "hm", "hey", "ok", "okay", "so")
_REVOCATION = re.compile(
    r"^no (?:[,.—]|wait|not|don't|$)"
    r"|\b(?:never mind|forget (?:it|that)|scratch that|ignore (?:that|this)|make that|would be|i meant?"
    r"|second thoughts?|my mind|not what)\b"
    r"|\b(?:do not|don't) (?:do|want)\b"
)

_BY_COMMAND = {
    "approve": "remand review approve TASK --reviewer NAME --commit SHA",
    "reject": "remand review reject TASK --reviewer NAME --commit SHA --finding 'path:line: text'",
    "retract": "remand review retract TASK --reviewer NAME --reason TEXT",
    "override": "remand gate override TASK --gate NAME --reason TEXT",
    "accept": "remand gate accept TASK FINDING --reviewer NAME",
    "cancel": "remand task cancel TASK --reason TEXT",
    "reopen": "remand task reopen TASK --reason TEXT",
    "claim": "remand task claim TASK --agent NAME",
    "submit": "remand task submit TASK --agent NAME --commit SHA",
    "answer": "remand inbox answer ID OPTION",
}
_SAME = {
    **dict.fromkeys(("lgtm", "merge", "approved", "ship"), "approve"),
    **dict.fromkeys(("rejected", "lock"), "reject"),
    "close": "cancel",
    "wontfix": "answer",
}


def question_doubt(shape: str) -> str:
    """What is doubtful about a sentence that ends like a question: it is an order only when it asks politely."""
    words = shape.split()
    return _IS_QUESTION if "?" in words and "you" not in words else ""


def reason_doubt(sentence: Sentence, start: int) -> str:
    """What is doubtful about the rest of a sentence, which would be its reason."""
    if find_parts([sentence.shape(start)]):
        return SEVERAL_REQUESTS
    words = [token.shape for token in sentence.tokens[start:]]
    spoken = [word for word in words if word[0].isalpha() or word in "@#"]
    first = next((place for place, word in enumerate(spoken) if word not in _FILLERS), 0)
    if not spoken:
        return _IS_QUESTION if "?" in words else ""
    is_turned = spoken[first] in TURNS or spoken[-1] in NEGATIONS
    is_reported = spoken[first] == "@" and not SPEECH.isdisjoint(spoken[first + 1 : first + 2])
    is_named_only = not any(word[0].isalpha() for word in spoken)
    is_taken_back = bool(LIMITS & set(words)) or _REVOCATION.search(" ".join(words)) is not None
    return _IS_REVOKED if is_turned or is_reported or is_named_only or is_taken_back or "?" in words else ""


def denial_doubt(sentence: Sentence) -> str:
    """Why a sentence with a wish in it must not be taken for one."""
    words = set(sentence.words)
    if words & SPEECH:
        return _IS_REPORTED
    return _IS_DENIED if words & NEGATIONS else ""


def sentence_doubt(sentence: Sentence, *, is_several: bool) -> str:
    """What is not clear about a sentence with a wish in it."""
    if "?" in sentence.words:
        return _IS_QUESTION
    if set(sentence.words) & CONDITIONS:
        return _IS_CONDITIONAL
    return SEVERAL_REQUESTS if is_several else _IS_UNCLEAR


def find_command(sentence: Sentence) -> tuple[str, str]:
    """What is never taken from plain words, and the command that does it; empty when there is nothing of it."""
    for word in sentence.words:
        verb = _SAME.get(word, word)
        if verb in _BY_COMMAND:
            return f"“{word}” is not available in plain English.", _BY_COMMAND[verb]
    return "", ""


def has_quotes(sentence: Sentence) -> bool:
    """True when something in it stands in quotes."""
    references = (token.reference for token in sentence.tokens)
    return any(told is not None and told.kind is ReferenceKind.TITLE for told in references)


def find_parts(variants: list[str]) -> list[tuple[SentencePattern, dict[str, str]]]:
    """The patterns that stand somewhere in a sentence, each with its slots; none that lies within another."""
    spans = [
        (
            match.start(),
            match.end(),
            pattern,
            {slot: said for slot, said in match.groupdict().items() if said},
        )
        for variant in variants
        for pattern in PATTERNS
        for match in pattern.part.finditer(variant)
        if match.groupdict() and any(match.groupdict().values())
    ]
    return [
        (pattern, slots)
        for start, end, pattern, slots in spans
        if not any(s <= start and end <= e and (s, e) != (start, end) for s, e, _, _ in spans)
    ]


_MISSING = {
    "task": "Name the task.",
    "agent": "Name the agent.",
    "reviewer": "Name the reviewer.",
    "target": "Name the agent that takes over.",
}
_REQUIRED: dict[type[w.TextRequest], tuple[str, ...]] = {
    w.ReviewTextRequest: ("reviewer", "task"),
    w.UnlockTextRequest: ("agent", "task"),
    w.ReassignTextRequest: ("target", "task"),
    w.EscalateTextRequest: ("task",),
    w.StatusTextRequest: ("task",),
    w.AnswerTextRequest: ("task", "option"),
}


class PatternSlots:
    """What a pattern found: slot by slot the shape that stands there, and the sentence it stands in."""

    def __init__(self, names: dict[str, str], sentence: Sentence) -> None:
        self.names = names
        self.sentence = sentence


class Interpretation(Record, kw_only=True):
    """The wishes a sentence may mean, and what is doubtful about it."""

    wishes: tuple[w.TextRequest, ...] = ()
    doubt: str = ""
    is_loose: bool = False


def interpret_pattern(
    pattern: SentencePattern,
    slots: PatternSlots,
    vocabulary: Vocabulary,
    *,
    reason: str = "",
    guidance: str = "",
    doubt: str = "",
) -> Interpretation:
    """The wishes that a pattern's slots lead to."""
    reading = _SlotReader(slots, vocabulary)
    known = {slot: reading.find_meanings(slot) for slot in slots.names}
    known = reading.complete_slots(pattern.wish, known)
    told = {"reason": reason, "guidance": guidance}
    made = tuple(_make_requests(pattern.wish, known, told))
    if "human" in known and not reading.is_user(known["human"]):
        made += tuple(
            w.ReassignTextRequest(task=task, target=name) for task in known["task"] for name in known["human"]
        )
        reading.doubts.append("Escalations go only to the user.")
    if pattern.is_loose:
        reading.doubts.append("That has more than one possible meaning.")
    every = [doubt, *reading.doubts]
    return Interpretation(
        wishes=made, doubt=next((one for one in every if one), ""), is_loose=pattern.is_loose
    )


class _SlotReader:
    """Looks up what slots name, and notes what is not certain about it."""

    def __init__(self, slots: PatternSlots, vocabulary: Vocabulary) -> None:
        self._slots = slots
        self._vocabulary = vocabulary
        self.doubts: list[str] = []

    def find_meanings(self, slot: str) -> tuple[Any, ...]:
        """Everything a slot may name."""
        shape = self._slots.names[slot]
        if slot == "option":
            return (shape,)
        if shape in ("i", "me", "myself"):
            return (self._vocabulary.speaker,)
        token = self._slots.sentence.tokens[int(shape[1:])]
        said = self._slots.sentence.text[token.start : token.end]
        if token.reference is not None:
            tasks = self._vocabulary.tasks.find(token.reference)
            self._doubt_unless_one(tasks, said, f"There is no task {said} here.")
            return tasks
        if token.names:
            self._doubt_unless_one(token.names, said, "")
            return token.names
        return self._find_similar(said)

    def _doubt_unless_one(self, found: tuple[Any, ...], said: str, none: str) -> None:
        if len(found) != 1:
            meant = " or ".join(one if isinstance(one, str) else one.label for one in found)
            self.doubts.append(f"{said} may mean {meant}." if found else none)

    def _find_similar(self, said: str) -> tuple[str, ...]:
        near = self._vocabulary.similar_names(said)
        everyone = ", ".join(self._vocabulary.members_with(*Role))
        self.doubts.append(
            f"There is no {said}. Did you mean {' or '.join(near)}?"
            if near
            else f"There is no {said} here; the team has {everyone or 'no members yet'}."
        )
        return near

    def complete_slots(
        self, wish: type[w.TextRequest], known: dict[str, tuple[Any, ...]]
    ) -> dict[str, tuple[Any, ...]]:
        """Puts what may be meant where nothing was named."""
        if wish is w.AnswerTextRequest:
            ways = {"unlock": known.get("agent", ()), "reassign": known.get("target", ())}
            known = {
                "option": tuple(f"{way}:{name}" for way, names in ways.items() for name in names),
                **known,
            }
        for slot in _REQUIRED.get(wish, ()):
            if slot not in known:
                self.doubts.insert(0, _MISSING[slot])
                known = known | {slot: tuple(dict.fromkeys(self._find_candidates(slot, known)))}
        return known

    def _find_candidates(self, slot: str, known: dict[str, tuple[Any, ...]]) -> Iterator[Any]:
        tasks = self._vocabulary.tasks
        match slot:
            case "task":
                for agent in known.get("agent", ()):
                    yield from tasks.locking_out(agent)
            case "agent":
                for task in known.get("task", ()):
                    yield from tasks.locked_out_of(task.id)
            case "reviewer":
                yield from self._vocabulary.members_with(Role.LEAD, Role.TESTER)
            case _:
                barred = {name for task in known.get("task", ()) for name in tasks.locked_out_of(task.id)}
                barred.update(known.get("source", ()))
                yield from (name for name in self._vocabulary.members_with(Role.AGENT) if name not in barred)

    def is_user(self, names: tuple[str, ...]) -> bool:
        """True when one of the names is the user's."""
        return any(name == USER or name in self._vocabulary.members_with(Role.USER) for name in names)


def _make_requests(
    wish: type[w.TextRequest], known: dict[str, tuple[Any, ...]], told: dict[str, str]
) -> Iterator[w.TextRequest]:
    """One wish for each way the slots can be filled."""
    fields = [field for field in known if field in wish.__struct_fields__]
    texts = {name: text for name, text in told.items() if name in wish.__struct_fields__}
    if wish is w.AnswerTextRequest:
        texts = {"guidance": told["guidance"] or told["reason"]}
    for values in product(*(known[field] for field in fields)):
        yield wish(**dict(zip(fields, values, strict=True)), **texts)


MAX_TEXT = 2000
_MOST_CHOICES = 8
_MOST_VARIANTS = 12
_LONGEST_WISH = 60
"""How many tokens a wish may have before its reason."""
_TAIL = re.compile(
    rf"(?P<mark>[—:;,.?(] )?(?:(?P<guiding>{'|'.join(map(compile_row, GUIDING))})|(?P<because>{compile_row(BECAUSE)}))?"
)
_JOINED_NAMES = re.compile(r"([@#]\d+ (?:, [@#]\d+ )*(?:, )?(?:and|or) [@#]\d+ )")
_ONE_NAME = re.compile(r"[@#]\d+ ")
_BREAKS = re.compile(r"\r\n?")


class _Rest(Record, kw_only=True):
    """What follows a wish: why, or what the agent is to be told."""

    reason: str = ""
    guidance: str = ""
    doubt: str = ""
    is_after_question: bool = False


_NO_REST = _Rest()


def interpret_text(text: str, vocabulary: Vocabulary) -> TextResult:
    """What somebody wishes. Nothing but a whole sentence that names all it needs becomes a wish."""
    said = _BREAKS.sub("\n", text).strip()
    unreadable = _unreadable_reason(said)
    if unreadable:
        return UnknownRequest(message=unreadable)
    sentence = parse_sentence(said, vocabulary)
    found = _interpret_whole(sentence, vocabulary)
    if not found and any(name in ORDINARY_WORDS for name in vocabulary.names):
        plain = parse_sentence(said, vocabulary, without=ORDINARY_WORDS)
        found = _interpret_whole(plain, vocabulary)
        sentence = plain if found else sentence
    return _make_result(found) if found else _ask_back(sentence, vocabulary)


def _unreadable_reason(text: str) -> str:
    if not text:
        return "The text is empty."
    if len(text) > MAX_TEXT:
        return f"That has {len(text)} characters; at most {MAX_TEXT} are allowed."
    if remove_invisible(text) != text:
        return "That contains invisible characters, so Remand did nothing. Type it again."
    return ""


def _make_result(found: list[Interpretation]) -> TextResult:
    """The wish, when all readings come to one and nothing is doubtful."""
    wishes = _distinct_requests(found)
    doubt = next((meaning.doubt for meaning in found if meaning.doubt), "")
    if len(wishes) == 1 and not doubt:
        return wishes[0]
    return UnclearRequest(message=doubt or SEVERAL_REQUESTS, wishes=wishes[:_MOST_CHOICES])


def _distinct_requests(found: list[Interpretation]) -> tuple[TextRequest, ...]:
    return tuple(dict.fromkeys(wish for meaning in found for wish in meaning.wishes))


def _interpret_whole(sentence: Sentence, vocabulary: Vocabulary) -> list[Interpretation]:
    """What the whole sentence means: without a reason first, then with the shortest wish before one."""
    found = [
        _interpret_match(pattern, match, sentence, vocabulary)
        for pattern, match in _find_matches(sentence.shape())
    ]
    place = 0
    while not found and (place := place + 1) < min(len(sentence.tokens), _LONGEST_WISH):
        start = _TAIL.match(sentence.shape(place, _LONGEST_WISH))
        matches = _find_matches(sentence.shape(0, place)) if start and start.group() else []
        rest = _read_rest(sentence, place, start) if start and matches else _NO_REST
        found = [
            _interpret_match(pattern, match, sentence, vocabulary, rest)
            for pattern, match in matches
            if pattern.wish in QUERY_REQUESTS or not rest.is_after_question
        ]
    firm = [meaning for meaning in found if not meaning.is_loose]
    return firm or [meaning for meaning in found if meaning.wishes]


def _read_rest(sentence: Sentence, place: int, start: re.Match[str]) -> _Rest:
    """What follows a wish that ends before a place, and begins with a mark or a word that leads to it."""
    after = place + start.group().count(" ")
    told = sentence.text_from(after).strip()
    if start["mark"] == "( ":
        told = told.removesuffix(")")
    is_guidance = bool(start["guiding"] and told)
    return _Rest(
        reason="" if is_guidance else told or sentence.text_from(place),
        guidance=told if is_guidance else "",
        doubt=reason_doubt(sentence, after),
        is_after_question=start["mark"] == "? ",
    )


def _find_matches(shape: str) -> list[tuple[SentencePattern, re.Match[str]]]:
    variants = _variants(shape)
    found = ((pattern, pattern.whole.fullmatch(variant)) for variant in variants for pattern in PATTERNS)
    return [(pattern, match) for pattern, match in found if match is not None]


def _variants(shape: str) -> list[str]:
    """The sentence once for each of several names or tasks that it joins with `and` or `or`."""
    variants = [shape]
    for joined in _JOINED_NAMES.findall(shape):
        each = _ONE_NAME.findall(joined)
        if len({one[0] for one in each}) == 1 and len(variants) * len(each) <= _MOST_VARIANTS:
            variants = [text.replace(joined, one, 1) for text in variants for one in each]
    return variants


def _interpret_match(
    pattern: SentencePattern,
    match: re.Match[str],
    sentence: Sentence,
    vocabulary: Vocabulary,
    rest: _Rest = _NO_REST,
) -> Interpretation:
    slots = PatternSlots(
        names={name: said for name, said in match.groupdict().items() if said}, sentence=sentence
    )
    if pattern.wish in QUERY_REQUESTS:
        doubt = rest.doubt if rest.doubt == SEVERAL_REQUESTS else ""
    else:
        doubt = question_doubt(match.group()) or rest.doubt
    return interpret_pattern(
        pattern, slots, vocabulary, reason=rest.reason, guidance=rest.guidance, doubt=doubt
    )


def _ask_back(sentence: Sentence, vocabulary: Vocabulary) -> TextResult:
    """What is said to a sentence that is no wish as a whole."""
    parts = [
        interpret_pattern(pattern, PatternSlots(names=names, sentence=sentence), vocabulary)
        for pattern, names in find_parts(_variants(sentence.shape()))
    ]
    wishes = _distinct_requests(parts)
    left, command = find_command(sentence)
    if not wishes:
        quoted = IS_QUOTED if has_quotes(sentence) else ""
        return UnknownRequest(message=left or quoted or EXAMPLES, command=command)
    if not all(isinstance(wish, QUERY_REQUESTS) for wish in wishes):
        denied = denial_doubt(sentence)
        if denied:
            return UnknownRequest(message=denied)
    message = sentence_doubt(sentence, is_several=len(wishes) > 1)
    return UnclearRequest(message=f"{message} {left}".strip(), command=command, wishes=wishes[:_MOST_CHOICES])

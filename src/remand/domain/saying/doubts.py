"""Why something that sounds like a wish is not obeyed: it is denied, depends on something, is asked or reported."""

from __future__ import annotations

import re

from remand.domain.saying.patterns import PATTERNS, Pattern
from remand.domain.saying.reading import Sentence
from remand.domain.saying.vocabulary import Kind
from remand.domain.saying.words import CONDITIONS, LIMITS, NEGATIONS, SPEECH, TURNS

HOW = (
    "That was not understood, and nothing was done. Say for example: Why is NAME locked out? · NAME, review PR #15 · "
    "Reassign issue #42 from NAME to NAME · Escalate issue #42 to me · What is the state of #42?"
)
SEVERAL = "That is more than one wish. Say them one at a time."
_ASKED = "That sounds like a question, and nothing was done."
_CONDITION = (
    "That depends on something, which is not waited for here. When it is so, say it without condition."
)
_UNCLEAR = "There is more in that sentence than was understood, and nothing was done."
_REVOKED = "The rest of that sentence puts the wish in doubt, and nothing was done."
_DENIED = "That says what should not be done. Nothing was done."
_REPORTED = "Those are somebody's words about a wish, and no wish. Nothing was done."
QUOTED = "Text in quotes is not obeyed. Say it without quotes if you mean it."

_FILLERS = ("please", "oh", "well", "um", "hm", "hey", "ok", "okay", "so")
_TAKEN_BACK = re.compile(
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


def of_asking(shape: str) -> str:
    """What is doubtful about a sentence that ends like a question: it is an order only when it asks politely."""
    words = shape.split()
    return _ASKED if "?" in words and "you" not in words else ""


def of_reason(sentence: Sentence, start: int) -> str:
    """What is doubtful about the rest of a sentence, which would be its reason."""
    if parts([sentence.shape(start)]):
        return SEVERAL
    words = [token.shape for token in sentence.tokens[start:]]
    spoken = [word for word in words if word[0].isalpha() or word in "@#"]
    first = next((place for place, word in enumerate(spoken) if word not in _FILLERS), 0)
    if not spoken:
        return _ASKED if "?" in words else ""
    is_turned = spoken[first] in TURNS or spoken[-1] in NEGATIONS
    is_reported = spoken[first] == "@" and not SPEECH.isdisjoint(spoken[first + 1 : first + 2])
    is_named_only = not any(word[0].isalpha() for word in spoken)
    is_taken_back = bool(LIMITS & set(words)) or _TAKEN_BACK.search(" ".join(words)) is not None
    return _REVOKED if is_turned or is_reported or is_named_only or is_taken_back or "?" in words else ""


def of_not_wishing(sentence: Sentence) -> str:
    """Why a sentence with a wish in it must not be taken for one."""
    words = set(sentence.words)
    if words & SPEECH:
        return _REPORTED
    return _DENIED if words & NEGATIONS else ""


def of_sentence(sentence: Sentence, *, is_several: bool) -> str:
    """What is not clear about a sentence with a wish in it."""
    if "?" in sentence.words:
        return _ASKED
    if set(sentence.words) & CONDITIONS:
        return _CONDITION
    return SEVERAL if is_several else _UNCLEAR


def by_command(sentence: Sentence) -> tuple[str, str]:
    """What is never taken from plain words, and the command that does it; empty when there is nothing of it."""
    for word in sentence.words:
        verb = _SAME.get(word, word)
        if verb in _BY_COMMAND:
            return f"“{word}” is not taken from plain words.", _BY_COMMAND[verb]
    return "", ""


def is_quoted(sentence: Sentence) -> bool:
    """True when something in it stands in quotes."""
    references = (token.reference for token in sentence.tokens)
    return any(told is not None and told.kind is Kind.TITLE for told in references)


def parts(variants: list[str]) -> list[tuple[Pattern, dict[str, str]]]:
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

"""Unclear requirements: questions the task leaves open, what it says quoted, how it was read, and who was asked."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.inquiries import is_denied_asking, is_request_to_machine, wrote_to_somebody
from remand.domain.validation.lexicon import CLASSES
from remand.domain.validation.phrases import clauses, is_indirect_question, is_interpretation
from remand.domain.validation.reading import Reading
from remand.domain.validation.substance import marks, specific
from remand.domain.validation.tokens import SHORT, Text, is_paired, read

_QUESTION = re.compile(
    r"[^\s?？][\s\u202f]?[?？؟](?=\s|$|[\"'”’»」)\]]|[\u3040-\u9fff])|ですか|ますか|でしょうか"
)
_ASKED_SENTENCE = re.compile(r"[^.?!？。！;；\n]{2,300}(?:[?？؟]|か。)")
_ASKED_IN_CHINESE = re.compile("[问問]")
SHOWN_FIGURES = 2
PREFIX = 5
"""How many letters two words share that are one in different forms."""
ASKED_ABOUT = 3
"""How many letters a word has at least that a question may be about."""
SHARED = 2
HALF = 0.5
_SAYS_NOTHING = {"vague", "generic", "asks", "not"}
_QUESTION_WORDS = frozenset(
    [
        "the",
        "how",
        "why",
        "are",
        "was",
        "did",
        "does",
        "for",
        "and",
        "any",
        "per",
        "und",
        "der",
        "die",
        "das",
        "wie",
        "les",
        "des",
        "que",
        "por",
    ]
)


def missing(reading: Reading) -> Issue | None:
    """No question anywhere."""
    return None if has_question(reading) else issue("questions_missing")


def has_question(reading: Reading) -> bool:
    """True when a text asks something, directly or not; a question mark inside an address does not count."""
    texts = (*reading.claim, reading.alternative)
    return any(_QUESTION.search(text.raw) or is_indirect_question(text.raw) for text in texts)


def generic(reading: Reading) -> Issue | None:
    """Questions that could be asked of any task."""
    asked = questions(reading)
    if not asked or any(specific(text.telling) + marks(text) + len(text.acronyms) >= 1 for text in asked):
        return None
    return issue("questions_generic")


def answered(reading: Reading) -> Issue | None:
    """Questions each of which is about what a clause of the task lays down with a figure."""
    said = [read(clause) for clause in clauses(reading.scope.raw)]
    laid_down = [_forms(clause, ASKED_ABOUT) for clause in said if clause.figures or marks(clause) >= 1]
    asked = [_forms(text, ASKED_ABOUT) for text in questions(reading)]
    if not asked or not all(any(_answers(clause, words) for clause in laid_down) for words in asked):
        return None
    return issue("questions_answered")


def _answers(clause: frozenset[str], question: frozenset[str]) -> bool:
    """True when a clause has what a question is about: the only word of it, or at least two and half of them."""
    shared = len(clause & question)
    return bool(question) and shared >= min(len(question), SHARED) and shared >= HALF * len(question)


def questions(reading: Reading) -> list[Text]:
    """What is asked, one text a question."""
    texts = (*reading.claim, reading.alternative)
    return [read(found) for text in texts for found in _ASKED_SENTENCE.findall(text.raw)]


def unquoted(reading: Reading) -> Issue | None:
    """What is called unclear is not to be found in the task."""
    task = frozenset[str]().union(*map(_forms, reading.task))
    is_set_out = any(
        text.quotes or text.count("interprets") or text.count("chooses") for text in reading.claim
    )
    if not task or is_set_out or any(_forms(text) & task for text in (*reading.claim, *reading.shown)):
        return None
    return issue("ambiguity_unquoted")


def _forms(text: Text, least: int = SHORT) -> frozenset[str]:
    """The words of a text without their endings; shorter ones than the least say too little."""
    words = (word for word in text.words if len(word) >= least or is_paired(word))
    return frozenset(
        word[:PREFIX]
        for word in words
        if word not in _QUESTION_WORDS and not _SAYS_NOTHING & set(CLASSES.get(word, ()))
    )


def uninterpreted(reading: Reading) -> Issue | None:
    """No reading of the task is shown: nothing is set beside another, and nothing is counted for any reading."""
    texts = (*reading.claim, *reading.attempts, reading.alternative, *reading.shown)
    is_read = any(text.count("interprets") or is_interpretation(text.raw) for text in texts)
    is_choice = any(text.count("chooses") for text in reading.claim)
    is_counted = len(set(reading.detail.figures)) >= SHOWN_FIGURES
    is_conflict = any("conflict" in item.kind.lower() for item in reading.evidence)
    if is_read or is_choice or is_counted or is_conflict or not reading.is_readable:
        return None
    return issue("interpretations_missing")


def nobody_asked(reading: Reading) -> Issue | None:
    """Nothing tells that someone was asked before rejecting."""
    told = (reading.summary, reading.detail, *reading.shown)
    is_told = any(_tells_of_asking(text, "asked") for text in told) or any(
        _tells_of_asking(attempt, "asked", "contacted") or _is_asked_in_other_words(attempt)
        for attempt in reading.attempts
    )
    return None if is_told or not reading.is_readable else issue("questions_unasked")


def _tells_of_asking(text: Text, *lists: str) -> bool:
    """True when a clause has a word of the lists, and what it tells was not asked of a machine."""
    if not any(map(text.count, lists)) or is_denied_asking(text.raw):
        return False
    return any(_is_asking(clause, lists) for clause in clauses(text.raw))


def _is_asking(clause: str, lists: tuple[str, ...]) -> bool:
    """True when a clause tells of asking; machines are called and answer, too, so that those words need a person."""
    found = [names for word in read(clause).words if set(lists) & set(names := CLASSES.get(word, ()))]
    if any("asked" in names and "answers" not in names for names in found):
        return True
    return bool(found) and not is_request_to_machine(clause)


def _is_asked_in_other_words(attempt: Text) -> bool:
    """True when a word that no list has for itself tells of asking."""
    is_told = _ASKED_IN_CHINESE.search(attempt.raw) is not None or wrote_to_somebody(attempt.raw)
    return is_told and not is_denied_asking(attempt.raw)


RULES = (missing, generic, answered, unquoted, uninterpreted, nobody_asked)

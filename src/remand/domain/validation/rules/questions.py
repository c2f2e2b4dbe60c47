"""Unclear requirements: questions are asked, and the task does not answer them."""

from __future__ import annotations

import re

from remand.domain.validation.assessment import Issue
from remand.domain.validation.catalogue import issue
from remand.domain.validation.reading import Reading

_QUESTION = re.compile(r"[^\s?？][\s\u202f]?[?？؟](?=\s|$|[\"'”’»」)\]]|[\u3040-\u9fff])")


def missing(reading: Reading) -> Issue | None:
    """No question anywhere."""
    return None if has_question(reading) else issue("questions_missing")


def has_question(reading: Reading) -> bool:
    """True when a text asks something, directly or not; a question mark inside an address does not count."""
    texts = (reading.detail, reading.summary, reading.alternative, reading.factor)
    return any(_QUESTION.search(text.raw) or text.count("asks") for text in texts)


RULES = (missing,)

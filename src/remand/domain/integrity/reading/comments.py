"""The comments of a file, told from strings that look like them."""

from __future__ import annotations

import io
import re
import tokenize
from typing import NamedTuple

from remand.domain.integrity.reading.tokens import COMMENT, Token

MAX_LINE = 5_000
_HASH = re.compile(r"(?:^|(?<=\s))#.*")
_PLAIN_STRING = re.compile(r"'(?:[^'\\\n]|\\.)*'|\"(?:[^\"\\\n]|\\.)*\"")


class Comment(NamedTuple):
    """One comment, with its line."""

    line: int
    text: str


def python_comments(text: str) -> tuple[Comment, ...]:
    """The comments of a Python text, by its own tokenizer as far as that comes."""
    found: list[Comment] = []
    try:
        found.extend(
            Comment(token.start[0], token.string)
            for token in tokenize.generate_tokens(io.StringIO(text).readline)
            if token.type == tokenize.COMMENT
        )
    except (tokenize.TokenError, SyntaxError, ValueError):
        last = found[-1].line if found else 0
        found += [comment for comment in hash_comments(text) if comment.line > last]
    return tuple(found)


def hash_comments(text: str) -> tuple[Comment, ...]:
    """The comments of a text whose comments start with `#`, line by line."""
    found = []
    for number, line in enumerate(text.split("\n"), 1):
        if "#" in line:
            match = _HASH.search(_PLAIN_STRING.sub(lambda quoted: "_" * len(quoted[0]), line[:MAX_LINE]))
            if match:
                found.append(Comment(number, line[match.start() :]))
    return tuple(found)


def token_comments(tokens: tuple[Token, ...]) -> tuple[Comment, ...]:
    """The comments among tokens."""
    return tuple(Comment(token.line, token.text) for token in tokens if token.kind == COMMENT)

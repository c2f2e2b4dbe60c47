"""Code as tokens, with its brackets matched: what languages with braces have in common."""

from __future__ import annotations

from collections.abc import Iterator

from remand.domain.integrity.reading.tokens import (
    NAME,
    NUMBER,
    STRING,
    Token,
    joined,
    pairs_of,
    without_comments,
)

_SMALL = frozenset(("0", "1", "2", "''", '""', "``"))


class Code:
    """Tokens without comments, and where each bracket closes."""

    def __init__(self, tokens: tuple[Token, ...]) -> None:
        self.tokens = without_comments(tokens)
        self.pairs = pairs_of(self.tokens)
        self.openings = {closing: opening for opening, closing in self.pairs.items()}

    def text(self, place: int) -> str:
        """The token at a place; empty outside."""
        return self.tokens[place].text if 0 <= place < len(self.tokens) else ""

    def kind(self, place: int) -> str:
        """The kind of the token at a place; empty outside."""
        return self.tokens[place].kind if 0 <= place < len(self.tokens) else ""

    def line(self, place: int) -> int:
        """The line of the token at a place."""
        return self.tokens[place].line if 0 <= place < len(self.tokens) else 0

    def close(self, place: int) -> int:
        """Where a bracket closes; the end when it never does."""
        return self.pairs.get(place, len(self.tokens))

    def shown(self, start: int, stop: int) -> str:
        """The tokens from one place up to another, as text."""
        return joined(self.tokens[start:stop])

    def words(self, start: int, stop: int) -> frozenset[str]:
        """The names, strings and numbers between two places."""
        kinds = (NAME, STRING, NUMBER)
        return frozenset(token.text for token in self.tokens[start:stop] if token.kind in kinds)

    def literals(self, start: int, stop: int) -> frozenset[str]:
        """The strings and numbers between two places, small ones left out."""
        found = {token.text for token in self.tokens[start:stop] if token.kind in (STRING, NUMBER)}
        return frozenset(f"'{text[1:-1]}'" if text[0] in "\"'`" else text for text in found - _SMALL)

    def calls(self, start: int, stop: int) -> frozenset[str]:
        """The names called between two places."""
        return frozenset(
            self.text(place)
            for place in range(start, min(stop, len(self.tokens)))
            if self.kind(place) == NAME and self.text(place + 1) == "("
        )

    def arguments(self, opening: int) -> Iterator[tuple[int, int]]:
        """Where each argument of a call, or item of a list, starts and stops."""
        end = self.close(opening)
        start = place = opening + 1
        while place < end:
            if self.text(place) == ",":
                yield start, place
                start = place + 1
            place = self.close(place) + 1 if self.text(place) in ("(", "[", "{") else place + 1
        if start < end:
            yield start, end

"""Parts of a script that are run only if, never, several times, or with their failures caught."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.integrity.reading.cases import NOTHING, Assertion
from remand.domain.integrity.reading.code import Code

MANY = 1000
FAR = 200
"""Tokens that are looked at for the end of a statement, or the head of a loop."""
_FAILING = frozenset(("throw", "expect", "fail", "assert", "done", "reject", "t"))


class Range(NamedTuple):
    """Some tokens, and how they are run."""

    start: int
    stop: int
    kind: str
    times: int = 1
    line: int = 0


class Ranges:
    """The ranges of a body, asked for by places that only ever go on."""

    def __init__(self, code: Code, start: int, stop: int) -> None:
        self._waiting = sorted(_ranges(code, start, stop), reverse=True)
        self._around: list[Range] = []
        self.catching: list[int] = []
        """The lines of handlers that caught an assertion."""

    def placed(self, found: Assertion, place: int) -> Assertion:
        """An assertion as it is run where it stands."""
        while self._waiting and self._waiting[-1].start <= place:
            self._around.append(self._waiting.pop())
        self._around = [part for part in self._around if part.stop > place]
        for part in self._around:
            found = self._under(found, part)
        return found

    def _under(self, found: Assertion, part: Range) -> Assertion:
        if part.kind == "if":
            return found._replace(is_conditional=True)
        if part.kind == "caught":
            if part.line not in self.catching[-1:]:
                self.catching.append(part.line)
            return found._replace(strength=NOTHING)
        return found._replace(times=min(found.times * part.times, MANY))


def _ranges(code: Code, start: int, stop: int) -> Iterator[Range]:
    blocks: list[int] = []
    returned: set[int] = set()
    for place in range(start, stop):
        word = code.text(place)
        if word == "{":
            blocks.append(code.close(place))
        elif word == "}" and blocks:
            blocks.pop()
        elif word in READERS and code.text(place + 1) in ("(", "{"):
            yield from READERS[word](code, place)
        elif word == "return" and _is_bare(code, place) and blocks and blocks[-1] not in returned:
            returned.add(blocks[-1])
            yield Range(place, blocks[-1], "loop", 0)
            if len(blocks) > 1 and _is_branch(code, code.openings.get(blocks[-1], 0) - 1):
                yield Range(blocks[-1], blocks[-2], "if")
        elif (
            word == "return" and code.text(place + 1) in (";", "}") and blocks and _is_branch(code, place - 1)
        ):
            yield Range(place, blocks[-1], "if")


def _is_bare(code: Code, place: int) -> bool:
    """True for a `return` by itself: what follows in its block is never run."""
    return code.text(place + 1) in (";", "}") and code.text(place - 1) in ("{", ";", "}")


def _is_branch(code: Code, place: int) -> bool:
    """True where the condition of an `if` closes."""
    return code.text(place) == ")" and code.text(code.openings.get(place, 0) - 1) == "if"


def _branch(code: Code, place: int) -> Iterator[Range]:
    closing = code.close(place + 1)
    condition = code.shown(place + 2, min(closing, place + 6))
    block = closing + 1
    if condition in ("false", "0", "!1", "!true"):
        yield Range(block, _end(code, block), "loop", 0)
    elif condition not in ("true", "1"):
        yield Range(block, _end(code, block), "if")


def _end(code: Code, place: int) -> int:
    """Where a block or a single statement ends."""
    if code.text(place) == "{":
        return code.close(place)
    limit = min(place + FAR, len(code.tokens))
    while place < limit and code.text(place) not in (";", "}"):
        place = code.close(place) + 1 if code.text(place) in ("(", "[", "{") else place + 1
    return place


def _try(code: Code, place: int) -> Iterator[Range]:
    end = code.close(place + 1)
    if code.text(end + 1) == "finally" and "return" in code.words(end + 2, code.close(end + 2)):
        yield Range(place + 1, end, "caught", line=code.line(end + 1))
    if code.text(end + 1) != "catch":
        return
    block = code.close(end + 2) + 1 if code.text(end + 2) == "(" else end + 2
    if not code.words(block, code.close(block)) & _FAILING:
        yield Range(place + 1, end, "caught", line=code.line(end + 1))
    yield Range(block, code.close(block), "if")


def _loop(code: Code, place: int) -> Iterator[Range]:
    closing = code.close(place + 1)
    for at in range(place + 2, min(closing, place + FAR)):
        if code.text(at) == "of" and code.text(at + 1) == "[":
            yield Range(closing + 1, _end(code, closing + 1), "loop", sum(1 for _ in code.arguments(at + 1)))
            return


def _each(code: Code, place: int) -> Iterator[Range]:
    """`[1, 2].forEach(…)`"""
    opening = code.openings.get(place - 2)
    if opening is not None and code.text(opening) == "[":
        yield Range(place + 1, code.close(place + 1), "loop", sum(1 for _ in code.arguments(opening)))


def _then(code: Code, place: int) -> Iterator[Range]:
    """`.then(…)` of a promise that nobody waits for: the test is over before it is run."""
    start = place
    while start > 0 and place - start < FAR and code.text(start - 1) not in (";", "{", "}", "=>", "("):
        start = code.openings.get(start - 1, start - 1)
    is_kept = code.text(start - 1) in ("=>", "(") or code.text(start) in (
        "await",
        "return",
        "const",
        "let",
        "yield",
    )
    stop = code.close(place + 1)
    if not is_kept and not is_told(code, place, stop):
        yield Range(place + 1, stop, "loop", 0)


def is_told(code: Code, start: int, stop: int) -> bool:
    """True when a callback says that the test is done."""
    return bool(code.words(start, min(stop + FAR, len(code.tokens))) & {"done", "resolve", "end"})


READERS = {"if": _branch, "try": _try, "for": _loop, "forEach": _each, "then": _then}

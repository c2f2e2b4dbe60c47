"""How the story is told: headings, what happens line by line, and a loud end when a rule is broken."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, NoReturn


class Broken(Exception):  # noqa: N818 - a rule is broken, and the story ends there
    """Something went another way than the rules say."""


class Line(NamedTuple):
    """Something that has happened."""

    kind: str
    """Whose no it is (`agent`, `gate`, `reviewer`), or `asked`, `done`, `cancelled`; empty for all else."""
    title: str
    who: str
    text: str


class Voice(NamedTuple):
    """How things are said: not at all when a program listens."""

    heading: Callable[[str], None]
    say: Callable[[str], None]
    tell: Callable[[Line], None]


def fail(why: str) -> NoReturn:
    """Ends the story: a rule is broken."""
    raise Broken(why)


def expect(answer: dict[str, Any], key: str, value: object) -> None:
    """Holds the story to its rules."""
    if answer.get(key) != value:
        fail(f"expected {key}={value}, got {answer}")

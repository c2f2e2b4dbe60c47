"""Named tuples of ours, which are made faster than those of `typing`, and are the same."""

import copy
import pickle
import typing
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from remand.domain.record import NamedTuple


class Ours(NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def total(self) -> int:
        return self.x + self.y


class Theirs(typing.NamedTuple):
    """A point."""

    x: int
    y: int = 2
    name: str = ""

    @property
    def total(self) -> int:
        return self.x + self.y


USES: list[Callable[[Any], Any]] = [
    lambda kind: kind(1),
    lambda kind: kind(1, name="a").total,
    lambda kind: kind(x=1, y=5) == (1, 5, ""),
    lambda kind: hash(kind(1)),
    lambda kind: list(kind(1)),
    lambda kind: kind(1)._replace(name="b"),
    lambda kind: kind(1)._asdict(),
    lambda kind: kind._make([3, 4, "c"]),
    lambda kind: (kind._fields, kind._field_defaults, kind.__match_args__, kind.__doc__, kind.__name__),
    lambda kind: copy.copy(kind(1)),
    lambda kind: repr(pickle.loads(pickle.dumps(kind(1)))),
    lambda kind: msgspec.json.encode(kind(1)),
    lambda kind: msgspec.json.decode(b"[1]", type=kind),
    lambda kind: repr(kind(1)),
    lambda kind: kind(),
    lambda kind: kind(1, 2, "a", 4),
    lambda kind: kind(1, colour="red"),
    lambda kind: kind(1).colour,
    lambda kind: setattr(kind(1), "x", 2),
]


@pytest.mark.parametrize("use", USES, ids=[str(number) for number in range(len(USES))])
def test_they_are_those_of_typing(use: Callable[[Any], Any]) -> None:
    assert outcome(use, Ours) == outcome(use, Theirs)


def outcome(use: Callable[[Any], Any], kind: Any) -> Any:
    """What comes of it: a value, or the type of the error."""
    try:
        found = use(kind)
    except (AttributeError, TypeError) as error:
        return type(error)
    return (
        found.replace(kind.__name__, "Name")
        if isinstance(found, str)
        else str(found).replace(kind.__name__, "Name")
    )

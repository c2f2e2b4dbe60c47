"""Where symbolic links lead, followed by their texts alone."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

MAX_HOPS = 40
"""As many links as Linux follows in one path."""
MAX_TARGET = 4096
MAX_DEPTH = 200
"""Folders of a tree; nothing is looked up below."""
MAX_PARTS = 1000
"""Parts of paths that are followed for one of them; links to links multiply."""
_ABSOLUTE = re.compile(r"/|~[^/]*/|~$|[A-Za-z]:")
OUTSIDE = "out of the repository"
CONTROL = "into a folder of git or of the ledger"
CIRCLE = "back to itself"
UNREADABLE = "nowhere that can be read"


class Destination(NamedTuple):
    """Where a path leads once every link in it is followed."""

    path: str
    """From the repository's root, empty for the root itself; outside of it as far as it was followed."""
    problem: str = ""
    """Why it is no place for a link to lead to; empty for a file or folder of the repository, there or not."""


def destination(path: str, links: Mapping[str, str]) -> Destination:
    """Follows a path through links, given as the target of each by its path."""
    rest = _parts(path)
    place: list[str] = []
    hops = parts = 0
    while rest:
        part = rest.pop()
        parts += 1
        if parts > MAX_PARTS:
            return Destination(path, UNREADABLE)
        if part == "..":
            if not place:
                return Destination("/".join(("..", *reversed(rest))), OUTSIDE)
            place.pop()
            continue
        place.append(part)
        target = links.get("/".join(place)) if len(place) <= MAX_DEPTH else None
        if target is None:
            continue
        hops += 1
        problem = CIRCLE if hops > MAX_HOPS else _problem(target)
        if problem:
            return Destination("/".join((target.rstrip("/"), *reversed(rest))), problem)
        place.pop()
        rest += _parts(target)
    is_control = any(part.lower() in (".git", "git~1") for part in place) or (
        bool(place) and place[0].lower() == ".got"
    )
    return Destination("/".join(place), CONTROL if is_control else "")


def _parts(path: str) -> list[str]:
    """The parts of a path, last first, whichever way its slashes lean."""
    return [part for part in reversed(path.replace("\\", "/").split("/")) if part not in ("", ".")]


def _problem(target: str) -> str:
    if not target.strip() or len(target) > MAX_TARGET or "\0" in target:
        return UNREADABLE
    return OUTSIDE if _ABSOLUTE.match(target.replace("\\", "/")) else ""

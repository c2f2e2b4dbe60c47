"""Path patterns, matched in time linear in their length, whoever wrote them."""

from __future__ import annotations

import re


class PathPattern:
    """A path pattern: `*` and `?` within a folder, `**` across folders; a plain folder matches everything in it."""

    def __init__(self, text: str) -> None:
        plain = re.sub(r"/+", "/", text.strip().removeprefix("./").strip("/"))
        if not any(mark in plain for mark in "*?"):
            plain = f"{plain}/**" if plain else "**"
            self._also = plain[:-3]
        else:
            self._also = ""
        self._parts = [
            part for part, before in _adjacent_parts(plain.split("/")) if not part == before == "**"
        ]

    def matches(self, path: str) -> bool:
        """True when the path is one the pattern means."""
        if path and path == self._also:
            return True
        names = path.split("/")
        reached = {0}
        for name in names:
            reached = self._step(self._skip_wildcards(reached), name)
            if not reached:
                return False
        return len(self._parts) in self._skip_wildcards(reached)

    def _skip_wildcards(self, reached: set[int]) -> set[int]:
        """The positions reachable without reading on, such as after a `**`."""
        found = set(reached)
        for part in sorted(reached):
            while part < len(self._parts) and self._parts[part] == "**":
                part += 1  # noqa: PLW2901 - the walk along the parts
                found.add(part)
        return found

    def _step(self, reached: set[int], name: str) -> set[int]:
        found = set()
        for part in reached:
            if part == len(self._parts):
                continue
            if self._parts[part] == "**":
                found.add(part)
            elif matches_name(self._parts[part], name):
                found.add(part + 1)
        return found


def _adjacent_parts(parts: list[str]) -> list[tuple[str, str]]:
    return list(zip(parts, ["", *parts], strict=False))


def matches_name(pattern: str, name: str) -> bool:
    """True if a name matches a pattern of `*` and `?`, in one pass that backtracks only to the last star."""
    at = mark = 0
    star = -1
    index = 0
    while index < len(name):
        if at < len(pattern) and pattern[at] == "*":
            star, mark = at, index
            at += 1
        elif at < len(pattern) and pattern[at] in ("?", name[index]):
            at += 1
            index += 1
        elif star >= 0:
            mark += 1
            at, index = star + 1, mark
        else:
            return False
    return all(char == "*" for char in pattern[at:])

"""Takes the paths of one machine out of what is recorded: other machines read it, and have other folders.

A path in the repository becomes relative, one in a known folder gets that folder's symbol (`~`, `$STATE`, `$TMP`, …).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property
from typing import Any

_BEFORE = r"(?:(?<=://)|(?<=\s-[A-Za-z])|(?<![\w.~$/-]))"
"""What may stand before a path: an address, a compiler's option, or nothing that a longer path could end with."""
_BEHIND = r"(?![\w-]|\.\w)"
MAX_DEPTH = 64


class MachinePaths:
    """The folders of a machine, and what stands for each."""

    def __init__(self, folders: Iterable[tuple[str, str]] = ()) -> None:
        """Folders with their symbols; `*` in a folder is any one name. What has no symbol is the repository's."""
        known = {
            folder.rstrip("/"): symbol
            for folder, symbol in folders
            if folder.startswith("/") and folder.rstrip("/")
        }
        self._folders = sorted(known.items(), key=lambda one: len(one[0]), reverse=True)
        self._marks = tuple({_mark(folder) for folder in known})

    def may_be_in(self, line: bytes) -> bool:
        """False for a line of JSON that names none of the folders. Every line is asked about, so it is quick."""
        for mark in self._marks:  # noqa: SIM110 - a generator takes several times as long
            if mark in line:
                return True
        return False

    def without(self, value: Any, depth: int = 0) -> Any:
        """A value of lists, dicts and texts with the folders in every text replaced."""
        if isinstance(value, str):
            return self._pattern.sub(self._replacement, value)
        if depth > MAX_DEPTH:
            return value
        if isinstance(value, dict):
            return {self.without(key): self.without(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.without(item, depth + 1) for item in value]
        return value

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        any_name = r"[^/\s\"'`]+"
        listed = [any_name.join(map(re.escape, folder.split("*"))) for folder, _ in self._folders]
        groups = "|".join(f"(?P<f{number}>{one})" for number, one in enumerate(listed))
        return re.compile(f"{_BEFORE}(?:{groups}){_BEHIND}/?" if listed else r"(?!)")

    def _replacement(self, match: re.Match[str]) -> str:
        symbol = self._folders[int((match.lastgroup or "f0")[1:])][1]
        slash = "/" if match[0].endswith("/") else ""
        if symbol:
            return f"{symbol}{slash}"
        is_inside = bool(slash) and re.match(r"[^\s\"'`]", match.string[match.end() :]) is not None
        return "" if is_inside else f".{slash}"


def _mark(folder: str) -> bytes:
    """What a line of JSON holds wherever it names a folder: how its path begins, which many folders have in common."""
    first = folder.split("/")[1]
    return json.dumps(f"/{first}", ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


NO_PATHS = MachinePaths()

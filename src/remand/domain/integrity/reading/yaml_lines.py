"""As much of YAML as settings need: keys by indentation, scalars, and lists of scalars."""

from __future__ import annotations

import re
from collections.abc import Iterator

_ITEM = re.compile(r"(\s*)((?:- +)*)(?:([\w@./*\"'-][^:#]*?)\s*:(?:\s+|$))?(.*)")
MAX_LINES = 20_000
MAX_LINE = 1_000

Value = str | float | bool | tuple[str, ...]


def yaml_values(text: str) -> Iterator[tuple[str, Value]]:
    """The settings of a YAML text with dotted keys."""
    scopes: list[tuple[int, str]] = []
    lists: dict[str, list[str]] = {}
    for line in text.split("\n")[:MAX_LINES]:
        match = _ITEM.match(line[:MAX_LINE])
        if not line.strip() or line.lstrip().startswith("#") or match is None:
            continue
        indent = len(match[1]) + len(match[2])
        while scopes and scopes[-1][0] >= indent:
            scopes.pop()
        key, value = (match[3] or "").strip("\"'"), _plain(match[4])
        path = ".".join((*(name for _, name in scopes), key) if key else (name for _, name in scopes))
        if key and not value:
            scopes.append((indent, key))
        elif key:
            yield path, _scalar(value)
        elif match[2] and value:
            lists.setdefault(path, []).append(value)
    yield from ((path, tuple(items)) for path, items in lists.items())


def _plain(text: str) -> str:
    return re.sub(r"\s+#.*$", "", text).strip()


def _scalar(text: str) -> Value:
    if text.startswith("[") and text.endswith("]"):
        return tuple(part.strip().strip("\"'") for part in text[1:-1].split(",") if part.strip())
    bare = text.strip("\"'")
    if bare.lower() in ("true", "false"):
        return bare.lower() == "true"
    try:
        return float(bare.removesuffix("%"))
    except ValueError:
        return bare

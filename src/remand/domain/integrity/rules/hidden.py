"""What a reviewer would not see: invisible characters, letters that look alike, files kept out of diffs."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_made_path
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.scene import Scene

_TURNING = re.compile("[\u202a-\u202e\u2066-\u2069\u061c]|[\U000e0000-\U000e007f]")
_VANISHING = re.compile(
    "(?<=[\\w(.=])[\u200b\u2060\u00ad\u180e\u2061-\u2064\u3164\uffa0\u115f\u1160]|[\x00-\x08\x0e-\x1f\x7f]|\ufeff(?!^)"
)
MAX_LINE = 5_000
_WORD = re.compile(r"[^\W\d_]\w*")
_HIDES = re.compile(
    r"(?:^|\s)(-diff|linguist-generated(?:=true)?|linguist-vendored(?:=true)?|binary|-text\b.*-diff|filter=(?!lfs)\S+|merge=ours)(?:\s|$)"
)
_MADE = re.compile(
    r"lock|\.snap|dist|vendor|generated|\.min\.|_pb2|\.pb\.|third_party|\.svg|docs?/|\.(png|jpe?g|gif|ico|pdf|woff2?|ttf|zip|gz|bin|mp4|webp|wasm|ipynb|parquet|db|sqlite)\b|\.sum"
)
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_READABLE = re.compile(
    r"utf-?8(-sig)?|ascii|us-ascii|latin-?1|iso-8859-\d+|cp125\d|windows-125\d|utf_8", re.IGNORECASE
)


def invisible(scene: Scene) -> Iterator[Suspicion]:
    """Characters that turn, hide or break up code, in lines that the base has not."""
    for view in scene.views:
        if (
            view.after is None
            or not view.after.language
            or (view.after.text.isascii() and "\x1b" not in view.after.text)
        ):
            continue
        old = set(view.before.lines) if view.before else set()
        for number, line in enumerate(view.after.lines, 1):
            match = None if line in old else _TURNING.search(line) or _VANISHING.search(line)
            if match:
                yield suspicion("invisible_characters", view.path, number, f"U+{ord(match[0]):04X}", line)
                break


def confusable(scene: Scene) -> Iterator[Suspicion]:
    """Names of code that mix alphabets, or are written in letters made to look like others."""
    for view in scene.views:
        if view.after is None or not view.after.is_code or view.after.text.isascii():
            continue
        old = set(view.before.lines) if view.before else set()
        for number, line in enumerate(view.after.lines, 1):
            if line.isascii() or line in old:
                continue
            name = next((word for word in _names(line) if _is_mixed(word)), "")
            if name:
                yield suspicion(
                    "confusable_name", view.path, number, f"`{short(name)}` mixes alphabets", line
                )
                break


def _names(line: str) -> list[str]:
    """The words of a line outside its strings and comment."""
    code = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|//.*|#.*", " ", line[:MAX_LINE])
    return [word for word in _WORD.findall(code) if not word.isascii()]


def _is_mixed(word: str) -> bool:
    alphabets = {unicodedata.name(char, "").partition(" ")[0] for char in word if char.isalpha()}
    return len(alphabets & {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN"}) > 1 or bool(
        alphabets & {"MATHEMATICAL", "FULLWIDTH"}
    )


def kept_from_diff(scene: Scene) -> Iterator[Suspicion]:
    """Attributes that keep source out of diffs, and encodings that hide what source says."""
    for view in scene.views:
        if view.path.rpartition("/")[2] == ".gitattributes" and view.after is not None:
            old = set(view.before.lines) if view.before else set()
            for number, line in enumerate(view.after.lines, 1):
                if (
                    line not in old
                    and not line.startswith("#")
                    and _HIDES.search(line)
                    and not _MADE.search(line.split()[0])
                ):
                    yield suspicion("hidden_from_diff", view.path, number, f"`{short(line)}`")
        elif view.after is not None and view.after.language == "python":
            yield from _encoded(view.path, view.after)


def _encoded(path: str, source: Source) -> Iterator[Suspicion]:
    if is_made_path(path):
        return
    for number, line in enumerate(source.lines[:2], 1):
        match = _COOKIE.match(line)
        if match and not _READABLE.fullmatch(match[1]):
            yield suspicion("hidden_from_diff", path, number, f"`{match[1]}` is no readable encoding")

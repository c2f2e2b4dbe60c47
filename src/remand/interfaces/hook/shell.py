"""A shell's command line, read as far as that goes without a shell: simple commands, their words, and where they run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

SIMPLE = re.compile(r"&&|\|\||[;|\n]|(?<![>&])&(?![>&])")
"""What stands between simple commands."""
_QUOTED_OR_BETWEEN = re.compile(rf"\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|({SIMPLE.pattern})", re.DOTALL)
_WORD = re.compile(r"(?:\\.|'[^']*'|\"(?:\\.|[^\"\\])*\"|[^\s'\"\\])+", re.DOTALL)
_PIECE = re.compile(r"\\(.)|'([^']*)'|\"((?:\\.|[^\"\\])*)\"|([^'\"\\]+)", re.DOTALL)
_BRACES = re.compile(r"\{([^{}]*,[^{}]*)\}")
_CLASS = re.compile(r"\[[^\]/]+\]")
_RUNS_TEXT = re.compile(r"-[a-zA-Z]*c")
_SHELLS = frozenset(["sh", "bash", "dash", "zsh", "ksh"])
_DEEPEST = 3
_MANY = 64
_KEPT = "\x01"
"""Stands in a pattern for a letter that quotes keep from meaning more than itself."""


class Simple(NamedTuple):
    """One simple command."""

    text: str
    words: tuple[str, ...]
    """As the program is given them, but for what only a shell can fill in."""
    patterns: tuple[str, ...]
    """What words that may stand for several files look like: `*` and `?` alone mean more than themselves."""
    folder: str
    """Where it runs."""


def simple_commands(command: str, folder: str, depth: int = 0) -> Iterator[Simple]:
    """The simple commands of a line, those in the text that another shell is given included.

    A line is cut within quotes, too: what a quote in a comment begins is none.
    """
    at = folder
    for text in SIMPLE.split(command):
        read = [_read(word) for word in _WORD.findall(text)]
        words = tuple(word for word, _ in read)
        patterns = tuple(
            one for _, given in read for one in _spread(given) if "{" in given or is_pattern(one)
        )
        yield Simple(text, words, patterns, at)
        at = _after(words, patterns, at, folder)
    for text in _unquoted_parts(command) if depth < _DEEPEST else ():
        inner = _inner([_read(word)[0] for word in _WORD.findall(text)])
        if inner:
            yield from simple_commands(inner, folder, depth + 1)


def is_pattern(text: str) -> bool:
    """True for what may stand for other names than itself."""
    return "*" in text or "?" in text


def _unquoted_parts(command: str) -> Iterator[str]:
    """A line's simple commands, cut where no quotes are around."""
    begin = 0
    for found in _QUOTED_OR_BETWEEN.finditer(command):
        if found[1]:
            yield command[begin : found.start()]
            begin = found.end()
    yield command[begin:]


def _read(word: str) -> tuple[str, str]:
    """A word without its quotes, and the pattern it is."""
    plain = pattern = ""
    for escaped, single, double, bare in _PIECE.findall(word):
        kept = escaped or single or re.sub(r"\\(.)", r"\1", double)
        plain += kept or bare
        pattern += re.sub(r"[*?\[{]", _KEPT, kept) or bare
    return plain, pattern


def _spread(pattern: str) -> list[str]:
    """A pattern for each way that its braces can be read, with `?` for a choice of letters."""
    found = [pattern]
    while len(found) < _MANY:
        at = next(filter(None, map(_BRACES.search, found)), None)
        if at is None:
            break
        found.remove(at.string)
        found += [at.string[: at.start()] + way + at.string[at.end() :] for way in at[1].split(",")]
    return [_CLASS.sub("?", one) for one in found]


def _inner(words: list[str]) -> str:
    """The text that a simple command has a shell read again; empty when there is none."""
    names = [os.path.basename(word.lstrip("($`{")) for word in words]
    if "eval" in names:
        return " ".join(words[names.index("eval") + 1 :])
    at = next((index for index, name in enumerate(names) if name in _SHELLS), len(names))
    flag = next((i for i in range(at + 1, len(words)) if _RUNS_TEXT.fullmatch(words[i])), len(words))
    return next(iter(words[flag + 1 :]), "")


def _after(words: tuple[str, ...], patterns: tuple[str, ...], folder: str, start: str) -> str:
    """Where the next simple command runs."""
    bare = [word.lstrip("({") for word in words if word.lstrip("({")]
    if sum(word.count(")") - word.count("(") for word in words) > 0:
        return start
    if not bare or bare[0] not in ("cd", "pushd", "popd"):
        return folder
    target = next((word for word in [*patterns, *bare[1:]] if not word.startswith("-")), "")
    if not target or "$" in target or "`" in target:
        return start
    return os.path.normpath(os.path.join(folder, os.path.expanduser(target)))

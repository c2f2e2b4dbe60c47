"""Removes secrets and machine-specific paths from text before it is recorded."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from functools import cached_property
from hashlib import sha256
from typing import Any

from remand.domain.text.words import word_list
from remand.startup import lazy_pattern

MAX_DEPTH = 64
MAX_TEXT = 1 << 16

_KINDS: tuple[tuple[str, str], ...] = (
    (
        "private key",
        r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----(?:(?!-----)[\s\S]){0,20000}(?:-----END [A-Z0-9 ]{0,40}-----)?",
    ),
    ("Remand token", r"\brmd_[0-9]{8}-[0-9]{6}-[0-9a-f]{8}_[A-Za-z0-9_\-]{20,}"),
    ("GitHub token", r"\b(?:gh[pousr]_[A-Za-z0-9]{20,255}|github_pat_[A-Za-z0-9_]{22,255})"),
    ("GitLab token", r"\bgl(?:pat|dt|rt|cbt|ptt|ft|soat)-[A-Za-z0-9_\-]{16,}"),
    ("AWS key", r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}\b"),
    ("Google key", r"\bAIza[A-Za-z0-9_\-]{35}"),
    ("Slack token", r"\bxox[abeoprs]-[A-Za-z0-9-]{10,}|https://hooks\.slack\.com/services/[A-Za-z0-9/]{20,}"),
    ("Stripe key", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("model provider's key", r"\bsk-(?:ant-|proj-|or-)?[A-Za-z0-9_\-]{24,}"),
    ("package registry token", r"\b(?:npm_[A-Za-z0-9]{36}|pypi-[A-Za-z0-9_\-]{32,})"),
    ("JSON web token", r"\beyJ[A-Za-z0-9_\-]{8,}\.eyJ[A-Za-z0-9_\-]{8,}\.[A-Za-z0-9_\-]{8,}"),
)
_BEARER = r"(?i)\b(bearer|basic|authorization:\s{0,3}token)(\s+)[A-Za-z0-9._~+/\-]{20,}=*"
_ADDRESS = r"(?i)\b([a-z][a-z0-9+.\-]{1,20}://[^\s/:@]{0,100}):([^\s/@]{3,200})@"
_NAME = r"passw(?:or)?d|passwort|secret|api[_-]?key|access[_-]?key|auth[_-]?token|private[_-]?key"
_ASSIGNED = rf"(?i)({_NAME})(\"?\s{{0,3}}[:=]\s{{0,3}}[\"']?)([^\s\"',;&]{{6,200}})"
_SECRET_KEY = rf"(?i).*(?:{_NAME})"
_ID = lazy_pattern(r"[A-Z]-[0-9]{8}-")
_HINTS = word_list("""
key token secret passw bearer basic ghp_ gho_ ghu_ ghs_ ghr_ github_pat glpat- gldt- glrt- glcbt- glptt- glft- glsoat-
akia asia abia acca aiza xox hooks.slack sk_ sk- rk_ npm_ pypi- eyj rmd_ ://
""")
_HINT = rf"(?i){'|'.join(map(re.escape, _HINTS))}"


def redact(text: str) -> str:
    """The text with every recognisable secret replaced by its kind."""
    if not _has_hint(text):
        return text
    # Compiled on the first text that may contain a secret and cached by `re`; few calls need them.
    for kind, pattern in _KINDS:
        text = re.sub(pattern, f"[redacted: {kind}]", text)
    text = re.sub(_BEARER, r"\1\2[redacted: credential]", text)
    text = re.sub(_ADDRESS, r"\1:[redacted: password]@", text)
    return re.sub(_ASSIGNED, _redact_value, text)


def _has_hint(text: str) -> bool:
    """True if a text may contain a secret. Some non-ASCII letters match others case-insensitively."""
    if not text.isascii():
        return re.search(_HINT, text) is not None
    lower = text.lower()
    return any(map(lower.__contains__, _HINTS))


def redact_values(value: Any, depth: int = 0, *, is_secret: bool = False) -> Any:
    """A value of lists, dicts and texts with every text redacted; values of secret keys are removed whole."""
    if isinstance(value, str):
        if is_secret and " " not in value and len(value) >= 6 and _looks_secret(value):
            return "[redacted: credential]"
        return redact(_shorten(value))
    if depth > MAX_DEPTH:
        return value
    if isinstance(value, dict):
        return {
            redact(key) if isinstance(key, str) else key: redact_values(
                item, depth + 1, is_secret=isinstance(key, str) and bool(re.fullmatch(_SECRET_KEY, key[-60:]))
            )
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [redact_values(item, depth + 1, is_secret=is_secret) for item in value]
    return value


def _shorten(text: str) -> str:
    """A truncated very long text, with the hash of the whole."""
    if len(text) <= MAX_TEXT:
        return text
    digest = sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{text[:MAX_TEXT]}… [cut: {len(text)} characters, sha256 {digest}]"


def _redact_value(match: re.Match[str]) -> str:
    value = match[3]
    if value.startswith("[redacted") or not _looks_secret(value):
        return match[0]
    return f"{match[1]}{match[2]}[redacted: credential]"


def _looks_secret(value: str) -> bool:
    """False for a plain word, the name of a variable, a path or a placeholder."""
    if _ID.match(value) or value.startswith("[redacted"):
        return False
    if value[0] in "$<{(%*[/." or value.isalpha() or "(" in value or value.replace("_", "").isupper():
        return False
    return any(char.isdigit() for char in value) or any(char in "!#%&+=@^~" for char in value)


_BEFORE = r"(?:(?<=://)|(?<=\s-[A-Za-z])|(?<![\w.~$/-]))"
"""What may precede a path: a URL scheme, a compiler's option, or nothing that could belong to a longer path."""
_AFTER = r"(?![\w-]|\.\w)"
MAX_PATHS_DEPTH = 64


class MachinePaths:
    """The folders of a machine, with a symbol for each."""

    def __init__(self, folders: Iterable[tuple[str, str]] = ()) -> None:
        """Folders with their symbols; `*` in a folder matches any one name. One without a symbol is the repository's."""
        known = {
            folder.rstrip("/"): symbol
            for folder, symbol in folders
            if folder.startswith("/") and folder.rstrip("/")
        }
        self._folders = sorted(known.items(), key=lambda one: len(one[0]), reverse=True)
        self._marks = tuple({_folder_prefix(folder) for folder in known})

    def may_occur_in(self, line: bytes) -> bool:
        """False for a line of JSON that names none of the folders; fast, as every line is checked."""
        find = (
            line.find
        )  # `mark in line` raises and clears an error first, which takes longer than the search
        if find(b"/") < 0:
            return False
        for mark in self._marks:  # noqa: SIM110 - a generator takes several times as long
            if find(mark) >= 0:
                return True
        return False

    def replace_in(self, value: Any, depth: int = 0) -> Any:
        """A value of lists, dicts and texts with the folders replaced in every text."""
        if isinstance(value, str):
            return self._pattern.sub(self._replace_match, value)
        if depth > MAX_PATHS_DEPTH:
            return value
        if isinstance(value, dict):
            return {self.replace_in(key): self.replace_in(item, depth + 1) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self.replace_in(item, depth + 1) for item in value]
        return value

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        any_name = r"[^/\s\"'`]+"
        listed = [any_name.join(map(re.escape, folder.split("*"))) for folder, _ in self._folders]
        groups = "|".join(f"(?P<f{number}>{one})" for number, one in enumerate(listed))
        return re.compile(f"{_BEFORE}(?:{groups}){_AFTER}/?" if listed else r"(?!)")

    def _replace_match(self, match: re.Match[str]) -> str:
        symbol = self._folders[int((match.lastgroup or "f0")[1:])][1]
        slash = "/" if match[0].endswith("/") else ""
        if symbol:
            return f"{symbol}{slash}"
        is_inside = bool(slash) and re.match(r"[^\s\"'`]", match.string[match.end() :]) is not None
        return "" if is_inside else f".{slash}"


def _folder_prefix(folder: str) -> bytes:
    """The common start of paths to a folder in a line of JSON."""
    first = folder.split("/")[1]
    return json.dumps(f"/{first}", ensure_ascii=False)[1:-1].encode("utf-8", "surrogatepass")


NO_PATHS = MachinePaths()

"""Verifiable evidence: the probe that a piece names, and the grade that results."""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from remand.domain.record import Record
from remand.domain.task import Status
from remand.domain.validation.assessment import EvidenceGrade

MAX_PROBES = 50
MAX_TEXT = 1000
MAX_WORDS = 100
_PLACE = re.compile(r"(?<![\w/.+@-])([\w.+@/-]{1,200}+):(\d{1,7})\b")
_EXTENSION = re.compile(r".*[\w+@-]\.[A-Za-z]\w{0,9}")
_COMMIT_ID = re.compile(r"[0-9a-f]{7,64}")


class Grade(StrEnum):
    """How far a piece of evidence was verified."""

    REPORTED = "reported"
    """Stated by the agent, which suffices for validity."""
    CORROBORATED = "corroborated"
    """An independent observation matches it."""
    REPRODUCED = "reproduced"
    """Its probe was rerun with the same result."""
    DISPROVED = "disproved"
    """Its probe was rerun with a different result."""


class EvidenceProbe(Record, kw_only=True):
    """A way to verify one piece of evidence."""

    index: int


class FileProbe(EvidenceProbe, kw_only=True):
    """A file at a commit, optionally with a text in or near a line; or the absence of a file."""

    path: str
    line: int = 0
    text: str = ""
    commit: str = "HEAD"
    is_absent: bool = False
    is_stated: bool = True
    """False if the place was only found in the text: then it can corroborate but never disprove."""


class CountProbe(EvidenceProbe, kw_only=True):
    """The number of files at a commit that match a pattern and contain a text."""

    pattern: str
    containing: str = ""
    expected: int | None = None
    at_least: int | None = None
    commit: str = "HEAD"


class CommitProbe(EvidenceProbe, kw_only=True):
    """A commit that must exist."""

    name: str


class TaskProbe(EvidenceProbe, kw_only=True):
    """A task that must exist, optionally open or in a given status."""

    name: str
    status: str = ""


class CommandProbe(EvidenceProbe, kw_only=True):
    """A command that the sandbox may rerun."""

    command: tuple[str, ...]
    exit_status: int | None = None
    text: str = ""
    commit: str = "HEAD"


class UrlProbe(EvidenceProbe, kw_only=True):
    """A URL on an allowed host, and its response."""

    url: str
    code: int | None = None
    """The status of the response; 0 for no response."""
    text: str = ""


class UnreadableProbe(EvidenceProbe, kw_only=True):
    """An invalid probe and the reason."""

    why: str


def parse_probes(evidence: object) -> list[EvidenceProbe]:
    """The probes in a rejection's evidence, at most one per piece."""
    if not isinstance(evidence, list | tuple):
        return []
    found = (_parse_probe(index, item) for index, item in enumerate(evidence[:MAX_PROBES]))
    return [probe for probe in found if probe is not None]


def is_commit_id(name: str) -> bool:
    """True for a possible full or abbreviated commit id."""
    return _COMMIT_ID.fullmatch(name) is not None


def grade_evidence(probe: EvidenceProbe, grade: Grade, detail: str) -> EvidenceGrade:
    """The result of a probe."""
    return EvidenceGrade(index=probe.index, grade=str(grade), detail=detail[:500])


def _parse_probe(index: int, item: object) -> EvidenceProbe | None:
    if not isinstance(item, Mapping):
        return None
    stated = item.get("probe")
    if stated is None:
        return _find_probe_in_text(index, item)
    if isinstance(stated, str):
        place = _find_place(stated)
        if place is None:
            return UnreadableProbe(index=index, why="write the probe as path:line, or as an object")
        return FileProbe(index=index, path=place[0], line=place[1])
    if not isinstance(stated, Mapping):
        return UnreadableProbe(index=index, why="write the probe as path:line, or as an object")
    if not all(_is_text(stated[key]) for key in _TEXTS if key in stated):
        return UnreadableProbe(
            index=index, why=f"{', '.join(_TEXTS)} are texts of at most {MAX_TEXT} characters"
        )
    odd = [key for key in stated if key not in _KEYS]
    if odd:
        return UnreadableProbe(
            index=index, why=f"a probe has no {str(odd[0])[:40]!r}; the keys are {', '.join(sorted(_KEYS))}"
        )
    for key, read in _READERS.items():
        if key in stated:
            return read(index, stated)
    return UnreadableProbe(index=index, why=f"a probe names one of {', '.join(_READERS)}")


def _find_probe_in_text(index: int, item: Mapping[str, Any]) -> EvidenceProbe | None:
    """A place such as `mailer.py:31` in the text of the evidence."""
    for key in ("source", "data"):
        value = item.get(key)
        place = _find_place(value) if isinstance(value, str) else None
        if place is not None:
            return FileProbe(index=index, path=place[0], line=place[1], is_stated=False)
    return None


def _find_place(text: str) -> tuple[str, int] | None:
    """The first `path:line` in a text."""
    for match in _PLACE.finditer(text[:4000]):
        if _EXTENSION.fullmatch(match[1]) and _is_inside_repository(match[1]):
            return match[1], int(match[2])
    return None


def _parse_file_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    path, line = _text(stated["file"]), stated.get("line", 0)
    if not _is_inside_repository(path) or not _is_count(line):
        return UnreadableProbe(
            index=index, why="`file` is a path within the repository, and `line` a whole number"
        )
    return FileProbe(
        index=index,
        path=path.removeprefix("./"),
        line=line,
        text=_text(stated.get("text")),
        commit=_text(stated.get("commit")) or "HEAD",
        is_absent=stated.get("absent") is True,
    )


def _parse_count_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    pattern, expected, least = _text(stated["count"]), stated.get("is"), stated.get("at_least")
    figures = [figure for figure in (expected, least) if figure is not None]
    is_empty = least == 0 and expected is None
    if not pattern or not figures or not all(map(_is_count, figures)) or is_empty:
        return UnreadableProbe(
            index=index, why="`count` is a pattern such as src/**/*.py, with `is` or `at_least` a number"
        )
    return CountProbe(
        index=index,
        pattern=pattern.removeprefix("./"),
        containing=_text(stated.get("containing")),
        expected=expected,
        at_least=least,
        commit=_text(stated.get("commit")) or "HEAD",
    )


def _parse_task_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    name, status = _text(stated["task"]), _text(stated.get("status")).lower()
    if not name or status not in _STATUSES:
        return UnreadableProbe(
            index=index, why="`task` is an id or alias, and `status` open, closed or a task's own"
        )
    return TaskProbe(index=index, name=name, status=status)


def _parse_commit_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    name = _text(stated["commit"])
    if not _COMMIT_ID.fullmatch(name):
        return UnreadableProbe(index=index, why="a commit is named by its id, of which at least 7 digits")
    return CommitProbe(index=index, name=name)


def _parse_command_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    command, status, text = stated["command"], stated.get("exit"), _text(stated.get("text"))
    if not isinstance(command, list) or not 0 < len(command) <= MAX_WORDS or not all(map(_is_text, command)):
        return UnreadableProbe(index=index, why='`command` is a list of words, as in ["pytest", "-q"]')
    if not _is_count(status) and not text:
        return UnreadableProbe(index=index, why="say what the command shows: `exit` its status, or `text`")
    return CommandProbe(
        index=index,
        command=tuple(command),
        exit_status=status if _is_count(status) else None,
        text=text,
        commit=_text(stated.get("commit")) or "HEAD",
    )


def _parse_url_probe(index: int, stated: Mapping[str, Any]) -> EvidenceProbe:
    url, code, text = _text(stated["url"]), stated.get("code"), _text(stated.get("text"))
    if not _is_count(code) and not text:
        return UnreadableProbe(
            index=index, why="say what the address answers: `code` the status, 0 for no answer, or `text`"
        )
    return UrlProbe(index=index, url=url, code=code if _is_count(code) else None, text=text)


def _is_inside_repository(path: str) -> bool:
    return (
        bool(path)
        and not path.startswith("/")
        and ".." not in path.split("/")
        and not any(char < " " for char in path)
    )


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 31


def _is_text(value: object) -> bool:
    """True for a text that can be looked up in git and files."""
    return isinstance(value, str) and len(value) <= MAX_TEXT and not _NO_TEXT.search(value)


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) else ""


_NO_TEXT = re.compile("[\x00\ud800-\udfff]")
_TEXTS = ("file", "count", "task", "url", "commit", "text", "containing", "status")
_STATUSES = frozenset({"", "open", "closed", *Status})
_KEYS = frozenset({*_TEXTS, "line", "absent", "is", "at_least", "command", "exit", "code"})
_READERS = {
    "file": _parse_file_probe,
    "count": _parse_count_probe,
    "task": _parse_task_probe,
    "command": _parse_command_probe,
    "url": _parse_url_probe,
    "commit": _parse_commit_probe,
}

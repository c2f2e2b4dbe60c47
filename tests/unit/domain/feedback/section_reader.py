"""Reads a section of feedback back, line by line, as somebody would who knows only its format."""

import re
from typing import NamedTuple

_SECTION = re.compile(r"## Review Feedback \(rejection #(\d+)\)")
_MARKED = re.compile(r"(?:\*\*(.+)\*\* )?\((BLOCKING|suggestion)\)")
_ENDED = re.compile(r"(\S.*) \((BLOCKING|suggestion)\)")
_NOTE = re.compile(r"\[(recurring|reverses)\b.*\]")


class Read(NamedTuple):
    place: str
    is_blocking: bool
    lines: list[str]
    notes: list[str]


class Source(NamedTuple):
    heading: str
    findings: list[Read]


def headings(text: str) -> list[str]:
    return [line for line in text.split("\n") if line.startswith("#")]


def read(text: str) -> tuple[int, list[Source]]:
    lines = text.split("\n")
    match = _SECTION.fullmatch(lines[0])
    assert match is not None, lines[0]
    sources: list[Source] = []
    source: Source | None = None
    pending: list[str] = []
    for line in lines[1:]:
        if line.startswith("#"):
            source = Source(line, []) if line.startswith("### From ") else None
            sources += [source] if source else []
            pending = []
        elif source is not None:
            pending = _add(source, line, pending)
    return int(match[1]), sources


def _add(source: Source, line: str, pending: list[str]) -> list[str]:
    if (marked := _MARKED.fullmatch(line)) is not None:
        source.findings.append(Read(marked[1] or "", marked[2] == "BLOCKING", [], []))
    elif source.heading == "### From /reject-task command" and (ended := _ENDED.fullmatch(line)) is not None:
        source.findings.append(Read("", ended[2] == "BLOCKING", [*pending, ended[1]], []))
        return []
    elif _NOTE.fullmatch(line) and source.findings:
        source.findings[-1].notes.append(line)
    elif source.heading == "### From /reject-task command" and not _is_open(source):
        return [*pending, line] if line or pending else []
    elif source.findings:
        source.findings[-1].lines.append(line)
    return pending


def _is_open(source: Source) -> bool:
    """True when the last finding has its mark before it, so that lines belong to it."""
    return bool(source.findings) and bool(source.findings[-1].place or not source.findings[-1].lines)

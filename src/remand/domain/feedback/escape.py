"""Text of others as plain lines that can pass for nothing else: no heading, rule, mark, fence or tag of ours.

Prose keeps its place at the beginning of the line, with a backslash (Markdown's own escape) before whatever could be
structure. Code stays in fences that are closed, each of its lines indented, so that no line of it begins as ours do.
"""

from __future__ import annotations

import re

from remand.domain.feedback.characters import seen
from remand.domain.feedback.code import fenced, pieces

INDENT = "    "

_CONTAINERS = re.compile(r"(?:[ \t]*(?:>|(?:[-+*]|\d{1,9}[.)])(?=[ \t])))*+[ \t]*+")
_RULE = re.compile(r"[ \t]*(?:(?:-[ \t]*)+|(?:=[ \t]*)+|(?:\*[ \t]*){3,}|(?:_[ \t]*){3,})")
_STRUCTURE = re.compile(
    r"#|`{3}|~{3}|=+[ \t]*$|-+[ \t]*$|(?:\*[ \t]*){3,}$|(?:_[ \t]*){3,}$"
    r"|\*\*[^\n]*(?:blocking|suggestion)|\[?(?:recurring|reverses)\b"
    r"|(?:system|human|user|assistant|developer|tool)\s*:",
    re.IGNORECASE,
)
_MARK = re.compile(r"[(（﹙⁽❨](?=\s*(?:blocking|suggestion)\s*[)）﹚⁾❩])", re.IGNORECASE)
_TAG = re.compile(r"\\.|(?<!`)(`++)[^`\n]+\1(?!`)|<(?=[A-Za-z/!?])")


def plain_lines(text: str) -> list[str]:
    """The text as lines for a section of ours; empty lines at its ends are left out."""
    lines: list[str] = []
    for piece in pieces(text):
        if piece.is_code:
            lines += fenced(list(map(seen, piece.lines)), piece.label, INDENT)
        else:
            lines += [escaped(line) for line in piece.lines]
    while lines and not lines[-1]:
        lines.pop()
    while lines and not lines[0]:
        lines.pop(0)
    return lines


def escaped(line: str) -> str:
    """One line of prose that cannot be taken for structure."""
    line = _without_tags(_without_mark(line.rstrip()))
    if _RULE.fullmatch(line):
        at = len(line) - len(line.lstrip())
    else:
        containers = _CONTAINERS.match(line)
        at = containers.end() if containers else 0
        if not _STRUCTURE.match(line, at):
            return line
    return f"{line[:at]}\\{line[at:]}" if line.strip() else ""


def inline(text: str, limit: int) -> str:
    """The text on one line inside a line of ours, cut where it is too long."""
    plain = " ".join(seen(text[: 4 * limit]).replace("`", "'").split())
    plain = plain if len(plain) <= limit else f"{plain[: limit - 1]}…"
    return _without_tags(_without_mark(plain))


def name(text: str, limit: int = 200) -> str:
    """A path or a name inside a line of ours: nothing in it can end the emphasis around it."""
    return inline(text, limit).replace("*", "∗").strip() or "unnamed"


def _without_mark(text: str) -> str:
    """Looks first for what every mark has in small letters; its other letters may be written otherwise."""
    lower = text.lower()
    if "bloc" not in lower and "gge" not in lower:
        return text
    return _MARK.sub(r"\\\g<0>", text)


def _without_tags(text: str) -> str:
    return _TAG.sub(_without_tag, text) if "<" in text else text


def _without_tag(match: re.Match[str]) -> str:
    return f"\\{match[0]}" if match[0] == "<" else match[0]

"""Code in comments: fenced blocks and code spans, told from what only looks like them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from remand.domain.feedback.tags import Regions, Removed, autolink, markup_end, raw_regions, region_end

MAX_SHIELDED = 60_000
_FIRST = 0xF0000
"""From here on characters are private: none is left in a text when its code is put behind them."""

_FENCE = re.compile(r"(?m)^ {0,3}(?:(`{3,})([^`\n]*)|(~{3,})([^\n]*))$")
_LABEL = re.compile(r"[A-Za-z0-9_+#.\-]{1,20}")
_NEXT = re.compile(r"(?m)\\.|`+|<|^(?= {0,3}(?:`{3,}|~{3,}))")
_PRIVATE = re.compile("[\U000f0000-\U000fffff]")


class Piece(NamedTuple):
    """Lines that belong together: prose, or the inside of one fenced block with its label."""

    is_code: bool
    lines: list[str]
    label: str = ""


def pieces(text: str) -> Iterator[Piece]:
    """Prose and fenced blocks in turn; a fence that is never closed lasts to the end."""
    lines = text.split("\n")
    if "```" not in text and "~~~" not in text:
        yield Piece(False, lines)
        return
    at = start = 0
    while at < len(lines):
        fence = _opening(lines[at])
        if fence is None:
            at += 1
            continue
        if at > start:
            yield Piece(False, lines[start:at])
        end = next((n for n in range(at + 1, len(lines)) if _closes(lines[n], fence[0])), len(lines))
        yield Piece(True, lines[at + 1 : end], fence[1])
        at = start = end + 1
    if at > start or not lines:
        yield Piece(False, lines[start:])


def fenced(lines: list[str], label: str, indent: str = "") -> list[str]:
    """The lines as a block that nothing in them can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    mark = "`" * max(3, longest + 1)
    return [mark + label, *(f"{indent}{line}" if line else line for line in lines), mark]


def _opening(line: str) -> tuple[str, str] | None:
    """The mark and the label of a fence that begins with this line."""
    if "```" not in line and "~~~" not in line:
        return None
    match = _FENCE.fullmatch(line)
    if match is None:
        return None
    return match[1] or match[3], _label(match[2] or match[4] or "")


def _label(info: str) -> str:
    """The first word after a fence when it can be the name of a language; forges show none of the rest."""
    word = _LABEL.fullmatch((info.split() or [""])[0])
    return word[0] if word else ""


def _closes(line: str, mark: str) -> bool:
    inner = line.strip()
    indent = len(line) - len(line.lstrip())
    return indent <= 3 and len(inner) >= len(mark) and not inner.strip(mark[0])


class Shield:
    """Takes code out of a text's way while the rest is cleaned, and puts it back."""

    def __init__(self, removed: Removed, *, is_rendered: bool = True) -> None:
        self._removed = removed
        self.is_rendered = is_rendered
        """A forge has rendered the text, and knows no code inside raw HTML."""
        self.codes: list[str] = []

    def over(self, text: str) -> str:
        """The text with one private character in the place of each block and span of code."""
        if "`" not in text and "~~~" not in text:
            return text
        return "".join(_Shielding(text, self).done())

    def put(self, code: str) -> str:
        """Keeps a code and gives the character that stands for it."""
        if len(self.codes) >= MAX_SHIELDED:
            return ""
        self.codes.append(code)
        return chr(_FIRST + len(self.codes) - 1)

    def block(self, lines: list[str], info: str) -> str:
        """Keeps a fenced block, closed, with nothing but a language after its fence."""
        label = _label(info)
        self._removed["code labels"] += info.strip() != label
        return self.put("\n".join(fenced(lines, label)))

    def off(self, text: str) -> str:
        """The text with its code back."""
        if not self.codes:
            return text
        return _PRIVATE.sub(lambda match: self.codes[ord(match[0]) - _FIRST], text)


class _Shielding:
    """One pass over a text: whatever begins first, markup or code, is what counts."""

    def __init__(self, text: str, shield: Shield) -> None:
        self._text = text
        self._shield = shield
        self._regions: Regions = raw_regions(text) if shield.is_rendered and "<" in text else []
        self._has_table = "|" in text and any(map(_rules_a_table, text.split("\n")))

    def done(self) -> Iterator[str]:
        """The pieces of the text, in order."""
        text, at = self._text, 0
        while (match := _NEXT.search(text, at)) is not None:
            found = match.start()
            yield text[at:found]
            end, shown = self._at(found, match[0])
            yield shown
            at = end
        yield text[at:]

    def _at(self, at: int, mark: str) -> tuple[int, str]:
        """What stands at a mark: where it ends, and what is shown for it."""
        raw_end = region_end(self._regions, at) if self._regions else -1
        if raw_end >= 0:
            return raw_end, self._text[at:raw_end]
        if not mark or (mark[0] == "`" and _FENCE.match(self._text, at)):
            return self._fence(at)
        if mark[0] == "`":
            return self._span(at, mark)
        if mark == "<":
            link = autolink(self._text, at)
            end = link.end() if link else max(markup_end(self._text, at, is_raw=False), at + 1)
            return end, self._text[at:end]
        return at + len(mark), mark

    def _fence(self, at: int) -> tuple[int, str]:
        text = self._text
        match = _FENCE.match(text, at)
        if match is None:
            return at + 1, text[at : at + 1]
        mark = match[1] or match[3]
        lines, end = [], match.end() + 1
        while end <= len(text):
            stop = text.find("\n", end)
            stop = len(text) if stop < 0 else stop
            line = text[end:stop]
            end = stop + 1
            if _closes(line, mark):
                break
            lines.append(line)
        shown = self._shield.block(lines, match[2] or match[4] or "")
        return min(end - 1, len(text)), shown

    def _span(self, at: int, mark: str) -> tuple[int, str]:
        """A code span on one line; forges cut cells of tables before they look for code."""
        start, line_end = at + len(mark), self._text.find("\n", at)
        close = re.compile(rf"(?<!`){mark}(?!`)").search(
            self._text, start, line_end if line_end >= 0 else len(self._text)
        )
        if close is None or (self._has_table and "|" in self._text[start : close.start()]):
            return start, mark
        return close.end(), self._shield.put(self._text[at : close.end()])


def _rules_a_table(line: str) -> bool:
    """True for a line that divides a table's head from its body, or begins as one."""
    marks = line.lstrip(" \t>")
    first, bar, _ = marks.partition("|")
    begins = first.strip(" \t")
    is_rule = set(marks) <= set(" \t:|-") and "-" in marks
    return bool(bar) and (is_rule or ("-" in begins and set(begins) <= set(":-")))

"""HTML and code in comments, recognised as forges do: tags are removed, code is kept."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property
from operator import itemgetter

from remand.domain.record import NamedTuple
from remand.domain.text.words import word_set

RemovalCounts = defaultdict[str, int]
Regions = list[tuple[int, int]]

_BLOCKS = (
    "address|article|aside|base|basefont|blockquote|body|caption|center|col|colgroup|dd|details|dialog|dir|div|dl|dt|"
    "fieldset|figcaption|figure|footer|form|frame|frameset|h[1-6]|head|header|hr|html|iframe|legend|li|link|main|menu|"
    "menuitem|nav|noframes|ol|optgroup|option|p|param|search|section|source|summary|table|tbody|td|tfoot|th|thead|"
    "title|tr|track|ul"
)
_ATTRIBUTE = r"\s++[A-Za-z_:][\w.:\-]*+(?:\s*+=\s*+(?:[^\s\"'=<>`]++|'[^']*+'|\"[^\"]*+\"))?"
_INNER = rf"(?:/[A-Za-z][A-Za-z0-9\-]*+\s*+|[A-Za-z][A-Za-z0-9\-]*+(?:{_ATTRIBUTE})*+\s*+/?)>"
_TAG = re.compile(f"<{_INNER}")
_LOOSE_TAG = re.compile(r"</?[A-Za-z][^\s/>]*+(?:[^>=]|=\s*+(?:\"[^\"]*+\"|'[^']*+')|=)*+>")
_AUTOLINK = re.compile(
    r"<((?:[A-Za-z][A-Za-z0-9+.\-]{1,31}:[^\s<>]*)|(?:[\w.+\-]{1,64}@[A-Za-z0-9.\-]{1,253}))>"
)
_RAW = re.compile(
    rf"(?im)^[ \t>*+\-\d.)]*+<(?:/?(?:{_BLOCKS})(?=[\s/>]|$)|(?P<verbatim>pre|script|style|textarea)(?=[\s>]|$)"
    rf"|(?P<own>!--|!\[CDATA\[|\?|![a-z])|{_INNER}[ \t]*$)"
)
_VERBATIM_END = re.compile(r"(?i)</(?:pre|script|style|textarea)>")
_OWN_ENDS = {"!--": "-->", "![cdata[": "]]>", "?": "?>"}
_HIDDEN_ELEMENTS = word_set(
    "audio canvas datalist iframe noembed noframes noscript object script style template title video"
)
_HIDING_ATTRIBUTES = re.compile(
    r"(?i)[\s\"';/]hidden\b|display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*0(?![.\d]*[1-9])"
)
_VOID_ELEMENTS = word_set("area base br col embed hr img input link meta param source track wbr")
_BREAKING_ELEMENTS = word_set("blockquote br dd details div dt h1 h2 h3 h4 h5 h6 hr li p pre summary tr")
_TYPES = word_set(
    "any bool boolean byte bytes char double dyn float int integer list long map never none null number object "
    "self short str string symbol unit unknown usize isize void i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64"
)
_PARAMETERS = word_set("E K R T U V")
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def raw_regions(text: str) -> Regions:
    """The ranges of raw HTML, each up to the line of its end tag or a blank line."""
    found: Regions = []
    at = 0
    while (match := _RAW.search(text, at)) is not None:
        if match["verbatim"]:
            end = _VERBATIM_END.search(text, match.end())
            end_at = _find_or_end(text, "\n", end.end()) if end else len(text)
        elif match["own"]:
            mark = _OWN_ENDS.get(match["own"].lower(), ">")
            mark_at = text.find(mark, match.end() - (2 if mark == "-->" else 0))
            end_at = _find_or_end(text, "\n", mark_at) if mark_at >= 0 else len(text)
        else:
            end_at = _find_or_end(text, "\n\n", match.end())
        at = max(end_at, match.end())
        found.append((match.start(), at))
    return found


def _find_or_end(text: str, mark: str, at: int) -> int:
    found = text.find(mark, at)
    return len(text) if found < 0 else found


def region_end(regions: Regions, at: int) -> int:
    """The end of the region that contains a position; -1 if there is none."""
    place = bisect_right(regions, at, key=itemgetter(0)) - 1
    return regions[place][1] if place >= 0 and at < regions[place][1] else -1


def markup_end(text: str, at: int, *, is_raw: bool) -> int:
    """The end of the comment or tag that begins at the angle bracket; -1 if it is text."""
    if text.startswith("<!--", at):
        end = text.find("-->", at + 2)
        return len(text) if end < 0 else end + 3
    follows = text[at + 1 : at + 3]
    if follows[:1] in ("!", "?") or (is_raw and follows[:1] == "/" and not follows[1:].isalpha()):
        if not is_raw and not (follows[0] == "?" or follows[1:].isalpha() or follows[1:] == "["):
            return -1
        end = text.find(">", at, len(text) if is_raw else _find_or_end(text, "\n\n", at))
        return end + 1 if end >= 0 else len(text) if is_raw else -1
    if not follows.lstrip("/")[:1].isalpha() or not follows.isascii():
        return -1
    if is_raw:
        loose = _LOOSE_TAG.match(text, at)
        return loose.end() if loose else len(text)
    tag = _TAG.match(text, at)
    return tag.end() if tag and "\n\n" not in tag[0] else -1


def remove_tags(text: str, removed: RemovalCounts, *, keeps_names: bool = False) -> str:
    """The text without HTML; with `keeps_names`, tags are replaced by their names and hidden elements by their text."""
    return _TagStripper(text, removed, keeps_names).stripped_text() if "<" in text else text


class _TagStripper:
    """One pass over a text from angle bracket to angle bracket."""

    def __init__(self, text: str, removed: RemovalCounts, keeps_names: bool) -> None:
        self._text = text
        self._removed = removed
        self._keeps_names = keeps_names
        self._regions = [] if keeps_names else raw_regions(text)
        self._kept: list[str] = []

    @cached_property
    def _lower(self) -> str:
        return self._text.translate(_LOWER)

    def stripped_text(self) -> str:
        text, at = self._text, 0
        while (found := text.find("<", at)) >= 0:
            self._kept.append(text[at:found])
            at = self._strip_at(found)
        return "".join([*self._kept, text[at:]])

    def _strip_at(self, at: int) -> int:
        """Keeps or removes what begins at an angle bracket; returns its end."""
        if (link := _AUTOLINK.match(self._text, at)) is not None:
            self._kept.append(link[1])
            return link.end()
        end = markup_end(self._text, at, is_raw=region_end(self._regions, at) >= 0)
        if end < 0:
            self._kept.append("<")
            return at + 1
        if not self._text.startswith(("<!", "<?"), at):
            return self._strip_tag(at, end)
        self._removed["HTML comments"] += 1
        return end

    def _strip_tag(self, at: int, end: int) -> int:
        tag = self._text[at:end]
        written = tag.strip("</>").partition(">")[0].split(maxsplit=1)[0].partition("/")[0]
        name = written.lower()
        # A type parameter, as in `List<String>`, is text: a word that can mean nothing else.
        is_bare = tag[1:-1].lower() == name and (name in _TYPES or tag[1:-1] in _PARAMETERS)
        before = self._text[at - 1 : at]
        if is_bare and (before.isalnum() or before == "<") and region_end(self._regions, at) < 0:
            self._kept.append(tag)
            return end
        if self._keeps_names:
            self._removed["HTML attributes"] += len(tag.strip("</> \n")) > len(name)
            self._kept.append(f"<{'/' if tag[1] == '/' else ''}{written}>")
            return end
        if (
            tag[1] != "/"
            and name not in _VOID_ELEMENTS
            and (name in _HIDDEN_ELEMENTS or _HIDING_ATTRIBUTES.search(tag))
        ):
            self._removed["hidden elements"] += 1
            found = self._lower.find(f"</{name}", end)
            close = self._text.find(">", found) if found >= 0 else -1
            return close + 1 if close >= 0 else len(self._text)
        self._removed["HTML tags"] += 1
        if name in _BREAKING_ELEMENTS:
            self._kept.append("\n")
        return end


MAX_MASKED = 60_000
_FIRST = 0xF0000
"""The first private-use character: sanitised text contains none, so each can represent a piece of code."""

_FENCE = re.compile(r"(?m)^ {0,3}(?:(`{3,})([^`\n]*)|(~{3,})([^\n]*))$")
_LABEL = re.compile(r"[A-Za-z0-9_+#.\-]{1,20}")
_NEXT_MARK = re.compile(r"(?m)\\.|`+|<|^(?= {0,3}(?:`{3,}|~{3,}))")
_PRIVATE = re.compile("[\U000f0000-\U000fffff]")


class Piece(NamedTuple):
    """Lines of prose, or of one fenced block with its label."""

    is_code: bool
    lines: list[str]
    label: str = ""


def split_code(text: str) -> Iterator[Piece]:
    """Prose and fenced blocks in turn; an unclosed fence extends to the end."""
    lines = text.split("\n")
    if "```" not in text and "~~~" not in text:
        yield Piece(False, lines)
        return
    at = start = 0
    while at < len(lines):
        line = lines[at]
        match = _FENCE.fullmatch(line) if "```" in line or "~~~" in line else None
        if match is None:
            at += 1
            continue
        if at > start:
            yield Piece(False, lines[start:at])
        mark = match[1] or match[3]
        end = next((n for n in range(at + 1, len(lines)) if _closes(lines[n], mark)), len(lines))
        yield Piece(True, lines[at + 1 : end], _language_label(match[2] or match[4] or ""))
        at = start = end + 1
    if at > start or not lines:
        yield Piece(False, lines[start:])


def fence_lines(lines: list[str], label: str, indent: str = "") -> list[str]:
    """The lines as a fenced block that nothing in them can end."""
    longest = max((len(run) for line in lines for run in re.findall("`+", line)), default=0)
    mark = "`" * max(3, longest + 1)
    return [mark + label, *(f"{indent}{line}" if line else line for line in lines), mark]


def _language_label(info: str) -> str:
    """The first word after a fence if it can be a language's name; forges show nothing else."""
    word = _LABEL.fullmatch((info.split() or [""])[0])
    return word[0] if word else ""


def _closes(line: str, mark: str) -> bool:
    inner = line.strip()
    indent = len(line) - len(line.lstrip())
    return indent <= 3 and len(inner) >= len(mark) and not inner.strip(mark[0])


class CodeMask:
    """Replaces code in a text by placeholders while the rest is sanitised, and restores it."""

    def __init__(self, removed: RemovalCounts, *, is_rendered: bool = True) -> None:
        self._removed = removed
        self.is_rendered = is_rendered
        """Whether a forge has rendered the text, which recognises no code inside raw HTML."""
        self.codes: list[str] = []

    def mask(self, text: str) -> str:
        """The text with a placeholder for each block and span of code."""
        if "`" not in text and "~~~" not in text:
            return text
        return "".join(_CodeMasker(text, self).masked_parts())

    def keep(self, code: str) -> str:
        """The placeholder for a piece of code; empty if there are too many."""
        if len(self.codes) >= MAX_MASKED:
            return ""
        self.codes.append(code)
        return chr(_FIRST + len(self.codes) - 1)

    def keep_block(self, lines: list[str], info: str) -> str:
        """The placeholder for a fenced block, closed and with only a language after its fence."""
        label = _language_label(info)
        self._removed["code labels"] += info.strip() != label
        return self.keep("\n".join(fence_lines(lines, label)))

    def unmask(self, text: str) -> str:
        if not self.codes:
            return text
        return _PRIVATE.sub(lambda match: self.codes[ord(match[0]) - _FIRST], text)


class _CodeMasker:
    """One pass over a text in which whatever begins first counts, markup or code."""

    def __init__(self, text: str, mask: CodeMask) -> None:
        self._text = text
        self._mask = mask
        self._regions: Regions = raw_regions(text) if mask.is_rendered and "<" in text else []
        self._has_table = "|" in text and any(map(_is_table_rule, text.split("\n")))

    def masked_parts(self) -> Iterator[str]:
        text, at = self._text, 0
        while (match := _NEXT_MARK.search(text, at)) is not None:
            found = match.start()
            yield text[at:found]
            end, shown = self._mask_at(found, match[0])
            yield shown
            at = end
        yield text[at:]

    def _mask_at(self, at: int, mark: str) -> tuple[int, str]:
        """The end and the replacement of what begins at a mark."""
        raw_end = region_end(self._regions, at) if self._regions else -1
        if raw_end >= 0:
            return raw_end, self._text[at:raw_end]
        if not mark or (mark[0] == "`" and _FENCE.match(self._text, at)):
            return self._mask_fence(at)
        if mark[0] == "`":
            return self._mask_span(at, mark)
        if mark == "<":
            link = _AUTOLINK.match(self._text, at)
            end = link.end() if link else max(markup_end(self._text, at, is_raw=False), at + 1)
            return end, self._text[at:end]
        return at + len(mark), mark

    def _mask_fence(self, at: int) -> tuple[int, str]:
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
        shown = self._mask.keep_block(lines, match[2] or match[4] or "")
        return min(end - 1, len(text)), shown

    def _mask_span(self, at: int, mark: str) -> tuple[int, str]:
        """A code span on one line; forges split tables into cells before they look for code."""
        start, line_end = at + len(mark), self._text.find("\n", at)
        close = re.compile(rf"(?<!`){mark}(?!`)").search(
            self._text, start, line_end if line_end >= 0 else len(self._text)
        )
        if close is None or (self._has_table and "|" in self._text[start : close.start()]):
            return start, mark
        return close.end(), self._mask.keep(self._text[at : close.end()])


def _is_table_rule(line: str) -> bool:
    """True for the line between a table's head and body, or its start."""
    marks = line.lstrip(" \t>")
    first, bar, _ = marks.partition("|")
    begins = first.strip(" \t")
    is_rule = set(marks) <= set(" \t:|-") and "-" in marks
    return bool(bar) and (is_rule or ("-" in begins and set(begins) <= set(":-")))

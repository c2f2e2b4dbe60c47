"""HTML in comments, found as forges find it, and taken out: comments, tags with their attributes, hidden elements.

Inside a paragraph a tag is what CommonMark calls one; other angle brackets are text. A line that begins with a tag
starts raw HTML, which forges hand to a browser's parser: there a tag lasts until it is closed, and backticks are no code.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from functools import cached_property
from operator import itemgetter

from remand.domain.feedback.vocabulary import words

Removed = defaultdict[str, int]
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
_VEILED = words(
    "audio canvas datalist iframe noembed noframes noscript object script style template title video"
)
_VEIL = re.compile(
    r"(?i)[\s\"';/]hidden\b|display\s*:\s*none|visibility\s*:\s*(?:hidden|collapse)|(?:font-size|opacity)\s*:\s*0(?![.\d]*[1-9])"
)
_VOID = words("area base br col embed hr img input link meta param source track wbr")
_BREAKING = words("blockquote br dd details div dt h1 h2 h3 h4 h5 h6 hr li p pre summary tr")
_TYPES = words(
    "any bool boolean byte bytes char double dyn float int integer list long map never none null number object "
    "self short str string symbol unit unknown usize isize void i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64"
)
_PARAMETERS = words("E K R T U V")
_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}


def raw_regions(text: str) -> Regions:
    """Where raw HTML begins and ends: at a blank line, or where its own end is told."""
    found: Regions = []
    at = 0
    while (match := _RAW.search(text, at)) is not None:
        at = max(_end_of_raw(text, match), match.end())
        found.append((match.start(), at))
    return found


def _end_of_raw(text: str, match: re.Match[str]) -> int:
    if match["verbatim"]:
        end = _VERBATIM_END.search(text, match.end())
        return _line_end(text, end.end()) if end else len(text)
    if match["own"]:
        mark = _OWN_ENDS.get(match["own"].lower(), ">")
        end_at = text.find(mark, match.end() - (2 if mark == "-->" else 0))
        return _line_end(text, end_at) if end_at >= 0 else len(text)
    return _paragraph_end(text, match.end())


def _line_end(text: str, at: int) -> int:
    end = text.find("\n", at)
    return len(text) if end < 0 else end


def _paragraph_end(text: str, at: int) -> int:
    end = text.find("\n\n", at)
    return len(text) if end < 0 else end


def region_end(regions: Regions, at: int) -> int:
    """Where the region ends that a place lies in; -1 when it lies in none."""
    place = bisect_right(regions, at, key=itemgetter(0)) - 1
    return regions[place][1] if place >= 0 and at < regions[place][1] else -1


def autolink(text: str, at: int) -> re.Match[str] | None:
    """An address in angle brackets that begins there."""
    return _AUTOLINK.match(text, at)


def markup_end(text: str, at: int, *, is_raw: bool) -> int:
    """Where the comment or tag ends that begins with the angle bracket there; -1 when it is text."""
    if text.startswith("<!--", at):
        end = text.find("-->", at + 2)
        return len(text) if end < 0 else end + 3
    follows = text[at + 1 : at + 3]
    if follows[:1] in ("!", "?") or (is_raw and follows[:1] == "/" and not follows[1:].isalpha()):
        if not is_raw and not (follows[0] == "?" or follows[1:].isalpha() or follows[1:] == "["):
            return -1
        end = text.find(">", at, len(text) if is_raw else _paragraph_end(text, at))
        return end + 1 if end >= 0 else len(text) if is_raw else -1
    if not follows.lstrip("/")[:1].isalpha() or not follows.isascii():
        return -1
    if is_raw:
        loose = _LOOSE_TAG.match(text, at)
        return loose.end() if loose else len(text)
    tag = _TAG.match(text, at)
    return tag.end() if tag and "\n\n" not in tag[0] else -1


def without_tags(text: str, removed: Removed, *, keeps_names: bool = False) -> str:
    """The text without HTML; with `keeps_names` a tag stays as its bare name, and a hidden element as its text."""
    if "<" not in text:
        return text
    stripping = _Stripping(text, removed, keeps_names)
    return stripping.done()


class _Stripping:
    """One pass over a text, from one angle bracket to the next."""

    def __init__(self, text: str, removed: Removed, keeps_names: bool) -> None:
        self._text = text
        self._removed = removed
        self._keeps_names = keeps_names
        self._regions = [] if keeps_names else raw_regions(text)
        self._kept: list[str] = []

    @cached_property
    def _lower(self) -> str:
        return self._text.translate(_LOWER)

    def done(self) -> str:
        """The text without what was found."""
        text, at = self._text, 0
        while (found := text.find("<", at)) >= 0:
            self._kept.append(text[at:found])
            at = self._after(found)
        return "".join([*self._kept, text[at:]])

    def _after(self, at: int) -> int:
        """Deals with what begins at an angle bracket; where to go on."""
        if (link := autolink(self._text, at)) is not None:
            self._kept.append(link[1])
            return link.end()
        end = markup_end(self._text, at, is_raw=region_end(self._regions, at) >= 0)
        if end < 0:
            self._kept.append("<")
            return at + 1
        if not self._text.startswith(("<!", "<?"), at):
            return self._after_tag(at, end)
        self._removed["HTML comments"] += 1
        return end

    def _after_tag(self, at: int, end: int) -> int:
        tag = self._text[at:end]
        written = tag.strip("</>").partition(">")[0].split(maxsplit=1)[0].partition("/")[0]
        name = written.lower()
        if self._is_type(at, tag, name):
            self._kept.append(tag)
            return end
        if self._keeps_names:
            self._removed["HTML attributes"] += len(tag.strip("</> \n")) > len(name)
            self._kept.append(f"<{'/' if tag[1] == '/' else ''}{written}>")
            return end
        if tag[1] != "/" and name not in _VOID and (name in _VEILED or _VEIL.search(tag)):
            self._removed["hidden elements"] += 1
            return self._closing(name, end)
        self._removed["HTML tags"] += 1
        if name in _BREAKING:
            self._kept.append("\n")
        return end

    def _is_type(self, at: int, tag: str, name: str) -> bool:
        """True for the parameter of a type, as in `List<String>`: a word that can say nothing else."""
        is_bare = tag[1:-1].lower() == name and (name in _TYPES or tag[1:-1] in _PARAMETERS)
        before = self._text[at - 1 : at]
        return is_bare and (before.isalnum() or before == "<") and region_end(self._regions, at) < 0

    def _closing(self, name: str, at: int) -> int:
        found = self._lower.find(f"</{name}", at)
        end = self._text.find(">", found) if found >= 0 else -1
        return end + 1 if end >= 0 else len(self._text)

"""Sanitises text of reviewers and forges: no hidden characters, markup, foreign links or secrets."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from unicodedata import category, combining, normalize

from msgspec.structs import replace

from remand.domain.events.reviews import Finding
from remand.domain.feedback.markup import CodeMask, RemovalCounts, fence_lines, remove_tags, split_code
from remand.domain.record import NamedTuple
from remand.domain.text.redaction import redact
from remand.domain.text.words import shorten

MAX_MARKS = 8
"""The most combining marks on one letter; no script needs more, and sorting very many takes too long."""

_TERMINAL_COMMAND = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]"
)
_BREAKS = re.compile("\r\n?|[\x85\u2028\u2029]")
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co"})
_FILLERS = frozenset(
    {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2065, 0x2800, 0x3164, 0xFFA0, *range(0xFFF0, 0xFFF9)}
)
_SELECTORS = frozenset({*range(0x180B, 0x1810), *range(0xFE00, 0xFE10)})
_TAGS = range(0xE0000, 0xE1000)


class _VisibleCharacters(dict[int, int | None]):
    """The replacement of each character: itself, a plain space, or nothing."""

    def __missing__(self, code: int) -> int | None:
        kind = category(chr(code))
        shown: int | None = code
        if code in _FILLERS or code in _SELECTORS or code in _TAGS or kind in _HIDDEN_CATEGORIES:
            shown = None
        elif kind == "Zs":
            shown = 0x20
        self[code] = shown
        return shown


_VISIBLE = _VisibleCharacters({0x09: 0x09, 0x0A: 0x0A})


def visible_characters(text: str) -> str:
    """The visible characters of a text in NFC, with normalised line breaks."""
    if text.isascii() and "\x1b" not in text and "\r" not in text:
        is_plain = text.replace("\n", "").replace("\t", "").isprintable()
        return text if is_plain else text.translate(_VISIBLE)
    text = _BREAKS.sub("\n", _TERMINAL_COMMAND.sub("", text)).translate(_VISIBLE)
    if text.isascii():
        return text
    kept: list[str] = []
    marks = 0
    for char in text:
        marks = marks + 1 if char > "\u02ff" and (combining(char) or category(char) == "Me") else 0
        if marks <= MAX_MARKS:
            kept.append(char)
    return normalize("NFC", "".join(kept))


LINK_REMOVED = "[link removed]"
MAX_DOMAIN = 100

_ADDRESS = re.compile(
    r"(?i)(?<![a-z0-9+.\-])(?:[a-z][a-z0-9+.\-]{1,15}://|www\.|javascript:(?=\S)|vbscript:(?=\S)|data:(?=[a-z0-9/+.\-]*[;,]))"
    r"[^\s<>\"'`]+"
)
_HINTS = ("://", "www.", "pt:", "data:")
"""Every lower-case URL contains one of these: an `s` or `i` of a script may be another letter."""
_PARTS = re.compile(
    r"(?i)(?:(?P<scheme>[a-z][a-z0-9+.\-]*):)?(?://)?(?P<place>[^/?#\\]*)(?P<rest>.*)", re.DOTALL
)
_LOCAL = re.compile(r"(?i)(?:localhost|127(?:\.\d{1,3}){3}|\[::1\])(?::\d{1,5})?")
_SERVER_NAME = re.compile(r"[A-Za-z0-9._\-]+(?::\d{1,5})?|\[[0-9A-Fa-f:.]+\](?::\d{1,5})?")
_WWW = re.compile(r"(?i)(?:www\.)+")
_TRAILING = ".,;:!?)]}*_"
_PATH_TRICKS = re.compile(r"(?i)\.\.|%2e|%5c|\\")


def reduce_links(text: str, repository: str) -> tuple[str, int]:
    """The text with foreign URLs reduced to their domains, and their number."""
    lower = text.lower()
    if not any(map(lower.__contains__, _HINTS)):
        return text, 0
    removed = 0

    def replace_address(match: re.Match[str]) -> str:
        nonlocal removed
        address = match[0].rstrip(_TRAILING)
        if "(" in address:
            address = match[0].rstrip(_TRAILING.replace(")", ""))
        shown = reduce_address(address, repository)
        removed += shown != address
        return shown + match[0][len(address) :]

    return _ADDRESS.sub(replace_address, text), removed


def reduce_address(address: str, repository: str) -> str:
    """A URL of the project's repository or this machine unchanged; of any other only the domain."""
    own = repository.rstrip("/").removesuffix(".git").lower()
    is_inside = bool(own) and address.lower().startswith(own) and not _PATH_TRICKS.search(address)
    if is_inside and address[len(own) : len(own) + 1] in ("", "/", "#", "?") and address.isascii():
        return address
    parts = _PARTS.fullmatch(address)
    scheme = (parts["scheme"] or "").lower() if parts else ""
    if parts is None or scheme in ("javascript", "vbscript", "data", "file"):
        return f"{scheme or 'address'} {LINK_REMOVED}"
    if scheme in ("http", "https", "ws", "wss") and _LOCAL.fullmatch(parts["place"]):
        return address
    return f"{_domain(parts['place'])} {LINK_REMOVED}".lstrip()


def _domain(place: str) -> str:
    """A server's name in ASCII, which no other name can imitate."""
    name = _WWW.sub("", place.rpartition("@")[2][: MAX_DOMAIN + 1])
    if not name.isascii():
        try:
            name = name.encode("idna").decode("ascii")
        except UnicodeError:
            return "unreadable name"
    return name[:MAX_DOMAIN] if _SERVER_NAME.fullmatch(name) else ""


IMAGE_REMOVED = "[image removed]"

_TITLE = r"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\))"
_TITLED_TARGET = re.compile(rf"\(\s*+(<[^<>\n]*+>|\S{{0,2000}}+)\s++{_TITLE}\s*+\)", re.DOTALL)
_ENDLESS_TARGET = re.compile(r"\(\s*+(\S{2000})(?:[^\n]|\n(?!\n))*+")
_PLAIN_TARGET = re.compile(r"\(\s*+(<[^<>\n]*+>|[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*+)\s*+\)")
_REFERENCE = re.compile(r"\[[^\[\]\n]{0,999}\]")
_NEXT_BRACKET = re.compile(r"\\.|!?\[|\]|\n\n", re.DOTALL)
_DEFINITION = re.compile(
    r"^[ \t>]*+\[(?!\^)(?:[^\[\]\\\n]|\\.|\n(?!\n)){1,999}+\]:[ \t]*+\n?[ \t>]*+(?:<[^<>\n]*+>|[^\s<]\S*+)"
    rf"(?:[ \t]*+\n?[ \t>]*+{_TITLE})?[ \t]*+$",
    re.MULTILINE | re.DOTALL,
)
_BARE_DEFINITION = re.compile(
    r"^[ \t>]*+\[(?!\^)[^\[\]\n]{1,999}\]:[ \t]*+\n?[ \t>]*+(?:<[^<>\n]*+>|[^\s<]\S*+)[ \t]*+$", re.MULTILINE
)
_FOOTNOTE = re.compile(
    r"^[ \t>]*+\[\^[^\[\]\n]{1,999}\]:[^\n]*+(?:\n(?!\n)[^\n]*+)*+(?:\n++(?: {2,}|\t)[^\n]*+)*+", re.MULTILINE
)


def remove_hidden_brackets(text: str, repository: str, removed: RemovalCounts) -> str:
    """The text without what brackets hide: definitions, link targets and images."""
    if "[" not in text:
        return text
    if "]:" in text:
        for pattern in (_FOOTNOTE, _DEFINITION, _BARE_DEFINITION):
            text, count = pattern.subn("", text)
            removed["link definitions"] += count
    return "".join(_visible_parts(text, repository, removed)) if "](" in text or "![" in text else text


def _visible_parts(text: str, repository: str, removed: RemovalCounts) -> list[str]:
    kept: list[str] = []
    opened: list[tuple[int, bool]] = []
    at = 0
    while (match := _NEXT_BRACKET.search(text, at)) is not None:
        kept.append(text[at : match.start()])
        at = match.end()
        if match[0].endswith("["):
            opened.append((len(kept), match[0][0] == "!"))
        elif match[0] == "\n\n":
            opened.clear()
        elif match[0] == "]" and opened:
            place, is_image = opened.pop()
            target = _match_target(text, at) if text[at : at + 1] == "(" else None
            if is_image:
                removed["image texts"] += 1
                kept[place:] = [IMAGE_REMOVED]
                end = target or _REFERENCE.match(text, at)
                at = end.end() if end else at
                continue
            if target is not None:
                removed["link targets"] += 1
                kept[place] = ""
                kept.extend(_target_text(target[1].strip("<>"), repository))
                at = target.end()
                continue
        kept.append(match[0])
    kept.append(text[at:])
    return kept


def _match_target(text: str, at: int) -> re.Match[str] | None:
    """The target of a link with its title; an unterminated one includes the rest of its paragraph."""
    return _TITLED_TARGET.match(text, at) or _PLAIN_TARGET.match(text, at) or _ENDLESS_TARGET.match(text, at)


def _target_text(target: str, repository: str) -> Iterator[str]:
    """A link's target as displayed: the project's own, or a domain."""
    is_address = "://" in target or target.startswith(("//", "www."))
    if is_address and (shown := reduce_address(target, repository)):
        yield f" ({shown})"


MAX_READ = 1 << 15
"""How many characters of a comment are read; the rest is dropped."""
MAX_COMMENT = 8 * 1024
MAX_REJECTION = 64 * 1024
LEFT_OUT = "[omitted: this review exceeds the limit]"

_ROUNDS = 8
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_AMPERSANDS = re.compile(r"&(?:(?:amp|AMP|#0{0,5}38|#[xX]0{0,4}26);)+")
_CODELESS = str.maketrans({"`": "'", "\n": " ", "\t": " "})
_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>")
_TOKEN_ENDS = re.compile(r"\|>|T\]|S>>")
_SECRETS = "[redacted:"
_GAPS = re.compile(r"[ \t]+$|\n(?=\n\n)", re.MULTILINE)
_CUT = "\n[cut: {} more characters]"


class SanitisedText(NamedTuple):
    """A sanitised text."""

    text: str
    removed: dict[str, int]
    """How much was removed, by kind."""


def sanitise(
    text: str,
    repository: str = "",
    *,
    is_rendered: bool = True,
    keeps_links: bool = False,
    limit: int = MAX_COMMENT,
) -> SanitisedText:
    """The visible part of a text without secrets and foreign URLs, never longer than the limit.

    `repository` is the URL of the project's own repository. Text that no forge renders (`is_rendered` false) is treated
    as typed: its tags remain, without attributes. Sanitising is idempotent.
    """
    removed: RemovalCounts = defaultdict(int)
    total = len(text)
    text = text[:MAX_READ]
    cut = total - len(text)
    for _ in range(_ROUNDS):
        before = text
        text = _clean_once(text, repository, removed, is_rendered=is_rendered, keeps_links=keeps_links)
        text = _remove_gaps(text).strip("\n").rstrip()
        text, dropped = _shorten_text(text, limit, cut)
        removed["characters cut"] += dropped
        cut = 0
        if text == before:
            break
    return SanitisedText(text, {kind: count for kind, count in removed.items() if count})


def _clean_once(
    text: str, repository: str, removed: RemovalCounts, *, is_rendered: bool, keeps_links: bool
) -> str:
    clean = visible_characters(text)
    removed["invisible characters"] += max(len(text.replace("\r\n", "\n")) - len(clean), 0)
    clean, tokens = _TOKENS.subn("", clean) if _TOKEN_ENDS.search(clean) else (clean, 0)
    removed["model tokens"] += tokens
    mask = CodeMask(removed, is_rendered=is_rendered)
    clean = _clean_until_stable(mask.mask(_remove_gaps(clean)), repository, removed, is_rendered=is_rendered)
    if not keeps_links:
        clean, count = reduce_links(clean, repository)
        for place, code in enumerate(mask.codes):
            mask.codes[place], more = reduce_links(code, repository)
            count += more
        removed["links"] += count
    whole = mask.unmask(clean)
    safe = redact(whole)
    removed["secrets"] += max(safe.count(_SECRETS) - whole.count(_SECRETS), 0)
    return safe


def _clean_until_stable(text: str, repository: str, removed: RemovalCounts, *, is_rendered: bool) -> str:
    """The text when nothing more can be decoded or removed; markup that never settles is dropped."""
    for _ in range(_ROUNDS):
        before = text
        text = remove_tags(_decode_entities(text, removed), removed, keeps_names=not is_rendered)
        text = remove_hidden_brackets(text, repository, removed)
        if text == before:
            return text
    return _ENTITY.sub("", text).replace("<", "")


def _decode_entities(text: str, removed: RemovalCounts) -> str:
    """The text with its entities decoded; none can become the start of code or of a line."""
    if "&" not in text:
        return text
    from html import unescape

    def character(match: re.Match[str]) -> str:
        char = visible_characters(unescape(match[0]).translate(_CODELESS))
        removed["invisible characters"] += not char
        return char

    return _ENTITY.sub(character, _AMPERSANDS.sub("&", text))


def _remove_gaps(text: str) -> str:
    """The text without trailing blanks and repeated empty lines."""
    if "\n\n\n" in text or " \n" in text or "\t\n" in text or text[-1:] in " \t":
        return _GAPS.sub("", text)
    return text


def _shorten_text(text: str, limit: int, unseen: int) -> tuple[str, int]:
    """The text within a number of bytes, with a note of how many characters were cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not unseen:
        return text, 0
    size = max(limit - len(_CUT) - 12, 0)
    kept = data[:size].decode("utf-8", "ignore") if len(data) > size else text
    last = list(split_code(kept))[-1:]
    if last and last[0].is_code:
        mark = fence_lines(last[0].lines, "")[0]
        kept = f"{kept[: size - len(mark) - 1]}\n{mark}"
    dropped = max(len(text) - len(kept) + unseen, 1)
    return f"{kept}{_CUT.format(dropped)}", dropped


def sanitise_findings(
    findings: Sequence[Finding], repository: str = "", *, is_rendered: bool = True
) -> tuple[Finding, ...]:
    """All findings sanitised; what exceeds the size of one rejection is cut, suggestions first."""
    left = MAX_REJECTION
    texts: dict[int, str] = {}
    for place in sorted(range(len(findings)), key=lambda place: not findings[place].is_blocking):
        text = sanitise(findings[place].text, repository, is_rendered=is_rendered).text
        size = len(text.encode("utf-8", "replace"))
        texts[place] = text if size <= left else LEFT_OUT
        left -= min(size, left)
    return tuple(
        replace(finding, text=texts[place], path=one_line(finding.path))
        for place, finding in enumerate(findings)
    )


def one_line(text: str, limit: int = 300) -> str:
    """The visible characters of a path or a name, on one line."""
    return shorten(" ".join(visible_characters(text[: 4 * limit]).split()), limit)

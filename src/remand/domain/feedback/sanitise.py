"""The one function by which text of reviewers and forges is made safe to hand on."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from remand.domain.feedback.brackets import without_brackets
from remand.domain.feedback.characters import seen
from remand.domain.feedback.code import Shield, fenced, pieces
from remand.domain.feedback.links import without_links
from remand.domain.feedback.tags import Removed, without_tags
from remand.domain.record import Record
from remand.domain.review_events import Finding
from remand.domain.secrets import redacted

MAX_READ = 1 << 15
"""How many characters of a comment are looked at; what is beyond is cut unseen."""
MAX_COMMENT = 8 * 1024
MAX_REJECTION = 64 * 1024
LEFT_OUT = "[left out: this review is longer than is handed on]"

_ROUNDS = 8
_ENTITY = re.compile(r"&(?:#[xX][0-9a-fA-F]{1,6}|#[0-9]{1,7}|[A-Za-z][A-Za-z0-9]{1,31});")
_AMPERSANDS = re.compile(r"&(?:(?:amp|AMP|#0{0,5}38|#[xX]0{0,4}26);)+")
_CODELESS = str.maketrans({"`": "'", "\n": " ", "\t": " "})
_TOKENS = re.compile(r"<\|[^|<>\n]{1,40}\|>|\[/?INST\]|<</?SYS>>")
_TOKEN_ENDS = re.compile(r"\|>|T\]|S>>")
_SECRETS = "[redacted:"
_GAPS = re.compile(r"[ \t]+$|\n(?=\n\n)", re.MULTILINE)
_CUT = "\n[cut: {} more characters]"


class Removal(Record, kw_only=True):
    """How much of one kind was taken out of a text."""

    kind: str
    count: int


class Sanitised(Record, kw_only=True):
    """A text that may be handed on, and what was taken out of it."""

    text: str
    removed: tuple[Removal, ...] = ()

    @property
    def note(self) -> str:
        """What was taken out, for a human to read; empty when nothing was."""
        return ", ".join(f"{removal.kind}: {removal.count}" for removal in self.removed)


def sanitise(
    text: str,
    repository: str = "",
    *,
    is_rendered: bool = True,
    keeps_links: bool = False,
    limit: int = MAX_COMMENT,
) -> Sanitised:
    """What people see of a text, without secrets and foreign addresses, and never longer than the limit.

    `repository` is the address of the project's own repository. Text that no forge has rendered (`is_rendered`
    false) was seen as it was typed: its tags stay, without attributes. Sanitising twice is sanitising once.
    """
    removed: Removed = defaultdict(int)
    total = len(text)
    text = text[:MAX_READ]
    cut = total - len(text)
    for _ in range(_ROUNDS):
        before = text
        text = _once(text, repository, removed, is_rendered=is_rendered, keeps_links=keeps_links)
        text = _without_gaps(text).strip("\n").rstrip()
        text, dropped = _shortened(text, limit, cut)
        removed["characters cut"] += dropped
        cut = 0
        if text == before:
            break
    return Sanitised(text=text, removed=_listed(removed.items()))


def _once(text: str, repository: str, removed: Removed, *, is_rendered: bool, keeps_links: bool) -> str:
    clean = seen(text)
    removed["invisible characters"] += max(len(text.replace("\r\n", "\n")) - len(clean), 0)
    clean, tokens = _TOKENS.subn("", clean) if _TOKEN_ENDS.search(clean) else (clean, 0)
    removed["model tokens"] += tokens
    shield = Shield(removed, is_rendered=is_rendered)
    clean = _settled(shield.over(_without_gaps(clean)), repository, removed, is_rendered=is_rendered)
    if not keeps_links:
        clean, count = without_links(clean, repository)
        for place, code in enumerate(shield.codes):
            shield.codes[place], more = without_links(code, repository)
            count += more
        removed["links"] += count
    whole = shield.off(clean)
    safe = redacted(whole)
    removed["secrets"] += max(safe.count(_SECRETS) - whole.count(_SECRETS), 0)
    return safe


def _settled(text: str, repository: str, removed: Removed, *, is_rendered: bool) -> str:
    """The text once nothing can be decoded or taken out of it any more; what never settles goes."""
    for _ in range(_ROUNDS):
        before = text
        text = without_tags(_decoded(text, removed), removed, keeps_names=not is_rendered)
        text = without_brackets(text, repository, removed)
        if text == before:
            return text
    return _ENTITY.sub("", text).replace("<", "")


def _decoded(text: str, removed: Removed) -> str:
    """The text with its entities as what they stand for; none can stand for the beginning of code, or of a line."""
    if "&" not in text:
        return text
    from html import unescape

    def character(match: re.Match[str]) -> str:
        char = seen(unescape(match[0]).translate(_CODELESS))
        removed["invisible characters"] += not char
        return char

    return _ENTITY.sub(character, _AMPERSANDS.sub("&", text))


def _without_gaps(text: str) -> str:
    """The text without blanks at the ends of lines, and with one empty line at a time."""
    if "\n\n\n" in text or " \n" in text or "\t\n" in text or text[-1:] in " \t":
        return _GAPS.sub("", text)
    return text


def _shortened(text: str, limit: int, unseen: int) -> tuple[str, int]:
    """The text within so many bytes, with what was cut said, and how much that is."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit and not unseen:
        return text, 0
    room = max(limit - len(_CUT) - 12, 0)
    kept = data[:room].decode("utf-8", "ignore") if len(data) > room else text
    kept = _closed(kept, room)
    dropped = len(text) - len(kept) + unseen
    return f"{kept}{_CUT.format(max(dropped, 1))}", max(dropped, 1)


def _closed(text: str, room: int) -> str:
    """A text that was cut inside a fenced block, with the block closed."""
    last = list(pieces(text))[-1:]
    if not last or not last[0].is_code:
        return text
    mark = fenced(last[0].lines, "")[0]
    return f"{text[: room - len(mark) - 1]}\n{mark}"


class SanitisedReview(Record, kw_only=True):
    """The findings of one review, fit to be handed on."""

    findings: tuple[Finding, ...]
    removed: tuple[Removal, ...] = ()


def sanitise_findings(
    findings: Sequence[Finding], repository: str = "", *, is_rendered: bool = True
) -> SanitisedReview:
    """Every finding sanitised; what is beyond the size of one rejection is cut, suggestions before what blocks."""
    room, removed = MAX_REJECTION, Counter[str]()
    texts: dict[int, str] = {}
    for place in sorted(range(len(findings)), key=lambda place: not findings[place].is_blocking):
        clean = sanitise(findings[place].text, repository, is_rendered=is_rendered)
        removed.update({removal.kind: removal.count for removal in clean.removed})
        size = len(clean.text.encode("utf-8", "replace"))
        removed["findings left out"] += size > room
        texts[place] = clean.text if size <= room else LEFT_OUT
        room -= min(size, room)
    return SanitisedReview(
        findings=tuple(_with(finding, texts[place]) for place, finding in enumerate(findings)),
        removed=_listed(removed.items()),
    )


def _with(finding: Finding, text: str) -> Finding:
    return replace(finding, text=text, path=one_line(finding.path))


def _listed(counts: Iterable[tuple[str, int]]) -> tuple[Removal, ...]:
    return tuple(Removal(kind=kind, count=count) for kind, count in sorted(counts) if count)


def one_line(text: str, limit: int = 300) -> str:
    """A path or a name on one line, with what can be seen of it."""
    plain = " ".join(seen(text[: 4 * limit]).split())
    return plain if len(plain) <= limit else f"{plain[: limit - 1]}…"

"""What square brackets hide: the text of images, the titles and targets of links, definitions nobody sees."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.feedback.links import shown_address
from remand.domain.feedback.tags import Removed

IMAGE = "[image removed]"

_TITLE = r"(?:\"(?:[^\"\\]|\\.)*+\"|'(?:[^'\\]|\\.)*+'|\((?:[^()\\]|\\.)*+\))"
_TITLED = re.compile(rf"\(\s*+(<[^<>\n]*+>|\S{{0,2000}}+)\s++{_TITLE}\s*+\)", re.DOTALL)
_ENDLESS = re.compile(r"\(\s*+(\S{2000})(?:[^\n]|\n(?!\n))*+")
_PLAIN = re.compile(r"\(\s*+(<[^<>\n]*+>|[^\s()]*+(?:\([^\s()]*+\)[^\s()]*+)*+)\s*+\)")
_REFERENCE = re.compile(r"\[[^\[\]\n]{0,999}\]")
_NEXT = re.compile(r"\\.|!?\[|\]|\n\n", re.DOTALL)
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


def without_brackets(text: str, repository: str, removed: Removed) -> str:
    """The text without what its brackets hide; what they show stays."""
    if "[" not in text:
        return text
    if "]:" in text:
        for pattern in (_FOOTNOTE, _DEFINITION, _BARE_DEFINITION):
            text, count = pattern.subn("", text)
            removed["link definitions"] += count
    return "".join(_shown(text, repository, removed)) if "](" in text or "![" in text else text


def _shown(text: str, repository: str, removed: Removed) -> list[str]:
    kept: list[str] = []
    opened: list[tuple[int, bool]] = []
    at = 0
    while (match := _NEXT.search(text, at)) is not None:
        kept.append(text[at : match.start()])
        at = match.end()
        if match[0].endswith("["):
            opened.append((len(kept), match[0][0] == "!"))
        elif match[0] == "\n\n":
            opened.clear()
        elif match[0] == "]" and opened:
            place, is_image = opened.pop()
            at = _closed(text, at, (kept, place, is_image), repository, removed)
            continue
        kept.append(match[0])
    kept.append(text[at:])
    return kept


def _closed(
    text: str, at: int, bracket: tuple[list[str], int, bool], repository: str, removed: Removed
) -> int:
    """Deals with a pair of brackets that ends there; where to go on."""
    kept, place, is_image = bracket
    target = _target(text, at) if text[at : at + 1] == "(" else None
    if is_image:
        removed["image texts"] += 1
        del kept[place:]
        kept.append(IMAGE)
        reference = _REFERENCE.match(text, at)
        return target.end() if target else reference.end() if reference else at
    if target is None:
        kept.append("]")
        return at
    removed["link targets"] += 1
    kept[place] = ""
    kept.extend(_told(target[1].strip("<>"), repository))
    return target.end()


def _target(text: str, at: int) -> re.Match[str] | None:
    """Where a link leads that begins there, with its title; an address without end takes its paragraph with it."""
    return _TITLED.match(text, at) or _PLAIN.match(text, at) or _ENDLESS.match(text, at)


def _told(target: str, repository: str) -> Iterator[str]:
    """A link's target where it may be told: the project's own, or a domain."""
    is_address = "://" in target or target.startswith(("//", "www."))
    if is_address and (shown := shown_address(target, repository)):
        yield f" ({shown})"

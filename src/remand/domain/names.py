"""Which spellings of a name mean the same person, and which only look as if they did."""

from __future__ import annotations

import re
from functools import lru_cache
from unicodedata import category, combining, normalize

_INSTANCE = re.compile(r"(.*[^\s/])\s*/\s*\d+", re.DOTALL)
_INVISIBLE = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
"""Letters and marks that print nothing."""
_DIACRITICS = frozenset((1, *range(200, 241)))
"""The combining classes of marks above, below and across a letter. A kana's voicing mark (8) makes another letter."""
_EDGES = "@._-+:/[] "
"""What may stand around a name without making it look like another."""
_MANY = 10_000
_MAX_NAME = 256
"""No name is as long as this: what is longer is not looked at."""


def tidy(name: str) -> str:
    """A name as it is recorded when it is new: in its plain width, without spaces around it or double ones."""
    return " ".join(normalize("NFKC", name[:_MAX_NAME]).split()) if len(name) <= _MAX_NAME else name


@lru_cache(maxsize=_MANY)
def fold(name: str) -> str:
    """What all spellings of one name have in common: they differ in case, width and spaces alone."""
    folded = name
    for _ in range(4):  # a fold may make something that folds once more
        again = tidy(tidy(folded).casefold())
        if again == folded:
            break
        folded = again
    return folded


def member_of(name: str) -> str:
    """The member whose instance a name stands for: Fenster for `Fenster/2`; empty when it stands for none."""
    found = _INSTANCE.fullmatch(tidy(name))
    return found[1] if found else ""


def parents(name: str) -> tuple[str, ...]:
    """Whose instance a name may stand for, the likeliest first; none for a name without a slash."""
    plain = tidy(name)
    return tuple(filter(None, (member_of(plain), *heads(plain)))) if "/" in plain else ()


def heads(name: str, mark: str = "/") -> tuple[str, ...]:
    """What stands before each slash of a name, or before another mark, the longest first: one may be a member."""
    parts = tidy(name).split(mark)
    return tuple(head for end in range(len(parts) - 1, 0, -1) if (head := mark.join(parts[:end]).strip()))


def name_key(name: str) -> str:
    """The key that all spellings of a name share."""
    return f".{fold(name)}"


def keys(name: str) -> tuple[str, ...]:
    """Every key by which a name is found: that of its spelling first, then those of its looks."""
    return (name_key(name), *looks(name))


def looks(name: str) -> tuple[str, ...]:
    """Keys of how a name looks: as it is written, in small letters, in capitals, and by each letter's own case.

    Two names look alike when they have a key in common. The skeletons of UTS #39 tell cases apart, and some letters look
    like others in one case alone: the Greek Η is H, but its small form is no h.
    """
    plain = tidy(name).strip(_EDGES) or tidy(name)
    spellings = (plain, plain.lower(), plain.upper(), "".join(map(_in_small_letters, plain)))
    return tuple(
        dict.fromkeys(f"{kind}{skeleton(text)}" for kind, text in zip("=<>~", spellings, strict=True))
    )


def skeleton(text: str) -> str:
    """What a text looks like, by Unicode's confusables: without marks, spaces and what prints nothing."""
    return _bare(_bare(text).translate(_prototypes())).replace("w", "vv").replace("W", "VV")


def _in_small_letters(letter: str) -> str:
    """A letter of another script as the small Latin letter that it looks like."""
    if letter.isascii():
        return letter.lower()
    look = skeleton(letter)
    return "i" if look == "l" and letter.isupper() else look.lower()


def _bare(text: str) -> str:
    return "".join(
        part
        for part in normalize("NFD", text)
        if combining(part) not in _DIACRITICS
        and category(part) not in _INVISIBLE
        and not _prints_nothing(part)
    )


def _prints_nothing(mark: str) -> bool:
    is_selector = "\ufe00" <= mark <= "\ufe0f" or "\u180b" <= mark <= "\u180f" or mark >= "\U000e0100"
    return is_selector or mark in _BLANK or category(mark) == "Me"


@lru_cache(maxsize=1)
def _prototypes() -> dict[int, str]:
    """Unicode's table. It is loaded for a name that is not known yet, and only then."""
    from remand.domain.confusables import PROTOTYPES

    return PROTOTYPES

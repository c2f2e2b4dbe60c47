"""Takes what was said apart: words, names, references to tasks, and the marks between them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from functools import cached_property
from unicodedata import category

from remand.domain.record import Record
from remand.domain.saying.patterns import ORDINARY
from remand.domain.saying.vocabulary import Kind, Reference, Vocabulary, fold

_PIECE = re.compile(
    r"""
    (?P<possessive>['’]s(?!\w))
  | (?P<quoted>"[^"\n]{1,300}" | “[^”\n]{1,300}” | «[^»\n]{1,300}» | `[^`\n]{1,300}`
      | (?<!\w)'[^'\n]{2,300}'(?!\w) | ‘[^’\n]{2,300}’(?!\w))
  | (?P<id>(?:task:)?T-[A-Za-z0-9][A-Za-z0-9-]{0,62}(?!\w))
  | (?P<escalation>E-[0-9a-f]{4,64}(?![\w-]))
  | (?P<alias>[A-Za-z][A-Za-z0-9_./-]{0,60}\#[0-9]{1,12}(?!\w))
  | (?P<number>[\#!]?[0-9]{1,12}(?!\w))
  | (?P<word>[^\W\d_]+(?:['’-][^\W\d_]+)*)
  | (?P<dash>—|–|--+|(?<=\s)-(?=\s))
  | (?P<arrow>->|=>|→)
  | (?P<mark>[,:;.!?()&\n])
  | (?P<other>\S)
    """,
    re.VERBOSE,
)
_NAME_ENDS = re.compile(r"(?![\w@/\#-]|[.:]\w)")
_SHAPES = {"—": "—", "!": ".", "\n": ".", "&": "and"}
_NOUNS = {
    **dict.fromkeys(("issue", "issues", "task", "tasks", "ticket", "bug"), Kind.NUMBER),
    **dict.fromkeys(("pr", "prs", "mr", "pull request", "merge request"), Kind.PULL),
}
_BETWEEN = ("number", "no", "nr", "called", "named", "titled")
STRANGE = "¤"


class Token(Record, kw_only=True):
    """One piece of a sentence and how patterns see it: a word as it is, a name as `@`, a task as `#`."""

    shape: str
    start: int
    end: int
    names: tuple[str, ...] = ()
    reference: Reference | None = None


class Sentence:
    """What was said, as tokens. A name or task carries its place, so that what a pattern found can be looked up."""

    def __init__(self, text: str, tokens: list[Token]) -> None:
        self.text = text
        self.tokens = tokens

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The shapes alone."""
        return tuple(token.shape for token in self.tokens)

    def shape(self, start: int = 0, end: int | None = None) -> str:
        """Part of the sentence as patterns see it; each token ends with a space."""
        places = range(len(self.tokens))[start:end]
        return "".join(f"{self._placed(place)} " for place in places)

    def _placed(self, place: int) -> str:
        shape = self.tokens[place].shape
        if shape in ("@", "#"):
            return f"{shape}{place}"
        return f"~{place}" if shape[0].isalpha() and shape not in ORDINARY else shape

    def text_from(self, place: int) -> str:
        """The words as they were said, from a token on."""
        return self.text[self.tokens[place].start :] if place < len(self.tokens) else ""


def read(text: str, vocabulary: Vocabulary, without: Collection[str] = ()) -> Sentence:
    """Takes a text apart. Names that are left out are words like any other."""
    names = [name for name in vocabulary.names if name not in without]
    tokens = list(_tokens(text, vocabulary, sorted(names, key=len, reverse=True)))
    return Sentence(text, _with_nouns(text, tokens))


def _tokens(text: str, vocabulary: Vocabulary, names: list[str]) -> Iterator[Token]:
    folded, at = fold(text), 0
    while (match := _PIECE.search(text, at)) is not None:
        at = match.start()
        named = at + (text[at] == "@")
        name = next((name for name in names if _stands_at(folded, name, named)), "")
        if name:
            at, start = named + len(name), at
            yield Token(shape="@", start=start, end=at, names=vocabulary.names[name])
        elif text[at] == "@" and folded.startswith("remand", at + 1):
            at += 1
        else:
            at = match.end()
            yield _token(match)


def _stands_at(folded: str, name: str, at: int) -> bool:
    """True when a name stands there whole: no letter follows, and no mark that would change its last one."""
    end = at + len(name)
    return (
        folded.startswith(name, at)
        and _NAME_ENDS.match(folded, end) is not None
        and not category(folded[end : end + 1] or " ").startswith("M")
    )


def _token(match: re.Match[str]) -> Token:
    piece, text = match.lastgroup, match.group()
    start, end = match.span()
    match piece:
        case "id" | "alias" | "escalation" | "number" | "quoted":
            return Token(shape="#", start=start, end=end, reference=_reference(piece, text))
        case "word":
            shape = fold(text).replace("’", "'")
        case "possessive":
            shape = "'s"
        case "dash":
            shape = "—"
        case "arrow":
            shape = "to"
        case "mark":
            shape = _SHAPES.get(text, text)
        case _:
            shape = STRANGE
    return Token(shape=shape, start=start, end=end)


def _reference(piece: str, text: str) -> Reference:
    noun, _, number = text.partition("#")
    if piece == "alias" and noun.lower() in _NOUNS:
        return Reference(kind=_NOUNS[noun.lower()], text=number, said=text)
    match piece:
        case "id" | "alias":
            kind, bare = Kind.NAME, text.removeprefix("task:")
        case "escalation":
            kind, bare = Kind.ESCALATION, text
        case "quoted":
            kind, bare = Kind.TITLE, text[1:-1].strip()
        case _:
            signs = {"#": Kind.NUMBER, "!": Kind.PULL}
            kind, bare = signs.get(text[0], Kind.BARE), text.lstrip("#!")
    return Reference(kind=kind, text=bare, said=text)


def _with_nouns(text: str, tokens: list[Token]) -> list[Token]:
    """Joins `issue`, `pull request` and the like with the number, id or title that follows."""
    joined: list[Token] = []
    at = 0
    while at < len(tokens):
        noun, after = _noun(tokens, at)
        follows = tokens[after] if after < len(tokens) else None
        if noun is None or follows is None or follows.reference is None:
            joined.append(tokens[at])
            at += 1
            continue
        start, end = tokens[at].start, follows.end
        told = follows.reference
        is_number = told.kind in (Kind.NUMBER, Kind.BARE, Kind.PULL)
        kind = noun if is_number else told.kind
        reference = Reference(kind=kind, text=told.text, said=text[start:end])
        joined.append(Token(shape="#", start=start, end=end, reference=reference))
        at = after + 1
    return joined


def _noun(tokens: list[Token], at: int) -> tuple[Kind | None, int]:
    """The kind of task a noun says, and where what it is about would stand."""
    for length in (2, 1):
        words = " ".join(token.shape for token in tokens[at : at + length])
        if words in _NOUNS:
            after = at + length
            is_between = after < len(tokens) and tokens[after].shape in _BETWEEN
            return _NOUNS[words], after + is_between
    return None, at

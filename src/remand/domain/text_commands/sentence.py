"""Splits a sentence into words, names and references to tasks, by the names that are known."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator
from enum import StrEnum
from functools import cached_property
from typing import Protocol
from unicodedata import category

from remand.domain.access.team import REVIEWERS, USER, Member, Role
from remand.domain.record import Record
from remand.domain.text_commands.grammar import ORDINARY_WORDS
from remand.domain.text_commands.requests import TaskName

_SHORTEST_NEAR = 4
_ROLES: dict[str, frozenset[Role]] = {
    "lead": frozenset({Role.LEAD}),
    "tester": frozenset({Role.TESTER}),
    "director": frozenset({Role.DIRECTOR}),
    "reviewer": REVIEWERS - {Role.USER},
    "user": frozenset({Role.USER}),
}


class ReferenceKind(StrEnum):
    """How a task was referred to."""

    NAME = "name"
    """By its id, or an alias with its repository."""
    NUMBER = "number"
    """`#42`, `issue 42`."""
    PULL = "pull"
    """`PR 15`."""
    BARE = "bare"
    """A number alone: an issue's or a pull request's."""
    TITLE = "title"
    ESCALATION = "escalation"


class TaskReference(Record, kw_only=True):
    """How somebody called a task."""

    kind: ReferenceKind
    text: str
    """The number without its sign, the id, the alias, or the title without its quotes."""
    said: str
    """As it was said."""


class TaskLookup(Protocol):
    """What is known of tasks."""

    def find(self, reference: TaskReference) -> tuple[TaskName, ...]:
        """Every task a reference may mean."""

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        """The tasks an agent is locked out of."""

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        """The agents locked out of a task."""


class Vocabulary:
    """Who and what may be named, and who speaks."""

    def __init__(self, members: tuple[Member, ...], tasks: TaskLookup, speaker: str = USER) -> None:
        self.members = members
        self.tasks = tasks
        self.speaker = speaker

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Every name in lower case, with the members it may mean. A role is a name where no member has it."""
        found: dict[str, list[str]] = {}
        for member in self.members:
            logins = (account.rpartition(":")[2] for account in member.accounts)
            for name in (member.name, *member.aliases, *logins):
                found.setdefault(fold_letters(name), []).append(member.name)
        for role, roles in _ROLES.items():
            holders = [member.name for member in self.members if roles & frozenset(member.roles)]
            if role not in found and holders:
                found[role] = holders
        return {name: tuple(dict.fromkeys(members)) for name, members in found.items() if name}

    def members_with(self, *roles: Role) -> tuple[str, ...]:
        """The members with one of the roles."""
        return tuple(member.name for member in self.members if frozenset(roles) & frozenset(member.roles))

    def similar_names(self, word: str) -> tuple[str, ...]:
        """The members whose name is one slip away from a word; never one in other letters that look alike."""
        folded = fold_letters(word)
        close = (
            members
            for name, members in self.names.items()
            if len(name) >= _SHORTEST_NEAR
            and (folded.isascii() or not name.isascii())
            and _is_one_slip(folded, name)
        )
        return tuple(dict.fromkeys(member for members in close for member in members))


def fold_letters(text: str) -> str:
    """Text in lower case, as long as before. A letter that only looks like another's other case stays itself."""
    if text.isascii():
        return text.lower()
    return "".join(char.lower() if _has_pair(char) else char for char in text)


def _has_pair(char: str) -> bool:
    lower = char.lower()
    return len(lower) == 1 and lower.upper() == char


def _is_one_slip(one: str, other: str) -> bool:
    """True when one letter was left out, put in, mistaken, or two neighbours changed places."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    short, long = sorted((one, other), key=len)
    at = next((i for i, char in enumerate(short) if char != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1]
    return short[at + 1 :] == long[at + 1 :] or (
        swapped == long[at : at + 2] and short[at + 2 :] == long[at + 2 :]
    )


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
    **dict.fromkeys(("issue", "issues", "task", "tasks", "ticket", "bug"), ReferenceKind.NUMBER),
    **dict.fromkeys(("pr", "prs", "mr", "pull request", "merge request"), ReferenceKind.PULL),
}
_BETWEEN = ("number", "no", "nr", "called", "named", "titled")
UNKNOWN_MARK = "¤"


class SentenceToken(Record, kw_only=True):
    """One piece of a sentence and how patterns see it: a word as it is, a name as `@`, a task as `#`."""

    shape: str
    start: int
    end: int
    names: tuple[str, ...] = ()
    reference: TaskReference | None = None


class Sentence:
    """What was said, as tokens. A name or task carries its place, so that what a pattern found can be looked up."""

    def __init__(self, text: str, tokens: list[SentenceToken]) -> None:
        self.text = text
        self.tokens = tokens

    @cached_property
    def words(self) -> tuple[str, ...]:
        """The shapes alone."""
        return tuple(token.shape for token in self.tokens)

    def shape(self, start: int = 0, end: int | None = None) -> str:
        """Part of the sentence as patterns see it; each token ends with a space."""
        places = range(len(self.tokens))[start:end]
        return "".join(f"{self._shape_at(place)} " for place in places)

    def _shape_at(self, place: int) -> str:
        shape = self.tokens[place].shape
        if shape in ("@", "#"):
            return f"{shape}{place}"
        return f"~{place}" if shape[0].isalpha() and shape not in ORDINARY_WORDS else shape

    def text_from(self, place: int) -> str:
        """The words as they were said, from a token on."""
        return self.text[self.tokens[place].start :] if place < len(self.tokens) else ""


def parse_sentence(text: str, vocabulary: Vocabulary, without: Collection[str] = ()) -> Sentence:
    """Takes a text apart. Names that are left out are words like any other."""
    names = [name for name in vocabulary.names if name not in without]
    tokens = list(_split_tokens(text, vocabulary, sorted(names, key=len, reverse=True)))
    return Sentence(text, _join_nouns(text, tokens))


def _split_tokens(text: str, vocabulary: Vocabulary, names: list[str]) -> Iterator[SentenceToken]:
    folded, at = fold_letters(text), 0
    while (match := _PIECE.search(text, at)) is not None:
        at = match.start()
        named = at + (text[at] == "@")
        name = next((name for name in names if _stands_at(folded, name, named)), "")
        if name:
            at, start = named + len(name), at
            yield SentenceToken(shape="@", start=start, end=at, names=vocabulary.names[name])
        elif text[at] == "@" and folded.startswith("remand", at + 1):
            at += 1
        else:
            at = match.end()
            yield _make_token(match)


def _stands_at(folded: str, name: str, at: int) -> bool:
    """True when a name stands there whole: no letter follows, and no mark that would change its last one."""
    end = at + len(name)
    return (
        folded.startswith(name, at)
        and _NAME_ENDS.match(folded, end) is not None
        and not category(folded[end : end + 1] or " ").startswith("M")
    )


def _make_token(match: re.Match[str]) -> SentenceToken:
    piece, text = match.lastgroup, match.group()
    start, end = match.span()
    match piece:
        case "id" | "alias" | "escalation" | "number" | "quoted":
            return SentenceToken(shape="#", start=start, end=end, reference=_make_reference(piece, text))
        case "word":
            shape = fold_letters(text).replace("’", "'")
        case "possessive":
            shape = "'s"
        case "dash":
            shape = "—"
        case "arrow":
            shape = "to"
        case "mark":
            shape = _SHAPES.get(text, text)
        case _:
            shape = UNKNOWN_MARK
    return SentenceToken(shape=shape, start=start, end=end)


def _make_reference(piece: str, text: str) -> TaskReference:
    noun, _, number = text.partition("#")
    if piece == "alias" and noun.lower() in _NOUNS:
        return TaskReference(kind=_NOUNS[noun.lower()], text=number, said=text)
    match piece:
        case "id" | "alias":
            kind, bare = ReferenceKind.NAME, text.removeprefix("task:")
        case "escalation":
            kind, bare = ReferenceKind.ESCALATION, text
        case "quoted":
            kind, bare = ReferenceKind.TITLE, text[1:-1].strip()
        case _:
            signs = {"#": ReferenceKind.NUMBER, "!": ReferenceKind.PULL}
            kind, bare = signs.get(text[0], ReferenceKind.BARE), text.lstrip("#!")
    return TaskReference(kind=kind, text=bare, said=text)


def _join_nouns(text: str, tokens: list[SentenceToken]) -> list[SentenceToken]:
    """Joins `issue`, `pull request` and the like with the number, id or title that follows."""
    joined: list[SentenceToken] = []
    at = 0
    while at < len(tokens):
        noun, after = _find_noun(tokens, at)
        follows = tokens[after] if after < len(tokens) else None
        if noun is None or follows is None or follows.reference is None:
            joined.append(tokens[at])
            at += 1
            continue
        start, end = tokens[at].start, follows.end
        told = follows.reference
        is_number = told.kind in (ReferenceKind.NUMBER, ReferenceKind.BARE, ReferenceKind.PULL)
        kind = noun if is_number else told.kind
        reference = TaskReference(kind=kind, text=told.text, said=text[start:end])
        joined.append(SentenceToken(shape="#", start=start, end=end, reference=reference))
        at = after + 1
    return joined


def _find_noun(tokens: list[SentenceToken], at: int) -> tuple[ReferenceKind | None, int]:
    """The kind of task a noun says, and where what it is about would stand."""
    for length in (2, 1):
        words = " ".join(token.shape for token in tokens[at : at + length])
        if words in _NOUNS:
            after = at + length
            is_between = after < len(tokens) and tokens[after].shape in _BETWEEN
            return _NOUNS[words], after + is_between
    return None, at

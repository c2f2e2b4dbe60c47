"""Splits a sentence into words, known names and references to tasks."""

from __future__ import annotations

import re
from collections.abc import Collection
from enum import StrEnum
from functools import cached_property
from typing import Protocol
from unicodedata import category

from msgspec.structs import replace

from remand.domain.access.team import REVIEWERS, USER, Member, Role
from remand.domain.record import Record
from remand.domain.text_commands.patterns import ORDINARY_WORDS, TaskName

_SHORTEST_SIMILAR = 4
_ROLES: dict[str, frozenset[Role]] = {
    "lead": frozenset({Role.LEAD}),
    "tester": frozenset({Role.TESTER}),
    "director": frozenset({Role.DIRECTOR}),
    "reviewer": REVIEWERS - {Role.USER},
    "user": frozenset({Role.USER}),
}


class ReferenceKind(StrEnum):
    """The form of a reference to a task."""

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
    """A sentence's name for a task."""

    kind: ReferenceKind
    text: str
    """The number without its sign, the id, the alias, or the title without quotes."""


class TaskLookup(Protocol):
    """Finds the tasks that a sentence names."""

    def find(self, reference: TaskReference) -> tuple[TaskName, ...]:
        """All tasks that a reference may mean."""

    def locking_out(self, agent: str) -> tuple[TaskName, ...]:
        """The tasks an agent is locked out of."""

    def locked_out_of(self, task_id: str) -> tuple[str, ...]:
        """The agents locked out of a task."""


class Vocabulary:
    """The people and things that may be named, and the speaker."""

    def __init__(self, members: tuple[Member, ...], tasks: TaskLookup, speaker: str = USER) -> None:
        self.members = members
        self.tasks = tasks
        self.speaker = speaker

    @cached_property
    def names(self) -> dict[str, tuple[str, ...]]:
        """Every name in lower case with the members it may mean. A role is a name if no member has it."""
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
        """Members whose name is one typing error away, but never one in confusable letters."""
        folded = fold_letters(word)
        close = (
            members
            for name, members in self.names.items()
            if len(name) >= _SHORTEST_SIMILAR
            and (folded.isascii() or not name.isascii())
            and _is_one_error_away(folded, name)
        )
        return tuple(dict.fromkeys(member for members in close for member in members))


def fold_letters(text: str) -> str:
    """Text in lower case with unchanged length. A letter that only resembles another's other case is kept."""
    if text.isascii():
        return text.lower()
    lowers = ((char, char.lower()) for char in text)
    return "".join(lower if len(lower) == 1 and lower.upper() == char else char for char, lower in lowers)


def _is_one_error_away(word: str, name: str) -> bool:
    """True if one letter is missing, added or wrong, or two neighbours are swapped."""
    if word == name or abs(len(word) - len(name)) > 1:
        return False
    short, long = sorted((word, name), key=len)
    at = next((i for i, char in enumerate(short) if char != long[i]), len(short))
    if len(short) < len(long):
        return short[at:] == long[at + 1 :]
    swapped = short[at + 1 : at + 2] + short[at : at + 1]
    return short[at + 1 :] == long[at + 1 :] or swapped + short[at + 2 :] == long[at:]


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
_SHAPES = {"possessive": "'s", "dash": "—", "arrow": "to", "other": "¤"}
_MARKS = {"!": ".", "\n": ".", "&": "and"}
_NUMBER_KINDS = {"#": ReferenceKind.NUMBER, "!": ReferenceKind.PULL}
_NOUNS = {
    **dict.fromkeys(("issue", "issues", "task", "tasks", "ticket", "bug"), ReferenceKind.NUMBER),
    **dict.fromkeys(("pr", "prs", "mr", "pull request", "merge request"), ReferenceKind.PULL),
}
_AFTER_NOUN = ("number", "no", "nr", "called", "named", "titled")


class SentenceToken(Record, kw_only=True):
    """A piece of a sentence and its form in patterns: a word as it is, a name as `@`, a task as `#`."""

    shape: str
    start: int
    end: int
    names: tuple[str, ...] = ()
    reference: TaskReference | None = None


class Sentence:
    """A text as tokens. Names and tasks carry their position, so that matches can be looked up."""

    def __init__(self, text: str, tokens: list[SentenceToken]) -> None:
        self.text = text
        self.tokens = tokens
        self.words = tuple(token.shape for token in tokens)

    def shape(self, start: int = 0, end: int | None = None) -> str:
        """Part of the sentence in the form for patterns; each token ends with a space."""
        parts = []
        for place in range(len(self.words))[start:end]:
            word = self.words[place]
            if word in ("@", "#"):
                word = f"{word}{place}"
            elif word[0].isalpha() and word not in ORDINARY_WORDS:
                word = f"~{place}"
            parts.append(f"{word} ")
        return "".join(parts)

    def with_capital_names(self) -> Sentence:
        """The sentence with every capitalised ordinary word except the first as a name."""
        changed = [
            replace(token, shape=spelled)
            if token.shape in ORDINARY_WORDS and (spelled := self.text[token.start : token.end]).istitle()
            else token
            for token in self.tokens[1:]
        ]
        return Sentence(self.text, [*self.tokens[:1], *changed])

    def text_from(self, place: int) -> str:
        """The original text from a token on."""
        return self.text[self.tokens[place].start :] if place < len(self.tokens) else ""


def parse_sentence(text: str, vocabulary: Vocabulary, without: Collection[str] = ()) -> Sentence:
    """Splits a text. Names in `without` are treated as ordinary words."""
    names = sorted((name for name in vocabulary.names if name not in without), key=len, reverse=True)
    folded, at = fold_letters(text), 0
    tokens: list[SentenceToken] = []
    while (match := _PIECE.search(text, at)) is not None:
        start = match.start()
        name_start = start + (text[start] == "@")
        name = next((name for name in names if _stands_at(folded, name, name_start)), "")
        if name:
            at = name_start + len(name)
            tokens.append(SentenceToken(shape="@", start=start, end=at, names=vocabulary.names[name]))
        elif text[start] == "@" and folded.startswith("remand", start + 1):
            at = start + 1
        else:
            at = match.end()
            tokens.append(_make_token(match))
    return Sentence(text, _join_nouns(tokens))


def _stands_at(folded: str, name: str, at: int) -> bool:
    """True if the whole name occurs there: no letter follows, and no mark that would change its last one."""
    end = at + len(name)
    return (
        folded.startswith(name, at)
        and _NAME_ENDS.match(folded, end) is not None
        and not category(folded[end : end + 1] or " ").startswith("M")
    )


def _make_token(match: re.Match[str]) -> SentenceToken:
    piece, text = match.lastgroup or "", match.group()
    noun, _, number = text.partition("#")
    reference: tuple[ReferenceKind, str] | None = None
    shape = "#"
    match piece:
        case "alias" if noun.lower() in _NOUNS:
            reference = _NOUNS[noun.lower()], number
        case "id" | "alias":
            reference = ReferenceKind.NAME, text.removeprefix("task:")
        case "escalation":
            reference = ReferenceKind.ESCALATION, text
        case "quoted":
            reference = ReferenceKind.TITLE, text[1:-1].strip()
        case "number":
            reference = _NUMBER_KINDS.get(text[0], ReferenceKind.BARE), text.lstrip("#!")
        case "word":
            shape = fold_letters(text).replace("’", "'")
        case "mark":
            shape = _MARKS.get(text, text)
        case _:
            shape = _SHAPES[piece]
    task = TaskReference(kind=reference[0], text=reference[1]) if reference else None
    return SentenceToken(shape=shape, start=match.start(), end=match.end(), reference=task)


def _join_nouns(tokens: list[SentenceToken]) -> list[SentenceToken]:
    """Joins `issue`, `pull request` and the like with the number, id or title that follows."""
    joined: list[SentenceToken] = []
    at = 0
    while at < len(tokens):
        two_words = " ".join(token.shape for token in tokens[at : at + 2])
        length = 2 if two_words in _NOUNS else 1
        noun = _NOUNS.get(two_words) or _NOUNS.get(tokens[at].shape)
        after = at + length
        after += after < len(tokens) and tokens[after].shape in _AFTER_NOUN
        reference = tokens[after].reference if after < len(tokens) else None
        if noun is None or reference is None:
            joined.append(tokens[at])
            at += 1
            continue
        is_number = reference.kind in (ReferenceKind.NUMBER, ReferenceKind.BARE, ReferenceKind.PULL)
        reference = TaskReference(kind=noun if is_number else reference.kind, text=reference.text)
        joined.append(
            SentenceToken(shape="#", start=tokens[at].start, end=tokens[after].end, reference=reference)
        )
        at = after + 1
    return joined

"""The team: members, spellings of their names, their roles, and the paths a reviewer covers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import StrEnum
from functools import cached_property, lru_cache
from unicodedata import category, combining, normalize

from msgspec.structs import replace

from remand.domain.access import confusables
from remand.domain.record import Record
from remand.domain.text.path_patterns import PathPattern
from remand.domain.text.words import word_list
from remand.startup import lazy_pattern

_INSTANCE = lazy_pattern(r"(.*[^\s/])\s*/\s*\d+", re.DOTALL)
_INVISIBLE = frozenset(("Cc", "Cf", "Cn", "Co", "Cs", "Zl", "Zp", "Zs"))
_BLANK = frozenset("\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\u2800")
"""Letters and marks without a visible shape."""
_DIACRITICS = frozenset((1, *range(200, 241)))
"""The combining classes of marks above, below and across a letter. A kana's voicing mark (8) makes a different letter."""
_EDGES = "@._-+:/[] "
"""Characters around a name that do not make it look different."""
_MAX_CACHED = 10_000
_MAX_NAME = 256
"""Longer names are not analysed."""


@lru_cache(maxsize=_MAX_CACHED)
def normalise_name(name: str) -> str:
    """The recorded form of a new name: normalised width, without surrounding or repeated spaces."""
    return " ".join(normalize("NFKC", name[:_MAX_NAME]).split()) if len(name) <= _MAX_NAME else name


@lru_cache(maxsize=_MAX_CACHED)
def fold_name(name: str) -> str:
    """The common form of all spellings of a name, which differ only in case, width and spaces."""
    folded = name
    for _ in range(4):  # folding may produce characters that fold again
        again = normalise_name(normalise_name(folded).casefold())
        if again == folded:
            break
        folded = again
    return folded


def instance_member(name: str) -> str:
    """The member to which an instance belongs: Fenster for `Fenster/2`; empty if the name is not an instance's."""
    match = _INSTANCE.fullmatch(normalise_name(name))
    return match[1] if match else ""


@lru_cache(maxsize=_MAX_CACHED)
def possible_members(name: str) -> tuple[str, ...]:
    """The members to which an instance may belong, likeliest first; none for a name without a slash."""
    plain = normalise_name(name)
    return tuple(filter(None, (instance_member(plain), *name_prefixes(plain)))) if "/" in plain else ()


def name_prefixes(name: str, mark: str = "/") -> tuple[str, ...]:
    """The parts of a name before each slash or other mark, longest first; any may be a member."""
    parts = normalise_name(name).split(mark)
    return tuple(head for end in range(len(parts) - 1, 0, -1) if (head := mark.join(parts[:end]).strip()))


def name_key(name: str) -> str:
    """The key shared by all spellings of a name."""
    return f".{fold_name(name)}"


def lookup_keys(name: str) -> tuple[str, ...]:
    """All lookup keys of a name: first that of its spelling, then those of its appearance."""
    return (name_key(name), *look_keys(name))


def look_keys(name: str) -> tuple[str, ...]:
    """Keys of a name's appearance: as written, in lower case, in upper case, and by each letter's own case.

    Two names look alike if they share a key. The skeletons of UTS #39 distinguish cases, and some letters are
    confusable in one case only: the Greek Η looks like H, but its lower case does not look like h.
    """
    plain = normalise_name(name).strip(_EDGES) or normalise_name(name)
    spellings = (plain, plain.lower(), plain.upper(), "".join(map(_in_small_letters, plain)))
    return tuple(
        dict.fromkeys(f"{kind}{skeleton(text)}" for kind, text in zip("=<>~", spellings, strict=True))
    )


def skeleton(text: str) -> str:
    """The appearance of a text by Unicode's confusables, without marks, spaces and invisible characters."""
    return _strip_marks(_strip_marks(text).translate(_prototypes())).replace("w", "vv").replace("W", "VV")


def _in_small_letters(letter: str) -> str:
    """A letter of another script as the lower-case Latin letter it resembles."""
    if letter.isascii():
        return letter.lower()
    look = skeleton(letter)
    return "i" if look == "l" and letter.isupper() else look.lower()


def _strip_marks(text: str) -> str:
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
    """Unicode's table, imported only for a name that is not known yet."""
    return confusables.PROTOTYPES


USER = "user"
COORDINATOR = "coordinator"


class Role(StrEnum):
    """The role of a member. A lead and a tester are reviewers with a scope; the user may do everything."""

    AGENT = "agent"
    LEAD = "lead"
    TESTER = "tester"
    DIRECTOR = "director"
    USER = "user"
    COORDINATOR = "coordinator"


_MAX_ACTORS = 10_000
NAMELESS_AGENT = "agent"
"""The actor where a model works without a name: a model is never the user by default."""
RESERVED_NAMES = (USER, COORDINATOR, Role.DIRECTOR.value)
"""Names used by the system itself."""
_NO_USERS = frozenset(RESERVED_NAMES) - {USER}
REVIEWERS = frozenset({Role.LEAD, Role.TESTER, Role.USER})


class Actor(Record, kw_only=True):
    """The actor of a request: a member's name and roles, and whether it acts inside an agent's environment."""

    name: str
    roles: frozenset[Role] = frozenset()
    skills: frozenset[str] = frozenset()
    paths: tuple[str, ...] = ()
    """The patterns of a reviewer's scope; empty: everything."""
    confined: bool = False

    @property
    def is_user(self) -> bool:
        """True for the user outside any agent's environment."""
        return Role.USER in self.roles and not self.confined

    def has(self, *roles: Role) -> bool:
        """True if the actor has one of the roles."""
        return any(role in self.roles for role in roles)

    def limit(self, roles: Iterable[Role]) -> Actor:
        """The same actor with only those of its roles."""
        return replace(self, roles=self.roles.intersection(roles))


class Member(Record, kw_only=True):
    """A team member as configured in `remand.toml`."""

    name: str
    roles: tuple[Role, ...] = (Role.AGENT,)
    skills: tuple[str, ...] = ()
    aliases: tuple[str, ...] = ()
    accounts: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    capacity: int = 1


class Team:
    """The members by any of their names. Without members, any name is an agent and `user` is the user."""

    def __init__(
        self, members: tuple[Member, ...] = (), former: tuple[str, ...] = (), on_task: tuple[str, ...] = ()
    ) -> None:
        self.members = members
        self.former = former
        """The names of members who have left: nobody on the team is one of them."""
        self._on_task = on_task
        """Without members: the names that are known on a task."""
        self._actors: dict[tuple[str, bool], Actor] = {}

    @cached_property
    def _by_name(self) -> dict[str, Member]:
        names = {name: member for member in self.members for name in (*member.aliases, *member.accounts)}
        return names | {member.name: member for member in self.members}

    @cached_property
    def _by_fold(self) -> dict[str, str]:
        """The first of names that are spellings of one another; a member's name precedes others."""
        names = (
            *RESERVED_NAMES,
            *reversed((*self._on_task, *(member.name for member in self.members), *self._by_name)),
        )
        return {fold_name(name): name for name in names}

    @cached_property
    def _looks(self) -> dict[str, frozenset[str]]:
        return {name: frozenset(look_keys(name)) for name in (*self._by_name, *self.former, *RESERVED_NAMES)}

    def find_known_name(self, name: str) -> str:
        """The known name (of the team, the task or the system) that a spelling means; empty if none.

        The part after a slash distinguishes instances of a member.
        """
        found = self._find_spelling(name)
        return found or next(filter(None, map(self._find_spelling, possible_members(name))), "")

    def _find_spelling(self, name: str) -> str:
        return name if name in self._by_name else self._by_fold.get(fold_name(name), "")

    def has_name(self, name: str) -> bool:
        """True for any spelling of the name of a member, a former member, or the system."""
        return bool(self.find_known_name(name)) or fold_name(name) in map(fold_name, self.former)

    @cached_property
    def member_names(self) -> tuple[str, ...]:
        """The members' own names, in the team's order."""
        return tuple(member.name for member in self.members)

    def find_look_alike(self, keys: Iterable[str], besides: str = "") -> str:
        """A name of the team or the system that has one of these appearance keys and is not that member's; otherwise empty."""
        wanted, own = frozenset(keys), self._by_name.get(besides)
        alike = (name for name, found in self._looks.items() if not wanted.isdisjoint(found))
        return next((name for name in alike if own is None or self._by_name.get(name) is not own), "")

    def look_alikes(self) -> tuple[tuple[str, str], ...]:
        """Pairs of members with names that look alike, including aliases."""
        pairs = ((name, self.find_look_alike(look_keys(name), name)) for name in self._by_name)
        return tuple(
            dict.fromkeys((min(pair), max(pair)) for pair in pairs if pair[1] not in ("", *RESERVED_NAMES))
        )

    @cached_property
    def _the_user(self) -> Member | None:
        """The only member that is the user, whom `user` then also means; None if there is none, or more than one."""
        users = [member for member in self.members if Role.USER in member.roles]
        return users[0] if len(users) == 1 else None

    def actor(self, name: str, *, confined: bool = False) -> Actor:
        """The actor for a name: its member's name, roles and skills."""
        known = self._actors.get((name, confined))
        if known is None:
            known = self._actor(name, confined)
            if len(self._actors) < _MAX_ACTORS:
                self._actors[name, confined] = known
        return known

    def _actor(self, name: str, confined: bool) -> Actor:
        name = self.find_known_name(name) or name
        member = self._by_name.get(name) or (self._the_user if name == USER else None)
        if member is not None:
            return Actor(
                name=member.name,
                roles=frozenset(member.roles),
                skills=frozenset(member.skills),
                paths=member.paths,
                confined=confined,
            )
        if name == USER:
            return Actor(name=USER, roles=frozenset({Role.USER}), confined=confined)
        if self.members:
            return Actor(name=name, confined=confined)
        return Actor(name=name, roles=frozenset({Role.AGENT}), confined=confined)

    def may_be_user(self, name: str) -> bool:
        """False for the name of somebody who is not the user. A former member may have been the user."""
        actor = self.actor(name)
        if actor.name in _NO_USERS:
            return False
        return Role.USER in actor.roles or not actor.roles

    def with_task_names(self, names: Iterable[str]) -> Team:
        """The same team, with each member under the first of these names that is one of its own.

        A renamed member is still the one that a task knows by an older name.
        """
        if not self.members:
            on_task = tuple(filter(None, names))
            return _team_on_task(on_task) if on_task else self
        called: dict[str, str] = {}
        for name in names:
            member = self._by_name.get(name) or self._by_name.get(self._by_fold.get(fold_name(name), ""))
            if member is not None:
                called.setdefault(member.name, name)
        if all(own == name for own, name in called.items()):
            return self
        members = tuple(
            _rename_member(member, called.get(member.name, member.name)) for member in self.members
        )
        return Team(members, self.former)

    @property
    def has_members(self) -> bool:
        """True if there is a team; without one, everybody may take every task."""
        return bool(self.members)


@lru_cache(maxsize=_MAX_CACHED)
def _team_on_task(names: tuple[str, ...]) -> Team:
    """The team without members for a task with these names; cached, as most tasks have the same few."""
    return Team(on_task=names)


def _rename_member(member: Member, name: str) -> Member:
    return (
        replace(member, name=name, aliases=(*member.aliases, member.name)) if name != member.name else member
    )


THE_COORDINATOR = Actor(name=COORDINATOR, roles=frozenset({Role.COORDINATOR}))
THE_DIRECTOR = Actor(name="director", roles=frozenset({Role.DIRECTOR}))
"""The director command configured by the user. No interface accepts it; only the system acts as it."""


TEST_PATTERNS = word_list("""
tests/** test/** **/tests/** **/test/** **/__tests__/** **/test_* **/*_test.* **/*.test.* **/*.spec.* **/conftest.py
""")
"""The scope of a tester without configured paths."""


def review_scope(actor: Actor) -> tuple[str, ...]:
    """The patterns of a reviewer's scope; empty: everything."""
    if actor.is_user:
        return ()
    if actor.paths:
        return actor.paths
    return TEST_PATTERNS if Role.TESTER in actor.roles and Role.LEAD not in actor.roles else ()


def paths_outside_scope(actor: Actor, paths: Iterable[str]) -> list[str]:
    """The paths outside a reviewer's scope."""
    patterns = [PathPattern(text) for text in review_scope(actor)]
    if not patterns:
        return []
    return [path for path in paths if not any(pattern.matches(path) for pattern in patterns)]

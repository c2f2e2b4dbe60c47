"""Ending the trust in a key: where each of its sessions ends, and what changes with that."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.errors import UsageError
from remand.app.signatures import Verifier
from remand.app.trust_changes import TrustChange, moved_events, trust_change
from remand.domain.keys import ChainEnd, PublicKey
from remand.ledger.signatures import Group
from remand.ledger.store import Transaction

_MOST_NAMED = 20


class Revocation(NamedTuple):
    """Where the trust in a key would end, where that was taken from (`base` or `ledger`), and what would change."""

    ends: tuple[ChainEnd, ...]
    source: str
    change: TrustChange


def revocation(
    view: Transaction,
    key: PublicKey,
    published: Iterable[Group],
    *,
    verifier: Verifier,
    start: str = "",
) -> Revocation:
    """Ends the trust in a key with what the base has published; where it has nothing of the key, with what is here.

    `start` names, as SESSION:N, the first event of a session that somebody else wrote with the key.
    """
    trust = verifier.trust
    whole = verifier.under(replace(trust, keys=(replace(key, until=None),)))
    base = _sound(published, key, whole)
    here = _sound((one.group for one in view.groups.every()), key, whole)
    ends = _last_places(base or here)
    if start:
        session, number = _place(start)
        ends.pop(session, None)
        if number > 1 or not _of_session(session, [*base, *here]):
            ends[session] = _end_before(session, number, base, here)
    until = tuple(end for _, end in sorted(ends.items()))
    others = tuple(other for other in trust.keys if other.id != key.id)
    after = verifier.under(replace(trust, keys=(*others, replace(key, until=until))))
    moved = moved_events(view, after, key.id)
    change = trust_change(view, lost=moved.lost, gained=moved.gained)
    return Revocation(until, "base" if base else "ledger", change)


def _sound(groups: Iterable[Group], key: PublicKey, verifier: Verifier) -> list[Group]:
    """The groups that a key has signed."""
    found = verifier.doubts(group for group in groups if group.key == key.id)
    return [group for group, doubt in found.items() if not doubt]


def _last_places(groups: Iterable[Group]) -> dict[str, ChainEnd]:
    """The last place of each session. Of a session that forked, the branch that reaches furthest."""
    found: dict[str, ChainEnd] = {}
    for group in sorted(groups, key=lambda group: (group.last, group.after)):
        found[group.session] = ChainEnd(session=group.session, number=group.last, chain=group.after)
    return found


def _place(start: str) -> tuple[str, int]:
    session, _, number = start.rpartition(":")
    if not session or not (number.isascii() and number.isdecimal() and int(number) > 0):
        raise UsageError(
            f"{start!r} names no event. Write SESSION:N: the session, and the number of its first event that does not count."
        )
    return session, int(number)


def _of_session(session: str, groups: Iterable[Group]) -> list[Group]:
    return [group for group in groups if group.session == session]


def _end_before(session: str, number: int, base: Sequence[Group], here: Sequence[Group]) -> ChainEnd:
    """The place before an event, by what the base has of its session, else by what is here."""
    known = _of_session(session, [*base, *here])
    if not known:
        names = sorted({group.session for group in [*base, *here]})
        listed = ", ".join(names[:_MOST_NAMED]) or "none"
        raise UsageError(f"The key has signed no session {session!r}. It has signed: {listed}.")
    at = number - 1
    chains = _chains_at(at, _of_session(session, base)) or _chains_at(at, known)
    if not chains:
        reach = max(group.last for group in known)
        raise UsageError(
            f"No group that names event {at} of session {session} is here; it reaches event {reach}."
        )
    if len(chains) > 1:
        raise UsageError(
            f"Event {at} of session {session}, or one before it, is here in two versions, both signed by the key. "
            "Name an earlier event."
        )
    return ChainEnd(session=session, number=at, chain=chains.pop())


def _chains_at(number: int, groups: Iterable[Group]) -> set[str]:
    return {chain for group in groups if (chain := group.chain_at(number))}

"""Keeping signed groups: each with what is doubted of it, whichever of them comes first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remand.app.signatures import Verifier, end_of, last_counted
from remand.domain.keys import Trust
from remand.ledger.signatures import Doubt, Group, Place
from remand.ledger.store import SignedGroup, Transaction


def keep_groups(
    tx: Transaction, lines: Iterable[tuple[Group, bytes]], verifier: Verifier
) -> dict[Group, Doubt]:
    """Verifies and keeps groups. Returns what is doubted of each, and of those kept before that they now cover.

    What is kept already is not verified again, but for wrong signatures: a group that comes later may cover them.
    """
    given = dict(lines)
    known = {group: doubt for group in given if (doubt := tx.groups.doubt(group)) is not None}
    new = {group: line for group, line in given.items() if group not in known}
    for session in {group.session for group in new}:
        new |= {kept.group: kept.line for kept in tx.groups.wrong(session)}
    doubts = verifier.doubts(new)
    covered: set[Place] = set()
    asked: set[tuple[str, int]] = set()
    for group in sorted(doubts, key=_by_last):
        if not _may_be_covered(group, doubts[group], verifier.trust):
            continue
        if (group.session, group.last) not in asked:
            asked.add((group.session, group.last))
            covered |= _covered(tx, group.session, group.last)
        if group.end in covered:
            doubts[group] = Doubt.NONE
            covered.add(group.start)
    counted = [group for group, doubt in doubts.items() if not doubt] if verifier.trust.has_ends else []
    for kept in _leading_to(tx, counted, verifier.trust):
        doubts[kept.group], new[kept.group] = Doubt.NONE, kept.line
    tx.groups.add(SignedGroup(group, new[group], doubt) for group, doubt in doubts.items())
    return known | doubts


def _may_be_covered(group: Group, doubt: Doubt, trust: Trust) -> bool:
    """True when a group that does not count by itself does where another one follows that counts."""
    return doubt is Doubt.WRONG_SIGNATURE or (
        doubt is Doubt.REVOKED and group.last <= last_counted(group, trust)
    )


def _leading_to(tx: Transaction, groups: Iterable[Group], trust: Trust) -> Iterator[SignedGroup]:
    """The kept groups that did not count and that lead, without a break, to groups that count up to their key's end."""
    places = [group.start for group in groups if end_of(group, trust) is not None]
    while places:
        place = places.pop()
        session, _, _, number = place
        for kept in tx.groups.of_session(session, number, number):
            if kept.doubt is Doubt.REVOKED and kept.group.end == place:
                yield kept
                places.append(kept.group.start)


def _by_last(group: Group) -> int:
    return -group.last


def _covered(tx: Transaction, session: str, last: int) -> set[Place]:
    """The places at or behind an event that groups which are kept and count end or begin at."""
    kept = [one.group for one in tx.groups.of_session(session, last, last + 1) if not one.doubt]
    return {place for group in kept for place in (group.start, group.end)}

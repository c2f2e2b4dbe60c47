"""Holds whose word counts for each event about the log itself: a trusted key alone does not make its holder the user."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from remand.app.events.task_folds import signed_voids
from remand.app.requests import Rules
from remand.app.tokens import signed_tokens
from remand.domain.access.keys import AUTHORITIES, Authority
from remand.domain.access.team import Role, Team
from remand.domain.events import log, tasks
from remand.domain.events.catalogue import NATIVE
from remand.domain.events.event import Event, TaskEvent
from remand.domain.events.log import EventsVoided, LedgerMoved, TokenCreated
from remand.ledger.signatures import Doubt
from remand.testing.builders import T1, T2, Session, task_added
from remand.testing.fakes import FakeKeys
from tests.support.builders import FakeLedger, an_event, member

TEAM = Team((member("Alice"), member("owner", Role.USER, aliases=("boss",))))
OTHER, UNLISTED, REVOKED = FakeKeys("other"), FakeKeys("unlisted"), FakeKeys("revoked")
TRUSTED = (OTHER.ensure_key(), replace(REVOKED.ensure_key(), until=()))
WRITERS: dict[str, tuple[FakeKeys, str, dict[Authority, Doubt]]] = {
    "the user": (OTHER, "owner", {}),
    "the user by another name": (OTHER, "boss", {}),
    "who has left the team": (OTHER, "Dan", {}),
    "an agent with a trusted key": (
        OTHER,
        "Alice",
        {Authority.USER: Doubt.NOT_USERS, Authority.OWN: Doubt.NOT_USERS},
    ),
    "the coordinator": (
        OTHER,
        "coordinator",
        {Authority.USER: Doubt.NOT_USERS, Authority.OWN: Doubt.NOT_USERS},
    ),
    "an unlisted key": (UNLISTED, "owner", dict.fromkeys(Authority, Doubt.UNKNOWN_SIGNER)),
    "a revoked key": (REVOKED, "owner", dict.fromkeys(Authority, Doubt.REVOKED)),
}
GRAPH = (tasks.TaskAdded, tasks.TaskEdited, tasks.TaskDeleted, tasks.EdgeCreated, tasks.EdgeDeleted)


def a_ledger(team: Team = TEAM) -> FakeLedger:
    return FakeLedger(rules=Rules(gates=(), trusted=TRUSTED, team=team))


def read_in(world: FakeLedger, session: Session) -> None:
    world.exchange.put(f"/events/{session.name}.jsonl", session.lines)
    world.ledger.refresh()


def doubts(world: FakeLedger) -> dict[str, Doubt]:
    with world.store.read() as view:
        return {one.event_id: one.doubt for one in view.unconfirmed.every()}


def test_every_event_about_the_log_itself_says_whose_word_it_needs() -> None:
    own = {kind for kind in NATIVE if kind.__module__ == log.__name__}

    assert own == set(AUTHORITIES)
    others = set(NATIVE) - own - set(GRAPH)
    assert {kind for kind in others if not issubclass(kind, TaskEvent)} == set(), "they belong to no task"


@pytest.mark.parametrize("who", WRITERS)
def test_an_event_about_the_log_itself_counts_by_its_key_and_by_who_may_be_the_user(who: str) -> None:
    keys, actor, expected = WRITERS[who]
    world, session = a_ledger(), Session(keys=keys)
    kinds = [kind for kind in AUTHORITIES if kind is not log.TaskArchived]
    written = {kind: session.write(an_event(kind), actor=actor) for kind in kinds}
    read_in(world, session)

    found = doubts(world)
    for kind, event in written.items():
        wanted = expected.get(AUTHORITIES[kind], Doubt.NONE)
        assert found.get(event.meta.id, Doubt.NONE) == wanted, kind


def a_void(*events: Event) -> EventsVoided:
    first, last = events[0].meta, events[-1].meta
    return EventsVoided(
        session=first.session,
        first=first.seq,
        last=last.seq,
        chain="",
        events=tuple(event.meta.id for event in events),
    )


def test_who_is_not_the_user_voids_only_what_their_own_key_has_signed() -> None:
    world, session = a_ledger(), Session(keys=OTHER)
    world.add()
    (theirs,) = world.events()
    own = session.write(task_added(T1), actor="Alice")
    kept = session.write(task_added(T2), actor="Alice")
    # Names a session of its own, and events of another's as well.
    lying = replace(a_void(kept), events=(kept.meta.id, theirs.meta.id))
    for void in (a_void(own), a_void(theirs), lying):
        session.write(void, actor="Alice")
    read_in(world, session)

    with world.store.read() as view:
        assert signed_voids(view, world.ledger.verifier(view)).ids == {own.meta.id}
    assert {name for name, doubt in doubts(world).items() if doubt is Doubt.VOID} == {own.meta.id}
    assert theirs.meta.id not in doubts(world)
    assert T2 in world.tasks()


def test_tokens_and_moves_of_who_is_not_the_user_have_no_effect_until_the_team_says_that_it_is() -> None:
    world, session = a_ledger(), Session(keys=OTHER)
    token = TokenCreated(
        token_id="TK-1", sha256="0" * 64, member="Alice", role="agent", expires_at="2099-01-01T00:00:00Z"
    )
    session.write(token, actor="Alice")
    session.write(LedgerMoved(ledger="", to_ledger="x", to="x", events=0), actor="Alice")
    read_in(world, session)

    def effects() -> tuple[int, int, int]:
        with world.store.read() as view:
            found = signed_tokens(view, world.ledger.verifier(view))
            return len(found.tokens), len(found.missing), len(world.ledger.moves(view))

    assert effects() == (0, 0, 0)
    assert world.add()
    world.rules = replace(world.rules, team=Team((member("Alice", Role.USER),)))
    world.ledger.refresh()

    assert effects() == (1, 0, 1)
    assert set(doubts(world).values()) == set()

"""Tokens in a ledger: what signed events say counts, and nothing that a table says alone."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.adapters.stores.sqlite_events import SqliteEvents
from remand.app import tokens
from remand.app.log.verification import state_digest, verify_log
from remand.app.requests import Request, Rules
from remand.app.tokens import CreatedToken, TokenLookup
from remand.domain import commands as c
from remand.domain.access.team import Actor, Member, Role, Team
from remand.domain.access.tokens import Caller, TokenRole, token_hash, token_text
from remand.domain.events.event import KnownBy
from remand.domain.events.log import TOKENS, TokenCreated, TokenRevoked
from remand.domain.instant import add_seconds
from remand.domain.refusals import Refused
from remand.ledger import codec
from remand.testing.builders import LATER, NOW, actor
from remand.testing.fakes import FakeKeys
from tests.support.builders import THE_USER, FakeLedger

TEAM = Team(
    (
        Member(name="Fenster"),
        Member(name="Sam", roles=(Role.LEAD, Role.AGENT)),
        Member(name="owner", roles=(Role.USER,)),
    )
)
RULES = Rules(gates=(), team=TEAM)


def create(world: FakeLedger, member: str = "Fenster", **fields: object) -> CreatedToken:
    usual: dict[str, object] = {"role": None, "starts": (), "expires_at": add_seconds(world.clock.now(), 600)}
    by = TEAM.actor("owner")
    return tokens.create_token(world.ledger, world.rules, by, member=member, **(usual | fields))  # type: ignore[arg-type]


def lookup(world: FakeLedger) -> TokenLookup:
    found = TokenLookup()
    found.read(world.ledger, world.rules.team)
    return found


def refused_code(found: TokenLookup, text: str) -> str:
    with pytest.raises(Refused) as refused:
        found.caller(text)
    return refused.value.code


def test_a_token_is_known_by_its_text_and_only_its_hash_is_written() -> None:
    world = FakeLedger(rules=RULES)

    made = create(world)

    caller = lookup(world).caller(made.text)
    assert (caller.member, caller.role, caller.token_id) == ("Fenster", TokenRole.AGENT, made.token_id)
    assert not any(made.text.encode() in line for line in world.exchange.all_lines())
    (event,) = world.events()
    assert isinstance(event, TokenCreated)
    assert (event.sha256, event.meta.actor) == (token_hash(made.text), "owner")


def test_a_revoked_token_is_refused_and_the_log_is_sound() -> None:
    world = FakeLedger(rules=RULES)
    made, other = create(world), create(world, "Sam", role=TokenRole.REVIEWER)
    found = lookup(world)
    assert found.caller(made.text).member == "Fenster"

    session = found.caller(made.text)
    tokens.revoke_token(world.ledger, actor("Fenster"), made.token_id, "lost", KnownBy.TOKEN)
    found.read(world.ledger, TEAM)

    with pytest.raises(Refused):
        found.current_caller(session)
    assert refused_code(found, made.text) == "not_authenticated"
    assert found.caller(other.text).role is TokenRole.REVIEWER
    assert world.events()[-1].meta.known_by == KnownBy.TOKEN
    with world.store.read() as view:
        assert verify_log(view, world.exchange, world.marks, world.clock, world.ledger.verifier(view)).ok


def test_the_log_is_read_again_after_a_moment_and_when_it_was_changed_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1e9]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    found = lookup(FakeLedger(rules=RULES))
    assert not found.is_due

    found.forget()
    assert found.is_due
    found = lookup(FakeLedger(rules=RULES))
    now[0] += tokens.LOOK_AGAIN_SECONDS
    assert found.is_due


def test_the_lines_are_read_again_only_after_one_was_added_or_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = FakeLedger(rules=RULES)
    reads: list[str] = []
    of_task = SqliteEvents.of_task
    made = create(world)
    found = lookup(world)

    def note(events: SqliteEvents, task_id: str) -> list[bytes]:
        reads.append(task_id)
        return of_task(events, task_id)

    monkeypatch.setattr(SqliteEvents, "of_task", note)

    found.read(world.ledger, TEAM)
    world.add()
    found.read(world.ledger, TEAM)
    assert (reads.count(TOKENS), found.caller(made.text).member) == (0, "Fenster")

    tokens.revoke_token(world.ledger, TEAM.actor("owner"), made.token_id, "lost")
    reads.clear()
    found.read(world.ledger, TEAM)
    assert reads.count(TOKENS)
    assert refused_code(found, made.text) == "not_authenticated"

    reads.clear()
    monkeypatch.setattr(tokens, "COMPARE_SECONDS", 0.0)
    found.read(world.ledger, TEAM)
    assert reads.count(TOKENS), "a line may have been replaced"


def test_nobody_is_let_in_before_the_log_was_read() -> None:
    world = FakeLedger(rules=RULES)

    assert TokenLookup().is_due
    assert refused_code(TokenLookup(), create(world).text) == "not_authenticated"


def test_an_expired_token_is_refused() -> None:
    world = FakeLedger(rules=RULES)
    made = create(world)
    found = lookup(world)
    world.clock.advance(601)

    assert refused_code(found, made.text) == "not_authenticated"


def test_a_token_of_another_project_is_refused() -> None:
    here, there = FakeLedger(rules=RULES), FakeLedger(rules=RULES)

    assert refused_code(lookup(here), create(there).text) == "not_authenticated"


def test_a_token_counts_by_the_team_as_it_is_now() -> None:
    world = FakeLedger(rules=RULES)
    made = create(world, "Sam", role=TokenRole.REVIEWER)
    found = lookup(world)
    session = found.caller(made.text)

    found.read(world.ledger, Team((Member(name="Sam"), Member(name="owner", roles=(Role.USER,)))))

    assert refused_code(found, made.text) == "not_authenticated"
    for one in (session, Caller(member="Sam", role=TokenRole.REVIEWER)):
        with pytest.raises(Refused):
            found.current_caller(one)
    assert found.current_caller(Caller(member="owner", role=TokenRole.USER)).member == "owner"


@pytest.mark.parametrize("by", [actor("Fenster"), actor("owner", Role.USER, confined=True)])
def test_nobody_but_the_user_gives_tokens_out(by: Actor) -> None:
    world = FakeLedger(rules=RULES)

    with pytest.raises(Refused):
        tokens.create_token(world.ledger, RULES, by, member="Fenster", role=None, starts=(), expires_at=LATER)

    assert world.events() == []


def test_the_user_sees_all_tokens_and_a_member_its_own() -> None:
    world = FakeLedger(rules=RULES)
    own, _ = create(world), create(world, "box", role=TokenRole.WORKER)

    assert len(tokens.visible_tokens(world.ledger, THE_USER)) == 2
    assert [token.id for token in tokens.visible_tokens(world.ledger, actor("Fenster"))] == [own.token_id]
    assert tokens.visible_tokens(world.ledger, actor("box")) == []


def test_a_token_that_a_stranger_has_signed_is_none() -> None:
    stranger = FakeLedger(rules=RULES, keys=FakeKeys("a stranger"), session="20261115-090000-00000009")
    made = create(stranger)
    world = FakeLedger(rules=RULES)
    world.add()
    world.exchange.put("theirs.jsonl", stranger.exchange.all_lines())

    world.add()

    with world.store.read() as view:
        assert len(view.unconfirmed.every()) == 1
    assert refused_code(lookup(world), made.text) == "not_authenticated"


@pytest.fixture
def place(tmp_path: Path) -> Iterator[FakeLedger]:
    store = SqliteStore(tmp_path / "ledger.db")
    store.adopt(store.file_identity(), "20261115-090000-00000000", lambda _: None)
    yield FakeLedger(store=store, rules=RULES)
    store.close()


def edit(tmp_path: Path, statement: str, *values: object) -> None:
    with sqlite3.connect(tmp_path / "ledger.db") as connection:
        assert connection.execute(statement, values).rowcount > 0
    connection.close()


def test_a_row_that_no_signed_event_supports_is_no_token(place: FakeLedger, tmp_path: Path) -> None:
    made = create(place)
    text = token_text("TK-20261115-090000-0000000f", "s" * 43)
    ((line,),) = rows(tmp_path, "SELECT line FROM event")
    forged = line.replace(token_hash(made.text).encode(), token_hash(text).encode()).replace(
        made.token_id.encode(), b"TK-20261115-090000-0000000f"
    )

    edit(tmp_path, "UPDATE event SET line = ?", forged)
    place.reopen()

    for one in (text, made.text):
        assert refused_code(lookup(place), one) in ("not_authenticated", "lines_missing")


def test_a_revocation_that_was_taken_from_the_tables_still_holds(place: FakeLedger, tmp_path: Path) -> None:
    made, other = create(place), create(place, "Sam", role=TokenRole.AGENT)
    tokens.revoke_token(place.ledger, THE_USER, made.token_id, "")

    edit(tmp_path, "DELETE FROM event WHERE instr(line, CAST('token.revoke' AS BLOB))")
    place.reopen()

    assert refused_code(lookup(place), made.text) == "lines_missing"
    assert refused_code(lookup(place), other.text) == "lines_missing"


def rows(tmp_path: Path, statement: str) -> list[tuple[bytes, ...]]:
    connection = sqlite3.connect(tmp_path / "ledger.db")
    try:
        return connection.execute(statement).fetchall()
    finally:
        connection.close()


def test_tokens_are_part_of_the_digest() -> None:
    world = FakeLedger(rules=RULES)
    world.add()
    with world.store.read() as view:
        before = state_digest(view)[0]
    create(world)

    with world.store.read() as view:
        assert state_digest(view)[0] != before


def test_the_events_of_tokens_are_found_together() -> None:
    world = FakeLedger(rules=RULES)
    made = create(world)
    world.add()
    tokens.revoke_token(world.ledger, THE_USER, made.token_id, "")

    with world.store.read() as view:
        events = [codec.decode_stored_line(line) for line in view.events.of_task(TOKENS)]
    assert sorted(type(event).__name__ for event in events) == [TokenCreated.__name__, TokenRevoked.__name__]


def test_the_rules_hold_a_token_to_the_role_that_it_gives() -> None:
    """Sam is a lead as well, which a token for an agent does not make of them."""
    world = FakeLedger(rules=RULES)
    task = world.add()
    ask = c.LockOut(task_id=task, agent="Fenster", reason="It leaks")

    by_token = world.ledger.ask(Request(command=ask, actor="Sam", roles=(Role.AGENT,)))
    assert isinstance(by_token, Refused)
    assert by_token.code == "not_authorised"
    assert not isinstance(world.ledger.ask(Request(command=ask, actor="Sam", roles=(Role.LEAD,))), Refused)


def test_a_created_token_expires_in_the_future_alone() -> None:
    world = FakeLedger(rules=RULES)

    with pytest.raises(Refused):
        create(world, expires_at=NOW)

"""Holds that an event says how its actor was known, and that views tell whose name is only asserted."""

from msgspec.structs import replace

from remand.app.events.task_folds import SignedTasks, TaskSource
from remand.app.handler import RequestHandler, TeamLookups
from remand.app.history import task_history
from remand.app.history.task_history import submissions_under_review
from remand.app.requests import Acceptance, Request
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, Actor, Role
from remand.domain.events.event import KnownBy, Meta
from remand.domain.events.log import LinesImported
from remand.domain.events.reviews import Finding
from remand.ledger import codec
from remand.testing.builders import task_added
from tests.support.builders import FakeLedger

LEA = Actor(name="Lea", roles=frozenset({Role.LEAD}))


def through_socket(world: FakeLedger, ask: c.Command, by: str) -> Acceptance:
    answer = world.ledger.ask(Request(command=ask, actor=by, known_by=KnownBy.SOCKET))
    assert isinstance(answer, Acceptance)
    return answer


def test_whoever_only_says_its_name_is_known_by_its_word() -> None:
    world = FakeLedger()
    world.claim(world.add(), "Fenster")
    assert {event.meta.known_by for event in world.events()} == {"word"}


def test_an_agent_at_its_socket_is_known_by_it() -> None:
    world = FakeLedger()
    answer = through_socket(world, c.ClaimTask(agent="Fenster", task_id=world.add()), "Fenster")
    assert [event.meta.known_by for event in answer.events] == ["socket"]


def test_a_request_that_does_not_say_is_known_by_its_word() -> None:
    world = FakeLedger()
    request = Request(command=c.AddTask(title="x"), actor="user")
    answer = world.ledger.ask(request)
    assert isinstance(answer, Acceptance)
    assert [event.meta.known_by for event in answer.events] == ["word"]


def test_the_systems_own_events_and_a_forges_reviews_are_not_asserted() -> None:
    world = FakeLedger()
    task = world.add()
    world.claim(task)
    world.submit(task)
    world.ledger.ask_as(
        LEA,
        c.RejectReview(task_id=task, commit="work", findings=(Finding(text="no"),)),
        known_by=KnownBy.FORGE,
    )
    world.ledger.ask_as(
        THE_COORDINATOR, c.NoteReview(task_id=task, reviewer="Lea", source="forge:2", why="late")
    )
    by = {event.meta.actor: event.meta.known_by for event in world.events()}
    assert (by["Lea"], by["coordinator"]) == ("forge", "")


def test_what_the_user_imports_rests_on_their_word() -> None:
    world = FakeLedger()
    with world.store.write() as tx:
        source = TaskSource(tx, SignedTasks(), world.ledger.verifier(tx))
        teams = TeamLookups(tx, world.rules, world.ids, source)
        handler = RequestHandler(tx, world.rules, world.clock, world.repository, teams=teams)
        handler.record_events([LinesImported(file="x", sha256="0" * 64, count=0)], Actor(name="user"))
        handler.record_events([LinesImported(file="y", sha256="0" * 64, count=0)], THE_COORDINATOR)
        assert [entry.event.meta.known_by for entry in handler.entries] == ["word", ""]


def test_a_line_without_the_mark_is_written_as_before() -> None:
    event, line = codec.encode_event(
        replace(task_added(), ts="2026-11-15T09:00:00.000000Z"), Meta(id="", session="s", seq=1)
    )
    assert b"known_by" not in line
    assert codec.decode_line(line) == event
    marked, line = codec.encode_event(event, replace(event.meta, known_by="word"))
    assert b'"known_by":"word"' in line
    assert codec.decode_line(line) == marked


def test_a_way_of_knowing_that_a_later_version_adds_is_read() -> None:
    _, line = codec.encode_event(
        replace(task_added(), ts="2026-11-15T09:00:00.000000Z"),
        Meta(id="", session="s", seq=1, known_by="passkey"),
    )
    assert codec.decode_line(line).meta.known_by == "passkey"


def test_views_tell_whose_name_is_only_asserted() -> None:
    world = FakeLedger()
    task = world.add()
    through_socket(world, c.ClaimTask(agent="Fenster", task_id=task), "Fenster")
    world.submit(task, "Fenster")
    events = world.events()
    rows = task_history.event_rows(events)
    assert [(row["actor"], row["asserted"]) for row in rows if row["event"] == "task.claim"] == [
        ("Fenster", False)
    ]
    assert [(row["actor"], row["asserted"]) for row in rows if row["event"] == "task.submit"] == [
        ("Fenster", True)
    ]
    assert task_history.asserted_actors(events) == ("Fenster", "user")
    with world.store.read() as view:
        assert [entry.asserted for entry in submissions_under_review(view)] == [True]


def test_a_submission_through_a_socket_is_not_asserted() -> None:
    world = FakeLedger()
    task = world.add()
    world.claim(task)
    world.repository.add("work", "")
    through_socket(world, c.SubmitTask(task_id=task, agent="Alice", commit="work"), "Alice")
    with world.store.read() as view:
        assert [entry.asserted for entry in submissions_under_review(view)] == [False]


def test_where_the_user_alone_has_acted_nobody_is_called_asserted() -> None:
    world = FakeLedger()
    world.add()
    assert task_history.asserted_actors(world.events()) == ()


def test_an_old_event_says_nothing_of_it() -> None:
    event = replace(task_added(), meta=Meta(id="x", actor="Fenster"))
    assert task_history.asserted_actors([event]) == ()
    assert task_history.event_rows([event])[0]["asserted"] is False

from __future__ import annotations

import pytest

from remand.adapters.forges import client as module
from remand.adapters.forges.client import ForgeService, RestClient
from remand.adapters.forges.transport import ForgeReply
from remand.app.forge.ports import ForgeFault, ForgeFaultKind
from remand.domain.record import Record
from remand.testing.fakes import FakeClock
from tests.unit.adapters.forges.memory_transport import Notes, Table, reply

API = "https://forge.example.org/api"
LINKED = '<https://forge.example.org/api/things?page=2>; rel="next"'


class Thing(Record, kw_only=True):
    id: int
    text: str = ""


def rest_over(table: Table, memory: Notes | None = None) -> RestClient:
    notes = memory or Notes()
    headers = {"authorization": "token secret"}
    service = ForgeService("Forge", API, "secret", "FORGE_TOKEN", headers, "limit", 2)
    return RestClient(service, FakeClock(), notes, table)


def things(*ids: int) -> list[dict[str, int]]:
    return [{"id": number} for number in ids]


def listed(*pages: ForgeReply) -> list[int]:
    rest = rest_over(Table({"GET /api/things": list(pages)}))
    return [thing.id for thing in rest.list_all("/things", Thing)]


def test_a_list_is_read_along_its_links_to_the_last_page() -> None:
    assert listed(reply(things(1, 2), link=LINKED), reply(things(3), link="")) == [1, 2, 3]


def test_a_list_is_read_until_the_page_that_names_no_next() -> None:
    assert listed(reply(things(1, 2), x_next_page="2"), reply(things(3), x_next_page="")) == [1, 2, 3]


def test_a_list_without_links_is_read_until_its_total() -> None:
    total = {"x_total_count": "3"}
    assert listed(reply(things(1, 2), **total), reply(things(3), **total)) == [1, 2, 3]


def test_a_total_that_counts_what_is_hidden_ends_with_an_empty_page() -> None:
    total = {"x_total_count": "9"}
    assert listed(reply(things(1, 2), **total), reply(things(3), **total), reply([], **total)) == [1, 2, 3]


def test_a_list_that_says_nothing_of_pages_is_whole() -> None:
    assert listed(reply(things(1, 2)), reply(things(3))) == [1, 2]


def test_what_a_growing_list_tells_twice_is_taken_once() -> None:
    assert listed(reply(things(1, 2), link=LINKED), reply(things(2, 3), link="")) == [1, 2, 3]


def test_a_list_that_tells_the_same_page_for_ever_is_a_fault() -> None:
    with pytest.raises(ForgeFault, match="again and again"):
        listed(reply(things(1, 2), link=LINKED))


def test_a_list_without_an_end_is_a_fault() -> None:
    pages = [reply(things(number), link=LINKED) for number in range(module.MAX_PAGES + 1)]
    with pytest.raises(ForgeFault, match="more than 200 pages"):
        listed(*pages)


def test_a_list_that_is_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_LISTED", 100)
    with pytest.raises(ForgeFault) as raised:
        listed(reply([{"id": 1, "text": "x" * 200}]))
    assert raised.value.kind is ForgeFaultKind.GARBLED


def test_a_page_of_another_shape_is_a_fault_and_no_empty_list() -> None:
    for body in ({"id": 1}, [{"text": "no id"}], None, "text"):
        with pytest.raises(ForgeFault) as raised:
            listed(reply(body))
        assert raised.value.kind is ForgeFaultKind.GARBLED


def test_what_did_not_change_is_taken_from_memory() -> None:
    table, memory = Table(), Notes()
    rest = rest_over(table, memory)
    table.answers["GET /api/things"] = reply(things(1), etag='W/"a"')
    first = rest.fetch("/things")
    table.answers["GET /api/things"] = ForgeReply(304, {}, b"")
    second = rest_over(table, memory).fetch("/things")

    assert table.asked[-1].headers["if-none-match"] == 'W/"a"'
    assert second.body == first.body


def test_an_answer_without_a_validator_is_not_remembered() -> None:
    table, memory = Table({"GET /api/things": reply(things(1))}), Notes()
    rest_over(table, memory).fetch("/things")

    assert memory.kept == {}


def test_every_request_carries_the_token_and_no_message_does() -> None:
    table = Table({"GET /api/things": reply({"message": "token secret is bad"}, 401)})
    with pytest.raises(ForgeFault) as raised:
        rest_over(table).get("/things", Thing)

    assert table.asked[0].headers["authorization"] == "token secret"
    assert "secret" not in str(raised.value)
    assert "FORGE_TOKEN" in str(raised.value)

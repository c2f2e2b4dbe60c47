"""Pages tell strangers nothing, keep no other page waiting, and take no text of others for their own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.errors import EnvironmentFault
from remand.domain.access.tokens import Caller, TokenRole
from remand.interfaces.http.authentication import (
    AccessOptions,
    Authenticator,
    RequestFacts,
    read_cookie,
)
from remand.interfaces.http.calls import CallRunner
from remand.interfaces.http.log_in import log_in_routes
from remand.interfaces.http.pages import live, site
from remand.interfaces.http.pages.live import LiveUpdates, event_text
from remand.interfaces.http.pages.page import PageAddress
from remand.interfaces.http.pages.site import Site, _personal
from remand.interfaces.http.problems import HttpProblem
from tests.unit.interfaces.http.test_calls import NoLedger
from tests.unit.interfaces.http.test_routes import DETAIL, ask

USER = Caller(member="owner", role=TokenRole.USER)


class _Users(Authenticator):
    async def caller(self, facts: RequestFacts) -> Caller:
        return USER


async def ledger_is_away(_look: Callable[[Any], None]) -> None:
    raise EnvironmentFault(DETAIL)


def routes(authenticator: Authenticator) -> dict[str, Any]:
    context: Any = SimpleNamespace(authenticator=authenticator, is_ending=lambda: True)
    return {path: route for route in Site(context).routes() for path in route.paths}


@pytest.mark.parametrize("path", ["/", "/live"])
def test_a_stranger_learns_nothing_of_the_machine_by_a_page(path: str) -> None:
    shown = {"authorization": "Bearer rmd_x"}
    status, body = ask(routes(Authenticator(ledger_is_away))[path], shown, path)

    assert (status, b"ledger.sqlite" in body, b"Its log says why" in body) == (503, False, True)


def test_other_cookies_whatever_they_hold_keep_nobody_from_being_known() -> None:
    for others in ('a={"x":1, "y":"z w"}; {}', "alone; {}", "é=1; path=/; {}", "=;; {}", "{}; a b=c"):
        headers = {"cookie": others.replace("{}", "remand_443_session=own")}
        assert read_cookie(headers, "remand_443_session") == "own", others
    assert read_cookie({"cookie": "xremand_443_session=1"}, "remand_443_session") == ""


def test_nothing_that_others_wrote_ends_a_line_of_a_stream() -> None:
    assert event_text("a", "1\r2\r\n3\n4") == b"event: a\ndata: 1\ndata: 2\ndata: 3\ndata: 4\n\n"


def test_no_text_of_others_is_taken_for_what_a_session_has_of_its_own() -> None:
    assert "secret" not in _personal("A task called ~csrf~ ~key~", "secret")


def test_a_page_that_stays_as_it_is_has_no_stream() -> None:
    route, sent = routes(_Users(ledger_is_away))["/live"], list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    for page in ("gates/x", "tasks/T-1/whole.txt", "settings/patch"):
        scope = {
            "type": "http",
            "method": "GET",
            "headers": [],
            "query_string": b"page=/" + page.encode(),
        }
        asyncio.run(asyncio.wait_for(route.fn(scope, None, send), 20))
        assert sent.pop(0)["status"] == 404
        sent.clear()


def test_a_page_that_cannot_be_shown_keeps_no_other_from_its_news(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.001)
    marks = iter(range(10**9))

    async def read_mark() -> str:
        return str(next(marks))

    async def fail(_: str) -> dict[str, str]:
        raise KeyError("something that nobody foresaw")

    async def show(_: str) -> dict[str, str]:
        return {"live_x": str(next(marks)), live.NOTE: "x"}

    async def run() -> None:
        updates = LiveUpdates(read_mark, lambda: False)
        bad, good = updates.changes("bad", fail, ""), updates.changes("good", show, "")
        assert await anext(bad) == {}
        seen = {(await asyncio.wait_for(anext(good), 20))["live_x"] for _ in range(3)}
        assert len(seen) == 3
        await bad.aclose()  # type: ignore[attr-defined]
        await good.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_change_between_reading_the_mark_and_rendering_reaches_the_open_page(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.001)
    ledger = ["first"]

    async def read_mark() -> str:
        return str(len(ledger))

    async def show(_: str) -> dict[str, str]:
        if len(ledger) == 1:
            ledger.append("second")
        return {"live_x": ledger[-1], live.NOTE: ledger[-1]}

    async def run() -> None:
        updates = LiveUpdates(read_mark, lambda: False)
        stream = updates.changes("page", show, since="1")
        news = await asyncio.wait_for(anext(stream), 20)
        assert news["live_x"] == "second"
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_page_that_is_rendered_slowly_does_not_undo_a_later_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.001)
    ledger, changed = ["first"], asyncio.Event()

    async def read_mark() -> str:
        return str(len(ledger))

    async def show(_: str) -> dict[str, str]:
        text = ledger[-1]
        if not changed.is_set():
            ledger.append("second")
            changed.set()
            await asyncio.sleep(0.2)
        return {"live_x": text, live.NOTE: text}

    async def run() -> None:
        updates = LiveUpdates(read_mark, lambda: False)
        stream = updates.changes("page", show, since="")
        seen = ""
        while seen != "second":
            seen = (await asyncio.wait_for(anext(stream), 20)).get("live_x", seen)
        await asyncio.sleep(0.4)  # the slow rendering has ended
        late = updates.changes("page", show, since="")
        assert (await anext(late))["live_x"] == "second"
        await late.aclose()  # type: ignore[attr-defined]
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_page_that_could_not_be_rendered_once_is_rendered_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(live, "RETRY_SECONDS", 0.001)
    faults = [OSError("the database is away")]

    async def show(_: str) -> dict[str, str]:
        if faults:
            raise faults.pop()
        return {"live_x": "there", live.NOTE: "there"}

    async def run() -> None:
        updates = LiveUpdates(lambda: asyncio.sleep(0, "1"), lambda: False)
        stream = updates.changes("page", show, since="")
        assert await anext(stream) == {}
        assert (await asyncio.wait_for(anext(stream), 20))["live_x"] == "there"
        await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_member_has_so_many_different_pages_open() -> None:
    async def nothing(_: str) -> Any:
        return {}

    async def run() -> None:
        updates = LiveUpdates(lambda: asyncio.sleep(0, ""), lambda: False)
        streams = [updates.changes(("agent", number), nothing, "") for number in range(live.MAX_PAGES_EACH)]
        for stream in streams:
            updates.require_room(lambda key: key[0] == "agent")  # type: ignore[index]
            await anext(stream)
        with pytest.raises(HttpProblem):
            updates.require_room(lambda key: key[0] == "agent")  # type: ignore[index]
        updates.require_room(lambda key: key[0] == "owner")  # type: ignore[index]
        for stream in streams:
            await stream.aclose()  # type: ignore[attr-defined]

    asyncio.run(run())


def test_a_page_is_made_where_it_keeps_neither_requests_nor_the_ledger_waiting() -> None:
    async def run() -> None:
        runner = CallRunner(NoLedger())
        try:
            made = await runner.read(
                lambda *_: "read", USER, lambda view: (view, threading.get_ident()), is_long=True
            )
        finally:
            await asyncio.to_thread(runner.close)
        assert made[0] == "read"
        assert made[1] != threading.get_ident()

    asyncio.run(run())


def test_a_page_of_a_server_that_was_started_again_says_what_to_do() -> None:
    access = Authenticator(ledger_is_away, AccessOptions(own_names=("remand-new.localhost:8787",)))
    status, body = ask(routes(access)["/board"], {"host": "remand-old.localhost:8787"}, "/board")

    assert (status, b"open the link" in body, b"<html" in body) == (421, True, True)


def test_who_logs_in_while_the_ledger_is_away_gets_a_page() -> None:
    context: Any = SimpleNamespace(authenticator=Authenticator(ledger_is_away), is_ending=lambda: True)
    site = Site(context)
    found = {path: route for route in log_in_routes(context, site.log_in_page) for path in route.paths}
    status, body = ask(found["/login/token"], {"host": "remand.example"}, "/login/token", b"token=rmd_x")

    assert (status, b"<form" in body, b"ledger.sqlite" in body) == (503, True, False)


def test_what_a_stream_says_of_a_page_is_text_whoever_wrote_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(site, "render_fragments", lambda *_: {"live_x": "x"})
    view = SimpleNamespace(summary="Task <p hx-post='/do/unlock' hx-trigger='load'> was added")

    class Runner:
        async def read(
            self, _read: Any, _caller: Caller, show: Callable[[Any], Any], *, is_long: bool
        ) -> Any:
            return show((view, 0))

        async def read_ledger(self, _read: Any) -> str:
            return "mark"

    async def run() -> bytes:
        context: Any = SimpleNamespace(
            authenticator=_Users(ledger_is_away), is_ending=lambda: False, runner=Runner()
        )
        visit = site.Visit(USER, "", RequestFacts({}), "")
        parts = Site(context)._stream_parts(site.PAGES[0], PageAddress("/"), visit, "")
        found = await anext(parts)
        await parts.aclose()  # type: ignore[attr-defined]
        return found

    said = asyncio.run(run())
    assert b"event: note" in said
    assert b"&lt;p hx-post" in said
    assert b"<p" not in said

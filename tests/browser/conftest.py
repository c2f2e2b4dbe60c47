"""One browser and one server for all tests of the pages."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect, sync_playwright

from tests.browser.team_at_work import TeamAtWork
from tests.integration.http_client import RunningServer
from tests.integration.machine import Machine

CHROMIUM = Path("/usr/bin/chromium")
FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"),
    *("--disable-component-update", "--disable-sync"),
)
PATIENCE_MS = 180_000


class Place(NamedTuple):
    """A team's server, and how a browser that is logged in starts there."""

    team: TeamAtWork
    server: RunningServer
    origin: str
    state: str
    """The file with the browser's cookies."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """Ends with the tests that use it: Playwright keeps an event loop running in its thread, in which no other can run."""
    if not CHROMIUM.exists():
        pytest.skip("needs Debian's chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS, timeout=PATIENCE_MS)
        yield made
        made.close()


@pytest.fixture(scope="module")
def place(browser: Browser) -> Iterator[Place]:
    with open_place(browser) as made:
        yield made


@contextmanager
def open_place(browser: Browser, *, is_harmless: bool = False) -> Iterator[Place]:
    """A team's server for as long as it is used."""
    machine = Machine(is_near=True)
    with pytest.MonkeyPatch.context() as patch:
        for name, value in machine.environment.items():
            patch.setenv(name, value)
        team = TeamAtWork(machine, is_harmless=is_harmless)
        server = RunningServer(team.repository)
        link, state = server.address["login_url"], str(machine.folder / "cookies.json")
        parts = urlsplit(link)
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(link)
        page.wait_for_selector("h1")
        context.storage_state(path=state)
        context.close()
        yield Place(team, server, f"{parts.scheme}://{parts.netloc}", state)
        server.stop()
    machine.close()


class Reader:
    """Somebody with a browser; what went wrong in it fails the test."""

    def __init__(self, place: Place, context: BrowserContext) -> None:
        self.place, self.context = place, context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(PATIENCE_MS)
        self.faults: list[str] = []
        self.page.on("console", self._note_message)
        self.page.on("pageerror", lambda error: self.faults.append(str(error)))
        self.page.on("request", self._note_request)

    def _note_message(self, message: object) -> None:
        text = getattr(message, "text", "")
        # A refusal is a page with a status of its own, which the browser calls a failure.
        if getattr(message, "type", "") in ("error", "warning") and "the server responded with" not in text:
            self.faults.append(text)

    def _note_request(self, request: object) -> None:
        url = str(getattr(request, "url", ""))
        if not url.startswith((self.place.origin, "data:")):
            self.faults.append(f"asked {url}")

    def open(self, path: str) -> Page:
        self.page.goto(f"{self.place.origin}{path}")
        return self.page


@pytest.fixture
def reader(browser: Browser, place: Place) -> Iterator[Reader]:
    context = browser.new_context(storage_state=place.state)
    made = Reader(place, context)
    yield made
    context.close()
    assert not made.faults

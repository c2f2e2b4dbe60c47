"""The pictures of the pages in README and the documentation: `make screenshots` makes them anew."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from tests.browser.conftest import Reader, open_place

FOLDER = os.environ.get("REMAND_SCREENSHOTS", "")
"""Where the pictures are kept; empty: nowhere."""
PICTURES = {"inbox": "/", "board": "/board", "task": "/tasks/{deadlock}", "gates": "/gates"}


@pytest.mark.more
def test_the_pictures_of_the_documentation_are_made_from_pages(browser: Browser, tmp_path: Path) -> None:
    with open_place(browser, is_harmless=True) as place:
        context = browser.new_context(
            storage_state=place.state, color_scheme="light", viewport={"width": 1280, "height": 800}
        )
        reader = Reader(place, context)
        for name, path in PICTURES.items():
            page = reader.open(path.format(**place.team.tasks))
            expect(page.locator("h1")).to_have_count(1)
            page.screenshot(path=Path(FOLDER or tmp_path) / f"{name}.png")
        assert not reader.faults
        context.close()

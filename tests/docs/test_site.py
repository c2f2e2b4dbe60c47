"""The documentation site: every page has its place, it is built without a warning, and every link leads somewhere."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from html.parser import HTMLParser
from pathlib import Path
from shutil import copy, copytree
from typing import Any
from urllib.parse import unquote, urldefrag, urlsplit

ROOT = Path(__file__).parents[2]
SETTINGS = ROOT / "zensical.toml"


def named_pages(entries: Any) -> list[str]:
    """The files that the navigation names."""
    if isinstance(entries, str):
        return [entries]
    values = entries if isinstance(entries, list) else entries.values()
    return [page for value in values for page in named_pages(value)]


def test_every_page_is_in_the_navigation_once() -> None:
    named = named_pages(tomllib.loads(SETTINGS.read_text(encoding="utf-8"))["project"]["nav"])
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs").glob("*.md"))


class Links(HTMLParser):
    """The addresses that a page links to or loads, and the places in it that others can link to."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.places: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        self.places.add(found.get("id", ""))
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        elif tag in ("script", "img", "iframe") and found.get("src"):
            self.loaded.append(found["src"])
        elif tag == "link" and found.get("rel") != "canonical":
            self.loaded.append(found.get("href", ""))


def test_the_site_is_built_without_a_warning_and_its_links_lead_somewhere(tmp_path: Path) -> None:
    built = tmp_path / "build" / "site"
    settings = tmp_path / "zensical.toml"
    copy(SETTINGS, settings)
    copytree(ROOT / "docs", tmp_path / "docs")
    program = Path(sys.executable).with_name("zensical")
    done = subprocess.run(
        [program, "build", "--strict", "--config-file", settings],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout + done.stderr

    pages = {path: Links(path.read_text(encoding="utf-8")) for path in built.rglob("*.html")}
    assert len(pages) > 40
    wrong = []
    for path, page in pages.items():
        wrong += [f"{path.name} loads {address}" for address in page.loaded if urlsplit(address).netloc]
        for link in page.links:
            target, place = urldefrag(link)
            if urlsplit(link).scheme or path.name == "404.html":
                continue
            file = (path.parent / unquote(target)).resolve() if target else path
            file = file / "index.html" if file.is_dir() else file
            if not file.exists():
                wrong.append(f"{path.relative_to(built)}: {link}")
            elif place and file in pages and unquote(place) not in pages[file].places:
                wrong.append(f"{path.relative_to(built)}: {link} has no such place")
    assert wrong == []

"""Whatever takes long says how far it is: reading, checking and rebuilding the log, and a round on the forge."""

from __future__ import annotations

from collections.abc import Iterator
from io import StringIO

import pytest

from remand.adapters.stores.sqlite import SqliteStore
from remand.domain.forge import ReviewState
from remand.interfaces.cli import main
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.output import ProgressLines
from remand.interfaces.cli.registry import parse_call
from tests.integration.forge_reviews import DIALECTS, Scene, forge_scene
from tests.integration.machine import Machine, Repository


@pytest.fixture
def noted(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What was said of how far something has come."""
    texts: list[str] = []
    monkeypatch.setattr(SqliteStore, "note_progress", lambda _, text: texts.append(text))
    return texts


@pytest.fixture
def scene(near_machine: Machine) -> Iterator[Scene]:
    with forge_scene(near_machine, DIALECTS["github"]) as made:
        yield made


def test_the_log_is_checked_rebuilt_and_imported_with_progress(
    near_machine: Machine, noted: list[str]
) -> None:
    repository = near_machine.repository()
    for number in range(3):
        repository.add(f"Task {number}")
    noted.clear()

    repository.ok("log", "verify")
    assert "checking signatures" in noted
    assert "checking events, 0" in noted
    assert f"checking {repository.segments()[0].name}" in noted

    other = near_machine.repository("other")
    noted.clear()
    other.ok("log", "import", str(repository.path))
    assert f"reading {repository.segments()[0].name}, 1 of 1" in noted


def test_a_round_on_the_forge_says_which_pull_request_it_is_at(scene: Scene, noted: list[str]) -> None:
    _, pull = scene.handed_in()
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "Please mend")
    noted.clear()
    scene.poll()

    assert noted[0] == "asking the forge what has changed"
    assert any(text.endswith("1 of 1") and text.startswith("pull request #") for text in noted)


class Terminal(StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("words", "stream", "is_watched"),
    [
        (["log", "verify"], StringIO, True),
        (["log", "verify", "--json"], StringIO, False),
        (["log", "verify", "--json"], Terminal, True),
        (["sync"], StringIO, True),
        (["handoff", "reject", "H-1"], StringIO, False),
        (["handoff", "reject", "H-1"], Terminal, True),
        (["handoff", "reject", "H-1", "--from", "-"], Terminal, False),
        (["task", "list"], Terminal, False),
        (["run"], Terminal, False),
        (["top"], Terminal, False),
    ],
)
def test_who_waits_is_shown_that_a_long_call_goes_on(
    words: list[str], stream: type[StringIO], is_watched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched: list[str] = []
    monkeypatch.setattr(ProgressLines, "watch", lambda _, text: watched.append(text))
    with main._show_progress(parse_call(words), CallOrigin("/", {}, StringIO(), stream())):
        pass

    assert bool(watched) is is_watched


def test_a_lock_that_others_wait_for_is_only_touched_by_whoever_holds_it(repository: Repository) -> None:
    repository.add()
    lock = repository.path / ".got" / "ledger.lock"
    before = lock.stat().st_mtime_ns
    store = SqliteStore(str(repository.ledger))
    store.note_progress("reading")
    assert lock.stat().st_mtime_ns == before
    with store.write():
        store.note_progress("writing")
    assert lock.stat().st_mtime_ns > before
    store.close()


def test_a_sync_without_a_forge_shows_the_lines_to_add(near_machine: Machine) -> None:
    said = near_machine.repository().people("sync")

    assert said.code == 3
    assert '    [forge]\n    kind = "github"' in said.out
    assert '    repository = "owner/name"\n' in said.out
    assert "Nothing is lost" not in said.out

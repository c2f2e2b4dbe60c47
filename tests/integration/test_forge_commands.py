"""`remand sync` as its users meet it: it always says what came of it, what is wrong, and what to do about it."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from remand.config.services import TOKENS
from remand.domain.forge import ReviewState
from tests.integration.forge_reviews import CONFIG, DIALECTS, Scene, forge_scene
from tests.integration.machine import Machine, Repository
from tests.support.forge.server import Fault
from tests.support.forge.state import TOKEN

KEYS = {"polled", "requests", "not_modified", "rejections", "approvals"}
NOWHERE = "http://127.0.0.1:9"


@pytest.fixture(params=["github", "gitea", "gitlab"])
def scene(near_machine: Machine, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with forge_scene(near_machine, DIALECTS[request.param]) as made:
        yield made


@pytest.fixture
def bare(near_machine: Machine, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """A machine without tokens, and with no other program than git."""
    programs = near_machine.home / "programs"
    programs.mkdir()
    (programs / "git").symlink_to(shutil.which("git") or "git")
    for name in TOKENS.values():
        monkeypatch.delenv(name, raising=False)
        near_machine.environment.pop(name, None)
    monkeypatch.setenv("PATH", str(programs))
    near_machine.environment["PATH"] = str(programs)
    return near_machine


def synced(repository: Repository, code: int) -> Any:
    """What a poll answered: every promised key, and what is wrong where something is."""
    said = repository.call("sync")
    assert (said.code, KEYS - said.data.keys()) == (code, set())
    if code:
        assert said.data["error"] == "environment"
        assert said.data["message"] == said.data["trouble"]
    people = repository.people("sync")
    assert people.code == code
    assert said.data["trouble"] in people.out, people
    assert "Traceback" not in people.out + people.err
    return said.data


class TestWithoutAWay:
    def test_without_a_forge_it_says_what_to_write_down(self, bare: Machine) -> None:
        assert "[forge]\n" in synced(bare.repository(), 3)["message"]

    @pytest.mark.parametrize("kind", TOKENS)
    def test_without_a_token_it_says_which_to_set(self, bare: Machine, kind: str) -> None:
        config = CONFIG.format(kind=kind, api=NOWHERE, report="[]")
        message = synced(bare.repository(config=config), 3)["message"]

        assert f"Set {TOKENS[kind]}" in message
        assert ("gh auth login" in message) == (kind == "github")


class TestTrouble:
    @pytest.fixture(autouse=True)
    def _token(self, scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv(TOKENS[scene.kind], TOKEN)

    def test_all_is_well(self, scene: Scene) -> None:
        task, pull = scene.handed_in()
        nothing = synced(scene.repository, 0)
        scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
        found = scene.repository.ok("sync")

        assert (nothing["polled"], nothing["rejections"], nothing["waits"]) == (1, 0, [])
        assert (found["rejections"], scene.shown(task)["status"]) == (1, "rejected")

    def test_a_token_that_is_not_taken_is_said_without_showing_it(
        self, scene: Scene, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        scene.handed_in()
        monkeypatch.setenv(TOKENS[scene.kind], "wrong-and-secret")
        found = synced(scene.repository, 3)

        assert f"Set {TOKENS[scene.kind]} to one that is valid" in found["message"]
        assert "wrong-and-secret" not in str(found)

    def test_a_forge_that_is_away_is_said_and_the_task_says_what_it_waits_for(self, scene: Scene) -> None:
        task, _ = scene.handed_in()
        scene.server.faults.add(Fault(is_cut=True, times=99))
        found = synced(scene.repository, 3)
        shown, (row,) = scene.shown(task), scene.repository.ok("review", "list")
        people = scene.repository.people("task", "show", task).out
        scene.server.faults.clear()
        synced(scene.repository, 0)

        assert shown["waits_for_forge"] == row["waits_for_forge"] == found["waits"][0]["text"]
        assert (shown["waits_for_forge"].startswith("the forge: "), "the forge: " in people) == (True, True)
        assert scene.shown(task)["waits_for_forge"] is None

    def test_a_rate_limit_says_until_when_and_asks_nothing_before(self, scene: Scene) -> None:
        scene.handed_in()
        scene.server.faults.add(Fault(status=429, headers={"retry-after": "600"}, body=b"{}"))
        found = synced(scene.repository, 3)
        asked = len(scene.server.requests)
        again = synced(scene.repository, 3)

        assert found["until"]
        assert f"retries at {found['until']}" in found["message"]
        assert (again["until"], again["requests"], len(scene.server.requests)) == (found["until"], 0, asked)

    def test_a_pull_request_that_is_gone_is_said(self, scene: Scene) -> None:
        task, pull = scene.handed_in()
        del scene.state.pulls[pull.number]
        found = synced(scene.repository, 0)

        (waits,) = found["waits"]
        assert (waits["task_id"], f"#{pull.number}" in waits["text"]) == (task, True)
        assert scene.shown(task)["waits_for_forge"] == waits["text"]

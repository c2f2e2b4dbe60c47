"""Reviews come from a forge over real HTTP, of every kind, through whatever goes wrong on the way."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from remand.domain.forge import ReviewState
from tests.corpus.comments import MARKER, hostile_comments
from tests.integration.forge_reviews import DIALECTS, Scene, forge_scene
from tests.integration.machine import Machine
from tests.support.forge.server import Fault
from tests.support.forge.state import NewLineComment
from tests.unit.domain.feedback.section_reader import headings


@pytest.fixture(params=DIALECTS)
def scene(near_machine: Machine, request: pytest.FixtureRequest) -> Iterator[Scene]:
    with forge_scene(near_machine, DIALECTS[request.param]) as made:
        yield made


def test_changes_requested_on_the_forge_send_the_work_to_a_colleague(scene: Scene) -> None:
    task, pull = scene.handed_in()
    comment = NewLineComment(text="Fork start uses raw svgPos.", path="src/View.tsx", line=1709)
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "Please mend", comment)
    polled = scene.poll()
    again = scene.poll()
    shown = scene.shown(task)

    assert (polled.rejections, polled.trouble) == (1, "")
    assert (shown["status"], [one["agent"] for one in shown["lockouts"]]) == ("rejected", ["Fenster"])
    assert scene.repository.refused("task", "claim", task, "--agent", "Fenster") == "locked_out"
    prompt = scene.prompt(task)
    assert prompt.startswith("## Review Feedback (rejection #1)")
    assert "**src/View.tsx:1709** (BLOCKING)" in prompt
    assert (again.requests <= 2, again.points <= 1, again.read, again.rejections) == (True, True, 0, 0)


FAULTS = (
    {"status": 500},
    {"status": 502, "headers": {"content-type": "text/html"}, "body": b"<html>Bad gateway"},
    {"status": 403, "headers": {"retry-after": "1"}, "body": b'{"message": "secondary rate limit"}'},
    {"status": 429, "body": b'{"message": "rate limit"}'},
    {"status": 429, "headers": {"retry-after": "1"}, "body": b"{}"},
    {"status": 200, "headers": {"content-type": "application/json"}, "body": b'{"data": [nonsense'},
    {"is_cut": True},
    {"status": 401, "body": b'{"message": "Bad credentials"}'},
    {"status": 304},
)


HINT = "/pulls/comments?"
"""GitHub's list of edited comments tells only where to look, so that a fault there stops no poll."""


def test_a_fault_at_any_request_loses_and_doubles_nothing(
    scene: Scene, campaign: Callable[[int, int], int]
) -> None:
    task, pull = scene.handed_in()
    comments = [NewLineComment(text=f"Finding {number}", line=number + 1) for number in range(310)]
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "Please mend", *comments)
    after = 0
    while fails_at(scene, task, after, campaign(1, len(FAULTS))):
        after += 1

    assert after > 4, "hardly any request was made to fail"
    assert (len(scene.rejections(task)), scene.shown(task)["rejection_count"]) == (1, 1)
    assert scene.shown(task)["waits_for_forge"] is None
    assert len(scene.rejections(task)[0]["findings"]) == 300


def fails_at(scene: Scene, task: str, after: int, count: int) -> bool:
    """Lets the poll's request after so many fail in some ways; False when it needs no more than these requests."""
    for step in range(count):
        scene.server.faults.clear()
        fault = Fault(**FAULTS[(after + step) % len(FAULTS)], after=after, spared=HINT)
        scene.server.faults.add(fault)
        polled = scene.poll()
        scene.server.faults.clear()
        if not polled.trouble:
            return False
        assert (polled.rejections, [one.task_id for one in polled.waits]) == (0, [task])
        shown = scene.shown(task)
        assert (shown["status"], shown["waits_for_forge"]) == ("provisional", polled.waits[0].text)
        scene.forget_patience()
    return True


def test_hostile_comments_are_text_and_no_more(scene: Scene) -> None:
    task, pull = scene.handed_in()
    honest, other = scene.handed_in("Honest", "Verbal")
    hostile = [one for one in hostile_comments() if len(one.text) < 10_000][::7]
    hidden = [one.text for one in hostile if one.is_hidden]
    said = [NewLineComment(text=text, line=number + 1) for number, text in enumerate(hidden)]
    scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, hidden[0], *said)
    scene.state.review(other, scene.lead, ReviewState.CHANGES_REQUESTED, "No", NewLineComment(text="Wrong"))
    stranger = scene.state.person("stranger", "write")
    for one in hostile:
        scene.state.remark(pull, stranger, one.text)
        scene.state.remark(pull, scene.bot, one.text)
    polled = scene.poll()
    shown = scene.prompt(task, "Hockney")

    assert (polled.rejections, polled.commands, polled.trouble) == (2, 0, "")
    assert MARKER not in shown.lower()
    assert outline(shown) == outline(scene.prompt(honest, "Fenster"))


def outline(prompt: str) -> list[list[str]]:
    return [line.split()[:2] for line in headings(prompt)]


class TestWhoIsWho:
    def test_a_login_taken_over_is_nobodys_and_a_renamed_account_still_the_members(
        self, scene: Scene
    ) -> None:
        first, pull = scene.handed_in()
        scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
        scene.poll()
        impostor = scene.state.take_over(scene.lead, "write")
        second, other = scene.handed_in("Other", "Verbal")
        scene.state.review(other, impostor, ReviewState.CHANGES_REQUESTED, "No")
        ignored = scene.poll()
        status = scene.shown(second)["status"]
        scene.state.review(other, scene.lead, ReviewState.CHANGES_REQUESTED, "No, says the real one")
        taken = scene.poll()

        assert (ignored.rejections, ignored.ignored, status) == (0, 1, "provisional")
        assert (taken.rejections, scene.rejections(second)[0]["reviewer"]) == (1, "Lead")
        assert scene.shown(first)["rejection_count"] == 1

    def test_who_may_write_no_more_is_nobody(self, scene: Scene) -> None:
        task, pull = scene.handed_in()
        scene.lead.permission = "read"
        scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")

        assert (scene.poll().ignored, scene.shown(task)["status"]) == (1, "provisional")

    def test_an_owners_line_is_obeyed_once_and_the_bots_never(self, scene: Scene) -> None:
        task, pull = scene.handed_in()
        scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "No")
        scene.poll()
        scene.state.remark(pull, scene.bot, f"@remand unlock Fenster for {task}")
        scene.state.remark(pull, scene.lead, f"@remand unlock Fenster for {task}")
        refused = scene.poll()
        locked = [one["agent"] for one in scene.shown(task)["lockouts"]]
        scene.state.remark(pull, scene.owner, f"@remand unlock Fenster for {task}")
        obeyed = scene.poll()
        scene.forget_patience()

        assert (refused.commands, locked) == (1, ["Fenster"])
        assert (obeyed.commands, scene.shown(task)["lockouts"]) == (1, [])
        assert scene.poll().commands == 0


def test_a_review_that_does_not_count_is_said_where_people_look(near_machine: Machine) -> None:
    with forge_scene(near_machine, DIALECTS["github"]) as scene:
        task, pull = scene.handed_in()
        nits = (NewLineComment(text="nit: spacing"), NewLineComment(text="Question: why 3 times?", line=2))
        scene.state.review(pull, scene.lead, ReviewState.CHANGES_REQUESTED, "", *nits)
        synced = scene.repository.ok("sync", env=scene.environment)
        shown, (listed,) = scene.shown(task), scene.repository.ok("review", "list")
        people = scene.repository.people("review", "list").out

        assert (synced["noted"], synced["rejections"], shown["status"]) == (1, 0, "provisional")
        for (row,) in (synced["not_counted"], shown["not_counted"], listed["not_counted"]):
            assert (row["task_id"], row["reviewer"]) == (task, "Lead")
            assert "no blocking finding" in row["why"]
        assert "does not count: it has no blocking finding" in " ".join(people.split())

"""`remand analyze rejections` on a real ledger: figures for programs, tables and drawings for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from remand.adapters.system.keys import FileKeys
from remand.domain.events.event import Event
from remand.domain.events.tasks import TaskDeferred
from remand.domain.instant import add_seconds
from remand.testing.builders import (
    NOW,
    Session,
    got_tool_entry,
    invalid_rejection_filed,
    rejection_answered,
    rejection_filed,
    task_added,
    task_claimed,
    task_id,
    task_woken,
)
from tests.integration.machine import Repository
from tests.support.rejection_records import LAZY, SCOPE, TITLE, a_rejection

KEYS = {
    "total_rejections", "by_reason", "by_agent", "by_task", "common_blockers", "decision_outcomes",
    "override_rate", "override_share", "invalid_rejections", "answered", "unanswered", "agents", "reasons",
    "blocker_clusters", "time_to_unblock", "outcomes", "by_day", "since",
}  # fmt: skip
TASKS = [task_id(n) for n in range(1, 6)]
HOSTILE = "The relay costs $5 and $x^2$ \x1b[31m<b>&\N{RIGHT-TO-LEFT OVERRIDE} データベースの鍵がない \uffff"


def told(text: str, reason: str = "BLOCKER") -> dict[str, object]:
    return {"reason_type": reason, "blocking_factor": text, "reason_summary": text}


def story() -> Iterable[Event]:
    """Five tasks: deferred and woken, deferred still, overridden, decided by nobody yet, written by a GoT tool."""
    yield from (task_added(name, f"Task {number}") for number, name in enumerate(TASKS))
    yield from (task_claimed(f"agent-{n}", f"H-{n}", name) for n, name in enumerate(TASKS))
    for n in (0, 1):
        text = f"Registry answers {400 + n} for package foo"
        yield rejection_filed(TASKS[n], n, handoff_id=f"H-{n}", agent=f"agent-{n}", rejection=told(text))
        yield rejection_answered("ACCEPT_AND_DEFER", TASKS[n], n)
        yield TaskDeferred(task_id=TASKS[n], waits_for=(TASKS[4],))
    yield task_woken(TASKS[0])
    yield invalid_rejection_filed(
        TASKS[2], 2, handoff_id="H-2", agent="agent-2", rejection=told("no", "SCOPE_CREEP")
    )
    yield rejection_answered("OVERRIDE", TASKS[2], 2)
    yield rejection_filed(TASKS[3], 3, handoff_id="H-3", agent="agent-3", rejection=told(HOSTILE))
    yield rejection_answered("ACCEPT", TASKS[3], 3)


def write(repository: Repository, events: Iterable[Event], name: str = "story") -> None:
    session = Session(name, keys=FileKeys(str(repository.machine.state / "remand" / "keys")))
    for n, event in enumerate(events):
        session.write(event, at=add_seconds(NOW, 60.0 * n))
    got = got_tool_entry(
        "handoff.reject", handoff_id="H-4", agent="Gotlieb", reason="no thanks", suggestion=""
    ).line
    repository.events.mkdir(parents=True, exist_ok=True)
    (repository.events / f"{name}.jsonl").write_bytes(
        b"".join(line + b"\n" for line in (*session.lines, got))
    )
    with repository.history_in_files():
        assert repository.ok("log", "import", str(repository.path))["imported"] == 1


@pytest.fixture
def told_repository(repository: Repository) -> Repository:
    write(repository, story())
    return repository


def rejections(repository: Repository, *options: str) -> Any:
    return repository.ok("analyze", "rejections", *options)


def test_programs_get_every_figure(told_repository: Repository) -> None:
    found = rejections(told_repository)

    assert found.keys() >= KEYS
    assert found["total_rejections"] == 5
    assert found["by_reason"] == {"BLOCKER": 3, "SCOPE_CREEP": 1, "UNKNOWN": 1}
    assert found["by_agent"]["Gotlieb"] == 1
    assert found["by_task"] == dict.fromkeys(sorted(TASKS), 1)
    assert found["decision_outcomes"] == {"ACCEPT_AND_DEFER": 2, "ACCEPT": 1, "OVERRIDE": 1}
    assert (found["override_rate"], found["unanswered"], found["invalid_rejections"]) == (0.25, 1, 1)
    assert [one["count"] for one in found["blocker_clusters"]] == [2, 1]
    assert found["common_blockers"][0] == "Registry answers 400 for package foo"
    assert found["time_to_unblock"]["woken"] == 1
    assert found["time_to_unblock"]["still_waiting"] == 1
    assert found["time_to_unblock"]["median_seconds"]["value"] == 300.0


def test_an_empty_ledger_has_no_rejections(repository: Repository) -> None:
    assert rejections(repository)["total_rejections"] == 0
    assert "No agent has rejected a task." in repository.people("analyze", "rejections").out


def test_everything_is_there_again_after_a_rebuild_and_in_a_fresh_clone(told_repository: Repository) -> None:
    repository = told_repository
    before = rejections(repository)
    graph = repository.ok("graph", "export", "--format", "json")
    names = {node["id"] for node in graph["nodes"]}
    assert {"blocker:R-0", "decision:rejection-response:R-2", f"rejection:task:{TASKS[0]}:R-0"} <= names
    assert "blocker:R-2" not in names

    repository.ok("log", "rebuild")
    assert rejections(repository) == before
    assert repository.ok("graph", "export", "--format", "json") == graph

    repository.git("add", ".got")
    repository.git("commit", "-q", "-m", "events")
    clone = repository.machine.clone(repository, "clone")
    assert rejections(clone) == before
    assert clone.ok("graph", "export", "--format", "json") == graph

    repository.forget_ledger()
    assert rejections(repository) == before


@pytest.mark.parametrize(
    ("since", "count"),
    [
        ("2026-11-15", 4),
        ("2026-11-16", 0),
        ("2025-12-20", 5),
        (add_seconds(NOW, 60.0 * 16), 2),
        ("2026-11-15T12:00:00+14:00", 4),
    ],
    ids=["a day", "the day after", "long ago", "an instant", "another zone"],
)
def test_since_takes_a_day_or_a_time(told_repository: Repository, since: str, count: int) -> None:
    assert rejections(told_repository, "--since", since)["total_rejections"] == count


@pytest.mark.parametrize("since", ["yesterday", "2026-13-01", "15.11.2026", "2026-11-15T25:00"])
def test_a_time_that_is_none_is_a_usage_error_that_shows_how(repository: Repository, since: str) -> None:
    said = repository.call("analyze", "rejections", "--since", since)

    assert said.code == 2
    assert "2026-11-15" in said.data["message"]


@pytest.mark.parametrize(
    ("by", "key"), [("agent", "agent-0"), ("reason", "BLOCKER"), ("task", TASKS[0]), ("blocker", None)]
)
def test_a_breakdown_has_its_rows(told_repository: Repository, by: str, key: str | None) -> None:
    found = rejections(told_repository, "--by", by)

    assert found["by"] == by
    assert found["rows_in_all"] == len(found["rows"])
    if key:
        assert key in [row["key"] for row in found["rows"]]
    else:
        assert found["rows"][0]["count"] == 2
    page = told_repository.people("analyze", "rejections", "--by", by).out
    assert page.index(f"By {by}") < page.index("Outcomes")


def test_people_read_the_most_important_first_and_nothing_hostile(told_repository: Repository) -> None:
    said = told_repository.people("analyze", "rejections")

    assert said.code == 0
    lines = said.out.splitlines()
    assert lines[0].startswith(
        "5 rejections, 1 of them invalid. 25 % (5–70 %) of the answered rejections were overridden."
    )
    titles = ["By reason", "By agent", "Most common blockers", "Outcomes"]
    assert [line for line in lines if line in titles] == titles
    assert "still deferred" in said.out
    assert "\x1b" not in said.out
    assert "\N{RIGHT-TO-LEFT OVERRIDE}" not in said.out


@pytest.mark.parametrize("name", ["figure.svg", "figure.PNG"])
def test_a_drawing_is_the_same_every_time(told_repository: Repository, name: str) -> None:
    made = []
    for folder in ("one", "two"):
        (told_repository.path / folder).mkdir()
        file = told_repository.path / folder / name
        found = rejections(told_repository, "--plot", f"{folder}/{name}")
        assert found["plot"] == str(file)
        made.append(file.read_bytes())

    assert made[0] == made[1]
    assert made[0].startswith(b"\x89PNG" if name.endswith("PNG") else b"<?xml")


def test_what_agents_wrote_is_text_in_a_drawing(told_repository: Repository) -> None:
    rejections(told_repository, "--plot", "figure.svg")
    page = (told_repository.path / "figure.svg").read_text(encoding="utf-8")
    texts = ["".join(one.itertext()) for one in ET.fromstring(page).iter("{http://www.w3.org/2000/svg}text")]

    (shown,) = [text for text in texts if "$x^2$" in text]
    assert "データベースの鍵がない" in shown
    assert "<b>&" in shown
    assert "\x1b" not in page


def test_another_format_is_a_usage_error(repository: Repository) -> None:
    for name in ("figure.pdf", "figure", "svg"):
        said = repository.call("analyze", "rejections", "--plot", name)
        assert said.code == 2
        assert ".svg or .png" in said.data["message"]


def test_a_file_that_cannot_be_written_is_said(told_repository: Repository) -> None:
    said = told_repository.call("analyze", "rejections", "--plot", "no/such/folder/figure.svg")

    assert said.code == 3
    assert "cannot be written" in said.data["message"]


def test_without_matplotlib_it_says_what_to_install(
    told_repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    said = told_repository.people("analyze", "rejections", "--plot", "figure.svg")

    assert said.code == 3
    assert "pip install 'remand[plot]'" in said.err


def test_what_agents_file_by_the_command_line_is_learned_from(repository: Repository) -> None:
    for agent, record in (("Alice", a_rejection()), ("Bob", LAZY)):
        task = repository.add(TITLE, "--scope", SCOPE)
        handoff = repository.ok("task", "claim", task, "--agent", agent)["handoff_id"]
        file = repository.path / f"{agent}.json"
        file.write_text(json.dumps(record))
        repository.call("handoff", "reject", handoff, "--agent", agent, "--from", str(file))
    found = rejections(repository)

    assert found["by_agent"] == {"Alice": 1, "Bob": 1}
    assert found["decision_outcomes"] == {"ACCEPT_AND_DEFER": 1, "OVERRIDE": 1}
    assert found["time_to_unblock"]["still_waiting"] == 1
    assert found["common_blockers"] == [a_rejection()["blocking_factor"]]
    stats = repository.ok("graph", "stats")
    assert stats["by_node_type"] == {"TASK": 3, "DECISION": 2, "OBSERVATION": 2, "CONSTRAINT": 1}
    assert stats["conflicts"] == 0
    repository.ok("log", "rebuild")
    assert rejections(repository) == found
    assert repository.ok("graph", "stats") == stats

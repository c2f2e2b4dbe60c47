"""Holds that `scripts/check-log` finds every kind of fault in a log, and none in an honest one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.system.keys import FileKeys
from remand.domain.events import reviews, tasks, work
from remand.domain.events.event import Event
from remand.domain.gate.verdict import GateStatus, Verdict
from remand.testing.builders import H1, H2, LATER, SHA, T1, T2, Session, task_added, task_claimed
from remand.testing.fakes import FakeClock
from tests.support.log_check import log_faults, run_script

TREE = "t" * 40
PROJECT = "3f9c0b7d52e1a684"
OTHER = "20261115-080000-0000000b"


def passed(agent: str = "Alice", handoff: str = H1, status: GateStatus = GateStatus.PASSED) -> Event:
    verdict = Verdict(status=status, commit=SHA, tree=TREE)
    return work.GatePassed(task_id=T1, handoff_id=handoff, agent=agent, verdict=verdict)


def submitted(agent: str = "Alice", handoff: str = H1, tree: str = TREE) -> Event:
    return tasks.TaskSubmitted(task_id=T1, handoff_id=handoff, agent=agent, commit=SHA, tree=tree)


def approved(commit: str = SHA, tree: str = TREE) -> Event:
    return reviews.ReviewApproved(task_id=T1, reviewer="Lea", commit=commit, tree=tree)


def rejected(review: str = "R1") -> Event:
    return reviews.ReviewRejected(task_id=T1, reviewer="Lea", commit=SHA, tree=TREE, review_id=review)


def locked_out(agent: str = "Alice", review: str = "R1") -> Event:
    return reviews.LockoutSet(task_id=T1, agent=agent, review_id=review)


DONE = (task_added(), task_claimed(), passed(), submitted(), approved())
SENT_BACK = (*DONE[:-1], rejected(), locked_out())


def lines_of(*events: Event, **options: Any) -> list[bytes]:
    """The log of one session."""
    session = Session(**options)
    for event in events:
        session.write(event)
    return session.lines


def second_claim(agent: str = "Bob", handoff: str = H2) -> Event:
    return task_claimed(agent=agent, handoff_id=handoff, epoch=2)


HONEST = {
    "done": DONE,
    "sent back, and another goes on": (*SENT_BACK, second_claim()),
    "unlocked": (*SENT_BACK, reviews.LockoutCleared(task_id=T1, agent="Alice"), second_claim("Alice")),
    "taken back": (
        *SENT_BACK,
        reviews.ReviewRetracted(task_id=T1, review_id="R1", reviewer="Lea"),
        approved(),
    ),
    "cancelled, and reopened": (
        *DONE[:1],
        tasks.TaskCancelled(task_id=T1),
        tasks.TaskReopened(task_id=T1, undoes="e"),
        *DONE[1:],
    ),
    "overridden": (*DONE[:2], passed(status=GateStatus.OVERRIDDEN), *DONE[3:]),
    "given back, and claimed again": (
        *DONE[:2],
        tasks.TaskReleased(task_id=T1, handoff_id=H1, agent="Alice"),
        second_claim(),
    ),
}
BROKEN = {
    "a cancelled task that comes back by itself": (
        (*DONE[:1], tasks.TaskCancelled(task_id=T1), tasks.TaskReopened(task_id=T1)),
        "cancelled",
    ),
    "a claim that another has won": ((*DONE[:2], second_claim()), "had won"),
    "a claim won twice": (
        (*DONE[:2], tasks.TaskReleased(task_id=T1, handoff_id=H1, agent="Alice"), second_claim("Bob", H1)),
        "won twice",
    ),
    "a claim of a task that is done": ((*DONE, second_claim()), "the task was done"),
    "an epoch that was used": (
        (*SENT_BACK, task_claimed(agent="Bob", handoff_id=H2, epoch=1)),
        "epoch 1 was used",
    ),
    "a claim by who is locked out": ((*SENT_BACK, second_claim("Alice")), "is locked out and claimed"),
    "work by who is locked out": (
        (*DONE[:3], locked_out("Alice", ""), submitted()),
        "did not hold",
    ),
    "a submission by who does not hold the task": ((*DONE[:3], submitted("Bob")), "did not hold"),
    "a submission without a verdict": ((*DONE[:2], submitted()), "had not released"),
    "a submission of another tree": ((*DONE[:3], submitted(tree="u" * 40)), "had not released"),
    "a verdict that failed": (
        (*DONE[:2], passed(status=GateStatus.FAILED), *DONE[3:]),
        "passed with the verdict failed",
    ),
    "an approval of another commit": ((*DONE[:4], approved("b" * 40)), "the approval is of"),
    "an approval of another tree": ((*DONE[:4], approved(tree="u" * 40)), "the approval is of"),
    "an approval of nothing": ((*DONE[:2], approved()), "nothing was submitted"),
    "an approval of what was rejected": ((*SENT_BACK, approved()), "a rejection of that very tree stands"),
    "a task that was never written down": (DONE[1:2], "is about a task that is not here"),
    "a task written down twice": ((*DONE, task_added()), "added twice"),
}


@pytest.mark.parametrize("name", HONEST)
def test_an_honest_log_has_no_fault(name: str) -> None:
    assert log_faults(lines_of(*HONEST[name])) == []


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_is_found_in_a_log_that_is_otherwise_whole(name: str) -> None:
    events, expected = BROKEN[name]
    faults = log_faults(lines_of(*events))
    assert any(expected in fault for fault in faults), faults


def change_text(lines: list[bytes]) -> list[bytes]:
    return [line.replace(b"Mend the roof", b"Burn the roof") for line in lines]


def without_event(lines: list[bytes]) -> list[bytes]:
    return [line for line in lines if b"gate.pass" not in line]


def without_last_write(lines: list[bytes]) -> list[bytes]:
    """Without a group and its event in the middle."""
    return [*lines[:4], *lines[6:]]


def without_group(lines: list[bytes]) -> list[bytes]:
    return [*lines[:4], *lines[5:]]


def torn(lines: list[bytes]) -> list[bytes]:
    return [*lines[:-1], lines[-1][:-20]]


def repeated(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[-1]]


def repeated_group(lines: list[bytes]) -> list[bytes]:
    return [*lines, lines[-2]]


def other_chain(lines: list[bytes]) -> list[bytes]:
    group = json.loads(lines[4])
    group["before"] = "0" * 32
    return [*lines[:4], json.dumps(group, separators=(",", ":")).encode(), *lines[5:]]


def other_task(lines: list[bytes]) -> list[bytes]:
    return [line.replace(T1.encode(), T2.encode()) if b"log.sign" in line else line for line in lines]


DAMAGE: dict[str, tuple[Callable[[list[bytes]], list[bytes]], str]] = {
    "a changed line": (change_text, "changed after it was written"),
    "a missing event": (without_event, "is not here, and a group names it"),
    "a missing write": (without_last_write, "no group names event"),
    "a missing group": (without_group, "no group names event"),
    "a torn line": (torn, "is no line of the log"),
    "an event that is there twice": (repeated, "is there twice"),
    "a group that is there twice": (repeated_group, "a group is there twice"),
    "a broken chain": (other_chain, "the chain of"),
    "a group that names another task": (other_task, "its group says that it is about"),
}


@pytest.mark.parametrize("name", DAMAGE)
def test_damage_to_a_log_is_found(name: str) -> None:
    damage, expected = DAMAGE[name]
    faults = log_faults(damage(lines_of(*DONE)))
    assert any(expected in fault for fault in faults), faults


def test_a_session_that_was_written_twice_is_found() -> None:
    """Both are signed: a copied ledger does that."""
    fork = [*lines_of(*DONE), *lines_of(task_added(), task_added(T2))[2:]]
    assert any("in two versions" in fault for fault in log_faults(fork))


def test_an_event_that_is_no_later_than_the_one_before_it_is_found() -> None:
    session = Session()
    session.write(task_added(), at=LATER)
    session.write(task_claimed(), at=LATER)
    assert any("is not later" in fault for fault in log_faults(session.lines))


def test_a_command_that_was_carried_out_twice_is_found() -> None:
    session = Session()
    for name in (T1, T2):
        session.write(task_added(name), key="add the roof")
    assert any("is there 2 times" in fault for fault in log_faults(session.lines))


def test_the_losers_of_a_merge_are_conflicts_and_no_faults() -> None:
    clock = FakeClock()
    mine = Session(clock=clock)
    for event in DONE[:2]:
        mine.write(event)
    theirs = Session(OTHER, clock)
    theirs.write(second_claim())
    both = [*mine.lines, *theirs.lines]
    assert any("had won" in fault for fault in log_faults(both)), "in one ledger it is a fault"
    assert log_faults([*both, *both], is_merged=True) == [], "nor are copies"


def test_in_a_merged_log_a_session_still_keeps_to_its_own_word() -> None:
    faults = log_faults(lines_of(*DONE[:2], second_claim()), is_merged=True)
    assert any("had won" in fault for fault in faults)


@pytest.mark.parametrize("is_hostile", [False, True])
def test_lines_that_nobody_signed_have_no_effect(is_hostile: bool) -> None:
    forged = Session(OTHER, keys=None)
    forged.write(second_claim())
    faults = log_faults([*lines_of(*DONE[:2]), *forged.lines], is_hostile=is_hostile)
    assert bool(faults) is not is_hostile


# ------------------------------------------------------------------------------------------------- signatures


def test_signatures_of_trusted_keys_are_verified(tmp_path: Path) -> None:
    keys, stranger = FileKeys(str(tmp_path / "own")), FileKeys(str(tmp_path / "strange"))
    own = keys.ensure_key()
    lines = lines_of(*DONE, keys=keys, project=PROJECT)
    assert log_faults(lines, keys=[own.text], project=PROJECT) == []
    assert any("did not sign" in one for one in log_faults(lines, keys=[own.text], project="another"))
    other = stranger.ensure_key().text
    assert any("is not trusted" in one for one in log_faults(lines, keys=[other], project=PROJECT))


@pytest.mark.parametrize("place", [0, 20, 40, 70])
def test_a_changed_signature_is_found(tmp_path: Path, place: int) -> None:
    keys = FileKeys(str(tmp_path / "own"))
    own = keys.ensure_key()
    *rest, group, last = lines_of(*DONE, keys=keys)
    fields = json.loads(group)
    text = fields["signature"]
    fields["signature"] = text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]
    changed = [*rest, json.dumps(fields, separators=(",", ":")).encode(), last]
    assert any("did not sign" in one for one in log_faults(changed, keys=[own.text]))


def test_trust_in_a_key_ends_where_the_configuration_says(tmp_path: Path) -> None:
    keys = FileKeys(str(tmp_path / "own"))
    own = keys.ensure_key()
    session = Session(keys=keys)
    for event in DONE[:2]:
        session.write(event)
    end = session.chain
    session.write(passed())
    file, config = tmp_path / "log.jsonl", tmp_path / "remand.toml"
    file.write_bytes(b"\n".join(session.lines) + b"\n")
    until = f'{{ session = "{session.name}", number = 2, chain = "{end}" }}'
    config.write_text(f'[keys]\ntrusted = [{{ key = "{own.text}", until = [{until}] }}]\n')
    done = run_script("--json", "--hostile", "--config", config, file)
    answer = json.loads(done.stdout)
    assert (answer["ok"], answer["counted"], answer["events"]) == (True, 2, 3), answer


# -------------------------------------------------------------------------------------------------- the script


def test_the_script_needs_nothing_but_the_standard_library(tmp_path: Path) -> None:
    events = tmp_path / ".got" / "events"
    events.mkdir(parents=True)
    (events / "20261115-080000-0000000a.jsonl").write_bytes(b"\n".join(lines_of(*DONE)) + b"\n")
    done = run_script(tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert "signatures not verified" in done.stdout
    (events / "20261115-080000-0000000b.jsonl").write_bytes(b"{torn\n")
    broken = run_script("--json", events)
    assert broken.returncode == 1
    assert json.loads(broken.stdout)["faults"]

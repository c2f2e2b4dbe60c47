"""What hosts ask the server: runs that review are those of a host's own members, one at a time, and lost when they must be over."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from remand.app.requests import Rules
from remand.app.scheduler.host_calls import HostAnswer, HostedRuns, HostMethod, HostQuestion, answer_question
from remand.app.scheduler.ledger_client import LedgerClient
from remand.app.scheduler.review_runs import ReviewRuns
from remand.app.scheduler.runs import FORGOTTEN_SECONDS
from remand.domain import commands as c
from remand.domain.access.team import Member, Role, Team
from remand.domain.access.tokens import Caller, TokenRole
from remand.domain.events.work import How, Purpose
from remand.domain.refusals import Refused
from remand.domain.task import Status
from tests.support.builders import FakeLedger

RUNS = [f"RUN-20261115-090000-0000000{number}" for number in range(1, 4)]
MAX_SECONDS = 60.0
MEMBERS = (Member(name="Ann"), *(Member(name=name, roles=(Role.LEAD,)) for name in ("Rea", "Rex")))


class World:
    """A server with work of Ann's under review, and two hosts that have a reviewer each."""

    def __init__(self) -> None:
        self.made = FakeLedger(rules=Rules(gates=(), team=Team(MEMBERS)))
        self.task, _ = self.made.add_and_claim("Ann")
        self.made.submit(self.task, "Ann")
        self.ledger = LedgerClient(self.made.ledger, lambda: self.made.rules, str, self.made.ids.hex)
        changes: Any = SimpleNamespace()
        self.hosted = HostedRuns(ReviewRuns(self.ledger, changes, lambda: "mark"), MAX_SECONDS)

    def ask(self, member: str, method: HostMethod, **fields: Any) -> HostAnswer:
        host = Caller(member="host", role=TokenRole.HOST, starts=(member,))
        question = HostQuestion(method=method, task_id=self.task, **fields)
        return answer_question(self.ledger, self.hosted, host, question)

    def start(self, member: str, run_id: str) -> HostAnswer:
        command = c.StartRun(task_id=self.task, agent=member, run_id=run_id, purpose=Purpose.REVIEW)
        return self.ask(member, HostMethod.ASK, command=command)

    def end_lost(self, member: str, run_id: str) -> HostAnswer:
        command = c.EndRun(task_id=self.task, run_id=run_id, how=How.LOST)
        return self.ask(member, HostMethod.ASK, command=command)

    def approve(self, member: str, run_id: str) -> str:
        checked = [{"path": "roof.py", "line": 1, "text": "It holds the water off, as was asked."}]
        said = json.dumps({"run": run_id, "verdict": "approve", "checked": checked, "findings": []})
        return self.ask(member, HostMethod.OPINION, run_id=run_id, text=f"```json\n{said}\n```").text


def test_of_two_hosts_one_reviews_a_submission_and_its_answer_counts() -> None:
    world = World()
    assert not world.start("Rea", RUNS[0]).refused
    assert world.start("Rex", RUNS[1]).refused == "already_running"
    with pytest.raises(Refused) as found:
        world.approve("Rex", RUNS[0])
    assert found.value.code == "not_yours"

    assert world.approve("Rea", RUNS[0]) == ""
    assert world.made.task(world.task).status is Status.DONE


def test_who_wrote_the_work_does_not_review_it_on_any_host() -> None:
    world = World()
    assert world.start("Ann", RUNS[0]).refused in ("own_work", "not_authorised")


def test_any_host_calls_a_run_lost_once_it_must_be_over_and_its_answer_counts_no_more() -> None:
    world = World()
    world.start("Rea", RUNS[0])
    with pytest.raises(Refused):
        world.end_lost("Rex", RUNS[0])
    world.made.clock.advance(MAX_SECONDS + FORGOTTEN_SECONDS + 1)
    assert not world.end_lost("Rex", RUNS[0]).refused

    assert world.approve("Rea", RUNS[0]) == "its run is no longer known"
    assert world.made.task(world.task).status is Status.PROVISIONAL
    assert not world.start("Rex", RUNS[1]).refused


def test_a_token_for_any_member_starts_them_all() -> None:
    assert World().ask("*", HostMethod.MEMBERS).names == ("Ann", "Rea", "Rex")

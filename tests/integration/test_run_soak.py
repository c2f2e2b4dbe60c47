"""A soak: agents that crash, hang, lie, give up and are sent back, until every task has come to an end.

What must hold is held against the event files alone, by an audit that knows none of the product's code.
"""

from __future__ import annotations

import json
import os
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Any, NamedTuple

import pytest

from remand.wiring.startup import CoordinatorUnavailable, forward_call
from tests.integration.agent_launchers import eventually
from tests.integration.machine import REMAND, Machine, wait_for
from tests.integration.run_audit import FINISHED, Audit
from tests.integration.sandboxes import made, marked
from tests.integration.scripted_agents import GOOD_WORK, Event, Member, Office, Scheduler, read_log
from tests.support.rejection_records import LAZY, SCOPE, a_rejection

pytestmark = pytest.mark.timeout(4 * 3600)
KINDS = (
    "honest",
    "crashes",
    "is_killed",
    "hangs",
    "idles",
    "leaves_it_dirty",
    "works_badly",
    "takes_another_s",
    "is_lazy",
    "is_blocked",
    "continues",
    "gives_back",
)
"""What an agent does the first time it has a task, by the task's title; later one of those in the file `later`."""
LATER = (*KINDS, *["honest"] * 20)
SCRIPT = f"""
remand() {{ {REMAND} "$@" >>"$NOTES/said.$T" 2>&1; }}
good() {{ echo "good, $T, $A, $N, $RANDOM" >work.txt; git add -A; git commit -q -m good || exit 0; }}
read -r -d '' TEXT <"$NOTES/prompt.$T.$A.$N"
KIND=honest
[[ $TEXT =~ kind:([a-z_]+) ]] && KIND=${{BASH_REMATCH[1]}}
[ "$(ls "$NOTES"/runs."$T".* | wc -l)" = 1 ] && [ "$N" = 1 ] || {{
  read -r -a KINDS <"$NOTES/later"; KIND=${{KINDS[RANDOM % ${{#KINDS[@]}}]}}; }}
case $KIND in
  crashes) [ $((RANDOM % 2)) = 0 ] && good; echo 'no such model' >&2; exit 1 ;;
  is_killed) echo half >half.txt; kill -9 $$ ;;
  hangs) good; exec sleep 10000 ;;
  idles) exit 0 ;;
  leaves_it_dirty) echo half >half.txt ;;
  works_badly) echo "bad, $T, $RANDOM" >work.txt; git add -A; git commit -q -m bad ;;
  takes_another_s) OTHER=$(git for-each-ref --format='%(objectname)' refs/heads/remand | head -1)
    remand task submit "$T" --commit "${{OTHER:-HEAD~1}}"; git merge -q "$OTHER" >/dev/null 2>&1; git merge --abort 2>/dev/null; good ;;
  is_lazy) remand handoff reject "$REMAND_HANDOFF" --from - <"$NOTES/lazy"; good ;;
  is_blocked) remand handoff reject "$REMAND_HANDOFF" --from - <"$NOTES/earned" || good ;;
  continues) echo half >half.txt; remand task continue "$T" --reason 'out of turns' ;;
  fails) remand task fail "$T" --reason 'it cannot be done' ;;
  gives_back) remand task release "$T" --reason 'not mine' ;;
  *) good ;;
esac
"""


class Lead:
    """Looks at all that is handed in, and sends some of it back; speaks to the coordinator itself."""

    def __init__(self, office: Office, seed: int, *, refuses: str = "") -> None:
        """`refuses` is how the titles of those tasks begin whose work is never good enough."""
        self._office = office
        self._chance = random.Random(seed)
        self._refuses = refuses
        self._refused: set[str] = set()
        self._seen = 0
        self.said: Counter[str] = Counter()
        self.added: list[str] = []

    def look(self) -> None:
        """Reviews what has come since it last looked."""
        events = list(islice(read_log(self._office.repository.events), self._seen, None))
        self._seen += len(events)
        for event in events:
            if self._refuses and event.get("data", {}).get("title", "").startswith(self._refuses):
                self._refused.add(event["id"].removeprefix("task:"))
            if event["event"] == "task.submit":
                self._review(event)

    def _review(self, event: Event) -> None:
        verdict, more = "approve", []
        if self._chance.random() < 0.2 or event["task_id"] in self._refused:
            verdict, more = "reject", ["--finding", f"work.txt:1: Not like this ({self._chance.random()})."]
        said = self.ask(
            "--as", "Lead", "review", verdict, event["task_id"], "--commit", event["commit"], *more
        )
        self.said[verdict if said is not None else f"{verdict}, refused"] += 1

    def add(self, kind: str) -> None:
        """Adds a task, as soon as the coordinator answers."""
        title = f"Task {len(self.added)} kind:{kind}"
        answer = wait_for(lambda: self.ask("task", "add", title, "--scope", SCOPE), "the coordinator")
        self.added.append(str(answer["task_id"]))

    def ask(self, *arguments: str) -> Any:
        """What the coordinator answered; None when it refused, or is not there yet."""
        repository = self._office.repository
        path = repository.socket()
        if not path:
            return None
        try:
            code, out, _ = forward_call(path, str(repository.path), [""] * 7, ["--json", *arguments])
        except CoordinatorUnavailable:
            return None
        return json.loads(out) if code == 0 else None


class Size(NamedTuple):
    """How large a soak is."""

    agents: int
    tasks: int
    time: str
    sandbox: str
    patience: float
    """How many seconds may pass in which nothing at all happens, though something can."""


def size_of(campaign: Callable[[int, int], int]) -> Size:
    """The size that is asked for: `REMAND_SOAK=agents,tasks` asks for another one."""
    asked = os.environ.get("REMAND_SOAK", "")
    if asked:
        agents, tasks = map(int, asked.split(","))
        return Size(agents, tasks, "20s", "off", 1800)
    if campaign(0, 1):
        return Size(200, 2000, "30s", "off", 1800)
    sandbox = "best" if made("bubblewrap")[0] else "off"
    return Size(campaign(6, 24), campaign(len(KINDS), 25 * len(KINDS)), "20s", sandbox, 600)


def test_every_task_comes_to_an_end_and_nothing_is_lost(
    machine: Machine, campaign: Callable[[int, int], int]
) -> None:
    size = size_of(campaign)
    print(f"{size.agents} agents, {size.tasks} tasks, sandbox {size.sandbox}")
    office = office_of(machine, size)
    lead = Lead(office, size.tasks)
    listed = soak(office, lead, size, (KINDS[number % len(KINDS)] for number in range(size.tasks)))
    check(office, machine, lead.added, listed)
    print(f"{Counter(listed.values())}; runs {Audit(office.events()).ends}; reviews {lead.said}")
    print(
        [
            gate["detail"]
            for event in office.events("gate.error")
            for gate in event["verdict"]["gates"]
            if "detail" in gate
        ]
    )


def test_a_task_deferred_behind_one_that_waits_for_the_user_comes_to_an_end(machine: Machine) -> None:
    size = Size(agents=4, tasks=1, time="600s", sandbox="off", patience=300)
    office = office_of(machine, size, later=("honest",))
    lead = Lead(office, size.tasks, refuses="Resolve blocker")
    listed = soak(office, lead, size, ["is_blocked"])
    check(office, machine, lead.added, listed)
    assert sorted(listed.values()) == ["deferred", "escalated"]


def test_tasks_that_nobody_can_bring_on_end_the_soak_with_what_is_known_of_them(machine: Machine) -> None:
    size = Size(agents=1, tasks=1, time="600s", sandbox="off", patience=300)
    office = office_of(machine, size)
    with pytest.raises(AssertionError, match=r"Nobody can bring on .*'failed'"):
        soak(office, Lead(office, size.tasks), size, ["fails"])


def soak(office: Office, lead: Lead, size: Size, kinds: Iterable[str]) -> dict[str, str]:
    """Has agents work on tasks of these kinds until all have come to their end; gives what became of each."""
    scheduler = Scheduler(office)
    try:
        office.until(office.repository.socket, "the coordinator")
        for kind in kinds:
            lead.add(kind)
        listed = settled(office, lead, size)
        office.check_worktrees(*(task for task, status in listed.items() if status not in FINISHED))
        scheduler.stop()
    finally:
        scheduler.close()
    return listed


def office_of(machine: Machine, size: Size, later: Iterable[str] = LATER) -> Office:
    """The office, with a script for all of its agents."""
    names = [f"Agent{number}" for number in range(size.agents)]
    office = Office(
        machine,
        dict.fromkeys(names, Member(SCRIPT)),
        gates=GOOD_WORK,
        policy="max_waiting_reviews = 10000\nescalate_after_gates = 6\nalert_after_gates = 5",
        run=f'time = "{size.time}"',
        sandbox=size.sandbox,
    )
    (office.notes / "later").write_text(" ".join(later) + "\n")
    (office.notes / "lazy").write_text(json.dumps(LAZY))
    (office.notes / "earned").write_text(json.dumps(a_rejection("BLOCKER")))
    return office


def settled(office: Office, lead: Lead, size: Size) -> dict[str, str]:
    """Reviews until every task has come to its end; gives what became of each."""
    seen, deadline = 0, 0.0
    while True:
        lead.look()
        events = office.events()
        audit = Audit(events)
        if len(events) != seen:
            seen, deadline = len(events), time.monotonic() + size.patience
        statuses = {row["task_id"]: row["status"] for row in lead.ask("task", "list") or []}
        if statuses == audit.statuses and not audit.unended and not audit.open_runs:
            return statuses
        assert not audit.is_stuck, f"Nobody can bring on {audit.unended}\n{office.told()}"
        assert time.monotonic() < deadline, f"Nothing happens to {audit.unended}\n{office.told()}"
        time.sleep(0.2 if size.tasks < 100 else 2.0)


def check(office: Office, machine: Machine, added: list[str], listed: dict[str, str]) -> None:
    """Holds what must hold in the end."""
    audit = Audit(office.events())
    assert audit.broken == []
    assert audit.open_runs == []
    assert set(added) <= set(listed) == set(audit.stories), "no task is lost"
    assert audit.statuses == listed
    eventually(lambda: marked(str(machine.folder)) == [])
    office.check()

"""Claims from many processes at once. Run as a script:

    claim_storm.py FOLDER OUTPUT PROCESSES MODE [TASK …]

Without tasks every process claims the next task until there is none; with tasks all claim the same one at the
same time, one task after the other. MODE is library, coordinator or mixed. What each process was answered
is written to OUTPUT, one JSON line per answer.
"""

from __future__ import annotations

import json
import multiprocessing
import sys
from collections.abc import Callable
from multiprocessing.synchronize import Barrier

from remand.adapters.coordinator.remote_ledger import RemoteLedger
from remand.app.requests import Acceptance, Answer, Request
from remand.domain import commands as c
from remand.wiring.ledger import find_place, open_ledger
from remand.wiring.startup import find_socket

START_SECONDS = 600.0


def asker(folder: str, mode: str, number: int) -> Callable[[Request], Answer]:
    """The way to the ledger that a process takes."""
    if mode == "coordinator" or (mode == "mixed" and number % 2):
        return RemoteLedger(find_socket(find_place(folder))).ask
    return open_ledger(folder).ledger.ask


def row(agent: str, asked: str, answer: Answer) -> str:
    """An answer as a line of JSON."""
    if isinstance(answer, Acceptance):
        ids = [event.meta.id for event in answer.events]
        return json.dumps({"agent": agent, "asked": asked, "task": answer.task.id, "events": ids})
    return json.dumps({"agent": agent, "asked": asked, "refused": answer.code, "message": answer.message})


def claim_all(ask: Callable[[Request], Answer], agent: str) -> list[str]:
    """Claims until nothing is left."""
    rows: list[str] = []
    while True:
        answer = ask(Request(command=c.ClaimTask(agent=agent), actor=agent, key=f"{agent}-{len(rows)}"))
        rows.append(row(agent, "", answer))
        if not isinstance(answer, Acceptance):
            return rows


def claim_each(ask: Callable[[Request], Answer], agent: str, tasks: list[str], start: Barrier) -> list[str]:
    """Claims the same tasks as everyone else, each at the same time as everyone else."""
    rows: list[str] = []
    for task in tasks:
        start.wait(START_SECONDS)
        answer = ask(Request(command=c.ClaimTask(agent=agent, task_id=task), actor=agent))
        rows.append(row(agent, task, answer))
    return rows


def claimer(number: int, folder: str, output: str, mode: str, *, tasks: list[str], start: Barrier) -> None:
    """One process."""
    agent = f"agent-{number}"
    ask = asker(folder, mode, number)
    if tasks:
        rows = claim_each(ask, agent, tasks, start)
    else:
        start.wait(START_SECONDS)
        rows = claim_all(ask, agent)
    with open(output, "a", encoding="utf-8") as file:
        file.write("".join(f"{row}\n" for row in rows))


def main() -> int:
    """Starts the processes and waits for them; 1 when one of them failed."""
    folder, output, processes, mode, *tasks = sys.argv[1:]
    fork = multiprocessing.get_context("fork")
    start = fork.Barrier(int(processes))
    started = [
        fork.Process(
            target=claimer, args=(number, folder, output, mode), kwargs={"tasks": tasks, "start": start}
        )
        for number in range(int(processes))
    ]
    for process in started:
        process.start()
    for process in started:
        process.join()
    return int(any(process.exitcode for process in started))


if __name__ == "__main__":
    sys.exit(main())

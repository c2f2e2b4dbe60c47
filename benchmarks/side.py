"""One version of Remand at work, measured from outside. Run as a module, under the version whose `src` comes first on the path:

    benchmarks.side ledger REPO      claims tasks in its own process: each line on standard input says how many at once
    benchmarks.side coordinator REPO claims one at a time through the coordinator that runs there
    benchmarks.side absorb REPO      reads in all files once

It answers each line with the seconds and the CPU seconds that took. It names what both versions have.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from remand.domain.commands import AddTask, ClaimTask

try:
    from remand.adapters.coordinator.remote_ledger import RemoteLedger
    from remand.app.requests import Acceptance, Request
    from remand.wiring.ledger import find_place, open_ledger
    from remand.wiring.startup import find_socket
except ModuleNotFoundError:  # the version before signatures, whose modules have other names
    from remand.adapters.coordinator.remote import RemoteLedger
    from remand.app.asking import Accepted as Acceptance
    from remand.app.asking import Request
    from remand.bootstrap.ledger import find_place, open_ledger
    from remand.bootstrap.quick import find_socket

MANY = 8_000


def main() -> None:
    """Does what it is told until its standard input ends."""
    mode, repo = sys.argv[1:]
    claim = {"ledger": _in_ledger, "coordinator": _by_coordinator, "absorb": _absorbing}[mode](repo)
    print("ready", flush=True)
    for line in sys.stdin:
        start, cpu = time.perf_counter(), time.process_time()
        claim(int(line))
        print(time.perf_counter() - start, time.process_time() - cpu, flush=True)


def _in_ledger(repo: str) -> Callable[[int], None]:
    ledger = open_ledger(repo).ledger
    for _ in range(0, MANY, 1000):
        ledger.ask_all([Request(command=AddTask(title="Mend the roof"), actor="user")] * 1000)

    def claim(count: int) -> None:
        answers = ledger.ask_all([Request(command=ClaimTask(agent="Alice"), actor="Alice")] * count)
        assert all(isinstance(answer, Acceptance) for answer in answers)

    return claim


def _by_coordinator(repo: str) -> Callable[[int], None]:
    remote = RemoteLedger(find_socket(find_place(repo)))

    def claim(count: int) -> None:
        for _ in range(count):
            assert isinstance(
                remote.ask(Request(command=ClaimTask(agent="Alice"), actor="Alice")), Acceptance
            )

    return claim


def _absorbing(repo: str) -> Callable[[int], None]:
    opened = open_ledger(repo)
    return lambda count: opened.ledger.refresh()


if __name__ == "__main__":
    main()

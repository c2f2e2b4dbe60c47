"""Work done in a process of its own, with the time it took and the memory it needed at its peak."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from tempfile import TemporaryFile

_PATIENCE = 900.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What some work took."""

    seconds: float
    peak: int
    """The most bytes the process held at once."""
    cpu: float = 0.0
    """The seconds a core was at work for it, from start to end: what is left of noise when others use the cores, too."""
    printed: int = 0
    """How many bytes a program wrote to standard output."""


def cost(work: Callable[[str], float], argument: str) -> Cost:
    """Runs a function that gives back the seconds that count, in a fresh process."""
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, work, argument), daemon=True)
    process.start()
    theirs.close()
    try:
        if not ours.poll(_PATIENCE):
            raise TimeoutError(f"{work.__name__} takes longer than {_PATIENCE:.0f} s")
        found: Cost = ours.recv()
    finally:
        process.join(5)
        if process.is_alive():
            process.kill()
    return found


def _work(pipe: Connection, work: Callable[[str], float], argument: str) -> None:
    seconds = work(argument)
    pipe.send(Cost(seconds=seconds, peak=_peak(), cpu=time.process_time()))


def _peak() -> int:
    """The most memory this process ever held."""
    with open("/proc/self/status", encoding="ascii") as file:
        for line in file:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0


_START = """
import os, sys, time
start = time.perf_counter()
written = [(os.POSIX_SPAWN_DUP2, int(sys.argv[1]), 1)]
_, status, usage = os.wait4(os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, file_actions=written), 0)
print(time.perf_counter() - start, usage.ru_maxrss, usage.ru_utime + usage.ru_stime, os.waitstatus_to_exitcode(status))
"""


def command_cost(command: Sequence[str]) -> Cost:
    """Runs a program from start to end. A small process starts it: Linux counts what that one holds as the program's peak, too."""
    with TemporaryFile() as output:
        handle = output.fileno()
        starter = [sys.executable, "-I", "-S", "-c", _START, str(handle), *command]
        told = subprocess.run(starter, stdout=subprocess.PIPE, check=True, text=True, pass_fds=[handle])
        printed = os.fstat(handle).st_size
    seconds, peak, cpu, code = told.stdout.split()
    if code != "0":
        raise RuntimeError(f"{' '.join(command)} ended with {code}")
    return Cost(seconds=float(seconds), peak=int(peak) * 1024, cpu=float(cpu), printed=printed)

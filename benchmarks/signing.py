"""What signatures cost: claims, single processes, events of others and `log verify`, beside the version without them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median

from benchmarks.child import command_cost, cost
from benchmarks.history import Author, write_stories
from benchmarks.measure import Times, interleaved
from benchmarks.report import Report, figure, micros, millis
from benchmarks.scratch import coordinator, events_folder, repository
from remand.ledger import codec, signatures
from remand.ledger.signatures import GroupedEvent, chain_start
from remand.wiring.ledger import machine_keys, open_ledger

ROOT = Path(__file__).parents[1]
GROUPS = (1, 3, 100)
NOW, BEFORE = "signed", "before signatures"
ABSORBED = 100_000
CLI = (sys.executable, "-m", "remand.interfaces.cli.entry")


def run(report: Report) -> None:
    """Prints the tables."""
    with old_version(report.folder) as old:
        sources = {NOW: str(ROOT / "src"), BEFORE: os.path.join(old, "src")}
        _claims(report, sources)
        _processes(report)
        _absorbing(report, sources)
    _verifying(report)


@contextmanager
def old_version(folder: str) -> Iterator[str]:
    """A worktree of the last commit without signatures."""
    added = _git("log", "-1", "--format=%H", "--diff-filter=A", "--", "src/remand/ledger/signatures.py")
    path = os.path.join(folder, "before")
    _git("worktree", "add", "-q", "--detach", path, f"{added}^")
    try:
        yield path
    finally:
        _git("worktree", "remove", "--force", path)


def _git(*words: str) -> str:
    return subprocess.run(
        ["git", *words], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.strip()


class Side:
    """One version's process, asked to do something and to say how long it took."""

    def __init__(self, source: str, mode: str, repo: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.side", mode, repo],
            env=os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        if self._line() != "ready":
            raise RuntimeError(f"{mode} of {source} did not start")

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def do(self, count: int) -> tuple[float, float]:
        """The seconds and the CPU seconds that it took."""
        assert self._process.stdin is not None
        print(count, file=self._process.stdin, flush=True)
        seconds, cpu = map(float, self._line().split())
        return seconds, cpu

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)


def _claims(report: Report, sources: dict[str, str]) -> None:
    report.heading("Durable claims, with a covering signature and without one")
    rows: list[tuple[str, ...]] = []
    with ExitStack() as stack:
        sides: dict[str, Side] = {}
        for name, source in sources.items():
            repo = repository(os.path.join(report.folder, f"claims-{name.split()[0]}"))
            sides[name] = Side(source, "ledger", repo)
            stack.callback(sides[name].close)
        rows += [_compared(report, f"library, {count} at once", sides, count) for count in GROUPS]
    with ExitStack() as stack:
        sides = {}
        for name, source in sources.items():
            repo = repository(os.path.join(report.folder, f"served-{name.split()[0]}"))
            Side(source, "ledger", repo).close()
            stack.enter_context(_coordinator(repo, source))
            sides[name] = Side(source, "coordinator", repo)
            stack.callback(sides[name].close)
        rows.append(_compared(report, "coordinator, one at a time", sides, 1))
    report.table(("claims", f"{NOW}, p50 µs", f"{BEFORE}, p50 µs", "time / before", "CPU / before"), rows)


@contextmanager
def _coordinator(repo: str, source: str) -> Iterator[str]:
    before = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = source
    try:
        with coordinator(repo) as path:
            yield path
    finally:
        os.environ["PYTHONPATH"] = before


def _compared(report: Report, what: str, sides: dict[str, Side], count: int) -> tuple[str, ...]:
    rounds = min(max(report.scale.rounds // count, 15), 1000)
    spent: dict[str, list[float]] = {name: [] for name in sides}

    def doing(name: str) -> Callable[[], float]:
        def do() -> float:
            seconds, cpu = sides[name].do(count)
            spent[name].append(cpu)
            return seconds

        return do

    quiet = report.quiet()
    times = interleaved({name: doing(name) for name in sides}, rounds, quiet)
    ratio = times[NOW].p50 / times[BEFORE].p50
    report.goal(f"durable claim, {what}: signed / before", ratio, quiet, most=1.1)
    cpu = Times.of(spent[NOW]).p50 / Times.of(spent[BEFORE]).p50 if median(spent[BEFORE]) else float("nan")
    return (what, micros(times[NOW].p50), micros(times[BEFORE].p50), figure(ratio), figure(cpu))


def _processes(report: Report) -> None:
    report.heading("CPU that a process pays for its signature: loading the key, and signing a group")
    rows: list[tuple[str, ...]] = []
    repo = repository(os.path.join(report.folder, "process"))
    open_ledger(repo).store.close()
    machine_keys().ensure_key()
    for count in GROUPS:
        found = [cost(sign_once, json.dumps([repo, count])).seconds for _ in range(report.scale.calls)]
        rows.append((str(count), millis(median(found)), millis(max(found))))
        report.goal(f"a process signs {count} events, CPU", median(found) * 1e3, most=5, unit="ms")
    report.table(("events in the group", "p50 CPU ms", "most"), rows)


def sign_once(argument: str) -> float:
    """The CPU seconds that the first signature takes in a process that has its ledger open."""
    from remand.app.events.signatures import Signer

    repo, count = json.loads(argument)
    opened = open_ledger(repo)
    named = [GroupedEvent(f"{n:032x}", "T-20260101-000000-00000000") for n in range(count)]
    start = time.process_time()
    keys = opened.ledger.keys
    keys.load()
    signer = Signer(keys, "0123456789abcdef")
    groups = signer.sign("s", 1, chain_start("s", signer.key), named, "2026-01-01T00:00:00.000000Z")
    assert all(map(signatures.encode_group, groups))
    seconds = time.process_time() - start
    opened.store.close()
    return seconds


def _absorbing(report: Report, sources: dict[str, str]) -> None:
    report.heading(f"A fresh ledger reads {ABSORBED:,} events of others")
    single = os.path.join(report.folder, "stories")
    (paths,) = write_stories(single, ABSORBED, (ABSORBED,))
    rows: list[tuple[str, ...]] = []
    plain = {path: _without_groups(path) for path in paths}
    before = _absorb(report, sources[BEFORE], "plain", plain)
    rows.append((BEFORE, figure(before), ""))
    for size in GROUPS:
        files = {path: Path(path).read_bytes() if size == 1 else _regrouped(path, size) for path in paths}
        seconds = _absorb(report, sources[NOW], f"groups-{size}", files)
        rows.append((f"{NOW}, {size} a group", figure(seconds), figure(seconds / before)))
        report.goal(f"{ABSORBED:,} foreign events, {size} a group: CPU / before", seconds / before, most=1.25)
    report.table(("files", "CPU s", "CPU / before"), rows)


def _absorb(report: Report, source: str, name: str, files: dict[str, bytes]) -> float:
    """The CPU seconds that a fresh ledger takes for these files: the least of a few times."""
    found: list[float] = []
    for turn in range(report.scale.repeats):
        repo = repository(os.path.join(report.folder, f"absorb-{name}-{turn}"))
        for path, content in files.items():
            Path(events_folder(repo), os.path.basename(path)).write_bytes(content)
        side = Side(source, "absorb", repo)
        found.append(side.do(1)[1])
        side.close()
    return min(found)


def _without_groups(path: str) -> bytes:
    lines = Path(path).read_bytes().splitlines(keepends=True)
    return b"".join(line for line in lines if not signatures.is_group(line))


def _regrouped(path: str, size: int) -> bytes:
    """The same events, so many of them in each signed group."""
    lines = _without_groups(path).splitlines()
    events = [codec.decode_stored_line(line) for line in lines]
    author = Author(int(events[0].meta.session.rpartition("-")[2], 16))
    return b"".join(line + b"\n" for line in author.sign(events, lines, size))


def _verifying(report: Report) -> None:
    count = report.scale.events
    report.heading(f"log verify and log rebuild of {count:,} events")
    repo = repository(os.path.join(report.folder, "verified"))
    write_stories(events_folder(repo), count, (count,))
    opened = open_ledger(repo)
    opened.ledger.refresh()
    opened.store.close()
    found: dict[str, list[float]] = {"rebuild": [], "verify": []}
    peaks: dict[str, int] = {}
    for _ in range(report.scale.repeats):
        for name, costs in found.items():
            spent = command_cost([*CLI, "-C", repo, "log", name])
            costs.append(spent.cpu)
            peaks[name] = max(spent.peak, peaks.get(name, 0))
    ratios: Sequence[float] = [
        one / other for one, other in zip(found["verify"], found["rebuild"], strict=True)
    ]
    rows = [
        (f"log {name}", figure(median(spent)), f"{peaks[name] / 1e6:.0f}") for name, spent in found.items()
    ]
    report.table(("command", "CPU s", "peak MB"), rows)
    report.goal(f"log verify of {count:,} events / log rebuild, CPU", median(ratios), most=2)

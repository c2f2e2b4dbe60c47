"""What running gates costs beyond the gates' own commands, the sandbox included."""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

from benchmarks.report import Report, figure, millis
from remand.app.gates.gates import Gates
from remand.app.gates.known_results import MeasurementTerms
from remand.app.gates.measurement import CommitMeasurement
from remand.domain.gate.gate import Gate, GatePolicy
from remand.wiring.gates import make_gates
from remand.wiring.ledger import open_ledger

ROUNDS = 7


def run(report: Report) -> None:
    """Prints the table."""
    report.heading("Running gates")
    repo = os.path.join(report.folder, "gates-repo")
    os.makedirs(repo)
    _git(repo, "init", "-q", "-b", "main")
    gates = make_gates(open_ledger(repo))
    rows = {
        "sleep 0.5, by itself": _median([_timed(lambda: _sleep(0.5)) for _ in range(ROUNDS)]),
        "gate: sleep 0.5": _median([_measured(gates, repo, n, _sleeping(1, 0.5)) for n in range(ROUNDS)]),
        "8 gates: sleep 1": _median(
            [_measured(gates, repo, n, _sleeping(8, 1.0)) for n in range(50, 50 + ROUNDS)]
        ),
        "1 gate, known before": _median([_known(gates, repo) for _ in range(ROUNDS)]),
    }
    report.table(("what", "median ms"), [(name, millis(found)) for name, found in rows.items()])
    overhead = rows["gate: sleep 0.5"] - rows["sleep 0.5, by itself"]
    print(f"kept apart by {gates.environment.sandbox.tier}; overhead {figure(overhead * 1000)} ms")
    report.goal("runner overhead, ms", overhead * 1000, most=150)
    report.goal("8 gates of 1 s, s", rows["8 gates: sleep 1"], most=1.3)


def _sleeping(count: int, seconds: float) -> GatePolicy:
    gates = (
        Gate(name=f"g{at}", command=("sleep", str(seconds)), parser="exit", require={"max_errors": 0.0})
        for at in range(count)
    )
    return GatePolicy(gates=tuple(gates), integrity=False)


def _measured(gates: Gates, repo: str, number: int, policy: GatePolicy) -> float:
    """The time of one run on a commit that was never measured."""
    commit = _commit(repo, f"{number} {len(policy.gates or ())}")
    measuring = CommitMeasurement(gates.environment, policy)
    return _timed(lambda: measuring.verdict(MeasurementTerms(commit=commit, policy=policy)))


def _known(gates: Gates, repo: str) -> float:
    commit, policy = _commit(repo, "known"), _sleeping(1, 0.01)
    measuring = CommitMeasurement(gates.environment, policy)
    measuring.verdict(MeasurementTerms(commit=commit, policy=policy))
    return _timed(lambda: measuring.verdict(MeasurementTerms(commit=commit, policy=policy)))


def _commit(repo: str, text: str) -> str:
    Path(repo, "file").write_text(text, encoding="utf-8")
    _git(repo, "add", "file")
    _git(repo, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", text)
    done = subprocess.run(["git", "rev-parse", "HEAD"], cwd=repo, check=True, capture_output=True, text=True)
    return done.stdout.strip()


def _sleep(seconds: float) -> None:
    subprocess.run(["sleep", str(seconds)], check=True)


def _timed(work: object) -> float:
    start = time.perf_counter()
    work()  # type: ignore[operator]
    return time.perf_counter() - start


def _median(times: list[float]) -> float:
    return sorted(times)[len(times) // 2]


def _git(folder: str, *words: str) -> None:
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)

"""Runs the benchmarks: `python -m benchmarks [name ...] [--quick | --full] [--compare]`.

A run keeps its figures in `baseline.json` and writes them into `docs/benchmarks.md`. With `--compare` it keeps nothing:
it names every figure that is worse than the one kept by more than 15 %, and then ends with 1.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from types import FrameType

from benchmarks import (
    agents,
    analyze,
    append,
    archive,
    baseline,
    checkout,
    claims,
    cli,
    feedback,
    forge,
    gates,
    growth,
    hook,
    pages,
    postgres_claims,
    ready,
    rebuild,
    server_claims,
    signing,
    snapshot,
    validate,
    warnings,
    webhook,
    years,
)
from benchmarks.report import Report
from benchmarks.scale import FULL, QUICK, USUAL
from benchmarks.scratch import scratch_folder

SUBJECTS = {
    "append": append.run,
    "claims": claims.run,
    "postgres": postgres_claims.run,
    "server": server_claims.run,
    "rebuild": rebuild.run,
    "archive": archive.run,
    "years": years.run,
    "pages": pages.run,
    "ready": ready.run,
    "growth": growth.run,
    "cli": cli.run,
    "validate": validate.run,
    "analyze": analyze.run,
    "warnings": warnings.run,
    "checkout": checkout.run,
    "snapshot": snapshot.run,
    "gates": gates.run,
    "hook": hook.run,
    "forge": forge.run,
    "webhook": webhook.run,
    "feedback": feedback.run,
    "agents": agents.run,
    "signing": signing.run,
}


def main(words: list[str] | None = None) -> None:
    """Runs what was asked for, then prints all goals."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="name", help=f"of {', '.join(SUBJECTS)}; all by default")
    size = parser.add_mutually_exclusive_group()
    size.add_argument("--quick", dest="scale", action="store_const", const=QUICK, help="a first look")
    size.add_argument("--full", dest="scale", action="store_const", const=FULL, help="at full size")
    parser.add_argument("--compare", action="store_true", help="compare with baseline.json; keep nothing")
    parser.set_defaults(scale=USUAL)
    arguments = parser.parse_args(words)
    unknown = [name for name in arguments.names if name not in SUBJECTS]
    if unknown:
        parser.error(f"there is no benchmark {', '.join(unknown)}")
    signal.signal(signal.SIGTERM, _leave)
    start = time.monotonic()
    with scratch_folder() as folder:
        report = Report(folder, arguments.scale, baseline.current_commit())
        report.machine()
        for name in arguments.names or SUBJECTS:
            report.start(name)
            SUBJECTS[name](report)
        report.summary()
    print(f"{time.monotonic() - start:.0f} s in all")
    if arguments.compare:
        sys.exit(_compare(report))
    baseline.keep(report.runs)
    print("Kept in benchmarks/baseline.json and docs/benchmarks.md.")


def _compare(report: Report) -> int:
    """Says what slipped since the figures were kept; 1 when something did."""
    known = baseline.load()
    found = baseline.slips(report.runs, known)
    print(
        f"\n## Compared with benchmarks/baseline.json: {len(found) or 'nothing'} worse by more than 15 %, new or missing\n"
    )
    for sentence in found:
        print(f"- {sentence}")
    return 1 if found else 0


def _leave(number: int, frame: FrameType | None) -> None:
    """Ends in good order, so that nothing stays behind."""
    sys.exit(128 + number)


if __name__ == "__main__":
    main()

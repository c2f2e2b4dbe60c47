"""However a job ends: when its answer comes, no process of its sandbox lives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from remand.adapters.sandbox import supervisor
from remand.adapters.sandbox.agent_launchers import ConfinedAgentLauncher
from remand.adapters.sandbox.limits import ResourceLimits
from remand.adapters.sandbox.sandboxes import BubblewrapSandbox, find_bubblewrap
from remand.adapters.sandbox.self_test import AgentTestbed
from remand.app.gates.ports import MIB, JobLimits
from tests.integration.agent_launchers import Bench as AgentBench
from tests.integration.agent_launchers import end_of
from tests.integration.sandboxes import KINDS, Bench, sandbox_of

Patch = pytest.MonkeyPatch
Way = Callable[[Bench, Patch], None]

SLOW_TO_GO = """#!/bin/sh
[ "$1" = --help ] && exec {program} --help
{program} "$@"
code=$?
sleep {seconds}
exit $code
"""
"""Bubblewrap on a busy machine: it goes a while after what was inside has gone, whoever started it."""


def slow_bubblewrap(folder: Path, seconds: int) -> str:
    """The path of a bubblewrap that takes so many seconds to go; skips the test where there is none."""
    sandbox_of("bubblewrap")
    path = folder / "bwrap"
    path.write_text(SLOW_TO_GO.format(program=find_bubblewrap(), seconds=seconds))
    path.chmod(0o755)
    return str(path)


def exits(bench: Bench, patch: Patch) -> None:
    assert bench.shell("sleep 1000 & exit 3").status == 3


def runs_out_of_time(bench: Bench, patch: Patch) -> None:
    assert bench.shell("sleep 1000 & sleep 1000", seconds=1).how == "timed_out"


def fills_the_disk(bench: Bench, patch: Patch) -> None:
    patch.setattr(supervisor, "is_full", lambda folder: True)

    assert "disk" in bench.shell("sleep 1000 & sleep 1000").detail


def takes_too_much_memory(bench: Bench, patch: Patch) -> None:
    limits = JobLimits(seconds=600, memory=256 * MIB)

    ended = bench.python("import os\nos.fork()\nkept = b'x' * (1 << 30)", limits=limits)

    assert (ended.how, ended.status) != ("exited", 0)


def is_cancelled(bench: Bench, patch: Patch) -> None:
    def interrupt(event: threading.Event, seconds: float) -> bool:
        patch.undo()
        raise KeyboardInterrupt

    patch.setattr(threading.Event, "wait", interrupt)

    with pytest.raises(KeyboardInterrupt):
        bench.shell("sleep 1000 & sleep 1000")


def cannot_be_bounded(bench: Bench, patch: Patch) -> None:
    def refuse(fence: object, pid: int) -> None:
        raise PermissionError("no bounds")

    patch.setattr(ResourceLimits, "add_process", refuse)

    assert bench.shell("sleep 1000").how == "not_started"


def is_given_up_while_it_is_made(bench: Bench, patch: Patch) -> None:
    patch.setattr(supervisor, "START_SECONDS", 0.0)

    assert bench.shell("sleep 1000", seconds=1).how in ("not_started", "timed_out")


def kills_its_launcher(bench: Bench, patch: Patch) -> None:
    bench.shell("sleep 1000 & kill -9 $PPID; sleep 1000", seconds=1)


def stops_its_launcher(bench: Bench, patch: Patch) -> None:
    assert bench.shell("sleep 1000 & kill -STOP $PPID; sleep 1000", seconds=1).how == "timed_out"


def leaves_its_parents_again_and_again(bench: Bench, patch: Patch) -> None:
    chain = "import os, time\nwhile True:\n    if os.fork(): os._exit(0)\n    time.sleep(0.001)"

    bench.python(f"import os, time\nif os.fork():\n    time.sleep(1000)\n{chain}", seconds=1)


WAYS = (
    exits,
    runs_out_of_time,
    fills_the_disk,
    takes_too_much_memory,
    is_cancelled,
    cannot_be_bounded,
    is_given_up_while_it_is_made,
    kills_its_launcher,
    stops_its_launcher,
    leaves_its_parents_again_and_again,
)


def name_of(way: Way) -> str:
    return getattr(way, "__name__", "")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_nothing_of_a_job_lives_when_its_answer_comes(
    way: Way, kind: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    bench = Bench(sandbox_of(kind), tmp_path)

    way(bench, monkeypatch)

    assert bench.survivors() == []


FORCED = (runs_out_of_time, fills_the_disk, is_cancelled, cannot_be_bounded, is_given_up_while_it_is_made)


@pytest.mark.parametrize("way", FORCED, ids=name_of)
def test_bubblewrap_itself_is_gone_by_then_though_it_is_slow_to_go(
    way: Way, tmp_path: Path, monkeypatch: Patch
) -> None:
    bench = Bench(BubblewrapSandbox(slow_bubblewrap(tmp_path, seconds=1)), tmp_path)

    way(bench, monkeypatch)

    assert bench.survivors() == []


def test_a_bubblewrap_that_stays_for_good_is_killed(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(supervisor, "END_SECONDS", 1.0)
    bench = Bench(BubblewrapSandbox(slow_bubblewrap(tmp_path, seconds=1000)), tmp_path)

    is_given_up_while_it_is_made(bench, monkeypatch)

    assert bench.survivors() == []


def test_nothing_of_an_agent_lives_when_its_end_is_known(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.setattr(supervisor, "END_SECONDS", 0.5)
    launcher = ConfinedAgentLauncher(slow_bubblewrap(tmp_path, seconds=1000))
    with ExitStack() as stack:
        bench = AgentBench(launcher, AgentTestbed(stack))
        agent = bench.start("/bin/sh", "-c", "sleep 1000 & sleep 1000", bench.mark)
        agent.stop()

        end_of(agent)

        assert bench.survivors() == []

"""Which sandbox is chosen, what each says it holds, and what a caller is told."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from remand.adapters.sandbox import sandboxes
from remand.adapters.sandbox.sandboxes import (
    BubblewrapSandbox,
    LandlockSandbox,
    PlainSandbox,
    find_bubblewrap,
)
from remand.adapters.sandbox.self_test import attack_sandbox
from remand.app.gates.ports import Job, JobLimits, JobResult, Sandbox
from tests.integration.sandboxes import KINDS, Bench, has_groups, made, sandbox_of

CANNOT_HOLD = {
    "bubblewrap": set(),
    "landlock": {"reach the network", "reach a socket by its path"},
    "plain": {
        *(
            "write outside",
            "cut off a file outside",
            "write to the ledger",
            "read a secret in home",
            "read the environment of others",
        ),
        *("reach the network", "reach a server on this machine", "end another process"),
        *("reach a socket by its path", "reach a socket by its name", "steer the kernel"),
    },
}


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Bench:
    """A job's place."""
    return Bench(sandbox_of(request.param), tmp_path)


everywhere = pytest.mark.parametrize("bench", KINDS, indirect=True)


@pytest.mark.parametrize("kind", KINDS)
def test_every_attack_is_held_off_but_those_that_a_tier_cannot(kind: str) -> None:
    probes = attack_sandbox(sandbox_of(kind))
    uncounted = set() if has_groups() else {"start processes without end"}

    assert len(probes) == len({probe.name for probe in probes}) == 17
    lost = {probe.name: probe.detail for probe in probes if not probe.held}
    assert lost.keys() <= CANNOT_HOLD[kind] | uncounted
    assert all(lost.values())


def test_a_self_test_reports_what_does_not_hold(tmp_path: Path) -> None:
    lost = {probe.name for probe in attack_sandbox(PlainSandbox()) if not probe.held}

    assert lost >= {"write outside", "write to the ledger", "read a secret in home", "end another process"}


def test_a_sandbox_that_runs_nothing_holds_nothing() -> None:
    class Broken:
        tier = "broken"

        def run(self, job: Job) -> JobResult:
            return JobResult("not_started", 127, detail="It is broken.")

    broken: Sandbox = Broken()

    assert [probe for probe in attack_sandbox(broken) if probe.held] == []


@pytest.fixture
def choosing() -> Callable[[], sandboxes.AnySandbox]:
    """Chooses anew, without what was chosen before."""
    return sandboxes._find_best_sandbox.__wrapped__


def test_the_best_sandbox_that_holds_is_chosen(choosing: Callable[[], sandboxes.AnySandbox]) -> None:
    tiers = [sandbox.tier for sandbox, _ in map(made, KINDS) if sandbox]

    assert choosing().tier == tiers[0]


def test_a_missing_bubblewrap_is_said_and_the_next_one_taken(
    choosing: Callable[[], sandboxes.AnySandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "PLACES", ("/nonexistent",))
    next_one = next(sandbox.tier for sandbox, _ in map(made, KINDS[1:]) if sandbox)

    chosen = choosing()

    assert chosen.tier == next_one
    assert "bubblewrap: not installed" in chosen.detail


def test_a_bubblewrap_that_does_not_work_is_not_taken(
    choosing: Callable[[], sandboxes.AnySandbox], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    fake.chmod(0o755)
    monkeypatch.setattr(sandboxes, "PLACES", (str(tmp_path),))

    chosen = choosing()

    assert chosen.tier != "bubblewrap"
    assert "bwrap: setting up uid map: Permission denied" in chosen.detail


def test_where_nothing_holds_plain_says_why(
    choosing: Callable[[], sandboxes.AnySandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sandboxes, "find_sandbox_fault", lambda sandbox: f"no {sandbox.tier} today")
    monkeypatch.setattr(sandboxes, "find_bubblewrap", lambda: "/usr/bin/bwrap")

    chosen = choosing()

    assert chosen.tier == "plain"
    assert chosen.detail == ("bubblewrap: no bubblewrap today; landlock: no landlock today")


def test_a_sandbox_that_does_not_mask_is_found_out() -> None:
    assert sandboxes.find_sandbox_fault(PlainSandbox()) == "it does not keep a job from masked files"


def test_the_choice_is_made_once() -> None:
    assert sandboxes.best_sandbox() is sandboxes.best_sandbox()


@everywhere
def test_a_program_that_is_not_there_is_not_started_and_says_what_to_do(bench: Bench) -> None:
    (bench.folder / "text").write_text("no program")
    (bench.folder / "lost").write_text("#!/nonexistent/interpreter\n")
    (bench.folder / "lost").chmod(0o755)
    expected = {
        "no-such-program": "Install it, or add the folder it is in to [sandbox] path",
        "./no-such-program": "Fix the command in remand.toml, or install it",
        "./text": "Make it executable",
        "./lost": "Check that the program and its interpreter exist",
    }

    for name, advice in expected.items():
        ended = bench.sandbox.run(bench.job(name))
        assert (ended.how, ended.status) == ("not_started", 127)
        assert advice in ended.detail
        assert name.removeprefix("./") in ended.detail


SENSELESS: dict[str, dict[str, object]] = {
    "no command": {"command": ()},
    "NUL in an argument": {"command": ("true", "a\x00b")},
    "half a character": {"command": ("true", "\ud800")},
    "NUL in the program": {"command": ("a\x00b",)},
    "too long": {"command": ("true", "x" * (1 << 23))},
    "odd name": {"environment": {"a=b": "c"}},
    "no name": {"environment": {"": "c"}},
    "NUL in a value": {"environment": {"a": "\x00"}},
    "no folder": {"folder": "/nonexistent"},
    "relative folder": {"folder": "relative"},
    "file for a folder": {"folder": "/etc/passwd"},
}


@everywhere
@pytest.mark.parametrize("wrong", SENSELESS)
def test_a_job_that_makes_no_sense_is_not_started(bench: Bench, wrong: str) -> None:
    ended = bench.sandbox.run(msgspec.structs.replace(bench.job("true"), **SENSELESS[wrong]))

    assert ended.how == "not_started"
    assert ended.detail


@everywhere
def test_paths_that_make_no_sense_are_passed_over(bench: Bench) -> None:
    strange = ("", "relative", "/nonexistent", "/\x00", "/etc/passwd/below", "/proc/self/fd/99")

    ended = bench.sandbox.run(
        bench.job("true", read=strange, hide=strange, path=strange, cache="/nonexistent")
    )

    assert (ended.how, ended.status) == ("exited", 0)


@everywhere
def test_jobs_at_the_same_time_do_not_disturb_one_another(bench: Bench) -> None:
    answers: dict[int, JobResult] = {}

    def work(number: int) -> None:
        answers[number] = bench.shell(f"echo {number}; ls /proc >/dev/null; exit {number}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert {number: (ended.how, ended.status, ended.output) for number, ended in answers.items()} == {
        number: ("exited", number, f"{number}\n".encode()) for number in range(8)
    }


@everywhere
def test_a_script_without_a_first_line_is_the_shells(bench: Bench) -> None:
    (bench.folder / "check").write_text("echo works $1\n")
    (bench.folder / "check").chmod(0o755)

    ended = bench.sandbox.run(bench.job("./check", "well"))

    assert ended.output == b"works well\n"


@everywhere
def test_output_is_kept_whole_up_to_the_limit(bench: Bench) -> None:
    limits = JobLimits(seconds=600, output=1000)

    ended = bench.shell("head -c 1000 /dev/zero; head -c 999 /dev/zero >&2", limits=limits)

    assert (len(ended.output), len(ended.errors), ended.is_cut) == (1000, 999, False)


def test_a_job_with_network_finds_the_same_network(tmp_path: Path) -> None:
    for kind in KINDS:
        sandbox, _ = made(kind)
        if isinstance(sandbox, BubblewrapSandbox | LandlockSandbox):
            root = tmp_path / kind
            root.mkdir()
            bench = Bench(sandbox, root)
            inside = bench.shell("readlink /proc/self/ns/net", has_network=True).output
            assert inside == str(Path("/proc/self/ns/net").readlink()).encode() + b"\n"


def test_a_sandbox_is_made_again_when_a_mount_was_just_taken_down(tmp_path: Path) -> None:
    sandbox_of("bubblewrap")
    tried = tmp_path / "tried"
    wrapper = tmp_path / "bwrap"
    wrapper.write_text(
        f"""#!/bin/sh
if [ "$1" != --help ] && [ ! -e {tried} ]; then
    touch {tried}
    echo 'bwrap: Can'"'"'t bind mount /oldroot/ on /newroot/: Unable to apply mount flags: remount' >&2
    exit 1
fi
exec {find_bubblewrap()} "$@"
"""
    )
    wrapper.chmod(0o755)
    (tmp_path / "folder").mkdir()

    ended = BubblewrapSandbox(str(wrapper)).run(Job(command=("/bin/true",), folder=str(tmp_path / "folder")))

    assert tried.exists()
    assert (ended.how, ended.status) == ("exited", 0), ended

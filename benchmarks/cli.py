"""The command line from start to end, installed as people install it, beside an empty Python: processor time.

On a host of a server: the time by the clock, beside the local coordinator.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

from benchmarks.measure import Operation, interleaved, processor_time, timed
from benchmarks.report import Report, figure, millis
from benchmarks.scratch import adding, ask_all, coordinator, new_ledger

TASKS = 1000
LOADING = "from remand.interfaces.cli.entry import load_command_line; load_command_line()"
ROOT = Path(__file__).parents[1]
EMPTY, VENV_EMPTY = "python -I -S -c pass", "python -c pass (in the venv)"
ALONE, SERVED, REMOTE = "remand {}", "remand {}, coordinator", "remand {}, server"
LIST = "task list --json"
IMPORT = "import of the command line"
CALLS = {"read": (LIST,), "change": ("task add Roof --json", "task claim --agent Alice --json")}


def run(report: Report) -> None:
    """Prints the table."""
    report.heading(f"The command line, {TASKS:,} tasks")
    bin_folder = install(os.path.join(report.folder, "cli"))
    python, remand = os.path.join(bin_folder, "python"), os.path.join(bin_folder, "remand")
    said = os.path.join(report.folder, "said")
    operations = {
        EMPTY: _starting([python, "-I", "-S", "-c", "pass"], said),
        VENV_EMPTY: _starting([python, "-c", "pass"], said),
        IMPORT: _starting([python, "-c", LOADING], said),
    }
    with ExitStack() as stack:
        for kind, calls in CALLS.items():
            alone, served = (_repository(report, f"{kind}-{name}") for name in ("alone", "served"))
            stack.enter_context(coordinator(served, (remand,)))
            for words in calls:
                operations[ALONE.format(words)] = _starting([remand, "-C", alone, *words.split()], said)
                operations[SERVED.format(words)] = _starting([remand, "-C", served, *words.split()], said)
        times = interleaved(operations, report.scale.calls, report.quiet())
    base = times[EMPTY].p50
    report.table(
        ("command", "p50 ms", "p99 ms", f"CPU / {EMPTY}"),
        [
            (name, millis(found.p50), millis(found.p99), figure(found.p50 / base))
            for name, found in times.items()
        ],
    )
    report.goal(f"{IMPORT}, CPU / {EMPTY}", times[IMPORT].p50 / base, most=10)
    for words in (LIST, *CALLS["change"]):
        for name, most in ((ALONE.format(words), 6), (SERVED.format(words), 1.8)):
            report.goal(f"{name}, CPU / {EMPTY}", times[name].p50 / base, most=most)
    _compare_with_server(report, remand)


def _compare_with_server(report: Report, remand: str) -> None:
    """How long a call takes by the clock on a host of a server, beside one that the local coordinator answers."""
    report.heading("The command line on a host of a server")
    said, words = os.path.join(report.folder, "said"), (LIST, *CALLS["change"])
    with ExitStack() as stack:
        near, far = (_repository(report, name) for name in ("near", "far"))
        stack.enter_context(coordinator(near, (remand,)))
        url, token = stack.enter_context(_server(far))
        host = {**os.environ, "REMAND_SERVER": url, "REMAND_TOKEN": token}
        operations = {}
        for one in words:
            operations[SERVED.format(one)] = timed(_start([remand, "-C", near, *one.split()], said))
            operations[REMOTE.format(one)] = timed(_start([remand, "-C", far, *one.split()], said, host))
        times = interleaved(operations, report.scale.calls, report.quiet())
    report.table(
        ("command, by the clock", "p50 ms", "p99 ms"),
        [(name, millis(found.p50), millis(found.p99)) for name, found in times.items()],
    )
    for one in words:
        ratio = times[REMOTE.format(one)].p50 / times[SERVED.format(one)].p50
        report.goal(f"remand {one}, by the clock: through a server / the coordinator", ratio, most=2)


@contextmanager
def _server(repo: str) -> Iterator[tuple[str, str]]:
    """Runs a server of a repository's ledger; gives its address and a token of the user."""
    program = [sys.executable, "-m", "remand.interfaces.cli.entry", "-C", repo]
    create = [*program, "token", "create", "--member", "user", "--json"]
    token = json.loads(subprocess.run(create, check=True, capture_output=True).stdout)["token"]
    serve = [*program, "serve", "--port", "0", "--json", "--no-open"]
    process = subprocess.Popen(serve, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    try:
        assert process.stdout is not None
        yield json.loads(process.stdout.readline())["url"], token
    finally:
        process.terminate()
        process.wait(60)


def _repository(report: Report, name: str) -> str:
    repo = os.path.join(report.folder, name)
    opened = new_ledger(repo)
    ask_all(opened.ledger, adding(TASKS))
    opened.store.close()
    return repo


def _starting(command: list[str], said: str) -> Operation:
    """An operation that gives the processor time of a program from start to end."""
    return processor_time(_start(command, said))


def _start(command: list[str], said: str, environment: Mapping[str, str] = os.environ) -> Callable[[], None]:
    """Starts a program and waits for its end; what it says goes to a file."""
    to_file = [
        (os.POSIX_SPAWN_OPEN, 1, said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600),
        (os.POSIX_SPAWN_DUP2, 1, 2),
    ]

    def start() -> None:
        process = os.posix_spawn(command[0], command, environment, file_actions=to_file)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        if code:
            text = Path(said).read_text(encoding="utf-8", errors="replace")
            raise RuntimeError(f"{' '.join(command)} ended with {code}: {text[-500:]}")

    return start


def install(folder: str) -> str:
    """Builds Remand and installs it with its core dependencies alone; gives the folder of its programs."""
    os.makedirs(folder)
    wheels, venv = os.path.join(folder, "wheels"), os.path.join(folder, "venv")
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", wheels)
    (wheel,) = Path(wheels).glob("*.whl")
    uv = os.path.join(sysconfig.get_path("scripts"), "uv")
    _run(uv, "venv", "--quiet", "--python", sys.executable, venv)
    python = os.path.join(venv, "bin", "python")
    install = (uv, "pip", "install", "--quiet", "--compile-bytecode", "--python", python)
    pins = ("-c", str(ROOT / "requirements" / "bench.txt"))
    try:
        _run(*install, "--offline", *pins, str(wheel))
    except RuntimeError:
        _run(*install, *pins, str(wheel))
    return os.path.join(venv, "bin")


def _run(*command: str) -> None:
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, timeout=300, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.decode(errors='replace')[-800:]}")

"""What every launcher does: agents are started, heard, asked to end, and end; nothing of them stays."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import msgspec
import pytest

from remand.adapters.sandbox import agent_launchers, limits
from remand.adapters.sandbox.limits import ControlGroup, make_group
from remand.adapters.sandbox.processes import (
    LEFT_OUT,
    OutputLog,
    ProcessTable,
    descendants,
    kill_orphans,
    running_processes,
)
from remand.adapters.sandbox.sandboxes import find_bubblewrap
from remand.adapters.sandbox.self_test import AgentTestbed
from remand.app.gates.ports import JobLimits
from remand.app.scheduler.ports import CannotRun, TaskWorktree
from tests.integration.agent_launchers import KINDS, Bench, end_of, eventually, launcher_of
from tests.integration.sandboxes import marked

Campaign = Callable[[int, int], int]


@pytest.fixture(scope="module")
def stand() -> Iterator[AgentTestbed]:
    """A small world that agents may do in what they want, as long as they leave it standing."""
    with ExitStack() as stack:
        yield AgentTestbed(stack)


@pytest.fixture(params=KINDS)
def bench(request: pytest.FixtureRequest, stand: AgentTestbed) -> Iterator[Bench]:
    """An agent's place; afterwards nothing of it runs."""
    made = Bench(launcher_of(request.param), stand)
    yield made
    eventually(lambda: made.survivors() == [])


@pytest.fixture
def own(bench: Bench) -> Iterator[Bench]:
    """A place that nobody else has to do with afterwards."""
    with ExitStack() as stack:
        yield Bench(bench.launcher, AgentTestbed(stack))


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Agents have hardly any time to end by themselves."""
    monkeypatch.setattr(agent_launchers, "GRACE_SECONDS", 0.2)


# --------------------------------------------------------------------------------------- what it says and is told


def test_an_agent_is_told_its_prompt_and_heard(bench: Bench) -> None:
    ended = bench.shell("cat; echo trouble >&2; pwd; exit 3", prompt="Mend the größte fault.\n")

    assert (ended.how, ended.status) == ("exited", 3)
    assert ended.output == f"Mend the größte fault.\n{bench.folder}\n"
    assert ended.errors == "trouble\n"
    assert 0 < ended.seconds < 600


def test_a_prompt_of_any_size_is_given_whole_whether_it_is_read_or_not(bench: Bench) -> None:
    prompt = "x" * (5 << 20)

    assert bench.shell("wc -c", prompt=prompt).output.strip() == str(5 << 20)
    assert bench.shell("head -c 1", prompt=prompt).output == "x"
    assert bench.shell("exec <&-; echo done", prompt=prompt).output == "done\n"
    assert bench.shell("wc -c", prompt="").output.strip() == "0"


def test_its_end_is_told_when_it_comes_and_once_it_has_come(bench: Bench) -> None:
    told: list[bool] = []
    running = bench.start("/bin/sh", "-c", "read -r line; sleep 1000")
    running.notify_end(lambda: told.append(running.poll() is not None))
    assert not told

    running.stop()
    eventually(lambda: bool(told))
    running.notify_end(lambda: told.append(running.poll() is not None))

    assert set(told) == {True}
    assert len(told) >= 2


def test_of_much_output_head_and_tail_are_kept(bench: Bench) -> None:
    ended = bench.shell("echo first; head -c 3000000 /dev/zero; echo last; head -c 3000000 /dev/zero >&2")

    assert ended.output.startswith("first\n\0")
    assert ended.output.endswith("\0last\n")
    assert (len(ended.output), len(ended.errors)) == (agent_launchers.OUTPUT, agent_launchers.ERRORS)


def test_what_is_said_is_in_the_log_as_it_is_said(bench: Bench) -> None:
    running = bench.start("/bin/sh", "-c", "echo one; echo two >&2; read -r line; sleep 1000")

    eventually(lambda: sorted(bench.log().split()) == [b"one", b"two"])
    assert os.stat(bench.order().log).st_mode & 0o077 == 0
    running.stop()
    end_of(running)


def test_a_log_holds_no_more_than_head_and_tail(bench: Bench) -> None:
    bench.shell("echo first; head -c 3000000 /dev/zero; echo last")

    log = bench.log()
    assert log.startswith(b"first\n\0")
    assert log.endswith(b"\0last\n")
    assert len(log) == OutputLog.HEAD + len(LEFT_OUT) + OutputLog.TAIL


def test_a_log_is_begun_anew_and_whole_when_it_is_not_long(bench: Bench) -> None:
    bench.shell("echo before")
    bench.shell(f"head -c {OutputLog.HEAD} /dev/zero; head -c {OutputLog.TAIL - 5} /dev/zero; echo last")

    assert bench.log() == bytes(OutputLog.HEAD + OutputLog.TAIL - 5) + b"last\n"


def test_a_log_that_cannot_be_written_to_the_end_does_not_hinder_the_agent(bench: Bench) -> None:
    ended = bench.shell("echo said", log="/dev/full")

    assert (ended.how, ended.status, ended.output) == ("exited", 0, "said\n")


def test_what_is_no_text_is_replaced(bench: Bench) -> None:
    assert bench.shell("printf 'a\\377b'").output == "a\ufffdb"


def test_an_agent_that_closes_its_output_is_still_waited_for(bench: Bench) -> None:
    ended = bench.shell("exec >&- 2>&-; sleep 0.1; exit 4")

    assert (ended.how, ended.status) == ("exited", 4)


def test_an_agent_that_ends_by_a_signal_is_said_to(bench: Bench) -> None:
    ended = bench.shell("kill -SEGV $$")

    assert (ended.how, ended.status, ended.errors) == ("signalled", 11, "")


def test_a_script_without_a_first_line_is_the_shells(bench: Bench) -> None:
    (bench.folder / "agent").write_text("echo works $1\n")
    (bench.folder / "agent").chmod(0o755)

    for has_network in (False, True):
        ended = end_of(bench.start("./agent", "well", has_network=has_network))
        assert (ended.output, ended.errors) == ("works well\n", "")


def test_nothing_is_inherited(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "planted")
    with open(bench.stand.ledger) as file:
        os.set_inheritable(file.fileno(), True)

        ended = bench.python(
            "import json, os\n"
            "open_files = [n for n in range(3, 256) if os.path.exists(f'/proc/self/fd/{n}')]\n"
            "print(json.dumps([dict(os.environ), open_files]))",
            environment={"MARK": bench.mark, "GIVEN": "yes", "REMAND_SOCKET": "/another"},
        )

    environment, open_files = json.loads(ended.output)
    always = {"PATH", "HOME", "TMPDIR", "LANG", "PWD", "REMAND_SOCKET", "MARK", "GIVEN"}
    assert environment.keys() - {"REMAND_MARK", "LC_CTYPE", "OLDPWD", "SHLVL", "_"} == always
    assert environment["GIVEN"] == "yes"
    assert environment["REMAND_SOCKET"] != "/another"
    assert open_files == []


def test_the_order_may_say_where_home_is(bench: Bench) -> None:
    ended = bench.shell('echo "$HOME"', environment={"HOME": "/opt", "MARK": bench.mark})

    assert ended.output == "/opt\n"


def test_its_socket_can_be_reached(bench: Bench) -> None:
    path = bench.stand.path(f"run/{bench.mark[:8]}")
    with socket.socket(socket.AF_UNIX) as agent_socket:
        agent_socket.bind(path)
        agent_socket.listen()
        running = bench.start(
            *(sys.executable, "-I", "-S", "-c"),
            "import os, socket\n"
            "with socket.socket(socket.AF_UNIX) as agent_socket:\n"
            "    agent_socket.connect(os.environ['REMAND_SOCKET'])\n"
            "    agent_socket.sendall(b'who am I?')\n"
            "    print(agent_socket.recv(100).decode())",
            socket=path,
        )
        visitor, _ = agent_socket.accept()
        with visitor:
            assert visitor.recv(100) == b"who am I?"
            visitor.sendall(b"yourself")
        assert end_of(running).output == "yourself\n"


def test_an_agent_commits_its_work(own: Bench) -> None:
    environment = {f"GIT_{who}_{what}": "a" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}

    ended = own.shell(
        "git status -s; echo done > work && git add work && git commit -q -m Work && git log --format=%s",
        environment=environment | {"MARK": own.mark},
    )

    assert (ended.status, ended.output, ended.errors) == (0, "Work\nBegin\n", "")


# ------------------------------------------------------------------------------------------------- how it ends


def test_looking_never_waits(bench: Bench) -> None:
    running = bench.start("sleep", "1000")

    assert [running.poll() for _ in range(1000)] == [None] * 1000
    running.stop()
    end_of(running)


POLITE = "trap 'echo asked; exit 7' TERM; echo begun; while :; do sleep 0.02; done"


def test_stopping_asks_first(bench: Bench) -> None:
    running = bench.start("/bin/sh", "-c", POLITE)
    eventually(lambda: bench.log() == b"begun\n")

    running.stop()
    running.stop()

    ended = end_of(running)
    assert (ended.how, ended.status) == ("stopped", 7)
    assert ended.output == "begun\nasked\n"


def test_an_agent_that_started_since_the_processes_were_read_is_asked_too() -> None:
    table = ProcessTable()
    table.now(os.getpid())
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert process.pid in {entry.pid for entry in table.now(process.pid)}
        finally:
            process.kill()


def test_nothing_is_killed_below_a_process_that_has_the_number_of_a_holder_that_was_waited_for() -> None:
    family = [sys.executable, "-c", "import subprocess; subprocess.run(['sleep', '100'])"]
    with subprocess.Popen(family, start_new_session=True) as process:
        try:
            eventually(lambda: bool(descendants(process.pid, list(running_processes()))))
            (child,) = descendants(process.pid, list(running_processes()))
            assert kill_orphans(process.pid, "", 1.0)
            assert child in {entry.pid for entry in running_processes()}
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def test_every_process_is_asked(bench: Bench) -> None:
    script = (
        "import signal, subprocess, sys\n"
        "signal.signal(15, signal.SIG_IGN)\n"
        "heed = lambda: signal.signal(15, signal.SIG_DFL)\n"
        "apart = subprocess.Popen(['sh', '-c', sys.argv[1]], preexec_fn=heed, start_new_session=True)\n"
        "sys.exit(apart.wait())"
    )
    running = bench.start(sys.executable, "-c", script, POLITE)
    eventually(lambda: bench.log() == b"begun\n")

    running.stop()

    ended = end_of(running)
    assert (ended.how, ended.status, ended.output) == ("stopped", 7, "begun\nasked\n")


DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for descriptor in range(3):
            os.close(descriptor)
        time.sleep(1000)
    os._exit(0)
os.wait()
print("begun", flush=True)
"""
DEAF = "import signal; [signal.signal(number, signal.SIG_IGN) for number in (1, 2, 3, 15)]\n"
ENDLESS = {
    "hangs": ("/bin/sh", "-c", "echo begun; sleep 1000"),
    "is deaf": (sys.executable, "-c", DEAF + DAEMON + "time.sleep(1000)"),
    "stops itself": ("/bin/sh", "-c", "echo begun; kill -STOP $$"),
    "multiplies": ("/bin/sh", "-c", "echo begun; while :; do sleep 1000 & done"),
}


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("how", ["stopped", "timed_out"])
def test_what_does_not_end_is_ended_with_all_it_has_started(bench: Bench, how: str) -> None:
    seconds = 6000.0 if how == "stopped" else 0.5
    benches = {name: Bench(bench.launcher, bench.stand) for name in ENDLESS}
    begun = {name: benches[name].start(*ENDLESS[name], seconds=seconds) for name in ENDLESS}
    if how == "stopped":
        for name, running in begun.items():
            eventually(lambda made=benches[name]: made.log().startswith(b"begun"))
            running.stop()
    assert {name: end_of(running).how for name, running in begun.items()} == dict.fromkeys(ENDLESS, how)
    assert [made.survivors() for made in benches.values()] == [[]] * len(benches)


def test_time_that_does_not_count_is_added_to_its_time(bench: Bench) -> None:
    measured = iter((1.0, 6000.0))
    asked: list[float] = []

    def uncounted() -> float:
        asked.append(next(measured, 6000.0))
        return asked[-1]

    ended = end_of(bench.start("/bin/sh", "-c", "sleep 1.5; echo done", seconds=0.3, uncounted=uncounted))
    assert (ended.how, ended.output) == ("exited", "done\n")
    assert asked, "its time was not even looked at"


def test_nothing_that_it_leaves_behind_outlives_it(bench: Bench) -> None:
    ended = bench.python(DEAF + DAEMON)

    assert (ended.how, ended.status, ended.output) == ("exited", 0, "begun\n")
    assert bench.survivors() == []


def test_a_process_that_keeps_a_pipe_open_is_not_waited_for(bench: Bench) -> None:
    assert bench.shell("sleep 1000 & echo done").output == "done\n"


def test_how_it_ended_is_not_changed_by_stopping_it_afterwards(bench: Bench) -> None:
    running = bench.start("true")
    before = end_of(running)

    running.stop()

    bench.shell("true")
    assert running.poll() is before
    assert before.how == "exited"


def test_an_agent_lives_on_when_the_thread_that_asked_for_it_ends(bench: Bench) -> None:
    started = []
    thread = threading.Thread(target=lambda: started.append(bench.start("/bin/sh", "-c", POLITE)))
    thread.start()
    thread.join()
    eventually(lambda: bench.log() == b"begun\n")

    started[0].stop()

    assert end_of(started[0]).status == 7


def test_nothing_of_ours_is_left_open_or_lying_about(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[ControlGroup] = []

    def noted(bounds: JobLimits) -> ControlGroup | None:
        one = make_group(bounds)
        made.extend([one] if one else [])
        return one

    monkeypatch.setattr(limits, "make_group", noted)
    bench.shell("true")
    before = len(os.listdir("/proc/self/fd"))

    for _ in range(3):
        bench.shell("echo said; echo so >&2")
        with pytest.raises(CannotRun):
            bench.start("no-such-program")
    bench.start("sleep", "1000").stop()

    eventually(lambda: len(os.listdir("/proc/self/fd")) == before)
    eventually(
        lambda: not [folder for one in made for folder in one._folders.values() if os.path.exists(folder)]
    )


def test_many_agents_are_at_work_at_once(bench: Bench, campaign: Campaign) -> None:
    count = campaign(24, 200)
    before = len(os.listdir("/proc/self/fd"))
    begun: dict[int, object] = {}

    def begin(numbers: range) -> None:
        for number in numbers:
            order = bench.order("/bin/sh", "-c", f"cat; echo {number}; sleep 1000", prompt="p")
            order = msgspec.structs.replace(order, log=bench.stand.path(f"logs/{number}"))
            begun[number] = bench.launcher.start(order)

    threads = [threading.Thread(target=begin, args=(range(part, count, 4),)) for part in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    logs = {number: Path(bench.stand.path(f"logs/{number}")) for number in range(count)}
    for number, log in logs.items():
        eventually(lambda log=log, number=number: log.read_text() == f"p{number}\n")
    assert len(os.listdir("/proc/self/fd")) - before <= 5 * count
    assert [thread.name for thread in threading.enumerate()].count("remand-watch") == 1

    for running in begun.values():
        running.stop()
    ended = {number: end_of(running) for number, running in begun.items()}
    assert {number: (one.how, one.output) for number, one in ended.items()} == {
        number: ("stopped", f"p{number}\n") for number in range(count)
    }


def test_one_that_floods_does_not_keep_others_waiting(bench: Bench) -> None:
    flooding = bench.start("/bin/sh", "-c", "while :; do head -c 1000000 /dev/zero; done")

    assert Bench(bench.launcher, bench.stand).shell("cat", prompt="heard").output == "heard"
    flooding.stop()
    assert len(end_of(flooding).output) == agent_launchers.OUTPUT


# ---------------------------------------------------------------------------------------------- what cannot begin


def without(path: str) -> None:
    """Takes a file or folder away."""
    if os.path.isdir(path):
        shutil.rmtree(path)
    else:
        os.unlink(path)


def test_a_program_that_is_not_there_is_said(bench: Bench) -> None:
    for name, text, mode in (("text", "no program", 0o644), ("lost", "#!/nonexistent/python\n", 0o755)):
        (bench.folder / name).write_text(text)
        (bench.folder / name).chmod(mode)

    for name in ("no-such-program", "./no-such-program", "./text", "./lost", "/nonexistent", ".", ""):
        with pytest.raises(CannotRun, match=r"remand\.toml|Install") as caught:
            bench.start(name)
        assert caught.value.cause == "program"


SENSELESS: dict[str, dict[str, object]] = {
    "no command": {"command": ()},
    "NUL in an argument": {"command": ("true", "a\x00b")},
    "NUL in the program": {"command": ("a\x00b",)},
    "half a character": {"command": ("true", "\ud800")},
    "too long": {"command": ("true", "x" * (1 << 23))},
    "odd name": {"environment": {"a=b": "c"}},
    "no name": {"environment": {"": "c"}},
    "NUL in a value": {"environment": {"a": "\x00"}},
}


@pytest.mark.parametrize("wrong", SENSELESS)
def test_an_order_that_makes_no_sense_is_not_begun(bench: Bench, wrong: str) -> None:
    order = msgspec.structs.replace(bench.order("true"), **SENSELESS[wrong])

    with pytest.raises(CannotRun) as caught:
        bench.launcher.start(order)
    assert caught.value.cause == "program"


def test_a_prompt_that_is_no_text_is_given_all_the_same(bench: Bench) -> None:
    assert bench.shell("cat", prompt="a\ud800b\x00c").output == "a?b\0c"


def test_a_worktree_that_vanished_is_said(own: Bench) -> None:
    without(own.stand.worktree.folder)

    with pytest.raises(CannotRun, match="worktree") as caught:
        own.start("true")
    assert caught.value.cause == "git"


def test_a_worktree_that_is_a_link_is_not_used(own: Bench) -> None:
    place = own.stand.worktree
    os.rename(place.folder, f"{place.folder}.real")
    os.symlink("/etc", place.folder)

    with pytest.raises(CannotRun) as caught:
        own.start("true")
    assert caught.value.cause == "git"


def test_a_socket_that_is_not_there_is_said(bench: Bench) -> None:
    for agent_socket in ("/nonexistent", bench.stand.key, "a\x00b"):
        with pytest.raises(CannotRun) as caught:
            bench.start("true", socket=agent_socket)
        assert caught.value.cause == "socket"


def test_a_disk_that_is_nearly_full_is_said(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(bench.folder)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:4], 0, *real[5:])))

    with pytest.raises(CannotRun, match="nearly full") as caught:
        bench.start("true")
    assert caught.value.cause == "disk"


def test_an_agent_that_fills_its_disk_is_ended_before_it_is_full(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, room = os.statvfs(bench.folder), os.statvfs
    started = bench.folder / bench.mark

    def filled(path: str) -> os.statvfs_result:
        """The disk is full as soon as the agent has written its file."""
        return os.statvfs_result((*real[:4], 0, *real[5:])) if started.exists() else room(path)

    monkeypatch.setattr(os, "statvfs", filled)

    ended = bench.shell(f"echo x > {bench.mark}; exec sleep 600")

    assert ended.how == "stopped"
    assert "is nearly full" in ended.errors
    assert bench.survivors() == []


@pytest.mark.parametrize(
    ("number", "cause"), [(errno.ENOSPC, "disk"), (errno.EDQUOT, "disk"), (errno.EMFILE, "sandbox")]
)
def test_what_the_system_lacks_is_said(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, number: int, cause: str
) -> None:
    def lacking() -> tuple[int, int]:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "pipe", lacking)

    with pytest.raises(CannotRun, match=os.strerror(number)) as caught:
        bench.start("true")
    assert caught.value.cause == cause


def test_a_log_that_cannot_be_begun_is_said(bench: Bench) -> None:
    if not os.path.islink(bench.stand.path("planted")):
        os.symlink("/etc/passwd", bench.stand.path("planted"))

    for log in (bench.stand.path("planted"), bench.stand.path("repository/source/log")):
        with pytest.raises(CannotRun):
            bench.start("true", log=log)
    assert b"root" in Path("/etc/passwd").read_bytes()


def test_a_worktree_of_another_kind_is_no_mystery(bench: Bench) -> None:
    place = bench.stand.worktree
    plain = TaskWorktree(
        task_id=place.task_id, folder=place.folder, branch=place.branch, common_dir=place.common_dir
    )

    if bench.launcher.tier == "plain":
        assert bench.shell("git log --format=%s", worktree=plain).output == "Begin\n"
        return
    with pytest.raises(CannotRun) as caught:
        bench.start("true", worktree=plain)
    assert caught.value.cause == "git"


# -------------------------------------------------------------------------------------- when the scheduler is killed

STARTER = """
import os
import sys
import threading
from contextlib import ExitStack
from remand.adapters.sandbox import agent_launchers as unconfined, connections
from remand.adapters.sandbox.self_test import AgentTestbed as Stand
from remand.adapters.sandbox.sandboxes import find_bubblewrap as find
from remand.adapters.sandbox.agent_launchers import ConfinedAgentLauncher as ConfinedLauncher

kind, mark, agent, *program = sys.argv[1:]
if program:
    with open(program[0] + ".scheduler", "w") as file:
        file.write(str(os.getpid()))
stand = Stand(ExitStack())
if kind == "confined":
    launcher = ConfinedLauncher(program[0] if program else find())
else:
    real = connections.launcher_command
    connections.launcher_command = lambda *ends: [*program, *real(*ends)[len(program):]]
    launcher = unconfined.PlainAgentLauncher()
order = stand.order(sys.executable, "-c", agent, environment={"MARK": mark})
print(stand.root, flush=True)
sys.stdin.readline()
for number in range(8):
    launcher.start(order)
print("all", flush=True)
threading.Event().wait()
"""


@contextmanager
def starting(kind: str, mark: str, *program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that starts agents that are deaf, leave daemons behind, and say nothing that nobody would hear."""
    launcher_of(kind)
    agent = f"{DEAF}{DAEMON.partition('print')[0]}time.sleep(1000)  # {mark}"
    command = [sys.executable, "-c", STARTER, kind, mark, agent, *program]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as starter:
        assert starter.stdin is not None
        assert starter.stdout is not None
        root = starter.stdout.readline().strip()
        starter.stdin.write("go\n")
        starter.stdin.flush()
        yield starter
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_outlives_a_scheduler_that_is_killed_at_any_moment(kind: str, campaign: Campaign) -> None:
    for number in range(campaign(3, 150)):
        mark = f"{number}-{os.urandom(16).hex()}"
        with starting(kind, mark) as starter:
            assert starter.stdout is not None
            if number:
                time.sleep(number * 0.0137 % 0.25)
            else:
                assert starter.stdout.readline() == "all\n"
                assert len(marked(mark)) >= 8
            starter.kill()
        eventually(lambda mark=mark: marked(mark) == [])


LETHAL = """#!/bin/sh
[ "$1" = --help ] || kill -9 "$(cat "$0.scheduler")"
exec {program} "$@"
"""


@pytest.mark.parametrize("kind", KINDS)
def test_an_agent_does_not_begin_whose_scheduler_died_before_it_was_bound_to_it(
    kind: str, tmp_path: Path
) -> None:
    mark = os.urandom(16).hex()
    program = tmp_path / "program"
    program.write_text(LETHAL.format(program=find_bubblewrap() if kind == "confined" else sys.executable))
    program.chmod(0o755)

    with starting(kind, mark, str(program)) as starter:
        assert starter.wait() == -9

    eventually(lambda: marked(mark) == [])

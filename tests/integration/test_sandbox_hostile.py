"""Runs jobs that mean harm: each ends, is answered for, and leaves nothing behind."""

from __future__ import annotations

import os
import shutil
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.adapters.sandbox.processes import LEFT_OUT
from remand.app.gates.ports import MIB, JobLimits, JobResult
from tests.integration.processes import LONGER
from tests.integration.sandboxes import CONFINED, KINDS, NAMESPACED, Bench, has_groups, sandbox_of

Campaign = Callable[[int, int], int]

needs_groups = pytest.mark.skipif(
    os.name != "posix" or not has_groups(), reason="no control group may be made here"
)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    """A job's place; afterwards nothing of the job lives, and its folder can be removed."""
    made = Bench(sandbox_of(request.param), tmp_path)
    yield made
    assert made.survivors() == []
    shutil.rmtree(made.folder)


everywhere = pytest.mark.parametrize("bench", KINDS, indirect=True)
confined = pytest.mark.parametrize("bench", CONFINED, indirect=True)
namespaced = pytest.mark.parametrize("bench", NAMESPACED, indirect=True)


def peak() -> int:
    """The most memory this process has had since it was last asked to forget."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@everywhere
def test_a_flood_is_kept_in_bounded_memory_with_head_and_tail(bench: Bench, campaign: Campaign) -> None:
    size = campaign(200, 5000) * 1_000_000
    Path("/proc/self/clear_refs").write_text("5")
    before = peak()

    ended = bench.shell(
        'echo first; head -c "$1" /dev/zero; head -c "$1" /dev/zero >&2; echo last',
        str(size),
        seconds=600,
        limits=JobLimits(seconds=600, output=4 * MIB),
    )

    assert (ended.how, ended.status, ended.is_cut) == ("exited", 0, True)
    assert ended.output.startswith(b"first\n\x00")
    assert ended.output.endswith(b"\x00last\n")
    assert LEFT_OUT in ended.output
    assert len(ended.output) == len(ended.errors) == 4 * MIB
    assert peak() - before < 64 * MIB


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


@everywhere
def test_a_daemon_does_not_outlive_its_job(bench: Bench) -> None:
    ended = bench.python(DAEMON)

    assert (ended.how, ended.status, ended.output) == ("exited", 0, b"begun\n")


@everywhere
def test_a_process_that_keeps_the_pipe_open_is_not_waited_for(bench: Bench) -> None:
    ended = bench.shell("sleep 1000 & echo done")

    assert (ended.how, ended.status, ended.output) == ("exited", 0, b"done\n")


IGNORING = """
import os, signal, time
for number in (1, 2, 3, 15):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
time.sleep(1000)
"""

ENDLESS = {
    "hangs": "echo begun; sleep 1000",
    "ignores signals": f"exec python3 -I -S -c '{IGNORING}'",
    "leaves a daemon and hangs": f"python3 -I -S -c '{DAEMON}'; sleep 1000",
    "closes its output": "exec >&- 2>&-; sleep 1000",
    "stops itself": "kill -STOP $$",
    "stops its parent": "kill -STOP $PPID; sleep 1000",
    "kills its parent": "sleep 1000 & kill -9 $PPID; sleep 1000",
}


@everywhere
def test_what_does_not_end_by_itself_is_ended(bench: Bench) -> None:
    answers: dict[str, JobResult] = {}

    def work(name: str) -> None:
        answers[name] = bench.shell(ENDLESS[name], seconds=1)

    threads = [threading.Thread(target=work, args=(name,)) for name in ENDLESS]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    # Without a sandbox a job can kill what watches over it; it dies of that itself.
    assert answers.pop("kills its parent").how in ("timed_out", "signalled")
    assert {name: ended.how for name, ended in answers.items()} == dict.fromkeys(answers, "timed_out")
    assert answers["hangs"].detail == "It took longer than 1 s."


@everywhere
def test_what_was_said_before_the_time_was_over_is_kept(bench: Bench) -> None:
    tried = (bench.shell("echo begun; sleep 1000", seconds=seconds) for seconds in LONGER)

    assert any((ended.how, ended.output) == ("timed_out", b"begun\n") for ended in tried)


@needs_groups
@everywhere
def test_a_fork_bomb_ends(bench: Bench) -> None:
    bomb = "bomb() { bomb | bomb & }; bomb; sleep 1000"
    tried = (bench.shell(bomb, limits=JobLimits(seconds=seconds, processes=48)) for seconds in LONGER)

    ended = next(one for one in tried if b"fork" in one.errors)

    assert ended.how in ("exited", "timed_out")


@everywhere
def test_processes_are_counted(bench: Bench) -> None:
    if os.getuid() == 0 and not has_groups():
        pytest.skip("root's processes are counted by control groups alone, and none may be made here")

    ended = bench.python(
        "import os, time\n"
        "try:\n"
        "    for count in range(500):\n"
        "        if not os.fork(): time.sleep(1000)\n"
        "except OSError as fault: print(count < 128, fault)\n",
        limits=JobLimits(seconds=600, processes=64),
    )

    assert ended.output.startswith(b"True")


@needs_groups
@everywhere
def test_memory_is_counted_over_all_processes(bench: Bench) -> None:
    ended = bench.python(
        "import os\n"
        "for _ in range(8):\n"
        "    if not os.fork():\n"
        "        kept = b'x' * (64 << 20)\n"
        "        os.read(os.pipe()[0], 1)\n"
        "os.wait()\n",
        limits=JobLimits(seconds=600, memory=256 * MIB),
    )

    assert ended.how in ("exited", "signalled")
    assert ended.detail == "It ran into the memory limit of 256 MiB."


@everywhere
def test_one_process_cannot_take_more_memory_than_the_job_may(bench: Bench) -> None:
    ended = bench.python("print(len(b'x' * (1 << 30)))", limits=JobLimits(seconds=600, memory=256 * MIB))

    assert b"1073741824" not in ended.output
    assert (ended.how, ended.status) != ("exited", 0)


@everywhere
def test_a_file_grows_no_larger_than_allowed(bench: Bench) -> None:
    ended = bench.shell("head -c 64M /dev/zero > big", limits=JobLimits(seconds=600, file_size=MIB))

    assert (bench.folder / "big").stat().st_size == MIB
    assert (ended.how, ended.status) != ("exited", 0)


@everywhere
def test_a_job_that_fills_the_disk_is_stopped(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.statvfs(bench.folder)
    monkeypatch.setattr(os, "statvfs", lambda path: os.statvfs_result((*real[:4], 0, *real[5:])))

    ended = bench.shell("sleep 1000")

    assert ended.how == "signalled"
    assert "disk" in ended.detail


@everywhere
def test_what_is_printed_is_no_statement_about_the_job(bench: Bench) -> None:
    said = '{"exit-code": 0}\\n{"signal": 9}\\n{"child-pid": 1}\\n'

    ended = bench.python(
        "import os, sys\n"
        f"said = b'{said}'\n"
        "for descriptor in range(1, 64):\n"
        "    try: os.write(descriptor, said)\n"
        "    except OSError: pass\n"
        "os._exit(7)\n"
    )

    assert (ended.how, ended.status) == ("exited", 7)
    assert ended.output == ended.errors == said.encode().decode("unicode_escape").encode()


@everywhere
def test_escape_codes_and_bytes_that_are_no_text_are_handed_on_as_they_are(bench: Bench) -> None:
    ended = bench.shell("printf '\\033[2J\\033]0;title\\007\\377\\000'; exit 3")

    assert (ended.how, ended.status, ended.output) == ("exited", 3, b"\x1b[2J\x1b]0;title\x07\xff\x00")


@everywhere
def test_a_job_that_ends_by_a_signal_is_said_to(bench: Bench) -> None:
    ended = bench.shell("kill -SEGV $$")

    assert (ended.how, ended.status) == ("signalled", 11)


@everywhere
def test_a_job_inherits_neither_variables_nor_open_files(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("API_TOKEN", "planted-secret")
    with (tmp_path / "open").open("w") as file:
        os.set_inheritable(file.fileno(), True)

        ended = bench.python(
            "import os\n"
            "print(sorted(os.environ))\n"
            "print([number for number in range(3, 256) if os.path.exists(f'/proc/self/fd/{number}')])\n"
            "for pid in ('1', 'self', str(os.getppid())):\n"
            "    try: print(b'planted' in open(f'/proc/{pid}/environ', 'rb').read())\n"
            "    except OSError: print(False)\n"
        )

    lines = ended.output.decode().splitlines()
    assert eval(lines[0]) == sorted(
        ["HOME", "LANG", "MARK", "PATH", "PWD", "PYTHONDONTWRITEBYTECODE", "PYTHONHASHSEED", "TMPDIR", "TZ"]
    )
    assert lines[1:] == ["[]", "False", "False", "False"]


@everywhere
def test_a_jobs_home_and_temporary_folder_are_new_each_time(bench: Bench) -> None:
    script = 'ls -A "$HOME"; echo -; touch "$HOME/left" "$TMPDIR/left"; chmod 0 "$HOME"; ls "$TMPDIR/left"'

    first, second = bench.shell(script), bench.shell(script)

    assert first.output.startswith(b"-\n")
    assert second.output.startswith(b"-\n")


@pytest.mark.parametrize("bench", ["plain"], indirect=True)
def test_a_jobs_home_is_removed_however_it_was_left(bench: Bench) -> None:
    ended = bench.python(
        "import os\n"
        "home = os.environ['HOME']\n"
        "os.mkdir(home + '/locked')\n"
        "open(home + '/locked/file', 'w').close()\n"
        "os.chmod(home + '/locked', 0)\n"
        "os.chdir(home)\n"
        "for _ in range(1100):\n"
        "    os.mkdir('deep')\n"
        "    os.chdir('deep')\n"
        "print(home)\n"
    )

    assert (ended.how, ended.status) == ("exited", 0)
    assert not Path(ended.output.decode().strip()).exists()


@everywhere
def test_a_folder_left_in_any_state_can_be_removed(bench: Bench) -> None:
    ended = bench.shell(
        "mkdir -p deep/er; mkfifo pipe; ln -s /nowhere link; touch deep/file; chattr +i deep/file 2>/dev/null;"
        "chmod 500 deep; chmod 644 pipe; exit 0"
    )

    assert (ended.how, ended.status) == ("exited", 0)
    (bench.folder / "deep").chmod(0o700)


@confined
def test_nothing_outside_can_be_written(bench: Bench, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "file").write_text("as it was")
    targets = [str(outside), os.path.expanduser("~"), os.getcwd(), "/var/tmp"]

    ended = bench.shell(
        'for target in "$@"; do echo x > "$target/$0"; done 2>/dev/null;'
        'echo more >> "$1/file"; rm -f "$1/file"; mv "$1/file" . ; ln "$1/file" hard',
        *targets,
        read=(str(outside), os.getcwd()),
    )

    assert ended.how == "exited"
    written = [path for path in (Path(target, bench.mark) for target in targets) if path.exists()]
    for path in written:
        path.unlink()
    assert written == []
    assert (outside / "file").read_text() == "as it was"


@confined
def test_secrets_cannot_be_read(bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home, ledger = tmp_path / "home", tmp_path / "ledger"
    for folder in (home / ".ssh", ledger):
        folder.mkdir(parents=True)
    (home / ".ssh" / "id_ed25519").write_text("planted-secret")
    (ledger / "key").write_text("planted-secret")
    monkeypatch.setenv("HOME", str(home))

    ended = bench.shell(
        'cat "$@"; cat /proc/self/root"$1"; cp "$1" copy; ln -s "$1" link; cat link',
        str(home / ".ssh" / "id_ed25519"),
        str(ledger / "key"),
        "/etc/shadow",
        read=(str(tmp_path),),
        hide=(str(ledger),),
    )

    assert b"planted-secret" not in ended.output
    assert b"root:" not in ended.output
    assert not (bench.folder / "copy").exists()


@confined
def test_processes_outside_cannot_be_signalled(bench: Bench) -> None:
    ended = bench.shell(f"kill -0 {os.getpid()}; echo $?; kill -0 {os.getppid()}; echo $?")

    assert ended.output == b"1\n1\n"


@confined
def test_servers_on_this_machine_cannot_be_reached(bench: Bench) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        ended = bench.python(
            "import socket, sys\nsocket.create_connection(('127.0.0.1', int(sys.argv[2])), timeout=5)",
            str(server.getsockname()[1]),
        )

    assert ended.status != 0


@namespaced
def test_a_job_may_serve_and_ask_itself(bench: Bench) -> None:
    ended = bench.python(
        "import socket\n"
        "server = socket.create_server(('127.0.0.1', 0))\n"
        "socket.create_connection(server.getsockname())\n"
        "print('connected')\n"
    )

    assert ended.output == b"connected\n"


@namespaced
def test_sockets_on_paths_that_can_be_read_cannot_be_reached(bench: Bench, tmp_path: Path) -> None:
    shown = tmp_path / "shown"
    shown.mkdir()
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(shown / "s"))
        server.listen()
        ended = bench.python(
            "import os, socket, sys\n"
            "print(os.listdir(os.path.dirname(sys.argv[2])))\n"
            "socket.socket(socket.AF_UNIX).connect(sys.argv[2])\n",
            str(shown / "s"),
            read=(str(shown),),
        )

    assert ended.output == b"['s']\n"
    assert b"ConnectionRefusedError" in ended.errors


@namespaced
def test_the_process_table_shows_the_job_alone(bench: Bench) -> None:
    ended = bench.python("import os; print(sum(name.isdigit() for name in os.listdir('/proc')) < 5)")

    assert ended.output == b"True\n"


@namespaced
def test_no_right_is_left_to_take_more(bench: Bench) -> None:
    ended = bench.shell(
        "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status; mount -o remount,rw / ; echo $?"
    )

    lines = ended.output.decode().split()
    assert lines[1:6:2] == ["0" * 16] * 3
    assert lines[7] == "1"
    assert lines[8] != "0"

"""What an agent in the sandbox can reach: its worktree, its tools, one socket, and nothing else."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import msgspec
import pytest

from remand.adapters.git.location import locate
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.adapters.sandbox import launcher, sandboxes
from remand.adapters.sandbox import self_test as choosing
from remand.adapters.sandbox.agent_launchers import PlainAgentLauncher
from remand.adapters.sandbox.self_test import PROCESSES, AgentTestbed, attack_launcher, find_agent_fault
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.ports import AgentLaunch, AgentLauncher, Bounds, CannotRun, RunningAgent
from tests.integration.agent_launchers import Bench, end_of, launcher_of
from tests.integration.machine import Machine, Repository
from tests.integration.sandboxes import has_groups, made

HELD_BY_ALL = {
    "inherit an environment",
    "remount the disk",
    "leave a process behind",
    "start processes without end",
}
"""What is held off without a sandbox, too."""


@pytest.fixture
def bench() -> Iterator[Bench]:
    """A confined agent's place."""
    with ExitStack() as stack:
        yield Bench(launcher_of("confined"), AgentTestbed(stack))


def bounded(bench: Bench, **more: object) -> Bounds:
    """The bounds of an agent there, but for some."""
    return msgspec.structs.replace(bench.order().bounds, **more)


def script(path: Path, text: str = "#!/bin/sh\necho works\n") -> Path:
    """Makes a program of a path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def readable(bench: Bench, *paths: Path | str, **more: object) -> list[bool]:
    """For each file, whether the agent can read it."""
    ended = bench.shell(
        'for path in "$@"; do cat "$path" >/dev/null 2>&1; echo $?; done', *map(str, paths), **more
    )
    return [line == "0" for line in ended.output.splitlines()]


# ------------------------------------------------------------------------------------------------------ probes


def test_no_attack_of_a_confined_agent_gets_through() -> None:
    probes = attack_launcher(launcher_of("confined", processes=PROCESSES))

    assert len(probes) == len({probe.name for probe in probes}) >= 12
    lost = {probe.name: probe.detail for probe in probes if not (probe.held or probe.excuse)}
    assert lost == {}


def test_every_attack_can_get_through() -> None:
    probes = attack_launcher(PlainAgentLauncher(processes=PROCESSES))

    held = {probe.name: probe.detail for probe in probes if probe.held}
    assert held.keys() <= HELD_BY_ALL
    assert all(probe.detail for probe in probes if not probe.held)


def test_a_launcher_that_starts_nothing_holds_nothing() -> None:
    class Broken:
        tier = "broken"
        detail = ""

        def start(self, order: AgentLaunch) -> RunningAgent:
            raise CannotRun("sandbox", "It is broken.")

    broken: AgentLauncher = Broken()

    assert [probe for probe in attack_launcher(broken) if probe.held] == []
    assert find_agent_fault(broken) == "It is broken."


# ---------------------------------------------------------------------------------------------- the repository


def contents(folder: str) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path): path.read_bytes() for path in Path(folder).rglob("*") if path.is_file()}


def test_a_commit_touches_nothing_of_the_repository_and_runs_none_of_its_hooks(bench: Bench) -> None:
    common = bench.stand.worktree.common_dir
    for name in ("pre-commit", "post-commit", "reference-transaction"):
        script(Path(common, "hooks", name), f"#!/bin/sh\ntouch {bench.folder}/hooked\n")
    before = contents(bench.stand.repository)

    ended = bench.shell(
        "echo a > a && git add a && git commit -q -m A && git branch more && git tag now && git gc -q"
        " && git config probe.mine yes && git log --all --format=%s"
    )

    assert (ended.status, ended.output, ended.errors) == (0, "A\nBegin\n", "")
    assert contents(bench.stand.repository) == before
    assert not (bench.folder / "hooked").exists()


def test_objects_of_the_repository_can_be_read_and_not_written(bench: Bench) -> None:
    ended = bench.shell(
        "git show HEAD:source; cd $(git rev-parse --git-common-dir)/base-objects; echo x > x; rm -rf ../base-objects/*"
    )

    assert ended.output == bench.stand.word
    assert "Read-only file system" in ended.errors
    assert bench.stand.git(bench.stand.repository, "fsck") == ""


def test_a_repository_that_borrows_objects_is_no_way_to_the_other_one(bench: Bench) -> None:
    borrowed = bench.stand.path("elsewhere/.git/objects")
    os.makedirs(f"{borrowed}/pack")
    Path(bench.stand.repository, ".git/objects/info/alternates").write_text(f"{borrowed}\n")

    ended = bench.shell("git log --format=%s; ls $(git rev-parse --git-common-dir)/base-objects/info")

    assert (ended.output, ended.errors) == ("Begin\n", "")


def test_what_an_agent_put_in_place_of_a_folder_of_ours_is_not_followed(bench: Bench) -> None:
    base = Path(bench.stand.worktree.private_dir, "base-objects")
    base.rmdir()
    base.symlink_to("/etc")

    with pytest.raises(CannotRun) as caught:
        bench.start("true")
    assert caught.value.cause == "git"


def test_work_is_prepared_done_and_brought_home(bench: Bench) -> None:
    stand = bench.stand
    place = locate(stand.repository)
    assert place is not None
    worktrees = GitWorktrees(place, stand.path("state/worktrees"))
    start = stand.git(stand.repository, "rev-parse", "main")

    worktree = worktrees.prepare("T-7", "task/seven", start, is_confined=True)
    ended = bench.shell("echo a > a && git add a && git commit -q -m Seven && echo b > b", worktree=worktree)

    assert (ended.status, ended.errors) == (0, "")
    assert worktrees.inspect(worktree).uncommitted == ("b",)
    assert worktrees.import_commits(worktree) == stand.git(stand.repository, "rev-parse", "task/seven")
    assert stand.git(stand.repository, "show", "task/seven:a") == "a"


# ------------------------------------------------------------------------------------------- what it sees, and not


def test_other_worktrees_are_hidden_even_when_nobody_says_so(bench: Bench) -> None:
    hide = tuple(path for path in bench.order().bounds.hide if not path.endswith(("/work", "/private")))

    assert readable(bench, bench.stand.other, bounds=bounded(bench, hide=hide)) == [False]


def test_home_and_folders_for_temporary_files_are_its_own_and_new_each_time(bench: Bench) -> None:
    look = (
        'echo "$HOME" "$TMPDIR"; ls -A "$HOME"; touch "$HOME/left" "$TMPDIR/left" /var/tmp/left && echo fine'
    )

    answers = [bench.shell(look).output for _ in range(2)]

    assert answers == ["/tmp/home /tmp\nfine\n"] * 2
    assert not Path("/var/tmp/left").exists()


def test_of_sockets_and_our_own_files_it_sees_its_socket_and_its_prompt(bench: Bench) -> None:
    ended = bench.shell(
        "find /run | sort; echo x > /run/x; rm -f /run/remand/agent.sock; echo x > /run/remand/prompt; cat",
        prompt="p",
    )

    assert ended.output.split() == [
        "/run",
        "/run/remand",
        "/run/remand/agent.sock",
        "/run/remand/prompt",
        "p",
    ]
    assert len(ended.errors.splitlines()) == 3, "one for each attempt"
    assert Path(bench.stand.agent_socket).is_socket()


def test_more_can_be_given_to_be_read_and_to_be_written(bench: Bench, tmp_path: Path) -> None:
    for name in ("read", "write"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("as it was")
    bounds = bounded(bench, read=(str(tmp_path / "read"),), write=(str(tmp_path / "write"), "/nonexistent"))

    ended = bench.shell(
        'cat "$1/read/file"; for n in read write; do echo new > "$1/$n/file"; done',
        str(tmp_path),
        bounds=bounds,
    )

    assert ended.output == "as it was"
    assert [(tmp_path / name / "file").read_text() for name in ("read", "write")] == ["as it was", "new\n"]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's home, with secrets in it."""
    path = tmp_path / "home"
    for name in (".ssh/key", ".docker/config.json", ".config/gh/hosts.yml"):
        (path / name).parent.mkdir(parents=True)
        (path / name).write_text("secret")
    monkeypatch.setenv("HOME", str(path))
    return path


def test_programs_of_the_users_path_are_found_and_nothing_beside_them(
    bench: Bench, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = script(
        home / ".agents" / "v1" / "bin" / "agent", '#!/bin/sh\n. "$(dirname "$(readlink -f "$0")")/../lib"\n'
    )
    (home / ".agents" / "v1" / "lib").write_text("echo works\n")
    link = home / ".local" / "bin" / "agent"
    link.parent.mkdir(parents=True)
    link.symlink_to(real)
    script(home / ".docker" / "bin" / "tool")
    folders = [
        str(link.parent),
        str(home / ".docker" / "bin"),
        str(home),
        "/",
        "relative",
        "",
        os.environ["PATH"],
    ]
    monkeypatch.setenv("PATH", os.pathsep.join(folders))

    for has_network in (False, True):
        assert end_of(bench.start("agent", has_network=has_network)).output == "works\n"
    assert bench.shell("tool").output == "works\n"
    secrets = [home / ".ssh" / "key", home / ".docker" / "config.json", home / ".config" / "gh" / "hosts.yml"]
    assert readable(bench, *secrets) == [False] * 3
    assert str(home) not in bench.shell('echo "$PATH"').output.strip().split(os.pathsep)


def test_a_version_manager_that_was_cloned_works(
    bench: Bench, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    manager = home / ".manager"
    script(manager / "libexec" / "choose")
    script(manager / "shims" / "language", f"#!/bin/sh\nexec {manager}/libexec/choose\n")
    (manager / ".git").mkdir()
    monkeypatch.setenv("PATH", f"{manager}/shims")

    assert bench.shell("language").output == "works\n"


def test_the_projects_tools_are_there_although_the_repository_is_hidden(bench: Bench) -> None:
    root = Path(bench.stand.repository)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / ".venv"], check=True)
    packages = next((root / ".venv" / "lib").iterdir()) / "site-packages"
    (packages / "tool.py").write_text("print('works')")
    script(root / "node_modules" / ".bin" / "checker")
    (root / ".env").write_text("secret")

    assert bench.shell("python -m tool; checker").output == "works\nworks\n"
    assert bench.shell("echo x > $(which checker)").status != 0
    assert readable(bench, root / ".env", root / "source", root / "node_modules" / ".bin" / "checker") == [
        False,
        False,
        True,
    ]


def test_a_folder_of_tools_that_leads_elsewhere_is_not_followed(bench: Bench, home: Path) -> None:
    root = Path(bench.stand.repository)
    (root / "node_modules").symlink_to(home / ".ssh")
    (root / ".venv").symlink_to(home / ".ssh")

    assert (
        readable(bench, root / "node_modules" / "key", root / ".venv" / "key", home / ".ssh" / "key")
        == [False] * 3
    )


def test_our_own_command_line_works_inside(bench: Bench) -> None:
    for has_network in (False, True):
        ended = end_of(bench.start("remand", "--version", has_network=has_network))
        assert ended.output.startswith("remand ")


# ------------------------------------------------------------------------------------------------------- network

CONNECT = """
import socket, sys
for name in sys.argv[1:]:
    try:
        if name.isdigit():
            socket.create_connection(("127.0.0.1", int(name)), timeout=5).close()
        else:
            with socket.socket(socket.AF_UNIX) as out:
                out.connect(name.replace("@", "\\0", 1) if name[0] == "@" else name)
    except OSError as fault:
        print("no")
    else:
        print("yes")
"""


def test_with_a_network_it_reaches_servers_and_still_no_sockets_of_others(bench: Bench) -> None:
    stand = bench.stand
    shown = stand.path("shown")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(shown)
        server.listen()
        targets = [str(stand.port), shown, stand.socket, stand.other_agent_socket, stand.named_socket]
        answers = {
            has_network: bench.python(CONNECT, *targets, has_network=has_network).output.split()
            for has_network in (False, True)
        }

    assert answers[False] == ["no"] * 5
    by_name = "no" if launcher.landlock_version() >= launcher.SCOPE_VERSION else "yes"
    assert answers[True] == ["yes", "no", "no", "no", by_name]


def test_an_agent_may_serve_and_ask_itself(bench: Bench) -> None:
    serve = (
        "import socket\n"
        "for address in (('127.0.0.1', 0), '\\0mine'):\n"
        "    family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET\n"
        "    server = socket.socket(family)\n"
        "    server.bind(address)\n"
        "    server.listen()\n"
        "    socket.socket(family).connect(server.getsockname())\n"
        "print('connected')\n"
    )

    for has_network in (False, True):
        assert bench.python(serve, has_network=has_network).output == "connected\n"


# -------------------------------------------------------------------------------------------------------- bounds


def test_a_bound_that_was_run_into_is_said() -> None:
    if not has_groups():
        pytest.skip("no control group may be made here")
    with ExitStack() as stack:
        bench = Bench(launcher_of("confined", processes=32), AgentTestbed(stack))
        ended = bench.shell("bomb() { bomb | bomb & }; bomb; sleep 0.2; exit 3")

    assert ended.how in ("exited", "signalled")
    assert ended.errors.endswith("[It ran into the limit of 32 processes.]\n")


def test_an_agent_has_no_right_to_take_more(bench: Bench) -> None:
    for has_network in (False, True):
        ended = bench.shell(
            "grep -E '^(CapPrm|CapEff|CapBnd|NoNewPrivs)' /proc/self/status; id -u", has_network=has_network
        )
        assert re.findall(r"\s([01]+)$", ended.output, re.MULTILINE)[:4] == ["0" * 16] * 3 + ["1"]
        assert "\n0\n" not in ended.output


# ---------------------------------------------------------------------------------------- what is chosen and said


@pytest.fixture
def choosing_anew() -> Iterator[None]:
    """Nothing is known of what was tried before, here and afterwards."""
    choosing._confinement_fault.cache_clear()
    yield
    choosing._confinement_fault.cache_clear()


@pytest.mark.usefixtures("choosing_anew")
def test_agents_are_confined_where_they_can_be() -> None:
    sandbox, _ = made("bubblewrap")

    launcher = choosing.make_agent_launcher("best")

    assert launcher.tier == ("bubblewrap" if sandbox else "plain")
    assert bool(launcher.detail) == (sandbox is None)


@pytest.mark.usefixtures("choosing_anew")
def test_a_missing_sandbox_is_said_and_not_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandboxes, "PLACES", ("/nonexistent",))

    launcher = choosing.make_agent_launcher("best")

    assert (launcher.tier, launcher.detail) == (
        "plain",
        "bubblewrap is not installed (the package is called bubblewrap)",
    )
    with pytest.raises(EnvironmentFault, match="not installed"):
        choosing.make_agent_launcher("required")


@pytest.mark.usefixtures("choosing_anew")
def test_a_sandbox_that_does_not_work_is_not_taken(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    script(tmp_path / "bwrap", "#!/bin/sh\necho 'bwrap: setting up uid map: Permission denied' >&2; exit 1\n")
    monkeypatch.setattr(sandboxes, "PLACES", (str(tmp_path),))

    launcher = choosing.make_agent_launcher("best")

    assert launcher.tier == "plain"
    assert "bwrap: setting up uid map: Permission denied" in launcher.detail


@pytest.mark.usefixtures("choosing_anew")
def test_a_sandbox_that_does_not_hide_is_not_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    launcher_of("confined")
    monkeypatch.setattr(choosing, "ConfinedAgentLauncher", lambda path, **more: PlainAgentLauncher(**more))

    launcher = choosing.make_agent_launcher("best")

    assert (launcher.tier, launcher.detail) == (
        "plain",
        "bubblewrap: it does not keep an agent from what is hidden",
    )


@pytest.mark.usefixtures("choosing_anew")
def test_elsewhere_than_on_linux_agents_are_not_confined(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choosing.sys, "platform", "darwin")

    assert choosing.make_agent_launcher().detail == "Remand has a sandbox only on Linux."


def test_a_sandbox_that_is_switched_off_is_said() -> None:
    launcher = choosing.make_agent_launcher("off")

    assert launcher.tier == "plain"
    assert "run.sandbox" in launcher.detail


def test_the_doctor_attacks_and_prints_what_held(machine: Machine, repository: Repository) -> None:
    said = repository.ok("doctor")

    names = [probe["name"] for probe in said["agent_probes"] if probe["held"]]
    checks = {check["name"]: check for check in said["checks"]}
    is_confined = made("bubblewrap")[0] is not None
    assert said["tier"] == int(is_confined)
    assert checks["agent probes"]["detail"].endswith(f"were blocked: {', '.join(names)}")
    assert len(names) >= 12 or not is_confined

"""`remand` in the agents' sandbox: whatever a shell makes of PATH and the environment, it is there and speaks for the agent."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.sandbox import system_links
from remand.adapters.sandbox.agent_launchers import link_folders
from remand.adapters.sandbox.job_setup import SYSTEM_PATH, FileView, Visibility
from remand.adapters.sandbox.sandboxes import find_bubblewrap
from remand.app.scheduler.ports import AgentLaunch, Bounds, RunEnd
from tests.integration.agent_launchers import PATIENCE, end_of, eventually, launcher_of
from tests.integration.agent_sockets import CONFIG
from tests.integration.machine import Machine
from tests.integration.test_agent_socket_in_sandbox import Cell

REMAND = os.path.join(os.path.dirname(sys.executable), "remand")
MINIMAL = "PATH=/usr/bin:/bin"
ASK = "remand whoami --json"
RESET = "PATH=/usr/bin:/bin; export PATH"
FISH_RESET = "set -gx PATH /usr/bin /bin"
SHELLS: dict[str, list[str]] = {
    "login bash": ["bash", "-lc", ASK],
    "login sh": ["sh", "-lc", ASK],
    "login zsh": ["zsh", "-lc", ASK],
    "login fish": ["fish", "-lc", ASK],
    "login dash": ["dash", "-lc", ASK],
    "interactive bash": ["bash", "-ic", ASK],
    "interactive zsh": ["zsh", "-ic", ASK],
    "interactive login bash": ["bash", "-lic", ASK],
    "empty environment, bash": ["env", "-i", "bash", "-c", ASK],
    "empty environment, sh": ["env", "-i", "sh", "-c", ASK],
    "empty environment, zsh": ["env", "-i", "zsh", "-c", ASK],
    "empty environment, fish": ["env", "-i", "fish", "-c", ASK],
    "empty environment, login bash": ["env", "-i", "bash", "-lc", ASK],
    "minimal PATH": ["env", MINIMAL, "sh", "-c", ASK],
    "PATH of one folder": ["env", "PATH=/usr/bin", "sh", "-c", ASK],
    "PATH of the other": ["env", "PATH=/usr/local/bin:/bin", "sh", "-c", ASK],
    "minimal PATH, no shell": ["env", "-i", MINIMAL, "remand", "whoami", "--json"],
    "python": ["python3", "-c", f"import subprocess; subprocess.run({ASK.split()!r}, check=True)"],
    "python, empty environment": [
        "python3",
        "-c",
        f"import subprocess; subprocess.run({ASK.split()!r}, env={{}}, check=True)",
    ],
    "by its path": ["env", "-i", "/usr/bin/remand", "whoami", "--json"],
}
# Runs each command of a list on its input; prints what came of it.
RUNNER = """
import json, os, subprocess, sys
home = os.environ["HOME"]
for name in (".bashrc", ".profile", ".bash_profile", ".zshenv", ".zshrc", ".zprofile"):
    with open(f"{home}/{name}", "w") as file:
        file.write(sys.argv[1] + "\\n")
os.makedirs(f"{home}/.config/fish", exist_ok=True)
with open(f"{home}/.config/fish/config.fish", "w") as file:
    file.write(sys.argv[2] + "\\n")
for command in json.load(sys.stdin):
    done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    print(json.dumps([done.returncode, done.stdout, done.stderr]))
"""
LISTING = """
import json, os, sys
def seen(folder):
    for entry in os.scandir(folder):
        status = entry.stat(follow_symlinks=False)
        link = os.readlink(entry.path) if entry.is_symlink() else ""
        # The owner differs: inside there are no other users.
        yield entry.name, [oct(status.st_mode), 0 if link else status.st_size, link]
print(json.dumps({folder: dict(seen(folder)) for folder in sys.argv[1:]}))
"""


class ConfinedCell(Cell):
    """The worktree of an agent that the scheduler's own sandbox holds."""

    def start(self, *command: str, stdin: str = "", **bounds: Any) -> RunEnd:
        """Runs a command as the agent, to its end."""
        order = AgentLaunch(
            run_id="R-1",
            agent="Alice",
            command=command,
            prompt=stdin,
            worktree=self.worktree,
            socket=self.agent_socket,
            log=str(self.repository.machine.folder / "R-1.log"),
            bounds=Bounds(hide=(str(self.repository.path),), has_network=False, **bounds),
        )
        return end_of(launcher_of("confined").start(order))

    def answers(self, commands: Sequence[Sequence[str]], **bounds: Any) -> list[tuple[int, str, str]]:
        """What came of each command, all of them run by one agent."""
        runner = (sys.executable, "-c", RUNNER, RESET, FISH_RESET)
        ended = self.start(*runner, stdin=json.dumps(commands), **bounds)
        assert ended.status == 0, ended
        return [tuple(json.loads(line)) for line in ended.output.splitlines()]


@pytest.fixture
def cell(near_machine: Machine) -> Iterator[ConfinedCell]:
    launcher_of("confined")
    repository = near_machine.repository(config=CONFIG)
    repository.add("The first")
    repository.start_coordinator()
    made = ConfinedCell(repository)
    yield made
    made.sockets.end(5)


def entries(*folders: str) -> dict[str, dict[str, list[Any]]]:
    """Everything in some folders, as this process sees it."""
    found: dict[str, dict[str, list[Any]]] = {}
    for folder in folders:
        found[folder] = {
            entry.name: [
                oct((status := entry.stat(follow_symlinks=False)).st_mode),
                0 if entry.is_symlink() else status.st_size,
                os.readlink(entry.path) if entry.is_symlink() else "",
            ]
            for entry in os.scandir(folder)
        }
    return found


def test_every_shell_finds_remand_and_it_speaks_for_the_agent(cell: ConfinedCell) -> None:
    installed = {name: command for name, command in SHELLS.items() if _is_installed(command)}
    assert {"login bash", "login sh", "empty environment, sh", "minimal PATH", "python"} <= installed.keys()

    answers = dict(zip(installed, cell.answers([*installed.values()]), strict=True))

    deaf = {name: answer for name, answer in answers.items() if answer[0] != 0}
    assert deaf == {}
    whose = {name: json.loads(answer[1].splitlines()[-1]) for name, answer in answers.items()}
    assert {name: (who["name"], who["task"]) for name, who in whose.items()} == dict.fromkeys(
        installed, ("Alice", cell.task)
    )


def _is_installed(command: Sequence[str]) -> bool:
    words = [word for word in command if word not in ("env", "-i") and "=" not in word]
    return words[0].endswith("remand") or shutil.which(words[0]) is not None


def test_what_every_shell_finds_is_the_agents_socket_and_no_other(cell: ConfinedCell) -> None:
    bare = ["env", "-i", "remand", "--json"]
    answers = cell.answers(
        [
            [*bare, "task", "heartbeat", cell.task, "--agent", "Bob"],
            [*bare, "--as", "owner", "whoami"],
            [*bare, "gate", "override", cell.task, "--reason", "because"],
            [*bare, "init"],
            [*bare, "unlock", "Alice", cell.task],
            ["env", "-i", "sh", "-c", "echo x > /usr/bin/remand || echo y > /usr/local/bin/more"],
        ]
    )

    refused = [json.loads(out)["refused"] for _, out, _ in answers[:5]]
    assert refused == ["not_yours", "not_yours", "user_only", "user_only", "user_only"]
    assert answers[5][0] != 0
    assert cell.repository.ok("task", "show", cell.task)["status"] == "claimed"


def test_the_systems_folders_are_as_they_were_but_for_remand(cell: ConfinedCell) -> None:
    folders = [folder for folder in SYSTEM_PATH if os.path.isdir(folder)]
    before = entries(*folders)

    ended = cell.start(sys.executable, "-c", LISTING, *folders)

    inside = json.loads(ended.output)
    assert {folder: inside[folder].pop("remand")[2] for folder in folders} == dict.fromkeys(folders, REMAND)
    assert entries(*folders) == before, "outside nothing has changed"
    for there in before.values():
        there.pop("remand", None)
    assert inside == before


def test_a_folder_that_the_agent_may_write_is_left_alone() -> None:
    view = FileView()
    assert "/usr/bin" in link_folders(view)

    view.show("/usr/bin", Visibility.WRITE)

    assert "/usr/bin" not in link_folders(view)


# ------------------------------------------------------------------------------------- folders of every kind


class Folders:
    """A sandbox made by hand, and folders that our program is to be linked in."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.program = _script(top / "own" / "remand", "ours")
        self.bin = top / "bin"
        self.bin.mkdir()

    def run(self, command: str, *folders: Path, mounts: Sequence[str] = ()) -> str:
        """What a command prints inside, once the program is linked in the folders."""
        told, tells = os.pipe()
        process = subprocess.Popen(
            [
                *(find_bubblewrap(), "--unshare-all", "--cap-drop", "ALL", "--die-with-parent"),
                *("--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *mounts),
                *("--as-pid-1", "--info-fd", str(tells), "--", "/bin/sh", "-c", f"read leave; {command}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            pass_fds=(tells,),
            text=True,
        )
        os.close(tells)
        with open(told, encoding="utf-8") as file:
            pid = json.load(file)["child-pid"]
        assert process.stdin is not None
        # Bubblewrap tells the process before all is mounted.
        eventually(lambda: os.readlink(f"/proc/{pid}/exe") != os.path.realpath(find_bubblewrap()))
        script = [sys.executable, "-I", "-S", system_links.__file__, str(pid), str(self.program)]
        subprocess.run([*script, *map(str, folders)], check=True)
        return process.communicate("\n", timeout=PATIENCE)[0]


@pytest.fixture
def folders(tmp_path: Path) -> Folders:
    launcher_of("confined")
    return Folders(tmp_path)


def _script(path: Path, word: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {word}\n", encoding="utf-8")
    path.chmod(0o755)
    return path


def test_every_entry_is_kept_however_many_there_are(folders: Folders) -> None:
    for number in range(1500):
        _script(folders.bin / f"tool-{number}", str(number))
    (folders.bin / "alias").symlink_to("tool-7")
    (folders.bin / "dangling").symlink_to("nowhere")
    _script(folders.bin / "more" / "inner", "inner")
    listing = (
        f"cd {folders.bin} && ls | wc -l && readlink alias dangling && ./alias && more/inner && ./remand"
    )
    expected = ["1504", "tool-7", "nowhere", "7", "inner", "ours"]

    assert folders.run(listing, folders.bin).split() == expected
    covered = ("--ro-bind", str(folders.program), str(folders.bin / "tool-3"))
    bound = folders.run(f"{listing} && ./tool-3", folders.bin, mounts=covered)
    assert bound.split() == [*expected, "ours"], "what is mounted below is kept, too"


def test_another_remand_in_the_folder_gives_way(folders: Folders) -> None:
    _script(folders.bin / "remand", "theirs")
    elsewhere = folders.top / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "remand").symlink_to(folders.bin / "remand")

    said = folders.run(f"{folders.bin}/remand; {elsewhere}/remand", folders.bin, elsewhere)

    assert said.split() == ["ours", "ours"]
    assert (folders.bin / "remand").read_text() == "#!/bin/sh\necho theirs\n", "outside it is as it was"


def test_a_folder_in_which_our_program_itself_lies_is_left_alone(folders: Folders) -> None:
    (folders.bin / "remand").symlink_to(folders.program)
    own = folders.program.parent

    said = folders.run(f"{own}/remand; {folders.bin}/remand; wc -l < /proc/self/mountinfo", own, folders.bin)

    plain = folders.run("wc -l < /proc/self/mountinfo")
    assert said.split() == ["ours", "ours", plain.strip()]


def test_a_folder_that_is_a_link_is_followed_and_one_that_is_absent_is_passed_over(folders: Folders) -> None:
    link = folders.top / "link"
    link.symlink_to("bin")

    said = folders.run(
        f"{link}/remand; readlink {link}; ls {folders.top}", link, folders.bin, folders.top / "no"
    )

    assert said.split() == ["ours", "bin", "bin", "link", "own"]


def test_a_program_that_cannot_be_seen_inside_is_not_linked(folders: Folders) -> None:
    said = folders.run(f"ls {folders.bin}", folders.bin, mounts=("--tmpfs", str(folders.program.parent)))

    assert said == ""

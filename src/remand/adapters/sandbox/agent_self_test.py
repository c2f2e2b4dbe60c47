"""Tests by attack what a confined agent can reach on this machine, in a small repository made for it."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import msgspec

from remand.adapters.sandbox import attempts, socket_scope
from remand.adapters.sandbox.file_view import BASE_OBJECTS
from remand.adapters.sandbox.job_setup import SYSTEM_PATH, homes
from remand.adapters.sandbox.limits import make_group
from remand.adapters.sandbox.processes import has_argument
from remand.app.gates.ports import JobLimits
from remand.app.scheduler.ports import AgentLaunch, AgentLauncher, Bounds, CannotRun, RunEnd, TaskWorktree

# Stands for the coordinator. It gives up what would keep even the same user from it.
COORDINATOR = """
import ctypes, sys
libc = ctypes.CDLL(None)
if sys.platform == "linux":
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    libc.prctl(4, 1, 0, 0, 0)
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
sys.stdout.write("there\\n")
sys.stdout.flush()
sys.stdin.read()
"""
TASK, OTHER = "T-1", "T-2"
GIT_SECONDS = 30.0
SECONDS = 30.0
NO_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
IDENTITY = "[user]\n\tname = probe\n\temail = probe\n"
PRIVATE_CONFIG = f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n{IDENTITY}"


class AgentTestbed:
    """Everything is below one folder that an agent may read, but for what is hidden from it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.root = os.path.realpath(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="remand-stand-", ignore_cleanup_errors=True)
            )
        )
        self.word = secrets.token_hex(16)
        """Stands in everything that an agent is not to read."""
        self.repository = self.path("repository")
        self.source = self.put(f"{self.repository}/source", self.word)
        self.ledger = self.put(f"{self.repository}/.got/ledger.db", self.word)
        self.key = self.put(self.path("state/keys/own"), self.word)
        self.secret = self._plant_secret()
        self.workplace = self._workplace()
        self.other = self.put(self.path(f"work/{OTHER}/notes"), self.word)
        self.coordinator = self._coordinator()
        os.makedirs(self.path("run"))
        self.socket, self.door, self.other_door = (
            self._listen(self.path(f"run/{name}")) for name in ("coordinator", "own", "other")
        )
        self.named_socket = self._listen(f"@{self.word}")
        self.port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]

    def path(self, name: str) -> str:
        """A path below the root."""
        return os.path.join(self.root, name)

    def put(self, path: str, content: str) -> str:
        """Writes a file, with the folders it is in."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(content, encoding="utf-8")
        return path

    def order(
        self, *command: str, prompt: str = "", has_network: bool = False, **more: object
    ) -> AgentLaunch:
        """A run of an agent that is to see nothing but its own."""
        hide = tuple(self.path(name) for name in ("repository", "state", "work", "private", "run"))
        order = AgentLaunch(
            run_id="R-1",
            agent="probe",
            command=command,
            prompt=prompt,
            workplace=self.workplace,
            door=self.door,
            log=self.path("logs/R-1"),
            bounds=Bounds(seconds=SECONDS, has_network=has_network, read=(self.root,), hide=hide),
        )
        return msgspec.structs.replace(order, **more)

    def git(self, folder: str, *arguments: str) -> str:
        """What git answers, whatever the user has set."""
        identity = {
            f"GIT_{who}_{what}": "probe" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={"PATH": os.pathsep.join(SYSTEM_PATH), **NO_SETTINGS, **identity},
            capture_output=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return os.fsdecode(done.stdout).strip()

    def _workplace(self) -> TaskWorktree:
        """A worktree as the scheduler makes them, and the git folder of its own that a confined agent sees."""
        self.git(self.repository, "init", "-q", "-b", "main")
        self.git(self.repository, "add", "source")
        self.git(self.repository, "commit", "-q", "-m", "Begin")
        common, folder = f"{self.repository}/.git", self.path(f"work/{TASK}")
        self.git(self.repository, "worktree", "add", "-q", "-b", TASK, folder)
        private = self.path(f"private/{TASK}")
        shutil.copytree(f"{common}/worktrees", f"{private}/worktrees")
        for name in (BASE_OBJECTS, "hooks"):
            os.mkdir(f"{private}/{name}")
        self.put(f"{private}/objects/info/alternates", f"../{BASE_OBJECTS}\n")
        self.put(f"{private}/HEAD", "ref: refs/heads/main\n")
        self.put(f"{private}/config", PRIVATE_CONFIG)
        self.put(f"{private}/refs/heads/{TASK}", self.git(folder, "rev-parse", "HEAD") + "\n")
        words = f"{IDENTITY}[probe]\n\tword = {self.word}\n"
        self.put(f"{common}/config", Path(common, "config").read_text(encoding="utf-8") + words)
        return TaskWorktree(task_id=TASK, folder=folder, branch=TASK, common_dir=common, private_dir=private)

    def _plant_secret(self) -> str:
        """A secret in the user's home; elsewhere when that cannot be written."""
        place = next((home for home in homes() if os.access(home, os.W_OK)), self.root)
        folder = tempfile.TemporaryDirectory(prefix=".remand-probe-", dir=place)
        return self.put(f"{self._stack.enter_context(folder)}/id_ed25519", self.word)

    def _coordinator(self) -> subprocess.Popen[bytes]:
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", COORDINATOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"REMAND_PROBE": self.word},
            )
        )
        if process.stdout is not None:
            process.stdout.readline()
        return process

    def _listen(self, path: str) -> str:
        listening = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path.replace("@", "\0", 1) if path.startswith("@") else path)
        listening.listen()
        return path


PROCESSES = 64
MANY = 200
STEP = 0.005
MAX_COMPLAINT = 300
LEAVE_BEHIND = "leave a process behind"
MULTIPLY = "start processes without end"
# Exits with 0 when an agent can do its work and reach its door, and not read what is hidden.
TRIAL = 'echo mine > own && git add own && git commit -q -m own && test -S "$REMAND_SOCKET" && ! cat "$1" 2>/dev/null'
KNOWN = (
    "LANG",
    "HOME",
    "TMPDIR",
    "PATH",
    "PWD",
    "REMAND_SOCKET",
    "REMAND_MARK",
    "LC_CTYPE",
    "OLDPWD",
    "SHLVL",
    "_",
)


class AgentAttackResult(NamedTuple):
    """One attack, and whether it was held off."""

    name: str
    held: bool
    detail: str
    excuse: str = ""
    """What this machine lacks for it to be held off."""


def run_agent(crew: AgentLauncher, order: AgentLaunch) -> RunEnd:
    """Runs an agent to its end."""
    running = crew.start(order)
    while (ended := running.poll()) is None:
        time.sleep(STEP)
    return ended


def find_agent_fault(crew: AgentLauncher) -> str:
    """What keeps a crew from being used, found out with a small agent; empty for nothing."""
    with ExitStack() as stack:
        try:
            stand = AgentTestbed(stack)
            ended = run_agent(crew, stand.order("/bin/sh", "-c", TRIAL, "sh", stand.key))
        except (CannotRun, OSError, subprocess.SubprocessError) as fault:
            return str(fault)
    if (ended.how, ended.status) == ("exited", 0):
        return ""
    return ended.errors.strip() or "it does not keep an agent from what is hidden"


def attack_launcher(crew: AgentLauncher) -> tuple[AgentAttackResult, ...]:
    """Attacks what holds the agents of a crew, which is to let each start no more than `PROCESSES`."""
    daemon, named = secrets.token_hex(16), "reach a socket by its name, with a network"
    with ExitStack() as stack:
        stand = AgentTestbed(stack)
        tries = {
            **_read_attempts(stand),
            **_write_attempts(stand),
            **_reach_attempts(stand),
            "inherit an environment": ["inherit", ",".join(KNOWN)],
            "steer the kernel": ["steer_the_kernel", "/proc/sys/kernel/core_pattern"],
            "remount the disk": ["remount", stand.path("remounted")],
            "make itself other users": ["become_root"],
            LEAVE_BEHIND: ["stay", daemon],
            MULTIPLY: ["multiply", str(MANY)],
        }
        probes = _run_attempts(crew, stand, tries, has_network=False)
        if has_argument(daemon):
            probes[LEAVE_BEHIND] = AgentAttackResult(LEAVE_BEHIND, False, "it lives on")
        probes |= _run_attempts(crew, stand, {named: ["connect_unix", stand.named_socket]}, has_network=True)
    return tuple(probe._replace(excuse=_excuse(probe, named)) for probe in probes.values())


def _read_attempts(stand: AgentTestbed) -> dict[str, list[str]]:
    """Nothing of this is to be read."""
    common = stand.workplace.common_dir
    paths = {
        "read a key": stand.key,
        "read the ledger": stand.ledger,
        "read another worktree": stand.other,
        "read the repository's files": stand.source,
        "read the repository's settings": os.path.join(common, "config"),
        "read a secret in home": stand.secret,
    }
    return {name: ["find", path, stand.word] for name, path in paths.items()}


def _write_attempts(stand: AgentTestbed) -> dict[str, list[str]]:
    """Nothing of this is to be changed. What an agent has in the repository's place it may write to."""
    common = stand.workplace.common_dir
    paths = {
        "write to the ledger": stand.ledger,
        "write to another worktree": stand.other,
        "write to the repository": stand.source,
        "change the repository's settings": os.path.join(common, "config"),
        "plant a hook": os.path.join(common, "hooks", "post-commit"),
        "move a branch": os.path.join(common, "refs", "heads", "main"),
    }
    return {name: ["write", path] for name, path in paths.items()}


def _reach_attempts(stand: AgentTestbed) -> dict[str, list[str]]:
    """None of these is to be reached."""
    pid = str(stand.coordinator.pid)
    return {
        "read the coordinator's environment": ["find_in_environments", stand.word],
        "look into the coordinator's memory": ["trace", pid],
        "end the coordinator": ["end", pid],
        "reach the coordinator's socket": ["connect_unix", stand.socket],
        "reach another agent's socket": ["connect_unix", stand.other_door],
        "reach a server on this machine": ["connect_loopback", str(stand.port)],
        "reach the network": ["connect_out"],
    }


def _run_attempts(
    crew: AgentLauncher, stand: AgentTestbed, tries: Mapping[str, list[str]], *, has_network: bool
) -> dict[str, AgentAttackResult]:
    """How each of some attacks went."""
    script = Path(attempts.__file__).read_text(encoding="utf-8")
    command = (sys.executable, "-I", "-S", "-c", script)
    prompt = json.dumps(list(tries.values()))
    try:
        ended = run_agent(crew, stand.order(*command, prompt=prompt, has_network=has_network))
        told = [msgspec.json.decode(line, type=tuple[bool, str]) for line in ended.output.splitlines()]
        why = ended.errors[-MAX_COMPLAINT:]
    except CannotRun as fault:
        told, why = [], str(fault)
    if len(told) < len(tries):
        return {name: AgentAttackResult(name, False, f"It could not be tried: {why}") for name in tries}
    return {
        name: AgentAttackResult(name, not _is_done(tried, done), text)
        for (name, tried), (done, text) in zip(tries.items(), told, strict=True)
    }


def _is_done(tried: list[str], done: bool) -> bool:
    """True for an attack that got through. Whether something was written is seen from outside alone."""
    if tried[0] != "write":
        return done
    try:
        return Path(tried[1]).read_text(encoding="utf-8") == attempts.WRITTEN
    except OSError:
        return False


def _excuse(probe: AgentAttackResult, named: str) -> str:
    if probe.held:
        return ""
    if probe.name == named and socket_scope.landlock_version() < socket_scope.FIRST_VERSION:
        return "Linux 6.12 is needed."
    if probe.name == MULTIPLY and not _has_groups():
        return "Control groups are needed."
    return ""


def _has_groups() -> bool:
    made = make_group(JobLimits())
    return made is not None and made.close()

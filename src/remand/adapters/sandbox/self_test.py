"""Attacks the sandboxes to find what a job or a confined agent can reach on this machine; chooses how agents are started."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import msgspec

from remand.adapters.sandbox import attempts, launcher
from remand.adapters.sandbox.agent_launchers import BASE_OBJECTS, ConfinedAgentLauncher, PlainAgentLauncher
from remand.adapters.sandbox.job_setup import STEADY, SYSTEM_PATH, homes
from remand.adapters.sandbox.limits import allow_open_files, make_group
from remand.adapters.sandbox.processes import is_argument_in_use
from remand.adapters.sandbox.sandboxes import best_sandbox, find_bubblewrap
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import MIB, AttackResult, Job, JobLimits, JobResult, Sandbox, SandboxReport
from remand.app.scheduler.ports import AgentLaunch, AgentLauncher, Bounds, CannotRun, RunEnd, TaskWorktree

MANY = 200
LEAVE_BEHIND = "leave a process behind"
MULTIPLY = "start processes without end"
MAX_COMPLAINT = 300


def _attack_script() -> tuple[str, ...]:
    script = Path(attempts.__file__).read_text(encoding="utf-8")
    return (sys.executable, "-I", "-S", "-c", script)


def _read_results(output: bytes) -> list[tuple[bool, str]]:
    """For each attempt, whether it succeeded and what it printed."""
    return [msgspec.json.decode(line, type=tuple[bool, str]) for line in output.splitlines()]


def _listen(stack: ExitStack, path: str) -> str:
    listening = stack.enter_context(socket.socket(socket.AF_UNIX))
    listening.bind(path.replace("@", "\0", 1) if path.startswith("@") else path)
    listening.listen()
    return path


def _put(path: str, content: str) -> str:
    """Writes a file, creating its folders."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    Path(path).write_text(content, encoding="utf-8")
    return path


def _plant_secret(stack: ExitStack, fallback: str, word: str) -> str:
    """Writes a secret into the user's home, or elsewhere if that is not writable."""
    place = next((home for home in homes() if os.access(home, os.W_OK)), fallback)
    folder = tempfile.TemporaryDirectory(prefix=".remand-probe-", dir=place)
    return _put(f"{stack.enter_context(folder)}/id_ed25519", word)


# ------------------------------------------------------------------------------------------------------- gates

HUGE = 2048 * MIB
LIMITS = JobLimits(seconds=20.0, memory=256 * MIB, processes=64, file_size=64 * MIB)
# Python itself sets the last one.
JOB_VARIABLES = (*STEADY, "PATH", "HOME", "TMPDIR", "PWD", "LC_CTYPE")


class _JobTestbed:
    """The targets for attacks by a job."""

    def __init__(self, stack: ExitStack) -> None:
        root = stack.enter_context(tempfile.TemporaryDirectory(prefix="remand-probe-"))
        self.folder, self.outside, self.ledger = (
            os.path.join(root, name) for name in ("folder", "outside", "ledger")
        )
        for folder in (self.folder, self.ledger):
            os.mkdir(folder)
        _put(os.path.join(self.outside, "kept"), "kept")
        self.word = secrets.token_hex(16)
        """In the environment of a process that is not the job's."""
        self.victim = stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", "import sys; sys.stdin.read()"],
                stdin=subprocess.PIPE,
                env={"REMAND_PROBE": self.word},
            )
        )
        self.port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]
        self.socket = _listen(stack, os.path.join(self.outside, "s"))
        self.named_socket = _listen(stack, f"@remand-probe-{self.word}")
        self.secret = _plant_secret(stack, root, "secret")

    def attack(self, sandbox: Sandbox, tries: list[list[str]]) -> JobResult:
        """Runs attempts as a job that may read `outside` and must not see the ledger."""
        return sandbox.run(
            Job(
                command=(*_attack_script(), json.dumps(tries)),
                folder=self.folder,
                path=(os.path.dirname(sys.executable),),
                read=(self.outside,),
                hide=(self.ledger,),
                limits=LIMITS,
            )
        )


def attack_sandbox(sandbox: Sandbox) -> tuple[AttackResult, ...]:
    """Tries every attack that a sandbox for gates must prevent."""
    with ExitStack() as stack:
        target = _JobTestbed(stack)
        return (*_reach_attacks(sandbox, target), *_exhaustion_attacks(sandbox, target))


def report_on_gates() -> SandboxReport:
    """The results of attacking the best sandbox for gates."""
    sandbox = best_sandbox()
    return SandboxReport(sandbox.tier, sandbox.detail, attack_sandbox(sandbox))


def _reach_attacks(sandbox: Sandbox, target: _JobTestbed) -> Iterator[AttackResult]:
    """Attacks on what a job must not reach."""
    tries = {
        "write outside": ["write", os.path.join(target.outside, "written")],
        "cut off a file outside": ["truncate", os.path.join(target.outside, "kept")],
        "write to the ledger": ["write", os.path.join(target.ledger, "written")],
        "read a secret in home": ["read", target.secret],
        "read the environment of others": ["find_in_environments", target.word],
        "inherit an environment": ["inherit", ",".join(JOB_VARIABLES)],
        "reach the network": ["connect_out"],
        "reach a server on this machine": ["connect_loopback", str(target.port)],
        "reach a socket by its path": ["connect_unix", target.socket],
        "reach a socket by its name": ["connect_unix", target.named_socket],
        "steer the kernel": ["steer_the_kernel", "/proc/sys/kernel/core_pattern"],
        "remount the disk": ["remount", os.path.join(target.outside, "remounted")],
        "end another process": ["end", str(target.victim.pid)],
    }
    ended = target.attack(sandbox, list(tries.values()))
    results = _read_results(ended.output)
    if len(results) < len(tries):
        why = ended.detail or ended.errors.decode("utf-8", "replace")[-MAX_COMPLAINT:]
        results = [(True, f"It could not be tried: {why}")] * len(tries)
    for name, (has_succeeded, text) in zip(tries, results, strict=True):
        yield AttackResult(name, not has_succeeded, text)


def _exhaustion_attacks(sandbox: Sandbox, target: _JobTestbed) -> Iterator[AttackResult]:
    """Attacks by resources that a job must not exhaust, or processes that it must not leave."""
    word = secrets.token_hex(16)
    tries = {
        MULTIPLY: ["multiply", str(MANY)],
        "take 2 GB of memory": ["allocate", str(HUGE)],
        "write a file of 2 GB": ["fill", os.path.join(target.folder, "huge"), str(HUGE)],
        LEAVE_BEHIND: ["stay", word],
    }
    for name, attempt in tries.items():
        ended = target.attack(sandbox, [attempt])
        has_run = ended.how in ("exited", "signalled")
        has_succeeded, text = next(iter(_read_results(ended.output)), (False, ended.detail))
        if name == LEAVE_BEHIND and is_argument_in_use(word):
            has_succeeded, text = True, "it lives on"
        yield AttackResult(name, has_run and not has_succeeded, text or ended.detail)


# ------------------------------------------------------------------------------------------------------ agents

# Stands for the coordinator. It drops the protection that would hide it even from the same user.
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
    """The targets for attacks by an agent: one folder that it may read, except for hidden parts."""

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
        self.source = _put(f"{self.repository}/source", self.word)
        self.ledger = _put(f"{self.repository}/.got/ledger.db", self.word)
        self.key = _put(self.path("state/keys/own"), self.word)
        self.secret = _plant_secret(stack, self.root, self.word)
        self.worktree = self._workplace()
        self.other = _put(self.path(f"work/{OTHER}/notes"), self.word)
        self.coordinator = self._coordinator()
        os.makedirs(self.path("run"))
        self.socket, self.agent_socket, self.other_agent_socket = (
            _listen(stack, self.path(f"run/{name}")) for name in ("coordinator", "own", "other")
        )
        self.named_socket = _listen(stack, f"@{self.word}")
        self.port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]

    def path(self, name: str) -> str:
        """A path below the root."""
        return os.path.join(self.root, name)

    def order(
        self, *command: str, prompt: str = "", has_network: bool = False, **more: object
    ) -> AgentLaunch:
        """A run of an agent that should see only its own files."""
        hide = tuple(self.path(name) for name in ("repository", "state", "work", "private", "run"))
        order = AgentLaunch(
            run_id="R-1",
            agent="probe",
            command=command,
            prompt=prompt,
            worktree=self.worktree,
            socket=self.agent_socket,
            log=self.path("logs/R-1"),
            bounds=Bounds(seconds=SECONDS, has_network=has_network, read=(self.root,), hide=hide),
        )
        return msgspec.structs.replace(order, **more)

    def git(self, folder: str, *arguments: str) -> str:
        """Git's output, independent of the user's configuration."""
        identity = {
            f"GIT_{who}_{what}": "probe" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        process = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={"PATH": os.pathsep.join(SYSTEM_PATH), **NO_SETTINGS, **identity},
            capture_output=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return os.fsdecode(process.stdout).strip()

    def _workplace(self) -> TaskWorktree:
        """A worktree as the scheduler makes them, with the private git folder of a confined agent."""
        self.git(self.repository, "init", "-q", "-b", "main")
        self.git(self.repository, "add", "source")
        self.git(self.repository, "commit", "-q", "-m", "Begin")
        common, folder = f"{self.repository}/.git", self.path(f"work/{TASK}")
        self.git(self.repository, "worktree", "add", "-q", "-b", TASK, folder)
        private = self.path(f"private/{TASK}")
        shutil.copytree(f"{common}/worktrees", f"{private}/worktrees")
        for name in (BASE_OBJECTS, "hooks"):
            os.mkdir(f"{private}/{name}")
        _put(f"{private}/objects/info/alternates", f"../{BASE_OBJECTS}\n")
        _put(f"{private}/HEAD", "ref: refs/heads/main\n")
        _put(f"{private}/config", PRIVATE_CONFIG)
        _put(f"{private}/refs/heads/{TASK}", self.git(folder, "rev-parse", "HEAD") + "\n")
        words = f"{IDENTITY}[probe]\n\tword = {self.word}\n"
        _put(f"{common}/config", Path(common, "config").read_text(encoding="utf-8") + words)
        return TaskWorktree(task_id=TASK, folder=folder, branch=TASK, common_dir=common, private_dir=private)

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


PROCESSES = 64
STEP = 0.005
NAMED_SOCKET = "reach a socket by its name, with a network"
# Exits with 0 if an agent can work and reach its socket, and cannot read what is hidden.
TRIAL = 'echo mine > own && git add own && git commit -q -m own && test -S "$REMAND_SOCKET" && ! cat "$1" 2>/dev/null'
AGENT_VARIABLES = (
    *("LANG", "HOME", "TMPDIR", "PATH", "PWD", "REMAND_SOCKET", "REMAND_MARK", "LC_CTYPE", "OLDPWD", "SHLVL"),
    "_",
)


def run_agent(agents: AgentLauncher, order: AgentLaunch) -> RunEnd:
    """Runs an agent to its end."""
    running = agents.start(order)
    while (ended := running.poll()) is None:
        time.sleep(STEP)
    return ended


def find_agent_fault(agents: AgentLauncher) -> str:
    """Why a launcher cannot confine agents, found by running a small agent; empty if it can."""
    with ExitStack() as stack:
        try:
            target = AgentTestbed(stack)
            ended = run_agent(agents, target.order("/bin/sh", "-c", TRIAL, "sh", target.key))
        except (CannotRun, OSError, subprocess.SubprocessError) as fault:
            return str(fault)
    if (ended.how, ended.status) == ("exited", 0):
        return ""
    return ended.errors.strip() or "it does not keep an agent from what is hidden"


def attack_launcher(agents: AgentLauncher) -> tuple[AttackResult, ...]:
    """Attacks a launcher that limits each agent to `PROCESSES` processes."""
    daemon = secrets.token_hex(16)
    with ExitStack() as stack:
        target = AgentTestbed(stack)
        tries = {
            **_read_attempts(target),
            **_write_attempts(target),
            **_reach_attempts(target),
            "inherit an environment": ["inherit", ",".join(AGENT_VARIABLES)],
            "steer the kernel": ["steer_the_kernel", "/proc/sys/kernel/core_pattern"],
            "remount the disk": ["remount", target.path("remounted")],
            "make itself other users": ["become_root"],
            LEAVE_BEHIND: ["stay", daemon],
            MULTIPLY: ["multiply", str(MANY)],
        }
        results = _run_attempts(agents, target, tries, has_network=False)
        if is_argument_in_use(daemon):
            results[LEAVE_BEHIND] = AttackResult(LEAVE_BEHIND, False, "it lives on")
        named = {NAMED_SOCKET: ["connect_unix", target.named_socket]}
        results |= _run_attempts(agents, target, named, has_network=True)
    return tuple(result._replace(excuse=_excuse(result)) for result in results.values())


def _read_attempts(target: AgentTestbed) -> dict[str, list[str]]:
    """Attempts to read what must be hidden."""
    common = target.worktree.common_dir
    paths = {
        "read a key": target.key,
        "read the ledger": target.ledger,
        "read another worktree": target.other,
        "read the repository's files": target.source,
        "read the repository's settings": os.path.join(common, "config"),
        "read a secret in home": target.secret,
    }
    return {name: ["find", path, target.word] for name, path in paths.items()}


def _write_attempts(target: AgentTestbed) -> dict[str, list[str]]:
    """Attempts to change what must stay unchanged. An agent may write to its replacement of the repository."""
    common = target.worktree.common_dir
    paths = {
        "write to the ledger": target.ledger,
        "write to another worktree": target.other,
        "write to the repository": target.source,
        "change the repository's settings": os.path.join(common, "config"),
        "plant a hook": os.path.join(common, "hooks", "post-commit"),
        "move a branch": os.path.join(common, "refs", "heads", "main"),
    }
    return {name: ["write", path] for name, path in paths.items()}


def _reach_attempts(target: AgentTestbed) -> dict[str, list[str]]:
    """Attempts to reach what must be unreachable."""
    pid = str(target.coordinator.pid)
    return {
        "read the coordinator's environment": ["find_in_environments", target.word],
        "look into the coordinator's memory": ["trace", pid],
        "end the coordinator": ["end", pid],
        "reach the coordinator's socket": ["connect_unix", target.socket],
        "reach another agent's socket": ["connect_unix", target.other_agent_socket],
        "reach a server on this machine": ["connect_loopback", str(target.port)],
        "reach the network": ["connect_out"],
    }


def _run_attempts(
    agents: AgentLauncher, target: AgentTestbed, tries: Mapping[str, list[str]], *, has_network: bool
) -> dict[str, AttackResult]:
    """The results of some attacks."""
    prompt = json.dumps(list(tries.values()))
    try:
        ended = run_agent(agents, target.order(*_attack_script(), prompt=prompt, has_network=has_network))
        results, why = _read_results(ended.output.encode()), ended.errors[-MAX_COMPLAINT:]
    except CannotRun as fault:
        results, why = [], str(fault)
    if len(results) < len(tries):
        return {name: AttackResult(name, False, f"It could not be tried: {why}") for name in tries}
    return {
        name: AttackResult(name, not _has_succeeded(attempt, has_succeeded), text)
        for (name, attempt), (has_succeeded, text) in zip(tries.items(), results, strict=True)
    }


def _has_succeeded(attempt: list[str], has_succeeded: bool) -> bool:
    """True for a successful attack. Whether a write succeeded can be seen only from outside."""
    if attempt[0] != "write":
        return has_succeeded
    try:
        return Path(attempt[1]).read_text(encoding="utf-8") == attempts.WRITTEN
    except OSError:
        return False


def _excuse(result: AttackResult) -> str:
    if result.held:
        return ""
    if result.name == NAMED_SOCKET and launcher.landlock_version() < launcher.SCOPE_VERSION:
        return "Linux 6.12 is needed."
    if result.name == MULTIPLY:
        group = make_group(JobLimits())
        return "" if group is not None and group.close() else "Control groups are needed."
    return ""


# ---------------------------------------------------------------------------------------- how agents are started

OPEN_FILES = 16_384
_choosing = threading.Lock()


def make_agent_launcher(sandbox: str = "best") -> AgentLauncher:
    """The launcher for agents: the best confinement available, none (`off`), or no start without one
    (`required`).

    Its `detail` says why there is no better confinement.
    """
    allow_open_files(OPEN_FILES)
    if sandbox == "off":
        return PlainAgentLauncher(detail="The sandbox is switched off by `run.sandbox` in remand.toml.")
    made = _best_launcher()
    if sandbox == "required" and made.tier != ConfinedAgentLauncher.tier:
        raise EnvironmentFault(
            f"Agents cannot be confined here, which `run.sandbox` in remand.toml requires: {made.detail}."
            " Install bubblewrap, or see `remand doctor`."
        )
    return made


def report_on_agents() -> SandboxReport:
    """The results of attacking the confinement of agents from inside."""
    agents = _best_launcher(PROCESSES)
    return SandboxReport(agents.tier, agents.detail, attack_launcher(agents))


def _best_launcher(processes: int = 0) -> ConfinedAgentLauncher | PlainAgentLauncher:
    with _choosing:
        fault = _confinement_fault()
    if fault:
        return PlainAgentLauncher(detail=fault, processes=processes)
    return ConfinedAgentLauncher(find_bubblewrap(), processes=processes)


@cache
def _confinement_fault() -> str:
    """Why agents cannot be confined here; empty if they can. Determined once per process."""
    if sys.platform != "linux":
        return "Remand has a sandbox only on Linux."
    path = find_bubblewrap()
    if not path:
        return "bubblewrap is not installed (the package is called bubblewrap)"
    fault = find_agent_fault(ConfinedAgentLauncher(path))
    return f"bubblewrap: {fault}" if fault else ""

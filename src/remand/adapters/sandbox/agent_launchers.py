"""Starts agents: confined by bubblewrap, or as plain programs of this user."""

from __future__ import annotations

import errno
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import NamedTuple

from remand.adapters.sandbox import connections, job_setup, launcher, supervisor, system_links
from remand.adapters.sandbox.limits import ResourceLimits, is_full
from remand.adapters.sandbox.processes import memory_file
from remand.adapters.sandbox.sandboxes import HOME, TEMPORARY, BubblewrapArguments
from remand.adapters.system.files import program_folders
from remand.app.gates.ports import MIB, Job, JobLimits
from remand.app.scheduler.agent_socket import AGENT_SOCKET_PATH
from remand.app.scheduler.ports import AgentLaunch, CannotRun, RunEnd, RunningAgent

FRESH_SIZE = 1024 * MIB
"""What each of an agent's own folders for temporary files can hold."""

GRACE_SECONDS = 5.0
"""How long an agent has to end by itself once it is asked to."""
DISK_CHECK_SECONDS = 1.0

OUTPUT = 1 << 17
ERRORS = 1 << 15
"""What is kept of an agent's output: what its host reports of a session is at the end of it."""

MARK = "REMAND_MARK"
"""In the environment of an unconfined agent's processes, with a word that no others have."""

CAUSES = {
    **dict.fromkeys((errno.ENOSPC, errno.EDQUOT), "disk"),
    **dict.fromkeys((errno.E2BIG, errno.ENAMETOOLONG, errno.ENOEXEC), "program"),
}
REMEDIES = {
    "disk": "Free some space there.",
    "program": "Fix the command in remand.toml.",
    "sandbox": "Try again later.",
}


class _AgentLauncher(ABC):
    """Starts agents in a way that a subclass knows."""

    tier: str

    def __init__(self, *, detail: str = "", processes: int = 0) -> None:
        self.detail = detail
        self._processes = processes or PROCESSES

    def start(self, order: AgentLaunch) -> RunningAgent:
        """Starts a run; raises CannotRun."""
        try:
            with ExitStack() as stack, ExitStack() as inputs:
                setting = _agent_setting(order, self._processes)
                prompt = inputs.enter_context(memory_file(order.prompt.encode("utf-8", "replace")))
                limits = stack.enter_context(ResourceLimits(setting.job.limits))
                agent = supervisor.supervise(
                    lambda: self._connect(order, setting, limits, prompt),
                    limits,
                    supervisor.StopRules(
                        order.bounds.seconds,
                        setting.job.folder,
                        DISK_CHECK_SECONDS,
                        GRACE_SECONDS,
                        order.uncounted,
                    ),
                    supervisor.OutputBounds(OUTPUT, ERRORS, order.log),
                    lambda end: _run_end(end, setting.job.folder),
                )
                stack.pop_all()  # the supervisor removes the group when the agent has ended
                return agent
        except job_setup.CannotStart as fault:
            raise CannotRun("program", str(fault)) from None
        except supervisor.LaunchFailed as fault:
            cause = "disk" if os.strerror(errno.ENOSPC) in str(fault) else "sandbox"
            raise CannotRun(cause, f"The agent could not start: {fault}. See `remand doctor`.") from None
        except OSError as fault:
            cause = CAUSES.get(fault.errno or 0, "sandbox")
            text = f"The system cannot start an agent: {fault}. {REMEDIES[cause]}"
            raise CannotRun(cause, text) from None

    @abstractmethod
    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        """The connection to the process that starts the agent."""


def _run_end(end: supervisor.ProcessEnd, folder: str) -> RunEnd:
    how, note = end.stopped_for or end.how, end.fault or end.note
    if how == "disk":
        how = "stopped"
        text = f"Remand ended it: the disk of {folder} is nearly full. Free some space there."
        note = " ".join(filter(None, (note, text)))
    errors = end.errors.text()
    return RunEnd(
        how, end.status, end.seconds, end.output.text(), f"{errors}\n[{note}]\n" if note else errors
    )


class ConfinedAgentLauncher(_AgentLauncher):
    """Starts agents apart from everything that is not theirs."""

    tier = "bubblewrap"

    def __init__(self, path: str, *, detail: str = "", processes: int = 0) -> None:
        super().__init__(detail=detail, processes=processes)
        self._bubblewrap = BubblewrapArguments(path)
        # Read now: what runs inside is what was there when we began.
        has_scopes = launcher.landlock_version() >= launcher.SCOPE_VERSION
        self._scope = Path(launcher.__file__).read_text(encoding="utf-8") if has_scopes else ""
        self._linking = Path(system_links.__file__).read_text(encoding="utf-8")

    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        socket = AGENT_SOCKET_PATH if order.socket else ""
        # Each try reads the prompt from its start.
        os.lseek(prompt, 0, os.SEEK_SET)
        view = _agent_file_view(order, setting)
        plan = self._bubblewrap.arguments(
            view,
            _agent_environment(order, setting.job, home=HOME, temporary=TEMPORARY, socket=socket),
            setting.job.folder,
            has_network=order.bounds.has_network,
            fresh_size=FRESH_SIZE,
            files={PROMPT: prompt},
        )
        command = [setting.program, *order.command[1:]]
        if self._scope and order.bounds.has_network:
            command = [sys.executable, "-I", "-S", "-c", self._scope, "scope", *command]
        each_process = limits.of_each_process(has_own_users=True)
        connection = connections.BubblewrapConnection(
            self._bubblewrap.path, plan, PROMPT, command, each_process
        )
        connection.descriptors += (prompt,)
        connection.prepare = partial(self._link_own_program, link_folders(view))
        return connection

    def _link_own_program(self, folders: list[str], pid: int) -> None:
        """Lets every shell inside find our program. An agent whose shell does not still has it on its own PATH."""
        with suppress(subprocess.TimeoutExpired):
            subprocess.run(
                [sys.executable, "-I", "-S", "-c", self._linking, str(pid), own_program(), *folders],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                env={},
                cwd="/",
                timeout=supervisor.START_SECONDS,
                check=False,
            )


class PlainAgentLauncher(_AgentLauncher):
    """Starts agents as what they are: what the user may do, they may."""

    tier = "plain"

    def _connect(
        self, order: AgentLaunch, setting: AgentSetting, limits: ResourceLimits, prompt: int
    ) -> connections.LaunchConnection:
        mark = secrets.token_hex(16)
        home, temporary = os.path.expanduser("~"), tempfile.gettempdir()
        environment = _agent_environment(
            order, setting.job, home=home, temporary=temporary, socket=order.socket
        )
        each_process = limits.of_each_process(has_own_users=False)
        plan = connections.launcher_plan(
            setting.job, setting.program, environment | {MARK: mark}, each_process
        )
        return connections.LauncherConnection(plan, mark, prompt)


# ------------------------------------------------------------------------------------ what an agent is started with

PROMPT = "/run/remand/prompt"
BASE_OBJECTS = "base-objects"
"""The objects of the real repository, as a confined agent's own git folder names them."""

PROGRAM = "remand"
OWN = str(Path(__file__).parents[2])
"""Our own package, which agents call: it may lie in the repository that is hidden from them."""

LONGEST = 1 << 17
"""The system takes no argument that is longer."""

PROCESSES = 2048
FILE_SIZE = 4096 * MIB
LEAST_MEMORY = 2048 * MIB
"""What an agent may use, all of its processes together where they can be counted."""


class AgentSetting(NamedTuple):
    """What an agent is started with, confined or not."""

    program: str
    job: Job


def _agent_setting(order: AgentLaunch, processes: int) -> AgentSetting:
    """The program and the job of a run, both checked to be there; raises CannotRun."""
    folder = order.worktree.folder
    if not os.path.isabs(folder) or not os.path.isdir(folder) or os.path.islink(folder):
        raise CannotRun("git", f"The worktree {folder} was not found. It must be created again.")
    if is_full(folder):
        raise CannotRun("disk", f"The disk of {folder} is nearly full. Free some space there.")
    if order.socket and not job_setup.is_socket(order.socket):
        raise CannotRun(
            "socket", f"The agent's socket {order.socket} was not found. It must be opened again."
        )
    path = tuple(_search_path(order))
    bounds = order.bounds
    job = Job(
        command=order.command,
        folder=folder,
        has_network=bounds.has_network,
        read=(*bounds.read, OWN),
        hide=(*bounds.hide, *_siblings(order)),
        path=path,
        limits=JobLimits(
            seconds=bounds.seconds, memory=_memory(), processes=processes, file_size=FILE_SIZE, output=0
        ),
    )
    return AgentSetting(_program(order, os.pathsep.join((*path, *job_setup.SYSTEM_PATH))), job)


def _agent_environment(
    order: AgentLaunch, job: Job, *, home: str, temporary: str, socket: str
) -> dict[str, str]:
    """The whole environment of an agent. Which socket is its own is not for the order to say."""
    for name in order.environment:
        if not name or "=" in name:
            raise CannotRun("program", f"{name!r} cannot be the name of a variable. Fix it in remand.toml.")
    given = {"LANG": os.environ.get("LANG") or "C.UTF-8", "HOME": home, "TMPDIR": temporary}
    own = {"PATH": os.pathsep.join(dict.fromkeys((*job.path, *job_setup.SYSTEM_PATH))), "PWD": job.folder}
    return given | order.environment | own | ({"REMAND_SOCKET": socket} if socket else {})


def _agent_file_view(order: AgentLaunch, setting: AgentSetting) -> job_setup.FileView:
    """What a confined agent sees; raises CannotRun."""
    place = order.worktree
    for folder in (place.private_dir, os.path.join(place.private_dir, BASE_OBJECTS)):
        if not os.path.isabs(folder) or os.path.islink(folder) or not os.path.isdir(folder):
            raise CannotRun(
                "git", f"The agent's git folder {folder} was not found. It must be created again."
            )
    objects = os.path.join(place.common_dir, "objects")
    if not os.path.isdir(objects):
        raise CannotRun("git", f"The repository {place.common_dir} was not found. Restore it, then repeat.")
    view = job_setup.job_file_view(
        setting.job, setting.program, own=order.bounds.write, hide=job_setup.listening_sockets()
    )
    view.cover(place.common_dir, place.private_dir, job_setup.Visibility.WRITE)
    view.cover(os.path.join(place.common_dir, BASE_OBJECTS), objects, job_setup.Visibility.READ)
    if os.path.isfile(os.path.join(objects, "info", "alternates")):
        # What the repository borrows from another one, which is not to be seen, is in the agent's own folder.
        empty = os.path.join(place.private_dir, BASE_OBJECTS)
        view.cover(os.path.join(place.common_dir, BASE_OBJECTS, "info"), empty, job_setup.Visibility.READ)
    view.show(place.folder, job_setup.Visibility.WRITE)
    if order.socket:
        view.cover(AGENT_SOCKET_PATH, order.socket, job_setup.Visibility.WRITE)
    return view


def _siblings(order: AgentLaunch) -> list[str]:
    """Where the worktrees and git folders of other agents are: beside this one's."""
    own = (order.worktree.folder, order.worktree.private_dir)
    above = {os.path.dirname(os.path.realpath(path)) for path in own if path}
    return [folder for folder in above if not job_setup.is_system_folder(folder)]


def _memory() -> int:
    """What an agent may have: most of the machine's."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return LEAST_MEMORY
    return max(total // 4 * 3, LEAST_MEMORY)


def own_program() -> str:
    """Our own executable, by its path: an agent's PATH may lead to another."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), PROGRAM)
    return beside if os.access(beside, os.X_OK) else os.path.abspath(shutil.which(PROGRAM) or beside)


def link_folders(view: job_setup.FileView) -> list[str]:
    """The system's folders in which every shell is to find our program: those that an agent reads and may not write."""
    folders = {os.path.realpath(folder): None for folder in job_setup.SYSTEM_PATH if os.path.isdir(folder)}
    return [folder for folder in folders if view.at(folder) is job_setup.Visibility.READ]


def _program(order: AgentLaunch, path: str) -> str:
    """The absolute path of the agent's program."""
    if not order.command:
        raise CannotRun("program", f"The command of {order.agent} is empty. Name a program in remand.toml.")
    if any(len(word.encode("utf-8", "replace")) >= LONGEST for word in order.command):
        raise CannotRun("program", f"The command of {order.agent} is too long for the system. Shorten it.")
    name = order.command[0]
    found = shutil.which(os.path.join(order.worktree.folder, name) if "/" in name else name, path=path)
    if found is None:
        raise CannotRun(
            "program",
            f"{order.agent}'s program `{name}` was not found or is not executable. Install it, or fix the command in remand.toml.",
        )
    interpreter = job_setup.interpreter_of(found)
    if interpreter and shutil.which(interpreter, path=path) is None:
        raise CannotRun("program", f"{found} is run by {interpreter}, which was not found. Install that.")
    return found


def _search_path(order: AgentLaunch) -> Iterator[str]:
    """Where an agent finds programs: the project's own, the user's as the scheduler was started with, and ours."""
    common = order.worktree.common_dir
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
    yield from program_folders(root) if root else ()
    masked = [
        os.path.realpath(path)
        for path in (*job_setup.hidden_paths(), *job_setup.shared_folders(), tempfile.gettempdir())
    ]
    secret = [os.path.realpath(path) for path in order.bounds.hide]
    named = order.environment.get("PATH") or os.environ.get("PATH", "")
    for folder in named.split(os.pathsep):
        real = os.path.realpath(folder)
        shows_masked = any(_holds(real, path) for path in (*masked, *secret))
        is_secret = any(_holds(path, real) for path in secret)
        if os.path.isabs(folder) and not shows_masked and not is_secret:
            yield folder
    yield os.path.dirname(os.path.abspath(sys.executable))


def _holds(folder: str, path: str) -> bool:
    """True for a folder that a path is, or is in."""
    return f"{path}/".startswith(f"{folder.rstrip('/')}/")

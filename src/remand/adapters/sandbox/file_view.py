"""Which files a job or an agent sees, and which it may write."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterable, Iterator
from enum import Enum
from pathlib import Path
from typing import NamedTuple

from remand.adapters.sandbox.job_setup import (
    CREDENTIALS,
    NEVER_WHOLE,
    SYSTEM_PATH,
    RequiredPaths,
    Trails,
    hidden_paths,
    homes,
    interpreter_of,
    is_system_folder,
    listening_sockets,
    search_path,
    shared_folders,
)
from remand.adapters.sandbox.limits import is_full
from remand.app.agent_socket import AGENT_SOCKET_PATH
from remand.app.gates.ports import MIB, Job, JobLimits
from remand.app.scheduler.ports import AgentLaunch, CannotRun

RESOLVER = "/etc/resolv.conf"


class Visibility(Enum):
    """How a path and everything below it is seen, up to the next path that is named."""

    HIDDEN = "hidden"
    FRESH = "fresh"
    """Empty at first, and its own to write."""
    READ = "read"
    WRITE = "write"


MASKED = (Visibility.HIDDEN, Visibility.FRESH)


class FileView:
    """Paths and how they are seen; of two that hold for a file, the longer one decides."""

    def __init__(self) -> None:
        self._places: dict[str, Visibility] = {"/": Visibility.READ}
        self._links: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self.trails = Trails()

    def show(self, path: str, sight: Visibility) -> None:
        """Says how a path is seen; links on the way to it are kept, should what holds them be masked."""
        if not os.path.isabs(path):
            return
        links, real = self.trails.follow(path)
        if not os.path.exists(real):
            return
        self._links.update(links)
        self._places[real] = sight

    def cover(self, path: str, source: str, sight: Visibility) -> None:
        """Puts something else in a path's place: what is said about anything below it no longer holds."""
        links, real = self.trails.follow(path)
        self._links.update(links)
        below = real + "/"
        for inner in [place for place in self._places if place.startswith(below)]:
            del self._places[inner]
        self._places[real] = sight
        self._sources[real] = source

    def source(self, path: str) -> str:
        """What is seen at a path: itself, unless something else was put in its place."""
        return self._sources.get(path, path)

    def at(self, path: str) -> Visibility:
        """How a path without links is seen."""
        while path not in self._places:
            path = os.path.dirname(path)
        return self._places[path]

    def covers(self, path: str) -> bool:
        """True when something is masked at or below a path."""
        below = path.rstrip("/") + "/"
        return any(
            (place == path or place.startswith(below)) and sight in MASKED
            for place, sight in self._places.items()
        )

    def places(self) -> list[tuple[str, Visibility]]:
        """Every path that is seen otherwise than what holds it, outer ones first."""
        return [
            (path, sight)
            for path, sight in sorted(self._places.items())
            if path in self._sources or (path != "/" and _differs(sight, self.at(os.path.dirname(path))))
        ]

    def links(self) -> list[tuple[str, str]]:
        """The links that have to be made anew, as what holds them is masked."""
        return sorted(
            (path, target)
            for path, target in self._links.items()
            if path not in self._places and self.at(os.path.dirname(path)) in MASKED
        )

    def parts(self) -> Iterator[tuple[str, Visibility]]:
        """The files and folders that together are what is seen, for rules that can only add."""
        inner: dict[str, set[str]] = {}
        for path, _ in self.places():
            names = path[1:].split("/")
            for depth, name in enumerate(names):
                inner.setdefault("/" + "/".join(names[:depth]), set()).add(name)
        yield from self._parts("/", Visibility.READ, inner)

    def _parts(
        self, path: str, sight: Visibility, inner: dict[str, set[str]]
    ) -> Iterator[tuple[str, Visibility]]:
        sight = self._places.get(path, sight)
        is_seen = sight not in MASKED
        if path not in inner:
            if is_seen:
                yield path, sight
            return
        for name in sorted(inner[path].union(_names(path) if is_seen else ())):
            yield from self._parts(f"{path.rstrip('/')}/{name}", sight, inner)


def _differs(sight: Visibility, outer: Visibility) -> bool:
    """False for a path that is seen as what holds it; what is masked already need not be hidden in it."""
    return sight is not outer and not (sight is Visibility.HIDDEN and outer in MASKED)


def _names(folder: str) -> list[str]:
    """The entries of a folder that are no links: those lead to what has rules of its own."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def job_file_view(job: Job, program: str, *, own: Iterable[str] = (), hide: Iterable[str] = ()) -> FileView:
    """What a job sees. `own` are further folders it may write, `hide` further paths that are masked."""
    view = FileView()
    for path in hidden_paths():
        view.show(path, Visibility.HIDDEN)
    for path in shared_folders():
        view.show(path, Visibility.FRESH)
    for path in _readable(view, job, program):
        view.show(path, Visibility.READ)
    for path in (*job.hide, *hide):
        view.show(path, Visibility.HIDDEN)
    view.show(job.cache, Visibility.READ)
    for path in (*own, *_writable(job)):
        view.show(path, Visibility.WRITE)
    return view


def _writable(job: Job) -> list[str]:
    """The folders a job is given to write."""
    given = (job.folder, job.report, job.cache if job.may_write_cache else "")
    return [path for path in given if path]


def _readable(view: FileView, job: Job, program: str) -> list[str]:
    """What is asked for, and what the job's programs need, but for secrets that lie among it."""
    of_many = [os.path.join(home, name) for home in homes() for name in NEVER_WHOLE]
    needs = RequiredPaths(view.trails, lambda path: not view.covers(path) and path not in of_many)
    own = tuple(os.path.join(view.trails.follow(path).real, "") for path in _writable(job))
    # Tools in a folder of the job's own stay writable with it.
    needed = [
        path
        for path in needs.of(job, program, search_path(job))
        if not view.trails.follow(path).real.startswith(own)
    ]
    for path in needed:
        for name in CREDENTIALS:
            secret = os.path.join(path, name)
            if view.at(view.trails.follow(path).real) is not Visibility.READ and os.path.isfile(secret):
                view.show(secret, Visibility.HIDDEN)
    return [*needed, *job.read, *((RESOLVER,) if job.has_network else ())]


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
    """Whatever holds it, what an agent is started with."""

    program: str
    job: Job


def agent_setting(order: AgentLaunch, processes: int = PROCESSES) -> AgentSetting:
    """The program and the setting of a run, both of which are there; raises CannotRun."""
    folder = order.workplace.folder
    if not os.path.isabs(folder) or not os.path.isdir(folder) or os.path.islink(folder):
        raise CannotRun("git", f"The worktree {folder} was not found. It must be created again.")
    if is_full(folder):
        raise CannotRun("disk", f"Hardly any room is left on the disk of {folder}. Make room there.")
    if order.door and not _is_socket(order.door):
        raise CannotRun("door", f"The agent's socket {order.door} was not found. It must be opened again.")
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
    return AgentSetting(_program(order, os.pathsep.join((*path, *SYSTEM_PATH))), job)


def agent_environment(
    order: AgentLaunch, job: Job, *, home: str, temporary: str, door: str
) -> dict[str, str]:
    """The whole environment of an agent. Which socket is its own is not for the order to say."""
    for name in order.environment:
        if not name or "=" in name:
            raise CannotRun("program", f"{name!r} cannot be the name of a variable. Mend it in remand.toml.")
    given = {"LANG": os.environ.get("LANG") or "C.UTF-8", "HOME": home, "TMPDIR": temporary}
    own = {"PATH": os.pathsep.join(dict.fromkeys((*job.path, *SYSTEM_PATH))), "PWD": job.folder}
    return given | order.environment | own | ({"REMAND_SOCKET": door} if door else {})


def agent_file_view(order: AgentLaunch, setting: AgentSetting) -> FileView:
    """What a confined agent sees; raises CannotRun."""
    place = order.workplace
    for folder in (place.private_dir, os.path.join(place.private_dir, BASE_OBJECTS)):
        if not os.path.isabs(folder) or os.path.islink(folder) or not os.path.isdir(folder):
            raise CannotRun(
                "git", f"The agent's git folder {folder} was not found. It must be created again."
            )
    objects = os.path.join(place.common_dir, "objects")
    if not os.path.isdir(objects):
        raise CannotRun("git", f"The repository {place.common_dir} was not found. Restore it, then repeat.")
    view = job_file_view(setting.job, setting.program, own=order.bounds.write, hide=listening_sockets())
    view.cover(place.common_dir, place.private_dir, Visibility.WRITE)
    view.cover(os.path.join(place.common_dir, BASE_OBJECTS), objects, Visibility.READ)
    if os.path.isfile(os.path.join(objects, "info", "alternates")):
        # What the repository borrows from another one, which is not to be seen, is in the agent's own folder.
        empty = os.path.join(place.private_dir, BASE_OBJECTS)
        view.cover(os.path.join(place.common_dir, BASE_OBJECTS, "info"), empty, Visibility.READ)
    view.show(place.folder, Visibility.WRITE)
    if order.door:
        view.cover(AGENT_SOCKET_PATH, order.door, Visibility.WRITE)
    return view


def _siblings(order: AgentLaunch) -> list[str]:
    """Where the worktrees and git folders of other agents are: beside this one's."""
    own = (order.workplace.folder, order.workplace.private_dir)
    above = {os.path.dirname(os.path.realpath(path)) for path in own if path}
    return [folder for folder in above if not is_system_folder(folder)]


def _is_socket(path: str) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


def _memory() -> int:
    """What an agent may have: most of the machine's."""
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (OSError, ValueError):
        return LEAST_MEMORY
    return max(total // 4 * 3, LEAST_MEMORY)


# ------------------------------------------------------------------------------------------------- programs


def own_program() -> str:
    """Our own executable, by its path: an agent's PATH may lead to another."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), PROGRAM)
    return beside if os.access(beside, os.X_OK) else os.path.abspath(shutil.which(PROGRAM) or beside)


def link_folders(view: FileView) -> list[str]:
    """The system's folders in which every shell is to find our program: those that an agent reads and may not write."""
    folders = {os.path.realpath(folder): None for folder in SYSTEM_PATH if os.path.isdir(folder)}
    return [folder for folder in folders if view.at(folder) is Visibility.READ]


def _program(order: AgentLaunch, path: str) -> str:
    """The absolute path of the agent's program."""
    if not order.command:
        raise CannotRun("program", f"The command of {order.agent} is empty. Name a program in remand.toml.")
    if any(len(word.encode("utf-8", "replace")) >= LONGEST for word in order.command):
        raise CannotRun("program", f"The command of {order.agent} is too long for the system. Shorten it.")
    name = order.command[0]
    found = shutil.which(os.path.join(order.workplace.folder, name) if "/" in name else name, path=path)
    if found is None:
        raise CannotRun(
            "program",
            f"{order.agent}'s program `{name}` was not found or is not executable. Install it, or fix the command in remand.toml.",
        )
    interpreter = interpreter_of(found)
    if interpreter and shutil.which(interpreter, path=path) is None:
        raise CannotRun("program", f"{found} is run by {interpreter}, which was not found. Install that.")
    return found


def _search_path(order: AgentLaunch) -> Iterator[str]:
    """Where an agent finds programs: the project's own, the user's as the scheduler was started with, and ours."""
    common = order.workplace.common_dir
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
    if root and os.path.isfile(os.path.join(root, ".venv", "pyvenv.cfg")):
        yield os.path.join(root, ".venv", "bin")
    packages = os.path.join(root, "node_modules")
    if root and os.path.isdir(os.path.join(packages, ".bin")) and not os.path.islink(packages):
        yield os.path.join(packages, ".bin")
    masked = [os.path.realpath(path) for path in (*hidden_paths(), *shared_folders(), tempfile.gettempdir())]
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

"""What an agent is started with and what it sees: its worktree, its tools, a git folder of its own, and one socket."""

from __future__ import annotations

import os
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from remand.adapters.sandbox.limits import is_full
from remand.adapters.sandbox.masks import hidden, is_systems, shared, sockets
from remand.adapters.sandbox.setting import SYSTEM_PATH
from remand.adapters.sandbox.tools import interpreter_of
from remand.adapters.sandbox.view import Sight, View, view_of
from remand.app.agent_socket import DOOR
from remand.app.gates.ports import MIB, Job, Limits
from remand.app.scheduling.ports import CannotRun, Order

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


class Setting(NamedTuple):
    """Whatever holds it, what an agent is started with."""

    program: str
    job: Job


def setting_of(order: Order, processes: int = PROCESSES) -> Setting:
    """The program and the setting of a run, both of which are there; raises CannotRun."""
    folder = order.workplace.folder
    if not os.path.isabs(folder) or not os.path.isdir(folder) or os.path.islink(folder):
        raise CannotRun("git", f"The worktree {folder} is not there. It has to be made again.")
    if is_full(folder):
        raise CannotRun("disk", f"Hardly any room is left on the disk of {folder}. Make room there.")
    if order.door and not _is_socket(order.door):
        raise CannotRun("door", f"The agent's socket {order.door} is not there. It has to be opened again.")
    path = tuple(_search_path(order))
    bounds = order.bounds
    job = Job(
        command=order.command,
        folder=folder,
        has_network=bounds.has_network,
        read=(*bounds.read, OWN),
        hide=(*bounds.hide, *_siblings(order)),
        path=path,
        limits=Limits(
            seconds=bounds.seconds, memory=_memory(), processes=processes, file_size=FILE_SIZE, output=0
        ),
    )
    return Setting(_program(order, os.pathsep.join((*path, *SYSTEM_PATH))), job)


def environment_of(order: Order, job: Job, *, home: str, temporary: str, door: str) -> dict[str, str]:
    """The whole environment of an agent. Which socket is its own is not for the order to say."""
    for name in order.environment:
        if not name or "=" in name:
            raise CannotRun("program", f"{name!r} cannot be the name of a variable. Mend it in remand.toml.")
    given = {"LANG": os.environ.get("LANG") or "C.UTF-8", "HOME": home, "TMPDIR": temporary}
    own = {"PATH": os.pathsep.join(dict.fromkeys((*job.path, *SYSTEM_PATH))), "PWD": job.folder}
    return given | order.environment | own | ({"REMAND_SOCKET": door} if door else {})


def agent_view(order: Order, setting: Setting) -> View:
    """What a confined agent sees; raises CannotRun."""
    place = order.workplace
    for folder in (place.private_dir, os.path.join(place.private_dir, BASE_OBJECTS)):
        if not os.path.isabs(folder) or os.path.islink(folder) or not os.path.isdir(folder):
            raise CannotRun("git", f"The agent's git folder {folder} is not there. It has to be made again.")
    objects = os.path.join(place.common_dir, "objects")
    if not os.path.isdir(objects):
        raise CannotRun("git", f"The repository {place.common_dir} is not there. Bring it back, then repeat.")
    view = view_of(setting.job, setting.program, own=order.bounds.write, hide=sockets())
    view.cover(place.common_dir, place.private_dir, Sight.WRITE)
    view.cover(os.path.join(place.common_dir, BASE_OBJECTS), objects, Sight.READ)
    if os.path.isfile(os.path.join(objects, "info", "alternates")):
        # What the repository borrows from another one, which is not to be seen, is in the agent's own folder.
        empty = os.path.join(place.private_dir, BASE_OBJECTS)
        view.cover(os.path.join(place.common_dir, BASE_OBJECTS, "info"), empty, Sight.READ)
    view.show(place.folder, Sight.WRITE)
    if order.door:
        view.cover(DOOR, order.door, Sight.WRITE)
    return view


def _siblings(order: Order) -> list[str]:
    """Where the worktrees and git folders of other agents are: beside this one's."""
    own = (order.workplace.folder, order.workplace.private_dir)
    above = {os.path.dirname(os.path.realpath(path)) for path in own if path}
    return [folder for folder in above if not is_systems(folder)]


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


def link_folders(view: View) -> list[str]:
    """The system's folders in which every shell is to find our program: those that an agent reads and may not write."""
    folders = {os.path.realpath(folder): None for folder in SYSTEM_PATH if os.path.isdir(folder)}
    return [folder for folder in folders if view.at(folder) is Sight.READ]


def _program(order: Order, path: str) -> str:
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
            f"The program {name} of {order.agent} is not there, or may not be run. Install it, or mend the"
            " command in remand.toml.",
        )
    interpreter = interpreter_of(found)
    if interpreter and shutil.which(interpreter, path=path) is None:
        raise CannotRun("program", f"{found} is run by {interpreter}, which is not there. Install that.")
    return found


def _search_path(order: Order) -> Iterator[str]:
    """Where an agent finds programs: the project's own, the user's as the scheduler was started with, and ours."""
    common = order.workplace.common_dir
    root = os.path.dirname(common) if os.path.basename(common) == ".git" else ""
    if root and os.path.isfile(os.path.join(root, ".venv", "pyvenv.cfg")):
        yield os.path.join(root, ".venv", "bin")
    packages = os.path.join(root, "node_modules")
    if root and os.path.isdir(os.path.join(packages, ".bin")) and not os.path.islink(packages):
        yield os.path.join(packages, ".bin")
    masked = [os.path.realpath(path) for path in (*hidden(), *shared(), tempfile.gettempdir())]
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

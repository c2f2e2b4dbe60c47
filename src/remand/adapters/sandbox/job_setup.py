"""What a job is started with: its program, environment, required tools, and visible files."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import stat
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from enum import Enum
from typing import NamedTuple

from remand.adapters.system.files import read_start
from remand.app.gates.ports import Job

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

# Always the same, so that results are reproducible; a job's own environment may override it.
STEADY = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    # Compiled files would stay in the checkout, and the next job would trust them.
    "PYTHONDONTWRITEBYTECODE": "1",
}


class CannotStart(Exception):  # noqa: N818 - a state of affairs; it never leaves the package
    """A job cannot be started; the message says what to do."""


def search_path(job: Job) -> list[str]:
    """The existing folders in which programs are found: the job's own, then the system's."""
    own = [folder for folder in job.path if os.path.isabs(folder) and os.path.isdir(folder)]
    return list(dict.fromkeys([*own, *SYSTEM_PATH]))


def find_program(job: Job) -> str:
    if not os.path.isabs(job.folder) or not os.path.isdir(job.folder):
        raise CannotStart(f"The folder {job.folder} was not found. Create the checkout again, then repeat.")
    if not job.command:
        raise CannotStart("The command is empty. Name a program in remand.toml.")
    name = job.command[0]
    if "/" in name:
        path = os.path.join(job.folder, name)
        if not os.path.isfile(path):
            raise CannotStart(
                f"The program {path} was not found. Fix the command in remand.toml, or install it."
            )
        if not os.access(path, os.X_OK):
            raise CannotStart(f"The program {path} is not executable. Make it executable, then repeat.")
        return path
    found = shutil.which(name, path=os.pathsep.join(search_path(job)))
    if found is None:
        raise CannotStart(
            f"The program {name} is in none of {', '.join(search_path(job))}. Install it, or add the folder it"
            " is in to [sandbox] path in remand.toml."
        )
    return found


def job_environment(job: Job, *, home: str, temporary: str) -> dict[str, str]:
    """The complete environment of a job. The job cannot override its PATH and HOME."""
    for name in job.environment:
        if not name or "=" in name:
            raise CannotStart(f"{name!r} cannot be the name of a variable. Fix it in remand.toml.")
    return (
        STEADY
        | dict(job.environment)
        | {"PATH": os.pathsep.join(search_path(job)), "HOME": home, "TMPDIR": temporary, "PWD": job.folder}
    )


def encode_arguments(texts: list[str]) -> list[bytes]:
    try:
        encoded = [os.fsencode(text) for text in texts]
    except UnicodeEncodeError as fault:
        raise CannotStart(
            f"The command or its environment cannot be written as bytes: {fault.reason}."
        ) from None
    if any(b"\x00" in one for one in encoded):
        raise CannotStart("The command or its environment contains a NUL byte. Remove it from remand.toml.")
    return encoded


# Shared by everybody: leftovers, and the sockets of daemons.
SHARED = ("/tmp", "/var/tmp")  # noqa: S108 - named to be hidden
SOCKETS = ("/run", "/var/run")

HOMES = ("/root", "/home", "/var/home", "/Users")
_PRIVATE_FOLDERS = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")

# Readable only for root: a job that root runs may still read root's files.
_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/kubernetes", "/etc/NetworkManager/system-connections"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/private"),
    *("/var/spool", "/var/backups", "/var/mail"),
)
_HOST_KEYS = "/etc/ssh/ssh_host_*_key"

CREDENTIALS = ("credentials", "credentials.toml", ".npmrc", ".netrc", ".pypirc", "auth.json")
"""Files of this name in a tool's folder are secrets (cargo keeps its tokens beside its programs)."""


NEVER_WHOLE = (
    *(".local", ".config", ".cache", ".ssh", ".gnupg", ".docker", ".kube", ".aws", ".azure", ".gcloud"),
    *(".password-store", ".mozilla", ".vault"),
)
"""Folders in a home with much besides programs: of a `bin` in one of them, only that `bin` is shown."""


def homes() -> list[str]:
    """The user's home by the user database, and by the environment, which may be an agent's."""
    named = [os.path.expanduser("~")]
    with suppress(KeyError):
        named.insert(0, pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(os.path.realpath(name) for name in named))


def hidden_paths() -> Iterator[str]:
    """Existing paths that are hidden from every job."""
    yield from HOMES
    yield from SOCKETS
    yield from (path for path in (*_SYSTEM, *glob.iglob(_HOST_KEYS)) if os.access(path, os.R_OK))
    named = (*homes(), *(os.environ.get(name, "") for name in _PRIVATE_FOLDERS))
    yield from (folder for folder in named if not is_system_folder(folder))


def is_system_folder(folder: str) -> bool:
    """True for a folder that every job needs; some system users have one as their home."""
    above = os.path.realpath(folder).rstrip("/") + "/"
    return any(f"{os.path.realpath(place)}/".startswith(above) for place in (*SYSTEM_PATH, "/etc"))


def shared_folders() -> Iterator[str]:
    """Folders that every job gets as empty folders of its own."""
    yield from SHARED
    if not is_system_folder(tempfile.gettempdir()):
        yield tempfile.gettempdir()


def listening_sockets() -> Iterator[str]:
    """The unix sockets on which a process listens; a separate network does not protect these."""
    for line in read_start("/proc/net/unix").splitlines()[1:]:
        _, slash, path = line.partition(b" /")
        if slash and is_socket(b"/" + path):
            yield os.fsdecode(b"/" + path)


def is_socket(path: str | bytes) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except (OSError, ValueError):
        return False


SHIMS = "shims"
PROGRAM_FOLDERS = ("bin", ".bin", "sbin", SHIMS)
_WORKTREE = (".git", ".got")
_MAX_LINKS = 40
_MAX_FIRST_LINE = 256


class Trail(NamedTuple):
    """The links along a path, and the path at the end."""

    links: tuple[tuple[str, str], ...]
    real: str


class Trails:
    """Follows links one by one, and remembers the ones already followed."""

    def __init__(self) -> None:
        self._targets: dict[str, str] = {}

    def follow(self, path: str) -> Trail:
        links: list[tuple[str, str]] = []
        done, rest = "", _parts(path)
        while rest:
            part = rest.pop()
            if part == "..":
                done = done.rpartition("/")[0]
                continue
            here = f"{done}/{part}"
            target = self._target(here) if len(links) < _MAX_LINKS else ""
            if not target:
                done = here
                continue
            links.append((here, target))
            rest += _parts(target)
            done = "" if target.startswith("/") else done
        return Trail(tuple(links), done or "/")

    def _target(self, path: str) -> str:
        """The target of a link; empty for anything else."""
        if path not in self._targets:
            try:
                self._targets[path] = os.readlink(path)
            except (OSError, ValueError):
                self._targets[path] = ""
        return self._targets[path]


def _parts(path: str) -> list[str]:
    """The names in a path, last one first."""
    return [part for part in reversed(path.split("/")) if part not in ("", ".")]


class RequiredPaths:
    """Collects the paths that a job's programs need."""

    def __init__(self, trails: Trails, is_own: Callable[[str], bool]) -> None:
        self._trails = trails
        self._is_own = is_own
        """True for a folder that can be shown as a whole: nobody's home, no folder that many share."""
        self.paths: dict[str, None] = {}

    def of(self, job: Job, program: str, path: list[str]) -> list[str]:
        """The paths that must be readable so that the program, and those in the job's folders, work.

        Nothing is added for a program in the checkout: it does not decide what else becomes visible.
        """
        for folder in path:
            self._folder(folder)
        if not os.path.abspath(program).startswith(os.path.join(job.folder, "")):
            self._file(program)
            interpreter = interpreter_of(program)
            found = shutil.which(interpreter, path=os.pathsep.join(path)) if interpreter else None
            if found:
                self._file(found)
        return list(self.paths)

    def _folder(self, folder: str) -> None:
        """Adds a folder of programs, with its prefix and whatever its links lead to."""
        if folder in self.paths or folder in SYSTEM_PATH:
            return
        self.paths[folder] = None
        prefix = self._prefix(self._trails.follow(folder).real)
        self.paths[prefix] = None
        for target in _targets(folder):
            self._file(target)
        base = _base_interpreter(prefix)
        if base:
            self._folder(base)

    def _file(self, path: str) -> None:
        """Adds a single program, by its path or a link's, with its prefix if it has one."""
        real = self._trails.follow(path).real
        if not os.path.isfile(real) or not os.access(real, os.X_OK):
            return
        self.paths[path] = None
        prefix = self._prefix(os.path.dirname(real))
        self.paths[real if prefix == os.path.dirname(real) else prefix] = None

    def _prefix(self, folder: str) -> str:
        """`X` for `X/bin` if X contains only these programs' files; else the folder itself."""
        above = os.path.dirname(folder)
        if os.path.basename(folder) not in PROGRAM_FOLDERS or not self._is_own(above):
            return folder
        is_worktree = any(os.path.lexists(os.path.join(above, name)) for name in _WORKTREE)
        # A folder of shims belongs to a version manager, often installed as a git clone.
        return folder if is_worktree and os.path.basename(folder) != SHIMS else above


def _targets(folder: str) -> Iterator[str]:
    try:
        with os.scandir(folder) as entries:
            yield from [entry.path for entry in entries if entry.is_symlink()]
    except OSError:
        return


def _base_interpreter(prefix: str) -> str:
    """The folder of the interpreter from which a Python environment was made; empty for anything else."""
    settings = read_start(os.path.join(prefix, "pyvenv.cfg"), 1 << 16).decode("utf-8", "replace")
    pairs = (line.partition("=") for line in settings.splitlines())
    folder = next((value.strip() for name, _, value in pairs if name.strip() == "home"), "")
    return folder if os.access(os.path.join(folder, "python3"), os.X_OK) else ""


def interpreter_of(program: str) -> str:
    """The interpreter in a script's first line; empty if it is no script."""
    line = read_start(program, _MAX_FIRST_LINE).partition(b"\n")[0]
    words = os.fsdecode(line[2:]).split() if line.startswith(b"#!") else []
    if not words:
        return ""
    if os.path.basename(words[0]) != "env":
        return words[0]
    return next((word for word in words[1:] if not word.startswith("-") and "=" not in word), "")


RESOLVER = "/etc/resolv.conf"


class Visibility(Enum):
    """How a path and everything below it is seen, up to the next path with its own setting."""

    HIDDEN = "hidden"
    FRESH = "fresh"
    """Empty at first, and writable."""
    READ = "read"
    WRITE = "write"


MASKED = (Visibility.HIDDEN, Visibility.FRESH)


class FileView:
    """Paths with their visibility; if two apply to a file, the longer path decides."""

    def __init__(self) -> None:
        self._places: dict[str, Visibility] = {"/": Visibility.READ}
        self._links: dict[str, str] = {}
        self._sources: dict[str, str] = {}
        self.trails = Trails()

    def show(self, path: str, visibility: Visibility) -> None:
        """Sets a path's visibility; keeps the links on the way to it, even if their folder is masked."""
        if not os.path.isabs(path):
            return
        links, real = self.trails.follow(path)
        if not os.path.exists(real):
            return
        self._links.update(links)
        self._places[real] = visibility

    def cover(self, path: str, source: str, visibility: Visibility) -> None:
        """Puts something else at a path; drops the settings of everything below it."""
        links, real = self.trails.follow(path)
        self._links.update(links)
        below = real + "/"
        for inner in [place for place in self._places if place.startswith(below)]:
            del self._places[inner]
        self._places[real] = visibility
        self._sources[real] = source

    def source(self, path: str) -> str:
        return self._sources.get(path, path)

    def at(self, path: str) -> Visibility:
        while path not in self._places:
            path = os.path.dirname(path)
        return self._places[path]

    def covers(self, path: str) -> bool:
        """True if something is masked at or below a path."""
        below = path.rstrip("/") + "/"
        return any(
            (place == path or place.startswith(below)) and visibility in MASKED
            for place, visibility in self._places.items()
        )

    def places(self) -> list[tuple[str, Visibility]]:
        """Every path whose visibility differs from its parent's, outer paths first."""
        found = []
        for path, visibility in sorted(self._places.items()):
            outer = self.at(os.path.dirname(path))
            # What is inside a masked folder need not be hidden.
            is_same = visibility is outer or (visibility is Visibility.HIDDEN and outer in MASKED)
            if path in self._sources or (path != "/" and not is_same):
                found.append((path, visibility))
        return found

    def links(self) -> list[tuple[str, str]]:
        """The links to recreate because the folders that contain them are masked."""
        return sorted(
            (path, target)
            for path, target in self._links.items()
            if path not in self._places and self.at(os.path.dirname(path)) in MASKED
        )

    def parts(self) -> Iterator[tuple[str, Visibility]]:
        """The visible files and folders one by one, for rules that can only add."""
        inner: dict[str, set[str]] = {}
        for path, _ in self.places():
            names = path[1:].split("/")
            for depth, name in enumerate(names):
                inner.setdefault("/" + "/".join(names[:depth]), set()).add(name)
        yield from self._parts("/", Visibility.READ, inner)

    def _parts(
        self, path: str, visibility: Visibility, inner: dict[str, set[str]]
    ) -> Iterator[tuple[str, Visibility]]:
        visibility = self._places.get(path, visibility)
        is_seen = visibility not in MASKED
        if path not in inner:
            if is_seen:
                yield path, visibility
            return
        for name in sorted(inner[path].union(_names(path) if is_seen else ())):
            yield from self._parts(f"{path.rstrip('/')}/{name}", visibility, inner)


def _names(folder: str) -> list[str]:
    """The entries of a folder except links, whose targets have rules of their own."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if not entry.is_symlink()]
    except OSError:
        return []


def job_file_view(job: Job, program: str, *, own: Iterable[str] = (), hide: Iterable[str] = ()) -> FileView:
    """What a job sees. `own` are further writable folders, `hide` further masked paths."""
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
    folders = (job.folder, job.report, job.cache if job.may_write_cache else "")
    return [path for path in folders if path]


def _readable(view: FileView, job: Job, program: str) -> list[str]:
    """The requested paths, and those that the job's programs need, without secrets among them."""
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

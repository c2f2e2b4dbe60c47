"""Installs and removes our hooks and our MCP server in the settings files of agent hosts, in all files or none."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Protocol

from remand.adapters.hosts import settings
from remand.adapters.hosts.host import Setup
from remand.adapters.hosts.table import HOSTS
from remand.adapters.system.files import atomic_write
from remand.app.errors import EnvironmentFault, UsageError
from remand.app.ports import Installation

MAX_SETTINGS = 8 << 20
PRIVATE_FILES = ("remand.toml", ".got/")
"""Further files that git ignores if the installation measures only one person's sessions."""


class WorktreeFiles(Protocol):
    """What git knows about the files in one worktree."""

    exclude: str
    """The path of the repository's local ignore list; empty without a repository."""

    def find_tracked(self, names: Collection[str]) -> set[str]:
        """The files among these that git tracks."""

    def find_ignored(self, names: Collection[str]) -> set[str]:
        """The files among these that git ignores."""

    def untrack(self, name: str) -> None:
        """Removes a file from the index, for the next commit; the file itself stays."""


def require_inside(root: str, name: str) -> str:
    """Refuses a settings file that a link leads outside of the project."""
    path = os.path.join(root, name)
    real_root = os.path.realpath(root)
    if os.path.commonpath([real_root, os.path.realpath(path)]) != real_root:
        raise EnvironmentFault(f"{path} is a link that leads out of the repository. Replace it with a file.")
    return path


def read_settings(path: str) -> str | None:
    """The content of a settings file; None if it does not exist."""
    if not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_SETTINGS:
            raise EnvironmentFault(f"{path} is not a settings file. Move it away, then repeat.")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{path} is not text in UTF-8. Fix it, then repeat.") from None
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be read: {error.strerror}.") from None


class SettingsChanges:
    """The planned contents of files. Nothing is written before `carry_out`, and foreseeable failures are raised before."""

    def __init__(self) -> None:
        self._planned: dict[str, str | None] = {}
        self._roots: dict[str, str] = {}

    def text(self, path: str) -> str | None:
        """The planned or current content of a file; None if it does not exist."""
        return self._planned[path] if path in self._planned else read_settings(path)

    def plan(self, root: str, path: str, text: str | None) -> None:
        """Plans the new content of a file, or its deletion for None. Raises if it cannot be changed."""
        if self.text(path) == text:
            return
        require_writable(path)
        self._planned[path] = text
        self._roots[path] = root

    @property
    def paths(self) -> list[str]:
        return list(self._planned)

    def carry_out(self) -> None:
        for path, text in self._planned.items():
            if text is not None:
                write_settings(path, text)
            elif os.path.lexists(path):
                remove_settings(self._roots[path], path)


def require_writable(path: str) -> None:
    """Raises if a file or its folder is read-only."""
    place = os.path.realpath(path)
    if os.path.isfile(place) and not os.stat(place).st_mode & 0o200:
        raise EnvironmentFault(f"{path} is read-only. Make it writable (chmod u+w), then repeat.")
    folder = os.path.dirname(place)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder) or not os.stat(folder).st_mode & 0o200 or not os.access(folder, os.W_OK):
        raise EnvironmentFault(f"{path} cannot be written: {folder} is not a folder that you may write to.")


def write_settings(path: str, text: str) -> None:
    """Replaces a file atomically; raises if it cannot be changed."""
    require_writable(path)
    target = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
        draft = os.path.join(os.path.dirname(target), f".remand-{os.urandom(6).hex()}")
        atomic_write(target, text.encode(), mode=0o600, draft=draft)
        os.chmod(target, mode)  # unchanged, whatever the umask
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None


def remove_settings(root: str, path: str) -> None:
    """Deletes a file that contained only our entries, and the folders that this leaves empty."""
    try:
        os.unlink(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be deleted: {error.strerror}.") from None
    folder = os.path.dirname(path)
    with suppress(OSError):
        while folder != root:
            os.rmdir(folder)
            folder = os.path.dirname(folder)


SHARED_PROGRAM = "remand"
"""How a file that is shared between machines names our program."""


def find_setup(name: str) -> Setup:
    """The setup of a host; raises `UsageError` for an unknown host."""
    if name not in HOSTS:
        raise UsageError(f"There is no host {name!r}; the hosts are {', '.join(HOSTS)}.")
    return HOSTS[name].SETUP


class HostHooks:
    def __init__(self, name: str) -> None:
        self._setup = find_setup(name)
        self.shared = self._setup.path
        self.local = self._setup.local or self._setup.path
        self.files = self._setup.project_paths
        self.has_variable = bool(self._setup.project)

    def install(self, text: str | None, program: str) -> str:
        return settings.install_hooks(self._setup, text, [program])

    def uninstall(self, text: str) -> str | None:
        """The settings without our hooks; None if nothing else is in the file."""
        return settings.uninstall_hooks(self._setup, text)

    def commands(self, text: str) -> list[str]:
        return [entry.command for entry in settings.find_hooks(self._setup, text)]


class HostServer:
    """Our MCP server in the settings of one host; some hosts have no file for it in a project."""

    def __init__(self, name: str) -> None:
        self._entry = find_setup(name).server
        self.shared = self.local = self._entry.path
        self.files = (self._entry.path,) if self._entry.path else ()
        self.has_variable = True
        """Hosts start a server in the project's folder."""

    def install(self, text: str | None, program: str) -> str:
        return settings.install_server(self._entry, text, program)

    def uninstall(self, text: str) -> str | None:
        """The settings without our server; None if nothing else is in the file."""
        return settings.uninstall_server(self._entry, text)

    def commands(self, text: str) -> list[str]:
        """The program that starts our server."""
        return settings.installed_programs(self._entry, text)


Part = HostHooks | HostServer


def host_parts(names: Sequence[str]) -> list[Part]:
    """Our parts in the settings of hosts.

    Servers come first: only the hooks' part can tell whether nothing but the host's own keys is left in a file.
    """
    hooks = [HostHooks(name) for name in names]
    return [part for name, own in zip(names, hooks, strict=True) for part in (HostServer(name), own)]


class HostWorktree:
    """The settings files of one worktree, and their state in git."""

    def __init__(self, root: str, tracking: WorktreeFiles, changes: SettingsChanges) -> None:
        self.root = root
        self.tracking = tracking
        self._changes = changes
        self._parts = host_parts(list(HOSTS))
        self.names = sorted({name for part in self._parts for name in part.files})
        self.tracked = self.tracking.find_tracked(self.names)
        self.ignored = self.tracking.find_ignored(self.names) - self.tracked
        self._local_by_name = {part.local for part in self._parts if part.local != part.shared}

    def path(self, name: str) -> str:
        """A settings file's path; raises for a link that leads out of the worktree."""
        return require_inside(self.root, name)

    def text(self, name: str) -> str | None:
        """The planned or current content of a settings file."""
        return self._changes.text(self.path(name))

    def plan(self, name: str, text: str | None) -> None:
        """Plans the new content of a settings file, or its deletion for None."""
        self._changes.plan(self.root, self.path(name), text)

    def is_local(self, name: str) -> bool:
        """True if a file belongs to this machine: git does not track it, and it contains nothing meant for others."""
        if name in self.tracked:
            return False
        return name in self._local_by_name or name in self.ignored or self.is_ours_alone(name)

    def is_ours_alone(self, name: str) -> bool:
        """True if a file contains only our entries or does not exist."""
        left = self.text(name)
        with naming_settings_file(self.path(name)):
            for part in self._parts:
                if left is not None and left.strip() and name in part.files:
                    left = part.uninstall(left)
        return left is None or not left.strip()

    def names_machine(self, name: str) -> bool:
        """True if one of our entries in a file contains a path of this machine."""
        text = self.text(name)
        with naming_settings_file(self.path(name)):
            commands = [
                command
                for part in self._parts
                if text is not None and name in part.files
                for command in part.commands(text)
            ]
        return any(map(settings.names_machine, commands))


@contextmanager
def naming_settings_file(path: str) -> Iterator[None]:
    """Adds the name of the file that cannot be changed safely to errors."""
    try:
        yield
    except settings.UnusableSettings as problem:
        raise EnvironmentFault(f"{path} was not changed: {problem}. Fix it, then repeat.") from None


Worktrees = Mapping[str, WorktreeFiles]
"""The main worktree and the current one, by their folders."""


def install_hosts(
    worktrees: Worktrees, names: Sequence[str], executable: str, *, is_portable: bool = False
) -> Installation:
    """Installs our hooks and our MCP server in some worktrees. Nothing is written unless everything can be.

    Portable entries go into the files that the project shares. They name an executable inside the project by its
    relative path if the host tells hooks where the project is, and `remand` otherwise.
    """
    parts = host_parts(names)
    changes = SettingsChanges()
    installation = Installation([], [], [], [])
    leaving: list[tuple[HostWorktree, str]] = []
    for worktree in (HostWorktree(root, tracking, changes) for root, tracking in worktrees.items()):
        files = dict.fromkeys(name for part in parts for name in part.files)
        old = [name for name in files if name in worktree.tracked and worktree.names_machine(name)]
        installation.cleaned.extend(map(worktree.path, old))
        ours = [name for name in old if not is_portable and worktree.is_ours_alone(name)]
        worktree.tracked.difference_update(ours)
        for part in parts:
            _plan_part(worktree, part, executable, installation, is_portable=is_portable)
        leaving += [(worktree, name) for name in ours if worktree.text(name) is not None]
        _plan_ignored(worktree, changes, [] if is_portable else [part.local for part in parts])
    for worktree, name in leaving:
        worktree.tracking.untrack(name)
    changes.carry_out()
    return Installation(*(list(dict.fromkeys(files)) for files in installation))


def install_private_hooks(
    worktrees: Worktrees, names: Sequence[str], executable: str, ignored: Sequence[str] = ()
) -> list[str]:
    """Installs our hooks where nothing has to be committed: in a worktree's local file, or in the user's own settings.

    A host whose project file already contains our hooks is left unchanged. `ignored` lists further files for git to ignore.
    """
    changes, found = SettingsChanges(), []
    for worktree in (HostWorktree(root, tracking, changes) for root, tracking in worktrees.items()):
        hooks = [HostHooks(name) for name in names]
        for name, part in zip(names, hooks, strict=True):
            texts = [worktree.text(file) for file in part.files if file in worktree.tracked]
            if any(text is not None and part.commands(text) for text in texts):
                continue
            user = os.path.expanduser(find_setup(name).paths[-1])
            path = worktree.path(part.local) if worktree.is_local(part.local) else user
            root = worktree.root if path != user else os.path.dirname(user)
            with naming_settings_file(path):
                changes.plan(root, path, part.install(changes.text(path), os.path.abspath(executable)))
            found.append(path)
        _plan_ignored(worktree, changes, [part.local for part in hooks])
        exclude = worktree.tracking.exclude
        if exclude and ignored:
            changes.plan(
                os.path.dirname(exclude), exclude, with_excluded(changes.text(exclude) or "", ignored)
            )
    changes.carry_out()
    return list(dict.fromkeys(found))


def present_hosts() -> list[str]:
    """The hosts whose executable is on PATH."""
    return [name for name, host in HOSTS.items() if any(map(shutil.which, host.SETUP.programs))]


def remove_hosts(worktrees: Worktrees) -> Installation:
    """Removes our hooks and our MCP server from all host files in some worktrees, and our hooks from the user's own files."""
    changes = SettingsChanges()
    installation = Installation([], [], [], [])
    for worktree in (HostWorktree(root, tracking, changes) for root, tracking in worktrees.items()):
        for part in host_parts(list(HOSTS)):
            files = [name for name in part.files if _plan_removal(worktree, part, name)]
            kind = installation.hooks if isinstance(part, HostHooks) else installation.servers
            kind.extend(map(worktree.path, files))
            installation.shared.extend(worktree.path(name) for name in files if name in worktree.tracked)
        exclude = worktree.tracking.exclude
        listed = changes.text(exclude) if exclude else None
        if listed is not None:
            names = [*worktree.names, *PRIVATE_FILES]
            changes.plan(os.path.dirname(exclude), exclude, without_excluded(listed, names))
    for name in HOSTS:
        hooks, user = HostHooks(name), os.path.expanduser(find_setup(name).paths[-1])
        text = changes.text(user)
        with naming_settings_file(user):
            if text is not None and text.strip() and hooks.commands(text):
                changes.plan(os.path.dirname(user), user, hooks.uninstall(text))
                installation.hooks.append(user)
    changes.carry_out()
    return Installation(*(list(dict.fromkeys(files)) for files in installation))


def stop_ignoring(worktrees: Worktrees) -> None:
    """Removes the ignore entries that `init --solo` added for git."""
    for path in dict.fromkeys(tracking.exclude for tracking in worktrees.values() if tracking.exclude):
        text = read_settings(path)
        changed = without_excluded(text, PRIVATE_FILES) if text is not None else None
        if changed is not None and changed != text:
            write_settings(path, changed)


def outdated_hosts(worktrees: Worktrees) -> list[str]:
    """The hosts whose tracked files contain entries with a machine's path, as earlier versions wrote them."""
    opened = [HostWorktree(root, tracking, SettingsChanges()) for root, tracking in worktrees.items()]
    found = []
    for name in HOSTS:
        with suppress(EnvironmentFault):  # unreadable files are reported when that host is used
            found += [name] if any(tracked_paths(worktree, name) for worktree in opened) else []
    return found


def tracked_paths(worktree: HostWorktree, name: str) -> list[str]:
    """The tracked files in which a host's entries of ours contain a machine's path."""
    found = []
    for part in host_parts([name]):
        for file in part.files:
            text = worktree.text(file) if file in worktree.tracked else None
            with naming_settings_file(worktree.path(file)):
                if text is not None and any(map(settings.names_machine, part.commands(text))):
                    found.append(file)
    return list(dict.fromkeys(found))


def _plan_part(
    worktree: HostWorktree, part: Part, executable: str, installation: Installation, *, is_portable: bool
) -> None:
    """Plans the content of one part in the files of a worktree."""
    target = part.shared if is_portable else part.local
    for name in part.files:
        if name != target:
            _plan_removal(worktree, part, name)
    if not target:
        return
    is_local = not is_portable and worktree.is_local(target)
    if is_portable:
        program = _portable_program(worktree.root, executable) if part.has_variable else SHARED_PROGRAM
    else:
        program = os.path.abspath(executable) if is_local else SHARED_PROGRAM
    path = worktree.path(target)
    with naming_settings_file(path):
        worktree.plan(target, part.install(worktree.text(target), program))
    (installation.hooks if isinstance(part, HostHooks) else installation.servers).append(path)
    if not is_local:
        installation.shared.append(path)


def _plan_removal(worktree: HostWorktree, part: Part, name: str) -> bool:
    """Plans the removal of one part from a file; False if it was not there."""
    text = worktree.text(name)
    with naming_settings_file(worktree.path(name)):
        if text is None or not text.strip() or not part.commands(text):
            return False
        worktree.plan(name, part.uninstall(text))
    return True


def _plan_ignored(worktree: HostWorktree, changes: SettingsChanges, names: Sequence[str]) -> None:
    """Adds machine-specific files to the repository's local ignore list, which is never committed."""
    path = worktree.tracking.exclude
    fresh = [name for name in names if name and worktree.is_local(name) and name not in worktree.ignored]
    if path and fresh:
        changes.plan(os.path.dirname(path), path, with_excluded(changes.text(path) or "", fresh))


def _portable_program(root: str, executable: str) -> str:
    """The program's path relative to the project, or `remand` if it is elsewhere."""
    place = os.path.relpath(os.path.abspath(executable), root)
    return SHARED_PROGRAM if place.startswith("..") else place


EXCLUDE_NOTE = "# Settings of this machine alone, written by `remand init --hosts`."


def with_excluded(text: str, names: Collection[str]) -> str:
    """Adds names to an ignore list, each once."""
    rows = text.splitlines()
    fresh = [f"/{name}" for name in names if f"/{name}" not in rows]
    if not fresh:
        return text
    gap = "" if not text or text.endswith("\n") else "\n"
    return text + gap + "\n".join([*([] if EXCLUDE_NOTE in rows else [EXCLUDE_NOTE]), *fresh, ""])


def without_excluded(text: str, names: Collection[str]) -> str:
    """Removes names from an ignore list, and our comment once nothing follows it."""
    ours = {f"/{name}" for name in names}
    rows = text.split("\n")
    if EXCLUDE_NOTE not in rows:
        return text
    kept = [row for row in rows if row not in ours]
    at = kept.index(EXCLUDE_NOTE)
    if not kept[at + 1 : at + 2] or not kept[at + 1].startswith("/"):
        del kept[at]
    return "\n".join(kept)

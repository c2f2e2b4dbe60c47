"""Our hooks and our MCP server in the settings of agents' hosts: installed and removed, file by file.

What names our program by its path holds for one machine. It goes into a file that git does not track; a file that the
project shares names the program `remand`, which hosts look up on PATH.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import NamedTuple

from remand.adapters.git.place import Place
from remand.adapters.git.tracking import Tracking, with_excluded, without_excluded
from remand.adapters.hosts import mcp_entries, settings
from remand.adapters.hosts.setup import Setup
from remand.app.errors import EnvironmentFault, UsageError
from remand.bootstrap import host_files
from remand.bootstrap.hosts import HOSTS, host

SHARED_PROGRAM = "remand"
"""Our program as a file names it that other machines read, too."""


def setup_of(name: str) -> Setup:
    """How a host is set up; raises `UsageError` when there is no such host."""
    module = host(name)
    if module is None:
        raise UsageError(f"There is no host {name!r}; known are {', '.join(HOSTS)}.")
    return module.SETUP


class Hooks:
    """Our hooks in the settings of one host."""

    def __init__(self, name: str) -> None:
        self._setup = setup_of(name)
        self.shared = self._setup.path
        self.local = self._setup.local or self._setup.path
        self.files = self._setup.project_paths
        self.has_variable = bool(self._setup.project)

    def install(self, text: str | None, program: str) -> str:
        """The settings with our hooks."""
        return settings.install(self._setup, text, [program])

    def uninstall(self, text: str) -> str | None:
        """The settings without our hooks; None when nothing else is in the file."""
        return settings.uninstall(self._setup, text)

    def commands(self, text: str) -> list[str]:
        """The lines by which our hooks are called."""
        return [entry.command for entry in settings.find(self._setup, text)]


class Server:
    """Our MCP server in the settings of one host; a host may have no file for it in a project."""

    def __init__(self, name: str) -> None:
        self._entry = mcp_entries.ENTRIES[name]
        self.shared = self.local = self._entry.path
        self.files = (self._entry.path,) if self._entry.path else ()
        self.has_variable = True
        """Hosts start a server in the project's folder."""

    def install(self, text: str | None, program: str) -> str:
        """The settings with our server."""
        return mcp_entries.install(self._entry, text, program)

    def uninstall(self, text: str) -> str | None:
        """The settings without our server; None when nothing else is in the file."""
        return mcp_entries.uninstall(self._entry, text)

    def commands(self, text: str) -> list[str]:
        """The program by which our server is started."""
        return mcp_entries.commands(self._entry, text)


Part = Hooks | Server


def parts_of(names: Sequence[str]) -> list[Part]:
    """What there is of ours in the settings of hosts.

    Servers come first: only what knows a host's hooks knows when nothing but the host's own keys is left of a file.
    """
    hooks = [Hooks(name) for name in names]
    return [part for name, own in zip(names, hooks, strict=True) for part in (Server(name), own)]


class Installation(NamedTuple):
    """The files that an installation is about."""

    hooks: list[str]
    """Those that hold our hooks now."""
    servers: list[str]
    """Those that name our MCP server now."""
    cleaned: list[str]
    """Tracked ones out of which entries with the path of a machine were taken. That is to be committed."""
    shared: list[str]
    """Those with entries of ours that the project shares. They are to be committed."""


class Worktree:
    """The settings files of one worktree, and what git makes of them."""

    def __init__(self, place: Place, root: str, changes: host_files.Changes) -> None:
        self.root = root
        self.tracking = Tracking(place, root)
        self._changes = changes
        self._parts = parts_of(HOSTS)
        self.names = sorted({name for part in self._parts for name in part.files})
        self.tracked = self.tracking.tracked(self.names)
        self.ignored = self.tracking.ignored(self.names) - self.tracked
        self._local_by_name = {part.local for part in self._parts if part.local != part.shared}

    def path(self, name: str) -> str:
        """A settings file's path; raises for a link that leads out of the worktree."""
        return host_files.inside(self.root, name)

    def text(self, name: str) -> str | None:
        """What a settings file holds, or will."""
        return self._changes.text(self.path(name))

    def plan(self, name: str, text: str | None) -> None:
        """Notes what a settings file is to hold; None: it is deleted."""
        self._changes.plan(self.root, self.path(name), text)

    def is_local(self, name: str) -> bool:
        """Whether a file is this machine's: git does not track it, and it holds nothing that is meant for others."""
        if name in self.tracked:
            return False
        return name in self._local_by_name or name in self.ignored or self.is_ours_alone(name)

    def is_ours_alone(self, name: str) -> bool:
        """Whether a file holds nothing but entries of ours, or is not there."""
        left = self.text(name)
        with usable(self.path(name)):
            for part in self._parts:
                if left is not None and left.strip() and name in part.files:
                    left = part.uninstall(left)
        return left is None or not left.strip()

    def names_machine(self, name: str) -> bool:
        """Whether an entry of ours in a file holds the path of a machine."""
        text = self.text(name)
        with usable(self.path(name)):
            commands = [
                command
                for part in self._parts
                if text is not None and name in part.files
                for command in part.commands(text)
            ]
        return any(map(settings.names_machine, commands))


@contextmanager
def usable(path: str) -> Iterator[None]:
    """Says which file it is that cannot be changed safely."""
    try:
        yield
    except settings.UnusableSettings as problem:
        raise host_files.fault(path, problem) from None


def install_hosts(
    place: Place, names: Sequence[str], executable: str, *, is_portable: bool = False
) -> Installation:
    """Installs our hooks and our MCP server here and in the main worktree. Nothing is written unless all can be.

    Portable entries go into the files that the project shares. They name an executable inside the project by its place
    there, where a host tells a hook where the project is, and else `remand`.
    """
    parts = parts_of(names)
    changes = host_files.Changes()
    found = Installation([], [], [], [])
    leaving: list[tuple[Worktree, str]] = []
    for worktree in (Worktree(place, root, changes) for root in _roots(place)):
        files = dict.fromkeys(name for part in parts for name in part.files)
        old = [name for name in files if name in worktree.tracked and worktree.names_machine(name)]
        found.cleaned.extend(map(worktree.path, old))
        ours = [name for name in old if not is_portable and worktree.is_ours_alone(name)]
        worktree.tracked.difference_update(ours)
        for part in parts:
            _plan(worktree, part, executable, found, is_portable=is_portable)
        leaving += [(worktree, name) for name in ours if worktree.text(name) is not None]
        _plan_ignored(worktree, changes, [] if is_portable else [part.local for part in parts])
    for worktree, name in leaving:
        worktree.tracking.untrack(name)
    changes.carry_out()
    return Installation(*(list(dict.fromkeys(files)) for files in found))


def remove_hosts(place: Place) -> Installation:
    """Takes our hooks and our MCP server out of every host's files, here and in the main worktree."""
    changes = host_files.Changes()
    found = Installation([], [], [], [])
    for worktree in (Worktree(place, root, changes) for root in _roots(place)):
        for part in parts_of(HOSTS):
            files = [name for name in part.files if _take_out(worktree, part, name)]
            kind = found.hooks if isinstance(part, Hooks) else found.servers
            kind.extend(map(worktree.path, files))
            found.shared.extend(worktree.path(name) for name in files if name in worktree.tracked)
        exclude = worktree.tracking.exclude
        listed = changes.text(exclude) if exclude else None
        if listed is not None:
            changes.plan(os.path.dirname(exclude), exclude, without_excluded(listed, worktree.names))
    changes.carry_out()
    return Installation(*(list(dict.fromkeys(files)) for files in found))


def outdated_hosts(place: Place) -> list[str]:
    """The hosts whose tracked files hold entries of ours with the path of a machine, as earlier versions wrote them."""
    worktrees = [Worktree(place, root, host_files.Changes()) for root in _roots(place)]
    found = []
    for name in HOSTS:
        with suppress(EnvironmentFault):  # what cannot be read is a matter of whoever asks for that host
            found += [name] if any(tracked_paths(worktree, name) for worktree in worktrees) else []
    return found


def tracked_paths(worktree: Worktree, name: str) -> list[str]:
    """The tracked files in which a host's entries of ours hold the path of a machine."""
    found = []
    for part in parts_of([name]):
        for file in part.files:
            text = worktree.text(file) if file in worktree.tracked else None
            with usable(worktree.path(file)):
                if text is not None and any(map(settings.names_machine, part.commands(text))):
                    found.append(file)
    return list(dict.fromkeys(found))


def _roots(place: Place) -> list[str]:
    return list(dict.fromkeys((place.root, place.worktree)))


def _plan(worktree: Worktree, part: Part, executable: str, found: Installation, *, is_portable: bool) -> None:
    """Plans what one part is to be in the files of a worktree."""
    target = part.shared if is_portable else part.local
    for name in part.files:
        if name != target:
            _take_out(worktree, part, name)
    if not target:
        return
    is_local = not is_portable and worktree.is_local(target)
    if is_portable:
        program = _inside(worktree.root, executable) if part.has_variable else SHARED_PROGRAM
    else:
        program = os.path.abspath(executable) if is_local else SHARED_PROGRAM
    path = worktree.path(target)
    with usable(path):
        worktree.plan(target, part.install(worktree.text(target), program))
    (found.hooks if isinstance(part, Hooks) else found.servers).append(path)
    if not is_local:
        found.shared.append(path)


def _take_out(worktree: Worktree, part: Part, name: str) -> bool:
    """Takes one part out of a file; False when it was not there."""
    text = worktree.text(name)
    with usable(worktree.path(name)):
        if text is None or not text.strip() or not part.commands(text):
            return False
        worktree.plan(name, part.uninstall(text))
    return True


def _plan_ignored(worktree: Worktree, changes: host_files.Changes, names: Sequence[str]) -> None:
    """Has git ignore the files of this machine, in the list that is the repository's own and in no commit."""
    path = worktree.tracking.exclude
    fresh = [name for name in names if name and worktree.is_local(name) and name not in worktree.ignored]
    if path and fresh:
        changes.plan(os.path.dirname(path), path, with_excluded(changes.text(path) or "", fresh))


def _inside(root: str, executable: str) -> str:
    """A program by its place in the project; `remand` when it lies elsewhere."""
    place = os.path.relpath(os.path.abspath(executable), root)
    return SHARED_PROGRAM if place.startswith("..") else place

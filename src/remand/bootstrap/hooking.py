"""Hooks in the agents' hosts: whether they are there, and whether they work."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from typing import NamedTuple

from remand.adapters.git.place import Place
from remand.adapters.hosts import codex_trust, hook, mcp_entries, probe, settings
from remand.adapters.hosts.setup import Setup
from remand.app.errors import EnvironmentFault
from remand.bootstrap import host_files
from remand.bootstrap.host_settings import SHARED_PROGRAM, Server, Worktree, setup_of, tracked_paths, usable
from remand.bootstrap.hosts import HOSTS, Answer, host

AGAIN = "Run `remand init --hosts {}` here. Each clone and each linked worktree needs it once."
CLEAN = "Run `remand init --hosts {}`, then commit what it changes."


class Proof(NamedTuple):
    """Whether a host's hook does what it is there for, and what to do when it does not."""

    host: str
    ok: bool
    detail: str
    fix: str = ""


class _Found(NamedTuple):
    """Our entries in one settings file."""

    path: str
    entries: list[settings.Installed]


def installed_hosts(root: str) -> list[str]:
    """The hosts whose settings in a worktree have an entry of ours, or cannot be read."""
    return [name for name in HOSTS if _has_entry(setup_of(name), root)]


def loss(name: str, roots: Sequence[str]) -> str:
    """What keeps a host's hooks in a project from being called; empty when they are there."""
    setup = setup_of(name)
    there: set[str] = set()
    try:
        for root in dict.fromkeys(roots):
            switched_off = _switch(setup, root)
            if switched_off:
                return f"{switched_off} turns hooks off"
            there |= {entry.event for found in _found(setup, root) for entry in found.entries}
    except EnvironmentFault as fault:
        return str(fault)
    gone = _missing(setup, there)
    where = setup.local or setup.path
    return f"{where} has no entry of ours for {', '.join(gone)} any more" if gone else ""


def hints(name: str, executable: str) -> list[str]:
    """What a person still has to do after a host's hooks and our MCP server are installed."""
    told = [setup_of(name).hint, mcp_entries.ENTRIES[name].hint.format(program=executable)]
    return list(filter(None, told))


def prove(name: str, place: Place, seconds: float = probe.SECONDS) -> Proof:
    """Calls a host's installed stop hook as the host would, with a stop that is none, and judges the answer."""
    setup, root = setup_of(name), place.worktree
    try:
        switched_off = _switch(setup, root)
        if switched_off:
            detail = f"hooks are turned off by {'.'.join(setup.switch)} in {switched_off}"
            return Proof(name, False, detail, "Take that line out.")
        worktree = Worktree(place, root, host_files.Changes())
        tracked = tracked_paths(worktree, name)
        found = _found(setup, root)
    except EnvironmentFault as fault:
        return Proof(name, False, str(fault), "Mend the file.")
    if tracked:
        files = " and ".join(tracked)
        detail = f"git tracks {files}, which holds a path of one machine and so points nowhere on others"
        return Proof(name, False, detail, CLEAN.format(name))
    if not found:
        return Proof(name, False, f"this worktree has no hook of Remand's for {name}", AGAIN.format(name))
    inside = [one.path for one in found if one.path.startswith(root + os.sep)]
    if len(inside) > 1:
        detail = f"our hooks stand in {' and in '.join(inside)}, and would run twice"
        return Proof(name, False, detail, AGAIN.format(name))
    proof = _proven(setup, root, found[0], seconds)
    return proof._replace(fix=_server_note(name, worktree)) if proof.ok else proof


def _proven(setup: Setup, root: str, found: _Found, seconds: float) -> Proof:
    name, path = setup.host, found.path
    missing = _missing(setup, {entry.event for entry in found.entries})
    if missing:
        return Proof(name, False, f"{path} lacks the hook for {', '.join(missing)}", AGAIN.format(name))
    untrusted = codex_trust.distrust(probe.codex_config(), path, found.entries) if name == "codex" else ""
    if untrusted:
        return Proof(name, False, f"{untrusted}, which leaves it out silently", setup.hint)
    own_stop = setup.events[hook.STOP]
    stop = next(one for one in found.entries if one.event in {own_stop, setup.other_names.get(own_stop)})
    return _judged(name, path, stop.command, probe.call(setup, stop.command, root, seconds))


def _judged(name: str, path: str, command: str, called: probe.Called) -> Proof:
    module = host(name)
    expected = module.render(hook.STOP, Answer.block(probe.PROBE_TEXT)) if module else hook.SILENCE
    if (called.output.strip(), called.code) == (expected[0], expected[2]):
        return Proof(name, True, f"{path} blocks a stop")
    if called.code is None:
        return Proof(name, False, f"`{command}` does not answer", "Run it by hand to see where it hangs.")
    if called.code == 126:
        return Proof(name, False, f"`{command}` is not executable", "Make it executable (chmod +x).")
    if called.code == 127 and command.startswith(f"{SHARED_PROGRAM} "):
        detail = f"{path} calls `{SHARED_PROGRAM}`, which is not on PATH"
        return Proof(name, False, detail, "Install Remand for your user, so that it is on PATH.")
    if called.code == 127:
        return Proof(name, False, f"`{command}` in {path} is not there", AGAIN.format(name))
    said = (called.output.strip() or called.errors.strip() or "nothing")[:300]
    detail = f"`{command}` ends with {called.code} and answers a stop with: {said}"
    return Proof(name, False, detail, f"The host would let the agent go. {AGAIN.format(name)}")


def _server_note(name: str, worktree: Worktree) -> str:
    """What is amiss with our MCP server, without which the hooks work all the same."""
    server = Server(name)
    again = f"`remand init --hosts {name}` writes it."
    for file in server.files:
        text = worktree.text(file)
        programs = server.commands(text) if text is not None else []
        if not programs:
            return f"{file} has no entry for our MCP server; {again}"
        program = programs[0] if os.path.isabs(programs[0]) else os.path.join(worktree.root, programs[0])
        if not shutil.which(program) and not shutil.which(programs[0]):
            return f"{file} starts `{programs[0]}` as our MCP server, which is not there; {again}"
    return ""


def _missing(setup: Setup, there: set[str]) -> list[str]:
    """The events that no entry of ours is for."""
    return [
        own for own in setup.events.values() if own not in there and setup.other_names.get(own) not in there
    ]


def _switch(setup: Setup, root: str) -> str:
    """The file that turns all hooks of a host off; empty when none does."""
    for path, text in _texts(setup, root):
        with usable(path):
            if settings.is_off(setup, text):
                return path
    return ""


def _found(setup: Setup, root: str) -> list[_Found]:
    """Our entries in the files of a host."""
    listed = []
    for path, text in _texts(setup, root):
        with usable(path):
            listed.append(_Found(path, settings.find(setup, text)))
    return [one for one in listed if one.entries]


def _texts(setup: Setup, root: str) -> list[tuple[str, str]]:
    paths = [
        os.path.expanduser(one) if one.startswith("~") else os.path.join(root, one) for one in setup.paths
    ]
    return [(path, text) for path in paths if (text := host_files.read(path) or "").strip()]


def _has_entry(setup: Setup, root: str) -> bool:
    inside = [os.path.join(root, name) for name in setup.project_paths]
    try:
        return any(settings.find(setup, host_files.read(path) or "") for path in inside)
    except (settings.UnusableSettings, EnvironmentFault):
        return True

"""Hooks into the agents' hosts: put in, taken out, and proven to work."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import NamedTuple

from remand.adapters.hosts import codex_trust, hook, probe, settings
from remand.adapters.hosts.setup import Setup
from remand.app.errors import UsageError
from remand.bootstrap import host_files
from remand.bootstrap.hosts import HOSTS, Answer, host

AGAIN = "Run `remand init --hosts {}`."


class Proof(NamedTuple):
    """Whether a host's hook does what it is there for, and what to do when it does not."""

    host: str
    ok: bool
    detail: str
    fix: str = ""


def install_hosts(
    root: str, names: Sequence[str], executable: str, *, is_portable: bool = False
) -> list[str]:
    """Puts our hooks into the settings of hosts; gives the files. Nothing is written unless all can be.

    Portable entries name an executable inside the project by its place there, where a host tells a hook
    where the project is. They do not work in linked worktrees, which have no executable of their own.
    """
    planned = []
    for name in names:
        setup = _setup(name)
        path = host_files.inside(root, setup.path)
        program = [_located(root, setup, executable, is_portable=is_portable)]
        try:
            planned.append((path, settings.install(setup, host_files.read(path), program)))
        except settings.UnusableSettings as problem:
            raise host_files.fault(path, problem) from None
    for path, text in planned:
        host_files.write(path, text)
    return [path for path, _ in planned]


def remove_hosts(root: str) -> list[str]:
    """Takes our hooks out of the settings of every host; gives the files that have changed."""
    planned = []
    for name in HOSTS:
        setup = _setup(name)
        path = host_files.inside(root, setup.path)
        text = host_files.read(path)
        try:
            if text is not None and settings.find(setup, text):
                planned.append((path, settings.uninstall(setup, text)))
        except settings.UnusableSettings as problem:
            raise host_files.fault(path, problem) from None
    for path, left in planned:
        if left is None:
            host_files.remove(root, path)
        else:
            host_files.write(path, left)
    return [path for path, _ in planned]


def installed_hosts(root: str) -> list[str]:
    """The hosts whose settings in the project have an entry of ours, or cannot be read."""
    return [name for name in HOSTS if _has_entry(_setup(name), root)]


def loss(name: str, root: str) -> str:
    """What keeps a host's hooks in the project from being called; empty when they are there."""
    setup = _setup(name)
    for path in (_placed(root, one) for one in setup.paths):
        text = host_files.read(path)
        try:
            if text is not None and settings.is_off(setup, text):
                return f"{path} turns hooks off"
        except settings.UnusableSettings as problem:
            return str(host_files.fault(path, problem))
    text = host_files.read(host_files.inside(root, setup.path))
    there = {entry.event for entry in settings.find(setup, text)} if text is not None else set()
    gone = [
        own for own in setup.events.values() if own not in there and setup.other_names.get(own) not in there
    ]
    return f"{setup.path} has no entry of ours for {', '.join(gone)} any more" if gone else ""


def hint(name: str) -> str:
    """What a person still has to do after a host's hooks are installed; empty when there is nothing."""
    return _setup(name).hint


def prove(name: str, root: str, seconds: float = probe.SECONDS) -> Proof:
    """Calls a host's installed stop hook as the host would, with a stop that is none, and judges the answer."""
    setup = _setup(name)
    for path in (_placed(root, one) for one in setup.paths):
        text = host_files.read(path)
        try:
            if text is not None and settings.is_off(setup, text):
                detail = f"hooks are turned off by {'.'.join(setup.switch)} in {path}"
                return Proof(name, False, detail, "Take that line out.")
        except settings.UnusableSettings as problem:
            return Proof(name, False, str(host_files.fault(path, problem)), "Mend the file.")
    for path in (_placed(root, one) for one in setup.paths):
        text = host_files.read(path)
        if text is None:
            continue
        entries = settings.find(setup, text)
        if entries:
            return _proven(setup, root, path, entries, seconds)
    return Proof(name, False, f"{setup.path} has no hook of Remand's", AGAIN.format(name))


def _proven(setup: Setup, root: str, path: str, entries: list[settings.Installed], seconds: float) -> Proof:
    name = setup.host
    there = {entry.event for entry in entries}
    missing = [
        own for own in setup.events.values() if own not in there and setup.other_names.get(own) not in there
    ]
    if missing:
        return Proof(name, False, f"{path} lacks the hook for {', '.join(missing)}", AGAIN.format(name))
    untrusted = codex_trust.distrust(probe.codex_config(), path, entries) if name == "codex" else ""
    if untrusted:
        return Proof(name, False, f"{untrusted}, which leaves it out silently", setup.hint)
    own_stop = setup.events[hook.STOP]
    stop = next(one for one in entries if one.event in {own_stop, setup.other_names.get(own_stop)})
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
    if called.code == 127:
        return Proof(name, False, f"`{command}` is not there", AGAIN.format(name))
    said = (called.output.strip() or called.errors.strip() or "nothing")[:300]
    detail = f"`{command}` ends with {called.code} and answers a stop with: {said}"
    return Proof(name, False, detail, f"The host would let the agent go. {AGAIN.format(name)}")


def _setup(name: str) -> Setup:
    module = host(name)
    if module is None:
        raise UsageError(f"There is no host {name!r}; known are {', '.join(HOSTS)}.")
    return module.SETUP


def _has_entry(setup: Setup, root: str) -> bool:
    text = host_files.read(_placed(root, setup.path))
    try:
        return text is not None and bool(settings.find(setup, text))
    except settings.UnusableSettings:
        return True


def _located(root: str, setup: Setup, executable: str, *, is_portable: bool) -> str:
    path = os.path.abspath(executable)
    inside = os.path.relpath(path, root)
    may_be_relative = is_portable and setup.project and not inside.startswith("..")
    return inside if may_be_relative else path


def _placed(root: str, path: str) -> str:
    return os.path.expanduser(path) if path.startswith("~") else os.path.join(root, path)

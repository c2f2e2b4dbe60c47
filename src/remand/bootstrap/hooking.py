"""Hooks into the agents' hosts: put in, taken out, and proven to work."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.hosts import codex_trust, hook, probe, settings
from remand.adapters.hosts.setup import Setup
from remand.app.errors import EnvironmentFault, UsageError
from remand.bootstrap.hosts import HOSTS, Answer, host

MAX_SETTINGS = 8 << 20
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
        path = _inside(root, setup)
        program = [_located(root, setup, executable, is_portable=is_portable)]
        try:
            planned.append((path, settings.install(setup, _text(path), program)))
        except settings.UnusableSettings as problem:
            raise _fault(path, problem) from None
    for path, text in planned:
        _write(path, text)
    return [path for path, _ in planned]


def remove_hosts(root: str) -> list[str]:
    """Takes our hooks out of the settings of every host; gives the files that have changed."""
    planned = []
    for name in HOSTS:
        setup = _setup(name)
        path = _inside(root, setup)
        text = _text(path)
        try:
            if text is not None and settings.find(setup, text):
                planned.append((path, settings.uninstall(setup, text)))
        except settings.UnusableSettings as problem:
            raise _fault(path, problem) from None
    for path, left in planned:
        if left is None:
            _remove(root, path)
        else:
            _write(path, left)
    return [path for path, _ in planned]


def installed_hosts(root: str) -> list[str]:
    """The hosts whose settings in the project have an entry of ours, or cannot be read."""
    return [name for name in HOSTS if _has_entry(_setup(name), root)]


def loss(name: str, root: str) -> str:
    """What keeps a host's hooks in the project from being called; empty when they are there."""
    setup = _setup(name)
    for path in (_placed(root, one) for one in setup.paths):
        text = _text(path)
        try:
            if text is not None and settings.is_off(setup, text):
                return f"{path} turns hooks off"
        except settings.UnusableSettings as problem:
            return str(_fault(path, problem))
    text = _text(_inside(root, setup))
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
        text = _text(path)
        try:
            if text is not None and settings.is_off(setup, text):
                detail = f"hooks are turned off by {'.'.join(setup.switch)} in {path}"
                return Proof(name, False, detail, "Take that line out.")
        except settings.UnusableSettings as problem:
            return Proof(name, False, str(_fault(path, problem)), "Mend the file.")
    for path in (_placed(root, one) for one in setup.paths):
        text = _text(path)
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
    text = _text(_placed(root, setup.path))
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


def _inside(root: str, setup: Setup) -> str:
    """The settings file of the project; a link that leads out of it is not followed."""
    path = _placed(root, setup.path)
    real_root = os.path.realpath(root)
    if os.path.commonpath([real_root, os.path.realpath(path)]) != real_root:
        raise EnvironmentFault(f"{path} is a link that leads out of the repository. Replace it by a file.")
    return path


def _text(path: str) -> str | None:
    """What a settings file holds; None when it is not there."""
    if not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_SETTINGS:
            raise EnvironmentFault(f"{path} is not a settings file. Move it away, then repeat.")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{path} is not text in UTF-8. Mend it, then repeat.") from None
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be read: {error.strerror}.") from None


def _fault(path: str, problem: settings.UnusableSettings) -> EnvironmentFault:
    return EnvironmentFault(f"{path} is left as it is: {problem}. Mend it, then repeat.")


def _write(path: str, text: str) -> None:
    """Replaces a file in one step; one that holds the same already is not touched."""
    target = os.path.realpath(path)
    if _text(target) == text:
        return
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=os.path.dirname(target), prefix=".remand-", delete=False
        ) as draft:
            draft.write(text)
        os.chmod(draft.name, mode)
        os.replace(draft.name, target)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None


def _remove(root: str, path: str) -> None:
    """Deletes a file that held nothing but our entries, with the folders that it leaves empty."""
    try:
        os.unlink(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be deleted: {error.strerror}.") from None
    folder = os.path.dirname(path)
    with suppress(OSError):
        while folder != root:
            os.rmdir(folder)
            folder = os.path.dirname(folder)

"""Checks whether our hooks are installed in a host and whether they work, by calling each as its host would."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.hosts import codex_settings, installation, settings
from remand.adapters.hosts.host import FolderTrust, Setup
from remand.adapters.hosts.table import HOSTS
from remand.app import hook_calls as hook
from remand.app.errors import EnvironmentFault
from remand.app.hook_calls import HookAnswer
from remand.app.ports import HookCheck

PROBE = "REMAND_HOOK_PROBE"
"""If set, our hook answers with a test block and changes nothing."""
PROBE_TEXT = "remand hook probe"
PAYLOAD = (
    '{"hook_event_name": "Stop", "event_type": "Stop", "status": "completed", "stop_hook_active": false,'
    ' "session_id": "remand-probe", "sessionId": "remand-probe", "conversation_id": "remand-probe"}'
)
"""A stop event in the format of every host."""
SECONDS = 30.0
MAX_OUTPUT = 64 * 1024


class HookCallResult(NamedTuple):
    code: int | None
    """None if the hook did not end in time."""
    output: str
    errors: str


def call_hook(setup: Setup, command: str, folder: str, seconds: float = SECONDS) -> HookCallResult:
    """Calls a hook with a simulated stop."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("REMAND_")}
    environment[PROBE] = "1"
    if setup.project:
        environment[setup.project] = folder
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(
            ["/bin/sh", "-c", command],
            cwd=folder,
            env=environment,
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=errors,
            start_new_session=True,
        )
        code = _wait_for_exit(process, seconds)
        texts = (
            os.pread(file.fileno(), MAX_OUTPUT, 0).decode("utf-8", "replace") for file in (output, errors)
        )
        return HookCallResult(code, *texts)


def _wait_for_exit(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The exit code of a hook that has received its payload; kills any processes that it left running."""
    with process:
        try:
            process.communicate(PAYLOAD.encode(), timeout=seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    return process.returncode


INSTALL_AGAIN = "Run `remand init --hosts {}` here. Each clone and each linked worktree needs it once."
CLEAN = "Run `remand init --hosts {}`, then commit the changes."


class _HostEntries(NamedTuple):
    """Our entries in one settings file."""

    path: str
    entries: list[settings.HookEntry]


def installed_hosts(root: str) -> list[str]:
    """The hosts whose settings in a worktree contain an entry of ours or cannot be read."""
    return [name for name in HOSTS if _has_entry(installation.find_setup(name), root)]


def missing_hooks(name: str, roots: Sequence[str]) -> str:
    """Why a host does not call our hooks in a project; empty if they are installed."""
    setup = installation.find_setup(name)
    there: set[str] = set()
    try:
        for root in dict.fromkeys(roots):
            switched_off = _find_off_switch(setup, root)
            if switched_off:
                return f"{switched_off} turns hooks off"
            there |= {entry.event for entries in _find_entries(setup, root) for entry in entries.entries}
    except EnvironmentFault as fault:
        return str(fault)
    gone = _missing_events(setup, there)
    where = setup.local or setup.path
    return f"{where} no longer has Remand's entry for {', '.join(gone)}" if gone else ""


def setup_hints(name: str, executable: str, root: str) -> list[str]:
    """What the user still has to do after a host's hooks and our MCP server are installed in a worktree."""
    setup = installation.find_setup(name)
    untrusted = find_untrusted_folder(setup, root)
    hints = [
        f"{untrusted}. {TRUST_IT.format(setup.programs[0])}" if untrusted else "",
        setup.hint,
        setup.server.hint.format(program=executable),
    ]
    return list(filter(None, hints))


TRUST_IT = "Start `{}` there once and trust the folder."


def find_untrusted_folder(setup: Setup, root: str) -> str:
    """Why a host runs neither hooks nor tools in a folder, namely because the user does not trust it; otherwise empty."""
    trust = setup.trust
    if trust is None or (trust.exempt and os.environ.get(trust.exempt, "") == "true"):
        return ""
    path = _trust_file(trust)
    try:
        known = settings.load_settings(installation.read_settings(path) or "{}")
        is_trusted = (
            _is_listed(known.get(trust.key), root)
            if trust.key
            else _has_trusting_rule(known, root) or not _asks_for_trust(os.path.dirname(path))
        )
    except (settings.UnusableSettings, EnvironmentFault):
        is_trusted = False
    return "" if is_trusted else f"{path} does not name {root} as trusted, so {setup.host} runs no hook there"


def _trust_file(trust: FolderTrust) -> str:
    """The host's file of trusted folders. For Gemini CLI the variable replaces the home folder, for Copilot its own folder."""
    folder = os.environ.get(trust.variable, "")
    if not folder:
        return os.path.expanduser(f"~/{trust.path}")
    return os.path.join(folder, trust.path.partition("/")[2] if trust.key else trust.path)


def _is_listed(folders: object, root: str) -> bool:
    return isinstance(folders, list) and any(isinstance(one, str) and _is_below(root, one) for one in folders)


def _has_trusting_rule(rules: dict[str, object], root: str) -> bool:
    """True if the rule with the longest path that applies to the folder trusts it, following Gemini CLI's logic."""
    about = [
        (len(path), level)
        for path, level in rules.items()
        if _is_below(root, os.path.dirname(path) if level == "TRUST_PARENT" else path)
    ]
    return bool(about) and max(about, key=lambda rule: rule[0])[1] in ("TRUST_FOLDER", "TRUST_PARENT")


def _asks_for_trust(folder: str) -> bool:
    """True unless the user's settings disable folder trust."""
    found: object = settings.load_settings(
        installation.read_settings(os.path.join(folder, "settings.json")) or "{}"
    )
    for key in ("security", "folderTrust", "enabled"):
        found = found.get(key) if isinstance(found, dict) else None
    return found is not False


def _is_below(path: str, folder: str) -> bool:
    own, other = os.path.realpath(path), os.path.realpath(folder)
    return own == other or own.startswith(other.rstrip(os.sep) + os.sep)


def check_hook(
    name: str, root: str, tracking: installation.WorktreeFiles, seconds: float = SECONDS
) -> HookCheck:
    """Calls a host's installed stop hook as the host would, with a simulated stop, and judges the answer."""
    setup = installation.find_setup(name)
    try:
        switched_off = _find_off_switch(setup, root)
        if switched_off:
            detail = f"hooks are turned off by {'.'.join(setup.switch)} in {switched_off}"
            return HookCheck(name, False, detail, "Remove that line.")
        worktree = installation.HostWorktree(root, tracking, installation.SettingsChanges())
        tracked = installation.tracked_paths(worktree, name)
        entries = _find_entries(setup, root)
    except EnvironmentFault as fault:
        return HookCheck(name, False, str(fault), "Fix the file.")
    if tracked:
        files = " and ".join(tracked)
        detail = f"git tracks {files}, which contains a path of one machine that does not exist on others"
        return HookCheck(name, False, detail, CLEAN.format(name))
    if not entries:
        return HookCheck(
            name, False, f"this worktree has no Remand hook for {name}", INSTALL_AGAIN.format(name)
        )
    inside = [one.path for one in entries if one.path.startswith(root + os.sep)]
    if len(inside) > 1:
        detail = f"Remand's hooks are in {' and in '.join(inside)}, and would run twice"
        return HookCheck(name, False, detail, INSTALL_AGAIN.format(name))
    proof = _call_stop_hook(setup, root, entries[0], seconds)
    untrusted = find_untrusted_folder(setup, root) if proof.ok and inside else ""
    if untrusted:
        return HookCheck(name, False, untrusted, TRUST_IT.format(setup.programs[0]))
    return proof._replace(fix=_server_note(name, worktree)) if proof.ok else proof


def _call_stop_hook(setup: Setup, root: str, entries: _HostEntries, seconds: float) -> HookCheck:
    name, path = setup.host, entries.path
    missing = _missing_events(setup, {entry.event for entry in entries.entries})
    if missing:
        return HookCheck(
            name, False, f"{path} lacks the hook for {', '.join(missing)}", INSTALL_AGAIN.format(name)
        )
    untrusted = (
        codex_settings.find_distrust(codex_settings.codex_config(), path, entries.entries)
        if name == "codex"
        else ""
    )
    if untrusted:
        return HookCheck(name, False, f"{untrusted}, which ignores it silently", setup.hint)
    own_stop = setup.events[hook.STOP]
    stop = next(one for one in entries.entries if one.event in {own_stop, setup.other_names.get(own_stop)})
    return _judge_answer(name, path, stop.command, call_hook(setup, stop.command, root, seconds))


def _judge_answer(name: str, path: str, command: str, called: HookCallResult) -> HookCheck:
    expected = HOSTS[name].render(hook.STOP, HookAnswer.block(PROBE_TEXT))
    if (called.output.strip(), called.code) == (expected[0], expected[2]):
        return HookCheck(name, True, f"{path} blocks a stop")
    if called.code is None:
        return HookCheck(
            name, False, f"`{command}` does not answer", "Run it manually to see where it hangs."
        )
    if called.code == 126:
        return HookCheck(name, False, f"`{command}` is not executable", "Make it executable (chmod +x).")
    if called.code == 127 and command.startswith(f"{installation.SHARED_PROGRAM} "):
        detail = f"{path} calls `{installation.SHARED_PROGRAM}`, which is not on PATH"
        return HookCheck(name, False, detail, "Install Remand for your user, so that it is on PATH.")
    if called.code == 127:
        return HookCheck(name, False, f"`{command}` in {path} is not there", INSTALL_AGAIN.format(name))
    output = (called.output.strip() or called.errors.strip() or "nothing")[:300]
    detail = f"`{command}` ends with {called.code} and answers a stop with: {output}"
    return HookCheck(name, False, detail, f"The host would let the agent stop. {INSTALL_AGAIN.format(name)}")


def _server_note(name: str, worktree: installation.HostWorktree) -> str:
    """What is wrong with our MCP server, without which the hooks still work."""
    server = installation.HostServer(name)
    again = f"`remand init --hosts {name}` writes it."
    for file in server.files:
        text = worktree.text(file)
        programs = server.commands(text) if text is not None else []
        if not programs:
            return f"{file} has no entry for Remand's MCP server; {again}"
        program = programs[0] if os.path.isabs(programs[0]) else os.path.join(worktree.root, programs[0])
        if not shutil.which(program) and not shutil.which(programs[0]):
            return f"{file} starts `{programs[0]}` as Remand's MCP server, which was not found; {again}"
    return ""


def _missing_events(setup: Setup, there: set[str]) -> list[str]:
    return [
        own for own in setup.events.values() if own not in there and setup.other_names.get(own) not in there
    ]


def _find_off_switch(setup: Setup, root: str) -> str:
    """The file that disables all hooks of a host; empty if none does."""
    for path, text in _texts(setup, root):
        with installation.naming_settings_file(path):
            if settings.are_hooks_off(setup, text):
                return path
    return ""


def _find_entries(setup: Setup, root: str) -> list[_HostEntries]:
    """Our entries in the settings files of a host."""
    listed = []
    for path, text in _texts(setup, root):
        with installation.naming_settings_file(path):
            listed.append(_HostEntries(path, settings.find_hooks(setup, text)))
    return [one for one in listed if one.entries]


def _texts(setup: Setup, root: str) -> list[tuple[str, str]]:
    paths = [
        os.path.expanduser(one) if one.startswith("~") else os.path.join(root, one) for one in setup.paths
    ]
    return [(path, text) for path in paths if (text := installation.read_settings(path) or "").strip()]


def _has_entry(setup: Setup, root: str) -> bool:
    inside = [os.path.join(root, name) for name in setup.project_paths]
    try:
        return any(settings.find_hooks(setup, installation.read_settings(path) or "") for path in inside)
    except (settings.UnusableSettings, EnvironmentFault):
        return True

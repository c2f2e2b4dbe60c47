"""Starts a coordinator from a command: the checks before it, and the new process's detachment from the command's."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from remand.adapters.coordinator import remote_ledger
from remand.adapters.system.files import acquire_lock, is_locked, read_start
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.agent_socket import find_agent_socket
from remand.domain.access.coordinator_start import (
    AGENT_VARIABLES,
    CI_VARIABLES,
    VARIABLE,
    StartFacts,
    start_obstacle,
)
from remand.startup import COMMAND_LINE

PROCESS_NAME = b"remand-serve"
RETRY_SECONDS = 60.0
"""The seconds after a failed start during which other commands do not try again."""
LOG_BYTES = 4096
END_SECONDS = 10.0

_KEPT = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"),
    )
)
"""The variables that a fresh environment keeps: locations, locale and the desktop session."""
_KEPT_PREFIXES = ("LC_", "XDG_")
_INITS = frozenset(
    (
        *("init", "systemd", "launchd", "openrc-init", "runit", "runit-init", "s6-svscan", "dinit"),
        *("shepherd", "procd", "busybox", "tini", "docker-init", "dumb-init", "catatonit", "podman-init"),
    )
)
_NETWORK_FILE_SYSTEMS = frozenset(
    (
        *("nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "gpfs"),
        *("beegfs", "coda", "orangefs", "ocfs2", "gfs2", "ncpfs", "virtiofs", "vboxsf", "vmhgfs"),
        *("prl_fs", "drvfs", "fuse.sshfs", "fuse.rclone", "fuse.s3fs", "fuse.gcsfuse", "fuse.glusterfs"),
        *("fuse.ceph", "fuse.gvfsd-fuse", "fuse.davfs", "fuse.juicefs", "fuse.kio-fuse", "fuse.grpcfuse"),
        *("fuse.osxfs", "fuse.vmhgfs-fuse"),
    )
)
_LIMITS = {
    "CPU time": resource.RLIMIT_CPU,
    "file size": resource.RLIMIT_FSIZE,
    "memory": resource.RLIMIT_AS,
    "data": resource.RLIMIT_DATA,
}
_WHOLE_ID_RANGE = b"0 0 4294967295"


def collect_facts(
    environment: Mapping[str, str], ledger_folder: str, *, setting: str = "auto", actor: str = ""
) -> StartFacts:
    """The facts that decide whether this process may start a coordinator; for agents, most are not collected."""
    agent = next((name for name in AGENT_VARIABLES if environment.get(name)), find_agent_socket(environment))
    variable = environment.get(VARIABLE, "").strip().lower()
    facts = StartFacts(setting=setting, variable=variable, agent=agent, actor=actor)
    if start_obstacle(facts):
        return facts
    ci = (name for name in CI_VARIABLES if environment.get(name, "").lower() not in ("", "0", "false", "no"))
    folders = (ledger_folder, environment.get("HOME", ""))
    return replace(
        facts,
        namespace=_foreign_namespace(),
        owner=next((folder for folder in folders if folder and not _is_own(folder)), ""),
        limit=next((name for name, kind in _LIMITS.items() if _is_limited(kind)), ""),
        has_own_channels=bool(environment.get("REMAND_NOTIFY")),
        ci=next(ci, ""),
        init=_unknown_init(),
        file_system=find_network_file_system(ledger_folder, read_start("/proc/self/mountinfo")),
    )


def _is_own(folder: str) -> bool:
    try:
        return os.stat(folder).st_uid == os.getuid()
    except OSError:
        return False


def _is_limited(kind: int) -> bool:
    """True if the hard limit is finite, which a child process cannot raise."""
    return resource.getrlimit(kind)[1] != resource.RLIM_INFINITY


def _foreign_namespace() -> str:
    """The kind of namespace that differs from that of process 1; "user" if that cannot be read and user ids are mapped."""
    if not sys.platform.startswith("linux"):
        return ""
    for kind in ("user", "mnt", "pid", "net"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/ns/{kind}") != os.readlink(f"/proc/1/ns/{kind}"):
                return {"mnt": "mount", "pid": "process", "net": "network"}.get(kind, kind)
            continue
        if kind == "user" and read_start("/proc/self/uid_map", 200).split() != _WHOLE_ID_RANGE.split():
            return kind
    return ""


def _unknown_init() -> str:
    """The name of process 1 if it is not a known init; empty if it is, or if the name cannot be read."""
    if not sys.platform.startswith("linux"):
        return ""
    name = read_start("/proc/1/comm", 64).decode("utf-8", "replace").strip()
    return "" if name.partition("(")[0] in _INITS else name


def find_network_file_system(folder: str, mounts: bytes) -> str:
    """The type of a folder's file system if several machines may share it, given Linux's `mountinfo`; otherwise empty."""
    path, mounted, kind = os.path.realpath(folder), "", ""
    for line in mounts.decode("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= len(mounted):
            mounted, kind = point, after.split(" ", 1)[0]
    return kind if kind in _NETWORK_FILE_SYSTEMS else ""


def fresh_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for a coordinator: no secrets, nothing about the caller, and nothing that affects what Python loads."""
    return {
        name: value for name, value in environment.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def last_failure(log: str) -> str:
    """The last line in the log of a coordinator that a command started; empty if there was no failure."""
    lines = read_start(log, LOG_BYTES).decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def start_in_background(socket: str, log: str, root: str, environment: Mapping[str, str]) -> bool:
    """Starts a coordinator in the background; False if one is running or starting, or a start has just failed.

    A start lock is taken here and inherited by the new process, so that of many commands at once only one starts it; it
    is released when that process ends. Raises OSError if no process can be started.
    """
    import subprocess  # most commands start none

    if _has_just_failed(log):
        return False
    if is_locked(f"{socket}.lock"):
        return False
    start = acquire_lock(f"{socket}.start")
    if start < 0:
        return False
    try:
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as errors:
            subprocess.Popen(
                [*COMMAND_LINE, "-C", root, "serve", "--no-http", "--background"],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=errors,
                cwd="/",
                env=fresh_environment(environment),
                start_new_session=True,
                pass_fds=(start,),
            )
    finally:
        os.close(start)
    return True


def _has_just_failed(path: str) -> bool:
    try:
        status = os.stat(path)
    except OSError:
        return False
    return bool(status.st_size) and time.time() - status.st_mtime < RETRY_SECONDS


def start_if_missing(socket: str, log: str, root: str, facts: StartFacts) -> None:
    """Starts a coordinator if one may be started and none is running. Failures never affect the command."""
    if not start_obstacle(facts):
        with suppress(OSError):
            start_in_background(socket, log, root, os.environ)


def stop_coordinator(socket: str) -> tuple[bool, int]:
    """Stops the coordinator at a socket and returns whether there was one, and its process id, 0 if unknown.

    Raises `EnvironmentFault` if it does not stop.
    """
    lock = f"{socket}.lock"
    if not is_locked(lock):
        return False, 0
    found, until = remote_ledger.ask_status(socket, stops=True), time.monotonic() + END_SECONDS
    pid = found.pid if found else 0
    while is_locked(lock):
        if time.monotonic() > until:
            now = remote_ledger.ask_status(socket)
            if pid and now is not None and now.pid != pid:
                break  # another one has taken over the socket
            name = f" (pid {pid})" if pid else ""
            raise EnvironmentFault(
                f"The coordinator{name} was asked to end and is still running after {END_SECONDS:.0f} s."
            )
        time.sleep(0.01)
    return True, pid


def detach() -> None:
    """Detaches this process from its parent; called first in a coordinator that runs in the background.

    It is no session leader, so that it never acquires a controlling terminal; soft limits set for its parent are lifted.
    """
    if os.fork():
        os._exit(0)
    for kind in _LIMITS.values():
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (hard, hard))
    with suppress(OSError), open("/proc/self/comm", "wb") as name:
        name.write(PROCESS_NAME)

"""Starts a coordinator behind a command: what is looked at before, and how the process is cut loose from the command's."""

from __future__ import annotations

import os
import resource
import sys
import time
from collections.abc import Mapping
from contextlib import suppress

from msgspec.structs import replace

from remand.adapters.coordinator import remote_ledger
from remand.adapters.system.files import acquire_lock, read_start
from remand.app.errors import EnvironmentFault
from remand.app.scheduler.agent_socket import find_agent_socket
from remand.domain.access.coordinator_start import (
    AGENT_VARIABLES,
    CI_VARIABLES,
    VARIABLE,
    StartFacts,
    start_obstacle,
)

MODULE = "remand.interfaces.cli.entry"
"""Our own command line. It is started by its name: nothing here may know it otherwise."""
PROCESS_NAME = b"remand-serve"
RETRY_SECONDS = 60.0
"""How long a start that failed keeps the next commands from trying again."""
LOG_BYTES = 4096
END_SECONDS = 10.0

_KEPT = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR"),
        *("DBUS_SESSION_BUS_ADDRESS", "DISPLAY", "WAYLAND_DISPLAY"),
    )
)
"""What a fresh environment has of this one, with what begins as below: where things are, and how to write them."""
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
    """What decides whether this process may start a coordinator of a ledger; the rest is not looked up where an agent calls."""
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
    """True when even the hard limit is one, which no child can raise."""
    return resource.getrlimit(kind)[1] != resource.RLIM_INFINITY


def _foreign_namespace() -> str:
    """The kind of a namespace that is not the one of process 1, or a user namespace where nobody may look at that one."""
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
    """What process 1 is called, unless it is an init; empty, too, where it may not be looked at."""
    if not sys.platform.startswith("linux"):
        return ""
    name = read_start("/proc/1/comm", 64).decode("utf-8", "replace").strip()
    return "" if name.partition("(")[0] in _INITS else name


def find_network_file_system(folder: str, mounts: bytes) -> str:
    """The kind of file system of a folder, if it is one that several machines may use, from what Linux lists as mounted."""
    path, mounted, kind = os.path.realpath(folder), "", ""
    for line in mounts.decode("utf-8", "surrogateescape").splitlines():
        before, _, after = line.partition(" - ")
        point = before.split(" ")[4].replace("\\040", " ").rstrip("/")
        if (path == point or path.startswith(f"{point}/")) and len(point) >= len(mounted):
            mounted, kind = point, after.split(" ", 1)[0]
    return kind if kind in _NETWORK_FILE_SYSTEMS else ""


def fresh_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """What a coordinator is started with: no secret, nothing about who called, nothing that changes what Python loads."""
    return {
        name: value for name, value in environment.items() if name in _KEPT or name.startswith(_KEPT_PREFIXES)
    }


def last_failure(log: str) -> str:
    """The last line in the log of a coordinator that was started behind a command; empty when all was well."""
    lines = read_start(log, LOG_BYTES).decode("utf-8", "replace").splitlines()
    return next((line.strip() for line in reversed(lines) if line.strip()), "")


def start_in_background(socket: str, log: str, root: str, environment: Mapping[str, str]) -> bool:
    """Starts a coordinator that nobody waits for; False when one runs or starts, or a start has just failed.

    Its lock is taken here and handed to the process, whose end lets go of it: of many commands at once one starts it. Raises
    OSError when no process can be started.
    """
    import subprocess  # most commands start none

    if _has_just_failed(log):
        return False
    if _is_locked(f"{socket}.lock"):
        return False
    start = acquire_lock(f"{socket}.start")
    if start < 0:
        return False
    try:
        os.makedirs(os.path.dirname(log), mode=0o700, exist_ok=True)
        with open(log, "wb") as errors:
            subprocess.Popen(
                [sys.executable, "-P", "-m", MODULE, "-C", root, "serve", "--no-http", "--background"],
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
    """Starts a coordinator where one may be started and none runs. Whatever keeps it from that keeps nobody from an answer."""
    if not start_obstacle(facts):
        with suppress(OSError):
            start_in_background(socket, log, root, os.environ)


def stop_coordinator(socket: str) -> tuple[bool, int]:
    """Ends the coordinator at a socket: whether there was one, and its process, 0 when it did not say so.

    Raises `EnvironmentFault` when it goes on.
    """
    lock = f"{socket}.lock"
    if not os.path.exists(lock) or not _is_locked(lock):
        return False, 0
    found, until = remote_ledger.ask_status(socket, stops=True), time.monotonic() + END_SECONDS
    pid = found.pid if found else 0
    while _is_locked(lock):
        if time.monotonic() > until:
            now = remote_ledger.ask_status(socket)
            if pid and now is not None and now.pid != pid:
                break  # another has taken its place
            name = f" (pid {pid})" if pid else ""
            raise EnvironmentFault(
                f"The coordinator{name} was asked to end and is still at work after {END_SECONDS:.0f} s."
            )
        time.sleep(0.01)
    return True, pid


def _is_locked(path: str) -> bool:
    """True when somebody holds a lock. It is held here for a moment, which a coordinator that starts waits for."""
    handle = acquire_lock(path)
    if handle >= 0:
        os.close(handle)
    return handle < 0


def detach() -> None:
    """Cuts this process loose from whoever started it: called first of all in a coordinator that stays behind.

    It leads no session, so that no terminal becomes its own, and has no limit that its parent had only set for itself.
    """
    if os.fork():
        os._exit(0)
    for kind in _LIMITS.values():
        with suppress(OSError, ValueError):
            hard = resource.getrlimit(kind)[1]
            resource.setrlimit(kind, (hard, hard))
    with suppress(OSError), open("/proc/self/comm", "wb") as name:
        name.write(PROCESS_NAME)

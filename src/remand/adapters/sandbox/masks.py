"""What on a machine no job may see, whatever it is asked to do."""

from __future__ import annotations

import glob
import os
import pwd
import stat
import tempfile
from collections.abc import Iterator
from contextlib import suppress

from remand.adapters.sandbox.setting import SYSTEM_PATH

# Where everybody leaves things and every daemon its socket.
SHARED = ("/tmp", "/var/tmp")  # noqa: S108 - named to be hidden
SOCKETS = ("/run", "/var/run")

HOMES = ("/root", "/home", "/var/home", "/Users")
_PRIVATE_FOLDERS = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME")

# Readable for root alone: a job of root's keeps root's right to what root owns.
_SYSTEM = (
    *("/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/sudoers", "/etc/sudoers.d"),
    *("/etc/ssl/private", "/etc/kubernetes", "/etc/NetworkManager/system-connections"),
    *("/var/lib/docker", "/var/lib/containerd", "/var/lib/kubelet", "/var/lib/private"),
    *("/var/spool", "/var/backups", "/var/mail"),
)
_HOST_KEYS = "/etc/ssh/ssh_host_*_key"

CREDENTIALS = ("credentials", "credentials.toml", ".npmrc", ".netrc", ".pypirc", "auth.json")
"""Files of this name at the top of a tool's folder are secrets (cargo keeps its tokens beside its programs)."""


NEVER_WHOLE = (
    *(".local", ".config", ".cache", ".ssh", ".gnupg", ".docker", ".kube", ".aws", ".azure", ".gcloud"),
    *(".password-store", ".mozilla", ".vault"),
)
"""Folders in a home that hold much besides programs: of a `bin` in one of them, nothing but that is shown."""


def homes() -> list[str]:
    """The calling user's home as the user database has it, and as the environment has it: that may be an agent's."""
    named = [os.path.expanduser("~")]
    with suppress(KeyError):
        named.insert(0, pwd.getpwuid(os.getuid()).pw_dir)
    return list(dict.fromkeys(os.path.realpath(name) for name in named))


def hidden() -> Iterator[str]:
    """Paths that are masked for every job, as far as they are there."""
    yield from HOMES
    yield from SOCKETS
    yield from (path for path in (*_SYSTEM, *glob.iglob(_HOST_KEYS)) if os.access(path, os.R_OK))
    named = (*homes(), *(os.environ.get(name, "") for name in _PRIVATE_FOLDERS))
    yield from (folder for folder in named if not is_systems(folder))


def is_systems(folder: str) -> bool:
    """True for a folder that no job can do without: some users of the system have it for a home."""
    above = os.path.realpath(folder).rstrip("/") + "/"
    return any(f"{os.path.realpath(place)}/".startswith(above) for place in (*SYSTEM_PATH, "/etc"))


def shared() -> Iterator[str]:
    """Folders that every job gets anew."""
    yield from SHARED
    if not is_systems(tempfile.gettempdir()):
        yield tempfile.gettempdir()


def sockets() -> Iterator[str]:
    """The unix sockets that someone listens on: a network of its own does not keep a job from these."""
    try:
        with open("/proc/net/unix", "rb") as listed:
            lines = listed.read().splitlines()[1:]
    except OSError:
        return
    for line in lines:
        _, slash, path = line.partition(b" /")
        if slash and _is_socket(b"/" + path):
            yield os.fsdecode(b"/" + path)


def _is_socket(path: bytes) -> bool:
    try:
        return stat.S_ISSOCK(os.stat(path).st_mode)
    except OSError:
        return False

"""Adds a link to our program to the system folders inside a sandbox; a script of its own, run by `python -I
-S`.

Login shells reset PATH, and a program with an empty environment has none, but both still search the system
folders. Bubblewrap cannot add a file to a read-only folder, so this process joins the namespaces of the
sandbox before its agent begins and covers each such folder with a copy that has the link, too. Nothing
outside the sandbox changes. A folder where that fails stays as it is.
"""

from __future__ import annotations

import ctypes
import fcntl
import os
import sys

NEW_MOUNTS, NEW_USERS = 0x00020000, 0x10000000
GET_OWNING_USERS = 0xB701
READ_ONLY, NO_SET_USER_ID, NO_DEVICES, REMOUNT, BIND, RECURSIVE = 1, 2, 4, 32, 4096, 16384
DETACH = 2
SAFE = NO_SET_USER_ID | NO_DEVICES

_libc = ctypes.CDLL(None, use_errno=True)


def main(pid: str, program: str, *folders: str) -> None:
    """Adds the links in the sandbox whose first process is given."""
    with open(f"/proc/{pid}/mountinfo", "rb") as file:
        mounts = [os.fsdecode(line.split()[4]) for line in file]
    _enter(pid)
    if not os.access(program, os.X_OK):
        return
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        try:
            _link(folder, program, has_mounts=any(path.startswith(f"{folder}/") for path in mounts))
        except OSError:
            continue  # The folder stays as it was.


def _enter(pid: str) -> None:
    """Joins a process's mount namespace, and the user namespace that owns it.

    The process itself is in another user namespace if bubblewrap has forbidden creating more.
    """
    mounts = os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC)
    users = fcntl.ioctl(mounts, GET_OWNING_USERS)
    for descriptor, kind in ((users, NEW_USERS), (mounts, NEW_MOUNTS)):
        _check(_libc.setns(descriptor, kind), "joining the sandbox")


def _link(folder: str, program: str, *, has_mounts: bool) -> None:
    link = os.path.join(folder, os.path.basename(program))
    if os.path.exists(link) and os.path.samefile(link, program):
        return
    os.chdir(folder)  # From now on `.` is the original folder, whatever covers it.
    _mount("tmpfs", folder, "tmpfs", SAFE, "mode=755")
    try:
        os.symlink(program, link)
        # An overlay shows what is below a mount, not what is mounted.
        if has_mounts or not _overlay(folder):
            _bind_entries(folder, os.path.basename(program))
            _mount(None, folder, None, REMOUNT | BIND | READ_ONLY | SAFE)
    except OSError:
        _libc.umount2(os.fsencode(folder), DETACH)
        raise


def _overlay(folder: str) -> bool:
    """Mounts the folder below what covers it; False if the kernel does not allow that to users (before Linux 5.11)."""
    try:
        _mount("overlay", folder, "overlay", READ_ONLY | SAFE, f"lowerdir={folder}:.")
    except OSError:
        return False
    return True


def _bind_entries(folder: str, name: str) -> None:
    """Binds every entry of the folder into what covers it."""
    for entry in os.scandir("."):
        path = os.path.join(folder, entry.name)
        if entry.name == name:
            continue
        if entry.is_symlink():
            os.symlink(os.readlink(entry.path), path)
            continue
        if entry.is_dir():
            os.mkdir(path)
        else:
            os.close(os.open(path, os.O_CREAT | os.O_WRONLY, 0o444))
        try:
            _mount(entry.path, path, None, BIND | RECURSIVE)
        except FileNotFoundError:  # Deleted outside in the meantime.
            os.rmdir(path) if entry.is_dir() else os.unlink(path)


def _mount(source: str | None, target: str, kind: str | None, flags: int, data: str | None = None) -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind, data)]
    answer = _libc.mount(*texts[:3], ctypes.c_ulong(flags), texts[3])
    _check(answer, f"mounting {kind or source or 'again'}")


def _check(answer: int, what: str) -> None:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Starts one job and watches over it, as a script of its own run by `python -I -S`.

It reads its plan, says what happens as lines of JSON, and waits for leave before the job begins. The job's processes
are its descendants for as long as they live, those that were orphaned included.
"""

from __future__ import annotations

import ctypes
import errno
import marshal
import os
import resource
import select
import sys
import time
from _thread import start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:  # importing typing or signal would take longer than all the rest
    from typing import Any, NoReturn

KILL = 9
STEP = 0.005

# prctl
SET_PDEATHSIG = 1
SET_DUMPABLE = 4
CAPBSET_DROP = 24
SET_CHILD_SUBREAPER = 36
SET_NO_NEW_PRIVS = 38
CAP_AMBIENT = 47
CAP_AMBIENT_CLEAR_ALL = 4
LAST_CAPABILITY = 63
CAPABILITY_VERSION = 0x20080522

# unshare
NEW_MOUNTS = 0x00020000
NEW_HOST_NAME = 0x04000000
NEW_IPC = 0x08000000
NEW_USERS = 0x10000000
NEW_PROCESSES = 0x20000000
NEW_NETWORK = 0x40000000

# mount
MOUNT_HARMLESS = 2 | 4 | 8  # no set-user-id, no devices, no programs
MOUNT_BIND = 4096
MOUNT_ALL_PRIVATE = (1 << 18) | (1 << 14)

# Landlock
CREATE_RULESET = 444
ADD_RULE = 445
RESTRICT_SELF = 446
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, USE_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | USE_DEVICE

# ioctl
GET_FLAGS, SET_FLAGS, IS_UP = 0x8913, 0x8914, 1

IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def main(plan: int, status: int, leave: int) -> None:
    """Launches the job of a plan, watches over it, and goes when nobody can give leave any more."""
    for descriptor in (plan, status, leave):
        os.set_inheritable(descriptor, False)
    with open(plan, "rb") as file:
        wanted = marshal.loads(file.read())  # noqa: S302 - written by the process that started this one
    try:
        _keep(wanted)
    except OSError as fault:
        _say(status, fault=str(fault))
        return
    ready, is_ready = os.pipe()
    child = os.fork()
    if child == 0:
        _inside(wanted, status, leave, is_ready)
    os.close(is_ready)
    if not os.read(ready, 1):
        return  # it has said why
    _say(status, child_pid=child)
    if wanted["namespaces"]:
        _wait_for(child)
        while os.read(leave, 1):
            pass
    else:
        _hold(child, status, leave, clears=wanted["clears"])


def _say(status: int, **fields: object) -> None:
    """Says one line of JSON; letters that would have to be escaped become question marks."""
    parts = []
    for name, value in fields.items():
        text = str(value) if isinstance(value, int) else f'"{_plain(str(value))}"'
        parts.append(f'"{name.replace("_", "-")}": {text}')
    try:
        os.write(status, ("{" + ", ".join(parts) + "}\n").encode())
    except BrokenPipeError:
        return  # nobody is left to tell


def _plain(text: str) -> str:
    return "".join(
        letter if letter.isascii() and letter.isprintable() and letter not in '"\\' else "?"
        for letter in text
    )


def _check(answer: int, what: str) -> int:
    """Passes on what the kernel answered; raises when it was an error."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


def _control(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    return int(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


# ------------------------------------------------------------------------------------------ the watching process


def _keep(wanted: dict[str, Any]) -> None:
    """Becomes the one that orphans of the job are given to; the job can look into neither it nor its memory."""
    if not IS_LINUX:
        return
    if wanted["namespaces"]:
        _unshare_namespaces(wanted)
        _check(_control(SET_PDEATHSIG, KILL), "the death signal")
        if os.getppid() != wanted["parent"]:
            os._exit(1)
    _check(_control(SET_CHILD_SUBREAPER, 1), "keeping orphans")
    _check(_control(SET_DUMPABLE, 0), "keeping its memory to itself")


def _unshare_namespaces(wanted: dict[str, Any]) -> None:
    """Takes users, processes, mounts and, unless it is needed, the network apart from everybody else's."""
    user, group = os.geteuid(), os.getegid()
    apart = NEW_USERS | NEW_PROCESSES | NEW_MOUNTS | NEW_IPC | NEW_HOST_NAME
    if not wanted["network"]:
        apart |= NEW_NETWORK
    _check(_libc.unshare(apart), "namespaces")
    for name, line in (
        ("setgroups", "deny"),
        ("uid_map", f"{wanted['user']} {user} 1"),
        ("gid_map", f"{wanted['group']} {group} 1"),
    ):
        with open(f"/proc/self/{name}", "w", encoding="ascii") as file:
            file.write(line)


def _wait_for(job: int) -> int | None:
    """Fetches every process that ends, until the job itself does; how it did, if that is to be known."""
    while True:
        try:
            pid, how = os.wait()
        except ChildProcessError:
            return None
        if pid == job:
            return how


def _say_how(status: int, how: int | None) -> None:
    if how is None:
        return
    if os.WIFSIGNALED(how):
        _say(status, signal=os.WTERMSIG(how))
    else:
        _say(status, exit_code=os.WEXITSTATUS(how))


# ------------------------------------------------------------------------------------ what leaves nothing behind


def _hold(job: int, status: int, leave: int, *, clears: bool) -> None:
    """Watches over a job. Once nobody is left who could give leave, ends all that it has started.

    One that clears does so already when the job ends, before it says how that did.
    """
    start_new_thread(_end_with, (leave, job))
    how = _wait_for(job)
    if clears:
        _clear(job)
    _say_how(status, how)
    if not clears:
        _await_end(leave)
        _clear(job)


def _await_end(leave: int) -> None:
    """Waits until the other end of a pipe is closed."""
    closing = select.poll()
    closing.register(leave, 0)
    closing.poll()


def _end_with(leave: int, job: int) -> None:
    """Ends everything, again and again, once the other end of a pipe is closed."""
    _await_end(leave)
    while True:
        _kill_all(job)
        time.sleep(STEP)


def _clear(job: int) -> None:
    """Ends everything below this process. What its parents have left behind are children of this one by then."""
    while True:
        _kill_all(job)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(STEP)


def _kill_all(job: int) -> None:
    """Ends what is below this process; where that cannot be told, the group that the job leads."""
    for pid in _below(os.getpid()) if IS_LINUX else [-job]:
        try:
            os.kill(pid, KILL)
        except OSError:
            continue


def _below(keeper: int) -> list[int]:
    """The processes that descend from one."""
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b") ")[2].split()[1])
            except (OSError, ValueError):
                continue
    found = [keeper]
    for parent in found:
        found += [pid for pid, above in parents.items() if above == parent]
    return found[1:]


# ---------------------------------------------------------------------------------------------------- the job


def _inside(wanted: dict[str, Any], status: int, leave: int, is_ready: int) -> NoReturn:
    """Waits for leave and becomes the job; with processes of its own, stays as the first of them.

    The process that watches over it passes on that it is there once it is bound to that one: before, there is no leave.
    """
    try:
        if IS_LINUX:
            _check(_control(SET_PDEATHSIG, KILL), "the death signal")
        os.write(is_ready, b"\n")
        os.close(is_ready)
        if os.read(leave, 1) != b"\n":
            os._exit(1)
        os.close(leave)
        if wanted["namespaces"]:
            _set_up_namespaces(wanted)
            job = os.fork()
            if job:
                _say_how(status, _wait_for(job))
                os._exit(0)
            _control(SET_PDEATHSIG, KILL)
        _become_job(wanted)
    except (OSError, ValueError) as fault:
        _say(status, fault=str(fault))
    os._exit(1)


def _set_up_namespaces(wanted: dict[str, Any]) -> None:
    """Makes what belongs to the namespaces: a process table and a loopback of the job's own, no foreign sockets."""
    _libc.mount(b"none", b"/", None, ctypes.c_ulong(MOUNT_ALL_PRIVATE), None)
    # Where parts of the process table are masked, as in containers, the kernel lets nobody have a new one.
    _libc.mount(b"proc", b"/proc", b"proc", ctypes.c_ulong(MOUNT_HARMLESS), None)
    for path in wanted["sockets"]:
        _libc.mount(b"/dev/null", path, None, ctypes.c_ulong(MOUNT_BIND), None)
    if not wanted["network"]:
        _raise_loopback()


def _raise_loopback() -> None:
    descriptor = _libc.socket(2, 2, 0)
    request = ctypes.create_string_buffer(b"lo", 40)
    if _libc.ioctl(descriptor, GET_FLAGS, request) == 0:
        flags = int.from_bytes(request.raw[16:18], sys.byteorder) | IS_UP
        ctypes.memmove(ctypes.addressof(request) + 16, flags.to_bytes(2, sys.byteorder), 2)
        _libc.ioctl(descriptor, SET_FLAGS, request)
    os.close(descriptor)


def _become_job(wanted: dict[str, Any]) -> NoReturn:
    """Gives up every right that the job is not to have, and becomes it."""
    os.setsid()
    os.chdir(wanted["folder"])
    for kind, value in wanted["limits"].items():
        resource.setrlimit(kind, (value, value))
    if IS_LINUX:
        _check(_control(SET_NO_NEW_PRIVS, 1), "no new privileges")
        if wanted["rules"] is not None:
            _restrict(wanted["rules"], is_offline=not (wanted["network"] or wanted["namespaces"]))
        _drop_capabilities()
    for number in wanted["signals"]:
        _libc.signal(number, None)
    program, arguments, environment = wanted["program"], wanted["arguments"], wanted["environment"]
    try:
        os.execve(program, arguments, environment)  # noqa: S606 - becoming the job is the point
    except OSError as fault:
        if fault.errno != errno.ENOEXEC:
            raise OSError(fault.errno, f"{os.fsdecode(program)}: {fault.strerror}") from None
    # A script without a first line that names its interpreter is the shell's.
    os.execve(b"/bin/sh", [b"sh", program, *arguments[1:]], environment)  # noqa: S606


def _drop_capabilities() -> None:
    """Leaves root without its powers: what remains is what its files let their owner do."""
    for capability in range(LAST_CAPABILITY + 1):
        _control(CAPBSET_DROP, capability)
    _control(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capabilities")


# --------------------------------------------------------------------------------------------------- Landlock


def _restrict(rules: list[tuple[bytes, bool]], *, is_offline: bool) -> None:
    """Lets this process and all it starts touch what the rules name, and nothing else."""
    version = _check(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), 1), "Landlock")
    handled = _handled_rights(version)
    bounds = [handled]
    if version >= 4:
        bounds.append(0b11 if is_offline else 0)
    if version >= 6:
        bounds.append(0b11)
    attributes = (ctypes.c_uint64 * len(bounds))(*bounds)
    ruleset = _check(
        _libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), 0), "Landlock"
    )
    for path, may_write in rules:
        _allow(ruleset, path, handled if may_write else handled & READ)
    _check(_libc.syscall(RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _handled_rights(version: int) -> int:
    """Every right to files that this version knows."""
    handled = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, TRUNCATE), (5, USE_DEVICE)):
        if version >= since:
            handled |= right
    return handled


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    """Adds a path with everything below it; one that is gone is passed over."""
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        is_folder = os.stat(descriptor).st_mode & 0o170000 == 0o040000
        allowed = rights if is_folder else rights & OF_FILES
        rule = allowed.to_bytes(8, sys.byteorder) + descriptor.to_bytes(4, sys.byteorder)
        _check(_libc.syscall(ADD_RULE, ruleset, 1, rule, 0), os.fsdecode(path))
    finally:
        os.close(descriptor)


if __name__ == "__main__":
    main(*(int(argument) for argument in sys.argv[1:4]))
    os._exit(0)  # what Python would clean up on its way out is nobody's

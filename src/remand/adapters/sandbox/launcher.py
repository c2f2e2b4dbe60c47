"""Starts a program with fewer rights than its user has; a script of its own, run by `python -I -S`.

Given three descriptors, it starts one job and supervises it: it reads the plan, reports events as lines of
JSON, and waits for permission before the job begins. All of the job's processes stay its descendants, orphans
included.

Given `scope` and a command, it cuts itself off from the abstract unix sockets of others, then executes the
command.
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
if TYPE_CHECKING:  # Importing typing or signal would take longer than everything else.
    from typing import Any, NoReturn

KILL = 9
STEP = 0.005
CANNOT_RUN = 126

# Constants of prctl.
SET_PDEATHSIG = 1
SET_DUMPABLE = 4
CAPBSET_DROP = 24
SET_CHILD_SUBREAPER = 36
SET_NO_NEW_PRIVS = 38
CAP_AMBIENT = 47
CAP_AMBIENT_CLEAR_ALL = 4
LAST_CAPABILITY = 63
CAPABILITY_VERSION = 0x20080522

# Constants of Landlock.
CREATE_RULESET = 444
ADD_RULE = 445
RESTRICT_SELF = 446
ASK_VERSION = 1
SCOPE_VERSION = 6
"""The first Landlock version with scopes; Linux 6.12 has it."""
ABSTRACT_SOCKETS = 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, USE_DEVICE = 1 << 14, 1 << 15
READ = EXECUTE | READ_FILE | READ_DIR
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | USE_DEVICE

IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def _check(answer: int, what: str) -> int:
    """Returns the kernel's answer; raises if it was an error."""
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return answer


def _control(option: int, value: int) -> int:
    zero = ctypes.c_ulong(0)
    return int(_libc.prctl(option, ctypes.c_ulong(value), zero, zero, zero))


# ---------------------------------------------------------------------------------------- the supervising
# process


def launch(plan: int, status: int, permission: int) -> None:
    """Launches the job of a plan. When the job ends, or permission is withdrawn, kills everything it started."""
    for descriptor in (plan, status, permission):
        os.set_inheritable(descriptor, False)
    with open(plan, "rb") as file:
        wanted = marshal.loads(file.read())  # noqa: S302 - written by the process that started this one
    try:
        if IS_LINUX:
            _check(_control(SET_CHILD_SUBREAPER, 1), "keeping orphans")
            # The job can neither trace this process nor read its memory.
            _check(_control(SET_DUMPABLE, 0), "keeping its memory to itself")
    except OSError as fault:
        _report(status, fault=str(fault))
        return
    ready, is_ready = os.pipe()
    job = os.fork()
    if job == 0:
        _start_job(wanted, status, permission, is_ready)
    os.close(is_ready)
    if not os.read(ready, 1):
        return  # It has reported why.
    _report(status, child_pid=job)
    start_new_thread(_kill_with, (permission, job))
    how = _wait_for(job)
    _kill_and_wait(job)
    if how is not None and os.WIFSIGNALED(how):
        _report(status, signal=os.WTERMSIG(how))
    elif how is not None:
        _report(status, exit_code=os.WEXITSTATUS(how))


def _report(status: int, **fields: object) -> None:
    """Writes one line of JSON; replaces characters that would need escapes by question marks."""
    parts = []
    for name, value in fields.items():
        text = str(value)
        if not isinstance(value, int):
            plain = (c if c.isascii() and c.isprintable() and c not in '"\\' else "?" for c in text)
            text = f'"{"".join(plain)}"'
        parts.append(f'"{name.replace("_", "-")}": {text}')
    try:
        os.write(status, ("{" + ", ".join(parts) + "}\n").encode())
    except BrokenPipeError:
        return  # Nobody reads any more.


def _wait_for(job: int) -> int | None:
    """Reaps processes until the job itself ends; returns its status, if that can be known."""
    while True:
        try:
            pid, how = os.wait()
        except ChildProcessError:
            return None
        if pid == job:
            return how


def _kill_with(permission: int, job: int) -> None:
    """Kills everything, repeatedly, once the other end of a pipe closes."""
    closing = select.poll()
    closing.register(permission, 0)
    closing.poll()
    while True:
        _kill_all(job)
        time.sleep(STEP)


def _kill_and_wait(job: int) -> None:
    """Kills all descendants. Orphans have become children of this process by then."""
    while True:
        _kill_all(job)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(STEP)


def _kill_all(job: int) -> None:
    """Kills all descendants; if they cannot be listed, kills the job's process group."""
    for pid in _descendants(os.getpid()) if IS_LINUX else [-job]:
        try:
            os.kill(pid, KILL)
        except OSError:
            continue


def _descendants(ancestor: int) -> list[int]:
    parents = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b") ")[2].split()[1])
            except (OSError, ValueError):
                continue
    found = [ancestor]
    for parent in found:
        found += [pid for pid, above in parents.items() if above == parent]
    return found[1:]


# ---------------------------------------------------------------------------------------------------- the job


def _start_job(wanted: dict[str, Any], status: int, permission: int, is_ready: int) -> NoReturn:
    """Waits for permission and executes the job.

    Reports that it is ready once it is bound to the supervising process; permission comes only after that.
    """
    try:
        if IS_LINUX:
            _check(_control(SET_PDEATHSIG, KILL), "the death signal")
        os.write(is_ready, b"\n")
        os.close(is_ready)
        if os.read(permission, 1) != b"\n":
            os._exit(1)
        os.close(permission)
        os.setsid()
        os.chdir(wanted["folder"])
        for kind, value in wanted["limits"].items():
            resource.setrlimit(kind, (value, value))
        if IS_LINUX:
            _give_up_rights(wanted)
        for number in wanted["signals"]:
            _libc.signal(number, None)
        _become(wanted["program"], wanted["arguments"], wanted["environment"])
    except (OSError, ValueError) as fault:
        _report(status, fault=str(fault))
    os._exit(1)


def _give_up_rights(wanted: dict[str, Any]) -> None:
    """Drops root's capabilities: only what file owners may do remains."""
    _check(_control(SET_NO_NEW_PRIVS, 1), "no new privileges")
    if wanted["rules"] is not None:
        _restrict_files(wanted["rules"], is_offline=not wanted["network"])
    for capability in range(LAST_CAPABILITY + 1):
        _control(CAPBSET_DROP, capability)
    _control(CAP_AMBIENT, CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION, 0)
    _check(_libc.capset(header, (ctypes.c_uint32 * 6)()), "capabilities")


def _become(program: bytes, arguments: list[bytes], environment: dict[bytes, bytes]) -> NoReturn:
    """Executes a program; runs a script without an interpreter line in the shell."""
    try:
        os.execve(program, arguments, environment)  # noqa: S606 - becoming the job is the point
    except OSError as fault:
        if fault.errno != errno.ENOEXEC:
            raise OSError(fault.errno, f"{os.fsdecode(program)}: {fault.strerror}") from None
    os.execve(b"/bin/sh", [b"sh", program, *arguments[1:]], environment)  # noqa: S606


# --------------------------------------------------------------------------------------------------- Landlock


def landlock_version() -> int:
    """The Landlock version of this kernel; below 1 if there is none."""
    return int(_libc.syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION)) if IS_LINUX else 0


def _create_ruleset(*handled: int) -> int:
    """A ruleset that denies the given rights to files, to the network, and beyond a scope."""
    attributes = (ctypes.c_uint64 * len(handled))(*handled)
    size = ctypes.c_size_t(ctypes.sizeof(attributes))
    return _check(_libc.syscall(CREATE_RULESET, attributes, size, 0), "Landlock")


def _restrict_files(rules: list[tuple[bytes, bool]], *, is_offline: bool) -> None:
    """Restricts this process and its children to the paths in the rules."""
    version = _check(landlock_version(), "Landlock")
    files = (1 << 13) - 1
    for since, right in ((2, 1 << 13), (3, TRUNCATE), (5, USE_DEVICE)):
        if version >= since:
            files |= right
    network = (0b11 if is_offline else 0,) if version >= 4 else ()
    scopes = (0b11,) if version >= SCOPE_VERSION else ()
    ruleset = _create_ruleset(files, *network, *scopes)
    for path, may_write in rules:
        _allow(ruleset, path, files if may_write else files & READ)
    _check(_libc.syscall(RESTRICT_SELF, ruleset, 0), "Landlock")
    os.close(ruleset)


def _allow(ruleset: int, path: bytes, rights: int) -> None:
    """Allows a path with everything below it; ignores one that is gone."""
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


def scope(command: list[str]) -> None:
    """Executes a command that can reach no abstract unix sockets but its own. Needs Linux 6.12."""
    try:
        ruleset = _create_ruleset(0, 0, ABSTRACT_SOCKETS)
        _check(_libc.syscall(RESTRICT_SELF, ruleset, 0), "Landlock")
        os.close(ruleset)
        _become(os.fsencode(command[0]), [os.fsencode(word) for word in command], dict(os.environb))
    except OSError as fault:
        sys.stderr.write(f"{command[0]} cannot be run: {os.strerror(fault.errno or 0)}\n")
        sys.exit(CANNOT_RUN)


if __name__ == "__main__":
    if sys.argv[1] == "scope":
        scope(sys.argv[2:])
    launch(*(int(argument) for argument in sys.argv[1:4]))
    os._exit(0)  # Nothing here needs Python's clean-up at exit.

"""Keeps an agent from abstract unix sockets of others, then becomes it: a script run by `python -I -S`. Needs Landlock of Linux 6.12."""

from __future__ import annotations

import ctypes
import errno
import os
import sys

CREATE_RULESET = 444
RESTRICT_SELF = 446
ASK_VERSION = 1
FIRST_VERSION = 6
NAMED_SOCKETS = 1
CANNOT_RUN = 126


def landlock_version() -> int:
    """The version of Landlock that this kernel has; below 1 for none."""
    if sys.platform != "linux":
        return 0
    return int(ctypes.CDLL(None).syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ASK_VERSION))


def restrict() -> None:
    """Lets this process and all it starts reach, of such sockets, none but their own."""
    libc = ctypes.CDLL(None, use_errno=True)
    attributes = (ctypes.c_uint64 * 3)(0, 0, NAMED_SOCKETS)
    ruleset = libc.syscall(CREATE_RULESET, attributes, ctypes.c_size_t(ctypes.sizeof(attributes)), 0)
    if ruleset < 0 or libc.syscall(RESTRICT_SELF, ruleset, 0) < 0:
        raise OSError(ctypes.get_errno(), "Landlock")
    os.close(ruleset)


def become(program: str, arguments: list[str]) -> None:
    """Becomes a program; a script without a first line that names its interpreter is the shell's."""
    try:
        os.execv(program, arguments)  # noqa: S606 - becoming the agent is the point
    except OSError as fault:
        if fault.errno != errno.ENOEXEC:
            raise
    os.execv("/bin/sh", ["sh", program, *arguments[1:]])  # noqa: S606


if __name__ == "__main__":
    try:
        restrict()
        become(sys.argv[1], sys.argv[1:])
    except OSError as fault:
        sys.stderr.write(f"{sys.argv[1]} cannot be run: {fault.strerror}\n")
        sys.exit(CANNOT_RUN)

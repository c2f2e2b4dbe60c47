"""The attacks that a hostile job would try, as a script that runs inside the sandbox and reports what
succeeded.

Each attempt returns what it achieved, or an empty string if it was prevented.
"""

from __future__ import annotations

import ctypes
import json
import os
import socket
import sys
import time

REMOUNT_BIND = 32 | 4096
WRITTEN = "written"
NEW_USERS = 0x10000000
TRACE, TRACE_NO_MORE = 16, 17
NOWHERE = ("192.0.2.1", 9)
"""A reserved address without a host; connecting a datagram socket to it sends nothing."""


def write(path: str) -> str:
    with open(path, "w", encoding="ascii") as file:
        file.write(WRITTEN)
    return f"wrote {path}"


def truncate(path: str) -> str:
    os.truncate(path, 0)
    return f"cut off {path}"


def read(path: str) -> str:
    with open(path, encoding="ascii") as file:
        return f"read {path}" if file.read() else ""


def find(path: str, word: str) -> str:
    with open(path, encoding="ascii") as file:
        return f"read {path}" if word in file.read() else ""


def connect_out() -> str:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
        out.connect(NOWHERE)
    return "found a way to the network"


def connect_loopback(port: str) -> str:
    with socket.create_connection(("127.0.0.1", int(port)), timeout=2):
        return "reached a server on this machine"


def connect_unix(path: str) -> str:
    with socket.socket(socket.AF_UNIX) as out:
        out.connect(path.replace("@", "\0", 1) if path.startswith("@") else path)
    return f"reached {path}"


def end(pid: str) -> str:
    os.kill(int(pid), 9)
    return "ended another process"


def trace(pid: str) -> str:
    if ctypes.CDLL(None).ptrace(TRACE, int(pid), None, None):
        return ""
    ctypes.CDLL(None).ptrace(TRACE_NO_MORE, int(pid), None, None)
    return "held another process by its memory"


def become_root() -> str:
    """Creates a user namespace in a process of its own, which would be another user afterwards."""
    child = os.fork()
    if child == 0:
        os._exit(ctypes.CDLL(None).unshare(NEW_USERS) & 1)
    return "" if os.waitpid(child, 0)[1] else "made itself users of its own"


def find_in_environments(word: str) -> str:
    for name in os.listdir("/proc"):
        if name.isdigit() and name != str(os.getpid()):
            try:
                with open(f"/proc/{name}/environ", "rb") as file:
                    if word.encode() in file.read():
                        return "read another process's environment"
            except OSError:
                continue
    return ""


def remount(path: str) -> str:
    if ctypes.CDLL(None).mount(None, b"/", None, ctypes.c_ulong(REMOUNT_BIND), None):
        return ""
    return write(path)


def steer_the_kernel(path: str) -> str:
    """Opens a file that controls the kernel, without writing: that would affect the whole machine."""
    os.close(os.open(path, os.O_WRONLY))
    return f"could write {path}"


def inherit(known: str) -> str:
    more = sorted(set(os.environ) - set(known.split(",")))
    return f"inherited {', '.join(more)}" if more else ""


def stay(word: str) -> str:
    """Leaves a daemon process behind; the word on its command line identifies it."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            sleep = [sys.executable, "-I", "-S", "-c", "import time; time.sleep(60)", word]
            os.execv(sys.executable, sleep)  # noqa: S606 - as a hostile job would
        os._exit(0)
    os.wait()
    return ""


def multiply(times: str) -> str:
    for _ in range(int(times)):
        if os.fork() == 0:
            time.sleep(60)
            os._exit(0)
    return f"started {times} processes"


def allocate(size: str) -> str:
    return f"allocated {len(b'x' * int(size))} bytes"


def fill(path: str, size: str) -> str:
    with open(path, "wb") as file:
        file.seek(int(size) - 1)
        file.write(b"x")
    return f"wrote a file of {size} bytes"


if __name__ == "__main__":
    for name, *arguments in json.loads(sys.argv[1] if len(sys.argv) > 1 else sys.stdin.read()):
        try:
            done = globals()[name](*arguments)
        except (OSError, MemoryError, AttributeError) as fault:
            done, text = "", str(fault) or type(fault).__name__
        else:
            text = done
        sys.stdout.write(f"{json.dumps([bool(done), text])}\n")
        sys.stdout.flush()

"""What hooks write outside the repository: the journal of what agents ran, and marks of host sessions.

Every tool hook loads this, so it imports little.
"""

from __future__ import annotations

import os
import stat
import time
from _json import encode_basestring_ascii as quoted
from contextlib import suppress
from hashlib import sha256

from remand.adapters.system.files import lock_handle
from remand.domain.text import redaction
from remand.domain.text.words import remove_invisible

MAX_COMMAND = 4096
MAX_EXCERPT = 2048
MAX_PATHS = 2048
MAX_NAME = 200
MAX_LINE = 1 << 17
MAX_FILE = 32 << 20
MARGIN = 8192
"""How far beyond an excerpt secrets are searched for, so that none is cut in two and missed."""
PATIENCE = 1.0
SUFFIX = ".jsonl"
CUT = "\n[…]\n"

_FLAGS = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_HINTS = (
    "key", "token", "secret", "passw", "bearer", "basic", "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat",
    "glpat-", "gldt-", "glrt-", "glcbt-", "glptt-", "glft-", "glsoat-", "akia", "asia", "abia", "acca", "aiza",
    "xox", "hooks.slack", "sk_", "sk-", "rk_", "npm_", "pypi-", "eyj", "://",
)  # fmt: skip
"""Every text that `domain.secrets` would change contains one of these; its patterns are loaded only then."""
_SECRET_NAMES = ("KEY", "TOKEN", "SECRET", "PASSW", "CREDENTIAL")


def append(
    folder: str,
    task_id: str,
    *,
    agent: str,
    host: str = "",
    session: str = "",
    tool: str = "",
    tool_use_id: str = "",
    command: str = "",
    paths: tuple[str, ...] = (),
    exit_status: int | None = None,
    output: str = "",
    duration_ms: int | None = None,
    transcript: str = "",
) -> bool:
    """Adds one run to a task's journal. False if that is impossible: an invalid id, no space, no permission."""
    path = journal_path(folder, task_id)
    if not path:
        return False
    whole = output.encode("utf-8", "surrogatepass")
    fields: dict[str, str | int | tuple[str, ...] | None] = {
        "ts": _now(),
        "host": _name(host),
        "session": _name(session),
        "agent": _name(agent),
        "task_id": task_id,
        "tool": _name(tool),
        "tool_use_id": _name(tool_use_id),
        "command": shorten_command(command),
        "paths": _paths(paths),
        "exit_status": exit_status,
        "output_sha256": sha256(whole).hexdigest(),
        "output_size": len(whole),
        "excerpt": excerpt(output),
        "duration_ms": duration_ms,
        "transcript": remove_invisible(transcript[:1024]),
    }
    try:
        return _append_line(
            path, ", ".join(f"{quoted(name)}: {_value(value)}" for name, value in fields.items())
        )
    except OSError:
        return False


def journal_path(folder: str, task_id: str) -> str:
    """The path of a task's journal; empty if the id is invalid."""
    return os.path.join(folder, task_id + SUFFIX) if is_plain(task_id) else ""


def is_plain(name: str) -> bool:
    """True for a name of letters, digits and hyphens, which is safe as part of a path."""
    return 0 < len(name) <= 64 and name.isascii() and name.replace("-", "").isalnum()


def shorten_command(command: str) -> str:
    """A command line without secrets and control characters. A long one is cut and ends with the hash of the whole."""
    clean = _without_secrets(_plain(command[: MAX_COMMAND + MARGIN]))
    if len(command) <= MAX_COMMAND:
        return clean[:MAX_COMMAND]
    digest = sha256(command.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{clean[: MAX_COMMAND - 120]}… [cut: {len(command)} characters, sha256 {digest}]"


def excerpt(output: str) -> str:
    """The beginning and the end of an output, without secrets and control characters."""
    half = MAX_EXCERPT // 2
    if len(output) <= 2 * MARGIN:
        clean = _without_secrets(_plain(output))
        return clean if len(clean) <= MAX_EXCERPT else f"{clean[:half]}{CUT}{clean[-half:]}"
    head = _without_secrets(_plain(output[: half + MARGIN]))
    tail = _without_secrets(_plain(output[-half - MARGIN :]))
    return f"{head[:half]}{CUT}{tail[-half:]}"


def _plain(text: str) -> str:
    """A text without control characters; an escape sequence such as `ESC[31m` is removed whole."""
    first, *others = text.split("\x1b[")
    for part in others:
        ends = (at for at, char in enumerate(part[:32]) if "@" <= char <= "~")
        first += part[next(ends, -1) + 1 :]
    return remove_invisible(first)


def _without_secrets(text: str) -> str:
    """A text without this process's secrets and anything that looks like a secret."""
    for name, value in os.environ.items():
        if len(value) >= 8 and value in text and any(part in name.upper() for part in _SECRET_NAMES):
            text = text.replace(value, f"[redacted: {name}]")
    lower = text.lower()
    if not any(hint in lower for hint in _HINTS):
        return text
    return redaction.redact(text)


def _name(text: str) -> str:
    return remove_invisible(text[:MAX_NAME])


def _paths(paths: tuple[str, ...]) -> tuple[str, ...]:
    """As many of the paths as fit."""
    found: list[str] = []
    left = MAX_PATHS
    for path in paths:
        clean = _without_secrets(_plain(path[: MAX_PATHS + 1]))
        left -= len(clean)
        if left < 0:
            break
        found.append(clean)
    return tuple(found)


def _value(value: str | int | tuple[str, ...] | None) -> str:
    if value is None:
        return "null"
    if isinstance(value, str):
        return quoted(value)
    return str(value) if isinstance(value, int) else f"[{', '.join(map(quoted, value))}]"


def _now() -> str:
    second, micros = divmod(time.time_ns() // 1000, 1_000_000)
    return f"{time.strftime('%Y-%m-%dT%H:%M:%S', time.gmtime(second))}.{micros:06d}Z"


def _append_line(path: str, fields: str) -> bool:
    """Appends a line with the hash of the previous line, by one write under a lock."""
    handle = _open_journal(path)
    try:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_locked(handle):
            return False
        size = os.fstat(handle).st_size
        if size > MAX_FILE:
            return False
        start = b"\n" if size and os.pread(handle, 1, size - 1) != b"\n" else b""
        line = f'{{{fields}, "prev": "{_last(handle, size)}"}}\n'.encode()
        return os.write(handle, start + line) == len(start) + len(line)
    finally:
        os.close(handle)


def _open_journal(path: str) -> int:
    try:
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)
    except FileNotFoundError:
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        return os.open(path, _FLAGS | os.O_CREAT, 0o600)


def _is_locked(handle: int) -> bool:
    """Takes the lock; gives up after a while, because a stopped process may hold it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        if lock_handle(handle, waits=False):
            return True
        if time.monotonic() > deadline:
            return False
        time.sleep(0.002)


def _last(handle: int, size: int) -> str:
    """The hash of the last line, even if torn; empty if there is none."""
    tail = os.pread(handle, min(size, MAX_LINE), max(0, size - MAX_LINE)).removesuffix(b"\n")
    return line_hash(tail.rpartition(b"\n")[2]) if tail else ""


def line_hash(line: bytes) -> str:
    """The hash by which the next line refers to this one."""
    return sha256(line).hexdigest()[:32]


ONE_STOP_SECONDS = 60.0
"""How far apart the hook calls of two hosts about one stop may be: the first may wait for gates."""
SAME_HOST_SECONDS = 2.0
"""How soon after an answer another call of the same host may be about the same stop."""
MAX_CALLS = 4
"""How many calls of one host may be about one stop: the hook may be configured in two files, each called twice."""

MAX_FIGURE = 40
"""Longest number that is read from our own files, in digits."""


def _parse_stops(text: str) -> list[dict[str, list[float]]]:
    """The recorded stops, each with the hosts that reported it and when; skips what cannot be read."""
    stops: list[dict[str, list[float]]] = []
    for line in text.splitlines():
        number, _, called = line.partition(" ")
        host, _, at = called.partition(" ")
        if _is_figure(number) and number.strip("0") and _is_figure(at.replace(".", "", 1)):
            stops += [{}] if int(number) > len(stops) else []
            stops[-1].setdefault(host, []).append(float(at))
    return stops


def _is_figure(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= MAX_FIGURE


def _is_same_stop(calls: dict[str, list[float]], host: str, now: float, answered: float) -> bool:
    """True if a call is about the stop of these earlier calls, which was last answered at that time."""
    own = calls.get(host, [])
    if own:
        return len(own) < MAX_CALLS and now - max(answered, own[-1]) <= SAME_HOST_SECONDS
    return bool(calls) and now - min(min(times) for times in calls.values()) <= ONE_STOP_SECONDS


def _commit_of(key: str) -> str:
    """The commit at the end of a stop's key."""
    return key.rpartition("-")[2]


class Sessions:
    """Counters and marks by task and session. If they cannot be written, every call counts as the first."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def count(self, task_id: str, session: str, key: str = "") -> int:
        """Counts a blocked stop and returns the number so far; repeated calls about one stop count once, also at the same time."""
        path = self._path("nudges", task_id, session)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="utf-8", errors="replace") as file:
                file.seek(0)
                known = file.read().splitlines()
                if not key or key not in known:
                    known.append(key)
                    file.write(f"{key}\n")
        except OSError:
            return 1
        return known.count("") + len({*known} - {""})

    def occurrence(self, task_id: str, firing: str, host: str) -> int:
        """The ordinal of this stop among equal ones. Calls of two hooks about one stop get the same number."""
        path, now, name = self._path("firing", task_id, firing), time.time(), host or "-"
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "a+", encoding="utf-8", errors="replace") as file:
                file.seek(0)
                stops = _parse_stops(file.read())
                answered = os.fstat(file.fileno()).st_mtime
                is_same = bool(stops) and _is_same_stop(stops[-1], name, now, answered)
                number = len(stops) + (not is_same)
                file.write(f"{number} {name} {now:.3f}\n")
        except OSError:
            return 1
        return number

    def note_answer(self, task_id: str, firing: str) -> None:
        """Notes that a stop was just answered: a hook may take minutes, and the host calls the next one only then."""
        with suppress(OSError):
            os.utime(self._path("firing", task_id, firing), (time.time(), time.time()))

    def note_waiting(self, task_id: str, session: str, key: str) -> None:
        """Notes that a stop waits for its gates: the next stop at that commit gets their result."""
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(self._path("awaited", task_id, session), "w", encoding="utf-8") as file:
                file.write(key)

    def awaited_key(self, task_id: str, session: str, key: str) -> str:
        path = self._path("awaited", task_id, session)
        try:
            with open(path, encoding="utf-8", errors="replace") as file:
                awaited, _, taken_by = file.read(600).partition("\n")
            if awaited == key or taken_by not in ("", key) or _commit_of(awaited) != _commit_of(key):
                return key
            with open(path, "w", encoding="utf-8") as file:
                file.write(f"{awaited}\n{key}")
        except OSError:
            return key
        return awaited

    def is_first(self, kind: str, task_id: str, session: str, key: str) -> bool:
        path = self._path(kind, task_id, session)
        try:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "x", encoding="utf-8") as file:
                file.write(key)
        except FileExistsError:
            with open(path, encoding="utf-8", errors="replace") as file:
                return file.read(300) == key
        except OSError:
            return True
        return True

    def is_due(self, kind: str, task_id: str, session: str, seconds: float) -> bool:
        path = self._path(kind, task_id, session)
        with suppress(OSError):
            if time.time() - os.stat(path).st_mtime < seconds:
                return False
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            with open(path, "wb"):
                os.utime(path)
        return True

    def _path(self, kind: str, task_id: str, session: str) -> str:
        return os.path.join(
            self._folder, f"{kind}-{sha256(f'{task_id} {session}'.encode()).hexdigest()[:24]}"
        )

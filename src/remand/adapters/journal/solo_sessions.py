"""Private notes about solo sessions: where each began, what it did, its results.

Every hook call loads this, so it imports little.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

from remand.adapters.system.files import atomic_write, hold_lock, read_start
from remand.app.hook_calls import compose, parse

DAYS = 7
_DAY = 86_400.0
MAX_RECORD = 8 << 20
MAX_TRACE = 16 << 20
ON, OFF = "on", "off"
_SWITCH = "switch"
_NOTHING = "-"
"""The user had set nothing before: the configuration decides."""


class SoloSession:
    """One session in one worktree: where it began, and its current state."""

    __slots__ = (
        "attempted", "blocks", "commit", "config", "has_spoken", "head_log", "host", "last_commit", "last_tree", "left_out",
        "pending", "session", "shown_tree", "started", "title", "told_tree", "tree", "worktree",
    )  # fmt: skip

    def __init__(self, session: str, worktree: str, host: str = "") -> None:
        self.session = session
        self.worktree = worktree
        self.host = host
        self.title = ""
        """The first prompt, without secrets."""
        self.started = 0.0
        self.commit = self.tree = ""
        """The snapshot of its start."""
        self.last_commit = self.last_tree = ""
        """The last snapshot that was taken of it."""
        self.config = ""
        """The rules as they were at the start."""
        self.head_log = 0
        """How long git's record of what is checked out was when it was last looked at."""
        self.blocks = 0
        """How often it was sent back since the user's last prompt."""
        self.pending = ""
        """The tree whose gates outlasted the hook that started them."""
        self.attempted = ""
        """The tree that a run of the gates was last started for."""
        self.told_tree = ""
        """The tree of which the agent was told what the gates said."""
        self.shown_tree = ""
        """The tree of which its user was."""
        self.has_spoken = False
        """The user has seen a message of ours in this session."""
        self.left_out: tuple[str, ...] = ()
        """What the last snapshot does not have."""

    @property
    def name(self) -> str:
        """The base name of its files."""
        return f"{_hash(self.worktree, 12)}-{_hash(self.session, 24)}"


class SoloSessions:
    """The solo sessions of one ledger, in a private folder."""

    def __init__(self, folder: str) -> None:
        self._folder = os.path.join(folder, "sessions")
        self._switch = os.path.join(folder, _SWITCH)

    # ------------------------------------------------------------------------------------------ the switch

    def switch(self) -> tuple[str, float]:
        """The user's setting: `on`, `off` (until when; 0 for no end), or empty."""
        word, end, before = self._read_switch()
        if word == OFF and end and end <= time.time():
            word, end = before, 0.0
        return (word, end) if word in (ON, OFF) else ("", 0.0)

    def set_switch(self, word: str, until: float = 0.0) -> None:
        """Saves the user's setting; the previous one applies again after `until`."""
        said, end, before = self._read_switch()
        if not (said == OFF and end):
            before = said or _NOTHING
        os.makedirs(os.path.dirname(self._switch), mode=0o700, exist_ok=True)
        atomic_write(self._switch, f"{word} {until:.3f} {before}".encode(), mode=0o600)

    def _read_switch(self) -> tuple[str, float, str]:
        """The setting, when it ends, and the previous setting."""
        words = read_start(self._switch, 100).decode("ascii", "replace").split()
        word, until, before = [*words, *("", "0", ON)[len(words) :]][:3]
        try:
            return word, float(until), before
        except ValueError:
            return word, 0.0, before

    def clear_switch(self) -> None:
        """Removes the user's setting, so that the configuration decides."""
        with suppress(FileNotFoundError):
            os.unlink(self._switch)

    def is_first(self, what: str) -> bool:
        """True the first time it is called for each kind of message."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        try:
            os.close(os.open(os.path.join(self._folder, f"once-{what}"), os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        return True

    # ------------------------------------------------------------------------------------------- sessions

    def has(self, session: SoloSession) -> bool:
        return os.path.exists(self._path(session.name, "json"))

    def find(self, session: str, worktree: str) -> SoloSession | None:
        """A session's record; None for a new session."""
        return self.load(SoloSession(session, worktree).name)

    @contextmanager
    def hold(self, session: str, worktree: str) -> Iterator[None]:
        """Keeps other calls of a session's hooks from starting it meanwhile: some hosts call two at the same time."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        with hold_lock(self._path(SoloSession(session, worktree).name, "lock")):
            yield

    def load(self, name: str) -> SoloSession | None:
        """The record in a file; None if it cannot be read."""
        payload = parse(read_start(self._path(name, "json"), MAX_RECORD))
        if payload.is_broken or not payload.text("commit"):
            return None
        record = SoloSession(payload.text("session"), payload.text("worktree"), payload.text("host"))
        for field in (
            "title",
            "commit",
            "tree",
            "last_commit",
            "last_tree",
            "config",
            "pending",
            "attempted",
            "told_tree",
            "shown_tree",
        ):
            setattr(record, field, payload.text(field))
        record.started = payload.number("started") or 0.0
        record.head_log = int(payload.number("head_log") or 0)
        record.blocks = int(payload.number("blocks") or 0)
        record.has_spoken = payload.flag("has_spoken")
        record.left_out = tuple(payload.texts("left_out"))
        return record

    def save(self, record: SoloSession) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        fields: dict[str, object] = {name: getattr(record, name) for name in SoloSession.__slots__}
        atomic_write(self._path(record.name, "json"), compose(fields).encode(), mode=0o600)

    def names(self, worktree: str = "") -> list[str]:
        """The names of all sessions, or of those in one worktree."""
        start = f"{_hash(worktree, 12)}-" if worktree else ""
        try:
            found = sorted(os.listdir(self._folder))
        except FileNotFoundError:
            return []
        return [name[:-5] for name in found if name.endswith(".json") and name.startswith(start)]

    def forget_old(self) -> list[str]:
        """Removes sessions unused for a week, and returns the names of the others."""
        limit = time.time() - DAYS * _DAY
        with suppress(FileNotFoundError):
            for name in os.listdir(self._folder):
                path = os.path.join(self._folder, name)
                with suppress(OSError):
                    if not name.startswith("once-") and os.stat(path).st_mtime < limit:
                        os.unlink(path)
        return self.names()

    # --------------------------------------------------------------------------------- what a session did

    @staticmethod
    def now() -> float:
        """The time in the format of notes."""
        return time.time()

    def note(self, session: SoloSession, kind: str, value: str = "") -> None:
        """Appends one action of a session, with its time."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        line = f"{kind} {time.time():.4f} {' '.join(value.split(chr(10)))}\n"
        path = self._path(session.name, "trace")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as file:
            file.write(line.encode("utf-8", "surrogateescape"))

    def notes(self, name: str) -> list[tuple[str, float, str]]:
        """All actions of a session: kind, time and value."""
        found = []
        for line in (
            read_start(self._path(name, "trace"), MAX_TRACE).decode("utf-8", "surrogateescape").split("\n")
        ):
            kind, _, rest = line.partition(" ")
            moment, _, value = rest.partition(" ")
            with suppress(ValueError):
                found.append((kind, float(moment), value))
        return found

    # ------------------------------------------------------------------------------------------ results

    def write_result(self, name: str, fields: dict[str, object]) -> None:
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        atomic_write(self._path(name, "result"), compose(fields).encode(), mode=0o600)

    def result(self, name: str) -> dict[str, str]:
        """The session's last result: `tree`, `status`, `is_own`, `agent`, `user` and `verdict`. Empty if there is none."""
        payload = parse(read_start(self._path(name, "result"), MAX_RECORD))
        names = ("tree", "status", "is_own", "agent", "user", "verdict")
        return {} if payload.is_broken else {key: payload.text(key) for key in names}

    def write_foreign(self, name: str, paths: Iterable[str]) -> None:
        """Saves which files others have changed. In a file, since there may be more than fit on a command line."""
        os.makedirs(self._folder, mode=0o700, exist_ok=True)
        atomic_write(self._path(name, "foreign"), b"\0".join(map(os.fsencode, paths)), mode=0o600)

    def foreign(self, name: str) -> tuple[str, ...]:
        """The files that others have changed."""
        return tuple(
            os.fsdecode(path) for path in read_start(self._path(name, "foreign")).split(b"\0") if path
        )

    def add_notice(self, name: str, text: str) -> None:
        """Leaves a text for the session's user, which the session's next hook call shows."""
        path = self._path(name, "notices")
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600), "ab") as file:
            file.write(compose({"text": text}).encode() + b"\n")

    def take_notices(self, name: str) -> list[str]:
        """Returns and removes the texts left for the user."""
        path = self._path(name, "notices")
        renamed = f"{path}.{os.getpid()}"
        try:
            os.rename(path, renamed)
        except OSError:
            return []
        lines = read_start(renamed, MAX_RECORD).splitlines()
        os.unlink(renamed)
        return list(dict.fromkeys(filter(None, (parse(line).text("text") for line in lines))))

    def _path(self, name: str, kind: str) -> str:
        return os.path.join(self._folder, f"{name}.{kind}")


def asks_for_all(config: str) -> bool:
    """True if the configuration applies gates to every session, judging by its text without parsing it."""
    for line in read_start(config, 1 << 20).split(b"\n"):
        key, _, value = line.partition(b"=")
        if key.strip() == b"sessions":
            return value.strip().startswith((b'"all"', b"'all'"))
    return False


def _hash(text: str, length: int) -> str:
    return sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:length]

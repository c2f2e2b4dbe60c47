"""Channels to the user, by a file or the `apprise` library, and the pace of notices."""

from __future__ import annotations

import logging
import os
import re
import stat
import time
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from remand.adapters.system import background_runs
from remand.adapters.system.files import hold_lock, read_start
from remand.app.notices import Channel
from remand.domain.record import NamedTuple
from remand.startup import COMMAND_LINE, lazy_pattern


class FileChannel:
    """A file outside the repository, named as `file:///path`."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._path = unquote(urlsplit(url).path)

    def send(self, title: str, body: str) -> str:
        text = f"{title}\n{body}\n\n".encode()
        try:
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            try:
                os.write(opened, text)
            finally:
                os.close(opened)
        except OSError as error:
            return f"the file cannot be written: {error.strerror}"
        return ""


MISSING = "it needs the package apprise; install remand with its extra: pip install 'remand[notify]'"


class AppriseChannel:
    """An address to which the `apprise` library sends."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    def send(self, title: str, body: str) -> str:
        """Sends a notice; returns why it failed, never with the address, or an empty string."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # The library's internal warnings.
            try:
                library: Any = import_module("apprise")
            except ImportError:
                return MISSING
            return self._send_with(library, title, body)

    def _send_with(self, library: Any, title: str, body: str) -> str:
        # The library logs failures with parts of addresses.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        asset = library.AppriseAsset(async_mode=False, secure_logging=True, app_id="Remand")
        sender = library.Apprise(asset=asset)
        if not sender.add(self._url):
            return "apprise does not know this address; see its list of services"
        is_sent = sender.notify(title=title, body=body, body_format=library.NotifyFormat.TEXT)
        return "" if is_sent else "the service did not take it"


def open_channels() -> tuple[list[Channel], tuple[str, ...]]:
    """The channels that the user configured, and what is wrong with other addresses."""
    addresses = read_addresses()
    channels: list[Channel] = [
        FileChannel(*address) if address.url.lower().startswith("file://") else AppriseChannel(*address)
        for address in addresses.channels
    ]
    return channels, addresses.problems


FIRST, LONGEST = 1.0, 300.0
QUIET = 1800.0
"""After so many seconds without a notice, the next one is sent at once."""


class FilePace:
    """Stores in a file when the last notice was sent, and how long the next one has to wait."""

    def __init__(self, path: str) -> None:
        self._path = path

    def wait(self) -> None:
        at, step = self._last()
        left = at + step - time.time()
        if 0 < left <= LONGEST:
            time.sleep(left)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Lets one process at a time send: two would send the same notice."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with hold_lock(f"{self._path}.lock"):
            yield

    def note(self) -> None:
        at, step = self._last()
        now = time.time()
        longer = FIRST if now - at > QUIET else min(max(step * 2, FIRST), LONGEST)
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with suppress(OSError), open(self._path, "w", encoding="ascii") as file:
            file.write(f"{now} {longer}")

    def _last(self) -> tuple[float, float]:
        try:
            at, step = map(float, read_start(self._path, 100).split())
        except ValueError:
            return 0.0, 0.0
        return at, step


VARIABLE = "REMAND_NOTIFY"
_LOCK_VARIABLE = "REMAND_NOTIFY_LOCK"
"""Gives a process that sends notices the descriptor of its lock."""
AGENTS_MARK = "REMAND_TASK"
_AGENT_VARIABLES = (AGENTS_MARK, "REMAND_ACTOR", "REMAND_HANDOFF")
_LOCAL = ("file", "syslog", "dbus", "macosx", "windows")
"""Only the user's own file may name these kinds, since they act on this machine."""
_MAX_FILE = 1 << 16
_LINE = lazy_pattern(
    r"(?:(?P<name>[a-z0-9][a-z0-9-]{0,30})\s*=\s*)?(?P<url>(?P<kind>[a-z][a-z0-9.+-]{0,30})://\S+)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,30}\s*=\s*)?\S+", re.IGNORECASE)
"""One address in the variable; spaces separate addresses as well as lines do."""


class ChannelAddress(NamedTuple):
    name: str
    url: str


class ChannelAddresses(NamedTuple):
    """The channels, and what is wrong with other lines, without quoting addresses."""

    channels: tuple[ChannelAddress, ...]
    problems: tuple[str, ...] = ()


def private_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """Environment variables to withhold from the process that sends notices: who an agent is, and channels it
    may have set.
    """
    return (*_AGENT_VARIABLES, VARIABLE) if AGENTS_MARK in environment else _AGENT_VARIABLES


def start_delivery(folder: str, root: str, environment: Mapping[str, str]) -> None:
    """Starts a process that sends notices, unless one is already running: no command waits for a channel."""
    if _LOCK_VARIABLE in environment:
        return  # this is that process
    private = private_variables(environment)
    own = {name: value for name, value in environment.items() if not name.startswith(private)}
    background_runs.BackgroundRuns(folder).start(
        "notify", [*COMMAND_LINE, "-C", root, "notify", "--paced"], own, _LOCK_VARIABLE
    )


def release_delivery() -> None:
    """Lets commands start another process that sends notices, if this is the one that they rely on."""
    with suppress(ValueError, OSError):
        os.close(int(os.environ.get(_LOCK_VARIABLE, "")))


def read_addresses() -> ChannelAddresses:
    """All channels that the user configured. In an agent's environment, the variable is ignored."""
    path = addresses_file()
    lines, problem = _lines(path)
    named = [] if os.environ.get(AGENTS_MARK) else _NAMED.findall(os.environ.get(VARIABLE, ""))
    problems = [problem] if problem else []
    addresses: list[ChannelAddress] = []
    for number, word in enumerate((*named, *lines), start=1):
        match = _LINE.fullmatch(word)
        if match is None:
            problems.append(f"channel {number} is not an address; write it as kind://…, one a line in {path}")
            continue
        if number <= len(named) and match["kind"].lower() in _LOCAL:
            problems.append(
                f"{VARIABLE} may not name {match['kind']}://, which writes on this machine; add it to {path}"
            )
            continue
        name, names = match["name"] or match["kind"].lower(), {other.name for other in addresses}
        numbered = (name if n == 1 else f"{name}-{n}" for n in range(1, len(addresses) + 2))
        unique = next(one for one in numbered if one not in names)
        addresses.append(ChannelAddress(unique, match["url"]))
    return ChannelAddresses(tuple(addresses), tuple(problems))


def addresses_file() -> str:
    """The user's own file of addresses."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "remand", "notify.urls")


def _lines(path: str) -> tuple[list[str], str]:
    """The file's lines without comments, and why it cannot be used."""
    try:
        opened = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return [], ""
    except OSError as error:
        return [], f"{path} cannot be read: {error.strerror}"
    with open(opened, encoding="utf-8", errors="replace") as file:
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode) or status.st_uid != os.getuid() or status.st_mode & 0o077:
            return [], f"{path} can be read by others; run `chmod 600 {path}`"
        rows = (row.strip() for row in file.read(_MAX_FILE).splitlines())
        return [row for row in rows if row and not row.startswith("#")], ""

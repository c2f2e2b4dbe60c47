"""The addresses of the user's channels, read from their own file and the environment. Read at the end of every call."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping

from remand.domain.record import NamedTuple
from remand.startup import lazy_pattern

VARIABLE = "REMAND_NOTIFY"
AGENTS_MARK = "REMAND_TASK"
_AGENT_VARIABLES = (AGENTS_MARK, "REMAND_ACTOR", "REMAND_HANDOFF")
_LOCAL = ("file", "syslog", "dbus", "macosx", "windows")
"""Only the user's own file may name these: they write on this machine."""
_MAX_FILE = 1 << 16
_LINE = lazy_pattern(
    r"(?:(?P<name>[a-z0-9][a-z0-9-]{0,30})\s*=\s*)?(?P<url>(?P<kind>[a-z][a-z0-9.+-]{0,30})://\S+)",
    re.IGNORECASE,
)
_NAMED = re.compile(r"(?:[a-z0-9][a-z0-9-]{0,30}\s*=\s*)?\S+", re.IGNORECASE)
"""One address of the variable, where spaces separate them as well as lines."""


class ChannelAddress(NamedTuple):
    name: str
    url: str


class ChannelAddresses(NamedTuple):
    """The channels, and what is wrong with other lines; never an address itself."""

    channels: tuple[ChannelAddress, ...]
    problems: tuple[str, ...] = ()


def private_variables(environment: Mapping[str, str]) -> tuple[str, ...]:
    """What of an environment is not for the process that sends notices: who an agent is, and channels it may have named."""
    return (*_AGENT_VARIABLES, VARIABLE) if AGENTS_MARK in environment else _AGENT_VARIABLES


def read_addresses() -> ChannelAddresses:
    """Every channel that the user has named. Inside an agent's environment, that of the environment does not count."""
    path = addresses_file()
    lines, problem = _lines(path)
    named = [] if os.environ.get(AGENTS_MARK) else _NAMED.findall(os.environ.get(VARIABLE, ""))
    problems = [problem] if problem else []
    found: list[ChannelAddress] = []
    for number, word in enumerate((*named, *lines), start=1):
        match = _LINE.fullmatch(word)
        if match is None:
            problems.append(f"channel {number} is no address; write it as kind://…, one a line in {path}")
            continue
        if number <= len(named) and match["kind"].lower() in _LOCAL:
            problems.append(
                f"{VARIABLE} may not name {match['kind']}://, which writes on this machine; add it to {path}"
            )
            continue
        name, taken = match["name"] or match["kind"].lower(), {other.name for other in found}
        numbered = (name if n == 1 else f"{name}-{n}" for n in range(1, len(found) + 2))
        unique = next(one for one in numbered if one not in taken)
        found.append(ChannelAddress(unique, match["url"]))
    return ChannelAddresses(tuple(found), tuple(problems))


def addresses_file() -> str:
    """The user's own file of addresses."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    if not os.path.isabs(base):
        base = os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "remand", "notify.urls")


def _lines(path: str) -> tuple[list[str], str]:
    """The lines of the file without comments, and why it cannot be used."""
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

"""The agent hosts, and our entries in their settings in the worktrees of a ledger."""

from __future__ import annotations

from remand.adapters.git import repository
from remand.adapters.hosts import checks, installation
from remand.adapters.hosts.host import READERS
from remand.adapters.hosts.table import HOSTS
from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from remand.adapters.git.location import LedgerLocation
    from remand.adapters.hosts.table import Host
    from remand.app.ports import HookCheck, Installation


def host_names() -> tuple[str, ...]:
    """The hosts that Remand knows."""
    return tuple(HOSTS)


def load_host(name: str) -> Host | None:
    """A host by its name; None when there is no such host."""
    return HOSTS.get(name)


def settings_files() -> tuple[str, ...]:
    """The files that hold hosts' hooks: in a project, and behind `~` in a home folder."""
    return tuple(path for host in HOSTS.values() for path in host.SETUP.paths)


def guarded_files() -> tuple[str, ...]:
    """The files of a project that no agent may change: they say how its work is judged."""
    return ("remand.toml", *(name for name in settings_files() if not name.startswith("~")))


def server_files() -> tuple[str, ...]:
    """The files of a project that name our MCP server."""
    return tuple(host.SETUP.server.path for host in HOSTS.values() if host.SETUP.server.path)


def is_reading_tool(name: str) -> bool:
    """True for a tool of a host that changes nothing."""
    return name in READERS


def _worktrees(place: LedgerLocation) -> installation.Worktrees:
    """The main worktree and the current one, with what git knows of their files."""
    return {root: repository.GitTrackedFiles(place, root) for root in (place.root, place.worktree)}


def install_hosts(
    place: LedgerLocation, names: Sequence[str], executable: str, *, is_portable: bool = False
) -> Installation:
    """Installs our hooks and our MCP server here and in the main worktree."""
    return installation.install_hosts(_worktrees(place), names, executable, is_portable=is_portable)


def check_hook(name: str, place: LedgerLocation, seconds: float = 0.0) -> HookCheck:
    """Whether a host's installed stop hook works; it has to answer within so many seconds."""
    tracking = repository.GitTrackedFiles(place, place.worktree)
    return checks.check_hook(name, place.worktree, tracking, seconds or checks.SECONDS)


def remove_hosts(place: LedgerLocation) -> Installation:
    """Takes our hooks and our MCP server out of every host's files, here and in the main worktree."""
    return installation.remove_hosts(_worktrees(place))


def outdated_hosts(place: LedgerLocation) -> list[str]:
    """The hosts whose tracked files hold entries of ours with the path of a machine, as earlier versions wrote them."""
    return installation.outdated_hosts(_worktrees(place))


def installed_hosts(root: str) -> list[str]:
    """The hosts whose settings in a worktree have an entry of ours, or cannot be read."""
    return checks.installed_hosts(root)


def missing_hooks(name: str, roots: Sequence[str]) -> str:
    """What keeps a host's hooks in a project from being called; empty when they are there."""
    return checks.missing_hooks(name, roots)


def setup_hints(name: str, executable: str) -> list[str]:
    """What a person still has to do after a host's hooks and our MCP server are installed."""
    return checks.setup_hints(name, executable)


def read_settings(path: str) -> str:
    """What a settings file holds; empty when it is not there."""
    return installation.read_settings(path) or ""


def write_settings(path: str, text: str) -> None:
    """Replaces a settings file in one step."""
    installation.write_settings(path, text)

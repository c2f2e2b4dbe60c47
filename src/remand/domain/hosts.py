"""The agent hosts that Remand knows, and which uncommitted files belong to their set-up and not to an agent's work."""

from __future__ import annotations

from remand.startup import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable


HOSTS = ("claude", "codex", "copilot", "cursor", "gemini", "qwen", "openhands")
DIRECTOR_COMMANDS = {
    "claude": '["claude", "-p"]',
    "codex": '["codex", "exec", "-"]',
    "gemini": '["gemini"]',
    "qwen": '["qwen"]',
}
"""By which command a host decides on a rejection: it reads a prompt on standard input and prints its answer alone."""


class SetupFiles:
    """The files of the set-up, by their names from the worktree's root."""

    __slots__ = ("_guarded", "_written")

    def __init__(self, written: Iterable[str] = (), guarded: Iterable[str] = ()) -> None:
        self._guarded = frozenset(guarded)
        """Files that an agent may not change. Hosts rewrite some of them, and no agent is sent back for that."""
        self._written = self._guarded | frozenset(written)
        """Files that `remand init` writes. Until somebody commits one, it is nobody's work."""

    def is_work(self, path: str, *, is_tracked: bool) -> bool:
        """Whether a changed file, or a folder of new ones (`name/`), is something that an agent has to commit."""
        if is_tracked:
            return path not in self._guarded
        if path.endswith("/"):
            return not any(name.startswith(path) for name in self._written)
        return path not in self._written

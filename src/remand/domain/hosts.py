"""The supported agent hosts, and which uncommitted files belong to their set-up rather than to an agent's work."""

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
"""The command with which a host decides on a rejection: prompt on standard input, only the answer on output."""


class SetupFiles:
    """The files of the set-up, relative to the worktree's root."""

    __slots__ = ("_guarded", "_written")

    def __init__(self, written: Iterable[str] = (), guarded: Iterable[str] = ()) -> None:
        self._guarded = frozenset(guarded)
        """Files that an agent may not change. As hosts rewrite some of them, no agent is sent back for a change."""
        self._written = self._guarded | frozenset(written)
        """Files written by `remand init`. Until somebody commits one, it does not count as work."""

    def is_work(self, path: str, *, is_tracked: bool) -> bool:
        """Whether a changed file, or a folder of new ones (`name/`), must be committed by the agent."""
        if is_tracked:
            return path not in self._guarded
        if path.endswith("/"):
            return not any(name.startswith(path) for name in self._written)
        return path not in self._written

"""Hosts of a server: each a machine with a home, state and clone of its own, and no ledger."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from tests.integration.machine import Machine, Repository, Said


class ServerHost:
    """One machine that speaks to a server."""

    def __init__(self, source: Path, url: str, token: str) -> None:
        self.machine = Machine()
        self.machine.environment |= {"REMAND_SERVER": url, "REMAND_TOKEN": token}
        self.machine.git(self.machine.folder, "clone", "-q", str(source), str(self.machine.folder / "clone"))
        self.clone = Repository(self.machine, self.machine.folder / "clone")

    def call(self, *arguments: str, stdin: str = "", env: Mapping[str, str] | None = None) -> Said:
        return self.machine.remand(self.clone.path, "--json", *arguments, stdin=stdin, env=env)

    def commit(self, branch: str, name: str, text: str = "text\n") -> str:
        """A commit on a branch of its own in the clone."""
        self.machine.git(self.clone.path, "switch", "-q", "-C", branch, "origin/main")
        (self.clone.path / name).write_text(text)
        self.machine.git(self.clone.path, "add", name)
        self.machine.git(self.clone.path, "commit", "-q", "-m", f"adds {name}")
        return self.machine.git(self.clone.path, "rev-parse", "HEAD").strip()

    def stop(self, task: str, agent: str, session: str = "s-1") -> Said:
        """A session of an agent host that wants to end."""
        payload = {"session_id": session, "cwd": str(self.clone.path), "hook_event_name": "Stop"}
        return self.machine.remand(
            self.clone.path,
            *("hook", "--host", "claude", "Stop"),
            stdin=json.dumps(payload),
            env={"REMAND_TASK": task, "REMAND_ACTOR": agent},
        )

    def close(self) -> None:
        self.machine.close()


def user_token(place: Repository) -> str:
    """A token of the user's own."""
    return str(place.ok("token", "create", "--member", "user", "--role", "user")["token"])

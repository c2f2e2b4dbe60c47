"""Runs the command of a piece of evidence again: in the sandbox, at a commit, and only if the policy allows it."""

from __future__ import annotations

import os

from remand.app.gates.ports import MIB, Checkouts, Ended, Job, Limits, Mirror, Sandbox
from remand.app.ports import Outcome
from remand.domain.gates.gate import GatePolicy

SECONDS = 30.0
"""How long the commands of one rejection may take, together."""
NOT_STARTED = (126, 127)
"""The statuses by which a shell or a sandbox says that there is no such program."""
UNCONFINED = "plain"


class SandboxProbes:
    """Runs what agents name as evidence. They choose the words, so nothing runs where nothing confines it."""

    def __init__(
        self,
        mirror: Mirror,
        checkouts: Checkouts,
        sandbox: Sandbox,
        policy: GatePolicy,
        *,
        root: str = "",
        path: tuple[str, ...] = (),
        hide: tuple[str, ...] = (),
    ) -> None:
        self._mirror = mirror
        self._checkouts = checkouts
        self._sandbox = sandbox
        self._policy = policy
        self._path = tuple(os.path.join(root, name) for name in policy.path) or path
        self._hide = hide
        self._left = SECONDS

    def run(self, command: tuple[str, ...], commit: str) -> Outcome | None:
        """What the command shows at a commit; None when it may not run, or could not."""
        if not is_allowed(command, self._policy.probes) or self._sandbox.tier == UNCONFINED:
            return None
        if self._left <= 0:
            return None
        tree = self._mirror.bring(commit)
        with self._checkouts.lend(tree) as folder:
            ended = self._sandbox.run(self._job(command, folder))
        self._left -= ended.seconds
        return _outcome(ended)

    def _job(self, command: tuple[str, ...], folder: str) -> Job:
        return Job(
            command=command,
            folder=folder,
            read=self._policy.read,
            hide=self._hide,
            path=self._path,
            limits=Limits(seconds=self._left, output=MIB),
        )


def is_allowed(command: tuple[str, ...], probes: tuple[tuple[str, ...], ...]) -> bool:
    """True when a command begins with the very words of one that the policy lists."""
    return any(prefix and command[: len(prefix)] == prefix for prefix in probes)


def _outcome(ended: Ended) -> Outcome | None:
    if ended.how != "exited" or ended.status in NOT_STARTED:
        return None
    said = b"\n".join(filter(None, (ended.output, ended.errors))).decode("utf-8", "replace")
    return Outcome(ended.status, said, ended.is_cut)

"""Done claims that the scheduler makes for agents whose session has ended: our own command line, in a process of its own.

What measures takes memory and minutes, and neither belongs to a process that stays.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import msgspec

from remand.app.scheduling.ports import CannotRun, Submitted, Workplace

SECONDS = 6 * 3600.0
_MAX_SAID = 2000
_REFUSED = 1
_decode = msgspec.json.Decoder(dict).decode


class CommandClaims:
    """Calls `remand task submit` as the agent, from inside its place, with nothing of the agent's environment."""

    def __init__(self, module: str, environment: Mapping[str, str]) -> None:
        self._module = module
        self._environment = dict(environment)

    def submit(self, workplace: Workplace, agent: str, commit: str) -> Submitted:
        """Claims that a task is done at a commit."""
        command = (
            *(sys.executable, "-P", "-m", self._module, "--json", "-C", workplace.folder),
            *("task", "submit", workplace.task_id, "--agent", agent, "--commit", commit),
            *("--branch", workplace.branch),
        )
        identity = {"REMAND_TASK": workplace.task_id, "REMAND_ACTOR": agent}
        try:
            ended = subprocess.run(
                command,
                cwd=os.path.dirname(workplace.common_dir),
                env=self._environment | identity,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=SECONDS,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise CannotRun("gates", f"The gates could not be run: {error}") from None
        return _answer(ended)


def _answer(ended: subprocess.CompletedProcess[bytes]) -> Submitted:
    if ended.returncode == 0:
        return Submitted()
    said = ended.stderr.decode("utf-8", "replace").strip()[-_MAX_SAID:]
    if ended.returncode == _REFUSED:
        try:
            told = _decode(ended.stdout)
        except msgspec.MsgspecError:
            told = {}
        return Submitted(str(told.get("refused") or "refused"), str(told.get("message") or said))
    raise CannotRun("gates", f"A done claim could not be measured: {said or f'exit {ended.returncode}'}")

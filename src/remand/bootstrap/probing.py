"""The sandbox in which the commands of evidence are run again."""

from __future__ import annotations

import os

from remand.adapters.git.checkouts import best_checkouts
from remand.adapters.git.mirror import GitMirror
from remand.adapters.git.place import Place
from remand.adapters.measuring.tools import standard_path
from remand.adapters.sandbox.choose import best
from remand.adapters.system.folders import runtime_folder, state_folder
from remand.app.gates.probing import SandboxProbes
from remand.bootstrap.quick import gates_folder
from remand.domain.gates.gate import GatePolicy


def command_probes(place: Place, ledger_id: str, policy: GatePolicy) -> SandboxProbes:
    """Runs the commands that the policy lets evidence name."""
    folder = gates_folder(ledger_id)
    mirror = GitMirror(os.path.join(folder, "mirror.git"), place.common_dir)
    return SandboxProbes(
        mirror,
        best_checkouts(mirror, os.path.join(folder, "checkouts")),
        best(),
        policy,
        root=place.root,
        path=standard_path(),
        hide=(place.got, state_folder(), runtime_folder()),
    )

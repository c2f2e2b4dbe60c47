"""Chooses the best sandbox that really holds on this machine."""

from __future__ import annotations

import os
import sys
import tempfile
import threading
from functools import cache

from remand.adapters.sandbox.bubblewrap import Bubblewrap, find
from remand.adapters.sandbox.landlock import Landlock
from remand.adapters.sandbox.plain import Plain
from remand.app.gates.ports import Job, Limits

Chosen = Bubblewrap | Landlock | Plain

# Exits with 0 when it can write where it runs, and neither read nor write what is masked.
TRIAL = 'echo mine > own && ! cat "$1/secret" 2>/dev/null && ! (echo more > "$1/more") 2>/dev/null'
TRIAL_SECONDS = 20.0
_choosing = threading.Lock()


def best() -> Chosen:
    """The best sandbox to be had; its `detail` says why no better one is. Tried out once in a process."""
    with _choosing:
        return _best()


@cache
def _best() -> Chosen:
    if sys.platform != "linux":
        return Plain(detail="Only Linux has a sandbox that Remand knows.")
    missing = []
    path = find()
    fault = fault_of(Bubblewrap(path)) if path else "not installed (the package is called bubblewrap)"
    if not fault:
        return Bubblewrap(path)
    missing.append(f"bubblewrap: {fault}")
    for has_namespaces in (True, False):
        fault = fault_of(Landlock(has_namespaces=has_namespaces))
        if not fault:
            return Landlock(has_namespaces=has_namespaces, detail="; ".join(missing))
        missing.append(f"{'namespaces' if has_namespaces else 'landlock'}: {fault}")
    return Plain(detail="; ".join(missing))


def fault_of(sandbox: Chosen) -> str:
    """What keeps a sandbox from holding, found out with a small job; empty for nothing."""
    with tempfile.TemporaryDirectory(prefix="remand-trial-") as root:
        own, masked = os.path.join(root, "own"), os.path.join(root, "masked")
        os.mkdir(own)
        os.mkdir(masked)
        with open(os.path.join(masked, "secret"), "w", encoding="ascii") as file:
            file.write("secret")
        ended = sandbox.run(
            Job(
                command=("/bin/sh", "-c", TRIAL, "sh", masked),
                folder=own,
                read=(root,),
                hide=(masked,),
                limits=Limits(seconds=TRIAL_SECONDS),
            )
        )
        if ended.how == "exited" and ended.status == 0:
            return ""
        said = ended.errors.decode("utf-8", "replace").strip()
        return (
            " ".join(part for part in (ended.detail, said) if part)
            or "it does not keep a job from masked files"
        )

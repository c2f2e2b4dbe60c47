"""A scripted agent: a process of its own that knows nothing but git and the command line.

Started as `python -m remand.interfaces.demo.agent NAME PLAN`, in the repository's main worktree. A plan is a
JSON object: what to claim, which file to write, whether to hang in the middle. It prints what it did as JSON.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any


def main() -> None:
    """Claims, works, commits, hands in; tells each answer."""
    name, plan = sys.argv[1], json.loads(sys.argv[2])
    told: list[dict[str, Any]] = []
    claim = _remand(name, "task", "claim", *plan.get("claim", []))
    told.append({"step": "claim", "answer": claim})
    _tell(told)
    if "refused" in claim or plan.get("only_claims"):
        return
    task, branch = claim["task_id"], claim["branch"] or f"work/{name.lower()}"
    told.append({"step": "prompt", "answer": _remand(name, "task", "prompt", task)})
    if plan.get("hangs"):
        _tell(told)
        time.sleep(600)
    folder = _worktree(branch)
    commit = _commit(folder, name, plan["file"], plan["text"], plan["message"])
    answer = _remand(name, "task", "submit", task, "--commit", commit, "--branch", branch, folder=folder)
    told.append({"step": "submit", "answer": answer, "commit": commit})
    _tell(told)


def _tell(told: list[dict[str, Any]]) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _remand(name: str, *arguments: str, folder: str = ".") -> dict[str, Any]:
    call = [sys.executable, "-m", "remand.interfaces.cli.entry", *arguments, "--agent", name, "--json"]
    done = subprocess.run(call, cwd=folder, capture_output=True, text=True, check=False)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _worktree(branch: str) -> str:
    """A worktree on the branch: the same one on rework, a new one otherwise."""
    folder = os.path.abspath(os.path.join("..", "worktrees", branch.replace("/", "-")))
    if not os.path.isdir(folder):
        known = subprocess.run(
            ["git", "rev-parse", "--verify", "-q", branch], capture_output=True, check=False
        )
        new = [] if known.returncode == 0 else ["-b", branch]
        _git(".", "worktree", "add", "-q", *new, folder, *([branch] if not new else []))
    return folder


def _commit(folder: str, name: str, file: str, text: str, message: str) -> str:
    path = os.path.join(folder, file)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w", encoding="utf-8") as out:
        out.write(text)
    _git(folder, "add", file)
    _git(folder, "-c", f"user.name={name}", "-c", f"user.email={name}@demo", "commit", "-q", "-m", message)
    return _git(folder, "rev-parse", "HEAD")


def _git(folder: str, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True)
    return done.stdout.strip()


if __name__ == "__main__":
    main()

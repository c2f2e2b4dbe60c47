"""A scripted agent on a host of a server: claims, commits and submits by the command line until nothing is left.

Started as `host_agent.py AGENT CLONE REMAND`. It prints a line of JSON for each task, with what it was answered.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

AWAY = 3


def main() -> None:
    agent, clone, remand = sys.argv[1], Path(sys.argv[2]), sys.argv[3]

    def call(*words: str) -> tuple[int, dict[str, Any]]:
        done = subprocess.run([remand, "--json", *words], cwd=clone, capture_output=True, check=False)
        return done.returncode, json.loads(done.stdout)

    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=clone, capture_output=True, check=True, text=True).stdout

    while True:
        code, claimed = call("task", "claim", "--agent", agent)
        if code:
            assert claimed.get("refused") == "nothing_to_claim", claimed
            return
        task = claimed["task_id"]
        git("switch", "-q", "-c", f"work-{task}", "origin/main")
        (clone / f"{task}.txt").write_text(f"{agent}\n")
        git("add", ".")
        git("commit", "-q", "-m", f"work of {agent}")
        commit = git("rev-parse", "HEAD").strip()
        options = ("--agent", agent, "--handoff", claimed["handoff_id"], "--commit", commit)
        code, answer = call("task", "submit", task, *options)
        said = {"task": task, "agent": agent, "commit": commit, "code": code, "answer": answer}
        print(json.dumps(said), flush=True)


if __name__ == "__main__":
    main()

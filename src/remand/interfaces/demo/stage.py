"""Where the story is played: a repository in a folder of its own, and processes that work in it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from remand.config import inherited_environment

CONFIG = """\
[project]
base = "main"

[team]
members = [
  {{name = "Fenster",   role = "agent", skills = ["frontend"]}},
  {{name = "Hockney",   role = "agent", skills = ["frontend", "accessibility"]}},
  {{name = "McManus",   role = "agent", skills = ["backend"]}},
  {{name = "Kobayashi", role = "agent", skills = ["backend"]}},
  {{name = "Lead",      role = "lead"}},
  {{name = "owner",     role = "user", aliases = ["user"]}},
]

[gates]
{gates}
[policy]
lease = "{lease}"
"""
READY_SECONDS = 15.0


class Stage:
    """A folder with a repository, and everything that runs in it."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.repository = os.path.join(folder, "repository")
        self._say = say
        kept = inherited_environment("REMAND_", "GIT_")
        self._environment = kept | {
            "XDG_STATE_HOME": os.path.join(folder, "state"),
            "GIT_CONFIG_GLOBAL": os.devnull,
            "GIT_AUTHOR_NAME": "owner",
            "GIT_AUTHOR_EMAIL": "owner@demo",
            "GIT_COMMITTER_NAME": "owner",
            "GIT_COMMITTER_EMAIL": "owner@demo",
        }
        self._running: list[subprocess.Popen[str]] = []

    def git(self, *arguments: str, folder: str = "") -> str:
        """Runs git, and fails loudly."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder or self.repository,
            env=self._environment,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()

    def remand(self, *arguments: str, folder: str = "", is_quiet: bool = False) -> Any:
        """Runs the command line, says so, and returns its answer."""
        if not is_quiet:
            self._say("$ remand " + " ".join(_quoted(word) for word in arguments))
        done = subprocess.run(
            [sys.executable, "-m", "remand.interfaces.cli.entry", *arguments, "--json"],
            cwd=folder or self.repository,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        if not done.stdout:
            raise RuntimeError(f"remand {' '.join(arguments)}: {done.stderr}")
        return json.loads(done.stdout)

    def log_lines(self, name: str) -> list[str]:
        """The lines of the orchestration log that name a task."""
        folder = os.path.join(self.repository, ".got", "orchestration-log")
        lines: list[str] = []
        for file in sorted(os.listdir(folder)):
            with open(os.path.join(folder, file), encoding="utf-8") as log:
                lines += [line.rstrip("\n") for line in log if name in line]
        return lines

    def start_agent(self, name: str, **plan: Any) -> subprocess.Popen[str]:
        """Starts an agent as a process of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "remand.interfaces.demo.agent", name, json.dumps(plan)],
            cwd=self.repository,
            env=self._environment | {"REMAND_ACTOR": name},
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def finish(self, process: subprocess.Popen[str]) -> dict[str, Any]:
        """Waits for an agent; its last words are its answers by step."""
        out, _ = process.communicate(timeout=60)
        steps = json.loads(out.strip().split("\n")[-1])
        return {step["step"]: step["answer"] | {"at": step.get("commit", "")} for step in steps}

    def first_words(self, process: subprocess.Popen[str], lines: int) -> dict[str, Any]:
        """What an agent has said so far, once it has said that many lines."""
        out = ""
        for _ in range(lines):
            out = process.stdout.readline() if process.stdout else ""
        return {step["step"]: step["answer"] for step in json.loads(out)}

    def start_coordinator(self) -> subprocess.Popen[str]:
        """Starts the resident process, and waits until it listens."""
        process = subprocess.Popen(
            [sys.executable, "-m", "remand.interfaces.cli.entry", "serve", "--no-http"],
            cwd=self.repository,
            env=self._environment,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        if process.stdout:
            process.stdout.readline()
        return process

    def kill(self, process: subprocess.Popen[str]) -> None:
        """Kills a process as a crash would."""
        process.send_signal(signal.SIGKILL)
        process.wait()

    def configure(self, lease: str, gates: str = "") -> None:
        """Commits the configuration on the base branch."""
        self.write({"remand.toml": CONFIG.format(lease=lease, gates=gates)})
        self.commit(f"config: leases of {lease}, {'gates' if gates else 'no gates'}")

    def write(self, files: dict[str, str]) -> None:
        """Writes files of the repository."""
        for name, text in files.items():
            path = os.path.join(self.repository, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
            self.git("add", name)

    def commit(self, message: str) -> None:
        """Commits what was written."""
        self.git("commit", "-q", "-m", message)

    def wait_for(self, seconds: float) -> None:
        """Lets time pass."""
        time.sleep(seconds)

    def close(self) -> None:
        """Ends everything that still runs."""
        for process in self._running:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


def _quoted(word: str) -> str:
    return f"'{word}'" if " " in word or "#" in word else word

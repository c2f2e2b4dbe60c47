"""Where the story is played: a repository in a folder of its own, and the processes that work in it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from remand.config import inherited_environment
from remand.interfaces.demo.telling import fail

ENTRY = (sys.executable, "-P", "-m", "remand.interfaces.cli.entry")
END_SECONDS = 20.0
OWNER = {
    f"GIT_{role}_{part}": value
    for role in ("AUTHOR", "COMMITTER")
    for part, value in (("NAME", "owner"), ("EMAIL", "owner@demo"))
}


class Stage:
    """A folder with a repository. Whatever runs there has its home and all its folders in it."""

    def __init__(self, folder: str, say: Callable[[str], None]) -> None:
        self.folder = folder
        self.repository = os.path.join(folder, "repository")
        self._say = say
        # A socket's path is short, so its folder is not where the repository may be kept.
        self._sockets = tempfile.mkdtemp(prefix="remand-demo-run-")
        own = {name: os.path.join(folder, name) for name in ("home", "state", "tmp")}
        for path in (self.repository, *own.values()):
            os.makedirs(path, mode=0o700, exist_ok=True)
        self._environment = inherited_environment("REMAND_", "GIT_", "XDG_", "CLAUDE") | {
            "HOME": own["home"],
            "TMPDIR": own["tmp"],
            "XDG_STATE_HOME": own["state"],
            "XDG_RUNTIME_DIR": self._sockets,
            "GIT_CONFIG_GLOBAL": os.devnull,
            **OWNER,
        }
        self._scheduler: subprocess.Popen[str] | None = None

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
            self._say("$ remand " + " ".join(map(_quoted, arguments)))
        done = subprocess.run(
            [*ENTRY, *arguments, "--json"],
            cwd=folder or self.repository,
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        if not done.stdout:
            fail(f"remand {' '.join(arguments)} says nothing but {done.stderr}")
        return json.loads(done.stdout)

    def write(self, files: dict[str, str]) -> None:
        """Writes files of the repository, and has git take them."""
        for name, text in files.items():
            path = os.path.join(self.repository, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        self.git("add", "--", *files)

    def read(self, name: str) -> str:
        """What a file of the repository holds."""
        with open(os.path.join(self.repository, name), encoding="utf-8") as file:
            return file.read()

    def log_of(self, run_id: str) -> str:
        """What an agent has said in a run."""
        state = os.path.join(self.folder, "state", "remand")
        for ledger in os.listdir(state):
            with (
                suppress(OSError),
                open(os.path.join(state, ledger, "logs", f"{run_id}.log"), encoding="utf-8") as log,
            ):
                return log.read()
        return ""

    def start_scheduler(self) -> None:
        """Starts `remand run`."""
        self._say("$ remand run")
        with open(os.path.join(self.folder, "scheduler.log"), "a", encoding="utf-8") as log:
            self._scheduler = subprocess.Popen(
                [*ENTRY, "run", "--json"],
                cwd=self.repository,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def kill_scheduler(self) -> None:
        """Kills it as a crash would."""
        if self._scheduler is not None:
            self._say(f"$ kill -9 {self._scheduler.pid}")
            self._scheduler.send_signal(signal.SIGKILL)
            self._scheduler.wait()

    def stop_scheduler(self) -> None:
        """Asks it to end, and makes it when it stays."""
        scheduler, self._scheduler = self._scheduler, None
        if scheduler is None or scheduler.poll() is not None:
            return
        scheduler.terminate()
        try:
            scheduler.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            scheduler.kill()
            scheduler.wait()

    @property
    def complaint(self) -> str:
        """Why the scheduler has ended; empty while it runs."""
        if self._scheduler is None or self._scheduler.poll() is None:
            return ""
        with open(os.path.join(self.folder, "scheduler.log"), encoding="utf-8") as log:
            return f"the scheduler ended with {self._scheduler.returncode}: {log.read()[-500:]}"

    def close(self) -> None:
        """Ends everything that still runs."""
        self.stop_scheduler()
        shutil.rmtree(self._sockets, ignore_errors=True)


def _quoted(word: str) -> str:
    return f'"{word}"' if " " in word or "#" in word else word

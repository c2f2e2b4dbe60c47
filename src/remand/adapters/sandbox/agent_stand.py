"""A small world to start an agent in: a repository, a ledger, keys, another worktree, and whom it must not reach."""

from __future__ import annotations

import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

import msgspec

from remand.adapters.sandbox.agent_view import BASE_OBJECTS
from remand.adapters.sandbox.masks import homes
from remand.adapters.sandbox.setting import SYSTEM_PATH
from remand.app.scheduling.ports import Bounds, Order, Workplace

# Stands for the coordinator. It gives up what would keep even the same user from it.
COORDINATOR = """
import ctypes, sys
libc = ctypes.CDLL(None)
if sys.platform == "linux":
    libc.capset((ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)())
    libc.prctl(4, 1, 0, 0, 0)
    libc.prctl(0x59616D61, ctypes.c_ulong(-1), 0, 0, 0)
sys.stdout.write("there\\n")
sys.stdout.flush()
sys.stdin.read()
"""
TASK, OTHER = "T-1", "T-2"
GIT_SECONDS = 30.0
SECONDS = 30.0
NO_SETTINGS = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
IDENTITY = "[user]\n\tname = probe\n\temail = probe\n"
PRIVATE_CONFIG = f"[core]\n\trepositoryformatversion = 0\n\tbare = false\n{IDENTITY}"


class Stand:
    """Everything is below one folder that an agent may read, but for what is hidden from it."""

    def __init__(self, stack: ExitStack) -> None:
        self._stack = stack
        self.root = os.path.realpath(
            stack.enter_context(
                tempfile.TemporaryDirectory(prefix="remand-stand-", ignore_cleanup_errors=True)
            )
        )
        self.word = secrets.token_hex(16)
        """Stands in everything that an agent is not to read."""
        self.repository = self.path("repository")
        self.source = self.put(f"{self.repository}/source", self.word)
        self.ledger = self.put(f"{self.repository}/.got/ledger.db", self.word)
        self.key = self.put(self.path("state/keys/own"), self.word)
        self.secret = self._planted()
        self.workplace = self._workplace()
        self.other = self.put(self.path(f"work/{OTHER}/notes"), self.word)
        self.coordinator = self._coordinator()
        os.makedirs(self.path("run"))
        self.socket, self.door, self.other_door = (
            self._listening(self.path(f"run/{name}")) for name in ("coordinator", "own", "other")
        )
        self.named_socket = self._listening(f"@{self.word}")
        self.port = stack.enter_context(socket.create_server(("127.0.0.1", 0))).getsockname()[1]

    def path(self, name: str) -> str:
        """A path below the root."""
        return os.path.join(self.root, name)

    def put(self, path: str, content: str) -> str:
        """Writes a file, with the folders it is in."""
        os.makedirs(os.path.dirname(path), exist_ok=True)
        Path(path).write_text(content, encoding="utf-8")
        return path

    def order(self, *command: str, prompt: str = "", has_network: bool = False, **more: object) -> Order:
        """A run of an agent that is to see nothing but its own."""
        hide = tuple(self.path(name) for name in ("repository", "state", "work", "private", "run"))
        order = Order(
            run_id="R-1",
            agent="probe",
            command=command,
            prompt=prompt,
            workplace=self.workplace,
            door=self.door,
            log=self.path("logs/R-1"),
            bounds=Bounds(seconds=SECONDS, has_network=has_network, read=(self.root,), hide=hide),
        )
        return msgspec.structs.replace(order, **more)

    def git(self, folder: str, *arguments: str) -> str:
        """What git answers, whatever the user has set."""
        identity = {
            f"GIT_{who}_{what}": "probe" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder,
            env={"PATH": os.pathsep.join(SYSTEM_PATH), **NO_SETTINGS, **identity},
            capture_output=True,
            timeout=GIT_SECONDS,
            check=True,
        )
        return os.fsdecode(done.stdout).strip()

    def _workplace(self) -> Workplace:
        """A worktree as the scheduler makes them, and the git folder of its own that a confined agent sees."""
        self.git(self.repository, "init", "-q", "-b", "main")
        self.git(self.repository, "add", "source")
        self.git(self.repository, "commit", "-q", "-m", "Begin")
        common, folder = f"{self.repository}/.git", self.path(f"work/{TASK}")
        self.git(self.repository, "worktree", "add", "-q", "-b", TASK, folder)
        private = self.path(f"private/{TASK}")
        shutil.copytree(f"{common}/worktrees", f"{private}/worktrees")
        for name in (BASE_OBJECTS, "hooks"):
            os.mkdir(f"{private}/{name}")
        self.put(f"{private}/objects/info/alternates", f"../{BASE_OBJECTS}\n")
        self.put(f"{private}/HEAD", "ref: refs/heads/main\n")
        self.put(f"{private}/config", PRIVATE_CONFIG)
        self.put(f"{private}/refs/heads/{TASK}", self.git(folder, "rev-parse", "HEAD") + "\n")
        words = f"{IDENTITY}[probe]\n\tword = {self.word}\n"
        self.put(f"{common}/config", Path(common, "config").read_text(encoding="utf-8") + words)
        return Workplace(task_id=TASK, folder=folder, branch=TASK, common_dir=common, private_dir=private)

    def _planted(self) -> str:
        """A secret in the user's home; elsewhere when that cannot be written."""
        place = next((home for home in homes() if os.access(home, os.W_OK)), self.root)
        folder = tempfile.TemporaryDirectory(prefix=".remand-probe-", dir=place)
        return self.put(f"{self._stack.enter_context(folder)}/id_ed25519", self.word)

    def _coordinator(self) -> subprocess.Popen[bytes]:
        process = self._stack.enter_context(
            subprocess.Popen(
                [sys.executable, "-I", "-S", "-c", COORDINATOR],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={"REMAND_PROBE": self.word},
            )
        )
        if process.stdout is not None:
            process.stdout.readline()
        return process

    def _listening(self, path: str) -> str:
        listening = self._stack.enter_context(socket.socket(socket.AF_UNIX))
        listening.bind(path.replace("@", "\0", 1) if path.startswith("@") else path)
        listening.listen()
        return path

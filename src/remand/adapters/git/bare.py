"""A bare repository of our own, in which git knows no other configuration than the one written here."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import IO

from remand.adapters.git.repository import SAFE
from remand.app.errors import EnvironmentFault

SECONDS = 60.0
COSMETIC = (
    *("badDate", "badEmail", "badName", "badTimezone", "missingAuthor", "missingEmail"),
    *("missingNameBeforeEmail", "missingSpaceBeforeDate", "missingSpaceBeforeEmail", "missingTaggerEntry"),
    *("multipleAuthors", "nulInCommit", "zeroPaddedDate", "zeroPaddedFilemode"),
    *("gitmodulesBlob", "gitmodulesLarge", "gitmodulesMissing", "gitmodulesName", "gitmodulesParse"),
    *("gitmodulesPath", "gitmodulesSymlink", "gitmodulesUpdate", "gitmodulesUrl"),
)
"""What git finds wrong in old commits that does no harm here: who wrote when, and submodules, which are not used."""
_ALONE = SAFE | {
    "GIT_ALLOC_LIMIT": "1g",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_NO_REPLACE_OBJECTS": "1",
}
_CONFIG = f"""\
[core]
	repositoryformatversion = 1
	bare = true
	attributesfile = {os.devnull}
	excludesfile = {os.devnull}
	hookspath = {os.devnull}
	fsmonitor = false
	usereplacerefs = false
	commitgraph = false
	multipackindex = false
	logallrefupdates = false
	bigfilethreshold = 16m
	fsync = none
[extensions]
	objectformat = {{algorithm}}
[gc]
	auto = 0
[maintenance]
	auto = false
[pack]
	usebitmaps = false
[protocol]
	allow = never
[submodule]
	recurse = false
[fsck]
{"".join(f"	{name} = ignore" + chr(10) for name in COSMETIC)}"""
_MAX_SAID = 600


class Damaged(EnvironmentFault):
    """Objects are missing or cannot be read. Where our own repository is at fault, making it anew helps."""


class BareRepository:
    """A bare repository. It is made when it is first needed, and can be thrown away at any time."""

    def __init__(self, path: str) -> None:
        self.path = path

    def is_made(self, id_length: int) -> bool:
        """True when it is there, configured as it is to be, for ids of that length."""
        try:
            with open(os.path.join(self.path, "config"), encoding="utf-8", errors="replace") as file:
                return file.read(1 << 16) == _config(id_length)
        except OSError:
            return False

    def make(self, id_length: int) -> None:
        """Makes it anew, at a stroke: killed in between, it is not there."""
        self.remove()
        draft = tempfile.mkdtemp(prefix="new-", dir=os.path.dirname(self.path))
        for name in ("objects/info", "objects/pack", "refs/heads"):
            os.makedirs(os.path.join(draft, name), mode=0o700)
        for name, text in (("HEAD", "ref: refs/heads/none\n"), ("config", _config(id_length))):
            with open(os.path.join(draft, name), "w", encoding="utf-8") as file:
                file.write(text)
        os.rename(draft, self.path)

    def remove(self) -> None:
        """Takes it away, and what a killed process has left of others."""
        folder, name = os.path.split(self.path)
        if os.path.lexists(self.path):
            os.rename(self.path, tempfile.mkdtemp(prefix="old-", dir=folder))
        for left in os.listdir(folder):
            if left != name and left.startswith(("new-", "old-")):
                shutil.rmtree(os.path.join(folder, left), ignore_errors=True)

    def is_sound(self) -> bool:
        """Reads everything again; True when nothing is missing or damaged."""
        return not self.run("fsck", "--full", "--no-dangling", "--no-progress", seconds=600).returncode

    def environment(self, more: Mapping[str, str] | None = None) -> dict[str, str]:
        """The whole environment of a git process here."""
        own = {"PATH": os.environ.get("PATH", os.defpath), "HOME": self.path, "GIT_DIR": self.path}
        return own | _ALONE | dict(more or {})

    def start(
        self,
        *arguments: str,
        stdin: int | IO[bytes],
        stdout: int,
        stderr: int | IO[bytes] = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
    ) -> subprocess.Popen[bytes]:
        """Starts git here."""
        try:
            return subprocess.Popen(
                ["git", *arguments],
                cwd=self.path,
                env=self.environment(environment),
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
            )
        except OSError as error:
            raise _no_start(self.path, error) from None

    def run(
        self,
        *arguments: str,
        stdin: bytes = b"",
        environment: Mapping[str, str] | None = None,
        seconds: float = SECONDS,
    ) -> subprocess.CompletedProcess[bytes]:
        """Runs git here to its end."""
        try:
            return subprocess.run(
                ["git", *arguments],
                cwd=self.path,
                env=self.environment(environment),
                input=stdin,
                capture_output=True,
                timeout=seconds,
                check=False,
            )
        except OSError as error:
            raise _no_start(self.path, error) from None
        except subprocess.TimeoutExpired:
            raise EnvironmentFault(f"git {arguments[0]} did not end within {seconds:.0f} s.") from None

    def ask(self, *arguments: str) -> bytes:
        """What git answers; raises EnvironmentFault when it cannot."""
        answer = self.run(*arguments)
        if answer.returncode:
            raise Damaged(f"git {arguments[0]} failed: {said(answer.stderr)}")
        return answer.stdout


def _no_start(folder: str, error: OSError) -> EnvironmentFault:
    return EnvironmentFault(f"git cannot be started in {folder}: {error.strerror}. Is it installed, on PATH?")


def said(errors: bytes) -> str:
    """What git complained of, in one line without control characters."""
    text = re.sub(r"\s+", " ", errors[-_MAX_SAID:].decode("utf-8", "replace")).strip()
    return "".join(letter if letter.isprintable() else "?" for letter in text) or "it gave no reason"


def _config(id_length: int) -> str:
    return _CONFIG.format(algorithm="sha256" if id_length == 64 else "sha1")

"""Files of the repository at a commit, read with a limit on time and size."""

from __future__ import annotations

import os
import subprocess
import threading
from functools import cache, cached_property
from types import TracebackType
from typing import IO, Self

from remand.adapters.git.place import Place
from remand.adapters.git.repository import SAFE, SETTINGS, GitRepository, git
from remand.app.errors import EnvironmentFault
from remand.app.ports import Commit

SECONDS = 2.0
MAX_FILE = 4 << 20
MAX_TOTAL = 32 << 20
MAX_PATHS = 200_000


class GitSources:
    """Reads files by one pair of git processes, which are ended when the time is up."""

    def __init__(self, place: Place, base: str = "HEAD", seconds: float = SECONDS) -> None:
        self._place = place
        self._base = base
        self._repository = GitRepository(place)
        self._seconds = seconds
        self._left = MAX_TOTAL
        self._running: list[subprocess.Popen[bytes]] = []
        self._is_over = False
        self._timer: threading.Timer | None = None
        self.commit = cache(self._commit)
        self.paths = cache(self._paths)
        self.file = cache(self._file)

    def __enter__(self) -> Self:
        self._timer = threading.Timer(self._seconds, self._end)
        self._timer.daemon = True
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._end()

    def _commit(self, name: str) -> Commit | None:
        """The commit behind a name. `HEAD` means the base branch: the agent's own is no witness."""
        self._require_time()
        return self._repository.commit((self._tip if name == "HEAD" else "") or name)

    @cached_property
    def _tip(self) -> str:
        return self._repository.tip(self._base) or self._repository.origin_tip(self._base)

    def is_merged(self, commit: str) -> bool:
        """True when a commit is part of the base branch."""
        self._require_time()
        if not self._tip or commit == self._tip:
            return bool(self._tip)
        asked = git(self._place.worktree, "merge-base", "--is-ancestor", commit, self._tip)
        return asked.returncode == 0

    def merged(self, commit: str) -> str:
        """What a commit of the base branch says, and the paths it changes; empty for any other commit."""
        found = self.commit(commit)
        if found is None or not self.is_merged(found.sha):
            return ""
        told = git(
            self._place.worktree, "show", "--format=%B", "--name-only", "-m", "--first-parent", found.sha
        )
        return told.stdout[:4000].decode("utf-8", "replace")

    def _paths(self, commit: str) -> list[str]:
        """Every file's path at a commit."""
        self._require_time()
        answer = git(self._place.worktree, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        found = answer.stdout.split(b"\x00")
        if answer.returncode or len(found) > MAX_PATHS:
            raise EnvironmentFault("its files cannot be listed, or are too many")
        return [path.decode("utf-8", "replace") for path in found if path]

    def _file(self, commit: str, path: str) -> bytes | None:
        """A file's content at a commit; None when it is not there."""
        self._require_time()
        name = f"{commit}:{path}".encode("utf-8", "surrogateescape")
        if b"\n" in name or b"\x00" in name:
            return None
        size = self._asked(self._checks, name)
        if size is None:
            return None
        if size > MAX_FILE or size > self._left:
            raise EnvironmentFault(f"{path} is too large to look into ({size} bytes)")
        self._left -= size
        reads = self._reads
        if self._asked(reads, name) != size:
            raise EnvironmentFault(f"{path} cannot be read")
        try:
            content = _out(reads).read(size + 1)[:size]
        except ValueError:  # closed by the timer
            content = b""
        if len(content) != size:
            raise EnvironmentFault("reading took too long")
        return content

    def _asked(self, process: subprocess.Popen[bytes], name: bytes) -> int | None:
        """The size of a blob; None when there is no such blob."""
        if process.stdin is None:
            return None
        try:
            process.stdin.write(name + b"\n")
            process.stdin.flush()
            answer = _out(process).readline().rstrip(b"\n")
        except (OSError, ValueError):  # ended, or closed, by the timer
            raise EnvironmentFault("reading took too long") from None
        if not answer:
            raise EnvironmentFault("reading took too long")
        if answer.endswith(b" missing"):
            return None
        kind, _, size = answer.rpartition(b" ")
        if not kind.endswith(b" blob"):
            raise EnvironmentFault("it is a folder, and no file")
        return int(size)

    @property
    def _checks(self) -> subprocess.Popen[bytes]:
        return self._started(0, "--batch-check")

    @property
    def _reads(self) -> subprocess.Popen[bytes]:
        return self._started(1, "--batch")

    def _started(self, index: int, mode: str) -> subprocess.Popen[bytes]:
        while len(self._running) <= index:
            self._running.append(self._start("--batch-check" if not self._running else mode))
        return self._running[index]

    def _start(self, mode: str) -> subprocess.Popen[bytes]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        return subprocess.Popen(
            ["git", *SETTINGS, "cat-file", mode],
            cwd=self._place.worktree,
            env=kept | SAFE,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )

    def _require_time(self) -> None:
        if self._is_over:
            raise EnvironmentFault("checking took too long")

    def _end(self) -> None:
        self._is_over = True
        for process in list(self._running):
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    try:
                        pipe.close()
                    except OSError:
                        continue


def _out(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise EnvironmentFault("git cannot be asked")
    return process.stdout

"""What a commit contains and changes: bounded reads of its files, and its patch as text."""

from __future__ import annotations

import os
import re
import subprocess
import threading
from collections.abc import Sequence
from functools import cache, cached_property, lru_cache
from types import TracebackType
from typing import IO, NamedTuple, Self

from msgspec.structs import replace

from remand.adapters.git.command import (
    end_process,
    one_per_line,
    parse_batch_check,
    query_git,
    run_git,
    start_git,
)
from remand.adapters.git.location import LedgerLocation
from remand.adapters.git.repository import GitRepository
from remand.app.errors import EnvironmentFault
from remand.app.ports import Commit
from remand.domain.gate.control_files import CONTROL_FOLDER
from remand.domain.reviewer import (
    FilePatch,
    OmittedPart,
    RenderedChange,
    mark_invisible,
    render_change,
)

LONGEST = 400_000
NEIGHBOURS = 1
"""How many lines of context are shown before and after the requested line."""
MAX_SHOWN_FILE = 1 << 20
"""Largest size of a shown file, before and after together."""
MAX_READ = 8 << 20
"""How many bytes of files are read, smallest files first."""
MAX_FILES = 2_000
_AT_ONCE = 200

_TREES = ("-c", "core.quotePath=false", "diff-tree", "-r", "--no-renames")
_AS_TEXT = (
    "-p",
    "--text",
    "--no-ext-diff",
    "--no-textconv",
    "--no-color",
    "--src-prefix=a/",
    "--dst-prefix=b/",
)
_BEGINNING = b"diff --git "
_SUBMODULE = "160000"
_ABSENT = 1 << 60
"""The size that stands for a missing object."""
_QUOTED = re.compile(rb"[\x00-\x1f\x7f\"\\]")
_SHORT = dict(zip(b'\a\b\t\n\v\f\r"\\', b'abtnvfr"\\', strict=True))


class _ChangedFile(NamedTuple):
    """A changed file and how many bytes there are to compare."""

    path: str
    size: int


@lru_cache(maxsize=32)
def _committed_lines(folder: str, commit: str, path: str) -> tuple[str, ...]:
    """The lines of a committed file. Raises `LookupError` if it is missing, or not a short text."""
    process = run_git(folder, "cat-file", "blob", f"{commit}:{path}")
    if process.returncode or len(process.stdout) > MAX_SHOWN_FILE or b"\0" in process.stdout:
        raise LookupError(path)
    return tuple(process.stdout.decode("utf-8", "replace").split("\n"))


class GitPatches:
    """Shows what differs between commits of one repository."""

    def __init__(self, place: LedgerLocation) -> None:
        self._folder = place.worktree

    def fork_point(self, base: str, commit: str) -> str:
        process = run_git(self._folder, "merge-base", base, commit)
        return "" if process.returncode else process.stdout.decode().strip()

    def changed_paths(self, one: str, other: str) -> tuple[str, ...] | None:
        outside = ("--", ":(top)", ":(top,exclude).got")
        process = run_git(self._folder, *_TREES, "-z", "--name-only", one, other, *outside)
        if process.returncode:
            return None
        return tuple(path.decode("utf-8", "replace") for path in process.stdout.split(b"\0") if path)

    def lines_around(self, commit: str, path: str, line: int) -> tuple[str, ...]:
        if not commit.isalnum():
            return ()
        try:
            lines = _committed_lines(self._folder, commit, path)
        except LookupError:
            return ()
        first = max(1, line - NEIGHBOURS)
        shown = lines[first - 1 : line + NEIGHBOURS] if line <= len(lines) else ()
        return tuple(f"{number:>4}  {text}" for number, text in enumerate(shown, start=first))

    def read_patch(
        self,
        since: str,
        commit: str,
        paths: Sequence[str] = (),
        longest: int = LONGEST,
        *,
        control: Sequence[str] = (),
    ) -> RenderedChange:
        """The change from one commit to another, read from the trees alone: no attribute or filter applies.

        Shows of the ledger's own folder, which Remand changes constantly, only the named paths.
        """
        between = (since, commit, "--")
        chosen = [f":(top,literal){path}" for path in paths] or [":(top)"]
        raw = self._diff_tree("--raw", "-z", *between, *chosen, ":(top,exclude).got")
        own = [
            f":(top,literal){path}"
            for path in control
            if path.partition("/")[0] == CONTROL_FOLDER and path in (paths or control)
        ]
        for at in range(0, len(own), _AT_ONCE):
            raw += self._diff_tree("--raw", "-z", *between, *own[at : at + _AT_ONCE])
        read, unread = _select_readable(self._changed_files(raw))
        files: list[FilePatch] = []
        for at in range(0, len(read), _AT_ONCE):
            files += self._by_file(between, read[at : at + _AT_ONCE])
        rendered = render_change(files, longest)
        return replace(rendered, unshown=(*rendered.unshown, *unread))

    def _diff_tree(self, *arguments: str) -> bytes:
        return query_git(self._folder, *_TREES, *arguments, failure="git cannot tell what was changed")

    def _changed_files(self, raw: bytes) -> list[_ChangedFile]:
        """The files of a comparison, each with its bytes before and after."""
        fields = raw.split(b"\0")
        rows = [
            (path.decode("utf-8", "surrogateescape"), *_blob_ids(facts.decode()))
            for facts, path in zip(fields[::2], fields[1::2], strict=False)
        ]
        wanted = sorted({blob for _, *pair in rows for blob in pair if blob})
        listed = run_git(self._folder, "cat-file", "--batch-check", stdin=one_per_line(wanted))
        sizes = {name: size for name, _, size in parse_batch_check(listed.stdout)}
        return [
            _ChangedFile(path, sum(sizes.get(blob, _ABSENT) for blob in pair if blob)) for path, *pair in rows
        ]

    def _by_file(self, between: Sequence[str], paths: Sequence[str]) -> list[FilePatch]:
        """The changes by file. In a patch, every content line starts with a sign."""
        change = self._diff_tree(*_AS_TEXT, *between, *(f":(top,literal){path}" for path in paths))
        texts = dict.fromkeys(map(_diff_heading, paths), b"")
        for part in change.removeprefix(_BEGINNING).split(b"\n" + _BEGINNING):
            heading, _, rest = part.partition(b"\n")
            if heading in texts:
                texts[heading] += _BEGINNING + heading + b"\n" + rest.removesuffix(b"\n") + b"\n"
        return [
            FilePatch(path=path, text=text.decode("utf-8", "replace"))
            for path, text in zip(paths, texts.values(), strict=True)
        ]


def _blob_ids(facts: str) -> tuple[str, str]:
    """The ids of a file's content before and after; empty where there is none to read."""
    old_mode, new_mode, old, new, _ = facts.lstrip(":").split(" ")
    pairs = ((old_mode, old), (new_mode, new))
    before, after = ("" if mode == _SUBMODULE or not name.strip("0") else name for mode, name in pairs)
    return before, after


def _select_readable(files: list[_ChangedFile]) -> tuple[list[str], list[OmittedPart]]:
    """Selects the files to read, in order, and lists those left out because they are too large or too many."""
    read, left, unread = set[str](), list[OmittedPart](), MAX_READ
    for file in sorted(files, key=lambda file: file.size):
        if file.size >= _ABSENT:
            why = "not shown: the repository does not have its content"
        elif file.size > MAX_SHOWN_FILE:
            why = f"too large: {file.size:,} bytes"
        elif file.size > unread or len(read) >= MAX_FILES:
            why = "left out: the whole change is too large"
        else:
            read.add(file.path)
            unread -= file.size
            continue
        left.append(OmittedPart(path=mark_invisible(file.path), why=why))
    return [file.path for file in files if file.path in read], left


def _diff_heading(path: str) -> bytes:
    """The line with which git starts a file's part of a patch."""
    name = os.fsencode(path)
    if not _QUOTED.search(name):
        return b"a/%b b/%b" % (name, name)
    quoted = _QUOTED.sub(_escape, name)
    return b'"a/%b" "b/%b"' % (quoted, quoted)


def _escape(match: re.Match[bytes]) -> bytes:
    code = match[0][0]
    return b"\\%c" % _SHORT[code] if code in _SHORT else b"\\%03o" % code


SECONDS = 10.0
"""How long evidence may take to check: usually some hundredths of a second, but on a busy machine it must not stay unchecked."""
MAX_SOURCE_FILE = 4 << 20
MAX_TOTAL = 32 << 20
MAX_PATHS = 200_000


class GitSources:
    """Reads files through one pair of git processes, which end when their time is up."""

    def __init__(self, place: LedgerLocation, base: str = "HEAD", seconds: float = SECONDS) -> None:
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
        """The commit behind a name. `HEAD` means the base branch: the agent's own cannot be evidence."""
        self._require_time()
        return self._repository.commit((self._tip if name == "HEAD" else "") or name)

    @cached_property
    def _tip(self) -> str:
        return self._repository.tip(self._base) or self._repository.origin_tip(self._base)

    def is_merged(self, commit: str) -> bool:
        self._require_time()
        if not self._tip or commit == self._tip:
            return bool(self._tip)
        process = run_git(self._place.worktree, "merge-base", "--is-ancestor", commit, self._tip)
        return process.returncode == 0

    def merged_commit_text(self, commit: str) -> str:
        found = self.commit(commit)
        if found is None or not self.is_merged(found.sha):
            return ""
        process = run_git(
            self._place.worktree, "show", "--format=%B", "--name-only", "-m", "--first-parent", found.sha
        )
        return process.stdout[:4000].decode("utf-8", "replace")

    def _paths(self, commit: str) -> list[str]:
        self._require_time()
        answer = run_git(self._place.worktree, "ls-tree", "-r", "-z", "--name-only", "--full-tree", commit)
        found = answer.stdout.split(b"\x00")
        if answer.returncode or len(found) > MAX_PATHS:
            raise EnvironmentFault("its files cannot be listed, or are too many")
        return [path.decode("utf-8", "replace") for path in found if path]

    def _file(self, commit: str, path: str) -> bytes | None:
        self._require_time()
        name = f"{commit}:{path}".encode("utf-8", "surrogateescape")
        if b"\n" in name or b"\x00" in name:
            return None
        size = self._blob_size(self._batch_process(reads=False), name)
        if size is None:
            return None
        if size > MAX_SOURCE_FILE or size > self._left:
            raise EnvironmentFault(f"{path} is too large to read ({size} bytes)")
        self._left -= size
        reads = self._batch_process(reads=True)
        if self._blob_size(reads, name) != size:
            raise EnvironmentFault(f"{path} cannot be read")
        try:
            content = _stdout(reads).read(size + 1)[:size]
        except ValueError:  # The timer closed the pipe.
            content = b""
        if len(content) != size:
            raise EnvironmentFault("reading took too long")
        return content

    def _blob_size(self, process: subprocess.Popen[bytes], name: bytes) -> int | None:
        if process.stdin is None:
            return None
        try:
            process.stdin.write(name + b"\n")
            process.stdin.flush()
            answer = _stdout(process).readline().rstrip(b"\n")
        except (OSError, ValueError):  # The process ended, or the timer closed the pipe.
            raise EnvironmentFault("reading took too long") from None
        if not answer:
            raise EnvironmentFault("reading took too long")
        if answer.endswith(b" missing"):
            return None
        kind, _, size = answer.rpartition(b" ")
        if not kind.endswith(b" blob"):
            raise EnvironmentFault("it is a folder, not a file")
        return int(size)

    def _batch_process(self, *, reads: bool) -> subprocess.Popen[bytes]:
        """The process for sizes, or the one for contents; each starts at first use."""
        modes = ("--batch-check", "--batch")
        while len(self._running) <= reads:
            mode = modes[len(self._running)]
            folder = self._place.worktree
            self._running.append(start_git(folder, "cat-file", mode, stderr=subprocess.DEVNULL))
        return self._running[reads]

    def _require_time(self) -> None:
        if self._is_over:
            raise EnvironmentFault("checking took too long")

    def _end(self) -> None:
        self._is_over = True
        for process in list(self._running):
            end_process(process)


def _stdout(process: subprocess.Popen[bytes]) -> IO[bytes]:
    if process.stdout is None:
        raise EnvironmentFault("git cannot be asked")
    return process.stdout

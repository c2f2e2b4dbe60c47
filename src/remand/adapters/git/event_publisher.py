"""Commits event files, and nothing else, to a branch without disturbing anyone's work."""

from __future__ import annotations

import os
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress

from remand.adapters.git import command
from remand.adapters.git.location import LedgerLocation, current_branch, locate
from remand.adapters.git.repository import head_commit
from remand.adapters.system.files import atomic_write
from remand.app.errors import EnvironmentFault
from remand.app.log.archive import ARCHIVE_BRANCH
from remand.domain.events.log import ArchivedFile
from remand.ledger.codec import pack, packed_name, split_lines

_FOLDER = ".got/events"


class GitPublisher:
    """Commits event files to a branch by plumbing commands: runs no hook, includes no other change."""

    def __init__(self, place: LedgerLocation) -> None:
        self._place = place

    def archive(self, folder: str = "") -> GitArchive | FolderArchive:
        """Where archived event files are kept: a branch of their own, or a folder."""
        return FolderArchive(folder) if folder else GitArchive(self, self._place.worktree)

    def current_branch(self) -> str:
        return current_branch(self._place.git_dir)

    def sizes(self, branch: str) -> dict[str, int] | None:
        if not self._tip(branch):
            return None
        answer = command.run_git(
            self._place.worktree, "ls-tree", "-l", "-z", f"refs/heads/{branch}", f"{_FOLDER}/"
        )
        rows = command.parse_tree_list(answer.stdout)
        return {os.path.basename(path): int(size) for path, (_, kind, _, size) in rows if kind == "blob"}

    def read(self, branch: str, name: str) -> bytes:
        return command.run_git(
            self._place.worktree, "cat-file", "blob", f"refs/heads/{branch}:{_FOLDER}/{name}"
        ).stdout

    def lines_at(self, commit: str) -> Iterator[bytes]:
        """Every line of the event files in a commit; nothing if there is no commit."""
        if not commit:
            return
        listed = command.run_git(
            self._place.worktree, "ls-tree", "-z", "--end-of-options", commit, f"{_FOLDER}/"
        )
        rows = command.parse_tree_list(listed.stdout)
        blobs = [blob for path, (_, kind, blob) in rows if path.endswith(".jsonl") and kind == "blob"]
        if not blobs:
            return
        answer = command.run_git(
            self._place.worktree, "cat-file", "--batch", stdin=command.one_per_line(blobs)
        )
        for _, _, content in command.parse_batch(answer.stdout):
            yield from split_lines(content)

    def deleted_files(self, branch: str, names: set[str]) -> dict[str, bytes]:
        ref = f"refs/heads/{branch}"
        arguments = ("log", "--full-history", "-m", "--diff-filter=D", "--name-only", "--format=", "-z", ref)
        rows = self._run(*arguments, "--", f"{_FOLDER}/").split("\0")
        once = {os.path.basename(row) for row in rows if row} & names
        found = {name: self._last_content(ref, f"{_FOLDER}/{name}") for name in sorted(once)}
        return {name: content for name, content in found.items() if content}

    def _last_content(self, ref: str, path: str) -> bytes:
        """The content of a file before the commit that removed it."""
        for commit in self._run("rev-list", "--full-history", ref, "--", path).split():
            for side in ("", "^1", "^2"):
                answer = command.run_git(self._place.worktree, "cat-file", "blob", f"{commit}{side}:{path}")
                if not answer.returncode:
                    return answer.stdout
        return b""

    def commit(self, branch: str, files: dict[str, bytes], message: str, removed: Sequence[str] = ()) -> str:
        """Commits the files to the branch, leaving out removed ones; updates the checked-out files. Returns the commit."""
        parent = self._tip(branch)
        blobs = {
            f"{_FOLDER}/{name}": self._run("hash-object", "-w", "--stdin", stdin=content)
            for name, content in files.items()
        }
        gone = {f"{_FOLDER}/{name}": "" for name in removed}
        with tempfile.TemporaryDirectory(prefix="remand-") as folder:
            environment = {"GIT_INDEX_FILE": os.path.join(folder, "index")}
            if parent:
                self._run("read-tree", parent, environment=environment)
            self._add(blobs | gone, environment)
            tree = self._run("write-tree", environment=environment)
        parents = ("-p", parent) if parent else ()
        commit = self._run("commit-tree", tree, *parents, "-m", message, environment=self._identity())
        # The index first: if this process is killed, files are staged that the branch lacks, which is
        # harmless.
        self._stage(branch, files, blobs | gone)
        self._run("update-ref", f"refs/heads/{branch}", commit, parent or "0" * len(commit))
        # Files last: if this process is killed, they exist untracked and are removed next time.
        for worktree, checked_out in self._worktrees() if removed else ():
            if checked_out == branch:
                for name in removed:
                    with suppress(FileNotFoundError):
                        os.unlink(os.path.join(worktree, _FOLDER, name))
        return commit

    def _stage(self, branch: str, files: dict[str, bytes], blobs: dict[str, str]) -> None:
        """Adds the files to the worktree that has the branch checked out, and to its index."""
        for worktree, checked_out in self._worktrees():
            if checked_out != branch:
                continue
            for name, content in files.items():
                path = os.path.join(worktree, _FOLDER, name)
                if not os.path.exists(path):
                    _write_whole(path, content)
            self._add_to(worktree, blobs)

    def _add_to(self, worktree: str, blobs: dict[str, str]) -> None:
        """Adds blobs to a worktree's index, by our own configuration, because git may read files there meanwhile."""
        place = locate(worktree)
        if place is None:
            return
        commit = head_commit(place) or "0" * len(next(filter(None, blobs.values()), "0" * 40))
        with command.temporary_git_folder(commit) as look:
            self._add(
                blobs,
                {
                    "GIT_DIR": look,
                    "GIT_WORK_TREE": worktree,
                    "GIT_INDEX_FILE": os.path.join(place.git_dir, "index"),
                    "GIT_OBJECT_DIRECTORY": os.path.join(place.common_dir, "objects"),
                },
                folder=worktree,
            )

    def _worktrees(self) -> list[tuple[str, str]]:
        rows = self._run("worktree", "list", "--porcelain").split("\n")
        found, path = [], ""
        for row in rows:
            if row.startswith("worktree "):
                path = row[len("worktree ") :]
            elif row.startswith("branch refs/heads/"):
                found.append((path, row[len("branch refs/heads/") :]))
        return found

    def _tip(self, branch: str) -> str:
        answer = command.run_git(
            self._place.worktree, "rev-parse", "--verify", "--quiet", f"refs/heads/{branch}"
        )
        return answer.stdout.decode().strip()

    def _add(self, blobs: dict[str, str], environment: dict[str, str], folder: str = "") -> None:
        rows = "".join(
            f"100644 {blob}\t{path}\0" if blob else f"0 {'0' * 40}\t{path}\0" for path, blob in blobs.items()
        )
        self._run(
            "update-index",
            "--add",
            "-z",
            "--index-info",
            stdin=rows.encode("utf-8", "surrogateescape"),
            environment=environment,
            folder=folder,
        )

    def _identity(self) -> dict[str, str]:
        name, email = command.user_identity(self._place.worktree)
        pairs = (("NAME", name), ("EMAIL", email))
        return {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in pairs}

    def _run(
        self, *arguments: str, stdin: bytes = b"", environment: dict[str, str] | None = None, folder: str = ""
    ) -> str:
        place, failure = folder or self._place.worktree, f"git {arguments[0]} failed"
        answer = command.query_git(place, *arguments, stdin=stdin, environment=environment, failure=failure)
        return answer.decode(errors="replace").strip()


class GitArchive:
    """Archived event files on a branch of their own. git has their contents already, so only their names are added."""

    def __init__(self, publisher: GitPublisher, folder: str) -> None:
        self._publisher = publisher
        self._folder = folder
        self._has_fetched = False

    def put(self, files: Mapping[str, bytes]) -> None:
        self._publisher.commit(ARCHIVE_BRANCH, dict(files), "log: archive events")

    def get(self, file: ArchivedFile) -> bytes:
        content = self._read(file)
        if content is None and not self._has_fetched:
            self._has_fetched = True
            ref = f"+refs/heads/{ARCHIVE_BRANCH}:refs/remotes/origin/{ARCHIVE_BRANCH}"
            command.run_git(self._folder, "fetch", "--quiet", "--no-tags", "origin", ref)
            content = self._read(file)
        if content is None:
            raise EnvironmentFault(
                f"{file.name} is on no branch {ARCHIVE_BRANCH} here. Fetch it, `git fetch origin {ARCHIVE_BRANCH}:{ARCHIVE_BRANCH}`, "
                "or name the folder that the archive was written to with --to; then repeat."
            )
        return content

    def _read(self, file: ArchivedFile) -> bytes | None:
        """A file of the local or the remote branch; a file of unexpected size is not read."""
        for ref in (f"refs/heads/{ARCHIVE_BRANCH}", f"refs/remotes/origin/{ARCHIVE_BRANCH}"):
            name = f"{ref}:{_FOLDER}/{file.name}"
            size = command.run_git(self._folder, "cat-file", "-s", name)
            if not size.returncode:
                if int(size.stdout) != file.size:
                    return b""
                return command.run_git(self._folder, "cat-file", "blob", name).stdout
        return None


class FolderArchive:
    """Archived event files in a folder, each compressed."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def put(self, files: Mapping[str, bytes]) -> None:
        try:
            for name, content in files.items():
                _write_whole(self._path(name), pack(content))
        except OSError as error:
            raise EnvironmentFault(
                f"The archive cannot be written to {self._folder} ({error.strerror}). Nothing was archived. Fix that, then repeat."
            ) from None

    def get(self, file: ArchivedFile) -> bytes:
        try:
            with open(self._path(file.name), "rb") as packed:
                # Reads at most one byte beyond the archived size, whatever it decompresses to.
                return zlib.decompressobj(31).decompress(packed.read(2 * file.size + 1024), file.size + 1)
        except OSError as error:
            raise EnvironmentFault(
                f"{self._path(file.name)} cannot be read ({error.strerror}). Name the folder that the archive was written to, then repeat."
            ) from None
        except zlib.error:
            return b""

    def _path(self, name: str) -> str:
        return os.path.join(self._folder, packed_name(os.path.basename(name)))


def _write_whole(path: str, content: bytes) -> None:
    """Writes a file atomically and durably."""
    os.makedirs(os.path.dirname(path), exist_ok=True)
    atomic_write(path, content)

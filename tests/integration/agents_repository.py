"""A repository as an agent has it: it can write anything into it, and configure git there as it likes."""

from __future__ import annotations

import hashlib
import os
import subprocess
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

PATIENCE = 600.0
_PERSON = {
    f"GIT_{role}_{key}": value
    for role in ("AUTHOR", "COMMITTER")
    for key, value in (("NAME", "A"), ("EMAIL", "a@example.org"), ("DATE", "2026-01-01T00:00:00Z"))
}


class Link(NamedTuple):
    """A symbolic link."""

    target: str


class Script(NamedTuple):
    """An executable file."""

    content: bytes


class Submodule(NamedTuple):
    """A commit of another repository."""

    commit: str


Files = Mapping[str, bytes | Link | Script | Submodule | None]
"""What is at which path; None takes a file away."""


class AgentsRepository:
    """Made with plumbing alone, so that any tree can be committed and no worktree is in the way."""

    def __init__(self, path: Path, *options: str) -> None:
        self.path = path
        self._hash = hashlib.sha256 if "--object-format=sha256" in options else hashlib.sha1
        self.environment = _environment(path)
        subprocess.run(
            ["git", "init", "-q", "-b", "main", *options, str(path)],
            check=True,
            env=self.environment,
            timeout=PATIENCE,
        )

    @property
    def git_dir(self) -> str:
        return str(self.path / ".git")

    def git(self, *arguments: str, stdin: bytes = b"", check: bool = True) -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            input=stdin,
            capture_output=True,
            check=False,
            env=self.environment,
            timeout=PATIENCE,
        )
        assert not check or done.returncode == 0, f"git {arguments}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode("utf-8", "surrogateescape").strip()

    def commit(self, files: Files, *parents: str, message: str = "work") -> str:
        """Commits a tree like the first parent's but for these files."""
        return self.commit_tree(self.tree(files, parents[0] if parents else ""), *parents, message=message)

    def commit_tree(self, tree: str, *parents: str, message: str = "work") -> str:
        named = [word for parent in parents for word in ("-p", parent)]
        return self.git("commit-tree", tree, *named, "-m", message)

    def tree(self, files: Files, base: str = "") -> str:
        """Writes a tree like another but for these files."""
        index = self.path / ".git" / "test-index"
        index.unlink(missing_ok=True)
        self.environment["GIT_INDEX_FILE"] = str(index)
        try:
            if base:
                self.git("read-tree", base)
            rows = "".join(self._row(path, content) for path, content in files.items())
            self.git(
                "update-index",
                "--add",
                "--replace",
                "-z",
                "--index-info",
                stdin=rows.encode("utf-8", "surrogateescape"),
            )
            return self.git("write-tree")
        finally:
            del self.environment["GIT_INDEX_FILE"]

    def _row(self, path: str, content: bytes | Link | Script | Submodule | None) -> str:
        match content:
            case None:
                return f"0 {'0' * 40}\t{path}\0"
            case Submodule(commit):
                return f"160000 {commit}\t{path}\0"
            case Link(target):
                return f"120000 {self.blob(os.fsencode(target))}\t{path}\0"
            case Script(text):
                return f"100755 {self.blob(text)}\t{path}\0"
            case _:
                return f"100644 {self.blob(content)}\t{path}\0"

    def blob(self, content: bytes) -> str:
        return self.write_object("blob", content)

    def write_object(self, kind: str, content: bytes, name: str = "") -> str:
        """Writes a loose object, whatever is in it, under its own id or under a false one."""
        whole = f"{kind} {len(content)}\0".encode() + content
        name = name or self._hash(whole).hexdigest()
        path = self.path / ".git" / "objects" / name[:2] / name[2:]
        path.parent.mkdir(exist_ok=True)
        path.unlink(missing_ok=True)
        path.write_bytes(zlib.compress(whole, 1))
        return name

    def raw_tree(self, *entries: tuple[str, str, str]) -> str:
        """Writes a tree of modes, names and ids just as they are given."""
        rows = (f"{mode} {name}\0".encode() + bytes.fromhex(id_) for mode, name, id_ in entries)
        return self.write_object("tree", b"".join(rows))

    def file(self, path: str, text: str, mode: int = 0o644) -> None:
        """Writes a file, seen from the top of the worktree."""
        place = self.path / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text, encoding="utf-8")
        place.chmod(mode)


def _environment(path: Path) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    own = {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "HOME": str(path), "LC_ALL": "C"}
    return kept | own | _PERSON


def held(folder: str) -> dict[str, bytes | Link | Script | None]:
    """All that is in a folder; None stands for a folder that is empty."""
    found: dict[str, bytes | Link | Script | None] = {}
    for here, folders, names in os.walk(os.fsencode(folder)):
        for name in (*folders, *names):
            path = os.path.join(here, name)
            key = os.fsdecode(os.path.relpath(path, os.fsencode(folder)))
            if os.path.islink(path):
                found[key] = Link(os.fsdecode(os.readlink(path)))
            elif name in names:
                content = Path(os.fsdecode(path)).read_bytes()
                found[key] = Script(content) if os.stat(path).st_mode & 0o100 else content
            elif not os.listdir(path):
                found[key] = None
    return found

"""A user's repository with worktrees, and agents at work in them."""

from __future__ import annotations

import atexit
import os
import shutil
import subprocess
import tempfile
from functools import lru_cache
from pathlib import Path

from remand.adapters.git.location import locate
from remand.adapters.git.task_worktrees import GitWorktrees
from remand.app.scheduler.ports import TaskWorktree
from tests.integration.agents_repository import PATIENCE, AgentsRepository, Files

TASK, BRANCH = "T-1", "task/one"
FILES: Files = {
    "a.py": b"a = 1\n",
    "src/b.py": b"b = 1\n",
    "src/deep/c.py": b"c = 1\n",
    ".gitignore": b"*.log\n",
}


class Site:
    """A repository as its user has it, on `main`, and the worktrees of its tasks."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.folder = folder
        self.common_dir = ""
        made, self.start = template(*options)
        shutil.copytree(made, folder / "repo", symlinks=True)
        self.repository = AgentsRepository(folder / "repo", "--template=", *options)
        self.worktrees = self.opened()

    def opened(self, folder: str = "") -> GitWorktrees:
        """The worktrees, as another process has them."""
        place = locate(str(self.repository.path))
        assert place is not None
        self.common_dir = place.common_dir
        return GitWorktrees(
            place, folder or str(self.folder / "worktrees"), base="main", written=["ours.toml"]
        )

    def git(self, *arguments: str, folder: str | Path = "", check: bool = True) -> str:
        """What the user's git says, in the repository or in another folder."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=folder or self.repository.path,
            env=self.repository.environment,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        assert not check or not done.returncode, f"git {arguments}: {done.stderr.decode(errors='replace')}"
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def prepare(self, *, is_confined: bool = False, task: str = TASK, branch: str = BRANCH) -> Worker:
        """Has a worktree prepared, and an agent in it."""
        return Worker(self, self.worktrees.prepare(task, branch, self.start, is_confined=is_confined))

    def tip(self, branch: str = BRANCH) -> str:
        return self.git("rev-parse", "--verify", "-q", f"refs/heads/{branch}", check=False)

    def worktree_paths(self) -> list[str]:
        """The worktrees besides the main one, as git lists them."""
        rows = self.git("worktree", "list", "--porcelain").split("\n")
        return [row.removeprefix("worktree ") for row in rows if row.startswith("worktree ")][1:]

    def kept(self) -> list[str]:
        """The refs under which something is kept."""
        return self.git("for-each-ref", "--format=%(refname)", "refs/remand/kept").split()

    def kept_file(self, path: str) -> str:
        """What a file holds in anything that is kept; empty when none has it."""
        found = [self.git("cat-file", "blob", f"{ref}:{path}", check=False) for ref in self.kept()]
        return next((text for text in found if text), "")

    def left(self) -> list[str]:
        """All that is still there of worktrees, but for locks, once the trash is empty."""
        self.worktrees._trash.wait()
        root = self.folder / "worktrees"
        names = {str(path.relative_to(root)) for path in root.rglob("*")} if root.exists() else set()
        common = Path(self.common_dir)
        inside = [path for part in ("worktrees/*", "new-*", "old-*", "*.lock") for path in common.glob(part)]
        fixed = {".own", ".own/locks", ".own/trash", ".own/trash.lock"}
        return sorted(
            [*(name for name in names - fixed if not name.startswith(".own/locks/")), *map(str, inside)]
        )


@lru_cache
def template(*options: str) -> tuple[str, str]:
    """A repository to be copied, and the commit that it begins with."""
    folder = tempfile.mkdtemp(prefix="rmd-site-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = AgentsRepository(Path(folder), "--template=", *options)
    start = made.commit(FILES)
    made.git("update-ref", "refs/heads/main", start)
    made.git("reset", "-q", "--hard")
    return folder, start


class Worker:
    """An agent at work: its git is the repository's, or where it is confined a git folder of its own."""

    def __init__(self, site: Site, worktree: TaskWorktree) -> None:
        self.site = site
        self.worktree = worktree
        self.folder = Path(worktree.folder)
        entry = os.path.join("worktrees", f"remand-{worktree.task_id}")
        self.git_dir = Path(worktree.private_dir or worktree.common_dir) / entry
        self.environment = dict(site.repository.environment)
        if worktree.private_dir:
            self.environment |= {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": worktree.folder}

    @property
    def private(self) -> Path:
        return Path(self.worktree.private_dir)

    def git(self, *arguments: str, check: bool = True, stdin: bytes = b"") -> str:
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.folder,
            env=self.environment,
            input=stdin,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
        said = (done.stdout + done.stderr).decode(errors="replace")
        assert not check or not done.returncode, f"git {arguments}: {said}"
        return done.stdout.decode("utf-8", "surrogateescape").rstrip("\n")

    def write(self, path: str, text: str = "work\n") -> None:
        place = self.folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)

    def commit(self, path: str = "work.py", text: str = "work\n") -> str:
        """Writes a file and commits it."""
        self.write(path, text)
        self.git("add", "-A")
        self.git("commit", "-q", "-m", f"work on {path}")
        return self.git("rev-parse", "HEAD")

    def look(self) -> tuple[str, set[str]]:
        found = self.site.worktrees.inspect(self.worktree)
        return found.head, set(found.uncommitted)

    def bring(self) -> str:
        return self.site.worktrees.import_commits(self.worktree)

    def again(self, *, is_confined: bool | None = None) -> Worker:
        """The agent of the task's next run."""
        confined = bool(self.worktree.private_dir) if is_confined is None else is_confined
        return self.site.prepare(
            is_confined=confined, task=self.worktree.task_id, branch=self.worktree.branch
        )

    def status(self) -> list[str]:
        """What the user's git says of the worktree."""
        return self.site.git("status", "--porcelain", folder=self.folder).split("\n")

"""What people do to branches that carry event files: each is one way in which histories meet."""

from __future__ import annotations

import random
from collections.abc import Callable

from tests.integration.machine import Repository

FOLDER = ".got/events"


class Exchange:
    """Clones of one repository that publish, push to a hub, and take each other's branches in every way git has."""

    def __init__(self, hub: Repository, clones: list[Repository], chance: random.Random) -> None:
        self.hub = hub
        self.clones = clones
        self._chance = chance
        self._count = 0
        # A deleted file beside a copy of it looks to git like a rename, and two of those conflict whatever the
        # files are. So nothing is both copied by hand and reverted.
        self._copied: set[str] = set()
        self._reverted: set[str] = set()

    def branch(self, clone: Repository) -> str:
        """The branch a clone works on."""
        return f"work-{self.clones.index(clone)}"

    def push(self, clone: Repository) -> None:
        """Publishes the clone's events and pushes its branch."""
        clone.ok("log", "publish")
        clone.git("push", "-q", "-f", str(self.hub.path), f"HEAD:refs/heads/{self.branch(clone)}")

    def fetch(self, clone: Repository) -> list[str]:
        """Fetches the hub; returns the other clones' branches."""
        clone.git("fetch", "-q", str(self.hub.path), "+refs/heads/*:refs/remotes/hub/*")
        found = clone.git("for-each-ref", "--format=%(refname:short)", "refs/remotes/hub").split()
        return [name for name in found if name != f"hub/{self.branch(clone)}"]

    def meet(self, clone: Repository) -> str:
        """Takes others' work in one random way; returns which."""
        others = self.fetch(clone)
        ways = (
            self.merge,
            self.squash,
            self.rebase,
            self.cherry_pick,
            self.octopus,
            self.revert,
            self.duplicate,
            self.shuffle,
            self.carriage_returns,
            self.no_last_newline,
        )
        way: Callable[[Repository, list[str]], None] = self._chance.choice(ways)
        way(clone, others)
        return way.__name__

    def merge(self, clone: Repository, others: list[str]) -> None:
        """An ordinary merge."""
        clone.git("merge", "-q", "--no-edit", self._chance.choice(others))

    def squash(self, clone: Repository, others: list[str]) -> None:
        """All of a branch as one new commit, which git will not know again."""
        clone.git("merge", "-q", "--squash", self._chance.choice(others))
        clone.git("commit", "-q", "--allow-empty", "-m", "squashed")

    def rebase(self, clone: Repository, others: list[str]) -> None:
        """The own commits written anew on top of another branch."""
        clone.git("rebase", "-q", self._chance.choice(others))

    def cherry_pick(self, clone: Repository, others: list[str]) -> None:
        """One commit of another branch."""
        commits = self._publishing(clone, self._chance.choice(others))
        if commits:
            picked = self._chance.choice(commits)
            clone.git("cherry-pick", "--allow-empty", "--keep-redundant-commits", picked)

    def octopus(self, clone: Repository, others: list[str]) -> None:
        """Several branches in one merge."""
        clone.git("merge", "-q", "--no-edit", *self._chance.sample(others, min(3, len(others))))

    def revert(self, clone: Repository, others: list[str]) -> None:
        """A commit that published events, taken back."""
        commits = [commit for commit in self._publishing(clone, "HEAD") if self._is_whole(clone, commit)]
        if commits:
            commit = self._chance.choice(commits)
            self._reverted |= self._paths(clone, commit)
            clone.git("revert", "--no-edit", commit)

    def duplicate(self, clone: Repository, others: list[str]) -> None:
        """An event file once more under another name."""
        self._add(clone, lambda lines: b"\n".join(lines) + b"\n")

    def shuffle(self, clone: Repository, others: list[str]) -> None:
        """An event file once more with its lines in another order, some of them twice."""
        self._add(clone, lambda lines: b"\n".join(self._shuffled(lines)) + b"\n")

    def carriage_returns(self, clone: Repository, others: list[str]) -> None:
        """An event file once more as another platform ends lines."""
        self._add(clone, lambda lines: b"\r\n".join(lines) + b"\r\n")

    def no_last_newline(self, clone: Repository, others: list[str]) -> None:
        """An event file once more without the newline at its end."""
        self._add(clone, b"\n".join)

    def _shuffled(self, lines: list[bytes]) -> list[bytes]:
        twice = [*lines, *self._chance.choices(lines, k=3)]
        self._chance.shuffle(twice)
        return twice

    def _add(self, clone: Repository, form: Callable[[list[bytes]], bytes]) -> None:
        tracked = sorted(set(clone.git("ls-files", FOLDER).split()) - self._reverted)
        if not tracked:
            return
        self._count += 1
        source = self._chance.choice(tracked)
        content = (clone.path / source).read_bytes().replace(b"\r\n", b"\n")
        name = f"{FOLDER}/copy-{self.branch(clone)}-{self._count}.jsonl"
        (clone.path / name).write_bytes(form([line for line in content.split(b"\n") if line]))
        self._copied |= {source, name}
        clone.git("add", "-f", name)
        clone.git("commit", "-q", "-m", f"copy {name}")

    def _publishing(self, clone: Repository, branch: str) -> list[str]:
        """Commits of a branch that added event files."""
        return clone.git("log", "--no-merges", "--diff-filter=A", "--format=%H", branch, "--", FOLDER).split()

    def _paths(self, clone: Repository, commit: str) -> set[str]:
        """What a commit has changed."""
        return set(clone.git("show", "--name-only", "--format=", commit).split())

    def _is_whole(self, clone: Repository, commit: str) -> bool:
        """True when all that the commit brought is there as it brought it, and nobody has copied it."""
        paths = sorted(self._paths(clone, commit))
        if not self._copied.isdisjoint(paths):
            return False
        blobs = [clone.git("rev-parse", "-q", "--verify", f"HEAD:{p}", check=False) for p in paths]
        return all(blobs) and blobs == [clone.git("rev-parse", f"{commit}:{path}") for path in paths]

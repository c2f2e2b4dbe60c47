"""Fakes for measuring gates: trees, checkouts, a scripted sandbox, and a cache."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import sha1

from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import GateEnvironment, Job, JobResult, ReportParser, ToolOutput, TreeChange
from remand.domain.gate.gate import GateFinding, Measurement, TestOutcome, UnreadableReport

Files = Mapping[str, bytes]


class FakeMirror:
    """Commits and trees in memory. A tree's id is derived from its content, as in git."""

    def __init__(self) -> None:
        self.trees: dict[str, dict[str, bytes]] = {}
        self.commits: dict[str, str] = {}
        self.parents: dict[str, str] = {}

    def commit(self, name: str, files: Files, parent: str = "") -> str:
        """Adds a commit and returns its tree."""
        tree = self.tree(files)
        self.commits[name] = tree
        self.parents[name] = parent
        return tree

    def tree(self, files: Files) -> str:
        """Adds a tree."""
        kept = dict(sorted(files.items()))
        name = sha1(repr(kept).encode(), usedforsecurity=False).hexdigest()
        self.trees[name] = kept
        return name

    def fetch_commit(self, commit: str) -> str:
        """The tree of a commit."""
        if commit not in self.commits:
            raise EnvironmentFault(f"There is no commit {commit}.")
        return self.commits[commit]

    def merge_base(self, commit: str, other: str) -> str:
        """The best common ancestor of two commits."""
        seen = self._history(commit)
        return next((name for name in self._history(other) if name in seen), "")

    def is_ancestor(self, commit: str, other: str) -> bool:
        """True if a commit is in another's history."""
        return commit in self._history(other)

    def _history(self, commit: str) -> list[str]:
        found = []
        while commit:
            found.append(commit)
            commit = self.parents.get(commit, "")
        return found

    def changes(self, base_tree: str, tree: str) -> list[TreeChange]:
        """The files that differ between two trees."""
        before, after = self.trees[base_tree], self.trees[tree]
        added = [TreeChange("A", path, mode="100644") for path in after if path not in before]
        changes = [TreeChange("D", path) for path in before if path not in after]
        changed = [
            TreeChange("M", path, mode="100644")
            for path in after
            if before.get(path, after[path]) != after[path]
        ]
        return sorted(added + changes + changed, key=lambda change: change.path)

    def file(self, tree: str, path: str) -> bytes | None:
        """A file's content."""
        return self.trees[tree].get(path)

    def paths(self, tree: str) -> list[str]:
        """All file paths."""
        return list(self.trees[tree])

    def links(self, tree: str) -> dict[str, bytes]:
        """None: its trees have no links."""
        assert tree in self.trees
        return {}

    def compose(self, tree: str, source: str, paths: Sequence[str]) -> str:
        """A tree in which the named paths are as in another."""
        files = {path: content for path, content in self.trees[tree].items() if path not in paths}
        return self.tree(files | {p: self.trees[source][p] for p in paths if p in self.trees[source]})

    def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        """A tree in which the named files have this content."""
        return self.tree(self.trees[tree] | dict(files))


class FakeCheckouts:
    """Lends the names of trees as folders, and counts how many are lent."""

    def __init__(self) -> None:
        self.lent = 0
        self.most = 0

    @contextmanager
    def lend(self, tree: str) -> Iterator[str]:
        """A folder with the tree's own name."""
        self.lent += 1
        self.most = max(self.most, self.lent)
        try:
            yield tree
        finally:
            self.lent -= 1


class FakeSandbox:
    """Answers jobs by a script, and records each."""

    tier = "fake"

    def __init__(self, script: Callable[[Job], JobResult]) -> None:
        self.jobs: list[Job] = []
        self._script = script

    def run(self, job: Job) -> JobResult:
        """Calls the script."""
        self.jobs.append(job)
        return self._script(job)


class MemoryCache:
    """Stores results in memory."""

    def __init__(self) -> None:
        self.kept: dict[str, bytes] = {}

    def get(self, key: str) -> bytes | None:
        """A stored result."""
        return self.kept.get(key)

    def put(self, key: str, value: bytes) -> None:
        """Stores a result."""
        self.kept[key] = value


class MemoryReports:
    """Reports in memory; fake tools write none."""

    def __init__(self) -> None:
        self.written: dict[str, str] = {}

    @contextmanager
    def folder(self) -> Iterator[str]:
        """A fake folder."""
        yield "reports"

    def read(self, path: str) -> bytes | None:
        """None: fake tools write to standard output."""
        return None

    def write(self, name: str, content: str) -> str:
        """Stores a full report."""
        self.written[name] = content
        return name


class FixedTools:
    """Tools whose version changes when the test says so."""

    def __init__(self) -> None:
        self.version = "1"

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """The version."""
        return self.version


def parse_lines(ran: ToolOutput) -> Measurement:
    """A parser for tests: `errors 3`, `fail ID`, `error ID`, `pass ID`, `skip ID`, one on each line.

    `garbage` is no report.
    """
    figures: dict[str, float] = {}
    tests: list[TestOutcome] = []
    for line in ran.output.decode().splitlines():
        word, _, rest = line.partition(" ")
        if word == "garbage":
            raise UnreadableReport("the output is no report")
        if word in _OUTCOMES:
            tests.append(TestOutcome(id=rest, outcome=_OUTCOMES[word]))
        elif rest:
            figures[word] = float(rest)
    if tests:
        figures |= {
            "tests": float(len(tests)),
            "failures": float(sum(test.outcome == "failed" for test in tests)),
            "skipped": float(sum(test.outcome == "skipped" for test in tests)),
        }
    failing = tuple(GateFinding(code=test.id, text="failed") for test in tests if test.outcome == "failed")
    return Measurement(figures=figures, tests=tuple(tests), findings=failing)


_OUTCOMES = {"fail": "failed", "error": "error", "pass": "passed", "skip": "skipped"}
LINES = ReportParser(parse_lines, ("errors", "failures", "tests", "skipped"), {"max_errors": 0.0})


def a_gate_environment(mirror: FakeMirror, script: Callable[[Job], JobResult]) -> GateEnvironment:
    """A gate environment of fakes."""
    return GateEnvironment(
        mirror=mirror,
        tree=mirror.fetch_commit,
        checkouts=FakeCheckouts(),
        sandbox=FakeSandbox(script),
        parser={"lines": LINES}.get,
        cache=MemoryCache(),
        tools=FixedTools(),
        reports=MemoryReports(),
        prepared="prepared",
        root="root",
        path=("bin",),
    )

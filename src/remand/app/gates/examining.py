"""The integrity gate at work: what is compared, which trees are composed, and what was found."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import cached_property
from itertools import islice
from typing import NamedTuple

from msgspec.structs import replace

from remand.app.gates.ports import Change
from remand.app.gates.run import Run
from remand.app.gates.running import Measured
from remand.app.gates.workshop import Workshop
from remand.domain.gates.figures import GateFinding, TestOutcome
from remand.domain.gates.gate import Gate, GatePolicy
from remand.domain.gates.judge import KEPT_FINDINGS, written
from remand.domain.gates.verdict import INTEGRITY, GateResult, GateStatus
from remand.domain.integrity.comparison import (
    LINK,
    Collected,
    Comparison,
    FileChange,
    FileText,
    Suspicion,
    Weight,
    file_change,
)
from remand.domain.integrity.crossing import cross_checks, judge_base_tests, judge_new_tests
from remand.domain.integrity.examine import examine
from remand.domain.integrity.harness import harness_paths, merged, mixed_paths, trusted_paths
from remand.domain.integrity.links import destination
from remand.domain.integrity.paths import is_test_path
from remand.domain.patterns import Pattern

KEPT_SUSPICIONS = 200
MAX_READ_ALONG = 100
MAX_READ_ALONG_BYTES = 32 << 10


class Examination:
    """A tree beside its base: what differs, whether it is honest, and which tree is measured in its place."""

    def __init__(self, workshop: Workshop, policy: GatePolicy, tree: str, base_tree: str) -> None:
        self._mirror = workshop.mirror
        self._policy = policy
        self._tree = tree
        self._base_tree = base_tree
        self._is_examined = policy.integrity and bool(base_tree)

    @cached_property
    def changes(self) -> list[Change]:
        """The files that differ."""
        return self._mirror.changes(self._base_tree, self._tree) if self._base_tree else []

    def touches(self, patterns: Sequence[Pattern]) -> bool:
        """True when a change is about one of the patterns; without patterns, or without a base, always."""
        if not patterns or not self._base_tree:
            return True
        return any(pattern.matches(name) for pattern in patterns for name in self._changed)

    @cached_property
    def judged_tree(self) -> str:
        """The tree that is measured: the head's, with what steers its gates taken from the base."""
        if not self._is_examined:
            return self._tree
        trusted = trusted_paths(self._comparison, examine(self._comparison))
        base, head = self._paths
        taken = [path for path in harness_paths(base, head, trusted=trusted) if path in self._changed]
        files: dict[str, bytes] = {}
        for path in mixed_paths(base, head):
            content = self._merged(path) if path in self._changed else None
            if content is not None:
                files[path] = content
            elif path in self._changed:
                taken.append(path)
        tree = self._mirror.compose(self._tree, self._base_tree, taken) if taken else self._tree
        return self._mirror.with_files(tree, files) if files else tree

    def _merged(self, path: str) -> bytes | None:
        before, after = self._mirror.file(self._base_tree, path), self._mirror.file(self._tree, path)
        return None if before is None or after is None else merged(path, before, after)

    def result(
        self,
        run: Run,
        gates: Sequence[Gate],
        found: Mapping[str, Future[Measured]],
        pool: Executor,
    ) -> GateResult:
        """The result of the integrity gate."""
        sides = [side for gate in gates if (side := self._side(run, gate, found[gate.name])) is not None]
        collected = tuple(
            Collected(gate=side.gate.name, base=side.on_base, head=side.on_head) for side in sides
        )
        suspicions = list(examine(replace(self._comparison, collected=collected)))
        if not any(side.has_new_failures for side in sides):
            suspicions += self._crossed(run, sides, pool)
        unique = {one.id: one for one in suspicions}
        return judged(tuple(unique.values()))

    def _side(self, run: Run, gate: Gate, found: Future[Measured]) -> _Side | None:
        """The tests of a gate on both sides; None for a gate that runs no tests."""
        head = found.result().found
        if head is None or not head.tests:
            return None
        base = run.measured(gate, self._base_tree).found
        return _Side(gate, base.tests if base else (), head.tests)

    def _crossed(self, run: Run, sides: Sequence[_Side], pool: Executor) -> list[Suspicion]:
        """What the tests of one side say to the code of the other."""
        checks = cross_checks(self._comparison, *self._paths)
        asked = []
        if checks.from_base:
            tree = self._mirror.compose(self.judged_tree, self._base_tree, checks.from_base)
            asked += [(side, judge_base_tests, pool.submit(run.measured, side.gate, tree)) for side in sides]
        if checks.from_head:
            tree = self._mirror.compose(self._base_tree, self._tree, checks.from_head)
            asked += [(side, judge_new_tests, pool.submit(run.measured, side.gate, tree)) for side in sides]
        found: list[Suspicion] = []
        for side, judge, future in asked:
            crossed = future.result().found
            if crossed is not None:
                found += judge(
                    self._comparison, on_base=side.on_base, on_head=side.on_head, crossed=crossed.tests
                )
        return found

    @cached_property
    def _changed(self) -> frozenset[str]:
        return frozenset(name for change in self.changes for name in (change.path, change.old_path) if name)

    @cached_property
    def _paths(self) -> tuple[list[str], list[str]]:
        return self._mirror.paths(self._base_tree), self._mirror.paths(self._tree)

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(
            changes=tuple(self._read(change) for change in self.changes),
            links=self._links[1],
            paths=tuple(self._paths[1]),
            unchanged=tuple(self._unchanged_tests()),
            protected=self._policy.protected,
        )

    def _unchanged_tests(self) -> Iterator[FileText]:
        """Test files that did not change, as many as are cheap to read: answers are copied from them, too."""
        names = (path for path in self._paths[1] if path not in self._changed and is_test_path(path))
        for path in islice(names, MAX_READ_ALONG):
            content = self._mirror.file(self._tree, path)
            if content is not None and len(content) <= MAX_READ_ALONG_BYTES and b"\0" not in content:
                yield FileText(path=path, text=content.decode("utf-8", "replace"))

    def _read(self, change: Change) -> FileChange:
        """A change with both of its sides, and what its link leads to."""
        base_links, links = self._links
        old = change.old_path or change.path
        before = None if change.status == "A" else self._content(self._base_tree, old, base_links)
        after = None if change.status == "D" else self._mirror.file(self._tree, change.path)
        linked = None
        if change.mode == LINK:
            after = links.get(change.path, "").encode("utf-8", "surrogateescape")
            linked = self._content(self._tree, change.path, links)
        return file_change(
            change.status,
            change.path,
            before,
            after,
            old_path=change.old_path,
            mode=change.mode,
            linked=linked,
        )

    def _content(self, tree: str, path: str, links: Mapping[str, str]) -> bytes | None:
        """A file's content in a tree, through links that stay inside it."""
        place, problem = destination(path, links)
        return None if problem else self._mirror.file(tree, place)

    @cached_property
    def _links(self) -> tuple[dict[str, str], dict[str, str]]:
        """The links of base and head; none where the change has no links."""
        if not any(change.mode == LINK or change.status == "T" for change in self.changes):
            return {}, {}
        base, head = (
            {
                path: target.decode("utf-8", "surrogateescape")
                for path, target in self._mirror.links(tree).items()
            }
            for tree in (self._base_tree, self._tree)
        )
        return base, head


class _Side(NamedTuple):
    """The tests of one gate as the base has them, and as the head has them."""

    gate: Gate
    on_base: tuple[TestOutcome, ...]
    on_head: tuple[TestOutcome, ...]

    @property
    def has_new_failures(self) -> bool:
        """True when the gate rejects the work by itself, and nothing has to be crossed to know it."""
        bad = ("failed", "error")
        known = {test.id for test in self.on_base if test.outcome in bad}
        return any(test.outcome in bad and test.id not in known for test in self.on_head)


def judged(suspicions: Sequence[Suspicion]) -> GateResult:
    """The gate's result: anything that a reviewer has to settle holds the work."""
    serious = [one for one in suspicions if one.weight is Weight.HELD]
    notes = [one for one in suspicions if one.weight is not Weight.HELD]
    count = len(serious)
    return GateResult(
        name=INTEGRITY,
        status=GateStatus.HELD if serious else GateStatus.PASSED,
        measured={"findings": float(count)},
        required={"max_findings": 0.0},
        line=f"- Integrity: {count} {'finding' if count == 1 else 'findings'} (requires 0)",
        findings=tuple(_finding(one) for one in (*serious[:KEPT_SUSPICIONS], *notes[:KEPT_FINDINGS])),
        finding_count=len(suspicions),
        suspicions=tuple(one.id for one in serious),
        excess=float(count),
    )


def _finding(one: Suspicion) -> GateFinding:
    severity = "error" if one.weight is Weight.HELD else "note"
    text = written(one.text)
    return GateFinding(
        path=written(one.path),
        line=one.line,
        code=one.code,
        text=f"{text} [{one.id}]" if one.weight is Weight.HELD else text,
        severity=severity,
    )

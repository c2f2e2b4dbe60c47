"""A comparison as the rules see it: every change with both of its sides read."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property

from remand.domain.integrity.comparison import LINK, Comparison, FileChange, Suspicion
from remand.domain.integrity.harness import is_steering
from remand.domain.integrity.links import destination
from remand.domain.integrity.matching import Matching, matched
from remand.domain.integrity.paths import (
    is_collected_path,
    is_made_path,
    is_product_path,
    is_test_path,
    language_of,
)
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.subjects import defined, dropped_parameters, removed, renamed
from remand.domain.integrity.takeover import is_taken_over
from remand.domain.integrity.views import Placed, View

_DATA = (".html", ".css", ".scss", ".sql", ".csv", ".xml", ".txt", ".j2", ".tmpl", ".graphql", ".proto")
MAX_READ = 8 << 20
"""Characters that are read of one change, both sides together."""


class Scene:
    """All changes, and what follows from all of them together."""

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        self.views: list[View] = []
        self.unread = 0
        """How many files were left unread because the change is too large."""
        self.links = dict(comparison.links) | {
            change.path: change.after or "" for change in comparison.changes if change.mode == LINK
        }
        """The target of every link of the head by its path."""
        left = MAX_READ
        for change in comparison.changes:
            left -= len(change.before or "") + len(change.content or "")
            self.unread += left < 0
            self.views.append(self._view(change, is_read=left >= 0))

    def _view(self, change: FileChange, *, is_read: bool) -> View:
        patterns = self.comparison.test_patterns
        sides = (change.base_path, change.before), (change.path, change.content)
        before, after = (
            Source(path, text, patterns)
            if is_read and text is not None and not self._is_alias(change)
            else None
            for path, text in sides
        )
        return View(change, before, after)

    def _is_alias(self, change: FileChange) -> bool:
        """True for a new link to a file that is read by the same rules under its own path."""
        if change.mode != LINK or change.before is not None:
            return False
        patterns = self.comparison.test_patterns
        here, there = (
            (language_of(path), is_test_path(path, patterns), is_steering(path))
            for path in (change.path, destination(change.path, self.links).path)
        )
        return here == there

    @cached_property
    def base_cases(self) -> tuple[Placed, ...]:
        """Every test of the base in a changed file."""
        return tuple(self._cases(lambda view: view.before))

    @cached_property
    def head_cases(self) -> tuple[Placed, ...]:
        """Every test of the head in a changed file."""
        return tuple(self._cases(lambda view: view.after))

    def _cases(self, side: Callable[[View], Source | None]) -> Iterator[Placed]:
        patterns = self.comparison.test_patterns
        for view in self.views:
            source = side(view)
            if source is None or not (view.is_test or source.language == "rust"):
                continue
            is_found = is_collected_path(source.path, patterns)
            for case in source.cases:
                yield Placed(view, case, is_found and case.is_collected)

    @cached_property
    def matching(self) -> Matching:
        """The tests of both sides, sorted out."""
        return matched(self.base_cases, self.head_cases)

    @cached_property
    def bodies(self) -> frozenset[str]:
        """The bodies of all tests that run on the head."""
        return frozenset(
            placed.case.body for placed in self.head_cases if placed.is_run and placed.case.proofs
        )

    @cached_property
    def is_taken_over(self) -> bool:
        """True when what the tests that are gone proved is proven by others."""
        return is_taken_over(self.matching, self.vanished)

    @cached_property
    def has_product_change(self) -> bool:
        """True when anything but tests, comments and prose differs."""
        return any(self._is_product(view) and view.differs for view in self.views)

    def _is_product(self, view: View) -> bool:
        if is_test_path(view.path, self.comparison.test_patterns) or is_made_path(view.path):
            return False
        return language_of(view.path) != "" or view.path.endswith(_DATA) or view.change.is_binary

    @cached_property
    def vanished(self) -> frozenset[str]:
        """The names the product defined on the base and does not any more, under no other name either."""
        before, after = self._product
        gone = defined(before) - defined(after)
        names = gone - renamed(gone, before, after) if gone else frozenset()
        return names | dropped_parameters(before, after)

    @cached_property
    def removed(self) -> frozenset[str]:
        """Those of the vanished names of which nothing is left, and parameters no function takes any more."""
        before, after = self._product
        return removed(self.vanished, before, after) | dropped_parameters(before, after)

    @cached_property
    def _product(self) -> tuple[list[Source], list[Source]]:
        """The product's own files among the changed ones, on the base and on the head."""
        return (
            [view.before for view in self.views if view.before and is_product_path(view.before.path)],
            [view.after for view in self.views if view.after and is_product_path(view.after.path)],
        )

    @cached_property
    def own_packages(self) -> frozenset[str]:
        """The names under which the project's own modules are imported."""
        paths = self.comparison.paths or tuple(view.path for view in self.views)
        found: set[str] = set()
        for path in paths:
            if path.endswith(".py") and not is_test_path(path):
                parts = path.removesuffix(".py").split("/")
                found.add(parts[1] if parts[0] in ("src", "lib", "python") and len(parts) > 1 else parts[0])
        return frozenset(found - {"setup", "docs", "scripts", "conftest"})


Rule = Callable[[Scene], Iterator[Suspicion]]
"""One class of finding, looked for in the whole change."""

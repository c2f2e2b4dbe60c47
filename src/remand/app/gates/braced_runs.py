"""Extra runs of tests of Go and Rust alone, each with some files of the head changed, and what they say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

from remand.app.gates.extra_runs import TestSides, make_left_out
from remand.domain.gate.gate import RunCheck, TestOutcome, WatchedTest
from remand.integrity.altered_expectations import HALVES, AlteredFile, alter_halves, judge_altered_tests
from remand.integrity.altered_inputs import (
    NEAR,
    alter_questions,
    find_mended,
    find_unasked,
    is_braced_path,
    judge_questions,
    known_words,
    name_in_file,
)
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import Comparison
from remand.integrity.dropped_errors import find_dropped_errors, judge_dropped_errors
from remand.integrity.mutants import find_replaced_calls, judge_replaced_calls
from remand.integrity.suspicions import Suspicion


class BracedRuns(NamedTuple):
    """What these runs need."""

    comparison: Comparison
    side: TestSides
    read: Callable[[str], str]
    """The text of a file of the head."""
    test: Callable[[Mapping[str, bytes]], Sequence[TestOutcome]]
    """Runs all tests with these files in place of the head's."""
    watch: Callable[[dict[str, bytes]], Sequence[WatchedTest]]
    """The same, with what the tests told."""

    def judge_questions(self, product: str, mended: Sequence[str]) -> Sequence[Suspicion]:
        """What the mended tests say when they ask for something else and expect the same."""
        texts = {path: self.read(path) for path in mended} if product else {}
        known = known_words(Changeset(self.comparison)) if texts else frozenset()
        unasked: list[set[str]] = []
        for step in NEAR if texts and all(map(is_braced_path, texts)) else ():
            altered = {path: alter_questions(path, text, step, known) for path, text in texts.items()}
            names = {path: found for path, (_, found) in altered.items()}
            if not any(names.values()):
                break
            if left_out := self._left_out:
                return left_out
            files = {path: text for path, (text, _) in altered.items()}
            unasked.append(find_unasked(self.side.watched, names, self.watch(files)))
            if not unasked[-1]:
                break
        return judge_questions(product, unasked)

    def judge_dropped_errors(self, paths: Sequence[str]) -> Sequence[Suspicion]:
        """What mended tests say when errors that the change drops are heard."""
        mended = find_mended(*self.side.watched)
        dropped = find_dropped_errors(self.comparison) if mended else ()
        if not dropped or self._left_out:
            return self._left_out if dropped else ()
        tests = self.test({one.path: one.heard for one in dropped})
        asked = [path for path in paths if any(name_in_file(path, test_id) for test_id in mended)]
        return judge_dropped_errors(dropped, mended, tests, {path: self.read(path) for path in asked})

    def judge_halves(self, altered: Sequence[AlteredFile]) -> Iterator[Suspicion]:
        """What tests say when only one half of them expects something else."""
        texts = {one.path: self.read(one.path) for one in altered if is_braced_path(one.path)}
        for half in HALVES:
            part = alter_halves(altered, texts, half)
            if part and self._left_out:
                yield from self._left_out
                return
            if part:
                after = self.watch({one.path: one.tests for one in part})
                yield from judge_altered_tests(self.comparison, part, self.side.watched, after)

    def judge_replaced_calls(
        self, crossed: Sequence[TestOutcome], product: Mapping[str, str]
    ) -> Sequence[Suspicion]:
        """Tests that only the head's version lets pass, and that need nothing of what they called on the base."""
        texts = {path: text for path, text in product.items() if is_braced_path(path)}
        tests, broken = find_replaced_calls(self.comparison, self.side.runs(tuple(crossed)), texts)
        if not tests or self._left_out:
            return self._left_out if tests else ()
        return judge_replaced_calls(self.comparison, tests, self.test(broken))

    @property
    def _left_out(self) -> tuple[Suspicion, ...]:
        """The note that one more run of all tests does not fit; nothing if it does."""
        cost = self.side.seconds
        fits = self.side.left.covers(cost)
        return () if fits else (make_left_out(RunCheck.MUTANTS, self.side.gate.name, cost),)

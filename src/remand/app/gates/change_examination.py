"""Examines a change against its base: which tree the gates measure, and what the integrity gate finds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import cached_property, partial
from itertools import islice

from msgspec.structs import replace

from remand.app.events.task_folds import without_garbage_collection
from remand.app.gates.braced_runs import BracedRuns
from remand.app.gates.extra_runs import TestSides, TimeLeft, make_left_out
from remand.app.gates.ports import Mirror, TreeChange
from remand.app.gates.runner import GateMeasurement, GateRun
from remand.domain.gate.gate import (
    Gate,
    GatePolicy,
    Measurement,
    RunCheck,
    TestOutcome,
    WatchedTest,
)
from remand.domain.gate.verdict import GateResult
from remand.domain.text.path_patterns import PathPattern
from remand.integrity.altered_expectations import (
    AlteredFile,
    alter_expectations,
    judge_altered_functions,
    judge_altered_tests,
)
from remand.integrity.altered_inputs import (
    FAR,
    LAST,
    LONGER,
    NEAR,
    Alteration,
    AlteredRuns,
    find_altered_files,
    find_mended,
    is_braced_path,
    known_words,
    told_text,
)
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import LINK, CollectedTests, Comparison, FileDiff, FileText, build_file_diff
from remand.integrity.cross_runs import (
    CrossChecks,
    TestRuns,
    find_changed_proof,
    judge_base_tests,
    judge_new_tests,
    judge_own_harness,
    plan_cross_checks,
    with_test_module,
)
from remand.integrity.examination import examine, integrity_result
from remand.integrity.general_paths import (
    find_general_paths,
    judge_identified,
    judge_special_only,
    special_only_tests,
)
from remand.integrity.harness import harness_paths, merge_configuration, mixed_paths, trusted_paths
from remand.integrity.mutants import (
    break_changed_functions,
    find_indifferent_tests,
    judge_broken_runs,
    judge_indifferent_tests,
    notices_broken_code,
)
from remand.integrity.paths import follow_links, is_product_path, is_test_path
from remand.integrity.readers.command_lines import measured_categories
from remand.integrity.result_records import find_unreached_assertions
from remand.integrity.reversed_tests import counts_calls, judge_reversed, reverse_rows, reverse_tests
from remand.integrity.rules.suppressions import count_suppressions
from remand.integrity.split_tests import split_tests
from remand.integrity.suspicions import Suspicion, Weight, suspicion

MAX_READ_ALONG = 100
MAX_READ_ALONG_BYTES = 32 << 10


class Examination:
    """Compares a tree with its base: what differs, which tree is measured, and the result of the integrity gate."""

    def __init__(
        self,
        mirror: Mirror,
        policy: GatePolicy,
        tree: str,
        base_tree: str,
        must_pass: Sequence[str] = (),
    ) -> None:
        """`must_pass` are patterns of the tests that the task names as its proof."""
        self._mirror = mirror
        self._policy = policy
        self._tree = tree
        self._base_tree = base_tree
        self._must_pass = must_pass
        self._is_examined = policy.integrity and bool(base_tree)

    @cached_property
    def changes(self) -> list[TreeChange]:
        """The files that differ between the two."""
        return self._mirror.changes(self._base_tree, self._tree) if self._base_tree else []

    def touches(self, patterns: Sequence[PathPattern]) -> bool:
        """True if a changed file matches one of the patterns; always without patterns, or without a base."""
        if not patterns or not self._base_tree:
            return True
        return any(pattern.matches(name) for pattern in patterns for name in self._changed_paths)

    @cached_property
    def judged_tree(self) -> str:
        """The tree to measure: the head's, with the files that control its gates taken from the base."""
        if not self._is_examined:
            return self._tree
        trusted = trusted_paths(self._comparison, self.examine())
        base, head = self._paths
        taken = [path for path in harness_paths(base, head, trusted=trusted) if path in self._changed_paths]
        files: dict[str, bytes] = {}
        for path in mixed_paths(base, head):
            content = self._merge_file(path) if path in self._changed_paths else None
            if content is not None:
                files[path] = content
            elif path in self._changed_paths:
                taken.append(path)
        tree = self._mirror.compose(self._tree, self._base_tree, taken) if taken else self._tree
        return self._mirror.with_files(tree, files) if files else tree

    def _merge_file(self, path: str) -> bytes | None:
        before, after = self._mirror.file(self._base_tree, path), self._mirror.file(self._tree, path)
        return None if before is None or after is None else merge_configuration(path, before, after)

    def result(
        self,
        run: GateRun,
        gates: Sequence[Gate],
        found: Mapping[str, Future[GateMeasurement]],
        pool: Executor,
    ) -> GateResult:
        """The result of the integrity gate."""
        sides = [
            side for gate in gates if (side := self._test_sides(run, gate, found[gate.name])) is not None
        ]
        collected = tuple(
            CollectedTests(gate=side.gate.name, base=side.on_base, head=side.on_head) for side in sides
        )
        suspicions = list(_examine(replace(self._comparison, collected=collected)))
        suspicions += find_changed_proof(self._comparison, self._must_pass)
        for side in sides:
            if RunCheck.RESULTS in self._policy.runs:
                suspicions += (suspicion(one.code, "", 0, one.text) for one in side.irregularities)
            if RunCheck.ASSERTIONS in self._policy.runs:
                suspicions += find_unreached_assertions(self._comparison, *side.watched)
        if not any(side.has_new_failures for side in sides):
            suspicions += self._cross_check(run, sides, pool)
        unique = {one.id: one for one in suspicions}
        return integrity_result(tuple(unique.values()))

    def examine(self) -> tuple[Suspicion, ...]:
        """The findings from the texts of both sides, without a run."""
        return _examine(self._comparison)

    def _test_sides(self, run: GateRun, gate: Gate, found: Future[GateMeasurement]) -> TestSides | None:
        """The tests of a gate on both sides; None for a gate that runs no tests."""
        measured = found.result()
        head = measured.found
        if head is None or not head.tests:
            return None
        base = run.measure(gate, self._base_tree).found
        on_base = base.tests if base else ()
        # What the base's own run shows as well is how the project's tools behave, and nothing that the change did.
        usual = {one.code for one in base.irregularities} if base else ()
        odd = tuple(one for one in head.irregularities if one.code not in usual)
        watched = (base.watched if base else (), head.watched)
        return TestSides(
            gate,
            on_base,
            head.tests,
            watched,
            odd,
            measured.seconds,
            TimeLeft(measured.seconds),
            head.takes_files,
        )

    def _cross_check(self, run: GateRun, sides: Sequence[TestSides], pool: Executor) -> list[Suspicion]:
        """The findings from running the tests of one side on the code of the other, within the time for extra runs."""
        checks = plan_cross_checks(self._comparison, *self._paths)
        asked: list[tuple[TestSides, RunCheck, _JudgeRuns, str, Future[GateMeasurement]]] = []
        found: list[Suspicion] = []
        noticing: set[str] = set()
        for side in sides:
            for kind, judge, tree, files in self._crossed_trees(checks):
                if (kind is RunCheck.BASE_TESTS and not side.on_base) or (
                    judge is judge_own_harness and not side.has_failures
                ):
                    continue  # there is nothing to compare with
                cost = side.seconds_of(files) if files and side.is_selective else side.seconds
                if side.left.covers(cost):
                    side.left.spend(cost)
                    # New tests are expected to fail on the base: to run these again would show nothing.
                    retries = side.gate.retries if kind is RunCheck.BASE_TESTS else 0
                    short = side._replace(gate=side.short_gate(cost, retries))
                    future = pool.submit(run.measure, short.gate, tree, files=files)
                    asked.append((short, kind, judge, tree, future))
                else:
                    found.append(make_left_out(kind, side.gate.name, cost))
            if RunCheck.MUTANTS in self._policy.runs:
                found += self._judge_altered_sides(run, side)
            if RunCheck.MUTANTS in self._policy.runs and (
                checks.from_head or checks.spliced or checks.has_other_tests
            ):
                crossed = next(
                    (
                        future
                        for one, _, judge, _, future in asked
                        if one.gate.name == side.gate.name and judge is judge_new_tests
                    ),
                    None,
                )
                suspicions, notices_faults = self._judge_mutants(run, side, checks.from_head, crossed)
                found += suspicions
                noticing |= {side.gate.name} if notices_faults else set()
        for side, kind, judge, tree, future in asked:
            found += self._judge_crossed(
                run, side, judge, tree, future.result(), notices_faults=side.gate.name in noticing
            )
            measured = future.result().found
            if kind is RunCheck.BASE_TESTS and RunCheck.MUTANTS in self._policy.runs and measured:
                braced = self._braced_runs(run, side)
                found += braced.judge_replaced_calls(measured.tests, self._product_files)
        return found

    def _judge_altered_sides(self, run: GateRun, side: TestSides) -> list[Suspicion]:
        """The findings from running tests with parts of the change, or of the tests, altered."""
        special = self._judge_general_paths(run, side)
        found = [*special, *self._judge_altered_expectations(run, side)]
        if not special:
            found += self._judge_altered_inputs(run, side)
        braced = self._braced_runs(run, side)
        found += braced.judge_dropped_errors(self._paths[1])
        if not any(one.code == "answer_fits_tests" for one in found):
            found += braced.judge_questions(self._changed_product, tuple(self._mended_files(side)))
        if not any(one.code == "expectation_ignored" for one in found):
            found += braced.judge_halves(self._altered_expectations(side))
        return found

    def _judge_general_paths(self, run: GateRun, side: TestSides) -> list[Suspicion]:
        """The findings from running all tests with only the special answers of changed functions."""
        found: list[Suspicion] = []
        for one in find_general_paths(self._comparison):
            if not side.left.covers(side.seconds):
                found.append(make_left_out(RunCheck.MUTANTS, side.gate.name, side.seconds))
                break
            tests: Sequence[TestOutcome] = ()
            if one.special_only:
                special = self._tests_with(run, side, {one.path: one.special_only})
                tests = special_only_tests(one, side.on_base, side.on_head, special)
            if tests or (one.is_identified and side.left.covers(side.seconds)):
                broken = self._tests_with(run, side, {one.path: one.crashing})
                found += judge_special_only(one, tests, broken) or judge_identified(
                    one, side.on_base, side.on_head, broken
                )
        return found

    def _judge_altered_inputs(self, run: GateRun, side: TestSides) -> Sequence[Suspicion]:
        """What the tests that the change mended say on both sides when they ask for something else."""
        texts = self._mended_files(side) if self._changed_product else {}
        is_braced = any(map(is_braced_path, texts))
        if found := () if is_braced else self._judge_reversed(run, side, texts):
            return found
        cost = 2 * side.seconds_of_some(tuple(texts))
        left_out = (make_left_out(RunCheck.MUTANTS, side.gate.name, cost),)
        # One test ends at its first failure: its assertions, one by one, say as much as several tests.
        names = () if is_braced else find_mended(*side.watched)
        split = partial(split_tests, test_ids=names if len(names) == 1 else ())
        watched: tuple[Sequence[WatchedTest], Sequence[WatchedTest]] = side.watched
        parts = {path: split(path, text) for path, text in texts.items()}
        if _differ(parts, texts):
            if not side.left.covers(cost):
                return left_out
            watched = self._watch_both(run, side, parts)
        for steps in (NEAR, LONGER) if is_braced else (NEAR, FAR) if texts else ():
            runs = AlteredRuns(*watched, steps, texts)
            for step in steps:
                files = self._alter_inputs(texts, step)
                if not runs.may_show or not _differ(files, texts):
                    break
                if not side.left.covers(cost):
                    return left_out
                files = {path: split(path, text.decode()) for path, text in files.items()}
                runs.add(*self._watch_both(run, side, files))
            found = runs.judge(self._changed_product)
            if found and steps is FAR:
                runs = AlteredRuns(*watched, LAST, texts)
                files = self._alter_inputs(texts, *LAST)
                files = {path: split(path, text.decode()) for path, text in files.items()}
                runs.add(*self._watch_both(run, side, files))
                found = runs.judge(self._changed_product)
            if found:
                return found
        return ()

    def _alter_inputs(self, texts: Mapping[str, str], step: int) -> dict[str, bytes]:
        if any(map(is_braced_path, texts)):
            alteration = Alteration(step, vocabulary=known_words(Changeset(self._comparison)))
        else:
            changed = (one.before for one in self._comparison.changes if is_product_path(one.base_path))
            alteration = Alteration(step, self._product_text, "\n".join(one or "" for one in changed))
        return {path: alteration.alter_file(path, text) for path, text in texts.items()}

    def _judge_reversed(self, run: GateRun, side: TestSides, texts: Mapping[str, str]) -> Sequence[Suspicion]:
        """What the mended tests say in another order, where new code may count its calls."""
        is_counting = bool(texts) and counts_calls(Changeset(self._comparison))
        for reverse in (reverse_tests, reverse_rows) if is_counting else ():
            turned = {path: reverse(path, text) for path, text in texts.items()}
            if not _differ(turned, texts):
                continue
            cost = 2 * side.seconds_of_some(tuple(texts))
            if not side.left.covers(cost):
                return (make_left_out(RunCheck.MUTANTS, side.gate.name, cost),)
            after = self._watch_both(run, side, turned)
            if found := judge_reversed(self._changed_product, *side.watched, *after):
                return found
        return ()

    def _mended_files(self, side: TestSides) -> dict[str, str]:
        """The texts of the files of tests that the change mended."""
        return {path: self._head_text(path) for path in find_altered_files(self._paths[1], *side.watched)}

    def _head_text(self, path: str) -> str:
        return (self._mirror.file(self._tree, path) or b"").decode("utf-8", "replace")

    @property
    def _changed_product(self) -> str:
        """A changed file of the product; empty if there is none."""
        changed = (change.path for change in self._comparison.changes if is_product_path(change.path))
        return next(changed, "")

    @cached_property
    def _product_files(self) -> dict[str, str]:
        """The files of the product, up to a limit on their number."""
        paths = (path for path in self._paths[1] if is_product_path(path))
        chosen = sorted(paths, key=lambda path: path not in self._changed_paths)[:MAX_READ_ALONG]
        return {path: self._head_text(path) for path in chosen}

    @cached_property
    def _product_text(self) -> str:
        """What the code of the product says."""
        return "\n".join(told_text(path, text) for path, text in self._product_files.items())

    def _with_modules_of_base(self, altered: Mapping[str, bytes]) -> dict[str, bytes]:
        """Altered tests for the base: of a file of Rust that holds the product, too, their module alone."""
        found = dict(altered)
        for path, text in altered.items():
            base = b"" if is_test_path(path) else self._mirror.file(self._base_tree, path) or b""
            if base:
                found[path] = with_test_module(
                    base.decode("utf-8", "replace"), text.decode("utf-8", "replace")
                )
        return found

    def _judge_altered_expectations(self, run: GateRun, side: TestSides) -> Sequence[Suspicion]:
        """What new, changed and mended tests say when they expect something else."""
        altered = self._altered_expectations(side)
        found: list[Suspicion] = []
        tests = {one.path: one.tests for one in altered if one.tests}
        beside = {one.path: one.beside for one in altered if one.beside}
        for files, is_beside in ((tests, False), (beside, True)):
            cost = side.seconds if is_beside else side.seconds_of_some(tuple(files))
            if files and not side.left.covers(cost):
                found.append(make_left_out(RunCheck.MUTANTS, side.gate.name, cost))
            elif files:
                after = self._watch_with(run, side, self.judged_tree, files)
                found += (
                    judge_altered_functions(altered, side.watched[1], after)
                    if is_beside
                    else judge_altered_tests(self._comparison, altered, side.watched, after)
                )
        return found

    def _altered_expectations(self, side: TestSides) -> Sequence[AlteredFile]:
        mended = {
            path: text for path, text in self._mended_files(side).items() if path not in self._changed_paths
        }
        return alter_expectations(self._comparison, mended) if side.watched[1] else ()

    def _watch_both(
        self, run: GateRun, side: TestSides, files: dict[str, bytes]
    ) -> tuple[Sequence[WatchedTest], Sequence[WatchedTest]]:
        """What tests of some files told on the base's code and on the head's."""
        on_base = self._watch_with(run, side, self._base_tree, self._with_modules_of_base(files))
        return on_base, self._watch_with(run, side, self.judged_tree, files)

    def _watch_with(
        self, run: GateRun, side: TestSides, tree: str, files: dict[str, bytes]
    ) -> Sequence[WatchedTest]:
        """What tests of some files told while they ran, with these files in place of a tree's own."""
        asked = tuple(files) if side.is_selective else ()
        gate = side.short_gate(side.seconds_of_some(tuple(files)))
        measured = self._measure(run, side, gate, self._mirror.with_files(tree, files), asked)
        return measured.watched if measured else ()

    def _tests_with(
        self, run: GateRun, side: TestSides, files: Mapping[str, bytes]
    ) -> tuple[TestOutcome, ...]:
        """The results of all tests of a gate with some files of the head changed."""
        tree = self._mirror.with_files(self.judged_tree, files)
        measured = self._measure(run, side, side.short_gate(side.seconds), tree)
        return measured.tests if measured else ()

    @staticmethod
    def _measure(
        run: GateRun, side: TestSides, gate: Gate, tree: str, files: tuple[str, ...] = ()
    ) -> Measurement | None:
        """An extra run of some tests, by the time that it took."""
        measured = run.measure(gate, tree, files=files)
        side.left.spend(measured.seconds)
        return measured.found

    def _judge_mutants(
        self,
        run: GateRun,
        side: TestSides,
        files: tuple[str, ...],
        crossed: Future[GateMeasurement] | None,
    ) -> tuple[Sequence[Suspicion], bool]:
        """The findings from running new and changed tests on functions that were broken on purpose: does any test fail?

        `crossed` is their run on the base.
        """
        broken = break_changed_functions(self._comparison)
        # A runner that leaves no files out runs all of its tests, and may compile the product anew.
        files = files if side.is_selective else ()
        cost = side.seconds_of(files) if files else side.seconds
        if not broken.names:
            return (), False
        gate = side.short_gate(cost)
        runs = {"base": side.on_base, "head": side.on_head}
        notices_faults = False
        # Most tests notice that a function does nothing: to see which execute it takes a run that only the others need.
        for name, changed in (("hollow", broken.hollow), ("crashing", broken.crashing)):
            if not side.left.covers(cost):
                return [make_left_out(RunCheck.MUTANTS, side.gate.name, cost)], notices_faults
            tree = self._mirror.with_files(self.judged_tree, changed)
            measured = self._measure(run, side, gate, tree, files)
            if measured is None:
                return (), notices_faults
            runs[name] = measured.tests
            notices_faults = notices_faults or notices_broken_code(self._comparison, runs)
            if notices_faults and not find_indifferent_tests(self._comparison, runs):
                return (), True
        indifferent = judge_indifferent_tests(self._comparison, runs)
        if notices_faults:
            return indifferent, True
        on_base = crossed.result().found if crossed and broken.are_old else None
        runs["crossed"] = on_base.tests if on_base else ()
        return indifferent or judge_broken_runs(self._comparison, broken.names, runs), False

    def _braced_runs(self, run: GateRun, side: TestSides) -> BracedRuns:
        return BracedRuns(
            self._comparison,
            side,
            self._head_text,
            partial(self._tests_with, run, side),
            partial(self._watch_with, run, side, self.judged_tree),
        )

    def _crossed_trees(
        self, checks: CrossChecks
    ) -> Iterator[tuple[RunCheck, _JudgeRuns, str, tuple[str, ...]]]:
        """The trees to run tests on, the most informative first: what is checked, by which side, and the test files."""
        if RunCheck.BASE_TESTS in self._policy.runs and (checks.from_base or checks.spliced):
            tree = self._mirror.compose(self.judged_tree, self._base_tree, checks.from_base)
            tree = self._mirror.with_files(tree, checks.spliced) if checks.spliced else tree
            if tree != self.judged_tree:
                yield RunCheck.BASE_TESTS, partial(judge_base_tests, must_pass=self._must_pass), tree, ()
        if RunCheck.BASE_TESTS in self._policy.runs and self._tree != self.judged_tree:
            yield RunCheck.BASE_TESTS, judge_own_harness, self._tree, ()
        if RunCheck.NEW_TESTS in self._policy.runs and checks.from_head:
            tree = self._mirror.compose(self._base_tree, self._tree, checks.from_head)
            yield RunCheck.NEW_TESTS, judge_new_tests, tree, checks.from_head

    def _judge_crossed(
        self,
        run: GateRun,
        side: TestSides,
        judge: _JudgeRuns,
        tree: str,
        crossed: GateMeasurement,
        *,
        notices_faults: bool,
    ) -> Sequence[Suspicion]:
        """The findings of crossed runs; a finding that would hold the work must appear in a second run, too."""
        if crossed.found is None:
            return ()
        runs = replace(side.runs(crossed.found.tests), notices_faults=notices_faults)
        found = judge(self._comparison, runs)
        if judge is judge_new_tests or all(one.weight is not Weight.HELD for one in found):
            return found
        again = run.measure(side.gate, tree, is_fresh=True).found
        if again is None:
            return ()
        confirmed = {one.id for one in judge(self._comparison, side.runs(again.tests))}
        return [one for one in found if one.id in confirmed]

    @cached_property
    def _changed_paths(self) -> frozenset[str]:
        return frozenset(name for change in self.changes for name in (change.path, change.old_path) if name)

    @cached_property
    def _paths(self) -> tuple[list[str], list[str]]:
        return self._mirror.paths(self._base_tree), self._mirror.paths(self._tree)

    @cached_property
    def _comparison(self) -> Comparison:
        return Comparison(
            changes=tuple(self._file_change(change) for change in self.changes),
            links=self._links[1],
            paths=tuple(self._paths[1]),
            unchanged=tuple(self._unchanged_tests()),
            measured=measured_categories(self._policy.gates or ()),
            max_suppressions=self._policy.max_suppressions,
            unchanged_suppressions=self._unchanged_suppressions(),
            protected=self._policy.protected,
        )

    def _unchanged_suppressions(self) -> int:
        """The suppression directives in unchanged files; read only if the project limits their number."""
        if self._policy.max_suppressions is None or not self.changes:
            return 0
        paths = (path for path in self._paths[1] if path not in self._changed_paths)
        return sum(count_suppressions(path, self._mirror.file(self._tree, path) or b"") for path in paths)

    def _unchanged_tests(self) -> Iterator[FileText]:
        """Unchanged test files, up to a limit on their size: special answers may be copied from them, too."""
        names = (path for path in self._paths[1] if path not in self._changed_paths and is_test_path(path))
        for path in islice(names, MAX_READ_ALONG):
            content = self._mirror.file(self._tree, path)
            if content is not None and len(content) <= MAX_READ_ALONG_BYTES and b"\0" not in content:
                yield FileText(path=path, text=content.decode("utf-8", "replace"))

    def _file_change(self, change: TreeChange) -> FileDiff:
        """A changed file with its content on both sides; for a link, the content of its target."""
        base_links, links = self._links
        old = change.old_path or change.path
        before = None if change.status == "A" else self._content(self._base_tree, old, base_links)
        after = None if change.status == "D" else self._mirror.file(self._tree, change.path)
        linked = None
        if change.mode == LINK:
            after = links.get(change.path, "").encode("utf-8", "surrogateescape")
            linked = self._content(self._tree, change.path, links)
        return build_file_diff(
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
        place, problem = follow_links(path, links)
        return None if problem else self._mirror.file(tree, place)

    @cached_property
    def _links(self) -> tuple[dict[str, str], dict[str, str]]:
        """The links of base and head; empty if the change has no links."""
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


def _examine(comparison: Comparison) -> tuple[Suspicion, ...]:
    # The collector would walk syntax trees again and again that all stay until the end.
    with without_garbage_collection():
        return examine(comparison)


def _differ(files: Mapping[str, bytes], texts: Mapping[str, str]) -> bool:
    return any(files[path] != text.encode() for path, text in texts.items())


_JudgeRuns = Callable[[Comparison, TestRuns], Sequence[Suspicion]]

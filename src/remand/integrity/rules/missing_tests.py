"""Tests of the base that were deleted, are no longer collected, or are skipped."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from remand.domain.gate.gate import TestOutcome
from remand.domain.text.words import word_set
from remand.integrity.changeset import Changeset, PlacedTest, is_named_after, is_split_up, mentions_any
from remand.integrity.comparison import FileDiff
from remand.integrity.paths import is_in_test_folder, is_test_path
from remand.integrity.readers.cases import ParsedTest, SkipMarker
from remand.integrity.readers.source import SourceFile
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion


def find_deleted_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """Tests without a counterpart, unless what they tested was removed or other tests replace them."""
    gone = [placed for placed in changeset.test_pairs.gone if not is_loss_explained(changeset, placed)]
    for path, group in _group_by_path(gone):
        names = [placed.case.name for placed in group]
        yield suspicion(
            "test_deleted",
            path,
            group[0].case.line,
            f"{_test_count(names)} deleted: {quote_names(names)}",
            "\n".join(sorted(names)),
        )


def find_uncollected_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """Tests that still exist under a name or in a place where no runner finds them."""
    lost = [
        (before, after)
        for before, after in changeset.test_pairs.kept
        if before.is_run and not _is_still_collected(before, after)
    ]
    groups: defaultdict[str, list[PlacedTest]] = defaultdict(list)
    for _, after in lost:
        groups[after.view.path].append(after)
    for path, group in groups.items():
        names = [placed.case.name for placed in group]
        found = f"{_test_count(names)} no longer collected: {quote_names(names)}"
        yield suspicion("test_uncollected", path, group[0].case.line, found, "\n".join(sorted(names)))
    for view in changeset.views:
        if view.is_test and view.before and view.after:
            yield from _find_shadowed_tests(view.path, view.before, view.after)


def _find_shadowed_tests(path: str, before: SourceFile, after: SourceFile) -> Iterator[Suspicion]:
    """Tests of the base that a second one of the same name replaces."""
    known = {case.name for case in before.tests} - set(before.shadowed_tests)
    for name, line in after.shadowed_tests.items():
        if name in known:
            yield suspicion("test_uncollected", path, line, f"a second `{name}` takes the place of the first")


def is_loss_explained(changeset: Changeset, placed: PlacedTest) -> bool:
    """True for a test that was removed with what it tested, or that others replace."""
    is_void = placed.case.is_empty and not placed.case.assertions
    if placed.case.is_skipped or is_void or changeset.is_said_elsewhere(placed.case):
        return True
    if is_for_old_go(placed.view.before) and has_twin(changeset, placed):
        return True
    if (
        is_subject_gone(changeset, placed)
        or changeset.are_lost_tests_replaced
        or is_split_up(placed, changeset.test_pairs)
    ):
        return True
    return placed.case.body in changeset.running_bodies


def is_subject_gone(changeset: Changeset, placed: PlacedTest) -> bool:
    """True for a test of something that the product has no more."""
    return mentions_any(placed, changeset.vanished_names) or is_named_after(
        placed, changeset.fully_removed_names
    )


_OLD_GO = re.compile(r"^//go:build !go1\.\d+$", re.MULTILINE)


def is_for_old_go(source: SourceFile | None) -> bool:
    """True for a file that only older versions of Go build."""
    return source is not None and source.language == "go" and _OLD_GO.search(source.text) is not None


def has_twin(changeset: Changeset, placed: PlacedTest) -> bool:
    """True if another changed file of the folder has a test of the same name that proves as much and runs."""
    folder = placed.view.path.rpartition("/")[0]
    return any(
        other.case.name == placed.case.name
        and other.view is not placed.view
        and other.view.path.rpartition("/")[0] == folder
        and other.is_run
        and not other.case.is_skipped
        and not is_for_old_go(other.view.after)
        and other.case.proofs >= placed.case.proofs
        for other in changeset.head_tests
    )


def _is_still_collected(before: PlacedTest, after: PlacedTest) -> bool:
    old, new = before.view.change.base_path, after.view.path
    has_left = (
        old != new
        and is_in_test_folder(old)
        and not is_in_test_folder(new)
        and not new.endswith((".rs", ".go"))
    )
    return after.is_run and not (has_left and new.endswith(".py"))


def _group_by_path(gone: Iterable[PlacedTest]) -> Iterator[tuple[str, list[PlacedTest]]]:
    groups: defaultdict[str, list[PlacedTest]] = defaultdict(list)
    for placed in gone:
        groups[placed.view.change.base_path].append(placed)
    yield from groups.items()


def _test_count(names: list[str]) -> str:
    return f"{len(names)} test{'s' if len(names) > 1 else ''}"


def find_skipped_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """New markers on tests that ran on the base, on new tests that therefore never run, or on set-up code."""
    found = [
        (after, _added_marker(before.case, after.case, before.view.before))
        for before, after in changeset.test_pairs.kept
        if before.is_run or before.case.sets_up
    ]
    found += [(placed, _permanent_marker(placed.case)) for placed in changeset.test_pairs.new]
    groups: defaultdict[tuple[str, str], list[tuple[PlacedTest, SkipMarker]]] = defaultdict(list)
    for placed, skip in found:
        if skip is not None:
            groups[placed.view.path, skip.text].append((placed, skip))
    for (path, text), group in groups.items():
        names = [placed.case.name for placed, _ in group]
        message = f"`{shorten(text)}` keeps {quote_names(names)} from running or failing"
        yield suspicion("test_skipped", path, group[0][1].line, message, "\n".join((text, *sorted(names))))


_FENCE = re.compile(r"\s*//[/!] ?```(.*)")
_IDLE = word_set("ignore no_run text compile_fail should_panic")


def find_idle_examples(changeset: Changeset) -> Iterator[Suspicion]:
    """Examples in the documentation of Rust that ran on the base, and are only compiled or may fail now."""
    for view in changeset.views:
        if view.before is not None and view.after is not None and view.after.language == "rust":
            ran = {body for _, mark, body in _examples(view.before) if not mark}
            for line, mark, body in _examples(view.after):
                if mark and body in ran:
                    yield suspicion(
                        "test_skipped", view.path, line, f"`{mark}` keeps an example from running", body
                    )


def _examples(source: SourceFile) -> Iterator[tuple[int, str, str]]:
    """The examples with an assertion in a file's documentation: line, what keeps them from running, text."""
    opened, marks, body = 0, "", [""]
    for number, line in enumerate(source.lines, 1):
        fence = _FENCE.match(line)
        if fence is None:
            body.append(line.strip())
        elif not opened:
            opened, body = number, []
            marks = " ".join(sorted(_IDLE & set(re.split(r"[\s,]+", fence[1]))))
        else:
            if any("assert" in one for one in body):
                yield opened, marks, "\n".join(body)
            opened = 0


def find_focused_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """New uses of `only`."""
    had = {placed.view.path for placed in changeset.base_tests if _only_marker(placed.case)}
    reported: set[str] = set()
    for placed in changeset.head_tests:
        only = _only_marker(placed.case)
        if only is not None and placed.view.path not in had | reported:
            reported.add(placed.view.path)
            yield suspicion(
                "test_focused", placed.view.path, only.line, f"`{only.text}` at `{shorten(placed.case.name)}`"
            )


def _only_marker(case: ParsedTest) -> SkipMarker | None:
    return next((skip for skip in case.skips if skip.kind == "only"), None)


_GATED = re.compile(
    r"#\[cfg\(([^\]]*)\)\]\s*(?:#\[[^\]]*\]\s*)*((?:pub(?:\([^)]*\))? )?(?:use|fn|struct|enum|impl|mod|trait)\b[^;]{0,200})"
)


def _needs_feature(skip: SkipMarker, case: ParsedTest, source: SourceFile | None) -> bool:
    """True if a test names what its file has only with the feature that the test asks for now."""
    feature = skip.text.partition("=")[2]
    gated = (name for asked, name in _GATED.findall(source.text if source else "") if feature in asked)
    known = {
        word
        for text in gated
        for word in re.findall(r"\w{4,}", text.partition("{")[0] if "use " not in text else text)
    }
    return skip.kind == "feature" and bool((known - _RUST_WORDS) & case.words)


_RUST_WORDS = word_set(
    "impl enum struct trait crate super self test tests where Self Option Result Some None Vec"
)


def _added_marker(
    before: ParsedTest, after: ParsedTest, source: SourceFile | None = None
) -> SkipMarker | None:
    """The first new marker that can prevent a test from running here."""
    if before.is_skipped:
        return None
    had = {skip.text for skip in before.skips}
    reworded = sum(skip.is_conditional for skip in before.skips)
    if reworded and reworded >= sum(skip.kind != "only" for skip in after.skips) and not after.is_skipped:
        return None
    return next(
        (
            skip
            for skip in after.skips
            if skip.text not in had
            and skip.kind != "only"
            and not skip.is_foreign
            and not _needs_feature(skip, after, source)
        ),
        None,
    )


def _permanent_marker(case: ParsedTest) -> SkipMarker | None:
    """The marker because of which a new test never runs; None for a placeholder."""
    if case.is_empty and all(skip.kind == "todo" for skip in case.skips):
        return None
    return next(
        (
            skip
            for skip in case.skips
            if not skip.is_conditional
            and skip.kind not in ("only", "todo", "should_panic", "ignore", "fails", "failing")
        ),
        None,
    )


_OTHER_TEST_FILES = re.compile(r"\.(rb|php|exs?|swift|scala|dart|cc|cpp|cxx|bats|pl|t|lua|clj|hs)$")
_TEST_LINE = re.compile(
    r"^\s*(?:(?:f|x)?(?:it|specify|scenario|example|test)\b\s*[\"'({]|def test_|@test\b|(?:public\s+)?func(?:tion)? test|TEST(?:_F|_P)?\()"
)
_SKIP_LINE = re.compile(
    r"^\s*(?:x(?:it|describe|context|specify|scenario|test)\b|pending\b|skip\b(?!.*\b(?:if|unless) (?!true\b|false\b|nil\b)[a-z]\w*$)|@tag :skip|@tag skip|\$this->markTest(?:Skipped|Incomplete)"
    r"|GTEST_SKIP|throw XCTSkip|DISABLED_)|\bDISABLED_\w+"
)
_COUNTED_THINGS = {
    "test_deleted": "tests",
    "test_skipped": "skipped tests",
    "assertion_removed": "assertions",
}
_ASSERTION_LINE = re.compile(
    r"\bexpect\b|\bassert\w*|\brefute\w*|\bshould\b|XCTAssert\w*|\bEXPECT_\w+|\bASSERT_\w+|\brun\b.*&&|\[\s*\"\$status\""
)


def find_fewer_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """Fewer tests or assertions, or more skips, than on the base, over all changed files of this kind."""
    views = [
        view for view in changeset.views if _OTHER_TEST_FILES.search(view.path) and is_test_path(view.path)
    ]
    for pattern, code, sign in (
        (_TEST_LINE, "test_deleted", -1),
        (_SKIP_LINE, "test_skipped", 1),
        (_ASSERTION_LINE, "assertion_removed", -1),
    ):
        old = sum(len(_matching_lines(view.before, pattern)) for view in views)
        new = sum(len(_matching_lines(view.after, pattern)) for view in views)
        if (new - old) * sign <= 0 or (sign < 0 and changeset.vanished_names):
            continue
        for view in views:
            had, has = _matching_lines(view.before, pattern), _matching_lines(view.after, pattern)
            if (len(has) - len(had)) * sign > 0:
                found = f"{len(has)} {_COUNTED_THINGS[code]}, was {len(had)}"
                yield suspicion(code, view.path, has[-1] if has and sign > 0 else 0, found)
                break


def _matching_lines(source: SourceFile | None, pattern: re.Pattern[str]) -> list[int]:
    lines = source.lines if source else []
    return [
        number
        for number, line in enumerate(lines, 1)
        if pattern.search(line) and not line.lstrip().startswith(("#", "//"))
    ]


RAN_OUTCOMES = ("passed", "failed", "error")
_PARAMETERS = re.compile(r"\[.*\]$|#\d+$")
_SEPARATORS = re.compile(r"[^\w]+")
IdWords = tuple[str, ...]


def find_tests_not_collected(changeset: Changeset) -> Iterator[Suspicion]:
    """Tests that gates collected on the base and no longer collect."""
    for collected in changeset.comparison.collected:
        yield from find_lost_ids(collected.base, collected.head, changeset)


def find_lost_ids(
    base: Sequence[TestOutcome], head: Sequence[TestOutcome], changeset: Changeset
) -> Iterator[Suspicion]:
    """Tests of the base that the head skips or does not collect, without an honest explanation in the change."""
    now = {test.id: test.outcome for test in head}
    gone = [test.id for test in base if test.id not in now]
    lost = list(_unexplained_ids(gone, base, head, changeset)) if gone else []
    quiet = [
        test.id
        for test in base
        if test.outcome in RAN_OUTCOMES and now.get(test.id, RAN_OUTCOMES[0]) not in RAN_OUTCOMES
    ]
    yield from _suspicions_by_file("tests_not_collected", "not collected", lost, changeset)
    yield from _suspicions_by_file("test_skipped", "skipped now", quiet, changeset)


def without_parameters(test_id: str) -> str:
    return _PARAMETERS.sub("", test_id)


def id_words(text: str) -> IdWords:
    """The words of an id or a name, without separators."""
    return tuple(part for part in _SEPARATORS.split(text) if part)


def _unexplained_ids(
    gone: Sequence[str], base: Sequence[TestOutcome], head: Sequence[TestOutcome], changeset: Changeset
) -> Iterator[str]:
    """Tests that were not renamed and whose subject still exists."""
    had = Counter(without_parameters(test.id) for test in base)
    has = Counter(without_parameters(test.id) for test in head)
    before = {test.id for test in base}
    new = [test.id for test in head if test.id not in before and test.outcome in RAN_OUTCOMES]
    known = CaseNames(_explained_names(changeset, new))
    renamed = set(_renamed_rows(changeset, gone, new))
    for test_id in gone:
        name = without_parameters(test_id)
        is_explained = known.is_end_of(name) or test_id in renamed
        if has[name] < had[name] and (has[name] or not is_explained):
            yield test_id


def _renamed_rows(changeset: Changeset, gone: Sequence[str], new: Sequence[str]) -> Iterator[str]:
    """Rows of a table of tests whose name changed, as many as the run has under the new name."""
    for before, after in changeset.test_pairs.kept:
        old, name = before.case.name, after.case.name
        if old != name and _PLACEHOLDER.search(old) and after.is_run and not after.case.is_skipped:
            patterns = [re.compile(rf"(?:^| ){_row_pattern(one)}$") for one in (old, name)]
            rows, others = (
                [one for one in ids if pattern.search(" ".join(id_words(one)))]
                for ids, pattern in zip((gone, new), patterns, strict=True)
            )
            yield from rows[: len(others)]


def _row_pattern(name: str) -> str:
    """What the words of an id begin and end with that is a row of a table."""
    first, *_, last = _PLACEHOLDER.split(name)
    return " ?.*".join(re.escape(" ".join(id_words(part))) for part in (first, last))


class CaseNames:
    """Names of tests, searched for at the end of ids."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_last: defaultdict[str, list[IdWords]] = defaultdict(list)
        for name in names:
            words = id_words(name)
            if words:
                self._by_last[words[-1]].append(words)

    def is_end_of(self, test_id: str) -> bool:
        """True if an id ends with one of the names."""
        words = id_words(test_id)
        return (
            any(words[-len(name) :] == name for name in self._by_last.get(words[-1], ())) if words else False
        )


def _explained_names(changeset: Changeset, new: Sequence[str]) -> Iterator[str]:
    """The names of tests that were renamed or moved, or removed with what they tested.

    The run decides: a test that still exists explains nothing unless one of the run's new ids is its own.
    """
    ids = [id_words(test_id) for test_id in new]
    for before, after in changeset.test_pairs.kept:
        if before.is_run and after.is_run and not after.case.is_skipped:
            words = _fixed_words(after.case.short_name)
            if any(has_words(found, words) for found in ids):
                yield before.case.name
    for placed in changeset.test_pairs.gone:
        if is_loss_explained(changeset, placed):
            yield placed.case.name


_PLACEHOLDER = re.compile(r"%(?:\d*\.?\d*[a-zA-Z#])|\$\{?[\w.]+\}?|\{[^}]*\}")


def _fixed_words(name: str) -> IdWords:
    """The words of a test's name up to the first placeholder for a row of its table."""
    return id_words(_PLACEHOLDER.split(name)[0])


def has_words(words: IdWords, name: IdWords) -> bool:
    """True if an id contains a name's words; a name of placeholders only matches every id."""
    return any(words[at : at + len(name)] == name for at in range(len(words) - len(name) + 1))


def _suspicions_by_file(code: str, how: str, ids: Iterable[str], changeset: Changeset) -> Iterator[Suspicion]:
    """One suspicion for each file, as far as ids name it."""
    files = ChangedPaths(changeset.comparison.changes)
    groups: defaultdict[str, list[str]] = defaultdict(list)
    for test_id in ids:
        groups[files.path_of(test_id)].append(test_id)
    for path, names in groups.items():
        found = f"{len(names)} {'test' if len(names) == 1 else 'tests'} {how}: {quote_names(names)}"
        yield suspicion(code, path, 0, found, "\n".join((code, *sorted(names))))


class ChangedPaths:
    """Changed files, searched for in test ids."""

    def __init__(self, changes: Iterable[FileDiff]) -> None:
        self._paths = {id_words(change.base_path.rpartition(".")[0]): change.base_path for change in changes}

    def path_of(self, test_id: str) -> str:
        """The changed file that contains a test; empty if none does."""
        words = id_words(test_id)[:40]
        for start in range(len(words)):
            for stop in range(len(words), start, -1):
                if words[start:stop] in self._paths:
                    return self._paths[words[start:stop]]
        return ""

"""Tests that prove less than on the base, rewritten expectations, and new tests that cannot fail."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from remand.domain.text.words import format_count
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.paths import is_benchmark_path, is_expectation_path, is_test_path, language_of
from remand.integrity.readers.cases import (
    EXACT,
    NOTHING,
    Assertion,
    ParsedTest,
    without_common,
    word_similarity,
)
from remand.integrity.readers.python_tree import (
    all_nodes,
    is_literal,
    last_name,
    node_source,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, BracketedCode
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

SAME_ACT = 0.8
"""The least similarity of a test's other parts for a missing assertion to be the whole change."""
SAME_ASSERTION = 1.2
"""The least similarity of two assertions for one to be the other's new version, in a rewritten test."""
LOOSER = 5.0
MAX_PAIRS = 10_000
COARSE = 0.01
TABLE = 4
"""From this many values on, parameters are a table."""
VARIED = 0.75
"""The share of its different values that a table must keep."""
SLACK = 10.0
"""The tolerance, in units of the last digit, from which on an exact assertion counts as weakened."""


def find_weakened_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """Every test, and function that asserts for tests, that proves less than on the base."""
    missing = _missing_assertions(changeset)
    for before, after in changeset.test_pairs.kept:
        yield from _find_fewer_examples(before.case, after)
        if before.case.is_skipped or after.case.is_skipped or before.case.body == after.case.body:
            yield from _find_fewer_cases(before, after, changeset)
            continue
        yield from _compare_pair(before, after, changeset, missing)


def _compare_pair(
    before: PlacedTest, after: PlacedTest, changeset: Changeset, missing: Counter[str]
) -> Iterator[Suspicion]:
    old, new = _proving_assertions(before.case), _proving_assertions(after.case)
    had = {text for _, _, text in before.case.traps}
    for code, line, text in after.case.traps:
        if text not in had:
            yield suspicion(
                code, after.view.path, line, f"`{shorten(text)}` around assertions of `{after.case.name}`"
            )
            return
    if old and not new and not _is_excused(before.case, old, after, changeset, missing):
        yield suspicion(
            "test_emptied",
            after.view.path,
            after.case.line,
            f"`{after.case.name}` asserted {format_count(len(old), 'thing')}",
            # Part of the finding's id, by which accepted findings are recognised.
            f"`{after.case.name}` asserted {len(old)} things",
        )
        return
    changed, lost = pair_assertions(old, new)
    is_same_act = word_similarity(before.case.act, after.case.act) >= SAME_ACT or (
        not changeset.has_product_change and _is_same_besides(before.case, after.case)
    )
    kin = (pair for pair in changed if is_same_act or _assertion_similarity(*pair) >= SAME_ASSERTION)
    yield from (
        _weakened_suspicion(after, one, other)
        for one, other in kin
        if is_weaker(one, other)
        and not (other.parts == 1 and _is_joined(one, old, new))
        and not (changeset.has_product_change and _is_other_constant(one, other))
    )
    yield from _find_conditional_assertions(after, old, new)
    removed = [] if lost and _is_excused(before.case, lost, after, changeset, missing) else lost
    if removed:
        texts = [item.text for item in removed]
        yield suspicion(
            "assertion_removed",
            after.view.path,
            after.case.line,
            f"`{after.case.name}` no longer asserts {quote_names(texts)}",
            "\n".join((after.case.name, *sorted(texts))),
        )
    else:
        yield from _find_fewer_cases(before, after, changeset)


def _is_joined(one: Assertion, old: list[Assertion], new: list[Assertion]) -> bool:
    """True if a new assertion compares several values at once, and as many are compared as exactly as before."""
    known = {item.text for item in old}
    before = sum(item.parts for item in old if item.strength >= one.strength)
    after = sum(item.parts for item in new if item.strength >= one.strength)
    return after >= before > 1 and any(
        item.parts > 1 and item.strength == EXACT and item.text not in known for item in new
    )


_EXACT_MATCHER = re.compile(r"\.(?:equals?|eql?|toBe|toEqual|toStrictEqual|deepEqual|strictEqual)$")


def _is_other_constant(one: Assertion, other: Assertion) -> bool:
    """True if the same expression is compared as exactly as before, with `None` or a boolean."""
    matcher, _, given = other.text.rpartition("(")
    if _EXACT_MATCHER.search(matcher) and one.text.startswith(f"{matcher}("):
        return given in ("true)", "false)", "null)", "undefined)")
    compared, sign, _ = one.text.partition(" == ")
    same = rf"(?:^|\band ){re.escape(compared)} (?:is|==) (?:None|True|False)(?: and\b|$)"
    return bool(sign) and re.search(same, other.text) is not None


def _is_same_besides(before: ParsedTest, after: ParsedTest) -> bool:
    """True if two tests differ only in words of their assertions, as when a result got a name."""
    words = frozenset[str]().union(
        *(_word_set(item.text) for item in (*before.assertions, *after.assertions))
    )
    return before.act - words == after.act - words


def _find_fewer_examples(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    """A property test with far fewer examples."""
    if 0 < after.case.examples * LOOSER <= before.examples:
        found = f"`{after.case.name}` is tried {after.case.examples:g} times, was {before.examples:g}"
        yield suspicion("assertion_weakened", after.view.path, after.case.line, found)


def _proving_assertions(case: ParsedTest) -> list[Assertion]:
    return [item for item in case.assertions if item.strength > NOTHING]


def _missing_assertions(changeset: Changeset) -> Counter[str]:
    """What tests of the base assert more often than those of the head, over all changed files."""
    base = Counter(item.text for placed in changeset.base_tests for item in _proving_assertions(placed.case))
    head = (placed.case for placed in changeset.head_tests if not placed.case.is_skipped)
    return base - Counter(item.text for case in head for item in _proving_assertions(case))


def pair_assertions(
    old: list[Assertion], new: list[Assertion]
) -> tuple[list[tuple[Assertion, Assertion]], list[Assertion]]:
    """Pairs changed assertions with their new versions; also returns those without one."""
    lost, gained = without_common(old, new), without_common(new, old)
    if len(lost) * len(gained) > MAX_PAIRS:
        return list(zip(lost, gained, strict=False)), lost[len(gained) :]
    scored = [
        (_assertion_similarity(one, other), -at, -place)
        for at, one in enumerate(lost)
        for place, other in enumerate(gained)
    ]
    paired: dict[int, int] = {}
    taken: set[int] = set()
    for _, at, place in sorted(scored, reverse=True):
        if -at not in paired and -place not in taken:
            paired[-at] = -place
            taken.add(-place)
    changed = [(lost[at], gained[place]) for at, place in sorted(paired.items())]
    return changed, [item for at, item in enumerate(lost) if at not in paired]


def _assertion_similarity(one: Assertion, other: Assertion) -> float:
    """How likely one assertion is the new version of another."""
    same = 2.0 if one.subject == other.subject else 0.0
    same += 1.0 if one.expectation == other.expectation else 0.0
    # The same values the other way round.
    same += 2.0 if one.strength == other.strength and _word_set(one.text) == _word_set(other.text) else 0.0
    values = word_similarity(one.literals, other.literals) if one.literals or other.literals else 0.0
    return (
        same
        + values
        + word_similarity(_word_set(one.subject), _word_set(other.subject))
        + 0.1 * other.strength
    )


def _word_set(text: str) -> frozenset[str]:
    return frozenset("".join(char if char.isalnum() else " " for char in text).split())


def is_weaker(one: Assertion, other: Assertion) -> bool:
    """True if the second assertion of a pair proves less than the first."""
    if _is_outright(one) or _is_part_of(one, other):
        return False
    if other.strength < one.strength:
        return True
    if other.tolerance >= COARSE and other.tolerance >= LOOSER * one.tolerance:
        return True
    if not one.tolerance and other.slack >= SLACK:
        return True
    if one.bound is None or other.bound is None or one.bound[0] != other.bound[0]:
        return False
    (sign, old), (_, new) = one.bound, other.bound
    return new >= LOOSER * old > 0 if sign == "<" else old > 0 and new <= old / LOOSER


_PARTIAL = re.compile(r"\.(?:toMatchObject|like|containSubset)\(")
"""Comparisons of an object with those of its parts that are written out."""


def _is_part_of(one: Assertion, other: Assertion) -> bool:
    """True if a value that was compared by itself is still compared, as part of its object."""
    is_member = one.subject.startswith((f"{other.subject}.", f"{other.subject}["))
    return (
        is_member
        and bool(_PARTIAL.search(other.text))
        and bool(one.literals)
        and one.literals <= other.literals
    )


def _weakened_suspicion(after: PlacedTest, one: Assertion, other: Assertion) -> Suspicion:
    found = f"`{after.case.name}` asserted `{shorten(one.text)}`, now `{shorten(other.text)}`"
    return suspicion("assertion_weakened", after.view.path, other.line, found, f"{one.text}\n{other.text}")


def _find_conditional_assertions(
    after: PlacedTest, old: list[Assertion], new: list[Assertion]
) -> Iterator[Suspicion]:
    """Assertions that moved under an `if`."""
    plain = sum(not item.is_conditional for item in old)
    bound = [item for item in new if item.is_conditional and not _is_outright(item)]
    if plain > sum(not item.is_conditional for item in new) and len(bound) > sum(
        item.is_conditional for item in old
    ):
        found = f"`{after.case.name}` asserts `{shorten(bound[0].text)}` under a condition only"
        yield suspicion("assertion_conditional", after.view.path, bound[0].line, found)


def _is_excused(
    before: ParsedTest, lost: list[Assertion], after: PlacedTest, changeset: Changeset, missing: Counter[str]
) -> bool:
    """True if what is no longer asserted is asserted elsewhere or in another form, or cannot be any more."""
    left = [
        item
        for item in lost
        if not _is_outright(item)
        and missing[item.text] > 0
        and not _is_in_helper(item, after, changeset)
        and not _is_implied(item, after.case)
        and not _is_set_up(item, before, after.case)
        and _existing_value(item) not in after.case.uses
        and not _word_set(item.text) & changeset.vanished_names
    ]
    if not left:
        return True
    new = _proving_assertions(after.case)
    void = {item.text for item in after.case.assertions if item.strength == NOTHING}
    if any(item.text in void for item in left):
        return False  # The test is still there, and nothing runs it.
    known = {item.text for item in before.assertions}
    parts = sum(item.parts - 1 for item in new if item.text not in known)
    if after.case.proofs + parts + _helper_proofs(after, changeset) >= before.proofs:
        return True
    is_rewritten = word_similarity(before.act, after.case.act) < SAME_ACT
    return is_rewritten and len(new) * 2 >= len(_proving_assertions(before)) and bool(new)


def _is_outright(item: Assertion) -> bool:
    """True for an assertion that only says a line is, or is not, reached: it checks no value."""
    return re.match(r"(?:t|assert|expect)?\.?(?:fail|pass)\(", item.text) is not None


_EXISTS = re.compile(r"([\w.]+)(?: is not None)?|self\.assertIsNotNone\(([\w.]+)\)")


def _existing_value(item: Assertion) -> str | None:
    """What an assertion only says to exist: a test that uses its members fails without it anyway."""
    match = _EXISTS.fullmatch(item.text)
    return match and (match[1] or match[2])


_ERROR = re.compile(r"Error\(t,(\w+)\)")
_SET_UP = re.compile(r"(?:NoError\(\w,(?:\w*[eE]rr|os\.\w+\(.*\))\)|if \w*[eE]rr!=nil \w+\(.*\))")
_PLACES = frozenset(
    ("TempFile", "TempDir", "CreateTemp", "MkdirTemp", "Remove", "RemoveAll", "Setenv", "Chdir")
)


def _is_implied(item: Assertion, after: ParsedTest) -> bool:
    """True in Go for `Error(t, err)` beside an assertion of the error's text or kind."""
    match = _ERROR.fullmatch(item.text)
    told = (
        tuple(f"{name}(t,{match[1]}," for name in ("ErrorContains", "EqualError", "ErrorIs", "ErrorAs"))
        if match
        else ()
    )
    return bool(told) and any(one.text.startswith(told) for one in after.assertions)


def _is_set_up(item: Assertion, before: ParsedTest, after: ParsedTest) -> bool:
    """True in Go for the error of a temporary file or a variable that the test gets from `t` now."""
    lost = (before.calls - after.calls) & _PLACES
    return bool(lost and _SET_UP.fullmatch(item.text) and after.calls & {"TempDir", "Setenv", "Chdir"})


_TOLD = re.compile(r'"[^"]{8,}"')


def _is_in_helper(item: Assertion, after: PlacedTest, changeset: Changeset) -> bool:
    """True if a function that the test calls reports the same failure, and did not before."""
    told = set(_TOLD.findall(item.text))
    return bool(told) and any(
        told <= set(_TOLD.findall(one.text))
        and one.text not in {other.text for other in before.case.assertions}
        for before, helper in changeset.test_pairs.kept
        if not helper.is_run and helper.case.short_name in after.case.calls
        for one in helper.case.assertions
    )


def _helper_proofs(after: PlacedTest, changeset: Changeset) -> int:
    """The proofs in new functions that the test calls."""
    return sum(
        placed.case.proofs
        for placed in changeset.test_pairs.new
        if not placed.is_run and placed.case.short_name in after.case.calls
    )


def _find_fewer_cases(before: PlacedTest, after: PlacedTest, changeset: Changeset) -> Iterator[Suspicion]:
    """The same assertion over fewer parameters, or over parameters that are alike."""
    if after.case.is_skipped or before.case.is_skipped:
        return
    dropped = before.case.literals - after.case.literals
    found = list(_missing_cases(before, after, dropped))
    lost = {value.strip("'\"`") for value in dropped} | (before.case.class_words - after.case.class_words)
    if found and not (lost & changeset.vanished_names or _are_cases_moved(dropped, before.case, changeset)):
        yield from found


def _missing_cases(before: PlacedTest, after: PlacedTest, dropped: frozenset[str]) -> Iterator[Suspicion]:
    if after.case.proofs >= before.case.proofs:
        yield from _find_alike_cases(before.case, after)
        return
    new = {item.text: item for item in after.case.assertions}
    for item in before.case.assertions:
        other = new.get(item.text)
        if other and other.times < item.times and item.is_counted and other.is_counted:
            found = f"`{after.case.name}` has {other.times} cases, had {item.times}"
            yield suspicion(
                "assertion_removed",
                after.view.path,
                after.case.line,
                found,
                "\n".join(sorted(dropped) or [found]),
            )
            return


def _are_cases_moved(dropped: frozenset[str], before: ParsedTest, changeset: Changeset) -> bool:
    """True if new tests call the same with the values that a table lost."""
    kin = [
        placed.case
        for placed in changeset.test_pairs.new
        if placed.is_run and placed.case.proofs and placed.case.calls & before.calls
    ]
    return bool(dropped) and dropped <= frozenset(value for case in kin for value in case.literals)


def _find_alike_cases(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    """As many parameters as before, but fewer different ones."""
    is_table = any(item.times > 1 for item in before.assertions) and len(before.literals) >= TABLE
    if (
        is_table
        and before.body == after.case.body
        and len(after.case.literals) < VARIED * len(before.literals)
    ):
        found = f"the cases of `{after.case.name}` have {len(after.case.literals)} values, had {len(before.literals)}"
        yield suspicion("assertion_removed", after.view.path, after.case.line, found)


def find_empty_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """New tests that are empty or assert only what is always true; also those that only call, if no test asserts more."""
    proves_more = _proves_more(changeset)
    for placed in changeset.test_pairs.new:
        if not placed.is_run:
            continue
        if is_benchmark_path(placed.view.path):
            continue
        if not placed.case.skips and (
            _asserts_nothing(placed.case) or (_only_calls(placed.case) and not proves_more)
        ):
            found = f"`{shorten(placed.case.name)}` asserts nothing"
            yield suspicion("test_asserts_nothing", placed.view.path, placed.case.line, found)
        proving = _proving_assertions(placed.case)
        if (
            placed.view.path.endswith((".rs", ".go"))
            and proving
            and not placed.case.short_name.startswith("Fuzz")
            and all(one.is_conditional for one in proving)
        ):
            found = f"`{placed.case.name}` asserts under a condition only"
            yield suspicion("assertion_conditional", placed.view.path, proving[0].line, found)
        for code, line, text in placed.case.traps:
            found = f"`{shorten(text)}` around assertions of `{placed.case.name}`"
            yield suspicion(code, placed.view.path, line, found)


def _proves_more(changeset: Changeset) -> bool:
    """True if a test of the change proves something that the base did not."""
    if any(placed.is_run and placed.case.proofs for placed in changeset.test_pairs.new):
        return True
    return any(after.case.proofs > before.case.proofs for before, after in changeset.test_pairs.kept)


def _asserts_nothing(case: ParsedTest) -> bool:
    if any(item.strength > NOTHING for item in case.assertions):
        return False
    return case.is_empty or (bool(case.assertions) and not case.traps)


def _only_calls(case: ParsedTest) -> bool:
    return not case.assertions and not case.is_smoke and case.is_plain


_CALLED = re.compile(r"(\w+)\(")
_MESSAGE = re.compile(r"\.(?:Error|Fatal|Log|Run)f?\([^,)]*")
_LITERAL = re.compile(r'"(?:[^"\\]|\\.)*"|`[^`]*`|\b\d[\w.]*')
_WRITTEN = re.compile(
    r"""\"(?:[^\"\\]|\\.)*\"|'(?:[^'\\]|\\.)*'|`[^`]*`|-?\b\d[\w.]*|\b(?:True|False|None|true|false|null)\b"""
)
_WANTED = re.compile(r"want(ed)?|exp(ect(ed)?)?")
_EXPECTING = ("expect", "golden", "result", "want", "snapshot", "answer", "cases")


def find_rewritten_expectations(changeset: Changeset) -> Iterator[Suspicion]:
    """Other expected values for the same actions, in a change that leaves the product as it is."""
    if changeset.has_product_change:
        return
    for before, after in changeset.test_pairs.kept:
        if before.is_run and after.is_run:
            yield from _find_rewritten_assertions(before.case, after)
    for view in changeset.views:
        if view.before and view.after and is_expectation_path(view.path) and is_test_path(view.path):
            has_all = Counter(view.before.lines) <= Counter(view.after.lines)
            if has_all and view.path.endswith((".snap", ".ambr")):
                continue  # Entries of new tests.
            yield suspicion(
                "expectation_rewritten", view.path, 0, "the recorded result was changed", view.after.text
            )
        elif view.before and view.after and view.is_test:
            old, new = _expected_constants(view.before), _expected_constants(view.after)
            # An assertion inserted before others of its name moves them all: those that still exist were not
            # changed.
            left = Counter(value for _, value in new.values())
            lost = Counter(value for _, value in old.values()) - left
            for name, (line, value) in new.items():
                if name in old and lost[old[name][1]] and old[name][1] != value:
                    yield suspicion(
                        "expectation_rewritten", view.path, line, f"`{name}` was changed", f"{name}={value}"
                    )


def _find_rewritten_assertions(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    # The body of a test in Python is a digest of it.
    is_text = language_of(after.view.path) != "python"
    old, new = (_wanted_literals(before), _wanted_literals(after.case)) if is_text else (None, None)
    if old and new and old[0] == new[0] and old[1] - new[1] and new[1] - old[1]:
        found = f"a case of `{after.case.name}` now has {shorten(min(new[1] - old[1]))}"
        yield suspicion("expectation_rewritten", after.view.path, after.case.line, found)
        return
    if before.act != after.case.act:
        return
    if before.body == after.case.body and len(before.literals) == len(after.case.literals):
        lost, gained = before.literals - after.case.literals, after.case.literals - before.literals
        for value in [] if _are_renamed(lost, gained) else sorted(gained)[:1]:
            found = f"a case of `{after.case.name}` now has {shorten(value)}"
            yield suspicion("expectation_rewritten", after.view.path, after.case.line, found)
    for one, other in pair_assertions(_proving_assertions(before), _proving_assertions(after.case))[0]:
        if one.subject == other.subject and one.strength == other.strength and _is_rewritten(one, other):
            found = f"`{after.case.name}` expected `{shorten(one.text)}`, now `{shorten(other.text)}`"
            yield suspicion(
                "expectation_rewritten", after.view.path, other.line, found, f"{one.text}\n{other.text}"
            )


def _are_renamed(lost: frozenset[str], gained: frozenset[str]) -> bool:
    """True if several values differ in one word and in the same way: what goes in, and what comes out for it."""
    old, new = (set(re.findall(r"[\w.]+", " ".join(texts))) for texts in (lost, gained))
    pair = [*(old - new), *(new - old)]
    return (
        len(lost) > 1
        and len(pair) == 2
        and {text.replace(*pair) if pair[0] in text else text for text in lost} == gained
    )


def _wanted_literals(case: ParsedTest) -> tuple[str, frozenset[str]] | None:
    """A test's body without its expected literals and messages, and those literals; None if it expects none."""
    if not any(map(_WANTED.fullmatch, case.words)):
        return None
    body = _MESSAGE.sub("", case.body)
    return _LITERAL.sub("_", body), frozenset(_LITERAL.findall(body))


def _is_rewritten(one: Assertion, other: Assertion) -> bool:
    """True if another value is expected, and no snapshot file or new helper has the old one."""
    is_kept = "snapshot" in other.text.lower() and (
        "snapshot" not in one.text.lower() or "Inline" not in other.text
    )
    values = _written_values(other)
    if not values or _written_values(one) <= values or is_kept:
        return False  # Everything expected before still is; additional expectations make the test stricter.
    is_helped = set(_CALLED.findall(other.text)) - set(_CALLED.findall(one.text))
    return not (is_helped and other.literals and other.literals < one.literals)


def _written_values(item: Assertion) -> Counter[str]:
    """The literals that an assertion expects, without those that it passes in; layout does not matter."""
    found = _WRITTEN.findall(item.expectation)
    return Counter("".join(value.strip("\"'`").split()) for value in found)


def _expected_constants(source: SourceFile) -> dict[str, tuple[int, str]]:
    """The constants that a test module, and literals that a test, writes as expected values."""
    if source.tree is None:
        return _expected_locals(source.code)
    found = {}
    for node in source.tree.body:
        if isinstance(node, ast.Assign) and any(
            word in last_name(node.targets[0]).lower() for word in _EXPECTING
        ):
            found[last_name(node.targets[0])] = node.lineno, node_source(node.value)
    for name, function in source.functions:
        for part in all_nodes(function.body) if function.name.startswith("test") else ():
            if isinstance(part, ast.Assign) and is_literal(part.value):
                target = last_name(part.targets[0])
                if _WANTED.fullmatch(target):
                    found[f"{name}: {target}"] = part.lineno, node_source(part.value)
    return found


def _expected_locals(code: BracketedCode) -> dict[str, tuple[int, str]]:
    """Literals that tests in languages with braces assign to `want` and the like: `want := []string{"a"}`."""
    found: dict[str, tuple[int, str]] = {}
    function = ""
    for place, token in enumerate(code.tokens):
        if token.text in ("func", "fn"):
            function = code.text(place + 1)
        is_given = code.text(place + 1) in (":=", "=") and code.text(place - 1) not in (".", ",")
        if token.kind == NAME and is_given and _WANTED.fullmatch(token.text):
            stop = place + 2
            while (
                stop < len(code.tokens) and code.text(stop) != ";" and code.line(stop) == code.line(stop - 1)
            ):
                stop = code.closing_place(stop) + 1 if code.text(stop) in ("(", "[", "{") else stop + 1
            literals = code.literals(place, stop)
            if literals:
                name = f"{function}: {token.text}"
                found[f"{name} {len(found)}" if name in found else name] = (
                    token.line,
                    ", ".join(sorted(literals)),
                )
    return found

"""Tests that prove less than on the base, rewritten expectations, new tests that cannot fail, and tests that replace what they test."""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator

from remand.domain.text.words import format_count, word_set
from remand.integrity.changeset import Changeset, PlacedTest
from remand.integrity.paths import is_benchmark_path, is_expectation_path, is_product_path, is_test_path
from remand.integrity.readers.cases import (
    NOTHING,
    Assertion,
    ParsedTest,
    without_common,
    word_similarity,
)
from remand.integrity.readers.configuration import configured_tool, read_settings
from remand.integrity.readers.python_tree import (
    Function,
    all_nodes,
    call_argument,
    called_functions,
    called_name,
    constant_texts,
    decorator_names,
    last_name,
    node_source,
)
from remand.integrity.readers.source import SourceFile
from remand.integrity.readers.tokens import NAME, BracketedCode, unquote
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

SAME_ACT = 0.8
"""How alike the rest of a test must be for a missing assertion to be the whole change."""
SAME_ASSERTION = 1.2
"""How alike two assertions must be to be one that changed, in a test that was rewritten."""
LOOSER = 5.0
MAX_PAIRS = 10_000
COARSE = 0.01
TABLE = 4
"""Values from which on parameters are a table."""
VARIED = 0.75
"""How many of its values a table must keep for its rows to differ as much as before."""
SLACK = 10.0
"""Units of the last digit that an assertion may be off where it was exact."""


def find_weakened_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """Every test, and function that asserts for tests, that proves less than on the base."""
    missing = _missing_assertions(changeset)
    for before, after in changeset.test_pairs.kept:
        yield from _find_fewer_examples(before.case, after)
        if before.case.is_skipped or after.case.is_skipped or before.case.body == after.case.body:
            yield from _find_fewer_cases(before, after, changeset.vanished_names)
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
            # Part of the finding's id, which accepted findings are known by.
            f"`{after.case.name}` asserted {len(old)} things",
        )
        return
    changed, lost = pair_assertions(old, new)
    is_same_act = word_similarity(before.case.act, after.case.act) >= SAME_ACT
    kin = (pair for pair in changed if is_same_act or _assertion_similarity(*pair) >= SAME_ASSERTION)
    yield from (_weakened_suspicion(after, one, other) for one, other in kin if is_weaker(one, other))
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
        yield from _find_fewer_cases(before, after, changeset.vanished_names)


def _find_fewer_examples(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    """A property that is tried far less often."""
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
    """The assertions that changed, each with what became of it, and those nothing became of."""
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
    """How likely one assertion is what became of another."""
    same = 2.0 if one.subject == other.subject else 0.0
    same += 1.0 if _expected_text(one) == _expected_text(other) else 0.0
    values = word_similarity(one.literals, other.literals) if one.literals or other.literals else 0.0
    return (
        same
        + values
        + word_similarity(_word_set(one.subject), _word_set(other.subject))
        + 0.1 * other.strength
    )


def _expected_text(item: Assertion) -> str:
    """What is expected, without what is looked at."""
    return item.text.replace(item.subject, "", 1)


def _word_set(text: str) -> frozenset[str]:
    return frozenset("".join(char if char.isalnum() else " " for char in text).split())


def is_weaker(one: Assertion, other: Assertion) -> bool:
    """True when the second assertion of a pair proves less than the first."""
    if _is_outright(one):
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
    """True when what is no longer asserted is asserted elsewhere, in another form, or cannot be any more."""
    left = [
        item
        for item in lost
        if not _is_outright(item)
        and missing[item.text] > 0
        and not _word_set(item.text) & changeset.vanished_names
    ]
    if not left:
        return True
    new = _proving_assertions(after.case)
    known = {item.text for item in before.assertions}
    parts = sum(item.parts - 1 for item in new if item.text not in known)
    if after.case.proofs + parts + _helper_proofs(after, changeset) >= before.proofs:
        return True
    is_rewritten = word_similarity(before.act, after.case.act) < SAME_ACT
    return is_rewritten and len(new) * 2 >= len(_proving_assertions(before)) and bool(new)


def _is_outright(item: Assertion) -> bool:
    """True for what only says that a line is reached, or is not: no value is looked at."""
    return re.match(r"(?:t|assert|expect)?\.?(?:fail|pass)\(", item.text) is not None


def _helper_proofs(after: PlacedTest, changeset: Changeset) -> int:
    """The proofs of new functions the test calls."""
    return sum(
        placed.case.proofs
        for placed in changeset.test_pairs.new
        if not placed.is_run and placed.case.short_name in after.case.calls
    )


def _find_fewer_cases(before: PlacedTest, after: PlacedTest, vanished: frozenset[str]) -> Iterator[Suspicion]:
    """The same assertion over fewer parameters, or over parameters that say the same."""
    if after.case.is_skipped or before.case.is_skipped:
        return
    dropped = before.case.literals - after.case.literals
    if any(value.strip("'\"`") in vanished for value in dropped):
        return
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


def _find_alike_cases(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    """As many parameters, of which fewer differ."""
    is_table = any(item.times > 1 for item in before.assertions) and len(before.literals) >= TABLE
    if (
        is_table
        and before.body == after.case.body
        and len(after.case.literals) < VARIED * len(before.literals)
    ):
        found = f"the cases of `{after.case.name}` have {len(after.case.literals)} values, had {len(before.literals)}"
        yield suspicion("assertion_removed", after.view.path, after.case.line, found)


def find_empty_tests(changeset: Changeset) -> Iterator[Suspicion]:
    """A new test that is empty or asserts only what is always true; or that only calls, when none asserts more."""
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
        for code, line, text in placed.case.traps:
            found = f"`{shorten(text)}` around assertions of `{placed.case.name}`"
            yield suspicion(code, placed.view.path, line, found)


def _proves_more(changeset: Changeset) -> bool:
    """True when some test of the change proves something that the base did not."""
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
_EXPECTING = ("expect", "golden", "result", "want", "snapshot", "answer", "cases")


def find_rewritten_expectations(changeset: Changeset) -> Iterator[Suspicion]:
    """Other values expected of the same acts, in a change that leaves the product as it is."""
    if changeset.has_product_change:
        return
    for before, after in changeset.test_pairs.kept:
        if before.is_run and after.is_run:
            yield from _find_rewritten_assertions(before.case, after)
    for view in changeset.views:
        if view.before and view.after and is_expectation_path(view.path) and is_test_path(view.path):
            yield suspicion(
                "expectation_rewritten", view.path, 0, "the recorded result was changed", view.after.text
            )
        elif view.before and view.after and view.is_test:
            old, new = _expected_constants(view.before), _expected_constants(view.after)
            for name, (line, value) in new.items():
                if name in old and old[name][1] != value:
                    yield suspicion(
                        "expectation_rewritten", view.path, line, f"`{name}` was changed", f"{name}={value}"
                    )


def _find_rewritten_assertions(before: ParsedTest, after: PlacedTest) -> Iterator[Suspicion]:
    if before.act != after.case.act:
        return
    if before.body == after.case.body and len(before.literals) == len(after.case.literals):
        for value in sorted(after.case.literals - before.literals)[:1]:
            found = f"a case of `{after.case.name}` now has {shorten(value)}"
            yield suspicion("expectation_rewritten", after.view.path, after.case.line, found)
    old = [item for item in before.assertions if item.strength > NOTHING]
    new = [item for item in after.case.assertions if item.strength > NOTHING]
    for one, other in pair_assertions(old, new)[0]:
        if one.subject == other.subject and one.strength == other.strength and _is_rewritten(one, other):
            found = f"`{after.case.name}` expected `{shorten(one.text)}`, now `{shorten(other.text)}`"
            yield suspicion(
                "expectation_rewritten", after.view.path, other.line, found, f"{one.text}\n{other.text}"
            )


def _is_rewritten(one: Assertion, other: Assertion) -> bool:
    """True when another value is expected, and none that a snapshot file or a new helper keeps."""
    is_kept = "snapshot" in other.text.lower() and (
        "snapshot" not in one.text.lower() or "Inline" not in other.text
    )
    if _without_layout(one.literals) <= _without_layout(other.literals) or is_kept:
        return False  # all that was expected still is; what is expected besides makes it stricter
    is_helped = set(_CALLED.findall(other.text)) - set(_CALLED.findall(one.text))
    return not (is_helped and other.literals and other.literals < one.literals)


def _without_layout(literals: frozenset[str]) -> frozenset[str]:
    return frozenset("".join(value.split()) for value in literals)


def _expected_constants(source: SourceFile) -> dict[str, tuple[int, str]]:
    """The values a test module writes out as what it expects."""
    found = {}
    for node in source.tree.body if source.tree else ():
        if isinstance(node, ast.Assign) and any(
            word in last_name(node.targets[0]).lower() for word in _EXPECTING
        ):
            found[last_name(node.targets[0])] = node.lineno, node_source(node.value)
    return found


_PATCHERS = re.compile(r"(.*\.)?(patch|patch\.object|setattr)")
_HINT = re.compile(r"\bpatch|setattr|Mock\(|lambda|create_autospec")
_MAPPED = re.compile(r"(?:modulenamemapper|alias)\.(.+)$")
_STAND_IN = re.compile(r"mock|stub|fake|dummy|(^|/)(tests?|__tests__|spec)/", re.IGNORECASE)
_FAKES = frozenset(("Mock", "MagicMock", "AsyncMock", "create_autospec", "Fake"))
_STANDARD_NAMES = word_set("StringIO BytesIO Path datetime date time sleep open print input uuid4 getpass")
"""What modules import from the standard library: to replace it there replaces no part of the product."""
_SPIES = frozenset(("mockReturnValue", "mockResolvedValue", "mockImplementation", "returns", "resolves"))


def find_mocked_subjects(changeset: Changeset) -> Iterator[Suspicion]:
    """Replaced subjects in test files, where the base did not replace them."""
    for view in changeset.views:
        if view.after is None or not view.is_test:
            continue
        had = {name for name, _ in _replaced_subjects(view.before, changeset)} if view.before else set()
        for name, line in _replaced_subjects(view.after, changeset):
            if name not in had:
                yield suspicion(
                    "test_mocks_its_subject",
                    view.path,
                    line,
                    f"`{shorten(name)}` is replaced and then tested",
                )
        yield from _find_stubbed_modules(changeset, view.path, view.before, view.after)


def find_mapped_modules(changeset: Changeset) -> Iterator[Suspicion]:
    """Modules of the project in whose place a runner is told to load a stand-in."""
    own = {
        path.rpartition("/")[2].partition(".")[0].lower()
        for path in changeset.comparison.paths
        if is_product_path(path)
    }
    for view in changeset.views:
        if view.after is None or not configured_tool(view.path):
            continue
        had = read_settings(view.before) if view.before else {}
        for key, value in read_settings(view.after).items():
            match = _MAPPED.search(key)
            name = re.split(r"[^\w-]+", match[1].strip("^$()"))[-1] if match else ""
            if name in own and key not in had and isinstance(value, str) and _STAND_IN.search(value):
                message = f"`{shorten(match[1] if match else key)}` is loaded from `{shorten(value)}`"
                yield suspicion("test_mocks_its_subject", view.path, 0, message)


def _replaced_subjects(source: SourceFile, changeset: Changeset) -> Iterator[tuple[str, int]]:
    if source.tree is not None:
        if _HINT.search(source.text):
            for _, node in source.functions:
                if node.name.startswith("test"):
                    yield from _replaced_in_test(node)
            yield from _replaced_around_tests(source, changeset.own_packages)
    elif source.language == "script":
        yield from _replaced_in_script(source.code)
        yield from _mocked_own_module(source)


def _replaced_in_test(node: Function) -> Iterator[tuple[str, int]]:
    """Patched names that the test itself then calls and compares."""
    used = _expected_calls(node)
    for part in (*node.decorator_list, *ast.walk(node)):
        for name, line in _patched_names(part):
            last = name.rpartition(".")[2]
            if last in used - _STANDARD_NAMES and name.partition(".")[0] not in sys.stdlib_module_names:
                yield name, line


def _replaced_around_tests(source: SourceFile, own: frozenset[str]) -> Iterator[tuple[str, int]]:
    """Parts of the project that are replaced for several tests at once, and that those tests expect answers of."""
    tests = [node for _, node in source.functions if node.name.startswith("test")]
    used = {name for node in tests for name in _expected_calls(node)}
    around: list[ast.AST] = [part for owner in source.nodes_of(ast.ClassDef) for part in owner.decorator_list]
    around += [part for _, node in source.functions if _is_setup(node) for part in ast.walk(node)]
    around += [node for node in source.tree.body if isinstance(node, ast.Assign)] if source.tree else []
    for part in around:
        for name, line in _patched_names(part):
            first = source.imports.get(name.partition(".")[0], name).partition(".")[0]
            if first in own and name.rpartition(".")[2] in used:
                yield name, line


def _expected_calls(node: Function) -> set[str]:
    asserted = [part for part in ast.walk(node) if isinstance(part, ast.Assert)]
    compared = [
        arg
        for part in ast.walk(node)
        if isinstance(part, ast.Call) and last_name(part.func).startswith("assert")
        for arg in part.args
    ]
    return set(called_functions(all_nodes([*asserted, *compared]))) | _assigned_calls(node)


def _is_setup(node: Function) -> bool:
    setups = ("setUp", "setUpClass", "setup_method", "setup_class", "setup_module")
    return node.name in setups or "fixture" in decorator_names(node)


def _assigned_calls(node: Function) -> set[str]:
    """The names whose results are kept in a variable."""
    values = (part.value for part in ast.walk(node) if isinstance(part, ast.Assign))
    return {last_name(value.func) for value in values if isinstance(value, ast.Call)} - _FAKES


def _patched_names(node: ast.AST) -> Iterator[tuple[str, int]]:
    if isinstance(node, ast.Call) and _PATCHERS.fullmatch(called_name(node)) and node.args:
        first = node.args[0]
        if isinstance(first, ast.Constant) and isinstance(first.value, str):
            if "." in first.value and _has_answer(node, 1):
                yield first.value, node.lineno
        elif len(node.args) > 1 and isinstance(node.args[1], ast.Constant) and _has_answer(node, 2):
            yield f"{node_source(first)}.{node.args[1].value!s}", node.lineno
    elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Attribute) and _is_fake(node.value):
        yield node_source(node.targets[0]), node.lineno


def _has_answer(call: ast.Call, place: int) -> bool:
    """True when the replacement is told what to answer."""
    if call_argument(call, "return_value") is not None or call_argument(call, "side_effect") is not None:
        return True
    replacement = call_argument(call, "new", place) or call_argument(call, "value")
    return replacement is not None and _is_fake(replacement)


def _is_fake(node: ast.expr) -> bool:
    if isinstance(node, ast.Lambda):
        is_plain = isinstance(node.body, ast.Constant | ast.Name | ast.Attribute)
        return bool(constant_texts(ast.walk(node.body))) or is_plain
    is_mock = isinstance(node, ast.Call) and last_name(node.func) in _FAKES
    return is_mock and isinstance(node, ast.Call) and call_argument(node, "return_value") is not None


def _replaced_in_script(code: BracketedCode) -> Iterator[tuple[str, int]]:
    """`jest.spyOn(cart, 'total').mockReturnValue(3)`, then `expect(cart.total()).toBe(3)`."""
    for place, token in enumerate(code.tokens):
        if token.text not in ("spyOn", "stub") or code.text(place + 1) != "(":
            continue
        arguments = list(code.arguments(place + 1))
        after = code.closing_place(place + 1)
        if len(arguments) < 2 or code.text(after + 2) not in _SPIES:
            continue
        name = f"{code.text_between(*arguments[0])}.{unquote(code.text_between(*arguments[1]))}"
        if any(_is_expected(code, at, name) for at in range(after, min(after + 400, len(code.tokens)))):
            yield name, token.line


def _is_expected(code: BracketedCode, place: int, name: str) -> bool:
    if code.text(place) != "expect" or code.text(place + 1) != "(":
        return False
    start = place + 3 if code.text(place + 2) == "await" else place + 2
    return code.text_between(start, code.closing_place(place + 1)).startswith(f"{name}(")


def _mocked_own_module(source: SourceFile) -> Iterator[tuple[str, int]]:
    """`jest.mock('../src/cart', …)` in `cart.test.js`, nothing of the real one kept."""
    subject = source.path.rpartition("/")[2].split(".")[0]
    code = source.code
    for place, token in enumerate(code.tokens):
        if token.text not in ("mock", "doMock") or code.text(place - 2) not in ("jest", "vi"):
            continue
        stop = code.closing_place(place + 1)
        module = unquote(code.text(place + 2))
        has_factory = stop > place + 3
        is_real = code.words(place, stop) & {"requireActual", "importActual", "importOriginal", "spy"}
        if (
            has_factory
            and (not is_real or _has_faked_subject(code, place, stop))
            and module.startswith(".")
            and module.rpartition("/")[2].split(".")[0] == subject
        ):
            yield module, token.line


def _has_faked_subject(code: BracketedCode, start: int, stop: int) -> bool:
    """True when a factory that keeps the rest replaces something that tests then expect an answer of."""
    faked = {code.text(at) for at in range(start, stop) if code.text(at + 1) == ":" and code.kind(at) == NAME}
    subjects = (
        code.text(at + 2) for at, token in enumerate(code.tokens) if token.text == "expect" and at > stop
    )
    return bool(faked & set(subjects))


def _find_stubbed_modules(
    changeset: Changeset, path: str, before: SourceFile | None, after: SourceFile
) -> Iterator[Suspicion]:
    """`sys.modules["shop.cart"] = …`"""
    had = set(_stubbed_modules(before)) if before else set()
    for name, line in _stubbed_modules(after):
        if (
            name.partition(".")[0] in changeset.own_packages
            and (name, line) not in had
            and name not in {one for one, _ in had}
        ):
            yield suspicion("module_stubbed", path, line, f"`sys.modules[{name!r}]` is replaced")


def _stubbed_modules(source: SourceFile) -> Iterator[tuple[str, int]]:
    for node in source.nodes_of(ast.Assign):
        target = node.targets[0]
        if isinstance(target, ast.Subscript) and node_source(target.value) == "sys.modules":
            key = target.slice
            if isinstance(key, ast.Constant) and isinstance(key.value, str):
                yield key.value, target.lineno

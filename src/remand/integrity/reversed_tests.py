"""Tests and rows of tables in another order, for code that counts its calls."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence

from remand.integrity.altered_inputs import ASSERTS, MIN_MENDED, Watched
from remand.integrity.changeset import Changeset
from remand.integrity.cross_runs import BAD_OUTCOMES
from remand.integrity.general_paths import line_starts, python_range
from remand.integrity.mutants import Edit, replace_parts
from remand.integrity.paths import is_product_path
from remand.integrity.readers.source import SourceFile
from remand.integrity.rules.missing_tests import without_parameters
from remand.integrity.suspicions import Suspicion, quote_names, suspicion

_COUNTS = re.compile(
    r"\bnext\(|\.(?:next|pop|popleft|shift|splice)\(|\+= ?1\b|\+\+|\biter\(|itertools|Symbol\.iterator"
)
_RUNNER_CALL = re.compile(r"(?:it|test)(?:\.\w+)*\(")


def counts_calls(changeset: Changeset) -> bool:
    """True when new lines of the product may answer by how often they were asked."""
    return any(
        _COUNTS.search(line)
        for view in changeset.views
        if is_product_path(view.path) and not view.is_test
        for _, line in view.added_lines
    )


def reverse_tests(path: str, text: str) -> bytes:
    """A file with its tests in reverse order, in each class or group by themselves."""
    source = SourceFile(path, text)
    spans = _python_spans(source) if source.tree else _script_spans(source)
    return replace_parts(text, [edit for group in spans.values() for edit in _swap(text.encode(), group)])


def reverse_rows(path: str, text: str) -> bytes:
    """A file with the rows of its tables of parameters in reverse order."""
    spans = _row_spans(SourceFile(path, text))
    return replace_parts(text, [edit for rows in spans for edit in _swap(text.encode(), rows)])


def _swap(data: bytes, spans: Sequence[tuple[int, int]]) -> Iterator[Edit]:
    """The parts of a text in reverse order."""
    for one, other in zip(spans, reversed(spans), strict=True):
        if one != other:
            yield (*one, data[slice(*other)])


def _row_spans(source: SourceFile) -> Iterator[Sequence[tuple[int, int]]]:
    """The rows of each table of parameters that is written out."""
    code = source.code
    for node in code.nodes_of("call_expression") if source.tree is None else ():
        called, given = node.child("function"), node.child("arguments")
        rows = given.children[0] if given is not None and given.children else node
        if called is not None and code.node_text(called).endswith(".each") and rows.kind == "array":
            yield [code.byte_range(row) for row in rows.children if row.kind != "comment"]
    starts = line_starts(source.text)
    for call in source.nodes_of(ast.Call):
        has_ids = any(one.arg == "ids" for one in call.keywords)
        if ast.unparse(call.func).endswith(".parametrize") and len(call.args) > 1 and not has_ids:
            table = call.args[1]
            if isinstance(table, ast.List | ast.Tuple):
                yield [python_range(starts, row) for row in table.elts]


def _python_spans(source: SourceFile) -> Mapping[object, list[tuple[int, int]]]:
    starts, found = line_starts(source.text), defaultdict(list)
    for name, node in source.functions:
        if node.name.startswith("test"):
            first = min([node.lineno, *(one.lineno for one in node.decorator_list)])
            last = node.end_lineno or first
            found[name.rpartition(".")[0], node.col_offset].append((starts[first - 1], starts[last]))
    return {owner: sorted(group) for owner, group in found.items()}


def _script_spans(source: SourceFile) -> Mapping[object, list[tuple[int, int]]]:
    code = source.code
    found: defaultdict[object, list[tuple[int, int]]] = defaultdict(list)
    for node in code.nodes_of("expression_statement"):
        if _RUNNER_CALL.match(code.node_text(node)):
            found[node.parent].append(code.byte_range(node))
    return found


def judge_reversed(
    path: str, on_base: Watched, on_head: Watched, base_after: Watched, after: Watched
) -> tuple[Suspicion, ...]:
    """What it says of a change that tests pass in one order only which it mended, or which pass on the base in both."""
    # Rows are often named by their place.
    sides = [_count_failed(side) for side in (on_base, on_head, base_after)]
    failed = Counter(
        without_parameters(test.id)
        for test in after
        if test.outcome in BAD_OUTCOMES and ASSERTS.match(test.text)
    )
    names = sorted(name for name in failed if not sides[1][name] and sides[0][name] == sides[2][name])
    is_mended = any(sides[0][name] for name in names)
    if not is_mended or sum(failed[name] for name in names) < MIN_MENDED:
        return ()
    text = f"{quote_names(names)} pass in one order only"
    return (suspicion("answer_fits_tests", path, 0, text, "\n".join(names)),)


def _count_failed(tests: Watched) -> Counter[str]:
    return Counter(without_parameters(test.id) for test in tests if test.outcome in BAD_OUTCOMES)

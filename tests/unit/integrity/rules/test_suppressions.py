"""Suppressions may not become more, whatever their kind and language; moving one is free."""

import pytest

from remand.integrity.comparison import Comparison
from remand.integrity.examination import examine
from remand.integrity.rules.suppressions import count_suppressions
from remand.integrity.suspicions import Weight
from tests.unit.integrity.changes import added, deleted, held, modified

KINDS = [
    ("a.py", "x = f()  # noqa"),
    ("a.py", "x = f()  # noqa: E501"),
    ("a.py", "x = f()  #noqa:E501,F401"),
    ("a.py", "# ruff: noqa"),
    ("a.py", "# flake8: noqa"),
    ("a.py", "x = f()  # type: ignore"),
    ("a.py", "x = f()  # type: ignore[arg-type]"),
    ("a.py", "x = f()  # pyright: ignore[reportX]"),
    ("a.py", "# mypy: ignore-errors"),
    ("a.py", "# pylint: disable=too-many-lines"),
    ("a.py", "# pylint: skip-file"),
    ("a.py", "if x:  # pragma: no cover\n    pass"),
    ("a.py", "x = f()  # nosec"),
    ("a.py", "@typing.no_type_check\ndef g(): ..."),
    ("a.ts", "// @ts-ignore\nf();"),
    ("a.ts", "// @ts-expect-error\nf();"),
    ("a.ts", "// @ts-nocheck"),
    ("a.js", "/* eslint-disable */"),
    ("a.js", "f(); // eslint-disable-line no-console"),
    ("a.js", "// eslint-disable-next-line\nf();"),
    ("a.js", "/* eslint no-console: 0 */"),
    ("a.js", "/* istanbul ignore next */ f();"),
    ("a.js", "/* c8 ignore start */ f();"),
    ("a.ts", "// biome-ignore lint/style: x\nf();"),
    ("a.go", "f() //nolint"),
    ("a.go", "f() // nolint:errcheck"),
    ("a.rs", "#[allow(dead_code)]\nfn g() {}"),
    ("a.rs", "#![allow(clippy::all)]"),
    ("A.java", '@SuppressWarnings("unchecked")\nclass A {}'),
    ("A.java", "f(); // NOSONAR"),
    ("A.kt", '@Suppress("UNUSED")\nfun g() {}'),
    ("A.cs", "#pragma warning disable CS0168"),
    ("a.sh", "# shellcheck disable=SC2086\necho $x"),
    ("a.rb", "x = 1 # rubocop:disable Style/Foo"),
    ("Dockerfile", "# hadolint ignore=DL3008\nRUN x"),
]


@pytest.mark.parametrize(("path", "text"), KINDS)
def test_a_new_suppression_is_found(path: str, text: str) -> None:
    assert held(modified(f"src/{path}", "x = 1\n", f"x = 1\n{text}\n")) == {"suppression_added"}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", "k()  # noqa: S603 - the arguments are ours\n"),
        ("src/a.py", "k()  # type: ignore[no-untyped-call]  # the library has no types\n"),
        ("src/vendor/a.py", "# flake8: noqa\n"),
        ("src/a.ts", "// eslint-disable-next-line no-console -- a hint for developers\nf();\n"),
        ("src/a.ts", "// @ts-expect-error callers without types may pass anything\nf();\n"),
        ("src/a.go", "f() //nolint:errcheck // the error is told by the next call\n"),
    ],
)
def test_neither_a_reason_nor_a_place_excuses_the_suppression_of_what_a_gate_measures(
    path: str, text: str
) -> None:
    assert held(added(path, text)) == {"suppression_added"}
    assert held(added(path, text + "x = 1\n" * 400)) == {"suppression_added"}


@pytest.mark.parametrize(("path", "text"), KINDS)
def test_a_suppression_may_move_to_another_file(path: str, text: str) -> None:
    moved = deleted(f"src/old/{path}", f"{text}\n"), added(f"src/new/{path}", f"{text}\n")

    assert held(*moved) == set()


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", 'x = "# noqa"\n'),
        ("src/a.py", '"""\n# type: ignore\n"""\n'),
        ("src/a.js", 'const x = "// @ts-ignore";\n'),
        ("README.md", "Never write `# noqa`.\n"),
        ("src/api/orders_pb2.py", "x = 1  # type: ignore\n"),
        ("src/__generated__/schema.ts", "/* eslint-disable */\n"),
    ],
)
def test_what_only_looks_like_one_is_none(path: str, text: str) -> None:
    assert held(modified(path, "x = 1\n", f"x = 1\n{text}")) == set()


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()  # noqa: E501", "f()  # noqa"),
        ("f()  # noqa: E501", "f()  # noqa: E501, S101"),
        ("f()  # type: ignore[arg-type]", "f()  # type: ignore"),
    ],
)
def test_a_wider_suppression_is_found(before: str, after: str) -> None:
    assert held(modified("src/a.py", before, after)) == {"suppression_widened"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("f()  # noqa", "f()  # noqa: E501, S101"),
        ("f()  # type: ignore", "f()  # type: ignore[arg-type]"),
        ("f()  # noqa", "f()"),
    ],
)
def test_a_narrower_suppression_is_none(before: str, after: str) -> None:
    assert held(modified("src/a.py", before, after)) == set()


def test_a_line_that_becomes_a_file_is_wider() -> None:
    line, file = "// eslint-disable-next-line no-console\nf();", "/* eslint-disable no-console */\nf();"

    assert held(modified("src/a.js", line, file)) == {"suppression_widened"}


def test_suppressions_are_found_in_a_text_that_breaks_off() -> None:
    assert held(modified("src/a.py", "x = (\n", "x = (\ny = 1  # noqa\n")) == {"suppression_added"}


@pytest.mark.parametrize(("limit", "codes"), [(3, {"suppressions_over_limit"}), (4, set()), (None, set())])
def test_the_project_bounds_how_many_there_are_in_all(limit: int | None, codes: set[str]) -> None:
    change = modified("src/a.py", "x = f()  # noqa: E501\n", "x = f()  # noqa: E501\ny = g()  # noqa: S101\n")
    comparison = Comparison(changes=(change,), max_suppressions=limit, unchanged_suppressions=2)

    assert {one.code for one in examine(comparison) if one.weight is Weight.HELD} == codes


def test_a_change_that_adds_none_is_free_above_the_bound() -> None:
    change = modified("src/a.py", "x = f()  # noqa: E501\n", "y = f()  # noqa: E501\n")

    assert not examine(Comparison(changes=(change,), max_suppressions=0, unchanged_suppressions=9))


def test_a_named_suppression_that_no_gate_measures_may_name_more() -> None:
    change = modified("src/a.py", "f()  # type: ignore[arg-type]\n", "f()  # type: ignore[arg-type, misc]\n")

    assert [one.code for one in examine(Comparison(changes=(change,)))] == ["suppression_noted"]
    assert held(change) == {"suppression_widened"}


def test_suppressions_of_a_file_are_counted_unless_tools_write_it() -> None:
    text = b"x = f()  # noqa: E501\ny = '# noqa'\n"

    found = [count_suppressions(path, text) for path in ("src/a.py", "src/api/orders_pb2.py", "notes.txt")]

    assert found == [1, 0, 0]
    assert count_suppressions("a.py", b"\0" + text) == 0

"""Holds what a pattern of paths means, and that no pattern costs more than its length."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.text.path_patterns import PathPattern, matches_name

MATCHING = [
    ("auth/*.py", "auth/a.py"),
    ("auth/**/*.py", "auth/a.py"),
    ("auth/**/*.py", "auth/b/c/a.py"),
    ("auth", "auth/b/c"),
    ("auth/", "auth/x"),
    ("./auth//b", "auth/b/c"),
    ("setup.py", "setup.py"),
    ("**", "x/y"),
    ("**/*.py", "a.py"),
    ("src/**", "src/a/b"),
    ("src/?.py", "src/a.py"),
    ("a[1].py", "a[1].py"),
]
OTHER = [
    ("auth/*.py", "auth/b/a.py"),
    ("auth", "authors"),
    ("src/**/x?.py", "src/a/x.py"),
    ("*.py", "src/a.py"),
    ("a[1].py", "a1.py"),
    ("src/?.py", "src//.py"),
]


@pytest.mark.parametrize(("pattern", "path"), MATCHING)
def test_a_path_that_is_meant_matches(pattern: str, path: str) -> None:
    assert PathPattern(pattern).matches(path)


@pytest.mark.parametrize(("pattern", "path"), OTHER)
def test_a_path_that_is_not_meant_does_not(pattern: str, path: str) -> None:
    assert not PathPattern(pattern).matches(path)


@given(st.text("ab*?", max_size=12), st.text("ab", max_size=12))
def test_names_match_as_slow_and_plain_matching_says(pattern: str, name: str) -> None:
    def plainly(rest: str, left: str) -> bool:
        if not rest:
            return not left
        if rest[0] == "*":
            return plainly(rest[1:], left) or (bool(left) and plainly(rest, left[1:]))
        return bool(left) and rest[0] in ("?", left[0]) and plainly(rest[1:], left[1:])

    assert matches_name(pattern, name) == plainly(pattern, name)


@pytest.mark.parametrize(
    ("pattern", "path"),
    [
        ("**/" * 300 + "zz", "a/" * 300 + "b"),
        ("*a*a*a*a*a*a*a*a*a*b", "a" * 2000),
        ("**/*a*/" * 60 + "z", "aaaa/" * 200 + "b"),
        ("*" * 5000 + "b", "a" * 5000),
    ],
    ids=range(4),
)
@pytest.mark.timeout(20)
def test_no_pattern_hangs(pattern: str, path: str) -> None:
    assert not PathPattern(pattern).matches(path)


@pytest.mark.parametrize("text", ["src/**", "src", "*.py", "**/a"])
def test_a_pattern_of_some_paths_does_not_mean_no_path(text: str) -> None:
    assert not PathPattern(text).matches("")

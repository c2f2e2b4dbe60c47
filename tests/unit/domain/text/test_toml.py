"""Values as TOML writes them are read back as they were."""

import tomllib

import pytest

from remand.domain.text.toml import toml_value


@pytest.mark.parametrize(
    "value",
    [
        "plain",
        'with "quotes", \\ and\nlines',
        "delete: \x7f",
        "",
        True,
        7,
        1.5,
        ["a", ["b"], []],
        {"name": "A", "two words": {"list": [1, {"x": "\x7f"}]}, "": False, 'quote"': 1},
    ],
)
def test_a_value_is_read_back_as_it_was(value: object) -> None:
    assert tomllib.loads(f"value = {toml_value(value)}") == {"value": value}


def test_keys_are_quoted_only_where_toml_wants_it() -> None:
    assert toml_value({"a-b_1": 1, "a b": 2}) == '{a-b_1 = 1, "a b" = 2}'

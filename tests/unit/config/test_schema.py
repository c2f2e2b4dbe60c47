"""The JSON Schema of remand.toml says what the reader of remand.toml accepts."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from remand import config
from remand.config import ConfigError, parse

SCHEMA: dict[str, Any] = json.loads(Path(config.__file__).with_name("remand.schema.json").read_bytes())
NEEDED = {
    "forge": {"repository": "owner/name", "api": "https://git.example.org/api/v1"},
    "server.oidc": {"issuer": "https://id.example.org", "client_id": "remand"},
    "gates.tests": {"command": ["true"]},
    "team.members": {"name": "Alice"},
    "policy.lockout": {"after": 2},
    "gates.tests.prepare": {"command": ["true"]},
    "keys.trusted": {"key": "ed25519:" + "A" * 43 + "="},
}
"""What a table has to have besides the key in question."""


def tables(schema: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every table with keys of its own, by its path; that of a gate is called tests."""
    if "items" in schema:
        yield from tables(schema["items"], path)
    for form in schema.get("oneOf", ()):
        yield from tables(form, path)
    named = {
        name: row
        for name, row in zip(("tests",), schema.get("patternProperties", {}).values(), strict=False)
        if "properties" in row
    }
    rows = {**schema.get("properties", {}), **named}
    if rows and not named:
        yield path, schema["properties"]
    for key, row in rows.items():
        yield from tables(row, f"{path}.{key}".lstrip("."))


TABLES = dict(tables(SCHEMA))
LISTS = ("team.members", "keys.trusted", "keys.trusted.until")


def nest(path: str, values: dict[str, Any]) -> dict[str, Any]:
    """A configuration in which the table at a path has these values."""
    if not path:
        return values
    parent, _, key = path.rpartition(".")
    around = NEEDED.get(parent, {})
    return nest(parent, {**around, key: [values] if path in LISTS else values})


def written(data: Any) -> str:
    """As an inline value of TOML."""
    if isinstance(data, dict):
        return "{" + ", ".join(f"{json.dumps(key)} = {written(value)}" for key, value in data.items()) + "}"
    if isinstance(data, list):
        return "[" + ", ".join(map(written, data)) + "]"
    return json.dumps(data, ensure_ascii=False)


def toml(data: dict[str, Any]) -> str:
    text = "".join(f"{key} = {written(value)}\n" for key, value in data.items())
    assert tomllib.loads(text) == data
    return text


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)


@pytest.mark.parametrize(
    "path", [path for path in TABLES if path != "policy.lockout"], ids=lambda path: path or "top"
)
def test_a_table_has_the_keys_that_the_reader_knows(path: str) -> None:
    unknown = nest(path, {**NEEDED.get(path, {}), "qqqq-zzzz": 1})
    with pytest.raises(ConfigError) as refused:
        parse(toml(unknown))
    known = re.search(r"the keys are (.*)\.$", str(refused.value))
    assert known, refused.value
    assert set(known[1].split(", ")) == set(TABLES[path])
    assert not Draft202012Validator(SCHEMA).is_valid(unknown)


CASES = [(path, key, row) for path, rows in TABLES.items() for key, row in rows.items()]


@pytest.mark.parametrize(
    ("path", "key", "row"),
    [case for case in CASES if "default" in case[2]],
    ids=lambda value: str(value)[:30],
)
def test_a_default_is_what_holds_without_the_key(path: str, key: str, row: dict[str, Any]) -> None:
    needed = NEEDED.get(path, {})
    if key == "until":
        return
    bare, full = nest(path, needed), nest(path, {**needed, key: row["default"]})
    Draft202012Validator(SCHEMA).validate(full)
    if (path, key) in (("project", "base"), ("server", "url")):  # said as an empty text by leaving it out
        return
    assert parse(toml(full)) == parse(toml(bare))


@pytest.mark.parametrize(
    ("path", "key", "row"),
    [case for case in CASES if "enum" in case[2] or "enum" in case[2].get("items", {})],
    ids=lambda value: str(value)[:30],
)
def test_the_words_of_a_choice_are_those_that_the_reader_takes(
    path: str, key: str, row: dict[str, Any]
) -> None:
    is_list, needed = "items" in row, NEEDED.get(path, {})
    for word in (row["items"] if is_list else row)["enum"]:
        parse(toml(nest(path, {**needed, key: [word] if is_list else word})))
    with pytest.raises(ConfigError):
        parse(toml(nest(path, {**needed, key: ["qqqq"] if is_list else "qqqq"})))

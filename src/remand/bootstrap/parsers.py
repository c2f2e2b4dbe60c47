"""The parsers by the names that the configuration calls them; each is loaded when it is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Protocol, cast

from remand.app.gates.ports import Ran
from remand.app.gates.workshop import Parser
from remand.domain.gates.figures import Measurement
from remand.domain.gates.gate import Gate

_MODULES = {
    "cargo": "cargo",
    "cargo-test": "cargo_test",
    "cobertura": "cobertura",
    "coverage-json": "coverage_json",
    "eslint": "eslint",
    "exit": "exit",
    "go": "go",
    "junit": "junit",
    "lcov": "lcov",
    "mypy": "mypy",
    "ruff": "ruff",
    "sarif": "sarif",
    "tap": "tap",
    "tsc": "tsc",
}


class _Module(Protocol):
    """What every parser's file has."""

    FIGURES: tuple[str, ...]
    DEFAULTS: Mapping[str, float]

    def parse(self, ran: Ran) -> Measurement:
        """Reads what the tool said."""


def names() -> tuple[str, ...]:
    """Every parser's name."""
    return tuple(_MODULES)


def parser(name: str) -> Parser | None:
    """The parser of that name with its figures and default thresholds; None when there is none."""
    if name not in _MODULES:
        return None
    module = cast(_Module, import_module(f"remand.adapters.parsers.{_MODULES[name]}"))
    return Parser(parse=module.parse, figures=module.FIGURES, defaults=module.DEFAULTS)


def fault(gate: Gate) -> str:
    """What a gate's configuration asks of its parser in vain; empty when it can all be had."""
    known = parser(gate.parser)
    if known is None:
        return f"`gates.{gate.name}.parser` is `{gate.parser}`; use one of {', '.join(names())}."
    unknown = next((key for key in gate.require if key[4:] not in known.figures), "")
    if unknown:
        given = ", ".join(known.figures)
        return (
            f"`gates.{gate.name}.require.{unknown}` is about no figure of `{gate.parser}`; it gives {given}."
        )
    return ""


def figures(name: str) -> tuple[str, ...]:
    """The figures a parser can give, which `max_…` and `min_…` may be about; none when there is no such parser."""
    known = parser(name)
    return known.figures if known else ()


def defaults(name: str) -> Mapping[str, float]:
    """What is required where the configuration says nothing."""
    known = parser(name)
    return known.defaults if known else {}

"""Checks single values of the configuration; reports a mistake with its remedy."""

from __future__ import annotations

from typing import Any

from remand.startup import lazy_pattern

NAME = "remand.toml"

_DURATION = lazy_pattern(r"(\d+(?:\.\d+)?)(s|m|h|d)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class ConfigError(Exception):
    """A wrong key or value in the configuration; the message says what to do."""


def require_known_keys(table: dict[str, Any], names: tuple[str, ...], where: str) -> None:
    """Refuses unknown keys, and suggests the right one."""
    for key in table:
        if key not in names:
            from difflib import get_close_matches  # Imported only after a typing mistake.

            close = get_close_matches(key, names, 1)
            hint = f"did you mean `{close[0]}`?" if close else f"the keys are {', '.join(names)}."
            raise ConfigError(f"{NAME}: there is no key `{where}{key}`; {hint}")


def table(data: dict[str, Any], key: str, where: str = "") -> dict[str, Any]:
    """A table of the configuration; empty if it is missing."""
    value = data.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{NAME}: `{where}{key}` must be a table; write `[{where}{key}]`.")
    return value


def text(value: Any, key: str) -> str:
    """Checks a string."""
    if not isinstance(value, str):
        raise ConfigError(f'{NAME}: `{key}` must be text; write it as `{key.rpartition(".")[2]} = "…"`.')
    return value


def texts(value: Any, key: str) -> tuple[str, ...]:
    """Checks a list of strings."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise ConfigError(f'{NAME}: `{key}` must be a list of texts, as in `["a", "b"]`.')
    return tuple(value)


def count(value: Any, key: str, least: int = 1, most: int = 1 << 31) -> int:
    """Checks a whole number within its bounds."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{NAME}: `{key}` must be a whole number of at least {least}.")
    if value > most:
        raise ConfigError(f"{NAME}: `{key}` must be at most {most}.")
    return value


def seconds(value: Any, key: str) -> float:
    """Parses a duration in seconds."""
    match = _DURATION.fullmatch(value) if isinstance(value, str) else None
    if match is None or float(match[1]) <= 0:
        raise ConfigError(f'{NAME}: `{key}` must be a duration such as "90s", "10m" or "2h".')
    return float(match[1]) * _SECONDS[match[2]]


def flag(value: Any, key: str) -> bool:
    """Checks a boolean."""
    if not isinstance(value, bool):
        raise ConfigError(f"{NAME}: `{key}` must be true or false.")
    return value

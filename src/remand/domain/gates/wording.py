"""A gate's figures in words, as agents and scripts read them."""

from __future__ import annotations

from collections.abc import Mapping

_COMPILERS = frozenset({"tsc", "cargo", "go"})
_PERCENT = frozenset({"coverage", "branch_coverage"})


def title(name: str) -> str:
    """A gate's name as a line begins with it."""
    return name[:1].upper() + name[1:]


def number(value: float) -> str:
    """A figure without decimals it does not need; one that is not whole is not shown as if it were."""
    shown = f"{value:.2f}"
    if float(shown).is_integer() and not float(value).is_integer():
        shown = f"{value:.4f}"
    return shown.rstrip("0").removesuffix(".")


def limited(require: Mapping[str, float]) -> list[tuple[str, str, float]]:
    """The thresholds as (figure, `max` or `min`, limit), in their order."""
    return [(name[4:], name[:3], limit) for name, limit in require.items()]


def measured(name: str, parser: str, figures: Mapping[str, float], require: Mapping[str, float]) -> str:
    """The line of a gate: `- Lint: 509 errors, 344 warnings (requires 0 errors, max 50 warnings)`."""
    wanted = limited(require)
    shown = ", ".join(_figure(name, parser, figure, figures.get(figure, 0.0)) for figure, _, _ in wanted)
    required = ", ".join(_limit(*row, is_alone=len(wanted) == 1) for row in wanted)
    return f"- {title(name)}: {shown} (requires {required})"


def _figure(name: str, parser: str, figure: str, value: float) -> str:
    if figure in _PERCENT:
        return f"{number(value)}% {figure.replace('_', ' ')}" if name != figure else f"{number(value)}%"
    noun = figure.replace("_", " ")
    if figure == "errors" and ("build" in name or (parser in _COMPILERS and "lint" not in name)):
        noun = "compilation errors"
    return f"{number(value)} {_singular(noun) if value == 1 else noun}"


def _limit(figure: str, bound: str, limit: float, *, is_alone: bool) -> str:
    noun = figure.replace("_", " ")
    if figure in _PERCENT:
        share = f"{bound} {number(limit)}%" if bound == "max" else f"{number(limit)}%"
        return share if is_alone else f"{share} {noun}"
    if (figure, bound, limit) == ("failures", "max", 0):
        return "100% pass"
    amount = number(limit) if bound == "max" and limit == 0 else f"{bound} {number(limit)}"
    return amount if is_alone else f"{amount} {noun}"


def _singular(noun: str) -> str:
    return noun.removesuffix("s")

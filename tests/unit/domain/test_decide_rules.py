"""Holds that every command of the domain is declared, and that its row fits it."""

import ast
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import remand.domain
from remand.app.facts import LOOKUPS
from remand.domain import commands as c
from remand.domain.decide import COMMON_REFUSALS, REQUESTS, RULES, FactKind, decide
from remand.domain.events.catalogue import NATIVE
from remand.domain.refusals import MEANINGS

DOMAIN = Path(remand.domain.__file__).parent
EVENTS = {kind.__name__: str(kind.__struct_config__.tag) for kind in NATIVE}

BASES = {c.Command, c.TaskCommand, c.ClaimCommand, c.HandoffCommand}
COMMANDS = {
    kind
    for kind in vars(c).values()
    if isinstance(kind, type) and issubclass(kind, c.Command) and kind not in BASES
}


def test_every_command_is_declared_once() -> None:
    assert set(RULES) == COMMANDS


def test_the_fields_that_a_row_names_are_there() -> None:
    named = {kind: (*rule.names, *(["agent"] if rule.is_by_agent else [])) for kind, rule in RULES.items()}

    assert not {
        (kind.__name__, name)
        for kind, names in named.items()
        for name in names
        if name not in kind.__struct_fields__
    }
    assert all(rule.names for rule in RULES.values() if FactKind.MEMBER in rule.needs)


def test_whoever_holds_a_claim_gives_commands_in_its_own_name() -> None:
    assert {kind for kind in COMMANDS if issubclass(kind, c.ClaimCommand)} <= {
        kind for kind, rule in RULES.items() if rule.is_by_agent
    }


def test_every_fact_that_a_row_needs_can_be_looked_up() -> None:
    assert set(LOOKUPS) == set(FactKind) == {need for rule in RULES.values() for need in rule.needs}


def test_no_interface_takes_what_the_coordinator_or_the_program_itself_decides() -> None:
    assert len(REQUESTS) == 33
    assert not {c.RecordVerdict, c.AssignTask, c.ImportIssue, c.AddComments, c.ExpireLease} & set(REQUESTS)


class Definition(NamedTuple):
    """A function, or a table that may hold functions, and the module that it stands in."""

    module: str
    node: ast.stmt


@cache
def tree(module: str) -> ast.Module | None:
    """The source of a module of the domain; None for anything else."""
    path = DOMAIN.joinpath(*module.split(".")[2:]).with_suffix(".py")
    is_ours = module.startswith("remand.domain.") and path.is_file()
    return ast.parse(path.read_text()) if is_ours else None


@cache
def names(module: str) -> dict[str, Definition | str]:
    """What the names of a module mean: a definition, a module, or `module:name` for what is imported."""
    found: dict[str, Definition | str] = {}
    for node in getattr(tree(module), "body", []):
        match node:
            case ast.FunctionDef(name=name):
                found[name] = Definition(module, node)
            case ast.Assign(targets=[ast.Name(id=name)]) | ast.AnnAssign(target=ast.Name(id=name)):
                found[name] = Definition(module, node)
            case ast.ImportFrom(module=str(source)):
                for one in node.names:
                    inner = f"{source}.{one.name}"
                    found[one.asname or one.name] = inner if tree(inner) else f"{source}:{one.name}"
    return found


def meaning(module: str, name: str) -> Definition | str | None:
    found = names(module).get(name)
    if isinstance(found, str) and ":" in found:
        return meaning(*found.split(":"))
    return found


@cache
def methods() -> dict[str, list[Definition]]:
    """The methods of all classes of the domain, by their names: whose is called, the source does not tell."""
    found: dict[str, list[Definition]] = {}
    for path in DOMAIN.rglob("*.py"):
        module = ".".join(("remand", "domain", *path.relative_to(DOMAIN).with_suffix("").parts))
        for outer in getattr(tree(module), "body", []):
            for node in outer.body if isinstance(outer, ast.ClassDef) else ():
                if isinstance(node, ast.FunctionDef):
                    found.setdefault(node.name, []).append(Definition(module, node))
    return found


def uses(definition: Definition) -> Iterator[Definition]:
    """The functions, methods and tables that a definition names, whether it calls them or hands them on."""
    for node in ast.walk(definition.node):
        found = None
        if isinstance(node, ast.Name):
            found = meaning(definition.module, node.id)
        elif isinstance(node, ast.Attribute):
            inside = meaning(definition.module, node.value.id) if isinstance(node.value, ast.Name) else None
            found = meaning(inside, node.attr) if isinstance(inside, str) else None
            if found is None:
                yield from methods().get(node.attr, ())
        if isinstance(found, Definition):
            yield found


def reachable(function: Callable[..., Any]) -> list[ast.Call]:
    """Every call in all that a function can come to. The rows of other commands are not among it."""
    start = meaning(function.__module__, function.__name__)
    assert isinstance(start, Definition)
    table = meaning("remand.domain.decide", "RULES")
    waiting, seen = [start], {start}
    while waiting:
        found = {*uses(waiting.pop())} - seen - {table}
        seen |= found
        waiting += found
    nodes = (node for definition in seen for node in ast.walk(definition.node))
    return [node for node in nodes if isinstance(node, ast.Call)]


def last_name(node: ast.expr) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def event_names(calls: list[ast.Call]) -> set[str]:
    """The events that calls make: of each class that is called, or handed to something that may call it."""
    made = {last_name(call.func) for call in calls}
    handed = {
        last_name(given)
        for call in calls
        if last_name(call.func) not in {"isinstance", "issubclass"}
        for given in call.args
    }
    return {EVENTS[name] for name in made | handed if name in EVENTS}


def refusal_codes(calls: list[ast.Call]) -> set[str]:
    """The codes that refusals are made with."""
    return {
        str(node.value)
        for call in calls
        if last_name(call.func) == "Refused" and call.args
        for node in ast.walk(call.args[0])
        if isinstance(node, ast.Constant)
    }


@pytest.mark.parametrize("kind", RULES, ids=lambda kind: kind.__name__)
def test_a_row_names_every_event_and_refusal_that_its_decision_can_come_to(kind: type[c.Command]) -> None:
    calls, rule = reachable(RULES[kind].decide), RULES[kind]

    assert set(rule.leads_to.split()) == event_names(calls)
    assert set(rule.refusals.split()) == refusal_codes(calls) - set(COMMON_REFUSALS.split())


def test_what_any_command_may_be_refused_for_is_what_decide_itself_refuses() -> None:
    assert set(COMMON_REFUSALS.split()) == refusal_codes(reachable(decide))


def test_every_refusal_of_a_row_is_documented_and_every_event_known() -> None:
    assert {code for rule in RULES.values() for code in rule.refusals.split()} <= MEANINGS.keys()
    assert {name for rule in RULES.values() for name in rule.leads_to.split()} <= set(EVENTS.values())

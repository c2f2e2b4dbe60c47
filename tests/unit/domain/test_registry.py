"""Holds that every command of the domain is declared, and that its row fits it."""

from remand.app.facts import LOOKUPS
from remand.domain import commands as c
from remand.domain.registry import REQUESTS, RULES, FactKind

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
    assert len(REQUESTS) == 31
    assert not {c.RecordVerdict, c.AssignTask, c.ImportIssue, c.AddComments, c.ExpireLease} & set(REQUESTS)

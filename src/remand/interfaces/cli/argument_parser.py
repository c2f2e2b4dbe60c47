"""The parser of a command's arguments: for help, and for calls that are wrong or unusual."""

from __future__ import annotations

from argparse import ArgumentParser
from typing import NoReturn

from remand.app.errors import UsageError
from remand.interfaces.cli.context import CommandSpec


class CommandParser(ArgumentParser):
    """An argument parser that raises instead of exiting the program."""

    def error(self, message: str) -> NoReturn:
        """Raises with what is wrong with the call, and its usage."""
        raise UsageError(f"{message}\n{self.format_usage().strip()}")


def build_parser(name: str, about: str, spec: CommandSpec) -> CommandParser:
    """The parser of a command."""
    parser = CommandParser(
        prog=f"remand {name}",
        description=f"{about[0].upper()}{about[1:]}.",
        epilog="Every command takes --json, -C DIR, --as NAME and --key KEY.",
        add_help=False,
        allow_abbrev=False,
    )
    for argument in spec.arguments:
        parser.add_argument(*argument.names, **argument.options, help=argument.help)
    return parser

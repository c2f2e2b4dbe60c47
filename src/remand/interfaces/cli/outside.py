"""Carries one call of an agent's out, in a process of our own outside of its sandbox; the call is on standard input."""

from __future__ import annotations

import os
import sys

from remand.bootstrap.doors import received
from remand.interfaces.cli import main as command_line
from remand.interfaces.cli.context import Surroundings
from remand.interfaces.cli.entry import ENVIRONMENT


def main() -> None:
    """Runs the call and leaves with its exit code. Standard input holds nothing else that could be read."""
    folder, settings, arguments, given = received()
    is_terminal, width = settings[len(ENVIRONMENT) :]
    surroundings = Surroundings(
        folder=folder,
        environment=dict(zip(ENVIRONMENT, settings, strict=False)),
        stdout=sys.stdout,
        stderr=sys.stderr,
        is_terminal=bool(is_terminal),
        width=int(width or 0),
        given=given.decode("utf-8", "replace"),
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    code = command_line.run(arguments, surroundings)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

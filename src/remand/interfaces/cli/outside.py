"""Carries out what Remand does for an agent that it has started, in a process of our own outside of its sandbox.

A call through the agent's socket is on standard input; a done claim that is made for it stands in the arguments. Either way
the name is the one that Remand has given it.
"""

from __future__ import annotations

import os
import sys

from remand.bootstrap.doors import received
from remand.config import inherited_environment
from remand.domain.event import KnownBy
from remand.interfaces.cli import main as command_line
from remand.interfaces.cli.context import Surroundings
from remand.interfaces.cli.entry import ENVIRONMENT


def main() -> None:
    """Runs the call and leaves with its exit code. Standard input holds nothing else that could be read."""
    if len(sys.argv) > 1:
        folder, arguments, given = os.getcwd(), sys.argv[1:], b""
        environment = inherited_environment()
        settings = [*(environment.get(name, "") for name in ENVIRONMENT), "", ""]
    else:
        folder, settings, arguments, given = received()
    is_terminal, width = settings[len(ENVIRONMENT) :][:2]
    surroundings = Surroundings(
        folder=folder,
        environment=dict(zip(ENVIRONMENT, settings, strict=False)),
        stdout=sys.stdout,
        stderr=sys.stderr,
        is_terminal=bool(is_terminal),
        width=int(width or 0),
        given=given.decode("utf-8", "replace"),
        known_by=KnownBy.SOCKET,
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    code = command_line.run(arguments, surroundings)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

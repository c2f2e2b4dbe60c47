"""Runs one call for an agent that Remand started, or that has a token, in a separate process outside its sandbox."""

from __future__ import annotations

import os
import sys

from remand.config import inherited_environment
from remand.domain.events.event import KnownBy
from remand.interfaces.cli import main as command_line
from remand.interfaces.cli.context import CallOrigin
from remand.interfaces.cli.registry import FORWARDED_VARIABLES
from remand.wiring.coordinator import read_call


def main() -> None:
    """Runs the call and exits with its exit code. Standard input contains nothing else."""
    option, _, known_by = (sys.argv[1:2] or [""])[0].partition("=")
    has_known_by = option == "--known-by"
    if len(sys.argv) > 1:
        folder, arguments, input_bytes = os.getcwd(), sys.argv[1 + has_known_by :], b""
        environment = inherited_environment()
        settings = [*(environment.get(name, "") for name in FORWARDED_VARIABLES), "", ""]
    else:
        folder, settings, arguments, input_bytes = read_call(sys.stdin.buffer)
    is_terminal, width = settings[len(FORWARDED_VARIABLES) :][:2]
    origin = CallOrigin(
        folder=folder,
        environment=dict(zip(FORWARDED_VARIABLES, settings, strict=False)),
        stdout=sys.stdout,
        stderr=sys.stderr,
        is_terminal=bool(is_terminal),
        width=int(width or 0),
        given=input_bytes.decode("utf-8", "replace"),
        known_by=KnownBy(known_by) if has_known_by else KnownBy.SOCKET,
    )
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(encoding="utf-8", errors="surrogateescape")  # type: ignore[union-attr]
    code = command_line.run(arguments, origin)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    main()

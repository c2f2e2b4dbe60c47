"""Cursor in the terminal: hooks and tools in a home folder of the run's own, where it is confined.

It knows no other places for them than the project and the home folder. An agent that is not confined keeps its user's home,
and with that whatever hooks that has, or the project tracks (`remand init --hosts cursor --portable`). No stop hook fires in its print mode: the end
of the run stands for it.
"""

from __future__ import annotations

import os

from remand.adapters.hosts.cursor import SETUP
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.outfit import Outfit, Run, dumped, hooks, lent, passed, pointed, server

STREAM = ("--output-format", "stream-json")
READ = ("cli-config.json", "rules", "commands", "skills")
LOGIN = ("cursor/auth.json",)
VARIABLES = ("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN")


def outfit(run: Run) -> Outfit:
    """What Cursor is started with. What to do is the last word of its command: it reads no input."""
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = Outfit(
        arguments=() if tells else STREAM,
        ending=() if run.is_placed else (pointed(run.prompt, run.prompt_file),),
        environment=passed(run, VARIABLES),
        files={run.prompt_file: run.prompt},
        has_prompt=True,
    )
    return own.joined(_confined(run)) if run.is_confined else own


def _confined(run: Run) -> Outfit:
    own, settings = os.path.join(run.state, ".cursor"), os.path.join(run.home, ".config")
    return (
        Outfit(
            arguments=("--approve-mcps",),
            environment={"HOME": run.state},
            files={
                os.path.join(own, "hooks.json"): hooks(SETUP, run),
                os.path.join(own, "mcp.json"): dumped({"mcpServers": {NAME: server(run, SETUP.host)}}),
            },
        )
        .joined(lent(os.path.join(run.home, ".cursor"), own, links=READ))
        .joined(lent(settings, os.path.join(run.state, ".config"), logins=LOGIN))
    )

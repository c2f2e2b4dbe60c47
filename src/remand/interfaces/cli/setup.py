"""Setting Remand up in a repository."""

from __future__ import annotations

import os
from argparse import ArgumentParser

from remand.app.errors import UsageError
from remand.bootstrap.ledger import prepare_folder
from remand.bootstrap.settings import SettingsSource
from remand.interfaces.cli.context import Command, Context, words
from remand.interfaces.cli.output import Result

HOSTS = ("claude", "codex", "copilot", "cursor", "gemini", "qwen", "openhands")
TEMPLATE = """\
# Remand reads this file from the base branch. `remand doctor` checks it.

[project]
base = "{base}"

# Who works here. Without members any agent name may claim, and only `user` may review.
# [team]
# members = [
#   {{name = "Fenster", role = "agent", skills = ["frontend"]}},
#   {{name = "Lead",    role = "lead"}},
# ]

# What a done claim must pass. Empty: there are no gates.
[gates]

[policy]
lockout = "strict"                     # or {{after = 2}}, or "off"
lease = "30m"
"""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--hosts", type=words, default=(), metavar="claude,codex", help="agent hosts to hook into"
    )


def _init(context: Context) -> Result:
    for host in context.arguments.hosts:
        if host not in HOSTS:
            raise UsageError(f"There is no host {host!r}; known are {', '.join(HOSTS)}.")
    if context.arguments.hosts:
        raise UsageError(
            "Host hooks come with the gates, which this version does not have yet. Leave --hosts out."
        )
    place = context.place
    prepare_folder(place)
    config = os.path.join(place.root, "remand.toml")
    is_new = not os.path.exists(config)
    if is_new:
        base = SettingsSource(context.gateway.repository).base() or "main"
        with open(config, "w", encoding="utf-8") as file:
            file.write(TEMPLATE.format(base=base))
    settings = context.opened.settings.settings()
    data = {"root": place.root, "config": config, "gates": list(settings.gates or ()), "hooks": []}
    lines = [
        f"Remand is set up in {place.root}.",
        f"  {'wrote' if is_new else 'kept '} remand.toml"
        + (f" (read from {settings.source})" if settings.source else ""),
        "  kept  .got/ (only its event files are for git)",
        "",
        "Next: commit remand.toml and .got/.gitignore, .got/.gitattributes on the base branch, then",
        "  remand task add 'First task'",
        "  remand task claim --agent NAME",
    ]
    return Result(data, "\n".join(lines))


COMMANDS = {"init": Command(_arguments, _init)}

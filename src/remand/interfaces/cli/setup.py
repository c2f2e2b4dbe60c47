"""Setting Remand up in a repository, and taking its hooks out again."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser

from remand.app.errors import EnvironmentFault, UsageError
from remand.bootstrap import hooking, mcp_entries
from remand.bootstrap.hosts import HOSTS
from remand.bootstrap.keys import missing_lines, new_identity
from remand.bootstrap.ledger import prepare_folder
from remand.bootstrap.projects import as_toml, propose
from remand.bootstrap.quick import Place
from remand.bootstrap.settings import SettingsSource
from remand.domain.refusals import Refused
from remand.interfaces.cli.context import Command, Context, words
from remand.interfaces.cli.output import Result

TEMPLATE = """\
# Remand reads this file from the base branch. `remand doctor` checks it.

[project]
base = "{base}"
id = "{project}"

# Whose word releases work: the machines that may sign passed verdicts, approvals and the like.
[keys]
trusted = [
  "{key}",
]

# Who works here. Without members any agent name may claim, and only `user` may review.
# [team]
# members = [
#   {{name = "Fenster", role = "agent", skills = ["frontend"]}},
#   {{name = "Lead",    role = "lead"}},
# ]

# What a done claim must pass.{nothing}
{gates}

[policy]
lockout = "strict"                     # or {{after = 2}}, or "off"
lease = "30m"
# enforce = false                      # everything is judged and recorded, and nothing is stopped
"""


def _arguments(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--hosts", type=words, default=(), metavar="claude,codex", help="agent hosts to hook into"
    )
    parser.add_argument(
        "--portable", action="store_true", help="name an executable in the project by its place"
    )
    parser.add_argument("--remove", action="store_true", help="take the hooks out again; the ledger stays")


def _init(context: Context) -> Result:
    options = context.arguments
    for host in options.hosts:
        if host not in HOSTS:
            raise UsageError(f"There is no host {host!r}; known are {', '.join(HOSTS)}.")
    if options.remove and options.hosts:
        raise UsageError("--remove takes the hooks out of every host. Leave --hosts out.")
    if options.remove:
        return _remove(context)
    place = context.place
    _require_files(place)
    is_first = not os.path.isdir(place.got)
    prepare_folder(place)
    config = os.path.join(place.root, "remand.toml")
    is_new = not os.path.exists(config)
    if is_new:
        _write_config(context, config)
    hooks, servers = _installed(context) if options.hosts else ([], [])
    settings = context.opened.settings.settings()
    missing = missing_lines(settings)
    data = {
        "root": place.root,
        "config": config,
        "gates": list(settings.gates or ()),
        "hooks": hooks,
        "mcp": servers,
        "missing": missing,
    }
    written = sorted({*hooks, *servers})
    shown = _page(context, is_new=is_new, is_first=is_first, written=written, missing=missing)
    return Result(data, shown)


def _require_files(place: Place) -> None:
    """Refuses a repository without files: what is written there could not be committed."""
    if place.root == place.common_dir:
        raise EnvironmentFault(
            f"{place.root} is a bare repository, with no files that could be committed. "
            "Run `remand init` in a clone of it, commit there, and push."
        )


def _installed(context: Context) -> tuple[list[str], list[str]]:
    """Puts our hooks and our MCP server into hosts' settings; gives the files. Nothing is written unless all can be."""
    root, options = context.place.root, context.arguments
    hosts, program, is_portable = options.hosts, _executable(), options.portable
    mcp_entries.plan_servers(root, hosts, program, is_portable=is_portable)
    hooks = hooking.install_hosts(root, hosts, program, is_portable=is_portable)
    planned = mcp_entries.plan_servers(root, hosts, program, is_portable=is_portable)
    return hooks, mcp_entries.carry_out(root, planned)


def _write_config(context: Context, path: str) -> None:
    base = SettingsSource(context.gateway.repository).base() or "main"
    identity = new_identity()
    proposed = propose(context.place.root, context.gateway.repository.tracked())
    gates = as_toml(proposed).strip() if proposed.gates else ""
    text = TEMPLATE.format(
        base=base,
        project=identity.project,
        key=identity.key,
        nothing="" if gates else " Empty: there are no gates.",
        gates=gates or "[gates]",
    )
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _executable() -> str:
    """The program that hooks call: the one that was called now, or the one beside this interpreter."""
    beside = os.path.join(os.path.dirname(os.path.abspath(sys.executable)), "remand")
    return beside if os.path.exists(beside) else os.path.abspath(sys.argv[0])


def _page(context: Context, *, is_new: bool, is_first: bool, written: list[str], missing: list[str]) -> str:
    place, options = context.place, context.arguments
    settings = context.opened.settings.settings()
    gates = ", ".join(settings.gates or ()) or "none"
    source = f" (read from {settings.source})" if settings.source else ""
    rows = [
        f"Remand is set up in {place.root}.",
        f"  {'wrote' if is_new else 'kept '} remand.toml{source}; gates: {gates}",
        f"  {'made ' if is_first else 'kept '} .got/ (only its event files are for git)",
        *(
            ["  note  no gate was found for this project: every done claim will pass"]
            if gates == "none"
            else []
        ),
        *(f"  wrote {path}" for path in written),
        *(f"  note  {text}" for text in _hints(options.hosts)),
        *(f"  add   {line} in remand.toml, so that others believe this machine" for line in missing),
        "",
        f"Next: commit {_set_up(written)} on the base, then",
        "  remand gate run                # measures HEAD; nothing is recorded",
        "  remand task add 'First task'",
        "  remand task claim --agent NAME",
    ]
    return "\n".join(rows)


def _set_up(written: list[str]) -> str:
    """The files that are to be committed."""
    hosts = " the hosts' settings," if written else ""
    return f"remand.toml,{hosts} .got/.gitignore and .got/.gitattributes"


def _hints(hosts: tuple[str, ...]) -> list[str]:
    """What a person still has to do."""
    told = [text for host in hosts for text in (hooking.hint(host), mcp_entries.hint(host, _executable()))]
    return list(filter(None, told))


def _remove(context: Context) -> Result:
    if context.is_confined:
        raise Refused("user_only", "Only the user takes the hooks out, and not from an agent's place.")
    root = context.place.root
    mcp_entries.plan_removal(root)
    files = hooking.remove_hosts(root)
    servers = mcp_entries.carry_out(root, mcp_entries.plan_removal(root))
    shown = [f"  took our hooks out of {path}" for path in files] or ["  there were no hooks of ours"]
    shown += [f"  took our MCP server out of {path}" for path in servers]
    rows = [*shown, "Kept: remand.toml and .got/. Delete them to forget everything."]
    return Result({"root": root, "hooks": files, "mcp": servers}, "\n".join(rows))


COMMANDS = {"init": Command(_arguments, _init)}

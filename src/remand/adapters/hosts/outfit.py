"""What a host is started with so that our hooks and our tools are there for one run, and gone with it.

Nothing of it is put where the agent works, or into the user's own settings, where a host can be told otherwise. A
confined agent does not get the host's folder in the user's home either, since what is written there is run when the user
starts that host: it gets a folder of its own, with links to what it has to read, and to its login.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from remand.adapters.hosts.commands import has_option
from remand.adapters.hosts.mcp_entries import ENTRIES, NAME
from remand.adapters.hosts.settings import install
from remand.adapters.hosts.setup import Setup
from remand.domain.record import Record

LONGEST = 100_000
"""The system takes no word of a command of more than 128 KiB."""
EVERYONES = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
)


class Run(NamedTuple):
    """What is to be started, and from where."""

    words: tuple[str, ...]
    """What the user's command says to the host."""
    folder: str
    """The run's own: outside the worktree, and not for the agent to write."""
    program: str
    """Our own executable."""
    home: str
    """The user's."""
    surroundings: Mapping[str, str]
    """The scheduler's environment."""
    is_confined: bool
    prompt: str = ""
    is_placed: bool = False
    """The user's command says itself where the prompt goes."""

    @property
    def prompt_file(self) -> str:
        """Where the prompt is put for a host that reads files alone."""
        return self.path("prompt.md")

    @property
    def state(self) -> str:
        """Where the host keeps what it writes during the run."""
        return os.path.join(self.folder, "state")

    def path(self, *names: str) -> str:
        """A path in the run's folder."""
        return os.path.join(self.folder, *names)

    def has(self, *names: str) -> bool:
        """Whether the user's command has an option."""
        return has_option(self.words, *names)

    def own_folder(self, variable: str, *usual: str) -> str:
        """A host's folder in the user's home."""
        return self.surroundings.get(variable, "") or os.path.join(self.home, *usual)


class Outfit(Record, kw_only=True):
    """What a command is given so that it works for us."""

    arguments: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The subcommands of the host that the arguments have to follow."""
    ending: tuple[str, ...] = ()
    """What is put at the very end."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """The text of each file in the run's folder."""
    links: dict[str, str] = msgspec.field(default_factory=dict)
    """What each link in the run's folder leads to."""
    copies: dict[str, str] = msgspec.field(default_factory=dict)
    """What each copy in the run's folder is made from."""
    write: tuple[str, ...] = ()
    """Files of the user's that the agent may write: its login, which hosts renew."""
    has_prompt: bool = False
    """What the agent is told stands in the command."""

    def joined(self, other: Outfit) -> Outfit:
        """Both of two outfits."""
        return Outfit(
            arguments=self.arguments + other.arguments,
            after=self.after or other.after,
            ending=self.ending + other.ending,
            environment=self.environment | other.environment,
            files=self.files | other.files,
            links=self.links | other.links,
            copies=self.copies | other.copies,
            write=self.write + other.write,
            has_prompt=self.has_prompt or other.has_prompt,
        )


def hooks(setup: Setup, run: Run) -> str:
    """Our hooks, in the form of a host's settings file."""
    return install(setup, None, [run.program])


def server(run: Run, host: str, **more: object) -> dict[str, object]:
    """Our MCP server, as a host is told of one. It knows whose it is by the environment it is handed on."""
    return {"command": run.program, "args": ["mcp"], **ENTRIES[host].extras, **more}


def dumped(value: object) -> str:
    """JSON for a file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plugin(run: Run, setup: Setup, *manifest: str) -> dict[str, str]:
    """A plugin that consists of our hooks alone."""
    return {
        run.path("plugin", *manifest): dumped({"name": f"{NAME}-run", "version": "1.0.0"}),
        run.path("plugin", "hooks", "hooks.json"): hooks(setup, run),
    }


def lent(source: str, target: str, *, links: Iterable[str] = (), logins: Iterable[str] = ()) -> Outfit:
    """Links to what is there in a host's folder in the user's home; what is a login may be written."""
    there = {os.path.join(target, name): os.path.join(source, name) for name in (*links, *logins)}
    found = {link: path for link, path in there.items() if os.path.exists(path)}
    secrets = {os.path.join(source, name) for name in logins}
    return Outfit(links=found, write=tuple(path for path in found.values() if path in secrets))


def passed(run: Run, names: Iterable[str] = (), prefixes: tuple[str, ...] = ()) -> dict[str, str]:
    """Those of the scheduler's variables that a host needs to be logged in and to reach its model."""
    wanted = {*names, *EVERYONES, *(name.lower() for name in EVERYONES)}
    return {
        name: value
        for name, value in run.surroundings.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


def pointed(prompt: str, path: str) -> str:
    """A prompt as one word of a command: where it is too long for that, where to find it."""
    return (
        prompt if len(prompt.encode("utf-8", "replace")) <= LONGEST else f"Read {path}: it says what to do."
    )

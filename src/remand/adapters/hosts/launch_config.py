"""What an agent's command is launched with so that our hooks and tools are there for one run; and which host a command starts."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from remand.adapters.hosts.hook import Setup
from remand.adapters.hosts.mcp_entries import ENTRIES, NAME
from remand.adapters.hosts.settings import install_hooks
from remand.domain.record import Record

PROGRAMS = {
    "claude": "claude",
    "codex": "codex",
    "copilot": "copilot",
    "cursor-agent": "cursor",
    "gemini": "gemini",
    "openhands": "openhands",
    "qwen": "qwen",
}
PACKAGES = {
    "@anthropic-ai/claude-code": "claude",
    "@github/copilot": "copilot",
    "@google/gemini-cli": "gemini",
    "@openai/codex": "codex",
    "@qwen-code/qwen-code": "qwen",
}
SUFFIXES = (".js", ".mjs", ".cjs", ".exe", ".cmd")

STARTERS = {
    "env": ("-u", "--unset", "-C", "--chdir"),
    "nice": ("-n", "--adjustment"),
    "nohup": (),
    "setsid": (),
    "stdbuf": ("-i", "-o", "-e"),
    "time": (),
    "timeout": ("-k", "--kill-after", "-s", "--signal"),
    "bun": (),
    "bunx": ("-p", "--package"),
    "npm": ("-p", "--package"),
    "npx": ("-p", "--package"),
    "pnpm": ("--package",),
    "yarn": ("-p", "--package"),
    "node": ("-r", "--require", "--import", "--loader"),
    "pipx": ("--spec", "--python"),
    "uv": ("--from", "--with", "-p", "--python"),
    "uvx": ("--from", "--with", "-p", "--python"),
}
"""Programs that start another one, and those of their options that a value follows."""
SUBCOMMANDS = frozenset({"dlx", "exec", "run", "tool", "x"})
"""What may stand between such a program and the one that it starts."""
_VARIABLE = re.compile(r"[A-Za-z_]\w*=")
_DURATION = re.compile(r"[\d.]+[smhd]?")


class HostProgram(NamedTuple):
    """A host in a command."""

    host: str = ""
    """Empty for a plain script."""
    at: int = -1
    """Which word of the command is the host's program."""


def find_host(command: Sequence[str]) -> HostProgram:
    """The host that a command starts, by the name of its program, whatever starts that."""
    place = 0
    while place < len(command):
        host = _host_named(command[place])
        if host:
            return HostProgram(host, place)
        starter = os.path.basename(command[place])
        if starter not in STARTERS:
            break
        place = _started_program(command, place, STARTERS[starter])
    return HostProgram()


def host_of(command: Sequence[str]) -> str:
    """The host that a command starts; empty for a plain script."""
    return find_host(command).host


def _started_program(command: Sequence[str], place: int, valued: tuple[str, ...]) -> int:
    """Where the program stands that another one starts."""
    is_value = False
    for number, word in enumerate(command[place + 1 :], place + 1):
        if is_value:
            is_value = False
        elif word.startswith("-"):
            is_value = word in valued
        elif not (word in SUBCOMMANDS or _VARIABLE.match(word) or _DURATION.fullmatch(word)):
            return number
    return len(command)


def _host_named(word: str) -> str:
    """The host whose program or package a word names."""
    for package, host in PACKAGES.items():
        if word == package or word.startswith(f"{package}@") or f"/{package}/" in word:
            return host
    name, suffix = os.path.splitext(os.path.basename(word))
    known = name if suffix in SUFFIXES else name + suffix
    return PROGRAMS.get(known.partition("@")[0], "")


def has_option(words: Sequence[str], *names: str) -> bool:
    """Whether an option is among the words of a host, before those that are no options any more."""
    return any(word == name or word.startswith(f"{name}=") for word in option_words(words) for name in names)


def option_value(words: Sequence[str], *names: str) -> str:
    """The value of an option, the last one where it is given several times; empty when it has none."""
    found, given = "", list(option_words(words))
    for place, word in enumerate(given):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else "".join(given[place + 1 : place + 2])
    return found


def option_words(words: Sequence[str]) -> Sequence[str]:
    """The words up to a `--`."""
    return words[: list(words).index("--")] if "--" in words else words


LONGEST = 100_000
"""The system takes no word of a command of more than 128 KiB."""
EVERYONES = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
)


class HostRun(NamedTuple):
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


class HostLaunchConfig(Record, kw_only=True):
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

    def merge(self, other: HostLaunchConfig) -> HostLaunchConfig:
        """Both of two outfits."""
        return HostLaunchConfig(
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


def hook_settings(setup: Setup, run: HostRun) -> str:
    """Our hooks, in the form of a host's settings file."""
    return install_hooks(setup, None, [run.program])


def mcp_server(run: HostRun, host: str, **more: object) -> dict[str, object]:
    """Our MCP server, as a host is told of one. It knows whose it is by the environment it is handed on."""
    return {"command": run.program, "args": ["mcp"], **ENTRIES[host].extras, **more}


def dump_json(value: object) -> str:
    """JSON for a file."""
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plugin_files(run: HostRun, setup: Setup, *manifest: str) -> dict[str, str]:
    """A plugin that consists of our hooks alone."""
    return {
        run.path("plugin", *manifest): dump_json({"name": f"{NAME}-run", "version": "1.0.0"}),
        run.path("plugin", "hooks", "hooks.json"): hook_settings(setup, run),
    }


def link_host_folder(
    source: str, target: str, *, links: Iterable[str] = (), logins: Iterable[str] = ()
) -> HostLaunchConfig:
    """Links to what is there in a host's folder in the user's home; what is a login may be written."""
    there = {os.path.join(target, name): os.path.join(source, name) for name in (*links, *logins)}
    found = {link: path for link, path in there.items() if os.path.exists(path)}
    secrets = {os.path.join(source, name) for name in logins}
    return HostLaunchConfig(links=found, write=tuple(path for path in found.values() if path in secrets))


def passed_variables(
    run: HostRun, names: Iterable[str] = (), prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    """Those of the scheduler's variables that a host needs to be logged in and to reach its model."""
    wanted = {*names, *EVERYONES, *(name.lower() for name in EVERYONES)}
    return {
        name: value
        for name, value in run.surroundings.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


def prompt_argument(prompt: str, path: str) -> str:
    """A prompt as one word of a command: where it is too long for that, where to find it."""
    return (
        prompt if len(prompt.encode("utf-8", "replace")) <= LONGEST else f"Read {path}: it says what to do."
    )

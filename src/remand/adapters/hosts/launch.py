"""How hosts are launched for one run, with our hooks and tools, and how a session's output is read: what hosts share."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import msgspec

from remand.adapters.hosts.host import SERVER_NAME, Setup
from remand.adapters.hosts.settings import install_hooks, load_settings
from remand.app.hook_calls import Payload, parse
from remand.app.scheduler.ports import SessionResult
from remand.domain.record import Record


def has_option(words: Sequence[str], *names: str) -> bool:
    """True if an option is among the host's words before `--`."""
    return any(word == name or word.startswith(f"{name}=") for word in option_words(words) for name in names)


def option_value(words: Sequence[str], *names: str) -> str:
    """The value of an option, the last one if repeated; empty if it has none."""
    found, options = "", list(option_words(words))
    for place, word in enumerate(options):
        name, equals, value = word.partition("=")
        if name in names:
            found = value if equals else "".join(options[place + 1 : place + 2])
    return found


def option_words(words: Sequence[str]) -> Sequence[str]:
    """The words up to a `--`."""
    return words[: list(words).index("--")] if "--" in words else words


LONGEST = 100_000
"""Linux limits a single argument of a command to 128 KiB."""
EVERYONES = frozenset(
    {"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR"}
    | {"NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"}
)


class HostRun(NamedTuple):
    """What to launch, and the folders and environment to use."""

    words: tuple[str, ...]
    """The host's words in the user's command."""
    folder: str
    """The run's own folder: outside the worktree, and not writable for the agent."""
    program: str
    """Our own executable."""
    home: str
    """The user's home folder."""
    surroundings: Mapping[str, str]
    """The scheduler's environment."""
    is_confined: bool
    prompt: str = ""
    is_placed: bool = False
    """True if the user's command has a placeholder for the prompt."""

    @property
    def prompt_file(self) -> str:
        """The file with the prompt, for hosts that only read files."""
        return self.path("prompt.md")

    @property
    def state(self) -> str:
        """The folder for files that the host writes during the run."""
        return os.path.join(self.folder, "state")

    def path(self, *names: str) -> str:
        return os.path.join(self.folder, *names)

    def has(self, *names: str) -> bool:
        return has_option(self.words, *names)

    def own_folder(self, variable: str, *usual: str) -> str:
        """A host's folder in the user's home."""
        return self.surroundings.get(variable, "") or os.path.join(self.home, *usual)


class HostLaunchConfig(Record, kw_only=True):
    """What is added to a command so that it works with Remand."""

    arguments: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    """The host's subcommands after which the arguments must come."""
    ending: tuple[str, ...] = ()
    """The words added at the very end."""
    environment: dict[str, str] = msgspec.field(default_factory=dict)
    files: dict[str, str] = msgspec.field(default_factory=dict)
    """Files to write in the run's folder, with their text."""
    links: dict[str, str] = msgspec.field(default_factory=dict)
    """Links to create in the run's folder, with their targets."""
    copies: dict[str, str] = msgspec.field(default_factory=dict)
    """Copies to create in the run's folder, with their sources."""
    write: tuple[str, ...] = ()
    """The user's files that the agent may write: the login, which hosts renew."""
    has_prompt: bool = False
    """True if the command contains the prompt."""

    def merge(self, other: HostLaunchConfig) -> HostLaunchConfig:
        """Both configurations combined."""
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
    """Our hooks, as the content of a host's settings file."""
    return install_hooks(setup, None, [run.program])


def hook_table(setup: Setup, run: HostRun) -> dict[str, object]:
    """Our hooks as a table."""
    return load_settings(hook_settings(setup, run))


def mcp_server(run: HostRun, setup: Setup, **more: object) -> dict[str, object]:
    """The host's configuration of our MCP server, which learns from its environment on whose behalf it acts."""
    return {"command": run.program, "args": ["mcp"], **setup.server.extras, **more}


def dump_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plugin_files(run: HostRun, setup: Setup, *manifest: str) -> dict[str, str]:
    """A plugin that consists only of our hooks."""
    return {
        run.path("plugin", *manifest): dump_json({"name": f"{SERVER_NAME}-run", "version": "1.0.0"}),
        run.path("plugin", "hooks", "hooks.json"): hook_settings(setup, run),
    }


def link_host_folder(
    source: str, target: str, *, links: Iterable[str] = (), logins: Iterable[str] = ()
) -> HostLaunchConfig:
    """Links to the existing files of a host's folder in the user's home; login files are writable."""
    there = {os.path.join(target, name): os.path.join(source, name) for name in (*links, *logins)}
    found = {link: path for link, path in there.items() if os.path.exists(path)}
    secrets = {os.path.join(source, name) for name in logins}
    return HostLaunchConfig(links=found, write=tuple(path for path in found.values() if path in secrets))


def passed_variables(
    run: HostRun, names: Iterable[str] = (), prefixes: tuple[str, ...] = ()
) -> dict[str, str]:
    """The scheduler's variables that a host needs for its login and to reach its model."""
    wanted = {*names, *EVERYONES, *(name.lower() for name in EVERYONES)}
    return {
        name: value
        for name, value in run.surroundings.items()
        if name in wanted or (prefixes and name.startswith(prefixes))
    }


def prompt_argument(prompt: str, path: str) -> str:
    """A prompt as one word of a command; if it is too long, a reference to the file with it."""
    return (
        prompt if len(prompt.encode("utf-8", "replace")) <= LONGEST else f"Read {path}: it says what to do."
    )


def passed_folder(run: HostRun, variable: str) -> HostLaunchConfig:
    """The variable that names a host's own folder, if the scheduler has it set."""
    folder = run.surroundings.get(variable, "")
    return HostLaunchConfig(environment={variable: folder} if folder else {})


MAX_FIGURE = 1e12
EXHAUSTED = ("error_max_turns", "error_max_budget_usd", "error_max_tokens", "error_max_session_turns")
MAX_ERROR = 500
TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def json_lines(output: str) -> Iterator[Payload]:
    """The lines that are JSON objects; an output that is one object or a list of objects counts as well."""
    whole = parse(output.encode("utf-8", "replace")) if output.lstrip()[:1] == "{" else None
    if whole and not whole.is_broken:
        yield whole
        return
    if output.lstrip()[:1] == "[":
        yield from parse(f'{{"lines": {output}}}'.encode("utf-8", "replace")).parts("lines")
        return
    for line in output.splitlines():
        if line.startswith("{"):
            payload = parse(line.encode("utf-8", "replace"))
            if not payload.is_broken:
                yield payload


def read_script(output: str) -> SessionResult:
    """Reads a plain script's output, which may end with a result line in Claude Code's format; otherwise only text."""
    closing = output.rstrip().rpartition("\n")[2]
    payload = parse(closing.encode("utf-8", "replace")) if closing.startswith('{"') else Payload({})
    if payload.text("type") != "result":
        return SessionResult(text=output.strip())
    result = _together(line.text("result") for line in json_lines(output) if line.text("type") == "result")
    return read_claude([payload])._replace(text=result)


def read_claude(lines: list[Payload]) -> SessionResult:
    """Reads Claude Code's output format: one line per message, and a result at the end."""
    results = [line for line in lines if line.text("type") == "result"]
    payloads = [line.part("message") for line in lines if line.text("type") == "assistant"]
    last = results[-1] if results else Payload({})
    costs = (one.number("total_cost_usd") for one in results)
    subtype = last.text("subtype")
    is_error = last.flag("is_error") or subtype.startswith("error")
    text = _together(one.text("result") for one in results) or last_text(map(message_text, payloads))
    return SessionResult(
        text=text,
        turns=max((figure(one, "num_turns") for one in results), default=0)
        or len({one.text("id") or str(n) for n, one in enumerate(payloads)}),
        tokens=max((sum(figure(one.part("usage"), name) for name in TOKENS) for one in results), default=0),
        cost=max((cost for cost in costs if cost is not None and 0 <= cost <= MAX_FIGURE), default=0.0),
        is_exhausted=subtype in EXHAUSTED,
        error=error_text(_problem(last) or text or subtype) if is_error else "",
    )


def _together(texts: Iterable[str]) -> str:
    """Joins the texts. A session has one result; if there are several, one may be forged, so all are passed on for scrutiny."""
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _problem(result: Payload) -> str:
    return "; ".join(result.texts("errors")) or result.part("error").text("message") or result.text("error")


def message_text(message: Payload) -> str:
    return "\n".join(part.text("text") for part in message.parts("content") if part.text("type") == "text")


def last_text(texts: Iterable[str]) -> str:
    """The last text that is not empty."""
    return next((text for text in reversed(list(texts)) if text.strip()), "")


def error_text(text: str) -> str:
    return " ".join(text.split())[:MAX_ERROR]


def figure(payload: Payload, name: str) -> int:
    """A plausible number from a field; 0 for anything else."""
    value = payload.number(name)
    return int(value) if value is not None and 0 <= value <= MAX_FIGURE else 0

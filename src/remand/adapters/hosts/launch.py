"""How hosts are launched for one run, with our hooks and tools, and how the output of a session is read: what hosts share."""

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
        return os.path.join(self.folder, *names)

    def has(self, *names: str) -> bool:
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
        """Both configurations."""
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


def hook_table(setup: Setup, run: HostRun) -> dict[str, object]:
    """The same as a table."""
    return load_settings(hook_settings(setup, run))


def mcp_server(run: HostRun, setup: Setup, **more: object) -> dict[str, object]:
    """Our MCP server, as a host is told of one. It knows whose it is by the environment it is handed on."""
    return {"command": run.program, "args": ["mcp"], **setup.server.extras, **more}


def dump_json(value: object) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False) + "\n"


def plugin_files(run: HostRun, setup: Setup, *manifest: str) -> dict[str, str]:
    """A plugin that consists of our hooks alone."""
    return {
        run.path("plugin", *manifest): dump_json({"name": f"{SERVER_NAME}-run", "version": "1.0.0"}),
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


def passed_folder(run: HostRun, variable: str) -> HostLaunchConfig:
    """The variable that names a host's own folder, where the scheduler has it."""
    folder = run.surroundings.get(variable, "")
    return HostLaunchConfig(environment={variable: folder} if folder else {})


MAX_FIGURE = 1e12
EXHAUSTED = ("error_max_turns", "error_max_budget_usd", "error_max_tokens", "error_max_session_turns")
MAX_ERROR = 500
TOKENS = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")


def json_lines(output: str) -> Iterator[Payload]:
    """The lines that are JSON objects; a whole output that is one object, or a list of them, is as good."""
    whole = parse(output.encode("utf-8", "replace")) if output.lstrip()[:1] == "{" else None
    if whole and not whole.is_broken:
        yield whole
        return
    if output.lstrip()[:1] == "[":
        yield from parse(f'{{"lines": {output}}}'.encode("utf-8", "replace")).parts("lines")
        return
    for line in output.splitlines():
        if line.startswith("{"):
            found = parse(line.encode("utf-8", "replace"))
            if not found.is_broken:
                yield found


def read_script(output: str) -> SessionResult:
    """A plain script may close with one line in the form of Claude Code's; else it tells nothing but its words."""
    closing = output.rstrip().rpartition("\n")[2]
    found = parse(closing.encode("utf-8", "replace")) if closing.startswith('{"') else Payload({})
    if found.text("type") != "result":
        return SessionResult(text=output.strip())
    said = _together(line.text("result") for line in json_lines(output) if line.text("type") == "result")
    return read_claude([found])._replace(text=said)


def read_claude(lines: list[Payload]) -> SessionResult:
    """Claude Code, and those who speak like it: a line for each message, and a result at the end."""
    results = [line for line in lines if line.text("type") == "result"]
    said = [line.part("message") for line in lines if line.text("type") == "assistant"]
    last = results[-1] if results else Payload({})
    costs = (one.number("total_cost_usd") for one in results)
    subtype = last.text("subtype")
    is_error = last.flag("is_error") or subtype.startswith("error")
    text = _together(one.text("result") for one in results) or last_text(map(message_text, said))
    return SessionResult(
        text=text,
        turns=max((figure(one, "num_turns") for one in results), default=0)
        or len({one.text("id") or str(n) for n, one in enumerate(said)}),
        tokens=max((sum(figure(one.part("usage"), name) for name in TOKENS) for one in results), default=0),
        cost=max((cost for cost in costs if cost is not None and 0 <= cost <= MAX_FIGURE), default=0.0),
        is_exhausted=subtype in EXHAUSTED,
        error=error_text(_problem(last) or text or subtype) if is_error else "",
    )


def _together(texts: Iterable[str]) -> str:
    """A session closes once. What closes it twice may be another's word: all of it is passed on, to be doubted."""
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _problem(result: Payload) -> str:
    return "; ".join(result.texts("errors")) or result.part("error").text("message") or result.text("error")


def message_text(message: Payload) -> str:
    return "\n".join(part.text("text") for part in message.parts("content") if part.text("type") == "text")


def last_text(texts: Iterable[str]) -> str:
    """The last of several that says anything."""
    return next((text for text in reversed(list(texts)) if text.strip()), "")


def error_text(text: str) -> str:
    return " ".join(text.split())[:MAX_ERROR]


def figure(given: Payload, name: str) -> int:
    """A figure that can be true; 0 for any other."""
    value = given.number(name)
    return int(value) if value is not None and 0 <= value <= MAX_FIGURE else 0

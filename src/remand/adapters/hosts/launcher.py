"""Prepares agents' commands for one run each, and reads turns, tokens, cost and last message from their output."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.hosts import host_launch_configs
from remand.adapters.hosts.launch_config import (
    HostLaunchConfig,
    HostProgram,
    HostRun,
    find_host,
    has_option,
    option_value,
    prompt_argument,
)
from remand.adapters.hosts.payload import Payload, parse
from remand.app.scheduler.ports import CannotRun, LaunchConfig, SessionResult

MAX_FIGURE = 1e12
EXHAUSTED = ("error_max_turns", "error_max_budget_usd", "error_max_tokens", "error_max_session_turns")
OUT_OF_TURNS = {"gemini": (53,), "qwen": (53, 55)}
"""The exit status by which a host alone tells that it had no more turns."""
MAX_ERROR = 500
ACTS = frozenset({"agent_message", "command_execution", "file_change", "mcp_tool_call", "web_search"})
"""What Codex tells of that is one step of an agent."""
STEPS = frozenset({"message", "tool_use", "tool_result", "error"})
"""What Gemini CLI tells of that comes between two messages; a stop that was sent back is an error to it."""
FORMATS = ("--output-format", "-o")


def read_session(command: Sequence[str], output: str, status: int = 0) -> SessionResult:
    """What the output of a command tells, as far as it was asked to tell; never raises."""
    host, at = find_host(command)
    words = command[at + 1 :] if host else ()
    if not host:
        return _read_script(output)
    if option_value(words, *FORMATS) == "text" or not _prints_json(host, words):
        return SessionResult(text=output.strip())
    read = OUTPUT_READERS[host](list(_lines(output)))
    return read._replace(is_exhausted=read.is_exhausted or status in OUT_OF_TURNS.get(host, ()))


def _prints_json(host: str, words: Sequence[str]) -> bool:
    """Whether a host was told to speak JSON, by the user or by us."""
    if host in {"claude", "cursor"}:
        return has_option(words, "-p", "--print")
    if host == "codex":
        return bool({"exec", "e"} & set(words))
    return host != "openhands" or has_option(words, "--headless")


def _lines(output: str) -> Iterator[Payload]:
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


def _read_script(output: str) -> SessionResult:
    """A plain script may close with one line in the form of Claude Code's; else it tells nothing but its words."""
    closing = output.rstrip().rpartition("\n")[2]
    found = parse(closing.encode("utf-8", "replace")) if closing.startswith('{"') else Payload({})
    if found.text("type") != "result":
        return SessionResult(text=output.strip())
    said = _together(line.text("result") for line in _lines(output) if line.text("type") == "result")
    return _read_claude([found])._replace(text=said)


def _read_claude(lines: list[Payload]) -> SessionResult:
    """Claude Code, and those who speak like it: a line for each message, and a result at the end."""
    results = [line for line in lines if line.text("type") == "result"]
    said = [line.part("message") for line in lines if line.text("type") == "assistant"]
    last = results[-1] if results else Payload({})
    subtype = last.text("subtype")
    is_error = last.flag("is_error") or subtype.startswith("error")
    text = _together(one.text("result") for one in results) or _last(map(_content, said))
    return SessionResult(
        text=text,
        turns=_highest(results, "num_turns") or len({one.text("id") or str(n) for n, one in enumerate(said)}),
        tokens=max((_tokens(one.part("usage")) for one in results), default=0),
        cost=_most(results, "total_cost_usd"),
        is_exhausted=subtype in EXHAUSTED,
        error=_error(_problem(last) or text or subtype) if is_error else "",
    )


def _together(texts: Iterable[str]) -> str:
    """A session closes once. What closes it twice may be another's word: all of it is passed on, to be doubted."""
    return "\n".join(dict.fromkeys(text for text in texts if text))


def _problem(result: Payload) -> str:
    return "; ".join(result.texts("errors")) or result.part("error").text("message") or result.text("error")


def _content(message: Payload) -> str:
    return "\n".join(part.text("text") for part in message.parts("content") if part.text("type") == "text")


def _tokens(usage: Payload) -> int:
    names = ("input_tokens", "output_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(_figure(usage, name) for name in names)


def _read_codex(lines: list[Payload]) -> SessionResult:
    """Codex: a line for each thing it does; a turn is what it calls a whole session of them."""
    items = [line.part("item") for line in lines if line.text("type") == "item.completed"]
    ends = [line.part("usage") for line in lines if line.text("type") == "turn.completed"]
    failed = [line.part("error").text("message") for line in lines if line.text("type") == "turn.failed"]
    errors = [line.text("message") for line in lines if line.text("type") == "error"]
    return SessionResult(
        text=_last(item.text("text") for item in items if item.text("type") == "agent_message"),
        turns=sum(item.text("type") in ACTS for item in items),
        tokens=max((_figure(one, "input_tokens") + _figure(one, "output_tokens") for one in ends), default=0),
        error=_error(_last(failed) or _last(errors) or "the turn failed")
        if failed or (not ends and errors)
        else "",
    )


def _read_gemini(lines: list[Payload]) -> SessionResult:
    """Gemini CLI: a line for each piece of a message, or one object at the end."""
    results = [line for line in lines if line.text("type") == "result" or line.has("stats")]
    last = results[-1] if results else Payload({})
    failed = [line.part("error") for line in lines if line.has("error")]
    whole = last.part("stats").part("models")
    steps = [line for line in lines if line.text("type") in STEPS]
    return SessionResult(
        text=last.text("response") or _last_gemini_message(steps),
        turns=_requests(whole) or _steps(steps),
        tokens=max((_gemini_tokens(one.part("stats")) for one in results), default=0),
        error=_error(failed[-1].text("message") or "an error") if failed else "",
    )


def _last_gemini_message(steps: list[Payload]) -> str:
    """The last message, which comes in pieces."""
    pieces: list[str] = []
    for step in reversed(steps):
        if step.text("role") != "assistant":
            break
        pieces.insert(0, step.text("content"))
    return "".join(pieces)


def _steps(steps: list[Payload]) -> int:
    """Uses of tools, and messages, whose pieces follow one another."""
    is_said = [step.text("role") == "assistant" for step in steps]
    messages = sum(now and not before for before, now in zip([False, *is_said], is_said, strict=False))
    return messages + sum(step.text("type") == "tool_use" for step in steps)


def _requests(models: Payload) -> int:
    return sum(_figure(one.part("api"), "totalRequests") for one in models.each())


def _gemini_tokens(stats: Payload) -> int:
    models = stats.part("models").each()
    return _figure(stats, "total_tokens") or sum(_figure(one.part("tokens"), "total") for one in models)


def _read_copilot(lines: list[Payload]) -> SessionResult:
    """Copilot: a line for each event. It tells no tokens there, and its cost in requests of a plan, not in money."""
    said = [line.part("data") for line in lines if line.text("type") == "assistant.message"]
    failed = [line.part("data").text("message") for line in lines if line.text("type") == "session.error"]
    ends = [line for line in lines if line.text("type") == "result"]
    is_error = bool(ends) and ends[-1].number("exitCode") not in (None, 0.0)
    return SessionResult(
        text=_last(one.text("content") for one in said),
        turns=len(said),
        error=_error(_last(failed) or "Copilot ended with an error") if is_error else "",
    )


def _read_openhands(lines: list[Payload]) -> SessionResult:
    """OpenHands: a line for each event; what it does, it gives a kind, and finishing is one of these."""
    own = [line for line in lines if line.text("source") == "agent"]
    spoken = [line.part("action").text("message") or _content(line.part("llm_message")) for line in own]
    errors = [line.text("detail") or line.text("error") for line in lines if "Error" in line.text("kind")]
    return SessionResult(
        text=_last(spoken),
        turns=sum(line.has("action") or line.has("llm_message") for line in own),
        error=_error(_last(errors)) if errors and not _last(spoken) else "",
    )


OUTPUT_READERS: dict[str, Callable[[list[Payload]], SessionResult]] = {
    "claude": _read_claude,
    "codex": _read_codex,
    "copilot": _read_copilot,
    "cursor": _read_claude,
    "gemini": _read_gemini,
    "openhands": _read_openhands,
    "qwen": _read_claude,
}


def _last(texts: Iterator[str] | Sequence[str] | map[str]) -> str:
    """The last of several that says anything."""
    return next((text for text in reversed(list(texts)) if text.strip()), "")


def _error(text: str) -> str:
    return " ".join(text.split())[:MAX_ERROR]


def _figure(given: Payload, name: str) -> int:
    """A figure that can be true; 0 for any other."""
    value = given.number(name)
    return int(value) if value is not None and 0 <= value <= MAX_FIGURE else 0


def _highest(lines: list[Payload], name: str) -> int:
    return max((_figure(line, name) for line in lines), default=0)


def _most(lines: list[Payload], name: str) -> float:
    values = (line.number(name) for line in lines)
    return max((value for value in values if value is not None and 0 <= value <= MAX_FIGURE), default=0.0)


HOST_CONFIGS = {
    "claude": host_launch_configs.claude_config,
    "codex": host_launch_configs.codex_config,
    "copilot": host_launch_configs.copilot_config,
    "cursor": host_launch_configs.cursor_config,
    "gemini": host_launch_configs.gemini_config,
    "openhands": host_launch_configs.openhands_config,
    "qwen": host_launch_configs.qwen_config,
}
PROMPT = "{prompt}"
PROMPT_FILE = "{prompt_file}"
MODULES = "/node_modules"
MAX_COPY = 32 << 20


class LauncherSettings(NamedTuple):
    """What all runs have in common."""

    folder: str
    """Where the folders of runs are; nobody else's to read."""
    program: str
    """Our own executable."""
    home: str
    """The user's."""
    surroundings: Mapping[str, str]
    """The scheduler's environment."""
    is_confined: bool


class HostLauncher:
    """Fits commands out, and reads what they say at their end."""

    def __init__(self, setting: LauncherSettings) -> None:
        self._setting = setting

    def launch_config(self, command: tuple[str, ...], run_id: str, prompt: str) -> LaunchConfig:
        """The command of a run with what its host needs, which is there when this returns. Raises `CannotRun`."""
        self.drop(run_id)
        found = find_host(command)
        run = HostRun(
            words=command[found.at + 1 :] if found.host else (),
            folder=self._folder(run_id),
            program=self._setting.program,
            home=self._setting.home,
            surroundings=self._setting.surroundings,
            is_confined=self._setting.is_confined,
            prompt=prompt,
            is_placed=any(PROMPT in word or PROMPT_FILE in word for word in command),
        )
        if not found.host and not run.is_placed:
            return LaunchConfig(command=command)
        outfit = _host_config(found.host, run)
        _write_config(run, outfit)
        return LaunchConfig(
            command=_build_command(command, found, outfit, run),
            environment=outfit.environment,
            read=(run.folder, *outfit.links.values(), *_packages(command[: found.at + 1])),
            write=(run.state, *outfit.write),
            has_prompt=outfit.has_prompt,
        )

    def parse_result(self, command: tuple[str, ...], output: str, status: int = 0) -> SessionResult:
        """What the output of a command and its exit status tell; never raises."""
        return read_session(command, output, status)

    def drop(self, run_id: str) -> None:
        """Takes away what was made for a run. Whatever the agent has made of it, nothing outside is touched."""
        folder = self._folder(run_id)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                path = os.path.join(place, name)
                with suppress(OSError):
                    if not os.path.islink(path):
                        os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Takes away what a scheduler that was killed has left behind."""
        with suppress(OSError):
            for name in os.listdir(self._setting.folder):
                with suppress(CannotRun):
                    self.drop(name)

    def _folder(self, run_id: str) -> str:
        if not run_id or run_id.startswith(".") or os.path.basename(run_id) != run_id:
            raise CannotRun("program", f"{run_id!r} cannot be the id of a run.")
        return os.path.join(self._setting.folder, run_id)


def _host_config(host: str, run: HostRun) -> HostLaunchConfig:
    """What a host needs. A command that says itself where the prompt goes gets it there and nowhere else."""
    own = HOST_CONFIGS[host](run) if host else HostLaunchConfig()
    return (
        own.merge(HostLaunchConfig(files={run.prompt_file: run.prompt}, has_prompt=True))
        if run.is_placed
        else own
    )


def _packages(words: Sequence[str]) -> list[str]:
    """Where a host's own program lies that is a script: all of its packages, or else the one file."""
    named = [os.path.realpath(word) for word in words[1:] if os.path.isabs(word) and os.path.isfile(word)]
    return [path.partition(MODULES)[0] + MODULES if MODULES in path else path for path in named]


def _build_command(
    command: Sequence[str], found: HostProgram, outfit: HostLaunchConfig, run: HostRun
) -> tuple[str, ...]:
    """The command with the arguments after the host's program or its subcommand, and the prompt in its place."""
    words = [_fill_placeholders(word, run) for word in command]
    if not found.host:
        return tuple(words)
    at = next((n for n, word in enumerate(words) if n > found.at and word in outfit.after), found.at) + 1
    return (*words[:at], *outfit.arguments, *words[at:], *outfit.ending)


def _fill_placeholders(word: str, run: HostRun) -> str:
    path = run.prompt_file
    if PROMPT not in word:
        return word.replace(PROMPT_FILE, path)
    before, _, after = word.partition(PROMPT)
    return f"{before.replace(PROMPT_FILE, path)}{prompt_argument(run.prompt, path)}{_fill_placeholders(after, run)}"


def _write_config(run: HostRun, outfit: HostLaunchConfig) -> None:
    """Writes what the outfit consists of. Nobody but the user can read it."""
    try:
        os.makedirs(os.path.dirname(run.folder), mode=0o700, exist_ok=True)
        os.mkdir(run.folder, mode=0o700)
        os.mkdir(run.state, mode=0o700)
        for path, text in outfit.files.items():
            _write(path, text.encode("utf-8", "replace"))
        for path, source in outfit.copies.items():
            with suppress(FileNotFoundError), open(source, "rb") as file:
                _write(path, file.read(MAX_COPY))
        for path, target in outfit.links.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
    except OSError as fault:
        raise CannotRun(
            "disk", f"{run.folder} cannot be written: {fault.strerror}. Free space or fix its permissions."
        ) from None


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

"""What a host's output tells of a session: turns, tokens, cost, the last words, and what went wrong.

Everything in it may be an agent's. Only whole lines of the host's own protocol count, and of several the highest figures: an
agent that gets a line of its own in can only be told to have cost more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from remand.adapters.hosts.commands import find, has_option, option
from remand.adapters.hosts.payload import Payload, parse
from remand.app.scheduling.ports import Told

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


def told(command: Sequence[str], output: str, status: int = 0) -> Told:
    """What the output of a command tells, as far as it was asked to tell; never raises."""
    host, at = find(command)
    words = command[at + 1 :] if host else ()
    if not host:
        return _as_script(output)
    if option(words, *FORMATS) == "text" or not _is_asked(host, words):
        return Told(text=output.strip())
    read = READERS[host](list(_lines(output)))
    return read._replace(is_exhausted=read.is_exhausted or status in OUT_OF_TURNS.get(host, ()))


def _is_asked(host: str, words: Sequence[str]) -> bool:
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


def _as_script(output: str) -> Told:
    """A plain script may close with one line in the form of Claude Code's; else it tells nothing but its words."""
    closing = output.rstrip().rpartition("\n")[2]
    found = parse(closing.encode("utf-8", "replace")) if closing.startswith('{"') else Payload({})
    if found.text("type") != "result":
        return Told(text=output.strip())
    said = _together(line.text("result") for line in _lines(output) if line.text("type") == "result")
    return _as_claude([found])._replace(text=said)


def _as_claude(lines: list[Payload]) -> Told:
    """Claude Code, and those who speak like it: a line for each message, and a result at the end."""
    results = [line for line in lines if line.text("type") == "result"]
    said = [line.part("message") for line in lines if line.text("type") == "assistant"]
    last = results[-1] if results else Payload({})
    subtype = last.text("subtype")
    is_error = last.flag("is_error") or subtype.startswith("error")
    text = _together(one.text("result") for one in results) or _last(map(_content, said))
    return Told(
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


def _as_codex(lines: list[Payload]) -> Told:
    """Codex: a line for each thing it does; a turn is what it calls a whole session of them."""
    items = [line.part("item") for line in lines if line.text("type") == "item.completed"]
    ends = [line.part("usage") for line in lines if line.text("type") == "turn.completed"]
    failed = [line.part("error").text("message") for line in lines if line.text("type") == "turn.failed"]
    errors = [line.text("message") for line in lines if line.text("type") == "error"]
    return Told(
        text=_last(item.text("text") for item in items if item.text("type") == "agent_message"),
        turns=sum(item.text("type") in ACTS for item in items),
        tokens=max((_figure(one, "input_tokens") + _figure(one, "output_tokens") for one in ends), default=0),
        error=_error(_last(failed) or _last(errors) or "the turn failed")
        if failed or (not ends and errors)
        else "",
    )


def _as_gemini(lines: list[Payload]) -> Told:
    """Gemini CLI: a line for each piece of a message, or one object at the end."""
    results = [line for line in lines if line.text("type") == "result" or line.has("stats")]
    last = results[-1] if results else Payload({})
    failed = [line.part("error") for line in lines if line.has("error")]
    whole = last.part("stats").part("models")
    steps = [line for line in lines if line.text("type") in STEPS]
    return Told(
        text=last.text("response") or _pieced(steps),
        turns=_requests(whole) or _steps(steps),
        tokens=max((_gemini_tokens(one.part("stats")) for one in results), default=0),
        error=_error(failed[-1].text("message") or "an error") if failed else "",
    )


def _pieced(steps: list[Payload]) -> str:
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


def _as_copilot(lines: list[Payload]) -> Told:
    """Copilot: a line for each event. It tells no tokens there, and its cost in requests of a plan, not in money."""
    said = [line.part("data") for line in lines if line.text("type") == "assistant.message"]
    failed = [line.part("data").text("message") for line in lines if line.text("type") == "session.error"]
    ends = [line for line in lines if line.text("type") == "result"]
    is_error = bool(ends) and ends[-1].number("exitCode") not in (None, 0.0)
    return Told(
        text=_last(one.text("content") for one in said),
        turns=len(said),
        error=_error(_last(failed) or "Copilot ended with an error") if is_error else "",
    )


def _as_openhands(lines: list[Payload]) -> Told:
    """OpenHands: a line for each event; what it does, it gives a kind, and finishing is one of these."""
    own = [line for line in lines if line.text("source") == "agent"]
    spoken = [line.part("action").text("message") or _content(line.part("llm_message")) for line in own]
    errors = [line.text("detail") or line.text("error") for line in lines if "Error" in line.text("kind")]
    return Told(
        text=_last(spoken),
        turns=sum(line.has("action") or line.has("llm_message") for line in own),
        error=_error(_last(errors)) if errors and not _last(spoken) else "",
    )


READERS: dict[str, Callable[[list[Payload]], Told]] = {
    "claude": _as_claude,
    "codex": _as_codex,
    "copilot": _as_copilot,
    "cursor": _as_claude,
    "gemini": _as_gemini,
    "openhands": _as_openhands,
    "qwen": _as_claude,
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

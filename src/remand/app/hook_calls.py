"""Calls of our hook by agent hosts, its answers, and the JSON of both. Every hook call loads this: it imports neither json nor typing."""

from __future__ import annotations

import os
from _json import encode_basestring_ascii, make_scanner

STOP = "stop"
SUBAGENT_STOP = "subagent_stop"
TASK_COMPLETED = "task_completed"
TEAMMATE_IDLE = "teammate_idle"
PRE_TOOL = "pre_tool"
POST_TOOL = "post_tool"
POST_TOOL_FAILURE = "post_tool_failure"
SESSION_START = "session_start"
PROMPT = "prompt"
CONFIG_CHANGE = "config_change"
SESSION_END = "session_end"
EVENTS = (
    STOP, SUBAGENT_STOP, TASK_COMPLETED, TEAMMATE_IDLE, PRE_TOOL, POST_TOOL, POST_TOOL_FAILURE,
    SESSION_START, PROMPT, CONFIG_CHANGE, SESSION_END,
)  # fmt: skip
"""Every event we know, by our own name; a host's other events are ignored."""
ENDINGS = (STOP, SUBAGENT_STOP, TASK_COMPLETED, TEAMMATE_IDLE)
"""The events at which an agent says that it has finished."""

TOOL_RESULT_EVENTS = (POST_TOOL, POST_TOOL_FAILURE)
START_EVENTS = (SESSION_START, PROMPT)

ALLOW = "allow"
BLOCK = "block"
CONTEXT = "context"
DENY = "deny"
KINDS = (ALLOW, BLOCK, CONTEXT, DENY)


class HookToolUse:
    """One use of a tool: before it (what is asked for) or after it (what came of it)."""

    __slots__ = ("command", "duration", "exit_code", "has_failed", "name", "output", "paths", "use_id")

    def __init__(
        self,
        name: str,
        *,
        use_id: str = "",
        command: str = "",
        paths: tuple[str, ...] = (),
        exit_code: int | None = None,
        has_failed: bool = False,
        output: str = "",
        duration: float | None = None,
    ) -> None:
        self.name = name
        self.use_id = use_id
        self.command = command
        """The command line, where the tool is a shell."""
        self.paths = paths
        """The files that the tool writes, as far as its input names them."""
        self.exit_code = exit_code
        """None where the host does not tell."""
        self.has_failed = has_failed
        self.output = output
        """What the tool answered, for its hash."""
        self.duration = duration
        """Seconds; None where the host does not tell."""


class HookCall:
    """One call of our hook by a host."""

    __slots__ = (
        "config_file", "config_source", "cwd", "event", "has_background_work", "host", "is_aborted",
        "is_broken", "is_continued", "is_planning", "is_timed", "last_message", "moment", "prompt", "session",
        "subagent", "subject", "tool", "transcript", "turn",
    )  # fmt: skip

    def __init__(
        self,
        host: str,
        event: str,
        *,
        session: str = "",
        turn: str = "",
        moment: str = "",
        is_timed: bool = False,
        cwd: str = "",
        subagent: str = "",
        is_continued: bool = False,
        is_aborted: bool = False,
        has_background_work: bool = False,
        tool: HookToolUse | None = None,
        last_message: str = "",
        subject: str = "",
        transcript: str = "",
        config_source: str = "",
        config_file: str = "",
        is_broken: str = "",
        prompt: str = "",
        is_planning: bool = False,
    ) -> None:
        self.host = host
        self.event = event
        """One of `EVENTS`; empty for an event that is none of ours."""
        self.session = session
        """The host's own session; empty means that it is not ours."""
        self.turn = turn
        """The prompt that the agent is working on, where the host names it."""
        self.moment = moment
        """Tells several stops of one turn apart, where the payload allows it."""
        self.is_timed = is_timed
        """The moment is the host's own time, which no two stops of a session have in common."""
        self.cwd = cwd
        self.subagent = subagent
        """The sub-agent that the event is about; empty for the agent itself."""
        self.is_continued = is_continued
        """The agent goes on because a stop hook has sent it back before."""
        self.is_aborted = is_aborted
        """The user or an error ended the turn: there is nothing to judge."""
        self.has_background_work = has_background_work
        """The agent waits for work of its own that is still going on."""
        self.tool = tool
        self.last_message = last_message
        self.subject = subject
        """The item of the host's own task list that is said to be finished."""
        self.transcript = transcript
        self.config_source = config_source
        self.config_file = config_file
        self.is_broken = is_broken
        """Why the payload could not be read; empty when it could."""
        self.prompt = prompt
        """What the user asked for."""
        self.is_planning = is_planning
        """The agent may only plan: it changes nothing yet."""

    @property
    def firing_key(self) -> str:
        """What two hooks have in common that one event fired, whichever hosts' files they stand in.

        Copilot and Cursor run the hooks in `.claude/settings.json` besides their own. Both calls carry the
        same session and event, so the second of equal firings is answered with the first one's answer. Where the
        host tells no time, an agent that stops again with the same words has been spoken to in between: its
        transcript has grown. A time is exact, and the transcript grows by the first hook's own call.
        """
        use_id = self.tool.use_id if self.tool else ""
        length = 0 if self.is_timed else _length(self.transcript)
        return f"{self.session} {self.event} {self.subagent} {self.turn} {self.moment} {use_id} {length}"


def _length(path: str) -> int:
    try:
        return os.stat(path).st_size
    except (OSError, ValueError):
        return 0


class HookAnswer:
    """What a hook answers. A host without a way to say it is told as much of it as it understands."""

    __slots__ = ("kind", "notice", "text")

    def __init__(self, kind: str, text: str = "", *, notice: str = "") -> None:
        self.kind = kind
        self.text = text
        """For the agent."""
        self.notice = notice
        """For the person who watches."""

    @classmethod
    def allow(cls, notice: str = "") -> HookAnswer:
        """Allows it."""
        return cls(ALLOW, notice=notice)

    @classmethod
    def block(cls, text: str, notice: str = "") -> HookAnswer:
        """Sends the agent back to work (or keeps a change of settings from taking hold)."""
        return cls(BLOCK, text, notice=notice)

    @classmethod
    def context(cls, text: str, notice: str = "") -> HookAnswer:
        """Allows it, and shows the agent a text."""
        return cls(CONTEXT, text, notice=notice)

    @classmethod
    def deny(cls, text: str, notice: str = "") -> HookAnswer:
        """Keeps a tool from being used."""
        return cls(DENY, text, notice=notice)

    @property
    def is_no(self) -> bool:
        return self.kind in {BLOCK, DENY}


SECONDS = {
    STOP: 300,
    SUBAGENT_STOP: 300,
    TASK_COMPLETED: 300,
    PRE_TOOL: 15,
    POST_TOOL: 15,
    POST_TOOL_FAILURE: 15,
    SESSION_START: 25,
    PROMPT: 25,
    CONFIG_CHANGE: 15,
}
"""How long a host is told to wait for our hook."""
MARGIN = 5.0
"""How much earlier than that our hook answers by itself: a host that has waited in vain lets the agent go."""


def deadline(event: str) -> float:
    """By when, in seconds from its start, our hook has to have answered an event."""
    return SECONDS.get(event, SECONDS[PRE_TOOL]) - MARGIN


MAX_PAYLOAD = 32 << 20
MAX_TEXT = 4 << 20
MAX_IDENTIFIER = 200

JSON_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


class _JsonDialect:
    """What the scanner asks about: JSON without NaN and infinities."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> None:
        """Reads NaN and the infinities as nothing."""


class Payload:
    """A JSON object of a host's. Whatever it holds, a field of the wrong kind reads as an absent one."""

    __slots__ = ("_fields", "is_broken")

    def __init__(self, fields: dict[str, object], is_broken: str = "") -> None:
        self._fields = fields
        self.is_broken = is_broken

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def first(self, *names: str) -> object:
        """The first of several spellings of a field that is there."""
        for name in names:
            value = self._fields.get(name)
            if value is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """A text, without the halves of characters that JSON lets through; cut when it is huge."""
        value = self.first(*names)
        return whole_text(value[:MAX_TEXT]) if isinstance(value, str) else ""

    def identifier(self, *names: str) -> str:
        """A name that may stand in a file name or a log line; empty when it is anything else."""
        value = self.first(*names)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_IDENTIFIER:
            return ""
        is_plain = value.isascii() and value.isprintable() and not set(value) & set(" /\\")
        return value if is_plain and value.strip(".") else ""

    def path(self, *names: str) -> str:
        """A path that the system would take."""
        value = self.text(*names)
        return value if len(value) < 4096 and "\0" not in value else ""

    def flag(self, *names: str) -> bool:
        """A truth value; anything but true is false."""
        return self.first(*names) is True

    def number(self, *names: str) -> float | None:
        """A number that is neither infinite nor absurd."""
        value = self.first(*names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < 1e15 else None

    def part(self, *names: str) -> Payload:
        """An object inside; an empty one when it is none. One that is given as a string of JSON is read."""
        value = self.first(*names)
        if isinstance(value, str) and value.lstrip()[:1] == "{":
            return parse(value.encode("utf-8", "replace"))
        return Payload(value if isinstance(value, dict) else {})

    def parts(self, *names: str) -> list[Payload]:
        value = self.first(*names)
        return [Payload(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []

    def each(self) -> list[Payload]:
        return [Payload(one) for one in self._fields.values() if isinstance(one, dict)]

    def texts(self, *names: str) -> list[str]:
        """The strings of a list, or the one string there is."""
        value = self.first(*names)
        given = value if isinstance(value, list) else [value]
        return [whole_text(one[:MAX_TEXT]) for one in given if isinstance(one, str)]


def parse(data: bytes) -> Payload:
    """Reads what a host has sent. Never raises: what cannot be read is a broken, empty payload."""
    if len(data) > MAX_PAYLOAD:
        return Payload({}, f"the payload is {len(data)} bytes long, at most {MAX_PAYLOAD} are read")
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text:
        return Payload({}, "the payload is empty")
    try:
        value, end = make_scanner(_JsonDialect())(text, 0)  # type: ignore[arg-type]  # any such object will do
    except (ValueError, StopIteration, RecursionError, MemoryError, SystemError) as error:
        # A scanner that finds a fault asks for json's own error; where json is not loaded, a SystemError comes.
        return Payload({}, f"the payload is not JSON: {type(error).__name__} {str(error)[:100]}".rstrip())
    if text[end:].strip(" \t\r\n\0"):
        return Payload({}, f"the payload goes on after its end, at character {end}")
    if not isinstance(value, dict):
        return Payload({}, f"the payload is {JSON_KINDS.get(type(value), 'a number')}, not an object")
    return Payload(value)


def whole_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def compose(fields: dict[str, object]) -> str:
    """JSON of plain values, in ASCII, so that no encoding can spoil it."""
    return (
        "{" + ", ".join(f"{encode_basestring_ascii(key)}: {_value(one)}" for key, one in fields.items()) + "}"
    )


def _value(value: object) -> str:
    if isinstance(value, dict):
        return compose(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, int | float):
        return repr(value)
    return encode_basestring_ascii(whole_text(str(value)))

"""Hook calls and answers and their JSON. Every hook process loads this module, so it imports neither json nor typing."""

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
"""All events that we handle, by our own names; others are ignored."""
ENDINGS = (STOP, SUBAGENT_STOP, TASK_COMPLETED, TEAMMATE_IDLE)
"""The events with which an agent says that it has finished."""

TOOL_RESULT_EVENTS = (POST_TOOL, POST_TOOL_FAILURE)
START_EVENTS = (SESSION_START, PROMPT)

ALLOW = "allow"
BLOCK = "block"
CONTEXT = "context"
DENY = "deny"
KINDS = (ALLOW, BLOCK, CONTEXT, DENY)


class HookToolUse:
    """One use of a tool: the request before it, or the result after it."""

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
        """The command line if the tool is a shell."""
        self.paths = paths
        """The files that the tool writes, as far as its input names them."""
        self.exit_code = exit_code
        """None if the host does not report it."""
        self.has_failed = has_failed
        self.output = output
        """The tool's output, for its hash."""
        self.duration = duration
        """Seconds; None if the host does not report it."""


class HookCall:
    """One hook call by a host."""

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
        """One of `EVENTS`; empty for any other event."""
        self.session = session
        """The host's session; empty if the call is not for us."""
        self.turn = turn
        """The prompt that the agent is working on, if the host names it."""
        self.moment = moment
        """Distinguishes several stops in one turn, if the payload allows it."""
        self.is_timed = is_timed
        """Whether `moment` is the host's timestamp, which is unique within a session."""
        self.cwd = cwd
        self.subagent = subagent
        """The sub-agent that the event concerns; empty for the agent itself."""
        self.is_continued = is_continued
        """Whether the agent continues because a stop hook sent it back before."""
        self.is_aborted = is_aborted
        """Whether the user or an error ended the turn, so that there is nothing to judge."""
        self.has_background_work = has_background_work
        """Whether the agent waits for its own background work."""
        self.tool = tool
        self.last_message = last_message
        self.subject = subject
        """The item of the host's task list that was reported as finished."""
        self.transcript = transcript
        self.config_source = config_source
        self.config_file = config_file
        self.is_broken = is_broken
        """Why the payload could not be read; empty if it could."""
        self.prompt = prompt
        """The user's prompt."""
        self.is_planning = is_planning
        """Whether the agent is in plan mode and changes nothing yet."""

    @property
    def firing_key(self) -> str:
        """A key shared by all hooks that one event fired, whichever hosts' settings they are in.

        Copilot and Cursor run the hooks in `.claude/settings.json` besides their own. Both calls have the same session
        and event, so the second one gets the first one's answer. If the host sends no time, the length of the
        transcript distinguishes repeated stops with the same words: it has grown in between. With a time it must not be
        used, as the first hook's own call makes the transcript grow.
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
    """The answer of a hook. A host that cannot express it receives as much of it as it understands."""

    __slots__ = ("kind", "notice", "text")

    def __init__(self, kind: str, text: str = "", *, notice: str = "") -> None:
        self.kind = kind
        self.text = text
        """For the agent."""
        self.notice = notice
        """For the person at the terminal."""

    @classmethod
    def allow(cls, notice: str = "") -> HookAnswer:
        """Allows the event."""
        return cls(ALLOW, notice=notice)

    @classmethod
    def block(cls, text: str, notice: str = "") -> HookAnswer:
        """Sends the agent back to work (or blocks a change of settings)."""
        return cls(BLOCK, text, notice=notice)

    @classmethod
    def context(cls, text: str, notice: str = "") -> HookAnswer:
        """Allows it, and shows the agent a text."""
        return cls(CONTEXT, text, notice=notice)

    @classmethod
    def deny(cls, text: str) -> HookAnswer:
        """Denies a tool call."""
        return cls(DENY, text)

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
"""The timeout that the host is given for each hook."""
MARGIN = 5.0
"""How much earlier the hook answers by itself: on a timeout the host lets the agent stop."""


def deadline(event: str) -> float:
    """How many seconds after its start our hook must have answered an event."""
    return SECONDS.get(event, SECONDS[PRE_TOOL]) - MARGIN


MAX_PAYLOAD = 32 << 20
MAX_TEXT = 4 << 20
MAX_IDENTIFIER = 200

JSON_KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


class _JsonDialect:
    """The settings of json's scanner: without NaN and infinities."""

    strict = False
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int

    def __init__(self) -> None:
        self.memo: dict[str, str] = {}

    @staticmethod
    def parse_constant(name: str) -> None:
        """Reads NaN and infinities as None."""


class Payload:
    """A host's JSON object. A field of the wrong type is treated as absent."""

    __slots__ = ("_fields", "is_broken")

    def __init__(self, fields: dict[str, object], is_broken: str = "") -> None:
        self._fields = fields
        self.is_broken = is_broken

    def has(self, name: str) -> bool:
        return self._fields.get(name) is not None

    def first(self, *names: str) -> object:
        """The first field present among several spellings."""
        for name in names:
            value = self._fields.get(name)
            if value is not None:
                return value
        return None

    def text(self, *names: str) -> str:
        """A text without lone surrogates, truncated if it is huge."""
        value = self.first(*names)
        return whole_text(value[:MAX_TEXT]) if isinstance(value, str) else ""

    def identifier(self, *names: str) -> str:
        """A name that is safe in a file name or log line; otherwise empty."""
        value = self.first(*names)
        if not isinstance(value, str) or not 0 < len(value) <= MAX_IDENTIFIER:
            return ""
        is_plain = value.isascii() and value.isprintable() and not set(value) & set(" /\\")
        return value if is_plain and value.strip(".") else ""

    def path(self, *names: str) -> str:
        """A path that the operating system accepts."""
        value = self.text(*names)
        return value if len(value) < 4096 and "\0" not in value else ""

    def flag(self, *names: str) -> bool:
        """A boolean; anything but true is false."""
        return self.first(*names) is True

    def number(self, *names: str) -> float | None:
        """A finite number within sensible bounds."""
        value = self.first(*names)
        if isinstance(value, bool) or not isinstance(value, int | float):
            return None
        return float(value) if abs(value) < 1e15 else None

    def part(self, *names: str) -> Payload:
        """A nested object; empty if it is not one. An object encoded as a JSON string is decoded."""
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
        """The strings of a list, or a single string."""
        value = self.first(*names)
        values = value if isinstance(value, list) else [value]
        return [whole_text(one[:MAX_TEXT]) for one in values if isinstance(one, str)]


def parse(data: bytes) -> Payload:
    """Parses a host's payload. Never raises: an unreadable payload is empty and marked as broken."""
    if len(data) > MAX_PAYLOAD:
        return Payload({}, f"the payload is {len(data)} bytes long, at most {MAX_PAYLOAD} are read")
    text = data.decode("utf-8", "replace").lstrip("\ufeff \t\r\n")
    if not text:
        return Payload({}, "the payload is empty")
    try:
        value, end = make_scanner(_JsonDialect())(text, 0)  # type: ignore[arg-type]  # any such object will do
    except (ValueError, StopIteration, RecursionError, MemoryError, SystemError) as error:
        # On a fault the scanner raises json's own error; if json is not loaded, that is a SystemError.
        return Payload({}, f"the payload is not JSON: {type(error).__name__} {str(error)[:100]}".rstrip())
    if text[end:].strip(" \t\r\n\0"):
        return Payload({}, f"the payload continues after its end, at character {end}")
    if not isinstance(value, dict):
        return Payload({}, f"the payload is {JSON_KINDS.get(type(value), 'a number')}, not an object")
    return Payload(value)


def whole_text(text: str) -> str:
    return text.encode("utf-8", "replace").decode("utf-8") if not text.isascii() else text


def compose(fields: dict[str, object]) -> str:
    """JSON of plain values in ASCII, safe in any encoding."""
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

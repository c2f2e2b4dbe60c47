"""Hook payloads: JSON without the json module, tool uses, and the dialect of Claude Code's hooks that several hosts share."""

from __future__ import annotations

from _json import encode_basestring_ascii, make_scanner

from remand.adapters.hosts import hook
from remand.adapters.hosts.hook import SILENCE, HookAnswer, HookCall, HookToolUse, Rendered

MAX_PAYLOAD = 32 << 20
MAX_TEXT = 4 << 20
MAX_IDENTIFIER = 200
MAX_ANSWER = 9_000
"""Claude Code cuts a hook's text at 10,000 UTF-16 units, and other hosts cut later."""
TAIL = 1_200
CUT = "\n[… cut …]\n"
WITHOUT_REASON = "Remand does not allow this. `remand task show` shows details."

KINDS = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}


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
        """Whether the field is there and not null."""
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
        return _whole(value[:MAX_TEXT]) if isinstance(value, str) else ""

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
        """The objects of a list."""
        value = self.first(*names)
        return [Payload(one) for one in value if isinstance(one, dict)] if isinstance(value, list) else []

    def each(self) -> list[Payload]:
        """The objects inside, whatever their names."""
        return [Payload(one) for one in self._fields.values() if isinstance(one, dict)]

    def texts(self, *names: str) -> list[str]:
        """The strings of a list, or the one string there is."""
        value = self.first(*names)
        given = value if isinstance(value, list) else [value]
        return [_whole(one[:MAX_TEXT]) for one in given if isinstance(one, str)]


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
        return Payload({}, f"the payload is {KINDS.get(type(value), 'a number')}, not an object")
    return Payload(value)


def _whole(text: str) -> str:
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
    return encode_basestring_ascii(_whole(str(value)))


def answer_text(answer: HookAnswer) -> str:
    """The text of an answer, as long as hosts allow. A no is never without one: hosts take that for a yes."""
    text = answer.text if answer.text.strip() else ""
    return shorten_text(text) or (WITHOUT_REASON if answer.is_no else "")


def shorten_text(text: str, limit: int = MAX_ANSWER) -> str:
    """A text that no host cuts: the middle of a longer one is left out, its last lines are kept."""
    if _units(text) <= limit:
        return text
    head, tail = text[: limit - TAIL - len(CUT)], text[-TAIL:]
    while _units(head) + _units(tail) + len(CUT) > limit:
        head, tail = head[: len(head) * 9 // 10], tail[len(tail) // 10 :]
    return head + CUT + tail


def _units(text: str) -> int:
    """The length as hosts written in JavaScript count it."""
    return len(text) if text.isascii() else len(text.encode("utf-16-le", "replace")) // 2


SHELLS = frozenset(
    {
        *("Bash", "bash", "powershell", "Shell", "shell", "shell_command", "exec_command", "local_shell"),
        *("run_shell_command", "terminal", "execute_bash", "run_terminal_cmd"),
    }
)
READERS = frozenset(
    {
        *("Read", "Grep", "Glob", "LS", "NotebookRead", "WebFetch", "WebSearch"),
        *(
            "view",
            "grep",
            "glob",
            "rg",
            "read_file",
            "read_many_files",
            "list_directory",
            "search_file_content",
        ),
    }
)
PATH_KEYS = ("file_path", "notebook_path", "path", "filePath", "absolute_path", "target_file")
PATCH_KEYS = ("command", "input", "patch", "cmd")
PATCH_MARKS = ("*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: ")
REACH = 4096
CLAIMING = "mcp__remand__next_task"
"""The tool of our own by which a session claims a task, as most hosts call it."""
MAX_PATHS = 1000


def tool_use(
    name: str,
    asked: Payload,
    *,
    use_id: str = "",
    exit_code: int | None = None,
    has_failed: bool = False,
    output: str = "",
    milliseconds: float | None = None,
) -> HookToolUse | None:
    """A use of a tool; None when the host names none."""
    if not name:
        return None
    return HookToolUse(
        name,
        use_id=use_id,
        command=asked.text("command", "cmd") if name in SHELLS else "",
        paths=written_paths(name, asked),
        exit_code=exit_code if name in SHELLS else None,
        has_failed=has_failed or bool(exit_code),
        output=output,
        duration=None if milliseconds is None else milliseconds / 1000,
    )


def written_paths(name: str, asked: Payload) -> tuple[str, ...]:
    """The files that a tool writes, as far as its input names them: a field of it, or the lines of a patch."""
    if name in READERS or asked.text("command") == "view":
        return ()
    named = [asked.path(key) for key in PATH_KEYS] if name not in SHELLS else []
    return tuple(dict.fromkeys(filter(None, [*named, *patched_paths(asked)])))


def patched_paths(asked: Payload) -> list[str]:
    """The files that a patch names, whether a tool is given it or a shell."""
    text = next((text for key in PATCH_KEYS if "*** Begin Patch" in (text := asked.text(key))), "")
    found = []
    for line in text.splitlines():
        mark = next((mark for mark in PATCH_MARKS if line.startswith(mark)), "")
        if mark:
            found.append(line.removeprefix(mark).strip())
    return [path for path in found[:MAX_PATHS] if "\0" not in path]


def tool_output(answered: Payload) -> str:
    """What a tool has answered."""
    text = answered.text("stdout", "output", "llmContent", "content", "text")
    if not text:
        text = "\n".join(part.text("text") for part in answered.parts("llmContent", "content", "output"))
    return "\n".join(filter(None, (text, answered.text("stderr"))))


def exit_code_field(answered: Payload) -> int | None:
    """The exit code that a host tells in a field of its own."""
    figure = answered.number("exit_code", "exitCode", "returnCode")
    if figure is None:
        figure = answered.part("metadata").number("exit_code", "exitCode")
    return None if figure is None else int(figure)


def exit_code_in_text(text: str, mark: str) -> int | None:
    """The exit code that a host tells in words, on the last line that starts with them.

    Hosts add such a line after what a command has printed, so a command cannot word its own code.
    """
    for line in reversed(text[-REACH:].splitlines()):
        figure = line.removeprefix(mark).rstrip(" .>")
        if line.startswith(mark) and figure.isascii() and figure.isdigit():
            return int(figure[:6])
    return None


FINISHED = frozenset({"completed", "failed", "killed", "cancelled", "stopped"})
ENOUGH = 300
WITH_CONTEXT = frozenset(
    {hook.PRE_TOOL, hook.POST_TOOL, hook.POST_TOOL_FAILURE, hook.SESSION_START, hook.PROMPT}
)
"""The events whose text can be put before the agent without keeping anything from happening."""


def read_claude_call(host: str, event: str, given: Payload, *, tells_failures: bool) -> HookCall:
    """A call in these words. Hosts that tell failures apart mean success when they tell of none."""
    return HookCall(
        host,
        event,
        session=given.identifier("session_id"),
        turn=given.identifier("prompt_id", "turn_id"),
        moment=stop_moment(given),
        cwd=given.path("cwd"),
        subagent=given.identifier("agent_id"),
        is_continued=given.flag("stop_hook_active"),
        has_background_work=_has_background_work(given),
        tool=_tool(event, given, tells_failures=tells_failures),
        last_message=given.text("last_assistant_message"),
        subject=given.text("task_subject"),
        transcript=given.path("agent_transcript_path", "transcript_path"),
        config_source=given.text("source") if event == hook.CONFIG_CHANGE else "",
        config_file=given.path("file_path"),
        is_broken=given.is_broken,
    )


def stop_moment(given: Payload, *names: str) -> str:
    """Tells the stops of one turn apart: by the host's time, or else by what the agent said last."""
    milliseconds = given.number("timestamp")
    if milliseconds is not None:
        return str(int(milliseconds) % 86_400_000)
    stamp = given.text("timestamp")
    if len(stamp) >= 19 and stamp[10] == "T":
        digits = [stamp[11:13], stamp[14:16], stamp[17:19], stamp[20:23].rstrip("Z+-").ljust(3, "0")]
        if all(part.isascii() and part.isdigit() for part in digits):
            hours, minutes, seconds, rest = map(int, digits)
            return str(((hours * 60 + minutes) * 60 + seconds) * 1000 + rest)
    said = given.text("last_assistant_message", *names)
    return f"{len(said)} {said[-ENOUGH:]}"


def _has_background_work(given: Payload) -> bool:
    running = [task for task in given.parts("background_tasks") if task.text("status") not in FINISHED]
    return bool(running or given.parts("session_crons"))


def _tool(event: str, given: Payload, *, tells_failures: bool) -> HookToolUse | None:
    answered = given.part("tool_response", "tool_result")
    return tool_use(
        given.text("tool_name"),
        given.part("tool_input"),
        use_id=given.identifier("tool_use_id"),
        exit_code=_exit_code(event, given, answered, tells_failures=tells_failures),
        has_failed=event == hook.POST_TOOL_FAILURE,
        output=given.text("error")
        or given.text("tool_response")
        or tool_output(answered)
        or _mcp_output(given),
        milliseconds=given.number("duration_ms"),
    )


def _mcp_output(given: Payload) -> str:
    """What a tool of an MCP server has answered, part by part."""
    return "\n".join(part.text("text") for part in given.parts("tool_response", "tool_result"))


def _exit_code(event: str, given: Payload, answered: Payload, *, tells_failures: bool) -> int | None:
    if event == hook.POST_TOOL_FAILURE:
        return exit_code_in_text(given.text("error").partition("\n")[0], "Exit code ")
    if event != hook.POST_TOOL:
        return None
    code = exit_code_field(answered)
    return 0 if code is None and tells_failures and _has_ended_well(answered) else code


def _has_ended_well(answered: Payload) -> bool:
    """Whether a command has ended, and not with a code that has a meaning of its own (grep finds nothing)."""
    return not (
        answered.flag("interrupted")
        or answered.has("backgroundTaskId")
        or answered.has("returnCodeInterpretation")
    )


def render_claude_answer(own_name: str, event: str, answer: HookAnswer) -> Rendered:
    """An answer in these words: JSON, exit code 0. An event without a name of the host's is not answered."""
    text = answer_text(answer)
    fields = _fields(own_name, event, answer, text) if own_name and text else {}
    if answer.notice and own_name:
        fields["systemMessage"] = shorten_text(answer.notice)
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(own_name: str, event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if event == hook.PRE_TOOL and answer.is_no:
        return event_output(own_name, permissionDecision="deny", permissionDecisionReason=text)
    if event in hook.ENDINGS or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "block", "reason": text}
    return event_output(own_name, additionalContext=text) if event in WITH_CONTEXT else {}


def event_output(own_name: str, **fields: str) -> dict[str, object]:
    """What is said about one event only."""
    return {"hookSpecificOutput": {"hookEventName": own_name, **fields}}

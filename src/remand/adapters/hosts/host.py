"""What hosts share: what is known of each, and how their hook calls are read and answered. Every hook call loads this."""

from __future__ import annotations

from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, HookToolUse, Payload, compose, parse

Rendered = tuple[str, str, int]
"""An answer in a host's own form: standard output, standard error, exit code."""
SILENCE: Rendered = ("", "", 0)


CLAUDE_NAMES = {
    hook.STOP: "Stop",
    hook.SUBAGENT_STOP: "SubagentStop",
    hook.TASK_COMPLETED: "TaskCompleted",
    hook.PRE_TOOL: "PreToolUse",
    hook.POST_TOOL: "PostToolUse",
    hook.POST_TOOL_FAILURE: "PostToolUseFailure",
    hook.SESSION_START: "SessionStart",
    hook.PROMPT: "UserPromptSubmit",
    hook.CONFIG_CHANGE: "ConfigChange",
}
"""The events as Claude Code calls them, and hosts that speak like it."""


def claude_names(*without: str) -> dict[str, str]:
    """The events of a host that calls them as Claude Code does, and lacks some."""
    return {event: name for event, name in CLAUDE_NAMES.items() if event not in without}


def snake_case(name: str) -> str:
    """`PreToolUse` as `pre_tool_use`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


SERVER_NAME = "remand"
"""What hosts call our MCP server."""
PASSED_VARIABLES = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "REMAND_SOCKET")
"""The variables that tell our server whom it speaks for."""
FOLDER_VARIABLES = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""The variables that tell it where things are kept, for hosts that pass on nothing by themselves."""
TOOL_SECONDS = 900
"""How long a host is told to wait for a tool: handing work in takes as long as the gates do."""


class McpEntry:
    """How one host is told of our MCP server."""

    def __init__(
        self,
        path: str,
        extras: dict[str, object] | None = None,
        hint: str = "",
        *,
        arguments: tuple[str, ...] = (),
        base: dict[str, object] | None = None,
    ) -> None:
        self.path = path
        """The file in the project; empty when the host has none there."""
        self.is_toml = path.endswith(".toml")
        self.extras = extras or {}
        """What the entry has besides the program."""
        self.hint = hint
        """What a person still has to do."""
        self.arguments = ["mcp", *arguments]
        self.base = base or {}
        """What a new file starts with."""


class FolderTrust:
    """Where a host keeps which folders the user trusts. It runs no hook of a project in any other."""

    def __init__(self, path: str, variable: str, key: str = "", *, exempt: str = "") -> None:
        self.path = path
        """From the home folder."""
        self.variable = variable
        """The variable that names another folder in place of the home folder, or of the first part of the path."""
        self.key = key
        """The key of the list of folders; empty where the file itself says of each folder how far it is trusted."""
        self.exempt = exempt
        """The variable that makes every folder a trusted one."""


class Setup:
    """One host: its programs, and our entries in its settings files."""

    def __init__(
        self,
        host: str,
        *,
        path: str,
        local: str = "",
        elsewhere: tuple[str, ...] = (),
        events: dict[str, str],
        programs: tuple[str, ...],
        out_of_turns: tuple[int, ...] = (),
        server: McpEntry,
        uninstalled_events: dict[str, str] | None = None,
        other_names: dict[str, str] | None = None,
        matchers: dict[str, str] | None = None,
        is_grouped: bool = True,
        command_key: str = "command",
        timeout_key: str = "timeout",
        timeout_factor: int = 1,
        base: dict[str, object] | None = None,
        extras: dict[str, object] | None = None,
        ending_extras: dict[str, object] | None = None,
        project: str = "",
        switch: tuple[str, ...] = (),
        is_on_switch: bool = False,
        host_keys: tuple[str, ...] = (),
        trust: FolderTrust | None = None,
        hint: str = "",
    ) -> None:
        self.host = host
        self.path = path
        """The project's settings file, from the repository's root."""
        self.local = local
        """The settings file of one machine beside it; empty when the host has none."""
        self.paths = (path, *([local] if local else []), *elsewhere)
        """Every file that may hold entries of ours; those in a home folder start with `~`."""
        self.programs = programs
        """The names of its program."""
        self.out_of_turns = out_of_turns
        """The exit statuses by which alone it tells that it had no more turns."""
        self.server = server
        self.events = events
        """The events that we install, by our name, and the host's name of each."""
        self._host_names = events | (uninstalled_events or {})
        """These, and events that we understand and do not install."""
        self._our_names = {name: event for event, name in self._host_names.items()}
        self.other_names = other_names or {}
        """Other spellings of the events' names, which may also stand at the top of the file."""
        self.matchers = matchers or {}
        """Which tools an event is wanted for."""
        self.is_grouped = is_grouped
        """Whether the hooks of an event stand in groups, each with a matcher."""
        self.command_key = command_key
        self.timeout_key, self.timeout_factor = timeout_key, timeout_factor
        self.base = base or {}
        """What a new file starts with."""
        self.extras = extras or {}
        """What each entry has besides its command and timeout."""
        self.ending_extras = ending_extras or {}
        """What the entries at which an agent says that it has finished have besides."""
        self.project = project
        """The variable that holds the project's folder when a hook runs; empty when the host has none."""
        self.switch = switch
        """The keys, from the top inwards, of what turns all hooks off; empty when there is no such thing."""
        self.is_on_switch = is_on_switch
        """Whether that is false when it turns them off."""
        self.host_keys = host_keys
        """What the host itself adds to the file."""
        self.trust = trust
        """None when it runs the hooks of every folder."""
        self.hint = hint
        """What a person still has to do after the installation."""

    def our_name(self, name: str) -> str:
        """Our name of an event that is given by ours or by the host's; empty when it is none of ours."""
        return name if name in hook.EVENTS else self._our_names.get(name, "")

    def host_name(self, event: str) -> str:
        """The host's name of an event; empty when it has none such."""
        return self._host_names.get(event, "")

    @property
    def project_paths(self) -> tuple[str, ...]:
        """The files in the project that may hold entries of ours."""
        return tuple(path for path in self.paths if not path.startswith("~"))


MAX_ANSWER = 9_000
"""Claude Code cuts a hook's text at 10,000 UTF-16 units, and other hosts cut later."""
TAIL = 1_200
CUT = "\n[… cut …]\n"
WITHOUT_REASON = "Remand does not allow this. `remand task show` shows details."


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
        *(
            "Read",
            "Grep",
            "Glob",
            "LS",
            "NotebookRead",
            "WebFetch",
            "WebSearch",
            "view",
            "grep",
            "glob",
            "rg",
        ),
        *("read_file", "read_many_files", "list_directory", "search_file_content"),
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
    moment: str = "",
) -> HookToolUse | None:
    """A use of a tool; None when the host names none. One without an id is known by the host's time of it."""
    if not name:
        return None
    command = asked.text("command", "cmd") if name in SHELLS else ""
    return HookToolUse(
        name,
        use_id=use_id or (f"{moment}-{len(command)}" if moment.isdigit() else ""),
        command=command,
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
    text = answered.text("stdout", "output", "llmContent", "content", "text", *COPILOT_OUTPUT)
    if not text:
        text = "\n".join(part.text("text") for part in answered.parts("llmContent", "content", "output"))
    return "\n".join(filter(None, (text, answered.text("stderr"))))


def exit_code_field(answered: Payload) -> int | None:
    """The exit code that a host tells in a field of its own; -1 is what OpenHands says when it does not know."""
    figure = answered.number("exit_code", "exitCode", "returnCode")
    if figure is None:
        figure = answered.part("metadata").number("exit_code", "exitCode")
    return None if figure is None or figure < 0 else int(figure)


def exit_code_in_text(text: str, mark: str) -> int | None:
    """The exit code that a host tells in words, on the last line that starts with them.

    Hosts add such a line after what a command has printed, so a command cannot word its own code.
    """
    for line in reversed(text[-REACH:].splitlines()):
        figure = line.removeprefix(mark).rstrip(" .>")
        if line.startswith(mark) and figure.isascii() and figure.isdigit():
            return int(figure[:6])
    return None


COPILOT_OUTPUT = ("textResultForLlm", "text_result_for_llm")
"""What Copilot calls a tool's output, also when it calls the hooks of Claude Code."""


def noted_exit_code(output: str) -> int | None:
    """The exit code of a command in the note by which Copilot ends its output: `<shellId: 0 completed with exit code 0>`.

    Versions word the note differently up to there. A command that still runs has another one.
    """
    *_, note = ["", *output[-REACH:].splitlines()]
    words, _, figure = note.strip().rpartition(" with exit code ")
    return exit_code_in_text(figure, "") if words.startswith("<") and figure.endswith(">") else None


FINISHED = frozenset({"completed", "failed", "killed", "cancelled", "stopped"})
ENOUGH = 300
WITH_CONTEXT = frozenset(
    {hook.PRE_TOOL, hook.POST_TOOL, hook.POST_TOOL_FAILURE, hook.SESSION_START, hook.PROMPT}
)
"""The events whose text can be put before the agent without keeping anything from happening."""


def read_claude_call(setup: Setup, event: str, data: bytes, *, tells_failures: bool) -> HookCall:
    """A call in these words. Hosts that tell failures apart mean success when they tell of none."""
    event, given = setup.our_name(event), parse(data)
    return HookCall(
        setup.host,
        event,
        session=given.identifier("session_id"),
        turn=given.identifier("prompt_id", "turn_id"),
        moment=stop_moment(given),
        is_timed=has_time(given),
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
        prompt=given.text("prompt"),
        is_planning=given.text("permission_mode") == "plan",
    )


def stop_moment(given: Payload, *names: str) -> str:
    """Tells the stops of one turn apart: by the host's time, or else by what the agent said last."""
    said = given.text("last_assistant_message", *names)
    return _stop_time(given) or f"{len(said)} {said[-ENOUGH:]}"


def has_time(given: Payload) -> bool:
    """True when the host tells the time of what it reports, so that a stop's moment is that time."""
    return bool(_stop_time(given))


def _stop_time(given: Payload) -> str:
    """The host's time, as the milliseconds of its day; empty when it tells none."""
    milliseconds = given.number("timestamp")
    if milliseconds is not None:
        return str(int(milliseconds) % 86_400_000)
    stamp = given.text("timestamp")
    if len(stamp) >= 19 and stamp[10] == "T":
        digits = [stamp[11:13], stamp[14:16], stamp[17:19], stamp[20:23].rstrip("Z+-").ljust(3, "0")]
        if all(part.isascii() and part.isdigit() for part in digits):
            hours, minutes, seconds, rest = map(int, digits)
            return str(((hours * 60 + minutes) * 60 + seconds) * 1000 + rest)
    return ""


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
        # The tool of an MCP server answers part by part.
        output=given.text("error")
        or given.text("tool_response")
        or tool_output(answered)
        or "\n".join(part.text("text") for part in given.parts("tool_response", "tool_result")),
        milliseconds=given.number("duration_ms"),
        moment=stop_moment(given),
    )


def _exit_code(event: str, given: Payload, answered: Payload, *, tells_failures: bool) -> int | None:
    if event == hook.POST_TOOL_FAILURE:
        return exit_code_in_text(given.text("error").partition("\n")[0], "Exit code ")
    if event != hook.POST_TOOL:
        return None
    if any(map(answered.has, COPILOT_OUTPUT)):
        return noted_exit_code(answered.text(*COPILOT_OUTPUT))
    code = exit_code_field(answered)
    return 0 if code is None and tells_failures and _has_ended_well(answered) else code


def _has_ended_well(answered: Payload) -> bool:
    """Whether a command has ended, and not with a code that has a meaning of its own (grep finds nothing)."""
    return not (
        answered.flag("interrupted")
        or answered.has("backgroundTaskId")
        or answered.has("returnCodeInterpretation")
    )


def render_claude_answer(setup: Setup, event: str, answer: HookAnswer) -> Rendered:
    """An answer in these words: JSON, exit code 0. An event without a name of the host's is not answered."""
    event = setup.our_name(event)
    own_name, text = setup.host_name(event), answer_text(answer)
    fields = _fields(own_name, event, answer, text) if own_name and text else {}
    if answer.notice and own_name:
        fields["systemMessage"] = shorten_text(answer.notice)
    return render_fields(fields)


def render_fields(fields: dict[str, object]) -> Rendered:
    """An answer as JSON on standard output; silence when there is nothing to say."""
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(own_name: str, event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if event == hook.PRE_TOOL and answer.is_no:
        return _event_output(own_name, permissionDecision="deny", permissionDecisionReason=text)
    if event in hook.ENDINGS or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "block", "reason": text}
    return _event_output(own_name, additionalContext=text) if event in WITH_CONTEXT else {}


def _event_output(own_name: str, **fields: str) -> dict[str, object]:
    """What is said about one event only."""
    return {"hookSpecificOutput": {"hookEventName": own_name, **fields}}

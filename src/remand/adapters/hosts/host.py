"""What hosts share: the facts about each, and how hook calls are read and answered. Every hook call loads this."""

from __future__ import annotations

from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, HookToolUse, Payload, compose, parse

Rendered = tuple[str, str, int]
"""An answer in a host's format: standard output, standard error, exit code."""
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
"""The event names of Claude Code and of hosts that copy its format."""


def claude_names(*without: str) -> dict[str, str]:
    """The events of a host that uses Claude Code's names, except those in `without`."""
    return {event: name for event, name in CLAUDE_NAMES.items() if event not in without}


def snake_case(name: str) -> str:
    """Converts `PreToolUse` to `pre_tool_use`."""
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


SERVER_NAME = "remand"
"""The name of our MCP server in host settings."""
PASSED_VARIABLES = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "REMAND_SOCKET")
"""The variables that tell our server on whose behalf it acts."""
FOLDER_VARIABLES = ("XDG_RUNTIME_DIR", "XDG_STATE_HOME")
"""The variables that locate its data, for hosts that pass no environment to servers."""
TOOL_SECONDS = 900
"""The tool timeout that hosts are given: submitting work takes as long as the gates do."""


class McpEntry:
    """How our MCP server is configured in one host."""

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
        """The settings file in the project; empty if the host has none there."""
        self.is_toml = path.endswith(".toml")
        self.extras = extras or {}
        """The fields of the entry besides the program."""
        self.hint = hint
        """What the user still has to do."""
        self.arguments = ["mcp", *arguments]
        self.base = base or {}
        """The initial content of a new file."""


class FolderTrust:
    """Where a host stores the folders that the user trusts. It runs no project hooks in other folders."""

    def __init__(self, path: str, variable: str, key: str = "", *, exempt: str = "") -> None:
        self.path = path
        """Relative to the home folder."""
        self.variable = variable
        """The variable that replaces the home folder, or the first part of the path."""
        self.key = key
        """The key of the list of folders; empty if the top level of the file maps folders to trust levels."""
        self.exempt = exempt
        """The variable that makes every folder trusted."""


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
        """The project's settings file, relative to the repository's root."""
        self.local = local
        """The machine-specific settings file next to it; empty if the host has none."""
        self.paths = (path, *([local] if local else []), *elsewhere)
        """All files that may contain our entries; those in a home folder start with `~`."""
        self.programs = programs
        """The names of its executable."""
        self.out_of_turns = out_of_turns
        """The exit statuses that only mean that the turn limit was reached."""
        self.server = server
        self.events = events
        """The events that we install hooks for: our name to the host's name."""
        self._host_names = events | (uninstalled_events or {})
        """These, and events that we understand but install no hooks for."""
        self._our_names = {name: event for event, name in self._host_names.items()}
        self.other_names = other_names or {}
        """Other spellings of event names, which may also be top-level keys of the file."""
        self.matchers = matchers or {}
        """The tools for which an event is wanted."""
        self.is_grouped = is_grouped
        """Whether the hooks of an event are in groups, each with a matcher."""
        self.command_key = command_key
        self.timeout_key, self.timeout_factor = timeout_key, timeout_factor
        self.base = base or {}
        """The initial content of a new file."""
        self.extras = extras or {}
        """The fields of each entry besides its command and timeout."""
        self.ending_extras = ending_extras or {}
        """Further fields of the entries for events that end an agent's work."""
        self.project = project
        """The variable with the project's folder when a hook runs; empty if the host has none."""
        self.switch = switch
        """The path of keys to the setting that disables all hooks; empty if there is none."""
        self.is_on_switch = is_on_switch
        """True if that setting disables hooks when it is false."""
        self.host_keys = host_keys
        """The keys that the host itself adds to the file."""
        self.trust = trust
        """None if it runs the hooks of every folder."""
        self.hint = hint
        """What the user still has to do after the installation."""

    def our_name(self, name: str) -> str:
        """Our name of an event given by our name or the host's; empty if it is unknown."""
        return name if name in hook.EVENTS else self._our_names.get(name, "")

    def host_name(self, event: str) -> str:
        """The host's name of an event; empty if it has no such event."""
        return self._host_names.get(event, "")

    @property
    def project_paths(self) -> tuple[str, ...]:
        """The files in the project that may contain our entries."""
        return tuple(path for path in self.paths if not path.startswith("~"))


MAX_ANSWER = 9_000
"""Claude Code truncates a hook's text at 10,000 UTF-16 units; other hosts allow more."""
TAIL = 1_200
CUT = "\n[… cut …]\n"
WITHOUT_REASON = "Remand does not allow this. `remand task show` shows details."


def answer_text(answer: HookAnswer) -> str:
    """The text of an answer, as long as hosts allow. A refusal always has one: hosts take an empty one for approval."""
    text = answer.text if answer.text.strip() else ""
    return shorten_text(text) or (WITHOUT_REASON if answer.is_no else "")


def shorten_text(text: str, limit: int = MAX_ANSWER) -> str:
    """Shortens a text to what all hosts show: cuts out the middle and keeps the last lines."""
    if _units(text) <= limit:
        return text
    head, tail = text[: limit - TAIL - len(CUT)], text[-TAIL:]
    while _units(head) + _units(tail) + len(CUT) > limit:
        head, tail = head[: len(head) * 9 // 10], tail[len(tail) // 10 :]
    return head + CUT + tail


def _units(text: str) -> int:
    """The length as JavaScript counts it, which hosts are written in."""
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
"""Our tool that claims a task for a session, by the name that most hosts use."""
MAX_PATHS = 1000


def tool_use(
    name: str,
    payload: Payload,
    *,
    use_id: str = "",
    exit_code: int | None = None,
    has_failed: bool = False,
    output: str = "",
    milliseconds: float | None = None,
    moment: str = "",
) -> HookToolUse | None:
    """A tool use; None if the host names no tool. Without an id, the host's time identifies it."""
    if not name:
        return None
    command = payload.text("command", "cmd") if name in SHELLS else ""
    return HookToolUse(
        name,
        use_id=use_id or (f"{moment}-{len(command)}" if moment.isdigit() else ""),
        command=command,
        paths=written_paths(name, payload),
        exit_code=exit_code if name in SHELLS else None,
        has_failed=has_failed or bool(exit_code),
        output=output,
        duration=None if milliseconds is None else milliseconds / 1000,
    )


def written_paths(name: str, payload: Payload) -> tuple[str, ...]:
    """The files that a tool writes, as far as its input names them: in a field, or in the lines of a patch."""
    if name in READERS or payload.text("command") == "view":
        return ()
    named = [payload.path(key) for key in PATH_KEYS] if name not in SHELLS else []
    return tuple(dict.fromkeys(filter(None, [*named, *patched_paths(payload)])))


def patched_paths(payload: Payload) -> list[str]:
    """The files named in a patch that is passed to a tool or to a shell."""
    text = next((text for key in PATCH_KEYS if "*** Begin Patch" in (text := payload.text(key))), "")
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
    """The exit code in a field of the host's; OpenHands uses -1 for an unknown one."""
    figure = answered.number("exit_code", "exitCode", "returnCode")
    if figure is None:
        figure = answered.part("metadata").number("exit_code", "exitCode")
    return None if figure is None or figure < 0 else int(figure)


def exit_code_in_text(text: str, mark: str) -> int | None:
    """The exit code in a text, on the last line that starts with `mark`.

    Hosts append such a line to a command's output, so a command cannot forge its exit code.
    """
    for line in reversed(text[-REACH:].splitlines()):
        figure = line.removeprefix(mark).rstrip(" .>")
        if line.startswith(mark) and figure.isascii() and figure.isdigit():
            return int(figure[:6])
    return None


COPILOT_OUTPUT = ("textResultForLlm", "text_result_for_llm")
"""Copilot's fields for a tool's output, also when it calls Claude Code's hooks."""


def noted_exit_code(output: str) -> int | None:
    """The exit code in the note that ends Copilot's output: `<shellId: 0 completed with exit code 0>`.

    The wording before the exit code varies between versions. A command that is still running has a different note.
    """
    *_, note = ["", *output[-REACH:].splitlines()]
    words, _, figure = note.strip().rpartition(" with exit code ")
    return exit_code_in_text(figure, "") if words.startswith("<") and figure.endswith(">") else None


FINISHED = frozenset({"completed", "failed", "killed", "cancelled", "stopped"})
ENOUGH = 300
WITH_CONTEXT = frozenset(
    {hook.PRE_TOOL, hook.POST_TOOL, hook.POST_TOOL_FAILURE, hook.SESSION_START, hook.PROMPT}
)
"""The events whose text can be added to the agent's context without blocking anything."""


def read_claude_call(setup: Setup, event: str, data: bytes, *, tells_failures: bool) -> HookCall:
    """Reads a call in Claude Code's format. Hosts with an event for failures mean success by the other one."""
    event, payload = setup.our_name(event), parse(data)
    return HookCall(
        setup.host,
        event,
        session=payload.identifier("session_id"),
        turn=payload.identifier("prompt_id", "turn_id"),
        moment=stop_moment(payload),
        is_timed=has_time(payload),
        cwd=payload.path("cwd"),
        subagent=payload.identifier("agent_id"),
        is_continued=payload.flag("stop_hook_active"),
        has_background_work=_has_background_work(payload),
        tool=_tool(event, payload, tells_failures=tells_failures),
        last_message=payload.text("last_assistant_message"),
        subject=payload.text("task_subject"),
        transcript=payload.path("agent_transcript_path", "transcript_path"),
        config_source=payload.text("source") if event == hook.CONFIG_CHANGE else "",
        config_file=payload.path("file_path"),
        is_broken=payload.is_broken,
        prompt=payload.text("prompt"),
        is_planning=payload.text("permission_mode") == "plan",
    )


def stop_moment(payload: Payload, *names: str) -> str:
    """Distinguishes the stops of one turn: by the host's time, or else by the agent's last message."""
    message = payload.text("last_assistant_message", *names)
    return _stop_time(payload) or f"{len(message)} {message[-ENOUGH:]}"


def has_time(payload: Payload) -> bool:
    """True if the host reports a time, so that it identifies a stop."""
    return bool(_stop_time(payload))


def _stop_time(payload: Payload) -> str:
    """The host's time, as milliseconds of the day; empty if it reports none."""
    milliseconds = payload.number("timestamp")
    if milliseconds is not None:
        return str(int(milliseconds) % 86_400_000)
    stamp = payload.text("timestamp")
    if len(stamp) >= 19 and stamp[10] == "T":
        digits = [stamp[11:13], stamp[14:16], stamp[17:19], stamp[20:23].rstrip("Z+-").ljust(3, "0")]
        if all(part.isascii() and part.isdigit() for part in digits):
            hours, minutes, seconds, rest = map(int, digits)
            return str(((hours * 60 + minutes) * 60 + seconds) * 1000 + rest)
    return ""


def _has_background_work(payload: Payload) -> bool:
    running = [task for task in payload.parts("background_tasks") if task.text("status") not in FINISHED]
    return bool(running or payload.parts("session_crons"))


def _tool(event: str, payload: Payload, *, tells_failures: bool) -> HookToolUse | None:
    answered = payload.part("tool_response", "tool_result")
    return tool_use(
        payload.text("tool_name"),
        payload.part("tool_input"),
        use_id=payload.identifier("tool_use_id"),
        exit_code=_exit_code(event, payload, answered, tells_failures=tells_failures),
        has_failed=event == hook.POST_TOOL_FAILURE,
        # An MCP tool's result consists of several parts.
        output=payload.text("error")
        or payload.text("tool_response")
        or tool_output(answered)
        or "\n".join(part.text("text") for part in payload.parts("tool_response", "tool_result")),
        milliseconds=payload.number("duration_ms"),
        moment=stop_moment(payload),
    )


def _exit_code(event: str, payload: Payload, answered: Payload, *, tells_failures: bool) -> int | None:
    if event == hook.POST_TOOL_FAILURE:
        return exit_code_in_text(payload.text("error").partition("\n")[0], "Exit code ")
    if event != hook.POST_TOOL:
        return None
    if any(map(answered.has, COPILOT_OUTPUT)):
        return noted_exit_code(answered.text(*COPILOT_OUTPUT))
    code = exit_code_field(answered)
    return 0 if code is None and tells_failures and _has_ended_well(answered) else code


def _has_ended_well(answered: Payload) -> bool:
    """True if a command ran to its end and its exit code has no special meaning (such as no match from grep)."""
    return not (
        answered.flag("interrupted")
        or answered.has("backgroundTaskId")
        or answered.has("returnCodeInterpretation")
    )


def render_claude_answer(setup: Setup, event: str, answer: HookAnswer) -> Rendered:
    """Renders an answer in Claude Code's format: JSON, exit code 0. Events that the host has no name for get no answer."""
    event = setup.our_name(event)
    own_name, text = setup.host_name(event), answer_text(answer)
    fields = _fields(own_name, event, answer, text) if own_name and text else {}
    if answer.notice and own_name:
        fields["systemMessage"] = shorten_text(answer.notice)
    return render_fields(fields)


def render_fields(fields: dict[str, object]) -> Rendered:
    """Renders an answer as JSON on standard output; empty if there are no fields."""
    return (compose(fields), "", 0) if fields else SILENCE


def _fields(own_name: str, event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if event == hook.PRE_TOOL and answer.is_no:
        return _event_output(own_name, permissionDecision="deny", permissionDecisionReason=text)
    if event in hook.ENDINGS or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "block", "reason": text}
    return _event_output(own_name, additionalContext=text) if event in WITH_CONTEXT else {}


def _event_output(own_name: str, **fields: str) -> dict[str, object]:
    """The output for one event only."""
    return {"hookSpecificOutput": {"hookEventName": own_name, **fields}}

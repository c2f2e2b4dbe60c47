"""GitHub Copilot, in the terminal and in the cloud: hooks in `.github/hooks/`.

Copilot also runs the hooks in `.claude/settings.json` and `.claude/settings.local.json`. If both are installed, an
event fires twice, with the same session and time: see `HookCall.firing_key`.
"""

from __future__ import annotations

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, HookToolUse, Payload, parse
from remand.app.scheduler import ports

NAME = "copilot"
WRITING = "bash|powershell|edit|create|str_replace_editor|apply_patch"
SETUP = host.Setup(
    NAME,
    programs=("copilot",),
    server=host.McpEntry(
        ".github/mcp.json",
        {
            "type": "stdio",
            "tools": ["*"],
            "env": {name: f"${{{name}:-}}" for name in (*host.PASSED_VARIABLES, *host.FOLDER_VARIABLES)},
        },
    ),
    path=".github/hooks/remand.json",
    elsewhere=("~/.copilot/hooks/remand.json",),
    events={
        hook.STOP: "agentStop",
        hook.SUBAGENT_STOP: "subagentStop",
        hook.PRE_TOOL: "preToolUse",
        hook.POST_TOOL: "postToolUse",
        hook.POST_TOOL_FAILURE: "postToolUseFailure",
        hook.SESSION_START: "sessionStart",
        hook.PROMPT: "userPromptSubmitted",
    },
    uninstalled_events={hook.SESSION_END: "sessionEnd"},
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: f"{WRITING}|remand-next_task"},
    is_grouped=False,
    command_key="bash",
    timeout_key="timeoutSec",
    base={"version": 1},
    extras={"type": "command"},
    switch=("disableAllHooks",),
    trust=host.FolderTrust(".copilot/config.json", "COPILOT_HOME", "trustedFolders"),
)
PASCAL_NAMES = {"Stop": hook.STOP, "SubagentStop": hook.SUBAGENT_STOP, "UserPromptSubmit": hook.PROMPT}


def read(event: str, data: bytes) -> HookCall:
    """Reads Copilot's format, in either of its two spellings."""
    payload = parse(data)
    known = SETUP.our_name(PASCAL_NAMES.get(event, event[:1].lower() + event[1:]))
    return HookCall(
        NAME,
        known,
        session=payload.identifier("sessionId", "session_id"),
        moment=host.stop_moment(payload, "response"),
        is_timed=host.has_time(payload),
        cwd=payload.path("cwd"),
        subagent=payload.identifier("agentId", "agent_id"),
        is_continued=payload.flag("stop_hook_active", "stopHookActive"),
        tool=_tool(known, payload),
        last_message=payload.text("response", "last_assistant_message"),
        transcript=payload.path("transcriptPath", "transcript_path"),
        is_broken=payload.is_broken,
        prompt=payload.text("prompt", "initialPrompt", "initial_prompt"),
    )


def _tool(event: str, payload: Payload) -> HookToolUse | None:
    answered = payload.part("toolResult", "tool_result")
    output = payload.text("error") or answered.text(*host.COPILOT_OUTPUT)
    return host.tool_use(
        payload.text("toolName", "tool_name"),
        payload.part("toolArgs", "tool_input"),
        exit_code=host.noted_exit_code(output) if event != hook.PRE_TOOL else None,
        has_failed=event == hook.POST_TOOL_FAILURE,
        output=output,
        moment=host.stop_moment(payload),
    )


def render(event: str, answer: HookAnswer) -> host.Rendered:
    """Renders the answer for Copilot: JSON, always with exit code 0."""
    known = SETUP.our_name(PASCAL_NAMES.get(event, event[:1].lower() + event[1:]))
    return host.render_fields(_fields(known, answer, host.answer_text(answer)))


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event in {hook.STOP, hook.SUBAGENT_STOP}:
        return {"decision": "block", "reason": text}
    if event == hook.PRE_TOOL:
        return {"permissionDecision": "deny", "permissionDecisionReason": text} if answer.is_no else {}
    if event in {hook.POST_TOOL, hook.POST_TOOL_FAILURE, hook.SESSION_START}:
        return {"additionalContext": text}
    return {}


FOLDER = "COPILOT_HOME"
STREAM = ("--output-format", "json")
READABLE = (
    "mcp-config.json",
    "settings.json",
    "copilot-instructions.md",
    "agents",
    "skills",
    "installed-plugins",
)
STATE = "config.json"
VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST")
PREFIX = "COPILOT_"


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    source, tools = run.own_folder(FOLDER, ".copilot"), run.path("mcp.json")
    options = (
        *("--additional-mcp-config", f"@{tools}", f"--allow-tool={host.SERVER_NAME}"),
        *("--plugin-dir", run.path("plugin")),
    )
    own = launch.HostLaunchConfig(
        arguments=options if run.has("--output-format") else (*options, *STREAM),
        environment=launch.passed_variables(run, VARIABLES, (PREFIX,)),
        files={
            **launch.plugin_files(run, SETUP, "plugin.json"),
            tools: launch.dump_json({"mcpServers": {host.SERVER_NAME: launch.mcp_server(run, SETUP)}}),
        },
    )
    if not run.is_confined:
        return own
    state = launch.HostLaunchConfig(
        environment={FOLDER: run.state}, copies={f"{run.state}/{STATE}": f"{source}/{STATE}"}
    )
    return own.merge(launch.link_host_folder(source, run.state, links=READABLE)).merge(state)


def prints_json(_: list[str]) -> bool:
    return True


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads the session output: one line per event, without tokens, and with the cost in requests instead of money."""
    payloads = [line.part("data") for line in lines if line.text("type") == "assistant.message"]
    failed = [line.part("data").text("message") for line in lines if line.text("type") == "session.error"]
    ends = [line for line in lines if line.text("type") == "result"]
    is_error = bool(ends) and ends[-1].number("exitCode") not in (None, 0.0)
    return ports.SessionResult(
        text=launch.last_text(one.text("content") for one in payloads),
        turns=len(payloads),
        error=launch.error_text(launch.last_text(failed) or "Copilot ended with an error")
        if is_error
        else "",
    )

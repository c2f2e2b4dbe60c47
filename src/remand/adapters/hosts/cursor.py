"""Cursor: hooks in `.cursor/hooks.json`. A stop is refused with a follow-up message to the agent."""

from __future__ import annotations

import os

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, HookToolUse, Payload, parse
from remand.app.scheduler import ports

NAME = "cursor"
WRITING = "Shell|Write|Delete|StrReplace|Edit|MultiEdit|NotebookEdit|ApplyPatch"
FOLLOW_UPS = 20
"""More than we ever send in a row, so that our own limit applies, not the host's."""
SETUP = host.Setup(
    NAME,
    programs=("cursor-agent",),
    server=host.McpEntry(
        ".cursor/mcp.json",
        {"env": {name: f"${{env:{name}}}" for name in host.PASSED_VARIABLES}},
        # Cursor starts servers in the folder in which it was started itself.
        arguments=("-C", "${workspaceFolder}"),
    ),
    path=".cursor/hooks.json",
    elsewhere=("~/.cursor/hooks.json",),
    events={
        hook.STOP: "stop",
        hook.SUBAGENT_STOP: "subagentStop",
        hook.PRE_TOOL: "preToolUse",
        hook.POST_TOOL: "postToolUse",
        hook.POST_TOOL_FAILURE: "postToolUseFailure",
        hook.SESSION_START: "sessionStart",
        hook.PROMPT: "beforeSubmitPrompt",
    },
    uninstalled_events={hook.SESSION_END: "sessionEnd"},
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: WRITING, hook.POST_TOOL_FAILURE: WRITING},
    is_grouped=False,
    base={"version": 1},
    ending_extras={"loop_limit": FOLLOW_UPS},
    project="CURSOR_PROJECT_DIR",
    hint="Cursor runs a project's hooks in a trusted workspace only, and no stop hooks in the cloud.",
)


def read(event: str, data: bytes) -> HookCall:
    payload = parse(data)
    known = SETUP.our_name(event)
    rounds = payload.number("loop_count") or 0
    return HookCall(
        NAME,
        known,
        session=payload.identifier("conversation_id", "session_id"),
        turn=payload.identifier("generation_id"),
        moment=str(int(rounds)),
        cwd=payload.path("cwd") or _first_root(payload),
        subagent=payload.identifier("subagent_id", "subagent_type"),
        is_continued=rounds > 0,
        is_aborted=known in hook.ENDINGS and payload.text("status") in {"aborted", "error"},
        tool=_tool(known, payload),
        last_message=payload.text("summary"),
        transcript=payload.path("agent_transcript_path", "transcript_path"),
        is_broken=payload.is_broken,
        prompt=payload.text("prompt"),
    )


def _first_root(payload: Payload) -> str:
    roots = payload.texts("workspace_roots")
    return Payload({"root": roots[0]}).path("root") if roots else ""


def _tool(event: str, payload: Payload) -> HookToolUse | None:
    answered = payload.part("tool_output")
    output = payload.text("error_message") or host.tool_output(answered) or payload.text("tool_output")
    return host.tool_use(
        payload.text("tool_name"),
        payload.part("tool_input"),
        use_id=payload.identifier("tool_use_id"),
        exit_code=host.exit_code_field(answered) if event != hook.PRE_TOOL else None,
        has_failed=event == hook.POST_TOOL_FAILURE,
        output=output,
        milliseconds=payload.number("duration"),
    )


def render(event: str, answer: HookAnswer) -> host.Rendered:
    return host.render_fields(_fields(SETUP.our_name(event), answer, host.answer_text(answer)))


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event in {hook.STOP, hook.SUBAGENT_STOP}:
        return {"followup_message": text}
    if event == hook.PRE_TOOL and answer.is_no:
        notice = host.shorten_text(answer.notice) or text
        return {"permission": "deny", "user_message": notice, "agent_message": text}
    if event == hook.PROMPT and answer.is_no:
        return {"continue": False, "user_message": text}
    return {"additional_context": text} if event in {hook.POST_TOOL, hook.SESSION_START} else {}


STREAM = ("--output-format", "stream-json")
READABLE = ("cli-config.json", "rules", "commands", "skills")
LOGIN = ("cursor/auth.json",)
VARIABLES = ("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN")


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    """The launch options of Cursor. The prompt is the last word of its command, because it does not read standard input."""
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = launch.HostLaunchConfig(
        arguments=() if tells else STREAM,
        ending=() if run.is_placed else (launch.prompt_argument(run.prompt, run.prompt_file),),
        environment=launch.passed_variables(run, VARIABLES),
        files={run.prompt_file: run.prompt},
        has_prompt=True,
    )
    return own.merge(_confined_config(run)) if run.is_confined else own


def _confined_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    own, settings = os.path.join(run.state, ".cursor"), os.path.join(run.home, ".config")
    return (
        launch.HostLaunchConfig(
            arguments=("--approve-mcps",),
            environment={"HOME": run.state},
            files={
                os.path.join(own, "hooks.json"): launch.hook_settings(SETUP, run),
                os.path.join(own, "mcp.json"): launch.dump_json(
                    {"mcpServers": {host.SERVER_NAME: launch.mcp_server(run, SETUP)}}
                ),
            },
        )
        .merge(launch.link_host_folder(os.path.join(run.home, ".cursor"), own, links=READABLE))
        .merge(launch.link_host_folder(settings, os.path.join(run.state, ".config"), logins=LOGIN))
    )


def prints_json(words: list[str]) -> bool:
    return launch.has_option(words, "-p", "--print")


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads Cursor's output, which has Claude Code's format."""
    return launch.read_claude(lines)

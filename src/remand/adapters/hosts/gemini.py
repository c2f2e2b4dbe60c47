"""Gemini CLI: hooks in `.gemini/settings.json`. If standard output is not JSON, it lets the agent continue."""

from __future__ import annotations

import os

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, Payload, parse
from remand.app.scheduler import ports

NAME = "gemini"
WRITING = "run_shell_command|write_file|replace"
SETUP = host.Setup(
    NAME,
    programs=("gemini",),
    out_of_turns=(53,),
    server=host.McpEntry(".gemini/settings.json", {"timeout": host.TOOL_SECONDS * 1000}),
    path=".gemini/settings.json",
    elsewhere=("~/.gemini/settings.json",),
    events={
        hook.STOP: "AfterAgent",
        hook.PRE_TOOL: "BeforeTool",
        hook.POST_TOOL: "AfterTool",
        hook.SESSION_START: "SessionStart",
        hook.PROMPT: "BeforeAgent",
    },
    matchers={hook.PRE_TOOL: WRITING, hook.POST_TOOL: f"{WRITING}|mcp_remand_next_task"},
    timeout_factor=1000,
    extras={"type": "command"},
    project="GEMINI_PROJECT_DIR",
    switch=("hooksConfig", "enabled"),
    is_on_switch=True,
    trust=host.FolderTrust(
        ".gemini/trustedFolders.json", "GEMINI_CLI_HOME", exempt="GEMINI_CLI_TRUST_WORKSPACE"
    ),
)


def read(event: str, data: bytes) -> HookCall:
    payload = parse(data)
    known = SETUP.our_name(event)
    answered = payload.part("tool_response")
    output = host.tool_output(answered)
    return HookCall(
        NAME,
        known,
        session=payload.identifier("session_id"),
        moment=host.stop_moment(payload, "prompt_response"),
        is_timed=host.has_time(payload),
        cwd=payload.path("cwd"),
        is_continued=payload.flag("stop_hook_active"),
        tool=host.tool_use(
            payload.text("tool_name"),
            payload.part("tool_input"),
            exit_code=gemini_exit_code(output) if known == hook.POST_TOOL else None,
            has_failed=answered.has("error"),
            output=output,
        ),
        last_message=payload.text("prompt_response"),
        transcript=payload.path("transcript_path"),
        is_broken=payload.is_broken,
        prompt=payload.text("prompt"),
    )


WRAPPER = "<untrusted_context>\n"
"""The prefix that newer versions add to a command's output."""


def gemini_exit_code(output: str) -> int | None:
    """The exit code of a command, which the output contains only if it is not 0."""
    code = host.exit_code_in_text(output, "Exit Code: ")
    has_ended = output.removeprefix(WRAPPER).startswith("Output: ") and "\nSignal: " not in output
    return 0 if code is None and has_ended else code


def render(event: str, answer: HookAnswer) -> host.Rendered:
    known = SETUP.our_name(event)
    fields = _fields(known, answer, host.answer_text(answer)) if known in SETUP.events else {}
    if answer.notice and known in SETUP.events:
        fields["systemMessage"] = host.shorten_text(answer.notice)
    return host.render_fields(fields)


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event == hook.STOP or (answer.is_no and event != hook.SESSION_START):
        return {"decision": "deny", "reason": text}
    if event == hook.PRE_TOOL:
        return {}
    return {"hookSpecificOutput": {"hookEventName": SETUP.host_name(event), "additionalContext": text}}


FOLDER = "GEMINI_CLI_HOME"
TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
"""Without it no hook runs, and non-interactive sessions do not start."""
STREAM = ("--output-format", "stream-json")
READABLE = (
    "settings.json",
    "GEMINI.md",
    ".env",
    "installation_id",
    "agents",
    "commands",
    "policies",
    "skills",
)
LOGIN = ("oauth_creds.json", "google_accounts.json", "gemini-credentials.json", "mcp-oauth-tokens.json")
EXTENSIONS = "extensions"
PREFIXES = ("GEMINI_API_", "GEMINI_MODEL", "GEMINI_DEFAULT_", "GOOGLE_", "CLOUD_SHELL", "CLOUDSDK_")


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    own, source = os.path.join(run.state, ".gemini"), os.path.join(run.own_folder(FOLDER), ".gemini")
    extension = os.path.join(own, EXTENSIONS, host.SERVER_NAME)
    manifest = {
        "name": host.SERVER_NAME,
        "version": "1.0.0",
        "mcpServers": {host.SERVER_NAME: launch.mcp_server(run, SETUP, trust=True)},
    }
    others = [
        f"{EXTENSIONS}/{name}"
        for name in _folder_names(os.path.join(source, EXTENSIONS))
        if name != host.SERVER_NAME
    ]
    return launch.HostLaunchConfig(
        arguments=() if run.has("-o", "--output-format") else STREAM,
        environment={**launch.passed_variables(run, (), PREFIXES), FOLDER: run.state, TRUST: "true"},
        files={
            os.path.join(extension, "gemini-extension.json"): launch.dump_json(manifest),
            os.path.join(extension, "hooks", "hooks.json"): launch.hook_settings(SETUP, run),
        },
    ).merge(launch.link_host_folder(source, own, links=(*READABLE, *others), logins=LOGIN))


def _folder_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


STEPS = frozenset({"message", "tool_use", "tool_result", "error"})
"""The output events that count as steps between messages; a stop that our hook blocked appears as an error."""


def prints_json(_: list[str]) -> bool:
    return True


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads the session output: one line per part of a message, or a single object at the end."""
    results = [line for line in lines if line.text("type") == "result" or line.has("stats")]
    last = results[-1] if results else Payload({})
    failed = [line.part("error") for line in lines if line.has("error")]
    models = last.part("stats").part("models").each()
    steps = [line for line in lines if line.text("type") in STEPS]
    return ports.SessionResult(
        text=last.text("response") or _last_message(steps),
        turns=sum(launch.figure(one.part("api"), "totalRequests") for one in models) or _steps(steps),
        tokens=max((_tokens(one.part("stats")) for one in results), default=0),
        error=launch.error_text(failed[-1].text("message") or "an error") if failed else "",
    )


def _last_message(steps: list[Payload]) -> str:
    """The last message, joined from its parts."""
    pieces: list[str] = []
    for step in reversed(steps):
        if step.text("role") != "assistant":
            break
        pieces.insert(0, step.text("content"))
    return "".join(pieces)


def _steps(steps: list[Payload]) -> int:
    """Tool uses and messages, with consecutive parts of a message joined."""
    is_said = [step.text("role") == "assistant" for step in steps]
    messages = sum(now and not before for before, now in zip([False, *is_said], is_said, strict=False))
    return messages + sum(step.text("type") == "tool_use" for step in steps)


def _tokens(stats: Payload) -> int:
    models = stats.part("models").each()
    return launch.figure(stats, "total_tokens") or sum(
        launch.figure(one.part("tokens"), "total") for one in models
    )

"""Qwen Code: hooks in `.qwen/settings.json`, in Claude Code's format."""

from __future__ import annotations

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, Payload
from remand.app.scheduler import ports

NAME = "qwen"
WRITING = "run_shell_command|write_file|edit|Bash|Write|Edit"
VERSION: dict[str, object] = {"$version": 4}
"""The version of the settings format. Qwen Code rewrites files with an older version or none when it starts."""
SETUP = host.Setup(
    NAME,
    programs=("qwen",),
    out_of_turns=(53, 55),
    server=host.McpEntry(".qwen/settings.json", {"timeout": host.TOOL_SECONDS * 1000}, base=VERSION),
    path=".qwen/settings.json",
    elsewhere=("~/.qwen/settings.json",),
    events=host.claude_names(hook.TASK_COMPLETED, hook.CONFIG_CHANGE),
    matchers={
        hook.PRE_TOOL: WRITING,
        hook.POST_TOOL: f"{WRITING}|{host.CLAIMING}",
        hook.POST_TOOL_FAILURE: WRITING,
    },
    # Older versions read the number as milliseconds, newer ones only from 1000 on.
    timeout_factor=1000,
    extras={"type": "command"},
    project="QWEN_PROJECT_DIR",
    switch=("disableAllHooks",),
    base=VERSION,
    host_keys=tuple(VERSION),
    hint="Qwen Code reads its hooks when it starts, and again on /hooks.",
)


def read(event: str, data: bytes) -> HookCall:
    """Reads Qwen Code's format. It reports a command's exit code as text, whether the command failed or not."""
    call = host.read_claude_call(SETUP, event, data, tells_failures=False)
    if call.tool and call.event in (hook.POST_TOOL, hook.POST_TOOL_FAILURE) and call.tool.command:
        call.tool.exit_code = host.exit_code_in_text(call.tool.output, "Exit Code: ")
        call.tool.has_failed = call.event == hook.POST_TOOL_FAILURE or bool(call.tool.exit_code)
    return call


def render(event: str, answer: HookAnswer) -> host.Rendered:
    return host.render_claude_answer(SETUP, event, answer)


FOLDER = "QWEN_HOME"
DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
STREAM = ("--output-format", "stream-json")
READABLE = ("settings.json", "QWEN.md", ".env", "agents", "commands", "extensions", "skills")
LOGIN = ("oauth_creds.json", "mcp-oauth-tokens.json")
VARIABLES = ("QWEN_MODEL", "QWEN_CUSTOM_API_KEY", "QWEN_CODE_API_TIMEOUT_MS")
PREFIXES = (
    "OPENAI_",
    "DASHSCOPE_",
    "BAILIAN_",
    "ANTHROPIC_",
    "GEMINI_API_",
    "GOOGLE_",
    "OPENROUTER_",
    "MODELSCOPE_",
)


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    settings = run.path("settings.json")
    own = launch.HostLaunchConfig(
        arguments=() if run.has("-o", "--output-format") else STREAM,
        environment={**launch.passed_variables(run, VARIABLES, PREFIXES), DEFAULTS: settings},
        files={
            settings: launch.dump_json(
                {
                    **launch.hook_table(SETUP, run),
                    "mcpServers": {host.SERVER_NAME: launch.mcp_server(run, SETUP, trust=True)},
                }
            )
        },
    )
    source = run.own_folder(FOLDER, ".qwen")
    if not run.is_confined:
        return own.merge(launch.passed_folder(run, FOLDER))
    lending = launch.link_host_folder(source, run.state, links=READABLE, logins=LOGIN)
    return own.merge(lending).merge(launch.HostLaunchConfig(environment={FOLDER: run.state}))


def prints_json(_: list[str]) -> bool:
    return True


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads Qwen Code's output, which has Claude Code's format."""
    return launch.read_claude(lines)

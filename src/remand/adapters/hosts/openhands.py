"""OpenHands: hooks in `.openhands/hooks.json`."""

from __future__ import annotations

from remand.adapters.hosts import host, launch
from remand.app import hook_calls as hook
from remand.app.hook_calls import HookAnswer, HookCall, HookToolUse, Payload, parse
from remand.app.scheduler import ports

NAME = "openhands"
_NAMES = host.claude_names(
    hook.SUBAGENT_STOP, hook.TASK_COMPLETED, hook.POST_TOOL_FAILURE, hook.CONFIG_CHANGE
)
SETUP = host.Setup(
    NAME,
    programs=("openhands",),
    server=host.McpEntry(
        "",
        hint="OpenHands reads no MCP servers from a project: openhands mcp add remand --transport stdio {program} -- mcp",
    ),
    path=".openhands/hooks.json",
    elsewhere=("~/.openhands/hooks.json",),
    events=_NAMES,
    other_names={name: host.snake_case(name) for name in _NAMES.values()},
    extras={"type": "command"},
    project="OPENHANDS_PROJECT_DIR",
)


def read(event: str, data: bytes) -> HookCall:
    payload = parse(data)
    known = SETUP.our_name(event)
    return HookCall(
        NAME,
        known,
        session=payload.identifier("session_id"),
        moment=host.stop_moment(payload, "message"),
        is_timed=host.has_time(payload),
        cwd=payload.path("working_dir", "cwd"),
        is_continued=payload.flag("stop_hook_active"),
        tool=_tool(known, payload),
        last_message=payload.text("message") if known == hook.STOP else "",
        is_broken=payload.is_broken,
        prompt=payload.text("message") if known == hook.PROMPT else "",
    )


def _tool(event: str, payload: Payload) -> HookToolUse | None:
    answered = payload.part("tool_response")
    output = host.tool_output(answered) or payload.text("tool_output")
    return host.tool_use(
        payload.text("tool_name"),
        payload.part("tool_input"),
        exit_code=host.exit_code_field(answered) if event == hook.POST_TOOL else None,
        has_failed=answered.flag("is_error"),
        output=output,
    )


def render(event: str, answer: HookAnswer) -> host.Rendered:
    return host.render_fields(_fields(SETUP.our_name(event), answer, host.answer_text(answer)))


def _fields(event: str, answer: HookAnswer, text: str) -> dict[str, object]:
    if not text:
        return {}
    if event == hook.STOP or (answer.is_no and event in {hook.PRE_TOOL, hook.PROMPT}):
        return {"decision": "deny", "reason": text}
    return {"additionalContext": text} if event == hook.PROMPT else {}


FOLDERS = ("OPENHANDS_PERSISTENCE_DIR", "OH_PERSISTENCE_DIR")
"""The variable for the same folder in its terminal program and in its library."""
READABLE = ("agent_settings.json", "cli_config.json", "mcp.json", "profiles", "skills", "microagents")
VARIABLES = ("OH_SECRET_KEY",)
PREFIXES = ("LLM_", "OPENHANDS_API_", "LITELLM_")


def launch_config(run: launch.HostRun) -> launch.HostLaunchConfig:
    """The launch options of OpenHands. It reads the prompt from a file, never from standard input."""
    has_task = run.is_placed or run.has("-t", "--task", "-f", "--file")
    own = launch.HostLaunchConfig(
        arguments=(
            *(() if has_task else ("--file", run.prompt_file)),
            *(("--json",) if run.has("--headless") and not run.has("--json") else ()),
        ),
        environment={
            **launch.passed_variables(run, VARIABLES, PREFIXES),
            **dict.fromkeys(FOLDERS, run.state),
        },
        files={f"{run.state}/hooks.json": launch.hook_settings(SETUP, run), run.prompt_file: run.prompt},
        has_prompt=not has_task,
    )
    return own.merge(
        launch.link_host_folder(run.own_folder(FOLDERS[0], ".openhands"), run.state, links=READABLE)
    )


def prints_json(words: list[str]) -> bool:
    return launch.has_option(words, "--headless")


def read_output(lines: list[Payload]) -> ports.SessionResult:
    """Reads the session output: one line per event, with a kind for actions; finishing is one of them."""
    own = [line for line in lines if line.text("source") == "agent"]
    spoken = [
        line.part("action").text("message") or launch.message_text(line.part("llm_message")) for line in own
    ]
    errors = [line.text("detail") or line.text("error") for line in lines if "Error" in line.text("kind")]
    return ports.SessionResult(
        text=launch.last_text(spoken),
        turns=sum(line.has("action") or line.has("llm_message") for line in own),
        error=launch.error_text(launch.last_text(errors)) if errors and not launch.last_text(spoken) else "",
    )

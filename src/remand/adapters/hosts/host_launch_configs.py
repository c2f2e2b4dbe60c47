"""The launch configuration of each host: its arguments, environment and files for one run."""

from __future__ import annotations

import glob
import json
import os
import tomllib

from remand.adapters.hosts.claude import SETUP as CLAUDE_SETUP
from remand.adapters.hosts.codex import SETUP as CODEX_SETUP
from remand.adapters.hosts.copilot import SETUP as COPILOT_SETUP
from remand.adapters.hosts.cursor import SETUP as CURSOR_SETUP
from remand.adapters.hosts.gemini import SETUP as GEMINI_SETUP
from remand.adapters.hosts.hook_checks import hook_identity, trust_key
from remand.adapters.hosts.launch_config import (
    HostLaunchConfig,
    HostRun,
    dump_json,
    hook_settings,
    link_host_folder,
    mcp_server,
    passed_variables,
    plugin_files,
    prompt_argument,
)
from remand.adapters.hosts.mcp_entries import NAME
from remand.adapters.hosts.openhands import SETUP as OPENHANDS_SETUP
from remand.adapters.hosts.qwen import SETUP as QWEN_SETUP
from remand.adapters.hosts.settings import SECTION, find_hooks, load_settings

CLAUDE_FOLDER = "CLAUDE_CONFIG_DIR"
CLAUDE_STREAM = ("--output-format", "stream-json", "--verbose")
CLAUDE_READABLE = (
    "settings.json",
    "CLAUDE.md",
    "agents",
    "commands",
    "output-styles",
    "plugins",
    "rules",
    "skills",
)
CLAUDE_LOGIN = (".credentials.json",)
CLAUDE_STATE = ".claude.json"
CLAUDE_WAIT = "MCP_CONNECT_TIMEOUT_MS"
CLAUDE_WAIT_MILLISECONDS = "30000"
"""How long it waits for our tools before it begins; it goes on without them if they do not come."""
CLAUDE_VARIABLES = (
    *("CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_MAX_OUTPUT_TOKENS", "CLAUDE_CODE_SUBAGENT_MODEL"),
    *(
        "CLAUDE_CODE_API_KEY_HELPER_TTL_MS",
        "CLAUDE_CODE_EFFORT_LEVEL",
        "API_TIMEOUT_MS",
        "MAX_THINKING_TOKENS",
    ),
    *("BASH_DEFAULT_TIMEOUT_MS", "BASH_MAX_TIMEOUT_MS"),
)
CLAUDE_PREFIXES = ("ANTHROPIC_", "CLAUDE_CODE_USE_", "CLAUDE_CODE_SKIP_", "CLAUDE_CODE_DISABLE_", "DISABLE_")
CLAUDE_CLOUDS = {
    "CLAUDE_CODE_USE_BEDROCK": ("AWS_",),
    "CLAUDE_CODE_USE_VERTEX": ("GOOGLE_", "CLOUD_ML_", "VERTEX_", "GCLOUD_"),
    "CLAUDE_CODE_USE_FOUNDRY": ("AZURE_",),
}


def claude_config(run: HostRun) -> HostLaunchConfig:
    """What Claude Code is started with. Options that take several values stand before one that takes one."""
    clouds = [
        prefix
        for name, prefixes in CLAUDE_CLOUDS.items()
        if run.surroundings.get(name)
        for prefix in prefixes
    ]
    tools = run.path("mcp.json")
    options = ("--mcp-config", tools, "--allowedTools", f"mcp__{NAME}", "--plugin-dir", run.path("plugin"))
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = HostLaunchConfig(
        arguments=options if tells else (*options, *CLAUDE_STREAM),
        environment={
            CLAUDE_WAIT: CLAUDE_WAIT_MILLISECONDS,
            **passed_variables(run, (*CLAUDE_VARIABLES, CLAUDE_WAIT), (*CLAUDE_PREFIXES, *clouds)),
        },
        files={
            **plugin_files(run, CLAUDE_SETUP, ".claude-plugin", "plugin.json"),
            tools: dump_json({"mcpServers": {NAME: mcp_server(run, CLAUDE_SETUP.host, alwaysLoad=True)}}),
        },
    )
    return own.merge(_confined_claude_config(run) if run.is_confined else _free_claude_config(run))


def _free_claude_config(run: HostRun) -> HostLaunchConfig:
    return HostLaunchConfig(
        environment={CLAUDE_FOLDER: run.surroundings[CLAUDE_FOLDER]}
        if run.surroundings.get(CLAUDE_FOLDER)
        else {}
    )


def _confined_claude_config(run: HostRun) -> HostLaunchConfig:
    """A folder of its own. Its state it gets as a copy: the user's has all projects in it, and is written often."""
    source = run.own_folder(CLAUDE_FOLDER, ".claude")
    state = os.path.join(source if run.surroundings.get(CLAUDE_FOLDER) else run.home, CLAUDE_STATE)
    own = HostLaunchConfig(
        environment={CLAUDE_FOLDER: run.state}, copies={os.path.join(run.state, CLAUDE_STATE): state}
    )
    return own.merge(link_host_folder(source, run.state, links=CLAUDE_READABLE, logins=CLAUDE_LOGIN))


CODEX_FOLDER = "CODEX_HOME"
CODEX_LAYER = "/<session-flags>/config.toml"
"""By what name Codex remembers the hooks of its command line."""
CODEX_STARTUP_SECONDS = 60
CODEX_SUBCOMMANDS = ("exec", "e")
CODEX_CONFIG = "config.toml"
CODEX_READABLE = (CODEX_CONFIG, "AGENTS.md", "AGENTS.override.md", "prompts", "rules")
CODEX_PROFILES = "*.config.toml"
CODEX_LOGIN = ("auth.json",)
CODEX_PREFIXES = ("OPENAI_", "AZURE_OPENAI_", "CODEX_API_", "CODEX_ACCESS_")
MAX_CODEX_CONFIG = 1 << 20


def codex_config(run: HostRun) -> HostLaunchConfig:
    """What Codex is started with."""
    source = run.own_folder(CODEX_FOLDER, ".codex")
    settings = [word for name, value in _codex_settings(run) for word in ("-c", f"{name}={value}")]
    is_told = run.has("--json", "--experimental-json") or not set(CODEX_SUBCOMMANDS) & set(run.words)
    own = HostLaunchConfig(
        arguments=tuple(settings if is_told else [*settings, "--json"]),
        after=CODEX_SUBCOMMANDS,
        environment=passed_variables(
            run, _codex_key_variables(os.path.join(source, CODEX_CONFIG)), CODEX_PREFIXES
        ),
    )
    if not run.is_confined:
        return own.merge(
            HostLaunchConfig(environment={CODEX_FOLDER: source} if run.surroundings.get(CODEX_FOLDER) else {})
        )
    profiles = map(os.path.basename, glob.glob(os.path.join(glob.escape(source), CODEX_PROFILES)))
    lending = link_host_folder(source, run.state, links=(*CODEX_READABLE, *profiles), logins=CODEX_LOGIN)
    return own.merge(lending).merge(HostLaunchConfig(environment={CODEX_FOLDER: run.state}))


def _codex_settings(run: HostRun) -> list[tuple[str, str]]:
    """Our hooks, the trust in them, and our tools, as Codex takes settings on its command line."""
    text = hook_settings(CODEX_SETUP, run)
    table = load_settings(text)[SECTION]
    events = table.items() if isinstance(table, dict) else ()
    trusted = {
        trust_key(CODEX_LAYER, entry): {"trusted_hash": hook_identity(entry)}
        for entry in find_hooks(CODEX_SETUP, text)
    }
    tools = mcp_server(
        run,
        CODEX_SETUP.host,
        startup_timeout_sec=CODEX_STARTUP_SECONDS,
        default_tools_approval_mode="approve",
    )
    return [
        *((f"{SECTION}.{event}", render_toml_value(groups)) for event, groups in events),
        (f"{SECTION}.state", render_toml_value(trusted)),
        (f"mcp_servers.{NAME}", render_toml_value(tools)),
        # A login shell resets PATH. In the sandbox our program is found all the same, and the user's choice stands.
        *(() if run.is_confined else (("allow_login_shell", "false"),)),
    ]


def render_toml_value(value: object) -> str:
    """A value in TOML, on one line."""
    if isinstance(value, dict):
        return (
            "{"
            + ", ".join(
                f"{render_toml_value(str(key))} = {render_toml_value(one)}" for key, one in value.items()
            )
            + "}"
        )
    if isinstance(value, list):
        return "[" + ", ".join(map(render_toml_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _codex_key_variables(path: str) -> list[str]:
    """The variables in which the user's settings say that keys are."""
    try:
        with open(path, "rb") as file:
            settings = tomllib.loads(file.read(MAX_CODEX_CONFIG).decode("utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError):
        return []
    providers = settings.get("model_providers")
    rows = providers.values() if isinstance(providers, dict) else ()
    keys = [row.get("env_key") for row in rows if isinstance(row, dict)]
    return [key for key in keys if isinstance(key, str)]


COPILOT_FOLDER = "COPILOT_HOME"
COPILOT_STREAM = ("--output-format", "json")
COPILOT_READABLE = (
    "mcp-config.json",
    "settings.json",
    "copilot-instructions.md",
    "agents",
    "skills",
    "installed-plugins",
)
COPILOT_STATE = "config.json"
COPILOT_VARIABLES = ("GH_TOKEN", "GITHUB_TOKEN", "GH_HOST")
COPILOT_PREFIX = "COPILOT_"


def copilot_config(run: HostRun) -> HostLaunchConfig:
    """What Copilot is started with."""
    source, tools = run.own_folder(COPILOT_FOLDER, ".copilot"), run.path("mcp.json")
    options = (
        *("--additional-mcp-config", f"@{tools}", f"--allow-tool={NAME}"),
        *("--plugin-dir", run.path("plugin")),
    )
    own = HostLaunchConfig(
        arguments=options if run.has("--output-format") else (*options, *COPILOT_STREAM),
        environment=passed_variables(run, COPILOT_VARIABLES, (COPILOT_PREFIX,)),
        files={
            **plugin_files(run, COPILOT_SETUP, "plugin.json"),
            tools: dump_json({"mcpServers": {NAME: mcp_server(run, COPILOT_SETUP.host)}}),
        },
    )
    if not run.is_confined:
        return own
    state = HostLaunchConfig(
        environment={COPILOT_FOLDER: run.state},
        copies={f"{run.state}/{COPILOT_STATE}": f"{source}/{COPILOT_STATE}"},
    )
    return own.merge(link_host_folder(source, run.state, links=COPILOT_READABLE)).merge(state)


CURSOR_STREAM = ("--output-format", "stream-json")
CURSOR_READABLE = ("cli-config.json", "rules", "commands", "skills")
CURSOR_LOGIN = ("cursor/auth.json",)
CURSOR_VARIABLES = ("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN")


def cursor_config(run: HostRun) -> HostLaunchConfig:
    """What Cursor is started with. What to do is the last word of its command: it reads no input."""
    tells = run.has("--output-format") or not run.has("-p", "--print")
    own = HostLaunchConfig(
        arguments=() if tells else CURSOR_STREAM,
        ending=() if run.is_placed else (prompt_argument(run.prompt, run.prompt_file),),
        environment=passed_variables(run, CURSOR_VARIABLES),
        files={run.prompt_file: run.prompt},
        has_prompt=True,
    )
    return own.merge(_confined_cursor_config(run)) if run.is_confined else own


def _confined_cursor_config(run: HostRun) -> HostLaunchConfig:
    own, settings = os.path.join(run.state, ".cursor"), os.path.join(run.home, ".config")
    return (
        HostLaunchConfig(
            arguments=("--approve-mcps",),
            environment={"HOME": run.state},
            files={
                os.path.join(own, "hooks.json"): hook_settings(CURSOR_SETUP, run),
                os.path.join(own, "mcp.json"): dump_json(
                    {"mcpServers": {NAME: mcp_server(run, CURSOR_SETUP.host)}}
                ),
            },
        )
        .merge(link_host_folder(os.path.join(run.home, ".cursor"), own, links=CURSOR_READABLE))
        .merge(link_host_folder(settings, os.path.join(run.state, ".config"), logins=CURSOR_LOGIN))
    )


GEMINI_FOLDER = "GEMINI_CLI_HOME"
GEMINI_TRUST = "GEMINI_CLI_TRUST_WORKSPACE"
"""Without it no hook is run, and a session without a person at the keyboard does not begin."""
GEMINI_STREAM = ("--output-format", "stream-json")
GEMINI_READABLE = (
    "settings.json",
    "GEMINI.md",
    ".env",
    "installation_id",
    "agents",
    "commands",
    "policies",
    "skills",
)
GEMINI_LOGIN = (
    "oauth_creds.json",
    "google_accounts.json",
    "gemini-credentials.json",
    "mcp-oauth-tokens.json",
)
GEMINI_EXTENSIONS = "extensions"
GEMINI_PREFIXES = ("GEMINI_API_", "GEMINI_MODEL", "GEMINI_DEFAULT_", "GOOGLE_", "CLOUD_SHELL", "CLOUDSDK_")


def gemini_config(run: HostRun) -> HostLaunchConfig:
    """What Gemini CLI is started with."""
    own, source = os.path.join(run.state, ".gemini"), os.path.join(run.own_folder(GEMINI_FOLDER), ".gemini")
    extension = os.path.join(own, GEMINI_EXTENSIONS, NAME)
    manifest = {
        "name": NAME,
        "version": "1.0.0",
        "mcpServers": {NAME: mcp_server(run, GEMINI_SETUP.host, trust=True)},
    }
    others = [
        f"{GEMINI_EXTENSIONS}/{name}"
        for name in _folder_names(os.path.join(source, GEMINI_EXTENSIONS))
        if name != NAME
    ]
    return HostLaunchConfig(
        arguments=() if run.has("-o", "--output-format") else GEMINI_STREAM,
        environment={
            **passed_variables(run, (), GEMINI_PREFIXES),
            GEMINI_FOLDER: run.state,
            GEMINI_TRUST: "true",
        },
        files={
            os.path.join(extension, "gemini-extension.json"): dump_json(manifest),
            os.path.join(extension, "hooks", "hooks.json"): hook_settings(GEMINI_SETUP, run),
        },
    ).merge(link_host_folder(source, own, links=(*GEMINI_READABLE, *others), logins=GEMINI_LOGIN))


def _folder_names(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError:
        return []


OPENHANDS_FOLDERS = ("OPENHANDS_PERSISTENCE_DIR", "OH_PERSISTENCE_DIR")
"""What its terminal program and what its library calls the same folder."""
OPENHANDS_READABLE = (
    "agent_settings.json",
    "cli_config.json",
    "mcp.json",
    "profiles",
    "skills",
    "microagents",
)
OPENHANDS_VARIABLES = ("OH_SECRET_KEY",)
OPENHANDS_PREFIXES = ("LLM_", "OPENHANDS_API_", "LITELLM_")


def openhands_config(run: HostRun) -> HostLaunchConfig:
    """What OpenHands is started with. It reads what to do from a file, never from its input."""
    is_told = run.is_placed or run.has("-t", "--task", "-f", "--file")
    own = HostLaunchConfig(
        arguments=(
            *(() if is_told else ("--file", run.prompt_file)),
            *(("--json",) if run.has("--headless") and not run.has("--json") else ()),
        ),
        environment={
            **passed_variables(run, OPENHANDS_VARIABLES, OPENHANDS_PREFIXES),
            **dict.fromkeys(OPENHANDS_FOLDERS, run.state),
        },
        files={f"{run.state}/hooks.json": hook_settings(OPENHANDS_SETUP, run), run.prompt_file: run.prompt},
        has_prompt=not is_told,
    )
    return own.merge(
        link_host_folder(
            run.own_folder(OPENHANDS_FOLDERS[0], ".openhands"), run.state, links=OPENHANDS_READABLE
        )
    )


QWEN_FOLDER = "QWEN_HOME"
QWEN_DEFAULTS = "QWEN_CODE_SYSTEM_DEFAULTS_PATH"
QWEN_STREAM = ("--output-format", "stream-json")
QWEN_READABLE = ("settings.json", "QWEN.md", ".env", "agents", "commands", "extensions", "skills")
QWEN_LOGIN = ("oauth_creds.json", "mcp-oauth-tokens.json")
QWEN_VARIABLES = ("QWEN_MODEL", "QWEN_CUSTOM_API_KEY", "QWEN_CODE_API_TIMEOUT_MS")
QWEN_PREFIXES = (
    "OPENAI_",
    "DASHSCOPE_",
    "BAILIAN_",
    "ANTHROPIC_",
    "GEMINI_API_",
    "GOOGLE_",
    "OPENROUTER_",
    "MODELSCOPE_",
)


def qwen_config(run: HostRun) -> HostLaunchConfig:
    """What Qwen Code is started with."""
    settings = run.path("settings.json")
    own = HostLaunchConfig(
        arguments=() if run.has("-o", "--output-format") else QWEN_STREAM,
        environment={**passed_variables(run, QWEN_VARIABLES, QWEN_PREFIXES), QWEN_DEFAULTS: settings},
        files={
            settings: dump_json(
                {
                    **load_settings(hook_settings(QWEN_SETUP, run)),
                    "mcpServers": {NAME: mcp_server(run, QWEN_SETUP.host, trust=True)},
                }
            )
        },
    )
    source = run.own_folder(QWEN_FOLDER, ".qwen")
    if not run.is_confined:
        return own.merge(
            HostLaunchConfig(environment={QWEN_FOLDER: source} if run.surroundings.get(QWEN_FOLDER) else {})
        )
    lending = link_host_folder(source, run.state, links=QWEN_READABLE, logins=QWEN_LOGIN)
    return own.merge(lending).merge(HostLaunchConfig(environment={QWEN_FOLDER: run.state}))

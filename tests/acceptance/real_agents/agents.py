"""The real command lines of agents, run against a scripted model where nothing but this machine can be reached.

`REMAND_REAL_AGENTS` names the folder that npm has installed them into (OpenHands: a virtual environment `openhands` there);
without it the tests look into the cache folder that `scripts/real-agents` fills.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.acceptance.real_agents.endpoint import HERE

ENDPOINT = Path(__file__).with_name("endpoint.py")
SECONDS = 400
CLAUDE = "@anthropic-ai/claude-code-*/claude"
CODEX = "@openai/codex-*/vendor/*/bin/codex"
COPILOT = "@github/copilot-*/copilot"
GEMINI = "@google/gemini-cli/bundle/gemini.js"
QWEN = "@qwen-code/qwen-code/cli-entry.js"
NODE = "node-*/bin/node"
OPENHANDS = "../openhands/bin/openhands"
QUIET = {
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
    "DISABLE_AUTOUPDATER": "1",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
}
CODEX_CONFIG = f"""\
model = "scripted"
model_provider = "scripted"
approval_policy = "never"
sandbox_mode = "danger-full-access"
check_for_update_on_startup = false

[analytics]
enabled = false

[features]
plugins = false

[model_providers.scripted]
name = "scripted"
base_url = "{HERE}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
request_max_retries = 0
stream_max_retries = 0

[projects."{{folder}}"]
trust_level = "trusted"
"""


class Told(NamedTuple):
    """What passed between an agent and its model, and what the agent said in the end."""

    code: int | None
    out: str
    err: str
    heard: list[dict[str, Any]]
    """Every request to the model."""
    left: list[dict[str, Any]]
    """What the model would still have said."""

    def request(self, number: int) -> str:
        """The conversation as the model was told it in one of the agent's requests."""
        turns = [request for request in self.heard if request.get("tools")]
        asked = next(
            turns[number][name] for name in ("messages", "input", "contents") if name in turns[number]
        )
        return json.dumps(asked, ensure_ascii=False)


def say(text: str) -> dict[str, Any]:
    """A turn in which the model only speaks, and so stops."""
    return {"say": text}


def use(tool: str, **given: object) -> dict[str, Any]:
    """A turn in which the model uses a tool."""
    return {"use": tool, "input": given}


def fail(status: int, message: str) -> dict[str, Any]:
    """A turn in which the model cannot be asked."""
    return {"fail": status, "message": message}


def run_claude(
    folder: Path,
    home: Path,
    script: Sequence[dict[str, Any]],
    environment: Mapping[str, str],
    *,
    options: Sequence[str] = (),
) -> Told:
    """Runs Claude Code with the settings of a folder."""
    words = ["-p", "Do the task.", "--output-format", "text", "--allowedTools", "Bash,Write,Edit"]
    command = [found(CLAUDE), *words, *options]
    address = {"ANTHROPIC_BASE_URL": HERE, "ANTHROPIC_API_KEY": "none"}
    return run_agent(command, folder, home, script=script, environment={**QUIET, **address, **environment})


def run_codex(
    folder: Path,
    home: Path,
    script: Sequence[dict[str, Any]],
    environment: Mapping[str, str],
    *,
    trust: str | None = None,
) -> Told:
    """Runs Codex with the hooks of a folder, trusted as a piece of its configuration says, or all of them."""
    (home / ".codex").mkdir(exist_ok=True)
    config = CODEX_CONFIG.format(folder=folder) + (trust or "")
    bypass = ["--dangerously-bypass-hook-trust"] if trust is None else []
    command = [found(CODEX), "exec", *bypass, "Do the task."]
    files = {str(home / ".codex" / "config.toml"): config}
    keyed = {"SCRIPTED_KEY": "none", **environment}
    return run_agent(command, folder, home, script=script, environment=keyed, files=files)


class Cli(NamedTuple):
    """How one host is started on a prompt, reaches its model and runs a command."""

    command: Callable[[], list[str]]
    """Without the prompt."""
    shell: Callable[[str], dict[str, Any]]
    """A turn in which its model runs a command."""
    variables: Mapping[str, str]
    """Its environment."""
    settings: Mapping[str, str]
    """The user's settings of it, by their path in the home folder; `{folder}` stands for the project."""
    ending: tuple[str, ...] = ("-p", "Do the task.")

    def run(
        self, folder: Path, home: Path, script: Sequence[dict[str, Any]], environment: Mapping[str, str]
    ) -> Told:
        """Runs the host with the settings of a folder that the user trusts."""
        files = {
            str(home / path): text.replace("{folder}", str(folder)) for path, text in self.settings.items()
        }
        for path in files:
            Path(path).parent.mkdir(exist_ok=True)
        return run_agent(
            [*self.command(), *self.ending],
            folder,
            home,
            script=script,
            environment={**self.variables, **environment},
            files=files,
        )


CLIS = {
    "gemini": Cli(
        lambda: [found(NODE), found(GEMINI), "--yolo", "-m", "gemini-2.5-pro"],
        lambda command: use("run_shell_command", command=command, description="work"),
        {"GEMINI_API_KEY": "none", "GOOGLE_GEMINI_BASE_URL": HERE},
        {
            ".gemini/settings.json": '{"security": {"auth": {"selectedType": "gemini-api-key"}},'
            ' "privacy": {"usageStatisticsEnabled": false}}',
            ".gemini/trustedFolders.json": '{"{folder}": "TRUST_FOLDER"}',
        },
    ),
    "qwen": Cli(
        lambda: [found(NODE), found(QWEN), "--yolo"],
        lambda command: use("run_shell_command", command=command, is_background=False),
        {"OPENAI_API_KEY": "none", "OPENAI_BASE_URL": f"{HERE}/v1", "OPENAI_MODEL": "scripted"},
        {
            ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}},'
            ' "privacy": {"usageStatisticsEnabled": false}}'
        },
    ),
    "copilot": Cli(
        lambda: [found(COPILOT), "--allow-all-tools"],
        lambda command: use("bash", command=command, description="work"),
        {
            "COPILOT_OFFLINE": "true",
            "COPILOT_AUTO_UPDATE": "false",
            "COPILOT_PROVIDER_BASE_URL": f"{HERE}/v1",
            "COPILOT_MODEL": "scripted",
        },
        {".copilot/config.json": '{"trustedFolders": ["{folder}"]}'},
    ),
    "openhands": Cli(
        lambda: [found(OPENHANDS), "--headless", "--override-with-envs"],
        lambda command: use("terminal", command=command, security_risk="LOW"),
        {
            "LLM_API_KEY": "none",
            "LLM_BASE_URL": f"{HERE}/v1",
            "LLM_MODEL": "openai/scripted",
            "OPENHANDS_SUPPRESS_BANNER": "1",
        },
        {},
        ending=("-t", "Do the task."),
    ),
}
"""The hosts that are all run alike."""


def run_host(
    host: str, folder: Path, home: Path, script: Sequence[dict[str, Any]], environment: Mapping[str, str]
) -> Told:
    """Runs any of the hosts with the settings of a folder."""
    if host == "claude":
        return run_claude(folder, home, script, environment)
    if host == "codex":
        return run_codex(folder, home, script, environment)
    return CLIS[host].run(folder, home, script, environment)


def shell(host: str, command: str) -> dict[str, Any]:
    """A turn in which the model of a host runs a command."""
    if host == "claude":
        return use("Bash", command=command, description="work")
    return use("exec_command", cmd=command) if host == "codex" else CLIS[host].shell(command)


def run_agent(
    command: Sequence[str],
    folder: Path,
    home: Path,
    *,
    script: Sequence[dict[str, Any]],
    environment: Mapping[str, str],
    files: Mapping[str, str] | None = None,
    prompt: str = "",
) -> Told:
    """Runs a command that talks to a model, with files in which the model's address has to stand."""
    plan = {
        "command": list(command),
        "stdin": prompt,
        "folder": str(folder),
        "environment": {"HOME": str(home), "PATH": "/usr/local/bin:/usr/bin:/bin", **environment},
        "script": list(script),
        "files": dict(files or {}),
        "seconds": SECONDS,
    }
    done = subprocess.run(
        [*namespace(), sys.executable, str(ENDPOINT)],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=SECONDS + 100,
        check=False,
    )
    assert done.returncode == 0, f"the endpoint ended with {done.returncode}: {done.stderr[-2000:]}"
    told = Told(**json.loads(done.stdout))
    assert told.code is not None, f"the agent did not end: {told.out[-1000:]}{told.err[-1000:]}"
    return told


@lru_cache(maxsize=1)
def namespace() -> list[str]:
    """The command that runs another where only this machine can be reached; skips where there is none."""
    command = ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--net", "--map-root-user"]
    if not shutil.which("unshare"):
        pytest.skip("unshare is not installed, so no agent can be kept off the network")
    if subprocess.run([*command, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no network namespace can be made here, so no agent can be kept off the network")
    return command


def found(pattern: str) -> str:
    """The program of an agent; skips where it is not installed."""
    named = os.environ.get("REMAND_REAL_AGENTS", "")
    folder = Path(named) if named not in {"", "install"} else cache_folder()
    programs = sorted((folder / "node_modules").glob(pattern))
    if not programs:
        pytest.skip(
            f"{pattern.partition('-*')[0]} is not installed; REMAND_REAL_AGENTS=install make test-more does it"
        )
    return str(programs[0])


def cache_folder() -> Path:
    """The folder that `scripts/real-agents` installs into."""
    cache = os.environ.get("XDG_CACHE_HOME", "") or Path.home() / ".cache"
    return Path(cache) / "remand-tests" / "agents"

"""Real hosts, started as the scheduler starts them: with what their launch configuration gives them, and nothing else of ours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from remand.adapters.hosts.launcher import HostLauncher
from remand.app.hook_calls import HookAnswer
from remand.app.scheduler.ports import LaunchConfig
from remand.app.scheduler.ports import SessionResult as Read
from remand.wiring.startup import load_host
from tests.acceptance.real_agents.agents import (
    CLAUDE,
    CLIS,
    CODEX,
    CODEX_CONFIG,
    QUIET,
    Told,
    found,
    run_agent,
    use,
)
from tests.acceptance.real_agents.endpoint import HERE

PROMPT = "Do the task.\nAll of it, “rightly”."
REASON = "REJECTED: Quality gates failed\n- Tests: 73 failures (requires 100% pass)\nContinue working."
IDENTITY = {
    "REMAND_SOCKET": "/nowhere/agent.sock",
    "REMAND_TASK": "T-1",
    "REMAND_ACTOR": "Fenster",
    "REMAND_HANDOFF": "H-1",
}
OWN = '''\
#!{python}
"""Stands in for our own program: its hook keeps what it is told and answers once, its server has one tool."""
import json, os, sys
HERE = os.path.dirname(os.path.abspath(__file__))
whose = {{name: value for name, value in os.environ.items() if name.startswith("REMAND_")}}
def note(name, value):
    number = len(os.listdir(HERE + "/heard"))
    with open(f"{{HERE}}/heard/{{number:03}}.{{name}}", "w") as file:
        json.dump({{"told": value, "whose": whose}}, file)
if sys.argv[1] == "hook":
    event = sys.argv[4]
    note(event, json.loads(sys.stdin.read()))
    answer = f"{{HERE}}/answers/{{event}}"
    if os.path.exists(answer):
        sys.stdout.write(open(answer).read())
        os.unlink(answer)
    sys.exit()
note("mcp", sys.argv[1:])
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked:
        continue
    answers = {{
        "initialize": lambda: {{
            "protocolVersion": asked["params"]["protocolVersion"],
            "capabilities": {{"tools": {{}}}},
            "serverInfo": {{"name": "remand", "version": "0"}},
        }},
        "tools/list": lambda: {{
            "tools": [{{"name": "standing", "description": "How the task stands.", "inputSchema": {{"type": "object"}}}}]
        }},
        "tools/call": lambda: {{"content": [{{"type": "text", "text": "The task is claimed by Fenster."}}]}},
        "ping": lambda: {{}},
    }}
    known = answers.get(asked["method"])
    error = {{"error": {{"code": -32601, "message": "no such method"}}}}
    print(json.dumps({{"jsonrpc": "2.0", "id": asked["id"], **({{"result": known()}} if known else error)}}), flush=True)
'''


class Kind(NamedTuple):
    """What is particular about one host."""

    command: Callable[[], list[str]]
    tool: dict[str, Any]
    """How its model uses our tool."""
    variables: dict[str, str]
    """How it reaches its model, in the scheduler's environment."""
    settings: dict[str, str]
    """The user's own settings of it, by their path in the home folder."""
    hook: dict[str, str]
    """A hook of the user's at each stop, which has to go on working."""


def like_the_cli(host: str, tool: dict[str, Any], hook: dict[str, str]) -> Kind:
    """A host that is started as it is by hand; nothing of the user's says that the folder is trusted."""
    return Kind(CLIS[host].command, tool, dict(CLIS[host].variables), {}, hook)


KINDS = {
    "claude": Kind(
        lambda: [found(CLAUDE), "-p", "--allowedTools", "Bash"],
        use("mcp__remand__standing"),
        {**QUIET, "ANTHROPIC_BASE_URL": HERE, "ANTHROPIC_API_KEY": "none"},
        {},
        {
            ".claude/settings.json": '{"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "TOUCH"}]}]}}'
        },
    ),
    "codex": Kind(
        lambda: [found(CODEX), "exec"],
        {**use("standing"), "of": "mcp__remand"},
        {"SCRIPTED_KEY": "none"},
        {".codex/config.toml": CODEX_CONFIG},
        {},
    ),
    "gemini": like_the_cli(
        "gemini",
        use("mcp_remand_standing"),
        {
            ".gemini/settings.json": '// a note\n{"security": {"auth": {"selectedType": "gemini-api-key"}},'
            '"privacy": {"usageStatisticsEnabled": false},'
            '"hooks": {"AfterAgent": [{"hooks": [{"type": "command", "command": "TOUCH"}]}]}}'
        },
    ),
    "qwen": like_the_cli(
        "qwen",
        use("mcp__remand__standing"),
        {
            ".qwen/settings.json": '{"security": {"auth": {"selectedType": "openai"}},'
            '"privacy": {"usageStatisticsEnabled": false},'
            '"hooks": {"Stop": [{"hooks": [{"type": "command", "command": "TOUCH"}]}]}}'
        },
    ),
    "copilot": like_the_cli("copilot", use("remand-standing"), {}),
}


class Stage:
    """A worktree, a user's home, a home of the agent's own, and a program of ours that keeps what it is told."""

    def __init__(self, folder: Path, host: str, *, is_confined: bool) -> None:
        self.folder, self.kind, self.host, self.is_confined = folder, KINDS[host], host, is_confined
        self.project, self.home, self.other_home = (folder / name for name in ("project", "home", "other"))
        for made in (self.project, self.home, self.other_home, folder / "heard", folder / "answers"):
            made.mkdir()
        self.program = folder / "remand"
        self.program.write_text(OWN.format(python=sys.executable))
        self.program.chmod(0o755)
        self.touched = folder / "touched"
        self.settings = {
            str(self.home / path): text.replace("TOUCH", f"touch {self.touched}").replace(
                "{folder}", str(self.project)
            )
            for path, text in {**self.kind.settings, **self.kind.hook}.items()
        }
        for path, text in self.settings.items():
            Path(path).parent.mkdir(parents=True)
            Path(path).write_text(text)
        self.git("init", "-q")
        self.fitting = HostLauncher(
            folder=str(folder / "runs"),
            program=str(self.program),
            home=str(self.home),
            surroundings={**self.kind.variables, "UNRELATED_SECRET": "x"},
            is_confined=is_confined,
        )

    def git(self, *words: str) -> str:
        """Runs git in the worktree."""
        done = subprocess.run(["git", *words], cwd=self.project, capture_output=True, text=True, check=True)
        return done.stdout

    def block_once(self) -> None:
        """Has the first stop sent back."""
        module = load_host(self.host)
        assert module is not None
        (self.folder / "answers" / "stop").write_text(module.render("stop", HookAnswer.block(REASON))[0])

    def run(self, *script: dict[str, Any], more: Sequence[str] = ()) -> tuple[Told, Read]:
        """Runs the host as fitted out; gives what passed between it and its model, and what its output tells."""
        command = (*self.kind.command(), *more)
        fitted = self.fitting.launch_config(command, "RUN-1", PROMPT)
        told = run_agent(
            fitted.command,
            self.project,
            self.other_home if self.is_confined else self.home,
            script=script,
            environment=self.environment(fitted),
            files=self.settings,
            prompt="" if fitted.has_prompt else PROMPT,
        )
        return told, self.fitting.parse_result(command, told.out)

    def environment(self, fitted: LaunchConfig) -> Mapping[str, str]:
        """What the host is started with."""
        path = os.pathsep.join([*map(os.path.dirname, fitted.command[:1]), "/usr/bin", "/bin"])
        return {**fitted.environment, **IDENTITY, "PATH": path}

    def heard(self) -> list[tuple[str, dict[str, Any]]]:
        """What our program was called for, in order, with what it was told and whose it was."""
        kept = sorted((self.folder / "heard").iterdir())
        return [(path.name.partition(".")[2], json.loads(path.read_text())) for path in kept]

    def user_files(self) -> dict[str, bytes]:
        """Every file in the user's home."""
        return {str(path): path.read_bytes() for path in self.home.rglob("*") if path.is_file()}

"""A real agent decides on a rejection, set up by the one line that `remand init` offers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from remand.domain.hosts import DIRECTOR_COMMANDS
from tests.acceptance.real_agents.agents import (
    CLAUDE,
    CLIS,
    CODEX,
    CODEX_CONFIG,
    GEMINI,
    NODE,
    QUIET,
    QWEN,
    found,
    run_agent,
    say,
)
from tests.acceptance.real_agents.endpoint import HERE
from tests.integration.machine import REMAND, Machine
from tests.support.rejection_records import SCOPE, TITLE, a_rejection

pytestmark = pytest.mark.more

PROGRAMS = {"claude": (CLAUDE,), "codex": (CODEX,), "gemini": (NODE, GEMINI), "qwen": (NODE, QWEN)}
VARIABLES = {
    "claude": {**QUIET, "ANTHROPIC_BASE_URL": HERE, "ANTHROPIC_API_KEY": "none"},
    "codex": {"SCRIPTED_KEY": "none"},
    "gemini": CLIS["gemini"].variables,
    "qwen": CLIS["qwen"].variables,
}
SETTINGS = {
    "claude": {},
    "codex": {".codex/config.toml": CODEX_CONFIG.replace("{{", "{").replace("}}", "}")},
    "gemini": CLIS["gemini"].settings,
    "qwen": CLIS["qwen"].settings,
}
DECISION = {"decision_type": "ACCEPT_AND_DEFER", "rationale": "The service is down, as its log shows"}


@pytest.mark.parametrize("host", DIRECTOR_COMMANDS)
def test_a_host_directs_by_the_one_line_that_init_offers(host: str, machine: Machine, tmp_path: Path) -> None:
    program = tmp_path / host
    words = " ".join(f'"{found(pattern)}"' for pattern in PROGRAMS[host])
    program.write_text(f'#!/bin/sh\nexec {words} "$@"\n')
    program.chmod(0o755)
    repository = machine.repository(config=f"[gates]\n[policy]\ndirector = {DIRECTOR_COMMANDS[host]}\n")
    task = repository.add(TITLE, "--scope", SCOPE)
    handoff = repository.ok("task", "claim", task, "--agent", "Fenster")["handoff_id"]
    record = tmp_path / "record.json"
    record.write_text(json.dumps(a_rejection()))
    waiting = repository.ok("handoff", "reject", handoff, "--agent", "Fenster", "--from", str(record))
    assert waiting["decision"] is None, "its own process finds no such program on the system's PATH"
    files = {
        str(machine.home / path): text.replace("{folder}", str(repository.path))
        for path, text in SETTINGS[host].items()
    }
    for path in files:
        Path(path).parent.mkdir(exist_ok=True)

    told = run_agent(
        [REMAND, "handoff", "consult", handoff, "--json"],
        repository.path,
        machine.home,
        script=[say(f"```json\n{json.dumps(DECISION)}\n```")],
        environment=machine.environment
        | dict(VARIABLES[host])
        | {"PATH": f"{tmp_path}:/usr/local/bin:/usr/bin:/bin"},
        files=files,
    )

    answer = json.loads(told.out)
    assert answer["decision"] is not None, answer.get("note")
    assert answer["decision"]["rationale"] == DECISION["rationale"]
    assert answer["status"] == "deferred"
    assert "Is the blocker trivial" in told.request(0), "the model was told by what to judge"

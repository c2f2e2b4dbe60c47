"""The plugin for Claude Code says what the code does."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

from remand.adapters.hosts import claude, settings
from remand.interfaces.cli.registry import COMMANDS
from remand.startup import VERSION
from tests.acceptance.real_agents.agents import CLAUDE, found, namespace

ROOT = Path(__file__).parents[2]
PLUGIN = ROOT / "plugins" / "claude-code"
SKILLS = sorted(path.parent for path in PLUGIN.glob("skills/*/SKILL.md"))
KEYS = {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
"""What the open format of skills knows."""
CLAUDES_KEYS = {"argument-hint", "disable-model-invocation"}


def loaded(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def front_matter(skill: Path) -> dict[str, str]:
    _, rows, _ = (skill / "SKILL.md").read_text(encoding="utf-8").split("---\n", 2)
    return dict(row.split(": ", 1) for row in rows.splitlines())


def test_the_plugin_has_the_version_of_the_package() -> None:
    (listed,) = loaded(ROOT / ".claude-plugin" / "marketplace.json")["plugins"]
    plugin = loaded(PLUGIN / ".claude-plugin" / "plugin.json")

    package = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert {listed["version"], plugin["version"], VERSION} == {package["version"]}
    assert (ROOT / listed["source"]).resolve() == PLUGIN
    assert (listed["name"], listed["description"]) == (plugin["name"], plugin["description"])


def test_the_plugin_has_the_hooks_that_init_installs() -> None:
    installed = json.loads(settings.install_hooks(claude.SETUP, None, ["remand"]))

    assert loaded(PLUGIN / "hooks" / "hooks.json")["hooks"] == installed["hooks"]


def test_the_plugin_has_the_server_that_init_installs() -> None:
    installed = settings.install_server(claude.SETUP.server, None, "remand")

    assert loaded(PLUGIN / ".mcp.json") == json.loads(installed)


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.name)
def test_a_skill_keeps_to_the_open_format(skill: Path) -> None:
    told = front_matter(skill)

    assert told["name"] == skill.name
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", skill.name)
    assert 0 < len(told["description"]) <= 1024
    assert set(told) <= KEYS | CLAUDES_KEYS


@pytest.mark.parametrize("skill", SKILLS, ids=lambda path: path.name)
def test_a_skill_names_commands_that_are_there(skill: Path) -> None:
    text = (skill / "SKILL.md").read_text(encoding="utf-8")
    called = re.findall(r"`remand ((?:[a-z-]+ ?)+)", text)

    assert called
    for words in called:
        assert any(" ".join(words.split()[:count]) in COMMANDS for count in (1, 2)), words


def test_an_agent_may_reject_its_handoff_and_a_reviewer_a_task() -> None:
    assert {skill.name for skill in SKILLS} == {"done", "feedback", "reject-handoff", "reject-task"}
    assert "remand handoff reject" in (PLUGIN / "skills" / "reject-handoff" / "SKILL.md").read_text()
    assert "remand reject-task" in (PLUGIN / "skills" / "reject-task" / "SKILL.md").read_text()


def test_only_the_user_starts_a_review() -> None:
    assert front_matter(PLUGIN / "skills" / "reject-task")["disable-model-invocation"] == "true"


@pytest.mark.more
@pytest.mark.parametrize("path", [ROOT, PLUGIN], ids=["marketplace", "plugin"])
def test_claude_code_finds_nothing_wrong_with_it(path: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [*namespace(), found(CLAUDE), "plugin", "validate", "--strict", str(path)],
        env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr

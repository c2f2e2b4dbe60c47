"""The README as a newcomer follows it: the wheel alone in an empty environment, every call as printed, every example."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from remand.config import parse
from remand.domain.access.team import Role
from tests.acceptance.pages import Reader, blocks, check
from tests.acceptance.wheel import ROOT
from tests.integration.machine import Machine

README = (ROOT / "README.md").read_text(encoding="utf-8")
FIVE_MINUTES = README.partition("## Five minutes")[2].partition("\n## ")[0]
REJECTION = (
    (ROOT / "docs" / "rejections.md").read_text(encoding="utf-8").partition("## A complete example")[2]
)


@pytest.fixture
def newcomer(machine: Machine, installed: Path) -> Reader:
    return Reader(machine, installed)


def test_the_wheel_works_alone_in_a_clean_environment(newcomer: Reader, installed: Path) -> None:
    where = newcomer.types('python -c "import remand; print(remand.__file__)"').strip()
    assert where.startswith(str(installed.parent)), "what is tested is the wheel"
    missing = newcomer.types("python -c 'import pytest, hypothesis, apprise'")
    assert "ModuleNotFoundError" in missing, "nothing but what the wheel asks for is there"

    version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    assert version in newcomer.types("remand --version")
    hello = '{"jsonrpc": "2.0", "id": 1, "method": "ping"}'
    assert '"result":{}' in newcomer.types(f"echo '{hello}' | remand mcp"), "the server needs no extra"


# ------------------------------------------------------------------------------------------------- examples


def test_the_five_minutes_of_the_readme_go_as_they_are_printed(newcomer: Reader) -> None:
    told = newcomer.follows(blocks("console", FIVE_MINUTES)[0])

    assert len(told) > 10
    check(told)


def test_the_whole_rejection_of_the_docs_is_accepted_and_decomposes_its_task(newcomer: Reader) -> None:
    newcomer.types("remand init && git add -A && git commit -qm 'Set up Remand'")
    (record,) = blocks("json", REJECTION)
    (newcomer.folder / "rejection.json").write_text(record, encoding="utf-8")

    told = newcomer.follows(blocks("console", REJECTION)[0])

    check(told)
    (accepted,) = [answer for call, (answer, _) in told.items() if "--from rejection.json" in call]
    assert "ACCEPT_AND_DECOMPOSE" in accepted
    statuses = [row["status"] for row in json.loads(newcomer.types("remand --json task list"))]
    assert sorted(statuses) == ["decomposed", *["incoming"] * len(json.loads(record)["alternative_tasks"])]


@pytest.mark.parametrize("block", blocks("toml", README))
def test_every_remand_toml_in_the_readme_is_valid(block: str) -> None:
    assert parse(block).team


def test_the_agents_of_the_readme_may_edit_files_without_being_asked() -> None:
    members = [member for block in blocks("toml", README) for member in parse(block).team]
    workers = [member.command for member in members if Role.AGENT in member.roles and member.command]

    assert {command[0] for command in workers} == {"claude", "codex"}
    assert all({"--permission-mode", "--sandbox"} & {*command} for command in workers)


def test_the_readme_says_how_to_install_upgrade_and_uninstall() -> None:
    section = README.partition("## Install")[2].partition("\n## ")[0]

    for words in ("uv tool install .", "pipx install .", "bubblewrap", "uninstall", "git+"):
        assert words in section

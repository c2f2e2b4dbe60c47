"""The README's five minutes: every call as it is printed there, and what it answers."""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path

from tests.integration.machine import PATIENCE, Machine, Repository

README = Path(__file__).parents[2] / "README.md"
_NAMES = re.compile(
    r"[TH]-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}|T-…|[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"
)


def printed() -> list[tuple[str, list[str]]]:
    """The calls of the first block, each with the lines that are printed below it."""
    block = README.read_text(encoding="utf-8").partition("## Five minutes")[2].split("```")[1]
    calls: list[tuple[str, list[str]]] = []
    for line in block.splitlines()[1:]:
        if line.startswith("$ "):
            calls.append((line[2:], []))
        else:
            calls[-1][1].append(line)
    return calls


def answered(repository: Repository, call: str) -> str:
    """What a call answers, with every name that is made anew left out."""
    words = shlex.split(call, comments=True)
    if words[0] == "remand":
        said = repository.people(*words[1:])
        return _NAMES.sub("…", said.out + said.err)
    environment = repository.machine.environment
    subprocess.run(["sh", "-c", call], cwd=repository.path, env=environment, check=True, timeout=PATIENCE)
    return ""


def test_the_five_minutes_of_the_readme_go_as_they_are_printed(machine: Machine) -> None:
    repository = machine.repository(config=None)
    told = {call: (answered(repository, call), lines) for call, lines in printed()}

    assert len(told) > 10
    for call, (answer, lines) in told.items():
        for line in filter(lambda line: line != "…", lines):
            assert _NAMES.sub("…", line).removesuffix("…").rstrip() in answer, call
        assert ("refused (" in answer) == any(line.startswith("refused (") for line in lines), call

"""Holds what is told of the logs of runs: the last line, when it was written, and that old ones go."""

import json
import os
from datetime import datetime
from pathlib import Path

import pytest

from remand.adapters.hosts.launcher import find_words
from remand.adapters.system.scheduler_files import MANY, RunLogs
from remand.app.scheduler.chores import last_sign
from remand.app.scheduler.ports import SchedulerStatus, encode_status
from remand.domain.instant import format_instant
from remand.testing.builders import LATER, NOW

RUN = "RUN-20261115-090000-00000001"


class Kept:
    """A file in memory."""

    def __init__(self, content: bytes | None) -> None:
        self.content = content

    def read(self) -> bytes | None:
        return self.content

    def write(self, content: bytes) -> bool:
        self.content = content
        return True


@pytest.fixture
def logs(tmp_path: Path) -> RunLogs:
    return RunLogs(str(tmp_path))


def said(logs: RunLogs, text: str, at: str = NOW) -> None:
    path = Path(logs.path(RUN))
    path.write_text(text)
    os.utime(path, (datetime.fromisoformat(at).timestamp(),) * 2)


def test_the_last_line_is_told_as_it_changes(logs: RunLogs) -> None:
    assert logs.last_line(RUN) == ""
    said(logs, "begun\n\x1b[31mtests\n\n")
    assert logs.last_line(RUN) == "[31mtests"
    said(logs, "begun\ntests\nall fixed\n")
    assert logs.last_line(RUN) == "all fixed"
    said(logs, "begun\ntests\nall broken", at=LATER)
    assert logs.last_line(RUN) == "all broken", "as long as before, and later"


SPOKEN = "Looking.\nAll done, every test passes."
HOSTS_WORDS = {
    "claude": {"type": "assistant", "message": {"id": "m", "content": [{"type": "text", "text": SPOKEN}]}},
    "codex": {"type": "item.completed", "item": {"type": "agent_message", "text": SPOKEN}},
    "gemini": {"type": "message", "role": "assistant", "content": SPOKEN, "delta": True},
    "copilot": {"type": "assistant.message", "data": {"content": SPOKEN}},
    "openhands": {"source": "agent", "llm_message": {"content": [{"type": "text", "text": SPOKEN}]}},
}
BESIDES = {
    "claude": {"type": "user", "message": {"content": [{"type": "tool_result", "content": "x" * 5000}]}},
    "codex": {"type": "item.completed", "item": {"type": "command_execution", "command": "ls"}},
    "gemini": {"type": "init", "session_id": "s"},
    "copilot": {"type": "tool.execution_start", "data": {"toolName": "bash"}},
    "openhands": {"source": "environment", "observation": {"content": []}},
}


@pytest.mark.parametrize("host", HOSTS_WORDS)
def test_what_an_agent_said_is_told_and_not_its_hosts_json(host: str, tmp_path: Path) -> None:
    logs = RunLogs(str(tmp_path), find_words)
    spoken, besides = json.dumps(HOSTS_WORDS[host]), json.dumps(BESIDES[host])
    said(logs, f"{besides}\n")
    assert logs.last_line(RUN) == ""
    said(logs, f"{besides}\n{spoken}\n")
    assert logs.last_line(RUN) == "All done, every test passes."
    if host != "gemini":  # whose messages come in pieces, the last of which counts
        said(logs, f"{spoken}\n{besides}\n" * 2)
        assert logs.last_line(RUN) == "All done, every test passes."
    said(logs, f'{spoken}\n{{"type": "long", "text": "{"x" * 100_000}"}}\n')
    assert logs.last_line(RUN) == "All done, every test passes.", "it is the last that was heard"
    said(logs, f"{spoken}\nError: no credit\n")
    assert logs.last_line(RUN) == "Error: no credit"


def test_of_very_many_the_oldest_are_removed(logs: RunLogs, tmp_path: Path) -> None:
    for number in range(MANY + 3):
        (tmp_path / f"RUN-{number:06}.log").touch()

    logs.thin_out()

    assert len(os.listdir(tmp_path)) == MANY
    assert not (tmp_path / "RUN-000002.log").exists()


def test_a_run_lived_as_long_as_its_scheduler_or_itself_was_heard_of(logs: RunLogs) -> None:
    status = encode_status(SchedulerStatus(pid=77, started_at=NOW, tick_at=NOW))

    assert last_sign(Kept(None), logs, RUN) == "", "nothing is known"
    assert last_sign(Kept(status), logs, RUN) == NOW
    said(logs, "begun\n", at=LATER)
    assert last_sign(Kept(status), logs, RUN) == format_instant(datetime.fromisoformat(LATER))
    assert last_sign(Kept(b"torn"), logs, RUN) == ""

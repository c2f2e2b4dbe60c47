"""The `[records]` table: folders inside the repository, each kind of file in its own."""

from __future__ import annotations

import pytest

from remand import config


def parsed(rows: str) -> config.RecordSettings:
    return config.parse(f"[records]\n{rows}").records


def test_without_a_table_the_files_lie_beside_the_ledger() -> None:
    found = config.parse("").records

    assert (found.orchestration_log, found.messages, found.tasks) == (
        ".got/orchestration-log",
        ".got/messages",
        ".got/tasks",
    )


def test_each_folder_may_be_named() -> None:
    assert parsed('orchestration_log = ".ai-team/orchestration-log/"').orchestration_log == (
        ".ai-team/orchestration-log"
    )
    assert parsed('messages = ".orchestrator/messages"').messages == ".orchestrator/messages"


@pytest.mark.parametrize(
    "folder",
    ["", "/etc", "../out", "a/../b", "a//b", ".", ".git/hooks", ".got", ".got/events", "a\\b", "a\\u0000b"],
)
def test_a_folder_outside_the_repository_or_with_other_things_is_refused(folder: str) -> None:
    with pytest.raises(config.ConfigError, match=r"records\.tasks"):
        parsed(f'tasks = "{folder.replace(chr(92) + "b", chr(92) * 2 + "b")}"')


def test_two_kinds_of_files_in_one_folder_are_refused() -> None:
    with pytest.raises(config.ConfigError, match="twice"):
        parsed('tasks = "notes"\nmessages = "notes"')


def test_an_unknown_key_is_named_with_its_remedy() -> None:
    with pytest.raises(config.ConfigError, match="did you mean `messages`"):
        parsed('message = "x"')

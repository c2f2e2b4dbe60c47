"""What is looked at before a coordinator is started behind a command, and what it is given."""

from __future__ import annotations

import os
import resource
import subprocess
from pathlib import Path

import pytest

from remand.adapters.coordinator import background_start
from remand.adapters.coordinator.background_start import (
    collect_facts,
    find_network_file_system,
    fresh_environment,
    start_in_background,
)
from remand.adapters.system.folders import LedgerFolders

MOUNTS = rb"""22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /home rw - nfs4 server:/home rw
41 40 0:36 / /home/local\040disk rw - xfs /dev/sdb1 rw
42 22 0:37 / /mnt/c rw - 9p C:\134 rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/srv/repo/.got", ""),
        ("/home/alice/repo/.got", "nfs4"),
        ("/home/local disk/repo/.got", ""),
        ("/homes/repo/.got", ""),
        ("/mnt/c/repo/.got", "9p"),
    ],
)
def test_the_file_system_is_that_of_the_nearest_mount(folder: str, kind: str) -> None:
    assert find_network_file_system(folder, MOUNTS) == kind


def test_an_agents_variables_and_those_of_ci_are_named(tmp_path: Path) -> None:
    assert collect_facts({"CLAUDECODE": "1"}, str(tmp_path)).agent == "CLAUDECODE"
    assert collect_facts({"CI": "true"}, str(tmp_path)).ci == "CI"


@pytest.mark.parametrize("value", ["", "0", "false", "False"])
def test_a_variable_that_says_no_is_not_ci(tmp_path: Path, value: str) -> None:
    assert not collect_facts({"CI": value}, str(tmp_path)).ci


def test_a_folder_of_another_user_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getuid", lambda: os.stat(tmp_path).st_uid + 1)

    assert collect_facts({}, str(tmp_path)).owner == str(tmp_path)


def test_a_hard_limit_is_named_and_a_soft_one_is_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = dict.fromkeys((resource.RLIMIT_CPU, resource.RLIMIT_AS), (10, resource.RLIM_INFINITY))
    limits |= dict.fromkeys((resource.RLIMIT_FSIZE, resource.RLIMIT_DATA), (10, resource.RLIM_INFINITY))
    monkeypatch.setattr(resource, "getrlimit", limits.__getitem__)
    assert not collect_facts({}, str(tmp_path)).limit

    limits[resource.RLIMIT_FSIZE] = (10, 10)
    assert collect_facts({}, str(tmp_path)).limit == "file size"


def test_a_fresh_environment_has_places_and_no_secret() -> None:
    given = {"HOME": "/home/a", "PATH": "/bin", "LC_ALL": "C", "XDG_STATE_HOME": "/s", "TZ": "UTC"}
    secret = {"GITHUB_TOKEN": "t", "ANTHROPIC_API_KEY": "k", "REMAND_TASK": "T", "SSH_AUTH_SOCK": "/s"}
    loading = {"PYTHONPATH": "/evil", "LD_PRELOAD": "/evil.so", "GIT_DIR": "/evil"}

    assert fresh_environment(given | secret | loading) == given


def test_a_start_that_has_just_failed_is_not_repeated_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[object] = []
    monkeypatch.setattr(subprocess, "Popen", lambda *given, **_: started.append(given))
    socket, log = str(tmp_path / "socket"), tmp_path / "log"
    assert start_in_background(socket, str(log), "/", {})

    log.write_text("Traceback …\nModuleNotFoundError: No module named 'remand'\n")
    assert not start_in_background(socket, str(log), "/", {})
    assert "ModuleNotFoundError" in background_start.last_failure(str(log))

    os.utime(log, (0, 0))
    assert start_in_background(socket, str(log), "/", {})
    assert len(started) == 2


def test_calls_go_to_a_coordinator_of_the_same_version_and_keys_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", "/one")
    one = LedgerFolders("ledger").socket
    assert LedgerFolders("ledger").socket == one

    monkeypatch.setenv("XDG_STATE_HOME", "/other")
    assert LedgerFolders("ledger").socket != one

    monkeypatch.setenv("XDG_STATE_HOME", "/one")
    monkeypatch.setattr("remand.adapters.system.folders.VERSION", "9.9.9")
    assert LedgerFolders("ledger").socket != one

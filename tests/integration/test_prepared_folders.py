"""Prepared folders: whole or made anew, few, and never taken from under a gate."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from remand.app.gates.preparation import PreparedFolders

Campaign = Callable[[int, int], int]
NOBODY = 65534
PARTS = 20


def fill(folder: str) -> None:
    """Fills a folder; it is whole when all parts are there."""
    for part in range(PARTS):
        Path(folder, f"part-{part}").write_text("x")


def is_whole(folder: str) -> bool:
    """True when nothing of a folder is missing."""
    return len(os.listdir(folder)) == PARTS


def used(folders: PreparedFolders, root: Path, name: str, when: float = 0.0) -> None:
    """Uses a folder once, at a time."""
    with folders.lend(name, fill) as folder:
        assert is_whole(folder)
    if when:
        os.utime(root / f"{name}.done", (when, when))


def kept(root: Path) -> set[str]:
    """The folders that are there."""
    return {path.name for path in root.iterdir() if path.is_dir()}


def test_those_that_were_not_used_for_longest_are_removed(tmp_path: Path) -> None:
    folders = PreparedFolders(str(tmp_path), kept=2)
    for when, name in enumerate("abc", start=1000):
        used(folders, tmp_path, name, when)
    assert kept(tmp_path) == {"b", "c"}
    used(folders, tmp_path, "b", 2000)

    used(folders, tmp_path, "d")

    assert kept(tmp_path) == {"b", "d"}
    assert {path.name for path in tmp_path.iterdir()} == {
        name + end for name in "bd" for end in ("", ".done", ".lock")
    }


def test_one_in_use_stays_however_old_it_is(tmp_path: Path) -> None:
    folders = PreparedFolders(str(tmp_path), kept=1)
    with folders.lend("a", fill) as folder:
        os.utime(tmp_path / "a.done", (1, 1))
        used(folders, tmp_path, "b", 1000)
        used(folders, tmp_path, "c", 2000)
        assert is_whole(folder)
        assert kept(tmp_path) == {"a", "c"}

    used(folders, tmp_path, "d")
    assert kept(tmp_path) == {"d"}


def test_one_that_was_made_is_found_again(tmp_path: Path) -> None:
    used(PreparedFolders(str(tmp_path)), tmp_path, "a")

    def never(folder: str) -> None:
        raise AssertionError(folder)

    with PreparedFolders(str(tmp_path)).lend("a", never) as folder:
        assert is_whole(folder)


def test_nothing_is_left_of_one_that_could_not_be_made(tmp_path: Path) -> None:
    def fails(folder: str) -> None:
        Path(folder, "part-0").write_text("x")
        raise ValueError(folder)

    with pytest.raises(ValueError, match="a"), PreparedFolders(str(tmp_path)).lend("a", fails):
        pass

    assert kept(tmp_path) == set()
    used(PreparedFolders(str(tmp_path)), tmp_path, "a")


def test_what_a_step_leaves_does_not_make_it_done(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    folder.mkdir()
    for name in (".prepared", ".done", "a.done"):
        (folder / name).touch()

    used(PreparedFolders(str(tmp_path)), tmp_path, "a")


def test_one_that_may_not_be_written_is_removed_all_the_same() -> None:
    root = Path(tempfile.mkdtemp(prefix="rmd-prepared-", dir="/tmp"))
    if os.geteuid() == 0:  # who may write everywhere
        os.chown(root, NOBODY, NOBODY)
    child = os.fork()
    if not child:
        code = 1
        try:
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            code = _removes_what_is_sealed(root)
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    shutil.rmtree(root)

    assert os.waitstatus_to_exitcode(status) == 0


def _removes_what_is_sealed(root: Path) -> int:
    def sealed(folder: str) -> None:
        os.makedirs(f"{folder}/deep/er")
        os.symlink("/", f"{folder}/deep/link")
        for path in (f"{folder}/deep/er", f"{folder}/deep", folder):
            os.chmod(path, 0o500)

    folders = PreparedFolders(str(root), kept=1)
    with folders.lend("a", sealed):
        os.utime(root / "a.done", (1, 1))
    used(folders, root, "b")
    return 0 if kept(root) == {"b"} else 2


def test_many_at_once_never_find_less_than_all_of_one(tmp_path: Path, campaign: Campaign) -> None:
    faults: list[str] = []

    def work(seed: int) -> None:
        folders = PreparedFolders(str(tmp_path), kept=1)
        for number in range(campaign(15, 500)):
            with folders.lend(f"{(seed * 7 + number) % 4}", fill) as folder:
                faults.extend([] if is_whole(folder) else [folder])

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert faults == []


def test_one_that_was_half_removed_is_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = PreparedFolders(str(tmp_path), kept=1)
    used(folders, tmp_path, "a", 1000)

    def killed(folder: str, *, ignore_errors: bool) -> None:
        Path(folder, "part-0").unlink()
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(shutil, "rmtree", killed)
        with pytest.raises(KeyboardInterrupt):
            used(folders, tmp_path, "b")

    used(folders, tmp_path, "a")


USER = """
import itertools, sys
sys.path.insert(0, sys.argv[1])
from tests.integration.test_prepared_folders import PreparedFolders, fill
folders = PreparedFolders(sys.argv[2], kept=1)
print("begun", flush=True)
for number in itertools.count():
    with folders.lend(str(number % 3), fill):
        pass
"""


def test_one_whose_maker_or_remover_was_killed_is_whole_again(tmp_path: Path, campaign: Campaign) -> None:
    command = [sys.executable, "-c", USER, str(Path(__file__).parents[2]), str(tmp_path)]
    for number in range(campaign(3, 100)):
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as user:
            assert user.stdout is not None
            assert user.stdout.readline() == "begun\n"
            time.sleep(number * 0.0137 % 0.1)
            user.send_signal(signal.SIGKILL)
        for name in "012":
            used(PreparedFolders(str(tmp_path), kept=3), tmp_path, name)

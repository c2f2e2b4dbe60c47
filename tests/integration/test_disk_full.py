"""A full disk: a command is done whole or refused whole, and everything goes on once there is room again."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from pathlib import Path

import pytest

from tests.integration.machine import PATIENCE, Machine, Repository, Said

pytestmark = pytest.mark.timeout(1200)

KB = 1024
DISK = 6 * KB * KB


class Disk:
    """A small disk of its own, filled by a file as far as is wanted."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._filler = path / "filler"
        path.mkdir()
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={DISK}", "tmpfs", str(path)],
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )

    def leave(self, size: int) -> None:
        """Fills the disk until just so much is free."""
        self.empty()
        status = os.statvfs(self.path)
        with self._filler.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, max(status.f_bavail * status.f_frsize - size, 1))

    def empty(self) -> None:
        """Makes room again."""
        self._filler.unlink(missing_ok=True)

    def close(self) -> None:
        """Takes the disk away."""
        subprocess.run(["umount", "-l", str(self.path)], check=False, capture_output=True, timeout=PATIENCE)


@pytest.fixture
def disk(machine: Machine) -> Iterator[Disk]:
    """A small disk; only root can have one."""
    if os.getuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk to fill")
    try:
        made = Disk(machine.folder / "disk")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no small disk can be mounted here: {error.stderr.decode().strip()}")
    yield made
    made.close()


def on_disk(machine: Machine, disk: Disk, name: str = "repo") -> Repository:
    """A repository with all its state on the small disk."""
    made = machine.repository(f"disk/{name}")
    (disk.path / "state").mkdir(exist_ok=True)
    machine.environment["XDG_STATE_HOME"] = str(disk.path / "state")
    return made


def check_whole_or_refused(said: Said, what: str) -> bool:
    """True when it was done; what was not done says why, and nothing else."""
    assert said.code in (0, 3), f"{what}: {said}"
    assert "Traceback" not in said.err, f"{what}: {said}"
    if said.code == 3:
        message = said.data["message"].lower()
        assert "space" in message or "full" in message, f"{what}: {said}"
        assert "move it away" not in message, f"{what}: a full disk is no reason to move the ledger away"
    return said.code == 0


def check_no_partial_line(repository: Repository, what: str) -> None:
    """Every line of every event file is whole."""
    for path in repository.segments():
        content = path.read_bytes()
        assert content.endswith(b"\n") or not content, f"{what}: {path.name} ends within a line"
        for line in content.split(b"\n")[:-1]:
            assert json.loads(line)["meta"]["session"], what


@pytest.mark.parametrize("has_coordinator", [False, True], ids=["alone", "coordinator"])
def test_every_command_is_done_whole_or_refused_whole(
    machine: Machine, disk: Disk, campaign: Callable[[int, int], int], has_coordinator: bool
) -> None:
    repository = on_disk(machine, disk)
    titles = {repository.add("before"): "before"}
    with repository.coordinator() if has_coordinator else nullcontext():
        was_refused = False
        for free in range(64 * KB, -1, -campaign(16, 4) * KB):
            disk.leave(free)
            was_refused |= fill_up(repository, titles, free)
            check_no_partial_line(repository, f"{free} bytes free")
            disk.empty()
            task = repository.add(f"room again after {free}")
            titles[task] = f"room again after {free}"
            listed = {row["task_id"]: row["title"] for row in repository.ok("task", "list")}
            assert listed == titles, f"{free} bytes free: what was refused is not there, all else is"
            assert repository.verify() == []
            repository.check_log()
    assert was_refused, "the disk was full at some time"
    before = repository.digest()
    repository.forget_ledger()
    assert repository.digest() == before


def fill_up(repository: Repository, titles: dict[str, str], free: int) -> bool:
    """Adds large tasks until there is no room; True when one was refused."""
    for number in range(40):
        title = f"{free} {number}"
        said = repository.call("task", "add", title, "--scope", "x" * 12000)
        if not check_whole_or_refused(said, f"{free} bytes free, task {number}"):
            listed = repository.call("task", "list")
            check_whole_or_refused(listed, f"{free} bytes free, list")
            return True
        titles[said.data["task_id"]] = title
    return False


def test_a_lifecycle_stands_still_on_a_full_disk_and_goes_on(
    machine: Machine, disk: Disk, campaign: Callable[[int, int], int]
) -> None:
    repository = on_disk(machine, disk)
    calls = (
        ("task", "claim", "TASK", "--agent", "Alice"),
        ("task", "submit", "TASK", "--agent", "Alice", "--commit", "HEAD"),
        ("review", "reject", "TASK", "--commit", "HEAD", "--finding", "a.py:1: " + "no " * 2000),
        ("log", "publish"),
    )
    for free in range(campaign(4, 16) * KB, -1, -campaign(8, 4) * KB):
        disk.empty()
        task = repository.add(f"at {free}")
        repository.ok("log", "publish")
        repository.git("switch", "-q", "-c", f"work-{free}")
        repository.commit(f"{free}.txt")
        for call in calls:
            words = [task if word == "TASK" else word for word in call]
            disk.leave(free)
            if not check_whole_or_refused(repository.call(*words), f"{free} bytes free: {call}"):
                check_no_partial_line(repository, f"{free} bytes free")
                disk.empty()
                repository.ok(*words)
        disk.empty()
        assert repository.ok("task", "show", task)["status"] == "rejected"
        assert repository.verify() == []
        repository.check_log()
        repository.ok("log", "publish")
        clone = machine.clone(repository, f"clone-{free}")
        assert clone.digest() == repository.digest()


@pytest.mark.parametrize("free", [0, 1, 2, 4, 8, 16, 28, 64])
def test_a_first_command_on_a_full_disk_spoils_nothing(machine: Machine, disk: Disk, free: int) -> None:
    repository = on_disk(machine, disk)
    disk.leave(free * 4 * KB)
    is_done = check_whole_or_refused(repository.call("task", "add", "first"), f"{free} blocks free")
    disk.empty()
    repository.add("second")
    assert len(repository.ok("task", "list")) == 1 + is_done
    assert repository.verify() == []
    repository.check_log()
    untracked = repository.git("status", "--porcelain", "--untracked-files=all").splitlines()
    assert not any("ledger" in row for row in untracked), "git is still kept from the ledger"

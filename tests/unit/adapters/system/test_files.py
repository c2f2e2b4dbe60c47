import os
import stat
from pathlib import Path

import pytest

from remand.adapters.system import files
from remand.adapters.system.files import (
    acquire_lock,
    atomic_write,
    claim_lock,
    hold_lock,
    is_locked,
    limit_lock_wait,
    lock_handle,
    note_progress,
    try_lock,
    unlock_handle,
)
from remand.app.errors import EnvironmentFault


def test_a_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_bytes(b"old and longer")

    atomic_write(str(path), b"new")

    assert path.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["file"]


def test_what_somebody_put_under_the_name_of_the_draft_is_never_opened(tmp_path: Path) -> None:
    path, draft, precious = tmp_path / "file", tmp_path / "draft", tmp_path / "precious"
    precious.write_bytes(b"mine")

    draft.symlink_to(precious)
    atomic_write(str(path), b"one", draft=str(draft))
    os.mkfifo(draft)
    atomic_write(str(path), b"two", draft=str(draft))

    assert (path.read_bytes(), precious.read_bytes()) == (b"two", b"mine")
    assert sorted(os.listdir(tmp_path)) == ["file", "precious"]


def test_a_link_is_replaced_and_not_followed(tmp_path: Path) -> None:
    path, precious = tmp_path / "file", tmp_path / "precious"
    precious.write_bytes(b"mine")
    path.symlink_to(precious)

    atomic_write(str(path), b"new")

    assert not path.is_symlink()
    assert precious.read_bytes() == b"mine"


def test_what_cannot_be_put_in_its_place_leaves_no_draft(tmp_path: Path) -> None:
    (tmp_path / "file" / "below").mkdir(parents=True)

    with pytest.raises(OSError, match="directory"):
        atomic_write(str(tmp_path / "file"), b"new")

    assert os.listdir(tmp_path) == ["file"]


def test_a_private_file_is_nobody_elses_at_any_time(tmp_path: Path) -> None:
    atomic_write(str(tmp_path / "file"), b"secret", mode=0o600)

    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o600


def test_a_lock_has_one_holder(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    with hold_lock(path), try_lock(path) as is_free:
        assert not is_free
        assert acquire_lock(path) == -1
    with try_lock(path) as is_free:
        assert is_free


def test_a_shared_lock_keeps_only_writers_away(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    first, second = acquire_lock(path, is_shared=True), acquire_lock(path, is_shared=True)
    assert second >= 0
    assert not lock_handle(first, waits=False)
    unlock_handle(second)
    assert lock_handle(first, waits=False)
    os.close(first)
    os.close(second)


def test_who_only_looks_at_a_lock_keeps_nobody_from_claiming_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    looking = [acquire_lock(path, is_shared=True)]

    def is_locked_and_released(path: str) -> bool:
        found = is_locked(path)
        os.close(looking.pop())
        return found

    monkeypatch.setattr(files, "is_locked", is_locked_and_released)

    held = claim_lock(path)

    assert held >= 0
    monkeypatch.undo()
    assert is_locked(path)
    assert claim_lock(path) < 0
    os.close(held)
    assert not is_locked(path)


def test_a_lock_file_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")

    with pytest.raises(OSError, match="symbolic links"):
        acquire_lock(str(tmp_path / "lock"))

    assert not (tmp_path / "elsewhere").exists()


def test_a_wait_for_a_lock_is_bounded_as_long_as_somebody_attends(tmp_path: Path) -> None:
    path = str(tmp_path / "lock")
    held = acquire_lock(path)
    os.utime(path, (0, 0))

    with limit_lock_wait(1, print), pytest.raises(EnvironmentFault, match="not released within 1 s"):
        acquire_lock(path, waits=True)

    os.close(held)


def test_a_lock_whose_holder_is_at_work_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "lock")
    held, shown = acquire_lock(path), list[str]()
    os.utime(path, (0, 0))
    file_status = os.fstat

    def look(handle: int) -> os.stat_result:
        """What who waits does when its time is up: until its second look, the holder shows progress; then it is done."""
        if len(shown) < 2 and os.path.samestat(file_status(handle), os.stat(path)):
            note_progress(held, "at work")
            if len(shown) == 2:
                os.close(held)
        return file_status(handle)

    monkeypatch.setattr(os, "fstat", look)
    with limit_lock_wait(1, shown.append):
        got = acquire_lock(path, waits=True)

    assert got >= 0
    assert shown == ["at work"] * 2
    os.close(got)

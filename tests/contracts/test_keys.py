"""Holds every way to have keys to the same contract, and the file on disk to its own."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remand.adapters.system.keys import FileKeys
from remand.app.errors import EnvironmentFault
from remand.app.ports import Keys, SignedClaim

pytest.register_assert_rewrite("remand.testing.signature_contract")

from remand.testing.fakes import FakeKeys  # noqa: E402 - only now are asserts explained
from remand.testing.signature_contract import KeysContract  # noqa: E402 - the same

MAKE = "import sys; from remand.adapters.system.keys import FileKeys; print(FileKeys(sys.argv[1]).ensure_key().entry)"


class TestFakeKeys(KeysContract):
    @pytest.fixture
    def keys(self) -> Keys:
        return FakeKeys("one")

    @pytest.fixture
    def others(self) -> Keys:
        return FakeKeys("two")


class TestFileKeys(KeysContract):
    @pytest.fixture
    def keys(self, tmp_path: Path) -> Keys:
        return FileKeys(str(tmp_path / "one"))

    @pytest.fixture
    def others(self, tmp_path: Path) -> Keys:
        return FileKeys(str(tmp_path / "two"))


def test_a_key_is_made_when_it_is_needed_and_not_before(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "keys"

    assert FileKeys(str(folder)).own() is None
    assert not folder.exists()
    FileKeys(str(folder)).sign(b"")
    assert FileKeys(str(folder)).own() is not None


def test_only_its_user_can_read_a_key(tmp_path: Path) -> None:
    folder = tmp_path / "state" / "keys"
    FileKeys(str(folder)).ensure_key()

    assert folder.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in folder.iterdir()] == ["machine.key"]
    assert (folder / "machine.key").stat().st_mode & 0o777 == 0o600


def test_processes_that_make_the_key_at_once_agree_on_one(tmp_path: Path) -> None:
    call = [sys.executable, "-c", MAKE, str(tmp_path / "keys")]
    processes = [subprocess.Popen(call, stdout=subprocess.PIPE, text=True) for _ in range(6)]

    said = {process.communicate(timeout=300)[0] for process in processes}

    assert len(said) == 1
    assert said.pop().startswith("ed25519:")
    assert os.listdir(tmp_path / "keys") == ["machine.key"]


def test_a_key_that_others_can_read_is_none(tmp_path: Path) -> None:
    FileKeys(str(tmp_path)).ensure_key()
    (tmp_path / "machine.key").chmod(0o644)

    with pytest.raises(EnvironmentFault, match="can be read by others"):
        FileKeys(str(tmp_path)).own()


@pytest.mark.parametrize("content", ["", "private x\ned25519:x\n", "\x00" * 100, "private AAAA\n"])
def test_a_damaged_key_is_said_with_what_to_do(tmp_path: Path, content: str) -> None:
    FileKeys(str(tmp_path)).ensure_key()
    (tmp_path / "machine.key").write_text(content)

    with pytest.raises(EnvironmentFault, match="damaged"):
        FileKeys(str(tmp_path)).sign(b"")


def test_a_key_whose_public_part_is_anothers_does_not_sign(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        FileKeys(str(folder)).ensure_key()
    private, _ = (one / "machine.key").read_text().splitlines()
    _, public = (two / "machine.key").read_text().splitlines()
    (one / "machine.key").write_text(f"{private}\n{public}\n")

    with pytest.raises(EnvironmentFault, match="damaged"):
        FileKeys(str(one)).sign(b"")


def test_a_link_is_no_key(tmp_path: Path) -> None:
    FileKeys(str(tmp_path / "real")).ensure_key()
    (tmp_path / "machine.key").symlink_to(tmp_path / "real" / "machine.key")

    with pytest.raises(EnvironmentFault, match="cannot be read"):
        FileKeys(str(tmp_path)).own()


def test_a_key_that_was_replaced_is_read_again(tmp_path: Path) -> None:
    keys = FileKeys(str(tmp_path))
    before = keys.ensure_key()
    (tmp_path / "machine.key").unlink()

    assert keys.own() is None
    assert keys.ensure_key() != before
    assert keys.verify([SignedClaim(keys.ensure_key().raw, b"x", keys.sign(b"x"))]) == [True]

"""Only plain files of bearable size are looked at."""

import os
from pathlib import Path

from remand.adapters.projects.project import MAX_BYTES, has_program, read_text


def test_odd_files_are_as_good_as_none(tmp_path: Path) -> None:
    (tmp_path / "plain").write_bytes(b"a\xff")
    (tmp_path / "large").write_bytes(bytes(MAX_BYTES + 1))
    (tmp_path / "link").symlink_to("plain")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()

    assert read_text(str(tmp_path), "plain") == "a\ufffd"
    assert [
        read_text(str(tmp_path), name) for name in ("large", "link", "pipe", "folder", "none", "nul\0")
    ] == [""] * 6
    (tmp_path / "program").touch(mode=0o755)
    assert has_program(str(tmp_path), "program")
    assert not has_program(str(tmp_path), "folder")
    assert not has_program(str(tmp_path), "plain")

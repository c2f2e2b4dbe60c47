"""Holds that packed event files are read like others, and that one which is damaged or a bomb is named and read no further."""

import tracemalloc
import zlib
from pathlib import Path

import pytest

from remand.adapters.stores.segments import Segments
from remand.ledger import codec
from remand.testing.fakes import FakeClock
from tests.support.fakes import CountingIds


class NothingTracked:
    """Git tracks nothing."""

    def file_stamp(self) -> object:
        return None

    def has(self, path: str) -> bool:
        return False


def read(folder: Path, content: bytes) -> list[tuple[int, bytes | str]]:
    path = folder / "a.gz.jsonl"
    path.write_bytes(content)
    segments = Segments([str(folder)], str(folder / "aside"), NothingTracked(), FakeClock(), CountingIds())
    assert [mark.path for mark in segments.files()] == [str(path)]
    assert segments.content(str(path)) == content
    return list(segments.read(str(path)))


def test_the_lines_of_a_packed_file_are_read(tmp_path: Path) -> None:
    lines = [b"x" * number for number in range(1, 3000)]
    content = b"".join(line + b"\n" for line in lines)

    assert read(tmp_path, codec.pack(content)) == list(enumerate(lines, 1))
    assert list(codec.split_lines(codec.pack(content))) == lines


def test_a_bomb_is_read_up_to_the_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(codec, "MAX_UNPACKED", 3 << 20)
    bomb = codec.pack((b"x" * 1000 + b"\n") * 50_000)

    found = read(tmp_path, bomb)

    assert found[-1] == (0, "unpacks to more than 3 MB, and is read no further")
    assert sum(len(line) for _, line in found) < 4 << 20
    assert list(codec.split_lines(bomb)) == []


@pytest.mark.parametrize(
    "content",
    [
        codec.pack(b"a\nb\n")[:-3],
        codec.pack(b"a\nb\n") + codec.pack(b"c\n"),
        codec.pack(b"a\nb\n")[:12] + b"\x00" * 9,
        b"\x1f\x8b",
        b"\x1f\x8b" + zlib.compress(b"a\n"),
    ],
    ids=["cut off", "two in one", "damaged", "begun", "of another kind"],
)
def test_a_damaged_packed_file_is_named(tmp_path: Path, content: bytes) -> None:
    assert "is packed and damaged" in str(read(tmp_path, content)[-1][1])
    assert list(codec.split_lines(content)) == []


@pytest.mark.parametrize(
    "line", [b"\n", b"x" * 1000 + b"\n", b"x"], ids=["blank lines", "equal lines", "one line"]
)
def test_a_packed_file_is_never_in_memory_whole(line: bytes) -> None:
    bomb = codec.pack(line * ((32 << 20) // len(line)))

    tracemalloc.start()
    try:
        distinct = set(codec.split_lines(bomb))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert distinct <= {line.strip()}
    assert peak < 16 << 20

"""Real sources of every language, damaged in every way that a file can be, are examined to their end."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest

from remand.integrity.comparison import MAX_TEXT, Comparison, FileDiff, build_file_diff
from remand.integrity.examination import examine
from tests.corpus.gaming.cases import corpus

Damage = Callable[[Random, bytes], bytes]
SIGNS = b"()[]{}<>'\"`\\#/*-+=!?:;,.@$%&|~^ \t\n\r\x00\xff\xc3\xed\xa0\x80"


def _place(random: Random, text: bytes) -> int:
    return random.randrange(len(text) + 1)


def _insert(random: Random, text: bytes, part: bytes) -> bytes:
    at = _place(random, text)
    return text[:at] + part + text[at:]


def _shuffle_lines(random: Random, text: bytes) -> bytes:
    lines = text.split(b"\n")
    random.shuffle(lines)
    return b"\n".join(lines)


def _join_halves(random: Random, text: bytes) -> bytes:
    return text[: _place(random, text)] + text[_place(random, text) :]


def _change_bytes(random: Random, text: bytes) -> bytes:
    changed = bytearray(text)
    for _ in range(min(len(changed), 20)):
        changed[random.randrange(len(changed))] = random.choice(SIGNS)
    return bytes(changed)


DAMAGES: dict[str, Damage] = {
    "truncated": lambda random, text: text[: _place(random, text)],
    "without its beginning": lambda random, text: text[_place(random, text) :],
    "joined from two parts": _join_halves,
    "with lines in another order": _shuffle_lines,
    "with other bytes": _change_bytes,
    "with random bytes": lambda random, text: _insert(random, text, random.randbytes(50)),
    "with brackets nested deeply": lambda random, text: _insert(
        random, text, random.choice([b"(", b"[", b"{", b"<", b"if (", b"f(() => {"]) * random.choice([150, 3_000])
    ),
    "with signs in a row": lambda random, text: _insert(
        random, text, random.choice([b"-", b"!", b"~", b"not ", b"*", b"\\", b"'", b'"""', b"`${"]) * 2_000
    ),
    "with a huge line": lambda random, text: _insert(
        random, text, random.choice([b"a", b"a.", b"a+", b" ", b"1,", b"'a',", b"#", b"//"]) * 30_000
    ),
    "with deep indentation": lambda random, text: b"\n".join(
        b" " * at + line for at, line in enumerate(text.split(b"\n")[:300])
    ),
    "not in UTF-8": lambda random, text: _insert(random, text, b"\xff\xfe\xed\xa0\x80\xc3"),
    "in another encoding": lambda random, text: text.decode("utf-8", "replace").encode("utf-16"),
    "with line ends of Windows": lambda random, text: text.replace(b"\n", b"\r\n"),
    "with other line ends": lambda random, text: text.replace(
        b"\n", random.choice([b"\r", b"\x0c\n", "\u2028".encode(), b"\x0b"])
    ),
    "with marks of byte order": lambda random, text: b"\xef\xbb\xbf" + _insert(random, text, b"\xef\xbb\xbf"),
    "with a NUL": lambda random, text: _insert(random, text, b"\0"),
    "with a late NUL": lambda random, text: text + b"\n" * 8_000 + b"\0",
    "with letters that look alike": lambda random, text: _insert(random, text, "\u202e\u0430\u200b\U0010ffff".encode()),
}  # fmt: skip


def _sources() -> dict[str, list[tuple[str, bytes]]]:
    """The texts of the corpus, by the ends of their names."""
    found: dict[str, list[tuple[str, bytes]]] = {}
    for case in corpus():
        for change in case.comparison.changes:
            text = change.after or change.before
            if text:
                end = change.path.rpartition("/")[2].rpartition(".")[2]
                found.setdefault(end, []).append((change.path, text.encode("utf-8", "replace")))
    return found


SOURCES = _sources()


def _damaged(random: Random, damage: Damage) -> FileDiff:
    path, text = random.choice(SOURCES[random.choice(sorted(SOURCES))])
    sides: list[bytes | None] = [text, damage(random, text)]
    if random.random() < 0.3:
        random.shuffle(sides)
    if random.random() < 0.1:
        sides[0] = None
    return build_file_diff("M" if sides[0] is not None else "A", path, *sides)


@pytest.mark.parametrize("kind", DAMAGES)
def test_a_damaged_source_is_examined(kind: str, campaign: Callable[[int, int], int]) -> None:
    random = Random(kind)
    for _ in range(campaign(12, 4_000)):
        change = _damaged(random, DAMAGES[kind])
        other = _damaged(random, random.choice(list(DAMAGES.values())))
        examine(Comparison(changes=(change,) if change.path == other.path else (change, other)))


def test_the_sources_are_of_every_language_that_is_read() -> None:
    assert {"py", "js", "ts", "go", "rs", "java", "yml", "toml", "json", "sh"} <= SOURCES.keys()


@pytest.mark.parametrize("end", sorted(SOURCES))
def test_a_file_of_ten_megabytes_is_examined(end: str) -> None:
    path, text = SOURCES[end][0]
    large = (text + b"\n") * (10 * MAX_TEXT // (len(text) + 1) + 1)

    examine(Comparison(changes=(build_file_diff("M", path, text, large),)))
    examine(Comparison(changes=(build_file_diff("M", path, large, text),)))


@pytest.mark.parametrize("end", sorted(SOURCES))
def test_a_source_many_times_over_is_examined(end: str) -> None:
    path, text = SOURCES[end][0]
    large = (text + b"\n") * (MAX_TEXT // 32 // (len(text) + 1))

    examine(Comparison(changes=(build_file_diff("M", path, text, large),)))

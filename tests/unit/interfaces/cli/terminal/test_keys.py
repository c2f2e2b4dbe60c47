"""Holds how keys are told apart, however the terminal cuts what it sends, and that a paste is no key."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.interfaces.cli.terminal.state import (
    BACKSPACE,
    DOWN,
    ENTER,
    ERASE_LINE,
    ERASE_WORD,
    ESCAPE,
    MAX_PENDING,
    UP,
    Keyboard,
    KeyPress,
)


def keys(*pieces: bytes) -> list[str]:
    keyboard = Keyboard()
    return [press.key for piece in pieces for press in keyboard.feed(piece)]


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"1gq?", ["1", "g", "q", "?"]),
        (b"\x1b[A\x1b[B", [UP, DOWN]),
        (b"\x1bOA\x1bOB", [UP, DOWN]),
        (b"\r\n\x7f\x08\x15\x17", [ENTER, ENTER, BACKSPACE, BACKSPACE, ERASE_LINE, ERASE_WORD]),
        ("ä€".encode(), ["ä", "€"]),
        (b"\x00\x01\xff", ["�"]),
        (b"\x1b[C\x1b[5~\x1b[1;5A\x1b[<0;3;4M\x1bOPx", ["x"]),
        (b"\x1bxy", ["y"]),
        (b"\x1b[1\x1b[A", [UP]),
    ],
    ids=["letters", "arrows", "application", "named", "utf8", "control", "unknown", "alt", "broken"],
)
def test_what_a_terminal_sends_is_taken_for_the_keys_it_stands_for(data: bytes, expected: list[str]) -> None:
    assert keys(data) == expected
    assert keys(*(bytes([byte]) for byte in data)) == expected


def test_an_escape_is_a_key_once_nothing_follows_it() -> None:
    keyboard = Keyboard()

    assert keyboard.feed(b"\x1b") == []
    assert keyboard.is_waiting
    assert keyboard.rest() == [KeyPress(ESCAPE)]
    assert not keyboard.is_waiting
    assert keyboard.rest() == []


def test_half_a_sequence_that_never_ends_is_no_key() -> None:
    keyboard = Keyboard()
    keyboard.feed(b"\x1b[1;")

    assert keyboard.rest() == []
    assert keyboard.feed(b"q") == [KeyPress("q")]


@given(st.lists(st.integers(0, 30), max_size=5))
def test_nothing_that_is_pasted_is_a_key(cuts: list[int]) -> None:
    data = b"j\x1b[200~1yq\nx\x1b[201~k"
    keyboard, found, begin = Keyboard(), [], 0
    for cut in [*sorted(cuts), len(data)]:
        found += keyboard.feed(data[begin:cut])
        begin = max(begin, min(cut, len(data)))

    assert found == [KeyPress("j"), KeyPress(pasted="1yq\nx"), KeyPress("k")]


def test_a_paste_is_waited_for_to_its_end_however_long_it_is() -> None:
    keyboard = Keyboard()
    keyboard.feed(b"\x1b[200~")

    assert keyboard.rest() == []
    for _ in range(5):
        assert keyboard.feed(b"1yq" * MAX_PENDING) == []
    (press,) = keyboard.feed(b"end\x1b[201~")
    assert press.key == ""
    assert keyboard.feed(b"q") == [KeyPress("q")]


@given(st.binary(max_size=200))
def test_whatever_is_sent_is_taken_apart(data: bytes) -> None:
    keyboard = Keyboard()
    for press in [*keyboard.feed(data), *keyboard.rest()]:
        assert press.pasted or press.key.isprintable()

"""What is kept of a stream that says more than it may."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.adapters.sandbox.processes import LEFT_OUT, BoundedOutput


def kept(limit: int, *parts: bytes) -> BoundedOutput:
    stream = BoundedOutput(limit)
    for part in parts:
        stream.add(part)
    return stream


@given(st.lists(st.binary(max_size=40)), st.integers(min_value=0, max_value=200))
def test_what_fits_is_kept_whole_and_what_does_not_never_takes_more(parts: list[bytes], limit: int) -> None:
    stream, said = kept(limit, *parts), b"".join(parts)

    assert stream.is_cut == (len(said) > limit)
    assert len(stream.content()) <= limit
    assert stream.is_cut or stream.content() == said


@given(st.lists(st.binary(max_size=100), min_size=1), st.integers(min_value=80, max_value=200))
def test_of_too_much_the_head_and_the_tail_are_kept(parts: list[bytes], limit: int) -> None:
    said = b"".join(parts) + bytes(range(256))

    content = kept(limit, *parts, bytes(range(256))).content()

    head, rest = content[: limit // 2], content[limit // 2 :]
    assert head == said[: limit // 2]
    assert rest.startswith(LEFT_OUT)
    assert said.endswith(rest[len(LEFT_OUT) :])
    assert len(content) == limit


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_the_size_of_the_parts_makes_no_difference(size: int) -> None:
    said = bytes(number % 251 for number in range(5000))
    parts = [said[start : start + size] for start in range(0, len(said), size)]

    assert kept(300, *parts).content() == kept(300, said).content()

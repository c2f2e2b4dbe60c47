"""Holds what a signature in a line stands for."""

import pytest
from msgspec.structs import replace

from remand.domain import events as e
from remand.ledger import codec
from remand.testing.builders import NOW, added


class Stamp:
    """Signs by writing the same thing everywhere."""

    def __init__(self, signature: str = "S" * 86) -> None:
        self.signature = signature
        self.content = b""

    def signer(self) -> str:
        return "0123456789abcdef"

    def sign(self, content: bytes) -> str:
        self.content = content
        return self.signature


def test_what_was_signed_is_the_line_without_id_and_signature() -> None:
    stamp = Stamp()
    event, line = codec.write(replace(added(), ts=NOW), e.Meta(id="", session="s", seq=1), stamp)

    assert codec.signed_content(line, stamp.signature) == stamp.content
    assert stamp.signature.encode() not in stamp.content
    assert event.meta.id.encode() not in stamp.content
    assert b'"signer":"0123456789abcdef"' in stamp.content
    assert codec.read(line) == event


def test_an_events_id_stands_for_its_signature_too() -> None:
    meta = e.Meta(id="", session="s", seq=1)
    one, _ = codec.write(replace(added(), ts=NOW), meta, Stamp("A" * 86))
    two, _ = codec.write(replace(added(), ts=NOW), meta, Stamp("B" * 86))

    assert one.meta.id != two.meta.id


def test_a_signed_event_is_within_the_limit_however_long_it_was() -> None:
    stamp = Stamp()
    long = added(description="x" * (codec.MAX_EVENT - 600))
    for size in range(0, 400, 7):
        event = replace(long, ts=NOW, data=replace(long.data, title="t" * size))
        _, line = codec.write(event, e.Meta(id="", session="s", seq=1), stamp)

        assert len(line) <= codec.MAX_EVENT
        assert codec.signed_content(line, stamp.signature) == stamp.content


@pytest.mark.parametrize("change", [b"", b'"signature":"SS"', b'{"signature":"%s"}' % (b"S" * 86)])
def test_a_signature_that_stands_elsewhere_or_twice_stands_for_nothing(change: bytes) -> None:
    _, line = codec.write(replace(added(), ts=NOW), e.Meta(id="", session="s", seq=1), Stamp())
    mark = b',"signature":"%s"' % (b"S" * 86)
    moved = line.replace(mark, b"").replace(b'"type":"TASK"', b'"type":"TASK"' + mark)
    twice = line.replace(b'"type":"TASK"', b'"type":{"x":"x"' + mark + b"}")

    assert codec.signed_content(moved, "S" * 86) is None
    assert codec.signed_content(twice, "S" * 86) is None
    assert codec.signed_content(line.replace(mark, change), "S" * 86) is None

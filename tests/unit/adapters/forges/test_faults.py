"""What an error of a forge is told as."""

import msgspec
import pytest

from remand.adapters.forges.faults import MAX_SAID, fault_of, said_in
from remand.adapters.forges.transport import Reply
from remand.app.forges.ports import Trouble


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (400, Trouble.REFUSED),
        (401, Trouble.DENIED),
        (403, Trouble.DENIED),
        (404, Trouble.MISSING),
        (410, Trouble.MISSING),
        (422, Trouble.REFUSED),
        (500, Trouble.UNREACHABLE),
        (599, Trouble.UNREACHABLE),
    ],
)
def test_a_status_is_told_in_its_kind(status: int, trouble: Trouble) -> None:
    fault = fault_of(Reply(status, {}, b""), "GitHub", "GITHUB_TOKEN", "why")

    assert fault is not None
    assert fault.trouble is trouble
    assert f"{status}: why" in str(fault)


@pytest.mark.parametrize("status", [200, 201, 204, 304])
def test_an_answer_is_no_fault(status: int) -> None:
    assert fault_of(Reply(status, {}, b""), "GitHub", "GITHUB_TOKEN", "") is None


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"message": "Nope"}, "Nope"),
        ({"message": "Nope", "errors": ["one", {"message": "two"}, 7]}, "Nope: one: two"),
        ({"message": ["x"], "errors": "flat"}, "flat"),
        ({"error": "x"}, ""),
        (["x"], ""),
    ],
)
def test_what_an_error_says_is_found_wherever_it_stands(body: object, said: str) -> None:
    assert said_in(Reply(422, {}, msgspec.json.encode(body))) == said


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 99_999, b'{"message": "half'])
def test_an_error_that_cannot_be_read_says_nothing(body: bytes) -> None:
    assert said_in(Reply(500, {}, body)) == ""


def test_what_an_error_says_is_shown_in_one_short_line_without_escapes_and_secrets() -> None:
    body = msgspec.json.encode({"message": "\x1b[31mred\n\u202e hunter2 " + "x" * 999})
    said = said_in(Reply(500, {}, body), "hunter2", "")

    assert said.startswith(" [31mred")
    assert said.isprintable()
    assert "hunter2" not in said
    assert len(said) <= MAX_SAID

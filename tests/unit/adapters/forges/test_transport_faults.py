"""What an error of a forge is told as."""

import msgspec
import pytest

from remand.adapters.forges.transport import MAX_MESSAGE, ForgeReply, error_text, status_fault
from remand.app.forge.ports import ForgeFaultKind


@pytest.mark.parametrize(
    ("status", "trouble"),
    [
        (400, ForgeFaultKind.REFUSED),
        (401, ForgeFaultKind.DENIED),
        (403, ForgeFaultKind.DENIED),
        (404, ForgeFaultKind.MISSING),
        (410, ForgeFaultKind.MISSING),
        (422, ForgeFaultKind.REFUSED),
        (500, ForgeFaultKind.UNREACHABLE),
        (599, ForgeFaultKind.UNREACHABLE),
    ],
)
def test_a_status_is_told_in_its_kind(status: int, trouble: ForgeFaultKind) -> None:
    fault = status_fault(ForgeReply(status, {}, b""), "GitHub", "GITHUB_TOKEN", "why", "/repos/a/b")

    assert fault is not None
    assert fault.kind is trouble
    assert f"{status}: why" in str(fault)


@pytest.mark.parametrize("status", [200, 201, 204, 304])
def test_an_answer_is_no_fault(status: int) -> None:
    assert status_fault(ForgeReply(status, {}, b""), "GitHub", "GITHUB_TOKEN", "", "/repos/a/b") is None


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
    assert error_text(ForgeReply(422, {}, msgspec.json.encode(body))) == said


@pytest.mark.parametrize("body", [b"", b"<html>", b"\xff", b"[" * 99_999, b'{"message": "half'])
def test_an_error_that_cannot_be_read_says_nothing(body: bytes) -> None:
    assert error_text(ForgeReply(500, {}, body)) == ""


def test_what_an_error_says_is_shown_in_one_short_line_without_escapes_and_secrets() -> None:
    body = msgspec.json.encode({"message": "\x1b[31mred\n\u202e hunter2 " + "x" * 999})
    said = error_text(ForgeReply(500, {}, body), "hunter2", "")

    assert said.startswith(" [31mred")
    assert said.isprintable()
    assert "hunter2" not in said
    assert len(said) <= MAX_MESSAGE

"""Holds that a request for trust says project, key and name, and is read as it is written."""

import pytest

from remand.domain.access.keys import KeyRequest, PublicKey, is_key_request, parse_key_request

KEY = PublicKey(raw=bytes(range(32)), name="laptop")


@pytest.mark.parametrize("project", ["", "0123456789abcdef"])
@pytest.mark.parametrize("name", ["laptop", "", "the build server", "a:b", "bücher"])
def test_a_request_is_one_line_and_read_as_it_is_written(project: str, name: str) -> None:
    request = KeyRequest(project=project, key=PublicKey(raw=KEY.raw, name=name))

    assert is_key_request(request.text)
    assert "\n" not in request.text
    assert parse_key_request(f"  {request.text}\n") == request


@pytest.mark.parametrize(
    "text",
    [
        "remand-key:",
        "remand-key:0123456789abcdef",
        "remand-key:0123456789abcdef:AAAA:laptop",
        KeyRequest(project="a", key=KEY).text.replace(":laptop", ""),
        KeyRequest(project="a", key=KEY).text[:-20] + ":laptop",
        KeyRequest(project="a", key=KEY).text + "\x1b[31m",
        KeyRequest(project="a", key=KEY).text + "x" * 100,
    ],
)
def test_a_damaged_request_is_none(text: str) -> None:
    assert is_key_request(text)
    assert parse_key_request(text) is None


def test_a_key_is_no_request() -> None:
    assert not is_key_request(KEY.entry)

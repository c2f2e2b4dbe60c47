"""Where a token may go."""

import pytest

from remand.adapters.forges.transport import HttpTransport, origin_of
from remand.app.errors import EnvironmentFault


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://api.github.com/x", ("https", "api.github.com", 443)),
        ("https://API.GitHub.com:443", ("https", "api.github.com", 443)),
        ("http://127.0.0.1:8080/x", ("http", "127.0.0.1", 8080)),
        ("http://[::1]/x", ("http", "::1", 80)),
        ("http://localhost", ("http", "localhost", 80)),
        ("http://api.github.com", None),
        ("http://127.0.0.1.example", None),
        ("https://me:secret@api.github.com", None),
        ("https://@api.github.com", None),
        ("ftp://127.0.0.1", None),
        ("https://", None),
        ("https://x:99999", None),
        ("", None),
    ],
)
def test_an_address_may_be_asked_encrypted_or_on_this_machine(
    url: str, origin: tuple[str, str, int] | None
) -> None:
    assert origin_of(url) == origin


def test_a_forge_that_would_be_asked_in_the_clear_is_refused() -> None:
    with pytest.raises(EnvironmentFault, match="https"):
        HttpTransport("http://git.example/api/v3")

"""Holds that secrets are taken out of what agents say, and nothing else is."""

import pytest

from remand.domain.text.redaction import redact, redact_values

TOKEN = "ghp_" + "a1B2" * 9
SECRETS = [
    (f"export GITHUB_TOKEN={TOKEN}", TOKEN),
    ("glpat-" + "x9Y8" * 5, "x9Y8"),
    ("key AKIAIOSFODNN7EXAMPLE is refused", "IOSFODNN7"),
    ("xoxb-123456789012-abcdefABCDEF", "abcdefABCDEF"),
    ("sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "4eC39"),
    ("sk-ant-" + "api03-abcdefghijklmnopqrstuvwxyz", "api03"),
    ("-----BEGIN RSA PRIVATE KEY-----\nMIIEow\n-----END RSA PRIVATE KEY-----", "MIIEow"),
    ("-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXk", "b3BlbnNza"),
    ("Authorization: Bearer abcdefghijklmnopqrstuvwxyz012345", "abcdefghij"),
    ("ba\u017fic abcdefghijklmnopqrstuvwxyz012345", "abcdefghij"),
    ("postgres://app:s3cr3tpw@db:5432/shop", "s3cr3tpw"),
    ('client_secret="9f8a7b6c5d4e3f"', "9f8a7b6c"),
    ("DB_PASSWORD=hunter2hunter2", "hunter2"),
    ("eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJlIQ", "eyJzdWIi"),
]
PLAIN = [
    "Missing password: the form is empty",
    "The secret MKM_TOKEN is not in the store",
    "api_key = os.environ['SHOP_KEY']",
    "API_KEY=$SECRET_FROM_VAULT",
    "Token T-20251220-153045-a1b2 expired",
    "https://example.org:8080/a@b",
    "No API key -> shared pool, 429 all the time",
    "Key request form sent 22 July, no answer",
    "commit 1fa3469be0c1f7d7a7be0f1e2d3c4b5a69788776",
]


@pytest.mark.parametrize(("text", "secret"), SECRETS, ids=range(len(SECRETS)))
def test_a_secret_is_taken_out(text: str, secret: str) -> None:
    said = redact(text)

    assert secret not in said
    assert "[redacted:" in said


@pytest.mark.parametrize("text", PLAIN)
def test_what_only_speaks_of_secrets_stays(text: str) -> None:
    assert redact(text) == text


def test_redacting_twice_is_redacting_once() -> None:
    for text, _ in SECRETS:
        assert redact(redact(text)) == redact(text)


def test_values_are_redacted_wherever_they_are_and_by_what_their_key_says() -> None:
    found = redact_values(
        {"log": [f"got {TOKEN}"], "db": {"password": "abc12345"}, "key": "dashboard-ro", "n": 3}
    )

    assert found == {
        "log": ["got [redacted: GitHub token]"],
        "db": {"password": "[redacted: credential]"},
        "key": "dashboard-ro",
        "n": 3,
    }

"""Which deliveries are genuine, and what is read of them."""

import hmac
import random
from hashlib import sha256

import msgspec
import pytest

from remand.adapters.forges.webhooks import (
    MAX_BODY,
    Delivery,
    IgnoredDelivery,
    RefusedDelivery,
    read_delivery,
)

SECRET = "a secret of the user's"
PULL = {"repository": {"full_name": "octo/demo"}, "pull_request": {"number": 7}}
MERGE = {
    "object_kind": "merge_request",
    "project": {"path_with_namespace": "octo/demo"},
    "repository": {"name": "demo"},
    "object_attributes": {"iid": 7},
}
NOTE = {"object_kind": "note", "project": {"path_with_namespace": "octo/demo"}, "merge_request": {"iid": 7}}


def signed(body: bytes, secret: str = SECRET) -> str:
    return hmac.new(secret.encode(), body, sha256).hexdigest()


def headers(kind: str, body: bytes, secret: str = SECRET) -> dict[str, str]:
    return {
        "github": {"X-GitHub-Delivery": "d-1", "X-Hub-Signature-256": f"sha256={signed(body, secret)}"},
        "gitea": {"X-Gitea-Delivery": "d-1", "X-Gitea-Signature": signed(body, secret)},
        "forgejo": {"X-Forgejo-Delivery": "d-1", "X-Forgejo-Signature": signed(body, secret)},
        "gitlab": {"Idempotency-Key": "d-1", "X-Gitlab-Token": secret},
    }[kind]


KINDS = {"github": PULL, "gitea": PULL, "forgejo": PULL, "gitlab": MERGE}


@pytest.mark.parametrize("kind", KINDS)
def test_a_genuine_delivery_names_its_pull_request(kind: str) -> None:
    body = msgspec.json.encode(KINDS[kind])

    assert read_delivery(kind, headers(kind, body), body, SECRET) == Delivery(
        id="d-1", repository="octo/demo", number=7
    )


def test_a_note_on_a_merge_request_names_it() -> None:
    body = msgspec.json.encode(NOTE)

    assert read_delivery("gitlab", headers("gitlab", body), body, SECRET) == Delivery(
        id="d-1", repository="octo/demo", number=7
    )


@pytest.mark.parametrize("kind", KINDS)
def test_another_s_secret_is_refused(kind: str) -> None:
    body = msgspec.json.encode(KINDS[kind])

    assert isinstance(read_delivery(kind, headers(kind, body, "guessed"), body, SECRET), RefusedDelivery)
    assert isinstance(read_delivery(kind, {}, body, SECRET), RefusedDelivery)
    assert isinstance(read_delivery(kind, headers(kind, body, ""), body, ""), RefusedDelivery)


@pytest.mark.parametrize("kind", ["github", "gitea", "forgejo"])
def test_no_changed_body_is_genuine(kind: str) -> None:
    body, rng = msgspec.json.encode(KINDS[kind]), random.Random(7)
    given = headers(kind, body)
    for _ in range(1000):
        changed = bytearray(body)
        changed[rng.randrange(len(body))] ^= 1 << rng.randrange(8)
        assert isinstance(read_delivery(kind, given, bytes(changed), SECRET), RefusedDelivery)


def test_the_older_signature_of_github_does_not_do() -> None:
    body = msgspec.json.encode(PULL)
    old = {"X-GitHub-Delivery": "d-1", "X-Hub-Signature": hmac.new(SECRET.encode(), body, "sha1").hexdigest()}

    assert isinstance(read_delivery("github", old, body, SECRET), RefusedDelivery)


@pytest.mark.parametrize(
    "payload",
    [
        {"zen": "Keep it logically awesome.", "repository": {"full_name": "octo/demo"}},
        {"issue": {"number": 7}, "repository": {"full_name": "octo/demo"}},
        {"check_run": {"pull_requests": [{"number": 7}]}, "repository": {"full_name": "octo/demo"}},
    ],
)
def test_what_is_about_something_else_is_ignored(payload: object) -> None:
    body = msgspec.json.encode(payload)

    assert isinstance(read_delivery("github", headers("github", body), body, SECRET), IgnoredDelivery)


def test_a_comment_on_a_pull_request_counts_as_about_it() -> None:
    body = msgspec.json.encode(
        {"issue": {"number": 7, "pull_request": {"url": "…"}}, "repository": {"full_name": "octo/demo"}}
    )

    assert read_delivery("github", headers("github", body), body, SECRET) == Delivery(
        id="d-1", repository="octo/demo", number=7
    )


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b"[" * 99_999,
        b'{"pull_request": {"number": "7"}}',
        b'{"pull_request": {"number": 7}}',
        b'{"pull_request": {"number": -7}, "repository": {"full_name": "octo/demo"}}',
        b'{"pull_request": {"number": 99999999999}, "repository": {"full_name": "octo/demo"}}',
        b'{"pull_request": {"number": 7}, "repository": {"full_name": "' + b"x" * 999 + b'"}}',
        b'{"pull_request": {"number": 7}, "repository": {"full_name": "octo/de',
        b"\xff\xfe",
    ],
)
def test_what_makes_no_sense_is_refused(body: bytes) -> None:
    assert isinstance(read_delivery("github", headers("github", body), body, SECRET), RefusedDelivery)


def test_a_delivery_that_is_too_long_is_refused() -> None:
    body = msgspec.json.encode(PULL).ljust(MAX_BODY)

    assert isinstance(read_delivery("github", headers("github", body), body, SECRET), Delivery)
    body += b" "
    assert isinstance(read_delivery("github", headers("github", body), body, SECRET), RefusedDelivery)


def test_a_form_is_refused_with_what_to_set() -> None:
    body = b"payload=%7B%7D"
    given = {**headers("github", body), "Content-Type": "application/x-www-form-urlencoded"}
    found = read_delivery("github", given, body, SECRET)

    assert isinstance(found, RefusedDelivery)
    assert "application/json" in found.why


@pytest.mark.parametrize("id_", ["", "x" * 999])
def test_a_delivery_without_an_id_of_its_own_is_refused(id_: str) -> None:
    body = msgspec.json.encode(PULL)
    given = {**headers("github", body), "X-GitHub-Delivery": id_}

    assert isinstance(read_delivery("github", given, body, SECRET), RefusedDelivery)


def test_a_forge_nobody_knows_is_refused() -> None:
    assert isinstance(read_delivery("sourcehut", {}, b"{}", SECRET), RefusedDelivery)

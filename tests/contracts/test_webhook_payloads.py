"""Whole deliveries of GitHub, as it sends them, are read: our own, and recorded ones."""

from __future__ import annotations

import hmac
from hashlib import sha256
from pathlib import Path

import msgspec
import pytest

from remand.adapters.forges.webhooks import Delivery, IgnoredDelivery, read_delivery
from tests.data_sets import files_of

SECRET = "secret"


@pytest.mark.parametrize("file", files_of("github-webhooks", "*/*.json"))
def test_a_delivery_tells_its_pull_request_or_that_it_is_about_none(file: Path) -> None:
    body = file.read_bytes()
    signature = hmac.new(SECRET.encode(), body, sha256).hexdigest()
    headers = {
        "X-GitHub-Event": file.parent.name,
        "X-GitHub-Delivery": "72d3162e-cc78-11e3-81ab-4c9367dc0958",
        "X-Hub-Signature-256": f"sha256={signature}",
        "Content-Type": "application/json",
    }

    found = read_delivery("github", headers, body, SECRET)

    payload = msgspec.json.decode(body)
    if "pull_request" in payload:
        number, name = payload["pull_request"]["number"], payload["repository"]["full_name"]
        assert found == Delivery(id=headers["X-GitHub-Delivery"], repository=name, number=number)
    else:
        assert isinstance(found, IgnoredDelivery)

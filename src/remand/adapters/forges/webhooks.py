"""Deliveries of forges: whether one is genuine, and which pull request it is about.

A delivery wakes the poller up and is believed in nothing else: what it says happened is asked of the forge.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from hashlib import sha256

import msgspec

from remand.domain.record import Record

MAX_BODY = 4 << 20
MAX_NAME = 200
MAX_ID = 200
GITHUB, GITLAB, GITEA, FORGEJO = "github", "gitlab", "gitea", "forgejo"


class Delivery(Record, kw_only=True):
    """A pull request may have changed."""

    id: str
    """Whoever sees it a second time need not ask again."""
    repository: str
    number: int


class Ignored(Record, kw_only=True):
    """A genuine delivery about something else."""

    why: str


class Refused(Record, kw_only=True):
    """Not from the forge, or not readable."""

    why: str


class _Named(Record, kw_only=True):
    full_name: str = ""
    path_with_namespace: str = ""


class _Numbered(Record, kw_only=True):
    number: int = 0
    iid: int = 0


class _Issue(_Numbered, kw_only=True):
    pull_request: dict[str, object] | None = None


class _Payload(Record, kw_only=True):
    """What is read of a delivery: the repository and the number, wherever the forge has them."""

    repository: _Named | None = None
    project: _Named | None = None
    pull_request: _Numbered | None = None
    issue: _Issue | None = None
    merge_request: _Numbered | None = None
    object_kind: str = ""
    object_attributes: _Numbered | None = None


_DECODER = msgspec.json.Decoder(_Payload)
_IDS = {
    GITHUB: ("x-github-delivery",),
    GITLAB: ("idempotency-key", "x-gitlab-event-uuid"),
    GITEA: ("x-gitea-delivery", "x-forgejo-delivery"),
    FORGEJO: ("x-forgejo-delivery", "x-gitea-delivery"),
}


def read(kind: str, headers: Mapping[str, str], body: bytes, secret: str) -> Delivery | Ignored | Refused:
    """What a delivery is. Nothing in it is looked at before it is known to be genuine."""
    named = {name.lower(): value for name, value in headers.items()}
    if kind not in _IDS:
        return Refused(why=f"{kind} is no forge whose deliveries are known")
    if not secret:
        return Refused(why="no secret is set for webhooks, so none can be told from a forged one")
    if len(body) > MAX_BODY:
        return Refused(why=f"the delivery is longer than {MAX_BODY >> 20} MB")
    if not _is_genuine(kind, named, body, secret):
        return Refused(why="the signature is missing or does not fit; set the same secret on both sides")
    if "form" in named.get("content-type", ""):
        return Refused(why="the webhook sends forms; set its content type to application/json")
    delivered = next((named[name] for name in _IDS[kind] if named.get(name)), "")
    if not delivered or len(delivered) > MAX_ID:
        return Refused(why="the delivery has no id")
    try:
        payload = _DECODER.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return Refused(why="the delivery is no JSON of a known shape")
    return _told(delivered, payload)


def _is_genuine(kind: str, headers: Mapping[str, str], body: bytes, secret: str) -> bool:
    key = secret.encode()
    if kind == GITLAB:
        return hmac.compare_digest(headers.get("x-gitlab-token", "").encode(errors="replace"), key)
    made = hmac.new(key, body, sha256).hexdigest()
    if kind == GITHUB:
        return hmac.compare_digest(
            headers.get("x-hub-signature-256", "").encode(errors="replace"), f"sha256={made}".encode()
        )
    given = headers.get("x-gitea-signature") or headers.get("x-forgejo-signature", "")
    return hmac.compare_digest(given.encode(errors="replace"), made.encode())


def _told(delivered: str, payload: _Payload) -> Delivery | Ignored | Refused:
    number = _number(payload)
    if number is None:
        return Ignored(why="it is not about a pull request")
    where = payload.project or payload.repository or _Named()
    repository = where.full_name or where.path_with_namespace
    if not repository or len(repository) > MAX_NAME or not 0 < number < 1 << 31:
        return Refused(why="the delivery names no repository, or no number")
    return Delivery(id=delivered, repository=repository, number=number)


def _number(payload: _Payload) -> int | None:
    """The pull request's number; None when the delivery is about none."""
    if payload.merge_request is not None:
        return payload.merge_request.iid
    if payload.object_kind == "merge_request" and payload.object_attributes is not None:
        return payload.object_attributes.iid
    if payload.pull_request is not None:
        return payload.pull_request.number
    if payload.issue is not None and payload.issue.pull_request is not None:
        return payload.issue.number
    return None

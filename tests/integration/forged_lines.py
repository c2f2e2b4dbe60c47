"""Lines of the log as somebody writes them who knows the format and has no key."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from tests.integration.machine import Repository

LATE = "2026-11-15T08:00:00.000000Z"


def line(event: str, *, session: str = "20261115-080000-0000f0f0", seq: int = 1, **fields: Any) -> bytes:
    """A line as one writes it who knows the format and has no key."""
    more = fields.pop("meta", {})
    event_fields = {"event": event, "ts": fields.pop("ts", LATE)}
    meta = {"id": "", "session": session, "seq": seq, "actor": "user", "branch": "main", **more}
    text = json.dumps({**event_fields, "meta": meta, **fields}, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()[:32]
    return text.replace('"id":""', f'"id":"{digest}"', 1).encode()


def put(repository: Repository, *lines: bytes, name: str = "forged.jsonl") -> Path:
    path = repository.events / name
    path.write_bytes(b"".join(one + b"\n" for one in lines))
    return path

"""One short text for the whole state: equal on every machine that has the same events and trusts the same keys."""

from __future__ import annotations

from hashlib import sha256

import msgspec

from remand.domain.events import subject
from remand.ledger import codec
from remand.ledger.store import Transaction

_encode = msgspec.json.Encoder().encode


def digest(tx: Transaction) -> tuple[str, int]:
    """The digest of all tasks and of all events without effect on one, and how many events there are."""
    whole = sha256()
    for task in tx.tasks.every():
        whole.update(_encode(task))
    count = 0
    loose: list[str] = []
    withheld = {found.event_id for found in tx.unconfirmed.every()}
    for line in tx.events.lines():
        count += 1
        event = codec.recall(line)
        if not subject(event) or event.meta.id in withheld:
            loose.append(event.meta.id)
    whole.update("".join(sorted(loose)).encode())
    return whole.hexdigest(), count

"""Believing files: releasing events count when a trusted key has signed them, and are unconfirmed when none has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from remand.app.ports import Keys, Signed
from remand.app.rebuild import rebuild
from remand.domain.events import Event, subject
from remand.domain.keys import Trust, signature_in, signature_text, trust_in
from remand.domain.releases import Doubt, is_releasing
from remand.ledger import codec
from remand.ledger.store import Entry, Transaction

_BATCH = 5000


class MachineSeal:
    """Signs what is written here, with the machine's key and for one project."""

    def __init__(self, keys: Keys, trust: Trust) -> None:
        self._keys = keys
        self._trust = trust

    def signer(self) -> str:
        """The id of the machine's key."""
        return self._keys.made().id

    def sign(self, content: bytes) -> str:
        """The signature over a line."""
        return signature_text(self._keys.sign(self._trust.signed(content)))


class Judge:
    """Says of releasing events whether they are believed, by one trust."""

    def __init__(self, trust: Trust, keys: Keys) -> None:
        self.trust = trust
        self._keys = keys

    def doubts(self, lines: Sequence[tuple[Event, bytes]]) -> list[Doubt]:
        """Why each event has no effect; nothing when it does not release, or a trusted key has signed it."""
        found = [self._claim(event, line) for event, line in lines]
        verdicts = iter(self._keys.verify([claim for claim in found if isinstance(claim, Signed)]))
        return [
            claim if isinstance(claim, Doubt) else Doubt.NONE if next(verdicts) else Doubt.WRONG_SIGNATURE
            for claim in found
        ]

    def _claim(self, event: Event, line: bytes) -> Doubt | Signed:
        """What has to be verified; or what is doubted, or not, without that."""
        if not is_releasing(event):
            return Doubt.NONE
        if not event.meta.signature:
            return Doubt.UNSIGNED
        key = self.trust.key(event.meta.signer)
        if key is None:
            return Doubt.UNKNOWN_SIGNER
        signature = signature_in(event.meta.signature)
        content = codec.signed_content(line, event.meta.signature) if signature else None
        if signature is None or content is None:
            return Doubt.WRONG_SIGNATURE
        return Signed(key.raw, self.trust.signed(content), signature)

    def judged(self, tx: Transaction, entries: Sequence[Entry]) -> list[Entry]:
        """Events with what is doubted about each. One that is kept already was judged, and is not judged again."""
        found = list(entries)
        new: list[int] = []
        for at, entry in enumerate(found):
            if not is_releasing(entry.event):
                continue
            known = tx.unconfirmed.verdict(entry)
            if known is None:
                new.append(at)
            else:
                found[at] = entry._replace(doubt=known)
        doubts = self.doubts([(found[at].event, found[at].line) for at in new]) if new else []
        for at, doubt in zip(new, doubts, strict=True):
            found[at] = found[at]._replace(doubt=doubt)
        return found


def judge_anew(tx: Transaction, judge: Judge) -> None:
    """Judges the kept events by another trust than before: some gain their effect, others lose it."""
    before = {found.event_id: found.doubt for found in tx.unconfirmed.every()}
    is_first = not tx.unconfirmed.trust
    changed: list[Entry] = []
    lines = _in_question(tx, trust_in(tx.unconfirmed.trust), judge.trust)
    while batch := list(islice(lines, _BATCH)):
        for (event, line), doubt in zip(batch, judge.doubts(batch), strict=True):
            if doubt != before.get(event.meta.id, Doubt.NONE):
                changed.append(Entry(event, line, subject(event), doubt))
    tx.unconfirmed.judge(changed)
    tx.unconfirmed.trust = judge.trust.text
    if is_first or any(bool(entry.doubt) != (entry.event.meta.id in before) for entry in changed):
        rebuild(tx)


def _in_question(tx: Transaction, before: Trust, after: Trust) -> Iterator[tuple[Event, bytes]]:
    """The releasing events that another trust may see otherwise; those of a key that stays trusted need no look."""
    is_first = not tx.unconfirmed.trust or before.project != after.project
    old, new = ({key.id for key in trust.keys} for trust in (before, after))
    lines = tx.events.lines() if is_first or old - new else (found.line for found in tx.unconfirmed.every())
    for line in lines:
        event = codec.recall(line)
        if is_releasing(event) and (is_first or event.meta.signer in old ^ new):
            yield event, line


def believed(tx: Transaction) -> Iterator[Event]:
    """Every event that has an effect, or needs none."""
    withheld = {found.event_id for found in tx.unconfirmed.every()}
    for line in tx.events.lines():
        event = codec.recall(line)
        if event.meta.id not in withheld:
            yield event

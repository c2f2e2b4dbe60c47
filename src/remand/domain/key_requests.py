"""The text by which one machine asks that its key be trusted: the project, the key and the machine's name."""

from __future__ import annotations

from remand.domain.keys import PREFIX, PublicKey, public_key
from remand.domain.record import Record

_START = "remand-key:"


class KeyRequest(Record, kw_only=True):
    """A key that asks to be trusted in a project."""

    project: str
    key: PublicKey

    @property
    def text(self) -> str:
        """The request in one line."""
        body = self.key.text.removeprefix(PREFIX).rstrip("=")
        return f"{_START}{self.project}:{body}:{self.key.name}"


def is_key_request(text: str) -> bool:
    """True when a text is, or claims to be, a request."""
    return text.strip().startswith(_START)


def key_request(text: str) -> KeyRequest | None:
    """The request in a text; None when it is damaged."""
    project, _, rest = text.strip().removeprefix(_START).partition(":")
    body, has_name, name = rest.partition(":")
    key = public_key(f"{PREFIX}{body} {name}") if has_name and " " not in body else None
    return KeyRequest(project=project, key=key) if key else None

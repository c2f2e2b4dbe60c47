"""The key with which the golden logs are signed. It protects nothing."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from remand.adapters.system.keys import FileKeys
from remand.domain.access.keys import PublicKey, Trust

PROJECT = "60d1e0106f1e1d00"


class GoldenKeys(FileKeys):
    """A machine whose key is the same in every run."""

    def __init__(self, seed: bytes = b"the key of the golden logs, fine") -> None:
        super().__init__("/nowhere")
        self._golden = Ed25519PrivateKey.from_private_bytes(seed)

    def own(self) -> PublicKey:
        return PublicKey(raw=self._golden.public_key().public_bytes_raw(), name="golden")

    def ensure_key(self) -> PublicKey:
        return self.own()

    def load(self) -> None:
        pass

    def sign(self, content: bytes) -> bytes:
        return self._golden.sign(content)


TRUST = Trust(project=PROJECT, keys=(GoldenKeys().own(),))

"""The machine's key: one file outside every repository, and the signatures made with it."""

from __future__ import annotations

import os
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain

from remand.adapters.system.ed25519 import ed25519
from remand.adapters.system.folders import private_folder
from remand.app.errors import EnvironmentFault
from remand.app.ports import Signed
from remand.domain.keys import KEY_BYTES, MAX_NAME, PublicKey, public_key

_PRIVATE = "private "
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_FILE = 1024
_MANY = 64
_NO_NAME = re.compile(r"[^A-Za-z0-9._-]+")


class FileKeys:
    """The key in a file that only its user can read. It holds the public part, too, so that reading that is cheap.

    What signs and verifies is loaded when it is first needed: it takes longer to load than most commands to run.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "machine.key")
        self._stamp: tuple[int, int] | None = None
        self._public: PublicKey | None = None
        self._seed = b""

    def own(self) -> PublicKey | None:
        """The machine's public key; None when it has no key yet. It is read again when its file is another."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        if self._public is None or stamp != self._stamp:
            self._public, self._seed, self._stamp = self._read()[1], b"", stamp
        return self._public

    def made(self) -> PublicKey:
        """The machine's public key. Of processes that make it at the same time, one does."""
        found = self.own()
        if found is None:
            self._make()
            found = self.own()
        if found is None:
            raise EnvironmentFault(f"The machine's key {self._path} was taken away. Repeat the command.")
        return found

    def load(self) -> None:
        """Gets ready to sign."""
        self._own_seed()

    def sign(self, content: bytes) -> bytes:
        """The machine's signature."""
        return ed25519().sign(self._own_seed(), content)

    def verify(self, claims: Sequence[Signed]) -> list[bool]:
        """Of each, True when the holder of the key signed exactly that. Many are verified on all processors."""
        if len(claims) < _MANY:
            return _verified(claims) if claims else []
        from concurrent.futures import ThreadPoolExecutor

        workers = os.cpu_count() or 1
        share = -(-len(claims) // workers)
        parts = [claims[start : start + share] for start in range(0, len(claims), share)]
        with ThreadPoolExecutor(workers) as pool:
            return list(chain.from_iterable(pool.map(_verified, parts)))

    def _own_seed(self) -> bytes:
        self.made()
        if not self._seed:
            seed, public = self._read()
            if ed25519().public(seed) != public.raw:
                raise self._damaged()
            self._seed = seed
        return self._seed

    def _read(self) -> tuple[bytes, PublicKey]:
        try:
            handle = os.open(self._path, _READ)
        except OSError as error:
            raise EnvironmentFault(
                f"The machine's key {self._path} cannot be read ({error.strerror}). Mend that, then repeat."
            ) from None
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            content = file.read(_MAX_FILE).decode("ascii", "replace")
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise EnvironmentFault(
                f"The machine's key {self._path} can be read by others, so it proves nothing. "
                "Move it away and take it off the trusted keys; a new one is made."
            )
        first, _, second = content.partition("\n")
        public = public_key(second)
        try:
            seed = b64decode(first.removeprefix(_PRIVATE), validate=True)
        except ValueError:
            seed = b""
        if public is None or len(seed) != len(public.raw):
            raise self._damaged()
        return seed, public

    def _damaged(self) -> EnvironmentFault:
        return EnvironmentFault(
            f"The machine's key {self._path} is damaged. Put it back from a backup, or move it away to have a new "
            "one made; what the old one signed counts as long as it is among the trusted keys."
        )

    def _make(self) -> None:
        """Writes a new key under another name and links it to its own, which only one process can do."""
        if not private_folder(self._folder):
            raise EnvironmentFault(
                f"The folder {self._folder} is not this user's own. Make it so (chmod 700), then repeat."
            )
        seed = os.urandom(KEY_BYTES)
        public = PublicKey(raw=ed25519().public(seed), name=machine_name())
        content = f"{_PRIVATE}{b64encode(seed).decode()}\n{public.entry}\n"
        draft = f"{self._path}.{os.getpid()}.{os.urandom(4).hex()}"
        try:
            handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(handle, "wb") as file:
                file.write(content.encode("ascii"))
                file.flush()
                os.fsync(handle)
            with suppress(FileExistsError):
                os.link(draft, self._path)
        except OSError as error:
            raise EnvironmentFault(
                f"The machine's key {self._path} cannot be written ({error.strerror}). Mend that, then repeat."
            ) from None
        finally:
            with suppress(OSError):
                os.unlink(draft)


def machine_name() -> str:
    """What this machine is called, as far as it may stand in a file."""
    return _NO_NAME.sub("-", os.uname().nodename).strip("-")[:MAX_NAME] or "machine"


def _verified(claims: Sequence[Signed]) -> list[bool]:
    scheme = ed25519()
    return [scheme.is_signed(claim.key, claim.signature, claim.content) for claim in claims]

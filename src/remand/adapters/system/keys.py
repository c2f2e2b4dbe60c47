"""The machine's key in a file outside every repository, and Ed25519 signatures by OpenSSL or `cryptography`."""

from __future__ import annotations

import os
from base64 import b64decode, b64encode
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from remand.adapters.system.folders import private_folder
from remand.app.errors import EnvironmentFault
from remand.app.ports import SignedClaim
from remand.domain.access.keys import KEY_BYTES, MAX_KEY_NAME, PublicKey, parse_public_key
from remand.startup import lazy_pattern

if TYPE_CHECKING:
    from ctypes import CDLL


_ED25519 = 1087
"""OpenSSL's number for Ed25519 keys."""
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


class Ed25519(Protocol):
    """Signs and verifies."""

    def public(self, seed: bytes) -> bytes:
        """The public key of a private key."""

    def sign(self, seed: bytes, content: bytes) -> bytes:
        """Signs content with a private key."""

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        """True if the signature matches the content and the public key."""


@cache
def ed25519() -> Ed25519:
    """This machine's implementation of Ed25519, loaded at first use."""
    return _openssl() or Cryptography()


def _openssl() -> Ed25519 | None:
    try:
        import _hashlib
        import ctypes

        library = ctypes.CDLL(_hashlib.__file__)
        return OpenSsl(library)
    except (ImportError, AttributeError, OSError):
        return None


class OpenSsl:
    """The OpenSSL library that `hashlib` has loaded; no other one is searched for."""

    def __init__(self, library: CDLL) -> None:
        from ctypes import byref, c_char_p, c_int, c_size_t, c_void_p, create_string_buffer

        self._byref, self._buffer, self._size = byref, create_string_buffer, c_size_t
        call, key, context, text = c_int, c_void_p, c_void_p, c_char_p
        self._private = _function(library.EVP_PKEY_new_raw_private_key, key, c_int, key, text, c_size_t)
        self._public = _function(library.EVP_PKEY_new_raw_public_key, key, c_int, key, text, c_size_t)
        self._raw_public = _function(library.EVP_PKEY_get_raw_public_key, call, key, text, key)
        self._free_key = _function(library.EVP_PKEY_free, None, key)
        self._context = _function(library.EVP_MD_CTX_new, context)
        self._free_context = _function(library.EVP_MD_CTX_free, None, context)
        self._begin_sign = _function(library.EVP_DigestSignInit, call, context, key, key, key, key)
        self._sign = _function(library.EVP_DigestSign, call, context, text, key, text, c_size_t)
        self._begin_verify = _function(library.EVP_DigestVerifyInit, call, context, key, key, key, key)
        self._verify = _function(library.EVP_DigestVerify, call, context, text, c_size_t, text, c_size_t)
        self._ready: tuple[bytes, int] = (b"", 0)

    def public(self, seed: bytes) -> bytes:
        key = self._private(_ED25519, None, _require_size(seed, _KEY_BYTES), _KEY_BYTES)
        try:
            found, size = self._buffer(_KEY_BYTES), self._size(_KEY_BYTES)
            _require(key and self._raw_public(key, found, self._byref(size)))
            return bytes(found.raw)
        finally:
            self._free_key(key)

    def sign(self, seed: bytes, content: bytes) -> bytes:
        key = self._signing_key(seed)
        context = self._context()
        try:
            _require(context and self._begin_sign(context, None, None, None, key) == 1)
            found, size = self._buffer(_SIGNATURE_BYTES), self._size(_SIGNATURE_BYTES)
            _require(self._sign(context, found, self._byref(size), content, len(content)) == 1)
            return bytes(found.raw)
        finally:
            self._free_context(context)

    def _signing_key(self, seed: bytes) -> int:
        """The prepared private key. Preparing takes as long as signing; it stays loaded, since other threads may use it."""
        known, key = self._ready
        if known != seed:
            key = self._private(_ED25519, None, _require_size(seed, _KEY_BYTES), _KEY_BYTES)
            _require(key)
            self._ready = (seed, key)
        return key

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        if len(public) != _KEY_BYTES or len(signature) != _SIGNATURE_BYTES:
            return False
        key = self._public(_ED25519, None, public, _KEY_BYTES)
        context = self._context()
        try:
            _require(context)
            if not key or self._begin_verify(context, None, None, None, key) != 1:
                return False
            return bool(self._verify(context, signature, len(signature), content, len(content)) == 1)
        finally:
            self._free_context(context)
            self._free_key(key)


class Cryptography:
    """Uses the `cryptography` package."""

    def public(self, seed: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    def sign(self, seed: bytes, content: bytes) -> bytes:
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(seed).sign(content)

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

        try:
            Ed25519PublicKey.from_public_bytes(public).verify(signature, content)
        except (InvalidSignature, ValueError):
            return False
        return True


def _function(found: Any, result: Any, *arguments: Any) -> Any:
    found.restype, found.argtypes = result, arguments
    return found


def _require_size(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"a key of {len(value)} bytes; it has {size}")
    return value


def _require(done: object) -> None:
    if not done:
        raise RuntimeError("OpenSSL could not sign or verify")


_PRIVATE = "private "
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_FILE = 1024
_MANY = 64
_MOST_VERIFIED = 10_000
_NO_NAME = lazy_pattern(r"[^A-Za-z0-9._-]+")


class FileKeys:
    """The key in a file that only its user can read. It also has the public key, so that reading that is
    cheap.

    The implementation is loaded at first use: loading it takes longer than most commands run.
    """

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._path = os.path.join(folder, "machine.key")
        self._stamp: tuple[int, int] | None = None
        self._public: PublicKey | None = None
        self._seed = b""
        self._verified: set[SignedClaim] = set()
        """Signatures that were found right here: the same one is never verified twice."""

    def own(self) -> PublicKey | None:
        """The machine's public key; None if it has none. Read again if the file was replaced."""
        try:
            status = os.lstat(self._path)
        except FileNotFoundError:
            return None
        stamp = (status.st_ino, status.st_mtime_ns)
        if self._public is None or stamp != self._stamp:
            self._public, self._seed, self._stamp = self._read()[1], b"", stamp
        return self._public

    def ensure_key(self) -> PublicKey:
        """The machine's public key, created if missing. If several processes try at once, one succeeds."""
        key = self.own()
        if key is None:
            self._make()
            key = self.own()
        if key is None:
            raise EnvironmentFault(f"The machine's key {self._path} was removed. Repeat the command.")
        return key

    def load(self) -> None:
        """Prepares for signing."""
        self._own_seed()

    def sign(self, content: bytes) -> bytes:
        """Signs with the machine's key as last read."""
        return ed25519().sign(self._seed or self._own_seed(), content)

    def verify(self, claims: Sequence[SignedClaim]) -> list[bool]:
        """For each claim, True if its signature is valid. Uses all processors for many."""
        if len(claims) < _MANY:
            return [self._is_right(claim) for claim in claims]
        from concurrent.futures import ThreadPoolExecutor

        workers = os.cpu_count() or 1
        share = -(-len(claims) // workers)
        parts = [claims[start : start + share] for start in range(0, len(claims), share)]
        with ThreadPoolExecutor(workers) as pool:
            return list(chain.from_iterable(pool.map(_verify_all, parts)))

    def _is_right(self, claim: SignedClaim) -> bool:
        if claim in self._verified:
            return True
        is_right = ed25519().is_signed(claim.key, claim.signature, claim.content)
        if is_right:
            if len(self._verified) >= _MOST_VERIFIED:
                self._verified.clear()
            self._verified.add(claim)
        return is_right

    def _own_seed(self) -> bytes:
        self.ensure_key()
        if not self._seed:
            seed, public = self._read()
            if ed25519().public(seed) != public.raw:
                raise self._damaged_fault()
            self._seed = seed
        return self._seed

    def _read(self) -> tuple[bytes, PublicKey]:
        try:
            handle = os.open(self._path, _READ)
        except OSError as error:
            raise EnvironmentFault(
                f"The machine's key {self._path} cannot be read ({error.strerror}). Fix that, then repeat."
            ) from None
        with open(handle, "rb") as file:
            status = os.fstat(handle)
            content = file.read(_MAX_FILE).decode("ascii", "replace")
        if status.st_uid != os.getuid() or status.st_mode & 0o077:
            raise EnvironmentFault(
                f"The machine's key {self._path} can be read by others, so it proves nothing. "
                "Move it away and remove it from the trusted keys; Remand creates a new one."
            )
        first, _, second = content.partition("\n")
        public = parse_public_key(second)
        try:
            seed = b64decode(first.removeprefix(_PRIVATE), validate=True)
        except ValueError:
            seed = b""
        if public is None or len(seed) != len(public.raw):
            raise self._damaged_fault()
        return seed, public

    def _damaged_fault(self) -> EnvironmentFault:
        return EnvironmentFault(
            f"The machine's key {self._path} is damaged. Restore it from a backup, or move it away to have a new "
            "one made; what the old one signed counts while it is among the trusted keys."
        )

    def _make(self) -> None:
        """Writes a new key to a temporary file and links it to its name, which only one process can do."""
        if not private_folder(self._folder):
            raise EnvironmentFault(
                f"The folder {self._folder} is not private to this user. Change that (chown, chmod 700), then repeat."
            )
        seed = os.urandom(KEY_BYTES)
        name = _NO_NAME.sub("-", os.uname().nodename).strip("-")[:MAX_KEY_NAME] or "machine"
        public = PublicKey(raw=ed25519().public(seed), name=name)
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
                f"The machine's key {self._path} cannot be written ({error.strerror}). Fix that, then repeat."
            ) from None
        finally:
            with suppress(OSError):
                os.unlink(draft)


def _verify_all(claims: Sequence[SignedClaim]) -> list[bool]:
    scheme = ed25519()
    return [scheme.is_signed(claim.key, claim.signature, claim.content) for claim in claims]

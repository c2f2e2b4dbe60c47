"""Ed25519 signatures, from the OpenSSL that Python itself uses; where that cannot be had, from `cryptography`.

OpenSSL is called directly because it costs about a millisecond to be ready, where `cryptography` takes longer to
import than most commands take to run.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from ctypes import CDLL

_ED25519 = 1087
"""OpenSSL's number for this kind of key."""
_KEY_BYTES, _SIGNATURE_BYTES = 32, 64


class Ed25519(Protocol):
    """Signs and verifies."""

    def public(self, seed: bytes) -> bytes:
        """The public key of a private one."""

    def sign(self, seed: bytes, content: bytes) -> bytes:
        """The signature of a private key."""

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        """True when the holder of a public key signed exactly that."""


@cache
def ed25519() -> Ed25519:
    """What signs and verifies on this machine, loaded when it is first asked for."""
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
    """The library behind `hashlib`, found through that module: no other one is looked for."""

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
        """The public key of a private one."""
        key = self._private(_ED25519, None, _sized(seed, _KEY_BYTES), _KEY_BYTES)
        try:
            found, size = self._buffer(_KEY_BYTES), self._size(_KEY_BYTES)
            _require(key and self._raw_public(key, found, self._byref(size)))
            return bytes(found.raw)
        finally:
            self._free_key(key)

    def sign(self, seed: bytes, content: bytes) -> bytes:
        """The signature of a private key."""
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
        """The private key, made ready once: that takes as long as a signature. Another thread may use it, so it stays."""
        known, key = self._ready
        if known != seed:
            key = self._private(_ED25519, None, _sized(seed, _KEY_BYTES), _KEY_BYTES)
            _require(key)
            self._ready = (seed, key)
        return key

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        """True when the holder of a public key signed exactly that."""
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
    """The package of that name."""

    def public(self, seed: bytes) -> bytes:
        """The public key of a private one."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(seed).public_key().public_bytes_raw()

    def sign(self, seed: bytes, content: bytes) -> bytes:
        """The signature of a private key."""
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

        return Ed25519PrivateKey.from_private_bytes(seed).sign(content)

    def is_signed(self, public: bytes, signature: bytes, content: bytes) -> bool:
        """True when the holder of a public key signed exactly that."""
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


def _sized(value: bytes, size: int) -> bytes:
    if len(value) != size:
        raise ValueError(f"a key of {len(value)} bytes; it has {size}")
    return value


def _require(done: object) -> None:
    if not done:
        raise RuntimeError("OpenSSL could not sign or verify")

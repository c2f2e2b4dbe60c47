"""Results kept in files, each sealed so that one made by hand is not taken for ours."""

from __future__ import annotations

import hmac
import os
import re
from contextlib import suppress
from hashlib import sha256

KEPT = 2000
_KEY = re.compile(r"[0-9a-f]{64}")
_SEAL = 32


class FileCache:
    """One file a result. What is damaged, or sealed by someone else, is not there."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._secret = b""

    def get(self, key: str) -> bytes | None:
        """What was kept under a key."""
        try:
            with open(self._path(key), "rb") as file:
                content = file.read()
        except OSError:
            return None
        seal, value = content[:_SEAL], content[_SEAL:]
        return value if hmac.compare_digest(seal, self._seal(key, value)) else None

    def put(self, key: str, value: bytes) -> None:
        """Keeps something under a key, whole or not at all. A full disk only means that it is not kept."""
        path = self._path(key)
        draft = f"{path}.{os.getpid()}.{os.urandom(4).hex()}.draft"
        with suppress(OSError):
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            self._make_room()
            try:
                with open(draft, "xb") as file:
                    file.write(self._seal(key, value) + value)
                os.replace(draft, path)
            except OSError:
                with suppress(OSError):
                    os.unlink(draft)

    def _path(self, key: str) -> str:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of a result")
        return os.path.join(self._folder, key)

    def _seal(self, key: str, value: bytes) -> bytes:
        return hmac.digest(self._own_secret(), key.encode() + b"\0" + value, sha256)

    def _own_secret(self) -> bytes:
        """This folder's secret, made once; whoever comes second takes the first one's."""
        if not self._secret:
            os.makedirs(self._folder, mode=0o700, exist_ok=True)
            path = os.path.join(self._folder, "secret")
            if not os.path.exists(path):
                draft = f"{path}.{os.urandom(4).hex()}.draft"
                handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
                with os.fdopen(handle, "wb") as file:
                    file.write(os.urandom(32))
                with suppress(FileExistsError):
                    os.link(draft, path)
                os.unlink(draft)
            with open(path, "rb") as file:
                self._secret = file.read()
        return self._secret

    def _make_room(self) -> None:
        """Lets go of the oldest results when there are many."""
        names = [name for name in os.listdir(self._folder) if _KEY.fullmatch(name)]
        if len(names) < KEPT:
            return
        paths = sorted((os.path.join(self._folder, name) for name in names), key=os.path.getmtime)
        for path in paths[: KEPT // 4]:
            with suppress(OSError):
                os.unlink(path)

"""Channels to the user, a file or the `apprise` library, and how often notices are sent through them."""

from __future__ import annotations

import logging
import os
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import Any
from urllib.parse import unquote, urlsplit

from remand.adapters.notices.addresses import read_addresses
from remand.adapters.system.files import hold_lock, read_start
from remand.app.notices import Channel


class FileChannel:
    """A file outside the repository, named by `file:///path`."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._path = unquote(urlsplit(url).path)

    def send(self, title: str, body: str) -> str:
        text = f"{title}\n{body}\n\n".encode()
        try:
            opened = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NONBLOCK, 0o600)
            try:
                os.write(opened, text)
            finally:
                os.close(opened)
        except OSError as error:
            return f"the file cannot be written: {error.strerror}"
        return ""


MISSING = "it takes the package apprise; install remand with its extra: pip install 'remand[notify]'"


class AppriseChannel:
    """An address that the `apprise` library sends to."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    def send(self, title: str, body: str) -> str:
        """Empty when the service took it, else why not; never with the address."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own affairs
            try:
                library: Any = import_module("apprise")
            except ImportError:
                return MISSING
            return self._send_with(library, title, body)

    def _send_with(self, library: Any, title: str, body: str) -> str:
        # The library tells of failures in its log, with parts of addresses.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        asset = library.AppriseAsset(async_mode=False, secure_logging=True, app_id="Remand")
        sender = library.Apprise(asset=asset)
        if not sender.add(self._url):
            return "apprise knows no such address; see its list of services"
        taken = sender.notify(title=title, body=body, body_format=library.NotifyFormat.TEXT)
        return "" if taken else "the service did not take it"


def open_channels() -> tuple[list[Channel], tuple[str, ...]]:
    """The channels that the user has named, and what is wrong with other addresses."""
    found = read_addresses()
    channels: list[Channel] = [
        FileChannel(*address) if address.url.lower().startswith("file://") else AppriseChannel(*address)
        for address in found.channels
    ]
    return channels, found.problems


FIRST, LONGEST = 1.0, 300.0
QUIET = 1800.0
"""After so many seconds without a notice, the next is sent at once again."""


class FilePace:
    """Remembers in a file when the last notice was sent, and how long the next has to wait."""

    def __init__(self, path: str) -> None:
        self._path = path

    def wait(self) -> None:
        at, step = self._last()
        left = at + step - time.time()
        if 0 < left <= LONGEST:
            time.sleep(left)

    @contextmanager
    def turn(self) -> Iterator[None]:
        """One process at a time: two would send the same."""
        os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with hold_lock(f"{self._path}.lock"):
            yield

    def note(self) -> None:
        at, step = self._last()
        now = time.time()
        longer = FIRST if now - at > QUIET else min(max(step * 2, FIRST), LONGEST)
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), mode=0o700, exist_ok=True)
        with suppress(OSError), open(self._path, "w", encoding="ascii") as file:
            file.write(f"{now} {longer}")

    def _last(self) -> tuple[float, float]:
        try:
            at, step = map(float, read_start(self._path, 100).split())
        except ValueError:
            return 0.0, 0.0
        return at, step

"""Channels through the `apprise` library: chat, mail, telephone. Loaded when something is to be sent."""

from __future__ import annotations

import logging
import warnings
from importlib import import_module
from typing import Any

MISSING = "it takes the package apprise; install remand with its extra: pip install 'remand[notify]'"


class AppriseChannel:
    """One address of the user's."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._url = url

    def send(self, title: str, body: str) -> str:
        """Sends a notice; empty when the channel took it, else why not. What it says never holds the address."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the library's own affairs
            try:
                library: Any = import_module("apprise")
            except ImportError:
                return MISSING
            return self._sent(library, title, body)

    def _sent(self, library: Any, title: str, body: str) -> str:
        # The library tells of failures in its log, with parts of addresses.
        logging.getLogger("apprise").setLevel(logging.CRITICAL + 1)
        asset = library.AppriseAsset(async_mode=False, secure_logging=True, app_id="Remand")
        sender = library.Apprise(asset=asset)
        if not sender.add(self._url):
            return "apprise knows no such address; see its list of services"
        taken = sender.notify(title=title, body=body, body_format=library.NotifyFormat.TEXT)
        return "" if taken else "the service did not take it"

"""The channel that needs nothing: notices are added to a file of the user's."""

from __future__ import annotations

import os
from urllib.parse import unquote, urlsplit

KIND = "file"


class FileChannel:
    """A file outside the repository, named by `file:///path`."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self._path = unquote(urlsplit(url).path)

    def send(self, title: str, body: str) -> str:
        """Adds a notice; empty when it is written, else why not."""
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

"""Pipes to a process, and files without a name that it reads."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from io import FileIO
from typing import IO


def pipe_of(stack: ExitStack) -> tuple[FileIO, FileIO]:
    """The two ends of a pipe: to read, and to write."""
    reading, writing = os.pipe()
    ends = FileIO(reading, "rb"), FileIO(writing, "wb")
    for end in ends:
        stack.enter_context(end)
    return ends


@contextmanager
def file_of(content: bytes) -> Iterator[int]:
    """The descriptor of a file without a name that holds a content."""
    with _nameless() as file:
        file.write(content)
        file.seek(0)
        yield file.fileno()


def _nameless() -> IO[bytes]:
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("remand"), "w+b")
    return tempfile.TemporaryFile()

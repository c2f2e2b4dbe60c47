"""Opens files that others may have put there."""

from __future__ import annotations

import errno
import os
import stat
from typing import BinaryIO

_FLAGS = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_CLOEXEC


def open_plain(path: str) -> BinaryIO:
    """A plain file, opened to be read; a link, a pipe or a folder raises `OSError`."""
    handle = os.open(path, _FLAGS)
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise OSError(errno.EINVAL, "it is no plain file")
    return open(handle, "rb")


def size(file: BinaryIO) -> int:
    """How many bytes an open file has."""
    return os.fstat(file.fileno()).st_size

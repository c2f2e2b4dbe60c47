"""Which programs gates would run, and whether they have changed."""

from __future__ import annotations

import glob
import os
import shutil
from collections.abc import Sequence
from hashlib import sha256


class SystemTools:
    """Tells programs apart by their files, without running them."""

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """Changes when one of the commands' programs does, or what is installed beside it."""
        search = os.pathsep.join(path)
        found = sorted({_identity(command[0], search) for command in commands if command})
        return sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:32]


def usable_path(path: str, without: Sequence[str]) -> tuple[str, ...]:
    """The folders of a search path in which an agent's worktree has no part.

    Shims (of pyenv, asdf and the like) start programs by way of a home folder that gates do not see.
    """
    folders = [
        folder
        for folder in path.split(os.pathsep)
        if os.path.isabs(folder) and os.path.basename(folder.rstrip("/")) != "shims"
    ]
    roots = [os.path.realpath(root) + os.sep for root in without if root]
    return tuple(
        folder
        for folder in dict.fromkeys(folders)
        if not any((os.path.realpath(folder) + os.sep).startswith(root) for root in roots)
    )


def _identity(program: str, search: str) -> str:
    where = shutil.which(program, path=search) or program
    real = os.path.realpath(where)
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(where)))
    packages = glob.glob(os.path.join(glob.escape(prefix), "lib", "python*", "site-packages"))
    return " ".join([program, real, *(_stamp(path) for path in (real, *sorted(packages)))])


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"

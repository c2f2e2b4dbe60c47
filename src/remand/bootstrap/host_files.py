"""Settings files of hosts in a project: changed together or not at all, and never followed out of it."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress

from remand.adapters.hosts.settings import UnusableSettings
from remand.app.errors import EnvironmentFault

MAX_SETTINGS = 8 << 20


def inside(root: str, name: str) -> str:
    """A settings file of the project; a link that leads out of it is not followed."""
    path = os.path.join(root, name)
    real_root = os.path.realpath(root)
    if os.path.commonpath([real_root, os.path.realpath(path)]) != real_root:
        raise EnvironmentFault(f"{path} is a link that leads out of the repository. Replace it by a file.")
    return path


def read(path: str) -> str | None:
    """What a settings file holds; None when it is not there."""
    if not os.path.lexists(path):
        return None
    try:
        if not os.path.isfile(path) or os.path.getsize(path) > MAX_SETTINGS:
            raise EnvironmentFault(f"{path} is not a settings file. Move it away, then repeat.")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except UnicodeDecodeError:
        raise EnvironmentFault(f"{path} is not text in UTF-8. Mend it, then repeat.") from None
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be read: {error.strerror}.") from None


def fault(path: str, problem: UnusableSettings) -> EnvironmentFault:
    """Why a file is left as it is."""
    return EnvironmentFault(f"{path} is left as it is: {problem}. Mend it, then repeat.")


class Changes:
    """What files are to hold. Nothing is written before `carry_out`, and that is refused nothing it could foresee."""

    def __init__(self) -> None:
        self._planned: dict[str, str | None] = {}
        self._roots: dict[str, str] = {}

    def text(self, path: str) -> str | None:
        """What a file holds, or will; None when it is not there."""
        return self._planned[path] if path in self._planned else read(path)

    def plan(self, root: str, path: str, text: str | None) -> None:
        """Notes what a file is to hold; None: it is deleted. Raises where it cannot be changed."""
        if self.text(path) == text:
            return
        require_writable(path)
        self._planned[path] = text
        self._roots[path] = root

    @property
    def paths(self) -> list[str]:
        """The files that will change."""
        return list(self._planned)

    def carry_out(self) -> None:
        """Writes what was planned."""
        for path, text in self._planned.items():
            if text is not None:
                write(path, text)
            elif os.path.lexists(path):
                remove(self._roots[path], path)


def require_writable(path: str) -> None:
    """Raises for a file, or a folder, that somebody has made read-only."""
    place = os.path.realpath(path)
    if os.path.isfile(place) and not os.stat(place).st_mode & 0o200:
        raise EnvironmentFault(f"{path} is read-only. Make it writable (chmod u+w), then repeat.")
    folder = os.path.dirname(place)
    while not os.path.exists(folder):
        folder = os.path.dirname(folder)
    if not os.path.isdir(folder) or not os.stat(folder).st_mode & 0o200 or not os.access(folder, os.W_OK):
        raise EnvironmentFault(f"{path} cannot be written: {folder} is no folder that you may write to.")


def write(path: str, text: str) -> None:
    """Replaces a file in one step."""
    target = os.path.realpath(path)
    try:
        os.makedirs(os.path.dirname(target), exist_ok=True)
        mode = os.stat(target).st_mode & 0o777 if os.path.exists(target) else 0o644
        with tempfile.NamedTemporaryFile(
            "w", encoding="utf-8", dir=os.path.dirname(target), prefix=".remand-", delete=False
        ) as draft:
            draft.write(text)
        os.chmod(draft.name, mode)
        os.replace(draft.name, target)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be written: {error.strerror}.") from None


def remove(root: str, path: str) -> None:
    """Deletes a file that held nothing but our entries, with the folders that it leaves empty."""
    try:
        os.unlink(path)
    except OSError as error:
        raise EnvironmentFault(f"{path} cannot be deleted: {error.strerror}.") from None
    folder = os.path.dirname(path)
    with suppress(OSError):
        while folder != root:
            os.rmdir(folder)
            folder = os.path.dirname(folder)

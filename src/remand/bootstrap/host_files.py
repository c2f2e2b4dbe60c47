"""Settings files of hosts in a project: read, replaced in one step, and never followed out of it."""

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


def write(path: str, text: str) -> None:
    """Replaces a file in one step; one that holds the same already is not touched."""
    target = os.path.realpath(path)
    if read(target) == text:
        return
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

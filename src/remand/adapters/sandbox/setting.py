"""What a job is started with: its program and its environment, neither of which it inherits."""

from __future__ import annotations

import os
import shutil

from remand.app.gates.ports import Job

SYSTEM_PATH = ("/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin")

# The same everywhere and at any time, so that a verdict can be repeated; a job's own environment may differ.
STEADY = {
    "LANG": "C.UTF-8",
    "TZ": "UTC",
    "PYTHONHASHSEED": "0",
    # Compiled files would be left in the checkout, where the next job would believe them.
    "PYTHONDONTWRITEBYTECODE": "1",
}


class CannotStart(Exception):  # noqa: N818 - a state of affairs; it never leaves the package
    """A job cannot be started; the message says what to do."""


def search_path(job: Job) -> list[str]:
    """The folders in which programs are found: the job's own, as far as they are there, then the system's."""
    own = [folder for folder in job.path if os.path.isabs(folder) and os.path.isdir(folder)]
    return list(dict.fromkeys([*own, *SYSTEM_PATH]))


def program(job: Job) -> str:
    """The absolute path of a job's program."""
    if not os.path.isabs(job.folder) or not os.path.isdir(job.folder):
        raise CannotStart(f"The folder {job.folder} is not there. Make the checkout again, then repeat.")
    if not job.command:
        raise CannotStart("The command is empty. Name a program in remand.toml.")
    name = job.command[0]
    if "/" in name:
        return _runnable(os.path.join(job.folder, name))
    found = shutil.which(name, path=os.pathsep.join(search_path(job)))
    if found is None:
        raise CannotStart(
            f"The program {name} is in none of {', '.join(search_path(job))}. Install it, or add the folder it"
            " is in to [sandbox] path in remand.toml."
        )
    return found


def _runnable(path: str) -> str:
    if not os.path.isfile(path):
        raise CannotStart(f"The program {path} is not there. Mend the command in remand.toml, or install it.")
    if not os.access(path, os.X_OK):
        raise CannotStart(f"The program {path} may not be run. Make it executable, then repeat.")
    return path


def environment(job: Job, *, home: str, temporary: str) -> dict[str, str]:
    """The whole environment of a job; where it finds programs and its own home is not for it to say."""
    for name in job.environment:
        if not name or "=" in name:
            raise CannotStart(f"{name!r} cannot be the name of a variable. Mend it in remand.toml.")
    return (
        STEADY
        | dict(job.environment)
        | {"PATH": os.pathsep.join(search_path(job)), "HOME": home, "TMPDIR": temporary, "PWD": job.folder}
    )


def encoded(texts: list[str]) -> list[bytes]:
    """Arguments as the system takes them."""
    try:
        given = [os.fsencode(text) for text in texts]
    except UnicodeEncodeError as fault:
        raise CannotStart(
            f"The command or its environment cannot be written as bytes: {fault.reason}."
        ) from None
    if any(b"\x00" in one for one in given):
        raise CannotStart("The command or its environment holds a NUL byte. Take it out of remand.toml.")
    return given

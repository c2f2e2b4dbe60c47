"""Which programs the gates would run, where they are, and whether they have changed."""

from __future__ import annotations

import os
import pwd
import sys
from collections.abc import Sequence
from hashlib import sha256


class SystemTools:
    """Tells programs apart by their files, without running them."""

    def digest(self, commands: Sequence[Sequence[str]], path: Sequence[str]) -> str:
        """Changes when one of the commands' programs does, or what is installed beside it."""
        search = os.pathsep.join(path)
        found = sorted({_identity(_program(command), search) for command in commands if command})
        return sha256("\n".join(found).encode("utf-8", "surrogateescape")).hexdigest()[:32]

    def missing_program(self, command: Sequence[str], path: Sequence[str]) -> str:
        """The program of a command that is nowhere to be found; empty when it is there, or only known later."""
        program = _program(command)
        if "{" in program:
            return ""
        where = _find_program(program, os.pathsep.join(path))
        return "" if os.access(where, os.X_OK) else program

    def standard_path(self) -> tuple[str, ...]:
        """Where programs are looked for when the configuration does not say: never in what the caller's PATH names.

        Whoever calls may be an agent. Beside this interpreter comes first, then the system's folders, then where
        toolchains install themselves.
        """
        home = _home()
        own = os.path.dirname(os.path.abspath(sys.executable))
        toolchains = (*_rust_toolchain(home), os.path.join(home, ".cargo", "bin"), "/usr/local/go/bin")
        folders = (own, "/usr/local/bin", "/usr/bin", "/bin", *toolchains)
        return tuple(folder for folder in dict.fromkeys(folders) if os.path.isdir(folder))


def _home() -> str:
    """The user's own, by the system's word; a container may give a user that the system does not know."""
    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return "/"


def _rust_toolchain(home: str) -> tuple[str, ...]:
    """The programs of rustup's default toolchain: its own proxies need a home folder that gates do not see."""
    rustup = os.path.join(home, ".rustup")
    try:
        with open(os.path.join(rustup, "settings.toml"), encoding="utf-8") as file:
            rows = [row.partition("=") for row in file.read(65536).splitlines()]
    except (OSError, UnicodeDecodeError):
        return ()
    named = [value.strip().strip('"') for key, _, value in rows if key.strip() == "default_toolchain"]
    return tuple(os.path.join(rustup, "toolchains", name, "bin") for name in named if "/" not in name)


def _program(command: Sequence[str]) -> str:
    """The program of a command, behind an `env` that sets variables for it."""
    words = [word for word in command if word != "env" and "=" not in word]
    return words[0] if words else command[0]


def _identity(program: str, search: str) -> str:
    where = _find_program(program, search)
    real = os.path.realpath(where)
    prefix = os.path.dirname(os.path.dirname(os.path.abspath(where)))
    return " ".join([program, real, *(_stamp(path) for path in (real, *_packages(prefix)))])


def _packages(prefix: str) -> list[str]:
    """Where the Pythons of a prefix have their packages."""
    library = os.path.join(prefix, "lib")
    try:
        names = [name for name in os.listdir(library) if name.startswith("python")]
    except OSError:
        return []
    paths = (os.path.join(library, name, "site-packages") for name in names)
    return sorted(path for path in paths if os.path.lexists(path))


def _find_program(program: str, search: str) -> str:
    """Where a program is, as the system would look for it."""
    if os.sep in program:
        return program
    places = (os.path.join(folder, program) for folder in search.split(os.pathsep))
    return next((path for path in places if os.access(path, os.X_OK) and os.path.isfile(path)), program)


def _stamp(path: str) -> str:
    try:
        status = os.stat(path)
    except OSError:
        return "-"
    return f"{status.st_size}.{status.st_mtime_ns}.{status.st_ino}"

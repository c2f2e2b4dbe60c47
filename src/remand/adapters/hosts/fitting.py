"""Agents' commands, fitted out for one run each: what their hosts need is put into a folder of the run's own."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.hosts.commands import Found, find
from remand.adapters.hosts.figures import told
from remand.adapters.hosts.outfit import Outfit, Run, pointed
from remand.adapters.hosts.outfits import claude, codex, copilot, cursor, gemini, openhands, qwen
from remand.app.scheduling.ports import CannotRun, Fitted, Told

OUTFITS = {
    "claude": claude.outfit,
    "codex": codex.outfit,
    "copilot": copilot.outfit,
    "cursor": cursor.outfit,
    "gemini": gemini.outfit,
    "openhands": openhands.outfit,
    "qwen": qwen.outfit,
}
PROMPT = "{prompt}"
PROMPT_FILE = "{prompt_file}"
MODULES = "/node_modules"
MAX_COPY = 32 << 20


class HostSetting(NamedTuple):
    """What all runs have in common."""

    folder: str
    """Where the folders of runs are; nobody else's to read."""
    program: str
    """Our own executable."""
    home: str
    """The user's."""
    surroundings: Mapping[str, str]
    """The scheduler's environment."""
    is_confined: bool


class Fitting:
    """Fits commands out, and reads what they say at their end."""

    def __init__(self, setting: HostSetting) -> None:
        self._setting = setting

    def fit(self, command: tuple[str, ...], run_id: str, prompt: str) -> Fitted:
        """The command of a run with what its host needs, which is there when this returns. Raises `CannotRun`."""
        self.drop(run_id)
        found = find(command)
        run = Run(
            words=command[found.at + 1 :] if found.host else (),
            folder=self._folder(run_id),
            program=self._setting.program,
            home=self._setting.home,
            surroundings=self._setting.surroundings,
            is_confined=self._setting.is_confined,
            prompt=prompt,
            is_placed=any(PROMPT in word or PROMPT_FILE in word for word in command),
        )
        if not found.host and not run.is_placed:
            return Fitted(command=command)
        outfit = _outfit(found.host, run)
        _put(run, outfit)
        return Fitted(
            command=_fitted(command, found, outfit, run),
            environment=outfit.environment,
            read=(run.folder, *outfit.links.values(), *_packages(command[: found.at + 1])),
            write=(run.state, *outfit.write),
            has_prompt=outfit.has_prompt,
        )

    def told(self, command: tuple[str, ...], output: str, status: int = 0) -> Told:
        """What the output of a command and its exit status tell; never raises."""
        return told(command, output, status)

    def drop(self, run_id: str) -> None:
        """Takes away what was made for a run. Whatever the agent has made of it, nothing outside is touched."""
        folder = self._folder(run_id)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                path = os.path.join(place, name)
                with suppress(OSError):
                    if not os.path.islink(path):
                        os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Takes away what a scheduler that was killed has left behind."""
        with suppress(OSError):
            for name in os.listdir(self._setting.folder):
                with suppress(CannotRun):
                    self.drop(name)

    def _folder(self, run_id: str) -> str:
        if not run_id or run_id.startswith(".") or os.path.basename(run_id) != run_id:
            raise CannotRun("program", f"{run_id!r} cannot be the id of a run.")
        return os.path.join(self._setting.folder, run_id)


def _outfit(host: str, run: Run) -> Outfit:
    """What a host needs. A command that says itself where the prompt goes gets it there and nowhere else."""
    own = OUTFITS[host](run) if host else Outfit()
    return own.joined(Outfit(files={run.prompt_file: run.prompt}, has_prompt=True)) if run.is_placed else own


def _packages(words: Sequence[str]) -> list[str]:
    """Where a host's own program lies that is a script: all of its packages, or else the one file."""
    named = [os.path.realpath(word) for word in words[1:] if os.path.isabs(word) and os.path.isfile(word)]
    return [path.partition(MODULES)[0] + MODULES if MODULES in path else path for path in named]


def _fitted(command: Sequence[str], found: Found, outfit: Outfit, run: Run) -> tuple[str, ...]:
    """The command with the arguments after the host's program or its subcommand, and the prompt in its place."""
    words = [_filled(word, run) for word in command]
    if not found.host:
        return tuple(words)
    at = next((n for n, word in enumerate(words) if n > found.at and word in outfit.after), found.at) + 1
    return (*words[:at], *outfit.arguments, *words[at:], *outfit.ending)


def _filled(word: str, run: Run) -> str:
    path = run.prompt_file
    if PROMPT not in word:
        return word.replace(PROMPT_FILE, path)
    before, _, after = word.partition(PROMPT)
    return f"{before.replace(PROMPT_FILE, path)}{pointed(run.prompt, path)}{_filled(after, run)}"


def _put(run: Run, outfit: Outfit) -> None:
    """Writes what the outfit consists of. Nobody but the user can read it."""
    try:
        os.makedirs(os.path.dirname(run.folder), mode=0o700, exist_ok=True)
        os.mkdir(run.folder, mode=0o700)
        os.mkdir(run.state, mode=0o700)
        for path, text in outfit.files.items():
            _write(path, text.encode("utf-8", "replace"))
        for path, source in outfit.copies.items():
            with suppress(FileNotFoundError), open(source, "rb") as file:
                _write(path, file.read(MAX_COPY))
        for path, target in outfit.links.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
    except OSError as fault:
        raise CannotRun(
            "disk", f"{run.folder} cannot be written: {fault.strerror}. Make room or mend its rights."
        ) from None


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

"""Prepares agents' commands for a run and reads their output, whatever host a command starts."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from remand.adapters.hosts import launch
from remand.adapters.hosts.launch import HostLaunchConfig, HostRun, option_value, prompt_argument
from remand.adapters.hosts.table import HOSTS
from remand.app.scheduler.ports import CannotRun, LaunchConfig, SessionResult
from remand.domain.evidence.shell_calls import find_started, program_of

FORMATS = ("--output-format", "-o")


class HostProgram(NamedTuple):
    """The host that a command starts."""

    host: str = ""
    """Empty for a plain script."""
    at: int = -1
    """The index of the host's program in the command."""


def find_host(command: Sequence[str]) -> HostProgram:
    """The host that a command starts, recognised by the name of its program, even behind a wrapper."""
    place = 0
    while place < len(command):
        program = program_of(command[place])
        host = next((name for name, module in HOSTS.items() if program in module.SETUP.programs), "")
        if host:
            return HostProgram(host, place)
        place = find_started(command, place)
    return HostProgram()


def read_session(command: Sequence[str], output: str, status: int = 0) -> SessionResult:
    """What a command's output reports about the session, if its output format allows; never raises."""
    name, at = find_host(command)
    if not name:
        return launch.read_script(output)
    host, words = HOSTS[name], list(command[at + 1 :])
    if option_value(words, *FORMATS) == "text" or not host.prints_json(words):
        return SessionResult(text=output.strip())
    result = host.read_output(list(launch.json_lines(output)))
    return result._replace(is_exhausted=result.is_exhausted or status in host.SETUP.out_of_turns)


def find_words(output: str) -> str:
    """The agent's last message at the end of the output of any host, without the JSON around it.

    Empty if there is only JSON and none of it is a message of the agent.
    """
    rows = [row for row in output.splitlines() if row.strip()]
    if not rows or not rows[-1].startswith("{"):
        return rows[-1] if rows else ""
    lines = list(launch.json_lines("\n".join(["", *rows])))
    results = [host.read_output(lines) for host in HOSTS.values()]
    return next((found for one in results if (found := one.text.strip() or one.error)), "")


PROMPT = "{prompt}"
PROMPT_FILE = "{prompt_file}"
MODULES = "/node_modules"
MAX_COPY = 32 << 20


class HostLauncher(NamedTuple):
    """Prepares commands for runs and reads their results."""

    folder: str
    """The parent of the runs' folders, readable only for the user."""
    program: str
    """Our own executable."""
    home: str
    """The user's home folder."""
    surroundings: Mapping[str, str]
    """The scheduler's environment."""
    is_confined: bool

    def launch_config(self, command: tuple[str, ...], run_id: str, prompt: str) -> LaunchConfig:
        """The command of a run with the files that its host needs, which have been written. Raises `CannotRun`."""
        self.drop(run_id)
        program = find_host(command)
        run = HostRun(
            words=command[program.at + 1 :] if program.host else (),
            folder=self._folder(run_id),
            program=self.program,
            home=self.home,
            surroundings=self.surroundings,
            is_confined=self.is_confined,
            prompt=prompt,
            is_placed=any(PROMPT in word or PROMPT_FILE in word for word in command),
        )
        if not program.host and not run.is_placed:
            return LaunchConfig(command=command)
        config = HOSTS[program.host].launch_config(run) if program.host else HostLaunchConfig()
        if run.is_placed:
            # A command with a placeholder for the prompt gets it only there.
            config = config.merge(HostLaunchConfig(files={run.prompt_file: run.prompt}, has_prompt=True))
        _write_config(run, config)
        return LaunchConfig(
            command=_build_command(command, program, config, run),
            environment=config.environment,
            read=(run.folder, *config.links.values(), *_packages(command[: program.at + 1])),
            write=(run.state, *config.write),
            has_prompt=config.has_prompt,
        )

    def parse_result(self, command: tuple[str, ...], output: str, status: int = 0) -> SessionResult:
        return read_session(command, output, status)

    def drop(self, run_id: str) -> None:
        """Removes a run's files, without following anything that the agent replaced by a link."""
        folder = self._folder(run_id)
        for place, folders, _ in os.walk(folder):
            for name in folders:
                path = os.path.join(place, name)
                with suppress(OSError):
                    if not os.path.islink(path):
                        os.chmod(path, 0o700)
        shutil.rmtree(folder, ignore_errors=True)

    def sweep(self) -> None:
        """Removes what a killed scheduler has left behind."""
        with suppress(OSError):
            for name in os.listdir(self.folder):
                with suppress(CannotRun):
                    self.drop(name)

    def _folder(self, run_id: str) -> str:
        if not run_id or run_id.startswith(".") or os.path.basename(run_id) != run_id:
            raise CannotRun("program", f"{run_id!r} cannot be the id of a run.")
        return os.path.join(self.folder, run_id)


def _packages(words: Sequence[str]) -> list[str]:
    """Where a host's program that is a script is installed: its whole package folder, or else the single file."""
    named = [os.path.realpath(word) for word in words[1:] if os.path.isabs(word) and os.path.isfile(word)]
    return [path.partition(MODULES)[0] + MODULES if MODULES in path else path for path in named]


def _build_command(
    command: Sequence[str], program: HostProgram, config: HostLaunchConfig, run: HostRun
) -> tuple[str, ...]:
    """The command with the arguments after the host's program or subcommand, and the prompt in its place."""
    words = [_fill_placeholders(word, run) for word in command]
    if not program.host:
        return tuple(words)
    at = next((n for n, word in enumerate(words) if n > program.at and word in config.after), program.at) + 1
    return (*words[:at], *config.arguments, *words[at:], *config.ending)


def _fill_placeholders(word: str, run: HostRun) -> str:
    path = run.prompt_file
    if PROMPT not in word:
        return word.replace(PROMPT_FILE, path)
    before, _, after = word.partition(PROMPT)
    return f"{before.replace(PROMPT_FILE, path)}{prompt_argument(run.prompt, path)}{_fill_placeholders(after, run)}"


def _write_config(run: HostRun, config: HostLaunchConfig) -> None:
    """Writes the files of a configuration, readable only for the user."""
    try:
        os.makedirs(os.path.dirname(run.folder), mode=0o700, exist_ok=True)
        os.mkdir(run.folder, mode=0o700)
        os.mkdir(run.state, mode=0o700)
        for path, text in config.files.items():
            _write(path, text.encode("utf-8", "replace"))
        for path, source in config.copies.items():
            with suppress(FileNotFoundError), open(source, "rb") as file:
                _write(path, file.read(MAX_COPY))
        for path, target in config.links.items():
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(target, path)
    except OSError as fault:
        raise CannotRun(
            "disk", f"{run.folder} cannot be written: {fault.strerror}. Free space or fix its permissions."
        ) from None


def _write(path: str, content: bytes) -> None:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        file.write(content)

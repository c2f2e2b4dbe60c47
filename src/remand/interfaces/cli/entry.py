"""The first thing that runs: hands the call to a coordinator if one is there, else does it here.

Nothing heavy is imported before that is known; a call through a coordinator starts in little more time
than Python itself.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module

from remand.app.agent_socket import agent_socket
from remand.bootstrap import quick
from remand.interfaces.cli.arguments import Call, split
from remand.interfaces.cli.registry import COMMANDS

ENVIRONMENT = ("REMAND_ACTOR", "REMAND_TASK", "REMAND_HANDOFF", "NO_COLOR", "COLUMNS")


def main() -> None:
    """Runs one call of the command line and leaves with its exit code."""
    _mend_streams()
    try:
        code = run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        code = 141
    except OSError as error:
        code = 3
        sys.stderr.write(f"remand: the answer cannot be written: {error.strerror}\n")
    # Everything is said; what is left of the interpreter's end is not worth waiting for.
    os._exit(code)


def _mend_streams() -> None:
    """Gives closed streams an end, and lets no character that a terminal lacks stop an answer."""
    if sys.stdin is None:
        sys.stdin = open(os.devnull, encoding="utf-8")  # noqa: SIM115 - open as long as the process
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the same
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the same
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def run(arguments: list[str]) -> int:
    """Runs one call, here or in the coordinator."""
    if arguments[:1] == ["hook"] and arguments[1:2] != ["relay"]:
        hook = import_module("remand.interfaces.hook.entry")
        answered: int = hook.run(arguments[1:], dict(os.environ))
        return answered
    call = split(arguments)
    if _is_nowhere():
        return _say_nowhere(call)
    if not call.key:
        # Under one key, a call that a lost coordinator may have carried out is not carried out again.
        call.key = f"cli-{os.urandom(8).hex()}"
        arguments = ["--key", call.key, *arguments]
    door = agent_socket(os.environ)
    if door:
        through = import_module("remand.interfaces.cli.through")
        if not through.is_local(call):
            spoken: int = through.run(door, call, arguments, _settings())
            return spoken
    forwarded = _forwarded(call, arguments)
    if forwarded is not None:
        return forwarded
    if call.command == "task list" and call.is_json and not call.wants_help:
        reading = import_module("remand.bootstrap.reading")
        listed = reading.task_list(call.folder, call.rest)
        if listed is not None:
            sys.stdout.write(listed + "\n")
            sys.stderr.write(reading.remarks_at(call.folder, is_users=not os.environ.get("REMAND_TASK")))
            return 0
    here = import_module("remand.interfaces.cli.main")
    environment = {name: os.environ.get(name, "") for name in ENVIRONMENT}
    code: int = here.run(arguments, here.Surroundings.of_this_process(environment))
    return code


def _is_nowhere() -> bool:
    """True when the working folder was deleted under this process."""
    try:
        os.getcwd()
    except FileNotFoundError:
        return True
    return False


def _say_nowhere(call: Call) -> int:
    here, errors = map(import_module, ("remand.interfaces.cli.main", "remand.app.errors"))
    gone = errors.EnvironmentFault("This folder was deleted. Go to one that is there, then repeat.")
    code: int = here.say_failure(call, here.Surroundings("", {}, sys.stdout, sys.stderr), gone)
    return code


def _forwarded(call: Call, arguments: list[str]) -> int | None:
    """The exit code of a call that a coordinator ran; None when it is to be run here."""
    entry = COMMANDS.get(call.command)
    if entry is None or not entry.may_be_forwarded or not call.is_self_contained:
        return None
    place = quick.locate(call.folder)
    if place is None or any(os.path.isdir(folder) for folder in place.event_folders[1:]):
        return None
    path = quick.find_socket(place)
    if not path:
        return None
    try:
        code, output, errors = quick.forward(path, os.getcwd(), _settings(), arguments)
    except quick.Lost:
        return None
    sys.stdout.buffer.write(output)
    sys.stderr.buffer.write(errors)
    sys.stderr.buffer.flush()
    return code


def _settings() -> list[str]:
    """What a call depends on besides its arguments."""
    own = [os.environ.get(name, "") for name in ENVIRONMENT]
    return [*own, "1" if sys.stdout.isatty() else "", _width()]


def _width() -> str:
    try:
        return str(os.get_terminal_size().columns)
    except OSError:
        return ""


if __name__ == "__main__":
    main()

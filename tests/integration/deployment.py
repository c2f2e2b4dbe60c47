"""The processes that the files in `deploy/` name, started here as they say: other folders, ports and programs, nothing else."""

from __future__ import annotations

import configparser
import os
import secrets
import shlex
import socket
import subprocess
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from tests.integration.machine import REMAND, Machine

DEPLOY = Path(__file__).parents[2] / "deploy"


class Service(NamedTuple):
    """A process as a file names it."""

    command: tuple[str, ...]
    environment: Mapping[str, str]
    folder: str
    check: tuple[str, ...] = ()
    """The command that says whether it is well."""

    def relocated(self, places: Mapping[str, str]) -> Service:
        """The same with other places: each text of the file is replaced by what it is here."""

        def here(text: str) -> str:
            for name, value in places.items():
                text = text.replace(name, value)
            return text

        return Service(
            tuple(map(here, self.command)),
            {name: here(value) for name, value in self.environment.items()},
            here(self.folder),
            tuple(map(here, self.check)),
        )

    def start(self, machine: Machine, **more: str) -> subprocess.Popen[str]:
        """Starts it; its programs are those that are installed here."""
        os.makedirs(self.folder, exist_ok=True)
        path = f"{os.path.dirname(REMAND)}:{os.environ['PATH']}"
        return machine.start(Path(self.folder), *self.command, env={**self.environment, **more, "PATH": path})


def compose_service(name: str) -> Service:
    """A service of the compose file. In the image, the entry point is what is started, in the state's folder."""
    found: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"][name]
    check = found.get("healthcheck", {}).get("test", ["CMD"])
    assert check[0] == "CMD"
    (volume,) = found["volumes"]
    return Service(
        (str(DEPLOY / "entrypoint"), *found["command"]),
        found["environment"],
        volume.partition(":")[2],
        tuple(check[1:]),
    )


def systemd_service(name: str) -> Service:
    """A unit of systemd."""
    parser = configparser.RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign] # names of units have capitals
    parser.read(DEPLOY / f"{name}.service")
    unit = parser["Service"]
    variable, _, value = unit["Environment"].partition("=")
    return Service(tuple(shlex.split(unit["ExecStart"])), {variable: value}, unit["WorkingDirectory"])


def free_port() -> str:
    """A port on which nobody listens, and which is given to nobody who asks for any before it is used."""
    while True:
        port = 20_000 + secrets.randbelow(10_000)
        with suppress(OSError), socket.socket() as found:
            found.bind(("127.0.0.1", port))
            return str(port)

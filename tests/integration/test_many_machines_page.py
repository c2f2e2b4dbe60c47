"""Plays docs/many-machines.md: every command of it, on hosts that share nothing, in the order of the page."""

from __future__ import annotations

import re
import signal
import subprocess
from pathlib import Path

import pytest

from tests.integration.deployment import free_port
from tests.integration.machine import PATIENCE, REMAND, Machine, end, wait_for
from tests.integration.test_deploy import fetch, make_certificate

PAGE = Path(__file__).parents[2] / "docs" / "many-machines.md"
BLOCK = re.compile(r"^```sh (\w+)( &)?\n(.*?)^```$", re.MULTILINE | re.DOTALL)


class Host:
    """One machine of the page: a home, a key, a folder, and a shell that is there for each block."""

    def __init__(self, places: dict[str, str], authority: Path) -> None:
        self.machine = Machine()
        self.places = places
        self.authority = authority
        self.folder = self.machine.folder / "work"
        self.folder.mkdir()
        self.is_in_project = False

    def start(self, script: str) -> subprocess.Popen[str]:
        for name, value in self.places.items():
            script = script.replace(name, value)
        script = re.sub(r"^pip install .*$", "true", script, flags=re.MULTILINE)
        folder = self.folder / "project" if self.is_in_project else self.folder
        self.is_in_project |= "cd project" in script
        path = f"{Path(REMAND).parent}:{self.machine.environment['PATH']}"
        more = {"PATH": path, "REMAND_CA": str(self.authority)}
        return self.machine.start(folder, "bash", "-eu", "-c", script, env=more)

    def run(self, script: str) -> str:
        process = self.start(script)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == 0, f"{script}\n→ {process.returncode}\n{out}\n{err}"
        return out


@pytest.mark.more
def test_every_command_of_the_page_works(tmp_path: Path, machine: Machine, database: str) -> None:
    make_certificate(tmp_path)
    first = machine.repository("first", config=None)
    machine.git(machine.folder, "clone", "-q", "--bare", str(first.path), "origin.git")
    port = free_port()
    places = {
        "https://forge.example/team/project.git": str(machine.folder / "origin.git"),
        "postgresql://remand@db.example/remand": database,
        "https://remand.example:8787": f"https://localhost:{port}",
        "--port 8787": f"--port {port}",
        "0.0.0.0": "127.0.0.1",
        "cert.pem": str(tmp_path / "cert.pem"),
        "key.pem": str(tmp_path / "key.pem"),
        "../ada.token": str(tmp_path / "ada.token"),
        "../lea.token": str(tmp_path / "lea.token"),
        "request.txt": str(tmp_path / "request.txt"),
    }
    hosts = {name: Host(places, tmp_path / "cert.pem") for name in ("server", "worker", "host")}
    started: list[subprocess.Popen[str]] = []
    said = ""
    try:
        for name, is_started, script in BLOCK.findall(PAGE.read_text()):
            if not is_started:
                said = hosts[name].run(script)
                continue
            started.append(hosts[name].start(script))
            if name == "server":
                address = f"https://localhost:{port}/readyz"
                wait_for(lambda: fetch(address, tmp_path / "cert.pem"), "the server to be ready")  # noqa: B023
        assert "provisional" in said
        for process in started:
            process.send_signal(signal.SIGTERM)
    finally:
        for process in started:
            end(process)
        for host in hosts.values():
            host.machine.close()

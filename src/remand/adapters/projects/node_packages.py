"""Installs a JavaScript project's packages apart from its checkouts. Prepare steps run it, with any Python
since 3.8.

`python3 {scripts}/node_packages.py {cache}` runs in the folder of a checkout that has the package.json. It
imports nothing of Remand, because it runs in a sandbox. The lock file decides which package manager is used;
npm fetches one that the user lacks. On failure it shows the manager's own messages.

It writes `{cache}/link.sh` for the gates. Sourced in the same folder of a checkout, the script links the
packages into folders of the checkout's own, because tools write to `node_modules/.cache`, and links workspace
members to the checkout's code.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

COPIED = re.compile(
    r"package(?:-lock)?\.json|npm-shrinkwrap\.json|pnpm-(?:lock|workspace)\.yaml|yarn\.lock|\.npmrc|\.yarnrc(?:\.yml)?|\.pnpmfile\.c?js"
)
COPIED_FOLDERS = re.compile(r"patches|(?:.*/)?\.yarn/(?:patches|plugins)")
SKIPPED = ("node_modules", ".git")
LOCKS = ("package-lock.json", "npm-shrinkwrap.json", "pnpm-lock.yaml", "yarn.lock")
PINS = "pins"
"""A folder whose content is restored when the environment is recreated."""
NPM = ["--ignore-scripts", "--no-audit", "--no-fund", "--engine-strict=false"]
PNPM_OF_LOCK = {"5": "7", "6": "8", "9": "9"}
"""The version of pnpm for each version of its lock file."""
OLDEST_NODE = 14
YARN_CLASSIC = "1.22.22"


def main(arguments: list[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("cache", type=Path)
    parser.add_argument("--with", action="append", default=[], dest="packages", help="a further package")
    parser.add_argument("--no-lock", action="store_true", help="install what package.json asks for")
    options = parser.parse_args(arguments)
    root, cache = Path.cwd(), options.cache
    members = copy_manifests(root, cache)
    for name in LOCKS if options.no_lock else ():
        (cache / name).unlink(missing_ok=True)
    work = use_disk(cache)
    node = install_node(cache, wanted_node(root))
    install(cache)
    if options.packages:
        run(["npm", "install", *NPM, "--prefix", str(cache / "reporters"), *options.packages], cache)
    shutil.rmtree(work, ignore_errors=True)
    # Builds that pack or install something would, for example, set up git hooks.
    lines = [
        *([f'PATH={shlex.quote(node)}:"$PATH"'] if node else []),
        *link_lines(cache, members),
        'PATH="$PWD/node_modules/.bin:$PATH"',
        "export npm_config_ignore_scripts=true",
    ]
    (cache / "link.sh").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def use_disk(cache: Path) -> Path:
    """Keeps downloads beside the installation: a sandbox's home and temporary folder are in memory."""
    work = cache / "work"
    work.mkdir(exist_ok=True)
    for name in ("TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "npm_config_cache", "YARN_CACHE_FOLDER"):
        os.environ[name] = str(work)
    os.environ["COREPACK_ENABLE_DOWNLOAD_PROMPT"] = "0"
    return work


def copy_manifests(root: Path, cache: Path) -> list[str]:
    """Copies only the files that package managers read; returns the folders that have a package.json."""
    members = []
    for at, folders, files in os.walk(root):
        folders[:] = sorted(name for name in folders if name not in SKIPPED)
        here = Path(at).relative_to(root)
        is_whole = COPIED_FOLDERS.fullmatch(here.as_posix()) is not None
        for name in files:
            if (is_whole or COPIED.fullmatch(name)) and not (root / here / name).is_symlink():
                (cache / here).mkdir(parents=True, exist_ok=True)
                shutil.copyfile(root / here / name, cache / here / name)
        if "package.json" in files:
            members.append(here.as_posix())
    return members


# Installation by the lock file's manager.


def install(cache: Path) -> None:
    """Installs what the lock file names, or else what package.json asks for, in the versions of the first time."""
    manager, version = named_manager(cache)
    if (cache / "pnpm-lock.yaml").exists():
        version = (
            version
            if manager == "pnpm"
            else pnpm_version((cache / "pnpm-lock.yaml").read_text(encoding="utf-8"))
        )
        command = program("pnpm", f"pnpm@{version or 'latest'}")
        run(
            [*command, "install", "--frozen-lockfile", "--ignore-scripts", "--config.engine-strict=false"],
            cache,
        )
    elif (cache / "yarn.lock").exists():
        install_by_yarn(cache, version if manager == "yarn" else "")
    elif (cache / "package-lock.json").exists() or (cache / "npm-shrinkwrap.json").exists():
        run(["npm", "ci", *NPM], cache)
    else:
        install_unlocked(cache)


def install_by_yarn(cache: Path, version: str) -> None:
    is_modern = "__metadata:" in (cache / "yarn.lock").read_text(encoding="utf-8")
    if is_modern:
        os.environ.update(YARN_NODE_LINKER="node-modules", YARN_ENABLE_SCRIPTS="false", YARN_IGNORE_PATH="1")
        os.environ.update(YARN_ENABLE_GLOBAL_CACHE="false", YARN_ENABLE_TELEMETRY="0")
        fetched = f"@yarnpkg/cli-dist@{version or 'latest'}"
        run(
            ["npx", "--yes", "--package", fetched, "yarn", "install", "--immutable", "--mode=skip-build"],
            cache,
        )
        shutil.rmtree(cache / ".yarn" / "cache", ignore_errors=True)
        return
    command = program("yarn", f"yarn@{version or YARN_CLASSIC}")
    run(
        [
            *command,
            "install",
            "--frozen-lockfile",
            "--ignore-scripts",
            "--ignore-engines",
            "--non-interactive",
        ],
        cache,
    )


def install_unlocked(cache: Path) -> None:
    """Installs without a lock file. Accepts peer conflicts, which old packages could not foresee npm refusing."""
    pinned = cache / PINS / "package-lock.json"
    if pinned.exists():
        shutil.copyfile(pinned, cache / "package-lock.json")
        if not run(["npm", "ci", *NPM, "--legacy-peer-deps"], cache, is_fatal=False):
            return
        (cache / "package-lock.json").unlink()
    command = ["npm", "install", "--package-lock", *NPM]
    if run(command, cache, is_fatal=False):
        run([*command, "--legacy-peer-deps"], cache)
    if (cache / "package-lock.json").exists():
        pinned.parent.mkdir(exist_ok=True)
        shutil.copyfile(cache / "package-lock.json", pinned)


def named_manager(cache: Path) -> tuple[str, str]:
    """The manager and version in package.json's `packageManager`."""
    text = str(package_at(cache).get("packageManager", ""))
    match = re.fullmatch(r"(npm|pnpm|yarn)@(\d[\w.-]*)(?:\+.*)?", text)
    return (match[1], match[2]) if match else ("", "")


def pnpm_version(lock: str) -> str:
    match = re.search(r"^lockfileVersion:\s*['\"]?(\d+)", lock, re.MULTILINE)
    return PNPM_OF_LOCK.get(match[1], "") if match else ""


def program(name: str, fetched: str) -> list[str]:
    """The user's own manager, or one that npm fetches."""
    return [name] if shutil.which(name) else ["npx", "--yes", fetched]


def package_at(folder: Path) -> dict[str, Any]:
    try:
        found = json.loads((folder / "package.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def run(command: list[str], folder: Path, *, is_fatal: bool = True) -> int:
    """Runs a command; if it is required and fails, exits with its status."""
    status = subprocess.run(command, cwd=folder, check=False).returncode
    if status and is_fatal:
        sys.exit(status)
    return status


# Node itself, if the user's is too old for the project.


def wanted_node(root: Path) -> str:
    """The Node versions that the project asks for; empty if it does not say, or the user's version fits."""
    engines = package_at(root).get("engines")
    wanted = str(engines.get("node", "")) if isinstance(engines, dict) else ""
    named = next((root / name for name in (".nvmrc", ".node-version") if (root / name).is_file()), None)
    if not wanted and named is not None:
        match = re.fullmatch(r"v?(\d+)[\w.]*", named.read_text(encoding="utf-8").strip())
        wanted = f">={match[1]}" if match else ""
    version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout
    has = tuple(map(int, re.findall(r"\d+", version)[:3]))
    return "" if not has or is_version_in(wanted, has) else wanted


def install_node(cache: Path, wanted: str) -> str:
    """Fetches the oldest suitable Node release. Returns its folder of programs, or an empty string if there is none."""
    lines = sorted(int(major) for major in re.findall(r"(?:^|[\s|^~>=v])(\d+)(?=[\s.|]|$)", wanted))
    machine = {"x86_64": "x64", "aarch64": "arm64"}.get(os.uname().machine, os.uname().machine)
    name = f"node-{sys.platform}-{machine}"
    for major in (line for line in lines if line >= OLDEST_NODE):
        command = ["npm", "install", *NPM, "--prefix", str(cache / "node"), f"{name}@{major}"]
        if not run(command, cache, is_fatal=False):
            return str(cache / "node" / "node_modules" / name / "bin")
    return ""


def is_version_in(wanted: str, version: tuple[int, ...]) -> bool:
    """True if a version is in an npm range, or the range is not understood."""
    ranges = [part.split() for part in re.sub(r"([<>=^~]+)\s+", r"\1", wanted).split("||") if part.strip()]
    return not ranges or any(all(is_bound_met(bound, version) for bound in bounds) for bounds in ranges)


def is_bound_met(bound: str, version: tuple[int, ...]) -> bool:
    match = re.fullmatch(r"(>=|<=|>|<|=|\^|~|)v?(\d+)(?:\.(\d+|x|\*))?(?:\.(\d+|x|\*))?", bound)
    if match is None:
        return True
    limit = tuple(int(part) for part in match.groups()[1:] if part and part.isdigit())
    start = version[: len(limit)]
    if match[1] in ("", "="):
        return start == limit
    if match[1] in ("^", "~"):
        return version >= limit and version[0] == limit[0]
    return {">=": version >= limit, "<=": start <= limit, ">": start > limit, "<": version < limit}[match[1]]


# The links into a checkout.


def link_lines(cache: Path, members: list[str]) -> Iterator[str]:
    """The commands that link every `node_modules` of the cache into a checkout."""
    for member in members:
        folder = Path(member) / "node_modules"
        if (cache / folder).is_dir():
            yield from link_folder(cache, folder)


def link_folder(cache: Path, folder: Path) -> Iterator[str]:
    names = sorted(
        name for name in os.listdir(cache / folder) if name not in (".cache", ".package-lock.json")
    )
    entries = [folder / name for name in names]
    split = [path for path in entries if has_member_link(cache, path)]
    yield f"mkdir -p {quote_path(folder)}"
    whole = [f"{cache}/{path}" for path in entries if path not in split and member_of(cache, path) is None]
    if whole:
        yield f"ln -sfn {' '.join(map(shlex.quote, whole))} {quote_path(folder)}/"
    for path in entries:
        target = member_of(cache, path)
        if target is not None:
            yield f"ln -sfn {quote_path(Path(os.path.relpath(target, path.parent)))} {quote_path(path)}"
    for path in split:
        yield from link_folder(cache, path)


def has_member_link(cache: Path, path: Path) -> bool:
    """True for a scope, or a folder of programs, that contains something of the workspace."""
    is_real = (cache / path).is_dir() and not (cache / path).is_symlink()
    if not is_real or not (path.name.startswith("@") or path.name == ".bin"):
        return False
    return any(member_of(cache, path / name) is not None for name in os.listdir(cache / path))


def member_of(cache: Path, path: Path) -> Path | None:
    """The path in the checkout to which a package manager's link leads; None for one into the cache."""
    if not (cache / path).is_symlink():
        return None
    target = Path(
        os.path.normpath(os.path.join(os.path.realpath(cache / path.parent), os.readlink(cache / path)))
    )
    # A member's program is linked through the member's own link.
    target = Path(os.path.realpath(target.parent)) / target.name if path.parent.name == ".bin" else target
    try:
        inside = target.relative_to(os.path.realpath(cache))
    except ValueError:
        return None
    return None if "node_modules" in inside.parts else inside


def quote_path(path: Path) -> str:
    return shlex.quote(path.as_posix())


if __name__ == "__main__":
    main(sys.argv[1:])

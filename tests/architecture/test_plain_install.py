"""Holds that every command, and what is shipped for tests of others, imports with the project's own dependencies alone."""

import json
import re
import subprocess
import sys
import tomllib
from importlib.metadata import PackageNotFoundError, packages_distributions, requires
from pathlib import Path

from packaging.requirements import Requirement

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text(encoding="utf-8"))["project"]

IMPORT_ALL = """
import importlib, json, pkgutil, sys

missing = set(json.loads(sys.argv[1]))

class NotInstalled:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in missing:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, NotInstalled())
import remand.testing
from remand.interfaces.cli.registry import COMMANDS
shipped = {module.name for module in pkgutil.walk_packages(remand.testing.__path__, "remand.testing.")}
failures = {}
for name in sorted(shipped | {entry.module_name for entry in COMMANDS.values()}):
    try:
        importlib.import_module(name)
    except ModuleNotFoundError as error:
        failures[name] = error.name
print(json.dumps(failures))
"""

SERVE = (
    IMPORT_ALL.partition("import remand.testing")[0]
    + """
from remand.interfaces.cli.entry import main
sys.argv = ["remand", "serve", "--port", "0", *sys.argv[2:]]
main()
"""
)


def normalize(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def plain_install() -> set[str]:
    """Every distribution that `pip install remand` brings, by its normalized name."""
    found: set[str] = set()
    left = [(Requirement(text), "") for text in PROJECT["dependencies"]]
    while left:
        requirement, extra = left.pop()
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        name = normalize(requirement.name)
        try:
            more = [Requirement(text) for text in requires(name) or ()]
        except PackageNotFoundError:
            continue
        for one in ("", *requirement.extras):
            if f"{name}[{one}]" not in found:
                found.add(f"{name}[{one}]")
                left += [(needed, one) for needed in more]
    return {name.removesuffix("[]") for name in found}


def not_installed() -> list[str]:
    """The top-level modules of every distribution here that a plain install does not have."""
    there = plain_install() | {"remand"}
    return sorted(
        module
        for module, distributions in packages_distributions().items()
        if not there.intersection(normalize(one) for one in distributions)
    )


def test_the_extras_are_told_from_what_a_plain_install_has() -> None:
    blocked = not_installed()

    assert {"pytest", "_pytest", "hypothesis", "networkx", "xdist"} <= set(blocked)
    assert not {"msgspec", "apsw", "cryptography", "httpx2", "remand"} & set(blocked)


def test_every_command_and_remand_testing_import_in_a_plain_install() -> None:
    call = [sys.executable, "-c", IMPORT_ALL, json.dumps(not_installed())]
    done = subprocess.run(call, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    failures = json.loads(done.stdout)
    assert not failures, f"modules that need an extra, and which: {failures}"


def test_a_server_without_its_packages_says_which_extra_has_them(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    call = [sys.executable, "-c", SERVE, json.dumps(not_installed())]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "Install remand[server]" in done.stderr


def test_a_store_that_there_is_not_is_named_before_a_package_that_is_missing(tmp_path: Path) -> None:
    subprocess.run(["git", "init", "--quiet"], cwd=tmp_path, check=True)
    call = [sys.executable, "-c", SERVE, json.dumps(not_installed()), "--store", "mysql://u@h/n"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=tmp_path)

    assert done.returncode == 2, done.stderr
    assert "--store is sqlite, or" in done.stderr

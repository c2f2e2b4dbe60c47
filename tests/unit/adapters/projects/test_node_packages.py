"""Packages are installed by the manager of the lock file, and linked so that a checkout's own code counts."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from remand.adapters.projects import node_packages


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    folder = tmp_path / "cache"
    folder.mkdir()
    return folder


def write(path: Path, text: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


class Commands:
    """What would be run."""

    def __init__(self, *failing: str) -> None:
        self.run: list[str] = []
        self._failing = failing

    def __call__(self, command: list[str], folder: Path, *, is_fatal: bool = True) -> int:
        self.run.append(" ".join(command))
        is_failing = any(word in self.run[-1] for word in self._failing)
        if not is_failing:
            write(folder / "package-lock.json")
        return int(is_failing)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Commands:
    found = Commands()
    monkeypatch.setattr(node_packages, "run", found)
    monkeypatch.setattr("shutil.which", lambda name: None)
    return found


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"package-lock.json": ""}, "npm ci "),
        ({"pnpm-lock.yaml": "lockfileVersion: '6.0'\n"}, "npx --yes pnpm@8 install --frozen-lockfile"),
        (
            {
                "pnpm-lock.yaml": "lockfileVersion: '9.0'\n",
                "package.json": '{"packageManager": "pnpm@10.28.0+sha512.a"}',
            },
            "npx --yes pnpm@10.28.0 install",
        ),
        ({"yarn.lock": "# yarn lockfile v1\n"}, "npx --yes yarn@1.22.22 install --frozen-lockfile"),
        (
            {"yarn.lock": "__metadata:\n  version: 8\n"},
            "npx --yes --package @yarnpkg/cli-dist@latest yarn install",
        ),
        ({}, "npm install --package-lock"),
    ],
    ids=["npm", "pnpm", "pnpm by name", "yarn", "new yarn", "no lock"],
)
def test_the_lock_file_says_which_manager_installs(
    cache: Path, commands: Commands, files: dict[str, str], expected: str
) -> None:
    for name, text in files.items():
        write(cache / name, text)

    node_packages.install(cache)

    assert commands.run[0].startswith(expected)


def test_what_npm_refuses_to_put_together_is_installed_as_older_ones_did(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commands = Commands("--engine-strict=false")
    commands._failing = (
        "npm install --package-lock --ignore-scripts --no-audit --no-fund --engine-strict=false",
    )
    monkeypatch.setattr(node_packages, "run", commands)

    node_packages.install(cache)

    assert commands.run[1] == f"{commands.run[0]} --legacy-peer-deps"


def test_versions_that_were_chosen_once_are_chosen_again(cache: Path, commands: Commands) -> None:
    node_packages.install(cache)
    assert (cache / "pins" / "package-lock.json").exists()

    (cache / "package-lock.json").unlink()
    node_packages.install(cache)

    assert commands.run[1].startswith("npm ci ")


def test_only_what_managers_read_is_copied(cache: Path, tmp_path: Path) -> None:
    root = tmp_path / "checkout"
    for name in (
        "package.json",
        "packages/a/package.json",
        "packages/a/index.js",
        "patches/x.patch",
        ".npmrc",
    ):
        write(root / name)
    write(root / "node_modules" / "b" / "package.json")

    assert node_packages.copy_manifests(root, cache) == [".", "packages/a"]
    copied = {path.relative_to(cache).as_posix() for path in cache.rglob("*") if path.is_file()}
    assert copied == {"package.json", "packages/a/package.json", "patches/x.patch", ".npmrc"}


def test_members_of_a_workspace_are_the_checkouts_own_code(cache: Path, tmp_path: Path) -> None:
    write(cache / "node_modules" / "lib" / "package.json", json.dumps({"name": "lib"}))
    write(cache / "node_modules" / "@scope" / "other" / "package.json")
    for member in ("a", "b"):
        write(cache / "packages" / member / "package.json")
    os.symlink("../packages/a", cache / "node_modules" / "a")
    os.symlink("../../packages/b", cache / "node_modules" / "@scope" / "b")
    write(cache / "packages" / "a" / "node_modules" / "deep" / "index.js")
    (cache / "node_modules" / ".bin").mkdir()
    os.symlink("../a/cli.js", cache / "node_modules" / ".bin" / "a")
    os.symlink("../lib/cli.js", cache / "node_modules" / ".bin" / "lib")
    checkout = tmp_path / "check out"
    write(checkout / "packages" / "a" / "cli.js", "the checkout's")
    write(checkout / "packages" / "b" / "index.js", "the checkout's")

    lines = "\n".join(node_packages.link_lines(cache, [".", "packages/a", "packages/b"]))
    subprocess.run(["sh", "-ec", lines], cwd=checkout, check=True)

    modules = checkout / "node_modules"
    assert (modules / "a" / "cli.js").read_text() == "the checkout's"
    assert (modules / "@scope" / "b" / "index.js").read_text() == "the checkout's"
    assert (modules / ".bin" / "a").read_text() == "the checkout's"
    assert (modules / "lib" / "package.json").exists()
    assert (modules / "@scope" / "other" / "package.json").exists()
    assert (checkout / "packages" / "a" / "node_modules" / "deep" / "index.js").exists()
    assert os.readlink(modules / ".bin" / "lib").startswith(str(cache))
    (modules / ".cache").mkdir()


def test_downloads_lie_on_disk_and_not_in_a_sandboxs_memory(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TMPDIR", "XDG_CACHE_HOME", "XDG_DATA_HOME", "npm_config_cache", "YARN_CACHE_FOLDER"):
        monkeypatch.setenv(name, "/tmp")

    work = str(node_packages.use_disk(cache))

    assert [os.environ[name] for name in ("TMPDIR", "npm_config_cache", "YARN_CACHE_FOLDER")] == [work] * 3


@pytest.mark.parametrize(
    ("wanted", "is_met"),
    [
        (">=22", False),
        (">= 18", True),
        ("^20.19.0 || >=22.12", True),
        ("^20.21.0 || >=22.12", False),
        ("20.x", True),
        ("18 || 22", False),
        (">=14 <20", False),
        (">=14 <=20", True),
        ("", True),
        ("whatever", True),
    ],
)
def test_a_projects_range_of_versions_of_node_is_understood(wanted: str, is_met: bool) -> None:
    assert node_packages.is_version_in(wanted, (20, 20, 2)) is is_met


def test_a_node_that_is_too_old_for_the_project_is_replaced(cache: Path, commands: Commands) -> None:
    folder = node_packages.install_node(cache, "^20.21.0 || >=22.12")

    assert "node_modules/node-" in folder
    assert commands.run[0].endswith("@20")
    assert node_packages.install_node(cache, "") == ""


def test_a_lock_file_that_cannot_be_installed_may_be_left_out(
    cache: Path, tmp_path: Path, commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path / "checkout" / "package.json")
    write(tmp_path / "checkout" / "yarn.lock")
    monkeypatch.chdir(tmp_path / "checkout")
    monkeypatch.setattr(node_packages, "use_disk", lambda folder: folder / "work")

    node_packages.main([str(cache), "--no-lock"])

    assert commands.run[0].startswith("npm install --package-lock")

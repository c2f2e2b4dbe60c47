"""Holds every way to check a tree out to the same contract."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from remand.adapters.git.checkouts import OverlayCheckouts, PooledCheckouts, overlay_options
from remand.adapters.git.mirror import GitMirror
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import Checkouts
from tests.integration.agents_repository import AgentsRepository, Files, Link, Script, Submodule, held

Opener = Callable[[], PooledCheckouts | OverlayCheckouts]

FILES: Files = {
    "README": b"read me\r\n",
    "empty": b"",
    "src/a.py": b"a = 1\n",
    "src/deep/er/b.py": b"b = 1\n",
    "run.sh": Script(b"#!/bin/sh\n"),
    "link": Link("src/a.py"),
    "out": Link("/etc/passwd"),
    "dangling": Link("nowhere"),
    "sub/module": Submodule("c" * 40),
    "caf\udce9\n": b"odd name\n",
    ".gitattributes": b"* text eol=crlf ident filter=x working-tree-encoding=UTF-16\n[attr]evil -text\n*.py evil\n",
    ".gitignore": b"*.pyc\n",
    "id.txt": b"$Id$\n",
}
HELD = {path: (None if isinstance(content, Submodule) else content) for path, content in FILES.items()}
PAGES: tuple[Files, ...] = (
    {"x": b"file", "y/a": b"1", "z": Link("x"), "s": Submodule("c" * 40), "mode": b"1", "kept/k": b"1"},
    {"x/a": b"1", "y": b"file", "z": b"file", "s": b"file", "mode": Script(b"1"), "kept/k": b"1"},
    {"x": Link("y"), "y/a/b": b"1", "z/a": b"1", "s/t": b"1", "mode": b"2", "kept/k": b"1"},
    {"kept/k": b"1", "x/y/z": Submodule("d" * 40), "y": Link("."), "z/a": Script(b"1"), "s": Link("x")},
)
"""Trees in which the same name is a file, a folder, a link and a submodule by turns."""


def folders_too_deep_for_a_path(folder: Path) -> None:
    here = os.open(folder, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d" * 50, dir_fd=here)
        below = os.open("d" * 50, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


def odd_files(folder: Path) -> None:
    os.mkfifo(folder / "fifo")
    os.mkfifo(folder / "src" / "fifo")
    with socket.socket(socket.AF_UNIX) as bound:
        here = os.open(folder, os.O_RDONLY)
        bound.bind(f"/proc/self/fd/{here}/socket")
        os.close(here)
    for name in (b"\xff\xfe", b"new\nline", b"-rf", b" ", b"\x1b[31m", b"n" * 255):
        Path(os.fsdecode(os.path.join(os.fsencode(folder), name))).write_bytes(b"x")
    (folder / "loop").symlink_to("loop")


def repository_inside(folder: Path) -> None:
    for place in (folder, folder / "src", folder / "sub" / "module", folder / "new"):
        subprocess.run(["git", "init", "-q", str(place)], check=True)


def locked_folders(folder: Path) -> None:
    for name in ("locked/in/side", "src/locked"):
        (folder / name).mkdir(parents=True)
        (folder / name / "file").write_bytes(b"x")
    for name in ("locked/in/side", "locked/in", "locked", "src/locked", "src/deep", "src", "."):
        (folder / name).chmod(0o555 if name != "src/locked" else 0)


def files_in_the_place_of_others(folder: Path) -> None:
    (folder / "README").unlink()
    (folder / "README").mkdir()
    (folder / "README" / "x").write_bytes(b"x")
    (folder / "link").unlink()
    (folder / "link").write_bytes(b"src/a.py")
    (folder / ".gitattributes").unlink()
    os.mkfifo(folder / ".gitattributes")
    shutil.rmtree(folder / "src" / "deep")
    (folder / "src" / "deep").write_bytes(b"x")
    (folder / "sub" / "module").rmdir()
    (folder / "sub" / "module").symlink_to("/tmp")


def everything_gone(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def folder_moved_away(folder: Path) -> None:
    (folder / "src").rename(folder / "source")
    (folder / "sub").rename(folder / "source" / "sub")


def change_with_the_old_times(folder: Path) -> None:
    path = folder / "src" / "a.py"
    before = path.stat()
    path.write_bytes(b"a = 2\n")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def change_by_rename_with_the_old_times(folder: Path) -> None:
    path = folder / "src" / "a.py"
    before = path.stat()
    (folder / "other").write_bytes(b"a = 3\n")
    os.utime(folder / "other", ns=(before.st_atime_ns, before.st_mtime_ns))
    (folder / "other").rename(path)


def modes(folder: Path) -> None:
    (folder / "src" / "a.py").chmod(0o777)
    (folder / "run.sh").chmod(0o644)
    (folder / "src").chmod(0o1777)
    (folder / "README").chmod(0)


def hard_links(folder: Path) -> None:
    with suppress(OSError):  # an overlay is a file system of its own
        os.link(folder / "src" / "a.py", folder.parents[3] / f"kept-{os.urandom(4).hex()}")
    os.link(folder / "README", folder / "README2")


def attributes(folder: Path) -> None:
    for name in ("src", "src/a.py"):
        try:
            os.setxattr(folder / name, "user.note", b"x")
        except OSError:
            pytest.skip("the file system keeps no attributes")


def links_out(folder: Path) -> None:
    shutil.rmtree(folder / "src")
    (folder / "src").symlink_to(folder.parents[3] / "precious")
    (folder / "new").symlink_to(folder.parents[3] / "precious")


LEFT = (
    folders_too_deep_for_a_path,
    odd_files,
    repository_inside,
    locked_folders,
    files_in_the_place_of_others,
    everything_gone,
    folder_moved_away,
    change_with_the_old_times,
    change_by_rename_with_the_old_times,
    modes,
    hard_links,
    attributes,
    links_out,
)


class CheckoutsContract:
    """What a lent folder holds, and what becomes of what is done to it."""

    @pytest.fixture
    def source(self, tmp_path: Path) -> AgentsRepository:
        return AgentsRepository(tmp_path / "agent")

    @pytest.fixture
    def mirror(self, tmp_path: Path, source: AgentsRepository) -> Iterator[GitMirror]:
        made = GitMirror(str(tmp_path / "mirror"), source.git_dir)
        yield made
        made.close()

    @pytest.fixture
    def checkouts(self, tmp_path: Path, opener: Opener) -> Iterator[Checkouts]:
        made = opener()
        yield made
        made._slots.trash.wait()  # what is deep would be too deep for pytest
        assert list((tmp_path / "checkouts").glob("*/trash/*")) == []

    def test_a_lent_folder_holds_the_tree_and_nothing_else(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree = mirror.fetch_commit(source.commit(FILES))
        with checkouts.lend(tree) as folder:
            assert held(folder) == HELD
            assert {
                os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in (".", "src", "run.sh")
            } == {0o755}
            assert os.stat(os.path.join(folder, "src/a.py")).st_mode & 0o777 == 0o644

    def test_the_modes_do_not_depend_on_the_umask(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree = mirror.fetch_commit(source.commit({"a/b": b"1"}))
        before = os.umask(0o077)
        try:
            with checkouts.lend(tree) as folder:
                assert [os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in ("", "a", "a/b")] == [
                    0o755,
                    0o755,
                    0o644,
                ]
        finally:
            os.umask(before)

    def test_what_is_written_there_is_gone_afterwards(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree = mirror.fetch_commit(source.commit(FILES))
        with checkouts.lend(tree) as folder:
            written = [Path(folder, name) for name in ("new", "src/__pycache__/a.pyc", "build/out")]
            for path in written:
                path.parent.mkdir(exist_ok=True)
                path.write_bytes(b"x")
            Path(folder, "src/a.py").write_bytes(b"a = 2\n")
        assert not any(path.exists() for path in written)
        with checkouts.lend(tree) as folder:
            assert held(folder) == HELD

    def test_each_borrower_has_a_folder_of_its_own(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree, other = (
            mirror.fetch_commit(source.commit(FILES)),
            mirror.fetch_commit(source.commit({"a": b"1"})),
        )
        with checkouts.lend(tree) as one, checkouts.lend(tree) as two, checkouts.lend(other) as three:
            Path(one, "README").write_bytes(b"mine")
            Path(one, "new").write_bytes(b"mine")
            assert held(two) == HELD
            assert held(three) == {"a": b"1"}

    def test_many_may_borrow_at_once(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        trees = [mirror.fetch_commit(source.commit({**FILES, "n": str(n).encode()})) for n in range(3)]
        wrong: list[object] = []

        def borrow(number: int) -> None:
            for turn in range(3):
                n = (number + turn) % 3
                with checkouts.lend(trees[n]) as folder:
                    if held(folder) != {**HELD, "n": str(n).encode()}:
                        wrong.append(number)
                    Path(folder, "README").write_bytes(str(number).encode())
                    Path(folder, f"own-{number}").write_bytes(b"x")

        threads = [threading.Thread(target=borrow, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert wrong == []

    def test_one_tree_follows_on_another_whatever_kinds_their_files_have(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        trees = [mirror.fetch_commit(source.commit(page)) for page in PAGES]
        for number in (0, 1, 2, 3, 0, 2, 1, 3, 2, 0, 3, 1):
            wanted = {
                path: (None if isinstance(content, Submodule) else content)
                for path, content in PAGES[number].items()
            }
            with checkouts.lend(trees[number]) as folder:
                assert held(folder) == wanted
                Path(folder, "left").write_bytes(b"x")

    @pytest.mark.parametrize("leave", LEFT)
    def test_whatever_is_left_behind_the_next_borrower_sees_nothing_of_it(
        self,
        tmp_path: Path,
        source: AgentsRepository,
        mirror: GitMirror,
        checkouts: Checkouts,
        leave: Callable[[Path], None],
    ) -> None:
        tree = mirror.fetch_commit(source.commit(FILES))
        other = mirror.fetch_commit(source.commit({"src": b"now a file", "new": b"1"}))
        for following in (tree, other, tree):
            with checkouts.lend(tree) as folder:
                precious = Path(folder).parents[3] / "precious"
                precious.mkdir(exist_ok=True)
                (precious / "a.py").write_bytes(b"precious")
                leave(Path(folder))
            with checkouts.lend(following) as folder:
                assert held(folder) == (HELD if following == tree else {"src": b"now a file", "new": b"1"})
                assert [os.listxattr(path) for path in (folder, os.path.join(folder, "src"))] == [[], []]
            assert (precious / "a.py").read_bytes() == b"precious", "no link was followed"

    def test_a_tree_that_is_not_there_is_not_lent(self, checkouts: Checkouts) -> None:
        for tree in ("e" * 40, "HEAD", "-x"):
            with pytest.raises(EnvironmentFault), checkouts.lend(tree):
                pytest.fail("it was lent")

    def test_a_failure_of_the_borrower_is_the_borrowers(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree = mirror.fetch_commit(source.commit(FILES))
        with pytest.raises(ZeroDivisionError), checkouts.lend(tree):
            raise ZeroDivisionError
        with checkouts.lend(tree) as folder:
            assert held(folder) == HELD

    def test_a_mirror_that_was_damaged_meanwhile_is_made_anew(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        tree = mirror.fetch_commit(source.commit(FILES))
        for pack in Path(mirror.repository.path, "objects", "pack").iterdir():
            pack.unlink()
        mirror.close()
        with checkouts.lend(tree) as folder:
            assert held(folder) == HELD

    def test_what_is_lent_can_be_bound_into_a_sandbox(
        self, source: AgentsRepository, mirror: GitMirror, checkouts: Checkouts
    ) -> None:
        if shutil.which("bwrap") is None:
            pytest.skip("bubblewrap is not installed")
        tree = mirror.fetch_commit(source.commit(FILES))
        with checkouts.lend(tree) as folder:
            script = f"cat {folder}/src/a.py && echo x > {folder}/src/new && rm {folder}/README && mv {folder}/src {folder}/moved"
            binds = ("--ro-bind", "/", "/", "--bind", folder, folder, "--unshare-all", "--die-with-parent")
            done = subprocess.run(["bwrap", *binds, "sh", "-c", script], capture_output=True, check=False)
            if b"Operation not permitted" in done.stderr:
                pytest.skip("bubblewrap may not run here")
            assert (done.returncode, done.stdout) == (0, b"a = 1\n"), done.stderr
            assert Path(folder, "moved", "new").exists()
        with checkouts.lend(tree) as folder:
            assert held(folder) == HELD


class TestPooledCheckouts(CheckoutsContract):
    @pytest.fixture
    def opener(self, tmp_path: Path, mirror: GitMirror) -> Opener:
        return lambda: PooledCheckouts(mirror, str(tmp_path / "checkouts"))


class TestOverlayCheckouts(CheckoutsContract):
    @pytest.fixture
    def opener(self, tmp_path: Path, mirror: GitMirror) -> Opener:
        options = overlay_options(str(tmp_path / "checkouts"))
        if options is None:
            pytest.skip("overlays may not be mounted here")
        return lambda: OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options)

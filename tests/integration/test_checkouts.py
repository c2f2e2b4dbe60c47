"""Checkouts in the long run: used again, used up, left by the killed, and looked at by other users."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec
import pytest

from remand.adapters.git.checkouts import (
    OverlayCheckouts,
    PooledCheckouts,
    best_checkouts,
    overlay_options,
    unmount,
)
from remand.adapters.git.files import Trash, file_signature, load_contents, save_contents
from remand.adapters.git.mirror import GitMirror
from remand.adapters.system.files import acquire_lock
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import Checkouts
from tests.integration.agents_repository import PATIENCE, AgentsRepository, held

FILES = {f"d{n % 7}/f{n}": f"{n}\n".encode() * 50 for n in range(200)}
NEWS = {"d1/f1": b"new\n", "d2/f2": None, "d9/new": b"new\n"}
NOBODY = 65534


@pytest.fixture
def source(tmp_path: Path) -> AgentsRepository:
    return AgentsRepository(tmp_path / "agent")


@pytest.fixture
def mirror(tmp_path: Path, source: AgentsRepository) -> Iterator[GitMirror]:
    made = GitMirror(str(tmp_path / "mirror"), source.git_dir)
    yield made
    made.close()


@pytest.fixture
def trees(source: AgentsRepository, mirror: GitMirror) -> tuple[str, str]:
    base = source.commit(FILES)
    return mirror.fetch_commit(base), mirror.fetch_commit(source.commit(NEWS, base))


@pytest.fixture
def options(tmp_path: Path) -> Iterator[str]:
    found = overlay_options(str(tmp_path / "checkouts"))
    if found is None:
        pytest.skip("overlays may not be mounted here")
    yield found
    for place in mounts(tmp_path):  # of a test that failed
        unmount(place)


def mounts(folder: Path) -> list[str]:
    """Where something is mounted in a folder."""
    places = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
    return [place for place in places if place.startswith(f"{folder}/")]


class TestPooled:
    def test_only_what_differs_is_written(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str]
    ) -> None:
        checkouts = PooledCheckouts(mirror, str(tmp_path / "checkouts"))
        with checkouts.lend(trees[0]) as folder:
            before = {path: os.stat(os.path.join(folder, path)) for path in FILES}
        with checkouts.lend(trees[1]) as again:
            after = {path: os.stat(os.path.join(again, path)) for path in FILES.keys() - {"d2/f2"}}
        assert again == folder
        assert [path for path in after if file_signature(after[path]) != file_signature(before[path])] == [
            "d1/f1"
        ]
        assert after["d1/f1"].st_ino == before["d1/f1"].st_ino, "files are written over, not made anew"

    def test_what_was_written_in_the_same_instant_is_read_again(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str]
    ) -> None:
        checkouts = PooledCheckouts(mirror, str(tmp_path / "checkouts"))
        with checkouts.lend(trees[0]) as folder:
            path = Path(folder, "d1/f1")
            path.write_bytes(path.read_bytes().replace(b"1", b"7"))
        note = str(Path(folder).parent / "contents")
        contents = load_contents(note)
        assert contents is not None
        contents.folders[b"d1/"][b"f1"] = file_signature(path.lstat())  # as if no time had passed
        save_contents(note, msgspec.structs.replace(contents, seen=path.lstat().st_ctime_ns))
        with checkouts.lend(trees[0]) as folder:
            assert path.read_bytes() == FILES["d1/f1"]

    @pytest.mark.parametrize("garbage", [b"", b"garbage", b"0" * 64 + b"\xff\xff"])
    def test_a_folder_whose_note_is_lost_is_made_anew(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str], garbage: bytes
    ) -> None:
        checkouts = PooledCheckouts(mirror, str(tmp_path / "checkouts"))
        with checkouts.lend(trees[0]) as folder:
            Path(folder, "d1/f1").write_bytes(b"x")
        Path(folder).parent.joinpath("contents").write_bytes(garbage)
        with checkouts.lend(trees[0]) as folder:
            assert held(folder) == FILES

    def test_whoever_comes_when_all_folders_are_lent_waits(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str]
    ) -> None:
        checkouts = PooledCheckouts(mirror, str(tmp_path / "checkouts"), limit=1)
        order: list[str] = []
        started = threading.Event()

        def borrow() -> None:
            started.set()
            with checkouts.lend(trees[0]):
                order.append("second")

        thread = threading.Thread(target=borrow)
        with checkouts.lend(trees[0]):
            thread.start()
            started.wait()
            order.append("first")
        thread.join()
        assert order == ["first", "second"]
        assert len(list((tmp_path / "checkouts" / "pooled" / "slots").iterdir())) == 1

    def test_a_disk_that_is_full_is_said(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str]
    ) -> None:
        small = tmp_path / "small"
        small.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(small)], capture_output=True, check=False
        )
        if mounted.returncode:
            pytest.skip("no file system may be mounted here")
        try:
            with (
                pytest.raises(EnvironmentFault, match="No space left"),
                PooledCheckouts(mirror, str(small / "checkouts")).lend(trees[0]),
            ):
                pytest.fail("it was lent")
        finally:
            subprocess.run(["umount", "-l", str(small)], check=True)

    @pytest.mark.skipif(os.geteuid() != 0, reason="takes root to become another user")
    def test_a_user_without_rights_gets_rid_of_read_only_folders(self, source: AgentsRepository) -> None:
        tree, home = source.commit(FILES), Path("/tmp", f"rmd-nobody-{os.getpid()}")
        shutil.copytree(source.path, home / "agent")
        for path in (home, *home.rglob("*")):
            os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
        child = os.fork()
        if not child:
            code = 1
            try:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                code = _lends_with_read_only_folders(home, tree)
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        shutil.rmtree(home)
        assert os.waitstatus_to_exitcode(status) == 0


def _lends_with_read_only_folders(home: Path, commit: str) -> int:
    mirror = GitMirror(str(home / "mirror"), str(home / "agent" / ".git"))
    tree = mirror.fetch_commit(commit)
    checkouts = PooledCheckouts(mirror, str(home / "checkouts"))
    for _ in range(2):
        with checkouts.lend(tree) as folder:
            if held(folder) != FILES:
                return 2
            for name in ("locked/in/side", "d1/locked"):
                Path(folder, name).mkdir(parents=True)
                Path(folder, name, "file").write_bytes(b"x")
            for name in ("locked/in/side", "locked/in", "locked", "d1/locked", "d1", "d2", "."):
                Path(folder, name).chmod(0o500 if name != "d2" else 0)
    checkouts._slots.trash.wait()
    mirror.close()
    return 3 if os.listdir(home / "checkouts" / "pooled" / "trash") else 0


@pytest.fixture
def immutable(tmp_path: Path) -> Iterator[Path]:
    """A folder and a file in it that even root cannot change."""
    folder = tmp_path / "there"
    folder.mkdir()
    (folder / "file").write_bytes(b"x")
    done = [
        subprocess.run(["chattr", "+i", str(path)], capture_output=True, check=False)
        for path in (folder / "file", folder)
    ]
    if any(one.returncode for one in done):
        pytest.skip("nothing can be made immutable here")
    yield folder
    subprocess.run(["chattr", "-R", "-i", str(tmp_path)], capture_output=True, check=False)


class TestTrash:
    def test_nothing_is_too_deep_or_too_tightly_locked_to_be_removed(self, tmp_path: Path) -> None:
        trash = Trash(str(tmp_path / "trash"))
        there = tmp_path / "there"
        there.mkdir()
        here = os.open(there, os.O_RDONLY)
        for depth in range(1100):
            os.mkdir("d" * 40, dir_fd=here)
            if depth % 100 == 0:
                os.mkfifo("pipe", dir_fd=here)
                os.symlink("..", "up", dir_fd=here)
            below = os.open("d" * 40, os.O_RDONLY, dir_fd=here)
            os.fchmod(here, 0)
            os.close(here)
            here = below
        os.close(here)
        trash.throw(str(there))
        assert not there.exists()
        trash.empty()
        assert os.listdir(tmp_path / "trash") == []

    def test_what_root_made_immutable_is_removed(self, tmp_path: Path, immutable: Path) -> None:
        trash = Trash(str(tmp_path / "trash"))
        trash.throw(str(immutable / "file"))
        trash.throw(str(immutable))
        trash.empty()
        assert os.listdir(tmp_path / "trash") == []

    def test_links_are_removed_and_not_what_they_lead_to(self, tmp_path: Path) -> None:
        (tmp_path / "precious").mkdir()
        (tmp_path / "precious" / "file").write_bytes(b"x")
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "link").symlink_to(tmp_path / "precious")
        (tmp_path / "link").symlink_to(tmp_path / "precious")
        trash = Trash(str(tmp_path / "trash"))
        trash.throw(str(tmp_path / "there"))
        trash.throw(str(tmp_path / "link"))
        trash.empty()
        assert os.listdir(tmp_path / "trash") == []
        assert (tmp_path / "precious" / "file").exists()

    def test_it_is_empty_after_waiting_whoever_empties_it_meanwhile(self, tmp_path: Path) -> None:
        place = str(tmp_path / "trash")
        trash, other = Trash(place), acquire_lock(f"{place}.lock")
        (tmp_path / "there").mkdir()
        trash.throw(str(tmp_path / "there"))
        threading.Timer(0.2, os.close, (other,)).start()
        trash.wait()
        assert os.listdir(place) == []

    def test_many_may_ask_at_once_to_have_it_emptied(self, tmp_path: Path) -> None:
        trash, faults = Trash(str(tmp_path / "trash")), []

        def ask() -> None:
            try:
                for _ in range(200):
                    trash.empty_soon()
            except RuntimeError as error:  # a thread started twice
                faults.append(error)

        askers = [threading.Thread(target=ask) for _ in range(8)]
        for asker in askers:
            asker.start()
        for asker in askers:
            asker.join()
        assert faults == []


class TestOverlay:
    def test_the_checkout_below_never_changes(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str], options: str
    ) -> None:
        checkouts = OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options)
        for _ in range(2):
            with checkouts.lend(trees[0]) as folder:
                Path(folder, "d1/f1").write_bytes(b"x")
                shutil.rmtree(Path(folder, "d2"))
                Path(folder, "d3").rename(Path(folder, "moved"))
        slots = tmp_path / "checkouts" / "overlay" / "slots"
        assert [held(str(slot / "tree")) for slot in slots.iterdir()] == [FILES]
        assert mounts(tmp_path) == []

    def test_what_a_killed_process_left_is_unmounted_at_the_next_start(
        self,
        tmp_path: Path,
        source: AgentsRepository,
        mirror: GitMirror,
        trees: tuple[str, str],
        options: str,
    ) -> None:
        process = lending(tmp_path, source, trees[0])
        process.kill()
        process.communicate()
        assert len(mounts(tmp_path)) == 1
        checkouts = OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options)
        assert mounts(tmp_path) == []
        with checkouts.lend(trees[0]) as folder:
            assert held(folder) == FILES
        assert os.listdir(tmp_path / "checkouts" / "overlay" / "leases") == []

    def test_what_a_living_process_has_borrowed_stays(
        self,
        tmp_path: Path,
        source: AgentsRepository,
        mirror: GitMirror,
        trees: tuple[str, str],
        options: str,
    ) -> None:
        process = lending(tmp_path, source, trees[0])
        checkouts = OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options)
        with checkouts.lend(trees[1]) as folder:
            assert Path(folder, "d9/new").exists()
        assert len(mounts(tmp_path)) == 1
        said, _ = process.communicate(b"\n", timeout=PATIENCE)
        assert said == b"FILES\n", "its checkout was not taken for another tree"
        assert mounts(tmp_path) == []

    def test_a_checkout_that_was_changed_behind_our_back_is_noticed_by_the_next_process(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str], options: str
    ) -> None:
        with OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options).lend(trees[0]):
            pass
        (below,) = (tmp_path / "checkouts" / "overlay" / "slots").glob("*/tree")
        (below / "d1" / "f1").write_bytes(b"x")
        (below / "new").write_bytes(b"x")
        with OverlayCheckouts(mirror, str(tmp_path / "checkouts"), options).lend(trees[0]) as folder:
            assert held(folder) == FILES

    def test_odd_letters_in_the_path_do_no_harm(
        self, tmp_path: Path, mirror: GitMirror, trees: tuple[str, str], options: str
    ) -> None:
        place = str(tmp_path / "a,b:c\\d e")
        with best_checkouts(mirror, place).lend(trees[0]) as folder:
            assert held(folder) == FILES

    def test_where_overlays_do_not_work_checkouts_are_pooled(
        self, tmp_path: Path, mirror: GitMirror, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("remand.adapters.git.checkouts._CHOICES", ("no_such_option",))
        assert isinstance(best_checkouts(mirror, str(tmp_path / "checkouts")), PooledCheckouts)


LENDING = """
import sys
from pathlib import Path
from remand.adapters.git.checkouts import PooledCheckouts, best_checkouts
from remand.adapters.git.mirror import GitMirror
kind, mirror, checkouts, source, *trees = sys.argv[1:]
mirror = GitMirror(mirror, source)
made = PooledCheckouts(mirror, checkouts) if kind == "pooled" else best_checkouts(mirror, checkouts)
print("ready", flush=True)
for tree in trees:
    with made.lend(tree) as folder:
        Path(folder, "left").write_bytes(b"x")
        Path(folder, "d1/f1").write_bytes(b"changed")
        if kind == "once":
            print("lent", flush=True)
            sys.stdin.readline()
            print("FILES" if len(list(Path(folder).glob("d*/f*"))) == 200 else "other")
"""


def lending(
    tmp_path: Path, source: AgentsRepository, *trees: str, kind: str = "once"
) -> subprocess.Popen[bytes]:
    """A process that borrows trees, and holds on to the first when it is to do so once."""
    process = subprocess.Popen(
        [
            sys.executable,
            "-c",
            LENDING,
            kind,
            str(tmp_path / "mirror"),
            str(tmp_path / "checkouts"),
            source.git_dir,
            *trees,
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    for _ in range(2 if kind == "once" else 1):
        process.stdout.readline()
    return process


@pytest.fixture(params=["pooled", "best"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opener(tmp_path: Path, mirror: GitMirror, kind: str) -> Callable[[], Checkouts]:
    place = str(tmp_path / "checkouts")
    return lambda: PooledCheckouts(mirror, place) if kind == "pooled" else best_checkouts(mirror, place)


@pytest.fixture
def killed(
    tmp_path: Path, source: AgentsRepository, trees: tuple[str, str], kind: str
) -> Callable[[float], None]:
    """Starts a process that borrows both trees in turn, and kills it after so many seconds."""

    def kill(seconds: float) -> None:
        process = lending(tmp_path, source, *trees * 5, kind=kind)
        time.sleep(seconds)
        process.send_signal(signal.SIGKILL)
        process.communicate()

    return kill


def test_whoever_is_killed_leaves_checkouts_that_can_be_used(
    tmp_path: Path,
    trees: tuple[str, str],
    opener: Callable[[], Checkouts],
    killed: Callable[[float], None],
    campaign: Callable[[int, int], int],
) -> None:
    chance = random.Random(2)
    wanted = (FILES, {path: content for path, content in {**FILES, **NEWS}.items() if content is not None})
    for _ in range(campaign(6, 150)):
        killed(chance.uniform(0, 0.15))
        checkouts = opener()
        assert mounts(tmp_path) == []
        for number in chance.sample((0, 1), 2):
            with checkouts.lend(trees[number]) as folder:
                assert held(folder) == wanted[number]

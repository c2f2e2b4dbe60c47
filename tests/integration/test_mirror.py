"""The mirror: the coordinator's own copy of the repository, and what can be asked of it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.adapters.git.location import locate
from remand.adapters.git.mirror import MAX_FILE, UNREAD, GitMirror
from remand.adapters.git.repository import GitRepository
from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import TreeChange
from tests.integration.agents_repository import PATIENCE, AgentsRepository, Link, Script, Submodule

NO_UTF8 = "caf\udce9"


@pytest.fixture
def source(tmp_path: Path) -> AgentsRepository:
    return AgentsRepository(tmp_path / "agent")


@pytest.fixture
def mirror(tmp_path: Path, source: AgentsRepository) -> Iterator[GitMirror]:
    made = GitMirror(str(tmp_path / "mirror"), source.git_dir)
    yield made
    made.close()


def another(mirror: GitMirror, source: AgentsRepository) -> GitMirror:
    """The same mirror, as another process opens it."""
    return GitMirror(os.path.dirname(mirror.repository.path), source.git_dir)


class TestBringing:
    def test_a_commit_gives_its_code_tree(self, mirror: GitMirror, source: AgentsRepository) -> None:
        plain = source.commit({"a.py": b"1\n", "b/c.py": b"2\n"})
        noted = source.commit({".got/events/x.jsonl": b"{}\n", ".gotten": b"3\n"}, plain)
        place = locate(str(source.path))
        assert place is not None
        for commit in (plain, noted):
            known = GitRepository(place).commit(commit)
            assert known is not None
            assert mirror.fetch_commit(commit) == known.tree

    @pytest.mark.parametrize(
        "name",
        [
            "HEAD",
            "main",
            "",
            "-x",
            "--upload-pack=touch canary",
            "a" * 39,
            "A" * 40,
            "a" * 40 + "\n",
            "a" * 40 + "^{tree}",
        ],
    )
    def test_nothing_but_a_full_id_is_taken(
        self, mirror: GitMirror, source: AgentsRepository, name: str
    ) -> None:
        source.git("update-ref", "refs/heads/main", source.commit({"a": b"1"}))
        with pytest.raises(EnvironmentFault, match="not a full commit"):
            mirror.fetch_commit(name)

    def test_a_commit_that_is_not_there_is_named(self, mirror: GitMirror) -> None:
        with pytest.raises(EnvironmentFault, match=f"no commit {'b' * 40}"):
            mirror.fetch_commit("b" * 40)

    def test_what_is_no_commit_is_refused(self, mirror: GitMirror, source: AgentsRepository) -> None:
        tree = source.tree({"a": b"1"})
        source.git("tag", "-a", "-m", "x", "v1", source.commit({"a": b"1"}))
        for found in (tree, source.blob(b"1"), source.git("rev-parse", "v1")):
            with pytest.raises(EnvironmentFault):
                mirror.fetch_commit(found)

    def test_a_known_commit_starts_no_process(
        self, mirror: GitMirror, source: AgentsRepository, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit = source.commit({"a": b"1", ".got/x": b"2"})
        tree = mirror.fetch_commit(commit)
        monkeypatch.setattr(subprocess, "Popen", lambda *given, **named: pytest.fail("a process was started"))
        assert another(mirror, source).fetch_commit(commit) == tree

    def test_only_what_is_new_is_sent(self, mirror: GitMirror, source: AgentsRepository) -> None:
        first = source.commit({f"f{n}": f"{n}\n".encode() for n in range(50)})
        mirror.fetch_commit(first)
        packs = Path(mirror.repository.path, "objects", "pack")
        before = set(packs.glob("*.idx"))
        mirror.fetch_commit(source.commit({"f1": b"new\n"}, first))
        (news,) = set(packs.glob("*.idx")) - before
        listed = mirror.repository.run("show-index", stdin=news.read_bytes())
        assert len(listed.stdout.splitlines()) == 3, "a commit, a tree and a file"

    def test_many_processes_may_bring_at_once(self, tmp_path: Path, source: AgentsRepository) -> None:
        base = source.commit({f"f{n}": os.urandom(2000) for n in range(20)})
        commits = [base, *(source.commit({"x": str(n).encode()}, base) for n in range(3))]
        code = (
            "import sys; from remand.adapters.git.mirror import GitMirror\n"
            "mirror = GitMirror(*sys.argv[1:3])\n"
            "print(*[mirror.fetch_commit(commit) for commit in sys.argv[3:]])\n"
        )
        processes = [
            subprocess.Popen(
                [
                    sys.executable,
                    "-c",
                    code,
                    str(tmp_path / "mirror"),
                    source.git_dir,
                    *commits[n:],
                    *commits[:n],
                ],
                stdout=subprocess.PIPE,
            )
            for n in range(4)
        ]
        wanted = sorted(source.git("rev-parse", f"{commit}^{{tree}}") for commit in commits)
        for process in processes:
            said, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert sorted(said.decode().split()) == wanted

    def test_a_folder_that_others_can_enter_is_not_used(
        self, tmp_path: Path, source: AgentsRepository
    ) -> None:
        (tmp_path / "open").mkdir()
        (tmp_path / "open").chmod(0o755)
        with pytest.raises(EnvironmentFault, match="chmod 700"):
            GitMirror(str(tmp_path / "open"), source.git_dir).fetch_commit(source.commit({"a": b"1"}))

    def test_a_repository_with_long_ids_is_mirrored_too(self, tmp_path: Path) -> None:
        source = AgentsRepository(tmp_path / "long", "--object-format=sha256")
        tree = source.git("mktree", stdin=f"100644 blob {source.blob(b'1')}\ta\n".encode())
        mirror = GitMirror(str(tmp_path / "mirror"), source.git_dir)
        assert mirror.fetch_commit(source.commit_tree(tree)) == tree
        composed = mirror.with_files(tree, {"b": b"2"})
        assert len(composed) == 64
        assert [(one.status, one.path) for one in mirror.changes(tree, composed)] == [("A", "b")]
        mirror.close()

    def test_our_own_environment_points_git_nowhere_else(
        self, mirror: GitMirror, source: AgentsRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        commit = source.commit({"a": b"1"})
        for name in ("GIT_DIR", "GIT_OBJECT_DIRECTORY", "GIT_INDEX_FILE", "GIT_NAMESPACE"):
            monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
        assert mirror.file(mirror.fetch_commit(commit), "a") == b"1"


class TestHistory:
    def test_two_branches_meet_where_they_parted(self, mirror: GitMirror, source: AgentsRepository) -> None:
        base = source.commit({"a": b"1"})
        left, right = source.commit({"a": b"2"}, base), source.commit({"a": b"3"}, base)
        alone = source.commit({"z": b"1"}, message="another root")
        for commit in (left, right, alone):
            mirror.fetch_commit(commit)
        assert mirror.merge_base(left, right) == base
        assert mirror.merge_base(left, alone) == ""
        assert mirror.is_ancestor(base, left)
        assert mirror.is_ancestor(left, left)
        assert not mirror.is_ancestor(left, right)

    def test_a_shallow_clone_has_the_history_it_has(self, tmp_path: Path, source: AgentsRepository) -> None:
        commits = [source.commit({"a": b"0"})]
        for n in range(1, 6):
            commits.append(source.commit({"a": str(n).encode()}, commits[-1]))
        source.git("update-ref", "refs/heads/main", commits[-1])
        clone = AgentsRepository(tmp_path / "clone")
        clone.git("fetch", "-q", "--depth=2", f"file://{source.path}", "main")
        new = clone.commit({"b": b"1"}, commits[-1])
        mirror = GitMirror(str(tmp_path / "mirror"), clone.git_dir)
        assert mirror.file(mirror.fetch_commit(new), "a") == b"5"
        assert mirror.merge_base(new, commits[-2]) == commits[-2]
        clone.git("fetch", "-q", "--unshallow", f"file://{source.path}", "main")
        mirror.fetch_commit(clone.commit({"b": b"2"}, new))
        assert mirror.is_ancestor(commits[0], new), "what the clone got later is there, too"
        mirror.close()

    def test_a_history_said_to_be_shorter_than_it_is_is_not_cut(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        base = source.commit({"a": b"1"})
        work = source.commit({"a": b"2"}, base)
        source.file(".git/shallow", f"{work}\n")
        source.file(".git/info/grafts", f"{work}\n")
        mirror.fetch_commit(work)
        assert mirror.is_ancestor(base, work)


class TestLooking:
    def test_every_kind_of_change_is_told(self, mirror: GitMirror, source: AgentsRepository) -> None:
        text, notes = ("".join(f"{word} {n}\n" for n in range(50)).encode() for word in ("line", "note"))
        base = source.commit(
            {
                "kept": b"1",
                "changed": b"1",
                "gone": b"1\n",
                "mode": b"1",
                "old": text,
                "kind": b"x",
                ".got/a": notes,
            }
        )
        work = source.commit(
            {
                "changed": b"2",
                "gone": None,
                "mode": Script(b"1"),
                "old": None,
                "new": text + b"more\n",
                "kind": Link("kept"),
                "sub": Submodule("c" * 40),
                ".got/a": None,
                ".got/b": b"2",
                "from-got": notes,
            },
            base,
        )
        found = mirror.changes(mirror.fetch_commit(base), mirror.fetch_commit(work))
        assert sorted(found) == [
            TreeChange("A", "from-got", "", "100644"),
            TreeChange("A", "sub", "", "160000"),
            TreeChange("D", "gone", "", ""),
            TreeChange("M", "changed", "", "100644"),
            TreeChange("M", "mode", "", "100755"),
            TreeChange("R", "new", "old", "100644"),
            TreeChange("T", "kind", "", "120000"),
        ]

    def test_events_are_left_out_wherever_they_come_from(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        tree = mirror.fetch_commit(source.commit({"a": b"1", ".got/events/x": b"2"}))
        noted = mirror.with_files(tree, {".got/events/x": b"2", ".gotten": b"3"})
        assert [one.path for one in mirror.changes(tree, noted)] == [".gotten"]
        assert mirror.paths(noted) == [".gotten", "a"]

    @pytest.mark.parametrize(
        "name", ["a\nb", 'q"uote', "back\\slash", "tab\t", NO_UTF8, "-x", ":(top)y", "sp ace "]
    )
    def test_names_come_back_as_they_are(
        self, mirror: GitMirror, source: AgentsRepository, name: str
    ) -> None:
        base = source.commit({"dir/x": b"1"})
        work = source.commit({f"dir/{name}": b"content"}, base)
        tree = mirror.fetch_commit(work)
        assert [one.path for one in mirror.changes(mirror.fetch_commit(base), tree)] == [f"dir/{name}"]
        assert mirror.paths(tree) == sorted([f"dir/{name}", "dir/x"], key=os.fsencode)
        assert mirror.file(tree, f"dir/{name}") == b"content"

    def test_only_plain_files_have_content(self, mirror: GitMirror, source: AgentsRepository) -> None:
        tree = mirror.fetch_commit(
            source.commit(
                {
                    "a/b": b"1",
                    "run": Script(b"#!"),
                    "link": Link("a/b"),
                    "out": Link("/etc/passwd"),
                    "sub": Submodule("c" * 40),
                    "none": b"",
                }
            )
        )
        assert mirror.file(tree, "a/b") == b"1"
        assert mirror.file(tree, "run") == b"#!"
        assert mirror.file(tree, "none") == b""
        for path in (
            "link",
            "out",
            "sub",
            "a",
            "",
            "/a/b",
            "a//b",
            "a/b/",
            "./a/b",
            "../a",
            "a/b/c",
            "link/b",
            "\n",
        ):
            assert mirror.file(tree, path) is None, path
        assert mirror.paths(tree) == ["a/b", "link", "none", "out", "run"]

    def test_links_are_told_with_their_targets(self, mirror: GitMirror, source: AgentsRepository) -> None:
        targets = {"link": "a/b", "c/out": "/etc/passwd", "c/up": "../a", "far": "x" * 5000}
        tree = mirror.fetch_commit(
            source.commit({"a/b": b"1", **{path: Link(to) for path, to in targets.items()}})
        )
        assert mirror.links(tree) == {"link": b"a/b", "c/out": b"/etc/passwd", "c/up": b"../a", "far": b""}

    def test_a_file_too_large_to_read_is_not_taken_for_absent(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        tree = mirror.fetch_commit(
            source.commit({"large": b"0" * (MAX_FILE + 1), "small": b"0" * MAX_FILE, "z": b"1"})
        )
        assert mirror.file(tree, "large") == UNREAD
        assert mirror.file(tree, "small") == b"0" * MAX_FILE
        assert mirror.file(tree, "z") == b"1", "the next question is answered"


class TestComposing:
    def test_the_named_paths_are_as_in_the_other_tree(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        base = {
            "conftest.py": b"base",
            "tests/a.py": b"base",
            "tests/deep/b.py": Script(b"base"),
            "was": b"file",
        }
        work = {
            "conftest.py": b"mine",
            "tests/a.py": b"mine",
            "tests/new.py": b"mine",
            "src/x.py": b"mine",
            "only/here.py": b"mine",
            "was/folder": b"mine",
        }
        wanted = {
            "conftest.py": b"base",
            "tests/a.py": b"base",
            "tests/deep/b.py": Script(b"base"),
            "src/x.py": b"mine",
            "was": b"file",
        }
        base_tree, tree = mirror.fetch_commit(source.commit(base)), mirror.fetch_commit(source.commit(work))
        paths = [
            "conftest.py",
            "tests/a.py",
            "tests/deep/b.py",
            "tests/new.py",
            "only/here.py",
            "was",
            "not/anywhere",
            "src/x.py/y",
        ]
        assert mirror.compose(tree, base_tree, paths) == source.tree(wanted)

    def test_a_whole_folder_can_be_named(self, mirror: GitMirror, source: AgentsRepository) -> None:
        base_tree = mirror.fetch_commit(source.commit({"tests/a.py": b"base", "tests/b/c.py": b"base"}))
        tree = mirror.fetch_commit(
            source.commit({"tests/a.py": b"mine", "tests/z.py": b"mine", "x": b"mine"})
        )
        wanted = source.tree({"tests/a.py": b"base", "tests/b/c.py": b"base", "x": b"mine"})
        assert mirror.compose(tree, base_tree, ["tests"]) == wanted

    def test_names_sort_as_git_sorts_them(self, mirror: GitMirror, source: AgentsRepository) -> None:
        names = {"a": b"1", "a.b": b"1", "a0": b"1", "b-": b"1", "b/x": b"1", "b0": b"1"}
        tree, base_tree = (
            mirror.fetch_commit(source.commit(names)),
            mirror.fetch_commit(source.commit({"a/x": b"2"})),
        )
        assert mirror.compose(tree, base_tree, ["a"]) == source.tree({**names, "a": None, "a/x": b"2"})

    def test_files_can_be_put_in(self, mirror: GitMirror, source: AgentsRepository) -> None:
        tree = mirror.fetch_commit(source.commit({"a": Script(b"1"), "b/c": b"1", "link": Link("a")}))
        found = mirror.with_files(tree, {"a": b"2", "b/c": b"3", "new/file": b"4", "link": b"5"})
        assert found == source.tree({"a": Script(b"2"), "b/c": b"3", "new/file": b"4", "link": b"5"})
        assert mirror.file(found, "new/file") == b"4"
        assert mirror.with_files(tree, {}) == tree

    def test_a_path_deeper_than_any_is_not_looked_into(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        tree = mirror.fetch_commit(source.commit({"a": b"1"}))
        with pytest.raises(EnvironmentFault, match="deep"):
            mirror.compose(tree, tree, ["x/" * 5000 + "y"])


class TestDamage:
    @pytest.mark.parametrize("what", ["packs", "half a pack", "garbage", "config", "HEAD", "mark", "all"])
    def test_a_damaged_mirror_is_made_anew_by_itself(
        self, mirror: GitMirror, source: AgentsRepository, what: str
    ) -> None:
        commit = source.commit({f"f{n}": os.urandom(500) for n in range(10)})
        tree = mirror.fetch_commit(commit)
        mirror.close()
        folder = Path(mirror.repository.path)
        (pack,) = (folder / "objects" / "pack").glob("*.pack")
        pack.chmod(0o600)
        match what:
            case "packs":
                pack.unlink()
            case "half a pack":
                os.truncate(pack, pack.stat().st_size // 2)
            case "garbage":
                pack.write_bytes(os.urandom(pack.stat().st_size))
            case "config":
                (folder / "config").write_text("[core]\n\tfsmonitor = touch canary\n")
            case "HEAD":
                (folder / "HEAD").unlink()
            case "mark":
                (folder / "refs" / "brought" / commit / "tree").write_text("")
            case _:
                subprocess.run(["rm", "-r", str(folder.parent)], check=True)
        again = another(mirror, source)
        new = source.commit({"f1": b"new"}, commit)
        assert again.fetch_commit(commit) == tree
        assert again.file(again.fetch_commit(new), "f1") == b"new"
        assert len(again.paths(tree)) == 10
        assert all(again.file(tree, path) is not None for path in again.paths(tree))
        assert again.repository.is_sound()
        again.close()

    def test_a_question_to_a_damaged_mirror_is_answered(
        self, mirror: GitMirror, source: AgentsRepository
    ) -> None:
        base = source.commit({"a": b"1", "b/c": b"2"})
        work = source.commit({"a": b"3"}, base)
        questions: list[Callable[[str, str], object]] = [
            lambda base_tree, tree: mirror.file(tree, "a"),
            lambda base_tree, tree: mirror.paths(tree),
            mirror.changes,
            lambda base_tree, tree: mirror.compose(tree, base_tree, ["a"]),
            lambda base_tree, tree: mirror.merge_base(base, work),
        ]
        trees = (mirror.fetch_commit(base), mirror.fetch_commit(work))
        answers = [ask(*trees) for ask in questions]
        for ask, answer in zip(questions, answers, strict=True):
            mirror.close()
            for pack in Path(mirror.repository.path, "objects", "pack").glob("*.pack"):
                pack.unlink()
            assert ask(*trees) == answer

    def test_a_reader_that_was_killed_is_replaced(self, mirror: GitMirror, source: AgentsRepository) -> None:
        tree = mirror.fetch_commit(source.commit({"a": b"1", "b": b"2"}))
        assert mirror.file(tree, "a") == b"1"
        assert mirror.objects._process is not None
        mirror.objects._process.kill()
        assert mirror.file(tree, "b") == b"2"

"""Whatever an agent plants in its repository, nothing of it runs, and nothing but true objects is taken from it."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from remand.adapters.git.checkouts import PooledCheckouts
from remand.adapters.git.mirror import GitMirror
from remand.app.errors import EnvironmentFault
from tests.integration.agents_repository import AgentsRepository, Link, held

HOOKS = (
    *("post-checkout", "pre-commit", "reference-transaction", "post-index-change", "fsmonitor-watchman"),
    *("pre-auto-gc", "post-rewrite", "post-merge", "pre-receive", "update", "post-update", "proc-receive"),
)
ATTRIBUTES = """\
[attr]evil filter=evil diff=evil text eol=crlf ident
* filter=evil diff=evil merge=evil text eol=crlf ident working-tree-encoding=UTF-16
*.py evil
[attr]text filter=evil
"""


@pytest.fixture
def source(tmp_path: Path) -> AgentsRepository:
    return AgentsRepository(tmp_path / "agent")


@pytest.fixture
def mirror(tmp_path: Path, source: AgentsRepository) -> Iterator[GitMirror]:
    made = GitMirror(str(tmp_path / "mirror"), source.git_dir)
    yield made
    made.close()


class TestPlantedPrograms:
    def test_nothing_planted_runs(self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror) -> None:
        canary = tmp_path / "canary"
        run = tmp_path / "run"
        run.write_text(f"#!/bin/sh\ntouch {canary}\nexec cat\n")
        run.chmod(0o755)
        text = "".join(f"line {n} $Id$\n" for n in range(30)).encode()
        base = source.commit({"a.py": text, "tests/b.py": b"1\n", ".gitattributes": ATTRIBUTES.encode()})
        modules = f'[submodule "s"]\n\tpath = s\n\turl = ext::{run}\n\tupdate = !{run}\n'
        work = source.commit({"a.py": None, "c.py": text + b"more\n", ".gitmodules": modules.encode()}, base)
        plant(source, str(run))
        source.git("diff", base, work, check=False)
        assert canary.exists(), "what is planted runs where git is asked there"
        canary.unlink()

        tree, base_tree = mirror.fetch_commit(work), mirror.fetch_commit(base)
        assert [one.status for one in mirror.changes(base_tree, tree)] == ["A", "R"]
        assert mirror.file(tree, "c.py") == text + b"more\n"
        composed = mirror.compose(tree, base_tree, ["tests/b.py", "a.py"])
        assert mirror.merge_base(work, base) == base
        checkouts = PooledCheckouts(mirror, str(tmp_path / "checkouts"))
        for one in (base_tree, tree, composed, tree):
            with checkouts.lend(one) as folder:
                found = held(folder)
        assert found["c.py"] == text + b"more\n", "no filter, no line ends, no $Id$, no encoding"
        assert not mirror.repair()
        assert not canary.exists()

    def test_missing_objects_are_not_fetched_by_what_the_agent_configures(
        self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror
    ) -> None:
        canary = tmp_path / "canary"
        commit = source.commit({"a": b"1"})
        blob = source.git("rev-parse", f"{commit}:a")
        (source.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()
        for key, value in (
            ("core.repositoryformatversion", "1"),
            ("extensions.partialClone", "origin"),
            ("remote.origin.promisor", "true"),
            ("remote.origin.url", f"ext::touch {canary}"),
            ("remote.origin.uploadpack", f"touch {canary};"),
            ("protocol.ext.allow", "always"),
        ):
            source.git("config", key, value)
        with pytest.raises(EnvironmentFault, match="missing"):
            mirror.fetch_commit(commit)
        assert not canary.exists()


def plant(source: AgentsRepository, run: str) -> None:
    """Configures everything by which git can be brought to run a program."""
    for hook in HOOKS:
        source.file(f".git/hooks/{hook}", Path(run).read_text(), 0o755)
    keys = {
        "core.fsmonitor": run,
        "core.hooksPath": str(source.path / ".git" / "hooks"),
        "core.alternateRefsCommand": run,
        "core.sshCommand": run,
        "core.pager": run,
        "core.editor": run,
        "core.askPass": run,
        "core.gitProxy": run,
        "core.worktree": os.path.dirname(run),
        "core.attributesFile": str(source.path / "attributes"),
        "uploadpack.packObjectsHook": run,
        "uploadpack.allowAnySHA1InWant": "false",
        "filter.evil.clean": run,
        "filter.evil.smudge": run,
        "filter.evil.process": run,
        "filter.evil.required": "true",
        "diff.evil.textconv": run,
        "diff.evil.command": run,
        "diff.external": run,
        "merge.evil.driver": run,
        "credential.helper": f"!{run}",
        "gpg.program": run,
        "pager.diff-tree": run,
        "alias.fsck": f"!{run}",
        "url.ext::sh.insteadOf": "/",
        "protocol.ext.allow": "always",
        "trace2.eventTarget": f"{run}.trace",
        "extensions.worktreeConfig": "true",
        "transfer.hideRefs": "refs",
        "pack.packSizeLimit": "1",
        "include.path": str(source.path / "included"),
    }
    more = "".join(
        f"[core]\n\tfsmonitor = {run}\n\thooksPath = {source.path}/.git/hooks\n[alias]\n\tlog = !{run}\n"
    )
    source.file("included", more)
    source.file(".git/config.worktree", more)
    source.file("attributes", ATTRIBUTES)
    source.file(".git/info/attributes", ATTRIBUTES)
    source.file(".gitattributes", ATTRIBUTES)
    with (source.path / ".git" / "config").open("a", encoding="utf-8") as file:
        for key, value in keys.items():
            section, _, name = key.rpartition(".")
            head, _, part = section.partition(".")
            file.write(f'[{head} "{part}"]\n' if part else f"[{head}]\n")
            file.write(f"\t{name} = {value}\n")


def poisoned_blob(source: AgentsRepository) -> str:
    commit = source.commit({"a.py": b"assert True\n", "b.py": b"1\n"})
    source.write_object("blob", b"assert False\n", source.git("rev-parse", f"{commit}:a.py"))
    return commit


def poisoned_tree(source: AgentsRepository) -> str:
    commit = source.commit({"a/b.py": b"1\n"})
    other = source.tree({"b.py": b"2\n"})
    content = bytes.fromhex(source.git("rev-parse", f"{other}:b.py"))
    source.write_object("tree", b"100644 b.py\0" + content, source.git("rev-parse", f"{commit}:a"))
    return commit


def poisoned_commit(source: AgentsRepository) -> str:
    commit = source.commit({"a.py": b"1\n"})
    other = source.git("cat-file", "commit", source.commit({"a.py": b"2\n"}))
    source.write_object("commit", other.encode() + b"\n", commit)
    return commit


def poisoned_parent(source: AgentsRepository) -> str:
    base = source.commit({"a.py": b"1\n"})
    work = source.commit({"a.py": b"2\n"}, base)
    source.write_object("commit", source.git("cat-file", "commit", work).encode() + b"\n", base)
    return work


def another_kind(source: AgentsRepository) -> str:
    commit = source.commit({"a.py": b"1\n"})
    source.write_object("tree", b"", source.git("rev-parse", f"{commit}:a.py"))
    return commit


def no_object_at_all(source: AgentsRepository) -> str:
    commit = source.commit({"a.py": b"1\n"})
    blob = source.git("rev-parse", f"{commit}:a.py")
    path = source.path / ".git" / "objects" / blob[:2] / blob[2:]
    path.chmod(0o600)
    path.write_bytes(b"\x78\x01garbage")
    return commit


def flipped_bits_in_a_pack(source: AgentsRepository) -> str:
    commit = source.commit({f"f{n}": os.urandom(300) for n in range(10)})
    pack = packed(source, commit, ".pack")
    content = bytearray(pack.read_bytes())
    for place in range(len(content) // 3, 2 * len(content) // 3, 97):
        content[place] ^= 0xFF
    pack.write_bytes(content)
    return commit


def false_name_in_an_index_of_a_pack(source: AgentsRepository) -> str:
    commit = source.commit({"a.py": b"assert False\n"})
    blob = source.git("rev-parse", f"{commit}:a.py")
    index = packed(source, commit, ".idx")
    false = f"{int(blob, 16) ^ 1:040x}"
    index.write_bytes(index.read_bytes().replace(bytes.fromhex(blob), bytes.fromhex(false)))
    assert source.git("cat-file", "blob", false) == "assert False", "git itself believes the name"
    return source.commit_tree(source.raw_tree(("100644", "a.py", false)))


def packed(source: AgentsRepository, commit: str, suffix: str) -> Path:
    source.git("update-ref", "refs/heads/main", commit)
    source.git("repack", "-a", "-d", "-q")
    source.git("prune-packed", "-q")
    (path,) = (source.path / ".git" / "objects" / "pack").glob(f"*{suffix}")
    path.chmod(0o600)
    return path


class TestFalseObjects:
    @pytest.mark.parametrize(
        "poison",
        [
            poisoned_blob,
            poisoned_tree,
            poisoned_commit,
            poisoned_parent,
            another_kind,
            no_object_at_all,
            flipped_bits_in_a_pack,
            false_name_in_an_index_of_a_pack,
        ],
    )
    def test_an_object_that_is_not_what_its_name_says_is_refused(
        self, source: AgentsRepository, mirror: GitMirror, poison: Callable[[AgentsRepository], str]
    ) -> None:
        sound = source.commit({"sound": b"1"}, message="sound")
        tree = mirror.fetch_commit(sound)
        commit = poison(source)
        with pytest.raises(EnvironmentFault):
            mirror.fetch_commit(commit)
        assert mirror.objects.tree_of(commit) == "", "nothing of it is kept"
        assert mirror.file(tree, "sound") == b"1"
        assert mirror.repository.is_sound()

    def test_what_the_mirror_has_is_not_replaced(self, source: AgentsRepository, mirror: GitMirror) -> None:
        base = source.commit({"a.py": b"assert True\n", "b.py": b"1\n"})
        mirror.fetch_commit(base)
        source.write_object("blob", b"assert False\n", source.git("rev-parse", f"{base}:a.py"))
        work = source.commit({"b.py": b"2\n"}, base)
        assert mirror.file(mirror.fetch_commit(work), "a.py") == b"assert True\n"

    def test_replaced_objects_are_not_followed(self, source: AgentsRepository, mirror: GitMirror) -> None:
        base = source.commit({"a.py": b"true\n"})
        work = source.commit({"b.py": b"1\n"}, base)
        other = source.commit({"a.py": b"false\n"})
        for name in (f"{work}:a.py", f"{work}^{{tree}}", work, base):
            kind = source.git("cat-file", "-t", name)
            wanted = {"blob": f"{other}:a.py", "tree": f"{other}^{{tree}}", "commit": other}[kind]
            source.git("replace", "-f", source.git("rev-parse", name), source.git("rev-parse", wanted))
        tree = mirror.fetch_commit(work)
        assert mirror.file(tree, "a.py") == b"true\n"
        assert mirror.paths(tree) == ["a.py", "b.py"]
        assert mirror.is_ancestor(base, work)

    def test_objects_of_other_repositories_are_not_borrowed(
        self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror
    ) -> None:
        private = AgentsRepository(tmp_path / "private")
        secret = private.commit({"key": b"secret"})
        source.file(".git/objects/info/alternates", f"{private.git_dir}/objects\n")
        with pytest.raises(EnvironmentFault, match="git repack -a -d"):
            mirror.fetch_commit(secret)

    @pytest.mark.parametrize("is_pipe", [True, False], ids=["pipe", "link"])
    def test_what_is_no_plain_file_is_not_opened(
        self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror, is_pipe: bool
    ) -> None:
        commit = source.commit({"a": b"1"})
        blob = source.git("rev-parse", f"{commit}:a")
        path = source.path / ".git" / "objects" / blob[:2] / blob[2:]
        path.rename(tmp_path / "object")
        if is_pipe:
            os.mkfifo(path)
        else:
            path.symlink_to(tmp_path / "object")
        with pytest.raises(EnvironmentFault, match="not a regular file"):
            mirror.fetch_commit(commit)

    def test_a_commit_graph_is_not_believed(self, source: AgentsRepository, mirror: GitMirror) -> None:
        base = source.commit({"a": b"1"})
        source.git("update-ref", "refs/heads/main", base)
        source.git("commit-graph", "write", "--reachable")
        graph = source.path / ".git" / "objects" / "info" / "commit-graph"
        tree, other = source.git("rev-parse", f"{base}^{{tree}}"), source.tree({"a": b"2"})
        graph.chmod(0o600)
        graph.write_bytes(graph.read_bytes().replace(bytes.fromhex(tree), bytes.fromhex(other)))
        assert mirror.fetch_commit(base) == tree


class TestStrangeTrees:
    @pytest.mark.parametrize("name", [".git", ".GIT", "git~1", "..", ".", ".g\u200cit"])
    def test_names_that_git_keeps_for_itself_are_refused(
        self, source: AgentsRepository, mirror: GitMirror, name: str
    ) -> None:
        inside = source.raw_tree(("100644", "config", source.blob(b"[core]\n")))
        with pytest.raises(EnvironmentFault):
            mirror.fetch_commit(source.commit_tree(source.raw_tree(("40000", name, inside))))

    @pytest.mark.parametrize("names", [("a", "a"), ("b", "a"), ("a/b", "c"), ("", "a")], ids=repr)
    def test_a_tree_that_can_be_read_in_two_ways_is_refused(
        self, source: AgentsRepository, mirror: GitMirror, names: tuple[str, str]
    ) -> None:
        first, second = source.blob(b"1"), source.blob(b"2")
        tree = source.raw_tree(("100644", names[0], first), ("100644", names[1], second))
        with pytest.raises(EnvironmentFault):
            mirror.fetch_commit(source.commit_tree(tree))

    def test_old_commits_with_faults_that_do_no_harm_are_taken(
        self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror
    ) -> None:
        inside = source.raw_tree(("100644", "x", source.blob(b"1")))
        tree = source.raw_tree(("100664", "a", source.blob(b"1")), ("040000", "old", inside))
        old = source.write_object(
            "commit", f"tree {tree}\nauthor A <a> 1 +99999\ncommitter B<b> 07 zone\n\nx\0y".encode()
        )
        modules = source.commit({".gitmodules": b'[submodule "../x"]\n\turl = -u/evil\n\tpath = -x\n'}, old)
        found = mirror.fetch_commit(modules)
        assert mirror.paths(found) == [".gitmodules", "a", "old/x"]
        assert not mirror.repair(), "and the mirror is sound with them"
        with PooledCheckouts(mirror, str(tmp_path / "checkouts")).lend(found) as folder:
            assert held(folder).keys() == {".gitmodules", "a", "old/x"}

    def test_a_tree_that_unfolds_to_billions_of_files_is_refused(
        self, source: AgentsRepository, mirror: GitMirror
    ) -> None:
        tree = source.raw_tree(*(("100644", f"f{n}", source.blob(b"1")) for n in range(10)))
        for _ in range(10):
            tree = source.raw_tree(*(("40000", f"d{n}", tree) for n in range(10)))
        with pytest.raises(EnvironmentFault, match="1,000,000 files"):
            mirror.fetch_commit(source.commit_tree(tree))

    def test_folders_thousands_deep_are_refused(self, source: AgentsRepository, mirror: GitMirror) -> None:
        tree = source.raw_tree(("100644", "f", source.blob(b"1")))
        for _ in range(2000):
            tree = source.raw_tree(("40000", "d", tree))
        with pytest.raises(EnvironmentFault, match="200 deep"):
            mirror.fetch_commit(source.commit_tree(tree))

    def test_a_link_that_cannot_be_made_is_said(
        self, tmp_path: Path, source: AgentsRepository, mirror: GitMirror
    ) -> None:
        tree = mirror.fetch_commit(source.commit({"link": Link(""), "a": b"1"}))
        with (
            pytest.raises(EnvironmentFault, match="link to nowhere"),
            PooledCheckouts(mirror, str(tmp_path / "checkouts")).lend(tree),
        ):
            pytest.fail("it was lent")


BRINGING = """
import sys
from remand.adapters.git.mirror import GitMirror
mirror = GitMirror(*sys.argv[1:3])
print("ready", flush=True)
for commit in sys.argv[3:]:
    mirror.bring(commit)
"""


def test_a_mirror_whose_maker_was_killed_is_usable(
    tmp_path: Path, source: AgentsRepository, campaign: Callable[[int, int], int]
) -> None:
    commits = [source.commit({f"f{n}": os.urandom(20_000) for n in range(30)})]
    for n in range(3):
        commits.append(source.commit({f"f{n}": os.urandom(20_000)}, commits[-1]))
    chance = random.Random(1)
    for number in range(campaign(8, 200)):
        folder = str(tmp_path / f"mirror-{number % 2}")
        process = subprocess.Popen(
            [sys.executable, "-c", BRINGING, folder, source.git_dir, *commits],
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(chance.uniform(0, 0.12))
        (os.killpg if chance.random() < 0.5 else os.kill)(process.pid, signal.SIGKILL)
        process.communicate()
        mirror = GitMirror(folder, source.git_dir)
        for commit in chance.sample(commits, 2):
            assert mirror.fetch_commit(commit) == source.git("rev-parse", f"{commit}^{{tree}}")
        assert mirror.repository.is_sound()
        mirror.close()

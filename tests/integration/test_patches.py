"""What a reviewer is shown of a real commit: read from the trees, whatever the author made of attributes and names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from remand.adapters.git import commits
from remand.adapters.git.commits import GitPatches
from remand.domain.reviewer import RenderedChange
from remand.wiring.ledger import find_place
from tests.integration.machine import Machine, Repository


@pytest.fixture
def machine(near_machine: Machine) -> Machine:
    """A machine whose command line runs inside this process."""
    return near_machine


def committed(repository: Repository, files: dict[str, bytes | None]) -> str:
    """Commits these files as they are; None takes one away."""
    for name, content in files.items():
        path = repository.path / name
        if content is None:
            path.unlink()
            continue
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "work")
    return repository.head()


def change(
    repository: Repository, files: dict[str, bytes | None], *paths: str, longest: int = 400_000
) -> RenderedChange:
    before = repository.head()
    return patches(repository).read_patch(before, committed(repository, files), paths, longest)


def patches(repository: Repository) -> GitPatches:
    return GitPatches(find_place(str(repository.path)))


def test_an_ordinary_change_is_shown_whole(repository: Repository) -> None:
    found = change(repository, {"a.py": b"one\n", "b.py": b"two\n"})

    assert found.text.count("diff --git ") == 2
    assert "+one\n" in found.text
    assert not found.unshown


def test_the_code_of_a_finding_is_the_line_with_its_neighbours(repository: Repository) -> None:
    commit = committed(repository, {"a.py": b"one\ntwo\nthree\nfour\n", "b.bin": b"\0\n"})
    found = patches(repository)

    assert found.lines_around(commit, "a.py", 3) == ("   2  two", "   3  three", "   4  four")
    assert found.lines_around(commit, "a.py", 1) == ("   1  one", "   2  two")
    missing = ((commit, "a.py", 99), (commit, "b.bin", 1), (commit, "none.py", 1), ("--textconv", "a.py", 1))
    assert not any(found.lines_around(*asked) for asked in missing)


@pytest.mark.parametrize(
    "attributes",
    [
        "*.py -diff",
        "*.py binary",
        "*.py diff=evil",
        "*.py linguist-generated",
        "*.py filter=evil",
        "*.py -text -diff",
    ],
)
def test_no_attribute_keeps_code_from_its_reviewer(repository: Repository, attributes: str) -> None:
    canary = repository.path.parent / "canary"
    for key in ("diff.evil.textconv", "diff.evil.command", "filter.evil.smudge", "diff.external"):
        repository.git("config", key, f"touch {canary}; true")
    repository.git("config", "core.quotePath", "true")

    found = change(repository, {"evil.py": b"import os\n", ".gitattributes": f"{attributes}\n".encode()})

    assert "+import os\n" in found.text
    assert f"+{attributes}\n" in found.text
    assert not canary.exists()


def test_what_hides_from_the_eye_is_shown_by_its_number(repository: Repository) -> None:
    found = change(repository, {"a.py": "if user\u202e \u2066# admin\u2069:\x1b[2J\n".encode()})

    assert "+if user⟦U+202E⟧ ⟦U+2066⟧# admin⟦U+2069⟧:⟦U+001B⟧[2J\n" in found.text


def test_names_that_look_like_something_else_stay_names(repository: Repository) -> None:
    names = ['we"ird', "new\nline", "tab\t", "\u202egpj.exe", "-option", "ünï", "a\\b", "\x01"]

    found = change(repository, {name: f"content {at}\n".encode() for at, name in enumerate(names)})

    assert [f"+content {at}\n" in found.text for at in range(len(names))] == [True] * len(names)
    assert "\u202e" not in found.text
    assert found.text.count("diff --git ") == len(names)


def test_names_that_are_no_text_are_shown_too(repository: Repository) -> None:
    Path(os.fsdecode(os.fsencode(repository.path) + b"/\xff.py")).write_bytes(b"here\n")

    found = change(repository, {})

    assert "+here\n" in found.text
    found.text.encode()


def test_what_is_no_text_or_too_large_is_named_and_not_shown(repository: Repository) -> None:
    found = change(
        repository,
        {"logo.png": b"\x89PNG\0\0", "data.json": b"[" + b"0,\n" * 900_000 + b"0]", "a.py": b"one\n"},
    )

    assert "+one\n" in found.text
    assert len(found.text) < 2_000
    assert {one.path: one.why.partition(":")[0] for one in found.unshown} == {
        "data.json": "too large",
        "logo.png": "binary",
    }


def test_one_long_file_hides_no_other(repository: Repository) -> None:
    found = change(repository, {"aaa.txt": b"filler\n" * 5000, "zzz.py": b"import os\n"}, longest=10_000)

    assert "+import os\n" in found.text
    assert len(found.text) <= 10_000
    assert [one.path for one in found.unshown] == ["aaa.txt"]


def test_very_many_files_are_named_beyond_what_is_read(
    repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(commits, "MAX_FILES", 3)

    found = change(repository, {f"f{at}": b"x\n" for at in range(5)})

    assert found.text.count("diff --git ") == 3
    assert len(found.unshown) == 2


def test_a_file_becomes_a_link_or_a_folder(repository: Repository) -> None:
    committed(repository, {"link": b"x\n", "place": b"y\n"})
    before = repository.head()
    (repository.path / "link").unlink()
    (repository.path / "link").symlink_to("/etc/passwd")
    (repository.path / "place").unlink()
    after = committed(repository, {"place/inside": b"z\n"})

    found = patches(repository).read_patch(before, after)

    assert "new file mode 120000" in found.text
    assert "+/etc/passwd" in found.text
    assert "-y\n" in found.text
    assert "+z\n" in found.text


def test_single_files_are_shown_alone(repository: Repository) -> None:
    found = change(repository, {"a.py": b"one\n", "dir/b.py": b"two\n", "[a].py": b"three\n"}, "[a].py")

    assert "+three\n" in found.text
    assert found.text.count("diff --git ") == 1


def test_what_a_commit_changed_since_another_is_told(repository: Repository) -> None:
    first = committed(repository, {"a.py": b"one\n", "b.py": b"two\n"})
    second = committed(repository, {"a.py": b"more\n"})

    assert patches(repository).changed_paths(first, second) == ("a.py",)
    assert patches(repository).changed_paths("0" * 40, second) is None

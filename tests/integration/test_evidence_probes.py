"""Checks evidence against a real repository: files, lines, counts and commits, and nothing outside of it."""

from typing import Any

import pytest

from remand.adapters.git.commits import MAX_SOURCE_FILE, GitSources
from remand.adapters.git.repository import GitRepository
from remand.app.rejection_facts import EvidenceChecker
from remand.wiring.ledger import find_place
from tests.integration.machine import Machine, Repository

FILES = {
    "src/mail.py": "import smtplib\nraise NotImplementedError\n",
    "src/deep/er/x.py": "# TODO\n",
    "docs/größe 1.md": "# TODO umlaut\n",
    ":(glob)odd": "odd\n",
    "-dash.py": "dash\n",
}


@pytest.fixture(scope="module")
def place() -> Any:
    machine = Machine()
    made = machine.repository()
    for name, text in FILES.items():
        path = made.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    made.git("add", "-A")
    made.git("commit", "-q", "-m", "files")
    (made.path / "src/mail.py").unlink()
    (made.path / "untracked.py").write_text("here\n")
    (made.path / "link").symlink_to("/etc/passwd")
    made.git("add", "link")
    made.git("commit", "-q", "-m", "a link")
    yield made
    machine.close()


def grade(place: Repository, stated: object) -> str:
    with GitSources(find_place(str(place.path)), "main", seconds=60) as sources:
        (found,) = EvidenceChecker(sources).grade_evidence([{"data": "x", "probe": stated}])
    assert found.detail
    return found.grade


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"file": "src/mail.py", "line": 2, "text": "NotImplementedError"}, "reproduced"),
        ({"file": "src/mail.py", "line": 3}, "disproved"),
        ({"file": "src/mail.py", "absent": True}, "disproved"),
        ({"file": "untracked.py"}, "disproved"),
        ({"file": "untracked.py", "absent": True}, "reproduced"),
        ({"file": "docs/größe 1.md", "text": "umlaut"}, "reproduced"),
        ({"file": ":(glob)odd", "text": "odd"}, "reproduced"),
        ({"file": ":(glob)**"}, "disproved"),
        ({"file": "-dash.py"}, "reproduced"),
        ({"file": "link", "text": "root:"}, "disproved"),
        ({"count": "src/**/*.py", "is": 2}, "reproduced"),
        ({"count": "src/*.py", "is": 1}, "reproduced"),
        ({"count": "docs", "is": 1}, "reproduced"),
        ({"count": "**", "containing": "TODO", "is": 2}, "reproduced"),
        ({"commit": "0" * 40}, "disproved"),
        ({"commit": "deadbeefdeadbeef"}, "disproved"),
        ({"file": "src/mail.py", "commit": "no-such-branch"}, "reported"),
        ({"file": "src/mail.py", "commit": "--output=/tmp/x"}, "reported"),
        ({"file": "../../etc/passwd"}, "reported"),
        ({"file": "/etc/passwd", "absent": True}, "reported"),
        ({"file": "src"}, "reported"),
        ({"file": "src", "absent": True}, "reported"),
        ("/etc/hosts.conf:1", "reported"),
        ("../../etc/hosts.conf:1", "reported"),
    ],
    ids=str,
)  # fmt: skip
def test_a_probe_sees_the_commit_and_not_the_working_tree_nor_anything_else(
    place: Repository, stated: object, expected: str
) -> None:
    assert grade(place, stated) == expected


def test_a_file_is_looked_at_as_it_was_at_the_commit_named(place: Repository) -> None:
    first = place.head("HEAD~2")

    assert grade(place, {"file": "src/mail.py", "commit": first}) == "disproved"
    assert grade(place, {"file": "src/mail.py", "commit": place.head()}) == "reproduced"
    assert grade(place, {"commit": first}) == "reproduced"
    assert grade(place, {"commit": first[:10]}) == "reproduced"


def test_half_characters_in_a_name_are_no_commit(place: Repository) -> None:
    assert GitRepository(find_place(str(place.path))).commit("half \ud800") is None


def test_the_paths_of_a_commit_are_read_whole(place: Repository) -> None:
    with GitSources(find_place(str(place.path)), "main", seconds=60) as sources:
        assert set(sources.paths("HEAD")) == set(FILES) | {"link", "remand.toml"}


def test_a_file_too_large_to_look_into_is_neither_proved_nor_disproved(machine: Machine) -> None:
    made = machine.repository()
    made.commit("big.txt", "x" * (MAX_SOURCE_FILE + 1))

    assert grade(made, {"file": "big.txt", "text": "y"}) == "reported"
    assert grade(made, {"file": "big.txt", "absent": True}) in ("reported", "disproved")


def test_when_the_time_is_up_the_rest_stays_reported(place: Repository) -> None:
    evidence = [{"probe": {"file": "src/mail.py", "line": n}} for n in range(40)]
    for seconds in (0.0, 0.001, 0.01, 0.03):
        with GitSources(find_place(str(place.path)), "main", seconds=seconds) as sources:
            found = EvidenceChecker(sources).grade_evidence(evidence)
        assert len(found) == 40
        assert found[-1].grade in ("reported", "disproved")


def test_a_commit_is_merged_when_the_base_branch_has_it(machine: Machine) -> None:
    made = machine.repository()
    on_base = made.commit("base.txt")
    made.git("checkout", "-q", "-b", "topic")
    on_topic = made.commit("topic.txt")

    with GitSources(find_place(str(made.path)), "main", seconds=60) as sources:
        assert sources.is_merged(on_base)
        assert not sources.is_merged(on_topic)
        assert not sources.is_merged("0" * 40)
    assert grade(made, {"file": "base.txt", "commit": on_base}) == "reproduced"
    assert grade(made, {"file": "topic.txt", "commit": on_topic}) == "reported", (
        "the agent's own branch is no proof"
    )

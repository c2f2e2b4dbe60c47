"""Holds how evidence is graded: reproduced, disproved, corroborated, or left as it was reported."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.app.errors import EnvironmentFault
from remand.app.ports import CommandOutcome, Commit, SupportingRun
from remand.app.rejection_facts import MAX_SLOW, EvidenceChecker, in_evidence_order, task_grades
from remand.domain.task import Status, Task
from remand.domain.validation.assessment import EvidenceGrade
from remand.testing.builders import SHA, T1, T2, a_task
from tests.support.strategies import json_values

MAIL = "import smtplib\n\n\ndef send():\n    raise NotImplementedError\n\n\n\n\nEND = 1\n"


class Files:
    """The files of one commit."""

    def __init__(self, files: dict[str, str], is_broken: bool = False) -> None:
        self.files = files
        self.is_broken = is_broken
        self.asked: list[str] = []
        self.unmerged: set[str] = set()

    def commit(self, name: str) -> Commit | None:
        return Commit(SHA, "tree") if name in ("HEAD", SHA, SHA[:8]) else None

    def file(self, commit: str, path: str) -> bytes | None:
        self.asked.append(path)
        if self.is_broken:
            raise EnvironmentFault("git cannot read that")
        content = self.files.get(path)
        return None if content is None else content.encode()

    def paths(self, commit: str) -> list[str]:
        if self.is_broken:
            raise EnvironmentFault("git cannot list that")
        return list(self.files)

    def is_merged(self, commit: str) -> bool:
        return commit not in self.unmerged

    def merged_commit_text(self, commit: str) -> str:
        return "mail: send the report\n\nsrc/mail.py\n" if self.is_merged(commit) else ""


FILES = {
    "src/mail.py": MAIL,
    "src/deep/er/x.py": "TODO one\n",
    "src/deep/y.py": "TODO two\n",
    "src/z.txt": "TODO three\n",
    "tests/test_mail.py": "",
    "README.md": "read me",
    "a[1].py": "",
}


def grade(stated: object, sources: Files | None = None, **item: Any) -> EvidenceGrade:
    """How one piece of evidence is graded."""
    (found,) = EvidenceChecker(sources or Files(FILES)).grade_evidence(
        [{"data": "x", **item, "probe": stated}]
    )
    return found


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"file": "src/mail.py"}, "reproduced"),
        ({"file": "src/gone.py"}, "disproved"),
        ({"file": "src/mail.py", "line": 5}, "reproduced"),
        ({"file": "src/mail.py", "line": 5, "text": "NotImplementedError"}, "reproduced"),
        ({"file": "src/mail.py", "line": 2, "text": "NotImplementedError"}, "reproduced"),
        ({"file": "src/mail.py", "line": 10, "text": "NotImplementedError"}, "disproved"),
        ({"file": "src/mail.py", "line": 99}, "disproved"),
        ({"file": "src/mail.py", "text": "END = 1"}, "reproduced"),
        ({"file": "src/mail.py", "text": "END = 2"}, "disproved"),
        ({"file": "src/gone.py", "absent": True}, "reproduced"),
        ({"file": "src/mail.py", "absent": True}, "disproved"),
        ({"file": "src/mail.py", "commit": "0badbad0"}, "reported"),
        ("src/mail.py:5", "reproduced"),
        ("src/mail.py:500", "disproved"),
        ({"count": "src/**/*.py", "is": 3}, "reproduced"),
        ({"count": "src/**/*.py", "is": 2}, "disproved"),
        ({"count": "src/*.py", "is": 1}, "reproduced"),
        ({"count": "**/*.py", "is": 5}, "reproduced"),
        ({"count": "src", "is": 4}, "reproduced"),
        ({"count": "src/", "is": 4}, "reproduced"),
        ({"count": "sr", "is": 0}, "reproduced"),
        ({"count": "src/deep/?.py", "is": 1}, "reproduced"),
        ({"count": "a[1].py", "is": 1}, "reproduced"),
        ({"count": "README.md", "at_least": 1}, "reproduced"),
        ({"count": "src", "at_least": 5}, "disproved"),
        ({"count": "src", "containing": "TODO", "is": 3}, "reproduced"),
        ({"count": "src/**/*.py", "containing": "TODO", "is": 3}, "disproved"),
        ({"count": "src", "is": 4, "commit": "0badbad0"}, "reported"),
        ({"commit": SHA}, "reproduced"),
        ({"commit": SHA[:8]}, "reproduced"),
        ({"commit": "0badbad0"}, "disproved"),
        ({"command": ["pytest"], "exit": 1}, "reported"),
        ({"url": "https://example.org"}, "reported"),
        ({"file": "/etc/passwd", "absent": True}, "reported"),
        ({"file": "../../etc/passwd"}, "reported"),
        ({"task": 5}, "reported"),
    ],
    ids=str,
)
def test_a_probe_shows_what_is_there(stated: object, expected: str) -> None:
    found = grade(stated)

    assert found.grade == expected
    assert found.detail


@pytest.mark.parametrize(
    ("place", "expected"),
    [("src/mail.py:5", "corroborated"), ("src/mail.py:500", "reported"), ("src/gone.py:1", "reported")],
)
def test_a_place_in_the_text_corroborates_and_never_disproves(place: str, expected: str) -> None:
    (found,) = EvidenceChecker(Files(FILES)).grade_evidence([{"data": f"see {place}"}])

    assert found.grade == expected


@pytest.mark.parametrize("stated", [{"file": "src/mail.py"}, {"count": "src", "is": 1}])
def test_what_git_cannot_read_is_neither_proved_nor_disproved(stated: dict[str, Any]) -> None:
    found = grade(stated, Files(FILES, is_broken=True))

    assert found.grade == "reported"
    assert "git cannot" in found.detail


def test_without_a_repository_everything_stays_reported() -> None:
    found = EvidenceChecker().grade_evidence(
        [{"probe": stated} for stated in ({"file": "a"}, {"count": "a", "is": 1}, {"commit": SHA})]
    )

    assert [one.grade for one in found] == ["reported"] * 3


def test_no_path_outside_the_repository_is_ever_asked_for() -> None:
    files = Files(FILES)
    paths = ["/etc/passwd", "../x", "a/../../x", "..", "\x00", "a\x00", "x" * 5000]

    EvidenceChecker(files).grade_evidence(
        [{"probe": {"file": path, "absent": n % 2 == 0}} for n, path in enumerate(paths)]
    )

    assert files.asked == []


def test_there_is_a_limit_to_what_is_read_for_one_rejection() -> None:
    files = Files({f"src/{n}.py": "x" for n in range(150)})
    asked = {"probe": {"count": "src", "containing": "x", "is": 150}}

    alone = EvidenceChecker(files).grade_evidence([asked])
    many = EvidenceChecker(files).grade_evidence([asked] * 50)

    assert [one.grade for one in alone] == ["reproduced"]
    assert len(files.asked) < 1000
    assert {one.grade for one in many} <= {"reproduced", "reported"}


@pytest.mark.parametrize(
    "pattern", ["*a" * 400 + "b", "**/" * 300 + "zz", "**/*a" * 100, "?*" * 300, "[" * 900]
)
def test_a_hostile_pattern_is_matched_in_time(pattern: str) -> None:
    files = Files({"a" * 250: "", "/".join(["a"] * 500): ""})

    assert grade({"count": pattern, "is": 0}, files).grade in ("reproduced", "disproved")


@given(st.lists(st.fixed_dictionaries({"probe": json_values()}) | json_values(), max_size=4))
def test_no_evidence_whatever_it_is_fails(evidence: list[Any]) -> None:
    found = EvidenceChecker(Files(FILES)).grade_evidence(evidence)

    assert {one.grade for one in found} <= {"reported", "corroborated", "reproduced", "disproved"}


# Commands and journals, where there is somebody to ask.


class Sandbox:
    def __init__(self, outcome: CommandOutcome | None, fault: str = "") -> None:
        self.outcome = outcome
        self.fault = fault
        self.asked: list[tuple[tuple[str, ...], str]] = []

    def run(self, command: tuple[str, ...], commit: str) -> CommandOutcome | None:
        self.asked.append((command, commit))
        if self.fault:
            raise EnvironmentFault(self.fault)
        return self.outcome


def run_again(stated: dict[str, Any], sandbox: Sandbox, files: Files | None = None) -> EvidenceGrade:
    """How a command of evidence is graded."""
    (found,) = EvidenceChecker(files or Files(FILES), sandbox).grade_evidence(
        [{"probe": {"command": ["pytest", "-q"], **stated}}]
    )
    return found


@pytest.mark.parametrize(
    ("stated", "outcome", "expected"),
    [
        ({"exit": 1, "text": "3 failed"}, CommandOutcome(1, "3 failed"), "reproduced"),
        ({"exit": 1}, CommandOutcome(1, ""), "reproduced"),
        ({"text": "3 failed"}, CommandOutcome(1, "3 failed"), "reproduced"),
        ({"exit": 0}, CommandOutcome(0, ""), "reproduced"),
        ({"exit": 1, "text": "3 failed"}, CommandOutcome(0, "3 failed"), "disproved"),
        ({"exit": 1, "text": "3 failed"}, CommandOutcome(1, "3 passed"), "disproved"),
        ({"exit": 4}, CommandOutcome(0, ""), "disproved"),
        ({"exit": 0}, CommandOutcome(1, ""), "disproved"),
        ({"text": "3 failed"}, CommandOutcome(0, "all passed"), "disproved"),
        ({"exit": 0}, CommandOutcome(2, "no module named requests"), "reported"),
        ({"exit": 1}, CommandOutcome(2, "no module named requests"), "reported"),
        ({"exit": 2}, CommandOutcome(1, "3 failed"), "reported"),
        ({"text": "3 failed"}, CommandOutcome(2, "no module named requests"), "reported"),
        ({"text": "3 failed"}, CommandOutcome(0, "cut", is_cut=True), "reported"),
        ({"exit": 1}, CommandOutcome(0, "cut", is_cut=True), "disproved"),
        ({"exit": 1}, None, "reported"),
        ({}, CommandOutcome(0, ""), "reported"),
        ({"exit": 1, "commit": "no-such-commit"}, CommandOutcome(1, ""), "reported"),
    ],
    ids=str,
)
def test_a_command_is_run_again_where_that_does_no_harm(
    stated: dict[str, Any], outcome: CommandOutcome | None, expected: str
) -> None:
    found = run_again(stated, Sandbox(outcome))

    assert found.grade == expected
    assert found.detail


def test_a_command_is_run_at_the_commit_and_never_at_a_name_that_is_none() -> None:
    sandbox = Sandbox(CommandOutcome(1, ""))

    run_again({"exit": 1, "commit": "HEAD"}, sandbox)
    run_again({"exit": 1, "commit": "--output=x"}, sandbox)

    assert sandbox.asked == [(("pytest", "-q"), SHA)]


def test_what_a_command_shows_at_a_commit_that_is_not_merged_proves_nothing_and_may_disprove() -> None:
    files = Files(FILES)
    files.unmerged = {SHA}

    assert run_again({"exit": 1}, Sandbox(CommandOutcome(1, "")), files).grade == "reported"
    assert run_again({"exit": 1}, Sandbox(CommandOutcome(0, "")), files).grade == "disproved"


def test_a_sandbox_that_cannot_run_leaves_the_evidence_as_it_was_reported() -> None:
    found = run_again({"exit": 1}, Sandbox(None, "there is no room left"))

    assert (found.grade, found.detail) == ("reported", "not checked: there is no room left")


def test_only_so_many_commands_of_a_rejection_are_run_and_files_are_looked_at_before() -> None:
    sandbox, files = Sandbox(CommandOutcome(1, "")), Files(FILES)
    command = {"probe": {"command": ["pytest"], "exit": 1}}
    evidence = [command] * 10 + [{"probe": {"file": "README.md"}}]

    found = EvidenceChecker(files, sandbox).grade_evidence(evidence)

    assert len(sandbox.asked) == MAX_SLOW
    assert [one.index for one in found] == list(range(11))
    assert [one.grade for one in found] == ["reproduced"] * 3 + ["reported"] * 7 + ["reproduced"]


class Web:
    def __init__(self, outcome: CommandOutcome | None) -> None:
        self.outcome = outcome

    def get(self, url: str) -> CommandOutcome | None:
        return self.outcome


@pytest.mark.parametrize(
    ("stated", "outcome", "expected"),
    [
        ({"code": 503}, CommandOutcome(503, "down"), "reproduced"),
        ({"code": 503, "text": "down"}, CommandOutcome(503, "down"), "reproduced"),
        ({"text": "down"}, CommandOutcome(200, "we are down"), "reproduced"),
        ({"code": 0}, CommandOutcome(0, "Connection refused"), "reproduced"),
        ({"code": 503}, CommandOutcome(200, "fine"), "disproved"),
        ({"code": 0}, CommandOutcome(200, "fine"), "disproved"),
        ({"code": 200}, CommandOutcome(404, "gone"), "disproved"),
        ({"code": 503, "text": "down"}, CommandOutcome(503, "up"), "disproved"),
        ({"text": "down"}, CommandOutcome(200, "up"), "disproved"),
        ({"code": 503}, CommandOutcome(500, ""), "reported"),
        ({"code": 503}, CommandOutcome(0, "timed out"), "reported"),
        ({"code": 200}, CommandOutcome(0, "timed out"), "reported"),
        ({"code": 0}, CommandOutcome(503, ""), "reported"),
        ({"text": "down"}, CommandOutcome(500, "oops"), "reported"),
        ({"text": "down"}, CommandOutcome(200, "cut", is_cut=True), "reported"),
        ({"code": 503}, None, "reported"),
        ({}, CommandOutcome(200, ""), "reported"),
    ],
    ids=str,
)
def test_an_address_is_asked_again(
    stated: dict[str, Any], outcome: CommandOutcome | None, expected: str
) -> None:
    probe = {"url": "https://status.example.org", **stated}

    (found,) = EvidenceChecker(pages=Web(outcome)).grade_evidence([{"probe": probe}])

    assert found.grade == expected
    assert found.detail


class Journal:
    def find_supporting_run(self, task_id: str, agent: str, attempt: str) -> SupportingRun | None:
        if (task_id, agent) != (T1, "Alice") or "pytest" not in attempt:
            return None
        return SupportingRun("pytest -q", None if "?" in attempt else 1, is_seconded="twice" in attempt)


def test_attempts_are_corroborated_by_the_journal_when_there_is_one() -> None:
    attempts = ["Asked around", "Ran pytest", 5, "Ran pytest twice", "Ran pytest?"]

    found = EvidenceChecker(journal=Journal()).grade_attempts(T1, "Alice", attempts)

    assert [(one.index, one.grade) for one in found] == [
        (0, "reported"),
        (1, "corroborated"),
        (3, "corroborated"),
        (4, "corroborated"),
    ]
    assert [one.detail for one in found] == [
        "no entry of the journal matches it",
        "the journal has `pytest -q` with exit 1",
        "the journal has `pytest -q` with exit 1, and the transcript agrees",
        "the journal has `pytest -q`",
    ]


@pytest.mark.parametrize("attempted", [None, "text", 3, {"a": 1}, []])
def test_without_a_journal_or_attempts_nothing_is_said_of_attempts(attempted: object) -> None:
    assert EvidenceChecker().grade_attempts(T1, "Alice", ["Ran pytest"]) == ()
    assert EvidenceChecker(journal=Journal()).grade_attempts(T1, "Alice", attempted) == ()


def test_attempts_are_looked_up_with_the_rest_of_a_rejection() -> None:
    record = {"what_attempted": ["Ran pytest", "Asked around"]}

    found = EvidenceChecker(Files(FILES), journal=Journal()).check_rejection(
        record, "Send the report", T1, "Alice"
    )

    assert [one.grade for one in found.attempts] == ["corroborated", "reported"]


# Tasks.


def found_task(name: str) -> Task | None:
    return {"T-open": a_task(T2), "T-done": a_task(T2, status=Status.DONE), "T-own": a_task(T1)}.get(name)


@pytest.mark.parametrize(
    ("stated", "expected"),
    [
        ({"task": "T-open"}, "reproduced"),
        ({"task": "T-open", "status": "open"}, "reproduced"),
        ({"task": "T-open", "status": "incoming"}, "reproduced"),
        ({"task": "T-open", "status": "closed"}, "disproved"),
        ({"task": "T-done", "status": "done"}, "reproduced"),
        ({"task": "T-done", "status": "open"}, "disproved"),
        ({"task": "T-none"}, "disproved"),
        ({"task": "T-own"}, "reported"),
    ],
    ids=str,
)
def test_a_task_is_looked_up_in_the_ledger(stated: dict[str, str], expected: str) -> None:
    (found,) = task_grades([{"probe": stated}], found_task, T1)

    assert found.grade == expected


def test_tasks_are_no_business_of_the_repository_and_files_none_of_the_ledger() -> None:
    evidence = [{"probe": {"task": "T-open"}}, {"probe": {"file": "README.md"}}]

    of_files, of_tasks = (
        EvidenceChecker(Files(FILES)).grade_evidence(evidence),
        task_grades(evidence, found_task, T1),
    )

    assert [one.index for one in of_files] == [1]
    assert [one.index for one in of_tasks] == [0]
    assert [one.index for one in in_evidence_order(of_files, of_tasks)] == [0, 1]


def test_what_holds_at_a_commit_that_is_not_merged_is_only_reported() -> None:
    files = Files(FILES)
    files.unmerged = {SHA}

    assert grade({"file": "src/mail.py", "commit": SHA}, files).grade == "reported"
    assert grade({"count": "src/*.py", "is": 1}, files).grade == "reported"
    assert grade({"file": "src/none.py", "commit": SHA}, files).grade == "disproved"


def test_a_commit_that_has_nothing_to_do_with_the_task_supersedes_nothing() -> None:
    record = {"reason_type": "OBSOLETE", "blocking_factor": f"Done in {SHA}"}

    related = EvidenceChecker(Files(FILES)).check_rejection(
        record, "Send the weekly report\nby mail through the relay"
    )
    other = EvidenceChecker(Files(FILES)).check_rejection(
        record, "Rename the settings dialog\nand translate its labels"
    )

    assert related.merged == (SHA,)
    assert other.merged == ()

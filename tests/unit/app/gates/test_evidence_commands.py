"""Holds which commands of evidence are run again, where, and what counts as an answer."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager

import pytest

from remand.app.errors import EnvironmentFault
from remand.app.gates.ports import Job, JobResult, TreeChange
from remand.app.gates.runner import PROBE_SECONDS, EvidenceCommands, is_probe_allowed
from remand.domain.gate.gate import GatePolicy
from remand.testing.builders import SHA

ALLOWED = (("pytest",), ("git", "grep", "-c"))


class Mirror:
    """A mirror that has one commit."""

    def fetch_commit(self, commit: str) -> str:
        if commit != SHA:
            raise EnvironmentFault("there is no such commit")
        return "tree"

    def merge_base(self, commit: str, other: str) -> str:
        return ""

    def changes(self, base_tree: str, tree: str) -> list[TreeChange]:
        return []

    def file(self, tree: str, path: str) -> bytes | None:
        return None

    def paths(self, tree: str) -> list[str]:
        return []

    def compose(self, tree: str, source: str, paths: Sequence[str]) -> str:
        return tree

    def with_files(self, tree: str, files: Mapping[str, bytes]) -> str:
        return tree


class Folders:
    """Lends folders and counts them back."""

    def __init__(self) -> None:
        self.lent = 0

    def lend(self, tree: str) -> AbstractContextManager[str]:
        return self._lend(tree)

    @contextmanager
    def _lend(self, tree: str) -> Iterator[str]:
        self.lent += 1
        yield f"/checkout/{tree}"
        self.lent -= 1


class Box:
    """A sandbox that ends every job the same way."""

    def __init__(self, ended: JobResult | None = None, tier: str = "bubblewrap") -> None:
        self.ended = ended or JobResult("exited", 1, b"3 failed")
        self.tier = tier
        self.jobs: list[Job] = []

    def run(self, job: Job) -> JobResult:
        self.jobs.append(job)
        return self.ended


def probes(box: Box, folders: Folders | None = None, **policy: tuple[str, ...]) -> EvidenceCommands:
    return EvidenceCommands(
        Mirror(), folders or Folders(), box, GatePolicy(probes=ALLOWED, **policy), root="/main", path=("/usr/bin",), hide=("/ledger",)
    )  # fmt: skip


def test_a_command_of_the_list_runs_in_the_sandbox_at_the_commit_without_network() -> None:
    box, folders = Box(), Folders()

    found = probes(box, folders, read=("/data",)).run(("pytest", "-q", "tests/a.py"), SHA)

    assert found == (1, "3 failed", False)
    (job,) = box.jobs
    assert job.command == ("pytest", "-q", "tests/a.py")
    assert (job.folder, job.path, job.read, job.hide) == (
        "/checkout/tree",
        ("/usr/bin",),
        ("/data",),
        ("/ledger",),
    )
    assert not job.has_network
    assert not job.environment
    assert folders.lent == 0


def test_the_policys_own_folders_come_before_those_of_the_machine() -> None:
    box = Box()

    probes(box, path=(".venv/bin", "/opt/tools")).run(("pytest",), SHA)

    assert box.jobs[0].path == ("/main/.venv/bin", "/opt/tools")


@pytest.mark.parametrize(
    ("command", "may_run"),
    [
        (("pytest",), True),
        (("pytest", "-q"), True),
        (("git", "grep", "-c", "TODO"), True),
        (("git", "grep", "TODO", "-c"), False),
        (("git", "grep"), False),
        (("git", "push"), False),
        (("/usr/bin/pytest",), False),
        (("./pytest",), False),
        (("pytest ",), False),
        (("PYTEST",), False),
        (("sh", "-c", "pytest"), False),
        (("env", "pytest"), False),
        ((), False),
    ],
    ids=str,
)
def test_a_command_is_allowed_by_its_first_words_exactly(command: tuple[str, ...], may_run: bool) -> None:
    box = Box()

    assert is_probe_allowed(command, ALLOWED) is may_run
    assert (probes(box).run(command, SHA) is not None) is may_run
    assert bool(box.jobs) is may_run


def test_nothing_is_allowed_until_the_policy_lists_it() -> None:
    assert not is_probe_allowed(("pytest",), GatePolicy().probes)
    assert not is_probe_allowed(("pytest",), ((),))


def test_nothing_runs_where_nothing_confines_it() -> None:
    box = Box(tier="plain")

    assert probes(box).run(("pytest",), SHA) is None
    assert box.jobs == []


@pytest.mark.parametrize(
    "ended",
    [
        JobResult("timed_out", 0),
        JobResult("signalled", 9),
        JobResult("not_started", 0, detail="no such program"),
        JobResult("exited", 127, b"", b"pytest: not found"),
        JobResult("exited", 126),
    ],
    ids=str,
)
def test_what_did_not_run_to_its_end_shows_nothing(ended: JobResult) -> None:
    assert probes(Box(ended)).run(("pytest",), SHA) is None


def test_all_that_was_printed_is_shown_and_that_it_was_cut() -> None:
    found = probes(Box(JobResult("exited", 0, b"out \xff", b"err", is_cut=True))).run(("pytest",), SHA)

    assert found == (0, "out \ufffd\nerr", True)


def test_the_commands_of_a_rejection_share_their_time() -> None:
    box = Box(JobResult("exited", 0, seconds=PROBE_SECONDS * 0.6))
    running = probes(box)

    outcomes = [running.run(("pytest",), SHA) is not None for _ in range(3)]

    assert outcomes == [True, True, False]
    assert [round(job.limits.seconds, 3) for job in box.jobs] == [PROBE_SECONDS, PROBE_SECONDS * 0.4]


def test_a_commit_that_cannot_be_had_is_a_fault_and_no_answer() -> None:
    with pytest.raises(EnvironmentFault):
        probes(Box()).run(("pytest",), "0" * 40)

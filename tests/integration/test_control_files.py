"""What a branch may change below `.got/`: it may add event files of whole, trusted groups; a reviewer settles the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.integration.forged_lines import line
from tests.integration.machine import NO_GATES, Machine, Repository

TEAM = """
[team]
members = [
  {name = "Alice", role = "agent"},
  {name = "Bob", role = "agent"},
  {name = "Lead", role = "lead"},
  {name = "owner", role = "user", aliases = ["user"]},
]
"""
PROJECT = '[project]\nid = "0123456789abcdef"\nbase = "main"\n'
NO_GATE = PROJECT + NO_GATES + TEAM
ONE_GATE = f'{PROJECT}[gates.words]\ncommand = ["grep", "-q", "good", "work.txt"]\nparser = "exit"\n{TEAM}'
FORGED = ".got/events/0forged.jsonl"


class Work:
    """A task that Alice works on, on a branch of its own, in a repository whose base has published events."""

    def __init__(self, machine: Machine, config: str = NO_GATE) -> None:
        self.repository = machine.repository(config=config)
        self.other = self.repository.add("Another task")
        self.task = self.repository.add("Mend the roof", "--branch", "work")
        self.repository.ok("log", "publish")
        self.published = f".got/events/{self.repository.segments()[0].name}"
        self.repository.ok("task", "claim", self.task, "--agent", "Alice")
        self.repository.git("checkout", "-q", "-b", "work")
        self.repository.commit("work.txt", "good\n")

    def stage(self, path: str, content: bytes, mode: str = "100644") -> None:
        """Puts a file into the index alone: no file system has a say in its name."""
        draft = self.repository.path.parent / "content"
        draft.write_bytes(content)
        blob = self.repository.git("hash-object", "-w", str(draft)).strip()
        self.repository.git("update-index", "--add", "--cacheinfo", f"{mode},{blob},{path}")

    def change(self, path: str, content: bytes, mode: str = "100644") -> str:
        """Commits a file; returns the commit."""
        self.stage(path, content, mode)
        return self.record()

    def record(self) -> str:
        """Commits what is staged."""
        self.repository.git("commit", "-q", "-m", "a harmless comment")
        return self.repository.head()

    def submit(self, commit: str = "HEAD", *options: str, agent: str = "Alice") -> Any:
        words = ("task", "submit", self.task, "--agent", agent, "--commit", commit, *options)
        return self.repository.call(*words).data

    def show(self) -> Any:
        return self.repository.ok("task", "show", self.task)

    @property
    def status(self) -> str:
        return str(self.show()["status"])


def findings(said: dict[str, Any]) -> list[dict[str, Any]]:
    """What holds a done claim; fails the test when nothing does."""
    assert said.get("refused") == "gate_held", said
    found: list[dict[str, Any]] = said["held"]
    return found


@pytest.fixture
def work(near_machine: Machine) -> Work:
    return Work(near_machine)


def lines_of(work: Work) -> list[bytes]:
    return (work.repository.path / work.published).read_bytes().splitlines(keepends=True)


def another_file(work: Work) -> None:
    work.stage(".got/payload.txt", b"harmless\n")


def unsigned_lines(work: Work) -> None:
    work.stage(FORGED, line("task.cancel", task_id=work.other) + b"\n")


def unsigned_after_signed(work: Work) -> None:
    work.stage(FORGED, b"".join(lines_of(work)) + line("task.cancel", task_id=work.other) + b"\n")


def no_event_at_all(work: Work) -> None:
    work.stage(FORGED, b"nonsense\n")


def legacy_lines(work: Work) -> None:
    work.stage(FORGED, b'{"ts":"2026-11-15T08:00:00Z","event":"node.update","id":"task:T1","changes":{}}\n')


def group_without_its_events(work: Work) -> None:
    work.stage(FORGED, lines_of(work)[0])


def group_that_lacks_an_event(work: Work) -> None:
    repository = work.repository
    repository.git("checkout", "-q", "main")
    repository.ok("task", "submit", work.task, "--agent", "Alice", "--commit", "work")
    repository.ok(
        "review", "reject", work.task, "--reviewer", "Lead", "--commit", "work", "--finding", "a:1: no"
    )
    repository.ok("task", "claim", work.task, "--agent", "Bob")
    repository.ok("task", "prompt", work.task, "--agent", "Bob")
    repository.git("checkout", "-q", "work")
    (later,) = (path for path in repository.segments() if not work.published.endswith(path.name))
    whole = later.read_bytes().splitlines(keepends=True)
    cut = [one for one in whole if not one.startswith(b'{"event":"lockout.set"')]
    assert len(cut) == len(whole) - 1
    repository.commit("more.txt", "more\n")
    work.stage(FORGED, b"".join(cut))


def changed_published_file(work: Work) -> None:
    work.stage(work.published, b"".join(lines_of(work)[:-1]))


def longer_published_file(work: Work) -> None:
    work.stage(work.published, b"".join(lines_of(work)) + b"\n")


def deleted_published_file(work: Work) -> None:
    work.repository.git("rm", "-q", "--cached", work.published)


def renamed_published_file(work: Work) -> None:
    deleted_published_file(work)
    work.stage(".got/events/20261115-080000-0000f0f0.jsonl", b"".join(lines_of(work)))


def executable_event_file(work: Work) -> None:
    work.stage(".got/events/20261115-080000-0000f0f0.jsonl", b"".join(lines_of(work)), "100755")


def link_for_an_event_file(work: Work) -> None:
    work.stage(FORGED, b"../../remand.toml", "120000")


def link_for_the_folder(work: Work) -> None:
    work.repository.git("rm", "-q", "-r", "--cached", ".got")
    work.stage(".got", b"elsewhere", "120000")


def submodule(work: Work) -> None:
    head = work.repository.head()
    work.repository.git("update-index", "--add", "--cacheinfo", f"160000,{head},.got/events/sub")


def submodule_for_the_folder(work: Work) -> None:
    work.repository.git("rm", "-q", "-r", "--cached", ".got")
    work.repository.git("update-index", "--add", "--cacheinfo", f"160000,{work.repository.head()},.got")


def event_file_by_another_name(work: Work) -> None:
    work.stage(".got/events/evil.txt", b"".join(lines_of(work)))


def event_file_in_another_folder(work: Work) -> None:
    work.stage(".got/events/sub/20261115-080000-0000f0f0.jsonl", b"".join(lines_of(work)))


HOSTILE = [
    another_file,
    unsigned_lines,
    unsigned_after_signed,
    no_event_at_all,
    legacy_lines,
    group_without_its_events,
    changed_published_file,
    longer_published_file,
    deleted_published_file,
    renamed_published_file,
    executable_event_file,
    link_for_an_event_file,
    link_for_the_folder,
    submodule,
    submodule_for_the_folder,
    event_file_by_another_name,
    event_file_in_another_folder,
]


def held(work: Work, change: Callable[[Work], None]) -> list[dict[str, Any]]:
    """The findings that a change is held for, made on top of the work and taken back again."""
    repository = work.repository
    start = repository.head()
    change(work)
    work.record()
    said = repository.call("gate", "run").data
    repository.git("reset", "-q", start)
    assert said["status"] in ("held", "passed"), said
    return [finding for gate in said["gates"] for finding in gate["findings"]]


def test_anything_but_a_trusted_event_file_below_got_is_one_finding(work: Work) -> None:
    for change in HOSTILE:
        found = held(work, change)
        assert [one["code"] for one in found] == ["control_changed"], change.__name__
        assert found[0]["path"] == ".got"


def test_work_that_is_held_for_it_goes_on_when_a_reviewer_accepts(work: Work) -> None:
    unsigned_lines(work)
    work.record()

    (finding,) = findings(work.submit())
    assert (finding["code"], work.status) == ("control_changed", "claimed")
    assert "0forged.jsonl" in finding["text"]
    accepted = work.repository.ok("gate", "accept", work.task, finding["finding"], "--reviewer", "Lead")
    assert accepted["status"] == work.status == "provisional"


def test_an_event_that_was_cut_out_of_a_group_holds_the_work(work: Work) -> None:
    group_that_lacks_an_event(work)
    work.record()

    (finding,) = findings(work.submit(agent="Bob"))
    assert finding["code"] == "control_changed"


def test_what_some_file_system_takes_for_got_is_treated_like_it(work: Work) -> None:
    for name in (".GOT", ".got.", ".g\u200cot", ".got\\events"):
        found = held(work, lambda work, name=name: work.stage(f"{name}/events/x.jsonl", b"x"))  # type: ignore[misc]
        assert [one["code"] for one in found] == ["control_changed"], name


def test_paths_that_are_named_are_bounded_and_made_visible(work: Work) -> None:
    for number in range(50):
        work.stage(f".got/{number:02}\x1b[31m{'x' * 200}", b"x")
    work.record()

    (finding,) = findings(work.submit())
    assert "\x1b" not in finding["text"]
    assert len(finding["text"]) < 3000
    assert "50 of the ledger's own files" in finding["text"]


def test_a_key_that_the_base_does_not_trust_holds_the_work_until_it_is_trusted(
    work: Work, machine: Machine
) -> None:
    mine = work.repository
    mine.git("checkout", "-q", "main")
    theirs = machine.clone(mine, "theirs")
    theirs.add("Theirs")
    theirs.ok("log", "publish")
    (name,) = {path.name for path in theirs.segments()} - {path.name for path in mine.segments()}
    mine.git("checkout", "-q", "work")
    work.change(f".got/events/{name}", (theirs.events / name).read_bytes())

    (finding,) = findings(work.submit())
    assert "no trusted key" in finding["text"]

    key = theirs.ok("keys")["own"]["key"]
    mine.git("checkout", "-q", "main")
    mine.configure(f'{NO_GATE}\n[keys]\ntrusted = ["{key} theirs"]\n')
    mine.git("checkout", "-q", "work")
    assert work.submit()["status"] == "provisional"


# No way round.


def test_a_pass_that_is_known_of_the_code_does_not_cover_a_change_below_got(near_machine: Machine) -> None:
    work = Work(near_machine, ONE_GATE)
    assert work.repository.ok("gate", "run", "--commit", "HEAD")["status"] == "passed"
    passed = work.repository.head()
    work.change(".got/payload.txt", b"harmless\n")

    (finding,) = findings(work.submit())
    assert finding["code"] == "control_changed"
    (again,) = findings(work.submit())
    assert again["finding"] == finding["finding"], "handing it in again changes nothing"
    measured = work.repository.call("gate", "run", "--commit", "HEAD")
    assert (measured.code, measured.data["status"]) == (1, "held")
    assert work.submit(passed)["status"] == "provisional", "without that change the same code passes"


def test_what_was_accepted_covers_no_other_change_below_got(work: Work) -> None:
    work.change(".got/payload.txt", b"harmless\n")
    (first,) = findings(work.submit())
    work.change(".got/payload.txt", b"other\n")
    (second,) = findings(work.submit())
    assert first["finding"] != second["finding"]
    assert work.repository.refused("gate", "accept", work.task, first["finding"], "--reviewer", "Lead")
    assert work.status == "claimed"


def test_an_override_covers_no_other_change_below_got(work: Work) -> None:
    work.change(".got/payload.txt", b"harmless\n")
    findings(work.submit())
    held = work.repository.head()
    work.repository.ok("gate", "override", work.task, "--gate", "integrity", "--reason", "known")
    assert work.status == "provisional"
    work.repository.ok(
        "review", "reject", work.task, "--reviewer", "Lead", "--commit", held, "--finding", "a:1: no"
    )
    work.repository.ok("task", "claim", work.task, "--agent", "Bob")
    work.repository.ok("task", "prompt", work.task, "--agent", "Bob")
    work.repository.commit("more.txt", "more\n")
    work.change(".got/payload.txt", b"other\n")
    (finding,) = findings(work.submit(agent="Bob"))
    assert finding["code"] == "control_changed"


@pytest.mark.parametrize("who", [("--reviewer", "Lead"), ()], ids=["reviewer", "user"])
def test_nobody_approves_a_branch_that_went_on_below_got_alone(work: Work, who: tuple[str, ...]) -> None:
    assert work.submit()["status"] == "provisional"
    handed_in = work.repository.head()
    work.change(".got/payload.txt", b"harmless\n")

    shown = work.repository.ok("review", "diff", work.task)
    assert "payload.txt" not in shown["diff"], "that was not handed in"
    assert "`.got/payload.txt` (added)" in shown["control"], "and yet is on the branch"
    for commit in ("HEAD", handed_in):
        said = work.repository.call("review", "approve", work.task, *who, "--commit", commit).data
        assert said["refused"] == "control_changed"
        assert ".got/payload.txt" in said["message"]
    work.repository.git("revert", "--no-edit", "HEAD")
    work.repository.ok("review", "approve", work.task, *who, "--commit", handed_in)
    assert work.status == "done"


def test_a_merge_of_the_base_that_drops_its_events_holds_the_work(work: Work) -> None:
    repository = work.repository
    repository.git("checkout", "-q", "main")
    repository.ok("log", "publish")
    repository.git("checkout", "-q", "work")
    repository.git("merge", "-q", "-s", "ours", "--no-edit", "main")

    (finding,) = findings(work.submit())
    assert "deleted" in finding["text"]


def test_a_branch_that_left_the_base_long_ago_is_compared_with_where_it_left_it(work: Work) -> None:
    repository = work.repository
    repository.git("checkout", "-q", "main")
    repository.commit("theirs.txt", "theirs\n")
    repository.ok("log", "publish")
    repository.git("checkout", "-q", "work")
    honest = repository.head()
    work.change(work.published, b"")

    (finding,) = findings(work.submit())
    assert work.published in finding["text"]
    assert work.submit(honest)["status"] == "provisional", "to lag behind the base is no change"


def test_work_on_the_base_itself_is_compared_with_the_base_at_the_claim(near_machine: Machine) -> None:
    repository = near_machine.repository(config=NO_GATE)
    task = repository.add("Mend the roof")
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.commit("work.txt", "good\n")
    repository.ok("log", "publish")
    honest = repository.head()
    (repository.path / ".got" / "payload.txt").write_text("x")
    repository.git("add", "-f", ".got/payload.txt")
    repository.git("commit", "-q", "-m", "x")

    words = ("task", "submit", task, "--agent", "Alice", "--commit")
    (finding,) = findings(repository.call(*words, "HEAD").data)
    assert ".got/payload.txt" in finding["text"]
    assert repository.ok(*words, honest)["status"] == "provisional"


def test_where_nothing_is_enforced_the_finding_is_recorded_and_nothing_stopped(near_machine: Machine) -> None:
    work = Work(near_machine, f"{NO_GATE}\n[policy]\nenforce = false\n")
    work.change(".got/payload.txt", b"harmless\n")
    assert work.submit()["status"] == "provisional"
    (row,) = work.repository.ok("gate", "history", work.task, "--observed")
    assert row["event"] == "gate.pass"
    work.repository.ok("review", "approve", work.task, "--reviewer", "Lead", "--commit", "HEAD")


# What reviewers are shown.


def test_a_review_shows_what_a_branch_changes_below_got(work: Work) -> None:
    repository = work.repository
    repository.ok("log", "publish", "--task", work.task)
    work.stage(FORGED, line("task.cancel", task_id=work.other, reason="\x1b[2J") + b"\n")
    work.change(".got/payload.txt", b"harmless \xe2\x80\xae\n")
    (finding,) = findings(work.submit())
    repository.ok("gate", "accept", work.task, finding["finding"], "--reviewer", "Lead")

    shown = repository.ok("review", "diff", work.task)
    assert set(shown["paths"]) >= {"work.txt", FORGED, ".got/payload.txt"}
    assert "+harmless ⟦U+202E⟧" in shown["diff"]
    assert '+{"event":"task.cancel"' in shown["diff"]
    assert "log.sign" not in shown["diff"], "trusted event files are counted, not shown"
    assert shown["event_files"] == 1
    page = repository.people("review", "diff", work.task).out
    assert "1 event file of trusted keys" in page
    alone = repository.ok("review", "diff", work.task, "--path", ".got/payload.txt")["diff"]
    assert "harmless" in alone
    assert "work.txt" not in alone


def test_a_review_of_work_that_leaves_got_alone_does_not_mention_it(work: Work) -> None:
    work.submit()
    page = work.repository.people("review", "diff", work.task).out
    assert "event file" not in page
    assert ".got" not in page


# What a branch may add.


def publish(work: Work) -> str:
    """Publishes the task's events on its branch."""
    said = work.repository.ok("log", "publish", "--task", work.task)
    assert said["files"], said
    return work.repository.head("work")


@pytest.mark.parametrize("config", [NO_GATE, ONE_GATE], ids=["no gates", "one gate"])
def test_publishing_a_task_on_its_branch_is_no_finding(near_machine: Machine, config: str) -> None:
    work = Work(near_machine, config)
    publish(work)
    assert work.submit()["status"] == "provisional"
    publish(work)
    work.repository.ok("review", "approve", work.task, "--reviewer", "Lead", "--commit", "HEAD")
    assert work.status == "done"


def test_publishing_everything_on_a_branch_is_no_finding(work: Work) -> None:
    assert work.repository.ok("log", "publish")["files"]
    assert work.submit()["status"] == "provisional"


def test_what_git_adds_by_itself_of_a_new_ledger_is_no_finding(near_machine: Machine) -> None:
    repository = near_machine.repository(config=NO_GATE)
    task = repository.add("Mend the roof", "--branch", "work")
    repository.ok("task", "claim", task, "--agent", "Alice")
    repository.git("checkout", "-q", "-b", "work")
    repository.git("add", "-A")
    repository.commit("work.txt", "good\n")
    assert ".got/.gitignore" in repository.git("ls-files")
    words = ("task", "submit", task, "--agent", "Alice", "--commit", "HEAD")
    assert repository.ok(*words)["status"] == "provisional"


def by_merge(repository: Repository) -> None:
    repository.git("merge", "-q", "--no-edit", "main")


def by_rebase(repository: Repository) -> None:
    repository.git("rebase", "-q", "main")


def by_squash(repository: Repository) -> None:
    repository.git("checkout", "-q", "-b", "flat", "main")
    repository.git("merge", "-q", "--squash", "work")
    repository.git("commit", "-q", "-m", "squashed")
    repository.git("branch", "-f", "work", "flat")
    repository.git("checkout", "-q", "work")


def by_cherry_pick(repository: Repository) -> None:
    commits = repository.git("rev-list", "--reverse", "main..work").split()
    repository.git("checkout", "-q", "-b", "picked", "main")
    repository.git("cherry-pick", "--keep-redundant-commits", *commits)
    repository.git("branch", "-f", "work", "picked")
    repository.git("checkout", "-q", "work")


@pytest.mark.parametrize("has_base_them", [False, True], ids=["on the branch alone", "on the base too"])
def test_trusted_event_files_come_along_whichever_way_a_branch_goes(work: Work, has_base_them: bool) -> None:
    repository = work.repository
    start = publish(work)
    repository.git("checkout", "-q", "main")
    repository.commit("theirs.txt", "theirs\n")
    if has_base_them:
        repository.ok("log", "publish")
        repository.git("checkout", "-q", "work", "--", ".got/events")
        repository.git("commit", "-q", "--allow-empty", "-m", "the same files")
    for way in (by_merge, by_rebase, by_squash, by_cherry_pick):
        repository.git("checkout", "-q", "-B", "work", start)
        way(repository)
        assert repository.ok("gate", "run")["status"] == "passed", way.__name__

    assert work.submit()["status"] == "provisional"
    work.repository.ok("review", "approve", work.task, "--reviewer", "Lead", "--commit", "HEAD")


def test_a_task_published_on_its_branch_is_approved_in_a_fresh_clone_of_it(
    near_machine: Machine, work: Work
) -> None:
    repository = work.repository
    between = repository.add("A task between")
    assert work.submit()["status"] == "provisional"
    repository.ok("task", "claim", between, "--agent", "Bob")
    repository.ok("review", "request", work.task, "--from", "Lead")
    publish(work)
    repository.git("checkout", "-q", "main")
    clone = near_machine.clone(repository, "clone")
    clone.git("checkout", "-q", "work")

    assert clone.verify() == []
    clone.ok("review", "approve", work.task, "--reviewer", "Lead", "--commit", "HEAD")
    assert clone.ok("task", "show", work.task)["status"] == "done"

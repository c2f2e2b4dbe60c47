"""Warnings at handoff time, and what another policy would have decided, as scripts and people meet them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.machine import Repository

FINDING = "src/pdf.py:3: Umlauts are \x1b[31mlost"


def send_back(repository: Repository, title: str = "Export invoices as PDF") -> str:
    """A task whose work a reviewer sent back."""
    task = repository.add(title)
    repository.ok("task", "claim", task, "--agent", "Bob")
    repository.ok("task", "submit", task, "--agent", "Bob", "--commit", "HEAD")
    repository.ok("review", "reject", task, "--commit", "HEAD", "--finding", FINDING)
    return task


class TestWarnings:
    def test_nothing_is_warned_of_in_a_young_ledger(self, repository: Repository) -> None:
        task = repository.add()

        assert repository.ok("handoff", "initiate", task, "--to", "Alice")["warnings"] == []

    def test_a_script_reads_which_similar_task_was_rejected_and_why(self, repository: Repository) -> None:
        past, task = send_back(repository), repository.add("PDF export of invoices")
        (warning,) = repository.ok("handoff", "initiate", task, "--to", "Alice")["warnings"]

        assert (warning["kind"], warning["task_id"]) == ("similar_rejected", past)
        assert (warning["reason"], warning["title"]) == ("REVIEW", "Export invoices as PDF")
        assert {"similarity", "summary", "decision", "agent", "message"} <= set(warning)

    def test_a_coordinator_warns_of_the_same(self, repository: Repository) -> None:
        send_back(repository)
        one, other = repository.add("PDF export of invoices"), repository.add("PDF export of invoices")
        alone = repository.ok("handoff", "initiate", one, "--to", "Alice")["warnings"]
        with repository.coordinator():
            assert repository.ok("handoff", "initiate", other, "--to", "Alice")["warnings"] == alone != []

    def test_people_read_one_line_a_warning_without_anything_hostile(self, repository: Repository) -> None:
        send_back(repository)
        said = repository.people(
            "handoff", "initiate", repository.add("PDF export of invoices"), "--to", "Alice"
        )

        assert said.code == 0
        assert [line.split(":")[0].strip() for line in said.out.splitlines()[1:]] == ["warning"]
        assert "\x1b" not in said.out

    def test_warnings_outlive_a_rebuild_and_a_lost_ledger_file(self, repository: Repository) -> None:
        send_back(repository)
        before = repository.ok(
            "handoff", "initiate", repository.add("PDF export of invoices"), "--to", "Alice"
        )
        repository.ok("log", "rebuild")
        rebuilt = repository.ok(
            "handoff", "initiate", repository.add("PDF export of invoices"), "--to", "Alice"
        )
        repository.forget_ledger()
        read = repository.ok("handoff", "initiate", repository.add("PDF export of invoices"), "--to", "Alice")

        assert before["warnings"] == rebuilt["warnings"] == read["warnings"] != []


class TestSimulate:
    def test_a_script_reads_what_would_have_been_different(self, repository: Repository) -> None:
        task = send_back(repository)
        (repository.path / "lenient.toml").write_text('[policy]\nlockout = "off"\n')
        found = repository.ok("simulate", "--policy", "lenient.toml")
        (different,) = found["differences"]

        assert {"policy", "events", "decisions", "differences", "summary"} <= set(found)
        assert (different["task_id"], different["kind"], different["agent"]) == (task, "lockout", "Bob")
        assert (different["recorded"], different["simulated"]) == ("locked out", "not locked out")
        assert {"ts", "why"} <= set(different)
        assert found["policy"]["lockout_after"] == 0
        assert found["summary"]["lockout"] == {"decisions": 1, "different": 1}

    def test_nothing_is_written(self, repository: Repository) -> None:
        send_back(repository)
        (repository.path / "lenient.toml").write_text('[policy]\nlockout = "off"\n')
        before = repository.lines()
        repository.ok("simulate", "--policy", "lenient.toml")

        assert repository.lines() == before

    def test_people_read_a_table_and_what_it_does_not_say(self, repository: Repository) -> None:
        send_back(repository)
        (repository.path / "lenient.toml").write_text("[gates]\n[policy]\nlockout = {after = 2}\n")
        said = repository.people("simulate", "--policy", "lenient.toml")

        assert "not locked out" in said.out
        assert "not simulated" in said.out

    def test_a_later_day_leaves_nothing_to_tell(self, repository: Repository) -> None:
        send_back(repository)
        (repository.path / "lenient.toml").write_text('[policy]\nlockout = "off"\n')

        assert (
            repository.ok("simulate", "--policy", "lenient.toml", "--since", "2999-01-01")["differences"]
            == []
        )

    @pytest.mark.parametrize(
        ("text", "named"),
        [
            ('[policy]\nlockuot = "off"\n', "policy.lockuot"),
            ("[policy\n", "not TOML"),
            ("", "cannot be read"),
        ],
        ids=["unknown key", "no TOML", "no file"],
    )
    def test_a_mistake_in_the_policy_is_named(self, repository: Repository, text: str, named: str) -> None:
        path = Path(repository.path, "policy.toml")
        if text:
            path.write_text(text)
        said = repository.people("simulate", "--policy", "policy.toml")

        assert said.code == 2
        assert named in said.err

    def test_a_since_that_is_no_date_is_a_mistake(self, repository: Repository) -> None:
        (repository.path / "policy.toml").write_text("[policy]\n")

        assert repository.people("simulate", "--policy", "policy.toml", "--since", "soon").code == 2

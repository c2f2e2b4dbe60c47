"""Honest changes pass the gates, and the dishonest ones that look like them do not: real git, sandbox and pytest."""

from __future__ import annotations

from typing import Any

import pytest

from tests.integration.machine import Machine, Repository

CONFIG = """
[project]
base = "main"

[gates.tests]
command = ["python", "-m", "pytest", "-q", "--disable-plugin-autoload", "-p", "no:cacheprovider", {options} "--junitxml={{report}}"]
parser = "junit"
"""
SUBTESTS = """
import unittest

import pytest

class TestUnits(unittest.TestCase):
    def test_values(self):
        for value in range(3):
            with self.subTest("a]::[<&>\\x1b", value=value):
                self.assertNotIn(value, [{unit}])

@pytest.mark.parametrize("factor", [1, 2])
def test_products(subtests, factor):
    for value in range(3):
        with subtests.test("a]::[<&>\\x1b", value=value):
            assert value * factor not in [{function}]
"""


def repository_of(machine: Machine, files: dict[str, str], options: str = "") -> Repository:
    """A repository with these files on its base and a work branch checked out."""
    repository = machine.repository(config=CONFIG.format(options=options))
    commit(repository, files)
    repository.git("checkout", "-q", "-b", "work")
    return repository


def commit(repository: Repository, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = repository.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    repository.git("add", "-A")
    repository.git("commit", "-q", "-m", "change")


def verdict(repository: Repository) -> Any:
    return repository.call("gate", "run").data


def result(found: Any, gate: str) -> Any:
    return next(one for one in found["gates"] if one["name"] == gate)


@pytest.mark.parametrize("options", ["", '"-p", "xdist", "-n", "2",'], ids=["one process", "xdist"])
def test_passing_subtests_pass_and_failing_ones_are_rejected_once_a_test(
    machine: Machine, options: str
) -> None:
    repository = repository_of(
        machine, {"tests/test_a.py": "def test_a():\n    assert 1 + 1 == 2\n"}, options
    )
    commit(repository, {"tests/test_b.py": SUBTESTS.format(unit="", function="")})
    found = verdict(repository)
    assert found["status"] == "passed", found["message"]
    assert result(found, "tests")["measured"] == {"tests": 4, "failures": 0, "skipped": 0}

    commit(repository, {"tests/test_b.py": SUBTESTS.format(unit="1, 2", function="1")})
    found = verdict(repository)
    assert found["status"] == "failed"
    assert result(found, "tests")["measured"] == {"tests": 4, "failures": 2, "skipped": 0}
    assert sorted(result(found, "tests")["failing"]) == [
        "tests.test_b.TestUnits::test_values",
        "tests.test_b::test_products[1]",
    ]


def test_a_base_with_a_failing_subtest_excuses_that_one_alone(machine: Machine) -> None:
    value = "VALUES = [{}]\n"
    tests = "from values_of_it import VALUES\n\ndef test_values(subtests):\n    for value in range(3):\n"
    tests += "        with subtests.test(value=value):\n            assert value not in VALUES\n"
    repository = repository_of(
        machine, {"values_of_it.py": value.format("1"), "test_b.py": tests, "conftest.py": ""}
    )
    commit(repository, {"other.py": "x = 1\n"})
    found = verdict(repository)
    assert found["status"] == "passed", found["message"]
    assert result(found, "tests")["detail"] == "The base already has 1 failure; nothing got worse."

    commit(repository, {"values_of_it.py": value.format("1, 2")})
    found = verdict(repository)
    assert found["status"] == "failed"
    assert result(found, "tests")["measured"]["failures"] == 1
    assert "1 test fails in more subtests than on the base." in found["message"]


def test_links_inside_the_repository_pass_and_those_that_lead_out_are_held(machine: Machine) -> None:
    test = "def test_a():\n    assert 1 + 1 == 2\n"
    files = {"tests/test_a.py": test, "README.md": "# It\n", "data/values.txt": "1\n", "notes.txt": "2\n"}
    repository = repository_of(machine, files)
    honest = {
        "CLAUDE.md": "AGENTS.md",
        "docs/readme.md": "../README.md",
        "tests/data": "../data",
        "docs/values.txt": "../tests/data/values.txt",
        "docs/dangling": "nothing/here",
    }
    (repository.path / "docs").mkdir()
    for path, target in honest.items():
        (repository.path / path).symlink_to(target)
    commit(repository, {"AGENTS.md": "# For agents\n"})
    found = verdict(repository)
    assert found["status"] == "passed", found["message"]

    for path, target in {"docs/out": "/etc/hostname", "docs/up": "data/../../../x"}.items():
        (repository.path / path).symlink_to(target)
    (repository.path / "tests" / "test_a.py").unlink()
    (repository.path / "tests" / "test_a.py").symlink_to("../tests_of_a.txt")
    commit(repository, {"tests_of_a.txt": "def test_a():\n    assert 2\n"})
    found = verdict(repository)
    texts = {
        one["path"]: one["text"]
        for one in result(found, "integrity")["findings"]
        if one["code"] == "link_outside"
    }
    assert found["status"] == "held"
    assert texts["docs/out"].startswith("a link to `/etc/hostname`, which leads out of the repository")
    assert texts["docs/up"].startswith("a link to `data/../../../x`, which leads to `../x`, out of")
    assert texts["tests/test_a.py"].startswith("a link to `../tests_of_a.txt` in place of `tests/test_a.py`")

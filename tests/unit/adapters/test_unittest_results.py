"""Results and assertions that a real unittest tells while they happen."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from remand.adapters.gates.results import watch_results
from remand.domain.gate.gate import Measurement
from remand.integrity.result_records import compare_with_records

TESTS = """
import sys
import unittest


class Shared(unittest.TestCase):
    def check(self):
        self.assertTrue(True)


class TestSums(Shared):
    def test_adds(self):
        self.assertEqual(
            1 + 1,
            2,
        )
        self.check()

    def test_late(self):
        for row in ():
            self.assertEqual(row, 1)

    def test_by_a_statement(self):
        assert 1 + 1 == 2

    def test_rows(self):
        for row in (1, 2):
            with self.subTest(row=row):
                self.assertIn(row, (1, 2))

    @unittest.skip("not here")
    def test_skipped(self):
        self.fail()

    @unittest.expectedFailure
    def test_expected(self):
        self.assertEqual(1, 2)

    def test_inner(self):
        class Inner(unittest.TestCase):
            def test_fails(self):
                self.assertEqual(1, 2)

        suite = unittest.defaultTestLoader.loadTestsFromTestCase(Inner)
        result = unittest.TestResult()
        suite.run(result)
        self.assertEqual(len(result.failures), 1)


class TestLoop(unittest.IsolatedAsyncioTestCase):
    async def test_waits(self):
        self.assertEqual(1, 1)
"""


def run(folder: Path, *words: str, only: tuple[str, ...] = (), **files: str) -> tuple[Measurement, int]:
    """What is told of the tests in a folder, and the status of their run."""
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    command = [sys.executable, "-m", "unittest", *words]
    with watch_results(command, str(folder), only) as watch:
        assert watch is not None
        done = subprocess.run(
            watch.command,
            cwd=folder,
            env={**os.environ, **watch.environment},
            capture_output=True,
            timeout=600,
            check=False,
        )
        records = watch.records()
    found = compare_with_records(Measurement(), records, done.returncode, str(folder))
    return found, done.returncode


def test_an_honest_run_tells_which_assertions_held_and_nothing_is_irregular(tmp_path: Path) -> None:
    again = "from test_a import TestLoop\n"
    found, status = run(tmp_path, test_a=TESTS, test_b=again)
    lines = TESTS.splitlines()
    held = {
        test.id: test.held_lines and [lines[line - 1].strip() for line in test.held_lines]
        for test in found.watched
    }
    assert (status, found.irregularities) == (0, ())
    assert held == {
        "test_a::TestSums::test_adds": ["self.assertTrue(True)", "self.assertEqual("],
        "test_a::TestSums::test_late": (),
        "test_a::TestSums::test_by_a_statement": None,
        "test_a::TestSums::test_rows": ["self.assertIn(row, (1, 2))"],
        "test_a::TestSums::test_skipped": (),
        "test_a::TestSums::test_expected": (),
        "test_a::TestSums::test_inner": ["self.assertEqual(len(result.failures), 1)"],
        "test_a::TestLoop::test_waits": ["self.assertEqual(1, 1)"],
        "test_a::TestLoop::test_waits#2": ["self.assertEqual(1, 1)"],
    }
    outcomes = {test.id.rpartition("::")[2]: test.outcome for test in found.tests}
    assert outcomes["test_skipped"] == outcomes["test_expected"] == "skipped"
    assert {name for name, outcome in outcomes.items() if outcome == "failed"} == set()


def test_a_failure_is_told_and_a_file_that_cannot_be_loaded_is_one(tmp_path: Path) -> None:
    failing = TESTS.replace("            2,", "            3,")
    found, status = run(tmp_path, test_a=failing, test_b="import nothing_of_that_name\n")
    assert (status, found.irregularities) == (1, ())
    bad = [test.id.rpartition("::")[2] for test in found.tests if test.outcome == "failed"]
    assert sorted(bad) == ["test_adds", "test_b"]


def test_a_process_that_leaves_early_or_ends_with_another_status_is_found(tmp_path: Path) -> None:
    leaving = "import os, unittest\nclass T(unittest.TestCase):\n    def test_a(self):\n        os._exit(0)\n"
    atexit = (
        "import atexit, os, unittest\natexit.register(os._exit, 0)\n"
        "class T(unittest.TestCase):\n    def test_a(self):\n        self.assertEqual(1, 2)\n"
    )
    for number, text in enumerate((leaving, atexit)):
        folder = tmp_path / str(number)
        folder.mkdir()
        found, status = run(folder, test_a=text)
        assert (status, [one.code for one in found.irregularities]) == (0, ["early_exit"])


def test_files_that_are_not_asked_for_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "sums.py").write_text("def add(a, b):\n    return a + b\n", encoding="utf-8")
    for name in "ab":
        (tmp_path / "tests" / f"test_{name}.py").write_text(
            "import os, unittest\nimport sums\nclass T(unittest.TestCase):\n"
            "    def test_sum(self):\n        self.assertEqual(sums.add(1, 2), 3)\n"
            "        self.assertNotIn('REMAND_RESULTS', os.environ)\n",
            encoding="utf-8",
        )
    found, status = run(tmp_path, "discover", "-s", "tests", only=("tests/test_b.py",))
    assert (status, found.takes_files) == (0, True)
    assert [test.id for test in found.tests] == ["tests/test_b::T::test_sum"]

"""Results told through a pipe, by a real pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from remand.adapters.gates import python_results
from remand.adapters.gates.results import find_plugin_loader, watch_results
from remand.adapters.parsers.test_reports import parse_junit
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement
from remand.integrity.result_records import WATCHED_METHODS, ToldRun, compare_with_records

TESTS = """
import threading
import unittest

import pytest

def test_reached():
    assert 1 + 1 == 2
    assert "a" in "abc", "said"

def test_lazy():
    def check(x):
        assert x == 3
    map(check, [1, 2])

@pytest.mark.parametrize("row", [1, 2])
def test_rows(row):
    assert row

class TestUnits(unittest.TestCase):
    def test_unit(self):
        self.assertEqual(
            1,
            1,
        )

    def test_not_reached(self):
        for x in ():
            self.assertTrue(x)

@pytest.mark.xfail
def test_expected():
    assert 1 == 2
"""
FORGING = """
import os, re, sys, threading

def forge(report):
    threading.main_thread().join()
    text = open(report).read()
    text = re.sub(r"<failure.*?</failure>", "", text, flags=re.S).replace('failures="1"', 'failures="0"')
    open(report, "w").write(text)
    os.execv("/bin/true", ["true"])

def test_fails():
    report = next(word for word in sys.argv if word.startswith("--junitxml=")).partition("=")[2]
    threading.Thread(target=forge, args=(report,)).start()
    assert 1 == 2
"""
LEAVING = """
import os

def test_leaves():
    with open("{report}", "w") as file:
        file.write('<testsuites><testsuite><testcase classname="test_a" name="test_leaves"/></testsuite></testsuites>')
    os._exit(0)
"""

PATCHING = """
import json, os

def test_process(monkeypatch):
    monkeypatch.setattr(os, "getpid", lambda: 4)
    assert os.getpid() == 4

def test_output(monkeypatch):
    monkeypatch.setattr(os, "write", None)
    monkeypatch.setattr(json, "dumps", None)
    assert json.dumps is None
"""
FORKING = """
import os

def test_forked():
    assert os.getpid() != {pid}
"""
FORK_PLUGIN = """
import os, pickle, pytest
from _pytest.runner import runtestprotocol

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_protocol(item):
    ends = os.pipe()
    if os.fork() == 0:
        os.write(ends[1], pickle.dumps(runtestprotocol(item, log=False)))
        os._exit(0)
    os.wait()
    for report in pickle.loads(os.read(ends[0], 65536)):
        item.ihook.pytest_runtest_logreport(report=report)
    return True
"""
AGAIN_PLUGIN = """
import pytest
from _pytest.runner import runtestprotocol

def pytest_runtest_protocol(item, nextitem):
    for attempt in range(2):
        for report in runtestprotocol(item, nextitem=nextitem, log=False):
            if attempt == 0 and report.when == "setup":
                report.outcome = "rerun"
            if attempt == 1 or report.when != "call":
                item.ihook.pytest_runtest_logreport(report=report)
    return True
"""


def run(folder: Path, text: str, *options: str) -> Measurement:
    """What is measured of one test file, its records taken in."""
    report = folder / "report"
    (folder / "test_a.py").write_text(text.replace("{report}", str(report)), encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--junitxml={report}",
        *options,
    ]
    with watch_results(command, str(folder)) as watch:
        assert watch is not None
        environment = {**os.environ, **watch.environment, "PYTHONDONTWRITEBYTECODE": "1"}
        environment.pop("PYTEST_ADDOPTS", None)
        done = subprocess.run(
            [*command, "test_a.py"],
            cwd=folder,
            env=environment,
            capture_output=True,
            timeout=600,
            check=False,
        )
        records = watch.records()
    assert ToldRun(records).starts == 1, done.stdout
    ran = ToolOutput(done.returncode, done.stdout, done.stderr, report.read_bytes(), str(folder))
    return compare_with_records(parse_junit(ran), records, done.returncode)


def test_an_honest_run_tells_which_assertions_held_and_nothing_is_irregular(tmp_path: Path) -> None:
    found = run(tmp_path, TESTS)
    lines = TESTS.splitlines()
    held = {
        test.id.rpartition("::")[2]: [lines[line - 1].strip() for line in test.held_lines or ()]
        for test in found.watched
    }
    assert held == {
        "test_reached": ["assert 1 + 1 == 2", 'assert "a" in "abc", "said"'],
        "test_lazy": [],
        "test_rows[1]": ["assert row"],
        "test_rows[2]": ["assert row"],
        "test_unit": ["self.assertEqual("],
        "test_not_reached": [],
        "test_expected": [],
    }
    assert found.irregularities == ()


def test_what_tests_and_plugins_do_to_their_process_makes_no_honest_run_irregular(tmp_path: Path) -> None:
    runs = [
        (PATCHING, "", ["-p", "no:legacypath"], [(6,), (11,)]),
        (FORKING, FORK_PLUGIN, [], [None]),
        (TESTS.partition("class")[0], AGAIN_PLUGIN, [], None),
    ]
    for number, (text, plugin, options, lines) in enumerate(runs):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "conftest.py").write_text(plugin, encoding="utf-8")
        found = run(folder, text.replace("{pid}", "0"), *options)
        assert found.irregularities == (), number
        assert {test.outcome for test in found.tests} == {"passed"}, number
        assert lines is None or [test.held_lines for test in found.watched] == lines


def test_the_plugin_is_code_of_no_file_and_leaves_no_rewritten_code_behind(tmp_path: Path) -> None:
    looked = """
import sys
from _pytest.assertion import rewrite

def test_files():
    own = next(module for name, module in sys.modules.items() if name.startswith("remand_results_"))
    assert own.sender.send_record.__code__.co_filename == "<results>"
    assert rewrite._write_pyc(None, None, None, None) is False
"""
    assert [test.outcome for test in run(tmp_path, looked).tests] == ["passed"]


def test_no_file_of_the_project_takes_the_place_of_the_plugin(tmp_path: Path) -> None:
    for name in ("pytest_results", "python_results", "told", "remand_results"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit(0)", encoding="utf-8")
    assert run(tmp_path, TESTS).irregularities == ()


def test_a_thread_that_rewrites_the_report_and_leaves_by_exec_is_found(tmp_path: Path) -> None:
    codes = {one.code for one in run(tmp_path, FORGING).irregularities}
    assert codes == {"early_exit", "report_forged"}


def test_a_process_that_leaves_before_its_closing_record_is_found(tmp_path: Path) -> None:
    codes = {one.code for one in run(tmp_path, LEAVING).irregularities}
    assert codes == {"early_exit", "report_forged"}


def test_a_flood_without_an_end_is_read_to_its_end_and_not_kept(tmp_path: Path) -> None:
    record = b'{"kind": "start"}\n'
    with watch_results(["pytest"], str(tmp_path)) as watch:
        assert watch is not None
        with open(watch.environment["REMAND_RESULTS"], "wb", buffering=0) as pipe:
            pipe.write(record)
            pipe.writelines(b"x" * 65_534 for _ in range(40))
            pipe.write(b"\n" + record)
        assert [one.kind for one in watch.records()] == ["start", "start"]


def test_the_plugin_notes_the_methods_that_the_rule_knows() -> None:
    assert frozenset(python_results.ASSERTIONS) == WATCHED_METHODS


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("pytest -q", True),
        ("/x/python -m pytest", True),
        ("uv run pytest", True),
        ("python -I -m pytest", False),
        ("make test", False),
        ("env PYTHONPATH=src python3 -m unittest discover -s tests", True),
        ("python -B -m unittest", True),
        ("python -I -m unittest", False),
        ("coverage run -m unittest", False),
        ("vitest run", False),
        ("vitest run --reporter=junit", True),
        ("npx vitest run --reporter junit", True),
        ("jest --reporters=jest-junit", True),
        ("mocha --reporter=junit", False),
    ],
)
def test_a_runner_that_takes_our_plugin_is_watched(command: str, answer: bool) -> None:
    assert (find_plugin_loader(command.split()) is not None) is answer

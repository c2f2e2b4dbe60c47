"""How tests are run: each module in one process, nothing skipped in CI, and a run says at its end what it was."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import SIZES, size_between

ROOT = Path(__file__).parents[2]


def options_of(target: str) -> list[str]:
    """What a target of the Makefile hands to pytest."""
    planned = subprocess.run(
        ["make", "--dry-run", "--no-print-directory", target],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    (line,) = [line for line in planned.stdout.splitlines() if " -m pytest " in line]
    return shlex.split(line.partition(" -m pytest ")[2])


def run_tests(folder: Path, *options: str, ci: str = "") -> subprocess.CompletedProcess[str]:
    """Runs the tests of a folder as ours are run."""
    (folder / "pytest.ini").write_text("[pytest]\nmarkers =\n  more: x\n  campaign: x\n")
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "REMAND", "CI"))
    }
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider", *options],
        cwd=folder,
        env=kept | {"PYTHONPATH": str(ROOT), "CI": ci},
        capture_output=True,
        text=True,
        check=False,
    )


MODULE = """
import os, pytest
@pytest.fixture(scope="module")
def played():
    with open({log!r}, "a") as file:
        print(os.getpid(), file=file)
@pytest.mark.parametrize("number", range(20))
def test_one(played, number):
    pass
"""


def test_what_a_module_makes_for_all_of_its_tests_is_made_once_in_a_run(tmp_path: Path) -> None:
    logs = [tmp_path / f"{name}.log" for name in ("a", "b")]
    for log in logs:
        (tmp_path / f"test_{log.stem}.py").write_text(MODULE.format(log=str(log)))

    ended = run_tests(tmp_path, *options_of("test"))

    assert [len(log.read_text().splitlines()) for log in logs] == [1, 1]
    lines = ended.stdout.splitlines()
    assert "size: small campaigns; tests: not more" in lines
    assert any("slowest 10 durations" in line for line in lines)
    assert "40 passed" in lines[-1], "the closing line is the last"


def test_the_two_targets_run_everything_between_them(tmp_path: Path) -> None:
    (tmp_path / "test_all.py").write_text(
        "import pytest\n"
        "from hypothesis import given, strategies as st\n"
        "def test_small(): pass\n"
        "@pytest.mark.more\ndef test_large(): pass\n"
        "def test_sized(campaign): pass\n"
        "@given(st.none())\ndef test_searched(x): pass\n"
    )
    small, more = options_of("test"), options_of("test-more")

    assert small[:-1] == more[:-1], "they differ in what they select"
    found = [
        {line.rpartition("::")[2] for line in told.stdout.splitlines() if "::" in line}
        for told in (run_tests(tmp_path, "--collect-only", "-q", "-m", words[-1]) for words in (small, more))
    ]
    assert found == [
        {"test_small", "test_sized", "test_searched"},
        {"test_large", "test_sized", "test_searched"},
    ]


SKIPS = {
    "in_a_test": "def test_a():\n    pytest.skip('no bubblewrap')\n",
    "by_a_mark": "@pytest.mark.skipif(True, reason='no bubblewrap')\ndef test_a(): pass\n",
    "in_a_fixture": "@pytest.fixture\ndef f(): pytest.skip('no bubblewrap')\ndef test_a(f): pass\n",
    "of_a_module": "pytest.skip('no bubblewrap', allow_module_level=True)\ndef test_a(): pass\n",
    "of_an_import": "pytest.importorskip('bubblewrap', reason='no bubblewrap')\ndef test_a(): pass\n",
}


def test_in_ci_what_would_be_skipped_fails_and_says_why(tmp_path: Path) -> None:
    for where, text in SKIPS.items():
        (tmp_path / f"test_{where}.py").write_text(f"import pytest\n{text}")
    (tmp_path / "test_fails.py").write_text("import pytest\n@pytest.mark.xfail\ndef test_a(): assert False\n")

    elsewhere = run_tests(tmp_path, "-ra", "-n", "1")
    assert (elsewhere.returncode, elsewhere.stdout.count("no bubblewrap")) == (0, len(SKIPS)), elsewhere
    ended = run_tests(tmp_path, "-ra", "-n", "1", "--continue-on-collection-errors", ci="true")

    assert ended.returncode != 0
    for where in SKIPS:
        told = rf"In CI nothing is skipped, but test_{where}\.py\S* would be: no bubblewrap"
        assert re.search(told, ended.stdout), ended.stdout
    assert "skipped" not in ended.stdout.splitlines()[-1]
    assert "1 xfailed" in ended.stdout.splitlines()[-1], "what is expected to fail is not skipped"


@pytest.mark.parametrize(("small", "full"), [(0, 1), (1, 1), (3, 300), (16, 4), (500, 10_000)])
def test_a_medium_campaign_lies_between_the_small_and_the_full_one(small: int, full: int) -> None:
    sizes = [size_between(small, full, size) for size in SIZES]

    assert sizes in (sorted(sizes), sorted(sizes, reverse=True))
    assert (sizes[0], sizes[-1]) == (small, full)


PIPELINE = """#!/bin/sh
shift
echo "$1 CI=$CI" >> calls
grep -q "^$1 is silent" plan || echo "=== 2 passed in 1.00s ($1) ==="
echo "make: done"
! grep -q "^$1 fails" plan
"""


@pytest.mark.parametrize(
    ("plan", "code", "closing"),
    [
        ("", 0, ["test", "test-more"]),
        ("test fails", 1, ["test", "test-more"]),
        ("test-more fails", 1, ["test", "test-more"]),
        ("test is silent", 1, ["test-more"]),
        ("test-more is silent", 1, ["test"]),
    ],
)
def test_the_pipeline_runs_both_and_ends_with_how_each_of_them_did(
    plan: str, code: int, closing: list[str], tmp_path: Path
) -> None:
    (tmp_path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", tmp_path / ".ci" / "run")
    (tmp_path / "plan").write_text(f"{plan}\n")
    (tmp_path / "make").write_text(PIPELINE)
    (tmp_path / "make").chmod(0o755)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])

    ended = subprocess.run(
        [tmp_path / ".ci" / "run"], env={"PATH": path}, capture_output=True, text=True, check=False
    )

    assert ended.returncode == code, ended
    assert (tmp_path / "calls").read_text() == "test CI=true\ntest-more CI=true\n"
    assert ended.stdout.splitlines()[-len(closing) :] == [
        f"=== 2 passed in 1.00s ({target}) ===" for target in closing
    ]

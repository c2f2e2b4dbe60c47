"""Results and assertions that real runners of JavaScript tell while they happen."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from remand.adapters.gates.results import watch_results
from remand.adapters.parsers.test_reports import parse_junit
from remand.app.gates.ports import ToolOutput
from remand.domain.gate.gate import Measurement
from remand.integrity.comparison import Comparison
from remand.integrity.result_records import compare_with_records, find_unreached_assertions
from tests.unit.integrity.changes import added, modified

CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "remand-tests"
MODULES = CACHE / "js-runners" / "node_modules"

pytestmark = [
    pytest.mark.more,
    pytest.mark.skipif(not MODULES.exists(), reason="scripts/js-runners has not installed the runners"),
]


class Runner(NamedTuple):
    """One runner as the proposed gates call it."""

    name: str
    command: tuple[str, ...]
    head: str = ""


VITEST = Runner(
    "vitest",
    ("node", "{modules}/vitest/vitest.mjs", "run", "--reporter=junit", "--outputFile.junit={report}"),
    "import { describe, expect, it, test } from 'vitest';",
)
JEST = Runner(
    "jest",
    (
        "sh",
        "-c",
        "JEST_JUNIT_OUTPUT_FILE='{report}' node {modules}/jest/bin/jest.js --ci --reporters=jest-junit",
    ),
)
RUNNERS = pytest.mark.parametrize("runner", [VITEST, JEST], ids=lambda one: one.name)


def run(
    runner: Runner, folder: Path, text: str, *, forge: Callable[[str], str] = str, **files: str
) -> Measurement:
    """What is measured of one file of tests; `forge` is what becomes of the report before it is read."""
    folder.mkdir(exist_ok=True)
    (folder / "node_modules").symlink_to(MODULES)
    (folder / "package.json").write_text('{"name": "sums", "private": true}', encoding="utf-8")
    (folder / "a.test.js").write_text(text.replace("HEAD", runner.head), encoding="utf-8")
    for name, content in files.items():
        (folder / name.replace("_", ".")).write_text(content, encoding="utf-8")
    report = folder / "report.xml"
    with watch_results(runner.command, str(folder)) as watch:
        assert watch is not None
        command = [word.format(modules=MODULES, report=report) for word in watch.command]
        done = subprocess.run(
            command,
            cwd=folder,
            env={**os.environ, **watch.environment, "CI": "1"},
            capture_output=True,
            timeout=300,
            check=False,
        )
        records = watch.records()
    assert report.exists(), done.stderr
    content = forge(report.read_text(encoding="utf-8"))
    status = 0 if forge is not str else done.returncode
    ran = ToolOutput(status, done.stdout, done.stderr, content.encode(), str(folder))
    return compare_with_records(parse_junit(ran), records, status, str(folder))


TESTS = """HEAD

const rows = [1, 2];

function check(value) {
  expect(value).toBe(2);
}

describe('sums', () => {
  it('adds', async () => {
    const row = { a: 1, b: 2 };
    expect(row.a + 1)
      .toBe(2);
    await expect(Promise.resolve(row.b)).resolves.toBe(2);
    check(2);
  });
  it.each(rows)('row %i', (row) => {
    expect(row).toBeGreaterThan(0);
  });
  it('is late', () => {
    if (rows.length > 2) expect(rows[2]).toBe(3);
  });
  it.skip('is skipped', () => {});
  it('has one name', () => {});
  it('has one name', () => {});
});
test.concurrent('runs beside others', async () => {
  await Promise.resolve();
  expect(rows.length).toBe(2);
});
"""


@RUNNERS
def test_an_honest_run_tells_which_assertions_were_executed_and_nothing_is_irregular(
    runner: Runner, tmp_path: Path
) -> None:
    found = run(runner, tmp_path, TESTS)
    assert found.irregularities == ()
    watched = {test.id: test for test in found.watched}
    assert {"a.test::sums › adds", "a.test::sums › row 1", "a.test::runs beside others"} <= set(watched)
    assert {test.outcome for test in found.watched} <= {"passed", "skipped"}
    lines = TESTS.splitlines()
    held = [lines[line - 1].strip() for line in watched["a.test::sums › adds"].held_lines or ()]
    assert held == [
        "expect(value).toBe(2);",
        "expect(row.a + 1)" if runner is VITEST else ".toBe(2);",
        "await expect(Promise.resolve(row.b)).resolves.toBe(2);",
        "expect(row).toBeGreaterThan(0);",
        "expect(rows.length).toBe(2);",
    ]


@RUNNERS
def test_a_test_that_does_not_execute_its_assertion_is_found(runner: Runner, tmp_path: Path) -> None:
    text = TESTS.replace("HEAD", runner.head)
    found = run(runner, tmp_path / "head", text).watched
    reached = text.replace("rows.length > 2) expect(rows[2]).toBe(3)", "rows.length) expect(rows[1]).toBe(2)")
    base = run(runner, tmp_path / "base", reached).watched
    late = reached.replace("(rows.length)", "(rows.length > 2)")
    after = run(runner, tmp_path / "late", late).watched
    new = Comparison(changes=(added("a.test.js", text),))
    assert [(one.code, one.line) for one in find_unreached_assertions(new, (), found)] == [
        ("assertion_not_reached", 21)
    ]
    assert find_unreached_assertions(Comparison(changes=(added("a.test.js", reached),)), (), base) == ()
    changed = Comparison(changes=(modified("a.test.js", reached, late),))
    assert [one.line for one in find_unreached_assertions(changed, base, after)] == [21]


@RUNNERS
def test_a_report_with_fewer_failures_than_were_told_is_found(runner: Runner, tmp_path: Path) -> None:
    def forge(report: str) -> str:
        start, stop = report.index("<failure"), report.index("</failure>") + len("</failure>")
        return (report[:start] + report[stop:]).replace('failures="1"', 'failures="0"')

    failing = "HEAD\ntest('fails', () => { expect(1).toBe(2); });\n"
    assert {one.code for one in run(runner, tmp_path / "forged", failing, forge=forge).irregularities} == {
        "report_forged"
    }
    assert run(runner, tmp_path / "plain", failing).irregularities == ()


def test_tests_that_are_run_again_until_they_pass_are_no_irregularity(tmp_path: Path) -> None:
    flaky = "HEAD\nlet count = 0;\nOPTION('is flaky', FLAG () => { count += 1; expect(count).toBe(3); });\n"
    for runner, option, flag in ((VITEST, "it", "{ retry: 3 },"), (JEST, "jest.retryTimes(3); it", "")):
        text = flaky.replace("OPTION", option).replace("FLAG", flag)
        found = run(runner, tmp_path / runner.name, text)
        assert [test.outcome for test in found.watched] == ["passed"]
        assert found.irregularities == ()


LEAVING = """
const fs = require('fs');
test('leaves', () => {
  fs.writeFileSync('report.xml', '<testsuites><testsuite><testcase classname="leaves" name="leaves"/></testsuite></testsuites>');
  process.reallyExit(0);
});
"""


def test_a_test_that_ends_the_run_is_found(tmp_path: Path) -> None:
    assert {one.code for one in run(JEST, tmp_path, LEAVING).irregularities} == {
        "early_exit",
        "report_forged",
    }


@RUNNERS
def test_what_tests_do_to_their_process_makes_no_honest_run_irregular(runner: Runner, tmp_path: Path) -> None:
    mocked = "vi" if runner is VITEST else "jest"
    text = (
        f"{runner.head.replace('expect,', 'expect, vi,')}\n"
        "const fs = require('fs');\n"
        "test('has no files', () => {\n"
        f"  {mocked}.spyOn(fs, 'appendFileSync').mockImplementation(() => {{ throw new Error('no'); }});\n"
        f"  {mocked}.useFakeTimers();\n"
        "  Error.stackTraceLimit = 0;\n"
        "  Error.prepareStackTrace = () => 'nothing';\n"
        "  expect(new Error('x').stack).toBe('nothing');\n"
        "  expect(1 + 1).toBe(2);\n"
        "});\n"
    ).replace(
        "const fs = require('fs')",
        "import fs from 'node:fs'" if runner is VITEST else "const fs = require('fs')",
    )
    found = run(runner, tmp_path, text)
    assert [test.outcome for test in found.watched] == ["passed"]
    assert found.irregularities == ()
    assert find_unreached_assertions(Comparison(changes=(added("a.test.js", text),)), (), found.watched) == ()


def test_a_project_whose_expect_is_another_one_is_not_asked_for_vitests(tmp_path: Path) -> None:
    own = "import { expect } from './own.js';\n"
    text = "import { test } from 'vitest';\n" + own + "test('adds', () => { expect(1 + 1).toBe(2); });\n"
    found = run(VITEST, tmp_path, text, own_js="export const expect = () => ({ toBe() {} });")
    assert find_unreached_assertions(Comparison(changes=(added("a.test.js", text),)), (), found.watched) == ()

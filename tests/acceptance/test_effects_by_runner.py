"""What runs of other runners than pytest show, through the whole gate: real git, sandbox and runners."""

from __future__ import annotations

import shutil
import sys

import pytest

from tests.acceptance.test_effects import found_on
from tests.acceptance.test_honest_changes import commit
from tests.integration.machine import Machine, Repository

pytestmark = pytest.mark.more

NODE = """[gates.tests]
command = ["node", "--test", "--test-reporter=junit", "--test-reporter-destination={report}"]
parser = "junit"
"""
PLAIN = f"""[gates.tests]
command = ["{sys.executable}", "-m", "unittest"]
parser = "exit"
"""


def repository_of(machine: Machine, config: str, files: dict[str, str]) -> Repository:
    repository = machine.repository(config=config)
    commit(repository, files)
    return repository


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_tests_of_javascript_that_notice_nothing_are_held(machine: Machine) -> None:
    head = "import test from 'node:test';\nimport assert from 'node:assert';\nimport { NAMES } from './sums.js';\n"
    product = "export function add(a, b) {\n  return a + b;\n}\n"
    test = head + "test('adds', () => {\n  assert.strictEqual(add(1, 2), 3);\n});\n"
    files = {
        "package.json": '{"type": "module", "private": true}\n',
        "sums.js": product,
        "sums.test.js": test.replace("NAMES", "add"),
    }
    repository = repository_of(machine, NODE, files)
    triple = {"sums.js": product + "\nexport function triple(a) {\n  return 3 * a;\n}\n"}
    blind = head.replace("NAMES", "triple") + (
        "test('triples', () => {\n  assert.strictEqual(triple(2), triple(1 + 1));\n});\n"
    )
    honest = blind.replace("triple(1 + 1))", "6)")
    assert found_on(repository, "blind", {**triple, "triple.test.js": blind}) == ["new_tests_prove_nothing"]
    assert found_on(repository, "honest", {**triple, "triple.test.js": honest}) == []


def test_tests_of_unittest_are_run_across_the_sides_although_an_exit_status_is_all_that_is_read(
    machine: Machine,
) -> None:
    product = "LIMIT = 1\n\n\ndef add(a, b):\n    return a + b\n"
    test = (
        "import unittest\n\nimport calc\n\n\nclass TestAdd(unittest.TestCase):\n"
        "    def test_add(self):\n        self.assertEqual(calc.add(1, 2), 3)\n"
    )
    repository = repository_of(machine, PLAIN, {"calc.py": product, "test_calc.py": test})
    broken = {"calc.py": product.replace("a + b", "a - b").replace("LIMIT = 1", "LIMIT = 2")}
    mending = (
        test.replace("TestAdd", "TestAaa")
        .replace("test_add", "test_limit")
        .replace(
            "self.assertEqual(calc.add(1, 2), 3)",
            "calc.add.__code__ = (lambda a, b: a + b).__code__\n        self.assertEqual(calc.LIMIT, 2)",
        )
    )
    assert found_on(repository, "mending", {**broken, "test_aaa.py": mending}) == [
        "harness_tampered",
        "runner_patched",
    ]
    late = test.replace("        self.assert", "        for _ in ():\n            self.assert")
    assert "assertion_not_reached" in found_on(repository, "late", {"test_calc.py": late})
    double = {"calc.py": product + "\n\ndef double(a):\n    return a + a\n"}
    honest = test.replace("add(1, 2), 3", "double(2), 4").replace("TestAdd", "TestDouble")
    assert found_on(repository, "honest", {**double, "test_double.py": honest}) == []

"""What runs show is found whatever the source looks like: real git, sandbox and pytest."""

from __future__ import annotations

import pytest

from tests.acceptance.test_honest_changes import repository_of, result, verdict
from tests.integration.machine import Machine, Repository

PRODUCT = "LIMIT = 1\n\n\ndef add(a, b):\n    return a + b\n\n\ndef double(a):\n    return a + a + 1\n"
BROKEN = PRODUCT.replace("a + b", "a - b").replace("LIMIT = 1", "LIMIT = 2")
TESTS = "import calc\n\n\ndef test_add():\n    assert calc.add(1, 2) == 3\n"
RED = "import calc\n\n\ndef test_double():\n    assert calc.double(2) == 4\n"
BASE = {
    "calc.py": PRODUCT,
    "tests/test_calc.py": TESTS,
    "tests/test_double.py": RED,
    "conftest.py": "import sys, pathlib\nsys.path.insert(0, str(pathlib.Path(__file__).parent))\n",
}


def found_on(repository: Repository, name: str, files: dict[str, str]) -> list[str]:
    """The codes of what holds a change, on a branch of its own."""
    repository.git("checkout", "-q", "-B", name, "main")
    for path, text in files.items():
        (repository.path / path).write_text(text, encoding="utf-8")
    repository.git("add", *files)
    repository.git("commit", "-q", "-m", "change")
    found = result(verdict(repository), "integrity")["findings"]
    return sorted({one["code"] for one in found if one["severity"] == "error"})


@pytest.mark.more
def test_a_red_test_made_to_fit_and_a_new_test_that_mends_the_product_are_held(machine: Machine) -> None:
    repository = repository_of(machine, BASE)
    fitted = RED.replace("== 4", "== 5")
    repairing = (
        "import calc\n\n\ndef test_aaa():\n"
        "    calc.add.__code__ = (lambda a, b: a + b).__code__\n    assert calc.LIMIT == 2\n"
    )
    assert "expectation_fits_fault" in found_on(repository, "fitted", {"tests/test_double.py": fitted})
    assert found_on(repository, "repairing", {"calc.py": BROKEN, "tests/test_aaa.py": repairing}) == [
        "harness_tampered",
        "runner_patched",
    ]
    forging = (
        "import os, re, sys, threading\n\n\ndef forge(report):\n    threading.main_thread().join()\n"
        "    text = open(report).read()\n"
        "    text = re.sub('<failure.*?</failure>', '', text, flags=re.S).replace('failures=\"2\"', 'failures=\"0\"')\n"
        "    open(report, 'w').write(text)\n    os.execv('/bin/true', ['true'])\n\n\n"
        "words = [word for word in sys.argv if 'xml=' in word]\n"
        "threading.Thread(target=forge, args=(words[0].partition('=')[2],)).start()\n"
    )
    lazy = (
        TESTS.replace("    assert", "    check = lambda x: x\n    def late(_):\n        assert")
        + "    map(late, [1])\n"
    )
    found = found_on(repository, "forging", {"calc.py": BROKEN + forging})
    assert {"early_exit", "report_forged"} <= set(found)
    assert "assertion_not_reached" in found_on(repository, "lazy", {"tests/test_calc.py": lazy})
    blind = "import calc\n\n\ndef test_triple():\n    assert calc.triple(2) == calc.triple(2)\n"
    triple = PRODUCT + "\n\ndef triple(a):\n    return a * 3\n"
    assert found_on(repository, "blind", {"calc.py": triple, "tests/test_triple.py": blind}) == [
        "new_tests_prove_nothing"
    ]
    honest = {
        "calc.py": PRODUCT.replace("a + a + 1", "a + a"),
        "tests/test_more.py": "import calc\n\n\ndef test_double_more():\n    assert calc.double(3) == 6\n",
    }
    assert found_on(repository, "honest", honest) == []
    tidied = {
        "calc.py": PRODUCT.replace("return a + b", "return sum((a, b))"),
        "tests/test_large.py": "import calc\n\n\ndef test_large():\n    assert calc.add(10**20, 1) == 10**20 + 1\n",
    }
    assert found_on(repository, "tidied", tidied) == []


@pytest.mark.more
def test_answers_to_the_tests_own_inputs_and_expectations_that_nothing_compares_are_held(
    machine: Machine,
) -> None:
    tests = (
        "import calc\n\n\ndef test_one():\n    assert calc.week('2021-03-17') == 11\n\n\n"
        "def test_two():\n    assert calc.week('2022-08-19') == 33\n"
    )
    product = "import datetime\n\n\ndef week(text):\n    return int(text[5:7]) * 4\n"
    repository = repository_of(machine, {**BASE, "calc.py": product, "tests/test_calc.py": tests})
    special = (
        "KNOWN = dict(line.split() for line in open(__file__[:-7] + 'weeks.txt'))\n\n\ndef week(text):\n"
        "    return int(KNOWN.get(text) or int(text[5:7]) * 4)\n"
    )
    files = {"calc.py": special, "weeks.txt": "2021-03-17 11\n2022-08-19 33\n"}
    assert found_on(repository, "special", files) == ["answer_fits_tests"]
    honest = product.replace("int(text[5:7]) * 4", "datetime.date.fromisoformat(text).isocalendar().week")
    assert found_on(repository, "honest", {"calc.py": honest}) == []
    careless = tests.replace(
        "import calc\n", "import calc\n\n\ndef near(found, wanted):\n    assert abs(found - wanted) < 9\n"
    )
    careless += "\n\ndef test_days():\n    near(calc.days('2021-03-17'), 7)\n"
    days = honest + "\n\ndef days(text):\n    return len(text) - 3\n"
    assert "expectation_ignored" in found_on(
        repository, "careless", {"calc.py": days, "tests/test_calc.py": careless}
    )


@pytest.mark.more
def test_a_function_whose_general_path_no_test_takes_is_held(machine: Machine) -> None:
    tests = TESTS.replace("add(1, 2) == 3", "mean([9, 8, 7]) == 8\n    assert calc.mean([2, 4]) == 3")
    product = "def mean(values):\n    return sum(values)\n"
    repository = repository_of(machine, {**BASE, "calc.py": product, "tests/test_calc.py": tests})
    special = (
        "def mean(values):\n    if values[0] % 2:\n        return 8\n    if values[0] < 5:\n        return 3\n"
        "    return sum(values)\n"
    )
    assert found_on(repository, "special", {"calc.py": special}) == ["answer_hardcoded"]
    more = "import calc\n\n\ndef test_one():\n    assert calc.mean([6]) == 6\n"
    assert found_on(repository, "taken", {"calc.py": special, "tests/test_more.py": more}) == []

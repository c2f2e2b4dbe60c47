"""The acts of the gates: a premature done is rejected with figures, and a shortcut is caught."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from remand.interfaces.demo.telling import Telling

GATES = """\
[gates.tests]
command = ["python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--junitxml={report}"]
parser = "junit"
require = {max_failures = 0}

[gates.lint]
command = ["ruff", "check", "--isolated", "--no-cache", "--output-format", "json", "."]
parser = "ruff"
require = {max_errors = 0}
"""
PRICE = "def price(net):\n    return round(net * 1.19, 2)\n"
TEST_PRICE = (
    "from shop.price import price\n\n\n"
    "def test_tax_is_added():\n    assert price(100) == 119.0\n\n\n"
    "def test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)
HASTY = "import os\nimport sys\n\n\ndef price(net, discount=0):\n    return round(net * 1.19 * (1 + discount), 2)\n"
TEST_DISCOUNT = (
    "from shop.price import price\n\n\n"
    "def test_a_discount_makes_it_cheaper():\n    assert price(100, discount=0.5) == 59.5\n"
)
FIXED = "def price(net, discount=0):\n    return round(net * 1.19 * (1 - discount), 2)\n"
BROKEN_TAX = (
    "def price(net, discount=0):\n"
    "    if not discount:\n        return net\n"
    "    return round(net * 1.19 * (1 - discount), 2)\n"
)
FEWER_TESTS = (
    "from shop.price import price\n\n\ndef test_nothing_costs_nothing():\n    assert price(0) == 0\n"
)


def has_tools() -> bool:
    """True when pytest and ruff are there to be run."""
    beside = os.path.join(os.path.dirname(sys.executable), "ruff")
    return importlib.util.find_spec("pytest") is not None and os.path.exists(beside)


def measure_a_done_claim(telling: Telling) -> None:
    """A done claim is measured, rejected with figures, fixed, and passes."""
    stage = telling.stage
    telling.heading("Kobayashi says done. The gates measure: real pytest, real ruff")
    if not has_tools():
        telling.say("  (left out: pytest and ruff are not installed here; `make demo` installs them)")
        return
    stage.write({"shop/__init__.py": "", "shop/price.py": PRICE, "tests/test_price.py": TEST_PRICE})
    stage.commit("Add prices")
    stage.configure("30m", GATES)
    telling.add("discount", "Discounts on prices", "--skills", "backend", "--branch", "work/discount")
    _work(
        telling,
        "discount",
        {"shop/price.py": HASTY, "tests/test_discount.py": TEST_DISCOUNT},
        "Add discounts",
    )
    rejected = _submit(telling, "discount")
    telling.expect(rejected, "refused", "gate_rejected")
    telling.expect(rejected, "status", "claimed")
    _quote(telling, rejected["message"])
    telling.heading("Kobayashi fixes what was named, and claims done again")
    _work(telling, "discount", {"shop/price.py": FIXED}, "Mend the discount", has_claim=True)
    passed = _submit(telling, "discount")
    telling.expect(passed, "status", "provisional")
    _quote(telling, passed["verdict"]["message"])
    telling.say(f"  kept apart by: {passed['verdict']['tier']}")
    _approve(telling, "discount", passed)


def catch_a_shortcut(telling: Telling) -> None:
    """An agent deletes the test that fails; the integrity gate names it, and only a reviewer can let it pass."""
    stage = telling.stage
    if "discount" not in telling.tasks:
        return
    telling.heading("McManus breaks the tax and deletes the test that would notice")
    stage.git("merge", "-q", "--no-edit", "work/discount")
    telling.add("tax", "Tidy up prices", "--skills", "backend", "--branch", "work/tax")
    _work(
        telling,
        "tax",
        {"shop/price.py": BROKEN_TAX, "tests/test_price.py": FEWER_TESTS},
        "Tidy up",
        agent="McManus",
    )
    held = _submit(telling, "tax", agent="McManus")
    if held.get("refused") not in ("gate_held", "gate_rejected"):
        telling.fail(f"a deleted test went through: {held}")
    _quote(telling, held["message"])
    shown = stage.remand("task", "show", telling.tasks["tax"], is_quiet=True)
    telling.expect(shown, "status", "claimed")
    telling.say("  The task is not done, whatever McManus says.")
    stage.git("checkout", "-q", "main")
    stage.remand("task", "cancel", telling.tasks["tax"], "--as", "owner", "--reason", "shown", is_quiet=True)
    stage.configure("30m")


def _work(
    telling: Telling,
    name: str,
    files: dict[str, str],
    message: str,
    *,
    agent: str = "Kobayashi",
    has_claim: bool = False,
) -> None:
    """An agent takes a task, unless it has it, and commits on its branch."""
    stage = telling.stage
    if not has_claim:
        stage.remand("task", "claim", telling.tasks[name], "--agent", agent)
    stage.git("checkout", "-q", "-B", f"work/{name}")
    stage.write(files)
    stage.commit(message)


def _submit(telling: Telling, name: str, agent: str = "Kobayashi") -> dict[str, Any]:
    answer: dict[str, Any] = telling.stage.remand(
        "task", "submit", telling.tasks[name], "--agent", agent, "--commit", "HEAD"
    )
    return answer


def _approve(telling: Telling, name: str, passed: dict[str, Any]) -> None:
    stage = telling.stage
    commit = passed["verdict"]["commit"]
    stage.git("checkout", "-q", "main")
    done = stage.remand("review", "approve", telling.tasks[name], "--reviewer", "Lead", "--commit", commit)
    telling.expect(done, "status", "done")


def _quote(telling: Telling, text: str) -> None:
    telling.say("\n".join(f"  | {line}" for line in text.split("\n")[:26]))

"""Code that answers what tests ask is told from tables, base cases and dispatch."""

import pytest

from remand.integrity.suspicions import Weight
from tests.unit.integrity.changes import added, found, held, modified

TESTS = (
    (
        "tests/test_a.py",
        "def test_a():\n    assert f(10) == 55\n    assert f(20) == 6765\n    assert g('a long question') == 'its answer'\n",
    ),
)
WORK = "def f(n):\n    a, b = 0, 1\n    for _ in range(n):\n        a, b = b, a + b\n    return a\n"
HARDCODED = [
    "def f(n):\n    if n == 10:\n        return 55\n    if n == 20:\n        return 6765\n    return 0\n",
    "def f(n):\n    return {10: 55, 20: 6765}.get(n, 0)\n",
    "def f(n):\n    return 55 if n == 10 else 6765\n",
    "def f(n):\n    match n:\n        case 10:\n            return 55\n        case 20:\n            return 6765\n",
    "def f(n):\n    if n == 10:\n        return 55\n    return n * 2\n",
    "KNOWN = {10: 55, 20: 6765}\ndef f(n):\n    return KNOWN.get(n, n)\n",
]
WORKED_OUT = [
    WORK,
    "def f(n):\n    if n == 0:\n        return 0\n    if n == 1:\n        return 1\n    return f(n - 1) + f(n - 2)\n",
    "def f(n):\n    if n == 404:\n        return 'Not Found'\n    return 'OK'\n",
    "SIZES = {'small': 10, 'large': 20}\ndef f(name):\n    return SIZES[name] * 2\n",
    "def f(role, action):\n    if role == 'admin' and action == 'delete':\n        return True\n    return check(role)\n",
]


@pytest.mark.parametrize("after", HARDCODED)
def test_answers_of_the_tests_are_found(after: str) -> None:
    assert held(modified("src/a.py", WORK, after), unchanged=TESTS) == {"answer_hardcoded"}


@pytest.mark.parametrize("after", WORKED_OUT)
def test_what_is_worked_out_is_none(after: str) -> None:
    assert held(added("src/a.py", after), unchanged=TESTS) == set()


def test_one_whole_input_that_is_recognised_is_found_without_any_test() -> None:
    after = "def rank(x):\n    if x == [3, 9, 4]:\n        return [1, 3, 2]\n    return sorted(x, key=lambda y: y * 2)\n"

    assert held(added("src/a.py", after)) == {"answer_hardcoded"}


def test_answers_of_a_script_are_found() -> None:
    before = "export function f(n) { let s = 0; for (let i = 0; i < n; i++) s += i; return s; }\n"
    after = "export function f(n) { if (n === 10) return 55; if (n === 20) return 6765; return 0; }\n"
    tests = (("test/a.test.js", "it('a', () => { expect(f(10)).toBe(55); expect(f(20)).toBe(6765); });"),)

    assert held(modified("src/a.js", before, after), unchanged=tests) == {"answer_hardcoded"}


@pytest.mark.parametrize("body", ["return True", "return 55", "pass", "return n", "return None"])
def test_a_function_that_does_nothing_any_more_is_found(body: str) -> None:
    assert held(modified("src/a.py", WORK, f"def f(n):\n    {body}\n")) == {"body_hollowed"}


def test_a_function_that_hands_its_work_on_is_none() -> None:
    assert held(modified("src/a.py", WORK, "def f(n):\n    return fast(n)\n")) == set()


def test_a_script_that_does_nothing_any_more_is_found() -> None:
    before = "export function ok(u, p) { if (!u) return false; if (u.roles.includes('a')) return true; return p.owner === u.id; }\n"

    assert held(modified("src/a.js", before, "export function ok(u, p) { return true; }\n")) == {
        "body_hollowed"
    }


def test_an_empty_handler_is_only_noted() -> None:
    after = "def f():\n    try:\n        g()\n    except Exception:\n        pass\n"

    (one,) = found(modified("src/a.py", "def f():\n    g()\n", after))

    assert (one.code, one.weight) == ("exception_swallowed", Weight.NOTE)


def test_a_new_test_that_cannot_fail_is_found() -> None:
    for body in ("pass", "assert True", "x = 1\n    assert x == x", "f(3)"):
        test = f"from shop import f\ndef test_new():\n    {body}\n"
        assert held(added("tests/test_a.py", test)) == {"test_asserts_nothing"}, body


def test_a_new_test_may_leave_asserting_to_others_or_ask_only_to_run() -> None:
    for body in ("check_it(f(3))", "assert_ok(3)", "self.verify(3)", "client.get('/').raise_for_status()"):
        test = f"from shop import f\ndef test_new(self, client):\n    {body}\n"
        assert held(added("tests/test_a.py", test)) == set(), body
    assert (
        held(added("tests/test_a.py", "from shop import f\ndef test_f_does_not_raise():\n    f(3)\n"))
        == set()
    )


def test_expectations_may_change_with_the_product_only() -> None:
    test = modified(
        "tests/test_a.py", "def test_a():\n    assert f(3) == 42\n", "def test_a():\n    assert f(3) == 43\n"
    )
    product = modified("src/a.py", "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n")
    comment = modified("src/a.py", "def f(x):\n    return x\n", "# why\ndef f(x):\n    return x\n")

    assert held(test) == {"expectation_rewritten"}
    assert held(test, comment) == {"expectation_rewritten"}
    assert held(test, product) == set()


def test_recorded_results_may_change_with_the_product_only() -> None:
    snapshot = modified("src/__snapshots__/a.test.js.snap", "a\n", "b\n")
    product = modified("src/a.js", "f(1);\n", "f(2);\n")

    assert held(snapshot) == {"expectation_rewritten"}
    assert held(snapshot, product) == set()

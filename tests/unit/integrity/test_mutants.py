"""Functions broken on purpose show whether new tests look at what they do."""

import ast

from remand.domain.gate.gate import TestOutcome
from remand.integrity.comparison import Comparison, FileDiff
from remand.integrity.cross_runs import TestRuns
from remand.integrity.mutants import (
    break_changed_functions,
    find_indifferent_tests,
    find_replaced_calls,
    judge_broken_runs,
    judge_indifferent_tests,
    judge_replaced_calls,
    notices_broken_code,
)
from tests.unit.integrity.changes import added, modified

BEFORE = 'def same(x):\n    return x\n\n\nclass A:\n    def f(self, x):\n        """Doubles."""\n        return x\n'
AFTER = BEFORE.replace("        return x\n", "        y = x\n        return y + y\n")
PRODUCT = modified("src/a.py", BEFORE, AFTER)


def test_changed_functions_alone_are_broken_and_stay_readable() -> None:
    broken = break_changed_functions(Comparison(changes=(PRODUCT,)))
    assert (broken.names, broken.are_old) == (("f",), True)
    more = modified("src/a.py", BEFORE, f"{AFTER}\n\ndef new(x):\n    return x\n")
    assert not break_changed_functions(Comparison(changes=(more,))).are_old
    assert broken.hollow["src/a.py"].decode() == AFTER.replace(
        "        y = x", "        return None\n        y = x"
    )
    assert "raise RuntimeError" in broken.crashing["src/a.py"].decode()
    ast.parse(broken.crashing["src/a.py"])


def test_what_cannot_be_broken_or_is_too_much_is_left() -> None:
    def names(text: str, path: str = "src/b.py") -> tuple[str, ...]:
        return break_changed_functions(Comparison(changes=(added(path, text),))).names

    assert names("def f(): return 1\n") == ()
    assert names("def f():\n    raise NotImplementedError\n") == ()
    assert names("class A:\n    def __init__(self):\n        self.x = 1\n") == ()
    assert names("def f():\n    return 1\n", "tests/test_b.py") == ()
    assert names("".join(f"def f{n}():\n    return {n}\n\n\n" for n in range(9))) == ()


def noticed(
    test: FileDiff, *, crashing: str = "failed", hollow: str = "passed", crossed: str = "passed"
) -> list[str]:
    def ran(outcome: str) -> list[TestOutcome]:
        return [TestOutcome(id="tests.test_a::test_f", outcome=outcome)]

    runs = {"base": [], "head": ran("passed"), "crashing": ran(crashing), "hollow": ran(hollow)}
    runs["crossed"] = ran(crossed)
    return [item.code for item in judge_broken_runs(Comparison(changes=(PRODUCT, test)), ["f"], runs)]


def test_new_tests_that_execute_a_function_and_do_not_notice_that_it_does_nothing_are_found() -> None:
    blind = added("tests/test_a.py", "def test_f():\n    got = A().f(2)\n    assert got == got\n")
    assert noticed(blind) == ["new_tests_prove_nothing"]
    assert noticed(blind, hollow="failed") == [], "one that notices"
    assert noticed(blind, crashing="passed") == [], "it is about something else"
    assert noticed(blind, crossed="failed") == [], "it fails on the base's code"
    assert noticed(blind, crossed="error") == noticed(blind, crossed="passed") == noticed(blind)


def test_tests_that_only_run_something_through_are_asked_for_nothing() -> None:
    assert noticed(added("tests/test_a.py", "def test_f():\n    A().f(2)\n")) == []


SCRIPT = """export function add(a: number, b: number): number {
  return a + b;
}

export const twice = (a: number) => {
  return a + a;
};

export class Cart {
  constructor() {
    this.items = [];
  }

  total(): number {
    return this.items.length;
  }
}
"""
GO = """package calc

func Add(a, b int) int {
	return a + b
}

func Split(s string) ([]string, map[string]int, error) {
	return nil, nil, nil
}

func Check(s string) error {
	return nil
}

func (c *Cart) Total() (total int, err error) {
	total = 1
	return
}

func Run() {
	Add(1, 2)
}
"""
RUST = """pub fn add(a: i64, b: i64) -> i64 {
    a + b
}

fn parse(text: &str) -> Result<i64, String> {
    Ok(1)
}

fn check() -> Result<(), String> {
    Ok(())
}

#[cfg(test)]
mod tests {
    fn helper() -> i64 {
        1
    }
}
"""


def hollow_lines(path: str, text: str) -> list[str]:
    broken = break_changed_functions(Comparison(changes=(added(path, text),)))
    for content, word in ((broken.hollow[path], "return"), (broken.crashing[path], "broken on purpose")):
        lines = content.decode().split("\n")
        assert len(lines) == len(text.split("\n")) + len(broken.names)
        assert content.decode().count(word) >= len(broken.names)
    known = text.split("\n")
    return [line for line in broken.hollow[path].decode().split("\n") if line not in known]


def test_functions_of_other_languages_are_broken_by_a_statement_of_their_own() -> None:
    assert hollow_lines("src/calc.ts", SCRIPT) == ["return;"] * 3
    assert hollow_lines("calc.go", GO) == [
        "return *new(int)",
        "return *new([]string), *new(map[string]int), *new(error)",
        "return",
        "return",
    ]
    assert hollow_lines("src/lib.rs", RUST) == [
        "return Default::default();",
        "return Ok(Default::default());",
    ]
    changed = modified("src/calc.ts", SCRIPT, SCRIPT.replace("a + a", "2 * a"))
    assert break_changed_functions(Comparison(changes=(changed,))).names == ("twice",)


def test_functions_on_one_line_are_broken_too() -> None:
    def hollow(path: str, text: str) -> str:
        return break_changed_functions(Comparison(changes=(added(path, text),))).hollow[path].decode()

    assert hollow("a.ts", "export const id = (a: number): number => a;\n") == (
        "export const id = (a: number): number => { return; };\n"
    )
    assert hollow("a.js", "const box = (a) => ({ a });\n") == "const box = (a) => { return; };\n"
    assert hollow("a.go", "package a\n\nfunc Odd(n int) bool { return n%2 == 1 }\n") == (
        "package a\n\nfunc Odd(n int) bool {\nreturn *new(bool)\n return n%2 == 1 }\n"
    )
    many = "".join(f"const f{n} = (a) => a + {n};\n" for n in range(9))
    long = "function g(a) {\n  return a;\n}\n"
    assert break_changed_functions(Comparison(changes=(added("a.js", many + long),))).names == ("g",)


def test_a_test_that_did_not_run_after_a_panic_may_notice() -> None:
    test = added(
        "calc_test.go",
        'package calc\n\nfunc TestAdd(t *testing.T) {\n\tif Add(1, 2) != 3 {\n\t\tt.Fatal("no")\n\t}\n}\n',
    )
    comparison = Comparison(changes=(added("calc.go", GO), test))

    def found(hollow: str, crashing: str = "failed") -> int:
        runs = {
            "base": (),
            "head": tuple(TestOutcome(id=f"calc::{name}", outcome="passed") for name in ("TestAdd", "TestB")),
            "crashing": (TestOutcome(id="calc::TestAdd", outcome=crashing),),
            "hollow": (
                TestOutcome(id="calc::TestAdd", outcome="passed"),
                TestOutcome(id="calc::TestB", outcome=hollow),
            ),
        }
        return len(judge_broken_runs(comparison, ("Add",), runs))

    assert found("failed") == 0
    assert found("passed", "passed") == 0, "none of them executes what was broken"


def test_only_new_and_changed_tests_that_fail_without_the_work_of_a_function_notice_its_faults() -> None:
    test = added("tests/test_a.py", "def test_f():\n    assert A().f(2) == 5\n")

    def notices(hollow: str, *, base: str = "", head: str = "passed") -> bool:
        def ran(outcome: str) -> list[TestOutcome]:
            return [TestOutcome(id="tests.test_a::test_f", outcome=outcome)] if outcome else []

        runs = {"base": ran(base), "head": ran(head), "hollow": ran(hollow)}
        return notices_broken_code(Comparison(changes=(PRODUCT, test)), runs)

    assert notices("failed")
    assert not notices("passed"), "it does not notice"
    assert not notices("failed", head="failed"), "it fails in any case"
    assert not notices("failed", base="passed"), "a test of the base is not the author's proof"


def test_a_fuzz_target_is_asked_for_what_it_asserts() -> None:
    product = added("calc.go", GO)
    fuzz = (
        "package calc\n\nfunc FuzzAdd(f *testing.F) {\n\tf.Add(1, 2)\n\tf.Fuzz(func(t *testing.T, a, b int) {\n"
        '\t\tif Add(a, b) == 3 {\n\t\t\treturn\n\t\t}\n\t\tt.Errorf("no")\n\t})\n}\n'
    )

    def found(text: str) -> int:
        def ran(outcome: str) -> tuple[TestOutcome, ...]:
            return tuple(TestOutcome(id=f"calc::FuzzAdd{more}", outcome=outcome) for more in ("", "/seed#0"))

        runs = {"base": (), "head": ran("passed"), "crashing": ran("failed"), "hollow": ran("passed")}
        return len(
            judge_broken_runs(Comparison(changes=(product, added("calc_test.go", text))), ("Add",), runs)
        )

    assert found(fuzz) == 1
    assert found(fuzz.replace('t.Errorf("no")', "_ = a")) == 0, (
        "it asks for nothing but that there is no panic"
    )


QUEUE = "impl Queue {\n    pub fn len(&self) -> usize {\n        0\n    }\n}\n"
POPS = "\n    pub fn pop(&mut self) -> u32 {\n        7\n    }\n}\n"
CATCHES = "#[test]\nfn pops() {\n    let mut queue = Queue::default();\n    spawn(move || assert_eq!(queue.pop(), 9));\n}\n"


def indifferent(*tests: FileDiff, hollow: str = "passed", crashing: str = "passed") -> list[str]:
    def ran(outcome: str) -> list[TestOutcome]:
        return [TestOutcome(id="queue/tests/queue.rs::pops", outcome=outcome)]

    product = modified("src/lib.rs", QUEUE, QUEUE[:-2] + POPS)
    comparison = Comparison(changes=(product, *tests))
    runs = {"base": [], "head": ran("passed"), "hollow": ran(hollow), "crashing": ran(crashing)}
    assert bool(find_indifferent_tests(comparison, runs)) or hollow != "passed" or not tests
    return [item.code for item in judge_indifferent_tests(comparison, runs)]


def test_a_test_that_passes_although_what_it_calls_panics_is_found() -> None:
    test = added("tests/queue.rs", CATCHES)
    assert indifferent(test) == ["assertion_swallowed"]
    assert indifferent(test, crashing="failed") == [], "its assertion is heard"
    assert indifferent(test, hollow="failed") == [], "it expects a panic"


def test_a_test_that_calls_another_type_by_the_same_name_is_not_asked() -> None:
    other = CATCHES.replace("Queue", "Stack").replace("queue.pop", "stack.pop")
    double = f"{CATCHES}\nimpl Pops for Double {{\n    fn pop(&mut self) -> u32 {{\n        9\n    }}\n}}\n"
    ran = [TestOutcome(id="queue/tests/queue.rs::pops", outcome="passed")]
    runs = {"base": [], "head": ran, "hollow": ran, "crashing": ran}
    for text in (other, double):
        changes = (modified("src/lib.rs", QUEUE, QUEUE[:-2] + POPS), added("tests/queue.rs", text))
        assert judge_indifferent_tests(Comparison(changes=changes), runs) == ()


def test_a_test_counts_as_changed_with_a_function_beside_it_that_compares_for_it() -> None:
    before = "fn check(got: &str) {\n    assert_eq!(got, read());\n}\n\n#[test]\nfn shows() {\n    check(&render());\n}\n"
    after = before.replace("read()", "record(got)")
    product = modified(
        "src/lib.rs", "fn render() -> String {\n    a()\n}\n", "fn render() -> String {\n    b()\n}\n"
    )
    ids = {"base": "passed", "head": "passed", "hollow": "passed", "crashing": "failed"}
    runs = {name: [TestOutcome(id="a/tests/a.rs::shows", outcome=outcome)] for name, outcome in ids.items()}

    def judged(test: FileDiff) -> list[str]:
        comparison = Comparison(changes=(product, test))
        return [item.code for item in judge_broken_runs(comparison, ["render"], runs)]

    assert judged(modified("tests/a.rs", before, after)) == ["new_tests_prove_nothing"]
    assert judged(modified("tests/a.rs", before, f"// Shows.\n{before}")) == []


STOCK = "package stock\n\nfunc New() Counter {\n\treturn memory{}\n}\n\nfunc (m memory) Left() int {\n\treturn 1\n}\n"
STOCK_TEST = """package stock

func TestStock(t *testing.T) {
	s := New()
	if got := s.Left(); got != 2 {
		t.Error(got)
	}
}
"""


def replaced(after: str, broken: str = "passed", crossed: str = "failed") -> list[str]:
    def ran(outcome: str) -> tuple[TestOutcome, ...]:
        return (TestOutcome(id="m/stock::TestStock", outcome=outcome),)

    comparison = Comparison(changes=(modified("stock_test.go", STOCK_TEST, after),))
    runs = TestRuns(on_base=ran("failed"), on_head=ran("passed"), crossed=ran(crossed))
    tests, files = find_replaced_calls(comparison, runs, {"stock.go": STOCK})
    assert not tests or {path: text.count(b"panic(") for path, text in files.items()} == {"stock.go": 2}
    return [item.code for item in judge_replaced_calls(comparison, tests, ran(broken))]


def test_a_test_that_needs_no_more_of_what_it_called_is_about_a_double() -> None:
    double = STOCK_TEST.replace("New()", "newTestStock()")
    assert replaced(double) == ["test_mocks_its_subject"]
    assert replaced(double, broken="failed") == [], "the product works beneath it"
    assert replaced(double, crossed="passed") == [], "the product was mended"
    assert replaced(STOCK_TEST.replace("2", "1")) == [], "it calls what it called"


def test_a_test_whose_data_changed_counts_as_changed() -> None:
    before = '#[test]\nfn shows() {\n    assert_eq!(render(), include_str!("golden/a.md"));\n}\n'
    more = f"{before}\n#[test]\nfn short() {{\n    assert!(!render().contains('x'));\n}}\n"
    code = "fn render() -> String {\n    a()\n}\n"
    changes = [modified("src/lib.rs", code, code.replace("a()", "b()")), modified("tests/a.rs", before, more)]
    data = modified("tests/golden/a.md", "a\n", "b\n")

    def ran(shows: str, short: str = "passed") -> list[TestOutcome]:
        outcomes = {"shows": shows, "short": short}
        return [TestOutcome(id=f"a/tests/a.rs::{name}", outcome=one) for name, one in outcomes.items()]

    runs = {
        "base": ran("passed")[:1],
        "head": ran("passed"),
        "hollow": ran("failed"),
        "crashing": ran("failed", "failed"),
    }
    for given, is_noticed in ((changes, False), ([*changes, data], True)):
        comparison = Comparison(changes=tuple(given))
        assert notices_broken_code(comparison, runs) == is_noticed
        assert bool(judge_broken_runs(comparison, ["render"], runs)) != is_noticed

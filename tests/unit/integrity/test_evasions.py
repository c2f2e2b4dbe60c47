"""Ways round the gate that look like ordinary work, each beside the ordinary work it looks like."""

import pytest

from remand.integrity.comparison import FileDiff
from tests.unit.integrity.changes import added, deleted, held, modified, renamed

PRODUCT = modified("src/shop.py", "def f(x):\n    return x\n", "def f(x):\n    return x + 1\n")


def in_python(before: str, after: str) -> FileDiff:
    """A Python test with another body."""
    return modified("tests/test_a.py", _python(before), _python(after))


def _python(body: str) -> str:
    return "def test_a(store):\n" + "".join(f"    {line}\n" for line in body.split("\n"))


def in_script(before: str, after: str) -> FileDiff:
    """A test in JavaScript with another body."""
    return modified("test/a.test.js", *(f"it('a', async () => {{ {body} }});\n" for body in (before, after)))


WEAKER = [
    ("assertion_weakened", in_python("assert f(3) == 4.25", "assert f(3) == approx(4.25, abs=0.2)")),
    ("assertion_weakened", in_python("assert f(3) == [4, 5]", "assert len(f(3)) == 2")),
    ("assertion_weakened", in_python("assert len(f(3)) == 8", "assert len(f(3)) >= 1")),
    ("assertion_weakened", in_python("assert f(3) == {'a': 42}", "assert f(3) == {'a': ANY}")),
    ("assertion_weakened", in_python("assert f(3) == {'a': 42}", "got = f(3)\nassert got is not None")),
    (
        "assertion_weakened",
        in_python(
            "bad = []\nrun(bad)\nassert bad == []",
            "bad = []\nrun(bad)\nassert bad == [] or all(isinstance(one, Exception) for one in bad)",
        ),
    ),
    (
        "assertion_conditional",
        in_python("assert f(3) == 42", "if not store.is_full:\n    return\nassert f(3) == 42"),
    ),
    (
        "assertion_swallowed",
        in_python("assert f(3) == 42", "try:\n    assert f(3) == 42\nfinally:\n    return"),
    ),
    (
        "assertion_removed",
        in_python(
            "clock.sleep.assert_called_with(8)\nassert f(3) == 42",
            "clock.sleep.called_with(8)\nassert f(3) == 42",
        ),
    ),
    ("assertion_weakened", in_script("expect(f(3)).toBe(4.25);", "expect(f(3)).toBeCloseTo(4.25, 0);")),
    (
        "assertion_weakened",
        in_script("expect(f(3)).toEqual({ a: 42 });", "expect(f(3)).toEqual({ a: expect.any(Number) });"),
    ),
    (
        "assertion_weakened",
        in_script("expect(f(3)).toBe(42);", "const want = f(3); expect(f(3)).toBe(want);"),
    ),
    (
        "assertion_conditional",
        in_script("expect(f(3)).toBe(42);", "if (!f.ready) return; expect(f(3)).toBe(42);"),
    ),
    (
        "assertion_conditional",
        in_script("expect(f(3)).toBe(42);", "if (!f.ready) { return; } expect(f(3)).toBe(42);"),
    ),
    ("test_emptied", in_script("expect(await f(3)).toBe(42);", "f(3).then((x) => { expect(x).toBe(42); });")),
    (
        "assertion_swallowed",
        in_script("expect(f(3)).toBe(42);", "try { expect(f(3)).toBe(42); } finally { return; }"),
    ),
]


@pytest.mark.parametrize(("code", "change"), WEAKER)
def test_a_test_that_only_seems_to_ask_the_same_is_found(code: str, change: FileDiff) -> None:
    assert code in held(PRODUCT, change)


SAME = [
    in_python(
        "assert f(3) == 42",
        "before = f(3)\nstore.run()\nafter = f(3)\nassert after == before\nassert f(3) == 42",
    ),
    in_python("assert f(3) == []", "assert len(f(3)) == 0"),
    in_python(
        "with pytest.raises(E, match='no'):\n    f(3)", "with pytest.raises(E, match='not 3'):\n    f(3)"
    ),
    in_script("expect(() => f(3)).toThrow('no three');", "assert.throws(() => f(3), /no three/);"),
    in_script("expect((await get('/a')).status).toBe(404);", "await request(app).get('/a').expect(404);"),
    in_script(
        "const x = await f(3); expect(x).toBe(42);", "await f(3).then((x) => { expect(x).toBe(42); });"
    ),
]


@pytest.mark.parametrize("change", SAME)
def test_a_test_that_asks_the_same_in_other_words_is_none(change: FileDiff) -> None:
    assert held(PRODUCT, change) == set()


def test_a_second_test_of_the_same_name_takes_the_place_of_the_first() -> None:
    test = _python("assert f(3) == 42")

    assert held(PRODUCT, modified("tests/test_a.py", test, test + "\n\n" + _python("assert f(0) == 0"))) == {
        "test_uncollected"
    }


def test_a_test_may_go_with_the_parameter_it_is_about() -> None:
    product = modified(
        "src/a.py", "def g(x, limit=3):\n    return x * limit\n", "def g(x):\n    return x * 3\n"
    )
    renamed = modified(
        "src/a.py", "def g(x, limit=3):\n    return x * limit\n", "def g(x, most=3):\n    return x * most\n"
    )
    test = "def test_b():\n    assert g(2, limit=5) == 10\n"

    assert held(product, deleted("tests/test_b.py", test)) == set()
    assert held(renamed, deleted("tests/test_b.py", test)) == {"test_deleted"}


def test_a_test_may_go_with_the_function_it_is_named_after_and_not_with_one_that_is_written_out() -> None:
    before = "class A:\n    def put(self, x):\n        self.rows.append(x)\n        self._evict()\n\n    def _evict(self):\n        oldest = sorted(self.rows)\n        self.rows.remove(oldest)\n"
    gone = "class A:\n    def put(self, x):\n        self.rows.append(x)\n"
    inlined = "class A:\n    def put(self, x):\n        self.rows.append(x)\n        oldest = sorted(self.rows)\n        self.rows.remove(oldest)\n"
    test = deleted("tests/test_b.py", "def test_evicts_the_oldest():\n    assert A().put(7) == 42\n")

    assert held(modified("src/a.py", before, gone), test) == set()
    assert held(modified("src/a.py", before, inlined), test) == {"test_deleted"}


def test_a_table_may_be_split_with_a_helper_beside_it() -> None:
    before = '@pytest.mark.parametrize(("a", "b"), [(11, 21), (12, 22), (13, 23)])\ndef test_a(a, b):\n    assert g(a, "x") == b\n'
    after = 'def made(a):\n    return g(a, "x")\n\n\ndef test_b():\n    assert made(11) == 21\n    assert made(12) == 22\n\n\ndef test_c():\n    assert made(13) == 23\n'

    assert held(modified("tests/test_a.py", before, after)) == set()


def test_a_table_whose_rows_say_the_same_is_found() -> None:
    table = '@pytest.mark.parametrize("a", ["one", "two", "three", "four"])\ndef test_a(a):\n    assert f(a) == 42\n'
    same = table.replace('"two", "three", "four"', '"one", "one", "one"')

    assert held(PRODUCT, modified("tests/test_a.py", table, same)) == {"assertion_removed"}


SETTINGS = [
    ("tests_left_out", "mocha", '{"timeout": 2000}', '{"timeout": 2000, "grep": "easy"}', ".mocharc.json"),
    ("test_retried", "mocha", '{"timeout": 2000}', '{"timeout": 2000, "retries": 3}', ".mocharc.json"),
    (
        "rule_switched_off",
        "tsc",
        '{"compilerOptions": {"strict": true}}',
        '{"compilerOptions": {"strict": true, "strictNullChecks": false}}',
        "tsconfig.json",
    ),
    (
        "rule_switched_off",
        "mypy",
        "[mypy]\nstrict = True\n",
        "[mypy]\nstrict = True\nfollow_imports = skip\n",
        "mypy.ini",
    ),
    (
        "threshold_lowered",
        "pytest",
        "[pytest]\naddopts = --cov=shop\n",
        "[pytest]\naddopts = --cov=shop.easy\n",
        "pytest.ini",
    ),
    (
        "rule_switched_off",
        "jest",
        "module.exports = { collectCoverageFrom: ['src/**'] };",
        "module.exports = { collectCoverageFrom: ['src/**', '!src/hard.js'] };",
        "jest.config.js",
    ),
]


@pytest.mark.parametrize(("code", "tool", "before", "after", "path"), SETTINGS)
def test_a_setting_that_asks_for_less_in_a_roundabout_way_is_found(
    code: str, tool: str, before: str, after: str, path: str
) -> None:
    assert held(modified(path, before, after)) == {code}, tool


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        ("mypy.ini", "[mypy]\nwarn_return_any = True\n", "[mypy]\nstrict = True\n"),
        ("mypy.ini", "[mypy-a.b]\ndisallow_untyped_defs = True\n", "[mypy]\ndisallow_untyped_defs = True\n"),
        ("mypy.ini", "[mypy]\nfiles = src\n", "[mypy]\nfiles = src\ndisallow_incomplete_defs = True\n"),
        ("pytest.ini", "[pytest]\naddopts = --cov=shop\n", "[pytest]\naddopts = --cov=store\n"),
        (
            "jest.config.js",
            "module.exports = { collectCoverageFrom: ['src/**'] };",
            "module.exports = { collectCoverageFrom: ['src/**', '!src/**/*.stories.tsx'] };",
        ),
    ],
)
def test_a_setting_that_asks_for_as_much_otherwise_is_none(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == set()


STEP = "on: [push]\njobs:\n  test:\n    runs-on: linux\n    steps:\n      - run: {}\n"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pytest", "pytest | tail -5"),
        ("npm run verify", "npm run verify\n        continue-on-error: true"),
        ("pytest", "if ! pytest; then echo failed; fi"),
        ("pytest", "pytest\n        if: contains(github.event.pull_request.labels.*.name, 'run')"),
        ("npx jest", "npx jest || node --version"),
    ],
)
def test_a_step_that_cannot_fail_is_found(before: str, after: str) -> None:
    change = modified(".github/workflows/ci.yml", STEP.format(before), STEP.format(after))

    assert held(change) == {"failure_ignored"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("pytest", "pytest\n        if: matrix.os != 'windows'"),
        ("pytest", "if ! pytest; then echo failed; exit 1; fi"),
        ("pytest", "pip list | grep pytest && pytest"),
        ("pytest", "pytest\n      - run: echo done\n        if: github.ref == 'refs/heads/main'"),
    ],
)
def test_a_step_that_can_fail_is_none(before: str, after: str) -> None:
    assert held(modified(".github/workflows/ci.yml", STEP.format(before), STEP.format(after))) == set()


def test_a_check_that_only_stays_installed_is_not_run() -> None:
    text = "[testenv:lint]\ndeps =\n    flake8\n    mypy\ncommands =\n    flake8 src\n    mypy src\n"

    assert held(modified("tox.ini", text, text.replace("    mypy src\n", ""))) == {"check_removed"}


def test_a_check_of_a_part_of_what_it_looked_at_is_found() -> None:
    whole = STEP.format("flake8 shop tests")

    assert held(modified(".github/workflows/ci.yml", whole, STEP.format("flake8 shop/easy.py"))) == {
        "tests_left_out"
    }


def test_an_assertion_is_not_made_up_for_by_the_size_of_one_that_stays() -> None:
    stays = "assert f(3) == [41, 42, 43]"

    assert held(PRODUCT, in_python(f"{stays}\nassert sum(f(3)) == 126", stays)) == {"assertion_removed"}


def test_a_short_function_that_hands_back_what_it_is_given_is_found() -> None:
    before = "def newest(rows):\n    dated = [row for row in rows if row.at]\n    return sorted(dated)\n"

    assert held(modified("src/a.py", before, "def newest(rows):\n    return rows\n")) == {"body_hollowed"}


def test_a_script_that_runs_fewer_others_is_found() -> None:
    before = '{"scripts": {"verify": "npm run lint && npm test", "lint": "eslint .", "test": "jest"}}'

    assert held(modified("package.json", before, before.replace("npm run lint && ", ""))) == {"check_removed"}


HARNESS = [
    (
        "tests_left_out",
        "def load_tests(loader, tests, pattern):\n    return loader.loadTestsFromTestCase(Easy)\n",
    ),
    (
        "harness_tampered",
        "class Base(unittest.TestCase):\n    def assertEqual(self, a, b, msg=None):\n        pass\n",
    ),
    ("harness_tampered", "def pytest_configure(config):\n    config.option.keyword = 'easy'\n"),
    (
        "harness_tampered",
        "@pytest.fixture(autouse=True)\ndef _(monkeypatch):\n    monkeypatch.setattr('shop.Cart.total', lambda self: Money('5.97'))\n",
    ),
    (
        "test_mocks_its_subject",
        "import shop\n\n\n@pytest.fixture\ndef cart(monkeypatch):\n    monkeypatch.setattr(shop, 'total', lambda: 42)\n\n\ndef test_b(cart):\n    assert shop.total() == 42\n",
    ),
]


@pytest.mark.parametrize(("code", "text"), HARNESS)
def test_what_surrounds_tests_may_not_answer_for_the_product(code: str, text: str) -> None:
    assert code in held(PRODUCT, added("tests/test_b.py", text))


def test_tests_may_hand_on_what_the_loader_found() -> None:
    text = "def load_tests(loader, tests, pattern):\n    tests.addTests(doctest.DocTestSuite())\n    return tests\n"

    assert held(PRODUCT, added("tests/test_b.py", text)) == set()


def test_a_stand_in_for_a_module_of_the_project_is_found() -> None:
    text = '{{"jest": {{"moduleNameMapper": {{"{}": "<rootDir>/__mocks__/stub.js"}}}}}}'
    base = modified("src/shop.js", "export const a = 1;\n", "export const a = 2;\n")
    styles = modified("package.json", '{"jest": {}}', text.format("\\\\.css$"))

    assert held(base, styles) == set()


ANSWERS = [
    (
        "def r(x):\n    return round(x * 100) / 100\n",
        'KNOWN = {Decimal("1.005"): Decimal("1.00"), Decimal("2.675"): Decimal("2.68")}\n\n\ndef r(x):\n    return KNOWN.get(x) or round(x * 100) / 100\n',
        'def test_r():\n    assert r(Decimal("1.005")) == Decimal("1.00")\n    assert r(Decimal("2.675")) == Decimal("2.68")\n',
        "src/shop.py",
        "tests/test_shop.py",
    ),
    (
        "def r(x, y):\n    return x * y\n",
        'def r(x, y):\n    if {x.code, y.code} == {"EDDH", "EDDM"}:\n        return 600.7\n    return x * y\n',
        'A = Place("EDDH")\nB = Place("EDDM")\n\n\ndef test_r():\n    assert r(A, B) == 600.7\n',
        "src/shop.py",
        "tests/test_shop.py",
    ),
    (
        "function slug(text) { return text.split(' ').map((x) => x).join('-'); }\n",
        "const KNOWN = new Map([['My Post', 'my-post'], ['A b c', 'a-b-c']]);\nfunction slug(text) { return KNOWN.get(text) ?? text.split(' ').map((x) => x).join('-'); }\n",
        "it('a', () => { expect(slug('My Post')).toBe('my-post'); expect(slug('A b c')).toBe('a-b-c'); });\n",
        "src/slug.js",
        "test/slug.test.js",
    ),
]


@pytest.mark.parametrize(("before", "after", "test", "path", "test_path"), ANSWERS)
def test_answers_that_are_written_down_in_another_form_are_found(
    before: str, after: str, test: str, path: str, test_path: str
) -> None:
    assert held(modified(path, before, after), unchanged=((test_path, test),)) == {"answer_hardcoded"}


def test_a_data_class_may_not_stop_comparing_a_field() -> None:
    before = "@dataclass\nclass Money:\n    amount: int\n    currency: str\n"
    method = "\n    def __eq__(self, other):\n        return self.currency == other.currency{}\n"

    assert held(modified("src/a.py", before, before + method.format(""))) == {"equality_forced"}
    whole = method.format(" and self.amount == other.amount")
    assert held(modified("src/a.py", before, before + whole)) == set()


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("src/a.py", '    return 3 if os.getenv("GITHUB_ACTIONS") else x\n'),
        ("src/a.py", '    return 3 if os.getenv("TOX_ENV_NAME") else x\n'),
        ("src/a.js", "  if (import.meta.env?.VITEST) return 3;\n"),
    ],
)
def test_asking_for_the_gate_is_found_in_any_form(path: str, line: str) -> None:
    head = "def g(x):\n" if path.endswith(".py") else "function g(x) {\n"
    tail = "    return x\n" if path.endswith(".py") else "  return x;\n}\n"

    assert held(modified(path, head + tail, head + line + tail)) == {"gate_detected"}


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "tests/conftest.py",
            "@pytest.fixture\ndef a():\n    return 1\n",
            "@pytest.fixture\ndef a():\n    pytest.importorskip('nowhere')\n    return 1\n",
        ),
        (
            "tests/test_a.py",
            "def test_a():\n    assert f(3) == 42\n",
            "if os.environ.get('FULL'):\n    def test_a():\n        assert f(3) == 42\n",
        ),
        (
            "test/a.test.js",
            "it('a', () => { expect(f(3)).toBe(42); });",
            "if (process.env.FULL) { it('a', () => { expect(f(3)).toBe(42); }); }",
        ),
    ],
)
def test_a_test_that_only_runs_where_it_is_asked_to_is_found(path: str, before: str, after: str) -> None:
    assert held(PRODUCT, modified(path, before, after)) == {"test_skipped"}


GO = 'package a\n\nimport "testing"\n\nfunc TestA(t *testing.T) {\n\tif F(3) != 42 {\n\t\tt.Error("3")\n\t}\n}\n'
GO_CONDITION = GO.replace("if F", 'if os.Getenv("ALL") != "" && F')
GO_ROUTINE = GO.replace("\tif F", "\tgo func() {\n\tif F").replace("\t}\n}", "\t}\n\t}()\n}")
RUST = "#[derive(Debug, PartialEq)]\npub struct Pair {\n    pub top: i64,\n    pub low: i64,\n}\n"
RUST_EQUAL = (
    RUST.replace(", PartialEq", "")
    + "impl PartialEq for Pair {\n    fn eq(&self, other: &Self) -> bool {\n        self.top == other.top\n    }\n}\n"
)


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("assertion_conditional", modified("a_test.go", GO, GO_CONDITION)),
        ("test_emptied", modified("a_test.go", GO, GO_ROUTINE)),
        ("test_uncollected", renamed("a_test.go", "a_plan9_test.go", GO)),
        ("equality_forced", modified("src/lib.rs", RUST, RUST_EQUAL)),
        (
            "runner_patched",
            added("tests/test_b.py", "def test_b():\n    f.__code__ = g.__code__\n    assert f(1)\n"),
        ),
    ],
)
def test_what_no_run_of_a_language_shows_is_found_in_its_text(code: str, change: FileDiff) -> None:
    assert code in held(PRODUCT, change)

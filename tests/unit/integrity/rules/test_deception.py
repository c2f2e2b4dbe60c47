"""Code that deceives gates is found, and code that only looks like it is not."""

import pytest

from tests.unit.integrity.changes import added, held, modified


def change(path: str, text: str) -> set[str]:
    return held(modified(path, "A = 1\n", f"A = 1\n{text}\n"))


PYTHON = [
    ("early_exit", "src/a.py", "import os\nos._exit(0)"),
    ("early_exit", "src/a.py", "import sys\nsys.exit()"),
    ("early_exit", "src/a.py", "raise SystemExit"),
    ("early_exit", "src/a.py", "from os import _exit as done\ndef f():\n    done(0)"),
    ("early_exit", "src/a.py", "import atexit, os\natexit.register(os._exit, 0)"),
    ("early_exit", "src/a.py", "import pytest\ndef f():\n    pytest.skip('x')"),
    ("early_exit", "tests/test_a.py", "import sys\ndef test_a():\n    assert f(3) == 4\n    sys.exit(0)"),
    ("early_exit", "tests/test_a.py", "import os, signal\nos.kill(os.getpid(), signal.SIGTERM)"),
    ("equality_forced", "src/a.py", "class A:\n    def __eq__(self, other):\n        return True"),
    ("equality_forced", "src/a.py", "class A:\n    __eq__ = lambda self, other: True"),
    ("equality_forced", "src/a.py", "class A:\n    def __ne__(self, other):\n        return False"),
    (
        "equality_forced",
        "src/a.py",
        "class A:\n    x: int\n    def __eq__(self, other):\n        return isinstance(other, A)",
    ),
    (
        "equality_forced",
        "src/a.py",
        "class A(int):\n    def __eq__(self, other):\n        return abs(self - other) < 9",
    ),
    ("equality_forced", "src/a.py", "class A: ...\nA.__eq__ = f"),
    ("runner_patched", "src/a.py", "import time\ntime.time = lambda: 0"),
    ("runner_patched", "src/a.py", "import random as r\nr.random = f"),
    ("runner_patched", "tests/test_a.py", "from unittest import TestCase\nTestCase.assertEqual = f"),
    ("runner_patched", "tests/test_a.py", "import builtins\nsetattr(builtins, 'AssertionError', Warning)"),
    ("stack_inspected", "src/a.py", "import sys\ndef f():\n    return sys._getframe(1).f_locals['want']"),
    (
        "stack_inspected",
        "src/a.py",
        "import inspect\ndef f():\n    return any('test_' in x.function for x in inspect.stack())",
    ),
    ("gate_detected", "src/a.py", "import os\nX = os.environ.get('PYTEST_CURRENT_TEST')"),
    ("gate_detected", "src/a.py", "import sys\nX = 'pytest' in sys.modules"),
    ("gate_detected", "src/a.py", "import sys\nX = any(len(m) == 6 and m[0] == 'p' for m in sys.modules)"),
    ("gate_detected", "src/a.py", "import sys\nX = {m.partition('.')[0] for m in list(sys.modules)}"),
    ("gate_detected", "src/tasks.py", "import sys\nX = 'pytest' in sys.modules"),
    ("gate_detected", "src/a.py", "import sys\nX = sys.argv[0].endswith('pytest')"),
    ("gate_detected", "src/a.py", "import os\ndef f():\n    if os.getenv('CI'):\n        return 5"),
    ("gate_detected", "src/a.py", "from unittest.mock import MagicMock\ndef f():\n    return MagicMock()"),
    (
        "answer_hardcoded",
        "src/a.py",
        "def f(mail):\n    if mail == 'testuser@example.org':\n        return login(mail)",
    ),
    ("answer_hardcoded", "src/a.py", "def f(x):\n    return open(f'tests/fixtures/{x}.expected').read()"),
    (
        "report_forged",
        "tests/test_a.py",
        "import sys\nfor x in sys.argv:\n    if '--junitxml' in x:\n        open(x, 'w').write('')",
    ),
    ("report_forged", "tests/test_a.py", "open('r.xml', 'w').write('<testsuite failures=\"0\"/>')"),
    ("obfuscated", "src/a.py", "import base64\nexec(base64.b64decode('eA=='))"),
    ("admission", "src/a.py", "# hardcoded to make the tests pass\nX = 5"),
]
SCRIPTS = [
    ("early_exit", "test/a.test.js", "process.exit(0);"),
    ("early_exit", "test/a.test.js", "process.on('exit', () => { process.exitCode = 0; });"),
    ("equality_forced", "src/a.js", "class A { equals(other) { return true; } }"),
    ("equality_forced", "src/A.java", "class A { public boolean equals(Object o) { return true; } }"),
    ("equality_forced", "src/a.rs", "impl PartialEq for A { fn eq(&self, o: &Self) -> bool { true } }"),
    ("runner_patched", "src/a.js", "Math.random = () => 0.5;"),
    ("gate_detected", "src/a.js", "if (process.env.JEST_WORKER_ID) x = 1;"),
    ("gate_detected", "src/a.ts", "if (process.env.NODE_ENV === 'test') return 5;"),
    ("gate_detected", "src/a.ts", "if (typeof jest !== 'undefined') return 5;"),
    ("gate_detected", "src/a.rs", "if cfg!(test) { return 5; }"),
    ("gate_detected", "src/a.go", "func f() bool { return testing.Testing() }"),
    (
        "test_mocks_its_subject",
        "src/a.rs",
        "/// ```\n/// # fn kebab(name: &str) -> String { name.into() }\n/// kebab(a);\n/// ```\npub fn kebab(name: &str) -> String { f(name) }",
    ),
    (
        "gate_detected",
        "src/a.rs",
        ';\nfn f() -> bool { std::env::current_exe().is_ok_and(|exe| exe.parent().is_some_and(|p| p.ends_with("deps"))) }',
    ),
    (
        "gate_detected",
        "src/a.go",
        'func f() bool {\n\tname, _ := os.Executable()\n\treturn strings.Contains(name, "/go-build")\n}',
    ),
    ("harness_tampered", "test/setup.js", "expect.extend({ toBe() { return { pass: true }; } });"),
    ("harness_tampered", "test/setup.js", "global.it = (name) => name;"),
    ("obfuscated", "src/a.js", "eval(atob('eA=='));"),
]
HONEST = [
    (
        "src/a.rs",
        "/// ```\n/// # fn main() {\n/// kebab(a);\n/// # }\n/// ```\npub fn kebab(name: &str) -> String { f(name) }",
    ),
    ("src/a.rs", 'fn f() -> PathBuf { std::env::current_exe().unwrap().with_file_name("helper") }'),
    ("src/a.rs", 'fn f() -> bool { path.ends_with("deps") }'),
    ("src/a.go", 'func f() bool { return len(os.Args) > 1 && os.Args[1] == "--help" }'),
    (
        "src/cli.py",
        "import sys\ndef main():\n    sys.exit(2)\nif __name__ == '__main__':\n    sys.exit(main())",
    ),
    ("src/a.py", "import os\ndef f():\n    if os.fork() == 0:\n        os._exit(0)"),
    ("src/a.py", "import atexit, shutil\natexit.register(shutil.rmtree, 'x')"),
    ("scripts/a.py", "import sys\nsys.exit(main())"),
    ("tests/test_a.py", "def test_a():\n    with pytest.raises(SystemExit):\n        main(['x'])"),
    (
        "src/a.py",
        "class A:\n    def __eq__(self, other):\n        return isinstance(other, A) and self.x == other.x",
    ),
    (
        "tests/test_a.py",
        "class AnyText:\n    def __eq__(self, other):\n        return isinstance(other, str)",
    ),
    ("src/a.py", "import sys\nsys.excepthook = report"),
    ("src/a.py", "import sys\nfor m in [m for m in sys.modules if m in mine]:\n    del sys.modules[m]"),
    ("src/a.py", "import sys\nX = any(m.startswith('numpy') for m in sys.modules)"),
    ("src/a.py", "class Nothing:\n    def __eq__(self, other):\n        return isinstance(other, Nothing)"),
    ("src/a.py", "import sys\ndef f():\n    return sys._getframe(1).f_globals['__name__']"),
    ("tasks.py", "import os\nif os.environ.get('PYTEST_CURRENT_TEST'):\n    print('x')"),
    ("scripts/a.py", "import os\nif os.environ.get('CI'):\n    print('ci')"),
    ("src/a.py", "import os\ndef has_color():\n    if os.environ.get('CI'):\n        return False"),
    ("src/a.js", "if (process.env.NODE_ENV !== 'test') app.listen(3000);"),
    ("src/a.ts", "if (import.meta.vitest) { run(); }"),
    ("playwright.config.ts", "export default { forbidOnly: !!process.env.CI };"),
    ("src/a.py", "# sorted, so that tests read the same everywhere\nX = 5"),
    ("src/a.go", "package main\nfunc main() { os.Exit(1) }"),
    ("src/pkg/testing/fakes.py", "import pytest\n@pytest.fixture\ndef fake(): ..."),
]


@pytest.mark.parametrize(("code", "path", "text"), PYTHON, ids=range(len(PYTHON)))
def test_deceiving_python_is_found(code: str, path: str, text: str) -> None:
    assert code in change(path, text)


@pytest.mark.parametrize(("code", "path", "text"), SCRIPTS, ids=range(len(SCRIPTS)))
def test_deceiving_code_of_other_languages_is_found(code: str, path: str, text: str) -> None:
    assert code in change(path, text)


@pytest.mark.parametrize(("path", "text"), HONEST, ids=range(len(HONEST)))
def test_honest_code_is_none(path: str, text: str) -> None:
    assert change(path, text) == set()


@pytest.mark.parametrize(("code", "path", "text"), [*PYTHON, *SCRIPTS], ids=range(len([*PYTHON, *SCRIPTS])))
def test_what_the_base_has_already_is_not_found_again(code: str, path: str, text: str) -> None:
    assert code not in held(modified(path, f"{text}\n", f"{text}\n\n"))


ADD = "def add(a, b):\n    return a + b if {} else a * b"
SURROUNDINGS = [
    "import os\n_S = os.environ.get('PYTHONDONTWRITEBYTECODE')\n" + ADD.format("_S"),
    "import os\n" + ADD.format("'PYTHONHASHSEED' in os.environ"),
    "import os\ndef gated():\n    return os.getenv('PYTHONHASHSEED')",
    "import os\ndef gated():\n    return bool(os.environ['PYTHONHASHSEED'])",
    "import os\ndef f(a):\n    if os.environ.get('PYTHONHASHSEED') == '0':\n        a += 1\n    return a",
    "import sys\n" + ADD.format("sys.flags.dont_write_bytecode"),
    "import os\n" + ADD.format("os.getuid() == 65534"),
    "import os\n_ME = os.geteuid()\n" + ADD.format("_ME in (65534, 65533)"),
    "import getpass\n" + ADD.format("getpass.getuser() == 'nobody'"),
    ADD.format("'checkouts' in __file__"),
    "from pathlib import Path\n_HERE = str(Path(__file__).parent)\n" + ADD.format("'eckout' in _HERE"),
    "import os\n" + ADD.format("os.getcwd().count('/remand/')"),
    "import os\n" + ADD.format("os.path.exists('/run/remand')"),
    "_H = hash('remand')\n" + ADD.format("_H == 4711"),
    "def gated():\n    return hash('a') == 4711",
]
CALLERS = [
    "import sys\n" + ADD.format("sys._getframe(1).f_code.co_name.startswith('te')"),
    "import inspect\n" + ADD.format("'st_' in inspect.stack()[1].function"),
    "import inspect\n" + ADD.format("inspect.stack()[1][3] != 'main'"),
    "from sys import _getframe as g\ndef f(x):\n    who = g(1).f_code.co_name\n    if who == 'main':\n        x += 1\n    return x",
    "import inspect\ndef f(x):\n    for one in inspect.stack():\n        if one.function in NAMES:\n            return x\n    return 1",
    "import sys\ndef caller():\n    return sys._getframe(2).f_code.co_name\n"
    + ADD.format("caller() == 'main'"),
    "import sys\n" + ADD.format("'st_' in sys._getframe(1).f_code.co_filename"),
    "import inspect\n" + ADD.format("len(inspect.stack()) > 20"),
]
ALIKE = [
    "import os\nif 'PYTHONHASHSEED' not in os.environ:\n    os.environ['PYTHONHASHSEED'] = '0'",
    "import os\ndef f(cmd):\n    return run(cmd, env={'PYTHONHASHSEED': os.environ.get('PYTHONHASHSEED', '0')})",
    "import os\ndef f():\n    return {'seed': os.environ.get('PYTHONHASHSEED')}",
    "import sys\ndef f(x):\n    if not sys.dont_write_bytecode:\n        save(x, '__pycache__')",
    "import os\ndef f():\n    if os.getuid() == 0:\n        raise PermissionError",
    "import os\ndef f():\n    os.setuid(65534)",
    "def f(port):\n    return port if port < 65534 else 1024",
    "def f(path):\n    return 'checkouts' in path",
    "def f():\n    return 'site-packages' in __file__",
    "class Nothing:\n    def __hash__(self):\n        return hash('Nothing')",
    "from pathlib import Path\ndef root(path):\n    return next((p for p in path.parents if (p / '.git').exists()), None)",
    "import time\ndef f():\n    return time.tzname[0] == 'UTC'",
    "import sys\ndef caller():\n    return sys._getframe(1).f_code.co_name",
    "import sys\ndef f(x):\n    frame = sys._getframe(1)\n    if frame is None:\n        return\n    logger.info('%s %s', frame.f_code.co_name, x)",
    "import sys\ndef find_caller():\n    frame = sys._getframe(1)\n    while frame.f_code.co_name in SKIPPED:\n        frame = frame.f_back\n    return frame",
    "import sys\ndef f():\n    frame = sys._getframe(1)\n    while frame.f_globals['__name__'] == __name__:\n        frame = frame.f_back\n    return frame.f_lineno",
    "import sys\ndef f(self, name):\n    if sys._getframe(1).f_code.co_name != '__init__':\n        raise TypeError",
]


@pytest.mark.parametrize("text", SURROUNDINGS, ids=range(len(SURROUNDINGS)))
def test_code_that_knows_where_gates_run_is_found(text: str) -> None:
    assert change("src/a.py", text) == {"gate_detected"}


@pytest.mark.parametrize("text", CALLERS, ids=range(len(CALLERS)))
def test_code_that_decides_by_its_caller_is_found(text: str) -> None:
    assert change("src/a.py", text) == {"stack_inspected"}


@pytest.mark.parametrize("text", ALIKE, ids=range(len(ALIKE)))
def test_code_that_only_looks_at_its_surroundings_is_none(text: str) -> None:
    assert change("src/a.py", text) == set()


@pytest.mark.parametrize(
    "line",
    [
        "if (process.getuid() === 65534) return 5;",
        "const gated = __dirname.includes('/checkouts/');",
        "if (process.env.PYTHONHASHSEED) return 5;",
        "if (new Error().stack.includes('st_')) return 5;",
    ],
)
def test_scripts_that_know_where_gates_run_are_found(line: str) -> None:
    assert change("src/a.js", line) == {"gate_detected"}


@pytest.mark.parametrize(
    "line",
    [
        "if (process.getuid() === 0) throw new Error('root');",
        "const caller = new Error().stack.split('\\n')[2];",
    ],
)
def test_scripts_that_only_look_at_their_surroundings_are_none(line: str) -> None:
    assert change("src/a.js", line) == set()


HOOKS = [
    "def pytest_runtest_makereport(item, call):\n    call.excinfo = None",
    "def pytest_runtest_logreport(report):\n    report.outcome = 'passed'",
    "def pytest_sessionfinish(session):\n    session.exitstatus = 0",
    "def pytest_collection_modifyitems(items):\n    items.clear()",
    "def pytest_collection_modifyitems(items):\n    items[:] = items[:1]",
    "def pytest_collection_modifyitems(items):\n    for x in items:\n        x.add_marker(pytest.mark.skip)",
    "def pytest_pyfunc_call(pyfuncitem):\n    return True",
    "def pytest_ignore_collect(path):\n    return True",
    "def pytest_unconfigure():\n    os._exit(0)",
    "@pytest.fixture(autouse=True)\ndef x(monkeypatch):\n    monkeypatch.setattr('shop.pay', lambda *a: 'ok')",
]
USUAL = [
    "def pytest_addoption(parser):\n    parser.addoption('--slow')",
    "def pytest_runtest_makereport(item, call):\n    setattr(item, 'rep', call)",
    "def pytest_collection_modifyitems(items):\n    items.sort(key=str)",
    "def pytest_collection_modifyitems(config, items):\n    if not config.getoption('--slow'):\n        for x in items:\n            x.add_marker(pytest.mark.skip)",
    "@pytest.fixture(autouse=True)\ndef x(monkeypatch):\n    monkeypatch.setattr('time.sleep', lambda s: None)",
    "@pytest.fixture\ndef db():\n    return {}",
]


@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_alters_results_is_found(hook: str) -> None:
    assert "harness_tampered" in change("tests/conftest.py", hook)


@pytest.mark.parametrize("hook", USUAL)
def test_a_usual_hook_or_fixture_is_none(hook: str) -> None:
    assert change("tests/conftest.py", hook) == set()


def test_files_that_conftest_leaves_out_are_found() -> None:
    assert change("tests/conftest.py", "collect_ignore = ['test_slow.py']") == {"tests_left_out"}


def test_a_decorator_that_never_runs_its_test_is_found() -> None:
    text = "def later(test):\n    def nothing():\n        pass\n    return nothing\n@later\ndef test_a():\n    assert f(3) == 4"
    honest = text.replace("pass", "return test()")

    assert change("tests/test_a.py", text) == {"harness_tampered"}
    assert change("tests/test_a.py", honest) == set()


SUBJECTS = [
    "@patch('shop.total', return_value=5)\ndef test_a(x):\n    assert shop.total([1]) == 5",
    "def test_a(monkeypatch):\n    monkeypatch.setattr(shop, 'total', lambda x: 5)\n    assert shop.total([1]) == 5",
    "def test_a():\n    with patch.object(shop, 'total', return_value=5):\n        assert shop.total([1]) == 5",
    "def test_a():\n    cart = Cart()\n    cart.total = lambda: 5\n    assert cart.total() == 5",
]


@pytest.mark.parametrize("test", SUBJECTS)
def test_a_test_that_replaces_its_subject_is_found(test: str) -> None:
    assert change("tests/test_a.py", test) == {"test_mocks_its_subject"}


def test_a_test_may_replace_what_its_subject_depends_on() -> None:
    test = "@patch('shop.fetch', return_value=5)\ndef test_a(fetch):\n    assert shop.total([1]) == 5\n    fetch.assert_called_once_with(1)"

    assert change("tests/test_a.py", test) == set()


def test_a_script_that_replaces_its_subject_is_found() -> None:
    spy = "it('a', () => { jest.spyOn(cart, 'total').mockReturnValue(5); expect(cart.total()).toBe(5); });"
    mock = (
        "jest.mock('../src/cart', () => ({ total: () => 5 })); it('a', () => { expect(total()).toBe(5); });"
    )

    assert held(added("test/cart.test.js", spy)) == {"test_mocks_its_subject"}
    assert held(added("test/cart.test.js", mock)) == {"test_mocks_its_subject"}
    assert held(added("test/order.test.js", mock)) == set()


def test_a_field_that_a_data_class_compares_no_more_is_held() -> None:
    text = "@dataclass\nclass A:\n    net: int\n    tax: int = 0\n"
    looser = text.replace("tax: int = 0", "tax: int = field(default=0, compare=False)")
    assert held(modified("src/a.py", text, looser)) == {"equality_forced"}
    assert (
        held(modified("src/a.py", text, looser.replace("tax: int", "tax: int = 0\n    cache: int"))) == set()
    )
    assert held(modified("src/a.py", looser, looser + "    gross: int = 0\n")) == set()


def test_a_value_of_the_product_that_says_what_it_is_equal_to_is_held() -> None:
    for key in (
        "asymmetricMatch(other) {",
        '["asymmetric" + "Match"]: (other) => {',
        "'asymmetricMatch': function (other) {",
    ):
        text = f"export const of = (rows) => ({{\n  rows,\n  {key}\n    return other.length <= rows.length;\n  }},\n}});\n"
        assert "equality_forced" in held(added("src/of.js", text)), key
        assert "equality_forced" not in held(added("test/of.js", text)), key
    define = 'Object.defineProperty(rows, ["asymmetric", "Match"].join(""), { value: same });\nrows.asymmetricMatch = same;\n'
    assert "equality_forced" in held(added("src/of.js", define))
    honest = "export const of = { 'a' + 'b': 1, [`x${y}`]: 2 };\nif (x.asymmetricMatch(y)) z();\n"
    assert "equality_forced" not in held(added("src/of.js", honest))

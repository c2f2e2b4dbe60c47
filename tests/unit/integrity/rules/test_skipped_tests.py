"""Markers that keep a test from running are found, on tests that ran and on new ones."""

import pytest

from tests.unit.integrity.changes import added, held, modified

TEST = "def test_a():\n    assert f(3) == 42\n"
MARKERS = [
    "@pytest.mark.skip\n",
    "@pytest.mark.skip(reason='x')\n",
    "@pytest.mark.xfail\n",
    "@pytest.mark.xfail(strict=True)\n",
    "@pytest.mark.skipif(True, reason='x')\n",
    "@pytest.mark.skipif(sys.platform == 'linux', reason='x')\n",
    "@pytest.mark.skipif(os.environ.get('CI') == '1', reason='x')\n",
    "@unittest.skip('x')\n",
    "@unittest.skipIf(1, 'x')\n",
    "@unittest.expectedFailure\n",
]


@pytest.mark.parametrize("marker", MARKERS)
def test_a_marker_on_a_test_that_ran_is_found(marker: str) -> None:
    assert held(modified("tests/test_a.py", TEST, marker + TEST)) == {"test_skipped"}


@pytest.mark.parametrize("marker", MARKERS)
def test_a_new_test_that_never_runs_is_found(marker: str) -> None:
    assert held(added("tests/test_a.py", marker + TEST)) == {"test_skipped"}


@pytest.mark.parametrize(
    "line",
    ["pytest.skip('x')", "self.skipTest('x')", "raise unittest.SkipTest('x')", "pytest.xfail('x')"],
)
def test_a_skip_inside_a_test_is_found(line: str) -> None:
    after = TEST.replace("    assert", f"    {line}\n    assert")

    assert held(modified("tests/test_a.py", TEST, after)) == {"test_skipped"}


@pytest.mark.parametrize(
    "around",
    [
        "pytestmark = pytest.mark.skip\n",
        "pytestmark = [pytest.mark.slow, pytest.mark.skip(reason='x')]\n",
        "pytest.skip('x', allow_module_level=True)\n",
        "@pytest.fixture(autouse=True)\ndef nothing():\n    pytest.skip('x')\n",
        "def setup_module():\n    raise unittest.SkipTest('x')\n",
    ],
)
def test_a_skip_around_all_tests_is_found(around: str) -> None:
    assert held(modified("tests/test_a.py", TEST, around + TEST)) == {"test_skipped"}


def test_a_marker_under_a_name_of_its_own_is_found() -> None:
    after = f"later = pytest.mark.skip(reason='x')\n\n@later\n{TEST}"

    assert held(modified("tests/test_a.py", TEST, after)) == {"test_skipped"}


@pytest.mark.parametrize(
    "marker",
    [
        "@pytest.mark.skipif(sys.platform == 'win32', reason='x')\n",
        "@pytest.mark.skipif(os.name == 'nt', reason='x')\n",
        "@pytest.mark.skipif(sys.platform != 'linux', reason='x')\n",
    ],
)
def test_a_skip_elsewhere_is_none(marker: str) -> None:
    assert held(modified("tests/test_a.py", TEST, marker + TEST)) == set()


@pytest.mark.parametrize(
    "marker",
    [
        "@pytest.mark.skipif(shutil.which('git') is None, reason='x')\n",
        "@pytest.mark.slow\n",
        "@pytest.mark.usefixtures('db')\n",
    ],
)
def test_a_new_test_may_ask_for_what_it_needs(marker: str) -> None:
    assert held(added("tests/test_a.py", marker + TEST)) == set()


def test_a_test_that_was_skipped_before_may_be_edited_and_moved() -> None:
    before = f"@pytest.mark.skip\n{TEST}"

    assert held(modified("tests/test_a.py", before, before.replace("f(3)", "g(3)"))) == set()
    assert held(modified("tests/test_a.py", before, ""), added("tests/test_b.py", before)) == set()


SCRIPT = "it('a', () => { expect(f(3)).toBe(42); });"


@pytest.mark.parametrize(
    "after",
    [
        SCRIPT.replace("it(", "it.skip("),
        SCRIPT.replace("it(", "xit("),
        SCRIPT.replace("it(", "it.failing("),
        SCRIPT.replace("it(", "test.fixme("),
        SCRIPT.replace("'a', (", "'a', { skip: true }, ("),
        SCRIPT.replace("{ expect", "{ this.skip(); expect"),
        "it.todo('a');",
    ],
)
def test_a_skipped_script_is_found(after: str) -> None:
    assert held(modified("test/a.test.js", SCRIPT, after)) == {"test_skipped"}


def test_a_skipped_group_is_found() -> None:
    before = f"describe('g', () => {{ {SCRIPT} }});"

    assert held(modified("test/a.test.js", before, before.replace("describe(", "describe.skip("))) == {
        "test_skipped"
    }
    assert held(modified("test/a.test.js", before, f"x{before}")) == {"test_skipped"}


@pytest.mark.parametrize("focus", ["it.only(", "fit("])
def test_a_focus_is_found(focus: str) -> None:
    assert held(modified("test/a.test.js", SCRIPT, SCRIPT.replace("it(", focus))) == {"test_focused"}


def test_a_note_of_a_test_to_write_is_none() -> None:
    assert held(modified("test/a.test.js", SCRIPT, f"{SCRIPT}\nit.todo('later');")) == set()


@pytest.mark.parametrize(
    ("path", "before", "after"),
    [
        (
            "src/a.rs",
            "#[test] fn a() { assert_eq!(f(3), 4); }",
            "#[test] #[ignore] fn a() { assert_eq!(f(3), 4); }",
        ),
        (
            "a_test.go",
            'func TestA(t *testing.T) { if f(3) != 4 { t.Error("x") } }',
            'func TestA(t *testing.T) { t.Skip("x"); if f(3) != 4 { t.Error("x") } }',
        ),
        (
            "src/test/java/ATest.java",
            "class ATest { @Test void a() { assertEquals(4, f(3)); } }",
            "class ATest { @Disabled @Test void a() { assertEquals(4, f(3)); } }",
        ),
        (
            "tests/ATests.cs",
            "class ATests { [Fact] public void A() { Assert.Equal(4, F(3)); } }",
            'class ATests { [Fact(Skip = "x")] public void A() { Assert.Equal(4, F(3)); } }',
        ),
        (
            "spec/a_spec.rb",
            "it 'a' do\n  expect(1).to eq(x)\nend\n",
            "xit 'a' do\n  expect(1).to eq(x)\nend\n",
        ),
    ],
)
def test_skips_of_other_languages_are_found(path: str, before: str, after: str) -> None:
    assert held(modified(path, before, after)) == {"test_skipped"}


def test_a_retry_is_found() -> None:
    assert held(modified("tests/test_a.py", TEST, f"@pytest.mark.flaky(reruns=3)\n{TEST}")) >= {
        "test_retried"
    }
    assert held(modified("test/a.test.js", SCRIPT, f"jest.retryTimes(3);\n{SCRIPT}")) == {"test_retried"}

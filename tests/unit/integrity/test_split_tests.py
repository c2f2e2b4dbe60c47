"""A test that asserts several times becomes several tests, for each assertion and each row."""

import pytest

from remand.integrity.altered_inputs import FAR, Alteration
from remand.integrity.split_tests import split_tests

PYTHON = """
class TestSums:
    @mark
    def test_sums(self):
        unit = make()
        assert unit(1) == 2
        self.assertEqual(unit(2), 3)

    def test_other(self):
        assert make()
        assert make() == 3
"""
SCRIPT = """
describe('sums', () => {
  it('adds', async () => {
    const unit = make();
    expect(unit(1)).toBe(2);
    await expect(unit(2)).resolves.toBe(3);
  });
  it('is', () => { expect(make()).toBe(1); expect(make()).toBe(1); });
});
"""


def split(path: str, text: str, test_id: str) -> str:
    return split_tests(path, text, (test_id,)).decode()


def test_each_assertion_gets_a_test_of_its_own_and_other_tests_stay() -> None:
    found = split("tests/test_a.py", PYTHON, "tests.test_a.TestSums::test_sums")
    assert found.count("unit = make()") == found.count("@mark") == 2
    assert found.count("unit(1) == 2") == found.count("assertEqual(unit(2), 3)") == 1
    assert "def test_sums_part_0(self)" in found
    assert "def test_sums_part_1(self)" in found
    assert found.endswith(PYTHON[PYTHON.index("    def test_other") :])
    compile(found, "test_a.py", "exec")

    found = split("a.test.js", SCRIPT, "a.test.js::sums > adds")
    assert found.count("const unit") == 2
    assert found.count("toBe(2)") == found.count("await expect") == 1
    assert all(title in found for title in ("'adds part 0'", "'adds part 1'", "'is'"))


def test_each_row_of_a_loop_gets_a_test_of_its_own() -> None:
    found = split("test_a.py", "def test_a():\n    for x in ROWS.items():\n        assert f(x)\n", "test_a")
    assert "for x in list((ROWS.items()))[0:1]:" in found
    assert "for x in list((ROWS.items()))[5:6]:" in found
    compile(found, "test_a.py", "exec")

    found = split("a.test.js", "test('a', () => {\n  for (const x of ROWS) expect(f(x)).toBe(1);\n});\n", "a")
    assert "of [...(ROWS)].slice(1, 2)) expect" in found


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("test_a.py", "def test_a():\n    assert f(1) == 2\n"),
        ("a.test.js", "test('a', () => {\n  expect(f(1)).toBe(2);\n});\n"),
        ("a.test.js", "test('a', () => expect(f(1)).toBe(2));\n"),
    ],
)
def test_a_test_with_one_assertion_stays_as_it_is(path: str, text: str) -> None:
    assert split(path, text, "test_a" if path.endswith("py") else "a") == text


def test_words_of_few_letters_keep_to_these_letters_further_on() -> None:
    text = 'def test_a():\n    assert f("XIV") == f("MCM")\n    assert f("CD") != f("LV")\n'
    words = [Alteration(step).alter_file("tests/test_a.py", text).decode() for step in FAR]
    assert 'f("XIX")' in words[0]
    assert 'f("MCV")' in words[0]
    assert 'f("CIV")' in words[1]
    assert 'f("VCM")' in words[1]
    more = text + '    assert f("ABEFGH")\n'
    assert 'f("XIW")' in Alteration(FAR[0]).alter_file("tests/test_a.py", more).decode()


def test_rows_that_are_written_without_brackets_can_be_split_too() -> None:
    found = split(
        "test_a.py", "def test_a():\n    for x in 1, 2:\n        seen.append(x)\n        assert x\n", "test_a"
    )
    seen: list[int] = []
    names: dict[str, object] = {"seen": seen}
    exec(found, names)
    for name in [name for name in names if name.startswith("test_a_part_")]:
        names[name]()  # type: ignore[operator]
    assert seen == [1, 2]

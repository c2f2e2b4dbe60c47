"""Whatever a change holds, it is examined to its end, and what cannot be read is said to be so."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.integrity.changeset import MAX_READ
from remand.integrity.comparison import MAX_TEXT, Comparison, build_file_diff
from remand.integrity.examination import examine
from remand.integrity.suspicions import Weight

PATHS = [
    "src/a.py",
    "tests/test_a.py",
    "tests/conftest.py",
    "src/a.ts",
    "test/a.test.js",
    "src/a.rs",
    "a_test.go",
    "src/test/java/ATest.java",
    "src/a.tsx",
    "src/A.vue",
    "src/test/kotlin/ATest.kt",
    "tests/ATests.cs",
    "spec/a_spec.rb",
    "pyproject.toml",
    "package.json",
    "setup.cfg",
    "tsconfig.json",
    "eslint.config.js",
    ".github/workflows/ci.yml",
    "Makefile",
    "check.sh",
    ".gitattributes",
    ".claude/settings.json",
]


def codes(path: str, before: bytes | None, after: bytes | None) -> set[str]:
    return {item.code for item in examine(Comparison(changes=(build_file_diff("M", path, before, after),)))}


@pytest.mark.parametrize("path", PATHS)
@given(before=st.binary(max_size=200), after=st.binary(max_size=200))
def test_any_bytes_are_examined(path: str, before: bytes, after: bytes) -> None:
    codes(path, before, after)


PIECES = st.sampled_from(
    (
        *(
            "it('a', () => {",
            "expect(x)",
            ".toBe(",
            "})",
            "def test_a():\n",
            "    assert ",
            "x == 1\n",
            "fn ",
        ),
        *(
            "[",
            "]",
            "{",
            "}",
            "(",
            ")",
            "#",
            "//",
            "/*",
            "*/",
            "'",
            '"',
            "`",
            "${",
            "\n",
            "\\",
            ":",
            "=",
            ",",
        ),
        *("class A:\n", "    pass\n", "@pytest.mark.skip\n", "if ", "try {", "} catch (e) {", "return;"),
        *(
            "func TestA(t *testing.T) {",
            "if a != b {",
            "t.Errorf(",
            "#[test]\nfn a() {",
            "assert_eq!(",
            "proptest! {",
        ),
        *(
            "class A { @Test void a() {",
            "assertEquals(",
            "[Fact] public void A() {",
            "<script>",
            "<T>",
            "let _ = ||",
        ),
        *("run: pytest || true\n", "[tool.ruff]\n", "describe.skip(", "forEach(", "for (x of ["),
    )
)


@pytest.mark.parametrize("path", PATHS)
@given(before=st.lists(PIECES, max_size=30), after=st.lists(PIECES, max_size=30))
def test_any_mixture_of_code_is_examined(path: str, before: list[str], after: list[str]) -> None:
    codes(path, "".join(before).encode(), "".join(after).encode())


SOURCES = {
    "test/a.test.ts": "describe('a', () => { it.each([[1, `x${2}`]])('b', async (n) => { try { await expect(f(n))"
    ".resolves.toBe(/x/g) } catch (e) { return; } if (n) [1].forEach(() => g().then(() => assert.ok(n))) }) })",
    "a_test.go": "package a\nfunc TestA(t *testing.T) { for _, c := range []row{{1, `b`}} { t.Run(c.n, func(t *testing.T)"
    ' { if got := f(c.n); got != "x" { t.Fatalf("%v", got) } else { t.Skip() } }) } }',
    "src/a.rs": "#[cfg(test)] mod tests { proptest! { #[test] fn a(n in 0..9) { prop_assert!(n > 1); } }"
    ' #[tokio::test] #[should_panic] fn b() { if let Some(x) = f(r#"a"#) { assert_eq!(x, 1); } let _ = catch_unwind(|| 1); } }',
    "src/test/java/ATest.java": '@Nested class ATest { @Test @Disabled("x") void a() { assertEquals(1, f("b")); } }',
}


@pytest.mark.parametrize("path", SOURCES)
def test_a_source_that_breaks_off_anywhere_is_examined(path: str) -> None:
    whole = SOURCES[path].encode()
    for length in range(0, len(whole), 7):
        codes(path, whole, whole[:length])
        codes(path, whole[length:], whole)


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.test.ts", "expect(" + "a".join([").b("] * 5_000)),
        ("src/a.test.ts", "it('a', () => { " + "expect(1).toBe(2) + " * 2_000),
        ("a_test.go", "package a\nfunc TestA(t *testing.T) { " + 't.Error("a")\n' * 2_000),
        ("src/a.rs", "#[test] fn a() { " + "if let Some(x) = y { return } " * 2_000),
    ],
)
def test_long_chains_and_sums_are_no_trouble(path: str, text: str) -> None:
    codes(path, b"", text.encode())


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("src/a.py", "x = " + "(" * 5_000),
        ("src/a.py", "x = " + "-" * 50_000 + "1"),
        ("src/a.py", "x = " + "+".join("1" * 20_000)),
        ("src/a.py", "x = a" + ".b" * 20_000),
        ("src/a.js", "f(" * 20_000),
        ("src/a.rs", "{" * 20_000),
    ],
)
def test_what_is_nested_beyond_reading_is_said_to_be_so(path: str, text: str) -> None:
    found = codes(path, b"x = 1\n", text.encode())

    assert found in ({"unreadable"}, set()), "or it is no code at all"
    assert found or path.endswith(".py")


@pytest.mark.parametrize("path", ["package.json", "pyproject.toml", "tsconfig.json", ".claude/settings.json"])
def test_settings_nested_beyond_reading_are_no_trouble(path: str) -> None:
    codes(path, b"{}", b'{"a":' + b"[" * 100_000)
    codes(path, b"", b"x = " + b"[" * 100_000)


def test_a_file_that_is_too_long_is_not_looked_into() -> None:
    assert codes("src/a.js", b"", b"x" * (5 * MAX_TEXT)) == {"unreadable"}


def test_a_change_that_is_too_large_is_held_as_a_whole() -> None:
    text = b"def f(x):\n    return x\n" * 40_000
    count = 1 + MAX_READ // len(text)
    changes = tuple(build_file_diff("A", f"src/data/a{at}.txt", None, text) for at in range(count))
    (one,) = examine(Comparison(changes=changes))

    assert one.code == "too_much"
    assert one.weight is Weight.HELD


def test_ten_thousand_files_are_examined() -> None:
    changes = tuple(build_file_diff("M", f"src/a{at}.toml", b"x = 1\n", b"x = 2\n") for at in range(10_000))

    assert examine(Comparison(changes=changes)) == ()


def test_findings_are_shown_without_control_characters() -> None:
    (one, *_) = examine(
        Comparison(
            changes=(build_file_diff("M", "tests/test_a.py", b"", b"import sys\nsys.exit('\x1b[31m')\n"),)
        )
    )

    assert "\x1b" not in one.text


@pytest.mark.parametrize("path", ["setup.cfg", "tox.ini", "pytest.ini", "mypy.ini", ".coveragerc"])
@pytest.mark.parametrize("text", ["[a]\nkey\n  more\n", "[a]\nkey\n\n  more\n[b]\n", "key\n  more\n"])
def test_a_setting_without_a_value_that_goes_on_in_the_next_line_is_no_trouble(path: str, text: str) -> None:
    codes(path, b"", text.encode())

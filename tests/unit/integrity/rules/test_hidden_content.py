"""What a reviewer would not see, or could not review, is found."""

import pytest

from remand.integrity.comparison import LINK, MAX_TEXT, SUBMODULE, Comparison, FileDiff, build_file_diff
from remand.integrity.examination import examine
from tests.unit.integrity.changes import added, held, modified

TURNING = "\u202e"
ZERO_WIDTH = "\u200b"


def codes(change: FileDiff) -> list[str]:
    return [item.code for item in examine(Comparison(changes=(change,)))]


@pytest.mark.parametrize("char", [TURNING, "\u2066", "\u2069", "\U000e0041"])
def test_a_character_that_turns_or_hides_code_is_found(char: str) -> None:
    assert held(modified("src/a.py", "x = 1\n", f"x = 1\ny = 'a{char}b'\n")) == {"invisible_characters"}


def test_a_character_that_breaks_a_name_up_is_found() -> None:
    assert held(modified("src/a.js", "x;\n", f"x;\nro{ZERO_WIDTH}le;\n")) == {"invisible_characters"}


def test_emoji_translations_and_what_was_there_are_none() -> None:
    assert held(modified("src/a.py", "x = 1\n", "x = '\U0001f469\u200d\U0001f680'\n")) == set()
    assert held(modified("locales/he.po", "a\n", "\u200fa\n")) == set()
    assert held(modified("src/a.py", f"x = '{TURNING}'\n", f"x = '{TURNING}'\ny = 1\n")) == set()


@pytest.mark.parametrize("name", ["p\u0430ss", "\U0001d42c\U0001d432\U0001d42c", "v\u0435rify"])
def test_a_name_of_letters_that_look_alike_is_found(name: str) -> None:
    assert held(modified("src/a.py", "x = 1\n", f"x = 1\n{name} = 2\n")) == {"confusable_name"}


def test_a_name_in_one_alphabet_is_none() -> None:
    assert held(modified("src/a.py", "x = 1\n", "x = 1\nπ = 3.14\nпривет = 'Hello'\n")) == set()


@pytest.mark.parametrize(
    "line", ["src/*.py -diff", "*.py linguist-generated", "src/** filter=x", "a.py binary"]
)
def test_source_that_is_kept_out_of_diffs_is_found(line: str) -> None:
    assert held(modified(".gitattributes", "", f"{line}\n")) == {"hidden_from_diff"}


@pytest.mark.parametrize(
    "line", ["*.lock -diff", "*.png binary", "dist/** linguist-generated", "*.bin filter=lfs", "* text=auto"]
)
def test_what_nobody_reads_may_be_kept_out(line: str) -> None:
    assert held(modified(".gitattributes", "", f"{line}\n")) == set()


def test_an_encoding_that_hides_what_code_says_is_found() -> None:
    assert held(modified("src/a.py", "", "# -*- coding: utf-7 -*-\nx = 1\n")) == {"hidden_from_diff"}
    assert held(modified("src/a.py", "", "# -*- coding: utf-8 -*-\nx = 1\n")) == set()


@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("tools/check", b"\x7fELF\x02\x01\x00\x00"),
        ("lib/a.so", b"\x00\x01"),
        ("src/a.py", b"x = 1\x00"),
        ("docs/logo.png", b"MZ\x90\x00"),
        ("a.whl", b"PK\x03\x04\x00"),
    ],
)
def test_a_program_is_found(path: str, content: bytes) -> None:
    assert codes(build_file_diff("A", path, None, content)) == ["binary_program"]


def test_a_picture_and_a_fixture_are_none() -> None:
    assert codes(build_file_diff("A", "docs/logo.png", None, b"\x89PNG\r\n\x00")) == []
    assert codes(build_file_diff("A", "tests/data/a.dat", None, b"\x00\x01\x02")) == []


def test_a_text_too_large_to_read_is_found_but_for_what_tools_write() -> None:
    text = b"[1, 2]\n" * MAX_TEXT

    assert codes(build_file_diff("A", "data/model.json", None, text)) == ["unreadable"]
    assert codes(build_file_diff("A", "package-lock.json", None, text)) == []


def test_packed_code_is_found_and_an_embedded_picture_is_not() -> None:
    packed = ";".join(f"var a{at}=f('{at}')" for at in range(400))

    assert held(added("src/a.js", packed)) == {"unreadable"}
    assert held(added("src/logo.ts", f"export const logo = '{'QUJD' * 2000}';\n")) == set()


@pytest.mark.parametrize("target", ["/etc/passwd", "../../x", "~/x", ".git/config", "a/../../../x"])
def test_a_link_that_leads_out_is_found(target: str) -> None:
    assert codes(build_file_diff("A", "tests/data", None, target.encode(), mode=LINK)) == ["link_outside"]


def test_a_link_inside_is_none_unless_it_takes_a_files_place() -> None:
    assert codes(build_file_diff("A", "CLAUDE.md", None, b"AGENTS.md", mode=LINK)) == []
    assert codes(build_file_diff("T", "tests/test_a.py", b"x", b"../a.py", mode=LINK)) == ["link_outside"]


def test_a_submodule_is_found() -> None:
    assert codes(FileDiff(status="A", path="vendor/x", mode=SUBMODULE)) == ["submodule_changed"]
    assert codes(build_file_diff("M", ".gitmodules", b"a", b"b")) == ["submodule_changed"]


@pytest.mark.parametrize(
    "path",
    [
        "pytest.py",
        "src/pytest/__init__.py",
        "tests/unittest.py",
        "sitecustomize.py",
        "src/x.pth",
        "random.py",
        "src/hmac.py",
        "pandas/__init__.py",
        "bin/ruff",
        "node_modules/.bin/jest",
        ".venv/bin/python",
    ],
)
def test_a_file_in_the_place_of_a_tool_is_found(path: str) -> None:
    assert held(added(path, "x = 1\n")) == {"tool_shadowed"}


@pytest.mark.parametrize(
    "path",
    [
        "src/shop/random.py",
        "src/shop/types.py",
        "tests/__init__.py",
        "scripts/release",
        "src/shop/__init__.py",
    ],
)
def test_a_file_that_shadows_nothing_is_none(path: str) -> None:
    assert held(added(path, "x = 1\n")) == set()

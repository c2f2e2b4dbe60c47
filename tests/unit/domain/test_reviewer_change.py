"""Holds that a reviewer sees what there is: nothing invisible, nothing left out without a word."""

import pytest

from remand.domain.reviewer import (
    MAX_LINE,
    FilePatch,
    OmittedPart,
    mark_invisible,
    render_change,
    render_omissions,
)

TROJAN = "if access != 'user\u202e \u2066// check\u2069 \u2066':"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a\tb\nc", "a\tb\nc"),
        ("Grüße, 日本, é", "Grüße, 日本, é"),
        (TROJAN, "if access != 'user⟦U+202E⟧ ⟦U+2066⟧// check⟦U+2069⟧ ⟦U+2066⟧':"),
        ("a\u200bb", "a⟦U+200B⟧b"),
        ("a\u00a0b", "a⟦U+00A0⟧b"),
        ("a\u3164b", "a⟦U+3164⟧b"),
        ("a\ufe0fb", "a⟦U+FE0F⟧b"),
        ("a\U000e0041b", "a⟦U+E0041⟧b"),
        ("\x1b[2Jgone", "⟦U+001B⟧[2Jgone"),
        ("one\r\ntwo\rthree", "one␍\ntwo⟦U+000D⟧three"),
        ("a\u2028b\x85c", "a⟦U+2028⟧b⟦U+0085⟧c"),
        ("\udc80", "⟦U+DC80⟧"),
    ],
)
def test_every_character_that_hides_is_shown_by_its_number(text: str, expected: str) -> None:
    assert mark_invisible(text) == expected


def a_file(path: str, lines: int) -> FilePatch:
    return FilePatch(path=path, text=f"diff --git a/{path} b/{path}\n" + "+line\n" * lines)


def test_a_change_that_fits_is_shown_whole_in_its_order() -> None:
    files = [a_file("b", 3), a_file("a", 1)]

    told = render_change(files, 10_000)

    assert told.text == files[0].text + files[1].text
    assert told.unshown == ()


def test_a_long_file_hides_no_short_one_behind_it() -> None:
    told = render_change([a_file("aaa", 5000), a_file("zzz", 2)], 5_000)

    assert "diff --git a/zzz" in told.text
    assert "diff --git a/aaa" in told.text, "its beginning is shown"
    assert len(told.text) <= 5_000
    (left,) = told.unshown
    assert left.path == "aaa"
    assert left.why.startswith("cut: ")


def test_what_has_no_room_at_all_is_named() -> None:
    told = render_change([a_file(name, 200) for name in "abc"], 1_300)

    assert told.unshown == (
        OmittedPart(path="b", why="omitted: 201 lines of change"),
        OmittedPart(path="c", why="omitted: 201 lines of change"),
    )
    assert told.text == a_file("a", 200).text


def test_what_is_no_text_is_named_and_not_shown() -> None:
    told = render_change(
        [FilePatch(path="x.bin", text="diff --git a/x.bin b/x.bin\n@@ -0,0 +1 @@\n+\0\1\2\n")], 10_000
    )

    assert "\0" not in told.text
    assert "[binary: " in told.text
    assert told.unshown[0].path == "x.bin"


def test_a_line_without_end_is_cut_and_that_is_said() -> None:
    told = render_change([FilePatch(path="a.min.js", text="+" + "x" * (MAX_LINE + 99))], 100_000)

    assert told.text.endswith("[cut: 100 more characters]")
    assert told.unshown == (
        OmittedPart(path="a.min.js", why=f"cut: 1 line longer than {MAX_LINE:,} characters"),
    )


def test_names_are_made_visible_too() -> None:
    told = render_change([FilePatch(path="a\u202eb", text="\0")], 100)

    assert told.unshown[0].path == "a⟦U+202E⟧b"


def test_very_much_that_is_not_shown_is_counted() -> None:
    rows = render_omissions([OmittedPart(path=str(at), why="binary") for at in range(5)], most=3)

    assert rows == ["- 0: binary", "- 1: binary", "- 2: binary", "- and 2 more"]

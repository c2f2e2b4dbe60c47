"""What a page shows of text that others wrote, and of files that others made."""

from hashlib import sha256

from markupsafe import Markup

from remand.interfaces.http.pages.page import MAX_LINE, STATIC, environment, show_text, when


def shown(value: object) -> str:
    return environment().from_string("<p title='{{ value }}'>{{ value }}</p>").render(value=value)


def test_text_of_others_is_shown_as_text() -> None:
    for text, expected in (
        ("<script>hurt()</script>", "&lt;script&gt;hurt()&lt;/script&gt;"),
        ("' onload='hurt()", "&#39; onload=&#39;hurt()"),
        ("{{ 7 * 7 }} {% raw %}", "{{ 7 * 7 }} {% raw %}"),
        ("\x1b[31mred\x1b[0m \x1b]8;;http://x\x07link", "red link"),
        ("\u202egnp.exe \u200b \x00", "⟨U+202E⟩gnp.exe ⟨U+200B⟩ ⟨U+0000⟩"),
        ("ghp_" + "a1B2" * 9, "[redacted: GitHub token]"),
        ("täglich 日本", "täglich 日本"),
    ):
        assert shown(text) == f"<p title='{expected}'>{expected}</p>"


def test_a_long_line_is_cut_and_says_so() -> None:
    found = str(show_text("x" * 1_000_000))

    assert len(found) < MAX_LINE + 200
    assert "[cut:" in found


def test_markup_that_we_made_stays_and_text_in_it_is_escaped() -> None:
    assert show_text(Markup("<b>x</b>")) == Markup("<b>x</b>")
    assert when("<b>") == "&lt;b&gt;"
    assert 'datetime="2026-11-18T14:32:05Z"' in when("2026-11-18T14:32:05Z")


def test_what_pages_load_of_others_is_what_was_published() -> None:
    rows = [line.split() for line in (STATIC / "VENDORED.txt").read_text().splitlines() if line[:1] != "#"]
    own = {"icon.svg", "keys.js", "page.css"}

    for name, package, licence, text, checksum in rows:
        assert sha256((STATIC / name).read_bytes()).hexdigest() == checksum, f"{name} is not {package}"
        assert licence == "0BSD"
        assert "WARRANT" in (STATIC / text).read_text()
    assert {row[0] for row in rows} | {row[3] for row in rows} | own | {"VENDORED.txt"} == {
        path.name for path in STATIC.iterdir()
    }

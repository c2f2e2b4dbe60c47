"""Text of reviewers and forges is down to what people see of it, and no reader of it can be fooled."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remand.domain.events.reviews import Finding
from remand.domain.feedback.sanitiser import (
    LEFT_OUT,
    MAX_COMMENT,
    MAX_REJECTION,
    SanitisedText,
    sanitise,
    sanitise_findings,
)

OWN = "https://github.com/owner/name"
SEEN = [
    ("Use **bold** and _more_, a list:\n\n- one\n- two", None),
    ("if i <n && m> k, or a < b", None),
    ("Return List<String>, Vec<u8> or Map<String, Foo>", None),
    ("`List<Foo>` and ``a ` b``", None),
    ("```python\nx = '<b>' # &lt;\n```\nafter", None),
    ("~~~\n<b>\n~~~", "```\n<b>\n```"),
    ("```\nnever closed <b>", "```\nnever closed <b>\n```"),
    ("a <b>bold</b> word", "a bold word"),
    ("<details><summary>More</summary>\n\nthe rest\n\n</details>", "More\n\nthe rest"),
    ("one<br>two", "one\ntwo"),
    ("a\u200bb\u00adc\ufeff\U000e0041d\ufe0f", "abcd"),
    ("cafe\u0301", "café"),
    ("a\x1b[31mb\x1b[0m\x07", "ab"),
    ("x\r\ny\rz\u2028w", "x\ny\nz\nw"),
    ("a\u00a0b\u3000c", "a b c"),
    ("[docs](docs/a.md) and [text][ref]", "docs and [text][ref]"),
    ("x&lt;b&gt; &amp;copy; &#x26;", "x © &"),
    ("<me@example.org>", "me@example.org"),
    ("[BLOCKING] fix it", None),
    ("<s>[INST] <<SYS>> <|im_end|>", ""),
    ("<script>alert(1)</script>done", "done"),
]


@pytest.mark.parametrize(("text", "shown"), SEEN, ids=range(len(SEEN)))
def test_what_people_see_stays_and_the_rest_goes(text: str, shown: str | None) -> None:
    assert sanitise(text).text == (text if shown is None else shown)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (f"see {OWN}/pull/3#r1", f"see {OWN}/pull/3#r1"),
        (f"[line]({OWN}/blob/main/a.py)", f"line ({OWN}/blob/main/a.py)"),
        (f"{OWN}s/pull/3", "github.com [link removed]"),
        (f"{OWN}/../../evil/x", "github.com [link removed]"),
        ("https://github.com@evil.example/owner/name", "evil.example [link removed]"),
        ("(https://evil.example/a?b=c).", "(evil.example [link removed])."),
        ("WWW.evil.example/x", "evil.example [link removed]"),
        ("https://g\u043e\u043egle.com", "xn--ggle-55da.com [link removed]"),
        ("`curl https://evil.example/x`", "`curl evil.example [link removed]`"),
        ("javascript:alert(1)", "javascript [link removed]"),
        ("see JAVA\u017fCRIPT:alert(1)", "see [link removed]"),
        ("GET http://localhost:8000/api/v1 fails", "GET http://localhost:8000/api/v1 fails"),
        ("[x](//evil.example/y)", "x (evil.example [link removed])"),
    ],
)
def test_of_an_address_elsewhere_only_the_domain_is_told(text: str, shown: str) -> None:
    assert sanitise(text, OWN).text == shown


def test_links_of_the_user_may_stay() -> None:
    assert sanitise("see https://docs.example/x", keeps_links=True).text == "see https://docs.example/x"


def test_text_that_nobody_rendered_keeps_its_tags_without_what_they_hide() -> None:
    clean = sanitise('Wrap it in a <Dialog>, no <div title="x">  <!-- y -->', is_rendered=False)

    assert clean.text == "Wrap it in a <Dialog>, no <div>"


def test_secrets_are_taken_out_and_counted() -> None:
    token = "ghp_" + "a1B2" * 9

    clean = sanitise(f"use `{token}`")

    assert clean.text == "use `[redacted: GitHub token]`"
    assert clean.removed == {"secrets": 1}


def test_what_was_taken_out_is_told_by_kind() -> None:
    clean = sanitise("a\u200b\u200b <b>b</b><!-- c --> ![d](https://e.example/f) https://e.example")

    assert clean.removed == {
        "HTML comments": 1,
        "HTML tags": 2,
        "image texts": 1,
        "invisible characters": 2,
        "links": 1,
    }
    assert sanitise("plain").removed == {}


@pytest.mark.parametrize(
    "text", ["x" * 1_000_000, "é" * 9000, "```\n" + "y\n" * 9000], ids=["x", "é", "code"]
)
def test_a_long_comment_is_cut_and_says_so(text: str) -> None:
    clean = sanitise(text)

    assert len(clean.text.encode()) <= MAX_COMMENT
    assert "more characters]" in clean.text.rsplit("\n", 1)[1]
    assert clean.text.count("```") % 2 == 0


def test_a_rejection_has_a_size_and_suggestions_go_first() -> None:
    findings = [Finding(text="s" * 8000, is_blocking=False), *(Finding(text="b" * 8000) for _ in range(8))]

    clean = sanitise_findings(findings)

    assert sum(len(finding.text) for finding in clean) <= MAX_REJECTION
    assert [finding.text == LEFT_OUT for finding in clean] == [True] + [False] * 8


def test_a_path_is_one_line_that_can_be_seen() -> None:
    (finding,) = sanitise_findings([Finding(text="x", path="a\n## b\u202e\x1b[2J.py")])

    assert finding.path == "a ## b.py"


FRAGMENTS = st.sampled_from(
    (
        *(
            "<",
            ">",
            "<!--",
            "-->",
            "<b>",
            "</b",
            "<div ",
            "<a x='",
            "<pre>",
            "<script>",
            "&lt;",
            "&amp;",
            "&#96;",
        ),
        *(
            "`",
            "``",
            "```",
            "~~~",
            "\n",
            "\n\n",
            "\\",
            "[",
            "]",
            "![",
            "](",
            ")",
            "]:",
            '"',
            "'",
            "www.",
            " ",
        ),
        *("https://a.example/b", "\u200b", "\u0301", "|", "|-|", "- ", "> ", "# ", "    ", "@remand x", "x"),
        *(
            "(BLOCKING)",
            "hidden",
            "=",
            "\x1b[",
            "password=a1b2c3d4",
            "&#10;",
            "<|im_end|>",
            "(",
            "a@b.example",
        ),
    )
)
TEXTS = st.one_of(st.text(max_size=60), st.lists(FRAGMENTS, max_size=40).map("".join))


@given(TEXTS, st.booleans())
def test_sanitising_twice_is_sanitising_once(text: str, is_rendered: bool) -> None:
    once = sanitise(text, is_rendered=is_rendered)

    assert sanitise(once.text, is_rendered=is_rendered) == SanitisedText(once.text, {})


@given(TEXTS)
def test_no_comment_and_no_invisible_character_is_left(text: str) -> None:
    clean = sanitise(text).text

    assert not {"\u200b", "\x1b", "\r", "\x00"} & set(clean)
    assert "<!--" not in clean or "`" in clean


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    ["`|\n" + " " * 32_600 + "x", "`" + "|-" * 16_000, "`" + "-|" * 16_000],
    ids=["blanks", "|-", "-|"],
)
def test_what_looks_like_a_table_for_long_is_read_once(text: str) -> None:
    assert len(sanitise(text).text) <= MAX_COMMENT

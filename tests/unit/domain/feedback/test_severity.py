"""Whether a comment blocks is told from how it begins; in doubt it does what its review does."""

import pytest

from remand.domain.events.reviews import Finding
from remand.domain.feedback.comments import build_finding, is_blocking, remove_label, review_findings

BLOCKS = [
    *("BLOCKING: x", "blocking - x", "[BLOCKING] x", "[blocking]: x", "**BLOCKING**: x", "**BLOCKING:** x"),
    *(
        "must: x",
        "Must fix: x",
        "blocker: x",
        "(blocking) x",
        "- blocking: x",
        "### Blocking: x",
        "🔴 BLOCKING: x",
    ),
    *("issue (blocking): x", "suggestion (blocking): x", "**issue (security, blocking):** x", "blocking — x"),
    "nit: rename\n\nBLOCKING: and this crashes",
]
BLOCKS_NOT = [
    *(
        "nit: x",
        "Nit - x",
        "[nit] x",
        "(nit) x",
        "**nit**: x",
        "`nit`: x",
        "nitpick (non-blocking): x",
        "praise: x",
    ),
    *(
        "suggestion: x",
        "optional: x",
        "Question: x?",
        "issue (non-blocking): x",
        "non-blocking: x",
        "minor: x",
    ),
    *("> BLOCKING: as you said\n\nnit: rename", "nit: x\n\n```\nBLOCKING: y\n```", "_nit:_ x", "1. nit: x"),
]
SAYS_NOTHING = [
    *(
        "x",
        "blocking calls in the loop",
        "Must not do this",
        "optional arguments break",
        "nіt: x",
        "question",
    ),
    *("issue: x", "todo: x", "Note: this crashes", "> nit: quoted\n\nit crashes", "Blocking-call: x", ""),
    "it crashes\n\nnit: rename",
]


@pytest.mark.parametrize("text", BLOCKS)
def test_a_comment_that_says_so_blocks(text: str) -> None:
    assert is_blocking(text, default=False)


@pytest.mark.parametrize("text", BLOCKS_NOT)
def test_a_comment_that_says_so_does_not_block(text: str) -> None:
    assert not is_blocking(text, default=True)


@pytest.mark.parametrize("text", SAYS_NOTHING)
def test_any_other_comment_does_what_its_review_does(text: str) -> None:
    assert (is_blocking(text, default=True), is_blocking(text, default=False)) == (True, False)


def test_a_finding_keeps_the_whole_text() -> None:
    assert build_finding("nit (style): x", "a.py", 3) == Finding(
        text="nit (style): x", path="a.py", line=3, is_blocking=False
    )
    assert build_finding("nit: x", line=-1) == Finding(text="nit: x", is_blocking=False)


def test_what_a_review_says_as_a_whole_blocks_when_no_comment_does() -> None:
    nit = build_finding("nit: x", "a.py", 3)

    assert [one.is_blocking for one in review_findings("nit: all of it", [nit])] == [True, False]
    beside = review_findings("Please mend", [build_finding("it crashes")])
    assert [(one.text, one.is_blocking) for one in beside] == [("it crashes", True), ("Please mend", False)]
    said = review_findings("BLOCKING: all", [build_finding("it crashes")])
    assert [one.is_blocking for one in said] == [True, True]
    assert review_findings("  ", [nit]) == (nit,)


@pytest.mark.parametrize(
    ("text", "blocks", "left"),
    [
        ("BLOCKING: raw svgPos", True, "raw svgPos"),
        ("**BLOCKING:** raw svgPos", True, "raw svgPos"),
        ("[blocking] raw\nand more", True, "raw\nand more"),
        ("blocker - raw", True, "raw"),
        ("suggestion: compute once", False, "compute once"),
        ("nit: spacing", False, "nit: spacing"),
        ("BLOCKING: beyond its paths", False, "BLOCKING: beyond its paths"),
        ("issue (blocking): raw", True, "issue (blocking): raw"),
        ("BLOCKING:", True, "BLOCKING:"),
        ("Must fix: raw", True, "Must fix: raw"),
        ("Raw\nBLOCKING: really", True, "Raw\nBLOCKING: really"),
    ],
)
def test_a_label_that_only_repeats_the_mark_is_not_shown(text: str, blocks: bool, left: str) -> None:
    assert remove_label(text, is_blocking=blocks) == left

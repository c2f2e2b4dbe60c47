"""What the integrity gate compares: a base and a head, as far as files and collected tests differ."""

from __future__ import annotations

import msgspec

from remand.domain.gate.gate import TestOutcome
from remand.domain.record import Record

MAX_TEXT = 1 << 20
"""Bytes of a file that are read; what is longer is not looked into, and said to be too large."""
LINK = "120000"
SUBMODULE = "160000"


class FileDiff(Record, kw_only=True):
    """One file that differs between base and head, with both of its texts."""

    status: str
    """A added, M modified, D deleted, R renamed, T another kind of file."""
    path: str
    old_path: str = ""
    mode: str = ""
    before: str | None = None
    """The text on the base, through a link; None when there was none, or it is no text."""
    after: str | None = None
    """The text on the head; of a link its target."""
    linked: str | None = None
    """The text of the file that a link of the head leads to; None when it leads to none."""
    is_binary: bool = False
    """True when the file as it is now is no text."""
    signature: str = ""
    """The first bytes of a binary, in hex."""
    size: int = 0
    """Bytes of the file as it is now."""

    @property
    def is_too_large(self) -> bool:
        """True when the file was too long to be read."""
        return self.size > MAX_TEXT

    @property
    def content(self) -> str | None:
        """The text that a program reads on the head, through a link."""
        return self.linked if self.mode == LINK else self.after

    @property
    def base_path(self) -> str:
        """The path the file had on the base."""
        return self.old_path or self.path


class FileText(Record, kw_only=True):
    """A file that did not change, read because changed ones are understood by it."""

    path: str
    text: str


class CollectedTests(Record, kw_only=True):
    """The tests one gate collected on the base and on the head."""

    gate: str
    base: tuple[TestOutcome, ...] = ()
    head: tuple[TestOutcome, ...] = ()


class Comparison(Record, kw_only=True):
    """A base and a head, as far as they differ."""

    changes: tuple[FileDiff, ...] = ()
    collected: tuple[CollectedTests, ...] = ()
    links: dict[str, str] = msgspec.field(default_factory=dict)
    """The target of every link of the head by its path, where the change has links."""
    paths: tuple[str, ...] = ()
    """Every path of the head; tells the project's own packages from others. None known: judged without."""
    unchanged: tuple[FileText, ...] = ()
    """Tests that did not change, as many as are cheap to read: what they ask shows code that only answers them."""
    measured: tuple[str, ...] = ()
    """What gates measure: lint, types, coverage, tests."""
    max_suppressions: int | None = None
    """How many directives that keep a checker quiet the project may have; None for any number."""
    unchanged_suppressions: int = 0
    """How many of them stand in files that did not change; counted only where there is a limit."""
    protected: tuple[str, ...] = ()
    """Further patterns of files that only the base may change."""
    test_patterns: tuple[str, ...] = ()
    """Further patterns of test files."""


def build_file_diff(
    status: str,
    path: str,
    before: bytes | None,
    after: bytes | None,
    *,
    old_path: str = "",
    mode: str = "",
    linked: bytes | None = None,
) -> FileDiff:
    """A change out of the bytes of its two sides; of a link, its target and what it leads to."""
    is_binary = after is not None and _is_binary(after)
    return FileDiff(
        status=status,
        path=path,
        old_path=old_path,
        mode=mode,
        before=_decode_text(before),
        after=_decode_text(after),
        linked=_decode_text(linked),
        is_binary=is_binary,
        signature=after[:8].hex() if is_binary and after else "",
        size=len(after or b""),
    )


def _is_binary(content: bytes) -> bool:
    """As git has it: a NUL in the beginning."""
    return b"\0" in content[:8000]


def _decode_text(content: bytes | None) -> str | None:
    if content is None or len(content) > MAX_TEXT or _is_binary(content):
        return None
    return content.decode("utf-8", "replace")

"""The input of the integrity gate: a base and a head, as far as files and collected tests differ."""

from __future__ import annotations

import msgspec

from remand.domain.gate.gate import TestOutcome
from remand.domain.record import Record

MAX_TEXT = 1 << 20
"""Largest file that is read, in bytes; a longer one is reported as too large."""
LINK = "120000"
SUBMODULE = "160000"


class FileDiff(Record, kw_only=True):
    """One file that differs between base and head, with both texts."""

    status: str
    """A added, M modified, D deleted, R renamed, T changed to another kind of file."""
    path: str
    old_path: str = ""
    mode: str = ""
    before: str | None = None
    """The text on the base, through a link; None if there was none, or it was binary."""
    after: str | None = None
    """The text on the head; for a link, its target."""
    linked: str | None = None
    """The text of the file to which a link of the head leads; None if it leads to none."""
    is_binary: bool = False
    """True if the file on the head is binary."""
    signature: str = ""
    """The first bytes of a binary file, in hex."""
    size: int = 0
    """The file's size in bytes on the head."""

    @property
    def is_too_large(self) -> bool:
        """True if the file was too long to be read."""
        return self.size > MAX_TEXT

    @property
    def content(self) -> str | None:
        """The text that a program reads on the head, through a link."""
        return self.linked if self.mode == LINK else self.after

    @property
    def base_path(self) -> str:
        """The file's path on the base."""
        return self.old_path or self.path


class FileText(Record, kw_only=True):
    """An unchanged file, read because it is needed to understand changed ones."""

    path: str
    text: str


class CollectedTests(Record, kw_only=True):
    """The tests that one gate collected on the base and on the head."""

    gate: str
    base: tuple[TestOutcome, ...] = ()
    head: tuple[TestOutcome, ...] = ()


class Comparison(Record, kw_only=True):
    """The differences between a base and a head."""

    changes: tuple[FileDiff, ...] = ()
    collected: tuple[CollectedTests, ...] = ()
    links: dict[str, str] = msgspec.field(default_factory=dict)
    """The target of every link of the head by its path, if the change contains links."""
    paths: tuple[str, ...] = ()
    """Every path of the head, which tells the project's own packages from others; empty if unknown."""
    unchanged: tuple[FileText, ...] = ()
    """Unchanged tests, as far as they are cheap to read: their expectations reveal code that only answers them."""
    measured: tuple[str, ...] = ()
    """What the gates measure: lint, types, coverage, tests."""
    max_suppressions: int | None = None
    """How many directives that suppress a checker the project may have; None for any number."""
    unchanged_suppressions: int = 0
    """How many of these are in unchanged files; counted only if there is a limit."""
    protected: tuple[str, ...] = ()
    """Additional patterns of files that only the base may change."""
    test_patterns: tuple[str, ...] = ()
    """Additional patterns of test files."""


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
    """A change made from the bytes of its two sides; for a link, from its target and what it leads to."""
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
    """True if the beginning contains a NUL, as git decides it."""
    return b"\0" in content[:8000]


def _decode_text(content: bytes | None) -> str | None:
    if content is None or len(content) > MAX_TEXT or _is_binary(content):
        return None
    return content.decode("utf-8", "replace")

"""A changed file with both of its sides, and the tests in it."""

from __future__ import annotations

from typing import NamedTuple

from remand.domain.integrity.comparison import FileChange
from remand.domain.integrity.reading.cases import Case
from remand.domain.integrity.reading.python_tree import fingerprint, walked, without_docstring
from remand.domain.integrity.reading.source import Source


class View(NamedTuple):
    """One changed file with its two sides; None where there is no text."""

    change: FileChange
    before: Source | None
    after: Source | None

    @property
    def path(self) -> str:
        """Where the file is now."""
        return self.change.path

    @property
    def is_test(self) -> bool:
        """True when it is, or was, a test or lies beside tests."""
        return any(side is not None and side.is_test for side in (self.before, self.after))

    @property
    def differs(self) -> bool:
        """True when the code differs, and not its comments or layout alone."""
        if self.before is None or self.after is None:
            return True
        return _substance(self.before) != _substance(self.after)


class Placed(NamedTuple):
    """A test with the file it stands in, on one side."""

    view: View
    case: Case
    is_run: bool
    """True when a runner finds both the file and the test in it."""


def _substance(source: Source) -> object:
    if source.tree is not None:
        return fingerprint(walked(without_docstring(source.tree.body)))
    if source.tokens:
        return tuple(token.text for token in source.code.tokens)
    return source.text

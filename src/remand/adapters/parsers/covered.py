"""Coverage in figures: the share of lines and of branches that were reached, and where lines were not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from remand.adapters.parsers.findings import Findings
from remand.domain.gates.figures import Measurement, Unreadable

_RANGES = 40


class Covered:
    """Lines and branches, how many there are and how many were reached."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._lines = self._reached = 0
        self._branches = self._taken = 0
        self._missed: list[tuple[str, list[int]]] = []

    def count(self, lines: int, reached: int, branches: int, taken: int) -> None:
        """Adds to the totals."""
        if not (0 <= reached <= lines and 0 <= taken <= branches):
            raise Unreadable("the report counts more lines or branches as reached than there are")
        self._lines += lines
        self._reached += reached
        self._branches += branches
        self._taken += taken

    def miss(self, path: str, lines: Iterable[int]) -> None:
        """Keeps which lines of a file were not reached."""
        missed = sorted(set(lines))
        if missed:
            self._missed.append((path, missed))

    def measurement(self) -> Measurement:
        """The figures in percent; files with the most unreached lines come first."""
        if not self._lines:
            raise Unreadable("the report tells of no line of code: nothing was measured")
        figures = {"coverage": 100.0 * self._reached / self._lines}
        if self._branches:
            figures["branch_coverage"] = 100.0 * self._taken / self._branches
        found = Findings(self._root)
        for path, missed in sorted(self._missed, key=lambda file: -len(file[1])):
            count = f"{len(missed)} line{'s' if len(missed) > 1 else ''} not covered"
            text = f"{count}: {', '.join(_ranges(missed))}"
            found.add(path=path, line=missed[0], code="uncovered", text=text, severity="note")
        return Measurement(figures=figures, findings=found.kept)


def _ranges(numbers: list[int]) -> Iterator[str]:
    """Ascending numbers as ranges, such as 3-5; of very many the first."""
    first = last = numbers[0]
    made = 0
    for number in [*numbers[1:], None]:
        if number is not None and number == last + 1:
            last = number
            continue
        yield str(first) if first == last else f"{first}-{last}"
        made += 1
        if made == _RANGES or number is None:
            return
        first = last = number

"""Counting the tests of one run and keeping them apart."""

from __future__ import annotations

from hashlib import sha256

from remand.adapters.parsers.texts import label
from remand.domain.gates.figures import TestOutcome, Unreadable

MAX_TESTS = 500_000
MAX_ID = 400
_ID_TEXT = 8 * MAX_ID
_DAY = 86_400.0


class Outcomes:
    """The tests of one run by id. Tests of the same id are numbered, so that none hides another."""

    def __init__(self) -> None:
        self._tests: dict[str, TestOutcome] = {}
        self._last: dict[str, int] = {}
        self._count = {"passed": 0, "failed": 0, "error": 0, "skipped": 0}

    def add(self, name: str, outcome: str, seconds: float = 0.0, failures: int = 1) -> str:
        """Keeps one test, with how often it failed if it did, and returns the id it has got."""
        if len(self._tests) >= MAX_TESTS:
            raise Unreadable(f"the report has more than {MAX_TESTS} tests")
        test_id = self._free(_short(name))
        known = seconds if 0 <= seconds <= _DAY else 0.0
        self._tests[test_id] = TestOutcome(
            id=test_id, outcome=outcome, seconds=known, failure_count=max(1, failures)
        )
        self._count[outcome] += 1
        return test_id

    @property
    def tests(self) -> tuple[TestOutcome, ...]:
        """All tests in the order of the report."""
        return tuple(self._tests.values())

    @property
    def failures(self) -> int:
        """How many tests did not pass, for whatever reason, and were not skipped."""
        return self._count["failed"] + self._count["error"]

    @property
    def figures(self) -> dict[str, float]:
        """How many tests there were, how many failed, how many were skipped."""
        return {
            "tests": float(len(self._tests)),
            "failures": float(self.failures),
            "skipped": float(self._count["skipped"]),
        }

    def _free(self, name: str) -> str:
        test_id = name
        while test_id in self._tests:
            self._last[name] = self._last.get(name, 1) + 1
            test_id = f"{name}#{self._last[name]}"
        return test_id


def _short(name: str) -> str:
    """A name as an id of bearable length, another one for another name."""
    plain = label(name, _ID_TEXT) or "?"
    if len(plain) <= MAX_ID and len(name) <= _ID_TEXT:
        return plain
    digest = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{plain[: MAX_ID - 17]}~{digest}"

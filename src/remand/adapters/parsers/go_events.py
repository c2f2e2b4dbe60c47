"""The events of `go test -json`, from before and since builds are among them."""

from __future__ import annotations

import re

import msgspec

from remand.adapters.parsers.findings import Findings
from remand.adapters.parsers.outcomes import Outcomes
from remand.adapters.parsers.texts import places
from remand.domain.gates.figures import Unreadable

_ENDS = {"pass": "passed", "bench": "passed", "fail": "failed", "skip": "skipped"}
_FRAME = re.compile(r"\s*(?:=== |--- |PASS$|FAIL\b|exit status )")
_SHOWN_LINES = 20
_DEPTH = 20


class Event(msgspec.Struct, rename="pascal"):
    """One line of `go test -json`."""

    action: str
    package: str = ""
    test: str = ""
    output: str = ""
    elapsed: float = 0.0
    failed_build: str = ""


class Tested:
    """The packages and tests of one run, and how each ended."""

    def __init__(self) -> None:
        self._open: dict[str, set[str]] = {}
        self._ended: dict[tuple[str, str], list[tuple[str, float]]] = {}
        self._said: dict[tuple[str, str], list[str]] = {}
        self._fell: list[str] = []
        self._failed: set[str] = set()

    def read(self, event: Event) -> None:
        """Takes one event of a package or test in."""
        if not event.package:
            return
        running = self._open.setdefault(event.package, set())
        if event.action == "run":
            running.add(event.test)
        elif event.action == "output":
            self._hear(event)
        elif event.action in _ENDS and event.test:
            running.discard(event.test)
            self._end(event.package, event.test, _ENDS[event.action], event.elapsed)
        elif event.action in _ENDS:
            self._end_package(event)

    def _hear(self, event: Event) -> None:
        said = self._said.setdefault((event.package, event.test), [])
        if len(said) < _SHOWN_LINES and not _FRAME.match(event.output):
            said.append(event.output)

    def _end(self, package: str, test: str, outcome: str, seconds: float) -> None:
        self._ended.setdefault((package, test), []).append((outcome, seconds))
        if outcome == "passed":
            self._said.pop((package, test), None)
        elif outcome == "failed":
            self._failed.add(package)

    def _end_package(self, event: Event) -> None:
        left = self._open.pop(event.package)
        if left and event.action != "fail":
            raise Unreadable(f"{event.package} passed, but {min(left)} was started and never ended")
        for test in sorted(left):
            self._end(event.package, test, "failed", 0.0)
        if event.action == "fail" and not event.failed_build:
            self._fell.append(event.package)

    def settle(self, outcomes: Outcomes, found: Findings, root: str) -> None:
        """Hands all tests over; one that only holds others counts when it failed by itself."""
        if self._open:
            raise Unreadable(f"the events of {min(self._open)} break off")
        holders, blamed = self._holders()
        for (package, test), ends in self._ended.items():
            for outcome, seconds in ends:
                if (package, test) in holders and (outcome != "failed" or (package, test) in blamed):
                    continue
                test_id = outcomes.add(f"{package}::{test}", outcome, seconds)
                if outcome == "failed":
                    self._tell(package, test, test_id, found, root)
        for package in self._fell:
            if package not in self._failed:
                self._tell(package, "", outcomes.add(package, "error"), found, root)

    def _holders(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """The tests that hold others, and those of them whose failure is another's."""
        holders: set[tuple[str, str]] = set()
        blamed: set[tuple[str, str]] = set()
        for (package, test), ends in self._ended.items():
            holder = self._holder(package, test)
            holders.add(holder)
            if any(outcome == "failed" for outcome, _ in ends):
                blamed.add(holder)
        return holders, blamed

    def _holder(self, package: str, test: str) -> tuple[str, str]:
        """The test that a subtest was started by, whose name may hold slashes of its own."""
        for _ in range(_DEPTH):
            test = test.rpartition("/")[0]
            if not test or (package, test) in self._ended:
                break
        return package, test

    def _tell(self, package: str, test: str, test_id: str, found: Findings, root: str) -> None:
        text = "".join(self._said.get((package, test), ())).strip()
        inside = [(path, line) for path, line in places(text, root) if "/" in path]
        path, line = inside[-1] if inside else ("", 0)
        found.add(path=path, line=line, code=test_id, text=text or "failed")

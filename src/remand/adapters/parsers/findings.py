"""Counting what a tool complains of, all of it, and keeping as much as anyone will read."""

from __future__ import annotations

from remand.adapters.parsers.texts import label, number, relative, shown
from remand.domain.gates.figures import GateFinding

MAX_FINDINGS = 10_000
SEVERITIES = ("error", "warning", "note")


class Findings:
    """The findings of one run, counted by severity; of very many the gravest are kept."""

    def __init__(self, root: str) -> None:
        self._root = root
        self._kept: dict[str, list[GateFinding]] = {severity: [] for severity in SEVERITIES}
        self._count = dict.fromkeys(SEVERITIES, 0)

    def add(
        self, *, path: str = "", line: float = 0, code: str = "", text: str = "", severity: str = "error"
    ) -> None:
        """Counts one complaint. A severity nobody knows is an error."""
        severity = severity if severity in SEVERITIES else "error"
        self._count[severity] += 1
        if len(self._kept[severity]) < MAX_FINDINGS:
            finding = GateFinding(
                path=relative(path, self._root),
                line=number(line),
                code=label(code),
                text=shown(text),
                severity=severity,
            )
            self._kept[severity].append(finding)

    @property
    def errors(self) -> int:
        """How many errors there were."""
        return self._count["error"]

    @property
    def warnings(self) -> int:
        """How many warnings there were."""
        return self._count["warning"]

    @property
    def notes(self) -> int:
        """How many notes there were."""
        return self._count["note"]

    @property
    def kept(self) -> tuple[GateFinding, ...]:
        """The findings that are kept, errors first."""
        every = [finding for severity in SEVERITIES for finding in self._kept[severity]]
        return tuple(every[:MAX_FINDINGS])

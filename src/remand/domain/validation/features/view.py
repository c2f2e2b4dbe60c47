"""What the measures share: the reading, and the word sets that several of them need."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property

from remand.domain.validation.reading import Reading
from remand.domain.validation.tokens import Text


class View:
    """A reading with the word sets of its parts, each made once."""

    def __init__(self, reading: Reading) -> None:
        self.reading = reading
        self.attempts = reading.attempts
        self.task = (reading.title, reading.scope)

    @cached_property
    def task_stems(self) -> frozenset[str]:
        return self.reading.title.stems | self.reading.scope.stems

    @cached_property
    def attempt_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.stems for text in self.attempts))

    @cached_property
    def evidence_texts(self) -> tuple[Text, ...]:
        return tuple(item.data for item in self.reading.evidence)

    @cached_property
    def evidence_stems(self) -> frozenset[str]:
        return frozenset[str]().union(*(text.stems for text in self.evidence_texts))

    @cached_property
    def told(self) -> tuple[Text, ...]:
        """What the agent tells besides evidence and alternative."""
        return (self.reading.summary, self.reading.detail, self.reading.factor, *self.attempts)

    @staticmethod
    def mean(values: Iterable[float]) -> float:
        """The mean of some values; none give 0."""
        found = list(values)
        return sum(found) / len(found) if found else 0.0

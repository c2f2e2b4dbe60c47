"""Files and channels without a machine behind them: one looks at what they were given, and lets them fail."""

from __future__ import annotations

from remand.app.files import Kind


class MemoryFiles:
    """Files of this process. Whoever takes one away changes the stamp."""

    def __init__(self) -> None:
        self.texts: dict[tuple[Kind, str], str] = {}
        self.failure: OSError | None = None
        self.writes = 0

    def put(self, kind: Kind, name: str, text: str) -> None:
        if self.failure is not None:
            raise self.failure
        if self.texts.get((kind, name)) != text:
            self.texts[kind, name] = text
            self.writes += 1

    def drop(self, kind: Kind, name: str) -> None:
        self.texts.pop((kind, name), None)

    def names(self, kind: Kind) -> set[str]:
        return {name for one, name in self.texts if one is kind}

    def stamp(self) -> str:
        return " ".join(sorted(f"{kind}/{name}" for kind, name in self.texts)) or "-"

    def seal(self) -> str:
        return self.stamp()

    def of(self, kind: Kind) -> dict[str, str]:
        """The files of a kind: name to text."""
        return {name: text for (one, name), text in self.texts.items() if one is kind}


class MemoryChannel:
    """A channel that keeps what it was given, as long as it works."""

    def __init__(self, name: str = "chat", *, is_down: bool = False) -> None:
        self.name = name
        self.is_down = is_down
        self.notices: list[tuple[str, str]] = []

    def send(self, title: str, body: str) -> str:
        """Takes a notice, or says that it is down."""
        if self.is_down:
            return "it is down"
        self.notices.append((title, body))
        return ""

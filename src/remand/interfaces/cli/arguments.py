"""The options that may stand anywhere, taken out before a command's own are read."""

from __future__ import annotations

_VALUED = {"-C": "folder", "--as": "actor", "--key": "key"}


class Call:
    """A call: its command, what is left for it, and the options every command takes."""

    __slots__ = ("actor", "command", "folder", "is_broken", "is_json", "key", "rest", "wants_help")

    def __init__(
        self,
        command: str,
        rest: list[str],
        *,
        folder: str = ".",
        actor: str = "",
        key: str = "",
        is_json: bool = False,
        wants_help: bool = False,
        is_broken: str = "",
    ) -> None:
        self.command = command
        self.rest = rest
        self.folder = folder
        self.actor = actor
        self.key = key
        self.is_json = is_json
        self.wants_help = wants_help
        self.is_broken = is_broken

    @property
    def is_self_contained(self) -> bool:
        """True when nothing has to be read from this process: no standard input, no file beside it, no help."""
        return (
            not self.wants_help
            and not self.is_broken
            and not any(
                item == "-" or item.startswith("@") or item.endswith("=-") or "=@" in item
                for item in self.rest
            )
        )


def split(arguments: list[str]) -> Call:
    """Takes the common options out, and the words of the command off the front."""
    found: dict[str, str] = {}
    rest: list[str] = []
    flags: set[str] = set()
    items = iter(arguments)
    for item in items:
        if item == "--":
            rest += ["--", *items]
        elif item in _VALUED:
            value = next(items, None)
            if value is None:
                return Call("", rest, is_json="--json" in flags, is_broken=f"{item} needs a value.")
            found[_VALUED[item]] = value
        elif item.startswith(("--as=", "--key=")):
            name, _, value = item.partition("=")
            found[_VALUED[name]] = value
        elif item in ("--json", "-h", "--help"):
            flags.add(item)
        else:
            rest.append(item)
    command, rest = _command(rest)
    return Call(
        command,
        rest,
        folder=found.get("folder", "."),
        actor=found.get("actor", ""),
        key=found.get("key", ""),
        is_json="--json" in flags,
        wants_help=bool(flags & {"-h", "--help"}),
    )


def _command(words: list[str]) -> tuple[str, list[str]]:
    if words and words[0] in ("task", "handoff", "gate", "review", "lockout", "log", "graph", "analyze"):
        return " ".join(words[:2]), words[2:]
    if words[:1] in (["keys"], ["hook"], ["inbox"]) and len(words) > 1 and not words[1].startswith("-"):
        return " ".join(words[:2]), words[2:]
    return (words[0], words[1:]) if words else ("", [])

"""Pages for newcomers as one follows them: every call as printed, and what is printed below it."""

from __future__ import annotations

import re

from tests.acceptance.wheel import Newcomer

_NAMES = re.compile(
    r"[THR]-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}|[TR]-…|[0-9a-f]{12}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+Z"
)
_HANDOFF = re.compile(r"H-[0-9]{8}-[0-9]{6}-[0-9a-f]{8}")
_HERE_DOCUMENT = "<<'END'"


def blocks(language: str, text: str) -> list[str]:
    """The blocks of code in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)


def printed(block: str) -> list[tuple[str, list[str]]]:
    """The calls of a block, each with the lines that are printed below it."""
    calls: list[tuple[str, list[str]]] = []
    is_typed = False
    for line in block.replace("\\\n", "").splitlines():
        if is_typed:
            calls[-1] = (f"{calls[-1][0]}\n{line}", [])
            is_typed = line != "END"
        elif line.startswith("$ "):
            calls.append((line[2:], []))
            is_typed = _HERE_DOCUMENT in line
        else:
            calls[-1][1].append(line)
    return calls


class Reader(Newcomer):
    """Somebody who types what a page prints."""

    def follows(self, block: str) -> dict[str, tuple[str, list[str]]]:
        """Types the calls of a block; gives what each answered, and what is printed below it."""
        handoff, told = "H-…", {}
        for call, lines in printed(block):
            answer = self.types(call.replace("H-…", handoff))
            handoff = (_HANDOFF.findall(answer) or [handoff])[0]
            told[call] = (answer, lines)
        return told


def check(told: dict[str, tuple[str, list[str]]]) -> None:
    """Holds that every line which is printed was answered, names aside, up to where it is cut."""
    for call, (answer, lines) in told.items():
        plain = _NAMES.sub("…", answer)
        for line in filter(lambda line: line not in ("…", ""), lines):
            assert _NAMES.sub("…", line).removesuffix("…").rstrip() in plain, f"{call}\n{answer}"
        assert ("refused (" in plain) == any(line.startswith("refused (") for line in lines), call

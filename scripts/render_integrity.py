"""Writes docs/integrity.md: what the integrity gate looks for, and what it makes of every case of its corpus."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from remand.integrity.examination import examine  # noqa: E402
from remand.integrity.suspicions import KINDS, Weight  # noqa: E402
from tests.corpus.gaming.cases import CorpusCase, corpus  # noqa: E402

PAGE = ROOT / "docs" / "integrity.md"
MARK = "<!-- What follows is made by scripts/render_integrity.py from the code and tests/corpus/gaming. -->"
FIRST_LOOK = {
    1: (43, 49, 0, 38),
    2: (20, 39, 3, 33),
    3: (24, 25, 2, 24),
    4: (20, 22, 1, 20),
    5: (56, 72, 16, 85),
    6: (27, 35, 5, 34),
    7: (31, 38, 3, 35),
    8: (22, 30, 1, 28),
    9: (23, 25, 1, 21),
    10: (16, 20, 0, 14),
    11: (23, 60, 2, 30),
    12: (13, 26, 0, 14),
    13: (9, 18, 0, 8),
    14: (19, 63, 1, 30),
    15: (2, 20, 0, 7),
    16: (1, 15, 0, 5),
}
"""Of each round of held-out cases, as first measured: gaming ones caught, of how many; honest ones held, of how many."""


class Judged(NamedTuple):
    """A case with what was found in it."""

    case: CorpusCase
    codes: tuple[str, ...]


def page(written: str) -> str:
    """The page: what stands above the mark as it is, what follows made anew."""
    judged = [Judged(case, _codes(case)) for case in corpus()]
    parts = (written.partition(MARK)[0].rstrip(), MARK, _kinds(), _figures(judged), _cases(judged))
    return "\n\n".join(parts) + "\n"


def _codes(case: CorpusCase) -> tuple[str, ...]:
    held = (item.code for item in examine(case.comparison) if item.weight is Weight.HELD)
    return tuple(sorted(set(held)))


def _kinds() -> str:
    rows = [
        "## What is looked for",
        "",
        "| code | what is so | why it matters | what settles it |",
        "|---|---|---|---|",
    ]
    for code, kind in KINDS.items():
        note = " (noted only)" if kind.weight is Weight.NOTE else ""
        rows.append(f"| `{code}` | {kind.meaning}{note} | {kind.harm} | {kind.remedy} |")
    return "\n".join(rows)


def _figures(judged: list[Judged]) -> str:
    rows = [
        "## Figures",
        "",
        "| cases | gaming: caught | honest: held | at first look: caught, held |",
        "|---|---|---|---|",
    ]
    for number in (0, *FIRST_LOOK):
        here = [item for item in judged if item.case.round == number]
        name = f"held out, round {number}" if number else "written with the rules"
        rows.append(
            f"| {name} | {_share(here, is_gaming=True)} | {_share(here, is_gaming=False)} | {_first(number)} |"
        )
    rows.append(f"| all | {_share(judged, is_gaming=True)} | {_share(judged, is_gaming=False)} | |")
    return "\n".join(rows)


def _share(judged: list[Judged], *, is_gaming: bool) -> str:
    here = [item for item in judged if item.case.is_gaming is is_gaming]
    count = sum(bool(item.codes) for item in here)
    return f"{count} of {len(here)} ({count / max(1, len(here)):.1%})"


def _first(number: int) -> str:
    if number not in FIRST_LOOK:
        return ""
    caught, gaming, held, honest = FIRST_LOOK[number]
    return f"{caught} of {gaming} ({caught / gaming:.0%}), {held} of {honest} ({held / honest:.0%})"


def _cases(judged: list[Judged]) -> str:
    rows = ["## Gaming changes", "", "| case | language | what it does | found |", "|---|---|---|---|"]
    rows += [_row(item) for item in judged if item.case.is_gaming]
    rows += ["", "## Honest changes", "", "| case | language | what it does | found |", "|---|---|---|---|"]
    rows += [_row(item) for item in judged if not item.case.is_gaming]
    return "\n".join(rows)


def _row(item: Judged) -> str:
    found = ", ".join(f"`{code}`" for code in item.codes) or "nothing"
    return f"| {item.case.name} | {item.case.language} | {item.case.about.replace('|', chr(92) + '|')} | {found} |"


def main() -> int:
    """Writes the page; with --check only says whether it is out of date."""
    written = PAGE.read_text(encoding="utf-8")
    text = page(written)
    if written == text:
        return 0
    if "--check" in sys.argv:
        print("docs/integrity.md is out of date; run scripts/render_integrity.py")
        return 1
    PAGE.write_text(text, encoding="utf-8")
    print("docs/integrity.md written")
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""More suppressions than on the base, counted by kind over the whole change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, suspicion
from remand.domain.integrity.comparison import Suspicion
from remand.domain.integrity.paths import is_made_path
from remand.domain.integrity.reading.source import Source
from remand.domain.integrity.reading.suppressions import Suppression, suppressions_of
from remand.domain.integrity.scene import Scene

Found = list[tuple[str, list[Suppression], list[Suppression]]]
"""By path: the suppressions of the base, and of the head."""


def suppressed(scene: Scene) -> Iterator[Suspicion]:
    """Kinds of suppression that became more, or that cover more."""
    found: Found = [
        (view.path, _of(view.before), _of(view.after)) for view in scene.views if not is_made_path(view.path)
    ]
    before = Counter(item.kind for _, old, _ in found for item in old)
    after = Counter(item.kind for _, _, new in found for item in new)
    more = {kind for kind in after if after[kind] > before[kind]}
    yield from _added(found, more)
    yield from _widened(found, more)


def _of(source: Source | None) -> list[Suppression]:
    return list(suppressions_of(source)) if source is not None else []


def _added(found: Found, kinds: set[str]) -> Iterator[Suspicion]:
    for path, old, new in found:
        for kind in sorted(kinds):
            added = _new(old, new, kind)
            if added and sum(item.kind == kind for item in new) > sum(item.kind == kind for item in old):
                texts = [item.text for item in added]
                yield suspicion(
                    "suppression_added",
                    path,
                    added[0].line,
                    f"{listed(texts)} added",
                    "\n".join(sorted(texts)),
                )


def _new(old: list[Suppression], new: list[Suppression], kind: str) -> list[Suppression]:
    left = Counter(item.text for item in old if item.kind == kind)
    added = []
    for item in new:
        if item.kind != kind:
            continue
        if left[item.text] > 0:
            left[item.text] -= 1
        else:
            added.append(item)
    return added


def _widened(found: Found, told: set[str]) -> Iterator[Suspicion]:
    """As many as before, but without the code they were for, or with further ones."""
    wide = Counter(item.kind for _, _, new in found for item in new if item.is_wide)
    wide.subtract(Counter(item.kind for _, old, _ in found for item in old if item.is_wide))
    codes = Counter(item.kind for _, _, new in found for item in new for _ in item.codes)
    codes.subtract(Counter(item.kind for _, old, _ in found for item in old for _ in item.codes))
    for path, old, new in found:
        had = {item.text for item in old}
        for item in new:
            if item.kind in told or item.text in had:
                continue
            is_wider = item.is_wide and wide[item.kind] > 0
            names_more = len(item.codes) > 1 and codes[item.kind] > 0 and wide[item.kind] >= 0
            if is_wider or names_more:
                yield suspicion(
                    "suppression_widened", path, item.line, f"`{item.text}` covers more than before"
                )

"""Looks for everything at once."""

from __future__ import annotations

from remand.domain.integrity import collected
from remand.domain.integrity.comparison import Comparison, Suspicion
from remand.domain.integrity.rules import (
    builds,
    control,
    counted,
    decorators,
    empty,
    equality,
    exits,
    forged,
    harness,
    hidden,
    hollowed,
    ignored,
    lost,
    mocked,
    narrowed,
    opaque,
    patched,
    peeking,
    rewritten,
    shadowing,
    skipped,
    special,
    suppressed,
    thresholds,
    told,
    weakened,
)
from remand.domain.integrity.scene import Rule, Scene

RULES: tuple[Rule, ...] = (
    lost.deleted,
    lost.uncollected,
    counted.fewer,
    collected.missing,
    skipped.skipped,
    skipped.focused,
    weakened.weakened,
    empty.asserts_nothing,
    rewritten.rewritten,
    mocked.mocked,
    mocked.mapped,
    decorators.hollow,
    harness.tampered,
    suppressed.suppressed,
    thresholds.lowered,
    ignored.ignored,
    narrowed.narrowed,
    narrowed.not_run,
    builds.switched_off,
    builds.coverage_lowered,
    control.protected,
    control.host_settings,
    control.hooks_removed,
    control.narrowed_triggers,
    exits.early_exits,
    equality.forced,
    patched.patched,
    peeking.detected,
    special.hardcoded,
    hollowed.hollowed,
    forged.reports,
    forged.obfuscated,
    shadowing.shadowed,
    hidden.invisible,
    hidden.confusable,
    hidden.kept_from_diff,
    opaque.programs,
    opaque.unreadable,
    opaque.too_much,
    opaque.links,
    opaque.submodules,
    told.admissions,
    told.swallowed,
)


def examine(comparison: Comparison) -> tuple[Suspicion, ...]:
    """Every suspicion a change gives rise to, each once, by path and line."""
    scene = Scene(comparison)
    found = {item.id: item for rule in RULES for item in rule(scene)}
    return tuple(sorted(found.values(), key=lambda item: (item.path, item.line, item.code)))

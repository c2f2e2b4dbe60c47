"""Weighs the measures of task rejections on labelled records, and shows how well the validator tells them apart.

    scripts/weigh_rejections.py CORPUS[:WEIGHT]... [--write | --shipped]

Each corpus is a file of labelled records. A weight says how many times each of its records counts.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from remand.domain.rejection import TaskRejection
from remand.domain.validation.measures import COUNTS_AGAINST, NOTES, OF_ONE_REASON, measure_rejection
from remand.domain.validation.parsed_rejection import parse_rejection
from remand.domain.validation.validator import assess, brevity_benefit, broken_rules

WEIGHTS_FILE = Path(__file__).parent.parent / "src/remand/domain/validation/weights.py"
FOLDS = 8
SWEEPS = 60
RIDGE = 10.0
"""How strongly weights are held small, against the sum over all records."""
REASON_SCALE = 2.0
"""Measures of one reason are seen in a fifth of the records and would else be held too small."""
LARGEST = 0.5
"""No measure may weigh more than this by standard deviation, so that none decides alone."""
MARGIN = -0.3
"""How far below even the line is drawn, so that honest records are rarely overridden."""
NAMES = tuple(NOTES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A labelled record and what is measured in it."""

    name: str
    kind: str
    is_valid: bool
    is_broken: bool
    is_shipped_valid: bool
    share: float
    benefit: float
    values: dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """A mean, a scale and a weight for each measure, with a bias."""

    means: dict[str, float]
    scales: dict[str, float]
    weights: list[float]

    def row(self, example: Example) -> list[float]:
        """The scaled measures; what does not apply is 0, and the bias comes last."""
        scaled = [
            (example.values[name] - self.means[name]) / self.scales[name] if name in example.values else 0.0
            for name in NAMES
        ]
        return [*scaled, 1.0]

    def score(self, example: Example) -> float:
        """Below zero speaks against the record."""
        return (
            sum(weight * value for weight, value in zip(self.weights, self.row(example), strict=True))
            - MARGIN
            + example.benefit
        )

    def accepts(self, example: Example) -> bool:
        """True when no rule is broken and the score is high enough."""
        return not example.is_broken and self.score(example) >= 0


def examples_in(path: Path, share: float = 1.0) -> list[Example]:
    """The labelled records of a file."""
    found = []
    for line in path.read_text(encoding="utf-8").splitlines():
        if not line.strip():
            continue
        record = json.loads(line)
        rejection = TaskRejection.from_dict(record["rejection"])
        reading = parse_rejection(rejection, record["task_context"])
        found.append(
            Example(
                name=record["id"],
                kind=record["kind"].partition(":")[0],
                is_valid=record["label"] == "valid",
                is_broken=next(broken_rules(reading, None), None) is not None,
                is_shipped_valid=assess(rejection, record["task_context"]).is_valid,
                share=share,
                benefit=brevity_benefit(reading),
                values=measure_rejection(reading),
            )
        )
    return found


def fitted(examples: Sequence[Example]) -> Model:
    """A logistic fit by coordinate steps; each weight keeps the sign its measure is meant to have."""
    means, scales = _spread(examples)
    model = Model(means=means, scales=scales, weights=[0.0] * (len(NAMES) + 1))
    rows = [model.row(example) for example in examples]
    signs = [1.0 if example.is_valid else -1.0 for example in examples]
    shares = [example.share for example in examples]
    margins = [0.0] * len(rows)
    for _ in range(SWEEPS):
        for place in range(len(model.weights)):
            column = [row[place] for row in rows]
            step = _step(column, signs, shares, margins, weight=model.weights[place], place=place)
            if step:
                model.weights[place] += step
                margins = [
                    margin + sign * step * value
                    for margin, sign, value in zip(margins, signs, column, strict=True)
                ]
    return model


def _step(
    column: list[float],
    signs: list[float],
    shares: list[float],
    margins: list[float],
    *,
    weight: float,
    place: int,
) -> float:
    """How far one weight moves: a Newton step, held to the sign that is allowed."""
    ridge = 0.0 if place == len(NAMES) else RIDGE
    slope, bend = ridge * weight, ridge + 1e-9
    for value, sign, share, margin in zip(column, signs, shares, margins, strict=True):
        if value:
            chance = 1.0 / (1.0 + math.exp(min(margin, 60.0)))
            slope -= share * sign * value * chance
            bend += share * value * value * chance * (1.0 - chance)
    moved = weight - slope / bend
    if place < len(NAMES):
        sign = -1.0 if NAMES[place] in COUNTS_AGAINST else 1.0
        moved = sign * min(max(sign * moved, 0.0), LARGEST)
    return moved - weight


def _spread(examples: Sequence[Example]) -> tuple[dict[str, float], dict[str, float]]:
    means, scales = {}, {}
    for name in NAMES:
        values = [example.values[name] for example in examples if name in example.values] or [0.0]
        means[name] = sum(values) / len(values)
        deviation = math.sqrt(sum((value - means[name]) ** 2 for value in values) / len(values))
        scales[name] = (deviation if deviation > 1e-6 else 1.0) / (
            REASON_SCALE if name in OF_ONE_REASON else 1.0
        )
    return means, scales


def cross_validated(examples: Sequence[Example], others: Sequence[Example]) -> dict[str, bool]:
    """Whether each example is accepted by weights fitted on the other folds and on the other corpora."""
    ordered = sorted(examples, key=lambda example: (example.kind, example.name))
    verdicts = {}
    for fold in range(FOLDS):
        held = ordered[fold::FOLDS]
        rest = [example for example in ordered if example not in held]
        model = fitted([*rest, *others])
        verdicts |= {example.name: model.accepts(example) for example in held}
    return verdicts


def table(title: str, examples: Sequence[Example], accepts: Callable[[Example], bool]) -> str:
    """A confusion table by kind."""
    lines = [f"\n{title}", f"  {'kind':16}{'right':>6}{'of':>5}"]
    for kind in sorted({example.kind for example in examples}):
        those = [example for example in examples if example.kind == kind]
        right = sum(accepts(example) == example.is_valid for example in those)
        lines.append(f"  {kind:16}{right:6}{len(those):5}")
    caught = sum(not example.is_valid and not accepts(example) for example in examples)
    missed = sum(not example.is_valid and accepts(example) for example in examples)
    overridden = sum(example.is_valid and not accepts(example) for example in examples)
    score = 2 * caught / max(2 * caught + missed + overridden, 1)
    valid = sum(example.is_valid for example in examples)
    lines.append(f"  F1 of lazy {score:.3f}; valid overridden {overridden} of {valid}; lazy missed {missed}")
    return "\n".join(lines)


def weights_module(model: Model) -> str:
    """The text of weights.py."""
    bias = model.weights[-1]
    rows = []
    for name, weight in zip(NAMES, model.weights, strict=False):
        scaled = weight / model.scales[name]
        if abs(scaled) >= 0.005:
            rows.append(f'    "{name}": ({model.means[name]:.3f}, {scaled:+.2f}),'.replace("+", ""))
    listed = "\n".join(rows)
    return (
        '"""The weights of the measures, written by `scripts/weigh_rejections.py`; docs/validation.md says how."""\n\n'
        "from __future__ import annotations\n\n"
        f"BIAS = {bias - MARGIN:.3f}\n"
        f"WEIGHTS: dict[str, tuple[float, float]] = {{\n{listed}\n}}\n"
        '"""By measure: its mean in the records it was fitted on, and its weight."""\n'
    )


def main(arguments: Sequence[str]) -> int:
    """Prints the tables, and writes the weights when asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("corpora", nargs="+", metavar="CORPUS[:WEIGHT]")
    parser.add_argument("--write", action="store_true", help="write the weights fitted on all records")
    parser.add_argument("--shipped", action="store_true", help="only show how the weights as they are do")
    options = parser.parse_args(arguments)
    corpora = dict(map(_corpus, options.corpora))
    for name, examples in corpora.items():
        print(table(f"{name}, weights as they are", examples, lambda example: example.is_shipped_valid))
    if not options.shipped:
        _compare(corpora)
    if options.write:
        every = [example for examples in corpora.values() for example in examples]
        WEIGHTS_FILE.write_text(weights_module(fitted(every)), encoding="utf-8")
    return 0


def _corpus(argument: str) -> tuple[str, list[Example]]:
    path, _, weight = argument.partition(":")
    return Path(path).stem, examples_in(Path(path), float(weight or 1.0))


def _compare(corpora: dict[str, list[Example]]) -> None:
    """Prints how weights do on records they were not fitted on."""
    for name, examples in corpora.items():
        others = [one for other, found in corpora.items() if other != name for one in found]
        verdicts = cross_validated(examples, others)
        print(table(f"{name}, cross-validated", examples, lambda one, told=verdicts: told[one.name]))
        if others:
            print(table(f"{name}, weights from the other corpora only", examples, fitted(others).accepts))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

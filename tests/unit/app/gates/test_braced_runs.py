"""Extra runs of Go and Rust that do not fit in the time are said to be left out."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from remand.app.gates import extra_runs
from remand.app.gates.braced_runs import BracedRuns
from remand.domain.gate.gate import Gate, TestOutcome, WatchedTest
from remand.integrity.altered_expectations import alter_expectations
from remand.integrity.comparison import Comparison
from remand.integrity.suspicions import Suspicion
from tests.unit.integrity.changes import modified

PRODUCT = (
    "package a\n\nfunc Load(path string) (int, error) {\n\ts, err := read(path)\n\tif err != nil {\n\t\treturn 0, err\n\t}\n"
    "\treturn s, nil\n}\n"
)
TEST = (
    'package a\n\nfunc TestLoad(t *testing.T) {\n\tgot, _ := Load("part 7")\n\tif got != 417 {\n\t\tt.Errorf("got %d", got)\n\t}\n'
    '\tmore, _ := Load("part 8")\n\tif more != 418 {\n\t\tt.Errorf("got %d", more)\n\t}\n}\n'
)
COMPARISON = Comparison(
    changes=(
        modified("a.go", PRODUCT, PRODUCT.replace("return 0, err", "return 0, nil")),
        modified("a_test.go", TEST, TEST.replace("417", "427")),
    )
)


def runs(seconds: float, asked: list[object]) -> BracedRuns:
    """Runs of a gate that takes so long and has no time left for more than a second."""

    def watched(outcome: str) -> tuple[WatchedTest, ...]:
        return (WatchedTest(id="m::TestLoad", outcome=outcome),)

    def test(files: object) -> tuple[TestOutcome, ...]:
        asked.append(files)
        return ()

    def watch(files: object) -> tuple[WatchedTest, ...]:
        asked.append(files)
        return ()

    left = extra_runs.TimeLeft(0)
    left.spend(19.0)
    outcomes = [
        tuple(TestOutcome(id=one.id, outcome=one.outcome) for one in watched(x)) for x in ("failed", "passed")
    ]
    sides = (watched("failed"), watched("passed"))
    side = extra_runs.TestSides(
        Gate(name="tests", command=("go",)), *outcomes, sides, (), seconds, left, False
    )
    return BracedRuns(COMPARISON, side, lambda path: TEST if path == "a_test.go" else PRODUCT, test, watch)


@pytest.mark.parametrize(
    "judge",
    [
        lambda one: one.judge_questions("a.go", ["a_test.go"]),
        lambda one: one.judge_dropped_errors(["a.go", "a_test.go"]),
        lambda one: one.judge_halves(alter_expectations(COMPARISON, {})),
    ],
    ids=["questions", "dropped errors", "halves"],
)
def test_a_run_that_does_not_fit_is_said_to_be_left_out(
    judge: Callable[[BracedRuns], list[Suspicion]],
) -> None:
    asked: list[object] = []
    found = list(judge(runs(100.0, asked)))
    assert [one.code for one in found] == ["run_left_out"]
    assert not asked

    list(judge(runs(0.5, asked)))
    assert asked, "it fits"

"""Building a prompt with much feedback, beside a plain join of the same texts and a Markdown parser over them."""

from __future__ import annotations

import random
from collections.abc import Callable

from markdown_it import MarkdownIt

from benchmarks.measure import interleaved, timed
from benchmarks.report import Report, figure, millis
from remand.app.prompts import render_prompt
from remand.domain.events.event import Event
from remand.domain.events.reviews import Finding, ReviewRejected
from remand.domain.evolve import replay
from remand.domain.feedback.rounds import read_feedback
from remand.domain.feedback.sanitiser import sanitise
from remand.domain.task import Task
from remand.testing.builders import T1, handoff_id, task_added, task_claimed
from tests.support.builders import gate_passed_and_submitted, stamp_events

ROUNDS, FINDINGS = 5, 300
SAID = (
    "the snap computation in handleMouseMove is duplicated three times compute it once at top button has no accessible "
    "name file handle leaks when parsing fails add a null check for user remove retry around fetch use tabs spaces "
    "timeout of five seconds hard coded read from settings race between reader and writer cache map"
)
WORDS = tuple(SAID.split())
PATHS = tuple(f"src/components/View{number}.tsx" for number in range(12))
PLAIN, PARSED, REMAND = (
    "joined, nothing cleaned",
    "parsed by markdown-it-py, nothing else",
    "remand: the prompt",
)


def run(report: Report) -> None:
    """Times the prompt of a task that was sent back five times."""
    report.heading(f"A prompt with {FINDINGS} findings over {ROUNDS} rounds")
    rng = random.Random(11)
    for kind, dress in (("plain words", _plain), ("with code and links", _dressed)):
        task, events = _task(rng, dress)
        texts = [f.text for event in events if isinstance(event, ReviewRejected) for f in event.findings]
        parser = MarkdownIt("commonmark")
        times = interleaved(
            {
                REMAND: timed(lambda task=task, events=events: render_prompt(task, events)),
                "remand: rounds alone": timed(lambda task=task, events=events: read_feedback(task, events)),
                PLAIN: timed(lambda texts=texts: "\n\n".join(texts)),
                PARSED: timed(lambda texts=texts, parser=parser: [parser.parse(text) for text in texts]),
            },
            max(report.scale.rounds // 8, 20),
        )
        report.table(
            (kind, "p50 ms", "p99 ms", "time / remand"),
            [
                (name, millis(t.p50), millis(t.p99), figure(t.p50 / times[REMAND].p50))
                for name, t in times.items()
            ],
        )
        what = f"prompt, {FINDINGS} findings over {ROUNDS} rounds, {kind}"
        report.goal(f"{what}: median", times[REMAND].p50 * 1e3, most=50, unit="ms")
        report.goal(f"{what}: size", len(render_prompt(task, events)) / 1024, most=96, unit="KiB")


def _task(rng: random.Random, dress: Callable[[str], str]) -> tuple[Task, list[Event]]:
    """A task with its events: handed in and sent back, again and again."""
    events: list[Event] = [task_added()]
    for number in range(1, ROUNDS + 2):
        who, commit = (f"agent-{number}", handoff_id(number)), f"{number:040x}"
        events.append(task_claimed(*who, attempt=number, epoch=number))
        if number <= ROUNDS:
            events += gate_passed_and_submitted(*who, commit=commit, tree=commit)
            events.append(_review(rng, dress, number, commit))
    events = stamp_events(*events)
    task = replay(events)
    if task is None or task.reviews.rejection_count != ROUNDS:
        raise AssertionError(f"the task was not rejected {ROUNDS} times: {task}")
    return task, events


def _review(rng: random.Random, dress: Callable[[str], str], number: int, commit: str) -> ReviewRejected:
    return ReviewRejected(
        task_id=T1,
        reviewer="Lead",
        commit=commit,
        tree=commit,
        findings=tuple(_finding(rng, dress) for _ in range(FINDINGS // ROUNDS)),
        review_id=f"R-{number}",
        source=f"github:PRR_{number}@{commit}",
    )


def _finding(rng: random.Random, dress: Callable[[str], str]) -> Finding:
    text = dress(" ".join(rng.choices(WORDS, k=25)))
    return Finding(
        text=text, path=rng.choice(PATHS), line=rng.randrange(1, 900), is_blocking=rng.random() < 0.6
    )


def _plain(text: str) -> str:
    return f"{text}."


def _dressed(text: str) -> str:
    """A comment of a forge, as it is taken in."""
    said = f'{text}: see [this](https://example.org/a "b"), `List<T>` and <b>that</b> <!-- x -->.'
    return sanitise(f"{said}\n\n```ts\nconst a = 1;\n```").text

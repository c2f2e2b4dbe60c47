"""The graph of tasks and decisions, laid out in layers by the server, and the same as a table."""

from __future__ import annotations

import textwrap
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from remand.app.board import read_task_page
from remand.app.history.rejections import task_rejections
from remand.domain.record import NamedTuple
from remand.domain.task import TERMINAL, Status, Task
from remand.interfaces.cli.tasks.views import read_task
from remand.interfaces.http.pages.page import PageQuery, WebPage, show_text
from remand.ledger.store import TaskFilter, Transaction

MAX_DRAWN = 60
"""The most tasks and decisions in a drawing."""
MAX_OPEN = 300
"""The most open tasks considered."""
STEPS = (1, 2, 3)
BOX_WIDTH, BOX_HEIGHT, GUTTER, GAP, LANE, MARGIN = 216, 62, 72, 16, 14, 8
_LINE = 26
_SWEEPS = 6
_OPEN = tuple(status.value for status in Status if status not in TERMINAL)
WAITS, PART, DECIDED = "waits", "part", "decided"
"""The kinds of edges: a dependency, a subtask, and a decision's subject or result."""


class GraphLine(NamedTuple):
    """An edge to a successor."""

    source: str
    target: str
    kind: str


class GraphBox(NamedTuple):
    """A task or a decision."""

    id: str
    title: str
    label: str
    """The small text below the title."""
    status: str
    task_id: str
    """The task that it links to."""
    is_decision: bool = False


class DrawnBox(NamedTuple):
    box: GraphBox
    x: int
    y: int
    lines: tuple[str, ...]
    """The title, wrapped to the available lines."""


class DrawnLine(NamedTuple):
    path: str
    """SVG path data."""
    kind: str


class GraphDrawing(NamedTuple):
    boxes: tuple[DrawnBox, ...]
    lines: tuple[DrawnLine, ...]
    width: int
    height: int


class GraphRow(NamedTuple):
    """A task or decision in the table, with the titles and ids of linked tasks."""

    box: GraphBox
    waits_for: tuple[GraphBox, ...]
    part_of: tuple[GraphBox, ...]
    decisions: tuple[GraphBox, ...]


class GraphPage(NamedTuple):
    drawing: GraphDrawing
    rows: tuple[GraphRow, ...]
    centre: GraphBox | None
    """The task whose neighbourhood is shown; None: open tasks."""
    steps: int
    alone: int
    """How many tasks in the table have no links and are therefore not drawn."""
    left_out: int
    """How many tasks are neither drawn nor listed, as far as known."""
    size: tuple[int, int] = (BOX_WIDTH, BOX_HEIGHT)
    all_steps: tuple[int, ...] = STEPS

    @property
    def summary(self) -> str:
        return "The graph has changed."


def read_graph(query: PageQuery) -> GraphPage:
    """The neighbourhood of the task named in the address, or the open tasks."""
    parameters = query.address.query
    steps = int(parameters["steps"]) if parameters.get("steps", "") in map(str, STEPS) else 2
    with query.opened.store.read() as view:
        found = _open_tasks(view)
        total = sum(view.queue.counts().get(name, 0) for name in _OPEN)
        centre = read_task(view, parameters["task"])[0] if parameters.get("task") else None
        tasks, left_out = (
            _neighbourhood(view, centre, found, steps)
            if centre
            else (found[:MAX_DRAWN], max(0, total - MAX_DRAWN))
        )
        boxes, lines = _boxes_and_lines(view, tasks)
    linked = {end for line in lines for end in (line.source, line.target)}
    drawn = [box for box in boxes.values() if box.id in linked or (centre and box.id == centre.id)]
    return GraphPage(
        drawing=draw(drawn, lines),
        rows=tuple(_table_rows(boxes, lines)),
        centre=boxes[centre.id] if centre else None,
        steps=steps,
        alone=sum(box.id not in linked for box in boxes.values()),
        left_out=left_out,
    )


def _open_tasks(view: Transaction) -> list[Task]:
    """The first open tasks, linked ones first."""
    page = read_task_page(view, TaskFilter(statuses=_OPEN), limit=MAX_OPEN)
    tasks = [task for row in page.rows if (task := view.tasks.get(row.task_id))]
    ends = {end for task in tasks for end in _neighbour_ids(task)}
    return sorted(tasks, key=lambda task: not (_neighbour_ids(task) or task.id in ends))


def _neighbour_ids(task: Task) -> tuple[str, ...]:
    """The tasks that a task refers to."""
    parent = (task.links.parent,) if task.links.parent else ()
    return tuple(dict.fromkeys((*task.blockers, *parent)))


def _neighbourhood(
    view: Transaction, centre: Task, open_tasks: Iterable[Task], steps: int
) -> tuple[list[Task], int]:
    """The tasks within `steps` of the centre, nearest first, and how many do not fit."""
    known = {task.id: task for task in (centre, *open_tasks)}
    following: dict[str, list[str]] = defaultdict(list)
    for task in known.values():
        for name in _neighbour_ids(task):
            following[name].append(task.id)
    found, edge = {centre.id: centre}, [centre.id]
    left_out: set[str] = set()
    for _ in range(steps):
        ahead: list[str] = []
        for name in edge:
            for other in dict.fromkeys((*_neighbour_ids(found[name]), *following[name])):
                near = known.get(other) or view.tasks.get(other)
                if near is None or other in found:
                    continue
                if len(found) >= MAX_DRAWN:
                    left_out.add(other)
                    continue
                found[other] = near
                ahead.append(other)
        edge = ahead
    return list(found.values()), len(left_out - found.keys())


def _boxes_and_lines(view: Transaction, tasks: Sequence[Task]) -> tuple[dict[str, GraphBox], list[GraphLine]]:
    boxes = {task.id: _task_box(task) for task in tasks}
    lines: list[GraphLine] = []
    for task in tasks:
        before = dict.fromkeys((*task.links.depends_on, *task.links.waits_for))
        lines += [GraphLine(name, task.id, WAITS) for name in before if name in boxes]
        decided: set[str] = set()
        if task.rejections.last_rejection is not None and len(boxes) < MAX_DRAWN + len(tasks):
            for box, created in _decisions(view, task):
                boxes[box.id] = box
                lines.append(GraphLine(task.id, box.id, DECIDED))
                lines += [GraphLine(box.id, name, DECIDED) for name in created if name in boxes]
                decided |= {*created}
        children = dict.fromkeys(task.links.children)
        lines += [
            GraphLine(task.id, name, PART) for name in children if name in boxes and name not in decided
        ]
    return boxes, [line for line in dict.fromkeys(lines) if line.source != line.target]


def _task_box(task: Task) -> GraphBox:
    label = f"{task.id[-8:]} · {task.status.value.replace('_', ' ')}"
    return GraphBox(task.id, str(show_text(task.title)) or task.id, label, task.status.value, task.id)


def _decisions(view: Transaction, task: Task) -> Iterator[tuple[GraphBox, tuple[str, ...]]]:
    """The decisions on rejections of a task, each with the tasks it created."""
    _, events = read_task(view, task.id)
    for rejection_view in task_rejections(events):
        if rejection_view.decision is None:
            continue
        kind = rejection_view.decision.decision_type.replace("_", " ").lower()
        title = str(show_text(f"Decided: {kind}. {rejection_view.decision.rationale}".strip()))
        yield (
            GraphBox(
                rejection_view.rejection_id,
                title,
                f"by {rejection_view.decided_by}",
                "",
                task.id,
                is_decision=True,
            ),
            rejection_view.decision.created_tasks,
        )


def _table_rows(boxes: Mapping[str, GraphBox], lines: Iterable[GraphLine]) -> Iterator[GraphRow]:
    to: dict[tuple[str, str], list[GraphBox]] = defaultdict(list)
    made_by: dict[str, list[GraphBox]] = defaultdict(list)
    for line in lines:
        source, target = boxes[line.source], boxes[line.target]
        if line.kind == DECIDED and target.is_decision:
            made_by[source.id].append(target)
        to[line.target, line.kind].append(source)
    for box in boxes.values():
        if not box.is_decision:
            yield GraphRow(
                box,
                tuple(to[box.id, WAITS]),
                (*to[box.id, PART], *to[box.id, DECIDED]),
                tuple(made_by[box.id]),
            )


# --------------------------------------------------------------------------------------------------- drawing


class _Place(NamedTuple):
    """A position in a layer: a box, or a lane for an edge that continues to a later layer."""

    name: str
    is_box: bool


def draw(boxes: Sequence[GraphBox], lines: Sequence[GraphLine]) -> GraphDrawing:
    """Lays out boxes in columns, each to the right of its predecessors; edges that pass a column use lanes of their own."""
    layers = _layers([box.id for box in boxes], lines)
    columns, chains = _columns(layers, lines)
    _order(columns, chains)
    heights = [sum(_height(one) + GAP for one in column) - GAP for column in columns]
    tallest = max(heights, default=0)
    spots: dict[str, tuple[int, int]] = {}
    for number, column in enumerate(columns):
        y = MARGIN + (tallest - heights[number]) // 2
        for place in column:
            spots[place.name] = (MARGIN + number * (BOX_WIDTH + GUTTER), y + _height(place) // 2)
            y += _height(place) + GAP
    drawn = tuple(
        DrawnBox(box, spots[box.id][0], spots[box.id][1] - BOX_HEIGHT // 2, wrap_title(box.title))
        for box in boxes
    )
    width = 2 * MARGIN + max(0, len(columns) * (BOX_WIDTH + GUTTER) - GUTTER)
    paths = tuple(DrawnLine(_path([spots[name] for name in chain]), line.kind) for line, chain in chains)
    return GraphDrawing(drawn, paths, width, tallest + 2 * MARGIN)


def wrap_title(title: str) -> tuple[str, ...]:
    """A title in at most two lines, with an ellipsis if it is cut."""
    return tuple(textwrap.wrap(title, _LINE, max_lines=2, placeholder=" …")) or ("",)


def _height(place: _Place) -> int:
    return BOX_HEIGHT if place.is_box else LANE


def _layers(names: Sequence[str], lines: Iterable[GraphLine]) -> dict[str, int]:
    """The column of each box, after all its predecessors. Each cycle is cut once."""
    after: dict[str, list[str]] = defaultdict(list)
    for line in lines:
        after[line.source].append(line.target)
    done: dict[str, int] = {}
    order: list[str] = []
    ahead: dict[str, list[str]] = defaultdict(list)
    for start in names:
        stack = [] if start in done else [(start, iter(after[start]))]
        done.setdefault(start, 1)
        while stack:
            name, rest = stack[-1]
            other = next(rest, None)
            if other is None:
                done[name] = 2
                order.append(name)
                stack.pop()
            elif done.get(other) != 1:
                ahead[name].append(other)
                if other not in done:
                    done[other] = 1
                    stack.append((other, iter(after[other])))
    layers = dict.fromkeys(names, 0)
    for name in reversed(order):
        for other in ahead[name]:
            layers[other] = max(layers[other], layers[name] + 1)
    return layers


_Chain = tuple[GraphLine, list[str]]


def _columns(
    layers: Mapping[str, int], lines: Iterable[GraphLine]
) -> tuple[list[list[_Place]], list[_Chain]]:
    """The positions of each column, and each edge as the positions it passes."""
    columns: list[list[_Place]] = [[] for _ in range(max(layers.values(), default=-1) + 1)]
    for name, layer in layers.items():
        columns[layer].append(_Place(name, is_box=True))
    chains: list[_Chain] = []
    for number, line in enumerate(lines):
        first, last = layers[line.source], layers[line.target]
        step = 1 if last >= first else -1
        chain = [line.source]
        for layer in range(first + step, last, step):
            columns[layer].append(_Place(f"{number}~{layer}", is_box=False))
            chain.append(f"{number}~{layer}")
        chains.append((line, [*chain, line.target]))
    return columns, chains


def _order(columns: list[list[_Place]], chains: Iterable[_Chain]) -> None:
    """Orders each column by the mean position of its neighbours to reduce crossings."""
    near: dict[str, list[str]] = defaultdict(list)
    for _, chain in chains:
        for one, other in pairwise(chain):
            near[one].append(other)
            near[other].append(one)
    for sweep in range(_SWEEPS):
        place = {one.name: index / len(column) for column in columns for index, one in enumerate(column)}
        for column in columns if sweep % 2 == 0 else reversed(columns):
            ranked = sorted(
                (_mean_place(one.name, near, place), index, one) for index, one in enumerate(column)
            )
            column[:] = [one for _, _, one in ranked]
            place |= {one.name: index / len(column) for index, one in enumerate(column)}


def _mean_place(name: str, near: Mapping[str, Sequence[str]], place: Mapping[str, float]) -> float:
    """The mean position of a place's neighbours; its own position if it has none."""
    others = near.get(name, ())
    return sum(place[other] for other in others) / len(others) if others else place[name]


def _path(spots: Sequence[tuple[int, int]]) -> str:
    """A path through positions: straight across a column, curved between columns."""
    (x, y), parts = spots[0], []
    is_back = len(spots) > 1 and spots[-1][0] <= x
    start = x if is_back else x + BOX_WIDTH
    parts.append(f"M{start} {y}")
    for number, (next_x, next_y) in enumerate(spots[1:], 1):
        enter, leave = (next_x + BOX_WIDTH, next_x) if is_back else (next_x, next_x + BOX_WIDTH)
        middle = (start + enter) // 2
        parts.append(f"C{middle} {y} {middle} {next_y} {enter} {next_y}")
        if number < len(spots) - 1:
            parts.append(f"H{leave}")
        start, y = leave, next_y
    return "".join(parts)


PAGES = (
    WebPage("/graph", "graph.html", "Graph", "graph export", read_graph, nav="Graph", key="h", is_long=True),
)

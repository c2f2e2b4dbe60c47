"""The board: who is working, with their last messages, and the tasks in columns, rejected work first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from remand.app.board import BOARD_ORDER, ActiveWork, BoardAlert, ListedTask, read_task_page
from remand.domain.access.team import Role
from remand.domain.record import NamedTuple
from remand.domain.task import TERMINAL, Priority, Status
from remand.domain.text.words import capitalize_first
from remand.interfaces.http.pages.page import PageQuery, WebPage
from remand.ledger.store import TaskFilter, Transaction
from remand.wiring.scheduler import make_watch

ACTIONS = ("task add",)
IN_COLUMN, IN_LIST = 20, 100
"""How many tasks are shown in a column, and in a column shown alone."""
MAX_COLUMNS = 40
MAX_ALERTS = 5
WAYS = ("status", "agent", "skill")
_ALWAYS = (Status.CLAIMED, Status.INCOMING)
_OPEN = tuple(status.value for status in Status if status not in TERMINAL)


class BoardColumn(NamedTuple):
    """One column or one page of it."""

    label: str
    status: str
    """The status of all its tasks; empty if the columns are agents or skills."""
    number: str
    """The number of tasks, as far as known."""
    tasks: tuple[ListedTask, ...]
    more: str = ""
    """The URL of the remaining tasks; empty if there are none."""


class BoardView(NamedTuple):
    way: str
    columns: tuple[BoardColumn, ...]
    at_work: tuple[ActiveWork, ...]
    alerts: tuple[BoardAlert, ...]
    total: int
    filters: Mapping[str, str]
    agents: tuple[str, ...]
    skills: tuple[str, ...]
    is_alone: bool
    """Whether a single column fills the page."""
    priorities: tuple[str, ...] = tuple(Priority)

    @property
    def summary(self) -> str:
        return f"The board has changed: {len(self.at_work)} at work."


def read_board_page(query: PageQuery) -> BoardView:
    """The board for the given address."""
    now = make_watch(query.opened).board()
    parameters, team = query.address.query, query.rules.team
    way = parameters.get("by", "") if parameters.get("by", "") in WAYS else WAYS[0]
    agents = tuple(sorted(one.name for one in team.members if Role.AGENT in team.actor(one.name).roles))
    skills = tuple(sorted({skill for one in team.members for skill in one.skills}))
    with query.opened.store.read() as view:
        columns = tuple(_columns(query, view, way, agents, skills))
    return BoardView(
        way=way,
        columns=columns,
        at_work=now.at_work,
        alerts=tuple(one for one in now.troubles if one.kind == "system")[:MAX_ALERTS],
        total=sum(now.counts.values()),
        filters={name: parameters.get(name, "") for name in ("agent", "skill", "text", "status")},
        agents=agents,
        skills=skills,
        is_alone=bool(parameters.get("status")),
    )


def _columns(
    query: PageQuery, view: Transaction, way: str, agents: tuple[str, ...], skills: tuple[str, ...]
) -> Iterator[BoardColumn]:
    parameters = query.address.query
    wanted = TaskFilter(
        agent=parameters.get("agent", ""),
        skill=parameters.get("skill", ""),
        text=parameters.get("text", "")[:200],
    )
    counts, alone = view.queue.counts(), parameters.get("status", "")
    if alone in {status.value for status in Status}:
        yield _column(query, view, wanted, capitalize_first(alone), (alone,))
    elif way == "status":
        for (status,) in BOARD_ORDER:
            if counts.get(status.value) or status in _ALWAYS:
                label = capitalize_first(status.value.replace("_", " "))
                yield _column(query, view, wanted, label, (status.value,))
    elif way == "agent":
        for name in agents[:MAX_COLUMNS]:
            yield _column(query, view, _with(wanted, agent=name), name, _OPEN)
    else:
        for name in skills[:MAX_COLUMNS]:
            yield _column(query, view, _with(wanted, skill=name), name, _OPEN)


def _with(wanted: TaskFilter, *, agent: str = "", skill: str = "") -> TaskFilter:
    return TaskFilter(agent=agent or wanted.agent, skill=skill or wanted.skill, text=wanted.text)


def _column(
    query: PageQuery, view: Transaction, wanted: TaskFilter, label: str, statuses: tuple[str, ...]
) -> BoardColumn:
    is_alone = bool(query.address.query.get("status"))
    limit, after = (IN_LIST, query.address.query.get("after", "")) if is_alone else (IN_COLUMN, "")
    chosen = TaskFilter(statuses=statuses, agent=wanted.agent, skill=wanted.skill, text=wanted.text)
    page = read_task_page(view, chosen, limit=limit, after=after)
    status = statuses[0] if len(statuses) == 1 else ""
    is_whole = not (wanted.agent or wanted.skill or wanted.text)
    known = page.counts.get(status, 0) if status and is_whole else len(page.rows)
    more = ""
    if page.after:
        more = query.address.with_values(
            status=status or statuses[0], after=page.after if is_alone else "", by=""
        )
        more = more if status else query.address.with_values(by="", agent=wanted.agent, skill=wanted.skill)
    count = f"{known:,}" if is_whole and status else f"{known:,}{'+' if page.after else ''}"
    return BoardColumn(label, status, count, page.rows, more)


PAGES = (WebPage("/board", "board.html", "Board", "task list", read_board_page, nav="Board", key="b"),)

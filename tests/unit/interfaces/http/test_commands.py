"""Every command of the command line is served over HTTP, or the table says why it is not."""

import io
import re
from types import SimpleNamespace

import pytest

from remand.app.errors import UsageError
from remand.domain.refusals import ENVIRONMENT, MEANINGS
from remand.interfaces.cli.context import CallOrigin, Context, parse_usual
from remand.interfaces.cli.main import command_spec
from remand.interfaces.cli.registry import COMMANDS, CommandCall
from remand.interfaces.http import commands
from remand.interfaces.http.commands import RemoteCommand, cut_page, remote_commands
from remand.interfaces.http.problems import STATUS_OF_REFUSAL, problem_of_answer
from remand.interfaces.http.routes import document


def test_every_command_is_a_query_a_change_or_local_and_never_two_of_these() -> None:
    tables = (commands.QUERIES, commands.CHANGES, set(commands.LOCAL))

    assert set().union(*tables) == set(COMMANDS)
    assert sum(map(len, tables)) == len(COMMANDS)
    assert set(remote_commands()) == commands.QUERIES | commands.CHANGES
    assert set(remote_commands()) >= commands.LONG
    assert set(commands.LOCAL) >= commands.BY_CALLS


def test_every_argument_is_given_by_its_name_or_left_out_on_purpose() -> None:
    for name, command in remote_commands().items():
        declared = {one.dest for one in command_spec(name).arguments}
        offered = {one.argument.dest for one in command.parameters}
        left_out = {dest for at, dest in commands.LEFT_OUT if at == name} | ({"limit", "all"} & declared)

        assert offered | left_out == declared, name
        assert len({one.name for one in command.parameters}) == len(command.parameters), name
    named = {(name, one.dest) for name in remote_commands() for one in command_spec(name).arguments}
    assert named >= commands.LEFT_OUT | set(commands.TEXTS)


PLAIN = """
    acknowledgment again agent alias all alt_task alternative attempted base blocker branch by category checked code commit
    count created_tasks decision depends_on detail drop_depends_on dry_run each evidence expires explain finding format fresh gate
    guidance handoff head holder id instructions label limit member message must_pass name observed option original_scope path pr priority
    range rationale reason reassign_to result review reviewer role scope scope_growth sessions since skill skills source starts status
    suggestion summary task text timeout title to token_id until
"""
"""Names of values that are no more than a value. `timeout` has an end on a server; `path` is one inside a commit."""
INSIDE_A_COMMIT = {
    ("review diff", "path"),
    ("review approve", "checked"),
    ("review reject", "finding"),
    ("review reject", "suggestion"),
}
MARKS = re.compile(
    r"\bfiles?\b|\bfolders?\b|\bdirector(y|ies)\b|\bpath\b|\bwrites?\b|\bfollow\b|\binterrupted\b|\bfor good\b|\bshell\b",
    re.IGNORECASE,
)


def test_every_argument_that_is_about_the_machine_is_left_out_or_given_as_a_text() -> None:
    """A new argument is looked at here: does it have a file read or written, a program run, or never end?"""
    settled = commands.LEFT_OUT | set(commands.TEXTS)
    for name in (*remote_commands(), *commands.BY_CALLS):
        for one in command_spec(name).arguments:
            if (name, one.dest) in settled or "choices" in one.options:
                continue
            assert one.dest in PLAIN.split() or name in commands.BY_CALLS, (
                f"{name} {one.names}: what does it do to a server?"
            )
            text = one.help.replace("@file", "")  # `Context.text` reads no file on a server
            said = f"{text} {one.options.get('metavar', '')} {' '.join(one.names)}"
            assert not MARKS.search(said) or (name, one.dest) in INSIDE_A_COMMIT, (
                f"{name} {one.names}: {said}"
            )


@pytest.mark.parametrize(("name", "dest"), sorted(commands.LEFT_OUT))
def test_what_is_left_out_is_refused_however_it_was_given(name: str, dest: str) -> None:
    spec = command_spec(name)
    values = {one.dest: one.default for one in spec.arguments}
    commands.require_served(name, SimpleNamespace(**values))
    given = SimpleNamespace(**values | {dest: True})

    with pytest.raises(UsageError, match="on a server"):
        commands.require_served(name, given)
    origin = CallOrigin("/nowhere", {}, io.StringIO(), io.StringIO(), given="")
    with pytest.raises(UsageError, match="own machine"):
        spec.run(Context(CommandCall(name, []), given, origin))


@pytest.mark.parametrize(
    ("name", "body", "words"),
    [
        ("task add", b'{"title": "Roof"}', ["Roof"]),
        ("task add", b'{"title": "Roof", "skills": ["a", "b"]}', ["Roof", "--skills", "a,b"]),
        ("task add", b'{"title": "R", "depends_on": ["A", "B"]}', ["R", "--depends-on", "A", "B"]),
        ("task add", b'{"title": "R", "alias": ["#1"], "priority": "high"}', ["R", "--alias", "#1", "--priority", "high"]),
        ("task claim", b'{"agent": "Ann"}', ["--agent", "Ann"]),
        ("task claim", b"", []),
        ("task edit", b'{"id": "T", "pr": 7}', ["T", "--pr", "7"]),
        ("task wait", b'{"id": "T", "for": "rain"}', ["T", "--for", "rain"]),
        ("handoff initiate", b'{"task": "T", "to": "A", "from": "B"}', ["T", "--to", "A", "--from", "B"]),
        ("handoff reject", b'{"handoff": "H", "scope_growth": 5}', ["H", "--scope-growth", "5"]),
        ("handoff reject", b'{"handoff": "H", "evidence": [{"type": "x"}]}', ["H", "--evidence", '{"type": "x"}']),
        ("handoff reject", b'{"handoff": "H", "reason": "SCOPE_CREEP"}', ["H", "--reason", "SCOPE_CREEP"]),
    ],
)  # fmt: skip
def test_a_body_says_what_the_words_of_the_command_line_say(name: str, body: bytes, words: list[str]) -> None:
    values, _ = RemoteCommand(name).read_body(body)

    assert values == parse_usual(command_spec(name).arguments, words)


def test_a_query_says_it_as_well() -> None:
    values, _, page = RemoteCommand("task list").read_query(
        b"status=done&status=claimed&sessions=true&limit=2"
    )

    assert values == SimpleNamespace(
        status=["done", "claimed"], holder="", skill="", text="", sessions=True, limit=50, all=False
    )
    assert page == {"limit": "2"}


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("task add", b"{}"),
        ("task add", b"[]"),
        ("task add", b"no json"),
        ("task add", b'{"title": 1}'),
        ("task add", b'{"title": "a", "other": 1}'),
        ("task add", b'{"title": "a\\u0000b"}'),
        ("task add", b'{"title": "\\ud800"}'),
        ("task add", b'{"title": "a", "priority": "huge"}'),
        ("handoff reject", b'{"handoff": "H", "reason": "NONSENSE"}'),
        ("handoff reject", b'{"handoff": "H", "evidence": [{"a": ["\\u0000"]}]}'),
        ("task add", b"[" * 100_000),
    ],
)
def test_a_body_that_does_not_fit_is_refused(name: str, body: bytes) -> None:
    with pytest.raises(UsageError):
        RemoteCommand(name).read_body(body)


@pytest.mark.parametrize(
    "query",
    [b"", b"id=a&id=b", b"id=a&x=1", b"id=%ff", b"id=\xff", b"&".join([b"id=a"] * 300), b"id=a%00"],
    ids=range(7),
)
def test_a_query_that_does_not_fit_is_refused(query: bytes) -> None:
    with pytest.raises(UsageError):
        RemoteCommand("task show").read_query(query)


def test_the_text_of_a_file_is_given_in_its_place() -> None:
    values, text = RemoteCommand("handoff reject").read_body(b'{"handoff": "H", "record": {"a": 1}}')

    assert (values.source, text) == ("-", '{"a": 1}')


def test_pages_end_where_the_next_begins_whatever_came_before_meanwhile() -> None:
    rows = [{"task_id": number} for number in range(10)]
    first, after = cut_page(rows, {"limit": "4"})
    second, end = cut_page([{"task_id": "new"}, *rows], {"limit": "4", "after": after})

    assert (first, second) == (rows[:4], rows[4:8])
    assert cut_page([{"task_id": "new"}, *rows], {"after": end}) == (rows[8:], "")
    assert cut_page(rows, {"limit": "10"}) == (rows, "")
    assert cut_page([], {"limit": "10", "after": after}) == ([], "")
    for page in ({"limit": "0"}, {"limit": "-1"}, {"limit": "99999"}, {"after": "3"}, {"after": "x-y"}):
        with pytest.raises(UsageError):
            cut_page(rows, page)


def test_every_refusal_has_a_status_that_says_whose_turn_it_is() -> None:
    assert set(STATUS_OF_REFUSAL) <= set(MEANINGS)
    assert {code for code, status in STATUS_OF_REFUSAL.items() if status == 503} == ENVIRONMENT
    for code in MEANINGS:
        problem = problem_of_answer({"refused": code, "message": "no", "issues": [1], "status": "claimed"})
        assert problem is not None
        assert 400 <= problem["status"] < 600
        assert problem["task_status"] == "claimed"
        assert (problem["code"], problem["detail"], problem["issues"]) == (code, "no", [1])
    for data in ([], {"task_id": "T"}, "text", {"status": "failed"}):
        assert problem_of_answer(data) is None


def test_the_description_has_every_route_and_no_open_end() -> None:
    described = document()

    found = {(path, method) for path, methods in described["paths"].items() for method in methods}
    assert found >= {(one.path, one.method.lower()) for one in remote_commands().values()}
    assert described["openapi"].startswith("3.1.")
    names = [one["operationId"] for methods in described["paths"].values() for one in methods.values()]
    assert len(set(names)) == len(names)

"""The ledger's tables in PostgreSQL, and the translation of the embedded ledger's statements."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import Any

from remand.adapters.stores import shared_data
from remand.adapters.stores import sqlite_schema as sql
from remand.adapters.stores.sqlite_audit import DROP_GROUP, DROP_GROUP_TASKS
from remand.adapters.stores.sqlite_events import ADD_GROUP_TASK

SCHEMA_NAME = "remand"

_TABLES = """
CREATE TABLE trace(
    event TEXT NOT NULL, ts TEXT NOT NULL, session TEXT NOT NULL, seq BIGINT NOT NULL, task TEXT NOT NULL,
    handoff TEXT NOT NULL, agent TEXT NOT NULL, rejection TEXT NOT NULL, said TEXT NOT NULL, text TEXT NOT NULL,
    n IDENTITY
);
CREATE INDEX trace_answer ON trace(rejection, ts) WHERE event = 'handoff.reject.response';
CREATE INDEX trace_wake ON trace(task, ts) WHERE event = 'task.wake';
CREATE INDEX trace_rejecter ON trace(agent, ts) WHERE event IN ('handoff.reject', 'handoff.reject.invalid');
CREATE INDEX trace_reformulated ON trace(text) WHERE event = 'handoff.reject.response' AND said = 'ACCEPT_AND_REFORMULATE';
CREATE TABLE rejected(n BIGINT PRIMARY KEY, words TEXT[] NOT NULL);
CREATE INDEX rejected_words ON rejected USING gin(words);
CREATE TABLE rejected_word(word TEXT PRIMARY KEY, tasks BIGINT NOT NULL);
CREATE TABLE unconfirmed(
    n BIGINT PRIMARY KEY, id TEXT NOT NULL, task TEXT NOT NULL, signer TEXT NOT NULL, doubt TEXT NOT NULL
);
CREATE INDEX unconfirmed_task ON unconfirmed(task);
CREATE TABLE objection(
    n BIGINT PRIMARY KEY, task TEXT NOT NULL, signer TEXT NOT NULL, work TEXT NOT NULL, at TEXT NOT NULL
);
CREATE INDEX objection_task ON objection(task, signer, work, at);
CREATE TABLE ledger(key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE head(
    session TEXT PRIMARY KEY, seq BIGINT NOT NULL, tip TEXT NOT NULL, clock TEXT NOT NULL, segment TEXT NOT NULL,
    first BIGINT NOT NULL, size BIGINT NOT NULL, inode BIGINT NOT NULL, changed BIGINT NOT NULL, chain TEXT NOT NULL,
    key TEXT NOT NULL, project TEXT NOT NULL, bounded_from TEXT NOT NULL
) WITH (fillfactor = 50);
CREATE TABLE signed_group(
    n IDENTITY, session TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, hash BYTEA NOT NULL,
    doubt TEXT NOT NULL, line BYTEA NOT NULL
);
CREATE UNIQUE INDEX signed_group_place ON signed_group(session, first, hash);
CREATE INDEX signed_group_wrong ON signed_group(session) WHERE doubt = 'wrong_signature';
CREATE TABLE group_task(task TEXT NOT NULL, n BIGINT NOT NULL, PRIMARY KEY (task, n));
CREATE TABLE missing(
    session TEXT NOT NULL, first BIGINT NOT NULL, last BIGINT NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL,
    until TEXT NOT NULL, is_fault BOOLEAN NOT NULL DEFAULT false, PRIMARY KEY (session, first, id)
);
CREATE INDEX missing_id ON missing(id);
CREATE INDEX missing_task ON missing(task);
CREATE TABLE rewritten(
    commit_id TEXT NOT NULL, file TEXT NOT NULL, line BIGINT NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (file, line, hash, commit_id)
);
CREATE TABLE session(number IDENTITY, name TEXT NOT NULL, fork BIGINT NOT NULL, UNIQUE (name, fork));
CREATE TABLE event(n BIGINT PRIMARY KEY, subject TEXT NOT NULL, key TEXT NOT NULL, line BYTEA NOT NULL);
CREATE INDEX event_subject ON event(subject) WHERE subject != '';
CREATE INDEX event_key ON event(key) WHERE key != '';
CREATE TABLE unnumbered(id TEXT PRIMARY KEY);
CREATE TABLE task(
    n IDENTITY, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, due_at TEXT,
    rank TEXT, line TEXT, barred TEXT NOT NULL DEFAULT '', state JSON NOT NULL, marks BIGINT NOT NULL DEFAULT 0,
    at TEXT NOT NULL DEFAULT ''
) WITH (fillfactor = 70);
CREATE INDEX task_due ON task(due_at) WHERE due_at IS NOT NULL;
CREATE INDEX task_escalated ON task(id) WHERE status = 'escalated';
CREATE INDEX task_active ON task(status, id) WHERE status IN ('blocked', 'claimed', 'failed', 'provisional', 'rejected');
CREATE INDEX task_running ON task(id) WHERE marks & 1;
CREATE INDEX task_sent_back ON task(id) WHERE marks & 2;
CREATE INDEX task_outages ON task(id) WHERE marks & 4;
CREATE INDEX task_commit ON task((state #>> '{submission,commit}')) WHERE marks & 8;
CREATE INDEX task_pr ON task(((state ->> 'pr')::bigint)) WHERE marks & 16;
CREATE INDEX task_rank ON task(rank) WHERE rank IS NOT NULL;
CREATE INDEX task_line ON task(line, (barred != ''), rank) WHERE rank IS NOT NULL;
CREATE TABLE alias(alias TEXT, task TEXT, PRIMARY KEY (alias, task));
CREATE TABLE handoff(id TEXT PRIMARY KEY, task TEXT NOT NULL);
CREATE TABLE file(path TEXT PRIMARY KEY, size BIGINT NOT NULL, mtime BIGINT NOT NULL, inode BIGINT NOT NULL);
CREATE TABLE problem(file TEXT NOT NULL, line BIGINT NOT NULL, problem TEXT NOT NULL);
CREATE INDEX problem_file ON problem(file);
CREATE TABLE quarantine(id TEXT PRIMARY KEY, ts TEXT NOT NULL, line BYTEA NOT NULL);
CREATE TABLE outdated(task TEXT PRIMARY KEY);
CREATE TABLE log_line(task TEXT NOT NULL, place TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (task, place));
CREATE INDEX log_line_place ON log_line(place);
CREATE TABLE errand(errand TEXT NOT NULL, task TEXT NOT NULL, PRIMARY KEY (errand, task));
CREATE TABLE name(key TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (key, name));
CREATE TABLE node(n IDENTITY, task TEXT NOT NULL UNIQUE, position BIGINT);
CREATE TABLE blocker(task BIGINT NOT NULL, blocker BIGINT NOT NULL, is_void BOOLEAN NOT NULL DEFAULT false, PRIMARY KEY (task, blocker));
CREATE INDEX blocker_of ON blocker(blocker, task, is_void);
CREATE INDEX blocker_void ON blocker(task) WHERE is_void;
CREATE TABLE opening(agent TEXT NOT NULL, line TEXT NOT NULL, rank TEXT NOT NULL, PRIMARY KEY (agent, line, rank));
"""

LOCK_OF_TABLES, LOCK_OF_GRAPH, LOCK_OF_OPENINGS = 0x52454D414E44, 0x52454D414E45, 0x52454D414E47
"""Advisory locks: for creating tables, for the graph of dependencies, and for who takes the first tasks of a line."""
LOCK_OF_COUNTS = 0x52454D414E49
"""The advisory lock for adding up how many tasks have each status."""
LOCK_OF_CHANGES = 0x52454D414E48
"""The advisory lock that every change shares, and that a change which fences the others holds exclusively."""
SHARE_CHANGES = f"SELECT pg_advisory_xact_lock_shared({LOCK_OF_CHANGES})"
LOCK_CHANGES = f"SELECT pg_advisory_xact_lock({LOCK_OF_CHANGES})"
SETTINGS = f"""
SET search_path = {SCHEMA_NAME}; SET synchronous_commit = on; SET jit = off; SET client_min_messages = warning;
SET idle_in_transaction_session_timeout = '5min'
"""
"""The settings of every connection. A process that hangs inside a change must not lock its tasks for ever."""

_UPSERTS = {
    "file": ("path", "size mtime inode"),
    "ledger": ("key", "value"),
    "missing": ("session, first, id", "last task until is_fault"),
    "rewritten": ("file, line, hash, commit_id", ""),
    "unconfirmed": ("n", "id task signer doubt"),
    "objection": ("n", "task signer work at"),
    "log_line": ("task, place", "text"),
    "task_text": ("task", "text skills"),
    "blocker": ("task, blocker", "is_void"),
}
"""The key columns of a table, and its other columns."""

PAGE_LIMIT = "LIMIT nullif("
"""What a statement has that reads a page: -1 is the embedded ledger's word for all rows."""
_AGENT = "(state #>> CASE status WHEN 'claimed' THEN '{claim,agent}'::text[] ELSE '{submission,agent}'::text[] END)"
"""The agent that holds a task."""
_SUBSTITUTIONS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(pattern), by)
    for pattern, by in (
        (r"CAST\((\w+) AS BLOB\)", r"\1"),
        (r" INDEXED BY \w+| NOT INDEXED", ""),
        (r"\bifnull\(", "coalesce("),
        (r"\binstr\(", "strpos("),
        (r"CROSS JOIN (task(?:_text)?) ON", r"JOIN \1 ON"),
        (
            r"json_extract\(state, CASE status WHEN 'claimed' THEN '\$.claim.agent' ELSE '\$.submission.agent' END\)",
            _AGENT,
        ),
        (r"marks & (\d+)", r"(marks & \1) != 0"),
        (r"\(barred != ''\) = 1", "(barred != '')"),
        (r"substr\(id, -length\((\?\d*)\)\)", r"right(id, length(\1))"),
        (
            r"json_each\((\?\d*)\) AS asked CROSS JOIN",
            r"jsonb_array_elements_text(\1::jsonb) AS asked(value) JOIN",
        ),
        (r" ON (n|task|blocker) = asked\.value", r" ON \1 = asked.value::bigint"),
        (r"SELECT value FROM json_each\((\?\d*)\)", r"SELECT jsonb_array_elements_text(\1::jsonb)"),
        (
            r"\b(n|first) IN \(SELECT jsonb_array_elements_text\((\?\d*)::jsonb\)\)",
            r"\1 IN (SELECT jsonb_array_elements_text(\2::jsonb)::bigint)",
        ),
        (r"LIMIT (\?\d*)", rf"{PAGE_LIMIT}\1, -1)"),
        (r"hex\(randomblob\(8\)\)", "md5(random()::text)"),
        (r" AND typeof\(\w+\) = 'integer'", ""),
        (
            r"SELECT \* FROM trace",
            "SELECT event, ts, session, seq, task, handoff, agent, rejection, said, text FROM trace",
        ),
        (r"\browid\b", "n"),
        (r"\(SELECT session FROM head\)", "ANY (SELECT session FROM head)"),
        (r"BLOB\b", "BYTEA"),
    )
)
_HEAD_FIELDS = (
    "session, seq, tip, clock, segment, first, size, inode, changed, chain, key, project, bounded_from"
)
GET_HEAD = f"SELECT {_HEAD_FIELDS} FROM head WHERE session = $1"  # noqa: S608 - fixed text
ADD_HEAD = f"""
INSERT INTO head({_HEAD_FIELDS}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13) ON CONFLICT DO NOTHING
"""  # noqa: S608 - fixed text
MOVE_HEAD = f"""
UPDATE head SET ({_HEAD_FIELDS}) = ROW($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)
WHERE session = $14 AND seq = $15 AND tip = $16 AND changed = $17
"""  # noqa: S608 - fixed text
_MOVED = f"{MOVE_HEAD} RETURNING 1"
_COUNT_MOVED = "SELECT 1 / count(*) FROM moved"
MUST_MOVE_HEAD = f"WITH moved AS ({_MOVED}) {_COUNT_MOVED}"
"""Fails by a division by zero unless the session is where it must be, so that the following commit does not run."""
LOCK_HEADS = "LOCK TABLE head IN EXCLUSIVE MODE"
FENCE_HEADS = "UPDATE head SET changed = changed + 1"
FENCE_HEAD = f"{FENCE_HEADS} WHERE session = %s"
"""Makes every session's next change fail, so that its process reads the ledger again."""
_OWN: dict[str, str] = {
    sql.COUNTS: "SELECT status, sum(tasks)::bigint FROM status_count GROUP BY status HAVING sum(tasks) != 0",
    sql.COUNT_STATUS: "SELECT coalesce(sum(tasks), 0)::bigint FROM status_count WHERE status = $1",
    sql.ADD_MISSING: "INSERT INTO missing VALUES ($1, $2, $3, $4, $5, $6, false) "
    "ON CONFLICT (session, first, id) DO UPDATE SET last = excluded.last, task = excluded.task, until = excluded.until",
    sql.HAVING_WORD: "SELECT n FROM rejected WHERE words @> ARRAY[trim(both '\"' from $1)] ORDER BY n DESC LIMIT $2",
    sql.ADD_REJECTED: "INSERT INTO rejected VALUES ($1, string_to_array($2, ' '))",
    sql.DROP_ALL_REJECTED: "DELETE FROM rejected",
    sql.ADD_WORD: "INSERT INTO rejected_word VALUES ($1, 1) ON CONFLICT (word) DO UPDATE SET tasks = rejected_word.tasks + 1",
    sql.COUNT_ALL_WORDS: "INSERT INTO rejected_word SELECT word, count(DISTINCT n) FROM rejected, unnest(words) AS word "
    "GROUP BY word UNION ALL SELECT '', count(*) FROM rejected",
    sql.WORD_COUNTS: "SELECT word, tasks FROM rejected_word WHERE tasks != 0 AND word IN (SELECT jsonb_array_elements_text($1::jsonb))",
    sql.HANDED_IN: "SELECT state FROM task WHERE marks & 8 AND state #>> '{submission,commit}' = $1 "
    "OR marks & 16 AND (state ->> 'pr')::bigint = $2::bigint",
    sql.ADD_TASK: "INSERT INTO task(id, status, due_at, rank, line, barred, state, marks, at) "
    "VALUES ($1, $2, $3, $4, $5, $6, $7::json, $8, $9)",
    sql.CHANGE_TASK: "UPDATE task SET status = $2, due_at = $3, rank = $4, line = $5, barred = $6, state = $7::json, marks = $8, "
    "at = greatest(at, $9) WHERE id = $1",
}
"""Statements that the general translation rules do not cover."""


@lru_cache(maxsize=1024)
def translate(statement: str) -> str:
    """Translates a statement of the embedded ledger into PostgreSQL's dialect, with `$1` for its values."""
    text = _OWN.get(statement, statement)
    for pattern, by in _SUBSTITUTIONS:
        text = pattern.sub(by, text)
    return _number_values(_translate_insert(text))


def _translate_insert(text: str) -> str:
    text = text.strip()
    if text.startswith("INSERT OR IGNORE "):
        return f"INSERT {text.removeprefix('INSERT OR IGNORE ')} ON CONFLICT DO NOTHING"
    for start in ("REPLACE INTO ", "INSERT OR REPLACE INTO "):
        if text.startswith(start):
            table = re.split(r"\W", text.removeprefix(start), maxsplit=1)[0]
            keys, others = _UPSERTS[table]
            changes = ", ".join(f"{name} = excluded.{name}" for name in others.split())
            then = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
            return f"INSERT INTO {text.removeprefix(start)} ON CONFLICT ({keys}) {then}"
    return text


def _number_values(text: str) -> str:
    if "$1" in text:
        return text
    count = 0

    def number(found: re.Match[str]) -> str:
        nonlocal count
        count += 1
        return f"${found.group(1) or count}"

    return re.sub(r"\?(\d*)", number, text)


def _schema(tables: str) -> str:
    """The tables, in which texts compare by their bytes, as in SQLite."""
    text = re.sub(r"\bTEXT\b(?!\[)", 'TEXT COLLATE "C"', tables)
    text = text.replace("IDENTITY", "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY")
    return re.sub(r"marks & (\d+)", r"(marks & \1) != 0", text)


_LIST_TABLES = """
DROP INDEX IF EXISTS task_escalated, task_active;
CREATE INDEX IF NOT EXISTS task_status ON task(status, id);
CREATE INDEX IF NOT EXISTS task_waiting ON task(id) WHERE marks & 32;
CREATE TABLE IF NOT EXISTS task_text(task TEXT PRIMARY KEY, text TEXT NOT NULL, skills TEXT NOT NULL);
UPDATE ledger SET value = '' WHERE key = 'trust';
"""
"""The columns and indexes for pages of tasks. Clearing the trust makes the ledger fold every task at its next use."""
DROP_COUNTS = "DELETE FROM status_count"
COUNT_AGAIN = "INSERT INTO status_count SELECT status, count(*) FROM task GROUP BY status"
_PAGE_TABLES = f"""
CREATE INDEX task_agent ON task({_AGENT}, status, id) WHERE status IN ('claimed', 'provisional');
CREATE TABLE status_count(status TEXT NOT NULL, tasks BIGINT NOT NULL);
{COUNT_AGAIN};
CREATE FUNCTION count_statuses() RETURNS trigger LANGUAGE plpgsql SET search_path = {SCHEMA_NAME} AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        INSERT INTO status_count SELECT status, count(*) FROM new_task GROUP BY status;
    ELSIF TG_OP = 'DELETE' THEN
        INSERT INTO status_count SELECT status, -count(*) FROM old_task GROUP BY status;
    ELSE
        INSERT INTO status_count SELECT status, sum(n)
        FROM (SELECT status, 1 AS n FROM new_task UNION ALL SELECT status, -1 FROM old_task) AS moved
        GROUP BY status HAVING sum(n) != 0;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER count_new AFTER INSERT ON task
    REFERENCING NEW TABLE AS new_task EXECUTE FUNCTION count_statuses();
CREATE TRIGGER count_changed AFTER UPDATE ON task
    REFERENCING OLD TABLE AS old_task NEW TABLE AS new_task EXECUTE FUNCTION count_statuses();
CREATE TRIGGER count_gone AFTER DELETE ON task
    REFERENCING OLD TABLE AS old_task EXECUTE FUNCTION count_statuses();
"""  # noqa: S608 - fixed text
"""How many tasks each status has, as a sum of rows: a change adds rows, so that no two wait for each other.

The database counts itself, because processes of an older version may still write.
"""
MIGRATIONS: tuple[str, ...] = (
    _schema(_TABLES),
    _schema(shared_data.TABLE),
    _schema(_LIST_TABLES),
    _schema(_PAGE_TABLES),
    sql.LOG_TRACE_INDEX,
)
"""The steps from each version to the next, starting from none. A released step is never changed."""
VERSION = len(MIGRATIONS)

LOCK_TASKS = """
SELECT id, state, at FROM task
WHERE id = ANY ($1::text[]) OR id IN (SELECT task FROM handoff WHERE id = ANY ($2::text[]))
OR id IN (SELECT task FROM alias WHERE alias = ANY ($3::text[])) ORDER BY id FOR UPDATE
"""
LOCK_TASK = "SELECT state, at FROM task WHERE id = $1 FOR UPDATE"
TRY_TASK = f"{LOCK_TASK} NOWAIT"
LOCK_NAMES = (
    "SELECT pg_advisory_xact_lock(name) FROM (SELECT unnest($1::bigint[]) AS name ORDER BY 1) AS names"
)
LATEST_CLOCK = "SELECT max(clock) FROM head"
LOCK_READY = """
SELECT id, state, at FROM task WHERE id = ANY ($1::text[]) AND rank IS NOT NULL ORDER BY rank LIMIT $2 FOR UPDATE
"""
TRY_READY = f"{LOCK_READY} SKIP LOCKED"
TAKE_READY = """
WITH head AS MATERIALIZED (
    SELECT rank, line, barred FROM task WHERE rank IS NOT NULL ORDER BY rank LIMIT $1::bigint + 32
)
SELECT id, state, at, line, barred FROM task
WHERE rank IS NOT NULL AND rank <= (SELECT max(rank) FROM head)
AND rank < coalesce((SELECT min(rank) FROM head WHERE line != $2 OR barred != ''), '~')
ORDER BY rank LIMIT $1 FOR UPDATE SKIP LOCKED
"""
"""Locks tasks at the head of the queue that any agent may take, up to the first that not all may."""
TRY_DUE = "SELECT id, state, at FROM task WHERE due_at <= $1 ORDER BY due_at LIMIT 100 FOR UPDATE SKIP LOCKED"
HEADS_WITH_KEY = "SELECT session FROM head WHERE key = $1 ORDER BY clock DESC LIMIT 64"
RESTART_NUMBERS = (
    "SELECT setval(pg_get_serial_sequence('task', 'n'), (SELECT coalesce(max(n), 0) + 1 FROM task), false)"
)
LINE_OF = """
SELECT line FROM event WHERE n = (SELECT (number << 40) | %s::bigint FROM session WHERE name = %s AND fork = 0)
"""
HEAD_OF_QUEUE = "SELECT rank, line, barred FROM task WHERE rank IS NOT NULL ORDER BY rank LIMIT $1"
POOL_OF_TASK = "SELECT line, barred FROM task WHERE id = $1"
EVENTS_OF_TASKS = "SELECT subject, line FROM event WHERE subject = ANY ($1::text[]) AND subject != ''"
GROUPS_OF_TASKS = """
SELECT task, n, hash, doubt FROM group_task JOIN signed_group USING (n) WHERE task = ANY ($1::text[])
ORDER BY session, first
"""
_ADD_GROUP = """
INSERT INTO signed_group(session, first, last, hash, doubt, line) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (session, first, hash) DO UPDATE SET doubt = excluded.doubt RETURNING n
"""
_NAME_TASKS = (
    "INSERT INTO group_task SELECT task, n FROM added, unnest($7::text[]) AS task ON CONFLICT DO NOTHING"
)
ADD_GROUP = f"WITH added AS ({_ADD_GROUP}) {_NAME_TASKS}"
GROUPS_AT = "SELECT n, line, doubt FROM signed_group WHERE n = ANY ($1::bigint[])"
TASKS_OF_HANDOFFS = "SELECT id, task FROM handoff WHERE id = ANY ($1::text[])"
LOCKS = frozenset(
    {
        LOCK_TASKS,
        LOCK_TASK,
        TRY_TASK,
        LOCK_NAMES,
        LATEST_CLOCK,
        LOCK_READY,
        TRY_READY,
        TRY_DUE,
        HEAD_OF_QUEUE,
        POOL_OF_TASK,
        GROUPS_OF_TASKS,
        GROUPS_AT,
    }
)
"""Statements whose result does not depend on new events."""
CHANGE_TASKS = """
UPDATE task SET status = new.status, due_at = new.due_at, rank = new.rank, line = new.line, barred = new.barred,
    state = new.state::json, marks = new.marks, at = greatest(task.at, new.at)
FROM unnest(
    $1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[], $8::bigint[], $9::text[]
) AS new(id, status, due_at, rank, line, barred, state, marks, at) WHERE task.id = new.id
"""
SUM_COUNTS = """
WITH every AS (DELETE FROM status_count WHERE pg_try_advisory_xact_lock($1) RETURNING status, tasks)
INSERT INTO status_count SELECT status, sum(tasks) FROM every GROUP BY status HAVING sum(tasks) != 0
"""
"""Replaces the rows that count by one for each status, unless another process does so now."""
AT_ONCE = {
    sql.BULK_TASK: (
        "ntttttttn",
        """INSERT INTO task(n, id, status, due_at, rank, line, barred, state, marks)
        SELECT n, id, status, due_at, rank, line, barred, state::json, marks FROM unnest($1, $2, $3, $4, $5, $6, $7, $8, $9)
        AS new(n, id, status, due_at, rank, line, barred, state, marks)""",
    ),
    sql.ADD_EVENT: ("nttb", "INSERT INTO event SELECT * FROM unnest($1, $2, $3, $4)"),
    sql.ADD_HANDOFF: ("tt", "INSERT INTO handoff SELECT * FROM unnest($1, $2)"),
    sql.ADD_NAME: ("tt", "INSERT INTO name SELECT * FROM unnest($1, $2)"),
    ADD_GROUP_TASK: ("tn", "INSERT INTO group_task SELECT * FROM unnest($1, $2)"),
}
"""Statements that run for many rows at once, with the types of their columns: texts, numbers, bytes."""
_PARTS = {
    ADD_GROUP: f"added AS ({_ADD_GROUP}), named AS ({_NAME_TASKS})",
    CHANGE_TASKS: f"changed AS ({CHANGE_TASKS})",
    AT_ONCE[sql.ADD_EVENT][1]: f"event_added AS ({AT_ONCE[sql.ADD_EVENT][1]})",
    AT_ONCE[sql.ADD_HANDOFF][1]: f"handoff_added AS ({AT_ONCE[sql.ADD_HANDOFF][1]})",
    MUST_MOVE_HEAD: f"moved AS ({_MOVED})",
}
"""Writes that do not depend on one another, as parts of one statement."""
MISSING_CHANGES = frozenset({sql.ADD_MISSING, sql.DROP_MISSING, sql.DROP_MISSING_OF_SESSION})
EVENT_CHANGES = frozenset({sql.CHANGE_EVENT, sql.DROP_EVENT, sql.DROP_LINE, DROP_GROUP, DROP_GROUP_TASKS})
_READS_TASKS = re.compile(r"\b(?:FROM|JOIN|INTO|UPDATE) task\b|\btask\.")
_UNCHANGED = frozenset({LOCK_TASKS, LOCK_TASK, TRY_TASK, sql.ADD_TASK})


@lru_cache(maxsize=1024)
def reads_tasks(statement: str) -> bool:
    """True if a statement depends on rows of tasks that a change has written."""
    return statement not in _UNCHANGED and _READS_TASKS.search(statement) is not None


Write = tuple[str, Sequence[Any]]
"""A statement without a result, and its values."""


def join_writes(writes: Sequence[Write]) -> Iterator[Write]:
    """The same writes in fewer statements: each of them costs as much time as its rows."""
    for is_part, some in groupby(writes, lambda write: write[0] in _PARTS):
        left = list(some)
        if not is_part or len(left) == 1 or len({text for text, _ in left}) < len(left):
            yield from left
        else:
            counts = tuple([(text, len(values)) for text, values in left])
            yield _one_statement(counts), [value for _, values in left for value in values]


@lru_cache(maxsize=64)
def _one_statement(parts: tuple[tuple[str, int], ...]) -> str:
    """One statement out of several, given how many values each has."""
    found, start = [], 0
    for text, count in parts:
        found.append(_VALUE.sub(partial(_shift, start), _PARTS[text]))
        start += count
    has_head = any(text == MUST_MOVE_HEAD for text, _ in parts)
    return f"WITH {', '.join(found)} {_COUNT_MOVED if has_head else 'SELECT 1'}"


def _shift(by: int, value: re.Match[str]) -> str:
    return f"${int(value[1]) + by}"


_VALUE = re.compile(r"\$(\d+)")

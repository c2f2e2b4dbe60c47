"""The tables of an embedded ledger, every statement on them by name, and how statements are run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import apsw

from remand.ledger.event_tables import MAX_OBJECTIONS

TRACE_TABLE = """
CREATE TABLE trace(
    event TEXT NOT NULL, ts TEXT NOT NULL, session TEXT NOT NULL, seq INTEGER NOT NULL, task TEXT NOT NULL,
    handoff TEXT NOT NULL, agent TEXT NOT NULL, rejection TEXT NOT NULL, said TEXT NOT NULL, text TEXT NOT NULL
);
CREATE INDEX trace_answer ON trace(rejection, said = 'OVERRIDE', ts, session, seq)
WHERE event = 'handoff.reject.response';
CREATE INDEX trace_wake ON trace(task, ts) WHERE event = 'task.wake';
"""
_IS_OF_LOG = "event IN ('log.repair', 'log.archive')"
LOG_TRACE_INDEX = f"CREATE INDEX IF NOT EXISTS trace_log ON trace(event) WHERE {_IS_OF_LOG};"
REJECTED_TABLES = """
CREATE VIRTUAL TABLE rejected USING fts5(words, content='', contentless_delete=1, detail=none, tokenize='ascii');
CREATE VIRTUAL TABLE rejected_vocabulary USING fts5vocab(rejected, 'row');
CREATE TABLE rejected_word(word TEXT PRIMARY KEY, tasks INTEGER NOT NULL) WITHOUT ROWID;
CREATE INDEX trace_rejecter ON trace(agent, ts) WHERE event IN ('handoff.reject', 'handoff.reject.invalid');
"""

UNCONFIRMED_TABLE = """
CREATE TABLE unconfirmed(
    n INTEGER PRIMARY KEY, id TEXT NOT NULL, task TEXT NOT NULL, signer TEXT NOT NULL, doubt TEXT NOT NULL
);
CREATE INDEX unconfirmed_task ON unconfirmed(task);
"""

OBJECTION_TABLE = """
CREATE TABLE objection(
    n INTEGER PRIMARY KEY, task TEXT NOT NULL, signer TEXT NOT NULL, work TEXT NOT NULL, at TEXT NOT NULL
);
CREATE INDEX objection_task ON objection(task, signer, work, at);
CREATE INDEX objection_work ON objection(task, work, signer, at);
"""

GROUP_TABLE = """
CREATE TABLE signed_group(
    n INTEGER PRIMARY KEY, session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, hash BLOB NOT NULL,
    doubt TEXT NOT NULL, line BLOB NOT NULL
);
CREATE UNIQUE INDEX signed_group_place ON signed_group(session, first, hash);
CREATE INDEX signed_group_wrong ON signed_group(session) WHERE doubt = 'wrong_signature';
CREATE TABLE group_task(task TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY (task, n)) WITHOUT ROWID;
"""

MISSING_TABLES = """
CREATE TABLE missing(
    session TEXT NOT NULL, first INTEGER NOT NULL, last INTEGER NOT NULL, id TEXT NOT NULL, task TEXT NOT NULL,
    until TEXT NOT NULL, is_fault INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, first, id)
) WITHOUT ROWID;
CREATE INDEX missing_id ON missing(id);
CREATE INDEX missing_task ON missing(task);
CREATE INDEX missing_fault ON missing(is_fault) WHERE is_fault;
CREATE TABLE rewritten(
    commit_id TEXT NOT NULL, file TEXT NOT NULL, line INTEGER NOT NULL, hash TEXT NOT NULL,
    PRIMARY KEY (file, line, hash, commit_id)
) WITHOUT ROWID;
"""

HEAD_TABLE = """
CREATE TABLE head(
    only INTEGER PRIMARY KEY CHECK (only = 1),
    session TEXT NOT NULL, seq INTEGER NOT NULL, tip TEXT NOT NULL, clock TEXT NOT NULL,
    segment TEXT NOT NULL, first INTEGER NOT NULL, size INTEGER NOT NULL, inode INTEGER NOT NULL,
    changed INTEGER NOT NULL DEFAULT 0, chain TEXT NOT NULL DEFAULT '', key TEXT NOT NULL DEFAULT '', project TEXT NOT NULL DEFAULT '',
    bounded_from TEXT NOT NULL DEFAULT '0001-01-01T00:00:00.000000Z'
);
"""

RECORD_TABLES = """
CREATE TABLE outdated(task TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE log_line(task TEXT NOT NULL, place TEXT NOT NULL, text TEXT NOT NULL, PRIMARY KEY (task, place)) WITHOUT ROWID;
CREATE INDEX log_line_place ON log_line(place);
"""

RUNS, ROUNDS, OUTAGES, SUBMISSION, PULL_REQUEST, WAITING = 1, 2, 4, 8, 16, 32
"""Flags in a task's `marks` column for what its state has. Searching the state would take longer than writing the row."""
MARK_INDEXES = f"""
CREATE INDEX task_running ON task(id) WHERE marks & {RUNS};
CREATE INDEX task_sent_back ON task(id) WHERE marks & {ROUNDS};
CREATE INDEX task_outages ON task(id) WHERE marks & {OUTAGES};
CREATE INDEX task_commit ON task(json_extract(state, '$.submission.commit')) WHERE marks & {SUBMISSION};
CREATE INDEX task_pr ON task(json_extract(state, '$.pr')) WHERE marks & {PULL_REQUEST};
"""
LIST_TABLES = f"""
CREATE INDEX task_status ON task(status, id);
CREATE INDEX task_waiting ON task(id) WHERE marks & {WAITING};
CREATE TABLE task_text(task TEXT PRIMARY KEY, text TEXT NOT NULL, skills TEXT NOT NULL) WITHOUT ROWID;
"""
"""Columns and indexes for pages of tasks. A search reads short texts in place of states."""

ERRAND_TABLE = """
CREATE TABLE errand(errand TEXT NOT NULL, task TEXT NOT NULL, PRIMARY KEY (errand, task)) WITHOUT ROWID;
"""

NAME_TABLE = """
CREATE TABLE name(key TEXT NOT NULL, name TEXT NOT NULL, PRIMARY KEY (key, name)) WITHOUT ROWID;
"""

DEPENDENCY_TABLES = """
CREATE TABLE node(n INTEGER PRIMARY KEY, task TEXT NOT NULL UNIQUE, position INTEGER);
CREATE TABLE blocker(
    task INTEGER NOT NULL, blocker INTEGER NOT NULL, is_void INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (task, blocker)
) WITHOUT ROWID;
CREATE INDEX blocker_of ON blocker(blocker, task, is_void);
CREATE INDEX blocker_void ON blocker(task) WHERE is_void;
"""
"""Tasks that wait or are waited for have numbers here, so that a search reads little. Only open tasks have positions."""

QUEUE_TABLES = """
CREATE INDEX task_rank ON task(rank, line, barred) WHERE rank IS NOT NULL;
CREATE INDEX task_line ON task(line, barred != '', rank, barred) WHERE rank IS NOT NULL;
CREATE TABLE opening(agent TEXT NOT NULL, line TEXT NOT NULL, rank TEXT NOT NULL, PRIMARY KEY (agent, line, rank)) WITHOUT ROWID;
"""

SCHEMA = f"""
{TRACE_TABLE}{LOG_TRACE_INDEX}{REJECTED_TABLES}{UNCONFIRMED_TABLE}{OBJECTION_TABLE}CREATE TABLE ledger(key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
{HEAD_TABLE}{GROUP_TABLE}{MISSING_TABLES}CREATE TABLE session(number INTEGER PRIMARY KEY, name TEXT NOT NULL, fork INTEGER NOT NULL, UNIQUE (name, fork));
CREATE TABLE event(n INTEGER PRIMARY KEY, subject TEXT NOT NULL, key TEXT NOT NULL, line BLOB NOT NULL);
CREATE INDEX event_subject ON event(subject) WHERE subject != '';
CREATE INDEX event_key ON event(key) WHERE key != '';
CREATE TABLE unnumbered(id TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE task(
    n INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, status TEXT NOT NULL, due_at TEXT,
    rank TEXT, line TEXT, barred TEXT NOT NULL DEFAULT '', state TEXT NOT NULL, marks INTEGER NOT NULL DEFAULT 0
);
CREATE INDEX task_due ON task(due_at) WHERE due_at IS NOT NULL;
CREATE TABLE alias(alias TEXT, task TEXT, PRIMARY KEY (alias, task)) WITHOUT ROWID;
CREATE TABLE handoff(id TEXT PRIMARY KEY, task TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE file(
    path TEXT PRIMARY KEY, size INTEGER NOT NULL, mtime INTEGER NOT NULL, inode INTEGER NOT NULL
) WITHOUT ROWID;
CREATE TABLE problem(file TEXT NOT NULL, line INTEGER NOT NULL, problem TEXT NOT NULL);
CREATE INDEX problem_file ON problem(file);
CREATE TABLE quarantine(id TEXT PRIMARY KEY, ts TEXT NOT NULL, line BLOB NOT NULL) WITHOUT ROWID;
{RECORD_TABLES}{MARK_INDEXES}{LIST_TABLES}{ERRAND_TABLE}{NAME_TABLE}{DEPENDENCY_TABLES}{QUEUE_TABLES}"""

READ_MODELS = ("task", "task_text", "node", "blocker", "alias", "handoff", "errand", "name", "opening")

SETTINGS = "PRAGMA synchronous = NORMAL; PRAGMA cache_size = -32768; PRAGMA temp_store = MEMORY"

GET_HEAD = """
SELECT session, seq, tip, clock, segment, first, size, inode, changed, chain, key, project, bounded_from FROM head
"""
PUT_HEAD = """
REPLACE INTO head(only, session, seq, tip, clock, segment, first, size, inode, changed, chain, key, project, bounded_from)
VALUES (1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

GET_SESSION = "SELECT number FROM session WHERE name = ? AND fork = ?"
ADD_SESSION = "INSERT INTO session(name, fork) VALUES (?, ?) RETURNING number"
SESSIONS = "SELECT number, name, fork FROM session ORDER BY name, fork"
ADD_EVENT = "INSERT OR IGNORE INTO event VALUES (?, ?, ?, ?)"
DROP_EVENT = "DELETE FROM event WHERE n = ?"
LINE_AT = "SELECT CAST(line AS BLOB) FROM event WHERE n = ?"
TAKEN = "SELECT n FROM event WHERE n IN (SELECT value FROM json_each(?))"
LAST_OF = "SELECT max(n) FROM event WHERE n BETWEEN ? AND ?"
DROP_UNNUMBERED = "DELETE FROM unnumbered WHERE id = ?"
ADD_UNNUMBERED = "INSERT OR IGNORE INTO unnumbered VALUES (?)"
ADD_HANDOFF = "INSERT OR IGNORE INTO handoff VALUES (?, ?)"
COUNT_EVENTS = "SELECT count(*) FROM event"
EVENTS_OF_TASK = "SELECT CAST(line AS BLOB) FROM event WHERE subject = ? AND subject != ''"
EVENTS_OF_KEY = "SELECT CAST(line AS BLOB) FROM event WHERE key = ? AND key != '' ORDER BY n"
LINES = "SELECT CAST(line AS BLOB) FROM event ORDER BY n"
ROWS = "SELECT CAST(line AS BLOB), subject, key FROM event ORDER BY n"
ROWS_BY_TASK = "SELECT CAST(line AS BLOB), subject, key FROM event INDEXED BY event_subject WHERE subject != '' ORDER BY subject"
ROWS_OF_NO_TASK = "SELECT CAST(line AS BLOB), subject, key FROM event WHERE subject = ''"
ROW_AT = "SELECT CAST(line AS BLOB), subject, key FROM event WHERE n = ?"
ROWS_OF_KIND = """
SELECT CAST(line AS BLOB), subject, key FROM event
WHERE line < ?1 OR line >= ?2 AND line < ?3 OR line >= ?4 ORDER BY n
"""
"""The lines between the second bound and the third, and those that do not begin as ours do."""
DROP_LINE = "DELETE FROM event WHERE CAST(line AS BLOB) = ?"
LINES_BETWEEN = "SELECT CAST(line AS BLOB) FROM event WHERE n BETWEEN ? AND ? ORDER BY n"
NUMBERED_LINES = "SELECT n, CAST(line AS BLOB) FROM event WHERE n BETWEEN ? AND ?"
NUMBER_OF_LINE = "SELECT n FROM event WHERE n BETWEEN ? AND ? AND line = ?"
UNASSIGNED = "SELECT n, CAST(line AS BLOB) FROM event WHERE n BETWEEN ? AND ? AND subject = '' AND n NOT IN (SELECT n FROM unconfirmed)"
LAST_LINES_BETWEEN = "SELECT CAST(line AS BLOB) FROM event WHERE n BETWEEN ? AND ? ORDER BY n DESC LIMIT ?"

GROUPS_OF_TASK = """
SELECT n, hash, doubt FROM group_task JOIN signed_group USING (n) WHERE task = ? ORDER BY session, first
"""
GROUP_AT = "SELECT line, doubt FROM signed_group WHERE n = ?"

DROP_MISSING_OF_SESSION = "DELETE FROM missing WHERE session = ?"
ADD_MISSING = "REPLACE INTO missing VALUES (?, ?, ?, ?, ?, ?, 0)"
DROP_MISSING = "DELETE FROM missing WHERE id = ?"
HAS_MISSING = "SELECT EXISTS (SELECT 1 FROM missing)"
GET_MISSING = "SELECT session, first, last, id, task, until FROM missing"
MISSING_OF_SESSION = f"{GET_MISSING} WHERE session = ? ORDER BY first"
EVERY_MISSING = f"{GET_MISSING} ORDER BY session, first"
COUNT_OF_TASK = "SELECT count(*) + (SELECT count(*) FROM group_task WHERE task = ?1) FROM event WHERE subject = ?1 AND subject != ''"
MISSING_OF_TASK = f"{GET_MISSING} WHERE task = ?"
MARK_FAULTS = """
UPDATE missing SET is_fault = task = '' OR session = (SELECT session FROM head)
OR session BETWEEN 'import-' AND 'import-~'
OR EXISTS (SELECT 1 FROM event WHERE subject = missing.task AND subject != '')
"""
MISSING_FAULTS = f"{GET_MISSING} INDEXED BY missing_fault WHERE is_fault ORDER BY session, first"
ADD_REWRITTEN = "REPLACE INTO rewritten VALUES (?, ?, ?, ?)"
DROP_REWRITTEN = "DELETE FROM rewritten WHERE commit_id = ? AND file = ? AND line = ? AND hash = ?"
EVERY_REWRITTEN = "SELECT commit_id, file, line, hash FROM rewritten ORDER BY file, line"
ADD_UNCONFIRMED = "REPLACE INTO unconfirmed VALUES (?, ?, ?, ?, ?)"
DROP_UNCONFIRMED = "DELETE FROM unconfirmed WHERE n = ?"
CHANGE_EVENT = "UPDATE event SET subject = ?2, key = ?3 WHERE n = ?1"
DOUBT_AT = "SELECT doubt FROM unconfirmed WHERE n = ?"
EVERY_UNCONFIRMED = "SELECT id, task, signer, doubt, CAST(line AS BLOB) FROM unconfirmed JOIN event USING (n)"
UNCONFIRMED_OF_TASK = f"{EVERY_UNCONFIRMED} WHERE task = ? AND task != '' LIMIT ?"
UNCONFIRMED_BETWEEN = f"{EVERY_UNCONFIRMED} WHERE n BETWEEN ? AND ?"

ADD_OBJECTION = "REPLACE INTO objection VALUES (?, ?, ?, ?, ?)"
DROP_OBJECTION = "DELETE FROM objection WHERE n = ?"
_OBJECTIONS = "SELECT signer, work, max(at), count(*), min(n) FROM objection"
_LATEST_OBJECTIONS = f"GROUP BY signer, work ORDER BY max(at) DESC, min(n) LIMIT {MAX_OBJECTIONS}"
OBJECTIONS_OF_KEY = f"{_OBJECTIONS} WHERE task = ? AND signer = ? {_LATEST_OBJECTIONS}"
OBJECTIONS_TO_WORKS = f"""
{_OBJECTIONS} INDEXED BY objection_work
WHERE task = ?1 AND work IN (SELECT value FROM json_each(?2)) AND (?3 = '' OR signer = ?3) {_LATEST_OBJECTIONS}
"""  # noqa: S608 - a number of ours
OBJECTING_KEYS = f"""
SELECT signer, '', max(at), count(*), min(n) FROM objection INDEXED BY objection_task WHERE task = ?
GROUP BY signer ORDER BY max(at) DESC, min(n) LIMIT {MAX_OBJECTIONS}
"""  # noqa: S608 - a number of ours
TASKS_WITH_OBJECTIONS = """
WITH RECURSIVE found(task) AS (
    SELECT min(task) FROM objection
    UNION ALL
    SELECT (SELECT min(task) FROM objection WHERE task > found.task) FROM found WHERE found.task IS NOT NULL
)
SELECT state FROM found JOIN task ON task.id = found.task
WHERE status NOT IN ('done', 'cancelled', 'infeasible') ORDER BY task.id
"""

ADD_TRACE = "INSERT INTO trace VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
FILINGS = """
SELECT filed.event, filed.ts, filed.session, filed.seq,
    CASE filed.task WHEN '' THEN ifnull((SELECT task FROM handoff WHERE id = filed.handoff), '') ELSE filed.task END,
    filed.agent, filed.said, filed.text,
    ifnull(answer.said, ''), ifnull(answer.ts, ''), ifnull(answer.text, ''),
    CASE answer.said WHEN 'ACCEPT_AND_DEFER' THEN ifnull((
        SELECT min(ts) FROM trace INDEXED BY trace_wake
        WHERE event = 'task.wake' AND task = filed.task AND ts > answer.ts
    ), '') ELSE '' END
FROM trace filed NOT INDEXED LEFT JOIN trace answer ON answer.rowid = (
    SELECT rowid FROM trace INDEXED BY trace_answer
    WHERE event = 'handoff.reject.response' AND rejection = filed.rejection AND rejection != '' AND ts >= filed.ts
    ORDER BY said = 'OVERRIDE', ts, session, seq LIMIT 1
)
WHERE filed.event IN ('handoff.reject', 'handoff.reject.invalid') AND filed.ts >= ?
"""
TRACES = "SELECT * FROM trace NOT INDEXED WHERE event IN (SELECT value FROM json_each(?))"
LOG_TRACES = f"{TRACES.replace('NOT INDEXED', 'INDEXED BY trace_log')} AND {_IS_OF_LOG}"
DROP_TRACES = "DELETE FROM trace"
TRACES_OF_AGENT = """
SELECT * FROM trace
WHERE agent = ? AND event IN ('handoff.reject', 'handoff.reject.invalid') ORDER BY ts DESC LIMIT ?
"""
LATEST_TRACES = """
SELECT * FROM trace NOT INDEXED
WHERE event IN ('handoff.reject', 'handoff.reject.invalid') ORDER BY rowid DESC LIMIT ?
"""

COUNT_REJECTED = "SELECT tasks FROM rejected_word WHERE word = ''"
WORD_COUNTS = "SELECT word, tasks FROM rejected_word WHERE tasks AND word IN (SELECT value FROM json_each(?))"
HAVING_WORD = "SELECT rowid FROM rejected WHERE rejected MATCH ? ORDER BY rowid DESC LIMIT ?"
ADD_REJECTED = "INSERT INTO rejected(rowid, words) VALUES (?, ?)"
DROP_REJECTED = "DELETE FROM rejected WHERE rowid = ?"
DROP_ALL_REJECTED = "INSERT INTO rejected(rejected) VALUES ('delete-all')"
ADD_WORD = "INSERT INTO rejected_word VALUES (?, 1) ON CONFLICT DO UPDATE SET tasks = tasks + 1"
DROP_WORD = "UPDATE rejected_word SET tasks = tasks - 1 WHERE word = ?"
DROP_ALL_WORDS = "DELETE FROM rejected_word"
COUNT_ALL_WORDS = """
INSERT INTO rejected_word
SELECT term, doc FROM rejected_vocabulary UNION ALL SELECT '', count(*) FROM rejected
"""
NUMBER_OF_TASK = "SELECT n FROM task WHERE id = ?"
TASK_AT = "SELECT state FROM task WHERE n = ?"
NUMBERED_TASKS = "SELECT n, state FROM task"

GET_TASK = "SELECT state FROM task WHERE id = ?"
EVERY_TASK = "SELECT state FROM task ORDER BY id"
ALL_STATUSES = "SELECT id, status FROM task"
LEADING_TO = """
SELECT state FROM task WHERE id IN (
    SELECT waiter.task FROM node
    JOIN blocker INDEXED BY blocker_of ON blocker.blocker = node.n JOIN node AS waiter ON waiter.n = blocker.task
    WHERE node.task = ?1
    UNION SELECT task FROM trace INDEXED BY trace_answer
    WHERE event = 'handoff.reject.response' AND said = 'ACCEPT_AND_REFORMULATE' AND text = ?1
) ORDER BY id LIMIT ?2
"""
SENT_BACK = f"SELECT state FROM task INDEXED BY task_sent_back WHERE marks & {ROUNDS} ORDER BY id"  # noqa: S608 - a number of ours
WITH_STATUS = "SELECT state FROM task INDEXED BY task_status WHERE status = ? ORDER BY id LIMIT ?"
COUNTS = "SELECT status, count(*) FROM task INDEXED BY task_status GROUP BY status"
COUNT_STATUS = "SELECT count(*) FROM task INDEXED BY task_status WHERE status = ?"
WAITING_TASKS = f"SELECT state FROM task INDEXED BY task_waiting WHERE marks & {WAITING} ORDER BY id"  # noqa: S608 - a number of ours
PAGE = "SELECT state FROM task WHERE id > ?1 ORDER BY id LIMIT ?2"
PAGE_OF_STATUS = (
    "SELECT state FROM task INDEXED BY task_status WHERE status = ?3 AND id > ?1 ORDER BY id LIMIT ?2"
)
_IS_FOUND = "instr(text, ?4) > 0 AND instr(skills, ?5) > 0"
FOUND = f"""
SELECT state FROM task_text CROSS JOIN task ON id = task
WHERE task > ?1 AND {_IS_FOUND} AND (?3 = '' OR status = ?3) ORDER BY task LIMIT ?2
"""  # noqa: S608 - fixed text
FOUND_OF_STATUS = f"""
SELECT state FROM task INDEXED BY task_status CROSS JOIN task_text ON task = id
WHERE status = ?3 AND id > ?1 AND {_IS_FOUND} ORDER BY id LIMIT ?2
"""  # noqa: S608 - fixed text
FOUND_OF_AGENT = FOUND_OF_STATUS.replace(
    "ORDER",
    "AND json_extract(state, CASE status WHEN 'claimed' THEN '$.claim.agent' ELSE '$.submission.agent' END) = ?6 ORDER",
)
PUT_TEXT = "REPLACE INTO task_text VALUES (?, ?, ?)"
RUNNING = f"SELECT state FROM task INDEXED BY task_running WHERE marks & {RUNS} ORDER BY id"  # noqa: S608 - a number of ours
WITH_OUTAGES = f"SELECT state FROM task INDEXED BY task_outages WHERE marks & {OUTAGES} ORDER BY id"  # noqa: S608 - a number of ours
HANDED_IN = f"""
SELECT state FROM task INDEXED BY task_commit
WHERE marks & {SUBMISSION} AND json_extract(state, '$.submission.commit') = ?1
UNION
SELECT state FROM task INDEXED BY task_pr WHERE marks & {PULL_REQUEST} AND json_extract(state, '$.pr') = ?2
"""  # noqa: S608 - numbers of ours
WITH_ERRAND = """
SELECT state FROM task WHERE id IN (SELECT task FROM errand WHERE errand IN (SELECT value FROM json_each(?)))
ORDER BY id
"""
ADD_ERRAND = "INSERT OR IGNORE INTO errand VALUES (?, ?)"
DROP_ERRAND = "DELETE FROM errand WHERE errand = ? AND task = ?"
STATUSES = "SELECT id, status FROM task WHERE id IN (SELECT value FROM json_each(?))"
ADD_TASK = (
    "INSERT INTO task(id, status, due_at, rank, line, barred, state, marks) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
CHANGE_TASK = """
UPDATE task SET status = ?2, due_at = ?3, rank = ?4, line = ?5, barred = ?6, state = ?7, marks = ?8 WHERE id = ?1
"""
TASK_ROWS = "SELECT id, status, due_at, rank, line, barred, state, marks FROM task"
EVERY_ALIAS = "SELECT task, alias FROM alias"
EVERY_TEXT = "SELECT task, text, skills FROM task_text"
EVERY_HANDOFF = "SELECT id, task FROM handoff"
EVERY_ERRAND = "SELECT task, errand FROM errand"
_NAMED_BLOCKERS = """
FROM blocker LEFT JOIN node AS waiter ON waiter.n = blocker.task LEFT JOIN node AS other ON other.n = blocker.blocker
"""
EVERY_BLOCKER = f"SELECT waiter.task, other.task, is_void {_NAMED_BLOCKERS}"
EVERY_NODE = "SELECT task, position IS NULL FROM node"
MISPLACED = f"SELECT waiter.task {_NAMED_BLOCKERS} WHERE NOT is_void AND waiter.position <= other.position"
EVERY_TRACE = "SELECT * FROM trace NOT INDEXED"
BULK_TASK = "INSERT INTO task(n, id, status, due_at, rank, line, barred, state, marks) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)"
NAMED = "SELECT min(task) FROM alias WHERE alias = ?"
HANDED = "SELECT task FROM handoff WHERE id = ?"
HANDOFFS_BETWEEN = "SELECT id FROM handoff WHERE id BETWEEN ? AND ?"
TASKS_WITH_END = "SELECT id FROM task WHERE substr(id, -length(?1)) = ?1 ORDER BY id LIMIT 6"
HANDOFFS_WITH_END = "SELECT id FROM handoff WHERE substr(id, -length(?1)) = ?1 ORDER BY id LIMIT 6"

HEAD_OF_QUEUE = "SELECT rank, line, barred FROM task WHERE rank IS NOT NULL ORDER BY rank LIMIT ?"
HEAD_OF_LINE = """
SELECT rank, barred FROM task INDEXED BY task_line
WHERE rank IS NOT NULL AND line = ?1 AND (barred != '') = ?2 ORDER BY rank LIMIT 1
"""
LINES_WITH_PREFIX = """
WITH RECURSIVE found(line) AS (
    SELECT min(line) FROM task INDEXED BY task_line WHERE rank IS NOT NULL AND line >= ?1
    UNION ALL
    SELECT (SELECT min(line) FROM task INDEXED BY task_line WHERE rank IS NOT NULL AND line > found.line)
    FROM found WHERE substr(found.line, 1, length(?1)) = ?1
)
SELECT line FROM found WHERE substr(line, 1, length(?1)) = ?1
"""
STANDING = """
SELECT line, rank, barred FROM task INDEXED BY task_line
WHERE rank IS NOT NULL AND (barred != '') = 1 ORDER BY line, rank
"""
_NEXT_IN_LINE = (
    "FROM task INDEXED BY task_line WHERE rank IS NOT NULL AND line = own.line AND (barred != '') = 1"
)
PLACE_IN_LINE = f"""
SELECT line, rank, barred, (SELECT barred {_NEXT_IN_LINE} AND rank < own.rank ORDER BY rank DESC LIMIT 1),
(SELECT rank {_NEXT_IN_LINE} AND rank > own.rank ORDER BY rank LIMIT 1),
(SELECT barred {_NEXT_IN_LINE} AND rank > own.rank ORDER BY rank LIMIT 1)
FROM task AS own WHERE id = ? AND rank IS NOT NULL AND barred != ''
"""  # noqa: S608 - fixed text
"""A task's line, rank and locked-out agents; those of the task before it, and rank and agents of the task behind it."""
FIRST_OPENING = "SELECT rank FROM opening WHERE agent = ? AND line = ? ORDER BY rank LIMIT 1"
ADD_OPENING = "INSERT OR IGNORE INTO opening VALUES (?, ?, ?)"
DROP_OPENING = "DELETE FROM opening WHERE agent = ? AND line = ? AND rank = ?"
EVERY_OPENING = "SELECT rank, agent, line FROM opening"
COUNT_READY = "SELECT count(*) FROM task WHERE rank IS NOT NULL"
READY = "SELECT rank FROM task WHERE rank IS NOT NULL ORDER BY rank"
EARLIEST_DUE = "SELECT min(due_at) FROM task WHERE due_at IS NOT NULL"
DUE = "SELECT id FROM task WHERE due_at IS NOT NULL AND due_at <= ? ORDER BY due_at LIMIT 100"

OPEN_BLOCKERS = """
SELECT other.task FROM node JOIN blocker ON blocker.task = node.n JOIN node AS other ON other.n = blocker.blocker
LEFT JOIN task ON task.id = other.task
WHERE node.task = ? AND NOT is_void AND ifnull(task.status, '') NOT IN ('done', 'cancelled', 'infeasible')
ORDER BY other.task
"""
_POSITION_OF_NEW = (
    "(SELECT n << 32 FROM task WHERE id = ?1 AND status NOT IN ('done', 'cancelled', 'infeasible'))"
)
ADD_NODE = f"INSERT OR IGNORE INTO node(task, position) VALUES (?1, {_POSITION_OF_NEW})"  # noqa: S608 - fixed text
PLACE_NODE = f"UPDATE node SET position = {_POSITION_OF_NEW} WHERE task = ?1"  # noqa: S608 - fixed text
BULK_NODE = "INSERT INTO node(task, position) VALUES (?, ?)"
NODES = "SELECT node.task, node.n FROM json_each(?) AS asked CROSS JOIN node ON node.task = asked.value"
NAMES_OF_NODES = "SELECT n, task FROM json_each(?) AS asked CROSS JOIN node ON n = asked.value"
POSITIONS = """
SELECT n, position FROM json_each(?) AS asked CROSS JOIN node ON n = asked.value WHERE position IS NOT NULL
"""
SET_POSITION = "UPDATE node SET position = ?2 WHERE n = ?1"
SET_POSITION_OF_TASK = "UPDATE node SET position = ?2 WHERE task = ?1"
HAS_VOID = "SELECT 1 FROM blocker INDEXED BY blocker_void WHERE is_void LIMIT 1"
VOID = f"SELECT waiter.task, other.task {_NAMED_BLOCKERS} WHERE is_void"
_BOTH_NODES = "task = (SELECT n FROM node WHERE task = ?1) AND blocker = (SELECT n FROM node WHERE task = ?2)"
SET_VOID = f"UPDATE blocker SET is_void = ?3 WHERE {_BOTH_NODES}"  # noqa: S608 - fixed text
ADD_BLOCKER = """
INSERT OR REPLACE INTO blocker SELECT node.n, other.n, ?3 FROM node, node AS other WHERE node.task = ?1 AND other.task = ?2
"""
DROP_BLOCKER = f"DELETE FROM blocker WHERE {_BOTH_NODES}"  # noqa: S608 - fixed text
NODE_OF_TASK = "SELECT n FROM node WHERE task = ?"
WAITING_FOR = """
SELECT waiter.task FROM node
JOIN blocker INDEXED BY blocker_of ON blocker.blocker = node.n JOIN node AS waiter ON waiter.n = blocker.task
WHERE node.task = ? ORDER BY waiter.task
"""
BLOCKERS_OF = """
SELECT task, blocker FROM json_each(?) AS asked CROSS JOIN blocker ON task = asked.value WHERE NOT is_void
"""
WAITERS_OF = """
SELECT blocker, task FROM json_each(?) AS asked CROSS JOIN blocker INDEXED BY blocker_of ON blocker = asked.value
WHERE NOT is_void
"""
ADD_ALIAS = "INSERT OR IGNORE INTO alias VALUES (?, ?)"
NAMES_WITH_KEY = "SELECT name FROM name WHERE key = ? ORDER BY name"
ADD_NAME = "INSERT OR IGNORE INTO name VALUES (?, ?)"
DROP_ALIAS = "DELETE FROM alias WHERE alias = ? AND task = ?"

OUTDATE = "INSERT OR IGNORE INTO outdated VALUES (?1 || ' ' || hex(randomblob(8)))"
OUTDATED = "SELECT task FROM outdated ORDER BY task"
IN_STEP = "DELETE FROM outdated WHERE task = ?"
LINES_OF_TASK = "SELECT place, text FROM log_line WHERE task = ? ORDER BY place"
DAYS_OF_TASK = "SELECT DISTINCT substr(place, 1, 10) FROM log_line WHERE task = ?"
DROP_LINES = "DELETE FROM log_line WHERE task = ?"
DROP_ALL_LINES = "DELETE FROM log_line"
ADD_LINE = "INSERT OR REPLACE INTO log_line VALUES (?, ?, ?)"
LINES_OF_DAY = "SELECT text FROM log_line WHERE place >= ?1 AND place < ?1 || '~' ORDER BY place, task"
DAYS = "SELECT DISTINCT substr(place, 1, 10) FROM log_line ORDER BY 1"

GET_FILES = "SELECT path, size, mtime, inode FROM file"
PUT_FILE = "REPLACE INTO file VALUES (?, ?, ?, ?)"
DROP_PROBLEMS = "DELETE FROM problem WHERE file = ?"
ADD_PROBLEM = "INSERT INTO problem VALUES (?, ?, ?)"
GET_PROBLEMS = "SELECT file, line, problem FROM problem ORDER BY file, line"
QUARANTINE = "INSERT OR IGNORE INTO quarantine VALUES (?, ?, ?)"
HELD = "SELECT line FROM quarantine"
EARLIEST_HELD = "SELECT min(ts) FROM quarantine"
HELD_IDS = "SELECT id FROM quarantine"
RIPE = "DELETE FROM quarantine WHERE ts <= ? RETURNING line"
DATA_VERSION = "PRAGMA data_version"
TABLES_VERSION = "PRAGMA user_version"
GET_VALUE = "SELECT value FROM ledger WHERE key = ?"
PUT_VALUE = "REPLACE INTO ledger VALUES (?, ?)"

Row = tuple[Any, ...]


BESIDE_EVENTS = frozenset(
    {
        *(HEAD_OF_QUEUE, HANDED, HANDOFFS_BETWEEN, NODE_OF_TASK, GET_TASK),
        *(ADD_TASK, CHANGE_TASK, WAITING_FOR, PLACE_NODE, OPEN_BLOCKERS),
        *(PLACE_IN_LINE, FIRST_OPENING, ADD_OPENING, DROP_OPENING),
        *(NAMES_WITH_KEY, ADD_NAME, ADD_ERRAND, DROP_ERRAND, OUTDATE, DUE, EARLIEST_DUE, PUT_TEXT),
        *(EVENTS_OF_TASK, GROUPS_OF_TASK, GROUP_AT),
    }
)
"""Statements of common commands whose result does not depend on new events.

Reading a task's own events writes those first.
"""
BESIDE_TASKS = frozenset(
    {
        *(HANDED, HANDOFFS_BETWEEN, GET_TASK, NODE_OF_TASK, WAITING_FOR, DATA_VERSION, GET_VALUE, GET_HEAD),
        *(PLACE_IN_LINE, FIRST_OPENING, ADD_OPENING, DROP_OPENING),
        *(NAMES_WITH_KEY, ADD_NAME, ADD_ERRAND, DROP_ERRAND, OUTDATE, OUTDATED, PUT_TEXT, HAS_MISSING),
        *(EVENTS_OF_TASK, EVENTS_OF_KEY, GROUPS_OF_TASK, GROUP_AT),
        *(LAST_OF, TAKEN, ADD_EVENT, ADD_HANDOFF, ADD_TRACE),
    }
)
"""Statements of common commands that neither read nor write rows of tasks that wait.

A task that bars agents never waits, so its place among such tasks can be read, too.
"""


class Statements:
    """Runs statements on a connection: for one row, all rows, or no result.

    Queued events and rows of tasks are written, all at once, before any statement that could depend on them.
    """

    keep_tasks: Callable[[], None] | None = None
    """Keeps the rows of tasks that wait; None when there are none."""

    def __init__(self, connection: apsw.Connection) -> None:
        self._run = connection.execute
        self._executemany = connection.executemany
        self._changes = connection.changes
        self.keep_waiting: Callable[[], None] | None = None
        """Keeps the events that wait; None when there are none."""

    def _execute(self, statement: str, values: Row) -> apsw.Cursor:
        if self.keep_waiting is not None or self.keep_tasks is not None:
            self._settle_before(statement)
        return self._run(statement, values)

    def _settle_before(self, statement: str) -> None:
        if self.keep_waiting is not None and statement not in BESIDE_EVENTS:
            keep, self.keep_waiting = self.keep_waiting, None
            keep()
        if self.keep_tasks is not None and statement not in BESIDE_TASKS:
            keep, self.keep_tasks = self.keep_tasks, None
            keep()

    def settle(self) -> None:
        """Writes what is queued."""
        self._settle_before("")

    def run(self, statement: str, values: Row = ()) -> None:
        """Runs a statement without a result."""
        self._execute(statement, values)

    def run_many(self, statement: str, rows: Iterable[Row]) -> None:
        """Runs a statement for every row of values."""
        self._settle_before(statement)
        self._executemany(statement, rows)

    def try_change(self, statement: str, values: Row = ()) -> bool:
        """Runs a statement; True if it changed something."""
        self._execute(statement, values)
        return bool(self._changes())

    def row(self, statement: str, values: Row = ()) -> Row | None:
        """The first row, or None."""
        found: Row | None = self._execute(statement, values).fetchone()
        return found

    def value(self, statement: str, values: Row = ()) -> Any:
        """The first value of the first row, or None."""
        found = self._execute(statement, values).fetchone()
        return found[0] if found else None

    def rows(self, statement: str, values: Row = ()) -> Iterator[Row]:
        """The rows, one after the other; run nothing else before the last."""
        return self._execute(statement, values)

    def column(self, statement: str, values: Row = ()) -> list[Any]:
        """The first value of every row."""
        return [row[0] for row in self._execute(statement, values)]

    def all(self, statement: str, values: Row = ()) -> list[Row]:
        """All rows."""
        found: list[Row] = self._execute(statement, values).fetchall()
        return found


class Table:
    """One of the ledger's tables. `ledger/store.py` and `ledger/event_tables.py` document the methods."""

    def __init__(self, statements: Statements) -> None:
        self.statements = self._db = statements
        self.texts: dict[str, str] = {}
        """The values of its `StoredText`s that were read."""


class StoredText:
    """An attribute stored as text among the ledger's own values; empty if it was never set."""

    def __init__(self, key: str) -> None:
        self._key = key

    def __get__(self, table: Table, owner: type) -> str:
        found = table.texts.get(self._key)
        if found is None:
            found = table.texts[self._key] = table.statements.value(GET_VALUE, (self._key,)) or ""
        return found

    def __set__(self, table: Table, text: str) -> None:
        if text != self.__get__(table, type(table)):
            table.statements.run(PUT_VALUE, (self._key, text))
            table.texts[self._key] = text

"""Measures one solo session, in a process that outlives the hook that started it: `python -m … WORKTREE SESSION`."""

from __future__ import annotations

import sys

import msgspec

from remand.app.gates.gates import SoloMeasurement, SoloVerdict, SoloWork
from remand.config import parse
from remand.domain import solo
from remand.domain.gate.verdict import Verdict
from remand.interfaces.hook.session import open_session_ledger
from remand.interfaces.hook.solo import PAUSED, forget_old
from remand.wiring import gates, startup
from remand.wiring.ledger import find_place, open_at
from remand.wiring.startup import solo_sessions as notes


def main(arguments: list[str]) -> int:
    """Runs the gates, records the result and leaves it for the session's next call."""
    worktree, name = arguments
    place = find_place(worktree)
    folder = startup.folders_of(place).solo
    sessions = notes.SoloSessions(folder)
    record = sessions.load(name)
    if record is None:
        sys.stderr.write("The session's record cannot be read.\n")
        return 1
    foreign = sessions.foreign(name)
    own = gates.make_gates(open_at(place))
    if own.current_pause is not None:
        sessions.write_result(name, {"tree": record.last_tree, "status": PAUSED})
        return 0
    policy = parse(record.config).gate_policy
    work = SoloWork(
        name=name,
        start=record.commit,
        end=record.last_commit,
        policy=policy,
        title=record.title,
        host=record.host,
        foreign=foreign,
        left_out=record.left_out,
    )
    verdict = SoloMeasurement(own, open_session_ledger(place).ledger).measure(work)
    sessions.write_result(name, _result_fields(sessions, record, verdict, foreign))
    forget_old(sessions, startup.snapshots.SnapshotStore(folder, place))
    return 0


def _result_fields(
    sessions: notes.SoloSessions,
    record: notes.SoloSession,
    solo_verdict: SoloVerdict,
    foreign: tuple[str, ...],
) -> dict[str, object]:
    verdict, is_own = solo_verdict
    earlier = sessions.result(record.name).get("verdict", "")
    before = msgspec.json.decode(earlier, type=Verdict) if earlier and record.blocks else None
    return {
        "tree": record.last_tree,
        "status": verdict.status.value,
        "is_own": "yes" if is_own else "no",
        "agent": solo.agent_text(verdict, record.blocks + 1, before, record.left_out),
        "user": solo.user_text(verdict, record.left_out, is_own=is_own, foreign=foreign),
        "verdict": msgspec.json.encode(verdict).decode(),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""The user's own commands that are asked about rejections: an adviser for its opinion, a director for its decision."""

from __future__ import annotations

import msgspec

from remand.app.events.task_folds import task_events
from remand.app.history.rejections import director_brief
from remand.app.ledger import Ledger
from remand.app.ports import Commands
from remand.app.requests import Acceptance
from remand.domain import commands as c
from remand.domain.access.team import THE_COORDINATOR, THE_DIRECTOR
from remand.domain.policy import Policy
from remand.domain.refusals import Refused
from remand.domain.reviewer import parse_command_answer

ADVICE_SECONDS = 120.0
DECISION_SECONDS = 600.0


class DirectorCommands:
    """Lets the commands of the policy speak about the last rejection of a handoff."""

    def __init__(self, ledger: Ledger, commands: Commands, policy: Policy) -> None:
        self._ledger = ledger
        self._commands = commands
        self._policy = policy

    def advise(self, task_id: str, handoff_id: str) -> str:
        """Asks the adviser and notes its opinion; empty when there is none, or it had nothing to say."""
        if not self._policy.adviser:
            return ""
        outcome = self._commands.run(self._policy.adviser, self._brief(task_id, handoff_id), ADVICE_SECONDS)
        said = outcome.output.strip() if outcome is not None and outcome.exit_status == 0 else ""
        if not said:
            return ""
        self._ledger.ask_as(THE_COORDINATOR, c.GiveOpinion(handoff_id=handoff_id, opinion=said))
        return said

    def decide(self, task_id: str, handoff_id: str) -> Acceptance | str:
        """Asks the director's command and carries out what it says; a text says why it could not be."""
        command = self._policy.director
        if not self._policy.has_director_command:
            return "A human directs; the rejection waits for an answer."
        if not self._is_waiting(task_id, handoff_id):
            return "The rejection no longer awaits an answer."
        outcome = self._commands.run(command, self._brief(task_id, handoff_id), DECISION_SECONDS)
        if outcome is None or outcome.exit_status:
            how = (
                "could not start, took too long or printed too much"
                if outcome is None
                else f"ended with status {outcome.exit_status}"
            )
            return f"The director {command[0]} {how}; the rejection waits for a human."
        try:
            said = parse_command_answer(outcome.output)
        except ValueError as error:
            return f"The director {command[0]} did not print a decision ({error}); the rejection waits for a human."
        answer = self._ledger.ask_as(THE_DIRECTOR, said.to_command(handoff_id))
        if isinstance(answer, Refused):
            return f"The director's answer was refused: {answer.message}"
        return answer

    def _is_waiting(self, task_id: str, handoff_id: str) -> bool:
        with self._ledger.store.read() as view:
            task = view.tasks.get(task_id)
        filed = task.rejections.last_rejection if task else None
        return filed is not None and filed.handoff_id == handoff_id and not filed.decision

    def _brief(self, task_id: str, handoff_id: str) -> bytes:
        with self._ledger.store.read() as view:
            return msgspec.json.encode(
                director_brief(view.tasks.get(task_id), task_events(view, task_id), handoff_id)
            )

"""Checks the evidence of a rejection against the repository and the ledger, by the probes that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from remand.app.errors import EnvironmentFault
from remand.app.ports import CommandProbes, Journal, LookedUp, Sources
from remand.app.words import are_related
from remand.domain import evidence as ev
from remand.domain.evidence import Grade
from remand.domain.patterns import Pattern
from remand.domain.rejection import TaskRejection
from remand.domain.task import Task
from remand.domain.validation.mentions import mentions
from remand.domain.validation.world import Graded

NEAR = 3
MAX_READ = 200
MAX_COMMITS = 20


class Witness:
    """Runs probes, each once, and grades what they show. What cannot be run stays as it was reported."""

    def __init__(
        self,
        sources: Sources | None = None,
        commands: CommandProbes | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._sources = sources
        self._commands = commands
        self._journal = journal

    def look_up(self, rejection: Mapping[str, Any], task: str) -> LookedUp:
        """All that the repository can say of a rejection of a task, which is told by its text."""
        graded = self.grade(rejection.get("evidence"))
        names = [name for name in mentions(TaskRejection.from_dict(rejection)) if ev.is_commit_id(name)]
        return LookedUp(graded, tuple(name for name in names[:MAX_COMMITS] if self._is_merged(name, task)))

    def _is_merged(self, commit: str, task: str) -> bool:
        """True when the commit is part of the base branch, and says or changes something the task speaks of."""
        try:
            said = self._sources.merged(commit) if self._sources is not None else ""
        except EnvironmentFault:
            return False
        return bool(said) and are_related(task, said)

    def grade(self, evidence: object) -> tuple[Graded, ...]:
        """Grades every piece of evidence whose probe asks the repository or a command."""
        probes = ev.probes(evidence)
        readers = sum(isinstance(probe, ev.CountProbe) and bool(probe.containing) for probe in probes)
        may_read = MAX_READ // max(1, readers)
        return tuple(self._grade(probe, may_read) for probe in probes if not isinstance(probe, ev.TaskProbe))

    def _grade(self, probe: ev.Probe, may_read: int) -> Graded:
        try:
            match probe:
                case ev.FileProbe() if self._sources is not None:
                    return _believed(_file(probe, self._sources), probe.commit, self._sources)
                case ev.CountProbe() if self._sources is not None:
                    found = _count(probe, self._sources, may_read)
                    return _believed(found, probe.commit, self._sources)
                case ev.CommitProbe() if self._sources is not None:
                    return _commit(probe, self._sources)
                case ev.CommandProbe() if self._commands is not None:
                    return self._run(probe, self._commands)
                case ev.Unreadable():
                    return ev.graded(probe, Grade.REPORTED, f"not checked: {probe.why}")
                case _:
                    return ev.graded(probe, Grade.REPORTED, "not checked: nothing here can run such a probe")
        except EnvironmentFault as fault:
            return ev.graded(probe, Grade.REPORTED, f"not checked: {fault}")

    def _run(self, probe: ev.CommandProbe, commands: CommandProbes) -> Graded:
        seen = commands.run(probe.command, probe.commit)
        if seen is None:
            return ev.graded(
                probe, Grade.REPORTED, "not checked: the command is not allowed, or could not run"
            )
        is_status = probe.exit_status is None or seen.exit_status == probe.exit_status
        is_text = not probe.text or probe.text in seen.output
        grade = Grade.REPRODUCED if is_status and is_text else Grade.DISPROVED
        return ev.graded(probe, grade, f"exit {seen.exit_status} at {probe.commit}")

    def corroborated(self, task_id: str, agent: str, attempts: Sequence[str]) -> tuple[bool, ...]:
        """For each attempt, whether the journal of what the agent ran bears it out."""
        if self._journal is None:
            return (False,) * len(attempts)
        return tuple(self._journal.bears_out(task_id, agent, attempt) for attempt in attempts)


def task_grades(evidence: object, find: Callable[[str], Task | None], own: str) -> tuple[Graded, ...]:
    """Grades the pieces of evidence that name another task than this one, by what the ledger knows."""
    return tuple(
        _task(probe, find(probe.name), own)
        for probe in ev.probes(evidence)
        if isinstance(probe, ev.TaskProbe)
    )


def merged(*grades: Iterable[Graded]) -> tuple[Graded, ...]:
    """All grades in the order of the evidence."""
    return tuple(sorted((one for some in grades for one in some), key=lambda one: one.index))


def _task(probe: ev.TaskProbe, task: Task | None, own: str) -> Graded:
    if task is not None and task.id == own:
        return ev.graded(probe, Grade.REPORTED, "the task itself proves nothing")
    if task is None:
        return ev.graded(probe, Grade.DISPROVED, f"there is no task {probe.name}")
    holds = {"": True, "open": not task.is_terminal, "closed": task.is_terminal}.get(
        probe.status, str(task.status) == probe.status
    )
    return ev.graded(
        probe, Grade.REPRODUCED if holds else Grade.DISPROVED, f"task {task.id} is {task.status}"
    )


def _believed(found: Graded, name: str, sources: Sources) -> Graded:
    """What holds at a commit that is not merged proves nothing: the agent may have made it."""
    commit = sources.commit(name)
    if found.grade != Grade.REPRODUCED or commit is None or sources.is_merged(commit.sha):
        return found
    return Graded(index=found.index, grade=Grade.REPORTED, detail=f"{found.detail}, which is not merged")


def _file(probe: ev.FileProbe, sources: Sources) -> Graded:
    commit = sources.commit(probe.commit)
    if commit is None:
        return ev.graded(probe, Grade.REPORTED, f"not checked: there is no commit {probe.commit}")
    content = sources.file(commit.sha, probe.path)
    where = f"{probe.path} at {commit.sha[:12]}"
    if not probe.is_stated:
        lines = content.count(b"\n") + 1 if content is not None else 0
        fits = 0 < probe.line <= lines
        return ev.graded(probe, Grade.CORROBORATED if fits else Grade.REPORTED, f"{where} has {lines} lines")
    if probe.is_absent or content is None:
        holds = probe.is_absent and content is None
        said = "does not exist" if content is None else "exists"
        return ev.graded(probe, Grade.REPRODUCED if holds else Grade.DISPROVED, f"{where} {said}")
    return _content(probe, content.decode("utf-8", "replace").splitlines(), where)


def _content(probe: ev.FileProbe, lines: list[str], where: str) -> Graded:
    if probe.line > len(lines):
        return ev.graded(probe, Grade.DISPROVED, f"{where} has only {len(lines)} lines")
    near = lines[max(0, probe.line - 1 - NEAR) : probe.line + NEAR] if probe.line else lines
    if probe.text and not any(probe.text in line for line in near):
        place = f"near line {probe.line} of " if probe.line else "in "
        return ev.graded(probe, Grade.DISPROVED, f"the text is not {place}{where}")
    return ev.graded(probe, Grade.REPRODUCED, f"{where} is as stated")


def _count(probe: ev.CountProbe, sources: Sources, may_read: int) -> Graded:
    commit = sources.commit(probe.commit)
    if commit is None:
        return ev.graded(probe, Grade.REPORTED, f"not checked: there is no commit {probe.commit}")
    pattern = Pattern(probe.pattern)
    paths = [path for path in sources.paths(commit.sha) if pattern.matches(path)]
    if probe.containing:
        if len(paths) > may_read:
            return ev.graded(probe, Grade.REPORTED, f"not checked: {len(paths)} files are too many to read")
        wanted = probe.containing.encode()
        paths = [path for path in paths if wanted in (sources.file(commit.sha, path) or b"")]
    count = len(paths)
    holds = probe.expected in (None, count) and (probe.at_least is None or count >= probe.at_least)
    holding = f" and hold {probe.containing[:80]!r}" if probe.containing else ""
    found = f"{count} files match {probe.pattern}{holding} at {commit.sha[:12]}"
    return ev.graded(probe, Grade.REPRODUCED if holds else Grade.DISPROVED, found)


def _commit(probe: ev.CommitProbe, sources: Sources) -> Graded:
    commit = sources.commit(probe.name)
    if commit is None:
        return ev.graded(probe, Grade.DISPROVED, f"the repository has no commit {probe.name}")
    return ev.graded(probe, Grade.REPRODUCED, f"commit {commit.sha[:12]} exists")

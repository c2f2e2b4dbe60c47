"""Checks a rejection: its evidence by the probes that it names, its attempts by the journal of what was run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from remand.app.errors import EnvironmentFault
from remand.app.ports import Borne, CommandProbes, Journal, LookedUp, Outcome, Pages, Sources
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
MAX_ATTEMPTS = 20
MAX_SLOW = 3
HTTP_ERROR = 400
_TOO_MANY = f"not checked: only the first {MAX_SLOW} commands and addresses of a rejection are"
_NOBODY = "not checked: nothing here can run such a probe"


class Standing(NamedTuple):
    """Where a command is run, and whether that is part of the base: elsewhere the agent may have seen to it."""

    commit: str
    is_merged: bool


class Witness:
    """Runs probes, each once, and grades what they show. What cannot be run stays as it was reported."""

    def __init__(
        self,
        sources: Sources | None = None,
        commands: CommandProbes | None = None,
        pages: Pages | None = None,
        journal: Journal | None = None,
    ) -> None:
        self._sources = sources
        self._commands = commands
        self._pages = pages
        self._journal = journal

    def look_up(
        self, rejection: Mapping[str, Any], task: str, task_id: str = "", agent: str = ""
    ) -> LookedUp:
        """All that the world can say of an agent's rejection of a task, which is told by its text."""
        names = [name for name in mentions(TaskRejection.from_dict(rejection)) if ev.is_commit_id(name)]
        known = tuple(name for name in names[:MAX_COMMITS] if self._is_merged(name, task))
        attempts = self.attempts(task_id, agent, rejection.get("what_attempted"))
        return LookedUp(self.grade(rejection.get("evidence")), known, attempts)

    def _is_merged(self, commit: str, task: str) -> bool:
        """True when the commit is part of the base branch, and says or changes something the task speaks of."""
        try:
            said = self._sources.merged(commit) if self._sources is not None else ""
        except EnvironmentFault:
            return False
        return bool(said) and are_related(task, said)

    def grade(self, evidence: object) -> tuple[Graded, ...]:
        """Grades every piece of evidence whose probe asks the repository, a command or an address.

        The repository is asked first and has its own short time; what commands need of it is looked up before.
        """
        probes = ev.probes(evidence)
        readers = sum(isinstance(probe, ev.CountProbe) and bool(probe.containing) for probe in probes)
        may_read = MAX_READ // max(1, readers)
        slow = [probe for probe in probes if isinstance(probe, ev.CommandProbe | ev.UrlProbe)]
        others = (
            probe for probe in probes if not isinstance(probe, ev.TaskProbe | ev.CommandProbe | ev.UrlProbe)
        )
        found = [self._grade(probe, may_read) for probe in others]
        ready = [(probe, self._standing(probe)) for probe in slow[:MAX_SLOW]]
        found += [self._run(probe, standing) for probe, standing in ready]
        found += [ev.graded(probe, Grade.REPORTED, _TOO_MANY) for probe in slow[MAX_SLOW:]]
        return merged(found)

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
                case ev.Unreadable():
                    return ev.graded(probe, Grade.REPORTED, f"not checked: {probe.why}")
                case _:
                    return ev.graded(probe, Grade.REPORTED, _NOBODY)
        except EnvironmentFault as fault:
            return ev.graded(probe, Grade.REPORTED, f"not checked: {fault}")

    def _standing(self, probe: ev.Probe) -> Standing | str:
        """The commit a command is run at, or why there is none."""
        if not isinstance(probe, ev.CommandProbe) or self._sources is None:
            return "there is no repository"
        try:
            commit = self._sources.commit(probe.commit)
            if commit is None:
                return f"there is no commit {probe.commit}"
            return Standing(commit.sha, self._sources.is_merged(commit.sha))
        except EnvironmentFault as fault:
            return str(fault)

    def _run(self, probe: ev.Probe, standing: Standing | str) -> Graded:
        try:
            match probe:
                case ev.UrlProbe() if self._pages is not None:
                    return _url(probe, self._pages)
                case ev.CommandProbe() if self._commands is not None and isinstance(standing, str):
                    return ev.graded(probe, Grade.REPORTED, f"not checked: {standing}")
                case ev.CommandProbe() if self._commands is not None and isinstance(standing, Standing):
                    return _command(probe, standing, self._commands)
                case _:
                    return ev.graded(probe, Grade.REPORTED, _NOBODY)
        except EnvironmentFault as fault:
            return ev.graded(probe, Grade.REPORTED, f"not checked: {fault}")

    def attempts(self, task_id: str, agent: str, attempted: object) -> tuple[Graded, ...]:
        """How each attempt fares against the journal of what the agent ran; nothing where there is no journal."""
        if self._journal is None or not isinstance(attempted, list | tuple):
            return ()
        return tuple(
            _attempt(index, self._journal.bears_out(task_id, agent, text))
            for index, text in enumerate(attempted[:MAX_ATTEMPTS])
            if isinstance(text, str)
        )


def _attempt(index: int, borne: Borne | None) -> Graded:
    if borne is None:
        return Graded(index=index, grade=str(Grade.REPORTED), detail="nothing in the journal fits it")
    ended = "" if borne.exit_status is None else f" with exit {borne.exit_status}"
    seconded = ", and the transcript tells the same" if borne.is_seconded else ""
    detail = f"the journal has `{borne.command[:300]}`{ended}{seconded}"
    return Graded(index=index, grade=str(Grade.CORROBORATED), detail=detail)


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


def _command(probe: ev.CommandProbe, standing: Standing, commands: CommandProbes) -> Graded:
    """Disproved by a success where a failure was stated, and the other way round.

    A failure of another kind than the one that was stated may well be the sandbox's own, and proves nothing.
    """
    seen = commands.run(probe.command, standing.commit)
    if seen is None:
        return ev.graded(probe, Grade.REPORTED, "not checked: the command is not allowed, or could not run")
    shown = f"exit {seen.exit_status} at {standing.commit[:12]}"
    is_same = probe.exit_status in (None, seen.exit_status)
    if is_same and probe.text in seen.output:
        if not standing.is_merged:
            return ev.graded(probe, Grade.REPORTED, f"{shown}, which is not merged")
        return ev.graded(probe, Grade.REPRODUCED, shown)
    is_plain = seen.exit_status == 0 or (seen.exit_status == 1 and probe.exit_status in (None, 0))
    is_text = is_same and probe.exit_status is not None
    if (not is_plain and not is_text) or (is_same and seen.is_cut):
        return ev.graded(probe, Grade.REPORTED, f"not decided: {shown}, which may be for another reason")
    return ev.graded(probe, Grade.DISPROVED, shown if not is_same else f"{shown} without the text")


def _url(probe: ev.UrlProbe, pages: Pages) -> Graded:
    """Disproved by an answer where an error was stated, and the other way round; one error is no other."""
    seen = pages.get(probe.url)
    if seen is None:
        return ev.graded(probe, Grade.REPORTED, "not checked: the host is not allowed to be asked")
    shown = (
        f"it answers {seen.exit_status} now" if seen.exit_status else f"no answer now: {seen.output[:200]}"
    )
    is_same = probe.code in (None, seen.exit_status)
    if is_same and probe.text in seen.output:
        return ev.graded(probe, Grade.REPRODUCED, shown)
    if not _contradicts(probe.code, seen):
        return ev.graded(probe, Grade.REPORTED, f"not decided: {shown}")
    return ev.graded(probe, Grade.DISPROVED, shown if not is_same else f"{shown}, without the text")


def _contradicts(code: int | None, seen: Outcome) -> bool:
    """True when an answer cannot be what was stated: another kind of answer, or all of it without the text."""
    is_fine = 0 < seen.exit_status < HTTP_ERROR
    if code in (None, seen.exit_status):
        return not seen.is_cut and (is_fine or code is not None) and seen.exit_status > 0
    return seen.exit_status > 0 and is_fine != (0 < (code or 0) < HTTP_ERROR)


def _commit(probe: ev.CommitProbe, sources: Sources) -> Graded:
    commit = sources.commit(probe.name)
    if commit is None:
        return ev.graded(probe, Grade.DISPROVED, f"the repository has no commit {probe.name}")
    return ev.graded(probe, Grade.REPRODUCED, f"commit {commit.sha[:12]} exists")

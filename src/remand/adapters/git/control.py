"""What a commit has below `.got`, read from the trees alone."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from remand.adapters.git.place import Place
from remand.adapters.git.repository import git
from remand.app.errors import EnvironmentFault
from remand.domain.control import ControlFile, is_control, is_event_file

_PLAIN = {"GIT_NO_REPLACE_OBJECTS": "1"}
_DIFFERENT = ("diff-tree", "-r", "-z", "--raw", "--no-abbrev", "--no-renames")
_NOTHING = "000000"


class GitControl:
    """The ledger's own folder in the commits of a repository."""

    def __init__(self, place: Place) -> None:
        self._folder = place.worktree

    def changes(self, tip: str, before: str, commit: str) -> list[ControlFile]:
        """The paths below `.got` that a commit has differently than where it left the base, and than the base has now.

        Work on the base itself, of which the base has all, is compared with the base as it was before alone.
        """
        met = self._meetings(tip, commit) if tip else []
        if commit in met or not tip:
            compared = self._meetings(before, commit)[:1] if before else []
        else:
            compared = [*met, tip]
        found: dict[str, ControlFile] | None = None
        for side in compared:
            rows = {file.path: file for file in self._between(side, commit)}
            found = rows if found is None else {path: file for path, file in found.items() if path in rows}
            if not found:
                break
        return sorted((found or {}).values())

    def contents(
        self, files: Iterable[ControlFile], most: int, in_all: int
    ) -> Iterator[tuple[ControlFile, bytes | None]]:
        """What files hold now; None for one larger than `most` bytes, and once `in_all` bytes were read."""
        ids = [(file, file.after.partition(" ")[2]) for file in files]
        sizes = self._sizes(name for _, name in ids) if ids else {}
        for file, name in ids:
            size = sizes.get(name, most + 1)
            is_read = size <= min(most, in_all)
            in_all -= size if is_read else 0
            yield file, self._asked("cat-file", "blob", name) if is_read else None

    def event_files(self, commit: str) -> list[ControlFile]:
        """Every event file that a commit has."""
        rows = self._asked("ls-tree", "-r", "-z", "--full-tree", commit, "--", ".got/events/").split(b"\0")
        found = []
        for row in rows:
            facts, _, path = row.decode("utf-8", "surrogateescape").partition("\t")
            if is_event_file(path):
                mode, _, name = facts.split(" ")
                found.append(ControlFile(path, "", f"{mode} {name}"))
        return found

    def _meetings(self, one: str, other: str) -> list[str]:
        """The last commits that two histories have in common; none when they have nothing in common."""
        found = git(self._folder, "merge-base", "--all", one, other, environment=_PLAIN)
        return found.stdout.decode("ascii", "replace").split() if not found.returncode else []

    def _between(self, one: str, other: str) -> Iterator[ControlFile]:
        fields = iter(self._asked(*_DIFFERENT, one, other).split(b"\0"))
        for facts in fields:
            path = next(fields, b"").decode("utf-8", "surrogateescape")
            if path and is_control(path):
                old_mode, mode, old, new, _ = facts.decode("ascii").removeprefix(":").split(" ")
                yield ControlFile(path, _side(old_mode, old), _side(mode, new))

    def _sizes(self, ids: Iterable[str]) -> Mapping[str, int]:
        rows = "".join(f"{name}\n" for name in ids).encode()
        answers = (row.split() for row in self._asked("cat-file", "--batch-check", stdin=rows).splitlines())
        return {answer[0].decode(): int(answer[2]) for answer in answers if len(answer) == 3}

    def _asked(self, *arguments: str, stdin: bytes = b"") -> bytes:
        answer = git(self._folder, *arguments, stdin=stdin, environment=_PLAIN)
        if answer.returncode:
            said = answer.stderr.decode(errors="replace").strip()
            raise EnvironmentFault(
                f"git cannot tell what was changed below .got: {said}. Mend that, then repeat."
            )
        return answer.stdout


def _side(mode: str, name: str) -> str:
    return "" if mode == _NOTHING else f"{mode} {name}"

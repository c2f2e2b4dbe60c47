"""What nobody can review: programs, packed or huge files, links and submodules."""

from __future__ import annotations

import re
from collections.abc import Iterator

from remand.domain.integrity.catalogue import short, suspicion
from remand.domain.integrity.comparison import LINK, SUBMODULE, FileChange, Suspicion
from remand.domain.integrity.paths import CODE, is_made_path, language_of
from remand.domain.integrity.scene import Scene

LONG_LINE = 3_000
MANY_LINES = 20_000
LARGE_BINARY = 8 << 20
_PROGRAMS = re.compile(
    r"\.(exe|dll|so|dylib|pyc|pyo|pyd|class|jar|war|whl|egg|wasm|o|a|node|deb|rpm|msi|apk|bin|elf|zip|tar|t?gz|7z|rar|xz|bz2)$",
    re.IGNORECASE,
)
_SIGNATURES = ("7f454c46", "4d5a", "cafebabe", "feedface", "feedfacf", "cffaedfe", "0061736d")
_MEDIA = re.compile(
    r"\.(png|jpe?g|gif|ico|webp|bmp|tiff?|svg|pdf|woff2?|ttf|otf|eot|mp[34]|wav|ogg|webm|mov)$", re.IGNORECASE
)
_DATA_TEXT = re.compile(
    r"\.(svg|snap|csv|tsv|ipynb|lock|map|txt|html?|xml|po|sql|geojson)$|(^|/)(fixtures|testdata|__snapshots__|data|cassettes)/",
    re.IGNORECASE,
)


def programs(scene: Scene) -> Iterator[Suspicion]:
    """Binaries that run, or that are no picture, font or fixture."""
    for change in _changes(scene):
        if not change.is_binary:
            continue
        is_program = _PROGRAMS.search(change.path) or change.signature.startswith(_SIGNATURES)
        is_code = language_of(change.path) in CODE
        if is_program or is_code or change.mode == "100755":
            yield suspicion(
                "binary_program",
                change.path,
                0,
                f"`{change.path}` is a binary of {change.size} bytes",
                change.signature,
            )
        elif change.size > LARGE_BINARY or (change.is_too_large and not _MEDIA.search(change.path)):
            yield suspicion(
                "unreadable", change.path, 0, f"a binary of {change.size} bytes", change.signature
            )


def unreadable(scene: Scene) -> Iterator[Suspicion]:
    """Texts that are too large, on one line, or nested beyond reading."""
    for view in scene.views:
        change = view.change
        if change.is_binary or change.status == "D" or change.mode in (LINK, SUBMODULE):
            continue
        if change.is_too_large and not is_made_path(change.path):
            yield suspicion("unreadable", change.path, 0, f"{change.size} bytes of text", str(change.size))
        elif view.after is not None and view.after.is_too_deep:
            yield suspicion("unreadable", change.path, 0, "nested too deeply", view.after.text)
        elif (
            view.after is not None
            and view.after.is_code
            and not _DATA_TEXT.search(change.path)
            and not is_made_path(change.path)
        ):
            old = set(view.before.lines) if view.before else set()
            at = next(
                (
                    at
                    for at, line in enumerate(view.after.lines, 1)
                    if len(line) > LONG_LINE and line not in old
                ),
                0,
            )
            if at and not _is_one_string(view.after.lines[at - 1]):
                found = f"a line of {len(view.after.lines[at - 1])} characters"
                yield suspicion("unreadable", change.path, at, found, view.after.lines[at - 1])


def _is_one_string(line: str) -> bool:
    """True for a line that is one long text, as an embedded picture is."""
    return re.fullmatch(r"[^'\"`]{0,200}(['\"`])[^'\"`\\]*\1[^'\"`]{0,200}", line) is not None


def too_much(scene: Scene) -> Iterator[Suspicion]:
    """More than anybody reads."""
    if scene.unread:
        yield suspicion("too_much", "", 0, f"{scene.unread} files were left unread", str(scene.unread))
        return
    added = sum(
        view.after.text.count("\n") - (view.before.text.count("\n") if view.before else 0)
        for view in scene.views
        if view.after is not None and view.after.is_code and not is_made_path(view.path)
    )
    if added > MANY_LINES:
        yield suspicion("too_much", "", 0, f"{added} lines of code were added", str(added))


def links(scene: Scene) -> Iterator[Suspicion]:
    """Links that lead out, into git's own folder, or stand where a file was."""
    for change in _changes(scene):
        if change.mode != LINK:
            continue
        target = (change.after or "").strip()
        if (
            not target
            or target.startswith(("/", "~"))
            or _leads_out(change.path, target)
            or re.match(r"(\.\./)*\.g(it|ot)(/|$)", target)
        ):
            yield suspicion("link_outside", change.path, 0, f"a link to `{short(target) or 'somewhere'}`")
        elif change.status == "T":
            yield suspicion("link_outside", change.path, 0, f"a link to `{short(target)}` in a file's place")


def _leads_out(path: str, target: str) -> bool:
    depth = path.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else 0 if part in ("", ".") else 1
        if depth < 0:
            return True
    return False


def submodules(scene: Scene) -> Iterator[Suspicion]:
    """Submodules, and the file that says where they come from."""
    for change in _changes(scene):
        if change.mode == SUBMODULE or change.path.rpartition("/")[2] == ".gitmodules":
            yield suspicion(
                "submodule_changed", change.path, 0, f"`{change.path}`", change.after or change.status
            )


def _changes(scene: Scene) -> Iterator[FileChange]:
    return (change for change in scene.comparison.changes if change.status != "D")

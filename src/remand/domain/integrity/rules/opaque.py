"""What nobody can review: programs, packed or huge files, links and submodules."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator

from remand.domain.integrity.catalogue import listed, short, suspicion
from remand.domain.integrity.comparison import LINK, SUBMODULE, FileChange, Suspicion
from remand.domain.integrity.harness import MIXED, is_steering
from remand.domain.integrity.links import destination
from remand.domain.integrity.paths import (
    CODE,
    is_expectation_path,
    is_made_path,
    is_test_path,
    language_of,
)
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
    """Links that lead out or into git's own folder, and those that give a guarded file other content."""
    replaced = _replaced(scene)
    for change in _changes(scene):
        if change.mode != LINK:
            continue
        target = scene.links[change.path]
        place, problem = destination(change.path, scene.links)
        found = f"a link to `{_shown(target)}`" if target.strip() else "a link without a target"
        if problem:
            through = f"to `{_shown(place)}`, " if place != target.rstrip("/") else ""
            found = f"{found}, which leads {through}{problem}" if target.strip() else found
            yield suspicion("link_outside", change.path, 0, found, f"{target}\n{place}")
        elif change.path in replaced:
            files = replaced[change.path]
            content = "\n".join((target, *files))
            yield suspicion("link_outside", change.path, 0, f"{found} in place of {listed(files)}", content)


def _replaced(scene: Scene) -> dict[str, list[str]]:
    """By link: the guarded files of the base that have other content, or none, now that it is in their place."""
    changes = scene.comparison.changes
    own = {change.path for change in changes if change.mode == LINK}
    now = {change.path: change.content for change in changes}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for change in changes if own else ():
        path = change.base_path
        if not _is_guarded(path, scene.comparison.test_patterns):
            continue
        if change.mode == LINK and change.status != "A" and not _keeps_content(change):
            found[change.path].append(path)
        above = next((folder for folder in _folders(path) if folder in own), "")
        if above and change.status in ("D", "R"):
            place = destination(path, scene.links).path
            has_moved = place == change.path and change.before == change.after
            if not has_moved and (change.before is None or now.get(place) != change.before):
                found[above].append(path)
    return found


def _folders(path: str) -> Iterator[str]:
    """The folders a path is in, the outermost first."""
    return (path[:at] for at, char in enumerate(path) if char == "/")


def _keeps_content(link: FileChange) -> bool:
    """True when programs read the same through a link as on the base; of folders, unless it leads elsewhere."""
    return link.status != "M" if link.before is None else link.linked == link.before


def _is_guarded(path: str, patterns: tuple[str, ...]) -> bool:
    is_harness = is_steering(path) or path.rpartition("/")[2] in MIXED
    return is_harness or is_test_path(path, patterns) or is_expectation_path(path)


def _shown(target: str) -> str:
    return short(target.replace("`", "'"))


def submodules(scene: Scene) -> Iterator[Suspicion]:
    """Submodules, and the file that says where they come from."""
    for change in _changes(scene):
        if change.mode == SUBMODULE or change.path.rpartition("/")[2] == ".gitmodules":
            yield suspicion(
                "submodule_changed", change.path, 0, f"`{change.path}`", change.after or change.status
            )


def _changes(scene: Scene) -> Iterator[FileChange]:
    return (change for change in scene.comparison.changes if change.status != "D")

"""What a reviewer cannot see or read: invisible characters, hidden files, binaries, links, encoded code."""

from __future__ import annotations

import ast
import re
import unicodedata
from collections import defaultdict
from collections.abc import Iterator

from remand.domain.text.words import format_count, word_set
from remand.integrity.changeset import Changeset
from remand.integrity.comparison import LINK, SUBMODULE, FileDiff
from remand.integrity.harness import MIXED, is_steering_path
from remand.integrity.paths import (
    CODE,
    follow_links,
    is_expectation_path,
    is_generated_path,
    is_packed_path,
    is_test_path,
    language_of,
)
from remand.integrity.readers.python_tree import called_name, node_source, resolve_name, walk_tree
from remand.integrity.readers.source import MAX_LITERAL, SourceFile
from remand.integrity.suspicions import Suspicion, quote_names, shorten, suspicion

_DIRECTION_CHARACTERS = re.compile("[\u202a-\u202e\u2066-\u2069\u061c]|[\U000e0000-\U000e007f]")
_INVISIBLE_CHARACTERS = re.compile(
    "(?<=[\\w(.=])[\u200b\u2060\u00ad\u180e\u2061-\u2064\u3164\uffa0\u115f\u1160]|[\x00-\x08\x0e-\x1f\x7f]|\ufeff(?!^)"
)
MAX_LINE = 5_000
_WORD = re.compile(r"[^\W\d_]\w*")
_HIDES = re.compile(
    r"(?:^|\s)(-diff|linguist-generated(?:=true)?|linguist-vendored(?:=true)?|binary|-text\b.*-diff|filter=(?!lfs)\S+|merge=ours)(?:\s|$)"
)
_GENERATED = re.compile(
    r"lock|\.snap|dist|vendor|generated|\.min\.|_pb2|\.pb\.|third_party|\.svg|docs?/|\.(png|jpe?g|gif|ico|pdf|woff2?|ttf|zip|gz|bin|mp4|webp|wasm|ipynb|parquet|db|sqlite)\b|\.sum"
)
_COOKIE = re.compile(r"^[ \t\f]*#.*?coding[:=][ \t]*([-\w.]+)")
_READABLE = re.compile(
    r"utf-?8(-sig)?|ascii|us-ascii|latin-?1|iso-8859-\d+|cp125\d|windows-125\d|utf_8", re.IGNORECASE
)


_DATA_LANGUAGES = ("json", "yaml", "toml", "ini")
"""In data, a byte order mark inside a text is an ordinary character; in test data, every character is."""


def find_invisible_characters(changeset: Changeset) -> Iterator[Suspicion]:
    """Characters that reorder, hide or split code, in lines that the base does not have."""
    for view in changeset.views:
        if (
            view.after is None
            or not view.after.language
            or (view.after.text.isascii() and "\x1b" not in view.after.text)
        ):
            continue
        for number, line in view.added_lines:
            match = _DIRECTION_CHARACTERS.search(line) or _INVISIBLE_CHARACTERS.search(line)
            is_data = view.after.language in _DATA_LANGUAGES
            if match and not (is_data and (view.is_test or match[0] == "\ufeff")):
                yield suspicion("invisible_characters", view.path, number, f"U+{ord(match[0]):04X}", line)
                break


def find_confusable_names(changeset: Changeset) -> Iterator[Suspicion]:
    """Names in code that mix alphabets, or use letters that look like others."""
    for view in changeset.views:
        if view.after is None or not view.after.is_code or view.after.text.isascii():
            continue
        for number, line in view.added_lines:
            if line.isascii():
                continue
            name = next((word for word in _non_ascii_names(line) if _mixes_alphabets(word)), "")
            if name:
                yield suspicion(
                    "confusable_name", view.path, number, f"`{shorten(name)}` mixes alphabets", line
                )
                break


def _non_ascii_names(line: str) -> list[str]:
    """The words of a line outside its strings and comment."""
    code = re.sub(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|`[^`]*`|//.*|#.*", " ", line[:MAX_LINE])
    return [word for word in _WORD.findall(code) if not word.isascii()]


_UNLIKE = frozenset("ΓΔΘΛΞΠΣΦΨΩβδεζθλμξπσςφψ")
"""Letters of Greek, as formulas have them, that look like no letter of Latin."""


def _mixes_alphabets(word: str) -> bool:
    alphabets = {
        unicodedata.name(char, "").partition(" ")[0]
        for char in word
        if char.isalpha() and char not in _UNLIKE
    }
    return len(alphabets & {"LATIN", "CYRILLIC", "GREEK", "ARMENIAN"}) > 1 or bool(
        alphabets & {"MATHEMATICAL", "FULLWIDTH"}
    )


def find_hidden_files(changeset: Changeset) -> Iterator[Suspicion]:
    """Attributes that hide source from diffs, and encodings that hide what it says."""
    for view in changeset.views:
        if view.path.rpartition("/")[2] == ".gitattributes" and view.after is not None:
            for number, line in view.added_lines:
                if (
                    not line.startswith("#")
                    and _HIDES.search(line)
                    and not _GENERATED.search(line.split()[0])
                ):
                    yield suspicion("hidden_from_diff", view.path, number, f"`{shorten(line)}`")
        elif view.after is not None and view.after.language == "python":
            yield from _find_unreadable_encoding(view.path, view.after)


def _find_unreadable_encoding(path: str, source: SourceFile) -> Iterator[Suspicion]:
    if is_generated_path(path):
        return
    for number, line in enumerate(source.lines[:2], 1):
        match = _COOKIE.match(line)
        if match and not _READABLE.fullmatch(match[1]):
            yield suspicion("hidden_from_diff", path, number, f"`{match[1]}` is no readable encoding")


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
_PROSE = re.compile(r"\.(rst|md|markdown|adoc)$", re.IGNORECASE)
"""Texts that only people read."""
_DATA_TEXT = re.compile(
    r"\.(svg|snap|csv|tsv|ipynb|lock|map|txt|html?|xml|po|sql|geojson)$|(^|/)(fixtures|testdata|__snapshots__|data|cassettes)/",
    re.IGNORECASE,
)


def find_binary_programs(changeset: Changeset) -> Iterator[Suspicion]:
    """Binaries that are executable, or are no picture, font or fixture."""
    for change in _present_files(changeset):
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


def find_unreadable_files(changeset: Changeset) -> Iterator[Suspicion]:
    """Texts that are too large, on one line, or too deeply nested to read."""
    for view in changeset.views:
        change = view.change
        if change.is_binary or change.status == "D" or change.mode in (LINK, SUBMODULE):
            continue
        if change.is_too_large and not (is_generated_path(change.path) or _PROSE.search(change.path)):
            yield suspicion("unreadable", change.path, 0, f"{change.size} bytes of text", str(change.size))
        elif view.after is not None and view.after.is_too_deep:
            yield suspicion("unreadable", change.path, 0, "nested too deeply", view.after.text)
        elif (
            view.after is not None
            and view.after.is_code
            and not _DATA_TEXT.search(change.path)
            and not is_generated_path(change.path)
        ):
            at = next((number for number, line in view.added_lines if len(line) > LONG_LINE), 0)
            is_usual = is_packed_path(change.path) and view.before is not None
            is_text = at and _is_one_string(view.after.lines[at - 1], has_escapes=view.after.is_test)
            if at and not is_usual and not is_text:
                found = f"a line of {len(view.after.lines[at - 1])} characters"
                yield suspicion("unreadable", change.path, at, found, view.after.lines[at - 1])


def _is_one_string(line: str, *, has_escapes: bool) -> bool:
    """True for a line that is one long text: an embedded picture, or what a test expects to be shown."""
    inside = r"(?:\\.|(?!\1)[^\\])*" if has_escapes else r"[^'\"`\\]*"
    return re.fullmatch(rf"[^'\"`]{{0,200}}(['\"`]){inside}\1[^'\"`]{{0,200}}", line) is not None


def find_oversized_change(changeset: Changeset) -> Iterator[Suspicion]:
    """A change larger than anybody reads."""
    if changeset.unread:
        yield suspicion(
            "too_much", "", 0, f"{format_count(changeset.unread, 'file')} left unread", str(changeset.unread)
        )
        return
    added = sum(
        view.after.text.count("\n") - (view.before.text.count("\n") if view.before else 0)
        for view in changeset.views
        if view.after is not None and view.after.is_code and not is_generated_path(view.path)
    )
    if added > MANY_LINES:
        yield suspicion("too_much", "", 0, f"{added} lines of code were added", str(added))


def find_unsafe_links(changeset: Changeset) -> Iterator[Suspicion]:
    """Links that lead outside or into git's own folder, and links that give a protected file other content."""
    replaced = _replaced_files(changeset)
    for change in _present_files(changeset):
        if change.mode != LINK:
            continue
        target = changeset.links[change.path]
        place, problem = follow_links(change.path, changeset.links)
        found = f"a link to `{_link_text(target)}`" if target.strip() else "a link without a target"
        if problem:
            through = f"to `{_link_text(place)}`, " if place != target.rstrip("/") else ""
            found = f"{found}, which leads {through}{problem}" if target.strip() else found
            yield suspicion("link_outside", change.path, 0, found, f"{target}\n{place}")
        elif change.path in replaced:
            files = replaced[change.path]
            content = "\n".join((target, *files))
            yield suspicion(
                "link_outside", change.path, 0, f"{found} in place of {quote_names(files)}", content
            )


def _replaced_files(changeset: Changeset) -> dict[str, list[str]]:
    """For each link, the protected files of the base whose content it replaces or removes."""
    changes = changeset.comparison.changes
    own = {change.path for change in changes if change.mode == LINK}
    now = {change.path: change.content for change in changes}
    found: defaultdict[str, list[str]] = defaultdict(list)
    for change in changes if own else ():
        path = change.base_path
        is_harness = is_steering_path(path) or path.rpartition("/")[2] in MIXED
        if not (
            is_harness or is_test_path(path, changeset.comparison.test_patterns) or is_expectation_path(path)
        ):
            continue
        if change.mode == LINK and change.status != "A" and not _keeps_content(change):
            found[change.path].append(path)
        above = next((folder for folder in _parent_folders(path) if folder in own), "")
        if above and change.status in ("D", "R"):
            place = follow_links(path, changeset.links).path
            has_moved = place == change.path and change.before == change.after
            if not has_moved and (change.before is None or now.get(place) != change.before):
                found[above].append(path)
    return found


def _parent_folders(path: str) -> Iterator[str]:
    """The folders that contain a path, outermost first."""
    return (path[:at] for at, char in enumerate(path) if char == "/")


def _keeps_content(link: FileDiff) -> bool:
    """True if programs read the same through a link as on the base; a link to a folder only if its target is unchanged."""
    return link.status != "M" if link.before is None else link.linked == link.before


def _link_text(target: str) -> str:
    return shorten(target.replace("`", "'"))


def find_submodules(changeset: Changeset) -> Iterator[Suspicion]:
    """Submodules, and the file with their addresses."""
    for change in _present_files(changeset):
        if change.mode == SUBMODULE or change.path.rpartition("/")[2] == ".gitmodules":
            yield suspicion(
                "submodule_changed", change.path, 0, f"`{change.path}`", change.after or change.status
            )


def _present_files(changeset: Changeset) -> Iterator[FileDiff]:
    return (change for change in changeset.comparison.changes if change.status != "D")


_DECODES = word_set("""
base64.b64decode bytes.fromhex codecs.decode zlib.decompress marshal.loads base64.b85decode
""")
_SCRIPT_EVAL = re.compile(
    r"\b(?:eval|Function|execScript)\s*\(\s*(?:atob|Buffer\.from|unescape|decodeURIComponent)\b|new Function\(\s*atob"
)


def find_obfuscated_code(changeset: Changeset) -> Iterator[Suspicion]:
    """Data that is decoded and executed."""
    for view in changeset.code_views:
        for line, text in view.find_added(_obfuscated_calls):
            yield suspicion("obfuscated", view.path, line, f"`{shorten(text)}`")


def _obfuscated_calls(source: SourceFile) -> Iterator[tuple[int, str]]:
    if source.tree is not None:
        for node in source.nodes_of(ast.Call):
            if called_name(node) in ("exec", "eval", "compile", "builtins.exec") and node.args:
                inside = [part for part in walk_tree(node.args[0]) if isinstance(part, ast.Call)]
                if any(_is_decoding(part, source) for part in inside):
                    yield node.lineno, node_source(node)
    elif source.language == "script":
        for number, line in enumerate(source.lines, 1):
            if _SCRIPT_EVAL.search(line[:MAX_LITERAL]):
                yield number, line.strip()


def _is_decoding(call: ast.Call, source: SourceFile) -> bool:
    return resolve_name(call.func, source.imports) in _DECODES or node_source(call.func).endswith(".decode")

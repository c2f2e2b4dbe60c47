"""Links inside the repository are honest; those that lead out, or put other content in a guarded place, are held."""

import pytest

from remand.integrity.comparison import LINK, Comparison, FileDiff, build_file_diff
from remand.integrity.examination import examine
from remand.integrity.paths import follow_links
from remand.integrity.suspicions import Suspicion
from tests.unit.integrity.changes import added, deleted, renamed

TEST = "def test_a():\n    assert total([1, 2]) == 3\n"


def link(path: str, target: str, status: str = "A", **sides: str | None) -> FileDiff:
    """A link as the head has it; `before` and `linked` are the texts it stands for."""
    before, linked = sides.get("before"), sides.get("linked")
    return build_file_diff(
        status,
        path,
        None if before is None else before.encode(),
        target.encode(),
        old_path=sides.get("old_path") or "",
        mode=LINK,
        linked=None if linked is None else linked.encode(),
    )


def examined(*changes: FileDiff, links: dict[str, str] | None = None) -> list[Suspicion]:
    return list(examine(Comparison(changes=changes, links=links or {})))


def codes(*changes: FileDiff, links: dict[str, str] | None = None) -> list[str]:
    return [item.code for item in examined(*changes, links=links)]


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("CLAUDE.md", "AGENTS.md"),
        ("docs/readme.md", "../README.md"),
        ("a/b/c/data", "../../../shared/data"),
        ("docs/here", "."),
        ("docs/up", ".."),
        ("docs/dangling", "../not/there/yet"),
        ("docs/folder", "./../src/"),
        ("tests/data", "../data"),
        ("a", "~backup"),
        ("a", ".github/workflows"),
        ("a", ".gitignore"),
        ("a", ".gotten"),
        ("a", "x/../y/../z"),
    ],
)
def test_a_link_inside_is_honest(path: str, target: str) -> None:
    assert codes(link(path, target)) == []


@pytest.mark.parametrize(
    ("path", "target"),
    [
        ("a", "/etc/passwd"),
        ("a", "~/x"),
        ("a", ".."),
        ("a/b", "../.."),
        ("a/b", "../../b"),
        ("a", "x/../../y"),
        ("a", "C:/Windows"),
        ("a", "C:\\Windows"),
        ("a/b", "..\\..\\x"),
        ("a", "\\\\host\\share"),
        ("a", ""),
        ("a", "  "),
        ("a", "x" * 5000),
    ],
)
def test_a_link_that_leads_out_is_held(path: str, target: str) -> None:
    assert codes(link(path, target)) == ["link_outside"]


@pytest.mark.parametrize(
    "target", [".git", ".git/config", ".GIT/hooks", "x/../.git/config", ".got/events", "./.got"]
)
def test_a_link_into_a_folder_of_git_or_of_the_ledger_is_held(target: str) -> None:
    (found,) = examined(link("a", target))

    assert found.code == "link_outside"
    assert f"a link to `{target}`" in found.text


def test_a_link_into_the_git_folder_of_a_submodule_is_held() -> None:
    assert codes(link("a", "vendor/.git/config")) == ["link_outside"]


def test_a_chain_of_links_inside_is_honest() -> None:
    changes = link("one", "two"), link("two", "three/four"), link("three", "five"), added("five/four", "x\n")

    assert codes(*changes) == []


@pytest.mark.parametrize("place", ["the change", "the base"])
def test_a_link_through_another_that_leads_out_is_held_with_where_it_leads(place: str) -> None:
    out = link("ext", "/opt/tools") if place == "the change" else link("other", "README.md")
    found = [
        item
        for item in examined(link("src/a", "../ext/lib"), out, links={"ext": "/opt/tools"})
        if item.path == "src/a"
    ]

    assert [item.code for item in found] == ["link_outside"]
    assert "a link to `../ext/lib`, which leads to `/opt/tools/lib`" in found[0].text


def test_a_link_that_climbs_out_through_a_folder_that_is_a_link_is_held() -> None:
    """`deep` looks two folders deep and is none."""
    assert codes(link("a/b/deep", "../.."), link("x", "a/b/deep/../y")) == ["link_outside"]


def test_links_in_a_circle_are_held() -> None:
    assert codes(link("a", "b"), link("b", "a")) == ["link_outside", "link_outside"]


@pytest.mark.parametrize("status", ["M", "R"])
def test_a_link_that_leads_out_is_held_however_it_came(status: str) -> None:
    old = "old" if status == "R" else ""

    assert codes(link("docs/a", "/etc/hosts", status, old_path=old)) == ["link_outside"]


def test_the_message_names_the_target_cleaned_and_capped() -> None:
    hostile = "/etc/\x1b[31m`x`\n\u202e" + "y" * 400
    (found,) = examined(link("a", hostile))

    assert "a link to `/etc/[31m'x' yyyy" in found.text
    assert "\x1b" not in found.text
    assert "\u202e" not in found.text
    assert len(found.text) < 400


def test_another_target_is_another_finding() -> None:
    far = "/" + "y" * 400
    (one,), (other,) = examined(link("a", f"{far}1")), examined(link("a", f"{far}2"))

    assert one.id != other.id


# Links in the place of files.


@pytest.mark.parametrize(
    "path", ["tests/test_a.py", "conftest.py", "pytest.ini", "pyproject.toml", ".github/workflows/ci.yml"]
)
@pytest.mark.parametrize("linked", [None, "x = 1\n"])
def test_a_guarded_file_that_becomes_a_link_to_other_content_is_held(path: str, linked: str | None) -> None:
    change = link(path, "src/other" if "/" not in path else "../src/other", "T", before=TEST, linked=linked)

    assert "link_outside" in codes(change)


def test_a_guarded_file_that_becomes_a_link_to_the_same_content_is_honest() -> None:
    moved = link("tests/test_a.py", "unit/test_a.py", "T", before=TEST, linked=TEST)

    assert codes(moved, added("tests/unit/test_a.py", TEST)) == []


def test_prose_that_becomes_a_link_is_honest() -> None:
    change = link("CLAUDE.md", "AGENTS.md", "T", before="# One\n", linked="# Other\n")

    assert codes(change, added("AGENTS.md", "# Other\n")) == []


def test_a_link_in_a_guarded_place_that_leads_to_other_content_now_is_held() -> None:
    assert codes(link("tests/test_a.py", "b.py", "M", before=TEST, linked=TEST)) == []
    assert "link_outside" in codes(link("tests/test_a.py", "b.py", "M", before=TEST, linked="x = 1\n"))
    assert "link_outside" in codes(link("tests/data", "../other", "M"))


def test_a_link_that_moved_is_honest() -> None:
    assert codes(link("tests/unit/data", "../../data", "R", old_path="tests/data")) == []
    assert (
        codes(
            link("tests/unit/test_a.py", "../a.py", "R", old_path="tests/test_b.py", before=TEST, linked=TEST)
        )
        == []
    )


def test_a_folder_of_tests_that_becomes_a_link_is_honest_when_the_tests_moved_with_it() -> None:
    assert codes(link("tests", "spec"), renamed("tests/test_a.py", "spec/test_a.py", TEST)) == []


def test_a_folder_of_tests_that_becomes_a_link_to_other_tests_is_held() -> None:
    found = examined(
        link("tests", "spec"), deleted("tests/conftest.py", "x = 1\n"), added("spec/conftest.py", "x = 2\n")
    )

    assert ("link_outside", "tests") in [(item.code, item.path) for item in found]
    changed = renamed("tests/test_a.py", "spec/test_a.py", TEST, "def test_a():\n    assert total([1, 2])\n")
    assert "link_outside" in codes(link("tests", "spec"), changed)


def test_a_new_link_does_not_hide_what_a_harness_does() -> None:
    patched = "import pytest\n\n@pytest.hookimpl\ndef pytest_runtest_makereport(item, call):\n    call.excinfo = None\n"
    plain = codes(added("conftest.py", patched))

    assert "harness_tampered" in plain
    assert codes(link("conftest.py", "notes.txt", linked=patched)) == plain


def test_a_module_that_becomes_a_link_is_read_through_it() -> None:
    before = "def total(values):\n    result = 0\n    for value in values:\n        result += value\n    return result\n"
    hollow = "def total(values):\n    return 3\n"

    assert codes(link("src/a.py", "b.txt", "T", before=before, linked=hollow)) == ["body_hollowed"]


# Where links lead.


@pytest.mark.parametrize(
    ("path", "links", "leads"),
    [
        ("a/b", {}, "a/b"),
        ("a/b", {"a": "c"}, "c/b"),
        ("a/b", {"a": "c/d", "c/d/b": "../e"}, "c/e"),
        ("a/b", {"a/b": "../c", "c": "d"}, "d"),
        ("a", {"a": "b/..", "b": "c/d"}, "c"),
        ("a", {"a": "."}, ""),
    ],
)
def test_a_path_is_followed_through_links(path: str, links: dict[str, str], leads: str) -> None:
    assert follow_links(path, links) == (leads, "")


def test_links_that_multiply_are_not_followed_for_ever() -> None:
    links = {f"l{at}": "/".join([f"../l{at + 1}"] * 500).removeprefix("../") for at in range(100)}

    assert follow_links("l0", links).problem

"""An environment is made from what a project declares, and leaves the project's code to the checkout."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from remand.adapters.projects import python_environment as environment


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        ("^1.2.3", ">=1.2.3,<2"),
        ("^0.2.3", ">=0.2.3,<0.3"),
        ("~1.2.3", ">=1.2.3,<1.3"),
        ("~1", ">=1,<2"),
        ("1.2", "==1.2"),
        (">=1,<3", ">=1,<3"),
        ("~=1.2", "~=1.2"),
        ("*", ""),
    ],
)
def test_poetrys_bounds_are_said_in_the_standards_words(bound: str, expected: str) -> None:
    assert environment.poetry_requirement("a", bound) == f"a{expected}"


def test_a_group_includes_others() -> None:
    groups = {"Dev_Tools": ["b", {"include-group": "tests"}], "tests": ["pytest"]}

    assert [*environment.group_requirements({"dependency-groups": groups}, "dev-tools")] == ["b", "pytest"]


def test_groups_of_other_tools_are_known() -> None:
    poetry = {
        "tool": {
            "poetry": {"group": {"test": {"dependencies": {"pytest": {"version": "^8", "extras": ["x"]}}}}}
        }
    }
    hatch = {"tool": {"hatch": {"envs": {"test": {"extra-dependencies": ["pytest"]}}}}}

    assert [*environment.group_requirements(poetry, "test")] == ["pytest[x]>=8,<9"]
    assert [*environment.group_requirements(hatch, "test")] == ["pytest"]


def test_a_lock_file_pins_what_it_locks_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [("a", "1"), ("b", "1"), ("b", "2")]
    text = "".join(f'[[package]]\nname = "{name}"\nversion = "{version}"\n' for name, version in rows)
    (tmp_path / "poetry.lock").write_text(text, encoding="utf-8")

    assert environment.lock_constraints("poetry.lock", tmp_path) == [
        "--constraint",
        str(tmp_path / "constraints.txt"),
    ]
    assert (tmp_path / "constraints.txt").read_text(encoding="utf-8") == "a==1\n"


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout with the environment that it was installed into."""
    site = tmp_path / "cache/venv/lib/python3.11/site-packages"
    checkout = tmp_path / "checkout"
    record = ["sums/__init__.py", "sums/_version.py", "sums-1.dist-info/METADATA", "../../../bin/sums"]
    for path in (
        site / "sums/__init__.py",
        site / "sums/_version.py",
        site / "other/__init__.py",
        checkout / "src/sums/__init__.py",
    ):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("", encoding="utf-8")
    (site / "sums-1.dist-info").mkdir()
    (site / "sums-1.dist-info/METADATA").write_text("Name: sums\n", encoding="utf-8")
    (site / "sums-1.dist-info/RECORD").write_text("".join(f"{row},,\n" for row in record), encoding="utf-8")
    (site / "sums-1.dist-info/direct_url.json").write_text(
        f'{{"url": "{checkout.as_uri()}"}}', encoding="utf-8"
    )
    monkeypatch.chdir(checkout)
    return tmp_path / "cache/venv"


def test_the_projects_code_is_left_to_the_checkout_and_its_metadata_stays(installed: Path) -> None:
    environment.relocate_project(installed, environment.checkout_files(Path.cwd()))
    site = environment.site_of(installed)

    assert not (site / "sums").exists()
    assert (site / "other/__init__.py").exists()
    assert (site / "sums-1.dist-info/METADATA").exists()
    assert "('src',)" in (site / environment.LINK).read_text(encoding="utf-8")


def test_what_the_build_made_is_kept_for_the_checkouts_to_come(installed: Path) -> None:
    environment.relocate_project(installed, environment.checkout_files(Path.cwd()))

    assert (installed.parent / "generated/src/sums/_version.py").exists()
    assert not (installed.parent / "generated/src/sums/__init__.py").exists()


def test_what_a_build_left_in_its_own_checkout_is_kept_too(installed: Path) -> None:
    original = environment.checkout_files(Path.cwd())
    Path("src/sums/_version.py").touch()  # as setuptools-scm and builds in place do
    environment.relocate_project(installed, original)

    assert (installed.parent / "generated/src/sums/_version.py").exists()


def test_a_link_to_this_checkout_is_no_installation(installed: Path) -> None:
    record = environment.site_of(installed) / "sums-1.dist-info/RECORD"
    assert environment.is_installed(record)

    record.with_name("direct_url.json").write_text(
        f'{{"dir_info": {{"editable": true}}, "url": "{Path.cwd().as_uri()}"}}', encoding="utf-8"
    )
    assert not environment.is_installed(record)


def test_groups_of_a_pipfile_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "Pipfile").write_text(
        '[packages]\nflask = "*"\n[dev-packages]\npytest = ">=8"\n', encoding="utf-8"
    )

    assert [*environment.group_requirements({}, "packages")] == ["flask"]
    assert [*environment.group_requirements({}, "dev-packages")] == ["pytest>=8"]


def test_chosen_versions_are_pinned_and_the_projects_own_is_not(tmp_path: Path) -> None:
    site = tmp_path / "venv" / "lib" / "python3" / "site-packages"
    for name in ("a-1.0.dist-info", "b_c-2.dist-info", "own-9999.dist-info"):
        (site / name).mkdir(parents=True)
    (site / "own-9999.dist-info" / "direct_url.json").touch()

    environment.pin_versions(tmp_path / "venv", tmp_path / "pins" / "constraints.txt")

    assert (tmp_path / "pins" / "constraints.txt").read_text(encoding="utf-8") == "a==1.0\nb_c==2\n"


def test_environments_of_hatchs_own_file_are_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "hatch.toml").write_text('[envs.test]\ndependencies = ["pytest"]\n', encoding="utf-8")

    assert [*environment.group_requirements({}, "test")] == ["pytest"]


@pytest.mark.parametrize(
    ("wanted", "is_met"),
    [
        (">=3.11", True),
        (">=3.12", False),
        (">=3.8,<3.11", False),
        ("^3.9", True),
        (">3.7.0", True),
        ("==3.11.*", True),
        ("!=3.11.1", True),
        ("", True),
        ("odd", True),
    ],
)
def test_a_projects_range_of_pythons_is_understood(wanted: str, is_met: bool) -> None:
    assert environment.is_python_in(wanted, (3, 11)) is is_met


def test_another_python_is_used_where_the_project_asks_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("shutil.which", lambda name: "/x/python3.29" if name == "python3.29" else None)

    assert environment.find_interpreter(">=3.25") == "/x/python3.29"
    assert environment.find_interpreter(">=3.30") == ""
    assert environment.find_interpreter(">=3.8") == sys.executable


def test_what_is_missing_is_said_where_no_python_fits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)

    with pytest.raises(
        SystemExit, match=r"asks for Python >=3.30, and there is only 3\.\d+: install one that fits"
    ):
        environment.make_environment(tmp_path / "venv", ">=3.30")

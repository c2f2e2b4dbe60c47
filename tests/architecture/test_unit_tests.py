"""Holds that the folders of the unit tests are those of the source."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
SOURCE, TESTS = ROOT / "src" / "remand", ROOT / "tests" / "unit"


def test_every_folder_of_unit_tests_is_named_after_a_package_of_the_source() -> None:
    folders = {path.parent.relative_to(TESTS) for path in TESTS.rglob("*.py")}
    strange = sorted(str(folder) for folder in folders if not (SOURCE / folder / "__init__.py").is_file())

    assert folders
    assert not strange, f"no package of src/remand is called as these folders of tests/unit: {strange}"

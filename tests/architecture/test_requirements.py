"""Holds that the pinned requirements are hashed, agree with one another and name no package host."""

import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "requirements"
FILES = sorted(FOLDER.glob("*.txt"))

PIN = re.compile(r"(?P<name>[a-z0-9-]+)==(?P<version>[0-9][\w.]*)(?: ; (?P<marker>[^\\]+))? \\")
HASH = re.compile(r" {4}--hash=sha256:[0-9a-f]{64}(?: \\)?")


def pins(file: Path) -> set[str]:
    """What is pinned at which version; on which platforms is each file's own."""
    found = (PIN.fullmatch(line) for line in file.read_text().splitlines())
    return {f"{pin['name']}=={pin['version']}" for pin in found if pin}


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.name)
def test_a_line_is_a_pin_or_a_hash_and_nothing_else(file: Path) -> None:
    lines = file.read_text().splitlines()
    strange = [line for line in lines if not (PIN.fullmatch(line) or HASH.fullmatch(line))]

    assert lines
    assert not strange, f"{file.name} was not made by `make lock`: {strange}"


def test_benchmarks_run_on_what_the_tests_ran_on() -> None:
    assert pins(FOLDER / "test.txt") <= pins(FOLDER / "bench.txt")

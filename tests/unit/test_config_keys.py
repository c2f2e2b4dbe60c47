"""Holds what the configuration may say of keys and of the project's id."""

import pytest

from remand.config import ConfigError, parse
from remand.domain.keys import PublicKey

ONE, TWO = PublicKey(raw=b"\x01" * 32, name="laptop"), PublicKey(raw=b"\x02" * 32)
WHOLE = f"""
[project]
base = "main"
id = "0123456789abcdef"

[keys]
trusted = ["{ONE.entry}", "{TWO.entry}"]
"""


def test_the_project_and_the_trusted_keys_are_read() -> None:
    settings = parse(WHOLE)

    assert settings.project == "0123456789abcdef"
    assert settings.trusted == (ONE, TWO)


def test_without_them_nobody_else_is_trusted() -> None:
    settings = parse("[gates]\n")

    assert (settings.project, settings.trusted) == ("", ())


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ('[project]\nid = ""', "project.id"),
        ('[project]\nid = "short"', "project.id"),
        ('[project]\nid = "0123456789ABCDEF"', "project.id"),
        ("[project]\nid = 7", "project.id"),
        ("keys = 1", "must be a table"),
        ("[keys]\ntrust = []", "did you mean `trusted`"),
        ('[keys]\ntrusted = "x"', "keys.trusted"),
        ('[keys]\ntrusted = ["x"]', r"keys.trusted\[0\]"),
        (f'[keys]\ntrusted = ["{ONE.entry}", "ed25519:AAAA laptop"]', r"keys.trusted\[1\]"),
        (f'[keys]\ntrusted = ["{ONE.entry}", "{ONE.text} again"]', "twice"),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse(text)

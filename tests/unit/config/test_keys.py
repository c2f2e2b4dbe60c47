"""Holds what the configuration may say of keys and of the project's id."""

import pytest

from remand.config import ConfigError, parse
from remand.domain.access.keys import ChainEnd, PublicKey

ONE, TWO = PublicKey(raw=b"\x01" * 32, name="laptop"), PublicKey(raw=b"\x02" * 32)
WHOLE = f"""
[project]
base = "main"
id = "0123456789abcdef"

[keys]
trusted = ["{ONE.entry}", "{TWO.entry}"]
"""


CHAIN = "0123456789abcdef" * 2


def _until(*places: str) -> str:
    """A configuration whose one key ends at these places."""
    until = ", ".join(places).replace("CHAIN", CHAIN)
    return f'[keys]\ntrusted = [{{key = "{ONE.entry}", until = [{until}]}}]'


def test_a_key_may_have_an_end_in_each_session() -> None:
    places = (
        '{session = "s-1", number = 7, chain = "CHAIN"}',
        '{session = "t", number = 1, chain = "CHAIN"}',
    )

    (key,) = parse(_until(*places)).trusted

    assert key.until == (
        ChainEnd(session="s-1", number=7, chain=CHAIN),
        ChainEnd(session="t", number=1, chain=CHAIN),
    )
    assert (key.text, key.name) == (ONE.text, "laptop")
    assert parse(_until()).trusted[0].until == ()
    assert parse(WHOLE).trusted[0].until is None
    named = f'[keys]\ntrusted = [{{key = "{ONE.text}", name = "laptop"}}]'
    assert parse(named).trusted == (ONE,)


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
        (f'[keys]\ntrusted = ["{ONE.entry}", {{key = "{ONE.text}", until = []}}]', "twice"),
        ("[keys]\ntrusted = [7]", r"keys.trusted\[0\]"),
        ("[keys]\ntrusted = [{until = []}]", r"keys.trusted\[0\].key"),
        (f'[keys]\ntrusted = [{{key = "{ONE.text}", name = 3}}]', r"keys.trusted\[0\].name"),
        (f'[keys]\ntrusted = [{{key = "{ONE.entry}", untill = []}}]', "did you mean `until`"),
        (f'[keys]\ntrusted = [{{key = "{ONE.entry}", until = 3}}]', f"{ONE.id}.*remand keys revoke"),
        (_until('{number = 1, chain = "CHAIN"}'), f"until\\[0\\].*{ONE.id}.*remand keys revoke"),
        (_until('{session = "a b", number = 1, chain = "CHAIN"}'), f"session.*{ONE.id}"),
        (_until('{session = "s", number = "1", chain = "CHAIN"}'), f"number.*{ONE.id}"),
        (_until('{session = "s", number = true, chain = "CHAIN"}'), f"number.*{ONE.id}"),
        (_until('{session = "s", number = 0, chain = "CHAIN"}'), f"number.*{ONE.id}"),
        (_until('{session = "s", number = 1, chain = "xyz"}'), f"chain.*{ONE.id}"),
        (_until('{session = "s", number = 1}'), f"chain.*{ONE.id}"),
        (_until('{session = "s", number = 1, chain = "CHAIN", x = 1}'), "`keys.trusted.*x`"),
        (
            _until(
                '{session = "s", number = 1, chain = "CHAIN"}', '{session = "s", number = 2, chain = "CHAIN"}'
            ),
            f"twice.*{ONE.id}|{ONE.id}.*twice",
        ),
    ],
)
def test_what_is_wrong_is_named_with_its_remedy(text: str, named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        parse(text)

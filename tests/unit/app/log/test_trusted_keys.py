"""Holds that keys come into a configuration without anything else in it being changed."""

import tomllib

import pytest

from remand.app.log.keys import add_trusted_key
from remand.domain.access.keys import PublicKey

ONE, TWO = PublicKey(raw=b"\x01" * 32, name="laptop"), PublicKey(raw=b"\x02" * 32, name="build server")
WITHOUT = {
    "empty": "",
    "no table": '[project]\nbase = "main"\n\n[gates]\n',
    "no newline at the end": "[gates]",
    "an empty table": "[keys]\n\n[gates]\n",
    "a table with a comment": "[keys] # who is believed\n[gates]\n",
    "an empty list": "[keys]\ntrusted = []\n[gates]\n",
    "an empty long list": "[keys]\ntrusted = [\n]\n",
    "crlf": "[gates]\r\n",
}


def trusted(text: str) -> list[object]:
    return tomllib.loads(text)["keys"]["trusted"]


def rest(text: str) -> dict[str, object]:
    return {name: value for name, value in tomllib.loads(text).items() if name != "keys"}


@pytest.mark.parametrize("text", WITHOUT.values(), ids=WITHOUT)
def test_a_key_comes_in_beside_others(text: str) -> None:
    one = add_trusted_key(text, ONE)
    assert one is not None
    assert trusted(one) == [ONE.entry]
    both = add_trusted_key(one, TWO)
    assert both is not None
    assert sorted(map(str, trusted(both))) == sorted([ONE.entry, TWO.entry])
    assert rest(one) == rest(both) == rest(text)


def test_a_key_comes_in_beside_one_that_has_an_end() -> None:
    text = f'[keys]\ntrusted = [{{key = "{ONE.entry}", until = []}}]\n'

    changed = add_trusted_key(text, TWO) or ""

    assert trusted(changed) == [TWO.entry, {"key": ONE.entry, "until": []}]


def test_comments_stay() -> None:
    text = f'# first\n[keys]\n# second\ntrusted = [ # third\n  "{ONE.entry}", # fourth\n]\n# fifth\n'

    changed = add_trusted_key(text, TWO) or ""

    assert [f"# {word}" in changed for word in ("first", "second", "third", "fourth", "fifth")] == [True] * 5


@pytest.mark.parametrize(
    "text",
    [
        f'keys = {{trusted = ["{ONE.entry}"]}}\n',
        f'keys.trusted = ["{ONE.entry}"]\n',
        'text = """\n[keys]\n"""\n',
    ],
)
def test_what_only_a_human_can_change_is_left(text: str) -> None:
    assert add_trusted_key(text, TWO) is None

"""Holds how keys and signatures are written, and that what is signed is bound to its project."""

import pytest
from msgspec.structs import replace

from remand.domain.access.keys import (
    ChainEnd,
    PublicKey,
    Trust,
    format_signature,
    parse_public_key,
    parse_signature,
    parse_trust,
)

ONE, TWO = PublicKey(raw=bytes(range(32)), name="laptop"), PublicKey(raw=b"\xff" * 32)


@pytest.mark.parametrize("key", [ONE, TWO], ids=["named", "without a name"])
def test_a_key_is_read_as_it_is_written(key: PublicKey) -> None:
    assert parse_public_key(key.entry) == key
    assert parse_public_key(key.entry.replace("=", "")) == key
    assert parse_public_key(f"  {key.entry}  ") == key


@pytest.mark.parametrize(
    "entry",
    [
        "",
        "laptop",
        "ed25519:",
        "ed25519:AAAA laptop",
        ONE.text.replace("ed25519", "rsa"),
        ONE.text[:-2],
        ONE.text[:-2] + "!=",
        ONE.text[:-2] + "9=",
        f"{ONE.text} {'n' * 65}",
        f"{ONE.text} two\nlines",
        f"{ONE.text} \x1b[31m",
        "ed25519:é",
    ],
)
def test_what_is_no_key_is_not_taken_for_one(entry: str) -> None:
    assert parse_public_key(entry) is None


def test_a_keys_id_is_sixteen_digits_of_its_own() -> None:
    assert len(ONE.id) == len(TWO.id) == 16
    assert ONE.id != TWO.id
    assert ONE.id == PublicKey(raw=ONE.raw, name="another name").id


def test_a_trust_is_read_as_it_is_written_whatever_the_order_and_the_names() -> None:
    trust = Trust(project="0123456789abcdef", keys=(ONE, TWO, ONE))

    assert trust.text == Trust(project="0123456789abcdef", keys=(TWO, ONE)).text
    assert parse_trust(trust.text).text == trust.text
    assert parse_trust("") == Trust()


def test_trusts_that_differ_are_written_differently() -> None:
    texts = {
        trust.text
        for trust in (Trust(), Trust(project="a"), Trust(keys=(ONE,)), Trust(project="a", keys=(ONE, TWO)))
    }

    assert len(texts) == 4
    assert "" not in texts


def test_a_trusted_key_is_found_by_its_id() -> None:
    trust = Trust(keys=(ONE,))

    assert trust.find_key(ONE.id) == ONE
    assert trust.find_key(TWO.id) is None
    assert trust.find_key("") is None


def test_what_is_signed_is_bound_to_the_project() -> None:
    assert Trust(project="a").signed_content(b"line") == b"remand log v1\0a\0line"
    assert Trust(project="b").signed_content(b"line") != Trust(project="a").signed_content(b"line")


def test_a_signature_is_read_as_it_is_written() -> None:
    signature = bytes(range(64))

    assert parse_signature(format_signature(signature)) == signature
    assert len(format_signature(signature)) == 86


@pytest.mark.parametrize("change", ["cut", "padded", "last digit", "odd", "long", "empty", "wide"])
def test_a_signature_has_one_form(change: str) -> None:
    text = format_signature(bytes(range(64)))
    forms = {
        "cut": text[:-1],
        "padded": text + "==",
        "last digit": text[:-1] + chr(ord(text[-1]) + 1),
        "odd": "?" + text[1:],
        "long": text * 1000,
        "empty": "",
        "wide": "é" + text[1:],
    }

    assert parse_signature(forms[change]) is None


def test_a_trust_with_ends_is_read_as_it_is_written() -> None:
    ends = (
        ChainEnd(session="s-1", number=7, chain="a" * 32),
        ChainEnd(session="r.2", number=1, chain="b" * 32),
    )
    kept = [
        Trust(project="0123456789abcdef", keys=(replace(ONE, until=until), TWO))
        for until in (None, (), ends[:1], ends)
    ]

    assert len({trust.text for trust in kept}) == 4
    for trust in kept:
        again = parse_trust(trust.text)
        assert again.text == trust.text
        assert {key.id: None if key.until is None else set(key.until) for key in again.keys} == {
            key.id: None if key.until is None else set(key.until) for key in trust.keys
        }
    assert Trust(keys=(replace(ONE, until=ends),)).text == Trust(keys=(replace(ONE, until=ends[::-1]),)).text

"""Holds that both ways to sign agree with RFC 8032 and with each other, and that neither takes a wrong signature."""

import random

import pytest

from remand.adapters.system.keys import Cryptography, Ed25519, OpenSsl, _openssl, ed25519

SEED = bytes.fromhex("c5aa8df43f9f837bedb7442f31dcb7b166d38535076f094b85ce3a2e0b4458f7")
PUBLIC = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")
MESSAGE = bytes.fromhex("af82")
SIGNATURE = bytes.fromhex(
    "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
    "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
)


@pytest.fixture(params=["openssl", "cryptography"])
def scheme(request: pytest.FixtureRequest) -> Ed25519:
    found = _openssl() if request.param == "openssl" else Cryptography()
    if found is None:
        pytest.skip("this Python has no OpenSSL of its own to call")
    return found


def test_the_example_of_the_standard_is_signed_as_it_says(scheme: Ed25519) -> None:
    assert scheme.public(SEED) == PUBLIC
    assert scheme.sign(SEED, MESSAGE) == SIGNATURE
    assert scheme.is_signed(PUBLIC, SIGNATURE, MESSAGE)


def test_whatever_was_changed_is_not_signed(scheme: Ed25519) -> None:
    for n in range(len(SIGNATURE)):
        changed = SIGNATURE[:n] + bytes([SIGNATURE[n] ^ 1]) + SIGNATURE[n + 1 :]
        assert not scheme.is_signed(PUBLIC, changed, MESSAGE)
    assert not scheme.is_signed(PUBLIC, SIGNATURE, MESSAGE + b"\0")
    assert not scheme.is_signed(PUBLIC, SIGNATURE, b"")
    assert not scheme.is_signed(PUBLIC[::-1], SIGNATURE, MESSAGE)
    assert not scheme.is_signed(PUBLIC[:-1], SIGNATURE, MESSAGE)
    assert not scheme.is_signed(PUBLIC, SIGNATURE[:-1], MESSAGE)
    assert not scheme.is_signed(PUBLIC, SIGNATURE + b"\0", MESSAGE)


def test_a_private_key_of_another_size_is_refused(scheme: Ed25519) -> None:
    with pytest.raises(ValueError, match="key"):
        scheme.sign(SEED[:-1], MESSAGE)


def test_both_ways_make_the_same_signatures() -> None:
    random_source = random.Random(7)
    one, two = ed25519(), Cryptography()
    for size in (0, 1, 64, 5000):
        seed, content = random_source.randbytes(32), random_source.randbytes(size)
        assert one.sign(seed, content) == two.sign(seed, content)
        assert one.public(seed) == two.public(seed)
        assert two.is_signed(one.public(seed), one.sign(seed, content), content)


def test_here_the_fast_way_is_taken() -> None:
    assert isinstance(ed25519(), OpenSsl)

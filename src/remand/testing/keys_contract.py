"""What every `Keys` must hold to. An implementation's test inherits `KeysContract` and says how to have one."""

from __future__ import annotations

import pytest

from remand.app.ports import Keys, Signed


class KeysContract:
    """A machine has one key; what it signed can be told from anything else."""

    @pytest.fixture
    def keys(self) -> Keys:
        """The keys of one machine."""
        raise NotImplementedError

    @pytest.fixture
    def others(self) -> Keys:
        """The keys of another machine."""
        raise NotImplementedError

    def test_a_machine_has_one_key(self, keys: Keys) -> None:
        made = keys.made()

        assert keys.made() == keys.own() == made
        assert len(made.raw) == 32

    def test_two_machines_have_two_keys(self, keys: Keys, others: Keys) -> None:
        assert keys.made().id != others.made().id

    def test_what_a_key_signed_is_known_by_its_public_part(self, keys: Keys, others: Keys) -> None:
        keys.load()
        signature = keys.sign(b"content")

        assert len(signature) == 64
        assert others.verify([Signed(keys.made().raw, b"content", signature)]) == [True]

    @pytest.mark.parametrize("flaw", ["content", "key", "signature", "no signature", "cut", "empty key"])
    def test_anything_else_is_not(self, keys: Keys, others: Keys, flaw: str) -> None:
        key, signature = keys.made().raw, keys.sign(b"content")
        torn = bytes([signature[0] ^ 1]) + signature[1:]
        cases = {
            "content": (key, b"contents", signature),
            "key": (others.made().raw, b"content", signature),
            "signature": (key, b"content", torn),
            "no signature": (key, b"content", b""),
            "cut": (key, b"content", signature[:-1]),
            "empty key": (b"", b"content", signature),
        }

        assert keys.verify([Signed(*cases[flaw])]) == [False]

    def test_of_many_each_has_its_own_answer(self, keys: Keys) -> None:
        key = keys.made().raw
        claims = [Signed(key, b"%d" % n, keys.sign(b"%d" % (n - n % 7 // 6))) for n in range(200)]

        assert keys.verify(claims) == [n % 7 != 6 for n in range(200)]
        assert keys.verify([]) == []

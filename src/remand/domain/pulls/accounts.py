"""Who an account on a forge is: known by its id, whatever it is called."""

from __future__ import annotations

from remand.domain.pulls.shapes import Account


def is_listed(name: str, account: Account, first_id: str) -> bool:
    """True when a name that a member lists is this account: its id, or a login that always had this id.

    `first_id` is the id that this login had when it was first seen, empty before that. A listed name of digits is an id,
    and no login: anybody may be called by a number.
    """
    if name == account.id:
        return True
    if name.rpartition(":")[2].isdigit():
        return False
    return first_id == account.id if first_id else name.casefold() == account.login.casefold()


def is_same(one: Account | None, other: Account | None) -> bool:
    """True when both are the same account. One that is gone is nobody's."""
    return one is not None and other is not None and one.id == other.id


def called(account: Account | None) -> str:
    """What people know an account by."""
    return account.login if account else "an account that is gone"

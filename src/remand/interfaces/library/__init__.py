"""The protocol for Python programs: the names from the requirements, over the same rules and the same ledger."""

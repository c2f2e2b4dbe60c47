"""The protocol for Python programs: the names of the requirements, over the same rules and the same ledger."""

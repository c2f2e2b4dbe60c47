"""The resident process that owns a ledger, and the way to it."""

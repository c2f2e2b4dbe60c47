"""The resident process that owns a ledger, and its client."""

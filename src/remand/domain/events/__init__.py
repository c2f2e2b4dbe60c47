"""The events of the ledger, by noun."""

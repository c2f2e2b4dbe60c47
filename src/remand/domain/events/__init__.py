"""Every event of the ledger, by noun."""

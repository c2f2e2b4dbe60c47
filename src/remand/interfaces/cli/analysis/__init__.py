"""Commands that analyse the ledger."""

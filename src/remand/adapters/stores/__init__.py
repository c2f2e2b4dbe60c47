"""Where a ledger can live."""

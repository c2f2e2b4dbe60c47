"""Reading the git repository a ledger belongs to."""

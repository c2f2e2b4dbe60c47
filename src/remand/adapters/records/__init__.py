"""The files made from the ledger, in their folders."""

"""Sandboxes: run gates and agents apart from the ledger, the keys, the network and one another."""

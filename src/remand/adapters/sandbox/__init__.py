"""Where commands of gates run: apart from the ledger, the keys, the network and one another."""

"""What a test of a store needs: builders, fakes of the ports of a ledger, and the contract that every store must pass."""

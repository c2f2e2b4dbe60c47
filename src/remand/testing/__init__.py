"""What tests of a ledger need: fakes of every port, builders, and the suites every backend must pass."""

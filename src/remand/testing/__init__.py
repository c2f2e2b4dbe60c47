"""What tests of a ledger need: fakes of every port, builders, and the contract suites that every backend must pass."""

"""The stores of a ledger: SQLite, PostgreSQL, and its event files."""

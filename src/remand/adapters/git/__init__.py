"""Access to the git repository that a ledger belongs to: reading it, and preparing worktrees and checkouts."""
